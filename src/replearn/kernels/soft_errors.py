"""Share of rows that noise would put on the wrong side, as an exact integer sum."""

import math
from typing import Any

import numpy as np

from replearn.kernels.compiler import njit
from replearn.kernels.lanes import row_dot_and_square
from replearn.kernels.rows import open_rows
from replearn.types import Signs, Vector

#: Soft errors are added up in these units, so that the order of the rows cannot matter.
QUANTUM = 2.0**30


@njit(cache=True, nogil=True)
def soft_error(score):
    """Chance that noise with standard deviation 1 turns the sign of ``score``, nearly.

    A cubic step instead of the normal tail (they differ by less than .023): additions and
    multiplications only, so the same bits everywhere.
    """
    t = min(max(0.5 - score / 4.2, 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


@njit(cache=True, nogil=True)
def _sum(rows, signs, direction, bias, noise):
    total, n_rows = np.int64(0), 0
    constant = bias * direction[-1]
    for i in range(signs.size):
        product, size = row_dot_and_square(rows, i, direction)
        size += bias
        if size > 0.0:
            score = signs[i] * (product + constant) / (math.sqrt(size) * noise)
            total += np.int64(np.rint(soft_error(score) * QUANTUM))
            n_rows += 1
    return total, n_rows


def sum_soft_errors(X: Any, signs: Signs, direction: Vector, noise: float) -> tuple[int, int]:
    """Sum of the soft errors of rows, in units of 2^-30, and the number of rows with a direction.

    If the direction is one longer than a row, its last entry is the intercept. ``noise`` is a
    standard deviation, on a row of length 1.
    """
    bias = 1.0 if direction.size > X.shape[1] else 0.0
    total, n_rows = _sum(open_rows(X), signs, direction, bias, noise)
    return int(total), int(n_rows)
