"""Parquet files, row group by row group.

Memory while reading: up to five batches (one that is read, up to three that wait, one in use,
each about 16 MiB of numbers), and for each column that is read one page as it is stored and as
it is unpacked and one dictionary (each 1 MiB with the usual settings of writers): all in all
about 100 MiB, and 4 MiB for each column. It does not grow with the number of rows, not even if
all of them are in one row group. A damaged file may declare a page of up to 2 GiB, for which
Arrow asks before it finds out.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.sources.arrow_columns import (
    check_dictionaries,
    is_bytes,
    is_number,
    is_single,
    is_text,
    joint_type,
    numbers,
    objects,
    read_type,
    rows_within,
    values,
    width,
    with_schema,
)
from replearn.sources.common import (
    PROTOCOL_REMEDY,
    Piece,
    Request,
    Source,
    Watch,
    arrow,
    check_names,
    check_same_columns,
    columns_to_read,
    feature_columns,
    reading,
    rows_per_batch,
    unreadable,
    watched,
)
from replearn.sources.matrices import BadCell, ColumnRows, as_matrix, category_names, check_labels

_READ_BUFFER = 2**16  # bytes per column; without it a whole column chunk is read at once
_BATCH_BYTES = 2**26  # of a batch, if there is long text in its rows
_N_AHEAD = 3  # batches that wait while rows are summed: now one is slow, now the other


@dataclass(frozen=True)
class Part:
    """A row group of a file, which can be read without the others."""

    path: str
    row_group: int
    n_rows: int


@dataclass(frozen=True, kw_only=True)
class ParquetSource(Source):
    """A table in Parquet files."""

    wanted: tuple[str, ...]  # columns that are read for the features
    groups: tuple[tuple[int, ...], ...]  # for each file the rows of its row groups
    types: tuple[Any, ...]  # of the columns that are read, in all batches
    batch_rows: int  # rows of a batch at most

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that are read."""
        return self.wanted if self.target is None else (*self.wanted, self.target)

    def _batches(self, start: int) -> Iterator[tuple[float, Any]]:
        n_rows, done = max(1, self.n_rows or 0), 0
        for path, groups in zip(self.paths, self.groups, strict=True):
            ends = done + np.cumsum((0, *groups))
            first = int(np.searchsorted(ends, start, side="right")) - 1 if start > done else 0
            done = int(ends[first])
            for batch in self._record_batches(path, range(first, len(groups)), self.read):
                skip = max(0, start - done)
                done += batch.num_rows
                if skip < batch.num_rows:
                    yield done / n_rows, batch.slice(skip)

    def parse(
        self,
        batch: Any,
        first_row: int,
        before: int = 0,
        labels_only: bool = False,
        later: bool = False,
    ) -> Piece:
        """Numbers and labels of a batch; ``first_row`` is its place in the table.

        Or in a part of it, with ``before`` rows before the part. With ``later``, encoded rows are
        written when they are asked for.
        """
        try:
            with _arrow_errors(self.place):
                y = None
                if self.target is not None:
                    labels = batch.column(self.target)
                    y = values(labels)
                    if labels.null_count or y.dtype.kind in "fO":
                        check_labels(y, self.target)
                if labels_only:
                    return Piece(None, y, first_row)
                category = category_names(self.encoding)
                found = dict(zip(batch.schema.names, batch.columns, strict=True))
                columns = {
                    name: (objects if name in category else numbers)(found[name])
                    for name in self.wanted
                }
                if later and self.encoding is not None:
                    place = partial(self._located, batch=batch, first_row=before + first_row)
                    return Piece(ColumnRows(columns, self.encoding, place), y, first_row)
                dtype = np.float32 if self.itemsize == 4 else np.float64
                X, seen = as_matrix(columns, self.wanted, self.encoding, dtype)
                return Piece(X, y, first_row, seen)
        except BadCell as bad:
            raise self._located(bad, batch, before + first_row) from None

    def row_pieces(self, watch: Watch | None = None) -> Iterator[Piece]:
        """Pieces that are written as rows where they are used, while the next batch is read."""
        first_row = 0
        with closing(watched(self._batches(0), watch, _N_AHEAD)) as batches:
            for batch in batches:
                yield self.parse(batch, first_row, later=True)
                first_row += batch.num_rows

    def parts(self) -> tuple[Part, ...]:
        """The row groups of all files, in their order."""
        return tuple(
            Part(path, group, n_rows)
            for path, groups in zip(self.paths, self.groups, strict=True)
            for group, n_rows in enumerate(groups)
        )

    def part_pieces(
        self, part: Part, start: int, stop: int, labels_only: bool = False
    ) -> Iterator[Piece]:
        """Rows ``start`` to ``stop`` of a row group; X is None if only labels are asked for.

        What is above ``start`` in the row group is read too, and dropped; nothing is read ahead.
        """
        if not 0 <= start <= stop <= part.n_rows:
            raise ReplearnError(
                f"{part.path}: rows of a part must be within 0 and {part.n_rows}, got {start} to "
                f"{stop}."
            )
        if labels_only and self.target is None:
            raise ReplearnError(f"{self.place}: labels are asked for without a target. Name it.")
        names = (str(self.target),) if labels_only else self.read
        file = self.paths.index(part.path)
        before = sum(map(sum, self.groups[:file])) + sum(self.groups[file][: part.row_group])
        done, most = 0, max(1, min(self.batch_rows, stop))
        for batch in self._record_batches(part.path, [part.row_group], names, most):
            first, last = max(start, done), min(stop, done + batch.num_rows)
            if first < last:
                rows = batch.slice(first - done, last - first)
                yield self.parse(rows, first, before, labels_only)
            done += batch.num_rows
            if done >= stop:
                break

    def raw_columns(
        self, target: str | None, categories: Sequence[str], watch: Watch | None
    ) -> Iterator[dict[str, NDArray[Any]]]:
        """All columns, some rows at a time: numbers or text, as their types say."""
        wanted = feature_columns(self.place, self.wanted, target, None)
        types = dict(zip(self.wanted, self.types, strict=True))
        odd = [name for name in wanted if not is_number(types[name]) and not is_text(types[name])]
        if odd:
            raise ReplearnError(
                f"{self.place}, column {odd[0]!r} must hold numbers or text, got {types[odd[0]]}. "
                "Leave it out, or convert it."
            )
        if target is not None:
            _check_label_type(self.place, target, types[target])
        first_row = 0
        for batch in self.batches(watch=watch):
            try:
                with _arrow_errors(self.place):
                    columns = {
                        name: (objects if name in categories else values)(batch.column(name))
                        for name in wanted
                    }
                    if target is not None:
                        columns[target] = values(batch.column(target))
                        check_labels(columns[target], target)
            except BadCell as bad:
                raise self._located(bad, batch, first_row) from None
            first_row += batch.num_rows
            yield columns

    def _record_batches(
        self, path: str, groups: Sequence[int], names: Sequence[str], most: int | None = None
    ) -> Iterator[Any]:
        """Batches of some row groups of a file, with the types of this source.

        Text is read as dictionaries, so that a long text in many rows is stored only once.
        """
        import pyarrow as pa

        if not len(groups):
            return
        types = dict(zip(self.read, self.types, strict=True))
        schema = pa.schema([(name, types[name]) for name in names])
        text = [name for name in names if is_bytes(schema.field(name).type)]
        left = sum(self.groups[self.paths.index(path)][group] for group in groups)
        with _open(path, text) as file:
            with _arrow_errors(path):
                batches = file.iter_batches(most or self.batch_rows, list(groups), list(names))
            while True:
                with _arrow_errors(path):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    check_dictionaries(batch)
                left -= batch.num_rows
                for rows in rows_within(batch, _BATCH_BYTES) if text else (batch,):
                    with _arrow_errors(path):
                        same = rows if rows.schema.equals(schema) else with_schema(rows, schema)
                    yield same
        if left:
            raise ReplearnError(f"{path} has other rows than its footer says. Write it anew.")

    def _located(self, bad: BadCell, batch: Any, first_row: int) -> ReplearnError:
        """What is wrong with a row of a batch, and where in the files it is."""
        path, row = self.place, first_row + bad.row
        for file, groups in zip(self.paths, self.groups, strict=True):
            if row < sum(groups):
                path = file
                break
            row -= sum(groups)
        value = batch.column(bad.column)[bad.row].as_py()
        return ReplearnError(
            f"{path}, row {row} (counted from 0), column {bad.column!r} must {bad.rule}, got "
            f"{'a missing value' if value is None else repr(value)[:60]}. {bad.remedy}."
        )


