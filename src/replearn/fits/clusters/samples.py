"""What the algorithms ask of rows on a cluster: sums and counts, exact and so in any order.

For a search in a net rows are projected once, where they are, and stay there in few components;
candidates travel as their indices, and counts come back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import count
from operator import add
from typing import Any

import numpy as np

from replearn.codes.encoding import Seen
from replearn.codes.net_space import NetSpace
from replearn.codes.randomness import SharedRandomness
from replearn.fits.clusters.tables import ClusterRows, Done
from replearn.fits.clusters.tasks import RETRIES, completed, guarded, shared_task
from replearn.kernels.error_counts import PACK
from replearn.plans.sizes import BatchPlan
from replearn.sources import Watch
from replearn.stages.batches import BatchKernel, BatchSums, Rows, SignedRows, Total
from replearn.stages.net_search import Points, pack_points
from replearn.stages.pieces import BatchStream, joined
from replearn.types import BlockMap, IntegerArray, Signs


class ClusterSample:
    """Rows of a table on a cluster, whose labels are known: a `Sample`, and a `PointSource`."""

    def __init__(self, client: Any, table: ClusterRows, watch: Watch | None = None) -> None:
        self._client, self._table, self._watch = client, table, watch

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._table.runs.n_rows

    def sums(self, solve: BatchKernel, plan: BatchPlan, run: BlockMap = map) -> BatchSums:
        """Sums of the vectors of all batches."""
        if self.n_rows >= 2 * plan.batch_size:
            self._table.runs.refuse_sorted()
        parts = self._results(partial(_sum_rows, solve, plan), unit=2 * plan.batch_size)
        return reduce(BatchSums.merge, parts)

    def add_up(self, terms: Callable[[Any, Signs], Total], run: BlockMap = map) -> Total:
        """Sum of ``terms(X, signs)`` over chunks of rows, each added up where it is."""
        return reduce(add, self._results(partial(_add_up, terms), unit=1))

    def points(self, space: NetSpace, shared: SharedRandomness, n_used: int) -> "ClusterPoints":
        """The first ``n_used`` rows, projected."""
        return ClusterPoints(self._client, self._table, space, shared, n_used, self._watch)

    def _results(self, work: Any, unit: int) -> Iterator[Any]:
        """What some work gives on each span, as it comes."""
        seen = []
        tasks = partial(self._table.tasks, work, unit)
        for _, done in completed(self._client, tasks, self._watch):
            seen.append(done.seen)
            yield done.result
        self._table.note(seen)


def _sum_rows(
    solve: BatchKernel, plan: BatchPlan, first_row: int, chunks: Iterable[SignedRows]
) -> BatchSums:
    stream = BatchStream(solve, plan, first_row)
    for X, signs in chunks:
        stream.take(X, signs)
    return stream.total()


def _add_up(
    terms: Callable[[Any, Signs], Total], first_row: int, chunks: Iterable[SignedRows]
) -> Total:
    return reduce(add, (terms(X, signs) for X, signs in chunks))


# --- points of a search ----------------------------------------------------------------------


class ClusterPoints:
    """Points in packs on the workers of a cluster: a `PointSet` of the first ``n_used`` rows.

    The labels of the table are known. ``watch`` is told the share of the rows that are projected;
    a search has no known end.
    """

    def __init__(
        self,
        client: Any,
        table: ClusterRows,
        space: NetSpace,
        shared: SharedRandomness,
        n_used: int,
        watch: Watch | None = None,
    ) -> None:
        self._client = client
        # kept, as long as this object lives; lost ones are made again from the rows
        self._tasks = partial(table.tasks, partial(_packed, space, shared, n_used), unit=PACK)
        self._held: list[Any] = []
        found = self._ask(_sizes, watch=watch)
        table.note(seen for _, seen in found)
        sizes = np.array([size for size, _ in found], dtype=np.int64)
        self.n_points, self.n_zero_rows, self.n_packs = sizes.sum(axis=0).tolist()
        self._starts = np.cumsum([0, *sizes[:-1, 2]]).tolist()

    def counts(
        self,
        space: NetSpace,
        shared: SharedRandomness,
        indices: IntegerArray,
        limits: IntegerArray,
        run: BlockMap = map,
    ) -> IntegerArray:
        """Errors of these candidates, each counted up to ``limit + 1``."""
        parts = self._ask(_counts, (space, shared, indices, limits))
        return np.minimum(np.sum(parts, axis=0), limits + 1)

    def group_counts(
        self, space: NetSpace, shared: SharedRandomness, indices: IntegerArray, edges: IntegerArray
    ) -> tuple[IntegerArray, IntegerArray]:
        """Points in groups of packs, and how many of them each candidate gets wrong."""
        sizes = np.zeros(edges.size - 1, dtype=np.int64)
        counts = np.zeros((sizes.size, indices.size), dtype=np.int64)
        about = (space, shared, indices, edges)
        for first, more_sizes, more_counts in self._ask(_group_counts, about, self._starts):
            groups = slice(first, first + more_sizes.size)
            sizes[groups] += more_sizes
            counts[groups] += more_counts
        return sizes, counts

    def _ask(
        self,
        function: Callable[..., Any],
        about: Any = None,
        each: Sequence[Any] | None = None,
        watch: Watch | None = None,
    ) -> list[Any]:
        """What a function says of each part of the points."""
        attempts = count()

        def questions() -> list[Any]:
            if next(attempts):  # some were lost, perhaps with the points: they are made again
                for future in self._held:
                    future.release()
                self._held = []
            if not self._held:
                self._held = self._client.compute(self._tasks(), retries=RETRIES)
            question, ask = shared_task(about), guarded(function)
            more = [None] * len(self._held) if each is None else each
            return [ask(question, *both) for both in zip(self._held, more, strict=True)]

        found = dict(completed(self._client, questions, watch))
        return [found[number] for number in sorted(found)]


def _packed(
    space: NetSpace,
    shared: SharedRandomness,
    n_used: int,
    first_row: int,
    chunks: Iterable[SignedRows],
) -> Points:
    found, at = [], first_row
    for X, signs in _in_packs(chunks):
        order = np.arange(max(0, min(signs.size, n_used - at)), dtype=np.int64)
        found.append(pack_points(Rows(X, signs, order), order, space, shared))
        at += signs.size
    return Points(
        np.concatenate([points.packs for points in found]),
        sum(points.n_points for points in found),
        sum(points.n_zero_rows for points in found),
    )


def _in_packs(chunks: Iterable[SignedRows]) -> Iterator[SignedRows]:
    """The same rows in chunks that are whole packs; the last may be short."""
    waiting: SignedRows | None = None
    for X, signs in chunks:
        if waiting is not None:
            X, signs = joined(waiting[0], X), np.concatenate([waiting[1], signs])
        stop = signs.size // PACK * PACK
        if stop:
            yield X[:stop], signs[:stop]
        waiting = (X[stop:].copy(), signs[stop:].copy()) if stop < signs.size else None
    if waiting is not None:
        yield waiting


def _sizes(about: None, held: Done, each: None) -> tuple[tuple[int, int, int], Seen | None]:
    points: Points = held.result
    return (points.n_points, points.n_zero_rows, points.n_packs), held.seen


def _counts(about: Any, held: Done, each: None) -> IntegerArray:
    points: Points = held.result
    return points.counts(*about)


def _group_counts(
    about: tuple[NetSpace, SharedRandomness, IntegerArray, IntegerArray], held: Done, start: int
) -> tuple[int, IntegerArray, IntegerArray]:
    """The first group that has packs here, and what there is of each group."""
    space, shared, indices, edges = about
    points: Points = held.result
    inside = np.clip(edges - start, 0, points.n_packs)
    touched = np.flatnonzero(inside[:-1] < inside[1:])
    if touched.size == 0:
        return 0, np.zeros(0, dtype=np.int64), np.zeros((0, indices.size), dtype=np.int64)
    first, last = int(touched[0]), int(touched[-1]) + 1
    return first, *points.group_counts(space, shared, indices, inside[first : last + 1])
