"""Two labels from pieces of a table: the same as from the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replearn.errors import ReplearnError
from replearn.sources.labels import Labels


def learned(*pieces):
    labels = Labels("a.csv")
    for piece in pieces:
        labels.learn(np.array(piece, dtype=object) if isinstance(piece, list) else piece)
    return labels


@given(st.lists(st.sampled_from(["no", "yes"]), min_size=1), st.integers(0, 20))
def test_pieces_and_the_whole_agree(values, cut):
    if len(set(values)) < 2:
        values = [*values, "no", "yes"]
    y = np.array(values, dtype=object)
    labels = Labels("x")
    labels.learn(y[:cut])
    labels.learn(y[cut:])
    assert labels.classes.tolist() == ["no", "yes"]
    assert labels.signs(y).tolist() == [1 if value == "yes" else -1 for value in values]


@pytest.mark.parametrize(
    ("pieces", "classes"),
    [
        ([["1", "0"]], [0, 1]),
        ([["1"], ["0", "1.0"]], [0.0, 1.0]),
        ([["10", "9"]], [9, 10]),  # numbers, not text
        ([["1"], ["a"]], ["1", "a"]),
        ([np.array([3, 2, 3])], [2, 3]),
        ([np.array([True]), np.array([False])], [False, True]),
        ([np.array([1.0]), np.array([-1.0])], [-1.0, 1.0]),
        ([["-1", "+1"]], [-1, 1]),
    ],
)
def test_labels_have_the_type_that_all_of_them_allow(pieces, classes):
    labels = learned(*pieces)
    assert labels.known
    assert labels.classes.tolist() == classes
    assert type(labels.classes.tolist()[0]) is type(classes[0])


def test_spellings_of_one_number_are_one_label():
    labels = learned(["1", "0", "1.0"])
    y = np.array(["1.0", "1", "0", "0.0"], dtype=object)
    assert labels.signs(y).tolist() == [1, 1, -1, -1]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([["a", "b"], ["c"]], "got more: 'a', 'b', 'c'"),
        ([np.array([0, 1]), np.array([2])], "got more: 0, 1, 2"),
        ([["0.5", "1.5"]], "whole numbers or text"),
        ([np.array([0.5, np.nan])], "NaN"),
    ],
)
def test_other_labels_are_refused_at_once(pieces, words):
    with pytest.raises(ReplearnError, match=words):
        learned(*pieces)


def test_one_label_is_refused_when_the_classes_are_asked_for():
    labels = learned(["a", "a"])
    assert not labels.known
    with pytest.raises(ReplearnError, match=r"a\.csv: the labels must have two values, got one"):
        _ = labels.classes
