"""One pass over an original's table: counts of all rows, and a sample that no order can change."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.tables.cells import (
    Column,
    Texts,
    is_number_text,
    level_text,
    levels_of,
    numbers_of,
)
from replearn.tables.table import Batch, Table
from replearn.types import Vector, Words, is_sparse

#: Rows that are kept to find quantiles; of more rows, a share that their content chooses.
SAMPLE_ROWS = 1 << 14
#: Different levels of a column that are counted; a column with more is no column of levels.
MOST_LEVELS = 1 << 16

_MIX = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio


@dataclass(eq=False)
class ColumnLook:
    """What all rows say about one column.

    Attributes
    ----------
    n_missing : int
    n_numbers, n_texts : int
        Cells that are numbers, and cells that are not (true and false are not).
    counts : dict
        Rows of each level, by class of the label; empty for columns of numbers.
    is_counted : bool
        Whether ``counts`` knows all rows.
    missing_counts : int64 array
        Rows without a value, by class of the label.
    """

    n_missing: int = 0
    n_numbers: int = 0
    n_texts: int = 0
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    is_counted: bool = True
    missing_counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    @property
    def too_many(self) -> bool:
        """Whether there are more levels than are counted."""
        return len(self.counts) > MOST_LEVELS


@dataclass(eq=False)
class Look:
    """What one pass found: a `ColumnLook` for each column, and the sampled rows.

    Attributes
    ----------
    n_rows : int
    columns : dict
    labels : array or None
        Labels of the sampled rows.
    n_sampled : int
    """

    n_rows: int
    columns: dict[str, ColumnLook]
    labels: NDArray[Any] | None
    n_sampled: int
    _sample: Any  # numbers with a row for each column, or a CSC array
    _places: dict[str, int]

    def cells(self, name: str) -> Vector:
        """Numbers of the sampled rows, in some order; NaN where a cell is no number."""
        place = self._places[name]
        if not is_sparse(self._sample):
            return np.asarray(self._sample[place])
        cells = np.zeros(self.n_sampled)
        stored = slice(*self._sample.indptr[place : place + 2])
        cells[self._sample.indices[stored]] = self._sample.data[stored]
        return cells

    def numbers(self, name: str) -> Vector:
        """The same without NaN, sorted."""
        if is_sparse(self._sample):
            place, ends = self._places[name], self._sample.indptr
            stored = np.sort(self._sample.data[ends[place] : ends[place + 1]])
            first = int(np.searchsorted(stored, 0.0))
            zeros = np.zeros(self.n_sampled - stored.size)
            cells = np.concatenate([stored[:first], zeros, stored[first:]])
        else:
            cells = np.sort(self._sample[self._places[name]])
        return cells[: np.searchsorted(cells, np.nan)]  # NaN is sorted to the end


def look_at(
    table: Table, names: Sequence[str], labels: NDArray[Any] | None, as_levels: set[str]
) -> Look:
    """Read all rows once; ``labels`` are class numbers, or numbers, in the order of the rows."""
    n_classes = 1
    if labels is not None and labels.dtype.kind in "iub":
        n_classes = int(labels.max()) + 1
    looks = {name: ColumnLook(missing_counts=np.zeros(n_classes, np.int64)) for name in names}
    sample = _Sample(hashed=table.n_rows is None or table.n_rows > SAMPLE_ROWS)
    done = 0
    for batch in table.batches():
        mine = None if labels is None else labels[done : done + batch.n_rows]
        classes = mine if n_classes > 1 else None
        if batch.matrix is not None and not as_levels:
            _look_at_matrix(batch, names, looks, classes)
        else:
            for name in names:
                _look_at_column(looks[name], batch.column(name), classes, name in as_levels)
        sample.add(batch, names, mine)
        done += batch.n_rows
    flipped = {name for name, look in looks.items() if look.n_texts and not look.is_counted}
    if flipped:  # numbers at first, texts later: their levels are counted from the beginning
        return look_at(table, names, labels, as_levels | flipped)
    places = {name: place for place, name in enumerate(names)}
    rows, mine = sample.result()
    n_sampled = rows.shape[0] if is_sparse(rows) else rows.shape[1]
    return Look(done, looks, mine, n_sampled, rows, places)


def numbers_apart(table: Table, centres: dict[str, float]) -> dict[str, Vector]:
    """All numbers of some columns that differ from their centre, sorted.

    For columns that are nearly constant: a sample holds too few of these.
    """
    found: dict[str, list[Vector]] = {name: [] for name in centres}
    for batch in table.batches():
        if is_sparse(batch.matrix):
            columns = batch.matrix[:, [batch.places[name] for name in centres]].tocsc()
            ends = columns.indptr
            for place, name in enumerate(centres):
                values = columns.data[ends[place] : ends[place + 1]]
                found[name].append(values[(values != 0) & ~np.isnan(values)])
            continue
        for name, centre in centres.items():
            values = numbers_of(batch.column(name))[0]
            found[name].append(values[(values != centre) & ~np.isnan(values)])
    return {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}


def _look_at_matrix(
    batch: Batch,
    names: Sequence[str],
    looks: dict[str, ColumnLook],
    classes: NDArray[Any] | None,
) -> None:
    """Columns of one array: numbers all of them."""
    matrix = batch.matrix
    values = matrix.data if is_sparse(matrix) else matrix
    absent: Any = None
    if np.isnan(values.sum()):
        absent = matrix.copy() if is_sparse(matrix) else np.isnan(matrix)
        if is_sparse(matrix):
            absent.data = np.isnan(absent.data)
    for name in names:
        look, n_missing = looks[name], 0
        if absent is not None:
            column = absent[:, [batch.places[name]]]
            rows = np.ravel(column.toarray() if is_sparse(column) else column)
            n_missing = int(np.count_nonzero(rows))
            look.missing_counts += _by_class(rows, classes, look.missing_counts.size)
        look.n_missing += n_missing
        look.n_numbers += batch.n_rows - n_missing
        look.is_counted = False


def _look_at_column(
    look: ColumnLook, column: Column, classes: NDArray[Any] | None, as_levels: bool
) -> None:
    n_classes = look.missing_counts.size
    absent = column.codes < 0 if isinstance(column, Texts) else np.isnan(column)
    n_missing = int(np.count_nonzero(absent))
    if n_missing:
        look.missing_counts += _by_class(absent, classes, n_classes)
    look.n_missing += n_missing
    n_texts = 0
    if isinstance(column, Texts):
        odd = np.array([not is_number_text(text) for text in column.values] + [False])
        n_texts = int(np.count_nonzero(odd[column.codes]))
    look.n_texts += n_texts
    look.n_numbers += len(column) - n_missing - n_texts
    if not (as_levels or isinstance(column, Texts)):
        look.is_counted = False
        return
    if look.too_many:
        return
    codes, texts = levels_of(column)
    mine = np.zeros(len(column), dtype=np.int64) if classes is None else classes
    joint = np.bincount(
        codes[codes >= 0] * n_classes + mine[codes >= 0], minlength=len(texts) * n_classes
    ).reshape(len(texts), n_classes)
    for text, counts in zip(texts, joint, strict=True):
        if counts.any():
            look.counts[text] = look.counts.get(text, 0) + counts


def _by_class(
    rows: NDArray[np.bool_], classes: NDArray[Any] | None, n_classes: int
) -> NDArray[np.int64]:
    if classes is None:
        return np.array([np.count_nonzero(rows)] + [0] * (n_classes - 1))
    return np.bincount(classes[rows], minlength=n_classes)


# --- a sample of rows ---------------------------------------------------------------------------


class _Sample:
    """Rows whose mixed content is below a bound that is halved until there are few enough.

    The result depends on the rows alone, not on their order or on batches.
    """

    def __init__(self, hashed: bool) -> None:
        self._hashed = hashed
        self._level = 0
        self._hashes: list[Words] = []
        self._rows: list[NDArray[Any]] = []
        self._labels: list[NDArray[Any]] = []

    def add(self, batch: Batch, names: Sequence[str], labels: NDArray[Any] | None) -> None:
        rows: Any = slice(None)
        if self._hashed:
            hashes = _row_hashes(batch, names)
            n_kept = sum(part.size for part in self._hashes)
            while n_kept + np.count_nonzero(hashes < self._bound) > SAMPLE_ROWS:
                self._level += 1
                self._thin()
                n_kept = sum(part.size for part in self._hashes)
            rows = np.flatnonzero(hashes < self._bound)
            self._hashes.append(hashes[rows])
        self._rows.append(_number_rows(batch, names, rows))
        if labels is not None:
            self._labels.append(labels[rows])

    @property
    def _bound(self) -> np.uint64:
        return np.uint64((1 << (64 - self._level)) - 1)

    def _thin(self) -> None:
        for place, hashes in enumerate(self._hashes):
            kept = hashes < self._bound
            self._hashes[place] = hashes[kept]
            self._rows[place] = self._rows[place][kept]
            if self._labels:
                self._labels[place] = self._labels[place][kept]

    def result(self) -> tuple[Any, NDArray[Any] | None]:
        """Rows as a CSC array, or as an array with a row for each column; and their labels."""
        labels = np.concatenate(self._labels) if self._labels else None
        if is_sparse(self._rows[0]):
            from scipy import sparse

            return sparse.vstack(self._rows, format="csc"), labels
        return np.ascontiguousarray(np.concatenate(self._rows).T), labels


def _number_rows(batch: Batch, names: Sequence[str], rows: Any) -> Any:
    """Some rows as numbers."""
    if batch.matrix is None:
        return np.column_stack([numbers_of(batch.column(name))[0][rows] for name in names])
    some = batch.matrix[rows]
    if tuple(names) != batch.names:
        some = some[:, [batch.places[name] for name in names]]
    return some if is_sparse(some) else np.asarray(some, dtype=np.float64)


def _row_hashes(batch: Batch, names: Sequence[str]) -> Words:
    """A mix of all cells of each row; zeros of sparse rows need no look."""
    factors = np.array([_factor(name) for name in names], dtype=np.uint64)
    if is_sparse(batch.matrix):
        places = np.zeros(len(batch.names), dtype=np.uint64)
        places[[batch.places[name] for name in names]] = factors
        words = _words(batch.matrix.data) * places[batch.matrix.indices]
        rows = np.repeat(np.arange(batch.n_rows), np.diff(batch.matrix.indptr))
        total = np.zeros(batch.n_rows, dtype=np.uint64)
        np.add.at(total, rows, words)
    elif batch.matrix is not None and tuple(names) == batch.names:
        total = _words(batch.matrix) @ factors
    else:
        total = np.zeros(batch.n_rows, dtype=np.uint64)
        for name, factor in zip(names, factors, strict=True):
            total += _column_words(batch.column(name)) * factor
    total ^= total >> np.uint64(32)
    total *= np.uint64(_MIX)
    return total ^ (total >> np.uint64(29))


def _factor(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") | 1


def _words(values: NDArray[Any]) -> Words:
    """The bits of numbers; all missing cells are alike, and so are both zeros."""
    numbers = np.ascontiguousarray(values, dtype=np.float64) + 0.0
    if np.isnan(numbers.sum()):
        numbers = np.where(np.isnan(numbers), np.nan, numbers)
    return numbers.view(np.uint64)


def _column_words(column: Column) -> Words:
    """The same for one column; a text that is a number counts as that."""
    if not isinstance(column, Texts):
        return _words(column)
    words = []
    for text in column.values:
        if is_number_text(text):
            words.append(int(np.float64(float(text) + 0.0).view(np.uint64)))
        else:
            words.append(_factor(level_text(text)))
    missing = int(np.float64(np.nan).view(np.uint64))
    return np.array([*words, missing], dtype=np.uint64)[column.codes]
