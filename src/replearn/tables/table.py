"""A table: rows of named columns from memory or a file, some at a time, as often as one likes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from replearn.errors import ReplearnError, short
from replearn.tables.cells import (
    Column,
    OddCells,
    Texts,
    absent_columns,
    column_from,
    columns_from,
    finite,
    from_series,
    join_columns,
    named_columns,
    numbers_of,
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
    pandas_levels,
)
from replearn.tables.labels import learn_classes
from replearn.tables.scratch import ScratchColumns
from replearn.types import Array, is_sparse, stacked


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a table."""

    names: tuple[str, ...]  # feature columns
    n_rows: int
    first: int = 0  # place of its first row in the table
    # all features, where the source is one array of numbers or CSR; NaN where a cell is missing
    matrix: Any = None
    stored: Mapping[str, Column] = field(default_factory=dict)
    # as they stand
    y: Column | None = None
    weights: Column | None = None
    offset: Column | None = None
    groups: Column | None = None
    centres: Column | None = None

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each feature."""
        return {name: place for place, name in enumerate(self.names)}

    @property
    def rows(self) -> slice:
        """Places of its rows in the table."""
        return slice(self.first, self.first + self.n_rows)

    def ordered(self, names: Iterable[str]) -> Any:
        """The matrix with these columns, in this order."""
        if tuple(names) == self.names:
            return self.matrix
        return self.matrix[:, [self.places[name] for name in names]]

    def column(self, name: str) -> Column:
        """One feature: numbers with NaN where a cell is missing, or texts."""
        if self.matrix is None:
            return self.stored[name]

        place = self.places[name]
        if is_sparse(self.matrix):
            return np.asarray(self.matrix[:, [place]].toarray()).ravel()
        return self.matrix[:, place].astype(np.float64, copy=False)

    def numbers(self) -> Any:
        """All features in one array, as halfspaces take them; texts and gaps are refused."""
        if is_sparse(self.matrix):
            return self.matrix

        columns = []
        for name in self.names:
            values, _ = numbers_of(self.column(name))
            if n_odd := int(np.count_nonzero(np.isnan(values))):
                raise ReplearnError(
                    f"column {name!r} must hold a number in every row, got texts or gaps in "
                    f"{n_odd:,} of {len(values):,} rows. Fill in or drop it; studies take such "
                    "tables."
                )
            columns.append(values)
        return np.column_stack(columns)


def _batch_of(names: tuple[str, ...], columns: Any, start: int) -> Batch:
    """Columns by name, or one array of them."""
    if not isinstance(columns, dict):
        return Batch(names, columns.shape[0], start, columns)
    return Batch(names, len(columns[names[0]]), start, stored=columns)


@dataclass(eq=False)
class Table:
    """Rows of named columns; see `open_table`."""

    place: str  # the file, or what the rows are called in messages
    names: tuple[str, ...]  # feature columns, in order
    n_rows: int | None  # None before a first pass over a file that does not tell
    # ``read(names, n_rows)`` gives some columns of consecutive rows: by name, or as one array
    read: Callable[[Sequence[str], int], Iterator[Any]]
    is_sparse: bool = False  # whether rows are CSR arrays
    is_named: bool = True  # whether columns have names of their own
    # categories of whole numbers, as pandas has them; texts say what they are
    levels: frozenset[str] = frozenset()
    is_file: bool = False  # whether each pass reads a file
    # of target, weights, offset, groups and centres: the name of a column, or a column
    roles: dict[str, Any] = field(default_factory=dict)
    stamp: tuple[int, int] | None = None

    def batches(self, n_rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """The rows from the beginning, at most ``n_rows`` at a time."""
        wanted = self._wanted()
        done = 0
        for columns in self.read(wanted, n_rows):
            everything = _batch_of(wanted, columns, done)
            roles = self._roles_of(everything)
            done += everything.n_rows
            self._check_lengths(done, is_all=False)

            # roles stand behind the features, which alone are the matrix of a batch
            matrix = everything.matrix
            if matrix is not None and len(wanted) > len(self.names):
                matrix = matrix[:, : len(self.names)]
            yield replace(everything, names=self.names, matrix=matrix, **roles)

        if self.stamp is not None and _stamp(self.place) != self.stamp:
            raise ReplearnError(f"{self.place} has changed while it was read. Read it again.")
        if done == 0:
            raise ReplearnError(f"{self.place} must have rows, got none. Check it.")
        self._check_lengths(done)
        self.n_rows = done

    def _wanted(self) -> tuple[str, ...]:
        """Columns that a pass reads: features, then those of the roles."""
        named = (role for role in self.roles.values() if isinstance(role, str))
        return tuple(dict.fromkeys([*self.names, *named]))

    def _roles_of(self, batch: Batch) -> dict[str, Any]:
        """Targets, weights and so on of a batch."""
        roles = {}
        for name, role in self.roles.items():
            if isinstance(role, str):
                roles[name] = batch.column(role)
            else:
                roles[name] = role[batch.rows]
        if "target" in roles:
            roles["y"] = roles.pop("target")
        return roles

    def whole(self, role: str) -> Column:
        """The column of a role, of all rows; no other column is read."""
        column = self.require(role)
        if not isinstance(column, str):
            return column

        alone = replace(self, names=(column,), roles={})
        return join_columns([batch.column(column) for batch in alone.batches()])

    def columns(self) -> dict[str, Column]:
        """All rows of all features, in memory."""
        batches = list(self.batches())
        return {name: join_columns([b.column(name) for b in batches]) for name in self.names}

    def numbers(self) -> tuple[Any, Array]:
        """All rows in one array of numbers, as halfspaces take them, and their labels."""
        self.require("target")
        batches = list(self.batches())
        labels = join_columns([batch.y for batch in batches if batch.y is not None])
        classes, places = learn_classes(labels)
        return stacked([batch.numbers() for batch in batches]), np.array(classes)[places]

    def require(self, role: str) -> Any:
        """The name or the values of a role, which must have some."""
        if role not in self.roles:
            raise ReplearnError(f"the column of the {role} must be known. Name it: {role}=NAME.")
        return self.roles[role]

    def require_names(self, option: str, given: Sequence[str]) -> None:
        """Refuse names of columns that are not here: a typo must not keep or change a column."""
        if isinstance(given, str):
            raise ReplearnError(
                f"{option} must be a sequence of names, got the text {given!r}. Pass {[given]!r}."
            )
        if not isinstance(given, Iterable):
            raise ReplearnError(f"{option} must be a sequence of names, got {short(given)}.")

        known = set(self.names)
        if absent := [name for name in given if name not in known]:
            raise ReplearnError(
                f"{option} must name columns of {self.place}, got "
                f"{absent_columns(list(map(str, absent)), self.names)}. Check the names."
            )

    def without(self, drop: Sequence[str]) -> "Table":
        """The table without some of its columns, which are not read at all."""
        self.require_names("drop", drop)
        kept = tuple(name for name in self.names if name not in set(drop))
        if not kept:
            raise ReplearnError(f"{self.place} must have a feature column, got none. Drop fewer.")
        return replace(self, names=kept)

    def kept(self) -> "Table":
        """The same table for several passes, of which the first alone reads the file."""
        if not self.is_file:
            return self
        columns = ScratchColumns(self.read, self._wanted())
        return replace(self, read=columns.read, is_file=False)

    def _check_lengths(self, n_rows: int, is_all: bool = True) -> None:
        """Refuse columns that have fewer rows than the table; or more, if these are all."""
        for name, role in self.roles.items():
            if isinstance(role, str):
                continue
            if len(role) < n_rows or (is_all and len(role) > n_rows):
                raise ReplearnError(
                    f"{name} must have a value for each of the {n_rows:,} rows, got {len(role):,}."
                )


def open_table(
    source: Any,
    *,
    target: Any = None,
    weights: Any = None,
    offset: Any = None,
    groups: Any = None,
    centres: Any = None,
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    csv: CsvOptions | None = None,
    is_finite: bool = False,
) -> Table:
    """Describe a table, so that it can be read some rows at a time.

    Parameters
    ----------
    source : path, array, sparse matrix, dataframe, Arrow table, or mapping of columns
        Files end in .csv, .csv.gz, .parquet, .npz or .svm (.svmlight, .libsvm). Dataframes are
        those of pandas, polars and all that narwhals knows.
    target, weights, offset, groups, centres : str or array-like, optional
        A column of the source, by name, or values for all rows. Files of npz and svmlight bring
        their own target, whatever its name elsewhere.
    columns : sequence of str, optional
        Features to read, in this order; by default all that have no other part to play. Others are
        not looked at.
    names : sequence of str, optional
        Names for the columns of an array; by default x0, x1, and so on.
    csv : CsvOptions, optional
        How a CSV file is written.
    is_finite : bool
        Whether an array is known to have no infinite number, so that nobody has to look again.

    Examples
    --------
    >>> table = open_table({"age": [71, None], "ward": ["A", "B"], "died": [0, 1]}, target="died")
    >>> table.names
    ('age', 'ward')
    >>> [batch.column("age").tolist() for batch in table.batches()]
    [[71.0, nan]]
    """
    if isinstance(source, str | os.PathLike):
        table, own = _open_file(os.fspath(source), csv or CsvOptions(), columns)
        if own is not None and (target is None or target not in table.names):
            target = own
    else:
        table = _in_memory(source, names, is_finite)

    # columns by name are read with the features; values are kept
    given = {
        "target": target,
        "weights": weights,
        "offset": offset,
        "groups": groups,
        "centres": centres,
    }
    roles = {name: role for name, role in given.items() if role is not None}
    for name, role in roles.items():
        if not isinstance(role, str):
            refuse_lazy(role)
            try:
                roles[name] = column_from(role)
            except OddCells as odd:
                raise ReplearnError(f"{name} must hold numbers or text, got {odd.what}.") from None

    named = [role for role in roles.values() if isinstance(role, str)]
    features = _features(table, named, columns)
    opened = replace(table, names=features, roles=roles)
    if table.n_rows is not None:
        opened._check_lengths(table.n_rows)
    return opened


def _features(table: Table, named: Sequence[str], columns: Sequence[str] | None) -> tuple[str, ...]:
    """Columns that are features, where those in ``named`` have another part to play."""
    known = set(table.names)
    asked_for = dict.fromkeys([*named, *(columns or ())])
    if absent := [name for name in asked_for if name not in known]:
        raise ReplearnError(
            f"{table.place} has no {absent_columns(absent, table.names)}. "
            "Rename the columns, or check the file."
        )

    features = tuple(name for name in table.names if name not in named)
    if columns is not None:
        features = tuple(columns)
        if both := [name for name in features if name in named]:
            raise ReplearnError(
                f"{table.place}: {named_columns(both)} cannot be a feature and have a different "
                "part to play. Leave it out of one of them."
            )
    if not features:
        raise ReplearnError(f"{table.place} must have a feature column, got none. Drop fewer.")
    return features


def _open_file(path: str, csv: CsvOptions, columns: Sequence[str] | None) -> tuple[Table, Any]:
    """A file as a table, by the end of its name; and the labels that belong to it."""
    name, y = path.lower(), None
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".xlsx", ".xls", ".ods")):
        text = CsvFile(path, csv)
        table = Table(path, text.names, None, text.read, is_file=True)
    elif name.endswith((".parquet", ".pq")):
        file = ParquetFile(path)
        table = Table(path, file.names, file.n_rows, file.read, levels=file.levels, is_file=True)
    elif name.endswith(".npz"):
        X, y, names = load_npz(path)
        table = _of_array(X, names, path)
    elif name.removesuffix(".gz").endswith((".svm", ".svmlight", ".libsvm")):
        X, y = load_svmlight(path, columns)
        table = _of_matrix(X, None, path)
    else:
        raise ReplearnError(
            f"{path} must end in .csv, .csv.gz, .parquet, .npz or .svm. Convert it, or rename it "
            "if it has one of these formats."
        )
    return replace(table, stamp=_stamp(path)), y


def _stamp(path: str) -> tuple[int, int] | None:
    """What changes when a file is written to."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


