"""Rows of comma-separated text as columns: by Arrow, or by the standard library.

Two readers of one language. Arrow's is fast; where it stumbles, the other one goes on from the
last row that Arrow took: it reads what is odd but valid, and names the line that is not.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import Encoding
from replearn.errors import ReplearnError
from replearn.sources.arrow_columns import numbers, objects
from replearn.sources.common import one_line, reading
from replearn.sources.matrices import BadCell, not_a_number
from replearn.sources.text import BLOCK_BYTES, MAX_LINE_BYTES, blocks

Columns = dict[str, NDArray[Any]]

#: More columns than this are not read one by one: what Arrow does for each adds up.
WIDE = 1000
_WIDE_BYTES = 2**8  # of a block, for each column

_ARROW_BYTES = 2**20  # of a block; Arrow reads dozens of them ahead
_READER_CELLS = 2**18  # that the standard library reads at once
_MISSING = [*(" " * n for n in range(9)), "nan", "NaN"]  # in a column of numbers, for Arrow
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]+,[0-9]+\s*")


@dataclass(frozen=True)
class CsvFile:
    """A file of comma-separated text."""

    path: str
    names: tuple[str, ...]  # of the columns
    delimiter: str  # one of , ; tab, as the header has it
    header: bytes  # the first record, as it stands

    @property
    def header_lines(self) -> int:
        """Lines of the first record."""
        return len(self.header.splitlines())


class Record(NamedTuple):
    """A record of a file: its first line, as it stands, its cells, and the share read."""

    line: int
    text: bytes
    cells: list[str]
    share: float


class NotANumber(ReplearnError):
    """Cells that should be numbers; ``columns`` are all that have such cells nearby."""

    def __init__(self, message: str, columns: set[str]) -> None:
        super().__init__(message)
        self.columns = columns


class _Odd(Exception):
    """What only the standard library reads, or complains about."""


def read_rows(
    file: CsvFile, numeric: Sequence[str], text: Sequence[str], encoding: Encoding | None
) -> Iterator[tuple[float, Columns]]:
    """Share read and columns of a file, some rows at a time.

    A blank cell is NaN among numbers, None among text, which comes as objects. At least one column
    must be read. The encoding is for what is said about a cell that is no number.
    """
    done = 0
    try:
        for share, columns in read_by_arrow(file, numeric, text):
            yield share, columns
            done += n_rows(columns)
    except _Odd:
        yield from read_by_reader(file, numeric, text, encoding, done)


def n_rows(columns: Columns) -> int:
    """Rows of some columns."""
    return len(next(iter(columns.values())))


# --- by Arrow -----------------------------------------------------------------------------------


def read_by_arrow(
    file: CsvFile, numeric: Sequence[str], text: Sequence[str]
) -> Iterator[tuple[float, Columns]]:
    """Rows as far as Arrow reads them as the standard library does; then _Odd is raised."""
    try:
        import pyarrow as pa
    except ImportError:
        raise _Odd from None
    if len(file.names) == 1:  # where an empty line may be a row
        raise _Odd
    try:
        yield from (_wide if len(file.names) > WIDE else _streamed)(file, numeric, text)
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError):
        raise _Odd from None


def _streamed(
    file: CsvFile, numeric: Sequence[str], text: Sequence[str]
) -> Iterator[tuple[float, Columns]]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    path, last = file.path, file.names[-1]
    kinds = dict.fromkeys((*text, last), pa.string()) | dict.fromkeys(numeric, pa.float64())
    with reading(path):
        open(path, "rb").close()  # the system's own words, if it cannot be opened
    compression = "gzip" if path.lower().endswith(".gz") else None
    tail: Any = None
    with reading(path), pa.OSFile(path) as stored:
        size = max(1, stored.size())
        with (
            pa.input_stream(stored, compression=compression) as stream,
            arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(
                    column_names=file.names, skip_rows=file.header_lines, block_size=_ARROW_BYTES
                ),
                arrow_csv.ParseOptions(
                    delimiter=file.delimiter, newlines_in_values=True, ignore_empty_lines=False
                ),
                arrow_csv.ConvertOptions(
                    column_types=kinds, include_columns=list(kinds), null_values=_MISSING
                ),
            ) as batches,
        ):
            for batch in batches:
                columns = {name: _values(batch.column(name)) for name in kinds}
                if _has_empty_row(columns):
                    raise _Odd
                if batch.num_rows:
                    tail = columns[last][-1]
                    yield stored.tell() / size, {name: columns[name] for name in (*numeric, *text)}
    if isinstance(tail, str) and ("\n" in tail or "\r" in tail):
        for _ in rows(file):  # is it the rest of the file, after a quote that is not closed?
            pass


def _values(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        return objects(column)
    values = numbers(column)
    if column.null_count < int(np.isnan(values).sum()):
        raise _Odd  # Arrow takes more spellings of NaN than float() does
    return values


def _has_empty_row(columns: Columns) -> bool:
    """Whether all cells of a row are missing, which is also what Arrow makes of an empty line."""
    missing: Any = True
    for values in columns.values():
        missing &= np.isnan(values) if values.dtype.kind == "f" else values == None  # noqa: E711
        if not missing.any():
            return False
    return True


def _wide(
    file: CsvFile, numeric: Sequence[str], text: Sequence[str]
) -> Iterator[tuple[float, Columns]]:
    """Rows with very many columns and no quotes: all their numbers are one column for Arrow."""
    places = {name: place for place, name in enumerate(file.names)}
    of_numbers, of_text = ([places[name] for name in names] for names in (numeric, text))
    skip, n_bytes = file.header_lines, max(BLOCK_BYTES, _WIDE_BYTES * len(places))
    for share, lines in blocks(file.path, min(n_bytes, MAX_LINE_BYTES)):
        below, skip = lines[skip:], max(0, skip - len(lines))
        rows = [line.rstrip(b"\r\n").split(file.delimiter.encode()) for line in below]
        if any(b'"' in line for line in below) or any(len(row) != len(places) for row in rows):
            raise _Odd
        cells = b"\n".join(row[place] for row in rows for place in of_numbers)
        values = _column(cells, len(rows) * len(numeric), file.delimiter)
        columns = dict(zip(numeric, values.reshape(len(rows), len(numeric)).T, strict=True))
        try:
            found = [_text([row[place].decode() for row in rows]) for place in of_text]
        except UnicodeDecodeError:
            raise _Odd from None
        if rows:
            yield share, columns | dict(zip(text, found, strict=True))


def _column(cells: bytes, n_cells: int, delimiter: str) -> NDArray[Any]:
    """Numbers that stand below each other."""
    if not n_cells:
        return np.empty(0)
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    table = arrow_csv.read_csv(
        pa.py_buffer(cells),
        arrow_csv.ReadOptions(column_names=["cell"]),
        arrow_csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=False),
        arrow_csv.ConvertOptions(column_types={"cell": pa.float64()}, null_values=_MISSING),
    )
    if table.num_rows != n_cells:
        raise _Odd
    return _values(table.column(0).combine_chunks())


# --- by the standard library --------------------------------------------------------------------


def read_by_reader(
    file: CsvFile,
    numeric: Sequence[str],
    text: Sequence[str],
    encoding: Encoding | None,
    skip: int = 0,
) -> Iterator[tuple[float, Columns]]:
    """Rows of a file, from row ``skip`` on, or a word about what is wrong."""
    found = islice(rows(file), skip, None)
    places = {name: place for place, name in enumerate(file.names)}
    while records := list(islice(found, max(1, _READER_CELLS // len(file.names)))):
        columns: Columns = {}
        bad: list[tuple[int, str]] = []
        for name in numeric:
            try:
                columns[name] = np.array([number(r.cells[places[name]]) for r in records])
            except ValueError:
                cells = (record.cells[places[name]] for record in records)
                bad.append((next(i for i, cell in enumerate(cells) if not is_number(cell)), name))
        if bad:
            row, name = min(bad)
            problem = not_a_number(row, name, encoding)
            raise NotANumber(bad_cell(file, records[row], problem), {name for _, name in bad})
        columns |= {name: _text([r.cells[places[name]] for r in records]) for name in text}
        yield records[-1].share, columns


def rows(file: CsvFile) -> Iterator[Record]:
    """The records below the header, each of which must be a row."""
    empty: int | None = None
    for record in islice(records_of(file.path, file.delimiter), 1, None):
        if not record.cells:
            empty = empty or record.line
            continue
        if empty is not None:
            raise ReplearnError(
                f"{file.path}, line {empty} must not be empty, since rows follow it. Remove it."
            )
        if len(record.cells) != len(file.names):
            raise ReplearnError(
                f"{file.path}, line {record.line} must have {len(file.names)} cells like the "
                f"header, got {len(record.cells)}. Repair the line, or quote cells that contain "
                f"{_NAMES[file.delimiter]}."
            )
        yield record


_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs"}


def raw_rows(file: CsvFile) -> Iterator[tuple[float, list[bytes]]]:
    """Share read and rows as they stand, some at a time."""
    found = rows(file)
    while texts := [(r.share, r.text) for r in islice(found, 1 + _READER_CELLS // len(file.names))]:
        yield texts[-1][0], [text for _, text in texts]


def records_of(path: str, delimiter: str) -> Iterator[Record]:
    """All records of a file, or a word about what is wrong with one."""
    taken: list[bytes] = []  # lines of the record under way
    share, ended = 0.0, False

    def lines() -> Iterator[str]:
        nonlocal share, ended
        for share, block in blocks(path):  # noqa: B007
            for line in block:
                taken.append(line)
                # each byte a character: quotes, delimiters and line ends are themselves
                yield line.decode("latin-1")
        ended = True

    reader = csv.reader(lines(), delimiter=delimiter)
    while True:
        first = reader.line_num + 1
        where = f"{path}, line {first}"
        try:
            cells = next(reader, None)
            text = b"".join(taken)
            text.decode()
        except csv.Error as problem:
            raise ReplearnError(
                f"{where} must be comma-separated text: {one_line(problem)}. Repair the line; is "
                "a quote not closed?"
            ) from None
        except UnicodeDecodeError as problem:
            byte = problem.object[problem.start]
            raise ReplearnError(
                f"{where} must be UTF-8 text, got the byte 0x{byte:02x}. Save the file as UTF-8."
            ) from None
        if cells is None:
            return
        if ended:
            raise ReplearnError(
                f"{where} opens a quote that is not closed before the file ends. Close it, or "
                "double a quote that is part of a text."
            )
        taken.clear()
        if not text.isascii():
            cells = [cell.encode("latin-1").decode() for cell in cells]
        yield Record(first, text, cells, share)


def number(cell: str) -> float:
    """A number as ``float`` reads it, in ASCII and without underscores; NaN for a blank cell."""
    if not cell.strip():
        return np.nan
    if not cell.isascii() or "_" in cell:
        raise ValueError(cell)
    return float(cell)


def is_number(cell: str) -> bool:
    """Whether `number` takes it."""
    try:
        number(cell)
    except ValueError:
        return False
    return True


def _text(cells: Sequence[str]) -> NDArray[Any]:
    return np.array([cell if cell.strip() else None for cell in cells], dtype=object)


def bad_cell(file: CsvFile, record: Record, bad: BadCell) -> str:
    """What is wrong with a cell, and where it is."""
    cell, remedy = record.cells[file.names.index(bad.column)], bad.remedy
    value = f"{cell[:40]!r}" if cell.strip() else "an empty cell"
    if _DECIMAL_COMMA.fullmatch(cell):
        remedy = "Write it with a decimal point: whether its comma is one cannot be known"
    return (
        f"{file.path}, line {record.line}, column {bad.column!r} must {bad.rule}, got {value}. "
        f"{remedy}."
    )
