"""Small linear algebra in a fixed order of elementwise operations.

No BLAS and no ``np.sum`` of floats: their order of additions depends on version and machine.
"""

from collections.abc import Callable

import numpy as np

from replearn.types import Matrix, Vector

_ROWS = 128  # of a product that stays in a core's cache
_PRODUCTS = 1 << 16  # of rows of several matrices
_SOLVED = 8  # entries of a solution at a time
_SWEEPS = 12  # of Jacobi's rotations, which then are exact


def total(x: Vector) -> float:
    """Sum from the first entry to the last, one after the other."""
    if not x.size:
        return 0.0
    return float(np.add.accumulate(x)[-1])


def dot(a: Matrix, b: Matrix) -> float:
    """Sum of all products of two arrays, one after the other."""
    return total((a * b).reshape(-1))


def cholesky(matrix: Matrix, floor: float = 0.0) -> Matrix:
    """Lower triangle L with ``L L' = matrix``; pivots below ``floor`` are raised to it.

    Of several matrices of one size, one after the other in the first axis, it gives that of each.

    Examples
    --------
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    n = matrix.shape[-1]
    # of many matrices some at a time, whose products stay in the cache
    most = max(1, _PRODUCTS // (_ROWS * n))
    if matrix.ndim > 2 and len(matrix) > most:
        parts = [cholesky(matrix[i : i + most], floor) for i in range(0, len(matrix), most)]
        return np.concatenate(parts)

    columns = np.zeros_like(matrix)  # of the triangle, each in one piece
    terms = np.empty((*matrix.shape[:-2], _ROWS + 1, n))

    for j in range(n):
        # less the products with the columns before, one after the other, some at a time
        rest = matrix[..., j:, j]
        for start in range(0, j, _ROWS):
            before = columns[..., start : min(start + _ROWS, j), j:]
            some = terms[..., : before.shape[-2] + 1, : n - j]
            some[..., 0, :] = rest
            np.multiply(before, before[..., :1], out=some[..., 1:, :])
            rest = np.subtract.reduce(some, axis=-2)

        pivot = np.maximum(rest[..., :1], floor)
        if not (pivot > 0).all():
            raise ArithmeticError("the matrix is not positive definite")
        root = np.sqrt(pivot)
        columns[..., j, j:] = rest / root
        columns[..., j, j] = root[..., 0]
    return columns.swapaxes(-1, -2).copy()


def forward(lower: Matrix, right: Matrix) -> Matrix:
    """``lower^-1 right`` for a lower triangle; ``right`` has one or more columns."""
    x = right.astype(np.float64, copy=True)
    if x.ndim == 1:
        for start in range(0, len(x), _SOLVED):
            _solve_some(lower, x, slice(start, start + _SOLVED))
        return x

    columns = np.ascontiguousarray(lower.T)  # each is read in one piece
    for j, column in enumerate(columns):
        x[j] /= column[j]
        x[j + 1 :] -= np.multiply.outer(column[j + 1 :], x[j])
    return x


def _solve_some(lower: Matrix, x: Vector, part: slice) -> None:
    """Some entries of a solution, one by one, and then all that is below less their products."""
    values: list[float] = x[part].tolist()
    for i, row in enumerate(lower[part, part].tolist()):
        for before in range(i):
            values[i] -= row[before] * values[before]
        values[i] /= row[i]
    x[part] = values

    terms = np.empty((1 + len(values), len(x[part.stop :])))
    terms[0] = x[part.stop :]
    np.multiply(lower[part.stop :, part].T, x[part, None], out=terms[1:])
    np.subtract.reduce(terms, out=x[part.stop :])  # one after the other


def forward_triangle(lower: Matrix, right: Matrix) -> Matrix:
    """`forward` of a right side that is a lower triangle too, without its zeros."""
    x = right.astype(np.float64, copy=True)
    columns = np.ascontiguousarray(lower.T)
    for j, column in enumerate(columns):
        x[j, : j + 1] /= column[j]
        x[j + 1 :, : j + 1] -= np.multiply.outer(column[j + 1 :], x[j, : j + 1])
    return x


def inverse(lower: Matrix) -> Matrix:
    """The inverse of a lower triangle."""
    return forward_triangle(lower, np.eye(len(lower)))


def backward(upper: Matrix, right: Matrix) -> Matrix:
    """``upper^-1 right`` for an upper triangle."""
    # the last row first: in that order the triangle is a lower one
    return forward(upper[::-1, ::-1], right[::-1])[::-1]


def solve(lower: Matrix, right: Matrix) -> Matrix:
    """``(lower lower')^-1 right``."""
    return backward(lower.T, forward(lower, right))


def solver_of_each(lowers: Matrix) -> Callable[[Matrix], Matrix]:
    """`solve` with several triangles of one size, each for a row of what is given."""
    by_column = np.ascontiguousarray(lowers.transpose(2, 0, 1))  # each is read in one piece
    by_row = np.ascontiguousarray(lowers.transpose(1, 0, 2))

    def solve_each(right: Matrix) -> Matrix:
        x = right.astype(np.float64, copy=True)
        for j, column in enumerate(by_column):
            x[:, j] /= column[:, j]
            x[:, j + 1 :] -= column[:, j + 1 :] * x[:, j, None]
        for j in range(x.shape[1] - 1, -1, -1):
            row = by_row[j]
            x[:, j] /= row[:, j]
            x[:, :j] -= row[:, :j] * x[:, j, None]
        return x

    return solve_each


def eigenvectors(matrix: Matrix) -> tuple[Vector, Matrix]:
    """Eigenvalues from the largest on, and eigenvectors in rows, by Jacobi's rotations.

    The largest entry of each vector is positive.

    Examples
    --------
    >>> values, vectors = eigenvectors(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> values.round(12).tolist(), vectors.round(6).tolist()
    ([3.0, 1.0], [[0.707107, 0.707107], [0.707107, -0.707107]])
    """
    a, v = matrix.copy(), np.eye(len(matrix))
    for _ in range(_SWEEPS):
        for p in range(len(a) - 1):
            for q in range(p + 1, len(a)):
                if abs(a[p, q]) <= 1e-15 * np.sqrt(abs(a[p, p] * a[q, q])):
                    continue

                # the smaller of the two angles that make this entry zero
                ratio = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
                t = 1.0 / (abs(ratio) + np.sqrt(ratio * ratio + 1.0))
                if ratio < 0:
                    t = -t
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c

                a[p], a[q] = c * a[p] - s * a[q], s * a[p] + c * a[q]
                a[:, p], a[:, q] = c * a[:, p] - s * a[:, q], s * a[:, p] + c * a[:, q]
                v[p], v[q] = c * v[p] - s * v[q], s * v[p] + c * v[q]

    order = np.argsort(-np.diagonal(a), kind="stable")
    vectors = v[order]
    largest = vectors[np.arange(len(v)), np.abs(vectors).argmax(axis=1)]
    return np.diagonal(a)[order].copy(), vectors * np.where(largest < 0, -1.0, 1.0)[:, None]
