"""NumPy twins of the kernels: slow, plain, and written from the definitions."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


# --- lanes ------------------------------------------------------------------------------------


def lane_dot(x: Any, w: Any) -> float:
    """``<x, w>`` in the order of ``lanes``: sixteen lanes, folded in halves."""
    lanes = np.zeros(16)
    for start in range(0, len(x), 16):
        products = (
            np.asarray(x[start : start + 16], float) * w[start : start + 16][: len(x) - start]
        )
        lanes[: products.size] += products
    while lanes.size > 1:
        half = lanes.size // 2
        lanes = lanes[:half] + lanes[half:]
    return float(lanes[0])


# --- exact sums -------------------------------------------------------------------------------


def exact_sum(hi: Any, lo: Any) -> list[Fraction]:
    """What the limbs of a sum stand for."""
    return [
        Fraction(int(high), 2**30) + Fraction(int(low), 2**61)
        for high, low in zip(hi, lo, strict=True)
    ]


# --- the batch SVM ----------------------------------------------------------------------------


def directions(X: Any, signs: Any, intercept: bool = False) -> Matrix:
    """The vectors ``v_i``, without all-zero rows, in extended precision until they are unit."""
    rows = np.asarray(X, dtype=np.longdouble)
    if intercept:
        rows = np.column_stack([rows, np.ones(len(rows), dtype=np.longdouble)])
    largest = np.abs(rows).max(axis=1, initial=0)
    kept = largest > 0
    rows = rows[kept] / largest[kept, None]
    rows *= np.asarray(signs, dtype=np.longdouble)[kept, None]
    return np.asarray(rows / np.sqrt((rows**2).sum(axis=1, keepdims=True)), dtype=np.float64)


def duality_gap(V: Matrix, u: Vector, alpha: Vector, C: float) -> float:
    """``P(u) - D(alpha)`` of the soft-margin problem, from the definitions."""
    slacks = np.maximum(1 - V @ u, 0)
    from_duals = V.T @ alpha
    primal = u @ u / 2 + C * math.fsum(slacks)
    return float(primal - (math.fsum(alpha) - from_duals @ from_duals / 2))


def best_soft(V: Matrix, C: float, gap: float = 1e-10) -> tuple[Vector, Vector]:
    """Soft-margin optimum by coordinate descent in cyclic order, with a proof of its gap."""
    alpha = np.zeros(len(V))
    u = np.zeros(V.shape[1])
    for _ in range(200_000):
        for i, v in enumerate(V):
            moved = min(max(alpha[i] + 1 - v @ u, 0), C)
            u += (moved - alpha[i]) * v
            alpha[i] = moved
        u = V.T @ alpha
        if duality_gap(V, u, alpha, C) <= gap:
            return u, alpha
    raise AssertionError("the reference did not converge")


def best_hard(V: Matrix) -> tuple[Vector, float]:
    """Unit normal of the largest margin, and that margin: 0 if there is none.

    They are the direction and the length of the point nearest to the origin in the convex hull
    of the rows; minimising ``||V^T a||^2 + (1 - sum a)^2`` over ``a >= 0`` gives a multiple of
    that point's weights.
    """
    target = np.append(np.zeros(V.shape[1]), 1.0)
    weights, _ = nnls(np.vstack([V.T, np.ones(len(V))]), target)
    point = V.T @ (weights / weights.sum())
    margin = float(np.linalg.norm(point))
    return point / margin, margin
