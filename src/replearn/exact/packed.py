"""Rows as directions in whole numbers, for the compiled batch solvers.

Only the direction ``v = sign x / |x|`` of a row counts; a constant 1 is appended before if there
is an intercept. It is packed as int32 in units of 2^-30. A solver keeps its vector twice: ``u`` in
float64, and ``whole``, the same in int32, in units of ``1/scale`` each. Products of packed rows
with ``whole`` are sums of integers: the compiler may add them in any order, with any vector
instructions, and gets the same bits everywhere, for dense and for sparse rows. Products with ``u``
are floats; they are added in four lanes, column ``j`` in lane ``j % 4``, in ascending order.

Sums of solutions are fixed point in two int64 limbs, ``hi 2^-30 + lo 2^-61``: exact in any order
and in any grouping, for entries of at most 8 and fewer than 2^30 summands.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from replearn.types import Order, Signs, Vector, is_sparse

UNIT = 2.0**30
#: Entries of a summand, at most.
MAX_ENTRY = 8.0
#: Numbers that a solver counts, in their order; pairs are neighbouring batches (2k, 2k + 1).
COUNTS = (
    "batches", "unconverged", "infeasible", "shortened", "zero_rows", "visits", "pairs",
    "pair_sum", "pair_squares",
)  # fmt: skip
BATCHES, UNCONVERGED, INFEASIBLE, SHORTENED, ZERO_ROWS, VISITS, PAIRS, PAIR_SUM, PAIR_SQUARES = (
    range(len(COUNTS))
)
#: Squared distances of pairs, and their squares, are counted in these units.
PAIR_UNIT, PAIR_SQUARE_UNIT = 2.0**-24, 2.0**-16

_HI, _LO, _CARRY = 2.0**30, 2.0**61, 31
_TINY, _HUGE = 2.0**-900, 2.0**1000  # squared lengths outside have lost digits
_QUANTUM = 2.0**24  # of distances: sums of squared integers
_STREAM = 16  # touching a column at random costs as much as passing by this many in order


class Raw(NamedTuple):
    """Rows as they are: numbers row by row; columns and ends only if sparse, else empty."""

    data: Any
    columns: Any
    ends: Any
    n_features: int


class Packed(NamedTuple):
    """Rows of one batch, packed; row i has the places ``starts[i]`` to ``starts[i + 1]``."""

    data: NDArray[np.int32]
    columns: NDArray[np.int32]
    starts: NDArray[np.int64]


def raw_rows(X: Any) -> Raw:
    """An array or a CSR matrix for the compiled loops, in place where that is possible."""
    if is_sparse(X):
        X = X if X.format == "csr" else X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        ends = X.indptr.astype(np.int64)
        return Raw(_floats(X.data), X.indices.astype(np.int32, copy=False), ends, X.shape[1])
    flat = _floats(np.asarray(X)).reshape(-1)
    return Raw(flat, np.empty(0, np.int32), np.empty(0, np.int64), X.shape[1])


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    kept = values.dtype if values.dtype in (np.float32, np.float64) else np.float64
    array = np.ascontiguousarray(values, dtype=kept)
    # a read-only array has another type, for which numba would compile everything anew
    return array if array.flags.writeable else array.copy()


def new_counts() -> NDArray[np.int64]:
    """Counts of nothing."""
    return np.zeros(len(COUNTS), np.int64)


def fixed_mean(hi: NDArray[np.int64], lo: NDArray[np.int64], count: Any) -> Vector:
    """The mean of ``count`` summands: equal sums give equal bits, however they came about."""
    carry = lo >> _CARRY
    low = lo - (carry << _CARRY)
    total = (hi + carry).astype(np.float64) / _HI + low.astype(np.float64) / _LO
    return np.asarray(total / count, dtype=np.float64)


# --- packing ----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def pack(raw, signs, members, bias):
    """The rows ``members`` as directions; a row of zeros becomes one."""
    n, dense = members.size, raw.ends.size == 0
    starts = np.zeros(n + 1, np.int64)
    for k in range(n):
        i = members[k]
        size = raw.n_features if dense else raw.ends[i + 1] - raw.ends[i]
        starts[k + 1] = starts[k] + size + bias
    data = np.empty(starts[n], np.int32)
    columns = np.empty(0 if dense else starts[n], np.int32)
    for k in range(n):
        i = members[k]
        first = i * raw.n_features if dense else raw.ends[i]
        size = starts[k + 1] - starts[k] - bias
        x = raw.data[first : first + size]
        if not dense:
            columns[starts[k] : starts[k] + size] = raw.columns[first : first + size]
            if bias:
                columns[starts[k] + size] = raw.n_features
        _pack_row(x, raw.columns[first : first + size] if not dense else columns, signs[i],
                  bias, data[starts[k] : starts[k + 1]])  # fmt: skip
    return Packed(data, columns, starts)


@njit(cache=True, nogil=True)
def _pack_row(x, columns, sign, bias, out):
    square = _squared(x, columns) + bias
    constant = float(bias)
    shift = 0
    if not _TINY < square < _HUGE:
        top = constant
        for value in x:
            top = max(top, abs(np.float64(value)))
        if top == 0.0:
            out[:] = 0
            return
        shift = -math.frexp(top)[1]
        square = math.ldexp(constant, shift) ** 2
        for value in x:
            square += math.ldexp(np.float64(value), shift) ** 2
        constant = math.ldexp(constant, shift)
    factor = sign * UNIT / math.sqrt(square)
    if shift:
        for j in range(x.size):
            out[j] = np.int32(np.rint(factor * math.ldexp(np.float64(x[j]), shift)))
    else:
        for j in range(x.size):
            out[j] = np.int32(np.rint(factor * np.float64(x[j])))
    if bias:
        out[x.size] = np.int32(np.rint(factor * constant))


@njit(cache=True, nogil=True)
def _squared(x, columns):
    """``<x, x>`` in four lanes."""
    if columns.size:
        lanes = np.zeros(4)
        for p in range(x.size):
            value = np.float64(x[p])
            lanes[columns[p] & 3] += value * value
        return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    a = b = c = d = 0.0
    whole = x.size & ~3
    for j in range(0, whole, 4):
        a += np.float64(x[j]) * np.float64(x[j])
        b += np.float64(x[j + 1]) * np.float64(x[j + 1])
        c += np.float64(x[j + 2]) * np.float64(x[j + 2])
        d += np.float64(x[j + 3]) * np.float64(x[j + 3])
    rest = x.size - whole
    if rest > 0:
        a += np.float64(x[whole]) * np.float64(x[whole])
    if rest > 1:
        b += np.float64(x[whole + 1]) * np.float64(x[whole + 1])
    if rest > 2:
        c += np.float64(x[whole + 2]) * np.float64(x[whole + 2])
    return (a + b) + (c + d)


# --- one packed row ---------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def product(rows, i, whole):
    """``<v_i, whole>`` in units of the packed rows times those of ``whole``: an integer."""
    first, last = rows.starts[i], rows.starts[i + 1]
    v = rows.data[first:last]
    total = np.int64(0)
    if rows.columns.size:
        columns = rows.columns[first:last]
        for p in range(v.size):
            total += np.int64(v[p]) * np.int64(whole[columns[p]])
    else:
        for j in range(v.size):
            total += np.int64(v[j]) * np.int64(whole[j])
    return total


@njit(cache=True, nogil=True)
def float_product(rows, i, u):
    """``<v_i, u>`` in four lanes, in units of the packed rows."""
    first, last = rows.starts[i], rows.starts[i + 1]
    v = rows.data[first:last]
    if rows.columns.size:
        columns, lanes = rows.columns[first:last], np.zeros(4)
        for p in range(v.size):
            lanes[columns[p] & 3] += v[p] * u[columns[p]]
        return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    a = b = c = d = 0.0
    n = v.size & ~3
    for j in range(0, n, 4):
        a += v[j] * u[j]
        b += v[j + 1] * u[j + 1]
        c += v[j + 2] * u[j + 2]
        d += v[j + 3] * u[j + 3]
    rest = v.size - n
    if rest > 0:
        a += v[n] * u[n]
    if rest > 1:
        b += v[n + 1] * u[n + 1]
    if rest > 2:
        c += v[n + 2] * u[n + 2]
    return (a + b) + (c + d)


@njit(cache=True, nogil=True)
def add(a, rows, i, u):
    """``u += a v_i``, in units of the packed rows."""
    first, last = rows.starts[i], rows.starts[i + 1]
    v = rows.data[first:last]
    if rows.columns.size:
        columns = rows.columns[first:last]
        for p in range(v.size):
            u[columns[p]] += a * v[p]
    else:
        for j in range(v.size):
            u[j] += a * v[j]


@njit(cache=True, nogil=True)
def add_both(a, rows, i, u, whole):
    """``u += a v_i``, and ``whole`` follows."""
    first, last = rows.starts[i], rows.starts[i + 1]
    v = rows.data[first:last]
    if rows.columns.size:
        columns = rows.columns[first:last]
        for p in range(v.size):
            value = u[columns[p]] + a * v[p]
            u[columns[p]] = value
            whole[columns[p]] = np.int32(value)
    else:
        for j in range(v.size):
            value = u[j] + a * v[j]
            u[j] = value
            whole[j] = np.int32(value)


@njit(cache=True, nogil=True)
def is_zero(rows, i):
    """Whether a row has no direction."""
    for value in rows.data[rows.starts[i] : rows.starts[i + 1]]:
        if value != 0:
            return False
    return True


# --- exact sums -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def settle(rows, u, v, factors, hi, lo):
    """Add two vectors, times their factors, to a sum, and set them to 0.

    The vectors are 0 where the rows are. Returns their squared distance in squared quanta.
    """
    distance = np.int64(0)
    if rows.columns.size == 0 or _STREAM * rows.columns.size > hi.size:
        for j in range(hi.size):
            distance += _settle_column(j, u, v, factors, hi, lo)
    else:
        for j in rows.columns:
            if u[j] != 0.0 or v[j] != 0.0:
                distance += _settle_column(j, u, v, factors, hi, lo)
    return distance


@njit(cache=True, nogil=True)
def _settle_column(j, u, v, factors, hi, lo):
    one, two = factors[0] * u[j], factors[1] * v[j]
    u[j] = v[j] = 0.0
    one_hi, two_hi = np.rint(one * _HI), np.rint(two * _HI)
    hi[j] += np.int64(one_hi + two_hi)
    lo[j] += np.int64(np.rint((one - one_hi / _HI) * _LO) + np.rint((two - two_hi / _HI) * _LO))
    quanta = np.int64(np.rint((one - two) * _QUANTUM))
    return quanta * quanta


@njit(cache=True, nogil=True)
def count_pair(distance, counts):
    """Count the squared distance of a pair, given in squared quanta."""
    square = distance / _QUANTUM**2
    counts[PAIRS] += 1
    counts[PAIR_SUM] += np.int64(np.rint(square / PAIR_UNIT))
    counts[PAIR_SQUARES] += np.int64(np.rint(square * square / PAIR_SQUARE_UNIT))


def as_members(order: Order, signs: Signs) -> tuple[Order, Signs]:
    """Row numbers and signs of the types for which the loops are compiled."""
    return _plain(order, np.int64), _plain(signs, np.int8)


def _plain(values: NDArray[Any], kind: Any) -> NDArray[Any]:
    array = np.ascontiguousarray(values, dtype=kind)
    return array if array.flags.writeable else array.copy()
