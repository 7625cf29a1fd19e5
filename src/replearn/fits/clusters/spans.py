"""How the rows of a table are cut for workers: in whole units, so that no pair of batches is cut.

Plain arithmetic on numbers of rows; nothing here knows a cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from replearn.types import IntegerArray

#: Rows of a span that joins slices of small partitions, at most, if a unit is smaller.
JOINED_ROWS = 1 << 13


@dataclass(frozen=True)
class Slice:
    """Rows ``start`` to ``stop`` of one partition."""

    partition: int
    start: int
    stop: int


@dataclass(frozen=True)
class Span:
    """Consecutive rows of a table, as slices of its partitions."""

    start: int  # the first row, counted in the whole table
    slices: tuple[Slice, ...]  # none of them empty

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(piece.stop - piece.start for piece in self.slices)


def partition_spans(
    lengths: Sequence[int], unit: int, most_joined: int = JOINED_ROWS
) -> list[Span]:
    """Cut a table where its partitions meet; every row once, in order.

    The whole units within a partition make one span, for which no row has to move. The units that
    lie across a border are joined from slices, to spans of ``most_joined`` rows at most (of one
    unit at least). Every span but the last is a multiple of ``unit``; partitions may be empty.

    Examples
    --------
    >>> [[(s.partition, s.start, s.stop) for s in x.slices] for x in partition_spans([5, 4], 2)]
    [[(0, 0, 4)], [(0, 4, 5), (1, 0, 1)], [(1, 1, 4)]]
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    n_rows = int(ends[-1]) if ends.size else 0
    joined = unit * max(1, most_joined // unit)
    spans: list[Span] = []
    done = 0
    for start, stop in _inner(ends, unit):
        for first in range(done, start, joined):
            spans.append(_span(ends, first, min(first + joined, start)))
        spans.append(_span(ends, start, stop))
        done = stop
    for first in range(done, n_rows, joined):
        spans.append(_span(ends, first, min(first + joined, n_rows)))
    return spans


def _inner(ends: IntegerArray, unit: int) -> Iterator[tuple[int, int]]:
    """The whole units within each partition that has any; the last unit may be short."""
    start = 0
    for end in ends.tolist():
        first = -(-start // unit) * unit
        last = end if end == ends[-1] else end // unit * unit
        if first < last:
            yield first, last
        start = end


def _span(ends: IntegerArray, start: int, stop: int) -> Span:
    slices: list[Slice] = []
    at = start
    while at < stop:
        partition = int(np.searchsorted(ends, at, side="right"))  # the one that holds row ``at``
        before = int(ends[partition - 1]) if partition else 0
        upto = min(stop, int(ends[partition]))
        slices.append(Slice(partition, at - before, upto - before))
        at = upto
    return Span(start, tuple(slices))


def file_spans(lengths: Sequence[int], unit: int, rows: int) -> list[Span]:
    """Cut rows in files, whose partitions are parts that a worker reads from their start on.

    So a span ends a little behind the start of a part, never before its end, and takes several
    parts if they are short. Parts much longer than ``rows``, about the length of a span, are cut,
    though the rows above a cut are then read for nothing. Every span but the last is a multiple of
    ``unit``; every row is in one, in order.

    Examples
    --------
    >>> [(span.start, span.n_rows) for span in file_spans([10, 10, 50], unit=4, rows=20)]
    [(0, 20), (20, 28), (48, 22)]
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    cuts, n_rows = [0], 0
    for length in lengths:
        if n_rows + length > cuts[-1] + rows and n_rows > cuts[-1]:
            cuts.append(n_rows)
        n_pieces = -(-length // (2 * rows))
        cuts += [n_rows + i * length // n_pieces for i in range(1, n_pieces)]
        n_rows += length
    whole = {min(-(-cut // unit) * unit, n_rows) for cut in (*cuts, n_rows)}
    return [_span(ends, start, stop) for start, stop in pairwise(sorted(whole))]
