"""One pass over an original's table: counts of all rows, and a sample that no order can change."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from replearn.tables.cells import Column, Texts, is_number_text, level_text, levels_of, numbers_of
from replearn.tables.encoding import MISSING
from replearn.tables.table import Batch, Table
from replearn.types import Array, Ints, Vector, Words, is_sparse, stacked

#: Rows that are kept to find quantiles; of more rows, a share that their content chooses.
SAMPLE_ROWS = 1 << 14
#: Different levels of a column that are counted; a column with more is no column of levels.
MOST_LEVELS = 1 << 16

_MIX = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio


@dataclass(eq=False)
class ColumnScan:
    """What all rows say about one column: how many cells are numbers, and texts (true is one).

    ``counts`` has the rows of each level by class of the label, ``missing_counts`` those without a
    value. It knows all rows if ``is_counted``; columns of numbers have none. ``independent``
    has the independent rows of each level, where rows come in groups: `Clusters`.
    """

    n_numbers: int = 0
    n_texts: int = 0
    counts: dict[str, Ints] = field(default_factory=dict)
    is_counted: bool = True
    missing_counts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    independent: dict[str, float] | None = None

    def n_independent(self, text: str) -> float:
        """Independent rows of a level."""
        if self.independent is not None:
            return self.independent.get(text, 0.0)
        return float(self.counts[text].sum())

    @property
    def n_independent_missing(self) -> float:
        """Independent rows without a value."""
        if self.independent is not None:
            return self.independent.get(MISSING, 0.0)
        return float(self.n_missing)

    @property
    def n_missing(self) -> int:
        """Rows without a value."""
        return int(self.missing_counts.sum())

    @property
    def too_many(self) -> bool:
        """Whether there are more levels than are counted."""
        return len(self.counts) > MOST_LEVELS


@dataclass(eq=False)
class TableScan:
    """What one pass found: a `ColumnScan` for each column, and sampled rows with their classes."""

    n_rows: int
    columns: dict[str, ColumnScan]
    classes: Array | None
    class_counts: Ints
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
        place = self._places[name]
        if is_sparse(self._sample):
            # zeros, which are not stored, come between the negative and the positive numbers
            stored = np.sort(self._sample.data[slice(*self._sample.indptr[place : place + 2])])
            first = int(np.searchsorted(stored, 0.0))
            zeros = np.zeros(self.n_sampled - stored.size)
            cells = np.concatenate([stored[:first], zeros, stored[first:]])
        else:
            cells = np.sort(self._sample[place])
        return cells[: np.searchsorted(cells, np.nan)]  # NaN is sorted to the end

    def mostly_zero(self) -> set[str]:
        """Columns of a sparse table that are 0 in a tenth of the rows of two classes at least.

        They are neither identifiers nor dates, and do not tell the label.
        """
        if not is_sparse(self._sample):
            return set()

        classes = self.classes
        if classes is None:
            classes = np.zeros(self.n_sampled, np.int64)
        n_in_class = np.bincount(classes)
        n_classes = n_in_class.size

        # stored cells of each column, by class
        columns = np.repeat(np.arange(len(self._places)), np.diff(self._sample.indptr))
        mixed = columns * n_classes + classes[self._sample.indices]
        stored = np.bincount(mixed, minlength=len(self._places) * n_classes).reshape(-1, n_classes)

        has_zeros = n_in_class - stored > 0.1 * n_in_class
        is_dull = has_zeros.sum(axis=1) >= min(2, n_classes)
        return {name for name, place in self._places.items() if is_dull[place]}


def look_at(
    table: Table, names: Sequence[str], classes: Array | None, as_levels: set[str]
) -> TableScan:
    """Read all rows once; ``classes`` are class numbers in the order of the rows."""
    n_classes = 1
    if classes is not None:
        n_classes += int(classes.max())
    looks = {name: ColumnScan(missing_counts=np.zeros(n_classes, np.int64)) for name in names}
    sample = _Sample(names)

    class_counts = np.zeros(n_classes, np.int64)
    for batch in table.batches():
        mine = np.zeros(batch.n_rows, np.int64)  # one class, if there are no labels
        if classes is not None:
            mine = classes[batch.rows]
        if batch.matrix is not None and not as_levels:
            _look_at_matrix(batch, looks, mine)
        else:
            for name in names:
                _look_at_column(looks[name], batch.column(name), mine, name in as_levels)
        sample.add(batch, mine)
        class_counts += np.bincount(mine, minlength=n_classes)

    flipped = {name for name, look in looks.items() if look.n_texts and not look.is_counted}
    if flipped:  # numbers at first, texts later: their levels are counted from the beginning
        return look_at(table, names, classes, as_levels | flipped)

    rows, sampled = sample.result()
    places = {name: place for place, name in enumerate(names)}
    done = int(class_counts.sum())
    scan = TableScan(done, looks, sampled, class_counts, sampled.size, rows, places)
    if n_classes == 1:
        scan.classes = None
    return scan


def quantile(values: Vector, share: float) -> float:
    """A value of which this share is not larger; no mean of two."""
    return float(values[int(share * (values.size - 1) + 0.5)])


def numbers_apart(table: Table, centres: dict[str, float]) -> dict[str, Vector]:
    """All numbers of some columns that differ from their centre, sorted.

    For columns that are nearly constant: a sample holds too few of these.
    """
    apart: dict[str, list[Vector]] = {name: [] for name in centres}
    for batch in table.batches():
        if is_sparse(batch.matrix):
            columns = batch.ordered(centres).tocsc()
            stored = np.split(columns.data, columns.indptr[1:-1])
        else:
            stored = [numbers_of(batch.column(name))[0] for name in centres]

        for (name, centre), values in zip(centres.items(), stored, strict=True):
            apart[name].append(values[(values != centre) & ~np.isnan(values)])
    return {name: np.sort(np.concatenate(parts)) for name, parts in apart.items()}


def _look_at_matrix(batch: Batch, looks: dict[str, ColumnScan], classes: Array) -> None:
    """Columns of one array: numbers all of them."""
    matrix = batch.matrix
    has_gaps = bool(np.isnan(matrix.sum()))
    for name, look in looks.items():
        look.is_counted = False
        look.n_numbers += batch.n_rows
        if has_gaps:
            absent = np.isnan(numbers_of(batch.column(name))[0])
            look.n_numbers -= int(np.count_nonzero(absent))
            look.missing_counts += np.bincount(classes[absent], minlength=look.missing_counts.size)


def _look_at_column(look: ColumnScan, column: Column, classes: Array, as_levels: bool) -> None:
    n_classes = look.missing_counts.size
    n_texts = 0
    if isinstance(column, Texts):
        absent = column.codes < 0
        odd = np.array([not is_number_text(text) for text in column.values] + [False])
        n_texts = int(np.count_nonzero(odd[column.codes]))
    else:
        absent = np.isnan(column)
        look.is_counted &= as_levels

    look.missing_counts += np.bincount(classes[absent], minlength=n_classes)
    look.n_texts += n_texts
    look.n_numbers += len(column) - int(np.count_nonzero(absent)) - n_texts
    if not look.is_counted or look.too_many:
        return

    # rows of each level, by class
    codes, texts = levels_of(column)
    joint = codes[codes >= 0] * n_classes + classes[codes >= 0]
    table = np.bincount(joint, minlength=len(texts) * n_classes).reshape(-1, n_classes)
    for text, counts in zip(texts, table, strict=True):
        if counts.any():
            look.counts[text] = look.counts.get(text, 0) + counts


# --- a sample of rows ---------------------------------------------------------------------------


class _Sample:
    """Different rows whose mixed content is below a bound, and how often each is there.

    The bound is halved until they are few enough. So the result depends on the rows alone, not on
    their order or on batches; and tables with few different rows keep all of them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._bound = (1 << 64) - 1
        self._parts: list[tuple[Words, Ints, Array, Any]] = []

    def add(self, batch: Batch, classes: Array) -> None:
        """Take what is below the bound: hashes, counts, classes and numbers."""
        hashes = row_hashes(batch, self._names, classes)
        # the bound comes first, so that few rows are looked at more closely
        ordered = np.sort(hashes[hashes < np.uint64(self._bound)])
        self._halve(ordered[np.concatenate([[True], ordered[1:] > ordered[:-1]])[: ordered.size]])

        rows = np.flatnonzero(hashes < np.uint64(self._bound))
        distinct, first, counts = np.unique(hashes[rows], return_index=True, return_counts=True)
        rows = rows[first]
        numbers = _number_rows(batch, self._names, rows)
        self._parts.append((distinct, counts, classes[rows], numbers))

        if sum(part[0].size for part in self._parts) > 2 * SAMPLE_ROWS:
            self._merge()

    def _halve(self, distinct: Words) -> None:
        while np.searchsorted(distinct, np.uint64(self._bound)) > SAMPLE_ROWS:
            self._bound >>= 1

    def _merge(self) -> None:
        """All parts as one."""
        hashes, counts, classes, numbers = zip(*self._parts, strict=True)
        distinct, first, places = np.unique(
            np.concatenate(hashes), return_index=True, return_inverse=True
        )
        self._halve(distinct)
        kept = slice(int(np.searchsorted(distinct, np.uint64(self._bound))))

        total = np.zeros(distinct.size, dtype=np.int64)
        np.add.at(total, places, np.concatenate(counts))
        rows = stacked(numbers)[first[kept]]
        self._parts = [(distinct[kept], total[kept], np.concatenate(classes)[first[kept]], rows)]

    def result(self) -> tuple[Any, Array]:
        """Rows as a CSC array, or as an array with a row for each column; and their classes.

        Each row is there as often as in the table, or a share of that, rounded by its content.
        """
        self._merge()
        ((hashes, counts, classes, rows),) = self._parts
        if (total := int(counts.sum())) > 4 * SAMPLE_ROWS:
            coins = (hashes & np.uint64(0xFFFF)).astype(np.int64)
            counts = (counts * (SAMPLE_ROWS << 16) // total + coins) >> 16
        if (counts != 1).any():
            repeated = np.repeat(np.arange(counts.size), counts)
            rows, classes = rows[repeated], classes[repeated]

        # columns are what is asked for later
        if is_sparse(rows):
            return rows.tocsc(), classes
        return np.ascontiguousarray(rows.T), classes


def _number_rows(batch: Batch, names: Sequence[str], rows: Any) -> Any:
    """Some rows as numbers."""
    if batch.matrix is None:
        return np.column_stack([numbers_of(batch.column(name))[0][rows] for name in names])

    some = batch.ordered(names)[rows]
    if is_sparse(some):
        return some
    return np.asarray(some, dtype=np.float64)


def row_hashes(batch: Batch, names: Sequence[str], classes: Array) -> Words:
    """A mix of all cells of each row and its class; zeros of sparse rows need no look."""
    factors = np.array([_factor(name) for name in names], dtype=np.uint64)
    total = classes.astype(np.uint64) * np.uint64(_MIX)

    # the same sum of words times factors, modulo 2^64, as each kind of batch is fastest
    if is_sparse(batch.matrix):
        places = np.zeros(len(batch.names), dtype=np.uint64)
        places[[batch.places[name] for name in names]] = factors
        words = _words(batch.matrix.data) * places[batch.matrix.indices]
        sums = np.append(np.uint64(0), np.cumsum(words))
        total += sums[batch.matrix.indptr[1:]] - sums[batch.matrix.indptr[:-1]]
    elif batch.matrix is not None and tuple(names) == batch.names:
        for start in range(0, batch.n_rows, 1024):  # pieces that stay in the cache
            part = slice(start, start + 1024)
            total[part] += _words(batch.matrix[part]) @ factors
    else:
        for name, factor in zip(names, factors, strict=True):
            total += _column_words(batch.column(name)) * factor

    for shift in (32, 29):  # all bits shall depend on all bits
        total ^= total >> np.uint64(shift)
        total *= np.uint64(_MIX)
    return total ^ (total >> np.uint64(32))


def _factor(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") | 1


def _words(values: Array) -> Words:
    """The bits of numbers; all missing cells are alike, and so are both zeros."""
    numbers = np.ascontiguousarray(values, dtype=np.float64) + 0.0  # -0 becomes 0
    if np.isnan(numbers.sum()):
        numbers = np.where(np.isnan(numbers), np.nan, numbers)
    return _folded(numbers.view(np.uint64))


def _folded(words: Words) -> Words:
    """Bits at the low end too: those of small whole numbers are all at the high end."""
    return words ^ (words >> np.uint64(32))


def _column_words(column: Column) -> Words:
    """The same for one column; a text that is a number counts as that."""
    if not isinstance(column, Texts):
        return _words(column)

    words = []
    for text in column.values:
        if is_number_text(text):
            words.append(_bits(float(text) + 0.0))
        else:
            words.append(_factor(level_text(text)))
    missing = _bits(np.nan)
    return _folded(np.array([*words, missing], dtype=np.uint64))[column.codes]


def _bits(number: float) -> int:
    return int(np.float64(number).view(np.uint64))
