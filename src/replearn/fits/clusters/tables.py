"""Training rows on a cluster, where they are: as tasks over spans of them."""

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from replearn.codes.encoding import Seen
from replearn.errors import ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.fits.clusters.spans import file_spans, partition_spans
from replearn.fits.clusters.tasks import completed, guarded, shared_task
from replearn.fits.label_parts import LabelPart, join_labels, labels_of
from replearn.sources import Source
from replearn.sources.common import total_seen
from replearn.sources.labels import Labels
from replearn.sources.parquet_files import ParquetSource, Part
from replearn.stages.batches import LabelRuns, SignedRows
from replearn.types import Signs

#: Numbers that one task reads from files, about: 64 MiB, or a tenth of a second or more.
TASK_NUMBERS = 1 << 23

#: Labels that one task reads at once from files.
_TASK_LABELS = 1 << 20

#: Rows of a part of a file, from the first to the last.
_Place = tuple[Part, int, int]

#: What a task does with a span: (first row, chunks) to a result.
Work = Callable[[int, Iterable[SignedRows]], Any]

#: Told what was missing or unknown in all rows, after the first pass over them.
OnSeen = Callable[[Seen | None], None]


class _Chunk(NamedTuple):
    """Checked rows, their signs, and what was missing or unknown before encoding."""

    X: Any
    signs: Signs
    seen: Seen | None


#: Reads rows of a partition: (first row, X, y, start, stop).
_Read = Callable[..., _Chunk]


class Done(NamedTuple):
    """What a task gives: the result of its work, and what was missing or unknown in its rows."""

    result: Any
    seen: Seen | None


class ClusterRows(ABC):
    """Rows on a cluster: what is known of them here, and how to make tasks of them."""

    n_features: int
    names: tuple[str, ...] | None  # of the features
    labels: Labels
    on_seen: OnSeen | None = None
    runs: LabelRuns = LabelRuns()  # how the labels follow each other; empty before ``look``
    lengths: tuple[int, ...] = ()  # rows of the parts that were looked at

    def look(self, client: Any) -> None:
        """Read the labels, and nothing else: what is wrong with them is told before a long fit."""
        parts = dict(completed(client, self._label_tasks))
        found = [parts[number] for number in sorted(parts)]
        self.runs = join_labels(self.labels, found)
        self.lengths = tuple(part.n_rows for part in found)

    def note(self, parts: Iterable[Seen | None]) -> None:
        """Note what a pass over all rows has seen; later passes see the same."""
        if self.on_seen is not None:
            self.on_seen(total_seen(parts))
            self.on_seen = None

    @abstractmethod
    def tasks(self, work: Work, unit: int) -> list[Any]:
        """Tasks that do some work on spans of whole units (the last may be short), in order.

        Each gives `Done`.
        """

    @abstractmethod
    def _label_tasks(self) -> list[Any]:
        """Tasks that give a `LabelPart` each, in order."""


# --- rows in files ----------------------------------------------------------------------------


