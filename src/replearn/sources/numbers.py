"""Numbers to regress on: from a column of a table to a published range."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replearn.codes.score_space import ScoreSpace
from replearn.errors import ReplearnError

_SHOWN = 40


class Numbers:
    """What turns a column into targets of a regression; it stands where `Labels` do for classes.

    ``place`` is for messages, ``space`` has the published range.
    """

    def __init__(self, place: str, space: ScoreSpace) -> None:
        self._place = place
        self._centre, self._width = (float(number) for number in space.target)
        self._n_taken = self._n_cut = 0

    @property
    def complete(self) -> bool:
        """Whether all classes are known: there are none."""
        return True

    @property
    def classes(self) -> NDArray[Any]:
        """No labels."""
        return np.empty(0, dtype=object)

    @property
    def share_cut(self) -> float:
        """Share of the numbers that were beyond the range, and cut to it."""
        return self._n_cut / max(1, self._n_taken)

    def take(self, y: ArrayLike, where: str = "") -> NDArray[np.float64]:
        """The numbers of some rows, whatever they are written as."""
        given = np.asarray(y)
        try:
            numbers = given.astype(np.float64)
        except (TypeError, ValueError):
            raise ReplearnError(
                f"{self._place} must hold numbers{where}, got {_first_odd(given)}. Labels need a "
                "classifier, such as ReplicableLogisticClassifier."
            ) from None
        fine = np.isfinite(numbers)
        if not fine.all():
            row = int(np.argmin(fine))
            raise ReplearnError(
                f"{self._place} must be finite{where}, got {numbers[row]} in row {row}. Drop such "
                "rows."
            )
        return numbers

    def targets_of(self, taken: NDArray[np.float64]) -> NDArray[np.float64]:
        """From -1/2 to 1/2 over the published range; what is beyond it is cut."""
        scaled = (taken - self._centre) / self._width
        self._n_taken += taken.size
        self._n_cut += int(np.count_nonzero(np.abs(scaled) > 0.5))
        return np.clip(scaled, -0.5, 0.5)

    def targets(self, y: ArrayLike) -> NDArray[np.float64]:
        """Both at once."""
        return self.targets_of(self.take(y))

    def require_both(self) -> None:
        """Nothing: numbers may all be equal."""


def _first_odd(given: NDArray[Any]) -> str:
    for value in given.ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            return repr(value)[:_SHOWN]
    return str(given.dtype)
