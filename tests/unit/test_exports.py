"""Exports: other tools give the model's predictions, even on hostile rows and names."""

import csv
import io
import itertools
import json
import math
import pickle
import re
import sqlite3
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

import replearn as rl
from replearn.codes.boost_space import BoostSpace
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.codes.model import Model
from replearn.codes.net_space import NetSpace
from replearn.codes.space import CodeSpace
from replearn.exports.sql import number, to_sql

EPSILON = np.finfo(np.float64).eps


def halfspace(n_features: int = 5, fit_intercept: bool = True, **changes: Any) -> Model:
    n_inputs = n_features + fit_intercept
    model = Model(
        recipe="svm",
        n_features=n_features,
        fit_intercept=fit_intercept,
        space=CodeSpace(n_inputs, "none", n_inputs, "centre", "0.25"),
        seed="2024",
        classes=("healthy", "ill"),
        codes=np.random.default_rng(n_inputs).integers(-9, 10, n_inputs),
    )
    return replace(model, **changes)


def majority(n_features: int = 5, n_rounds: int = 4, fit_intercept: bool = True) -> Model:
    space = BoostSpace(n_features + fit_intercept, "box", "0.3", n_rounds, "majority")
    codes = np.random.default_rng(n_rounds).integers(-4, 5, space.n_codes)
    return halfspace(n_features, fit_intercept, recipe="boost", space=space, codes=codes)


def exact(*integers: int, **changes: Any) -> Model:
    """Four weights of +-0.5, the last of them the intercept: products without rounding."""
    ball = [v for v in itertools.product(range(-2, 3), repeat=4) if 1 <= sum(map(abs, v)) <= 4]
    ball = [v for v in ball if sum(entry**2 for entry in v) <= 4]
    space = NetSpace(4, "none", 4, "lattice", len(ball), "0.9")
    codes = np.array([ball.index(integers)])
    model = halfspace(3, recipe="net", space=space, codes=codes, **changes)
    assert model.direction.tolist() == [entry / 2 for entry in integers]
    return model


ENCODING = Encoding(
    (
        NumberColumn("age", "52.3", "12.5"),
        NumberColumn("label", "-1", "0.001", fill_missing=True),
        CategoryColumn("site", ("north", "o'hara", "None", "größe ☃")),
        CategoryColumn("code", ("1", "10", "2")),
        NumberColumn('say "x"; --', "0", "1"),
    )
)


#: The same with an output for others in both columns of categories.
WITH_OTHERS = Encoding(
    tuple(
        replace(column, other="0.2") if isinstance(column, CategoryColumn) else column
        for column in ENCODING.columns
    )
)


def encoded(model: Model | None = None) -> Model:
    model = majority(10) if model is None else model
    encoding = ENCODING if model.n_features == ENCODING.n_outputs else WITH_OTHERS
    return replace(model, encoding=encoding, feature_names=encoding.output_names)


encoded_bases = pytest.mark.parametrize(
    "base",
    [halfspace(10), majority(10), halfspace(12), majority(12)],
    ids=["halfspace", "majority", "halfspace, others", "majority, others"],
)


