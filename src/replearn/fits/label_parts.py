"""Labels of rows that are on many machines: which two there are, and how they follow each other."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.sources.labels import Labels
from replearn.stages.batches import LabelRuns


@dataclass(frozen=True, eq=False)
class LabelPart:
    """What the labels of one part of the rows say."""

    n_rows: int
    labels: NDArray[Any]  # the different ones, as they stand
    runs: LabelRuns | None  # None if there are not two labels here: their signs are not known yet

    @classmethod
    def of(cls, nothing_known: Labels, y: NDArray[Any], where: str = "") -> "LabelPart":
        """Look at the labels of a part.

        If it has two labels they are those of all rows, or else there is a third somewhere, and
        an error to come. So their signs are known here.
        """
        labels = deepcopy(nothing_known)
        taken = labels.take(y, where)
        runs = LabelRuns.of(labels.targets_of(taken)) if labels.complete else None
        _, first = np.unique(taken, return_index=True)
        return cls(y.size, y[first], runs)

    def all_runs(self, labels: Labels) -> LabelRuns:
        """Runs, when both labels are known."""
        if self.runs is not None or self.n_rows == 0:
            return self.runs or LabelRuns()
        sign = int(labels.targets(self.labels)[0])
        return LabelRuns(self.n_rows, self.n_rows if sign > 0 else 0, 1, sign, sign)


def labels_of(estimator: Any, place: str = "y") -> Labels:
    """What turns labels into signs, of a classifier."""
    labels = estimator.labels(place)
    if not isinstance(labels, Labels):
        raise ReplearnError(
            f"rows on a cluster are for classifiers, got {type(estimator).__name__}. Write them as "
            "Parquet files, and use fit_file."
        )
    return labels


def join_labels(labels: Labels, parts: Iterable[LabelPart]) -> LabelRuns:
    """Learn the labels of all parts, and see how they follow each other."""
    every = list(parts)
    for part in every:
        if part.n_rows:
            labels.take(part.labels)
    if not any(part.n_rows for part in every):
        raise ReplearnError("X must have rows, got none. Check the partitions.")
    labels.require_both()
    return reduce(LabelRuns.then, (part.all_runs(labels) for part in every), LabelRuns())
