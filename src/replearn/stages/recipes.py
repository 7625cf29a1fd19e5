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

The last one in rounds on re-weighted rows (smooth boosting, `boost_rounds`), the others once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replearn.codes.net_space import NetSpace
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import CodeSpace, unit
from replearn.errors import ReplearnError
from replearn.plans.sizes import BatchPlan, NetPlan, RoundedPlan, Spent
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
    estimated probability that another lab makes other choices before it rounds. ``sums`` are those
    of each halfspace.
    """

    codes: Codes
    space: CodeSpace
    mean: Vector
    residual: Vector
    sums: tuple[BatchSums, ...]
    spent: Spent
    doubt: float = 0.0


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
    with_kernels = ((plan, _batch_svms(plan)) for plan in plans)
    plan, sums, doubt = choose_margin(with_kernels, sample, shared, run)
    return plan, replace(round_means(sums, sample.n_rows, plan, shared, hint), doubt=doubt)


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
    return Fitted(codes, space, mean, residual, tuple(every), _spent(n_rows, every))


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


def _spent(n_rows: int, every: Sequence[BatchSums]) -> Spent:
    """What was spent on all halfspaces: the same rows, and the troubles of all."""
    first, tallies = every[0], [sums.tally for sums in every]
    return Spent(
        n_rows=n_rows,
        n_batches=first.n_batches,
        n_dropped=n_rows - first.n_batches * first.batch_size,
        n_zero_rows=first.tally.n_zero_rows,
        n_unconverged=sum(tally.n_unconverged for tally in tallies),
        n_infeasible=sum(tally.n_infeasible for tally in tallies),
        worst_gap=max(tally.worst_gap for tally in tallies),
        n_row_visits=sum(tally.n_row_visits for tally in tallies),
    )
