"""Same means the same canonical bytes; otherwise the part that differs is named."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replearn as rl
from replearn.codes.comparison import compare
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.codes.model import Model
from replearn.codes.space import CodeSpace
from replearn.errors import ReplearnError

ENCODING = Encoding(
    (
        NumberColumn("age", "50", "10"),
        NumberColumn("dose", "0", "2", fill_missing=True),
        CategoryColumn("ward", ("east", "west")),
    )
)
MODEL = Model(
    recipe="svm",
    n_features=4,
    fit_intercept=True,
    space=CodeSpace(5, "none", 5, "centre", "0.25"),
    seed="2024",
    classes=(0, 1),
    codes=np.array([3, -1, 0, 7, 2]),
)
ENCODED = replace(MODEL, encoding=ENCODING, feature_names=ENCODING.output_names)


def moved_age(centre: str) -> Encoding:
    return Encoding((NumberColumn("age", centre, "10"), *ENCODING.columns[1:]))


CHANGES: dict[str, Model] = {
    "encoding": replace(ENCODED, encoding=moved_age("20")),
    "codes": replace(ENCODED, codes=ENCODED.codes + np.array([0, 0, 1, 0, 0])),
    "classes": replace(ENCODED, classes=(False, True)),
    "seed": replace(ENCODED, seed="2025"),
    "space": replace(ENCODED, space=CodeSpace(5, "none", 5, "centre", "0.26")),
    "recipe": replace(ENCODED, recipe="sgd"),
}


@pytest.mark.parametrize("part", CHANGES)
def test_the_part_that_differs_is_named(part: str) -> None:
    result = compare(ENCODED, CHANGES[part])
    assert not result.same
    assert result.parts == (part,)
    assert len(result.differences) == 1


def test_models_that_predict_differently_are_not_the_same() -> None:
    """Two sites read age differently, with equal codes: this was called the same model."""
    other = CHANGES["encoding"]
    rows = pd.DataFrame({"age": [20.0, 45.0, 80.0], "dose": [1.0, 2.0, 3.0], "ward": ["east"] * 3})
    assert (ENCODED.predict(rows) != other.predict(rows)).any()
    result = compare(ENCODED, other, rows=rows)
    assert not result.same
    assert result.differences == ("column 'age' of the encoding has centre '50' and '20'",)
    changed = int((ENCODED.predict(rows) != other.predict(rows)).sum())
    assert (result.n_rows, result.n_rows_changed) == (3, changed)
    assert f"{changed} of 3 given rows get another class" in str(result)


def test_booleans_are_not_numbers() -> None:
    result = compare(MODEL, replace(MODEL, classes=(False, True)), rows=np.eye(4))
    assert not result.same
    assert result.differences == ("classes is [0, 1] and [False, True]",)
    assert result.n_rows_changed == 0  # 0 and False are the same class to a program that reads them


def test_an_encoding_on_one_side_only() -> None:
    result = compare(MODEL, replace(MODEL, encoding=ENCODING))
    assert result.parts == ("encoding",)
    assert "only the second has an encoding" in str(result)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (ENCODING.columns[:2], "only the first encodes the column 'ward'"),
        (ENCODING.columns[::-1], "the encoding has its columns in another order"),
        (
            (*ENCODING.columns[:2], CategoryColumn("ward", ("east", "north"))),
            "column 'ward' of the encoding has values ['east', 'west'] and ['east', 'north']",
        ),
    ],
)
def test_what_differs_in_the_encoding(columns: Any, sentence: str) -> None:
    encoding = Encoding(tuple(columns))
    other = replace(ENCODED, encoding=encoding, n_features=encoding.n_outputs)
    if encoding.n_outputs != 4:
        other = replace(other, space=CodeSpace(4, "none", 4, "centre", "0.25"), codes=np.zeros(4))
    assert sentence in compare(ENCODED, other).differences


def test_names_in_another_order_are_another_model() -> None:
    """The codes belong to positions: a table is read by name, so its rows would be read wrongly."""
    named = replace(MODEL, feature_names=("a", "b", "c", "d"))
    turned = replace(MODEL, feature_names=("d", "c", "b", "a"))
    assert named.fingerprint == turned.fingerprint
    result = compare(named, turned)
    assert not result.same
    assert result.parts == ("columns",)
    assert "column 'a' stands at place 1 in the first and at place 4 in the second" in str(result)


def test_other_names_at_the_same_places_are_mentioned() -> None:
    named = replace(MODEL, feature_names=("a", "b", "c", "d"))
    result = compare(named, replace(MODEL, feature_names=("a", "b", "c", "weight")))
    assert result.same
    assert result.notes == ("column 4 is named 'd' in the first and 'weight' in the second",)
    assert "note: column 4" in str(result)
    assert compare(named, MODEL).same
    assert compare(named, MODEL).notes == ("only the first names its columns",)


def test_a_model_is_the_same_as_itself_even_if_its_names_are_not_distinct() -> None:
    """Two columns of an encoding can have one name, as a number called "ward=east" would."""
    twice = replace(MODEL, feature_names=("a", "b", "b", "c"))
    assert compare(twice, twice).same
    assert not compare(twice, replace(MODEL, feature_names=("a", "b", "c", "b"))).same


def test_a_table_in_another_order_is_not_read_silently() -> None:
    named = replace(MODEL, feature_names=("a", "b", "c", "d"))
    table = pd.DataFrame(np.eye(4), columns=list("abcd")).assign(label=1)
    assert (named.predict(table) == MODEL.predict(np.eye(4))).all()
    turned = replace(MODEL, feature_names=("d", "c", "b", "a"))
    for model, frame in ((turned, table), (named, table[list("dcba")])):
        with pytest.raises(ReplearnError, match="must have its columns in the order of the model"):
            model.predict(frame)
        with pytest.raises(ReplearnError, match="must have its columns in the order of the model"):
            model.predict(pa.Table.from_pandas(frame))
        assert model.predict(frame[list(model.feature_names or ())]).size == 4


def test_a_table_is_read_by_name_where_the_fingerprint_covers_the_names() -> None:
    table = pd.DataFrame({"age": [20.0, 80.0], "dose": [1.0, 3.0], "ward": ["east", "west"]})
    assert (ENCODED.predict(table[["ward", "age", "dose"]]) == ENCODED.predict(table)).all()


@given(st.integers(0, 5), st.integers(0, 5))
def test_same_is_equality_of_the_canonical_bytes(i: int, j: int) -> None:
    models = list(CHANGES.values())
    first, second = models[i], models[j]
    assert compare(first, second).same == (first.canonical_bytes() == second.canonical_bytes())


def test_an_angle_needs_the_same_inputs() -> None:
    assert compare(MODEL, MODEL).angle_degrees == 0
    assert compare(ENCODED, CHANGES["codes"]).angle_degrees == pytest.approx(
        np.degrees(np.arccos(ENCODED.direction @ CHANGES["codes"].direction))
    )
    assert compare(ENCODED, CHANGES["encoding"]).angle_degrees is None  # other inputs


@pytest.mark.parametrize("labels", [(False, True), (0, 1), (0.0, 1.0), (np.int8(0), np.int8(1))])
def test_one_protocol_gives_one_model_whatever_the_type_of_the_labels(labels: Any) -> None:
    X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    estimator = rl.ReplicableSVMClassifier(
        margin=0.3, max_disagreement=0.9, published=rl.Published(classes=(0, 1))
    )
    fitted = estimator.fit(X, np.where(y > 0, labels[1], labels[0]))
    assert fitted.model_.content()["classes"] == [0, 1]
    assert [type(label) for label in fitted.model_.classes] == [int, int]
