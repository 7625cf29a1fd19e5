"""Rows to batches to exact sums of batch vectors."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from replearn.kernels import sgd
from replearn.kernels import svm as kernel
from replearn.kernels.exact import fixed_mean
from replearn.kernels.tally import Tally, TallyArrays, merge_tallies, new_tally, read_tally
from replearn.plan import Plan
from replearn.types import BlockMap, IntegerArray, Matrix, Order, Signs, Vector

#: Batches whose sums are kept apart, so that their spread can be seen; fewer for wide data,
#: so that the groups take at most 8 MB.
_MAX_GROUPS = 64
_MIN_GROUPS = 4
_GROUP_ENTRIES = 1 << 19

#: Batches in one block of work: even, so that pairs of batches are not cut apart; fewer if they
#: are long, so that all threads get some; more if there are many, because each block has its own
#: sums, which take time to merge when rows are wide.
_BLOCK_BATCHES = 64
_BLOCK_ROWS = 1 << 15
_MAX_BLOCKS = 64


@dataclass(frozen=True)
class Rows:
    """Training rows in memory.

    Attributes
    ----------
    X : C-contiguous array or CSR matrix, float32 or float64
    signs : int8 array of -1 and +1
    order : int64 array
        Canonical order of the rows; batches are consecutive blocks of it.
    """

    X: Any
    signs: Signs
    order: Order


@dataclass(frozen=True)
class BatchSums:
    """Exact sums of batch vectors, by group: batch b is in group ``(b // 2) % n_groups``.

    Integers throughout, so sums of blocks can be merged in any order, on any machine, and give
    the same bits. The mean is within ``2^-62`` (and its rounding to a float) of the exact
    mean of the batch vectors.
    """

    hi: IntegerArray
    lo: IntegerArray
    counted: TallyArrays
    batch_size: int

    @cached_property
    def tally(self) -> Tally:
        """What happened in the batches."""
        return read_tally(self.counted)

    @property
    def n_batches(self) -> int:
        """Number of batches added up."""
        return self.tally.n_batches

    def mean(self) -> Vector:
        """Mean of all batch vectors."""
        return fixed_mean(self.hi.sum(axis=0), self.lo.sum(axis=0), self.n_batches)

    def group_counts(self) -> IntegerArray:
        """Number of batches in each group that has any."""
        n_groups = self.hi.shape[0]
        n_pairs = (self.n_batches + 1) // 2
        counts = np.zeros(min(n_groups, n_pairs), dtype=np.int64)
        np.add.at(counts, np.arange(n_pairs) % n_groups, 2)
        if self.n_batches % 2:  # the last batch has no mate
            counts[(n_pairs - 1) % n_groups] -= 1
        return counts

    def group_means(self) -> Matrix:
        """Mean of the batch vectors of each group that has any."""
        counts = self.group_counts()
        return fixed_mean(self.hi[: counts.size], self.lo[: counts.size], counts[:, None])

    def group_deviations(self) -> Matrix:
        """``sqrt(count) * (group mean - mean)`` of each group that has batches.

        With n groups, their second moments over n - 1 estimate the covariance of one batch vector.
        """
        return np.sqrt(self.group_counts())[:, None] * (self.group_means() - self.mean())

    def merge(self, other: "BatchSums") -> "BatchSums":
        """Sums of both."""
        return BatchSums(
            self.hi + other.hi,
            self.lo + other.lo,
            merge_tallies(self.counted, other.counted),
            self.batch_size,
        )


#: (rows, first, last, batch_size, hi, lo, tally): adds batches ``first`` to ``last`` to the sums.
BatchKernel = Callable[[Rows, int, int, int, IntegerArray, IntegerArray, TallyArrays], None]


def max_margin(plan: Plan) -> BatchKernel:
    """The batch SVM of a plan: a large-margin vector for each batch."""

    def solve(
        rows: Rows,
        first: int,
        last: int,
        batch_size: int,
        hi: IntegerArray,
        lo: IntegerArray,
        tally: TallyArrays,
    ) -> None:
        X = rows.X
        intercept = plan.n_inputs > X.shape[1]
        order = rows.order[first * batch_size : last * batch_size]
        # a sample smaller than a batch is solved with the same regularisation
        weight = float(plan.regularization)
        C = math.inf if weight == 0 else 1 / (batch_size * weight)
        accuracy = plan.accuracy
        settings: tuple[Any, ...] = (
            *(rows.signs, order, first, last, batch_size, intercept, C),
            *(accuracy.margin_share, accuracy.margin_floor, accuracy.abs_gap, accuracy.rel_gap),
            *(accuracy.max_sweeps, plan.unit_vectors, plan.guarantee.margin),
            *(hi, lo, tally, plan.length_cap),
        )
        if sp.issparse(X):
            kernel.sum_batches_csr(X.data, X.indices, X.indptr, X.shape[1], *settings)
        else:
            kernel.sum_batches_dense(X, *settings)

    return solve


def best_of_sgd(plan: Plan) -> BatchKernel:
    """The gradient descent of a plan: an average of iterates for each batch."""

    def solve(
        rows: Rows,
        first: int,
        last: int,
        batch_size: int,
        hi: IntegerArray,
        lo: IntegerArray,
        tally: TallyArrays,
    ) -> None:
        order = rows.order[first * batch_size : last * batch_size]
        descent = descent_of(plan, rows.X.shape[1], batch_size)
        state = sgd.new_state(rows.X.shape[1], descent, first)
        advance(rows.X, rows.signs, order, descent, state, hi, lo, tally)

    return solve


def descent_of(plan: Plan, n_features: int, batch_size: int) -> sgd.Run:
    """What gradient descent does with the rows of one batch."""
    return sgd.new_run(
        margin=plan.guarantee.margin,
        weight=float(plan.regularization),
        radius=plan.length_cap,
        intercept=plan.n_inputs > n_features,
        n_steps=(batch_size - plan.n_validation) // plan.n_repetitions,
        n_runs=plan.n_repetitions,
        n_validation=plan.n_validation,
    )


def advance(
    X: Any,
    signs: Signs,
    order: Order,
    descent: sgd.Run,
    state: sgd.State,
    hi: IntegerArray,
    lo: IntegerArray,
    tally: TallyArrays,
) -> None:
    """Gradient descent over rows of an array or a CSR matrix."""
    if sp.issparse(X):
        parts = (X.data, X.indices, X.indptr)
        sgd.advance_csr(*parts, signs, order, descent, state, hi, lo, tally)
    else:
        sgd.advance_dense(X, signs, order, descent, state, hi, lo, tally)


def sum_batches(
    solve: BatchKernel,
    rows: Rows,
    plan: Plan,
    run: BlockMap = map,
    n_groups: int | None = None,
) -> BatchSums:
    """Cut rows into batches, turn each into a vector, and add these up exactly.

    Fewer rows than one batch make one batch; a remainder is left over.

    Parameters
    ----------
    solve : BatchKernel
    rows : Rows
    plan : Plan
    run : BlockMap
        Where the blocks are worked on.
    n_groups : int, optional
        Number of groups; default by the width of the data.

    Returns
    -------
    BatchSums
        The same bits for every ``run``.
    """
    n_rows = rows.signs.size
    batch_size = min(plan.batch_size, n_rows)
    n_batches = n_rows // batch_size
    if plan.exact_batches:
        n_batches = min(n_batches, plan.n_batches)

    def work(block: tuple[int, int]) -> BatchSums:
        sums = no_sums(plan.n_inputs, batch_size, n_groups)
        solve(rows, *block, batch_size, sums.hi, sums.lo, sums.counted)
        return sums

    return reduce(BatchSums.merge, run(work, _blocks(n_batches, batch_size)))


def no_sums(n_inputs: int, batch_size: int, n_groups: int | None = None) -> BatchSums:
    """Sums of no batches, by so many groups; default by the width of the data."""
    if n_groups is None:
        n_groups = max(_MIN_GROUPS, min(_MAX_GROUPS, _GROUP_ENTRIES // n_inputs))
    hi, lo = np.zeros((2, n_groups, n_inputs), dtype=np.int64)
    return BatchSums(hi, lo, new_tally(), batch_size)


def _blocks(n_batches: int, batch_size: int) -> Iterator[tuple[int, int]]:
    few = min(_BLOCK_BATCHES, _BLOCK_ROWS // batch_size)
    size = 2 * max(1, few // 2, -(-n_batches // (2 * _MAX_BLOCKS)))
    for first in range(0, n_batches, size):
        yield first, min(first + size, n_batches)


def looks_sorted(signs: Signs) -> bool:
    """Whether the labels change too rarely for rows in random order.

    Runs test: in random order the number of runs is nearly normal; more than eight standard
    deviations too few happen with probability below 1e-14.
    """
    n_runs = 1 + int(np.count_nonzero(signs[1:] != signs[:-1]))
    return too_few_runs(signs.size, int((signs > 0).sum()), n_runs)


def too_few_runs(n: int, n_positive: int, n_runs: int) -> bool:
    """``looks_sorted`` from the counts of rows, of positive ones and of runs of equal labels."""
    product = 2.0 * n_positive * (n - n_positive)
    if n < 50 or product == 0:
        return False
    expected = product / n + 1
    variance = product * (product - n) / (n**2 * (n - 1.0))
    return n_runs < expected - 8 * math.sqrt(max(variance, 0.0))
