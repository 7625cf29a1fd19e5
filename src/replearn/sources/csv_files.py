"""Comma-separated text with a header row; semicolons and tabs are taken as what they are.

Memory while reading: some blocks of 4 MiB of text, with the numbers that are in them, whatever
the size of the file. A line of more than 64 MiB is refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from replearn.codes.encoding import CategoryColumn
from replearn.errors import ReplearnError
from replearn.sources.common import (
    Piece,
    Request,
    Source,
    Watch,
    arrow,
    check_names,
    check_same_columns,
    columns_to_read,
    feature_columns,
    rows_per_batch,
)
from replearn.sources.csv_parsing import (
    Columns,
    CsvFile,
    NotANumber,
    bad_cell,
    is_number,
    n_rows,
    raw_rows,
    read_rows,
    records_of,
    rows,
)
from replearn.sources.matrices import BadCell, as_matrix, check_labels
from replearn.sources.text import blocks, from_row, lines_from_row, one_after_another, to_arrow

_NUMBERS = "numbers"  # the first column of a batch: all numbers of a row
_QUOTED = re.compile(rb'"[^"]*"')
_FIRST_CELLS = 2**16  # that are looked at to guess which columns are numbers


@dataclass(frozen=True, kw_only=True)
class CsvSource(Source):
    """A table in comma-separated text."""

    files: tuple[CsvFile, ...]
    wanted: tuple[str, ...]  # columns that are read for the features

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the files."""
        return self.files[0].names

    @property
    def header(self) -> bytes:
        """The first record, as it stands."""
        return self.files[0].header

    def _pieces(self, start: int) -> Iterator[tuple[float, Piece]]:
        for share, first_row, columns in self._columns(*self._kinds(), start):
            yield share, self._piece(columns, first_row)

    def _batches(self, start: int) -> Iterator[tuple[float, Any]]:
        """Rows as they stand if they are wanted raw; else their numbers and their text."""
        arrow()
        if self.raw:
            found = one_after_another(self.paths, lambda number: raw_rows(self.files[number]))
            for share, _, lines in lines_from_row(found, start, self._batch_rows):
                yield share, to_arrow(lines)
            return
        numeric, text = self._kinds()
        for share, _, columns in self._columns(numeric, text, start):
            yield share, _packed(columns, numeric, text)

    def parse(self, batch: Any, first_row: int) -> Piece:
        """Numbers and labels of a batch; ``first_row`` is its place in the table."""
        return self._piece(_unpacked(batch, *self._kinds()), first_row)

    def raw_columns(
        self, target: str | None, categories: Sequence[str], watch: Watch | None
    ) -> Iterator[Columns]:
        """All columns, some rows at a time: numbers where all cells are, else text.

        The rows are read twice, since it takes all of them to know which columns are numeric.
        """
        wanted = feature_columns(self.place, self.columns, target, None)
        known = set(categories)
        numeric = self._numeric([name for name in wanted if name not in known])
        known = set(numeric)
        text = [name for name in self.columns if name not in known]
        for share, first_row, columns in self._columns(numeric, text):
            if target is not None:
                try:
                    check_labels(columns[target], target)
                except BadCell as bad:
                    raise self._located(first_row, bad) from None
            if watch is not None:
                watch(share)
            yield {name: columns[name] for name in self.columns}  # in the order of the file

    def _numeric(self, names: list[str]) -> list[str]:
        """Those of the columns that have nothing but numbers and empty cells."""
        first = list(islice(rows(self.files[0]), 1 + _FIRST_CELLS // len(self.columns)))
        place = {name: place for place, name in enumerate(self.columns)}
        names = [name for name in names if all(is_number(row.cells[place[name]]) for row in first)]
        while names:
            try:
                for _ in self._columns(names, ()):
                    pass
                break
            except NotANumber as bad:
                names = [name for name in names if name not in bad.columns]
        return names

    @property
    def _batch_rows(self) -> int:
        return rows_per_batch(self.n_features)

    def _columns(
        self, numeric: Sequence[str], text: Sequence[str], start: int = 0
    ) -> Iterator[tuple[float, int, Columns]]:
        """Share read, first row and columns, from row ``start`` on."""
        found = one_after_another(
            self.paths, lambda number: read_rows(self.files[number], numeric, text, self.encoding)
        )
        return from_row(found, start, self._batch_rows, n_rows, _cut)

    def _kinds(self) -> tuple[list[str], list[str]]:
        """Names of the columns to read as numbers and as text."""
        kinds = () if self.encoding is None else self.encoding.columns
        text = [column.name for column in kinds if isinstance(column, CategoryColumn)]
        category = set(text)
        if self.target is not None:
            text.append(self.target)
        return [name for name in self.wanted if name not in category], text

    def _piece(self, columns: Columns, first_row: int) -> Piece:
        try:
            y = None if self.target is None else columns[self.target]
            if y is not None:
                check_labels(y, str(self.target))
            X, seen = as_matrix(columns, self.wanted, self.encoding, np.float64)
        except BadCell as bad:
            raise self._located(first_row, bad) from None
        return Piece(X, y, first_row, seen)

    def _located(self, first_row: int, bad: BadCell) -> ReplearnError:
        """What is wrong with a cell; the files are read once more, to find its line."""
        row = first_row + bad.row
        for file in self.files:
            for record in rows(file):
                if row == 0:
                    return ReplearnError(bad_cell(file, record, bad))
                row -= 1
        return ReplearnError(f"{self.place} has been changed while it was read. Try again.")


def open_csv(request: Request) -> CsvSource:
    """Look at the headers of comma-separated files, not yet at their rows."""
    files = tuple(map(_open, request.paths))
    first = files[0]
    wanted = columns_to_read(request, first.path, first.names)
    for file in files[1:]:
        check_same_columns(first.path, first.names, file.path, file.names)
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
        files=files,
        wanted=wanted,
    )


def _open(path: str) -> CsvFile:
    """Look at the first record, and the names in it."""
    delimiter = _delimiter(path)
    record = next(records_of(path, delimiter), None)
    if record is None:
        raise ReplearnError(f"{path} must have a header row, got an empty file. Check the path.")
    if not record.cells:
        raise ReplearnError(f"{path}, line 1 must name the columns, got an empty line. Remove it.")
    check_names(path, record.cells)
    return CsvFile(path, tuple(record.cells), delimiter, record.text)


def _delimiter(path: str) -> str:
    """What stands between the names in the first line: a comma, if there is one."""
    _, lines = next(blocks(path), (0.0, [b""]))
    plain = _QUOTED.sub(b"", lines[0])
    return next((mark for mark in ",;\t" if mark.encode() in plain), ",")


def _cut(columns: Columns, start: int, stop: int) -> Columns:
    return {name: values[start:stop] for name, values in columns.items()}


def _packed(columns: Columns, numeric: Sequence[str], text: Sequence[str]) -> Any:
    """Columns as a batch of Arrow in which all numbers of a row stand together.

    So a row can be moved at once, however many columns there are.
    """
    import pyarrow as pa

    matrix = np.empty((n_rows(columns), len(numeric)))
    for place, name in enumerate(numeric):
        matrix[:, place] = columns[name]
    width = matrix.shape[1] * matrix.itemsize
    rows = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(matrix), [None, pa.py_buffer(matrix)]
    )
    found = [pa.array(columns[name], pa.string()) for name in text]
    return pa.RecordBatch.from_arrays([rows, *found], [_NUMBERS, *text])


def _unpacked(batch: Any, numeric: Sequence[str], text: Sequence[str]) -> Columns:
    rows = batch.column(0)
    matrix = np.frombuffer(rows.buffers()[1] or b"", dtype=np.float64)
    matrix = matrix[rows.offset * len(numeric) :][: len(rows) * len(numeric)]
    columns = dict(zip(numeric, matrix.reshape(len(rows), -1).T, strict=True)) if numeric else {}
    for place, name in enumerate(text, start=1):
        columns[name] = np.array(batch.column(place).to_pylist(), dtype=object)
    return columns
