"""How likely another lab gets the same codes from one fit on all its rows."""

import math
from functools import cache

import numpy as np

from replearn.codes.randomness import SharedRandomness
from replearn.kernels.lanes import square
from replearn.plans.plan_rows import RowPlan
from replearn.stages.certificate import (
    ASSUMES,
    DRAWS,
    Certificate,
    flips_per_distance,
    share_leaving,
)
from replearn.stages.row_fit import FittedRows
from replearn.types import Matrix, Vector

_MIN_KEPT = 30  # fewer rows than this say nothing about their own spread

#: Largest ``(1 - e^-x)^2 / x``: a squared slope is at most this times its loss.
SLOPE_SHARE = 0.4073


def certify_rows(fitted: FittedRows, plan: RowPlan, shared: SharedRandomness) -> Certificate:
    """Certificate of a fit on all rows.

    Notes
    -----
    Estimate: another lab's vector is normal around mine with twice the covariance
    ``H^-1 J H^-1 / n``, H the curvature and J the covariance of the slopes' pulls, both from the
    rows that were kept; counted is how often it leaves my cell. Bound: without row i the exact
    minimum moves by at most ``p_i / (n lambda)``, so by Efron and Stein its variance is at most
    ``E mean(p^2) / (n lambda^2)``; squared slopes are bounded by losses, and the least value
    concentrates [McD89]. Both are derived in docs/theory.md and tested in
    tests/theory/test_row_fit.py.
    """
    estimate = _estimate(fitted, plan, shared)
    bound, confidence = _bound(fitted, plan)
    return Certificate(estimate, bound, confidence, ASSUMES, n_batches=1)


# --- the estimate -----------------------------------------------------------------------------


def _estimate(fitted: FittedRows, plan: RowPlan, shared: SharedRandomness) -> float | None:
    """Estimated probability of other codes under this seed."""
    if fitted.kept.counts.sum() < _MIN_KEPT:
        return None
    spread = row_spread(fitted, plan) * math.sqrt(2 / fitted.minimum.sums.n_rows)
    space = fitted.space
    projected = np.array([space.project(row, shared) for row in spread]) / float(space.grid_width)
    return share_leaving(fitted.residual, projected, _normal_draws(len(projected)), space)


def row_spread(fitted: FittedRows, plan: RowPlan) -> Matrix:
    """Rows whose second moments are n times the covariance of what is rounded."""
    kept, weight = fitted.kept, float(plan.regularization)
    negative, positive = plan.class_weights
    factors = np.where(kept.positive, positive, negative)
    slopes = 1 / (1 + np.exp(np.clip(kept.scores, -700, 700)))
    shares = kept.counts / kept.counts.sum()
    pulls = (factors * slopes)[:, None] * kept.rows
    pulls = np.sqrt(shares)[:, None] * (pulls - shares @ pulls)
    bends = shares * factors * slopes * (1 - slopes)
    moved = solved_by_curvature(kept.rows, bends, weight, pulls)
    if plan.unit_mean:  # a unit vector moves only across its own direction
        length = math.sqrt(square(fitted.minimum.vector))
        moved = moved - np.outer(moved @ fitted.mean, fitted.mean)
        moved = moved / length if length > 0 else moved
    else:
        moved = plan.guarantee.margin * moved
    if len(moved) <= moved.shape[1]:
        return moved
    return np.asarray(np.linalg.qr(moved, mode="r"), dtype=np.float64)


def solved_by_curvature(rows: Matrix, bends: Vector, weight: float, pulls: Matrix) -> Matrix:
    """``H^-1`` times each of the pulls, ``H = weight I + sum of bends v v'``."""
    n, d = rows.shape
    root = np.sqrt(bends)[:, None] * rows
    if d <= n:
        solved = np.linalg.solve(root.T @ root + weight * np.eye(d), pulls.T).T
        return np.asarray(solved, dtype=np.float64)
    inner = np.linalg.solve(root @ root.T + weight * np.eye(n), root @ pulls.T)
    return (pulls - (root.T @ inner).T) / weight


@cache
def _normal_draws(n: int) -> Matrix:
    """Normal draws, the same for every fit: they decide about no code."""
    shared = SharedRandomness("certificate/rows")
    return shared.normals("draws", DRAWS * n).reshape(DRAWS, n)


# --- the proved bound -------------------------------------------------------------------------


def _bound(fitted: FittedRows, plan: RowPlan) -> tuple[float, float]:
    """Bound of the disagreement over seeds, and its confidence."""
    minimum, failure = fitted.minimum, plan.guarantee.failure_prob / 2
    n, weight = minimum.sums.n_rows, float(plan.regularization)
    if fitted.spent.n_unconverged or n == 0:  # another lab's solver may give up too
        return 1.0, 1.0
    squared_slope, certain = math.log(2) * SLOPE_SHARE, True
    seen = SLOPE_SHARE * (minimum.value + _swing(n, weight, failure))
    if seen < squared_slope:
        squared_slope, certain = seen, False
    margin = 1.0 if plan.unit_mean else plan.guarantee.margin
    spread = margin * math.sqrt(squared_slope / n) / weight
    confidence = 1.0 if certain else 1 - failure
    distance = math.sqrt(2) * spread + 2 * float(plan.distance)
    if plan.unit_mean:
        # both unit vectors against that of the expected vector, as for means of batches
        length = math.sqrt(square(minimum.vector)) - minimum.distance
        shortest = length - spread / math.sqrt(failure)
        distance = 4 * spread / shortest + 2 * float(plan.distance) if shortest > 0 else math.inf
        confidence -= failure
    bound = flips_per_distance(plan) * distance / float(plan.grid_width) * (1 << plan.hint_bits)
    return min(1.0, bound), confidence


def _swing(n_rows: int, weight: float, failure: float) -> float:
    """The least value is below its mean by at most this, except with this probability."""
    longest = math.sqrt(2 * math.log(2) / weight)  # of a minimum: at 0 the value is at most ln 2
    largest = math.log1p(math.exp(-longest)) + longest  # loss of a row there
    return largest * math.sqrt(math.log(1 / failure) / (2 * n_rows))
