"""Labels: from a column of a table to class numbers, or to numbers to regress on."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from replearn.documents import MAX_WHOLE, Label
from replearn.errors import ReplearnError, short
from replearn.tables.cells import Column, column_from, is_number_text, levels_of, numbers_of
from replearn.types import Array, Ints, Ints32, Vector, unmasked

#: More classes than this are no classes, and would take hours.
MAX_CLASSES = 100
#: Whole numbers of more values than this, some of them rare, are measured or counted.
_MOST_NUMBERED = 20

_FEW_LABELS = 1 << 12  # that are looked at first
_LEAST_SHOWN = 10  # rows of a label that a message may quote
_YES_NO = {"0": "false", "1": "true", "false": "0", "true": "1"}


def learn_classes(column: Column) -> tuple[tuple[Label, ...], Ints32]:
    """The classes of an original, in order, and the place of each row's label among them.

    Whole numbers if all labels are, true and false if all are, else texts. A text that is a number
    counts as that: "1", 1 and 1.0 are one label. The second of two classes is the positive one.
    """
    codes, texts = _codes(column)
    counts = np.bincount(codes, minlength=len(texts))
    used = np.flatnonzero(counts)
    counts = counts[used]
    labels = sorted(texts[code] for code in used.tolist())
    is_numeric = all(map(is_number_text, labels))
    if is_numeric:
        _refuse_numbers(list(map(float, labels)))
    if len(labels) > MAX_CLASSES:
        raise ReplearnError(
            f"the target must hold at most {MAX_CLASSES:,} classes, got {len(labels):,}. Is it the "
            "label column? For a measured or counted number use kind=linear or kind=poisson "
            "(ReplicableLinearRegressor, ReplicablePoissonRegressor)."
        )
    if is_numeric and len(labels) > _MOST_NUMBERED and counts.min() < _LEAST_SHOWN:
        raise ReplearnError(
            f"the target must hold classes, each of {_LEAST_SHOWN} rows or more, got "
            f"{len(labels):,} different whole numbers, some of them rare. Is it a measurement, "
            "such as an age? Use kind=linear (ReplicableLinearRegressor), or kind=poisson for a "
            "count (ReplicablePoissonRegressor)."
        )
    if len(labels) < 2:
        raise ReplearnError(
            f"the target must hold two classes or more, got {len(labels)} class. A sample of one "
            "class cannot be learned from; check the label column."
        )

    # numbers by value, texts by their characters
    if is_numeric:
        labels.sort(key=float)
    order = {text: number for number, text in enumerate(labels)}
    numbers = np.array([order.get(text, -1) for text in texts], dtype=np.int32)[codes]

    if is_numeric:
        return tuple(int(float(text)) for text in labels), numbers
    if labels == ["false", "true"]:
        return (False, True), numbers
    return tuple(labels), numbers


def _refuse_numbers(labels: list[float]) -> None:
    """Refuse labels that are no whole numbers, or too large to be told apart."""
    if any(abs(number) > MAX_WHOLE for number in labels):
        raise ReplearnError(
            "the target must hold whole numbers of at most 2^53, or text, got larger ones, which "
            "float64 cannot tell apart. Write such labels as text, for instance with a letter."
        )
    if not all(number.is_integer() for number in labels):
        raise ReplearnError(
            "the target must hold whole numbers, booleans or text, got fractions (Unknown label "
            "type: continuous). Is it the label column? For a measurement use kind=linear "
            "(ReplicableLinearRegressor)."
        )


def class_numbers(column: Column, classes: Sequence[Label], show_values: bool = False) -> Ints:
    """The place of each row's label among the classes of a study.

    Where the classes are 0 and 1, false and true are taken for them, and the other way round.
    """
    codes, texts = _codes(column)
    places = {spelled(label): number for number, label in enumerate(classes)}
    if set(places) in ({"0", "1"}, {"false", "true"}):
        places |= {_YES_NO[text]: number for text, number in list(places.items())}
    numbers = np.array([places.get(text, -1) for text in texts] + [-1])[codes]
    if (numbers >= 0).all():
        return numbers

    counts = np.bincount(codes, minlength=len(texts))
    odd: Counter[str] = Counter()
    for text, count in zip(texts, counts.tolist(), strict=True):
        if count and text not in places:
            odd[text] = count

    # labels of a few rows are not quoted, unless someone asks for them
    shown = [repr(text) for text, n in odd.most_common(4) if show_values or n >= _LEAST_SHOWN]
    rows = f"{sum(odd.values()):,} of {len(codes):,} rows"
    if shown:
        rows += f": {', '.join(shown)}"
    wanted = ", ".join(map(repr, classes[:6]))
    raise ReplearnError(
        f"the target must hold the labels of the study, {wanted}, got others in {rows}. Recode "
        "them as the study has them."
    )


def spelled(label: Label) -> str:
    """A label as a cell has it."""
    if isinstance(label, bool):
        return str(label).lower()
    return str(label)


def classes_like(classes: Sequence[Label], y: Any) -> Array:
    """The classes, as an array spelled like the labels in memory: [1.0, 2.0] for floats."""
    given = np.asarray(unmasked(y))
    parts = [given]
    if given.dtype.kind in "iuf":
        # equal numbers are one label, so that a few that have all classes show how each is spelled
        parts.insert(0, given[:_FEW_LABELS])

    for labels in parts:
        if labels.dtype == object:
            # of several types, whose order means nothing here
            distinct = np.array(sorted(set(labels.tolist()), key=str), dtype=object)
        else:
            distinct = np.unique(labels)
        numbers = class_numbers(column_from(distinct), classes)
        if len(set(numbers.tolist())) == len(classes) == len(distinct):
            return distinct[np.argsort(numbers)].astype(given.dtype)
    return np.array(classes)


def target_numbers(column: Column, place: str = "the target", least: float | None = None) -> Vector:
    """Numbers to regress on, weights or offsets: one in every row, none below ``least``."""
    values, odd = numbers_of(column)
    n_absent = int(np.count_nonzero(np.isnan(values)))  # texts, or else gaps
    if n_absent:
        what, remedy = f"{n_absent:,} missing values (NaN)", "Fill in or leave out such rows."
        if odd is not None and odd.any():
            what = f"{np.count_nonzero(odd):,} texts"
            if place == "the event":
                remedy = "Write 1 where it was seen and 0 where the time is censored."
        raise ReplearnError(
            f"{place} must hold a number in every row, got {what} in {len(values):,} rows. {remedy}"
        )

    if least is not None and (values < least).any():
        n_below = int(np.count_nonzero(values < least))
        raise ReplearnError(
            f"{place} must hold numbers of at least {short(least)}, got smaller ones in "
            f"{n_below:,} of {len(values):,} rows. Check the column."
        )
    return values


def _codes(column: Column) -> tuple[Ints32, tuple[str, ...]]:
    codes, texts = levels_of(column)
    n_missing = int(np.count_nonzero(codes < 0))
    if n_missing:
        raise ReplearnError(
            f"the target must hold a label in every row, got {n_missing:,} missing labels (NaN) in "
            f"{len(codes):,} rows. Fill in or leave out such rows."
        )
    return codes, texts
