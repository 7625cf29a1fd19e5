"""Tables in files: CSV and Parquet by Arrow, npz by NumPy, svmlight by scikit-learn.

Files are described when they are opened, and read some rows at a time, as often as one likes. What
a byte of a file may cost is bounded: CSV is read in blocks, Parquet in batches whose decoded size
is known from the footer, and NumPy's and zlib's formats unpack to at most 1,032 times their size.
"""

import csv
import gzip
import io
import json
import os
import re
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from threading import Event
from typing import Any
from weakref import finalize

import numpy as np

from replearn.errors import ReplearnError, one_of, short
from replearn.tables.cells import (
    MISSING_WORDS,
    WHITE_SPACE,
    Column,
    OddCells,
    arrow_numbers,
    check_arrow_type,
    check_text,
    columns_from,
    from_arrow,
    is_number_text,
    named_columns,
    sign_reader,
)

#: What the system, NumPy, zlib and Arrow raise about a file.
_UNREADABLE = (
    *(OSError, EOFError, ValueError, OverflowError, MemoryError, LookupError, NotImplementedError),
    *(csv.Error, zlib.error, zipfile.BadZipFile),
)

#: Rows of a batch at most.
BATCH_ROWS = 1 << 16

_HEAD_BYTES = 1 << 20  # of a file, in which its header must end
_BLOCK_BYTES = 1 << 22  # of CSV that Arrow reads at once; a row must be shorter
_SNIFFED_ROWS = 1000
_CHEAP_COLUMNS, _BYTES_PER_COLUMN = 1 << 16, 8
_MOST_REREADS = 3
_EXCEL = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_READ_BUFFER = 1 << 16  # bytes per column; without it Arrow reads a whole column chunk at once
_BATCH_BYTES = 1 << 26  # of texts that share parts, decoded
_MOST_PREFIXED = 1 << 22  # bytes of a column of such texts
_UNPACKED, _UNPACKED_PER_BYTE = 1 << 26, 100  # bytes of a row group
_CHEAP_ROWS, _ROWS_PER_BYTE = 10_000_000, 64
_PATIENCE = 10.0  # seconds until Arrow's threads let go of a file, which takes milliseconds


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV file is written, where its first line does not tell."""

    # between cells: ",", ";", a tab or "|". By default the one that the first line has most of.
    delimiter: str | None = None
    decimal: str = "."  # before the decimals of a number: "." or ","
    thousands: str = ""  # between groups of three digits: "", ".", ",", " " or "'"

    def __post_init__(self) -> None:
        one_of("delimiter", self.delimiter, (None, ",", ";", "\t", "|"))
        one_of("decimal", self.decimal, (".", ","))
        one_of("thousands", self.thousands, ("", ".", ",", " ", "'"))
        if self.decimal == self.thousands:
            raise ReplearnError(
                f"decimal and thousands must be different signs, got {self.decimal!r} for both."
            )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what the system, Arrow or NumPy says about a file into one line."""
    try:
        yield
    except ReplearnError:
        raise
    except _UNREADABLE as problem:
        reason = getattr(problem, "strerror", None) or " ".join(str(problem).split())[:200]
        raise ReplearnError(
            f"{path} cannot be read: {reason.rstrip('.') or 'it ends too early'}. Check the path, "
            "and that the file is complete."
        ) from None


def checked_names(place: str, names: Sequence[Any]) -> tuple[str, ...]:
    """Names of columns, trimmed: texts, or whole numbers as their digits; all different."""
    checked: list[str] = []
    for number, name in enumerate(names, start=1):
        if isinstance(name, int | np.integer) and not isinstance(name, bool):
            name = str(int(name))
        if not isinstance(name, str):
            raise ReplearnError(
                f"{place}: names of columns must be texts, got {short(name)}. Rename column "
                f"{number}."
            )
        try:
            checked.append(check_text(name.strip(WHITE_SPACE)))
        except OddCells as odd:
            raise ReplearnError(f"{place}: the name of column {number} has {odd.what}.") from None

    if "" in checked:
        raise ReplearnError(
            f"{place} must name every column, but column {checked.index('') + 1} has no name. Name "
            "it, or leave it out if it numbers the rows (pandas: to_csv(..., index=False))."
        )

    twice = [name for name, count in Counter(checked).items() if count > 1]
    if twice:
        raise ReplearnError(
            f"{place} must have different names of columns, got {named_columns(twice)} more than "
            "once. Rename them."
        )
    return tuple(checked)


