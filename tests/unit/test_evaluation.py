"""Evaluations: the same in memory and from files, by group, of any classifier."""

import json
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import replearn as rl
from replearn.audits.evaluation import evaluate, evaluate_file
from replearn.audits.evaluation_page import evaluation_report
from replearn.errors import ReplearnError, UselessModelWarning
from replearn.sources.labels import Labels

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def table():
    X, y = rl.datasets.make_margin(6000, 3, margin=0.3, random_state=1)
    rng = np.random.default_rng(2)
    y = np.where(rng.random(y.size) < 0.1, -y, y)  # not too good to be true
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["site"] = rng.choice(["north", "south"], size=y.size)
    frame.loc[:3, "site"] = "tiny"
    frame.loc[4:30, "site"] = None
    frame["label"] = np.where(y > 0, "ill", "well")
    return frame


@pytest.fixture(scope="module")
def model(table):
    X, y = table[["a", "b", "c"]][:3000], table["label"][:3000]
    return rl.ReplicableSVMClassifier(margin=0.3, batch_size=50).fit(X, y).model_


@pytest.fixture(scope="module")
def found(model, table):
    return evaluate(model, table[["a", "b", "c"]], table["label"])


def test_files_of_every_format_give_the_numbers_of_memory(model, table, found, tmp_path):
    table.to_csv(tmp_path / "new.csv", index=False)
    table.to_parquet(tmp_path / "new.parquet")
    X, y = table[["a", "b", "c"]].to_numpy(), (table["label"] == "well").to_numpy()
    np.savez(tmp_path / "new.npz", X=X, y=np.where(y, "well", "ill"))
    for name in ("new.csv", "new.parquet", "new.npz"):
        target = None if name.endswith("npz") else "label"
        assert evaluate_file(model, tmp_path / name, target).worth == found.worth


def test_columns_may_come_in_another_order_and_with_others(model, table, found, tmp_path):
    table[["label", "c", "site", "a", "b"]].to_csv(tmp_path / "new.csv", index=False)
    assert evaluate_file(model, tmp_path / "new.csv", "label").worth == found.worth


def test_groups_are_judged_apart(model, table, tmp_path):
    table.to_csv(tmp_path / "new.csv", index=False)
    found = evaluate_file(model, tmp_path / "new.csv", "label", by="site")
    assert [name for name, _ in found.groups] == ["north", "south", "(missing)"]
    assert (found.n_small, found.n_small_rows) == (1, 4)
    assert "1 group of fewer than 10 rows left out (4 rows)." in str(found)
    north = table[table["site"] == "north"]
    assert found.groups[0][1] == evaluate(model, north[["a", "b", "c"]], north["label"]).worth
    again = evaluate(model, table[["a", "b", "c"]], table["label"], by=table["site"].to_numpy())
    assert again.groups == found.groups
    table.to_parquet(tmp_path / "new.parquet")
    assert evaluate_file(model, tmp_path / "new.parquet", "label", by="site").groups == found.groups


def test_groups_must_be_few_and_there(model, table, tmp_path):
    table.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(ReplearnError, match="at most 100 different values"):
        evaluate_file(model, tmp_path / "new.csv", "label", by="a")
    with pytest.raises(ReplearnError, match="no column 'ward'"):
        evaluate_file(model, tmp_path / "new.csv", "label", by="ward")
    np.savez(tmp_path / "new.npz", X=np.ones((4, 3)), y=np.array(["ill", "well"] * 2))
    with pytest.raises(ReplearnError, match="CSV or Parquet"):
        evaluate_file(model, tmp_path / "new.npz", by="a")
    with pytest.raises(ReplearnError, match="one value for each of 6,000 rows"):
        evaluate(model, table[["a", "b", "c"]], table["label"], by=np.ones(3))


def test_any_classifier_can_be_evaluated(table):
    X, y = table[["a", "b", "c"]], table["label"]
    by_chance = evaluate(LogisticRegression().fit(X, y), X, y)
    assert by_chance.worth.log_loss is not None
    assert len(by_chance.bins) == 10
    by_score = evaluate(LinearSVC().fit(X, y), X, y)
    assert by_score.worth.log_loss is None
    assert by_score.worth.auc.value == pytest.approx(by_chance.worth.auc.value, abs=0.01)
    with pytest.raises(ReplearnError, match="Fit it first"):
        evaluate(LogisticRegression(), X, y)


