"""A table: rows of named columns from memory or a file, some at a time, as often as one likes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError, short
from replearn.tables.cells import (
    Column,
    OddCells,
    column_from,
    columns_from,
    finite,
    from_series,
    named_columns,
)
from replearn.tables.files import (
    BATCH_ROWS,
    CsvFile,
    CsvOptions,
    ParquetFile,
    checked_names,
    load_npz,
    load_svmlight,
    pandas_index,
)
from replearn.types import Matrix, is_sparse


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a table.

    Attributes
    ----------
    names : tuple of str
        Feature columns.
    n_rows : int
    matrix : float64 array or CSR array of shape (n_rows, len(names)), or None
        All features, where the source is one array of numbers; NaN where a cell is missing.
    y, weights, offset, groups : Column or None
        As they stand.
    """

    names: tuple[str, ...]
    n_rows: int
    matrix: Any = None
    stored: Mapping[str, Column] = field(default_factory=dict)
    y: Column | None = None
    weights: Column | None = None
    offset: Column | None = None
    groups: Column | None = None

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each feature."""
        return {name: place for place, name in enumerate(self.names)}

    def column(self, name: str) -> Column:
        """One feature: numbers with NaN where a cell is missing, or texts."""
        if self.matrix is None:
            return self.stored[name]
        place = self.places[name]
        if is_sparse(self.matrix):
            return np.asarray(self.matrix[:, [place]].toarray()).ravel()
        return self.matrix[:, place].astype(np.float64, copy=False)


class Source(Protocol):
    """Where rows come from."""

    @property
    def path(self) -> str:
        """The file, or what the rows are called in messages."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if only reading tells."""

    @property
    def is_sparse(self) -> bool:
        """Whether rows are CSR arrays."""

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Some columns of consecutive rows: by name, or as one array of numbers."""


_ROLES = ("target", "weights", "offset", "groups")


@dataclass(eq=False)
class Table:
    """Rows of named columns; see `open_table`.

    Attributes
    ----------
    place : str
        What the table is called in messages.
    names : tuple of str
        Feature columns, in order.
    n_rows : int or None
        None before a first pass over a file that does not tell.
    is_sparse : bool
        Whether batches hold CSR arrays.
    """

    source: Source
    names: tuple[str, ...]
    roles: dict[str, Any]  # of _ROLES: the name of a column, or a column, or None
    n_rows: int | None
    _stamp: Any = None

    def __post_init__(self) -> None:
        self._stamp = self._stamp or _stamp(self.place)

    @property
    def place(self) -> str:
        """What the table is called in messages."""
        return self.source.path

    @property
    def is_sparse(self) -> bool:
        """Whether batches hold CSR arrays."""
        return self.source.is_sparse

    def batches(self, n_rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """The rows from the beginning, at most ``n_rows`` at a time.

        Raises
        ------
        ReplearnError
            If a cell is neither a number nor a text, or if the file has changed since it was
            opened.
        """
        extra = [role for role in self.roles.values() if isinstance(role, str)]
        wanted = list(dict.fromkeys([*self.names, *extra]))
        done = 0
        for found in self.source.read(wanted, n_rows):
            batch = self._batch(wanted, found, done)
            done += batch.n_rows
            yield batch
        if _stamp(self.place) != self._stamp:
            raise ReplearnError(f"{self.place} has changed while it was read. Read it again.")
        if done == 0:
            raise ReplearnError(f"{self.place} must have rows, got none. Check it.")
        for name, role in self.roles.items():
            if role is not None and not isinstance(role, str) and len(role) != done:
                raise ReplearnError(
                    f"{name} must have a value for each of the {done:,} rows, got {len(role):,}."
                )
        self.n_rows = done

    def _batch(self, wanted: Sequence[str], found: Any, start: int) -> Batch:
        is_named = isinstance(found, dict)
        n_rows = len(next(iter(found.values()))) if is_named else found.shape[0]
        given: dict[str, Any] = {}
        for name, role in self.roles.items():
            column = None if role is None else role
            if isinstance(role, str):
                column = found[role] if is_named else found[:, wanted.index(role)]
                if is_sparse(column):
                    column = column.toarray()
                column = np.ravel(column) if isinstance(column, np.ndarray) else column
            elif role is not None:
                column = role[start : start + n_rows]
            given["y" if name == "target" else name] = column
        if is_named:
            return Batch(self.names, n_rows, stored=found, **given)
        matrix = found if len(wanted) == len(self.names) else found[:, : len(self.names)]
        return Batch(self.names, n_rows, matrix, **given)


def open_table(
    source: Any,
    *,
    target: Any = None,
    weights: Any = None,
    offset: Any = None,
    groups: Any = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    names: Sequence[str] | None = None,
    csv: CsvOptions | None = None,
) -> Table:
    """Describe a table, so that it can be read some rows at a time.

    Parameters
    ----------
    source : path, array, sparse matrix, dataframe, Arrow table, or mapping of columns
        Files end in .csv, .csv.gz, .parquet, .npz or .svm (.svmlight, .libsvm). Dataframes are
        those of pandas, polars and all that narwhals knows.
    target, weights, offset, groups : str or array-like, optional
        A column of the source, by name, or values for all rows.
    columns : sequence of str, optional
        Features to read, in this order; by default all that have no other part to play. Others are
        not looked at.
    drop : sequence of str
        Columns to leave out.
    names : sequence of str, optional
        Names for the columns of an array; by default x0, x1, and so on.
    csv : CsvOptions, optional
        How a CSV file is written.

    Examples
    --------
    >>> table = open_table({"age": [71, None], "ward": ["A", "B"], "died": [0, 1]}, target="died")
    >>> table.names
    ('age', 'ward')
    >>> [batch.column("age").tolist() for batch in table.batches()]
    [[71.0, nan]]
    """
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        found, own = _open_file(path, csv or CsvOptions(), columns)
        target = own if target is None else target
    else:
        found = _in_memory(source, names)
    roles = dict(zip(_ROLES, (target, weights, offset, groups), strict=True))
    for name, role in roles.items():
        if role is not None and not isinstance(role, str):
            try:
                roles[name] = column_from(role)
            except OddCells as odd:
                raise ReplearnError(f"{name} must hold numbers or text, got {odd.what}.") from None
    named = [role for role in roles.values() if isinstance(role, str)]
    _check_known(found, [*named, *drop, *(columns or ())])
    features = [name for name in found.names if name not in {*named, *drop}]
    if columns is not None:
        features = list(columns)
        if both := [name for name in features if name in named]:
            raise ReplearnError(
                f"{found.path}: {named_columns(both)} cannot be a feature and have a different "
                "part to play. Leave it out of one of them."
            )
    if not features:
        raise ReplearnError(f"{found.path} must have a feature column, got none. Drop fewer.")
    return Table(found, tuple(features), roles, found.n_rows)


def _open_file(path: str, csv: CsvOptions, columns: Sequence[str] | None) -> tuple[Source, Any]:
    """A source of rows for a file, by the end of its name; and the labels that belong to it."""
    name = path.lower()
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".xlsx", ".xls", ".ods")):
        return CsvFile(path, csv), None
    if name.endswith((".parquet", ".pq")):
        return ParquetFile(path), None
    if name.endswith(".npz"):
        X, y, names = load_npz(path)
        return replace(_array_rows(X, names), path=path), y
    if name.removesuffix(".gz").endswith((".svm", ".svmlight", ".libsvm")):
        rows, labels = load_svmlight(path, columns)
        return _SparseRows(rows, _array_names(rows.shape[1], None), path), labels
    raise ReplearnError(
        f"{path} must end in .csv, .csv.gz, .parquet, .npz or .svm. Convert it, or rename it if it "
        "has one of these formats."
    )


def _check_known(source: Source, names: Sequence[str]) -> None:
    absent = [name for name in dict.fromkeys(names) if name not in source.names]
    if absent:
        raise ReplearnError(
            f"{source.path} has no {named_columns(absent)}; it has {named_columns(source.names)}. "
            "Rename the columns, or check the file."
        )


def _stamp(place: str) -> tuple[int, int] | None:
    """What changes when a file is written to."""
    try:
        found = os.stat(place)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


# --- in memory ------------------------------------------------------------------------------------


def _in_memory(source: Any, names: Sequence[str] | None) -> Source:
    if is_sparse(source):
        return _SparseRows(source, _array_names(source.shape[1], names))
    if isinstance(source, Mapping):
        return _columns_in(dict(source))
    if type(source).__module__.startswith("pyarrow"):
        return _arrow_rows(source)
    if isinstance(source, np.ndarray | list | tuple):
        return _array_rows(source, names)
    import narwhals.stable.v1 as nw
    from narwhals.exceptions import DuplicateError

    labels = getattr(source, "columns", None)  # those of pandas need not be texts
    if labels is not None:
        checked_names("the table", list(labels))
    try:
        frame = nw.from_native(source, eager_only=True, pass_through=True)
    except DuplicateError:
        raise ReplearnError(
            "the table must have different names of columns. Rename them."
        ) from None
    if isinstance(frame, nw.DataFrame):
        return _columns_in(dict(zip(frame.columns, frame.iter_columns(), strict=True)))
    return _array_rows(source, names)


def _array_names(n_columns: int, names: Sequence[str] | None) -> tuple[str, ...]:
    found = tuple(f"x{i}" for i in range(n_columns)) if names is None else tuple(names)
    if len(found) != n_columns:
        raise ReplearnError(f"names must name {n_columns:,} columns, got {len(found):,} names.")
    return checked_names("the table", found)


def _array_rows(source: Any, names: Sequence[str] | None) -> "_MatrixRows | _Columns":
    array = source if isinstance(source, np.ndarray) else _as_array(source)
    if array.ndim != 2:
        raise ReplearnError(
            f"the table must be a 2-d array, got {array.ndim}-d. Reshape your data: one row for "
            "each sample, X.reshape(-1, 1) for one column."
        )
    labels = _array_names(array.shape[1], names)
    is_masked = isinstance(array, np.ma.MaskedArray)
    if array.dtype.kind in "fiu" and array.dtype.itemsize <= 8 and not is_masked:
        return _MatrixRows(np.asarray(array), labels)
    return _Columns({name: array[:, place] for place, name in enumerate(labels)}, array.shape[0])


def _as_array(source: Any) -> NDArray[Any]:
    try:
        array = np.asarray(source)
    except ValueError:
        raise ReplearnError("the table must have rows of one length, got a ragged list.") from None
    if array.dtype.kind == "U":  # NumPy turned the numbers among texts into texts of its own
        array = np.asarray(source, dtype=object)
    return array


def _arrow_rows(source: Any) -> Source:
    import pyarrow as pa

    table = pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else source
    if not isinstance(table, pa.Table):
        raise ReplearnError(f"the table must be a table of Arrow, got {type(source).__name__}.")
    skipped = pandas_index(table.schema)
    checked_names("the table", table.column_names)
    return _columns_in(
        {name: table.column(name) for name in table.column_names if name not in skipped}
    )


def _columns_in(columns: dict[Any, Any]) -> Source:
    names = checked_names("the table", list(columns))
    lengths = {name: len(values) for name, values in zip(names, columns.values(), strict=True)}
    if len(set(lengths.values())) > 1:
        shortest, longest = (pick(lengths, key=lambda n: lengths[n]) for pick in (min, max))
        raise ReplearnError(
            f"all columns must have the same number of rows, got {lengths[shortest]:,} in "
            f"{shortest!r} and {lengths[longest]:,} in {longest!r}."
        )
    n_rows = next(iter(lengths.values()), 0)
    return _Columns(dict(zip(names, columns.values(), strict=True)), n_rows)


@dataclass(eq=False)
class _Columns:
    """Columns of any kind in memory."""

    columns: dict[str, Any]
    n_rows: int | None
    path: str = "the table"
    is_sparse: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        for start, stop in pairwise([*range(0, self.n_rows or 0, n_rows), self.n_rows or 0]):
            readers = {
                name: partial(_part, self.columns[name], slice(start, stop)) for name in names
            }
            yield columns_from(self.path, readers)


def _part(values: Any, rows: slice) -> Column:
    """Some rows of a column in memory."""
    if hasattr(values, "to_native"):  # a series of narwhals
        return from_series(values[rows])
    if hasattr(values, "iloc"):
        values = values.iloc
    return column_from(values[rows])


@dataclass(eq=False)
class _MatrixRows:
    """A 2-d array of numbers."""

    matrix: NDArray[Any]
    names: tuple[str, ...]
    path: str = "the table"
    is_sparse: bool = False

    @property
    def n_rows(self) -> int | None:
        return int(self.matrix.shape[0])

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[Matrix]:
        chosen = None if tuple(names) == self.names else [self.names.index(name) for name in names]
        for start in range(0, self.matrix.shape[0], n_rows):
            rows = self.matrix[start : start + n_rows]
            if chosen is not None:
                rows = rows[:, chosen]
            try:
                yield finite(rows)
            except OddCells as odd:
                columns = [n for n, c in zip(names, rows.T, strict=True) if np.isinf(c).any()]
                raise ReplearnError(
                    f"{self.path}: {named_columns(columns)} must hold numbers or text, got "
                    f"{odd.what} (infinity). Leave such cells empty, or drop the column."
                ) from None


@dataclass(eq=False)
class _SparseRows:
    """A sparse matrix of SciPy."""

    matrix: Any
    names: tuple[str, ...]
    path: str = "the table"
    is_sparse: bool = True

    def __post_init__(self) -> None:
        if self.matrix.dtype.kind not in "fiub" or self.matrix.ndim != 2:
            raise ReplearnError(
                f"a sparse table must be 2-d and hold numbers, got {short(self.matrix.dtype)}."
            )
        self.matrix = self.matrix.tocsr()

    @property
    def n_rows(self) -> int | None:
        return int(self.matrix.shape[0])

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[Any]:
        chosen = None if tuple(names) == self.names else [self.names.index(name) for name in names]
        for start in range(0, self.matrix.shape[0], n_rows):
            rows = self.matrix[start : start + n_rows]
            rows = (rows if chosen is None else rows[:, chosen]).astype(np.float64)
            try:
                finite(rows.data)
            except OddCells as odd:
                raise ReplearnError(
                    f"{self.path} must hold finite numbers, got {odd.what}."
                ) from None
            yield rows
