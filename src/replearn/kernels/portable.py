"""Predictions in NumPy alone, with the bits of the compiled code.

Only ``+ - * /`` of doubles, each rounded once, and whole-number operations: no libm, no fused
multiply-add, no order that a machine may choose. ``docs/sigmoid.md`` is the specification; the
compiled twin is ``kernels.sigmoid``. A program without numba can predict with this module.
"""

import math
from typing import Any

import numpy as np

from replearn.types import Matrix, Vector

#: Arguments of the exponential are cut to this range: 2^n stays a normal number.
LOWEST, HIGHEST = -700.0, 700.0

INVERSE_LN2 = 1.4426950408889634
LN2_HI = 6.93147180369123816490e-01  # the leading 32 bits: n * LN2_HI is exact
LN2_LO = 1.90821492927058770002e-10

#: 1.5 * 2^52: a number below 2^51 added to it is rounded to a whole one, in the lowest bits.
WHOLE = 6755399441055744.0
#: 1/k! for k = 17, 16, ..., 0, each rounded once.
SERIES = tuple(1.0 / math.factorial(k) for k in range(17, -1, -1))

_N_LANES = 16  # as in `lanes`, which needs numba


def exponential(x: Any) -> Vector:
    """``e^x`` of ``x`` cut to +-700, within 2 units in the last place, never falling in x.

    ``e^x = 2^n e^r``, with ``n`` near ``x / ln 2 - 1/2`` and the power series of ``e^r`` to
    ``r^17``, ``0 <= r <= ln 2``. All its terms are positive, so that every operation rises with
    ``r``, rounding included; the cut to [1, 2] keeps the pieces in order.
    """
    x = np.minimum(np.maximum(np.asarray(x, dtype=np.float64), LOWEST), HIGHEST)
    shifted = (x * INVERSE_LN2 - 0.5) + WHOLE
    n = shifted - WHOLE
    r = np.maximum((x - n * LN2_HI) - n * LN2_LO, 0.0)
    series = np.full(x.shape, SERIES[0])
    for coefficient in SERIES[1:]:
        series = series * r + coefficient
    # the lowest bits of `shifted` are n: moved up they are the exponent of 2^n
    exponent = (np.asarray(shifted).view(np.int64) + 1023) << 52
    return np.asarray(np.minimum(series, 2.0) * exponent.view(np.float64))


def sigmoid(s: Any) -> Vector:
    """``1 / (1 + e^-s)``: see ``docs/sigmoid.md``; NaN gives NaN.

    Examples
    --------
    >>> sigmoid([0.0, 2.0, -1000.0, 1000.0])
    array([5.00000000e-001, 8.80797078e-001,
           9.85967654e-305, 1.00000000e+000])
    """
    return np.asarray(1.0 / (1.0 + exponential(-np.asarray(s, dtype=np.float64))))


def softmax(s: Any) -> Matrix:
    """Probabilities of C + 1 classes from C scores; class 0 has the score 0.

    With ``m`` the largest of a row's scores and 0, the terms ``e^(score - m)`` are added up in
    the order of the classes, and each is divided by the sum.

    Examples
    --------
    >>> softmax([[0.0, 0.0], [50.0, -50.0]]).round(3)
    array([[0.333, 0.333, 0.333],
           [0.   , 1.   , 0.   ]])
    """
    s = np.asarray(s, dtype=np.float64)
    top = np.maximum(s.max(axis=1), 0.0)
    terms = [exponential(-top)] + [exponential(column - top) for column in s.T]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return np.stack([term / total for term in terms], axis=1)


def capped_scores(
    X: Any, coef: Vector | Matrix, intercept: float | Vector, cap: float = math.inf
) -> Vector | Matrix:
    """``kernels.scores.capped_scores``, with the same bits.

    X is an array or a CSR matrix of numbers of any type; squared lengths of rows are below
    ``2^1000``.

    Examples
    --------
    >>> capped_scores(np.array([[3.0, 4.0], [30.0, 40.0]]), np.array([1.0, 2.0]), 0.5, cap=10.0)
    array([11.5, 22.5])
    """
    factors = np.ones(X.shape[0])
    if cap < math.inf:
        sizes = lane_sums(X, None)
        longer = sizes > cap * cap
        factors[longer] = cap / np.sqrt(sizes[longer])
    constants = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    columns = [
        lane_sums(X, vector) * factors + constant
        for vector, constant in zip(np.atleast_2d(coef), constants, strict=True)
    ]
    return np.stack(columns, axis=1) if np.ndim(coef) == 2 else columns[0]


def lane_sums(X: Any, weights: Vector | None) -> Vector:
    """``<x, weights>`` of each row, or ``<x, x>``, in the order of ``lanes``."""
    n_rows, n_features = X.shape
    lanes = np.zeros((n_rows, _N_LANES))
    if hasattr(X, "indptr"):
        # bincount adds in the order of the entries, which ascend in the columns of a row
        rows = np.repeat(np.arange(n_rows), np.diff(X.indptr))
        data = X.data.astype(np.float64)
        terms = data * (data if weights is None else weights[X.indices])
        places = rows * _N_LANES + X.indices % _N_LANES
        lanes += np.bincount(places, terms, lanes.size).reshape(lanes.shape)
    else:
        for start in range(0, n_features, _N_LANES):
            block = X[:, start : start + _N_LANES].astype(np.float64)
            other = block if weights is None else weights[start : start + _N_LANES]
            lanes[:, : block.shape[1]] += block * other
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]
