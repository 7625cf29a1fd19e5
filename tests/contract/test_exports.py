"""Exports: other programs predict what the model predicts, on realistic and on hostile tables."""

import csv
import math
import pickle
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pytest

from replearn.codes.model import HalfspaceModel
from replearn.codes.space import CodeSpace
from replearn.errors import ReplearnError
from replearn.exports import to_csv, to_onnx, to_sklearn, to_sql
from replearn.losses import Bernoulli, Gaussian, Multinomial, Poisson
from replearn.recipes.coordinates import Coordinates
from replearn.recipes.design import Design
from replearn.recipes.model import Model
from replearn.tables import Encoding, LevelColumn, NumberColumn, Product

HOSTILE = 'say "x"; --\n%s {0}'

COLUMNS = (
    NumberColumn("age", "52.3", "12.5", knots=("35", "50.5", "71"), indicator=True),
    LevelColumn("select", ("north", "o'hara", "größe ☃", "(other)", "(missing)"), "None"),
    NumberColumn(HOSTILE, "0", "0.001"),
    LevelColumn("code", ("0.5", "2", "10", "1e-7"), "1"),
    NumberColumn("year", "2001.5", "0.25", knots=("2001.25",)),
    LevelColumn("label", ("true",), "false"),
    LevelColumn("=1+1", ("-", "(other)"), "+"),
    NumberColumn("income", "30000", "12000", indicator=True),
)
#: By number: 0 to 4 age, 5 to 9 select, 10 hostile, 11 to 14 code, 15 and 16 year, 17 label, ...
PRODUCTS = tuple(
    Product(*pair)
    for pair in [(0, 15), (0, 10), (0, 5), (8, 10), (5, 11), (8, 12), (12, 17), (6, 19), (20, 20)]
)
ENCODING = Encoding(COLUMNS, PRODUCTS)
NUMBERS = Encoding(tuple(NumberColumn(f"x{i}", "0.5", "0.25", ("0.4",)) for i in range(3)))


def glm(loss: Any, classes: Any = None, encoding: Encoding = ENCODING, **more: Any) -> Model:
    """A model with coefficients of about 1."""
    shape = loss.n_scores, encoding.n_terms + 1
    size = shape[0] * shape[1]
    one = 1 << 14
    columns = np.eye(shape[1], dtype=np.int64) * one
    design = Design(
        target="died",
        encoding=encoding,
        loss=loss,
        ridge="0.001",
        coordinates=Coordinates(np.eye(shape[0], dtype=np.int64) * one, columns),
        widths=("0.1",) * size,
        bits=0,
        seed="2026",
        classes=classes,
        **more,
    )
    return Model(design, np.random.default_rng(size).integers(-12, 13, size))


def halfspace(names: tuple[str, ...] | None, fit_intercept: bool = True) -> HalfspaceModel:
    n_inputs = 3 + fit_intercept
    space = CodeSpace("rounded", n_inputs, "none", n_inputs, "centre", "0.25", 0)
    codes = np.random.default_rng(n_inputs).integers(-9, 10, n_inputs)
    said = None if names is None else {"columns": list(names)}
    classes = ("well", "ill")
    return HalfspaceModel("svm", fit_intercept, space, "2026", classes, codes, provenance=said)


def table(n_rows: int = 10_000, seed: int = 0, has_missing: bool = True) -> pd.DataFrame:
    """Rows with outliers, levels that nobody has named, and gaps."""
    rng = np.random.default_rng(seed)

    def gaps(values: Any) -> Any:
        empty = np.nan if values.dtype.kind == "f" else None
        return np.where(rng.random(n_rows) < 0.1 * has_missing, empty, values)

    texts = np.array(["north", "o'hara", "größe ☃", "None", "south", " north\t", "Größe"], object)
    return pd.DataFrame(
        {
            "income": gaps(np.exp(rng.normal(10, 1.2, n_rows))),
            "select": pd.Series(gaps(rng.choice(texts, n_rows)), dtype=object),
            "code": gaps(rng.choice([1.0, 2.0, 10.0, 3.0, 0.5, 1e-7], n_rows)),
            HOSTILE: gaps(rng.standard_t(2, n_rows) / 500),
            "age": gaps(rng.normal(50, 30, n_rows).round(1)),
            "label": pd.Series(gaps(rng.random(n_rows) < 0.4), dtype=object),
            "year": gaps(rng.integers(1999, 2005, n_rows) + rng.choice([0, 0.25, 0.3], n_rows)),
            "=1+1": pd.Series(gaps(rng.choice(np.array(["+", "-", "="], object), n_rows))),
            "exposure": rng.normal(0, 0.5, n_rows),
        }
    )


def matrix(n_rows: int = 10_000) -> np.ndarray:
    return np.random.default_rng(1).normal(0.5, 0.6, size=(n_rows, 3))


REFUSING = replace(ENCODING, missing="refuse")
NAMED = tuple(f"x{i}" for i in (2, 0, 1))

