"""The algorithms, as combinations of stages.

====== ============ ======= ========= ============
recipe per batch    combine space     to codes
====== ============ ======= ========= ============
svm    max_margin   mean    projected round_codes
====== ============ ======= ========= ============
"""

from dataclasses import dataclass

from replearn.plan import Plan, Spent
from replearn.randomness import SharedRandomness
from replearn.stages.batches import BatchSums, Rows, max_margin, sum_batches
from replearn.stages.space import CodeSpace, unit
from replearn.types import BlockMap, Codes, Vector


@dataclass(frozen=True)
class Fitted:
    """What a recipe hands back: the codes, where they live, and how they came about."""

    codes: Codes
    space: CodeSpace
    sums: BatchSums
    spent: Spent


def svm(rows: Rows, plan: Plan, shared: SharedRandomness, run: BlockMap = map) -> Fitted:
    """Algorithm 1: a large-margin vector per batch, then mean, project, round."""
    sums = sum_batches(max_margin(plan), rows, plan, run)
    space = code_space(plan)
    codes = space.encode(mean_direction(sums, plan), shared)
    return Fitted(codes, space, sums, _spent(rows, sums))


def mean_direction(sums: BatchSums, plan: Plan) -> Vector:
    """What is rounded: the mean of the batch vectors, at its own length or at length 1."""
    return unit(sums.mean()) if plan.unit_mean else sums.mean()


def code_space(plan: Plan) -> CodeSpace:
    """The code space of a plan."""
    return CodeSpace(
        n_inputs=plan.n_inputs,
        projection=plan.projection,
        n_components=plan.n_components,
        rounding=plan.rounding,
        grid_width=plan.grid_width,
        basis=plan.basis_map,
    )


def _spent(rows: Rows, sums: BatchSums) -> Spent:
    tally = sums.tally
    return Spent(
        n_rows=rows.signs.size,
        n_batches=sums.n_batches,
        n_dropped=rows.signs.size - sums.n_batches * sums.batch_size,
        n_zero_rows=tally.n_zero_rows,
        n_unconverged=tally.n_unconverged,
        n_infeasible=tally.n_infeasible,
        worst_gap=tally.worst_gap,
        n_row_visits=tally.n_row_visits,
    )
