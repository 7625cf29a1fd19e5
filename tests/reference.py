"""NumPy twins of the kernels: slow, plain, and written from the definitions."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
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


# --- columns of tables ------------------------------------------------------------------------


def scaled_column(values: Any, centre: float, scale: float) -> list[float]:
    """A column moved and scaled, number by number; 0 for a missing value."""
    return [0.0 if math.isnan(value) else (value - centre) / scale for value in values]


# --- the logistic function --------------------------------------------------------------------


def specified_sigmoid(s: float) -> float:
    """``docs/sigmoid.md``, step by step, in Python's own numbers."""
    return 1.0 / (1.0 + specified_exponential(-s))


def specified_exponential(x: float) -> float:
    """``E(x)`` of ``docs/sigmoid.md``."""
    x = min(max(x, -700.0), 700.0)
    n = ((x * 1.4426950408889634 - 0.5) + 1.5 * 2.0**52) - 1.5 * 2.0**52
    r = max((x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10, 0.0)
    total = 0.0
    for k in range(17, -1, -1):
        total = total * r + float(Fraction(1, math.factorial(k)))
    return math.ldexp(min(total, 2.0), int(n))


def score_integers(
    X: Any,
    directions: Any,
    cap: float,
    own: Any,
    theta: Any,
    units: Any,
    weights: Any,
    factors: Any = None,
) -> list[int]:
    """Score, Fisher information and second moments in quanta, from the definitions."""
    theta = np.atleast_2d(theta)
    total: list[int] = []
    for x, label, weight in zip(X, own, weights, strict=True):
        a = projected_row(x, directions, cap, units)
        if isinstance(label, float):
            terms = number_terms(a, theta * units, label)
            quanta = [weight * in_quanta(term) for term in terms]
            total = [s + t for s, t in zip(total or [0] * len(quanta), quanta, strict=True)]
            continue
        p = class_probabilities(a, theta * units)
        factor = 1.0 if factors is None else factors[label]
        v = [[(pc - (label == c)) * factor * ai for ai in a] for c, pc in enumerate(p, start=1)]
        pairs = [(c, e) for c in range(len(p)) for e in range(c, len(p))]
        places = [(i, j) for i in range(len(a)) for j in range(i, len(a))]
        terms = [entry for output in v for entry in output]
        for c, e in pairs:
            h = (p[c] * (1.0 - p[c]) if c == e else -p[c] * p[e]) * factor
            terms += [h * a[i] * a[j] for i, j in places]
        for c, e in pairs:
            terms += [v[c][i] * v[e][j] for i, j in places]
        quanta = [weight * in_quanta(term) for term in terms]
        total = [s + t for s, t in zip(total or [0] * len(quanta), quanta, strict=True)]
    return total


def slope_integers(
    X: Any, signs: Any, direction: Any, class_weights: tuple[float, float] = (1.0, 1.0)
) -> list[int]:
    """Pull and loss (in units of 1024) in quanta, from the definitions."""
    direction = np.asarray(direction, float)
    total = [0] * (direction.size + 1)
    for x, sign in zip(np.asarray(X, float), signs, strict=True):
        bias = float(direction.size > x.size)
        size = lane_dot(x, x) + bias
        if size == 0.0:
            continue
        factor = sign / math.sqrt(size)
        score = factor * (lane_dot(x, direction[: x.size]) + bias * direction[-1])
        weight = class_weights[int(sign > 0)]
        slope = 1.0 / (1.0 + specified_exponential(score)) * weight
        a = slope * factor
        pull = [a * value for value in x.tolist()] + ([a] if bias else [])
        loss = -math.log(1.0 / (1.0 + specified_exponential(-score))) * weight
        terms = [*pull, loss / 1024]
        total = [s + in_quanta(term) for s, term in zip(total, terms, strict=True)]
    return total


def number_terms(a: list[float], theta: Matrix, target: float) -> list[float]:
    """What a row with a number adds: ``v``, the cut residual times a; ``a a'``; and ``v v'``."""
    residual = theta[0, 0]
    for weight, value in zip(theta[0, 1:].tolist(), a[1:], strict=True):
        residual += weight * value
    residual = min(max(residual - target, -1.0), 1.0)
    v = [residual * ai for ai in a]
    places = [(i, j) for i in range(len(a)) for j in range(i, len(a))]
    return [*v, *(a[i] * a[j] for i, j in places), *(v[i] * v[j] for i, j in places)]


def projected_row(x: Any, directions: Any, cap: float, units: Any) -> list[float]:
    """``(1, D x')`` in units, cut to +-1."""
    x = np.asarray(x, float)
    size = lane_dot(x, x)
    factor = cap / math.sqrt(size) if size > cap * cap else 1.0
    a = [1.0] + [lane_dot(x, row) * factor for row in np.asarray(directions, float)]
    return [min(max(value / unit, -1.0), 1.0) for value, unit in zip(a, units, strict=True)]


def class_probabilities(a: list[float], theta: Matrix) -> list[float]:
    """Of the classes from 1 on, as ``docs/sigmoid.md`` says."""
    scores = []
    for row in theta.tolist():
        total = row[0]
        for weight, value in zip(row[1:], a[1:], strict=True):
            total += weight * value
        scores.append(total)
    if len(scores) == 1:
        return [specified_sigmoid(scores[0])]
    top = max(0.0, *scores)
    terms = [specified_exponential(score - top) for score in [0.0, *scores]]
    total = terms[0]
    for term in terms[1:]:
        total += term
    return [term / total for term in terms[1:]]


def in_quanta(term: float) -> int:
    """The term as a multiple of ``2^-51``, rounded to even in a tie."""
    return round(Fraction(term) * 2**51)


def cholesky_by_definition(A: Any) -> list[list[float]]:
    """Upper triangular R with R'R = A, entry by entry, sums ascending from 0."""
    q = len(A)
    R = [[0.0] * q for _ in range(q)]
    for i in range(q):
        for j in range(i, q):
            total = 0.0
            for m in range(i):
                total += R[m][i] * R[m][j]
            rest = float(A[i][j]) - total
            R[i][j] = math.sqrt(rest) if i == j else rest / R[i][i]
    return R


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


def duality_gap(V: Matrix, u: Vector, alpha: Vector, C: Any) -> float:
    """``P(u) - D(alpha)`` of the soft-margin problem, from the definitions."""
    slacks = np.maximum(1 - V @ u, 0)
    from_duals = V.T @ alpha
    primal = u @ u / 2 + math.fsum(np.broadcast_to(C, len(V)) * slacks)
    return float(primal - (math.fsum(alpha) - from_duals @ from_duals / 2))


def best_soft(V: Matrix, C: Any, gap: float = 1e-10) -> tuple[Vector, Vector]:
    """Soft-margin optimum by coordinate descent in cyclic order, with a proof of its gap.

    C is one number, or one for each row.
    """
    boxes = np.broadcast_to(C, len(V))
    alpha = np.zeros(len(V))
    u = np.zeros(V.shape[1])
    for _ in range(200_000):
        for i, v in enumerate(V):
            moved = min(max(alpha[i] + 1 - v @ u, 0), boxes[i])
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


# --- gradient descent -------------------------------------------------------------------------


def sgd_average(
    V: Matrix, margin: float, weight: float, radius: float, counts: Any = 1.0
) -> Vector:
    """Average, with weights t, of projected SGD on ``hinge(w/margin) + weight/2 |w/margin|^2``.

    ``counts`` multiplies the hinge, by row.
    """
    counts = np.broadcast_to(counts, len(V))
    w, total = np.zeros(V.shape[1]), np.zeros(V.shape[1])
    convexity = weight / margin**2
    for t, v in enumerate(V, start=1):
        total += t * w
        gradient = convexity * w - (counts[t - 1] * v / margin if v @ w < margin else 0.0)
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


# --- roundings --------------------------------------------------------------------------------


def akround(z: Any, beta: Any, o: Any, u: Any) -> Any:
    """AKround of one number as the paper words it; floats or fractions."""
    corner = o + math.floor((z - o) / beta) * beta
    p = (corner + beta - z) / beta  # p * corner + (1 - p) * (corner + beta) = z
    return corner if u <= p else corner + beta


# --- projections, as matrices -----------------------------------------------------------------


def gaussian_matrix(n_inputs: int, n_components: int, shared: Any) -> Matrix:
    """Independent N(0, 1/k) entries."""
    rows = [shared.normals("projection/gaussian", n_inputs, row=i) for i in range(n_components)]
    return np.array(rows) / math.sqrt(n_components)


def signs_matrix(n_inputs: int, n_components: int, shared: Any) -> Matrix:
    """Independent +-1/sqrt(k) entries."""
    rows = [shared.signs("projection/signs", n_inputs, row=i) for i in range(n_components)]
    return np.array(rows) / math.sqrt(n_components)


def hadamard_matrix(n_inputs: int, n_components: int, shared: Any) -> Matrix:
    """Signs, Hadamard on the first window, signs, Hadamard on the last window, k of the rows."""
    window = max(2**i for i in range(20) if 2**i <= n_inputs)
    small = hadamard(window) / math.sqrt(window)
    first, last = np.eye(n_inputs), np.eye(n_inputs)
    first[:window, :window] = small
    last[n_inputs - window :, n_inputs - window :] = small
    signs = [
        np.diag(shared.signs("projection/hadamard/signs", n_inputs, row=row)) for row in range(2)
    ]
    kept = shared.sample("projection/hadamard/rows", n_inputs, n_components)
    mixed: Matrix = last @ signs[1] @ first @ signs[0]
    return mixed[kept] * math.sqrt(n_inputs / n_components)


def rotation_matrix(n_inputs: int, n_components: int, shared: Any) -> Matrix:
    """D H_{d-2} ... H_0 with H_i the reflection that takes a Gaussian vector to an axis."""
    product = np.eye(n_inputs)
    for i in range(n_inputs):
        vector = shared.normals("projection/rotation", n_inputs - i, row=i)
        axis = np.eye(n_inputs - i)[0]
        sign = 1.0 if vector[0] >= 0 else -1.0
        step = np.eye(n_inputs)
        if i < n_inputs - 1:
            mirror = vector + sign * np.linalg.norm(vector) * axis
            step[i:, i:] -= 2 * np.outer(mirror, mirror) / (mirror @ mirror)
        step[i] *= -sign
        product = step @ product
    return product


def same_matrix(n_inputs: int, n_components: int, shared: Any) -> Matrix:
    """The coordinates as they are."""
    return np.eye(n_inputs)


PROJECTION_MATRICES = {
    "gaussian": gaussian_matrix,
    "signs": signs_matrix,
    "hadamard": hadamard_matrix,
    "rotation": rotation_matrix,
    "none": same_matrix,
}


# --- ranking ----------------------------------------------------------------------------------


def delong(scores: Any, positive: Any) -> tuple[float, float]:
    """Area under the ROC curve and DeLong's variance, pair by pair."""
    above, below = np.asarray(scores)[positive], np.asarray(scores)[~np.asarray(positive)]
    kernel = (above[:, None] > below) + 0.5 * (above[:, None] == below)
    variance = kernel.mean(axis=1).var(ddof=1) / above.size
    return float(kernel.mean()), float(variance + kernel.mean(axis=0).var(ddof=1) / below.size)


# --- lattices made of boxes -----------------------------------------------------------------


def nearest_in_boxes(point, moduli, weights, words):
    """The nearest lattice point of `replearn.kernels.boxes`, with ties, in fractions.

    ``point`` is a list of fractions. Of all nearest points the lexicographically smallest.
    """
    best = None
    for word in words:
        options = []  # of each coordinate, the one or two nearest integers of the residue class
        for x, r, m in zip(point, word, moduli, strict=True):
            below = r + m * math.floor((x - r) / m)
            near = min(abs(x - below), abs(x - below - m))
            options.append([c for c in (below, below + m) if abs(x - c) == near])
        codes = tuple(min(choice) for choice in options)
        cost = sum(w * (x - c) ** 2 for w, x, c in zip(weights, point, codes, strict=True))
        if best is None or (cost, codes) < best:
            best = cost, codes
    return best[1]


# ---------------------------------------------------------------- Philox


def philox4x64(counter, key):
    """One block of Philox4x64-10, in whole numbers of Python: four words."""
    mask = 2**64 - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (right >> 64) ^ c1 ^ k0, right & mask, (left >> 64) ^ c3 ^ k1, left & mask
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return c0, c1, c2, c3


# --- scores of finished models --------------------------------------------------------------


def log_losses(probabilities, floor):
    """Log-loss of each row, one by one, with the platform's logarithm."""
    return np.array([-math.log(min(max(p, floor), 1.0)) for p in probabilities])


def exponentials(words):
    """Exponential draws from words, with the platform's logarithm."""
    return np.array([-math.log(((int(word) >> 12) * 2 + 1) * 2.0**-53) for word in words])


def half_sums_by_definition(X: Any, members: Any, positive: Any) -> tuple[Any, Any]:
    """Sums by half and class, and of squares by half, of the distances from the first row."""
    rows = X[members].astype(float) - X[members[0]].astype(float)
    halves = [(rows[start::2], positive[start::2]) for start in (0, 1)]
    sums = np.array([[half[~hit].sum(axis=0), half[hit].sum(axis=0)] for half, hit in halves])
    return sums, np.array([(half**2).sum(axis=0) for half, _ in halves])


# --- choices ----------------------------------------------------------------------------------


def same_choice(first: Vector, second: Vector, noise_scale: float) -> float:
    """Probability, over seeds, that two sites with these scores choose the same candidate.

    Exact: both choose i if its noise beats that of every j by the smaller of the two leads.
    """
    points, weights = np.polynomial.legendre.leggauss(min(first.size // 2 + 1, 64))
    nodes, total = (points + 1) / 2, 0.0
    for i in range(first.size):
        leads = np.minimum(first[i] - first, second[i] - second) / noise_scale
        ratios = np.exp(-np.minimum(np.delete(leads, i), 700.0))
        end = min(1.0, 1.0 / ratios.max()) if ratios.size else 1.0
        factors = 1.0 - end * nodes[:, None] * ratios
        total += end * float(weights / 2 @ np.prod(factors, axis=1))
    return total
