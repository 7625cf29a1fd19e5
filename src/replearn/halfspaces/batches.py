"""What Algorithms 1 and 2 share: rows to batches to exact sums of batch vectors to codes.

The two differ in the vector of a batch alone. Both average these vectors, project the mean, and
round it. What they prove about the mean and its rounding is in `replearn.halfspaces.rounded`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from replearn.codes import MAX_ROWS, Coins, Fitted, projection_matrix
from replearn.errors import ReplearnError
from replearn.exact import COUNTS, fixed_mean, nonzero_rows, unit_rows
from replearn.halfspaces.estimates import n_repeated
from replearn.halfspaces.rounded import ENOUGH_BATCHES, BatchPlan, BatchSpread, sketched_width
from replearn.rows import MemoryRows, Sample, SignedRows, term_hashes
from replearn.types import BlockMap, Codes, Ints, Matrix, Signs, Vector, is_sparse, stacked

#: Groups of batches whose sums are kept apart, so that their spread can be seen; fewer for wide
#: rows, so that they take at most 8 MB.
_MAX_GROUPS, _MIN_GROUPS, _GROUP_ENTRIES = 64, 4, 1 << 19

#: Batches in one block of work, and rows of it.
_BLOCK_BATCHES, _BLOCK_ROWS = 64, 1 << 15

#: Rows that are turned into directions at once: of a hundred columns they stay in a core's cache.
_DIRECTIONS = 1 << 10

#: Marks of rows that are kept to count repeated rows.
_MAX_MARKS = 1 << 14

#: Adds the vectors of batches to sums: ``add(rows, first, batch_size, bias, hi, lo, counts)``.
AddBatches = Callable[..., Ints]


def all_directions(
    sample: Sample, n_inputs: int, kept_as: Callable[[Any], Any], most: int = MAX_ROWS
) -> tuple[list[Any], int, int]:
    """What is kept of rows as directions; how many rows are all zero, and how many recur.

    ``kept_as`` copies what it is given. ``most``: of so many rows, from the first on.
    """
    parts, hashes, n_zero = [], [], 0
    for rows, n_without in _directions(sample, n_inputs, most):
        parts.append(kept_as(rows))
        hashes.append(term_hashes(rows))
        n_zero += n_without
    return parts, n_zero, n_repeated(hashes)


def refuse_zeros(n_directions: int, n_zero: int) -> None:
    """Stop where no row has a direction."""
    if n_directions == 0:
        raise ReplearnError(
            f"X must have rows that are not all zero, got {n_zero:,} zero rows. A row without "
            "direction cannot be learned from; check the columns."
        )


def _directions(sample: Sample, n_inputs: int, most: int) -> Iterator[tuple[Any, int]]:
    """Rows as directions in whole numbers, some at a time, and how many more are all zero.

    Those before are written over: new memory for each would take longer than the arithmetic.
    """
    buffer: Matrix | None = None
    for block in sample.blocks(1):
        n_here = min(block.n_rows, most)
        most -= n_here
        for start in range(0, n_here, _DIRECTIONS):
            X, signs = block.read(start, min(start + _DIRECTIONS, n_here))
            if buffer is None and not is_sparse(X):
                buffer = np.empty((_DIRECTIONS, n_inputs))
            rows = unit_rows(X, signs, n_inputs, buffer)
            kept = nonzero_rows(rows)
            n_zero = int(rows.shape[0] - kept.sum())
            yield (rows[kept] if n_zero else rows), n_zero


def refuse_sorted(signs: Signs) -> None:
    """Refuse rows in given order whose labels are sorted or clustered.

    Runs test: in random order the number of runs of equal labels is nearly normal; more than eight
    standard deviations too few happen with probability below 1e-14.
    """
    n, n_positive = signs.size, int(np.count_nonzero(signs > 0))
    product = 2.0 * n_positive * (n - n_positive)
    if n < 50 or product == 0:
        return

    n_runs = 1 + int(np.count_nonzero(signs[1:] != signs[:-1]))
    variance = product * (product - n) / (n**2 * (n - 1.0))
    if n_runs < product / n + 1 - 8 * math.sqrt(max(variance, 0.0)):
        raise ReplearnError(
            "y must not be sorted or clustered with shuffle=False, since batches of consecutive "
            f"rows would not be independent samples; got {n_runs:,} runs of labels in {n:,} rows. "
            "Use shuffle=True, or shuffle the rows once and keep that order."
        )


# --- exact sums ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchSums:
    """Exact sums of batch vectors, by group: batch b is in group ``(b // 2) % n_groups``.

    Integers throughout, so that sums of blocks can be merged in any order, on any machine.
    """

    hi: Ints
    lo: Ints
    counts: Ints
    marks: Ints
    level: int = 0  # marks with this many zero bits are kept

    def __add__(self, other: "BatchSums") -> "BatchSums":
        level, marks = max(self.level, other.level), np.concatenate([self.marks, other.marks])
        while True:
            marks = marks[((marks >> 5) * 0x9E3779B1 >> 16) & ((1 << level) - 1) == 0]
            if marks.size <= _MAX_MARKS:
                break

            level += 1

        return BatchSums(
            self.hi + other.hi, self.lo + other.lo, self.counts + other.counts, marks, level
        )

    def mean_and_deviations(self) -> Matrix:
        """Mean of all batch vectors, and ``sqrt(count) * (group mean - mean)`` of each group.

        The mean is within 2^-62 of the exact one. With n groups that have batches, the second
        moments of their rows over n - 1 estimate the covariance of a batch vector.
        """
        mean = fixed_mean(self.hi.sum(axis=0), self.lo.sum(axis=0), self.counts[0])
        n_batches, n_groups = int(self.counts[0]), len(self.hi)
        counts = np.bincount(np.arange(n_batches) // 2 % n_groups, minlength=1)[:, None]
        means = fixed_mean(self.hi[: len(counts)], self.lo[: len(counts)], counts)

        return np.vstack([mean, np.sqrt(counts) * (means - mean)])


def _no_sums(n_inputs: int) -> BatchSums:
    n_groups = max(_MIN_GROUPS, min(_MAX_GROUPS, _GROUP_ENTRIES // n_inputs))
    hi, lo = np.zeros((2, n_groups, n_inputs), dtype=np.int64)
    counts = np.zeros(len(COUNTS), dtype=np.int64)
    return BatchSums(hi, lo, counts, np.zeros(0, dtype=np.int64))


class _Batches(NamedTuple):
    """Some consecutive batches: what adds their vectors, and where they lie among all."""

    add: AddBatches
    n_before: int
    n_batches: int
    batch_size: int


def _sum_some(rows: Any, n_inputs: int, batches: _Batches, at_once: int, start: int) -> BatchSums:
    """Sums of some batches of a block, from number ``start`` on."""
    from replearn.kernels import RawRows

    stop, size = min(start + at_once, batches.n_batches), batches.batch_size
    ends = start * size, stop * size
    part = rows.part(*ends) if isinstance(rows, RawRows) else RawRows.of(*rows.read(*ends))

    sums, bias = _no_sums(n_inputs), n_inputs - rows.n_features
    first = batches.n_before + start
    marks = batches.add(part, first, size, bias, sums.hi, sums.lo, sums.counts)

    return replace(sums, marks=marks)


def sum_batches(
    sample: Sample, plan: BatchPlan, add: AddBatches, work: BlockMap = map
) -> tuple[BatchSums, int]:
    """Cut rows into batches, turn each into a vector, and add these up exactly.

    Fewer rows than one batch make one batch; a remainder is left over. An original whose rows
    make few batches cuts them into shorter ones. The same bits for every ``work`` and any pieces of
    a stream.
    """
    total, batch_size, n_before = _no_sums(plan.n_inputs), plan.batch_size, 0
    for block in sample.blocks(ENOUGH_BATCHES * plan.batch_size):
        # the first block is all of the rows, or enough to tell that they are many
        if n_before == 0:
            batch_size = _first_size(plan, block.n_rows)

        n_batches = block.n_rows // batch_size
        if plan.exact_batches:
            n_batches = max(0, min(n_batches, plan.n_batches - n_before))

        how = _Batches(add, n_before, n_batches, batch_size)
        total += _sum_block(block, plan.n_inputs, how, work)
        n_before += n_batches

    return total, batch_size


def _first_size(plan: BatchPlan, n_rows: int) -> int:
    """Rows of a batch, for a lab with so many rows."""
    shortest = plan.batch_size
    if plan.sketch_bits and not plan.grid_width and "batch_size" not in plan.by_hand:
        # an original whose spread chooses the width needs a spread
        shortest = max(plan.shortest_batch, n_rows // ENOUGH_BATCHES)

    return max(1, min(plan.batch_size, shortest, n_rows))


def _sum_block(block: SignedRows, n_inputs: int, batches: _Batches, work: BlockMap) -> BatchSums:
    """Sums of the first batches of a block of rows."""
    from replearn.kernels import RawRows

    rows: Any = block  # parts are read where they are summed; rows in memory stay in their place
    if isinstance(block, MemoryRows):
        rows = RawRows.of(block.X, block.signs, block.order)
    # whole pairs of batches: their distances show the variance
    at_once = 2 * max(1, min(_BLOCK_BATCHES, _BLOCK_ROWS // batches.batch_size) // 2)
    solve = partial(_sum_some, rows, n_inputs, batches, at_once)
    starts = range(0, batches.n_batches, at_once)

    return reduce(BatchSums.__add__, work(solve, starts), _no_sums(n_inputs))


# --- rows as they come --------------------------------------------------------------------------


@dataclass
class OnePass:
    """A fit whose rows come some at a time: sums of the batches so far, and rows that wait.

    Pairs of batches are summed as soon as they are whole. So what is kept are two batches of rows
    at most, and the sums are those of `sum_batches` on all rows in their order.
    """

    plan: BatchPlan
    seed: str
    n_rows: int = 0
    n_batches: int = 0
    sums: BatchSums | None = None
    waiting: tuple[Any, Signs] | None = None

    def take(self, X: Any, signs: Signs, add: AddBatches, work: BlockMap = map) -> None:
        """Add rows."""
        self.n_rows += signs.size
        if self.waiting is not None:
            X = stacked([self.waiting[0], X])
            signs = np.concatenate([self.waiting[1], signs])

        # whole pairs of batches, as a fit of all rows would sum them
        n_new = signs.size // self.plan.batch_size // 2 * 2
        n_summed = n_new * self.plan.batch_size

        if n_new:
            self.sums = self._with(self._counted(n_new), X[:n_summed], signs[:n_summed], add, work)
            self.n_batches += n_new

        self.waiting = X[n_summed:], signs[n_summed:]

    def all_sums(self, add: AddBatches) -> tuple[BatchSums, int]:
        """Sums of all whole batches, those that wait included, as `sum_batches` gives them."""
        assert self.waiting is not None
        X, signs = self.waiting
        if self.sums is None:
            return sum_batches(MemoryRows(X, signs), self.plan, add)

        n_more = self._counted(signs.size // self.plan.batch_size)
        return self._with(n_more, X, signs, add, map), self.plan.batch_size

    def _counted(self, n_batches: int) -> int:
        """How many of the next batches the plan still takes."""
        if not self.plan.exact_batches:
            return n_batches

        return max(0, min(n_batches, self.plan.n_batches - self.n_batches))

    def _with(self, n: int, X: Any, signs: Signs, add: AddBatches, work: BlockMap) -> BatchSums:
        """The sums so far, and n batches of these rows."""
        batches = _Batches(add, self.n_batches, n, self.plan.batch_size)
        more = _sum_block(MemoryRows(X, signs), self.plan.n_inputs, batches, work)
        return more if self.sums is None else self.sums + more


# --- mean to codes ------------------------------------------------------------------------------


def round_mean(
    sums: BatchSums, batch_size: int, plan: BatchPlan, coins: Coins, n_rows: int
) -> Fitted:
    """Project the mean of the batch vectors and round it."""
    n_batches = int(sums.counts[0])
    if n_batches == 0:
        raise ReplearnError("rows must make at least one batch, got none. Give more rows.")

    counts = dict(zip(COUNTS, sums.counts.tolist(), strict=True))
    marks = np.sort(sums.marks)  # of some rows; equal rows have equal ones
    fitted = round_point(sums.mean_and_deviations(), n_batches, batch_size, counts, plan, coins)
    n_again = int(np.count_nonzero(marks[1:] == marks[:-1])) << sums.level

    return replace(
        fitted,
        spread=replace(fitted.spread, n_repeated=n_again),  # type: ignore[type-var]
        counts={name: counts[name] for name in ("zero_rows", "unconverged", "infeasible")}
        | {"batches": n_batches, "left_over": n_rows - n_batches * batch_size},
    )


def round_point(
    vectors: Matrix,
    n_batches: int,
    batch_size: int,
    counts: dict[str, int],
    plan: BatchPlan,
    coins: Coins,
) -> Fitted:
    """Project a point, the first of the vectors, and round it; the others are its deviations.

    An original with sketch bits in practical mode chooses the width from its own spread; a
    replication has width and sketch in its plan.
    """
    # with a sketch the spread sets a published width, in the same bits everywhere
    n_exact = len(vectors) if plan.sketch_bits or plan.projection != "gaussian" else 1
    point, *spread = plan.space("1").project(vectors[:n_exact], coins)
    deviations = np.array(spread).reshape(-1, plan.n_components)
    if n_exact < len(vectors):
        sizes = plan.projection, plan.n_inputs, plan.n_components
        deviations = vectors[1:] @ projection_matrix(*sizes, coins)

    width = plan.grid_width
    if plan.sketch_bits and not width:
        width = sketched_width(plan, deviations, n_batches)

    space = plan.space(width)
    codes = space.encode(point, coins, plan.sketch)
    place = space.place(point, codes, coins)
    if plan.sketch is not None:
        place = np.zeros_like(place)  # the original's: what is published stands for it

    return Fitted(
        codes=codes,
        spread=BatchSpread(
            n_parts=len(deviations),
            n_batches=n_batches,
            batch_size=batch_size,
            grid_width=width,
            place=place,
            point=vectors[0],
            deviations=deviations,
            counts=counts,
        ),
        n_used=n_batches * batch_size,
        space=space,
        sketch=space.sketch(codes) if plan.sketch_bits else None,
    )


# --- step by step ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trace:
    """Every intermediate of a fit of Algorithm 1 or 2, by the paper's letters.

    Attributes
    ----------
    directions : array of shape (n_batches, n_inputs)
        w_i: the vector of each batch.
    mean_direction : array of shape (n_inputs,)
        z: their mean.
    projection : array of shape (n_components, n_inputs)
        A.
    components : array of shape (n_components,)
        A z.
    offsets : array of shape (n_components,)
        o: where cells begin, in widths.
    thresholds : array
        u; AKround alone has them.
    codes : array of int
        The whole numbers that labs compare.
    rounded : array of shape (n_components,)
        b: what the codes stand for.
    direction : array of shape (n_inputs,)
        A'b, before it gets length 1.

    See Also
    --------
    ReplicableSVMClassifier : its ``trace_`` is one, with ``trace=True``.

    Notes
    -----
    The steps are run once more after the fit, batch by batch, so they are those of its codes.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 5, margin=0.3, random_state=0)
    >>> sizes = {"n_batches": 10, "batch_size": 200, "n_components": 8, "grid_width": 0.2}
    >>> svm = rl.ReplicableSVMClassifier(margin=0.3, mode="paper", trace=True, **sizes).fit(X, y)
    >>> svm.trace_.directions.shape, svm.trace_.projection.shape, len(svm.trace_.codes)
    ((10, 5), (8, 5), 8)
    """

    directions: Matrix
    mean_direction: Vector
    projection: Matrix
    components: Vector
    offsets: Vector
    thresholds: Vector
    codes: Codes
    rounded: Vector
    direction: Vector

    def __repr__(self) -> str:
        """Names and shapes: the arrays themselves fill a screen."""
        shapes = (f"{name} {value.shape}" for name, value in vars(self).items())
        return f"<Trace: {', '.join(shapes)}>"


def trace(
    sample: MemoryRows, plan: BatchPlan, coins: Coins, fitted: Fitted, add: AddBatches | None
) -> Trace:
    """The steps of a fit once more, one batch at a time. Without ``add`` it was one fit."""
    space, spread = fitted.space, fitted.spread
    assert isinstance(spread, BatchSpread)
    vectors = spread.point[None, :]
    if add is not None:
        size = spread.batch_size
        alone = replace(plan, batch_size=size, n_batches=1, by_hand=("n_batches", "batch_size"))
        starts = range(0, fitted.n_used, size)
        batches = (replace(sample, order=sample.places[at : at + size]) for at in starts)
        sums = (sum_batches(batch, alone, add)[0] for batch in batches)
        vectors = np.array([one.mean_and_deviations()[0] for one in sums])

    point = vectors.mean(axis=0)
    return Trace(
        directions=vectors,
        mean_direction=point,
        projection=space.project(np.eye(plan.n_inputs), coins).T,
        components=space.project(point[None, :], coins)[0],
        offsets=coins.uniforms("rounding/offset", space.n_codes),
        thresholds=coins.uniforms("rounding/threshold", space.n_codes * (space.rounding == "ak")),
        codes=fitted.codes,
        rounded=space.components(fitted.codes, coins),
        direction=space.decode(fitted.codes, coins),
    )
