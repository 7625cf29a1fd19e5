"""Gradient descent on rows that come in pieces, in memory that does not grow."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.kernels import gradient_descent as sgd
from replearn.plans.sizes import BatchPlan
from replearn.stages.batches import BatchSums, LabelRuns, descent_of, no_sums
from replearn.types import Signs


@dataclass
class DescentStream:
    """What remains of the rows so far: a block in progress, and exact sums of those before.

    The state is that of the block in progress, the sums are those of the whole blocks (their arrays
    change), the labels those of the rows so far.

    Notes
    -----
    Taking rows in any pieces gives the same sums, to the bit, as ``sum_batches`` on all of them
    in that order: it is the same kernel, and it knows nothing of pieces. Tested in
    tests/unit/test_sgd.py.
    """

    plan: BatchPlan
    n_features: int
    state: sgd.State
    sums: BatchSums
    labels: LabelRuns

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self.labels.n_rows

    def looks_sorted_with(self, signs: Signs) -> bool:
        """Whether the labels so far and these change too rarely for rows in random order."""
        labels = self.labels.then(LabelRuns.of(signs))
        return labels.n_rows >= 2 * self.plan.batch_size and labels.look_sorted()

    def take(self, X: Any, signs: Signs) -> None:
        """Take all rows of an array or a CSR matrix, in their order."""
        self.labels = self.labels.then(LabelRuns.of(signs))
        order = np.arange(self._room(signs.size), dtype=np.int64)
        descent = descent_of(self.plan, self.n_features, self.plan.batch_size)
        into = self.sums.hi, self.sums.lo, self.sums.counted
        sgd.advance(X, signs, order, descent, self.state, *into)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is to be saved, besides the plan."""
        labels = {"labels": self.labels.array()}
        return sgd.arrays_of(self.state) | self.sums.arrays() | labels

    def total(self) -> BatchSums:
        """Sums of the whole blocks, a copy; fewer rows than one block make one."""
        total = _copy(self.sums)
        if sgd.n_blocks(self.state) > 0:
            return total
        state = deepcopy(self.state)
        descent = descent_of(self.plan, self.n_features, self.plan.batch_size)
        sgd.end_block(descent, state, total.hi, total.lo, total.counted)
        return BatchSums(total.hi, total.lo, total.counted, self.n_rows)

    def _room(self, n_rows: int) -> int:
        """How many of the next ``n_rows`` rows belong to blocks that the plan has."""
        if not self.plan.exact_batches:
            return n_rows
        batch_size = self.plan.batch_size
        taken = sgd.n_blocks(self.state) * batch_size + sgd.n_taken(self.state)
        return min(n_rows, self.plan.n_batches * batch_size - taken)


def new_stream(plan: BatchPlan, n_features: int) -> DescentStream:
    """A stream before its first row."""
    descent = descent_of(plan, n_features, plan.batch_size)
    return DescentStream(
        plan,
        n_features,
        sgd.new_state(n_features, descent),
        no_sums(plan.n_inputs, plan.batch_size),
        LabelRuns(),
    )


def restored(
    plan: BatchPlan, n_features: int, arrays: dict[str, NDArray[Any]]
) -> DescentStream | None:
    """The stream that had these arrays (types and shapes are right); None if they make no sense."""
    descent = descent_of(plan, n_features, plan.batch_size)
    names = sgd.arrays_of(sgd.new_state(n_features, descent))
    state = sgd.state_of(descent, {name: arrays[name] for name in names})
    sums = BatchSums.of_arrays(arrays, plan.batch_size)
    if state is None or sums.n_batches != sgd.n_blocks(state) or (arrays["labels"][:3] < 0).any():
        return None
    if not sums.are_possible():
        return None
    labels = LabelRuns(*arrays["labels"].tolist())
    return DescentStream(plan, n_features, state, _copy(sums), labels)


def _copy(sums: BatchSums) -> BatchSums:
    """A copy of the arrays, which change, and of nothing that was read of them."""
    return BatchSums.of_arrays(deepcopy(sums.arrays()), sums.batch_size)
