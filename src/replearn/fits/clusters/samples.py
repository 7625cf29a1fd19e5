"""What the algorithms ask of rows on a cluster: sums and counts, exact and so in any order."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from operator import add
from typing import Any

from replearn.codes.net_space import NetSpace
from replearn.codes.randomness import SharedRandomness
from replearn.fits.clusters.points import ClusterPoints
from replearn.fits.clusters.tables import ClusterRows
from replearn.fits.clusters.tasks import completed
from replearn.plans.sizes import BatchPlan
from replearn.sources import Watch
from replearn.stages.batches import BatchKernel, BatchSums, SignedRows, Total
from replearn.stages.pieces import BatchStream
from replearn.types import BlockMap, Signs


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

    def points(self, space: NetSpace, shared: SharedRandomness, n_used: int) -> ClusterPoints:
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
