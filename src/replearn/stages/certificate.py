"""How likely is it that another lab gets the same codes? One estimate, one proved bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from replearn.codes.cells import provable_flip_constant
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import CodeSpace
from replearn.codes.walls import near_walls
from replearn.kernels.lanes import square
from replearn.plans.block_hints import HintedCubes
from replearn.plans.choice_sizes import proved_disagreement
from replearn.plans.plan_boosting import worst_flips
from replearn.plans.plan_sgd import variance_bound
from replearn.plans.sizes import BatchPlan, BoostPlan, NetPlan, RoundedPlan
from replearn.stages.batches import BatchSums
from replearn.stages.boost_rounds import Boosted
from replearn.stages.intervals import largest_differences, largest_means
from replearn.stages.net_search import Evidence
from replearn.stages.recipes import Fitted
from replearn.types import Drawable, Matrix, Vector

#: What every bound assumes.
ASSUMES = "rows drawn independently from one population, by both labs, the same number"
DRAWS = 2000  # standard error .007 at a disagreement of .1
_DRAWN_NUMBERS = 1 << 21  # in memory at once, for rows with many features
_MOST_NUMBERS = 1 << 24  # in a round of boosting: with over 8,388 features fewer draws, not
_FEWEST_DRAWS = 200  # fewer than these, which have a standard error of .02
_MIN_GROUPS = 4  # fewer batches than this say nothing about their own spread


@dataclass(frozen=True)
class Certificate(Drawable):
    """What a fit can say about its own replicability.

    Attributes
    ----------
    estimated_disagreement : float or None
        Estimated probability that another lab with as many rows from the same population,
        *under this seed*, gets different codes. None: not estimable (too few batches).
    disagreement_bound : float
        Proved upper bound of that probability *averaged over seeds*; 1 says nothing.
    confidence : float
        Probability, over samples, with which ``disagreement_bound`` holds.
    assumes : str
        What the bound assumes.
    n_batches : int

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> fitted.certificate_.confidence
    1.0
    >>> fitted.certificate_.assumes
    'rows drawn independently from one population, by both labs, the same number'
    """

    estimated_disagreement: float | None
    disagreement_bound: float
    confidence: float
    assumes: str
    n_batches: int

    def __str__(self) -> str:
        if self.estimated_disagreement is None:
            estimate = f"not estimable from {self.n_batches} batches"
        else:
            estimate = f"{self.estimated_disagreement:.3f} (estimated from this sample)"
        bound = (
            "nothing proved (bound 1)"
            if self.disagreement_bound >= 1
            else f"<= {self.disagreement_bound:.3f} at confidence {self.confidence:g}"
        )
        return (
            f"disagreement under this seed: {estimate}\n"
            f"disagreement averaged over seeds: {bound}; assumes {self.assumes}"
        )


def certify(fitted: Fitted, plan: BatchPlan, shared: SharedRandomness) -> Certificate:
    """Certificate of one fit.

    Reads the streams of the code space.

    Notes
    -----
    Estimate: given my mean z, the other lab's is normal around it with twice the variance of a
    mean (mine is as uncertain as theirs). Its law is drawn from the spread of the
    group means, projected, with a chi-square factor for the few groups, and
    counted when it leaves the cell. Only the minimal vectors' facets of the Leech cell are
    looked at (99.5 % of its crossings). Bound: ``constant * sqrt(2 variance / n_batches)``
    with the smaller of the a-priori variance bound and an empirical bound. With hint bits the
    estimate is given the hint, and the bound is averaged over offsets: `HintedCubes`, or as
    many times the one without a hint as there are offsets. Calibration is tested in
    tests/theory/test_certificate.py.
    """
    n_batches = fitted.sums[0].n_batches
    means = fitted.mean.reshape(plan.n_outputs, -1)
    deviations = np.hstack(
        [_deviations(part, mean, plan) for part, mean in zip(fitted.sums, means, strict=True)]
    )
    estimate = _estimate(deviations, fitted.residual, n_batches, fitted.space, shared)
    if plan.margins_tried:  # nothing is proved about the search for the margin
        bound, confidence = 1.0, 1.0
    else:
        bound, confidence = _bounds(fitted.sums, plan)
    return Certificate(
        estimated_disagreement=None if estimate is None else min(1.0, estimate + fitted.doubt),
        disagreement_bound=bound,
        confidence=confidence,
        assumes=ASSUMES + (_keeping(plan.guarantee.margin) if plan.mode == "certified" else ""),
        n_batches=n_batches,
    )


def certify_choice(evidence: Evidence, plan: NetPlan, n_points: int) -> Certificate:
    """Certificate of a fit that chose a candidate of a net.

    ``n_points`` is the number of rows that were used.

    Notes
    -----
    Estimate: another lab's error rates are normal around mine, jointly, with twice the
    covariance that groups of rows show; counted is how often an earlier candidate gets below
    the threshold or the chosen one above it, or a rival's score gets the largest. If the start
    of the threshold falls into another cell, the threshold of that cell counts. Bound: the
    theorem of the algorithm (docs/net.md) at this number of rows. Calibration is tested in
    tests/theory/test_net.py.
    """
    estimate = None
    if evidence.estimable:
        draws = _student_draws(evidence.spreads.shape[0])
        estimate = float(evidence.changed(draws).mean())
    assumes = ASSUMES
    if plan.net.calibration != "generic":
        assumes += _keeping(plan.guarantee.margin)
    return Certificate(
        estimated_disagreement=estimate,
        disagreement_bound=proved_disagreement(plan, n_points),
        confidence=1.0,
        assumes=assumes,
        n_batches=evidence.n_groups,
    )


def certify_boosting(fitted: Boosted, plan: BoostPlan, shared: SharedRandomness) -> Certificate:
    """Certificate of boosting: of each round and each test, then of all of them.

    Reads the streams of the rounds.

    Notes
    -----
    Estimate: given my mean of a round, another lab's is normal around it with twice its variance,
    as groups of rows show it; counted is how often that leaves the box or the droplet. The
    rounds are taken as independent. Bound, by union over the rounds that the plan allows:
    ``constant sqrt(2 / n_kept) / width`` for a rounding, the promise of `replicable_mean` for
    a test; only if the numbers of rows are those of a plan that promises something. Calibration is
    tested in tests/theory/test_boosting.py.
    """
    same: float | None = 1.0
    per_round = fitted.space.codes_per_round
    for t, done in enumerate(fitted.rounds):
        n_groups = done.spread.shape[0]
        if n_groups < _MIN_GROUPS or same is None:
            same = None
            break
        codes = fitted.codes[t * per_round : (t + 1) * per_round]
        n_columns = done.spread.shape[1]
        draws = _student_draws(n_groups)[: max(_FEWEST_DRAWS, _MOST_NUMBERS // n_columns)]
        size = max(1, _DRAWN_NUMBERS // n_columns)
        left = 0.0
        for part in (draws[i : i + size] for i in range(0, len(draws), size)):
            moved = part @ done.spread
            share = fitted.space.leaving(t, done.mean, codes, moved, shared)
            left += share * (len(part) / len(draws))
        same *= (1 - left) * (1 - done.doubt)
    return Certificate(
        estimated_disagreement=None if same is None or not fitted.rounds else 1 - same,
        disagreement_bound=_boosting_bound(plan),
        confidence=1.0,
        assumes=ASSUMES + _keeping(plan.guarantee.margin),
        n_batches=len(fitted.rounds),
    )


def _keeping(margin: float) -> str:
    return f"; the population keeps the margin {margin:g}"


def _boosting_bound(plan: BoostPlan) -> float:
    """Union over the rounds and tests of a plan that was followed; 1 if it promises nothing."""
    if plan.mode == "certified":
        return plan.guarantee.max_disagreement
    if plan.boost.n_kept == 0:
        return 1.0
    flips = worst_flips(plan.rounding, plan.n_inputs) / float(plan.grid_width)
    rounding = flips * math.sqrt(2 / plan.boost.n_kept)
    test = plan.guarantee.max_disagreement / (3 * plan.boost.n_rounds)
    return min(1.0, plan.boost.n_rounds * (rounding + test))


# --- the proved bound -----------------------------------------------------------------------


def _bounds(every: Sequence[BatchSums], plan: BatchPlan) -> tuple[float, float]:
    """Bound of the disagreement over seeds, and its confidence: a union over the halfspaces."""
    if len(every) > 1:
        promise = plan.guarantee
        share = replace(promise, failure_prob=promise.failure_prob / len(every))
        plan = replace(plan, guarantee=share)
    found = [_bound(sums, plan) for sums in every]
    doubt = sum(1 - confidence for _, confidence in found)
    return min(1.0, sum(bound for bound, _ in found)), 1 - doubt


def _bound(sums: BatchSums, plan: BatchPlan) -> tuple[float, float]:
    """Bound of the disagreement over seeds, and its confidence."""
    width = float(plan.grid_width)
    distance, confidence = _distance(sums, plan)
    bound = flips_per_distance(plan) * distance / width
    if plan.hint_bits:
        bound *= 1 << plan.hint_bits  # whatever offset is chosen, it is one of these
        if _has_isotropic_cubes(plan) and plan.n_outputs == 1:  # a hint for all is not proved
            law = HintedCubes(plan.projection, plan.n_components, plan.hint_bits)
            step = 2 * plan.length_cap / sums.n_batches / width
            bound = min(bound, law.bound((distance / width) ** 2, step))
    return min(1.0, bound), confidence


def flips_per_distance(plan: RoundedPlan) -> float:
    """Bound of P[other codes] per (distance of two labs' vectors / grid width), over seeds."""
    constant = provable_flip_constant(
        plan.projection, plan.rounding, plan.n_inputs, plan.n_components
    )
    return constant if plan.basis_map is None else constant * plan.basis_map.longest_stretch


def _has_isotropic_cubes(plan: BatchPlan) -> bool:
    """Whether a difference has a random direction, and cells are cubes: hints are then proved."""
    turned = plan.projection in ("gaussian", "rotation") and not plan.unit_mean
    return turned and plan.rounding in ("ak", "centre") and math.isfinite(plan.length_cap)


def _distance(sums: BatchSums, plan: BatchPlan) -> tuple[float, float]:
    """Bound of the root mean squared distance of two labs' means, and its confidence."""
    prior = _prior_variance(sums, plan)
    tally, failure = sums.tally, plan.guarantee.failure_prob / 2
    observed = largest_variance(
        tally.n_pairs, tally.pair_sum, tally.pair_square_sum, plan.length_cap, failure
    )
    variance, confidence = (prior, 1.0) if prior <= observed else (observed, 1 - failure)
    spread = math.sqrt(variance / sums.n_batches)  # of one lab's mean
    if not plan.unit_mean:
        return math.sqrt(2) * spread, confidence
    # Both unit vectors against that of the expected mean mu: |a/|a| - mu/|mu|| is at most
    # 2 |a - mu| / |mu|, and Chebyshev keeps |mu| from being much shorter than my mean.
    length = math.sqrt(float(square(sums.mean())))
    shortest = length - spread / math.sqrt(failure)
    distance = 4 * spread / shortest if shortest > 0 else math.inf
    return distance, confidence - failure


def _prior_variance(sums: BatchSums, plan: BatchPlan) -> float:
    """Variance of one batch vector, at most, whatever the population.

    Vectors of length at most R have variance at most R^2. For soft-margin SVMs leave-one-out
    and Efron-Stein give ``tau^2 sum alpha_i^2 <= tau^2 C / lambda`` (tests/theory) for the exact
    solution (certified mode: C, under the promise of a margin), with the box constraint
    ``C = 1 / (n lambda)`` of the n rows that a batch *has*: a
    sample smaller than a batch has a larger one than was planned. A solver that stops at a duality
    gap g is within ``sqrt(2 g)`` of it, which adds to the standard deviation; batches that it gave
    up on may be anywhere. For gradient descent see `variance_bound`; it does not know the best of
    several runs, nor zero rows, which make a run shorter.
    """
    weight, margin = float(plan.regularization), plan.guarantee.margin
    ball = plan.length_cap**2
    if plan.algorithm == "sgd":
        if plan.n_repetitions > 1 or sums.tally.n_zero_rows:
            return ball
        return min(ball, variance_bound(margin, weight, sums.batch_size))
    if plan.unit_vectors or weight == 0 or sums.tally.n_unconverged:
        return ball
    exact = margin / (weight * math.sqrt(sums.batch_size))
    if plan.mode == "certified":  # the promise of a margin bounds the sum of the alphas
        exact = min(exact, math.sqrt(1 / (sums.batch_size * weight)))
    return min(ball, (exact + margin * math.sqrt(2 * _largest_gap(plan))) ** 2)


def _largest_gap(plan: BatchPlan) -> float:
    """Duality gap at which the solver stops, at most, in any batch of any lab."""
    accuracy = plan.accuracy
    longest = plan.length_cap / plan.guarantee.margin  # of u: longer ones are shortened to it
    return max(accuracy.abs_gap, accuracy.rel_gap * longest**2 / 2)


def largest_variance(
    n_pairs: int, total: float, squares: float, length_cap: float, failure_prob: float
) -> float:
    """Upper confidence bound of the variance of a batch vector, from disjoint pairs of batches.

    ``total`` and ``squares`` are sums of the squared distances of two batches, and of the squares
    of these; vectors are at most ``length_cap`` long. inf: nothing is known.

    Notes
    -----
    Half of a squared distance has the variance as its mean and is between 0 and twice the squared
    cap. The smaller of two bounds, each at half of the failure probability: Chernoff's, from the
    mean alone [Hoe63], and one by betting, from the first two moments [WR24]. Tested in
    tests/theory/test_certificate.py.
    """
    if n_pairs < 1 or not math.isfinite(length_cap):
        return math.inf
    widest = 2 * length_cap**2
    mean = np.array([min(1.0, total / (2 * n_pairs) / widest)])
    second = np.array([min(1.0, squares / (4 * n_pairs) / widest**2)])
    by_mean = largest_means(mean, math.log(2 / failure_prob) / n_pairs)
    by_bets = largest_differences(mean, second, n_pairs, False, failure_prob / 2)
    return widest * min(float(by_mean[0]), float(by_bets[0]))


# --- the estimate ---------------------------------------------------------------------------


def _deviations(sums: BatchSums, mean: Vector, plan: BatchPlan) -> Matrix:
    """Group deviations of what is rounded; a unit mean moves only across its own direction."""
    deviations = sums.group_deviations()
    if not plan.unit_mean:
        return deviations
    across = deviations - np.outer(deviations @ mean, mean)
    length = math.sqrt(float(square(sums.mean())))
    return across / length if length > 0 else across  # zero rows only: nothing moves


def _estimate(
    deviations: Matrix, residual: Vector, n_batches: int, space: CodeSpace, shared: SharedRandomness
) -> float | None:
    """Estimated probability of other codes under this seed."""
    n_groups = deviations.shape[0]
    if n_groups < _MIN_GROUPS:
        return None
    # rows of `spread` are such that their standard normal combination has the law of z' - z
    spread = np.empty((n_groups, space.n_outputs * space.n_components))
    for row, deviation in zip(spread, deviations, strict=True):
        row[:] = space.project(deviation, shared)
    spread *= math.sqrt(2 / (n_batches * (n_groups - 1))) / float(space.grid_width)
    return share_leaving(residual, spread, _student_draws(n_groups), space)


def share_leaving(residual: Vector, spread: Matrix, draws: Matrix, space: CodeSpace) -> float:
    """Share of draws under which a displacement leaves the cell, in some halfspace.

    A displacement is the combination of the rows of ``spread``, in cells, that a draw says.
    """
    left = np.zeros(len(draws), dtype=bool)
    places, spreads = residual.reshape(space.n_outputs, -1), np.hsplit(spread, space.n_outputs)
    for place, part in zip(places, spreads, strict=True):
        slacks, reaches = near_walls(place, part, space.rounding)
        if slacks.size:
            left |= (draws @ reaches > slacks).any(axis=1)
    return float(left.mean())


@cache
def _student_draws(n_groups: int) -> Matrix:
    """Normal draws, each divided by the root of a mean of ``n_groups - 1`` squared normals.

    The same for every fit: they decide about no code.
    """
    shared, degrees = SharedRandomness("certificate"), n_groups - 1
    draws = shared.normals("draws", DRAWS * n_groups).reshape(DRAWS, n_groups)
    chi = shared.normals("scale", DRAWS * degrees).reshape(DRAWS, degrees)
    return draws * np.sqrt(degrees / (chi**2).sum(axis=1))[:, None]