def open_parquet(request: Request) -> ParquetSource:
    """Look at the schemas and sizes of Parquet files, not yet at their rows."""
    arrow()
    footers = [_footer(path) for path in request.paths]
    first, found = request.paths[0], footers[0].schema.names
    check_names(first, found)
    wanted = columns_to_read(request, first, found)
    target = None if request.raw else request.target
    read = wanted if target is None else (*wanted, target)
    for path, footer in zip(request.paths, footers, strict=True):
        check_same_columns(first, found, path, footer.schema.names)
        if not request.raw:
            _check_types(path, footer.schema, wanted, request)
    types = [_common_type(request, [f.schema for f in footers], name) for name in read]
    n_rows = sum(sum(footer.groups) for footer in footers)
    if n_rows == 0:
        raise ReplearnError(f"{request.place} must have rows, got none. Check the file.")
    encoding = request.encoding
    names = wanted if encoding is None else encoding.output_names
    return ParquetSource(
        place=request.place,
        paths=request.paths,
        target=target,
        encoding=encoding,
        raw=request.raw,
        names=names,
        n_features=len(names),
        n_rows=n_rows,
        itemsize=4 if encoding is None and all(map(is_single, types[: len(wanted)])) else 8,
        wanted=wanted,
        groups=tuple(footer.groups for footer in footers),
        types=tuple(types),
        batch_rows=_batch_rows(footers, types, len(names)),
    )


