"""Two halves of some rows, for the test of signal: sums of each, and scores by the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import njit
from replearn.kernels.lanes import row_dot, row_prefetch
from replearn.kernels.rows import open_rows
from replearn.types import Matrix, Order, Vector

#: Rows that are asked for before they are needed: twice as fast in random order.
_AHEAD = 4


def half_sums(X: Matrix, members: Order, positive: NDArray[np.bool_]) -> tuple[Any, Matrix]:
    """Sums of rows by half and class, and sums of their squares by half.

    Every second member is of the second half. Sums have shape (2, 2, n_features): by half, of the
    negative and of the positive rows; squares (2, n_features). Both of the distances from the first
    of the rows: squares of columns whose mean is far from 0 would lose their digits.
    """
    sums, squares = np.zeros((2, 2, X.shape[1])), np.zeros((2, X.shape[1]))
    origin = X[members[0]].astype(np.float64)
    rows = open_rows(X, np.ascontiguousarray(members))
    _add_halves(rows, positive.astype(np.int64), origin, sums, squares)
    return sums, squares


def crossed_scores(X: Matrix, members: Order, directions: Matrix) -> Vector:
    """Scores of the rows, those of each half by the direction of the other one."""
    out = np.empty(members.size)
    _score_halves(open_rows(X, np.ascontiguousarray(members)), *directions, out)
    return out


@njit(cache=True, nogil=True)
def _add_halves(rows, kinds, origin, sums, squares):
    for i in range(kinds.size):
        if i + _AHEAD < kinds.size:
            row_prefetch(rows, i + _AHEAD)
        row, half = rows.X[rows.members[i]], i % 2
        total, square = sums[half, kinds[i]], squares[half]
        for j in range(row.size):
            value = row[j] - origin[j]
            total[j] += value
            square[j] += value * value


@njit(cache=True, nogil=True)
def _score_halves(rows, first, second, out):
    for i in range(out.size):
        if i + _AHEAD < out.size:
            row_prefetch(rows, i + _AHEAD)
        out[i] = row_dot(rows, i, second if i % 2 == 0 else first)
