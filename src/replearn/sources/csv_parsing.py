"""Records of comma-separated text as columns: by Arrow, or by the standard library.

Two readers of one language. Arrow's is fast; the other one takes all that Arrow takes, with the
same values, and can say which cell is wrong.
"""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import Encoding
from replearn.errors import ReplearnError
from replearn.sources.arrow_columns import numbers, objects
from replearn.sources.common import one_line
from replearn.sources.matrices import not_a_number
from replearn.sources.text import BYTE_ORDER_MARK, Records

Columns = dict[str, NDArray[Any]]


class BadRecord(Exception):
    """A record that is no row of the table; ``complaint`` follows "must" in a message."""

    def __init__(self, row: int, complaint: str) -> None:
        super().__init__(row, complaint)
        self.row, self.complaint = row, complaint


# --- by Arrow -----------------------------------------------------------------------------------


def parsed_by_arrow(
    records: Records, names: Sequence[str], numeric: Sequence[str], text: Sequence[str]
) -> Columns | None:
    """Columns of records, or None if the standard library must have a look.

    Numbers have NaN for an empty cell, text is objects with None for a blank cell. All that is
    taken here is taken by ``parsed_by_reader``, with the same values.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    if not _is_plain(records):
        return None
    content = records.content
    quoted = bool((np.frombuffer(content, dtype=np.uint8) == ord('"')).any())
    types = dict.fromkeys(numeric, pa.float64()) | dict.fromkeys(text, pa.string())
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(content)),
            read_options=arrow_csv.ReadOptions(
                column_names=list(names), block_size=len(content) + 1
            ),
            parse_options=arrow_csv.ParseOptions(
                newlines_in_values=quoted, ignore_empty_lines=False
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(records):
        return None
    found = {name: table.column(name).combine_chunks() for name in types}
    columns = {name: numbers(found[name]) for name in numeric}
    for name, values in columns.items():
        if int(np.isnan(values).sum()) > found[name].null_count:
            return None  # Arrow takes more spellings of NaN than float() does
    return columns | {name: objects(found[name]) for name in text}


def _is_plain(records: Records) -> bool:
    """Whether there are records, without what Arrow takes in another way."""
    longest = int(np.diff(records.offsets).max(initial=0))
    if not 0 < longest <= csv.field_size_limit():  # of cells, as the standard library takes them
        return False
    content = records.content
    if content[: len(BYTE_ORDER_MARK)] == BYTE_ORDER_MARK:  # which Arrow leaves out
        return False
    if np.frombuffer(content, dtype=np.uint8).max() < 128:
        return True
    try:
        str(content, "utf-8")  # Arrow looks only at the columns that are asked for
    except UnicodeDecodeError:
        return False
    return True


# --- by the standard library --------------------------------------------------------------------


def parsed_by_reader(
    records: Records,
    names: Sequence[str],
    numeric: Sequence[str],
    text: Sequence[str],
    encoding: Encoding | None,
) -> Columns:
    """Columns of records, as those of ``parsed_by_arrow``, or a word about what is wrong."""
    rows = cells_of(records)
    for row, cells in enumerate(rows):
        if len(cells) != len(names):
            raise BadRecord(
                row,
                f"have {len(names)} cells like the header, got {len(cells)}. Repair the line, or "
                "quote cells that contain commas.",
            )
    columns: Columns = {}
    for name in numeric:
        place = names.index(name)
        columns[name] = np.empty(len(rows))
        for row, cells in enumerate(rows):
            try:
                columns[name][row] = number(cells[place])
            except ValueError:
                raise not_a_number(row, name, encoding) from None
    for name in text:
        place = names.index(name)
        columns[name] = np.empty(len(rows), dtype=object)
        for row, cells in enumerate(rows):
            columns[name][row] = cells[place] if cells[place].strip() else None
    return columns


def number(cell: str) -> float:
    """A number as ``float`` reads it, in ASCII and without underscores; NaN for a blank cell."""
    if not cell.strip():
        return np.nan
    if not cell.isascii() or "_" in cell:
        raise ValueError(cell)
    return float(cell)


def cells_of(records: Records) -> list[list[str]]:
    """Cells of each record."""
    try:
        text = str(records.content, "utf-8")
    except UnicodeDecodeError as problem:
        place = int(records.offsets[0]) + problem.start
        byte = problem.object[problem.start]
        raise BadRecord(
            int(np.searchsorted(records.offsets, place, side="right")) - 1,
            f"be UTF-8 text, got the byte 0x{byte:02x}. Save the file as UTF-8.",
        ) from None
    rows: list[list[str]] = []
    try:
        for cells in csv.reader(io.StringIO(text, newline="")):
            rows.append(cells)
    except csv.Error as problem:
        raise BadRecord(
            len(rows), f"be comma-separated text: {one_line(problem)}. Repair the line."
        ) from None
    if len(rows) != len(records):
        raise ReplearnError("a batch must have whole records. Leave the column 'record' as it is.")
    return rows
