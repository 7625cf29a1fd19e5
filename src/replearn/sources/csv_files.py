"""Comma-separated text with a header row.

Memory while reading: some blocks of 4 MiB of text, with the numbers that are in them, whatever
the size of the file. A record of more than 64 MiB is refused.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import CategoryColumn
from replearn.errors import ReplearnError
from replearn.sources.common import (
    Piece,
    Request,
    Watch,
    check_names,
    check_same_columns,
    columns_to_read,
    feature_columns,
)
from replearn.sources.csv_parsing import (
    BadRecord,
    Columns,
    cells_of,
    number,
    parsed_by_arrow,
    parsed_by_reader,
)
from replearn.sources.matrices import BadCell, as_matrix, check_labels
from replearn.sources.text import Records, TextBlock, TextSource, blocks


@dataclass(frozen=True, kw_only=True)
class CsvSource(TextSource):
    """A table in comma-separated text.

    Attributes
    ----------
    columns : tuple of str
        All columns of the files.
    wanted : tuple of str
        Columns that are read for the features.
    """

    columns: tuple[str, ...]
    wanted: tuple[str, ...]

    def _blocks(self, path: str) -> Iterator[TextBlock]:
        empty: int | None = None
        header = True
        for block in blocks(path, quotes=True):
            records, lines = block.records, block.lines
            if header:
                records, lines, header = records.slice(1, len(records)), lines[1:], False
            filled = np.flatnonzero(~_is_empty(records))
            if filled.size and (empty is not None or filled.size <= filled[-1]):
                gap = lines[np.argmax(_is_empty(records))] if empty is None else empty
                raise ReplearnError(
                    f"{path}, line {gap} must not be empty, since rows follow it. Remove it."
                )
            if filled.size < len(records) and empty is None:
                empty = int(lines[filled.size])
            if filled.size:
                yield TextBlock(records.slice(0, filled.size), lines[: filled.size], block.share)

    def _parse(self, records: Records, first_row: int) -> Piece:
        columns = parsed_by_arrow(records, self.columns, *self._kinds())
        if columns is not None:
            try:
                return self._piece(columns, first_row)
            except BadCell:
                pass  # said below, in the words of the file
        with self._located(records, first_row):
            columns = parsed_by_reader(records, self.columns, *self._kinds(), self.encoding)
            return self._piece(columns, first_row)

    def raw_columns(
        self, target: str | None, categories: Sequence[str], watch: Watch | None
    ) -> Iterator[Columns]:
        """All columns, some rows at a time: numbers where all cells are, else text.

        The rows are read twice, since it takes all of them to know which columns are numeric.
        """
        wanted = feature_columns(self.place, self.columns, target, None)
        numeric = self._numeric([name for name in wanted if name not in categories])
        text = [name for name in self.columns if name not in numeric]
        first_row = 0
        for share, records in self.records():
            columns = parsed_by_arrow(records, self.columns, numeric, text)
            with self._located(records, first_row):
                if columns is None:
                    columns = parsed_by_reader(records, self.columns, numeric, text, None)
                if target is not None:
                    check_labels(columns[target], target)
            first_row += len(records)
            if watch is not None:
                watch(share)
            yield {name: columns[name] for name in self.columns}  # in the order of the file

    def _numeric(self, names: list[str]) -> list[str]:
        """Those of the columns that have nothing but numbers and empty cells."""
        first_row = 0
        for _, records in self.records():
            if names and parsed_by_arrow(records, self.columns, names, ()) is None:
                with self._located(records, first_row):
                    cells = parsed_by_reader(records, self.columns, (), names, None)
                names = [name for name in names if _are_numbers(cells[name])]
            first_row += len(records)
        return names

    @contextmanager
    def _located(self, records: Records, first_row: int) -> Iterator[None]:
        """Say where in the file something is wrong with one of the records."""
        try:
            yield
        except BadCell as bad:
            where = self.locate(first_row + bad.row, records[bad.row])
            raise _bad_cell(where, bad, _cell(records[bad.row], self.columns, bad)) from None
        except BadRecord as bad:
            where = self.locate(first_row + bad.row, records[bad.row])
            raise ReplearnError(f"{where} must {bad.complaint}") from None

    def _kinds(self) -> tuple[list[str], list[str]]:
        """Names of the columns to read as numbers and as text."""
        kinds = () if self.encoding is None else self.encoding.columns
        category = [column.name for column in kinds if isinstance(column, CategoryColumn)]
        text = [*category, *([] if self.target is None else [self.target])]
        return [name for name in self.wanted if name not in category], text

    def _piece(self, columns: Columns, first_row: int) -> Piece:
        y = None if self.target is None else columns[self.target]
        if y is not None:
            check_labels(y, str(self.target))
        X, seen = as_matrix(columns, self.wanted, self.encoding, np.float64)
        return Piece(X, y, first_row, seen)


def open_csv(request: Request) -> CsvSource:
    """Look at the headers of comma-separated files, not yet at their rows."""
    first, *others = request.paths
    header, found = _read_header(first)
    wanted = columns_to_read(request, first, found)
    for path in others:
        check_same_columns(first, found, path, _read_header(path)[1])
    encoding = request.encoding
    names = wanted if encoding is None else encoding.output_names
    return CsvSource(
        place=request.place,
        paths=request.paths,
        target=None if request.raw else request.target,
        encoding=encoding,
        raw=request.raw,
        names=names,
        n_features=len(names),
        header=header,
        columns=found,
        wanted=wanted,
    )


def _read_header(path: str) -> tuple[bytes, tuple[str, ...]]:
    """The first record, and the names in it."""
    block = next(blocks(path, quotes=True), None)
    if block is None:
        raise ReplearnError(f"{path} must have a header row, got an empty file. Check the path.")
    header = block.records.slice(0, 1)
    try:
        names = cells_of(header)[0]
    except BadRecord as bad:
        raise ReplearnError(f"{path}, line 1 must {bad.complaint}") from None
    if not names:
        raise ReplearnError(f"{path}, line 1 must name the columns, got an empty line. Remove it.")
    check_names(path, names)
    return header[0], tuple(names)


def _is_empty(records: Records) -> NDArray[np.bool_]:
    """Whether a record has nothing but its line end."""
    starts = np.frombuffer(records.data, dtype=np.uint8)[records.offsets[:-1]]
    return (starts == ord("\n")) | (starts == ord("\r"))


def _are_numbers(cells: NDArray[Any]) -> bool:
    try:
        for cell in cells:
            if cell is not None:
                number(cell)
    except ValueError:
        return False
    return True


def _cell(record: bytes, names: Sequence[str], bad: BadCell) -> str:
    return next(csv.reader(io.StringIO(record.decode(), newline="")))[names.index(bad.column)]


def _bad_cell(where: str, bad: BadCell, cell: str) -> ReplearnError:
    value = f"{cell[:40]!r}" if cell.strip() else "an empty cell"
    return ReplearnError(
        f"{where}, column {bad.column!r} must {bad.rule}, got {value}. {bad.remedy}."
    )
