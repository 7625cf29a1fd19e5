"""The two labels of a table that comes in pieces."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import as_text
from replearn.errors import ReplearnError
from replearn.types import Signs


def typed_labels(texts: Sequence[str]) -> NDArray[Any]:
    """Labels as integers if all of them are, else as floats, else as text."""
    different = set(texts)
    for kind in (int, float):
        try:
            values = {text: kind(text) for text in different}
        except ValueError:
            continue
        return np.array([values[text] for text in texts])
    return np.array(texts)


class Labels:
    """Which two labels there are, and which rows have the second; a third is refused at once.

    Labels in text files are numbers if all of them are, so ``1`` and ``1.0`` are one label. Of two
    labels the larger one is +1, as in ``fit``.

    Parameters
    ----------
    place : str
        Where the labels come from, for messages.

    Examples
    --------
    >>> labels = Labels("a.csv")
    >>> labels.learn(np.array(["0", "1.0", "1"], dtype=object))
    >>> labels.classes
    array([0., 1.])
    >>> labels.signs(np.array(["1", "0"], dtype=object))
    array([ 1, -1], dtype=int8)
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._raw: set[Any] = set()  # as they stand in the file
        self._sign_of: dict[Any, int] = {}

    @property
    def known(self) -> bool:
        """Whether both labels have been seen."""
        return self._classes().size == 2

    @property
    def classes(self) -> NDArray[Any]:
        """The two labels, in ascending order."""
        classes = self._classes()
        if classes.size < 2:
            found = f"one: {classes.tolist()[0]!r}" if classes.size else "none"
            raise ReplearnError(
                f"{self._place}: the labels must have two values, got {found}. Check the label "
                "column; a sample of one class cannot be learned from."
            )
        return classes

    def learn(self, y: NDArray[Any]) -> None:
        """See the labels of more rows."""
        new = set(distinct(y).tolist()) - self._raw
        if not new:
            return
        if any(value != value for value in new):
            raise ReplearnError(
                f"{self._place}: a label must not be missing, got NaN. Leave out such rows."
            )
        self._raw |= new
        classes = self._classes()
        if classes.dtype.kind == "f" and not (classes == np.floor(classes)).all():
            raise ReplearnError(
                f"{self._place}: labels must be whole numbers or text, got "
                f"{classes.tolist()[0]!r}. Is it the label column? Turn a measurement into two "
                "classes first."
            )
        if classes.size > 2:
            raise ReplearnError(
                f"{self._place}: the labels must have two values, got more: "
                f"{', '.join(map(repr, classes.tolist()[:4]))}. Keep the rows of two labels, or "
                "name another label column."
            )
        if classes.size == 2:
            values = dict(zip(self._raw, _values(self._raw).tolist(), strict=True))
            low = classes.tolist()[0]
            self._sign_of = {raw: -1 if value == low else 1 for raw, value in values.items()}

    def signs(self, y: NDArray[Any]) -> Signs:
        """Labels as signs; +1 is ``classes[1]``."""
        self.learn(y)
        low_high = self.classes
        if y.dtype.kind in "biuf":
            return np.where(y == low_high[1], np.int8(1), np.int8(-1))
        return np.array([self._sign_of[value] for value in y.tolist()], dtype=np.int8)

    def _classes(self) -> NDArray[Any]:
        return np.unique(_values(self._raw)) if self._raw else np.array([])


def distinct(y: NDArray[Any]) -> NDArray[Any]:
    """The labels that occur, each once; two numbers without sorting all of them.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3, 3]))
    array([1, 3])
    """
    if y.dtype == object:
        found = list(dict.fromkeys(y.tolist()))
        values = np.empty(len(found), dtype=object)
        values[:] = found
        return values
    if y.dtype.kind in "biuf" and y.size:
        low, high = y.min(), y.max()
        if low != high and ((y == low) | (y == high)).all():
            return np.array([low, high], dtype=y.dtype)
    return np.unique(y)


def class_numbers(y: NDArray[Any], classes: Sequence[Any], place: str) -> NDArray[np.uint8]:
    """Places of labels among the classes of a model, however a file spells them.

    Parameters
    ----------
    y : array of labels
        As they stand in a file: 1, 1.0, "1" and "1.0" are one label.
    classes : sequence of labels
    place : str
        Where the labels come from, for messages.

    Returns
    -------
    numbers : uint8 array

    Examples
    --------
    >>> class_numbers(np.array(["1.0", "0", "1"], dtype=object), (0, 1), "a.csv")
    array([1, 0, 1], dtype=uint8)
    """
    known = {as_text(label): number for number, label in enumerate(classes)}
    places = {value: _place(value, known) for value in distinct(y).tolist()}
    odd = [value for value, number in places.items() if number is None]
    if odd:
        missing = any(as_text(value) is None for value in odd)
        got = "a missing label" if missing else ", ".join(repr(value) for value in odd[:4])
        raise ReplearnError(
            f"{place}: labels must be those of the model, {', '.join(map(repr, classes))}, got "
            f"{got}. {'Leave out such rows' if missing else 'Recode them'}, or name another label "
            "column."
        )
    if y.dtype.kind in "biuf":
        numbers = np.zeros(y.size, dtype=np.uint8)
        for value, number in places.items():
            numbers[y == value] = number or 0
        return numbers
    return np.array([places[value] for value in y.tolist()], dtype=np.uint8)


def _place(value: Any, known: dict[str | None, int]) -> int | None:
    """The class that a value means: as it stands, or as the number that it spells."""
    text = as_text(value)
    if text in known or not isinstance(value, str):
        return known.get(text)
    try:
        return known.get(as_text(float(value)))  # 007 is read as 7 in training, too
    except (ValueError, OverflowError):
        return None


def _values(raw: Collection[Any]) -> NDArray[Any]:
    if all(isinstance(value, str) for value in raw):
        return typed_labels(list(raw))
    if any(isinstance(value, str) for value in raw):  # numbers in one part, text in another
        return np.array([str(value) for value in raw])
    return np.array(list(raw))
