"""The algorithms, as combinations of stages.

====== ============ ======= ========= ============
recipe per batch    combine space     to codes
====== ============ ======= ========= ============
svm    max_margin   mean    projected round_codes
sgd    best_of_sgd  mean    projected round_codes
net    (one batch)  counts  projected choose_below
dp     (one batch)  counts  projected choose_noisy
boost  signed mean  mean    original  box or foam
====== ============ ======= ========= ============

The last one in rounds on re-weighted rows (smooth boosting), the others once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from replearn.codes.boost_space import BoostSpace
from replearn.codes.net_space import NetSpace
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import CodeSpace, unit
from replearn.errors import ReplearnError
from replearn.plans.sizes import BatchPlan, BoostPlan, NetPlan, RoundedPlan, Spent
from replearn.stages import boost_rounds
from replearn.stages.batches import BatchKernel, BatchSums, Rows, Sample, best_of_sgd, max_margin
from replearn.stages.hints import safest_hint
from replearn.stages.margins import choose_margin
from replearn.stages.net_search import (
    Choice,
    Evidence,
    Points,
    PointSet,
    PointSource,
    choose_amplified,
    choose_below,
    choose_noisy,
    pack_points,
    refuse_zero_rows,
)
from replearn.types import BlockMap, Codes, Vector


@dataclass(frozen=True)
class Fitted:
    """What a recipe hands back: the codes, where they live, and how they came about.

    ``mean`` is what was rounded, ``residual`` its place in the cell (in grid widths), ``doubt`` the
    estimated probability that another lab makes other choices before it rounds. Of more than two
    classes ``sums`` are those of the first halfspace, ``others`` those of all others.
    """

    codes: Codes
    space: CodeSpace
    mean: Vector
    residual: Vector
    sums: BatchSums
    spent: Spent
    doubt: float = 0.0
    others: tuple[BatchSums, ...] = ()

    @property
    def all_sums(self) -> tuple[BatchSums, ...]:
        """The sums of each halfspace."""
        return (self.sums, *self.others)


def svm(
    sample: Sample,
    plan: BatchPlan,
    shared: SharedRandomness,
    run: BlockMap = map,
    hint: int | None = None,
) -> Fitted:
    """Algorithm 1: a large-margin vector per batch, then mean, project, round."""
    every = [sample.sums(solve, plan, run) for solve in _batch_svms(plan)]
    return round_means(every, sample.n_rows, plan, shared, hint)


def _batch_svms(plan: BatchPlan) -> list[BatchKernel]:
    """The batch SVM of each halfspace: one, or one for each class against the rest."""
    if plan.n_outputs == 1:
        return [max_margin(plan)]
    return [max_margin(plan, output) for output in range(plan.n_outputs)]


def sgd(
    sample: Sample,
    plan: BatchPlan,
    shared: SharedRandomness,
    run: BlockMap = map,
    hint: int | None = None,
) -> Fitted:
    """Algorithm 2: an average of gradient descent per batch, then mean, project, round."""
    sums = sample.sums(best_of_sgd(plan), plan, run)
    return round_means([sums], sample.n_rows, plan, shared, hint)


def svm_of_unknown_margin(
    sample: Sample,
    plans: Iterable[BatchPlan],
    shared: SharedRandomness,
    run: BlockMap = map,
    hint: int | None = None,
) -> tuple[BatchPlan, Fitted]:
    """Algorithm 1 with the margin chosen replicably from a published grid."""
    choice = choose_margin(((plan, _batch_svms(plan)) for plan in plans), sample, shared, run)
    plan = replace(choice.plan, margins_tried=choice.errors)
    fitted = round_means(choice.sums, sample.n_rows, plan, shared, hint)
    return plan, replace(fitted, doubt=choice.doubt)


def round_means(
    every: Sequence[BatchSums],
    n_rows: int,
    plan: BatchPlan,
    shared: SharedRandomness,
    hint: int | None = None,
) -> Fitted:
    """Round the means of batch vectors, one for each halfspace of a plan, to codes.

    ``n_rows`` is the number of rows given. A hint moves the grids of all halfspaces.
    """
    means = [mean_direction(sums, plan) for sums in every]
    mean = means[0] if len(means) == 1 else np.concatenate(means)
    codes, space, residual = round_vector(mean, plan, shared, hint)
    first, *others = every
    spent = reduce(_all_spent, (_spent(n_rows, sums) for sums in every))
    return Fitted(codes, space, mean, residual, first, spent, others=tuple(others))


def round_vector(
    vector: Vector, plan: RoundedPlan, shared: SharedRandomness, hint: int | None
) -> tuple[Codes, CodeSpace, Vector]:
    """Codes of a vector, their space, and the vector's place in its cell.

    With hint bits and no hint this lab is the first, and chooses one.
    """
    space = code_space(plan)
    components = space.project(vector, shared)
    space = space.with_hint(safest_hint(components, space, shared) if hint is None else hint)
    codes, residual = space.round(components, shared)
    return codes, space, residual


@dataclass(frozen=True)
class Chosen:
    """What a recipe over a net hands back."""

    codes: Codes
    space: NetSpace
    evidence: Evidence
    spent: Spent
    residual: None = None


def net(
    rows: Rows | PointSource, plan: NetPlan, shared: SharedRandomness, run: BlockMap = map
) -> Chosen:
    """Algorithm 3: the first candidate of a net below a random threshold, perhaps amplified."""
    sizes, space = plan.net, net_space(plan)
    if sizes.n_repeats > 1 and not isinstance(rows, Rows):
        raise ReplearnError(
            f"n_repeats must be 1 unless all rows are in memory, got {sizes.n_repeats}. Leave it "
            "out, or use fit."
        )
    points = _points(rows, plan, space, shared, run)
    if sizes.n_repeats == 1:
        choice = choose_below(points, space, sizes, shared, run)
    else:
        assert isinstance(points, Points)
        assert isinstance(rows, Rows)
        rows.refuse_sorted(rows.n_rows // sizes.n_repeats)
        choice = choose_amplified(points, space, sizes, shared, run)
    return _chosen(choice, space, rows.n_rows, points)


def dp(
    rows: Rows | PointSource, plan: NetPlan, shared: SharedRandomness, run: BlockMap = map
) -> Chosen:
    """The DP reduction: the exponential mechanism over a net, with common noise."""
    sizes, space = plan.net, net_space(plan)
    points = _points(rows, plan, space, shared, run)
    choice = choose_noisy(points, space, sizes, shared, run)
    fitted = _chosen(choice, space, rows.n_rows, points)
    # replacing one row moves every log-weight by at most heat / n, and so the normaliser
    privacy = 2 * float(sizes.inverse_temperature) / points.n_points
    return replace(fitted, spent=replace(fitted.spent, privacy_epsilon=privacy))


def net_space(plan: NetPlan) -> NetSpace:
    """The net of a plan; with amplification, the nets of all strings one after the other."""
    sizes = plan.net
    random = sizes.net == "random"
    return NetSpace(
        n_inputs=plan.n_inputs,
        projection=plan.projection,
        n_components=plan.n_components,
        net=sizes.net,
        n_candidates=sizes.n_candidates * (sizes.n_strings if random else 1),
        radius="" if random else sizes.radius,
        basis=plan.basis_map,
    )


def _points(
    rows: Rows | PointSource,
    plan: NetPlan,
    space: NetSpace,
    shared: SharedRandomness,
    run: BlockMap,
) -> PointSet:
    """The rows that the plan uses, in the space of the net."""
    n_used = min(plan.n_samples, rows.n_rows) if plan.mode == "paper" else rows.n_rows
    points: PointSet
    if isinstance(rows, Rows):
        points = pack_points(rows, rows.order[:n_used], space, shared, run)
    else:
        points = rows.points(space, shared, n_used)
    refuse_zero_rows(points)
    return points


def _chosen(choice: Choice, space: NetSpace, n_rows: int, points: PointSet) -> Chosen:
    spent = Spent(
        n_rows=n_rows,
        n_batches=1,
        n_dropped=n_rows - points.n_points - points.n_zero_rows,
        n_zero_rows=points.n_zero_rows,
        n_tested=choice.n_tested,
        below=choice.below,
    )
    return Chosen(np.array([choice.candidate]), space, choice.evidence, spent)


@dataclass(frozen=True)
class Boosted:
    """What boosting hands back."""

    codes: Codes
    space: BoostSpace
    rounds: tuple[boost_rounds.Round, ...]
    spent: Spent
    residual: None = None


def boost(
    rows: Rows,
    plan: BoostPlan,
    shared: SharedRandomness,
    run: BlockMap = map,
    coins: SharedRandomness | None = None,
) -> Boosted:
    """ILPS22: rounds of a rounded weighted mean each, until a replicable test is passed.

    ``coins``, of the rejection sampler, are part of the sample: private, or the shared ones.
    """
    if plan.boost.fresh_rows:  # a mean of all does not mind the order
        rows.refuse_sorted(1)
    done = boost_rounds.boost(rows, plan, shared, coins or shared, run)
    n_rows = rows.signs.size
    spent = Spent(
        n_rows=n_rows,
        n_batches=len(done.rounds),
        n_dropped=n_rows - done.n_used,
        n_zero_rows=done.n_zero_rows,
        below=done.finished,
    )
    return Boosted(done.codes, done.space, done.rounds, spent)


def mean_direction(sums: BatchSums, plan: BatchPlan) -> Vector:
    """What is rounded: the mean of the batch vectors, at its own length or at length 1."""
    return unit(sums.mean()) if plan.unit_mean else sums.mean()


def code_space(plan: RoundedPlan) -> CodeSpace:
    """The code space of a plan."""
    return CodeSpace(
        n_inputs=plan.n_inputs,
        projection=plan.projection,
        n_components=plan.n_components,
        rounding=plan.rounding,
        grid_width=plan.grid_width,
        basis=plan.basis_map,
        hint_bits=plan.hint_bits,
        n_outputs=plan.n_outputs,
    )


def _all_spent(one: Spent, other: Spent) -> Spent:
    """What was spent on two halfspaces: the same rows, and the troubles of both."""
    return replace(
        one,
        n_unconverged=one.n_unconverged + other.n_unconverged,
        n_infeasible=one.n_infeasible + other.n_infeasible,
        worst_gap=max(one.worst_gap, other.worst_gap),
        n_row_visits=one.n_row_visits + other.n_row_visits,
    )


def _spent(n_rows: int, sums: BatchSums) -> Spent:
    tally = sums.tally
    return Spent(
        n_rows=n_rows,
        n_batches=sums.n_batches,
        n_dropped=n_rows - sums.n_batches * sums.batch_size,
        n_zero_rows=tally.n_zero_rows,
        n_unconverged=tally.n_unconverged,
        n_infeasible=tally.n_infeasible,
        worst_gap=tally.worst_gap,
        n_row_visits=tally.n_row_visits,
    )
