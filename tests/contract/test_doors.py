"""One model, whichever door the rows come through: arrays and dataframes, or files."""

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.datasets import load_readmission, make_margin
from replearn.errors import ReplearnError
from replearn.tables import Table

TARGET = "readmitted"


def write(frame, path):
    """A file of a dataframe, by the end of its name."""
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=333)
    elif path.suffix == ".npz":
        np.savez(path, X=frame.drop(columns="y").to_numpy(), y=frame["y"].to_numpy())
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def patients():
    table = load_readmission("Ashford", 1200)
    rng = np.random.default_rng(0)
    return table.assign(mass=rng.integers(1, 4, len(table)), family=np.arange(len(table)) // 2)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_files_and_frames_give_the_same_study(patients, name, tmp_path):
    path = write(patients, tmp_path / name)
    X = patients.drop(columns=[TARGET, "mass", "family"])
    roles = {"sample_weight": "mass", "groups": "family"}
    first = rl.ReplicableLogisticClassifier(ridge=0.01).fit(
        X, patients[TARGET], **{role: patients[column] for role, column in roles.items()}
    )
    again = rl.ReplicableLogisticClassifier(ridge=0.01).fit_file(path, TARGET, **roles)
    assert again.study_ == first.study_
    assert again.fingerprint_ == first.fingerprint_
    assert again.certificate_ == first.certificate_
    assert again.feature_names_in_.tolist() == first.feature_names_in_.tolist()
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))
    # a study names the columns that a replication needs
    second = rl.ReplicableLogisticClassifier(study=first.study_).fit_file(path)
    assert second.fingerprint_ == first.fingerprint_
    assert second.replication_.same
    assert second.predict(X).tolist() == first.predict(X).tolist()


def test_numbers_counts_and_offsets(tmp_path):
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(800, 2)), columns=["a", "b"])
    table["exposure"] = 0.1 * (np.arange(800) % 5)
    table["visits"] = rng.poisson(np.exp(0.5 * table["a"] + table["exposure"]))
    path, X = write(table, tmp_path / "a.csv"), table[["a", "b"]]
    first = rl.ReplicablePoissonRegressor(ridge=0.01)
    first.fit(X, table["visits"], offset=table["exposure"])
    again = rl.ReplicablePoissonRegressor(ridge=0.01).fit_file(path, "visits", offset="exposure")
    assert again.study_ == first.study_
    first = rl.ReplicableLinearRegressor(ridge=0.01).fit(X, table["visits"])
    again = rl.ReplicableLinearRegressor(ridge=0.01, drop=["exposure"]).fit_file(path, "visits")
    assert again.fingerprint_ == first.fingerprint_


def test_arrays_in_files_have_no_names(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.logistic(size=400) > 0).astype(int)
    path = write(pd.DataFrame(X).assign(y=y), tmp_path / "a.npz")
    first = rl.ReplicableLogisticClassifier(ridge=0.01).fit(X, y)
    again = rl.ReplicableLogisticClassifier(ridge=0.01).fit_file(path)
    assert again.fingerprint_ == first.fingerprint_
    assert not hasattr(again, "feature_names_in_")
    np.testing.assert_array_equal(again.predict(X), first.predict(X))


PAPER = {
    "svm": lambda **o: rl.ReplicableSVMClassifier(margin=0.3, **o),
    "svm with a sketch": lambda **o: rl.ReplicableSVMClassifier(margin=0.3, sketch_bits=3, **o),
    "sgd": lambda **o: rl.ReplicableSGDClassifier(margin=0.3, **o),
    "net": lambda **o: rl.ReplicableNetClassifier(margin=0.3, **o),
    "dp": lambda **o: rl.ReplicableDPClassifier(margin=0.3, **o),
    "box": lambda **o: rl.ReplicableBoostingClassifier(margin=0.3, **o),
}


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")
@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("shuffle", [True, False])
def test_halfspaces_of_files(name, shuffle, tmp_path, monkeypatch):
    """Streams come in batches of 1,000 rows, which are no whole number of the algorithm's own."""
    monkeypatch.setattr(Table.batches, "__defaults__", (1000,))
    X, y = make_margin(9_500, 4, margin=0.3, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    make = PAPER[name]
    first = make(shuffle=shuffle).fit(frame[list("abcd")], frame["y"])
    unnamed = make(shuffle=shuffle).fit(X, y)
    assert (unnamed.model_.codes == first.model_.codes).all()  # names change no code
    for file, expected in (("a.csv", first), ("a.parquet", first), ("a.npz", unnamed)):
        again = make(shuffle=shuffle).fit_file(write(frame, tmp_path / file), "y")
        assert again.fingerprint_ == expected.fingerprint_
        assert again.certificate_ == expected.certificate_
        assert again.classes_.tolist() == expected.classes_.tolist()
    if name == "svm with a sketch":
        second = rl.ReplicableSVMClassifier(study=first.study_, shuffle=shuffle)
        assert second.fit_file(tmp_path / "a.csv", "y").replication_.same


@pytest.mark.parametrize(
    ("columns", "target", "words"),
    [
        ({"a": [0.5, 1.5] * 50, "y": [0, 1] * 50}, None, "column of the target must be known"),
        ({"a": [0.5, 1.5] * 50, "y": [0, 1] * 50}, "z", "has no column 'z'"),
        ({"a": ["u", "v"] * 50, "y": [0, 1] * 50}, "y", "must hold a number in every row"),
        ({"a": [0.5, 1.5] * 50, "y": [0] * 50 + [1] * 50}, "y", "must not be sorted"),
        ({"a": [0.5, 1.5] * 50, "y": [0] * 100}, "y", "two classes"),
    ],
)
def test_files_that_halfspaces_refuse(columns, target, words, tmp_path):
    path = write(pd.DataFrame(columns), tmp_path / "a.csv")
    with pytest.raises(ReplearnError, match=words):
        rl.ReplicableSVMClassifier(margin=0.3, shuffle=False).fit_file(path, target)
