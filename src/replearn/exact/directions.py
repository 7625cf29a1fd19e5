"""Rows as directions in whole numbers: products with vectors, projections, weighted sums.

Only the direction of a row counts. It is rounded to whole numbers so small that every product and
every partial sum below is a whole number under 2^53: float64 holds these exactly, and no order of
additions, no thread and no BLAS can change a bit.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.exact.fixed_order_dot import largest_cells, rows_of_cells
from replearn.types import Ints, Matrix, Signs, Vector, is_sparse

Points = NDArray[np.float32]

#: A direction is at most this long: units of 2^-20.
UNIT_BITS = 20
_UNIT = float(1 << UNIT_BITS)

#: Bits of a projection's entries, and of a point: single precision holds 24.
_MAP_BITS, _POINT_BITS = 22, 23

#: Weights are counted in units of 2^-16: this many rows of 2^20 each then add up to 2^52.
WEIGHT_BITS = 16
_EXACT_ROWS = 1 << 16

#: Rows of a hundred columns that stay in a core's cache, where they are read a second time.
_CACHED_ROWS = 1 << 10


def unit_rows(X: Any, signs: Signs, n_inputs: int, buffer: Matrix | None = None) -> Any:
    """``y x / |x|`` in whole units of 2^-20, rounded; rows of zeros stay zeros.

    ``n_inputs`` of one more than the columns appends its own length to each row first: the
    constant 1 to ``x / |x|``. So no unit of the columns counts. Rows of an array are written into
    the buffer, if there is one.
    """
    # squares of so few bits add up below 2^53
    bits = min(24, (52 - n_inputs.bit_length()) // 2)
    top = _UNIT  # length of the columns' part
    if n_inputs > X.shape[1]:
        top *= math.sqrt(0.5)

    if is_sparse(X):
        return _unit_sparse(X, signs, n_inputs, bits, top)

    # 1. each row by a power of two: exact, and much faster than ldexp where floats hold the power
    units = np.empty((X.shape[0], n_inputs)) if buffer is None else buffer[: X.shape[0]]
    own = units[:, : X.shape[1]]
    shifts = bits - np.frexp(np.abs(X, out=own).max(axis=1))[1]
    if np.abs(shifts).max(initial=0) < 1000:
        np.multiply(X, np.ldexp(1.0, shifts)[:, None], out=own)
    else:
        np.ldexp(X.astype(np.float64, copy=False), shifts[:, None], out=own)
    np.rint(own, out=own)

    # 2. to its length, which is exact below the root
    lengths = np.sqrt(np.einsum("ij,ij->i", own, own))
    own *= (signs * top / np.maximum(lengths, 1.0))[:, None]
    if n_inputs > X.shape[1]:
        units[:, -1] = signs * top * (lengths > 0)
    return np.rint(units, out=units)


def _unit_sparse(X: Any, signs: Signs, n_inputs: int, bits: int, top: float) -> Any:
    from scipy import sparse

    owners = rows_of_cells(X)
    shifts = bits - np.frexp(largest_cells(X))[1]
    data = np.rint(np.ldexp(X.data.astype(np.float64), shifts[owners]))
    squares = np.bincount(owners, weights=data * data, minlength=X.shape[0])
    factors = signs * top / np.maximum(np.sqrt(squares), 1.0)

    units = sparse.csr_matrix((np.rint(data * factors[owners]), X.indices, X.indptr), shape=X.shape)
    if n_inputs > X.shape[1]:
        last = np.rint(signs * top * (squares > 0))[:, None]
        return sparse.hstack([units, sparse.csr_matrix(last)], format="csr")
    return units


def nonzero_rows(rows: Any) -> Any:
    """Which rows have a direction."""
    if is_sparse(rows):
        return largest_cells(rows) > 0

    # the first number tells of most rows
    nonzero = rows[:, 0] != 0
    unsure = np.flatnonzero(~nonzero)
    nonzero[unsure] = rows[unsure].any(axis=1)
    return nonzero


def products(rows: Any, vector: Vector) -> Vector:
    """``<row, vector>`` for directions of `unit_rows`; the vector is rounded to a grid first.

    Rows may be kept in single precision, which holds them exactly.
    """
    size = float(np.abs(vector).max()) * math.sqrt(vector.size)
    if size == 0.0:
        return np.zeros(rows.shape[0])
    bits = 52 - UNIT_BITS - math.frexp(size)[1]
    whole = np.rint(np.ldexp(vector, bits))

    scores = np.empty(rows.shape[0])
    for start in range(0, scores.size, _CACHED_ROWS):
        part = slice(start, start + _CACHED_ROWS)
        scores[part] = rows[part].astype(np.float64, copy=False) @ whole
    return scores * math.ldexp(1.0, -(bits + UNIT_BITS))


def project_rows(rows: Any, matrix: Matrix | None) -> Points:
    """Points of a net: projected directions, as columns of whole numbers in single precision.

    The matrix is the projection, transposed; None projects nothing. Each point is scaled by a power
    of two, so that its largest entry has 23 bits.
    """
    points = rows
    if matrix is not None:
        bits = _MAP_BITS - math.frexp(float(np.abs(matrix).max()))[1]
        points = np.asarray(rows @ np.rint(np.ldexp(matrix, bits)))
    elif is_sparse(rows):
        points = rows.toarray()

    exponents = np.frexp(np.abs(points).max(axis=1, initial=0.0))[1]
    rounded = np.rint(np.ldexp(points, (_POINT_BITS - exponents)[:, None]))
    return np.ascontiguousarray(rounded.T, dtype=np.float32)


def weighted_sums(rows: Any, weights: Vector, n_groups: int) -> tuple[Ints, Ints]:
    """Exact sums of ``weight * row`` and of weights; row ``i`` is in group ``i % n_groups``.

    Weights, between 0 and 1, count in units of 2^-16, so sums have units of 2^-36. They are exact
    for up to 2^27 rows.
    """
    whole = np.rint(np.ldexp(weights, WEIGHT_BITS))
    sums = np.zeros((n_groups, rows.shape[1]), dtype=np.int64)
    masses = np.zeros(n_groups, dtype=np.int64)
    for group in range(n_groups):
        own, their = rows[group::n_groups], whole[group::n_groups]
        for start in range(0, their.size, _EXACT_ROWS):
            part = slice(start, start + _EXACT_ROWS)
            sums[group] += np.asarray(own[part].T @ their[part]).astype(np.int64)
        masses[group] = int(their.sum())
    return sums, masses
