"""Rows to batches to exact sums of batch vectors."""

import math
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.kernels import gradient_descent as sgd
from replearn.kernels import max_margin as kernel
from replearn.kernels.exact import fixed_mean
from replearn.kernels.tally import (
    Tally,
    TallyArrays,
    is_possible,
    merge_tallies,
    new_tally,
    read_tally,
)
from replearn.plans.sizes import BatchPlan
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

#: Rows in one block of a sum over rows.
_ADDED_ROWS = 1 << 14


#: Checked rows in memory, an array or a CSR matrix, and their labels as signs.
SignedRows = tuple[Any, Signs]


class Summand(Protocol):
    """What can be added up, in any order: its addition is exact."""

    def __add__(self, other: Self, /) -> Self: ...


Total = TypeVar("Total", bound=Summand)


class UnorderedSample(Protocol):
    """Training rows that need have no order, as in a table of Spark."""

    @property
    def n_rows(self) -> int:
        """Number of rows; it may be known only after a first sum."""

    def add_up(self, terms: Callable[[Any, Signs], Total], run: BlockMap = map) -> Total:
        """Sum of ``terms(X, signs)`` over blocks of rows, which together are all rows once."""


class Sample(UnorderedSample, Protocol):
    """Training rows, wherever they are: in memory, in files or on a cluster.

    What an algorithm asks of them is an exact sum, over batches in canonical order or over rows
    in any order.
    """

    def sums(self, solve: "BatchKernel", plan: BatchPlan, run: BlockMap = map) -> "BatchSums":
        """Sums of the vectors of all batches: consecutive rows in canonical order."""


@dataclass(frozen=True)
class Rows:
    """Training rows in memory: a `Sample`, or consecutive batches of one.

    Attributes
    ----------
    X : C-contiguous array or CSR matrix, float32 or float64
    signs : int8 array of -1 and +1
    order : int64 array
        Canonical order of the rows; batches are consecutive blocks of it. Rows may be left out, or
        come more than once.
    first_batch : int
        Number of the first batch here, if others come before.
    as_given : bool
        The order is that in which somebody gave the rows, so it may not be random.
    """

    X: Any
    signs: Signs
    order: Order
    first_batch: int = 0
    as_given: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows, in their order."""
        return self.order.size

    def sums(self, solve: "BatchKernel", plan: BatchPlan, run: BlockMap = map) -> "BatchSums":
        """Sums of the vectors of all batches."""
        if self.as_given:
            self.refuse_sorted(plan.batch_size)
        return sum_batches(solve, self, plan, run)

    def add_up(self, terms: Callable[[Any, Signs], Total], run: BlockMap = map) -> Total:
        """Sum of ``terms(X, signs)`` over blocks of rows, which together are all rows once."""
        return add_blocks(terms, self.X, self.signs, run)

    def refuse_sorted(self, part: int) -> None:
        """Refuse rows that look sorted, if parts of them are to be taken in the given order."""
        if self.as_given and self.n_rows >= 2 * part:
            LabelRuns.of(self.signs).refuse_sorted()


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
    counts: IntegerArray | None = None  # batches of each group that has any, if sites are merged

    @cached_property
    def tally(self) -> Tally:
        """What happened in the batches."""
        return read_tally(self.counted)

    @property
    def n_batches(self) -> int:
        """Number of batches added up."""
        return self.tally.n_batches

    @cached_property
    def _mean(self) -> Vector:
        return fixed_mean(self.hi.sum(axis=0), self.lo.sum(axis=0), self.n_batches)

    def mean(self) -> Vector:
        """Mean of all batch vectors."""
        return self._mean

    def group_counts(self) -> IntegerArray:
        """Number of batches in each group that has any."""
        if self.counts is not None:
            return self.counts
        n_groups = self.hi.shape[0]
        n_pairs = (self.n_batches + 1) // 2
        counts = np.full(min(n_groups, n_pairs), 2 * (n_pairs // n_groups), dtype=np.int64)
        counts[: n_pairs % n_groups] += 2
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

    def are_possible(self) -> bool:
        """Whether vectors of batches, none longer than 8, can have these sums."""
        if not is_possible(self.counted):
            return False
        counts = self.group_counts()
        most = counts[:, None] << 33  # of the first limb; the second has fewer bits
        hi, lo = self.hi[: counts.size], self.lo[: counts.size]
        return bool(
            ((-most <= hi) & (hi <= most) & (-most <= lo) & (lo <= most)).all()
            and not self.hi[counts.size :].any()
            and not self.lo[counts.size :].any()
            and (np.linalg.norm(self.group_means(), axis=1) <= 8 + 1e-9).all()
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is to be saved, besides the size of a batch."""
        counts, extremes = self.counted
        return {"hi": self.hi, "lo": self.lo, "tally_counts": counts, "tally_extremes": extremes}

    @classmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]], batch_size: int) -> "BatchSums":
        """The sums that had these arrays."""
        tally = TallyArrays(arrays["tally_counts"], arrays["tally_extremes"])
        return cls(arrays["hi"], arrays["lo"], tally, batch_size)

    def merge(self, other: "BatchSums") -> "BatchSums":
        """Sums of both."""
        return BatchSums(
            self.hi + other.hi,
            self.lo + other.lo,
            merge_tallies(self.counted, other.counted),
            self.batch_size,
        )

    def beside(self, other: "BatchSums") -> "BatchSums":
        """Sums of both, if each numbers its batches from 0, as sites do."""
        mine, theirs = self.group_counts(), other.group_counts()
        counts = np.zeros(max(mine.size, theirs.size), dtype=np.int64)
        counts[: mine.size] += mine
        counts[: theirs.size] += theirs
        return replace(self.merge(other), counts=counts)


