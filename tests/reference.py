"""Twins of compiled loops and maps: slow, plain, and written from the definitions."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.optimize import nnls

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def directions(X: Any, signs: Any, intercept: bool = False) -> Matrix:
    """The vectors ``v_i``, without all-zero rows, in extended precision until they are unit."""
    rows = np.asarray(X, dtype=np.longdouble)
    largest = np.abs(rows).max(axis=1, initial=0)
    kept = largest > 0
    rows = rows[kept] / largest[kept, None]
    if intercept:
        rows = np.column_stack([rows, np.sqrt((rows**2).sum(axis=1))])
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
    of the rows; minimising ``|V^T a|^2 + (1 - sum a)^2`` over ``a >= 0`` gives a multiple of
    that point's weights.
    """
    target = np.append(np.zeros(V.shape[1]), 1.0)
    weights, _ = nnls(np.vstack([V.T, np.ones(len(V))]), target)
    point = V.T @ (weights / weights.sum())
    margin = float(np.linalg.norm(point))
    return point / margin, margin


def sgd_average(V: Matrix, margin: float, weight: float, radius: float) -> Vector:
    """Average, with weights t, of projected SGD on ``hinge(w/margin) + weight/2 |w/margin|^2``."""
    w, total = np.zeros(V.shape[1]), np.zeros(V.shape[1])
    convexity = weight / margin**2
    for t, v in enumerate(V, start=1):
        total += t * w
        gradient = convexity * w - (v / margin if v @ w < margin else 0.0)
        w = w - 2 / (convexity * (t + 1)) * gradient
        w = w / max(1.0, float(np.linalg.norm(w)) / radius)
    return total / max(1, len(V) * (len(V) + 1) // 2)


def best_average(
    V: Matrix, n_runs: int, n_steps: int, margin: float, weight: float, radius: float
) -> Vector:
    """The best of several averages, by their objective on the rows after those of the runs."""
    rest = V[n_runs * n_steps :]
    averages = [
        sgd_average(V[r * n_steps : (r + 1) * n_steps], margin, weight, radius)
        for r in range(n_runs)
    ]
    values = [
        np.maximum(0, 1 - rest @ w / margin).mean() + weight / 2 * (w @ w) / margin**2
        for w in averages
    ]
    return averages[int(np.argmin(values))]


def akround(z: Any, beta: Any, o: Any, u: Any) -> Any:
    """AKround of one number as the paper words it; floats or fractions."""
    corner = o + math.floor((z - o) / beta) * beta
    p = (corner + beta - z) / beta  # p * corner + (1 - p) * (corner + beta) = z
    return corner if u <= p else corner + beta


def gaussian_matrix(n_inputs: int, n_components: int, coins: Any) -> Matrix:
    """Independent N(0, 1/k) entries."""
    rows = [coins.normals("projection/gaussian", n_inputs, row=i) for i in range(n_components)]
    return np.array(rows) / math.sqrt(n_components)


def hadamard_matrix(n_inputs: int, n_components: int, coins: Any) -> Matrix:
    """Signs, Hadamard on the first window, signs, Hadamard on the last window, k of the rows."""
    window = max(2**i for i in range(20) if 2**i <= n_inputs)
    small = hadamard(window) / math.sqrt(window)
    first, last = np.eye(n_inputs), np.eye(n_inputs)
    first[:window, :window] = small
    last[n_inputs - window :, n_inputs - window :] = small
    signs = [
        np.diag(coins.signs("projection/hadamard/signs", n_inputs, row=row)) for row in range(2)
    ]
    kept = coins.sample("projection/hadamard/rows", n_inputs, n_components)
    mixed: Matrix = last @ signs[1] @ first @ signs[0]
    return mixed[kept] * math.sqrt(n_inputs / n_components)


def rotation_matrix(n_inputs: int, n_components: int, coins: Any) -> Matrix:
    """D H_{d-2} ... H_0 with H_i the reflection that takes a Gaussian vector to an axis."""
    product = np.eye(n_inputs)
    for i in range(n_inputs):
        vector = coins.normals("projection/rotation", n_inputs - i, row=i)
        axis = np.eye(n_inputs - i)[0]
        sign = 1.0 if vector[0] >= 0 else -1.0
        step = np.eye(n_inputs)
        if i < n_inputs - 1:
            mirror = vector + sign * np.linalg.norm(vector) * axis
            step[i:, i:] -= 2 * np.outer(mirror, mirror) / (mirror @ mirror)
        step[i] *= -sign
        product = step @ product
    return product


def philox4x64(counter: Any, key: Any) -> tuple[int, int, int, int]:
    """One block of Philox4x64-10, in whole numbers of Python: four words."""
    mask = 2**64 - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (right >> 64) ^ c1 ^ k0, right & mask, (left >> 64) ^ c3 ^ k1, left & mask
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return c0, c1, c2, c3


def squared_hinge_vector(directions, ridge, n_steps=200):
    """Twin of `replearn.exact.squared_hinge.fit`: Newton's method in floats."""
    n, d = directions.shape
    u = np.zeros(d)

    def objective(u):
        return np.mean(np.maximum(0, 1 - directions @ u) ** 2) / 2 + ridge / 2 * (u @ u)

    for _ in range(n_steps):
        losses = np.maximum(0, 1 - directions @ u)
        active = directions[losses > 0]
        gradient = ridge * u - directions.T @ losses / n
        step = np.linalg.solve(active.T @ active / n + ridge * np.eye(d), gradient)
        size = 1.0
        while objective(u - size * step) > objective(u) and size > 1e-9:
            size /= 2
        u = u - size * step
    return u