class RowsInFiles(ClusterRows):
    """Rows in Parquet files that every worker can read; workers are told where.

    Nothing is known of the labels yet. A task takes about ``task_rows`` rows.
    """

    def __init__(self, source: Source, labels: Labels, task_rows: int | None = None) -> None:
        if not isinstance(source, ParquetSource):
            raise ReplearnError(
                f"{source.place} must be Parquet, which workers can read in parts. Convert it, or "
                "fit it on one machine."
            )
        self.n_features, self.names = source.n_features, source.names
        self.labels = labels
        self._source, self._parts = source, source.parts()
        self._task_rows = task_rows or max(1, TASK_NUMBERS // source.n_features)

    def tasks(self, work: Work, unit: int) -> list[Any]:
        """Tasks that do some work on spans of whole units (the last may be short), in order."""
        about = shared_task((self._source, self.labels, work))
        task = guarded(_work_on_file)
        made = []
        for span in file_spans([part.n_rows for part in self._parts], unit, self._task_rows):
            places = [(self._parts[one.partition], one.start, one.stop) for one in span.slices]
            made.append(task(about, span.start, places))
        return made

    def _label_tasks(self) -> list[Any]:
        about = shared_task((self._source, self.labels))
        task = guarded(_look_at_parts)
        return [task(about, places) for places in _label_places(self._parts, _TASK_LABELS)]


def _label_places(parts: Iterable[Part], rows: int) -> Iterator[list[_Place]]:
    """Rows of consecutive parts, at most ``rows`` at a time."""
    places: list[_Place] = []
    room = rows
    for part in parts:
        for start in range(0, part.n_rows, rows):
            stop = min(start + rows, part.n_rows)
            if stop - start > room:
                yield places
                places, room = [], rows
            places.append((part, start, stop))
            room -= stop - start
    if places:
        yield places


def _look_at_parts(about: tuple[ParquetSource, Labels], places: Sequence[_Place]) -> LabelPart:
    source, labels = about
    found: list[Any] = []
    for part, start, stop in places:
        if not os.path.exists(part.path):
            raise ReplearnError(
                f"{part.path} must be where every worker can read it, but one does not find it. "
                "Put it on a file system that all workers share, under this path."
            )
        found += [piece.y for piece in source.part_pieces(part, start, stop, labels_only=True)]
    return LabelPart.of(labels, np.concatenate(found))


def _work_on_file(
    about: tuple[ParquetSource, Labels, Work], first_row: int, places: Sequence[_Place]
) -> Done:
    source, known, work = about
    labels = copy.deepcopy(known)
    chunks = (
        _Chunk(piece.X, labels.targets(np.asarray(piece.y)), piece.seen)
        for place in places
        for piece in source.part_pieces(*place)
    )
    return _done(work, first_row, chunks)


def _done(work: Work, first_row: int, chunks: Iterable[_Chunk]) -> Done:
    """Do some work on chunks, and count what is missing or unknown in them on the way."""
    seen: list[Seen | None] = []

    def rows() -> Iterator[SignedRows]:
        for chunk in chunks:
            seen.append(chunk.seen)
            yield chunk.X, chunk.signs

    result = work(first_row, rows())
    return Done(result, total_seen(seen))


# --- rows in memory ---------------------------------------------------------------------------


class RowsInPartitions(ClusterRows):
    """Partitions of a Dask dataframe or array; each stays on its worker, or is made there.

    The estimator says which rows are good, and has the encoding. ``partitions`` are features and
    labels, or a dataframe with both and None; ``label_partitions`` are the labels alone.
    ``columns`` are those of the features in a dataframe, ``target`` that of the labels, if it is in
    the same one. ``n_columns`` counts them before the encoding.
    """

    def __init__(
        self,
        estimator: ReplicableClassifier,
        partitions: Sequence[tuple[Any, Any]],
        label_partitions: Sequence[Any],
        columns: list[str] | None,
        target: str | None,
        n_columns: int,
    ) -> None:
        encoding = estimator.agreed.encoding
        self.n_features = n_columns if encoding is None else encoding.n_outputs
        text = columns is not None and all(isinstance(name, str) for name in columns)
        self.names = tuple(columns) if text and columns is not None else None
        self.labels = labels_of(estimator)
        self._partitions, self._label_partitions = partitions, label_partitions
        self._read = partial(_checked_rows, estimator, columns, target, self.labels)

    def tasks(self, work: Work, unit: int) -> list[Any]:
        """Tasks that do some work on spans of whole units (the last may be short), in order."""
        about = shared_task((self._read, work))
        on_partition, cut = guarded(_work_on_partition), guarded(_cut_partition)
        on_slices = guarded(_work_on_slices)
        made = []
        for span in partition_spans(self.lengths, unit):
            arguments, row = [], span.start
            for piece in span.slices:
                arguments.append((row, *self._partitions[piece.partition], piece.start, piece.stop))
                row += piece.stop - piece.start
            if len(arguments) == 1:
                made.append(on_partition(about, *arguments[0]))
            else:
                slices = [cut(about, *argument) for argument in arguments]
                made.append(on_slices(about, span.start, *slices))
        return made

    def _label_tasks(self) -> list[Any]:
        about = shared_task(self.labels)
        task = guarded(_look_at_partition)
        return [task(about, number, y) for number, y in enumerate(self._label_partitions)]


def _checked_rows(
    estimator: ReplicableClassifier,
    columns: list[str] | None,
    target: str | None,
    labels: Labels,
    first_row: int,
    X: Any,
    y: Any,
    start: int,
    stop: int,
) -> _Chunk:
    """Rows ``start`` to ``stop`` of a partition; the first of them has this number."""
    if y is None:
        y = X[target]
    if X.shape[0] != len(y):
        raise ReplearnError(
            f"X and y must have as many rows in each partition, got {X.shape[0]:,} and "
            f"{len(y):,} up to row {first_row + stop - start:,}. Give both the same partitions."
        )
    if columns is not None:
        X = X[columns]
    X, y = (_rows(table, start, stop) for table in (X, y))
    estimator = copy.copy(estimator)  # the check sets attributes
    try:
        X, y = estimator._check_rows(X, y, first_row=first_row)
    except ReplearnError:
        raise
    except (TypeError, ValueError) as problem:  # as scikit-learn says it, and where
        last = first_row + stop - start - 1
        raise ReplearnError(f"X and y, rows {first_row} to {last}: {problem}") from None
    try:
        return _Chunk(X, labels.targets(y), estimator.__dict__.get("seen_"))
    except ReplearnError:  # they were all looked at before
        raise ReplearnError(
            "y must hold the same labels whenever it is computed, got others the second time. "
            "Fix the seed of random partitions, or persist them."
        ) from None


def _rows(table: Any, start: int, stop: int) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    return table.tocsr()[start:stop] if sp.issparse(table) else table[start:stop]


def _look_at_partition(labels: Labels, number: int, y: Any) -> LabelPart:
    return LabelPart.of(labels, np.asarray(y), f" of partition {number}")


def _work_on_partition(about: tuple[_Read, Work], first_row: int, *place: Any) -> Done:
    read, work = about
    return _done(work, first_row, [read(first_row, *place)])


def _cut_partition(about: tuple[_Read, Work], first_row: int, *place: Any) -> _Chunk:
    chunk = about[0](first_row, *place)
    return chunk._replace(X=chunk.X.copy())  # not a view, which would keep the partition


def _work_on_slices(about: tuple[_Read, Work], first_row: int, *slices: _Chunk) -> Done:
    return _done(about[1], first_row, slices)