class Block(NamedTuple):
    """Consecutive batches that are worked on together.

    ``members`` are their rows, in canonical order, ``first`` is the number of the first batch.
    """

    X: Any
    signs: Signs
    members: Order
    first: int
    batch_size: int


#: Adds the vectors of a block's batches to the sums.
BatchKernel = Callable[[Block, BatchSums], None]


def against_rest(numbers: NDArray[Any], output: int) -> Signs:
    """Numbers of classes as signs: +1 is one of the classes, -1 all others."""
    return np.where(numbers == output, np.int8(1), np.int8(-1))


def max_margin(plan: BatchPlan, number: int | None = None) -> BatchKernel:
    """The batch SVM of a plan: a large-margin vector for each batch.

    ``number`` is the class that is told from the rest, if rows come with numbers of classes.
    """

    def solve(block: Block, sums: BatchSums) -> None:
        X, batch_size = block.X, block.batch_size
        # a sample smaller than a batch is solved with the same regularisation
        weight = float(plan.regularization)
        C = math.inf if weight == 0 else 1 / (batch_size * weight)
        negative, positive = plan.class_weights
        accuracy = plan.accuracy
        signs = block.signs if number is None else against_rest(block.signs, number)
        problem = kernel.new_problem(
            (C * negative, C * positive),
            share=accuracy.margin_share,
            floor_margin=accuracy.margin_floor,
            abs_gap=accuracy.abs_gap,
            rel_gap=accuracy.rel_gap,
            max_sweeps=accuracy.max_sweeps,
            intercept=plan.n_inputs > X.shape[1],
        )
        output = kernel.new_output(plan.unit_vectors, plan.guarantee.margin, plan.length_cap)
        settings = block.members, block.first, batch_size, problem, output
        kernel.sum_batches(X, signs, *settings, sums.hi, sums.lo, sums.counted)

    return solve


def best_of_sgd(plan: BatchPlan) -> BatchKernel:
    """The gradient descent of a plan: an average of iterates for each batch."""

    def solve(block: Block, sums: BatchSums) -> None:
        descent = descent_of(plan, block.X.shape[1], block.batch_size)
        state = sgd.new_state(block.X.shape[1], descent, block.first)
        into = sums.hi, sums.lo, sums.counted
        sgd.advance(block.X, block.signs, block.members, descent, state, *into)

    return solve


def descent_of(plan: BatchPlan, n_features: int, batch_size: int) -> sgd.Run:
    """What gradient descent does with the rows of one batch."""
    return sgd.new_run(
        margin=plan.guarantee.margin,
        weight=float(plan.regularization),
        radius=plan.length_cap,
        intercept=plan.n_inputs > n_features,
        n_steps=(batch_size - plan.n_validation) // plan.n_repetitions,
        n_runs=plan.n_repetitions,
        n_validation=plan.n_validation,
        class_weights=plan.class_weights,
    )


