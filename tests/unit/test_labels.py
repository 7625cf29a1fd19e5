"""Labels: two and more classes, numbers and counts; the same however a lab spells them."""

import numpy as np
import pytest

from replearn.errors import ReplearnError
from replearn.tables import class_numbers, classes_like, learn_classes, target_numbers
from replearn.tables.cells import column_from


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 0, 1], (0, 1)),
        ([1.0, 2.0], (1, 2)),
        (["1", "0", "1.0"], (0, 1)),
        ([True, False], (False, True)),
        (["TRUE", "false"], (False, True)),
        (["b", "a", " a"], ("a", "b")),
        ([10, 9, -1], (-1, 9, 10)),
        (["10", "9", "x"], ("10", "9", "x")),
        ([0, True], ("0", "true")),
        (np.array(["c", "a", "b"]), ("a", "b", "c")),
    ],
)
def test_classes_of_an_original(labels, classes):
    found, numbers = learn_classes(column_from(labels))
    assert found == classes
    assert [type(label) for label in found] == [type(label) for label in classes]
    assert len(numbers) == len(labels)
    assert set(numbers.tolist()) == set(range(len(classes)))
    assert numbers.tolist() == class_numbers(column_from(labels), classes).tolist()


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, 1], "two classes or more, got 1 class"),
        ([], "got 0 class"),
        ([1, None], "got 1 missing labels"),
        (["a", "NA"], "got 1 missing labels"),
        ([0.5, 1.5], "continuous.*kind=linear"),
        (np.arange(2000), "at most 100 classes, got 2,000.*kind=linear"),
        (np.arange(64).repeat(9), "got 64 different whole numbers.*kind=linear"),
    ],
)
def test_labels_that_are_no_classes(labels, words):
    with pytest.raises(ReplearnError, match=words):
        learn_classes(column_from(labels))


def test_many_numbered_classes_with_rows_enough_are_classes():
    letters = np.arange(26).repeat(10)
    assert learn_classes(column_from(letters))[0] == tuple(range(26))


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ((0, 1), ["0", "1", "1.0", 1, 0.0, True, "False"]),
        ((False, True), [0, 1, 1, 1, 0, "1", "false"]),
        (("no", "yes"), ["no", "yes ", " yes", "yes", "no", "yes", "no"]),
    ],
)
def test_a_lab_may_spell_labels_differently(classes, labels):
    assert class_numbers(column_from(labels), classes).tolist() == [0, 1, 1, 1, 0, 1, 0]


def test_unknown_labels_are_counted():
    with pytest.raises(ReplearnError) as caught:
        class_numbers(column_from([1, 2] * 10 + [3]), (0, 1))
    text = str(caught.value)
    assert "must hold the labels of the study, 0, 1, got others in 11 of 21 rows: '2'." in text
    assert "'3'" not in text  # a value of fewer than ten people
    with pytest.raises(ReplearnError, match="'2', '3'"):
        class_numbers(column_from([1, 2] * 10 + [3]), (0, 1), show_values=True)
    with pytest.raises(ReplearnError, match="labels of the study"):
        class_numbers(column_from([True, False]), (1, 2))


@pytest.mark.parametrize(
    "y",
    [
        np.array([2.0, 1.0]),
        np.array(["b", "a"]),
        np.array(["b", "a"], dtype=object),
        np.array([True, False]),
        np.array(["2", "1"]),
        np.array([3, 1, 2], dtype=np.int8),
    ],
)
def test_classes_in_memory_keep_their_type(y):
    classes, _ = learn_classes(column_from(y))
    found = classes_like(classes, y)
    assert found.dtype == y.dtype
    assert found.tolist() == sorted(set(y.tolist()))


def test_numbers_to_regress_on():
    assert target_numbers(column_from(["1.5", 2, None][:2])).tolist() == [1.5, 2]
    assert target_numbers(column_from([0, 3.0]), least=0).tolist() == [0, 3]
    for labels, options, words in (
        ([1, None], {}, "1 missing values"),
        (["x", "1"], {}, "1 texts"),
        ([-1, 1], {"least": 0}, "at least 0, got smaller ones in 1 of 2"),
    ):
        with pytest.raises(ReplearnError, match=words):
            target_numbers(column_from(labels), **options)


def test_a_class_that_comes_late_is_spelled_like_the_others():
    y = np.zeros(10_000, dtype=np.float32)
    y[-1] = 1.0
    found = classes_like((0, 1), y)
    assert found.dtype == np.float32
    assert found.tolist() == [0.0, 1.0]
