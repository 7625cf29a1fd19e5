"""Rows in a few published directions: shortened to a cap, projected in the order of ``lanes``."""

import math
from typing import Any, NamedTuple

import numpy as np

from replearn.kernels.compiler import by_kind, njit
from replearn.kernels.lanes import DenseRows, SparseRows, row_dot, row_square, square
from replearn.kernels.plain_lanes import N_LANES
from replearn.kernels.rows import HUGE, is_zero, open_rows, rescaled, take, unmarked
from replearn.kernels.scores import shortening
from replearn.types import Matrix, Vector

_ABREAST = 4  # directions of a sparse row that are done together
_TOGETHER = 8  # rows that meet a direction while it is in the cache: directions may be long
ZERO, CAPPED = range(2)  # places in the counts of rows


class Projected(NamedTuple):
    """Rows in the published directions.

    ``values``, of shape (n_directions, n_rows), are ``D x'``; rows of zeros only, and rows longer
    than the cap, are counted.
    """

    values: Matrix
    n_zero: int
    n_capped: int


def projection_units(directions: Matrix, cap: float) -> Vector:
    """Powers of two that no projection exceeds: 1 for the intercept, above ``cap ||D_j||``.

    The cap must be finite: without one there is no such number.
    """
    if not 0.0 < cap < math.inf:
        raise ValueError(
            f"cap must be positive and finite, got {cap}. "
            "Without a cap nothing bounds a projection: choose units, which cut projections."
        )
    lengths = [cap * math.sqrt(square(unmarked(row))) for row in np.ascontiguousarray(directions)]
    # a little more, for the roundings of a projection
    exponents = [math.frexp(length * (1.0 + 2.0**-20))[1] for length in lengths]
    return np.array([1.0] + [math.ldexp(1.0, exponent) for exponent in exponents])


def project(X: Any, directions: Matrix, cap: float = math.inf) -> Projected:
    """Shorten rows to the cap and project them.

    X is an array or a CSR matrix; C-ordered float32 or float64, and columns that ascend within a
    row, are used in place. The cap is between ``2^-400`` and ``2^300``, or inf.

    Notes
    -----
    ``<D_j, x> * (cap / ||x||)`` if ``<x, x> > cap * cap``, else ``<D_j, x>``; sums as in
    ``lanes``. A row with ``<x, x> >= 2^1000`` is first multiplied by a power of two.
    """
    rows = open_rows(X)
    values = np.empty((directions.shape[0], rows.members.size))
    counts = np.zeros(2, np.int64)
    fill_projected(
        rows, arranged(rows, directions), float(cap), 0, rows.members.size, values, counts
    )
    return Projected(values, *map(int, counts))


def arranged(rows: DenseRows | SparseRows, directions: Matrix) -> Matrix:
    """The directions as the loops want them: (k, d), or for sparse rows (d, at least k).

    A sparse row fetches a column's entry in four directions at once, from one place in memory.
    """
    if isinstance(rows, DenseRows):
        return unmarked(np.ascontiguousarray(directions, dtype=np.float64))
    k, d = directions.shape
    if k in (0, 2, 3):
        directions = np.concatenate([directions, np.zeros((_ABREAST - k, d))])
    return unmarked(np.ascontiguousarray(directions.T, dtype=np.float64))


@njit(cache=True, nogil=True)
def fill_projected(rows, table, cap, start, stop, out, counts):
    """Write the projections of rows ``start`` to ``stop`` to the first columns of ``out``.

    ``table`` is what ``arranged`` gives; ``counts`` of zero and of capped rows are raised.
    """
    work = np.empty(N_LANES * _ABREAST)
    for i in range(start, stop):
        if (i - start) % _TOGETHER == 0:
            fill_dots(rows, i, min(i + _TOGETHER, stop), table, work, out, i - start)
        size = row_square(rows, i)
        if size >= HUGE:
            single = rescaled(take(rows, i, i + 1), 0.0)
            size = row_square(single, 0)
            fill_dots(single, 0, 1, table, work, out, i - start)
        elif size == 0.0 and is_zero(rows, i):
            counts[ZERO] += 1
        if size > cap * cap:
            counts[CAPPED] += 1
            factor = shortening(size, cap)
            for j in range(out.shape[0]):
                out[j, i - start] *= factor


@by_kind
def fill_dots(rows, start, stop, table, work, out, place):
    """Write ``<x_i, D_j>`` for rows ``start`` to ``stop`` to ``out[j, place]`` and on."""

    def dense(rows, start, stop, table, work, out, place):
        for j in range(out.shape[0]):
            for i in range(start, stop):
                out[j, place + i - start] = row_dot(rows, i, table[j])

    def sparse(rows, start, stop, table, work, out, place):
        k = out.shape[0]
        for i in range(start, stop):
            here = place + i - start
            if k == 1:
                out[0, here] = row_dot(rows, i, table.reshape(-1))
                continue
            for first in range(0, k, _ABREAST):
                # the last four may overlap with the ones before: the same bits again
                _four_dots(rows, i, table, min(first, max(k - _ABREAST, 0)), work, out, here)

    return dense if rows.instance_class is DenseRows else sparse


@njit(cache=True, nogil=True)
def _four_dots(rows, i, table, first, work, out, place):
    """Four directions of a sparse row, in the order of ``lanes``: work[4 lane + direction]."""
    # unsigned: no look for negative indices
    j0 = np.uint64(first)
    j1, j2, j3 = j0 + np.uint64(1), j0 + np.uint64(2), j0 + np.uint64(3)
    member = rows.members[i]
    work[:] = 0.0
    for p in range(np.uint64(rows.indptr[member]), np.uint64(rows.indptr[member + 1])):
        x, column = np.float64(rows.data[p]), np.uint64(rows.indices[p])
        s0 = (column & np.uint64(N_LANES - 1)) * np.uint64(_ABREAST)
        s1, s2, s3 = s0 + np.uint64(1), s0 + np.uint64(2), s0 + np.uint64(3)
        # all loads before all stores: the compiler cannot know that they do not overlap
        moved0 = work[s0] + x * table[column, j0]
        moved1 = work[s1] + x * table[column, j1]
        moved2 = work[s2] + x * table[column, j2]
        moved3 = work[s3] + x * table[column, j3]
        work[s0], work[s1], work[s2], work[s3] = moved0, moved1, moved2, moved3
    half = N_LANES * _ABREAST // 2
    while half >= _ABREAST:
        for s in range(half):
            work[s] += work[s + half]
        half //= 2
    for j in range(min(_ABREAST, out.shape[0] - first)):
        out[first + j, place] = work[j]
