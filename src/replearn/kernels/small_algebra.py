"""Linear algebra of a few dozen unknowns, in a fixed order and without BLAS.

BLAS and LAPACK choose the order of their sums by machine and version, so two labs that solve the
same system get different last bits, and sometimes different codes. Here every sum runs in
ascending order, from 0, products and sums rounded apart. The cost, some ``q^3 / 3`` additions, is
nothing beside a pass over the rows.

Examples
--------
>>> A = np.array([[4.0, 2.0], [2.0, 5.0]])
>>> cholesky(A)
array([[2., 1.],
       [0., 2.]])
>>> solve_positive(A, np.array([2.0, 5.0]))
array([0., 1.])
"""

import math

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import njit
from replearn.types import Matrix

Floats = NDArray[np.float64]


def cholesky(A: Matrix) -> Matrix:
    """The upper triangular ``R`` with ``R'R = A`` and a positive diagonal.

    A is symmetric and positive definite; only its upper triangle is read. Raises a ValueError if a
    pivot is not positive.
    """
    R = np.zeros(A.shape)
    failed = _cholesky(np.ascontiguousarray(A, dtype=np.float64), R)
    if failed >= 0:
        raise ValueError(
            f"The matrix must be positive definite, but pivot {failed} of {A.shape[0]} is not "
            "positive. Add a ridge, or leave out directions that depend on others."
        )
    return R


def solve_positive(A: Matrix, b: Floats) -> Floats:
    """The solution of ``A x = b`` for a symmetric positive definite A, by ``cholesky``.

    ``b`` has shape (q,) or (q, m).
    """
    R, x = cholesky(A), _columns(b)
    _solve_upper_transposed(R, x)
    _solve_upper(R, x)
    return x.reshape(b.shape)


def times(A: Matrix, b: Floats) -> Floats:
    """``A b``, sums in ascending order; ``b`` has shape (q,) or (q, m)."""
    out = np.zeros((A.shape[0], 1 if b.ndim == 1 else b.shape[1]))
    _times(np.ascontiguousarray(A, dtype=np.float64), _columns(b), out)
    return out[:, 0].copy() if b.ndim == 1 else out


def _columns(b: Floats) -> Matrix:
    """A copy as a matrix; a vector is one column."""
    return np.array(b, dtype=np.float64, order="C").reshape(b.shape[0], -1)


@njit(cache=True, nogil=True)
def _cholesky(A, R):
    """Write R row by row; returns the first pivot that is not positive, or -1."""
    for i in range(A.shape[0]):
        total = 0.0
        for m in range(i):
            total += R[m, i] * R[m, i]
        pivot = A[i, i] - total
        if not 0.0 < pivot < np.inf:
            return i
        R[i, i] = math.sqrt(pivot)
        for j in range(i + 1, A.shape[0]):
            total = 0.0
            for m in range(i):
                total += R[m, i] * R[m, j]
            R[i, j] = (A[i, j] - total) / R[i, i]
    return -1


@njit(cache=True, nogil=True)
def _solve_upper(R, x):
    """Solve ``R x = b`` in place, R upper triangular."""
    q = R.shape[0]
    for c in range(x.shape[1]):
        for i in range(q - 1, -1, -1):
            total = 0.0
            for j in range(i + 1, q):
                total += R[i, j] * x[j, c]
            x[i, c] = (x[i, c] - total) / R[i, i]


@njit(cache=True, nogil=True)
def _solve_upper_transposed(R, x):
    """Solve ``R' x = b`` in place."""
    for c in range(x.shape[1]):
        for i in range(R.shape[0]):
            total = 0.0
            for j in range(i):
                total += R[j, i] * x[j, c]
            x[i, c] = (x[i, c] - total) / R[i, i]


@njit(cache=True, nogil=True)
def _times(A, b, out):
    for i in range(A.shape[0]):
        for c in range(b.shape[1]):
            total = 0.0
            for j in range(A.shape[1]):
                total += A[i, j] * b[j, c]
            out[i, c] = total