# --- in memory ------------------------------------------------------------------------------------


def some_rows(source: Any, rows: Array) -> Any:
    """Rows by their places, or by a mask, of whatever a table or a column may come from."""
    if isinstance(source, Mapping):
        return {name: some_rows(column, rows) for name, column in source.items()}
    if isinstance(source, np.ndarray | Texts) or is_sparse(source):
        return source[rows]

    # a series or dataframe, of whichever library
    import narwhals.stable.v1 as nw

    frame = nw.from_native(source, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame | nw.Series):
        return frame[np.arange(len(frame))[rows].tolist()].to_native()
    return np.asarray(source)[rows]


def _in_memory(source: Any, names: Sequence[str] | None, is_finite: bool = False) -> Table:
    if is_sparse(source):
        if source.dtype.kind not in "fiub" or source.ndim != 2:
            raise ReplearnError(f"a sparse table must be 2-d and of numbers, got {source.dtype}.")
        return _of_matrix(source.tocsr(), names)
    if isinstance(source, Mapping):
        _refuse_scalars(source)
        return _of_columns(dict(source))
    if type(source).__module__.startswith("pyarrow"):
        return _of_arrow(source)

    if not isinstance(source, np.ndarray | list | tuple):
        import narwhals.stable.v1 as nw

        refuse_lazy(source)
        if hasattr(source, "columns"):  # narwhals wants names that are texts, and different
            checked_names("the table", list(source.columns))
        frame = nw.from_native(source, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            return _of_frame(frame)
    return _of_array(source, names, is_finite=is_finite)


def _of_arrow(source: Any) -> Table:
    """A table or a record batch of Arrow."""
    import pyarrow as pa

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    index = pandas_index(source.schema)
    kept = [name for name in source.column_names if name not in index]
    checked_names("the table", kept)  # before columns are taken by name

    table = _of_columns({name: source.column(name) for name in kept})
    return replace(table, levels=pandas_levels(source.schema))


def _of_frame(frame: Any) -> Table:
    """A dataframe of narwhals."""
    import narwhals.stable.v1 as nw

    columns = {name: frame.get_column(name) for name in frame.columns}
    levels = set()
    for name, values in columns.items():
        if values.dtype == nw.Categorical and values.cat.get_categories().dtype.is_integer():
            levels.add(name)
    return replace(_of_columns(columns), levels=frozenset(levels))


def refuse_lazy(source: Any) -> None:
    """Refuse a table whose rows are elsewhere, or not computed yet: nobody asked to fetch them."""
    kind = type(source)
    package = kind.__module__.partition(".")[0]
    if package in ("dask", "dask_expr"):
        remedy = (
            "Call .compute() if the rows fit into memory; else write them to Parquet and use "
            "fit_file, or replicate a study with replearn.engines.dask"
        )
    elif package == "pyspark":
        remedy = "Write it to Parquet and use fit_file, or replicate with replearn.engines.spark"
    elif package in ("duckdb", "ibis", "_duckdb") or kind.__name__ == "LazyFrame":
        remedy = "Fetch the rows first: .collect() of polars, .arrow() of duckdb"
    else:
        return
    raise ReplearnError(
        f"a table must be in memory, or a file, got {package}.{kind.__name__}. {remedy}."
    )


def _refuse_scalars(columns: Mapping[Any, Any]) -> None:
    """Refuse a mapping that holds one row."""
    for name, values in columns.items():
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise ReplearnError(
                f"column {name!r} must have a value for each row, got {short(values)}. Pass "
                "arrays or lists."
            )


def _of_array(
    source: Any, names: Sequence[str] | None, place: str = "the table", is_finite: bool = False
) -> Table:
    try:
        array = np.asanyarray(source)  # masked arrays stay so
    except ValueError:
        raise ReplearnError(f"{place} must have rows of one length, got a ragged list.") from None
    if array.dtype.kind == "U" and not isinstance(source, np.ndarray):
        array = np.asarray(source, dtype=object)  # NumPy wrote numbers among texts in its own way

    if array.ndim != 2:
        raise ReplearnError(
            f"{place} must be a 2-d array, got {array.ndim}-d. Reshape your data: one row for each "
            "sample, X.reshape(-1, 1) for one column."
        )

    # numbers stay one array; all else becomes columns, each with its own kind of cells
    is_masked = isinstance(array, np.ma.MaskedArray)
    if array.dtype.kind in "fiu" and array.dtype.itemsize <= 8 and not is_masked:
        return _of_matrix(array, names, place, is_finite)
    named = _array_names(array.shape[1], names)
    return _of_columns({name: array[:, i] for i, name in enumerate(named)}, place)


def _array_names(n_columns: int, names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x{i}" for i in range(n_columns))
    if len(names) != n_columns:
        raise ReplearnError(f"names must name {n_columns:,} columns, got {len(names):,} names.")
    return checked_names("the table", names)


def _of_columns(columns: dict[Any, Any], place: str = "the table") -> Table:
    """Columns of any kind, which become cells as they are read."""
    names = checked_names(place, list(columns))
    by_name = dict(zip(names, columns.values(), strict=True))
    lengths = {len(values) for values in by_name.values()}
    if len(lengths) > 1:
        raise ReplearnError(
            f"all columns must have the same number of rows, got {min(lengths):,} and "
            f"{max(lengths):,}."
        )
    total = max(lengths, default=0)

    def read(wanted: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        for start in range(0, total, n_rows):
            rows = slice(start, start + n_rows)
            readers = {name: partial(_part, by_name[name], rows) for name in wanted}
            yield columns_from(place, readers)

    return Table(place, names, total, read)


def _part(values: Any, rows: slice) -> Column:
    """Some rows of a column in memory."""
    if hasattr(values, "to_native"):  # a series of narwhals
        return from_series(values[rows])
    by_place = getattr(values, "iloc", values)  # a series of pandas may have labels
    return column_from(by_place[rows])


def _of_matrix(
    matrix: Any, names: Sequence[str] | None, place: str = "the table", is_finite: bool = False
) -> Table:
    """A 2-d array of numbers, or a CSR array."""
    named = _array_names(matrix.shape[1], names)
    places = {name: i for i, name in enumerate(named)}

    def read(wanted: Sequence[str], n_rows: int) -> Iterator[Any]:
        for start in range(0, matrix.shape[0], n_rows):
            rows = matrix[start : start + n_rows]
            if tuple(wanted) != named:
                rows = rows[:, [places[name] for name in wanted]]
            if is_sparse(rows):
                rows = rows.astype(np.float64)
            if not is_finite:  # unless the caller has looked already
                _refuse_infinite(rows, wanted, place)
            yield rows

    return Table(place, named, matrix.shape[0], read, is_sparse(matrix), names is not None)


def _refuse_infinite(rows: Any, names: Sequence[str], place: str) -> None:
    try:
        finite(rows.data if is_sparse(rows) else rows)
    except OddCells:
        if is_sparse(rows):
            columns = rows.indices[np.isinf(rows.data)]
        else:
            columns = np.isinf(rows).nonzero()[1]
        odd = named_columns(names[i] for i in np.unique(columns))
        raise ReplearnError(
            f"{place}: {odd} must hold numbers or text, got infinite numbers (infinity). Leave "
            "such cells empty, or drop the column."
        ) from None
