"""Model files: what is saved is loaded, and nothing else is."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from replearn.codes.comparison import compare
from replearn.codes.encoding import Encoding, NumberColumn
from replearn.codes.model import Model
from replearn.codes.space import CodeSpace
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.modelfile import load, save

MODEL = Model(
    recipe="svm",
    n_features=4,
    fit_intercept=True,
    space=CodeSpace(5, "none", 5, "centre", "0.25"),
    seed="2024",
    classes=("healthy", "ill"),
    codes=np.array([3, -1, 0, 7, 2]),
    feature_names=("age", "sex", "größe", "x"),
)


def saved(tmp_path: Path, model: Model = MODEL) -> Path:
    path = tmp_path / "a.model.json"
    save(model, path, provenance={"n_rows": 12})
    return path


def test_round_trip(tmp_path: Path) -> None:
    model = load(saved(tmp_path))
    assert model == MODEL
    assert model.feature_names == MODEL.feature_names
    assert model.fingerprint == MODEL.fingerprint
    X = np.random.default_rng(0).normal(size=(20, 4))
    assert (model.predict(X) == MODEL.predict(X)).all()


def test_the_file_is_canonical_json(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert path.read_bytes() == rfc8785.dumps(json.loads(path.read_text("utf-8"))) + b"\n"
    assert MODEL.canonical_bytes() == rfc8785.dumps(MODEL.content())


def test_the_fingerprint_covers_the_classifier_and_nothing_else(tmp_path: Path) -> None:
    assert replace(MODEL, feature_names=None).fingerprint == MODEL.fingerprint
    for change in (
        {"codes": MODEL.codes + 1},
        {"seed": "2025"},
        {"classes": ("ill", "well")},
        {"space": replace(MODEL.space, grid_width="0.26")},
        {"recipe": "sgd"},
    ):
        assert replace(MODEL, **change).fingerprint != MODEL.fingerprint


def test_decision_function_is_the_lifted_direction() -> None:
    X = np.random.default_rng(1).normal(size=(7, 4))
    with_one = np.hstack([X, np.ones((7, 1))])
    np.testing.assert_allclose(MODEL.decision_function(X), with_one @ MODEL.direction, rtol=1e-12)
    assert np.linalg.norm(MODEL.direction) == pytest.approx(1)


def test_wrong_number_of_columns() -> None:
    with pytest.raises(ReplearnError, match=r"must have 4 columns.*got shape"):
        MODEL.predict(np.zeros((2, 3)))


def test_a_dataframe_is_read_by_its_names() -> None:
    import pandas as pd

    X = np.random.default_rng(2).normal(size=(9, 4))
    frame = pd.DataFrame(X, columns=list(MODEL.feature_names or ()))
    assert (MODEL.predict(frame.assign(more=1.0)) == MODEL.predict(X)).all()
    with pytest.raises(ReplearnError, match="'x' where the model has 'age'"):
        MODEL.predict(frame[frame.columns[::-1]])
    with pytest.raises(ReplearnError, match="column 'sex' is not in the table"):
        MODEL.predict(frame.drop(columns="sex"))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_must_be_finite(value: float) -> None:
    X = np.zeros((3, 4))
    X[1, 2] = value
    with pytest.raises(ReplearnError, match="must be finite, got NaN or inf in row 1"):
        MODEL.predict(X)


def test_compare_says_where_models_differ() -> None:
    assert compare(MODEL, replace(MODEL)).same
    moved = replace(MODEL, codes=MODEL.codes + np.array([0, 0, 1, 0, 0]))
    result = compare(MODEL, moved)
    assert not result.same
    assert result.n_codes_differing == 1
    assert "1 of 5 codes" in str(result)
    assert result.angle_degrees == pytest.approx(
        np.degrees(np.arccos(MODEL.direction @ moved.direction))
    )
    other = compare(MODEL, replace(MODEL, seed="1", classes=("a", "b")))
    assert "seed is '2024' and '1'" in str(other)
    assert "classes" in str(other)


def edited(path: Path, edit: Any) -> Path:
    document = json.loads(path.read_text("utf-8"))
    edit(document)
    path.write_text(json.dumps(document), "utf-8")
    return path


BAD_EDITS = {
    "a text has half of a character": lambda d: d["model"].update(classes=["\ud800", "no"]),
    "altered": lambda d: d["model"]["codes"].__setitem__(0, 4),
    "unknown key": lambda d: d.__setitem__("extra", 1),
    "lacks": lambda d: d.pop("provenance"),
    "must be an object with the keys": lambda d: d["model"].pop("seed"),
    "list of 5 integers": lambda d: d["model"]["codes"].append(1),
    "at most 2.53": lambda d: d["model"]["codes"].__setitem__(0, 2**60),
    "codes must be integers": lambda d: d["model"]["codes"].__setitem__(0, 1.5),
    "version 99 is unknown": lambda d: d["model"].__setitem__("version", 99),
    "format must be": lambda d: d["model"].__setitem__("format", "pickle"),
    "projection must be one of": lambda d: d["model"]["space"].__setitem__("projection", "x"),
    "rounding must be one of": lambda d: d["model"]["space"].__setitem__("rounding", []),
    "n_components is 7 for 5": lambda d: d["model"]["space"].__setitem__("n_components", 7),
    "positive decimal": lambda d: d["model"]["space"].__setitem__("grid_width", "nan"),
    "grid_width must": lambda d: d["model"]["space"].__setitem__("grid_width", 0.25),
    "n_features must be an integer": lambda d: d["model"].__setitem__("n_features", 10**12),
    "fit_intercept must": lambda d: d["model"].__setitem__("fit_intercept", 1),
    "two different labels": lambda d: d["model"].__setitem__("classes", ["a", "a"]),
    "classes must be two": lambda d: d["model"].__setitem__("classes", ["a", 1]),
    "feature_names must be null": lambda d: d.__setitem__("feature_names", ["a"]),
    "feature_names must differ": lambda d: d.__setitem__("feature_names", ["a", "b", "c", "c"]),
    "seed must be a string": lambda d: d["model"].__setitem__("seed", 2024),
}


def test_names_beside_an_encoding_are_those_that_it_gives(tmp_path: Path) -> None:
    """They are shown and exported beside weights, and no fingerprint covers them."""
    encoding = Encoding(tuple(NumberColumn(name, "0", "1") for name in "abcd"))
    model = replace(MODEL, encoding=encoding, feature_names=encoding.output_names)
    path = tmp_path / "encoded.model.json"
    for names in (encoding.output_names, None):
        save(replace(model, feature_names=names), path)
        assert load(path).feature_names == names
    save(replace(model, feature_names=tuple("abdc")), path)
    with pytest.raises(InvalidFile, match="must be null or those of the encoding"):
        load(path)


@pytest.mark.parametrize("message", BAD_EDITS)
def test_a_damaged_file_is_refused(tmp_path: Path, message: str) -> None:
    path = edited(saved(tmp_path), BAD_EDITS[message])
    with pytest.raises(InvalidFile, match=message):
        load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b"[1, 2]", "one JSON object"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a": 1, "a": 2}', "appears twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_hostile_json_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=message):
        load(path)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_value_anywhere_gives_a_model_or_our_error(value: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder))
        original = path.read_text("utf-8")
        for key in MODEL.content():
            path.write_text(original, "utf-8")
            edited(path, lambda d, key=key: d["model"].__setitem__(key, value))
            try:
                load(path)
            except InvalidFile:
                continue


def test_saving_replaces_whole_files_or_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        save(MODEL, path, provenance={"object": object()})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]
