"""Rows of files as the paper's algorithms take them, some at a time, in the order of the file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from replearn.documents import Label
from replearn.errors import ReplearnError
from replearn.rows import MemoryRows, SignedRows
from replearn.tables.files import ParquetFile
from replearn.tables.labels import class_numbers
from replearn.tables.table import Table, open_table
from replearn.types import Matrix, Signs, stacked


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Training rows of a table that is read once, from its beginning to its end."""

    table: Table
    signs: Signs  # of all rows: its labels are -1 and +1

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.signs.size)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.table.names)

    def first(self, n_rows: int) -> "StreamedRows":
        """So many of the rows, from the first on."""
        return replace(self, signs=self.signs[:n_rows])

    def blocks(self, step: int) -> Iterator[SignedRows]:
        """Consecutive rows, a whole multiple of ``step`` at a time; the last block has the rest."""
        kept: list[Any] = []
        done = n_kept = 0
        for batch in self.table.batches():
            kept.append(batch.numbers())
            n_kept += batch.n_rows

            # what is no multiple waits for the next batch, if there is one
            size = min(n_kept, self.n_rows - done)
            if done + size < self.n_rows:
                size -= size % step
            if size:
                rows = stacked(kept)
                yield MemoryRows(rows[:size], self.signs[done : done + size])
                kept, n_kept, done = [rows[size:]], n_kept - size, done + size


@dataclass(frozen=True)
class ParquetRows:
    """Training rows of Parquet files, each part of which is read where it is needed.

    Attributes
    ----------
    groups : tuple of (path, number of a row group, its rows)
    names : tuple of str
        Features.
    target : str
    classes : tuple of two labels
    """

    groups: tuple[tuple[str, int, int], ...]
    names: tuple[str, ...]
    target: str
    classes: tuple[Label, ...]

    @classmethod
    def of(cls, paths: Sequence[str], target: str, classes: tuple[Label, ...]) -> "ParquetRows":
        """All rows of some files, which have the same columns."""
        groups: list[tuple[str, int, int]] = []
        for path in paths:
            table = open_table(path, target=target)  # what is wrong with a file is told in words
            groups += [(path, *group) for group in enumerate(group_sizes(path))]

        if not groups:
            raise ReplearnError("there must be Parquet files with rows, got none. Check the path.")
        return cls(tuple(groups), table.names, target, classes)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(size for _, _, size in self.groups)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    def blocks(self, step: int) -> Iterator[SignedRows]:
        """All rows at once: whoever needs some reads them."""
        yield self

    def first(self, n_rows: int) -> "ParquetRows":
        """So many of them, from the first on."""
        sizes = [size for _, _, size in self.groups]
        left = n_rows - np.cumsum([0, *sizes[:-1]])  # when each group begins
        kept = zip(self.groups, np.minimum(left, sizes).tolist(), strict=True)
        return replace(self, groups=tuple((*group[:2], size) for group, size in kept if size > 0))

    def read(self, start: int, stop: int) -> tuple[Matrix, Signs]:
        """Some rows, and their labels as -1 and +1."""
        parts, first = [], 0
        for path, number, size in self.groups:
            low, high = max(start - first, 0), min(stop - first, size)
            if low < high:
                X, signs = _read(path, number, self.names, self.target, self.classes)
                parts.append((X[low:high], signs[low:high]))
            first += size

        X, signs = map(np.concatenate, zip(*parts, strict=True))
        return X, signs


def group_sizes(path: str) -> list[int]:
    """Rows of each row group."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(path)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@lru_cache(maxsize=2)
def _read(
    path: str, number: int, names: tuple[str, ...], target: str, classes: tuple[Label, ...]
) -> tuple[Matrix, Signs]:
    """A row group; parts of a fit come one after the other, so most find it here."""
    table = open_table(path, target=target, columns=names)

    rows, signs = [], []
    for batch in replace(table, read=ParquetFile(path, [number]).read, n_rows=None).batches():
        try:
            rows.append(batch.numbers())
        except ReplearnError as problem:
            raise ReplearnError(f"{path}: {problem}") from None

        assert batch.y is not None
        signs.append(np.where(class_numbers(batch.y, classes) == 1, 1, -1).astype(np.int8))
    return np.concatenate(rows), np.concatenate(signs)
