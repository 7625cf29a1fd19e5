"""Sums of products whose bits depend on the numbers alone, in NumPy.

Column ``j`` is added to lane ``j % 16``, in ascending order, and the lanes are folded in halves.
Products and sums are rounded apart, as IEEE operations. Absent columns of a sparse row add exactly
nothing, so dense and sparse rows give equal bits.
"""

import math
from typing import Any

import numpy as np

from replearn.types import Order, Vector, is_sparse

_N_LANES = 16


def rows_of_cells(X: Any) -> Order:
    """The row of each stored cell of a CSR matrix."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def largest_cells(X: Any) -> Vector:
    """The size of the largest cell in each row of an array or a CSR matrix."""
    largest = abs(X).max(axis=1)
    if is_sparse(X):
        largest = largest.toarray().ravel()
    return np.asarray(largest, dtype=np.float64)


def row_products(X: Any, weights: Vector) -> Vector:
    """``<x, weights>`` of each row of an array or a CSR matrix."""
    lanes = np.zeros((X.shape[0], _N_LANES))
    if is_sparse(X):
        terms = X.data.astype(np.float64) * weights[X.indices]
        places = rows_of_cells(X) * _N_LANES + X.indices % _N_LANES
        # bincount adds in the order of the entries, and columns of a row ascend
        lanes += np.bincount(places, terms, lanes.size).reshape(lanes.shape)
    else:
        for start in range(0, X.shape[1], _N_LANES):
            block = X[:, start : start + _N_LANES].astype(np.float64, copy=False)
            lanes[:, : block.shape[1]] += block * weights[start : start + _N_LANES]

    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def lengths(X: Any) -> Vector:
    """``|x|`` of each row of an array or a CSR matrix, however long or short it is.

    Examples
    --------
    >>> lengths(np.array([[3e200, 4e200], [0.0, 0.0]]))
    array([5.e+200, 0.e+000])
    """
    if not X.shape[1]:
        return np.zeros(X.shape[0])

    # each row by a power of two, so that no square is beyond a float
    shifts = np.frexp(largest_cells(X))[1]
    scaled = X.astype(np.float64)
    if is_sparse(X):
        scaled.data = np.ldexp(scaled.data, -shifts[rows_of_cells(X)]) ** 2
    else:
        scaled = np.ldexp(scaled, -shifts[:, None]) ** 2
    return np.ldexp(np.sqrt(row_products(scaled, np.ones(X.shape[1]))), shifts)


def length(vector: Vector) -> float:
    """``|vector|``.

    Examples
    --------
    >>> length(np.array([3.0, 4.0]))
    5.0
    """
    return math.sqrt(float(row_products(vector[None, :], vector)[0]))


def unit(vector: Vector) -> Vector:
    """The vector at length 1; the zero vector as it is."""
    size = length(vector)
    if size > 0:
        return vector / size
    return vector
