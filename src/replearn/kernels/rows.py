"""What a batch of rows can do, whether dense or sparse.

A batch is a ``DenseRows`` or a ``SparseRows`` (see ``lanes``). ``open_rows`` makes one of a
matrix; the other functions are for compiled code only: numba takes the version that fits.
"""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import by_kind, njit
from replearn.kernels.lanes import DenseRows, SparseRows, square
from replearn.types import Order, is_sparse

#: Squared lengths outside these bounds have lost digits.
TINY, HUGE = 2.0**-900, 2.0**1000


def open_rows(X: Any, members: Order | None = None) -> DenseRows | SparseRows:
    """The rows ``members`` of a matrix of numbers, or all; in place where that is possible.

    Copied unless it is float32 or float64, C-contiguous or with ascending columns.
    """
    members = np.arange(X.shape[0]) if members is None else unmarked(members)
    if is_sparse(X):
        X = ascending(X)
        data, indices, indptr = map(unmarked, (_floats(X.data), X.indices, X.indptr))
        return SparseRows(data, indices, indptr, members)
    return DenseRows(unmarked(_floats(X)), members)


def unmarked(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, not marked read-only: numba compiles everything anew for that mark.

    The caller keeps ``array`` alive, and what it calls must not write to it.
    """
    if array.flags.writeable:
        return array
    interface = array.__array_interface__
    address, _ = interface["data"]
    return np.asarray(SimpleNamespace(__array_interface__=interface | {"data": (address, False)}))


def _floats(values: Any) -> Any:
    """The values in float32 or float64, one after the other in memory, copied only if necessary."""
    kept = values.dtype in (np.float32, np.float64)
    return np.ascontiguousarray(values, dtype=values.dtype if kept else np.float64)


def ascending(X: Any) -> Any:
    """A sparse matrix as CSR, columns of a row in ascending order, each once."""
    X = X if X.format == "csr" else X.tocsr()
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


@by_kind
def take(rows, start, stop):
    """Rows ``start`` to ``stop`` of these rows."""
    if rows.instance_class is DenseRows:
        return lambda rows, start, stop: DenseRows(rows.X, rows.members[start:stop])
    return lambda rows, start, stop: SparseRows(
        rows.data, rows.indices, rows.indptr, rows.members[start:stop]
    )


@by_kind
def is_zero(rows, k):
    """Whether row k has no entry but zeros."""

    def dense(rows, k):
        return _largest(rows.X[rows.members[k]]) == 0.0

    def sparse(rows, k):
        member = rows.members[k]
        return _largest(rows.data[rows.indptr[member] : rows.indptr[member + 1]]) == 0.0

    return dense if rows.instance_class is DenseRows else sparse


@by_kind
def rescaled(rows, bias):
    """A copy of the rows in which those of extreme length are multiplied by a power of two."""

    def dense(rows, bias):
        X = rows.X[rows.members]
        for k in range(X.shape[0]):
            rescale(X[k], bias)
        return DenseRows(X, np.arange(X.shape[0]))

    def sparse(rows, bias):
        n = rows.members.size
        indptr = np.zeros(n + 1, rows.indptr.dtype)
        for k, member in enumerate(rows.members):
            indptr[k + 1] = indptr[k] + rows.indptr[member + 1] - rows.indptr[member]
        data = np.empty(indptr[n], rows.data.dtype)
        indices = np.empty(indptr[n], rows.indices.dtype)
        for k, member in enumerate(rows.members):
            shift = rows.indptr[member] - indptr[k]
            # entry by entry: numba takes seconds to compile the assignment of a slice
            for p in range(indptr[k], indptr[k + 1]):
                data[p] = rows.data[p + shift]
                indices[p] = rows.indices[p + shift]
            rescale(data[indptr[k] : indptr[k + 1]], bias)
        return SparseRows(data, indices, indptr, np.arange(n))

    return dense if rows.instance_class is DenseRows else sparse


@by_kind
def clear(rows, u):
    """Set the entries of u to 0 that these rows can have changed."""

    def dense(rows, u):
        u[:] = 0.0

    def sparse(rows, u):
        for member in rows.members:
            for p in range(rows.indptr[member], rows.indptr[member + 1]):
                u[rows.indices[p]] = 0.0
        u[u.size - 1] = 0.0

    return dense if rows.instance_class is DenseRows else sparse


@njit(cache=True, nogil=True)
def rescale(values, bias):
    """Bring a row whose squared length over- or underflows to a safe scale, in place."""
    top = _largest(values)
    if TINY < square(values) + bias < HUGE or top == 0.0:
        return
    # a huge row stays so huge that the 1 of an intercept is as negligible as it was
    shift = (300 if top > 1.0 else 0) - math.frexp(top)[1]
    for j in range(values.size):
        values[j] = math.ldexp(np.float64(values[j]), shift)


@njit(cache=True, nogil=True)
def _largest(values):
    top = 0.0
    for value in values:
        top = max(top, abs(np.float64(value)))
    return top