MODELS: dict[str, Any] = {
    "logistic": glm(Bernoulli(), ("no", "o'yes")),
    "logistic, whole numbers": glm(Bernoulli(), (-1, 4)),
    "logistic, booleans, offset": glm(Bernoulli(), (False, True), offset="exposure"),
    "classes": glm(Multinomial(4), ("a", "it's", "b", "=c")),
    "classes, whole numbers": glm(Multinomial(3), (1, 2, 30)),
    "linear": glm(Gaussian("130", "21.5")),
    "counts": glm(Poisson(3), offset="exposure"),
    "refuses": glm(Bernoulli(), ("no", "yes"), REFUSING),
    "array": glm(Bernoulli(), (0, 1), NUMBERS),
    "array, linear": glm(Gaussian("0", "1"), encoding=NUMBERS),
    "halfspace": halfspace(None),
    "halfspace, names": halfspace(NAMED, fit_intercept=False),
}
every_model = pytest.mark.parametrize("name", MODELS)


def rows_for(model: Any) -> Any:
    """A table, or an array for models without names."""
    if model.feature_names[0] == "x0":
        return matrix()
    if model.feature_names == NAMED:
        return pd.DataFrame(matrix(), columns=["x0", "x1", "x2"])[list(NAMED)]
    return table(has_missing=not (model.design.encoding.missing == "refuse"))


def frame_of(rows: Any) -> pd.DataFrame:
    """Rows as a table of a database: with a number, since answers come in any order."""
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=sorted(NAMED))
    return frame.assign(number=np.arange(len(frame)))


def expected(model: Any, rows: Any) -> dict[str, Any]:
    if model.classes is None:
        return {"prediction": model.predict(rows)}
    found = {"label": model.predict(rows), "score": model.decision_function(rows)}
    if isinstance(model, Model):
        found["probabilities"] = model.predict_proba(rows)
    return found


def assert_same(model: Any, rows: Any, found: dict[str, Any]) -> None:
    wanted = expected(model, rows)
    assert set(found) == set(wanted)
    for key, values in wanted.items():
        if key == "label":
            assert (np.asarray(found[key]) == values).all()
            assert set(values.tolist()) == set(model.classes)
        else:
            got = np.asarray(found[key], dtype=np.float64)
            assert got.shape == values.shape
            scale = np.maximum(1.0, np.abs(values))
            assert (np.abs(got - values) / scale).max() <= 1e-12, key


# --- SQL ------------------------------------------------------------------------------------------


def from_sql(model: Any, answers: pd.DataFrame) -> dict[str, Any]:
    """The predictions among the columns of an answer."""
    answers = answers.sort_values("number", ignore_index=True)
    if model.classes is None:
        return {"prediction": answers["replearn_prediction"]}
    found: dict[str, Any] = {"label": answers["replearn_label"].to_numpy()}
    if len(model.classes) == 2:
        found["score"] = answers["replearn_score"]
        if "replearn_probability" in answers:
            second = answers["replearn_probability"].astype(float)
            found["probabilities"] = np.column_stack([1 - second, second])
        return found
    places = range(len(model.classes))
    found["score"] = np.column_stack(
        [np.zeros(len(answers)), *(answers[f"replearn_score_{k}"] for k in places[1:])]
    )
    found["probabilities"] = answers[[f"replearn_probability_{k}" for k in places]]
    return found


def in_sqlite(statement: str, frame: pd.DataFrame, name: str = "rows") -> pd.DataFrame:
    with sqlite3.connect(":memory:") as connection:
        frame.to_sql(name, connection, index=False)
        return pd.read_sql(statement, connection)


def in_duckdb(statement: str, frame: pd.DataFrame) -> pd.DataFrame:
    with duckdb.connect() as connection:
        connection.register("rows", frame)
        return connection.execute(statement).df()


@every_model
def test_sqlite(name: str) -> None:
    model = MODELS[name]
    rows = rows_for(model)
    assert_same(model, rows, from_sql(model, in_sqlite(to_sql(model), frame_of(rows))))


@every_model
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])  # what we say to PostgreSQL runs there
def test_duckdb(name: str, dialect: Any) -> None:
    model = MODELS[name]
    rows = rows_for(model)
    answers = in_duckdb(to_sql(model, dialect=dialect), frame_of(rows))
    assert_same(model, rows, from_sql(model, answers))


# --- ONNX -----------------------------------------------------------------------------------------


def in_onnx(path: Path, model: Any, rows: Any) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {}
    for wanted in session.get_inputs():
        if wanted.name == "X":
            feed["X"] = rows
        elif wanted.type == "tensor(string)":
            column = rows[wanted.name]
            trimmed = [str(cell).strip() for cell in column.where(column.notna(), "")]
            feed[wanted.name] = np.array(trimmed, dtype=object)
        else:
            feed[wanted.name] = rows[wanted.name].to_numpy(dtype=np.float64)
    names = [output.name.rstrip("_") for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


@every_model
def test_onnx(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    rows = rows_for(model)
    to_onnx(model, tmp_path / "model.onnx")
    assert_same(model, rows, in_onnx(tmp_path / "model.onnx", model, rows))


# --- scikit-learn ---------------------------------------------------------------------------------


@every_model
def test_sklearn(name: str) -> None:
    model = MODELS[name]
    rows = rows_for(model)
    plain = pickle.loads(pickle.dumps(to_sklearn(model)))
    if model.classes is None:
        found = {"prediction": plain.predict(rows)}
    else:
        found = {"label": plain.predict(rows), "score": plain.decision_function(rows)}
        if hasattr(plain, "predict_proba"):
            found["probabilities"] = plain.predict_proba(rows)
    assert_same(model, rows, found)
