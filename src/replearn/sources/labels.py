"""Labels become numbers and signs here and nowhere else."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replearn.codes.encoding import as_text
from replearn.codes.model import Label
from replearn.errors import ReplearnError
from replearn.files.jsonfile import MAX_CLASSES

#: How two pairs of labels say the same.
_YES_NO = {"False": "0", "True": "1", "0": "False", "1": "True"}


class Labels:
    """Which labels there are, and which rows have which of them.

    Without ``known`` labels they are learned, and a third one is refused at once: of two labels
    the larger one is +1. Known ones (of a protocol, of a model, of a stream) win over the way in
    which a lab spells them, where the meaning is certain: 1, 1.0, "1" and, if the other label is
    0, True are one label. A missing label is always refused.

    Parameters
    ----------
    place : str, default="y"
        What holds the labels, for messages.
    known : sequence of labels, optional
        In the order of their numbers.
    whose : str, default="the protocol"
        Who knows them, for messages.
    remedy : str, optional
        Against labels that are not known ones, for messages.
    from_text : bool, default=False
        The labels come from files: text that is a number is one, if all of it is, so "1" and
        "1.0" are one label. Otherwise text stays text.
    many : bool, default=False
        There may be more than two labels, and targets are their numbers; otherwise signs.
    signs_of_two : bool, default=False
        With ``many``: if there are only two labels, targets are signs all the same.

    Examples
    --------
    >>> labels = Labels("a.csv", from_text=True)
    >>> labels.targets(np.array(["0", "1.0", "1"], dtype=object))
    array([-1,  1,  1], dtype=int8)
    >>> labels.classes
    array([0., 1.])
    >>> Labels(known=(0, 1)).values(np.array([False, True, True]))
    array([0, 1, 1])
    """

    def __init__(
        self,
        place: str = "y",
        known: Sequence[Any] | NDArray[Any] | None = None,
        *,
        whose: str = "the protocol",
        remedy: str = "Recode the labels, or use the protocol of this study.",
        from_text: bool = False,
        many: bool = False,
        signs_of_two: bool = False,
    ) -> None:
        self._place, self._whose, self._remedy = place, whose, remedy
        self._many, self._signs_of_two = many, signs_of_two
        self._from_text = from_text
        self._known = None if known is None else np.asarray(known)
        self._spellings: dict[Any, int] = {}  # as the labels stand in the rows, and their numbers
        self._dtypes: set[np.dtype[Any]] = set()  # of the rows
        self._classes = np.empty(0) if self._known is None else self._known
        self._class_of = np.empty(0, dtype=np.uint8)  # of each spelling

    @property
    def complete(self) -> bool:
        """Whether all labels are known by now."""
        return self._classes.size > 1

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, in the order of their numbers; there must be two at least."""
        if not self.complete:
            raise self._one_class()
        return self._classes

    def take(self, y: ArrayLike, where: str = "") -> NDArray[np.integer[Any]]:
        """Look at the labels of more rows, for numbers that `class_numbers` and `targets_of` read.

        ``where`` says what the rows are counted in, for messages: " of partition 3".
        """
        values = np.asarray(y)
        self._dtypes.add(values.dtype)
        if values.dtype.kind not in "biuf":
            return self._take_objects(values, where)
        if values.size == 0:
            return np.empty(0, dtype=np.uint8)
        low, high = values.min(), values.max()
        if low != low:  # NaN
            raise self._missing(int(np.argmax(np.isnan(values))), where)
        is_high = values == high
        n_others = values.size - np.count_nonzero(is_high)
        if low == high or np.count_nonzero(values == low) == n_others:  # most often: do not sort
            first, second = (self._number(value.item()) for value in (low, high))
            return np.uint8(first) ^ np.uint8(first ^ second) * is_high.view(np.uint8)
        different, inverse = np.unique(values, return_inverse=True)
        return np.array([self._number(value) for value in different.tolist()])[inverse]

    def class_numbers(self, taken: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
        """Places among ``classes`` of the labels that were taken."""
        return self._class_of.take(taken)

    def numbers(self, y: ArrayLike) -> NDArray[np.uint8]:
        """Places among ``classes`` of these labels."""
        return self.class_numbers(self.take(y))

    def targets(self, y: ArrayLike) -> NDArray[Any]:
        """These labels as the algorithm takes them: signs, or numbers if there may be many."""
        return self.targets_of(self.take(y))

    def targets_of(self, taken: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The same for labels that were taken."""
        if not self.complete:
            raise self._one_class()
        if not self._many or (self._signs_of_two and self._classes.size <= 2):
            return (2 * self._class_of.astype(np.int8) - 1).take(taken)
        return self._class_of.take(taken)

    def values(self, y: ArrayLike) -> NDArray[Any]:
        """These labels as ``classes`` spells them."""
        return self.classes[self.numbers(y)]

    def require_both(self) -> None:
        """Refuse rows of one class: nothing can be learned from them."""
        if np.unique(self._class_of).size < 2:
            raise self._one_class()

    # --- how labels are read ----------------------------------------------------------------------

    def _take_objects(self, y: NDArray[Any], where: str) -> NDArray[np.integer[Any]]:
        if y.dtype.kind not in "OU":
            raise self._unknown_kind(str(y.dtype))
        values = y.tolist()
        try:  # most often there is nothing new
            return np.fromiter(map(self._spellings.__getitem__, values), np.int32, len(values))
        except (KeyError, TypeError):
            self._learn_objects(values, where)
        return np.fromiter(map(self._spellings.__getitem__, values), np.int32, len(values))

    def _learn_objects(self, values: list[Any], where: str) -> None:
        try:
            for value in dict.fromkeys(values):
                if as_text(value) is None:
                    first = next(i for i, other in enumerate(values) if as_text(other) is None)
                    raise self._missing(first, where)
                self._number(value)
        except TypeError:  # lists, say, cannot be looked up
            odd = next(value for value in values if type(value).__hash__ is None)
            raise self._unknown_kind(type(odd).__name__) from None

    def _number(self, value: Any) -> int:
        """Number of a spelling, which may be new."""
        number = self._spellings.get(value)
        if number is not None:
            return number
        plain = value.item() if isinstance(value, np.generic) else value
        if not isinstance(plain, bool | int | float | str):
            raise self._unknown_kind(type(plain).__name__)
        spellings = [*self._spellings, plain]
        self._classes, self._class_of = self._read_outputs(spellings)
        self._spellings[value] = len(spellings) - 1
        return len(spellings) - 1

    def _read_outputs(self, spellings: Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        """The classes, and the place among them of each spelling."""
        if self._known is not None:
            return self._known, self._places(spellings)
        values = typed_labels(spellings) if self._from_text else _one_type(spellings)
        classes, places = np.unique(values, return_inverse=True)
        for value in classes.tolist():
            if isinstance(value, float) and not value.is_integer():
                raise self._unknown_kind("continuous", value)
        if classes.size > MAX_CLASSES:
            raise ReplearnError(
                f"{self._place} must hold at most {MAX_CLASSES} classes, got more. Is it the label "
                "column? Merge rare classes first."
            )
        if classes.size > 2 and not self._many:
            raise ReplearnError(
                f"{self._place} must hold two classes, got more: "
                f"{', '.join(map(repr, classes.tolist()[:4]))}. Only binary classification is "
                "supported here: keep the rows of two labels, use ReplicableLogisticClassifier or "
                "ReplicableSVMClassifier, or name another label column."
            )
        return self._in_type_of_rows(classes), places.astype(np.uint8)

    def _in_type_of_rows(self, classes: NDArray[Any]) -> NDArray[Any]:
        """The classes in the type of the rows, if that can hold them."""
        if len(self._dtypes) > 1 or self._from_text:
            return classes
        (dtype,) = self._dtypes
        same = {"i": "iu", "U": "UO"}.get(classes.dtype.kind, classes.dtype.kind)
        return classes.astype(dtype) if dtype.kind in same else classes

    def _places(self, spellings: Sequence[Any]) -> NDArray[np.uint8]:
        """Places among the known labels."""
        known = self._classes.tolist()
        places = {as_text(label): place for place, label in enumerate(known)}
        yes_no = len(places) == 2 and set(places) in ({"0", "1"}, {"False", "True"})
        of_numbers = not any(isinstance(label, str) for label in known)

        def place(value: Any) -> int | None:
            text = as_text(value)
            if text not in places and yes_no:
                text = _YES_NO.get(str(text))
            if text not in places and of_numbers and isinstance(value, str):
                text = _number_in(value)  # 007 is 7, as in training
            return places.get(text)

        found = [place(value) for value in spellings]
        odd = [value for value, at in zip(spellings, found, strict=True) if at is None]
        if odd:
            wanted = " and ".join(filter(None, [", ".join(map(repr, known[:-1])), repr(known[-1])]))
            raise ReplearnError(
                f"{self._place} must hold the labels of {self._whose}, {wanted}, got "
                f"{', '.join(map(repr, odd[:4]))}. {self._remedy}"
            )
        return np.array(found, dtype=np.uint8)

    # --- what is refused --------------------------------------------------------------------------

    def _missing(self, row: int, where: str) -> ReplearnError:
        return ReplearnError(
            f"{self._place} must hold a label in every row, got a missing label in row {row}"
            f"{where} (counted from 0). Fill it in, or leave out the row."
        )

    def _one_class(self) -> ReplearnError:
        seen = [self._classes[i] for i in np.unique(self._class_of)]
        got = f"one class: {np.array(seen).tolist()[0]!r}" if seen else "none"
        return ReplearnError(
            f"{self._place} must hold two classes, got {got}. Check the label column; a sample of "
            "one class cannot be learned from."
        )

    def _unknown_kind(self, kind: str, value: Any = None) -> ReplearnError:
        got = kind if value is None else f"{value!r}"
        return ReplearnError(
            f"{self._place} must hold whole numbers, booleans or text, got {got} (Unknown label "
            f"type: {kind}). Is it the label column? Turn a measurement into two classes first."
        )


def _number_in(text: str) -> str | None:
    try:
        return as_text(float(text))
    except (ValueError, OverflowError):
        return None


def _one_type(values: Iterable[Any]) -> NDArray[Any]:
    """Numbers in one part and text in another are all text."""
    values = list(values)
    if any(isinstance(value, str) for value in values):
        return np.array([str(value) for value in values])
    return np.array(values)


def typed_labels(labels: Sequence[Any]) -> NDArray[Any]:
    """Labels of files: text as integers if all of it is, else as floats, else as text."""
    if not all(isinstance(label, str) for label in labels):
        return _one_type(labels)
    different = set(labels)
    for kind in (int, float):
        try:
            values = {text: kind(text) for text in different}
        except ValueError:
            continue
        return np.array([values[text] for text in labels])
    return np.array(labels)


def label_values(classes: NDArray[Any]) -> tuple[Label, ...]:
    """The labels as they stand in a model file; 1.0 is written as 1."""
    values = [
        int(label) if isinstance(label, float) and label.is_integer() else label
        for label in classes.tolist()
    ]
    if all(isinstance(label, bool | int | str) for label in values):
        return tuple(values)
    return tuple(map(str, values))
