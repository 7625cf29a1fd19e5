"""Small linear algebra in a fixed order of elementwise operations.

No BLAS and no ``np.sum`` of floats: their order of additions depends on version and machine.
"""

import numpy as np

from replearn.types import Matrix, Vector


def total(x: Vector) -> float:
    """Sum from the first entry to the last, one after the other."""
    return float(np.add.accumulate(x)[-1]) if x.size else 0.0


def cholesky(matrix: Matrix, floor: float = 0.0) -> Matrix:
    """Lower triangle L with ``L L' = matrix``; pivots below ``floor`` are raised to it.

    Examples
    --------
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    rest = matrix.copy()
    for j in range(len(rest)):
        pivot = max(float(rest[j, j]), floor)
        if not pivot > 0:
            raise ArithmeticError("the matrix is not positive definite")
        root = np.sqrt(pivot)
        below = rest[j + 1 :, j] / root
        rest[j + 1 :, j + 1 :] -= below[:, None] * below
        rest[j, j], rest[j + 1 :, j] = root, below
    return np.tril(rest)


def forward(lower: Matrix, right: Matrix) -> Matrix:
    """``lower^-1 right`` for a lower triangle; ``right`` has one or more columns."""
    x = right.astype(np.float64, copy=True)
    for j in range(len(lower)):
        x[j] /= lower[j, j]
        x[j + 1 :] -= np.multiply.outer(lower[j + 1 :, j], x[j])
    return x


def backward(upper: Matrix, right: Matrix) -> Matrix:
    """``upper^-1 right`` for an upper triangle."""
    x = right.astype(np.float64, copy=True)
    for j in range(len(upper) - 1, -1, -1):
        x[j] /= upper[j, j]
        x[:j] -= np.multiply.outer(upper[:j, j], x[j])
    return x


def solve(lower: Matrix, right: Matrix) -> Matrix:
    """``(lower lower')^-1 right``."""
    return backward(lower.T, forward(lower, right))
