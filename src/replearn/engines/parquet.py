"""Rows of Parquet files for Algorithms 1 and 2: each part is read where it is needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from replearn.documents import Label
from replearn.errors import ReplearnError
from replearn.tables import class_numbers, numbers_of, open_table
from replearn.tables.files import ParquetFile
from replearn.types import Matrix, Order, Signs


@dataclass(frozen=True)
class ParquetRows:
    """Training rows in the order of some files.

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
            found = open_table(path, target=target)  # what is wrong with a file is told in words
            groups += [(path, *group) for group in enumerate(group_sizes(path))]
        if not groups:
            raise ReplearnError("there must be Parquet files with rows, got none. Check the path.")
        return cls(tuple(groups), found.names, target, classes)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(size for _, _, size in self.groups)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    def blocks(self, step: int) -> Iterator[tuple[Any, Signs, Order]]:
        """All rows at once: whoever needs some asks for a `part`."""
        order = np.broadcast_to(np.int64(0), self.n_rows)  # only its size is looked at
        yield self, np.zeros(0, dtype=np.int8), order

    def part(self, start: int, stop: int) -> Any:
        """Some rows, as compiled loops take them."""
        from replearn.exact.packed import RawRows

        found, first = [], 0
        for path, number, size in self.groups:
            low, high = max(start - first, 0), min(stop - first, size)
            if low < high:
                X, signs = _read(path, number, self.names, self.target, self.classes)
                found.append((X[low:high], signs[low:high]))
            first += size
        X = np.concatenate([rows for rows, _ in found])
        signs = np.concatenate([labels for _, labels in found])
        return RawRows.of(X, signs, np.arange(len(signs)))


def group_sizes(path: str) -> list[int]:
    """Rows of each row group."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(path)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@lru_cache(maxsize=2)
def _read(
    path: str, number: int, names: tuple[str, ...], target: str, classes: tuple[Label, ...]
) -> tuple[Matrix, Signs]:
    """A row group; tasks of one worker come one after the other, so most find it here."""
    table = open_table(path, target=target, columns=names)
    rows, signs = [], []
    for batch in replace(table, read=ParquetFile(path, [number]).read, n_rows=None).batches():
        rows.append(np.column_stack([numbers_of(batch.column(name))[0] for name in names]))
        assert batch.y is not None
        signs.append(np.where(class_numbers(batch.y, classes) == 1, 1, -1).astype(np.int8))
    found = np.concatenate(rows)
    if not np.isfinite(found).all():
        raise ReplearnError(f"{path} must hold numbers in every cell, got missing ones or texts.")
    return found, np.concatenate(signs)
