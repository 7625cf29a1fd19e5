"""Files with the sums of a logistic stream."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.canonical import fingerprint_of
from replearn.codes.design import Design
from replearn.errors import InvalidFile
from replearn.files.statefile import Arrays, StateFile
from replearn.kernels.logistic import MAX_WEIGHT
from replearn.kernels.score_sums import (
    LIMB,
    LOW,
    MAX_TOTAL_WEIGHT,
    Parts,
    ScoreSums,
    integers_of,
    number_of_sums,
)

#: What the array "counts" holds: rows, rows of zeros, shortened and cut ones; then, with weights,
#: 1, the largest weight, and the sum of the squares in two limbs; without, zeros.
_N_COUNTS = 8


def sums_as_arrays(sums: ScoreSums) -> Arrays:
    """Sums as they stand in a state file."""
    weights = [0, 0, 0, 0]
    if sums.squares is not None:
        weights = [1, sums.heaviest, sums.squares >> LIMB, sums.squares & int(LOW)]
    counts = [sums.n_rows, sums.n_zero, sums.n_capped, sums.n_cut, *weights]
    return {
        "class_weights": np.asarray(sums.class_weights, dtype=np.int64),
        "counts": np.array(counts, dtype=np.int64),
        "limbs": sums.limbs,
    }


def read_sums(state: StateFile, design: Design) -> ScoreSums:
    """The sums of a state file, which must have been made with this design."""
    if state.about["design"] != fingerprint_of(design.content()):
        raise InvalidFile(
            f"{state.path} was saved with another design: other directions, start, cells or "
            "labels. Resume with the protocol that the stream was started with."
        )
    like = {
        "class_weights": np.empty(design.space.n_classes, np.int64),
        "counts": np.empty(_N_COUNTS, np.int64),
        "limbs": np.empty((2, n_sums_of(design)), np.int64),
    }
    arrays = state.arrays(like)
    if problem := _problem(**arrays):
        raise state.unfit(problem)
    counts = (int(number) for number in arrays["counts"])
    n_rows, n_zero, n_capped, n_cut, weighted, heaviest, high, low = counts
    numbers = integers_of(arrays["limbs"])
    try:
        sums = checked_sums(
            design, numbers, n_rows, n_zero, n_capped, n_cut, arrays["class_weights"]
        )
    except ValueError as refused:
        raise state.unfit(str(refused).rstrip(".")) from None
    return sums if not weighted else replace(sums, squares=(high << LIMB) + low, heaviest=heaviest)


def n_sums_of(design: Design) -> int:
    """How many sums the passes of a design make."""
    return number_of_sums(design.n_outputs, design.units.size, _parts(design))


def checked_sums(
    design: Design,
    numbers: list[int],
    n_rows: int,
    n_zero: int,
    n_capped: int,
    n_cut: int,
    class_weights: NDArray[np.int64],
) -> ScoreSums:
    """Sums from a file; a ValueError says what no rows can have given."""
    parts = _parts(design)
    sums = ScoreSums.from_integers(
        numbers, n_rows, n_zero, n_capped, n_cut, class_weights, design.units, parts
    )
    if problem := sums.contradiction():
        raise ValueError(problem)
    return sums


def _parts(design: Design) -> Parts:
    return Parts(fisher=True, second=True, loss=design.n_steps > 1)


def _problem(class_weights: NDArray[Any], counts: NDArray[Any], limbs: NDArray[Any]) -> str | None:
    """What no rows can have given, in words."""
    n_rows, *some = (int(number) for number in counts[:4])
    if not 1 <= n_rows <= MAX_TOTAL_WEIGHT or not all(0 <= n <= n_rows for n in some):
        return "its counts must be of rows"
    if not ((limbs[1] >= 0) & (limbs[1] <= LOW)).all():
        return f"its sums must have lower limbs of {LIMB} bits"
    weights = [int(weight) for weight in class_weights]
    total = sum(weights)
    if min(weights) < 0 or total > n_rows * MAX_WEIGHT:
        return "its weights of classes must be weights of rows"
    weighted, heaviest, hi, lo = (int(number) for number in counts[4:])
    squares = (hi << LIMB) + lo
    if weighted == 0:
        if total != n_rows or heaviest or hi or lo:
            return "rows without weights must weigh 1"
        return None
    fits = weighted == 1 and 0 <= heaviest <= MAX_WEIGHT and hi >= 0 and 0 <= lo <= int(LOW)
    # sums of squares lie between those of equal weights and of as few heavy rows as possible
    if not fits or not heaviest**2 <= squares <= heaviest * total or total**2 > n_rows * squares:
        return "its weights contradict each other"
    return None