def sum_batches(
    solve: BatchKernel,
    rows: Rows,
    plan: BatchPlan,
    run: BlockMap = map,
    n_groups: int | None = None,
) -> BatchSums:
    """Cut rows into batches, turn each into a vector, and add these up exactly.

    Fewer rows than one batch make one batch; a remainder is left over. The same bits for every
    ``run``; the default number of groups follows from the width of the data.
    """
    n_rows = rows.order.size
    batch_size = min(plan.batch_size, n_rows)
    n_batches = n_rows // batch_size
    if plan.exact_batches:
        n_batches = max(0, min(n_batches, plan.n_batches - rows.first_batch))

    def work(batches: tuple[int, int]) -> BatchSums:
        sums = no_sums(plan.n_inputs, batch_size, n_groups)
        start, stop = ((batch - rows.first_batch) * batch_size for batch in batches)
        solve(Block(rows.X, rows.signs, rows.order[start:stop], batches[0], batch_size), sums)
        return sums

    blocks = _blocks(rows.first_batch, n_batches, batch_size)
    return reduce(BatchSums.merge, run(work, blocks), no_sums(plan.n_inputs, batch_size, n_groups))


def add_blocks(
    terms: Callable[[Any, Signs], Total], X: Any, signs: Signs, run: BlockMap = map
) -> Total:
    """Sum of ``terms(X, signs)`` over blocks of rows in memory, or of rows that X makes."""
    at_once = min(_ADDED_ROWS, getattr(X, "at_once", _ADDED_ROWS))

    def work(first: int) -> Total:
        rows = slice(first, first + at_once)
        return terms(X[rows], signs[rows])

    return reduce(add, run(work, range(0, signs.size, at_once)))


def no_sums(n_inputs: int, batch_size: int, n_groups: int | None = None) -> BatchSums:
    """Sums of no batches, in ``n_groups`` groups; default by the width of the data."""
    if n_groups is None:
        n_groups = max(_MIN_GROUPS, min(_MAX_GROUPS, _GROUP_ENTRIES // n_inputs))
    hi, lo = np.zeros((2, n_groups, n_inputs), dtype=np.int64)
    return BatchSums(hi, lo, new_tally(), batch_size)


def _blocks(first_batch: int, n_batches: int, batch_size: int) -> Iterator[tuple[int, int]]:
    few = min(_BLOCK_BATCHES, _BLOCK_ROWS // batch_size)
    size = 2 * max(1, few // 2, -(-n_batches // (2 * _MAX_BLOCKS)))
    last = first_batch + n_batches
    for first in range(first_batch, last, size):
        yield first, min(first + size, last)


@dataclass(frozen=True)
class LabelRuns:
    """How the labels of consecutive rows follow each other: enough to see that they are sorted.

    Attributes
    ----------
    n_rows, n_positive, n_runs : int
        Rows, those labelled +1, and runs of equal labels.
    first, last : int
        Sign of the first and of the last row; 0 if there are none.
    """

    n_rows: int = 0
    n_positive: int = 0
    n_runs: int = 0
    first: int = 0
    last: int = 0

    @classmethod
    def of(cls, signs: NDArray[Any]) -> "LabelRuns":
        """Those of some rows: signs, or numbers of classes (all but 0 count as positive)."""
        if signs.size == 0:
            return cls()
        n_runs = 1 + int(np.count_nonzero(signs[1:] != signs[:-1]))
        return cls(
            signs.size, int(np.count_nonzero(signs > 0)), n_runs, int(signs[0]), int(signs[-1])
        )

    def array(self) -> IntegerArray:
        """The fields."""
        return np.array(astuple(self), dtype=np.int64)

    def then(self, other: "LabelRuns") -> "LabelRuns":
        """Those of these rows and the next ones."""
        if self.n_rows == 0 or other.n_rows == 0:
            return self if self.n_rows else other
        return LabelRuns(
            self.n_rows + other.n_rows,
            self.n_positive + other.n_positive,
            self.n_runs + other.n_runs - (self.last == other.first),
            self.first,
            other.last,
        )

    def look_sorted(self) -> bool:
        """Whether the labels change too rarely for rows in random order.

        Runs test: in random order the number of runs is nearly normal; more than eight standard
        deviations too few happen with probability below 1e-14.
        """
        n, product = self.n_rows, 2.0 * self.n_positive * (self.n_rows - self.n_positive)
        if n < 50 or product == 0:
            return False
        expected = product / n + 1
        variance = product * (product - n) / (n**2 * (n - 1.0))
        return self.n_runs < expected - 8 * math.sqrt(max(variance, 0.0))

    def refuse_sorted(self) -> None:
        """Refuse rows whose labels are sorted or clustered, if they are to be cut as they come."""
        if self.look_sorted():
            raise ReplearnError(
                "y looks sorted or clustered, so batches of consecutive rows would not be "
                "independent samples. Use shuffle=True, or shuffle the rows once and keep that "
                "order."
            )
