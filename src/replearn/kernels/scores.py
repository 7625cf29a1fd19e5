"""Scores of rows, with the same bits on every machine: a label must not depend on BLAS."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from replearn.kernels.lanes import DenseRows, SparseRows, row_dot
from replearn.kernels.readonly import unmarked
from replearn.types import Vector


@njit(cache=True, nogil=True)
def _fill(rows, weights, constant, out):
    for i in range(out.size):
        out[i] = row_dot(rows, i, weights) + constant


def scores(X: Any, weights: Vector, constant: float) -> Vector:
    """``<x, weights> + constant`` of each row; see ``lanes`` for the order of the sums.

    Parameters
    ----------
    X : array or CSR matrix
        Numbers of any type.
    weights : float64 array
        As long as a row.
    constant : float
    """
    out = np.empty(X.shape[0])
    members = np.arange(out.size)
    w = np.ascontiguousarray(weights)
    if sp.issparse(X):
        X = _sorted(sp.csr_matrix(X))
        data, indices, indptr = _floats(X.data), X.indices, X.indptr
        rows: Any = SparseRows(unmarked(data), unmarked(indices), unmarked(indptr), members)
    else:
        data = _floats(X)
        rows = DenseRows(unmarked(data), members)
    _fill(rows, unmarked(w), constant, out)
    return out


def _floats(values: Any) -> Any:
    """The values in float32 or float64, one after the other in memory, copied if need be."""
    kept = values.dtype in (np.float32, np.float64)
    return np.ascontiguousarray(values, dtype=values.dtype if kept else np.float64)


def _sorted(X: Any) -> Any:
    """Columns of a row in ascending order, each once."""
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
