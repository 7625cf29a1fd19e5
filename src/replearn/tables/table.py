"""A table: rows of named columns from memory or a file, some at a time, as often as one likes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
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
    Source,
    checked_names,
    load_npz,
    load_svmlight,
    pandas_index,
)
from replearn.types import is_sparse


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


@dataclass(eq=False)
class Table:
    """Rows of named columns; see `open_table`.

    Attributes
    ----------
    source : Source
        Where the rows come from.
    names : tuple of str
        Feature columns, in order.
    roles : dict
        Of target, weights, offset and groups the name of a column, a column, or None.
    n_rows : int or None
        None before a first pass over a file that does not tell.
    """

    source: Source
    names: tuple[str, ...]
    roles: dict[str, Any]
    n_rows: int | None

    def __post_init__(self) -> None:
        self._stamp = _stamp(self.place)

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
        stored = found if isinstance(found, dict) else {}
        n_rows = len(next(iter(found.values()))) if stored else found.shape[0]
        whole = Batch(tuple(wanted), n_rows, None if stored else found, stored)
        given = {}
        for name, role in self.roles.items():
            column = whole.column(role) if isinstance(role, str) else role
            if role is not None and not isinstance(role, str):
                column = role[start : start + n_rows]
            given["y" if name == "target" else name] = column
        matrix = whole.matrix
        if matrix is not None and len(wanted) > len(self.names):
            matrix = matrix[:, : len(self.names)]
        return Batch(self.names, n_rows, matrix, stored, **given)


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
    roles = {"target": target, "weights": weights, "offset": offset, "groups": groups}
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
        return CsvFile(path, csv).source(), None
    if name.endswith((".parquet", ".pq")):
        return ParquetFile(path).source(), None
    if name.endswith(".npz"):
        X, y, names = load_npz(path)
        return _array_source(X, names, path), y
    if name.removesuffix(".gz").endswith((".svm", ".svmlight", ".libsvm")):
        rows, labels = load_svmlight(path, columns)
        return _matrix_source(rows, None, path), labels
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
        if source.dtype.kind not in "fiub" or source.ndim != 2:
            raise ReplearnError(f"a sparse table must be 2-d and of numbers, got {source.dtype}.")
        return _matrix_source(source.tocsr(), names)
    if isinstance(source, Mapping):
        return _column_source(dict(source))
    if type(source).__module__.startswith("pyarrow"):
        import pyarrow as pa

        table = pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else source
        kept = [name for name in table.column_names if name not in pandas_index(table.schema)]
        checked_names("the table", kept)
        return _column_source({name: table.column(name) for name in kept})
    if isinstance(source, np.ndarray | list | tuple):
        return _array_source(source, names)
    import narwhals.stable.v1 as nw

    if hasattr(source, "columns"):  # narwhals wants names that are texts, and different
        checked_names("the table", list(source.columns))
    frame = nw.from_native(source, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return _column_source({name: frame[name] for name in frame.columns})
    return _array_source(source, names)


def _array_source(source: Any, names: Sequence[str] | None, path: str = "the table") -> Source:
    try:
        array = source if isinstance(source, np.ndarray) else np.asarray(source)
    except ValueError:
        raise ReplearnError(f"{path} must have rows of one length, got a ragged list.") from None
    if array.dtype.kind == "U" and not isinstance(source, np.ndarray):
        array = np.asarray(source, dtype=object)  # NumPy wrote numbers among texts in its own way
    if array.ndim != 2:
        raise ReplearnError(
            f"{path} must be a 2-d array, got {array.ndim}-d. Reshape your data: one row for each "
            "sample, X.reshape(-1, 1) for one column."
        )
    is_masked = isinstance(array, np.ma.MaskedArray)
    if array.dtype.kind in "fiu" and array.dtype.itemsize <= 8 and not is_masked:
        return _matrix_source(array, names, path)
    labels = _array_names(array.shape[1], names)
    return _column_source({name: array[:, i] for i, name in enumerate(labels)}, path)


def _array_names(n_columns: int, names: Sequence[str] | None) -> tuple[str, ...]:
    found = tuple(f"x{i}" for i in range(n_columns)) if names is None else tuple(names)
    if len(found) != n_columns:
        raise ReplearnError(f"names must name {n_columns:,} columns, got {len(found):,} names.")
    return checked_names("the table", found)


def _column_source(columns: dict[Any, Any], path: str = "the table") -> Source:
    """Columns of any kind, which become cells as they are read."""
    names = checked_names(path, list(columns))
    found = dict(zip(names, columns.values(), strict=True))
    lengths = {name: len(values) for name, values in found.items()}
    if len(set(lengths.values())) > 1:
        raise ReplearnError(
            f"all columns must have the same number of rows, got {min(lengths.values()):,} and "
            f"{max(lengths.values()):,}."
        )
    total = next(iter(lengths.values()), 0)

    def read(wanted: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        for start in range(0, total, n_rows):
            rows = slice(start, start + n_rows)
            yield columns_from(path, {name: partial(_part, found[name], rows) for name in wanted})

    return Source(path, names, total, read)


def _part(values: Any, rows: slice) -> Column:
    """Some rows of a column in memory."""
    if hasattr(values, "to_native"):  # a series of narwhals
        return from_series(values[rows])
    return column_from(values.iloc[rows] if hasattr(values, "iloc") else values[rows])


def _matrix_source(matrix: Any, names: Sequence[str] | None, path: str = "the table") -> Source:
    """A 2-d array of numbers, or a CSR array."""
    labels = _array_names(matrix.shape[1], names)
    places = {name: place for place, name in enumerate(labels)}

    def read(wanted: Sequence[str], n_rows: int) -> Iterator[Any]:
        chosen = None if tuple(wanted) == labels else [places[name] for name in wanted]
        for start in range(0, matrix.shape[0], n_rows):
            rows = matrix[start : start + n_rows]
            rows = rows if chosen is None else rows[:, chosen]
            rows = rows.astype(np.float64) if is_sparse(rows) else rows
            try:
                finite(rows.data if is_sparse(rows) else rows)
            except OddCells:
                found = rows.tocoo() if is_sparse(rows) else rows
                odd = (
                    found.col[np.isinf(found.data)]
                    if is_sparse(rows)
                    else np.isinf(found).nonzero()[1]
                )
                names = named_columns(wanted[place] for place in np.unique(odd).tolist())
                raise ReplearnError(
                    f"{path}: {names} must hold numbers or text, got infinite numbers (infinity). "
                    "Leave such cells empty, or drop the column."
                ) from None
            yield rows

    return Source(path, labels, matrix.shape[0], read, is_sparse(matrix))
