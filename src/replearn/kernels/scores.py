"""Scores of rows, with the same bits on every machine: a label must not depend on BLAS."""

import math
from typing import Any

import numpy as np

from replearn.kernels import portable
from replearn.kernels.compiler import INTERPRETED, njit
from replearn.kernels.lanes import DenseRows, SparseRows, row_dot, row_square
from replearn.kernels.rows import HUGE, ascending, open_rows, rescaled, take, unmarked
from replearn.types import Matrix, Vector


def scores(X: Any, weights: Vector, constant: float) -> Vector:
    """``<x, weights> + constant`` of each row; see ``lanes`` for the order of the sums."""
    if INTERPRETED:
        return capped_scores(X, weights, constant)
    out = np.empty(X.shape[0])
    _fill(open_rows(X), unmarked(np.ascontiguousarray(weights)), constant, out)
    return out


def capped_scores(
    X: Any, coef: Vector | Matrix, intercept: float | Vector, cap: float = math.inf
) -> Vector | Matrix:
    """``<x', coef> + intercept``, where x' is the row, shortened to length ``cap`` if longer.

    X is an array or a CSR matrix of numbers of any type. With ``coef`` of shape (n_outputs,
    n_features) there is a column for each output. The cap is between ``2^-400`` and ``2^300``, or
    inf: then these are ``scores``.

    Notes
    -----
    ``<x, coef> * (cap / ||x||) + intercept`` if ``<x, x> > cap * cap``. A row with
    ``<x, x> >= 2^1000`` is first multiplied by a power of two.
    """
    vectors = np.ascontiguousarray(np.atleast_2d(coef))
    constants = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    rows = open_rows(X)
    out = np.empty((X.shape[0], vectors.shape[0]))
    if INTERPRETED:
        matrix = rows.X if isinstance(rows, DenseRows) else ascending(X)
        _fill_in_numpy(matrix, rows, vectors, constants, float(cap), out)
    else:
        _fill_capped(rows, unmarked(vectors), unmarked(constants), float(cap), out)
    return out if np.ndim(coef) == 2 else out[:, 0]


def _fill_in_numpy(
    matrix: Any,
    rows: DenseRows | SparseRows,
    vectors: Matrix,
    constants: Vector,
    cap: float,
    out: Matrix,
) -> None:
    """All rows at once, where nothing is compiled; rows of extreme length one by one."""
    with np.errstate(over="ignore", invalid="ignore"):
        out[:] = portable.capped_scores(matrix, vectors, constants, cap)
        sizes = portable.lane_sums(matrix, None) if cap < math.inf else np.zeros(len(out))
    for i in np.flatnonzero(sizes >= HUGE):
        _fill_capped(take(rows, i, i + 1), vectors, constants, cap, out[i : i + 1])


@njit(cache=True, nogil=True)
def _fill(rows, weights, constant, out):
    for i in range(out.size):
        out[i] = row_dot(rows, i, weights) + constant


@njit(cache=True, nogil=True)
def _fill_capped(rows, vectors, constants, cap, out):
    for i in range(out.shape[0]):
        size = row_square(rows, i) if cap < math.inf else 0.0
        if size >= HUGE:
            single = rescaled(take(rows, i, i + 1), 0.0)
            factor = shortening(row_square(single, 0), cap)
            for c in range(constants.size):
                out[i, c] = row_dot(single, 0, vectors[c]) * factor + constants[c]
        else:
            factor = shortening(size, cap)
            for c in range(constants.size):
                out[i, c] = row_dot(rows, i, vectors[c]) * factor + constants[c]


@njit(cache=True, nogil=True)
def shortening(size, cap):
    """What a row of squared length ``size`` is multiplied by to be no longer than the cap."""
    return cap / math.sqrt(size) if size > cap * cap else 1.0