@dataclass(frozen=True)
class _Footer:
    """What the end of a file says: types, rows of each row group, and bytes of a row at most.

    Nothing is asked of single columns of a row group: on a damaged footer that ends the process.
    """

    schema: Any
    groups: tuple[int, ...]
    row_bytes: int


def _footer(path: str) -> _Footer:
    with _open(path, []) as file, _arrow_errors(path):
        schema, metadata = file.schema_arrow, file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        rows = tuple(group.num_rows for group in groups)
        sizes = [group.total_byte_size // max(1, group.num_rows) for group in groups]
    if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
        raise ReplearnError(f"{path} has row groups that do not add up. Write it anew.")
    return _Footer(schema, rows, max(sizes, default=0))


def _batch_rows(footers: Sequence[_Footer], types: Sequence[Any], n_features: int) -> int:
    """Rows of a batch: as many as their numbers allow, or fewer if there may be long text."""
    widths = [width(kind) for kind in types]
    row_bytes = sum(size or 0 for size in widths)
    if None in widths:
        row_bytes += max(footer.row_bytes for footer in footers)
    most = rows_per_batch(max(n_features, len(types)))
    return min(most, max(1, _BATCH_BYTES // max(1, row_bytes)))


def _common_type(request: Request, schemas: Sequence[Any], name: str) -> Any:
    """The type of a column in all batches."""
    common = read_type(schemas[0].field(name).type, request.raw)
    for path, schema in zip(request.paths, schemas, strict=True):
        found = read_type(schema.field(name).type, request.raw)
        kind = found if found == common or request.raw else joint_type(common, found)
        if kind is None or (request.raw and kind != common):
            raise ReplearnError(
                f"{path}, column {name!r} must have the type {common}, as in {request.paths[0]}, "
                f"got {found}. Convert it."
            )
        common = kind
    return common


def _check_types(path: str, schema: Any, wanted: Sequence[str], request: Request) -> None:
    """Refuse columns that are neither numbers nor text where that is allowed."""
    category = category_names(request.encoding)
    for name in wanted:
        kind = schema.field(name).type
        if is_number(kind) or (name in category and is_text(kind)):
            continue
        if not is_text(kind):
            remedy = "Leave it out, or convert it to numbers or text"
        elif request.encoding is None:
            remedy = f"Leave it out, or {PROTOCOL_REMEDY}"
        else:
            remedy = "Convert it, or make a protocol in which it is a category"
        rule = "numbers or text" if name in category else "numbers"
        raise ReplearnError(f"{path}, column {name!r} must hold {rule}, got {kind}. {remedy}.")
    if request.target is not None:
        _check_label_type(path, request.target, schema.field(request.target).type)


def _check_label_type(path: str, name: str, kind: Any) -> None:
    if not is_number(kind) and not is_text(kind):
        raise ReplearnError(
            f"{path}, column {name!r} must hold labels, numbers or text, got {kind}. Convert it."
        )


@contextmanager
def _open(path: str, text: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with reading(path):
        open(path, "rb").close()  # the system's own words, if it cannot be opened
    with _arrow_errors(path):
        plain = _differences(pq.read_metadata(path), text) if text else set()
        file = pq.ParquetFile(
            path,
            read_dictionary=[name for name in text if name not in plain],
            pre_buffer=False,
            buffer_size=_READ_BUFFER,
        )
    with file:
        yield file


def _differences(metadata: Any, text: list[str]) -> set[str]:
    """Columns that are stored as differences of texts, which Arrow cannot read as a dictionary."""
    names = [metadata.schema.column(column).path for column in range(metadata.num_columns)]
    chunks = (
        (name, metadata.row_group(group).column(column))
        for column, name in enumerate(names)
        if name in text
        for group in range(metadata.num_row_groups)
    )
    kinds = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
    return {name for name, chunk in chunks if kinds & set(chunk.encodings)}


@contextmanager
def _arrow_errors(path: str) -> Iterator[None]:
    """Turn what Arrow says about a file into one line."""
    from pyarrow import ArrowException

    try:
        yield
    except ReplearnError:
        raise
    except (ArrowException, OSError, MemoryError, ValueError, OverflowError) as problem:
        raise unreadable(path, problem) from None
