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
from replearn.stages.space import CodeSpace
from replearn.types import BlockMap, Codes


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
    return Fitted(space.encode(sums.mean(), shared), space, sums, _spent(rows, sums))


def code_space(plan: Plan) -> CodeSpace:
    """The code space of a plan."""
    return CodeSpace(
        n_inputs=plan.n_inputs,
        projection=plan.projection,
        n_components=plan.n_components,
        rounding=plan.rounding,
        grid_width=plan.grid_width,
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
