"""What people pass: every kind of table and number is taken, or refused in our own words."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import replearn as rl
from replearn.errors import ReplearnError

N_ROWS = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=N_ROWS), "b": rng.normal(size=N_ROWS)})
    table["ward"] = rng.integers(1, 4, N_ROWS)
    table["y"] = (table.a + rng.logistic(size=N_ROWS) > 0).astype(int)
    table["count"] = rng.poisson(np.exp(0.5 * table.a))
    return table


@pytest.fixture(scope="module")
def original(frame):
    return rl.ReplicableLogisticClassifier().fit(frame[["a", "b"]], frame["y"])


def with_margin(frame):
    """Rows that a halfspace separates."""
    X = frame[["a", "b"]]
    return X.assign(a=X["a"] + np.sign(X["a"])), (X["a"] > 0).astype(int)


@pytest.fixture(scope="module")
def halfspace(frame):
    svm = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.5, sketch_bits=3)
    return svm.fit(*with_margin(frame))


# --- tables ---------------------------------------------------------------------------------------


def series_of_every_kind(column):
    """The same whole numbers as all kinds of series."""
    nullable = pd.Series(column.to_numpy(), name="y", dtype="Int64")
    return {
        "pandas": column,
        "nullable": nullable,
        "pandas of Arrow": nullable.astype("int64[pyarrow]"),
        "category": column.astype("category"),
        "polars": pl.Series("y", column.to_numpy()),
        "polars texts": pl.Series("y", column.astype(str).tolist()),
        "polars categories": pl.Series("y", column.astype(str).tolist()).cast(pl.Categorical),
        "polars of 128 bits": pl.Series("y", column.tolist(), dtype=pl.Int128),
        "Arrow": pa.chunked_array([column.to_numpy()]),
        "list": column.tolist(),
    }


@pytest.mark.parametrize("kind", series_of_every_kind(pd.Series([0, 1])))
def test_every_kind_of_series_is_a_target(kind, frame, original):
    y = series_of_every_kind(frame["y"])[kind]
    for X in (frame[["a", "b"]], pl.from_pandas(frame[["a", "b"]])):
        fitted = rl.ReplicableLogisticClassifier().fit(X, y)
        assert fitted.model_.codes.tolist() == original.model_.codes.tolist()
        assert sorted(map(int, fitted.classes_)) == [0, 1]


@pytest.mark.parametrize("is_categorical", [False, True])
def test_labels_may_be_texts_beside_numbers(frame, is_categorical):
    y = np.where(frame["y"] == 1, "a", frame["y"].astype(object))
    if is_categorical:
        y = pd.Categorical(y, categories=["a", 0])
    fitted = rl.ReplicableLogisticClassifier().fit(frame[["a", "b"]], y)
    assert set(fitted.predict(frame[["a", "b"]])) == {0, "a"}
    with pytest.raises(ReplearnError, match="y must hold labels of one type"):
        rl.ReplicableSVMClassifier(margin=0.3).fit(frame[["a", "b"]], np.asarray(y, dtype=object))


def test_every_kind_of_series_is_a_weight(frame):
    X, y = pl.from_pandas(frame[["a", "b"]]), pl.Series("y", frame["y"].to_numpy())
    weights = np.arange(N_ROWS) % 3  # some rows have none
    expected = rl.ReplicableLogisticClassifier().fit(frame[["a", "b"]], frame["y"], weights)
    found = rl.ReplicableLogisticClassifier().fit(X, y, pl.Series("w", weights))
    assert found.model_.codes.tolist() == expected.model_.codes.tolist()


@pytest.mark.parametrize("kind", ["pandas", "Arrow", "parquet"])
def test_a_category_of_whole_numbers_is_levels(kind, frame, tmp_path):
    table = frame[["a", "ward"]].astype({"ward": "category"})
    if kind == "Arrow":
        table = pa.Table.from_pandas(table)
    elif kind == "parquet":
        table.assign(y=frame["y"]).to_parquet(tmp_path / "a.parquet")
        fitted = rl.ReplicableLogisticClassifier().fit_file(tmp_path / "a.parquet", "y")
        assert set(fitted.study_.design.encoding.names) == {"a", "ward"}
        assert len(fitted.study_.design.encoding.term_names) == 3
        return
    fitted = rl.ReplicableLogisticClassifier().fit(table, frame["y"])
    names = fitted.study_.design.encoding.term_names
    assert len(names) == 3
    assert all(name == "a" or name.startswith("ward = ") for name in names)
    # who says that it is a number is believed
    fitted = rl.ReplicableLogisticClassifier(numeric=["ward"]).fit(table, frame["y"])
    assert fitted.study_.design.encoding.term_names == ("a", "ward")


def test_a_mapping_of_columns_is_a_table(frame, original):
    columns = {name: frame[name].to_numpy() for name in ("a", "b")}
    fitted = rl.ReplicableLogisticClassifier().fit(columns, frame["y"])
    assert fitted.fingerprint_ == original.fingerprint_
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    assert fitted.predict(columns).tolist() == original.predict(frame[["a", "b"]]).tolist()


def wrong_tables(frame):
    """What cannot be fitted, and what the message says."""
    import dask.dataframe as dd
    import duckdb

    X, y = frame[["a", "b"]], frame["y"]
    lazy = dd.from_pandas(frame, npartitions=3)
    relation = duckdb.sql("select 1.0 as a, 2.0 as b")
    return {
        "dask": ((lazy[["a", "b"]], y), "compute"),
        "dask target": ((X, lazy["y"]), "compute"),
        "lazy polars": ((pl.from_pandas(X).lazy(), y), "collect"),
        "relation": ((relation, y), "memory"),
        "names twice": ((pd.concat([X, X], axis=1), y), "different names"),
        "few weights": ((X, y, np.ones(10)), "sample_weight must have a value for each of the 600"),
        "few offsets": ((X, y, None, np.ones(10)), "offset must have a value for each of the 600"),
        "few targets": ((X, y[:10]), "a value for each of the 600 rows, got 10"),
        "ragged mapping": (({"a": [1, 2], "b": [1]}, [0, 1]), "same number of rows"),
        "numbers in a mapping": (({"a": 1, "b": 2}, y), "column 'a' must"),
        "list of mappings": (([{"a": 1}] * N_ROWS, y), "numbers"),
        "anything": ((object(), y), "table"),
        "name of the target": ((frame, "y"), "got the text 'y'"),
        "text": (("a.csv", y), "Pass a file to fit_file"),
        "dask weights": ((X, y, lazy["ward"]), "compute"),
        "dask groups": ((X, y, None, None, lazy["ward"]), "compute"),
        "mapping of weights": ((X, y, {"w": 1}), "sample_weight must hold a weight for each row"),
        "texts as weights": ((X, y, ["a"] * N_ROWS), "sample_weight must hold a weight"),
        "half of a character in a name": ((X, y.rename("\ud800")), "half of a character"),
        "name of the weights": ((X, y, "w"), "sample_weight must hold a weight for each row"),
        "half of a character": (({"a": X["a"], "\ud800": X["b"]}, y), "half of a character"),
        "mapping as target": ((X, {"y": y}), "y must"),
        "two targets": ((X, frame[["y", "a"]]), "1d array"),
    }


KINDS = [
    "dask",
    "dask target",
    "lazy polars",
    "relation",
    "names twice",
    "few weights",
    "few offsets",
    "few targets",
    "ragged mapping",
    "numbers in a mapping",
    "list of mappings",
    "anything",
    "name of the target",
    "text",
    "dask weights",
    "dask groups",
    "mapping of weights",
    "texts as weights",
    "half of a character in a name",
    "name of the weights",
    "half of a character",
    "mapping as target",
    "two targets",
]


@pytest.mark.parametrize("kind", KINDS)
def test_other_tables_are_refused_in_our_words(kind, frame):
    tables = wrong_tables(frame)
    assert set(tables) == set(KINDS)
    arguments, words = tables[kind]
    with pytest.raises(ValueError, match=words):
        rl.ReplicableLogisticClassifier().fit(*arguments)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("drop", "b", "drop must be a sequence of names"),
        ("drop", ["bb"], "drop.*'bb'"),
        ("drop", [0], "drop.*0"),
        ("drop", 3, "drop must be a sequence of names, got 3"),
        ("categories", "ward", "categories must be a sequence of names"),
        ("categories", ["wards"], "categories.*'wards'"),
        ("numeric", ["wards"], "numeric.*'wards'"),
        ("interactions", "a", "interactions"),
        ("interactions", ["ab"], "interactions"),
        ("interactions", [("a", "z")], "interactions.*'z'"),
    ],
)
def test_names_that_no_column_has_are_refused(option, value, words, frame):
    fitted = rl.ReplicableLogisticClassifier(**{option: value})
    with pytest.raises(ReplearnError, match=words):
        fitted.fit(frame[["a", "b", "ward"]], frame["y"])


# --- studies --------------------------------------------------------------------------------------


def test_a_study_is_a_path_a_study_or_a_fitted_estimator(frame, original, halfspace, tmp_path):
    original.study_.problems or original.study_.save(tmp_path / "glm.json")
    halfspace.study_.save(tmp_path / "svm.json")
    X, y = frame[["a", "b"]], frame["y"]
    for study in (original, original.study_, tmp_path / "glm.json"):
        assert rl.ReplicableLogisticClassifier(study=study).fit(X, y).replication_.same
    for study in (halfspace, halfspace.study_, str(tmp_path / "svm.json")):
        svm = rl.ReplicableSVMClassifier(study=study)
        assert svm.fit(*with_margin(frame)).replication_.same


def test_a_study_of_a_different_kind_is_refused_in_one_sentence(
    frame, original, halfspace, tmp_path
):
    original.study_.save(tmp_path / "glm.json")
    original.model_.save(tmp_path / "model.json")
    X, y = frame[["a", "b"]], frame["y"]
    glm, svm = rl.ReplicableLogisticClassifier, rl.ReplicableSVMClassifier
    cases = [
        (rl.ReplicableLinearRegressor, original, "ReplicableLogisticClassifier"),
        (rl.ReplicablePoissonRegressor, tmp_path / "glm.json", "ReplicableLogisticClassifier"),
        (glm, halfspace, "ReplicableSVMClassifier"),
        (svm, original.study_, "ReplicableLogisticClassifier"),
        (svm, tmp_path / "glm.json", "ReplicableLogisticClassifier"),
        (rl.ReplicableSGDClassifier, halfspace, "ReplicableSVMClassifier"),
        (glm, 3, "study must be a path, a Study or a fitted estimator, got 3"),
        (glm, {}, "study must be a path, a Study or a fitted estimator"),
        (glm, original.model_, "study must be a path, a Study or a fitted estimator"),
        (glm, rl.ReplicableLogisticClassifier(), "not fitted"),
        (glm, tmp_path / "model.json", "study"),
    ]
    for estimator, study, words in cases:
        with pytest.raises(ReplearnError, match=words):
            estimator(study=study).fit(X, y)


def test_functions_take_a_study_as_estimators_do(frame, original, halfspace, tmp_path):
    original.study_.save(tmp_path / "glm.json")
    for study in (original, original.study_, tmp_path / "glm.json", str(tmp_path / "glm.json")):
        assert rl.check(study, frame).stops == ()
        assert rl.lab_sums(study, frame, lab="here").rows == len(frame)
    calls = [rl.check, rl.lab_sums, lambda study, _: rl.combine(study)]
    cases = [(halfspace.study_, "got one of halfspaces"), (3, "study must be a path"), ({}, "path")]
    for call in calls:
        for study, words in cases:
            with pytest.raises(ReplearnError, match=words):
                call(study, frame)


# --- numbers --------------------------------------------------------------------------------------


def test_numbers_of_numpy_are_numbers(frame, original):
    X, y = frame[["a", "b"]], frame["y"]
    fitted = rl.ReplicableLogisticClassifier(
        replication_rows=np.int64(N_ROWS),
        sketch_bits=np.uint8(3),
        max_disagreement=np.float32(0.01),
    ).fit(X, y)
    expected = rl.ReplicableLogisticClassifier(sketch_bits=3).fit(X, y)
    assert fitted.study_ == expected.study_
    assert fitted.study_.fingerprint == expected.study_.fingerprint
    one, two = (
        rl.ReplicableLogisticClassifier(between=pair).fit(X, y)
        for pair in ((0.2, 0.03), np.array([0.2, 0.03]))
    )
    assert one.study_.fingerprint == two.study_.fingerprint
    ridge = rl.ReplicableLogisticClassifier(ridge=np.float32(0.5)).fit(X, y)
    assert ridge.study_.design.ridge == "0.5"
    assert rl.audit(rl.ReplicableLogisticClassifier(), X, y, n_pairs=np.int64(2)).n_pairs == 2
    study = rl.register_study(
        X, y, replication_rows=np.int32(5000), max_disagreement=np.float32(0.1)
    )
    assert study.n_replication == 5000
    plans = [
        rl.plan(margin=kind(0.5), n_features=whole(3))
        for kind, whole in ((float, int), (np.float64, np.int64))
    ]
    assert str(plans[0]) == str(plans[1])


@pytest.mark.parametrize("value", [True, "3", 1.5, None, np.nan])
def test_what_is_no_whole_number_is_refused(value, frame):
    X, y = frame[["a", "b"]], frame["y"]
    with pytest.raises(ReplearnError, match="replication_rows must be a whole number"):
        rl.register_study(X, y, replication_rows=value)
    if value is not None:  # the default of both
        with pytest.raises(ReplearnError, match="n_pairs must be a whole number"):
            rl.audit(rl.ReplicableLogisticClassifier(), X, y, n_pairs=value)
        with pytest.raises(ReplearnError, match="replication_rows must be a whole number"):
            rl.ReplicableLogisticClassifier(replication_rows=value).fit(X, y)


@pytest.mark.parametrize("n_rows", [0, -1, 0.5, np.nan, "many", None, True])
def test_disagreement_of_no_rows_is_refused(n_rows, original):
    with pytest.raises(ReplearnError, match="n_rows must be a whole number"):
        original.study_.disagreement(n_rows)


# --- what scikit-learn has ------------------------------------------------------------------------


def test_probabilities_have_logarithms(frame, original):
    X = frame[["a", "b"]]
    np.testing.assert_array_equal(original.predict_log_proba(X), np.log(original.predict_proba(X)))


def test_the_score_of_counts_is_the_deviance_explained(frame):
    from sklearn.metrics import d2_tweedie_score

    X, y = frame[["a", "b"]], frame["count"]
    fitted = rl.ReplicablePoissonRegressor().fit(X, y)
    weights = np.arange(N_ROWS) % 4 + 1.0
    predicted = fitted.predict(X)
    assert fitted.score(X, y) == pytest.approx(d2_tweedie_score(y, predicted, power=1))
    expected = d2_tweedie_score(y, predicted, sample_weight=weights, power=1)
    assert fitted.score(X, y, sample_weight=weights) == pytest.approx(expected)


# --- nothing is silent ----------------------------------------------------------------------------


def test_sealed_studies_are_opened_in_python_too(frame, tmp_path):
    X, y = frame[["a", "b"]], frame["y"]
    first = rl.ReplicableLogisticClassifier(sealed=True).fit(X, y)
    lab = rl.ReplicableLogisticClassifier(study=first)
    assert first.study_.sealed
    assert lab.fit(X, y).replication_.same is None
    rl.save(first.opening_, tmp_path / "opening.json", private=True)
    for opened in (first.opening_, tmp_path / "opening.json", [first, first.opening_]):
        found = lab.set_params(opened=opened).fit(X, y)
        assert found.replication_.same
        assert found.opening_ is None
    other = rl.ReplicableLogisticClassifier(sealed=True).fit(X, y).opening_
    for opened, words in (
        (first, "a sealed study needs its opening"),
        (other, "opens a different study"),
        (replace(first.opening_, nonce=other.nonce), "must hold the nonce and the model"),
        (3, "opened must be"),
    ):
        with pytest.raises(ReplearnError, match=words):
            lab.set_params(opened=opened).fit(X, y)
    with pytest.raises(ReplearnError, match="partial_fit does not use opened"):
        lab.partial_fit(X, y)
    with pytest.raises(ReplearnError, match="opened is for a replication"):
        lab.set_params(study=None).fit(X, y)


def test_what_leaves_a_model_is_a_warning(frame):
    rng = np.random.default_rng(1)
    ward = rng.choice(["A", "B", "rare"], N_ROWS, p=[0.5, 0.48, 0.02])
    X = frame[["a", "b"]].assign(ward=ward, one=1.0, two=2.0)
    with pytest.warns(rl.ColumnWarning) as warned:
        rl.ReplicableLogisticClassifier().fit(X, frame["y"])
    said = [str(warning.message) for warning in warned if warning.category is rl.ColumnWarning]
    assert any("'one', 'two'" in text and "left out" in text for text in said)
    assert any("'ward'" in text and "counted as the reference" in text for text in said)


def test_a_computed_target_has_not_the_name_of_its_column(frame):
    delay = 30 * frame["a"] + np.random.default_rng(1).normal(0, 30, N_ROWS)
    flights = frame[["a", "b"]].assign(arr_delay=delay)
    late = flights["arr_delay"] >= 15
    assert late.name == "arr_delay"
    for table, y in ((flights, late), (pl.from_pandas(flights), pl.Series("arr_delay", late))):
        fitted = rl.ReplicableLogisticClassifier(drop=["arr_delay"]).fit(table, y)
        assert fitted.study_.design.target == "y"
        # nor if the table has that column no more: true and false are no delays
        fitted = rl.ReplicableLogisticClassifier().fit(frame[["a", "b"]], y)
        assert fitted.study_.design.target == "y"
    fitted = rl.ReplicableLogisticClassifier().fit(flights[["a", "b"]], frame["y"].rename("died"))
    assert fitted.study_.design.target == "died"


def test_dropped_columns_are_not_read(frame, original):
    X = frame[["a", "b"]].assign(when=pd.Timestamp("2024-01-01"))
    fitted = rl.ReplicableLogisticClassifier(drop=["when"]).fit(X, frame["y"])
    assert fitted.fingerprint_ == original.fingerprint_
    assert (fitted.predict(X) == original.predict(frame[["a", "b"]])).all()


def test_weights_and_offsets_at_one_lab_only_are_told(frame, original):
    X, y, weights = frame[["a", "b"]], frame["y"], np.linspace(1, 2, N_ROWS)
    weighted = rl.ReplicableLogisticClassifier().fit(X, y, sample_weight=weights)
    with pytest.warns(rl.ReplicabilityWarning, match="has weights, 'sample_weight'"):
        rl.ReplicableLogisticClassifier(study=weighted).fit(X, y)
    with pytest.warns(rl.ReplicabilityWarning, match="has no weights"):
        rl.ReplicableLogisticClassifier(study=original).fit(X, y, sample_weight=weights)
    shifted = rl.ReplicableLogisticClassifier().fit(X, y, offset=weights)
    with pytest.raises(ReplearnError, match="has an offset, 'offset'"):
        rl.ReplicableLogisticClassifier(study=shifted).fit(X, y)


def test_a_target_may_have_a_different_name_at_a_lab(frame, original, tmp_path, capsys):
    from replearn.cli import main

    original.study_.save(tmp_path / "study.json")
    table = frame[["a", "b"]].assign(outcome=frame["y"])
    table.to_csv(tmp_path / "b.csv", index=False)
    arguments = ["replicate", str(tmp_path / "study.json"), str(tmp_path / "b.csv")]
    assert main(arguments) == 2
    assert "'y'" in capsys.readouterr().err
    assert main([*arguments, "--target", "outcome"]) == 0
    assert "The same model" in capsys.readouterr().out
    replicated = rl.ReplicableLogisticClassifier(study=original)
    assert replicated.fit_file(tmp_path / "b.csv", target="outcome").replication_.same


# --- programs that read us ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["show", "absent.json"], ["show"], ["replicate", "a", "b", "--no-such-option"], ["fit"]],
)
def test_errors_are_json_too(arguments, capsys):
    import json

    from replearn.cli import main

    try:
        code = main([*arguments, "--json"])
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr()
    assert code == 2
    assert json.loads(said.out)["error"]
    assert said.err.startswith("replearn: error: ")


@pytest.mark.filterwarnings("ignore:These rows do not give")
def test_no_key_comes_from_a_column(frame):
    X = frame[["a", "b"]].rename(columns={"a": "agreement rate", "b": "AUC"})
    first = rl.ReplicableLogisticClassifier().fit(X, frame["y"])
    second = rl.ReplicableLogisticClassifier(study=first).fit(X * 3, 1 - frame["y"])
    plain = rl.ReplicableLogisticClassifier().fit(frame[["a", "b"]], frame["y"])
    other = rl.ReplicableLogisticClassifier(study=plain).fit(frame[["a", "b"]] * 3, 1 - frame["y"])
    assert not second.replication_.same
    assert set(second.replication_.facts().data()) == set(other.replication_.facts().data())
    found = rl.compare(first, second).facts().data()
    assert set(found) == set(rl.compare(plain, other).facts().data())


def test_editors_see_every_public_name():
    """Names that are imported on first use are imported once more for type checkers."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(rl.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    found = {alias.asname: (line.module, alias.name) for line in typed.body for alias in line.names}
    assert sorted(found) == rl.__all__
    for name, (module, inside) in found.items():
        place = __import__(module, fromlist=[inside])
        assert getattr(place, inside) is getattr(rl, name)
