"""What the algorithms ask of rows on a cluster: sums and counts, exact and so in any order."""

from collections.abc import Iterable
from functools import partial, reduce
from typing import Any

from replearn.codes.net_space import NetSpace
from replearn.codes.randomness import SharedRandomness
from replearn.estimators.base import refuse_sorted
from replearn.fits.clusters.points import ClusterPoints
from replearn.fits.clusters.tables import Chunk, Table
from replearn.fits.clusters.tasks import Watch, completed
from replearn.kernels.soft_errors import sum_soft_errors
from replearn.plans.sizes import Plan
from replearn.stages.batches import BatchKernel, BatchSums
from replearn.stages.pieces import BatchStream
from replearn.types import BlockMap, Vector


class ClusterSample:
    """Rows of a table on a cluster: a `Sample`, and a `PointSource`.

    Parameters
    ----------
    client : distributed.Client
    table : Table
        Whose labels are known.
    watch : callable, optional
    """

    def __init__(self, client: Any, table: Table, watch: Watch | None = None) -> None:
        self._client, self._table, self._watch = client, table, watch

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._table.runs.n_rows

    def sums(self, solve: BatchKernel, plan: Plan, run: BlockMap = map) -> BatchSums:
        """Sums of the vectors of all batches."""
        if self.n_rows >= 2 * plan.batch_size:
            refuse_sorted(self._table.runs)
        parts = self._results(partial(_sum_rows, solve, plan), unit=2 * plan.batch_size)
        return reduce(BatchSums.merge, parts)

    def soft_errors(self, direction: Vector, noise: float, run: BlockMap = map) -> tuple[int, int]:
        """Rows that the noise would turn, times ``QUANTUM``, and the rows that have a direction."""
        parts = self._results(partial(_sum_soft_errors, direction, noise), unit=1)
        return reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]), parts)

    def points(self, space: NetSpace, shared: SharedRandomness, n_used: int) -> ClusterPoints:
        """The first so many rows, projected."""
        return ClusterPoints(self._client, self._table, space, shared, n_used, self._watch)

    def _results(self, work: Any, unit: int) -> Iterable[Any]:
        tasks = self._table.tasks(work, unit)
        return (result for _, result in completed(self._client, tasks, self._watch))


def _sum_rows(solve: BatchKernel, plan: Plan, first_row: int, chunks: Iterable[Chunk]) -> BatchSums:
    stream = BatchStream(solve, plan, first_row)
    for X, signs in chunks:
        stream.take(X, signs)
    return stream.total()


def _sum_soft_errors(
    direction: Vector, noise: float, first_row: int, chunks: Iterable[Chunk]
) -> tuple[int, int]:
    total = count = 0
    for X, signs in chunks:
        more, rows = sum_soft_errors(X, signs, 0, signs.size, direction, noise)
        total, count = total + more, count + rows
    return total, count
