"""Rows as directions in whole numbers, for the compiled batch solvers.

Only the direction ``v = sign x / |x|`` of a row counts; with an intercept it is that of x with its
own length appended, so that no unit of the columns counts. It is packed as int32 in units of 2^-30.
Products with a vector ``u``, whose entries are cut to int32, are sums of integers: the compiler may
add them in any order, with any vector instructions, and gets the same bits everywhere, for dense
and for sparse rows. Where digits count, products are made of floats: these are added in four
lanes, column ``j`` in lane ``j % 4``, in ascending order.

Sums of solutions are fixed point (`replearn.exact.fixed_point`).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from replearn.exact import HI, LO, PAIR_SUM, PAIR_UNIT, PAIRS
from replearn.types import Array, Ints32, Order, Signs, is_sparse

UNIT = 2.0**30
#: Entries of a summand, at most.
MAX_ENTRY = 8.0
_TINY, _HUGE = 2.0**-900, 2.0**1000  # squared lengths outside have lost digits
_SHORT, _AHEAD, _LINE = 128, 64, 8  # columns of rows fetched ahead, so many, 8 in a cache line
_QUANTUM = 2.0**24  # of distances: sums of squared integers
_STREAM = 16  # touching a column at random costs as much as passing by this many in order


# --- packing: numbers, columns and starts of the packed rows; columns None if dense -------------


@njit(cache=True, nogil=True)
def pack(data, columns, ends, n_features, signs, members, bias, keys, marks):
    """The rows ``members`` as directions; a row of zeros stays one.

    Row k has the places ``starts[k]`` to ``starts[k + 1]`` of the result. Its mark, the sum of its
    entries times ``keys``, goes to ``marks[k]``: equal directions have equal marks.
    """
    n = members.size
    starts = np.zeros(n + 1, np.int64)
    for k in range(n):
        i = members[k]
        size = n_features if columns is None else ends[i + 1] - ends[i]
        starts[k + 1] = starts[k] + size + bias

    packed = np.empty(starts[n], np.int32)
    places = None if columns is None else np.empty(starts[n], np.int32)
    apart = n > 0 and members[n - 1] - members[0] != n - 1 and n_features <= _SHORT
    for k in range(n):
        if columns is None and apart and k % _AHEAD == 0:  # noqa: SIM102  (as in `settle`)
            if math.isnan(_touched(data, n_features, members[k : k + _AHEAD])):
                marks[k] = 0  # or the compiler would see that nobody needs the sum

        i = members[k]
        first = np.uint64(i * n_features if columns is None else ends[i])
        size, to = np.uint64(starts[k + 1] - starts[k] - bias), np.uint64(starts[k])

        # the length, which may be beyond the range of floats
        square, shift = _in_lanes(data, columns, first, size, None), 0
        if not _TINY < square < _HUGE:
            square, shift = _rescued(data, first, size)
        top = signs[i] * (UNIT * math.sqrt(0.5) if bias else UNIT) if square > 0.0 else 0.0
        factor = top / math.sqrt(max(square, _TINY))

        # the direction in whole numbers; with an intercept both halves have one length
        if shift == 0:
            for j in range(size):
                packed[to + j] = np.int32(factor * data[first + j])
        else:
            for j in range(size):
                packed[to + j] = np.int32(factor * math.ldexp(np.float64(data[first + j]), shift))
        if bias:
            packed[to + size] = np.int32(top)

        # the mark, and the columns of a sparse row
        mark = np.int64(0)
        if columns is None:
            for j in range(size + np.uint64(bias)):
                mark += np.int64(packed[to + j]) * np.int64(keys[j])
        else:
            for j in range(size):
                places[to + j] = columns[first + j]
            if bias:
                places[to + size] = n_features
            for p in range(to, to + size + np.uint64(bias)):
                mark += np.int64(packed[p]) * np.int64(keys[places[p]])
        marks[k] = mark
    return packed, places, starts


@njit(cache=True, nogil=True)
def _touched(data, n_features, members):
    """A sum of one number of each cache line: rows that lie apart are fetched side by side.

    The loops over one row after the other would wait for each: they take three times as long.
    """
    total = 0.0
    for i in members:
        first = np.uint64(i * n_features)
        for j in range(0, n_features, _LINE):
            total += data[first + np.uint64(j)]
        total += data[first + np.uint64(n_features - 1)]
    return total


@njit(cache=True, nogil=True)
def _rescued(data, first, size):
    """Squared length of a row that over- or underflows, times ``4^shift``; and the shift."""
    top = 0.0
    for p in range(first, first + size):
        top = max(top, abs(np.float64(data[p])))
    if top == 0.0:
        return 0.0, 0

    # the same after a shift by a power of two, which loses nothing
    shift = -math.frexp(top)[1]
    square = 0.0
    for p in range(first, first + size):
        square += math.ldexp(np.float64(data[p]), shift) ** 2
    return square, shift


@njit(cache=True, nogil=True, inline="always")
def _in_lanes(data, columns, first, n, u):
    """``<x, u>`` in four lanes, x being numbers from ``first`` on; without ``u`` ``<x, x>``."""
    a = b = c = d = 0.0
    if columns is None:
        one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)

        # the compiler makes vector instructions of four sums side by side
        whole = n & ~three
        for q in range(whole >> two):
            j = q << two
            p = first + j
            a += _term(data, p, u, j)
            b += _term(data, p + one, u, j + one)
            c += _term(data, p + two, u, j + two)
            d += _term(data, p + three, u, j + three)
        if whole < n:
            a += _term(data, first + whole, u, whole)
        if whole + one < n:
            b += _term(data, first + whole + one, u, whole + one)
        if whole + two < n:
            c += _term(data, first + whole + two, u, whole + two)
    else:
        for p in range(first, first + n):
            j = columns[p]
            term, lane = _term(data, p, u, j), j & 3
            if lane == 0:
                a += term
            elif lane == 1:
                b += term
            elif lane == 2:
                c += term
            else:
                d += term
    return (a + b) + (c + d)


@njit(cache=True, nogil=True, inline="always")
def _term(data, p, u, j):
    if u is None:
        return np.float64(data[p]) * np.float64(data[p])
    return data[p] * u[j]


# --- one packed row -----------------------------------------------------------------------------
# Arrays come one by one and places are unsigned: tuples, slices and checks for negative places
# would each cost more than a product of ten numbers.


@njit(cache=True, nogil=True, inline="always")
def whole_product(data, columns, starts, i, u):
    """``<v_i, u>`` with the entries of u cut to whole numbers, below 2^31: an integer."""
    first = np.uint64(starts[i])
    n = np.uint64(starts[i + 1]) - first
    total = np.int64(0)
    if columns is None:
        for j in range(n):
            total += np.int64(data[first + j]) * np.int64(np.int32(u[j]))
    else:
        for p in range(first, first + n):
            total += np.int64(data[p]) * np.int64(np.int32(u[columns[p]]))
    return total


@njit(cache=True, nogil=True, inline="always")
def float_product(data, columns, starts, i, u):
    """``<v_i, u>`` in four lanes, in units of the packed rows."""
    first = np.uint64(starts[i])
    return _in_lanes(data, columns, first, np.uint64(starts[i + 1]) - first, u)


@njit(cache=True, nogil=True, inline="always")
def add(a, data, columns, starts, i, u):
    """``u += a v_i``, in units of the packed rows."""
    first = np.uint64(starts[i])
    n = np.uint64(starts[i + 1]) - first
    if columns is None:
        for j in range(n):
            u[j] += a * data[first + j]
    else:
        for p in range(first, first + n):
            u[columns[p]] += a * data[p]


@njit(cache=True, nogil=True)
def is_zero(data, starts, i):
    """Whether a row has no direction."""
    p = starts[i]
    while p < starts[i + 1] and data[p] == 0:
        p += 1
    return p == starts[i + 1]


# --- exact sums -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def settle(columns, u, v, factors, hi, lo):
    """Add two vectors, times their factors, to a sum, and set them to 0.

    ``columns`` are those of the rows; elsewhere the vectors are 0. Returns their squared distance
    in squared quanta.
    """
    distance = np.int64(0)
    if columns is not None:  # noqa: SIM102  (numba drops the branch by this test alone)
        if _STREAM * columns.size <= hi.size:
            for j in columns:
                if u[j] != 0.0 or v[j] != 0.0:
                    distance += _settle_column(j, u, v, factors, hi, lo)
            return distance
    for j in range(hi.size):
        distance += _settle_column(j, u, v, factors, hi, lo)
    return distance


@njit(cache=True, nogil=True)
def _settle_column(j, u, v, factors, hi, lo):
    one, two = factors[0] * u[j], factors[1] * v[j]
    u[j] = v[j] = 0.0

    # limbs hold what is rounded to them; what is left goes to the lower ones
    one_hi, two_hi = np.rint(one * HI), np.rint(two * HI)
    hi[j] += np.int64(one_hi + two_hi)
    lo[j] += np.int64(np.rint((one - one_hi / HI) * LO) + np.rint((two - two_hi / HI) * LO))

    quanta = np.int64(np.rint((one - two) * _QUANTUM))
    return quanta * quanta


@njit(cache=True, nogil=True)
def count_pair(distance, counts):
    """Count the squared distance of a pair, given in squared quanta."""
    counts[PAIRS] += 1
    counts[PAIR_SUM] += np.int64(np.rint(distance / _QUANTUM**2 / PAIR_UNIT))


class RawRows(NamedTuple):
    """Rows as the compiled loops take them: numbers, columns, ends, width, signs, order, keys.

    The numbers stay in place where that is possible. Columns and ends are None for an array: the
    loops are compiled once for each kind, without a branch.
    """

    data: Any
    columns: Any
    ends: Any
    n_features: int
    signs: Signs
    members: Order
    keys: Ints32

    @classmethod
    def of(cls, X: Any, signs: Signs, order: Order | None = None) -> "RawRows":
        """The rows ``X[order]`` and their signs; without an order all, as they stand."""
        if order is None:
            order = np.arange(signs.size)
        steps = np.arange(1, X.shape[1] + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        keys = (steps >> np.uint64(33)).astype(np.int32)

        columns = ends = None
        data = X
        if is_sparse(X):
            X = X if X.format == "csr" else X.tocsr()
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
            data, columns, ends = X.data, _plain(X.indices, np.int32), _plain(X.indptr, np.int64)

        # one type for each array, so that loops are compiled once
        kind = data.dtype if data.dtype in (np.float32, np.float64) else np.float64
        data, signs, order = _plain(data, kind), _plain(signs, np.int8), _plain(order, np.int64)
        return cls(data.reshape(-1), columns, ends, X.shape[1], signs, order, keys)

    def part(self, start: int, stop: int) -> "RawRows":
        """Some of the rows, in their order."""
        return self._replace(members=self.members[start:stop])


def _plain(values: Array, kind: Any) -> Array:
    """A read-only array has a type of its own, for which numba would compile everything anew."""
    array = np.ascontiguousarray(values, dtype=kind)
    return array if array.flags.writeable else array.copy()
