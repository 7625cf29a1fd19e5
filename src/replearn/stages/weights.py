"""Weights of rows become whole numbers here and nowhere else."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.types import IntegerArray

#: Weights count in parts of 1/1024, at every lab: a weight is rounded to the nearest multiple.
GRAINS = 1024

#: Largest weight: its grains fit into what the exact sums take.
LARGEST = 1 << 14

_WEIGHTED = {
    kind: np.dtype([("number", kind), ("grains", np.int64)])
    for kind in (np.dtype(np.uint8), np.dtype(np.float64))
}


def whole_weights(
    values: Any, n_rows: int, place: str = "sample_weight", first_row: int = 0
) -> IntegerArray:
    """Weights of rows in grains of 1/1024.

    Weights, or one number for all rows, are from 0 to 16,384. Whole numbers stay what they are, so
    that a weight of 3 counts like three equal rows, to the bit. ``place``, what holds the weights,
    and the number of the first row are for messages.

    Examples
    --------
    >>> whole_weights([1, 0.5, 1 / 3], 3).tolist()
    [1024, 512, 341]
    """
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ReplearnError(f"{place} must hold numbers, got {values!r:.80}.") from None
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ReplearnError(
            f"{place} must have shape ({n_rows},), one weight for each row, got {weights.shape}."
        )
    fine = (weights >= 0) & (weights <= LARGEST)
    if not fine.all():
        row = int(np.argmin(fine))
        raise ReplearnError(
            f"{place} must hold numbers from 0 to {LARGEST:,}, got {weights[row]:g} in row "
            f"{first_row + row}. Only the ratios of weights matter: divide all by the same number, "
            "which all labs agree on."
        )
    grains = np.rint(weights * GRAINS).astype(np.int64)
    lost = (grains == 0) & (weights > 0)
    if lost.any():
        row = int(np.argmax(lost))
        raise ReplearnError(
            f"{place} is rounded to multiples of 1/{GRAINS}, so that sums are exact, and "
            f"{weights[row]:g} in row {first_row + row} would become 0. Only the ratios of weights "
            "matter: multiply all by the same number, which all labs agree on."
        )
    return grains


def with_weights(numbers: NDArray[Any], grains: IntegerArray | None) -> NDArray[Any]:
    """Targets of rows together with their weights, in one array; without any, as they are.

    Targets are numbers of classes, or what is regressed on.
    """
    if grains is None:
        return numbers
    both = np.empty(numbers.size, dtype=_WEIGHTED[numbers.dtype])
    both["number"], both["grains"] = numbers, grains
    return both


def parted(targets: NDArray[Any]) -> tuple[NDArray[Any], IntegerArray | None]:
    """Targets and weights of `with_weights`."""
    if targets.dtype.names is None:
        return targets, None
    return np.ascontiguousarray(targets["number"]), np.ascontiguousarray(targets["grains"])