# --- CSV ----------------------------------------------------------------------------------------


class CsvFile:
    """Comma-separated text with a header line."""

    def __init__(self, path: str, options: CsvOptions) -> None:
        text, is_all = _head(path)
        self.path = path

        # the header, and some rows to guess from
        self.options = replace(options, delimiter=options.delimiter or _delimiter(text))
        _allow_long_cells()
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=str(self.options.delimiter))
        with reading(path):
            records = [row for row, _ in zip(rows, range(_SNIFFED_ROWS + 2), strict=False) if row]
        if not records or (len(records) == 1 and not is_all):
            raise ReplearnError(
                f"{path} must begin with a line of column names, of at most {_HEAD_BYTES:,} bytes, "
                "got none."
            )
        self.names = checked_names(path, records[0])
        self._raw = dict(zip(self.names, records[0], strict=True))

        self._is_closed = False  # before the first pass
        self._numbers: set[str] = set()  # columns that look like numbers so far
        if not is_all:
            records.pop()  # the cut may have gone through it
        if not self.options.thousands:
            self._guess(records[1:])

    def _guess(self, records: list[list[str]]) -> None:
        """Guess which columns Arrow may read as numbers; a wrong guess costs time, no more."""
        plain = sign_reader(self.options.decimal, "")
        for place, name in enumerate(self.names):
            cells = {row[place].strip(WHITE_SPACE) for row in records if place < len(row)}
            cells -= set(MISSING_WORDS)
            try:
                if cells and all(is_number_text(plain(cell)) for cell in cells):
                    self._numbers.add(name)
            except OddCells:  # a point where the decimal sign is a comma: told when it is read
                continue

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        """Some columns, some rows at a time.

        Every cell counts as its text says. Columns that look like numbers are parsed by Arrow; as
        soon as a cell of one is nothing that Arrow and we read alike, it is read as text instead,
        from the row on that is due.
        """
        n_given = n_rereads = 0
        while True:
            n_read = 0
            try:
                for batch in self._stream(names):
                    n_read += batch.num_rows
                    self._refuse_bomb(n_read)

                    # in a second pass, rows that were given already are skipped
                    n_due = max(0, n_read - n_given)
                    rows = batch.slice(max(0, batch.num_rows - n_due))
                    for start in range(0, rows.num_rows, n_rows):
                        part = rows.slice(start, n_rows)
                        columns = self._columns(names, part)
                        n_given += part.num_rows
                        yield columns
                return
            except _NoNumbers as odd:
                n_rereads += 1
                self._numbers -= odd.args[0]
                if n_rereads >= _MOST_REREADS:  # enough guesses: all are texts
                    self._numbers -= set(names)

    def _refuse_bomb(self, n_read: int) -> None:
        most = max(_CHEAP_ROWS, os.stat(self.path).st_size)
        if n_read > most:
            raise _bomb(self.path, f"more than {most:,} rows", ", as Parquet")

    def _columns(self, names: Sequence[str], rows: Any) -> dict[str, Column]:
        rewrite = None
        signs = (self.options.decimal, self.options.thousands)
        if signs != (".", ""):
            rewrite = sign_reader(*signs)

        readers: dict[str, Any] = {}
        for name, array in zip(names, rows.columns, strict=True):
            if name not in self._numbers:
                readers[name] = partial(from_arrow, array, rewrite)
                continue
            values = arrow_numbers(array)
            if np.count_nonzero(~np.isfinite(values)) != array.null_count:
                raise _NoNumbers({name})  # such as NAN, which is a text, or inf
            readers[name] = partial(np.asarray, values)
        try:
            return columns_from(self.path, readers)
        except ReplearnError:
            self._refuse_swallowed_rows()  # which make one long text
            raise

    def _stream(self, names: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        raw = [self._raw[name] for name in names]
        kinds = dict.fromkeys(raw, pa.dictionary(pa.int32(), pa.string()))
        for name in self._numbers.intersection(names):
            kinds[self._raw[name]] = pa.float64()

        try:
            with (
                reading(self.path),
                pa.input_stream(self.path, compression=_packing(self.path)) as file,
            ):
                watched, stream, n_rows = _Watched(file), None, 0
                source, returned = watched.lent()
                try:
                    stream = arrow_csv.open_csv(
                        source,
                        arrow_csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                        arrow_csv.ParseOptions(
                            delimiter=self.options.delimiter, newlines_in_values=True
                        ),
                        arrow_csv.ConvertOptions(
                            column_types=kinds,
                            include_columns=raw,
                            null_values=list(MISSING_WORDS),
                            strings_can_be_null=False,
                            decimal_point=self.options.decimal,
                        ),
                    )
                    for batch in stream:
                        n_rows += batch.num_rows
                        yield batch
                finally:
                    source = stream = None
                    returned.wait(_PATIENCE)
        except ReplearnError as problem:
            raise self._in_words(problem, names) from None

        if not self._is_closed:  # once is enough: a file that changes is refused elsewhere
            self._check_quotes(watched, n_rows)
        self._is_closed = True

    def _check_quotes(self, watched: "_Watched", n_rows: int) -> None:
        """Refuse a quote that is never closed, and one that swallows rows."""
        delimiter = str(self.options.delimiter)
        if watched.may_end_in_quotes(delimiter) and _ends_in_quotes(self.path, delimiter):
            raise ReplearnError(
                f"{self.path} must close every quote, but it ends inside of one. Check that the "
                "file is complete."
            )

        if watched.n_lines > n_rows + 1:
            self._refuse_swallowed_rows()

    def _refuse_swallowed_rows(self) -> None:
        # a row of two cells has one delimiter, as many a text has
        if len(self.names) > 2 and (
            line := _swallowing_line(self.path, str(self.options.delimiter))
        ):
            raise ReplearnError(
                f"{self.path}, line {line:,}, must not begin a quote that takes the rows after it "
                "into one cell. Remove the stray quote, or write it twice."
            )

    def _in_words(self, problem: ReplearnError, names: Sequence[str]) -> Exception:
        """What Arrow's complaint means: a column that is no number, or a fault of the file."""
        text = str(problem)
        if "conversion error to double" in text:
            match = re.search(r"CSV column #([0-9]+)", text)
            if match is None:  # Arrow does not say which one
                return _NoNumbers(set(names))
            return _NoNumbers({self.names[int(match[1])]})

        if "straddl" in text:
            self._refuse_swallowed_rows()
            return ReplearnError(
                f"{self.path} cannot be read: a row is longer than 4 MB. Check the quotes."
            )
        if "invalid UTF8" in text:
            return ReplearnError(f"{self.path} must be UTF-8 text. {_SAVE_AS}")

        match = re.search(r"(?:Row #([0-9]+): )?Expected ([0-9]+) columns, got ([0-9]+)", text)
        if match is None:
            return problem
        row, wanted, got = match.groups()
        where = self.path
        if row:
            where += f", row {row},"
        return ReplearnError(
            f"{where} must have {wanted} cells in every row, got {got}. Put texts that hold the "
            "delimiter in quotes; with a decimal comma separate cells by semicolons."
        )


class _NoNumbers(Exception):
    """Columns (its one argument) with cells that Arrow does not read as numbers as we do."""


def _packing(path: str) -> str | None:
    if path.lower().endswith(".gz"):
        return "gzip"
    return None


def _opener(path: str) -> Any:
    if _packing(path):
        return gzip.open
    return open


class _Watched:
    """The bytes of a text as Arrow reads them, and what can tell of stray quotes.

    Most files need no second look.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.n_quotes = self.n_breaks = 0
        self.before_last, self.end = b"", b"\n"  # signs before the last quote, and at the end

    def lent(self) -> tuple[Any, Event]:
        """A file for Arrow, and the event that no thread of Arrow has it any longer.

        Arrow reads ahead. A thread that still has a file of Python's while Python ends aborts the
        process, whatever its exit code was to be.
        """
        import pyarrow as pa

        lent = _Lent(self)
        returned = Event()
        finalize(lent, returned.set).atexit = False
        return pa.PythonFile(lent, mode="r"), returned

    def read(self, size: int = -1) -> bytes:
        """Some bytes, which are counted."""
        block: bytes = self._file.read(size)
        self.n_quotes += block.count(b'"')
        self.n_breaks += block.count(b"\n")
        if (place := block.rfind(b'"')) >= 0:
            self.before_last = (self.end + block[:place])[-1:]
        self.end = block[-1:] or self.end
        return block

    @property
    def n_lines(self) -> int:
        """Lines, blank ones too."""
        return self.n_breaks + (self.end != b"\n")

    def may_end_in_quotes(self, delimiter: str) -> bool:
        """Whether a quote is left over, or the last one may open a cell."""
        return self.n_quotes % 2 == 1 or self.before_last in (b"\n", b"\r", delimiter.encode())


class _Lent:
    """A file as Arrow has it."""

    def __init__(self, file: _Watched) -> None:
        self.read, self.closed = file.read, False

    def close(self) -> None:
        """Leave that to whoever opened the file."""


def _allow_long_cells() -> None:
    csv.field_size_limit(max(csv.field_size_limit(), _BLOCK_BYTES))


@contextmanager
def _records(path: str, delimiter: str, *after: str) -> Iterator[Any]:
    """The records of a text as Python reads them, and of lines after it."""
    _allow_long_cells()
    with _opener(path)(path, "rt", encoding="utf-8", newline="") as file:
        yield csv.reader(chain(file, after), delimiter=delimiter)


def _ends_in_quotes(path: str, delimiter: str) -> bool:
    """Whether a text ends before its last quote is closed: what follows is part of its cell."""
    end = "the end"
    with _records(path, delimiter, end) as records:
        return deque(records, maxlen=1).pop() != [end]


def _swallowing_line(path: str, delimiter: str) -> int:
    """The line on which a quoted cell begins that holds whole rows; 0 if there is none.

    Texts of several lines are fine. But lines with as many delimiters as a row has are rows.
    """
    with _records(path, delimiter) as records:
        n_before = 0  # lines up to this record
        try:
            for cells in records:
                several = records.line_num > n_before + 1
                if several and any(_is_of_rows(cells, i, delimiter) for i in range(len(cells))):
                    return n_before + 1
                n_before = records.line_num
        except csv.Error:  # a cell of more than 4 MB
            return n_before + 1
    return 0


def _is_of_rows(cells: Sequence[str], place: int, delimiter: str) -> bool:
    """Whether lines of a cell are rows: those inside of it, or its first and its last one."""
    lines = re.split(r"\r\n|\r|\n", cells[place])
    first, *inner = (line.count(delimiter) for line in lines)
    if not inner:
        return False

    # a row has as many delimiters as its record; cells beside this one bring theirs along
    last = inner.pop()
    full = len(cells) - 1
    return full in inner or (place + first == full and last + full - place == full)


_SAVE_AS = 'Save it as "CSV UTF-8" (in Excel: Save As, CSV UTF-8).'


def _head(path: str) -> tuple[str, bool]:
    """The first part of a file as text, and whether that is all of it."""
    with reading(path):
        with open(path, "rb") as stored:
            is_packed = stored.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_packed else open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)

    # by their first bytes: what is no text, whatever it is called
    if is_packed and not path.lower().endswith(".gz"):
        raise ReplearnError(f"{path} is compressed. Rename it, so that it ends in .gz.")
    if head.startswith(_EXCEL):
        raise ReplearnError(f"{path} is a workbook. {_SAVE_AS}")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:1000]:
        raise ReplearnError(f"{path} must be UTF-8 text, got something else. {_SAVE_AS}")

    is_all = len(head) < _HEAD_BYTES
    head = head.removeprefix(b"\xef\xbb\xbf")
    try:
        return head.decode(), is_all
    except UnicodeDecodeError as problem:
        if is_all or problem.start < len(head) - 4:  # not a character that the cut went through
            raise ReplearnError(f"{path} must be UTF-8 text, got other bytes. {_SAVE_AS}") from None
        return head[: problem.start].decode(), False


def _delimiter(text: str) -> str:
    """The sign that the first line has most of, outside of quotes."""
    unquoted = re.sub(r'"[^"]*"', "", text.lstrip("\r\n"))
    lines = unquoted.splitlines() or [""]
    return max((",", ";", "\t", "|"), key=lines[0].count)


def _bomb(
    path: str, what: str, how: str = ": with dictionaries, and smaller row groups"
) -> ReplearnError:
    return ReplearnError(
        f"{path} must not unpack to far more than its size, got {what}. Write it anew{how}."
    )


# --- Parquet, npz, svmlight -----------------------------------------------------------------------


class ParquetFile:
    """A Parquet file or some of its row groups; a text that many rows share is stored only once."""

    def __init__(self, path: str, groups: Sequence[int] | None = None) -> None:
        from pyarrow import parquet, types

        self.path, self._groups = path, groups
        with reading(path):
            n_bytes = os.stat(path).st_size
            metadata = parquet.read_metadata(path)
            schema = self._schema = metadata.schema.to_arrow_schema()
            # nothing is asked of single columns: on a damaged footer that ends the process
            parts = [metadata.row_group(part) for part in range(metadata.num_row_groups)]
            self._group_bytes = max((part.total_byte_size for part in parts), default=0)

        # what a file claims to hold costs memory, so that few bytes may not claim much
        self.n_rows = metadata.num_rows
        if self.n_rows > max(_CHEAP_ROWS, _ROWS_PER_BYTE * n_bytes):
            raise _bomb(path, f"{self.n_rows:,} rows in {n_bytes:,} bytes")
        if self._group_bytes > _UNPACKED + _UNPACKED_PER_BYTE * n_bytes:
            raise _bomb(path, f"{self._group_bytes:,} bytes of a row group in {n_bytes:,}")

        index = pandas_index(schema)
        kept = [name for name in schema.names if name not in index]
        self.names = checked_names(path, kept)
        self._raw = dict(zip(self.names, kept, strict=True))

        self._coded = []  # columns of texts that are read as dictionaries
        for name in kept:
            kind = schema.field(name).type
            if types.is_string(kind) or types.is_large_string(kind):
                self._coded.append(name)
        self.levels = pandas_levels(schema)
        self._most_rows = BATCH_ROWS

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        """Some columns, some rows at a time."""
        raw = [self._raw[name] for name in names]
        self._sort_texts(names, raw)
        for batch in self._batches(raw, min(n_rows, self._most_rows), self._coded):
            with reading(self.path):
                for name in set(raw) & set(self._coded):
                    batch.column(name).validate(full=True)  # codes of a damaged file may lie
            readers = {n: partial(from_arrow, batch.column(self._raw[n])) for n in names}
            yield columns_from(self.path, readers)

    def _sort_texts(self, names: Sequence[str], raw: Sequence[str]) -> None:
        """Find the columns that Arrow cannot read as dictionaries, and refuse what is no text."""
        kinds = {name: self._schema.field(self._raw[name]).type for name in names}
        columns_from(self.path, {n: partial(check_arrow_type, kind) for n, kind in kinds.items()})

        for name in set(raw) & set(self._coded):
            try:
                next(self._batches([name], 1, [name]), None)
            except ReplearnError as problem:
                if "Delta" not in str(problem):
                    raise
                self._coded.remove(name)
                if "DeltaByteArray" in str(problem):
                    self._limit_prefixed()

    def _limit_prefixed(self) -> None:
        """Bound what texts cost each of which may repeat all of the last one."""
        if self._group_bytes > _MOST_PREFIXED:
            what = f"{self._group_bytes:,} bytes with texts that share their beginnings"
            raise _bomb(self.path, what) from None
        self._most_rows = max(1, min(BATCH_ROWS, _BATCH_BYTES // self._group_bytes))

    def _batches(self, raw: list[str], n_rows: int, coded: list[str]) -> Iterator[Any]:
        from pyarrow import parquet

        with (
            reading(self.path),
            parquet.ParquetFile(
                self.path, read_dictionary=coded, pre_buffer=False, buffer_size=_READ_BUFFER
            ) as file,
        ):
            yield from file.iter_batches(n_rows, columns=raw, row_groups=self._groups)


def load_npz(path: str) -> tuple[Any, Any, Any]:
    """The arrays X, y and names of an npz file; the last two may be absent."""
    n_bytes = os.stat(path).st_size
    with reading(path), zipfile.ZipFile(path) as packed:
        unpacked = sum(part.file_size for part in packed.infolist())
    if unpacked > _UNPACKED + _UNPACKED_PER_BYTE * n_bytes:
        raise _bomb(path, f"{unpacked:,} bytes in {n_bytes:,}", ", without compression")

    with reading(path), open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
        if "X" not in stored.files:
            held = ", ".join(stored.files) or "none"
            raise ReplearnError(f"{path} must hold an array X, got {held}. Save X, y and names.")
        X, y, names = (
            stored[name] if name in stored.files else None for name in ("X", "y", "names")
        )

    _refuse_wide(path, X)
    if names is not None:
        names = names.tolist()
    return X, y, names


def load_svmlight(path: str, names: Sequence[str] | None) -> tuple[Any, Any]:
    """Rows and labels of an svmlight file; columns are x0, x1, and so on."""
    from sklearn.datasets import load_svmlight_file

    # as many columns as are asked for, since sparse rows may end before them
    matches = [re.fullmatch(r"x([0-9]{1,9})", name) for name in names or ()]
    n_features = max((int(match[1]) + 1 for match in matches if match), default=None)
    with reading(path):
        X, y = load_svmlight_file(path, n_features=n_features)
    _refuse_wide(path, X)
    return X, y


def _refuse_wide(path: str, X: Any) -> None:
    """Each column has a name, and costs memory, also where a file of few bytes names none."""
    most = max(_CHEAP_COLUMNS, os.stat(path).st_size // _BYTES_PER_COLUMN)
    if np.ndim(X) == 2 and X.shape[1] > most:  # what is no array is refused elsewhere
        raise ReplearnError(
            f"{path} must have at most {most:,} columns, got {X.shape[1]:,}. Number them from 1."
        )


def pandas_index(schema: Any) -> set[str]:
    """Columns that pandas stored as an index, which number or name the rows."""
    return {name for name in _of_pandas(schema, "index_columns") if isinstance(name, str)}


def pandas_levels(schema: Any) -> frozenset[str]:
    """Columns that were categories of whole numbers in pandas.

    A dictionary of Arrow alone says nothing: it is a way to store any column.
    """
    from pyarrow import types

    stated = {
        column.get("field_name")
        for column in _of_pandas(schema, "columns")
        if isinstance(column, dict) and column.get("pandas_type") == "categorical"
    }

    # as they are stored, or in a dictionary
    kinds = {field.name: getattr(field.type, "value_type", field.type) for field in schema}
    return frozenset(
        name for name, kind in kinds.items() if name in stated and types.is_integer(kind)
    )


def _of_pandas(schema: Any, what: str) -> list[Any]:
    """What pandas has noted beside a table; nothing if it is not as pandas writes it."""
    try:
        noted = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get(what)
    except (ValueError, AttributeError):
        return []
    if isinstance(noted, list):
        return noted
    return []
