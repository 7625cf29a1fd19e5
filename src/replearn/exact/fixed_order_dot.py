"""Sums of products whose bits depend on the numbers alone, in NumPy.

Column ``j`` is added to lane ``j % 16``, in ascending order, and the lanes are folded in halves.
Products and sums are rounded apart, as IEEE operations. Absent columns of a sparse row add exactly
nothing, so dense and sparse rows give equal bits.
"""

import math
from typing import Any

import numpy as np

from replearn.types import Vector, is_sparse

_N_LANES = 16


def row_products(X: Any, weights: Vector) -> Vector:
    """``<x, weights>`` of each row of an array or a CSR matrix."""
    lanes = np.zeros((X.shape[0], _N_LANES))
    if is_sparse(X):
        owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        terms = X.data.astype(np.float64) * weights[X.indices]
        places = owners * _N_LANES + X.indices % _N_LANES
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
    largest: Any = abs(X).max(axis=1)
    if is_sparse(X):
        largest = largest.toarray().ravel()
    shifts = np.frexp(np.asarray(largest, dtype=np.float64))[1]

    scaled = X.astype(np.float64)
    if is_sparse(X):
        owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        scaled.data = np.ldexp(scaled.data, -shifts[owners]) ** 2
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