def test_many_classes_can_be_evaluated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (X[:, 0] + rng.normal(size=600) > 0) + (X[:, 1] > 0.5).astype(int)
    found = evaluate(LogisticRegression().fit(X, y), X, y)
    assert found.worth.labels == (0, 1, 2)
    assert found.roc is None
    assert evaluation_report(found, "replearn evaluate")


def test_a_useless_model_is_warned_of(model, table):
    X, y = table[["a", "b", "c"]], table["label"]
    with pytest.warns(UselessModelWarning, match="wrong way round"):
        evaluate(model, X, np.where(y == "ill", "well", "ill"))
    with pytest.warns(UselessModelWarning, match="every one of 6,000 rows"):
        evaluate(model, 0 * X + [1, 1, 1], y)


def test_labels_mean_the_same_however_they_are_spelled():
    for spelled in (
        np.array([0, 1, 1]),
        np.array([0.0, 1.0, 1.0]),
        np.array([False, True, True]).astype(int),
        np.array(["0", "1", "1.0"], dtype=object),
        np.array(["0", "1", "1"]),
        np.array(["00", " 1", "1e0"], dtype=object),
    ):
        assert Labels(known=(0, 1)).numbers(spelled).tolist() == [0, 1, 1]
    flags = np.array(["false", "TRUE", "True"], dtype=object)
    assert Labels(known=(False, True)).numbers(flags).tolist() == [0, 1, 1]
    assert Labels(known=(False, True)).numbers([False, True]).tolist() == [0, 1]


def test_other_labels_are_refused(model, table):
    X, y = table[["a", "b", "c"]], table["label"].to_numpy().astype(object)
    y[7] = "dead"
    with pytest.raises(ReplearnError, match="'ill' and 'well', got 'dead'"):
        evaluate(model, X, y)
    y[7] = None
    with pytest.raises(ReplearnError, match="missing label"):
        evaluate(model, X, y)
    with pytest.raises(ReplearnError, match="one label for each of 6,000 rows"):
        evaluate(model, X, y[10:])
    with pytest.raises(ReplearnError, match="got 'nan'"):
        Labels(known=(0, 1)).numbers(np.array(["0", "nan"], dtype=object))


def test_data_are_json(model, table):
    found = evaluate(model, table[["a", "b", "c"]], table["label"], by=table["site"].to_numpy())
    data = json.loads(json.dumps(found.data(), allow_nan=False))
    assert data["fingerprint"] == model.fingerprint
    assert [group["group"] for group in data["groups"]] == ["north", "south", "(missing)"]
    assert "np." not in str(found)


def test_the_page_has_everything_and_nothing_unsafe(table):
    X, y = table[["a", "b", "c"]], table["label"]
    fitted = LogisticRegression().fit(X, y)
    by = np.where(np.arange(len(y)) % 2, "<b>north", "south")
    page = evaluation_report(evaluate(fitted, X, y, by=by), "replearn evaluate '<script>'")
    for part in ("ROC curve", "Calibration", "balanced accuracy", "By group", "Brier score"):
        assert part in page
    assert "<script" not in page
    assert "<b>north" not in page
    assert page == evaluation_report(evaluate(fitted, X, y, by=by), "replearn evaluate '<script>'")


def test_groups_of_three_classes_show_all_base_rates():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 2))
    y = np.array(["a", "b", "c"])[np.argmax(X @ rng.normal(size=(2, 3)), axis=1)]
    place = np.where(np.arange(1200) % 2, "north", "south")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # few rows
        clf = rl.ReplicableLogisticClassifier(samples_per_site=1200).fit(X, y)
    line = next(line for line in str(evaluate(clf, X, y, by=place)).splitlines() if "north" in line)
    shares = [f"{np.mean(y[place == 'north'] == label):.3f}" for label in "abc"]
    assert " ".join(shares) in line
