"""Labels of rows that are on many machines: which two there are, and how they follow each other."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.estimators.base import two_classes
from replearn.sources.labels import distinct
from replearn.stages.batches import LabelRuns
from replearn.types import Signs


class TwoLabels(Protocol):
    """Two labels that are learned from parts of the rows: `Labels` in files, or `ArrayLabels`."""

    @property
    def known(self) -> bool:
        """Whether both labels have been seen."""

    @property
    def classes(self) -> NDArray[Any]:
        """The two labels, in ascending order; an error if there are not two."""

    def learn(self, y: NDArray[Any]) -> None:
        """See the labels of more rows."""

    def signs(self, y: NDArray[Any]) -> Signs:
        """Labels as signs; +1 is ``classes[1]``."""


class ArrayLabels:
    """Two labels as ``fit`` takes them from an array: text stays text, also if it is a number."""

    def __init__(self) -> None:
        self._seen: list[NDArray[Any]] = []

    @property
    def known(self) -> bool:
        """Whether both labels have been seen."""
        return self._distinct().size == 2

    @property
    def classes(self) -> NDArray[Any]:
        """The two labels, in ascending order."""
        return two_classes(self._distinct())[0]

    def learn(self, y: NDArray[Any]) -> None:
        """See the labels of more rows."""
        self._seen = [distinct(np.concatenate([*self._seen, distinct(y)]))]

    def signs(self, y: NDArray[Any]) -> Signs:
        """Labels as signs; +1 is ``classes[1]``."""
        low, high = self.classes
        positive = y == high
        if not (positive | (y == low)).all():
            raise ReplearnError(
                "y must hold the same labels whenever it is computed, got others the second time. "
                "Fix the seed of random partitions, or persist them."
            )
        return np.where(positive, np.int8(1), np.int8(-1))

    def _distinct(self) -> NDArray[Any]:
        return self._seen[0] if self._seen else np.empty(0)


@dataclass(frozen=True, eq=False)
class LabelPart:
    """What the labels of one part of the rows say.

    Attributes
    ----------
    n_rows : int
    labels : array
        The different ones.
    runs : LabelRuns or None
        None if there are not two labels here, so that their signs are not known yet.
    """

    n_rows: int
    labels: NDArray[Any]
    runs: LabelRuns | None

    @classmethod
    def of(cls, nothing_known: TwoLabels, y: NDArray[Any]) -> "LabelPart":
        """Look at the labels of a part.

        If it has two labels they are those of all rows, or else there is a third somewhere, and
        an error to come. So their signs are known here.
        """
        labels = deepcopy(nothing_known)
        labels.learn(y)
        runs = LabelRuns.of(labels.signs(y)) if labels.known else None
        return cls(y.size, distinct(y), runs)

    def all_runs(self, labels: TwoLabels) -> LabelRuns:
        """Runs, when both labels are known."""
        if self.runs is not None or self.n_rows == 0:
            return self.runs or LabelRuns()
        sign = int(labels.signs(self.labels)[0])
        return LabelRuns(self.n_rows, self.n_rows if sign > 0 else 0, 1, sign, sign)


def join_labels(labels: TwoLabels, parts: Iterable[LabelPart]) -> LabelRuns:
    """Learn the labels of all parts, and see how they follow each other."""
    every = list(parts)
    for part in every:
        if part.n_rows:
            labels.learn(part.labels)
    if not any(part.n_rows for part in every):
        raise ReplearnError("X must have rows, got none. Check the partitions.")
    _ = labels.classes  # refuses one label, or three
    return reduce(LabelRuns.then, (part.all_runs(labels) for part in every), LabelRuns())
