"""One regularised logistic fit on all rows: exact passes, a solver that knows no order.

Every number that decides anything is an exact sum over the rows, or was computed from such sums in
a fixed order. So the result is a function of the multiset of rows: chunks, threads, machines and
their order give the same bits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import CodeSpace, unit
from replearn.kernels.lanes import dot, square
from replearn.kernels.slopes import SlopeSums, row_scores, slope_sums
from replearn.plans.plan_rows import RowPlan
from replearn.plans.sizes import Spent
from replearn.stages.batches import UnorderedSample
from replearn.stages.recipes import round_vector
from replearn.types import BlockMap, Codes, IntegerArray, Matrix, Signs, Vector

#: Passes over the rows, at most.
_MAX_PASSES = 200

#: Steps whose change of the gradient is remembered.
_MEMORY = 12

#: A step must gain this share of what the gradient promises; losses are sums of numbers that were
#: rounded, so as much as the last term is no loss.
_GAIN = 1e-4
_ROUNDING = 1e-12

#: Largest curvature of the logistic loss on rows of length 1.
_CURVATURE = 0.25

#: Rows that are kept to estimate the spread, and their numbers altogether.
_MAX_KEPT = 4096
_KEPT_NUMBERS = 1 << 21


@dataclass(frozen=True)
class Minimum:
    """Where the solver stopped.

    The vector u, sums and ``value`` (mean loss plus ``lambda/2 |u|^2``) at u, and how far away the
    exact minimum is at most.
    """

    vector: Vector
    sums: SlopeSums
    value: float
    distance: float
    n_passes: int


#: What turns a vector into exact sums over all rows.
SlopePass = Callable[[Vector], SlopeSums]


def minimize(sums_at: SlopePass, n_inputs: int, weight: float, near: float, unit: bool) -> Minimum:
    """The minimum of the mean loss plus ``weight/2 |u|^2``, nearly.

    ``sums_at`` makes a pass over all rows. What is minimised is strongly convex with ``weight``, so
    with the gradient g at u the exact minimum is at most ``|g| / weight`` away. Stops at the
    distance ``near``, which is relative to half the length of u if ``unit``.

    Notes
    -----
    Quasi-Newton steps from the changes of the gradient in the last steps [Noc80], from 0, halved or
    more until the value falls enough. Tested in tests/unit/test_row_fit.py.
    """
    u = np.zeros(n_inputs)
    sums = sums_at(u)
    value, gradient, n_passes = sums.mean_loss(), -sums.mean_pull(), 1
    steps: list[tuple[Vector, Vector, float]] = []
    while n_passes < _MAX_PASSES:
        distance = math.sqrt(square(gradient)) / weight
        if distance <= near * (math.sqrt(square(u)) / 2 if unit else 1.0):
            break
        step = -_newton_like(gradient, steps, 1 / (_CURVATURE + weight))
        promised, share = dot(step, gradient), 1.0
        while True:
            there = u + share * step
            found = sums_at(there)
            n_passes += 1
            new = found.mean_loss() + weight / 2 * square(there)
            enough = value + _GAIN * share * promised + _ROUNDING * value
            if new <= enough or n_passes >= _MAX_PASSES:
                break
            bent = 2 * (new - value - share * promised)  # of the parabola through what is known
            share *= min(max(-promised * share / bent, 0.1), 0.5)
        if new > enough:
            break
        moved, slope = share * step, weight * there - found.mean_pull()
        change = slope - gradient
        bend = dot(moved, change)
        if bend > 0:
            steps = [*steps[1 - _MEMORY :], (moved, change, bend)]
        u, sums, value, gradient = there, found, new, slope
    return Minimum(u, sums, value, math.sqrt(square(gradient)) / weight, n_passes)


def _newton_like(
    gradient: Vector, steps: list[tuple[Vector, Vector, float]], first: float
) -> Vector:
    """The gradient times an inverse curvature that fits the last steps."""
    result, factors = gradient.copy(), []
    for moved, change, bend in reversed(steps):
        factor = dot(moved, result) / bend
        factors.append(factor)
        result -= factor * change
    if steps:
        _, change, bend = steps[-1]
        first = bend / square(change)
    result *= first
    for (moved, change, bend), factor in zip(steps, reversed(factors), strict=True):
        result += (factor - dot(change, result) / bend) * moved
    return result


# --- the recipe -------------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedRows:
    """What a fit on all rows hands back.

    ``mean`` was rounded (``margin * u``, or u at length 1), ``residual`` is its place in its cell,
    in grid widths. The space has the hint that was given, or that this fit, as the first, has
    chosen; ``kept`` are some rows, at the minimum.
    """

    codes: Codes
    space: CodeSpace
    mean: Vector
    residual: Vector
    minimum: Minimum
    kept: "KeptRows"
    spent: Spent


def fit_all_rows(
    sample: UnorderedSample,
    plan: RowPlan,
    shared: SharedRandomness,
    run: BlockMap = map,
    hint: int | None = None,
) -> FittedRows:
    """Algorithm 1 with one fit on all rows in place of batches: solve, then project and round.

    The rows may come in any order. ``hint`` was published by the first lab; with hint bits and no
    hint, this fit is the first.
    """

    def sums_at(vector: Vector) -> SlopeSums:
        # workers of a cluster get this: it must not drag the sample along
        terms = partial(slope_sums, direction=vector, class_weights=plan.class_weights)
        return sample.add_up(terms, run)

    margin, near = plan.guarantee.margin, float(plan.distance)
    minimum = minimize(
        sums_at,
        plan.n_inputs,
        float(plan.regularization),
        near if plan.unit_mean else near / margin,
        plan.unit_mean,
    )
    mean = unit(minimum.vector) if plan.unit_mean else margin * minimum.vector
    limit = max(1, min(_MAX_KEPT, _KEPT_NUMBERS // plan.n_inputs))
    kept = sample.add_up(partial(KeptRows.of, minimum.vector, limit), run)
    codes, space, residual = round_vector(mean, plan, shared, hint)
    n_rows = minimum.sums.n_rows + minimum.sums.n_zero
    length = math.sqrt(square(minimum.vector))
    reached = 2 * minimum.distance / length if plan.unit_mean and length > 0 else minimum.distance
    reached *= 1.0 if plan.unit_mean else margin
    spent = Spent(
        n_rows=n_rows,
        n_batches=1,
        n_dropped=0,
        n_zero_rows=minimum.sums.n_zero,
        n_unconverged=int(reached > near * (1 + 1e-9)),
        worst_gap=reached,
        n_row_visits=(minimum.n_passes + 1) * n_rows,
    )
    return FittedRows(codes, space, mean, residual, minimum, kept, spent)


# --- rows from which the spread is estimated --------------------------------------------------


@dataclass(frozen=True)
class KeptRows:
    """Different rows with the smallest keys, and how often each came: no order has a part in it.

    A key is made of a row's score, length and sign, so equal rows have equal keys; rows that come
    often count often. If there are no more different rows than the limit, this is all of them. Keys
    ascend; rows have length 1, times their sign.
    """

    limit: int
    keys: Any
    counts: IntegerArray
    rows: Matrix
    scores: Vector
    positive: Any

    @classmethod
    def of(cls, vector: Vector, limit: int, X: Any, signs: Signs) -> "KeptRows":
        """Those of some rows, with their scores at a vector."""
        scores, sizes = row_scores(X, signs, vector)
        keys = _mixed(scores.view(np.uint64), sizes.view(np.uint64), signs)
        there = np.flatnonzero((sizes > 0) & np.isfinite(sizes))
        found, first, counts = np.unique(keys[there], return_index=True, return_counts=True)
        chosen = there[first[:limit]]
        part = X[chosen]
        rows = np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
        if vector.size > rows.shape[1]:
            rows = np.hstack([rows, np.ones((len(rows), 1))])
        largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
        rows = rows / largest[:, None]
        rows *= (signs[chosen] / np.sqrt((rows**2).sum(axis=1)))[:, None]
        return cls(limit, found[:limit], counts[:limit], rows, scores[chosen], signs[chosen] > 0)

    def __add__(self, other: "KeptRows") -> "KeptRows":
        """Those of both sets of rows."""
        keys = np.concatenate([self.keys, other.keys])
        found, first, back = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.zeros(found.size, dtype=np.int64)
        np.add.at(counts, back, np.concatenate([self.counts, other.counts]))
        chosen = first[: self.limit]
        mine, theirs = chosen[chosen < self.keys.size], chosen[chosen >= self.keys.size]
        order = np.argsort(np.concatenate([self.keys[mine], other.keys[theirs - self.keys.size]]))

        def joined(one: Any, two: Any) -> Any:
            return np.concatenate([one[mine], two[theirs - self.keys.size]])[order]

        return KeptRows(
            self.limit,
            found[: self.limit],
            counts[: self.limit],
            joined(self.rows, other.rows),
            joined(self.scores, other.scores),
            joined(self.positive, other.positive),
        )


def _mixed(one: Any, two: Any, signs: Signs) -> Any:
    """Keys of 64 well mixed bits."""
    keys = one ^ (two << np.uint64(23)) ^ (two >> np.uint64(41)) ^ (signs > 0).astype(np.uint64)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))