def table(n_rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    missing = rng.random(n_rows) < 0.2
    return pd.DataFrame(
        {
            "site": rng.choice(["north", "o'hara", "None", "größe ☃", "south", None], n_rows),
            "code": rng.choice([1.0, 2.0, 10.0, 3.0, np.nan], n_rows),
            'say "x"; --': rng.normal(0, 3, n_rows),
            "unused": np.arange(n_rows),
            "age": rng.normal(50, 12, n_rows).round(1),
            "label": np.where(missing, np.nan, rng.normal(-1, 0.002, n_rows)),
        }
    )


def hostile_rows(n_features: int) -> np.ndarray:
    """Usual rows, and rows whose entries are tiny, huge, of all sizes, whole or zero."""
    rng = np.random.default_rng(7)
    usual = rng.normal(size=(400, n_features))
    sizes = 10.0 ** rng.integers(-300, 300, size=(200, n_features))
    return np.vstack(
        [
            usual,
            usual[:100] * 1e300,
            usual[:100] * 1e-300,
            usual[:100] * 5e-324,
            usual[:200] * sizes,
            rng.integers(-3, 4, size=(200, n_features)),
            np.zeros((1, n_features)),
            -np.zeros((1, n_features)),
        ]
    )


def rounding(model: Model, X: np.ndarray) -> np.ndarray:
    """What sums in another order can change, of each row and halfspace."""
    normals = np.abs(model.halfspaces)
    sizes = np.abs(X) @ normals[:, : model.n_features].T
    if model.fit_intercept:
        sizes = sizes + normals[:, -1]
    return 2 * (model.n_features + 2) * EPSILON * sizes + 1e-322


def clear_rows(model: Model, X: np.ndarray) -> np.ndarray:
    """Rows that no order of the sums puts on the other side of a boundary."""
    normals = model.halfspaces
    products = X @ normals[:, : model.n_features].T
    if model.fit_intercept:
        products = products + normals[:, -1]
    clear = (np.abs(products) > rounding(model, X)).all(axis=1)
    assert clear.mean() > 0.8
    return clear


def assert_same(model: Model, X: np.ndarray, rows: Any, labels: Any, scores: Any) -> None:
    """Labels and scores are those of the model, as far as rounding lets them be told apart."""
    clear = clear_rows(model, X)
    assert (np.asarray(labels)[clear] == model.predict(rows)[clear]).all()
    if scores is not None:
        allowed = rounding(model, X)[:, 0] if model.is_halfspace else np.zeros(len(X))
        away = np.abs(np.asarray(scores, dtype=float) - model.decision_function(rows))
        assert (away[clear] <= allowed[clear]).all()


PLAIN = {
    "halfspace": halfspace(),
    "no intercept": halfspace(fit_intercept=False),
    "one feature": halfspace(1),
    "integers": halfspace(classes=(-1, 1)),
    "booleans": halfspace(classes=(False, True)),
    "labels in another order": halfspace(classes=("z", "a")),
    "majority": majority(),
    "majority of an odd number": majority(n_rounds=7, fit_intercept=False),
    "majority of integers": replace(majority(), classes=(3, 40)),
}

plain_models = pytest.mark.parametrize("model", PLAIN.values(), ids=PLAIN.keys())

#: Weights, and whole numbers for which the product is exactly zero.
TIES = {
    (1, 1, -1, 1): lambda a, b: (a, b, a + b + 1),
    (1, -1, 1, -1): lambda a, b: (a, b, b - a + 1),
}


def tied_rows(make: Any) -> np.ndarray:
    return np.array([make(a, b) for a in range(-5, 6) for b in range(-5, 6)], dtype=np.float64)


# ---------------------------------------------------------------- scikit-learn


@plain_models
def test_sklearn_predicts_the_same(model: Model) -> None:
    X = hostile_rows(model.n_features)
    plain = rl.to_sklearn(model)
    assert type(plain) is (LinearSVC if model.is_halfspace else VotingClassifier)
    scores = (
        plain.decision_function(X)
        if model.is_halfspace
        else (2.0 * plain.transform(X) - 1).mean(axis=1)
    )
    assert_same(model, X, X, plain.predict(X), scores)
    assert plain.predict(X).dtype == model.predict(X).dtype
    assert plain.classes_.tolist() == list(model.classes)
    assert plain.n_features_in_ == model.n_features
    assert not hasattr(plain, "feature_names_in_")
    some = sp.csr_array(X[:50])
    assert (plain.predict(some) == plain.predict(X[:50])).all()


def test_sklearn_has_the_coefficients() -> None:
    model = halfspace()
    plain = rl.to_sklearn(model)
    assert plain.coef_.tolist() == [model.coef.tolist()]
    assert plain.intercept_.tolist() == [model.intercept]
    plain.coef_[:] = 0
    assert model.coef.any()
    assert not hasattr(plain, "predict_proba")
    assert not hasattr(plain, "partial_fit")
    clone(plain)


def test_an_even_vote_goes_to_the_first_class() -> None:
    model = majority(n_rounds=4)
    X = hostile_rows(5)
    even = model.decision_function(X) == 0
    assert even.any()
    assert set(rl.to_sklearn(model).predict(X[even])) == {"healthy"}


@pytest.mark.parametrize("weights", TIES)
def test_sklearn_keeps_ties(weights: tuple[int, ...]) -> None:
    X = tied_rows(TIES[weights])
    model = exact(*weights)
    assert (model.decision_function(X) == 0).all()
    assert set(rl.to_sklearn(model).predict(X)) == {"healthy"}


@pytest.mark.parametrize("model", [halfspace(3), majority(3)], ids=["halfspace", "majority"])
def test_sklearn_knows_the_names(model: Model) -> None:
    plain = rl.to_sklearn(replace(model, feature_names=("a", "b", "c")))
    assert plain.feature_names_in_.tolist() == ["a", "b", "c"]
    X = pd.DataFrame(hostile_rows(3), columns=["a", "b", "c"])
    assert (plain.predict(X) == model.predict(X.to_numpy())).all()
    with pytest.raises(ValueError, match="feature names"):
        plain.predict(X[["c", "b", "a"]])


def test_classifiers_keep_the_type_of_their_labels() -> None:
    X, y = rl.datasets.make_margin(3000, 4, margin=0.3, random_state=0)
    for labels in ((0.0, 1.0), (0, 1), ("a", "b"), (False, True)):
        classifier = rl.ReplicableSVMClassifier(margin=0.3, max_error=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rl.ReplicabilityWarning)
            classifier.fit(X, np.where(y > 0, labels[1], labels[0]))
        plain = classifier.to_sklearn()
        assert plain.predict(X).dtype == classifier.predict(X).dtype
        assert (plain.predict(X) == classifier.predict(X)).all()
        assert rl.to_csv(classifier) == rl.to_csv(classifier.model_)
    with pytest.raises(NotFittedError):
        rl.ReplicableSVMClassifier().to_sklearn()


@encoded_bases
def test_sklearn_pipeline_of_raw_columns(base: Model) -> None:
    model, frame = encoded(base), table(400)
    X = model.encoding.transform(frame)
    pipeline = rl.to_sklearn(model)
    assert type(pipeline) is Pipeline
    assert (pipeline[:-1].transform(frame) == X).all()
    for rows in (frame, frame[frame.columns[::-1]], pl.from_pandas(frame)):
        assert_same(model, X, rows, pipeline.predict(rows), None)
    plain = rl.to_sklearn(model, encoded=True)
    assert (plain.predict(X) == pipeline.predict(frame)).all()
    assert not hasattr(plain, "feature_names_in_")


def test_sklearn_pipeline_takes_codes_of_any_type() -> None:
    model, frame = encoded(halfspace(10)), table(60)
    expected = model.predict(frame)
    text = frame.code.map(lambda code: None if math.isnan(code) else f"{code:.0f}").astype(object)
    for codes in (text, frame.code.astype(np.float32)):
        assert (rl.to_sklearn(model).predict(frame.assign(code=codes)) == expected).all()
    whole = frame.assign(code=frame.code.fillna(3).astype(np.int16))
    assert (rl.to_sklearn(model).predict(whole) == model.predict(whole)).all()


def test_sklearn_pipeline_computes_single_precision_in_double() -> None:
    frame = table(50).astype({"age": np.float32, "label": np.float32})
    model = encoded(halfspace(10))
    assert (rl.to_sklearn(model)[:-1].transform(frame) == ENCODING.transform(frame)).all()


def test_sklearn_pipeline_refuses_what_the_model_refuses() -> None:
    frame = table(5)
    for bad in (frame.assign(age=np.nan), frame.assign(age=np.inf), frame.drop(columns="age")):
        for predict in (encoded().predict, rl.to_sklearn(encoded()).predict):
            with pytest.raises(ValueError, match=r"age|NaN|infinity"):
                predict(bad)
    with pytest.raises(TypeError):  # numbers in a column of text would be no category, silently
        rl.to_sklearn(encoded()).predict(frame.assign(site=1))


@pytest.mark.slow
def test_pickles_need_no_replearn(tmp_path: Path) -> None:
    frame = table(80)
    models = [halfspace(10), majority(10), encoded(), encoded(halfspace(12))]
    X = ENCODING.transform(frame)
    inputs = [X, X, frame, frame]
    plain = [rl.to_sklearn(model) for model in models]
    (tmp_path / "objects.pickle").write_bytes(pickle.dumps((plain, inputs)))
    code = """
import json, pickle, sys
sys.modules["replearn"] = None  # importing it raises
plain, inputs = pickle.load(open(sys.argv[1], "rb"))
print(json.dumps([p.predict(X).tolist() for p, X in zip(plain, inputs)]))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "objects.pickle")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    expected = [model.predict(X).tolist() for model, X in zip(models, inputs, strict=True)]
    assert json.loads(ran.stdout) == expected


def test_pipelines_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(rl.ReplearnError, match=r"needs pandas.*encoded=True"):
        rl.to_sklearn(encoded())
    rl.to_sklearn(encoded(), encoded=True)


def test_a_majority_refuses_rows_that_are_not_finite() -> None:
    for bad in (np.nan, np.inf, -np.inf):
        X = np.ones((3, 5))
        X[1, 2] = bad
        with pytest.raises(rl.ReplearnError, match="finite, got NaN or inf in row 1"):
            majority().predict(X)


# ---------------------------------------------------------------- ONNX


def run_onnx(content: bytes, inputs: dict[str, Any]) -> list[Any]:
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == list(inputs)
    return list(session.run(None, inputs))


def raw_inputs(frame: pd.DataFrame, number_type: Any = np.float64) -> dict[str, Any]:
    """One vector for each column: numbers as they are, text without missing values."""
    inputs: dict[str, Any] = {}
    for column in ENCODING.columns:
        values = frame[column.name]
        if isinstance(column, NumberColumn):
            inputs[column.name] = values.to_numpy(number_type)
        elif column.name == "code":
            inputs["code"] = np.array(["" if c != c else f"{c:.0f}" for c in values], dtype=object)
        else:
            inputs[column.name] = values.fillna("").to_numpy(object)
    return inputs


@plain_models
def test_onnx_predicts_the_same(model: Model) -> None:
    X = hostile_rows(model.n_features)
    labels, scores = run_onnx(rl.to_onnx(model), {"X": X})
    assert_same(model, X, X, labels, scores)
    assert labels.dtype == (object if isinstance(model.classes[0], str) else np.int64)
    assert scores.dtype == np.float64
    single = np.clip(X, -1e30, 1e30).astype(np.float32)
    labels, scores = run_onnx(rl.to_onnx(model, single_precision=True), {"X": single})
    double = single.astype(np.float64)
    assert_same(model, double, double, labels, scores)


@pytest.mark.parametrize("weights", TIES)
def test_onnx_keeps_ties(weights: tuple[int, ...]) -> None:
    X = tied_rows(TIES[weights])
    for single in (False, True):
        content = rl.to_onnx(exact(*weights), single_precision=single)
        labels, scores = run_onnx(content, {"X": X.astype(np.float32 if single else np.float64)})
        assert (scores == 0).all()
        assert set(labels) == {"healthy"}


def test_onnx_takes_no_rows() -> None:
    labels, scores = run_onnx(rl.to_onnx(majority()), {"X": np.empty((0, 5))})
    assert labels.shape == scores.shape == (0,)


@encoded_bases
@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
def test_onnx_encodes_raw_columns(base: Model, single: bool) -> None:
    model, frame = encoded(base), table(400)
    inputs = raw_inputs(frame, np.float32 if single else np.float64)
    labels, scores = run_onnx(rl.to_onnx(model, single_precision=single), inputs)
    rows = frame.astype({"age": np.float32, "label": np.float32, 'say "x"; --': np.float32})
    rows = rows if single else frame
    X = model.encoding.transform(rows)
    assert_same(model, X, rows, labels, scores)
    labels, _ = run_onnx(rl.to_onnx(model, encoded=True), {"X": X})
    assert_same(model, X, rows, labels, None)


def test_onnx_outputs_have_names_of_their_own() -> None:
    proto = onnx.load_from_string(rl.to_onnx(encoded()))  # one of its columns is "label"
    assert [output.name for output in proto.graph.output] == ["label_", "score"]
    proto = onnx.load_from_string(rl.to_onnx(halfspace()))
    assert [output.name for output in proto.graph.output] == ["label", "score"]


@pytest.mark.parametrize(
    "name", ["score", "constant 0", "MatMul 4", "a/b", "new\nline", "☃", "'\""]
)
def test_onnx_takes_any_column_name(name: str) -> None:
    encoding = Encoding((NumberColumn(name, "1", "2"), NumberColumn("b", "0", "1", True)))
    model = halfspace(2, encoding=encoding)
    rows = {name: np.array([1.0, 5.0, -7.0]), "b": np.array([2.0, np.nan, 0.5])}
    assert run_onnx(rl.to_onnx(model), rows)[0].tolist() == model.predict(rows).tolist()


def test_onnx_scores_show_missing_numbers() -> None:
    frame = table(3).assign(age=[50.0, np.nan, 50.0])
    _, scores = run_onnx(rl.to_onnx(encoded(halfspace(10))), raw_inputs(frame))
    assert np.isnan(scores).tolist() == [False, True, False]


def test_onnx_is_the_same_bytes_for_the_same_model() -> None:
    for model in (halfspace(), majority(), encoded()):
        again = pickle.loads(pickle.dumps(model))
        assert rl.to_onnx(model) == rl.to_onnx(again)
    # names that are not part of the fingerprint are not part of the file either
    assert rl.to_onnx(halfspace(2, feature_names=("a", "b"))) == rl.to_onnx(halfspace(2))
    assert rl.to_onnx(halfspace(seed="1")) != rl.to_onnx(halfspace(seed="2"))


def test_onnx_says_which_model_it_is() -> None:
    proto = onnx.load_from_string(rl.to_onnx(halfspace(classes=("no", "größer"))))
    assert {prop.key: prop.value for prop in proto.metadata_props} == {
        "replearn.fingerprint": halfspace(classes=("no", "größer")).fingerprint,
        "replearn.format": "replearn-model 1",
        "replearn.labels": json.dumps(["no", "größer"]),
        "replearn.version": rl.__version__,
    }
    assert (proto.producer_name, proto.producer_version) == ("replearn", rl.__version__)


def test_onnx_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(rl.ReplearnError, match=r'pip install "replearn\[onnx\]"'):
        rl.to_onnx(halfspace())


# ---------------------------------------------------------------- coefficients


def lines_of(model: Model) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(rl.to_csv(model), newline="")))


def test_csv_numbers_read_back_exactly() -> None:
    model = halfspace(200)
    *features, last = lines_of(model)
    assert [line["feature"] for line in features] == [f"x{i}" for i in range(200)]
    assert [float(line["coefficient"]) for line in features] == model.coef.tolist()
    assert last == {"feature": "(intercept)", "coefficient": repr(model.intercept)}


def test_csv_keeps_hostile_names() -> None:
    names = ("a,b", 'say "x"', "new\nline", "\r", "\r\n", "größe ☃", "=1+1", "", "(intercept)")
    model = halfspace(len(names), feature_names=names)
    assert tuple(line["feature"] for line in lines_of(model)[:-1]) == names


def test_csv_is_enough_to_compute_by_hand() -> None:
    model, frame = encoded(halfspace(10)), table(40)
    *features, last = lines_of(model)
    for row, score in enumerate(model.decision_function(frame)):
        total = float(last["coefficient"])
        for line in features:
            value = frame[line["column"]][row]
            if line["category"]:
                text = f"{value:.0f}" if isinstance(value, float) and value == value else value
                total += float(line["coefficient"]) * (text == line["category"])
            elif value == value:
                scaled = (value - float(line["centre"])) / float(line["scale"])
                total += float(line["coefficient"]) * scaled
        assert total == pytest.approx(score, abs=1e-12)


def test_csv_names_the_others() -> None:
    lines = lines_of(encoded(halfspace(12)))
    others = [line for line in lines if line.get("category") == "(other)"]
    assert [line["feature"] for line in others] == ["site=(other)", "code=(other)"]


def test_csv_of_a_majority_lists_its_votes() -> None:
    model = majority(n_rounds=3)
    lines = lines_of(model)
    assert [line["vote"] for line in lines] == [str(vote) for vote in range(3) for _ in range(6)]
    normals = np.array([float(line["coefficient"]) for line in lines]).reshape(3, 6)
    assert (normals == model.halfspaces).all()
    assert [line["feature"] for line in lines[5::6]] == ["(intercept)"] * 3


# ---------------------------------------------------------------- SQL


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def run_sql(
    model: Model, columns: dict[str, Any], types: dict[str, str] | None = None, name: str = "rows"
) -> tuple[list[Any], list[Any]]:
    """Labels and scores, from the expressions and, the same, from the query."""
    database = sqlite3.connect(":memory:")
    kinds = [f"{quoted(column)} {(types or {}).get(column, 'REAL')}" for column in columns]
    database.execute(f"CREATE TABLE {quoted(name)} ({', '.join(kinds)})")
    marks = ", ".join("?" * len(columns))
    cells = zip(*(map(plain_cell, values) for values in columns.values()), strict=True)
    database.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", cells)
    sql = to_sql(model, table=name)
    command = f"SELECT {sql.label}, {sql.score} FROM {quoted(name)} ORDER BY rowid"
    found = database.execute(command).fetchall()
    cursor = database.execute(sql.query)
    added = [column[0] for column in cursor.description][-2:]
    assert added == ["replearn_score", "replearn_label"]
    assert [row[-2:][::-1] for row in cursor.fetchall()] == found
    return [label for label, _ in found], [score for _, score in found]


def plain_cell(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is None or value != value else value


@plain_models
def test_sql_predicts_the_same(model: Model) -> None:
    X = hostile_rows(model.n_features)
    labels, scores = run_sql(model, {f"x{i}": X[:, i] for i in range(model.n_features)})
    assert_same(model, X, X, labels, scores)


@pytest.mark.parametrize("weights", TIES)
def test_sql_keeps_ties(weights: tuple[int, ...]) -> None:
    X = tied_rows(TIES[weights])
    for kind in ("REAL", "INTEGER"):
        types = dict.fromkeys(("x0", "x1", "x2"), kind)
        labels, scores = run_sql(exact(*weights), {f"x{i}": X[:, i] for i in range(3)}, types)
        assert set(scores) == {0.0}
        assert set(labels) == {"healthy"}


@encoded_bases
@pytest.mark.parametrize("kind", ["INTEGER", "REAL", "TEXT"])
def test_sql_encodes_raw_columns(base: Model, kind: str) -> None:
    model, frame = encoded(base), table(400)
    columns = {name: frame[name].to_numpy() for name in frame}
    if kind == "TEXT":
        columns["code"] = np.array([None if c != c else f"{c:.0f}" for c in frame.code], object)
    labels, scores = run_sql(model, columns, {"site": "TEXT", "code": kind, "unused": "INTEGER"})
    assert_same(model, model.encoding.transform(frame), frame, labels, scores)


@pytest.mark.parametrize("model", [halfspace(2), majority(2)], ids=["halfspace", "majority"])
def test_sql_is_null_when_a_number_is_missing(model: Model) -> None:
    labels, scores = run_sql(model, {"x0": [1.0, None, None, 0.0], "x1": [None, 1.0, None, 0.0]})
    assert labels[:3] == scores[:3] == [None] * 3
    assert labels[3] == model.predict(np.zeros((1, 2)))[0]


@pytest.mark.slow
def test_sql_takes_more_columns_than_an_expression_may_be_deep() -> None:
    model = halfspace(1900)
    X = np.random.default_rng(0).normal(size=(20, 1900))
    labels, scores = run_sql(model, {f"x{i}": X[:, i] for i in range(1900)})
    assert_same(model, X, X, labels, scores)
    many = majority(3, n_rounds=1500)
    X = hostile_rows(3)
    labels, scores = run_sql(many, {f"x{i}": X[:, i] for i in range(3)})
    assert_same(many, X, X, labels, scores)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(
    st.lists(TEXTS.filter(bool), min_size=3, max_size=3, unique_by=lambda name: name.lower()),
    st.lists(TEXTS, min_size=2, max_size=2, unique=True),
    st.lists(TEXTS, min_size=2, max_size=2, unique=True),
    TEXTS,
)
def test_sql_takes_any_name_label_and_category(
    names: list[str], labels: list[str], categories: list[str], table_name: str
) -> None:
    encoding = Encoding(
        (
            CategoryColumn(names[0], tuple(categories)),
            NumberColumn(names[1], "-5.5", "3", True),
            NumberColumn(names[2], "0", "1"),
        )
    )
    model = halfspace(4, encoding=encoding, classes=(labels[0], labels[1]))
    columns = {
        names[0]: np.array([*categories, "other", None], dtype=object),
        names[1]: np.array([1.5, np.nan, -3.0, 1e6]),
        names[2]: np.array([0.0, 1.0, -2.0, 7.0]),
    }
    name = table_name if not table_name.lower().startswith("sqlite_") else "t"
    found, _ = run_sql(model, columns, {names[0]: "TEXT"}, name or "t")
    # numpy drops the ends of texts, so labels are taken from the model itself
    scores = model.decision_function(columns)
    assert found == [model.classes[int(score > 0)] for score in scores]


def test_sql_names_every_column_with_its_table() -> None:
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE "rows" (x0 REAL)')
    with pytest.raises(sqlite3.OperationalError, match=r"no such column.*x1"):
        database.execute(to_sql(halfspace(2)).query)


def test_sql_text_of_a_small_model() -> None:
    encoding = Encoding((NumberColumn("a", "-2.5", "4", True), CategoryColumn("c", ("it's", "b"))))
    sql = to_sql(exact(1, -1, 1, -1, encoding=encoding), table="t")
    assert sql.score == (
        '(5e-1 * COALESCE((("t"."a" - (-2.5e0)) / 4e0), 0e0)\n'
        "+ CASE \"t\".\"c\" WHEN 'it''s' THEN (-0.5e0) WHEN 'b' THEN 0.5e0 ELSE 0e0 END\n"
        "+ (-0.5e0))"
    ).replace("5e-1", "0.5e0")
    assert sql.label == f"(CASE WHEN {sql.score} > 0e0 THEN 'ill' ELSE 'healthy' END)"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_sql_numbers_are_doubles_that_read_back(value: float) -> None:
    text = number(value)
    assert re.fullmatch(r"\(-[0-9.]+e[+-]?[0-9]+\)|-?[0-9.]+e[+-]?[0-9]+", text)
    assert float(text.strip("()")) == value


def test_sqlite_reads_the_numbers() -> None:
    values = np.random.default_rng(0).normal(size=2000) * 10.0 ** np.arange(-10, 10).repeat(100)
    database = sqlite3.connect(":memory:")
    found = [database.execute(f"SELECT {number(value)}").fetchone()[0] for value in values.tolist()]
    assert all(isinstance(value, float) for value in found)
    np.testing.assert_array_max_ulp(np.array(found), values, 1)


# ---------------------------------------------------------------- what cannot be exported

EXPORTS = {"sklearn": rl.to_sklearn, "onnx": rl.to_onnx, "csv": rl.to_csv, "sql": rl.to_sql}
all_exports = pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS.keys())


@all_exports
def test_exports_need_a_model(export: Any) -> None:
    for wrong in (rl.ReplicableSVMClassifier(), LinearSVC(), None):
        with pytest.raises(rl.ReplearnError, match=r"needs a Model .* got .*Call fit first"):
            export(wrong)


@all_exports
def test_a_majority_of_nothing_is_refused(export: Any) -> None:
    with pytest.raises(rl.ReplearnError, match="majority of 0 halfspaces"):
        export(majority(n_rounds=0))


@all_exports
def test_categories_must_differ(export: Any) -> None:
    encoding = Encoding((CategoryColumn("c", ("a", "a")),))
    with pytest.raises(rl.ReplearnError, match=r"must differ .* 'c' twice"):
        export(halfspace(2, encoding=encoding))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"], ids=["NUL", "half a pair"])
def test_names_that_other_programs_cannot_read_are_refused(text: str) -> None:
    named = halfspace(1, feature_names=(text,))
    column = halfspace(1, encoding=Encoding((NumberColumn(text, "0", "1"),)))
    category = halfspace(1, encoding=Encoding((CategoryColumn("c", (text,)),)))
    label = halfspace(1, classes=("a", text))
    refused = [
        *[(rl.to_sql, model) for model in (named, column, category, label)],
        *[(rl.to_onnx, model) for model in (column, category, label)],
        *[(rl.to_csv, model) for model in (named, column, category)],
    ]
    for export, model in refused:
        with pytest.raises(rl.ReplearnError, match="must be plain text"):
            export(model)
    with pytest.raises(rl.ReplearnError, match="must be plain text"):
        to_sql(halfspace(1), table=text)


def test_onnx_inputs_and_labels_have_limits() -> None:
    with pytest.raises(rl.ReplearnError, match="must have a name"):
        rl.to_onnx(halfspace(1, encoding=Encoding((NumberColumn("", "0", "1"),))))
    with pytest.raises(rl.ReplearnError, match="64 bits"):
        rl.to_onnx(halfspace(1, classes=(0, 2**63)))


# ---------------------------------------------------------------- the page about it


def test_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/exports.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", page)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        for block in blocks:
            exec(compile(block, "docs/exports.md", "exec"), names)
    assert (tmp_path / "a.onnx").stat().st_size > 0


# --- formulas -----------------------------------------------------------------------------------

FORMULAS = ("=cmd|' /C calc'!A0", "+1", "-a", "@SUM(A1)", "\tx", " =1", "＝1")


def formula_model():
    encoding = Encoding(
        (
            *(NumberColumn(name, "-1", "2") for name in FORMULAS),
            CategoryColumn("plain", (FORMULAS[0], "west")),
        )
    )
    n_features = encoding.n_outputs
    return Model(
        recipe="svm",
        n_features=n_features,
        fit_intercept=False,
        space=CodeSpace(n_features, "none", n_features, "centre", "1"),
        seed="0",
        classes=("=no", "yes"),
        codes=np.arange(n_features) - 3,
        encoding=encoding,
        feature_names=encoding.output_names,
    )


def test_text_that_a_spreadsheet_would_compute_is_made_harmless_on_request():
    model = formula_model()
    plain = list(csv.reader(io.StringIO(rl.to_csv(model), newline="")))
    safe = list(csv.reader(io.StringIO(rl.to_csv(model, spreadsheet=True), newline="")))
    for before, after in zip(plain, safe, strict=True):
        for cell, shown in zip(before, after, strict=True):
            is_number = re.fullmatch(r"-?[0-9.e+-]+", cell) and cell not in FORMULAS
            if cell.lstrip(" ").startswith(tuple("=+-@\t＝")) and not is_number:
                assert shown == "'" + cell
            else:
                assert shown == cell
    assert sum(cell.startswith("'") for row in safe for cell in row) == 2 * len(FORMULAS) + 1
