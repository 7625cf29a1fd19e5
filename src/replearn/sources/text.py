"""Text files in blocks of whole records, for formats that make numbers of them."""

import csv
import gzip
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.sources.common import (
    Piece,
    Source,
    arrow,
    file_size,
    one_line,
    reading,
    rows_per_batch,
)

BLOCK_BYTES = 2**22
MAX_RECORD_BYTES = 2**26
BYTE_ORDER_MARK = "\ufeff".encode()

Offsets = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Records:
    """Consecutive records as they stand in a file.

    Attributes
    ----------
    data : memoryview
        The bytes of all records, each with its line end.
    offsets : int64 array of shape (n_records + 1,)
        Where in ``data`` each record starts, and where the last one ends.
    """

    data: memoryview
    offsets: Offsets

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, i: int) -> bytes:
        return bytes(self.data[self.offsets[i] : self.offsets[i + 1]])

    @property
    def content(self) -> memoryview:
        """The bytes from the first record to the last."""
        return self.data[self.offsets[0] : self.offsets[-1]]

    def slice(self, start: int, stop: int) -> "Records":
        """Records ``start`` to ``stop``."""
        return Records(self.data, self.offsets[start : stop + 1])

    def take(self, chosen: NDArray[np.bool_]) -> "Records":
        """The chosen records, copied."""
        pieces = [self[int(i)] for i in np.flatnonzero(chosen)]
        return Records(memoryview(b"".join(pieces)), _offsets([len(piece) for piece in pieces]))


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Records of a file that were read at once.

    Attributes
    ----------
    records : Records
    lines : int64 array
        Line of the file, counted from 1, in which each record starts.
    share : float
        Of the file that has been read.
    """

    records: Records
    lines: Offsets
    share: float


@dataclass(frozen=True, kw_only=True)
class TextSource(Source):
    """A table in text files, a record for each row.

    A batch has one column of bytes, ``record``, so its records can be written to a file in any
    order below ``header``.

    Attributes
    ----------
    header : bytes
        The first record of a file, with its line end, if it is no row.
    """

    header: bytes

    @property
    def batch_rows(self) -> int:
        """Rows of a batch at most."""
        return rows_per_batch(1 if self.sparse else self.n_features)

    @abstractmethod
    def _blocks(self, path: str) -> Iterator[TextBlock]:
        """The rows of a file, without what is above and between them."""

    @abstractmethod
    def _parse(self, records: Records, first_row: int) -> Piece:
        """Numbers and labels of records."""

    def parse(self, batch: Any, first_row: int) -> Piece:
        """Numbers and labels of a batch; ``first_row`` is its place in the table."""
        return self._parse(from_arrow(batch), first_row)

    def _batches(self, start: int) -> Iterator[tuple[float, Any]]:
        arrow()
        for share, records in self.records(start):
            yield share, to_arrow(records)

    def _pieces(self, start: int) -> Iterator[tuple[float, Piece]]:
        first_row = start
        for share, records in self.records(start):
            yield share, self._parse(records, first_row)
            first_row += len(records)

    def records(self, start: int = 0) -> Iterator[tuple[float, Records]]:
        """Share read and records, at most as many as a batch has rows."""
        sizes = [max(1, file_size(path)) for path in self.paths]
        most, skip = self.batch_rows, start
        for number, path in enumerate(self.paths):
            for block in self._blocks(path):
                records = block.records
                share = (sum(sizes[:number]) + block.share * sizes[number]) / sum(sizes)
                first = min(skip, len(records))
                skip -= first
                for at in range(first, len(records), most):
                    yield share, records.slice(at, min(at + most, len(records)))

    def locate(self, row: int, record: bytes) -> str:
        """File and line of a row, for a message.

        The file is read once more for this, up to that row; a record that is not found there
        (rows may have been put in another order) is told by its place among the records.
        """
        seen = 0
        for path in self.paths:
            for block in self._blocks(path):
                records = block.records
                if row < seen + len(records):
                    if records[row - seen] != record:
                        return f"{self.place}, record {row} (counted from 0)"
                    return f"{path}, line {block.lines[row - seen]}"
                seen += len(records)
        return f"{self.place}, record {row} (counted from 0)"


def to_arrow(records: Records) -> Any:
    """Records as a batch with one column, which shares their memory."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(records.offsets), pa.py_buffer(records.data)]
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(records), buffers)
    return pa.RecordBatch.from_arrays([column], ["record"])


def from_arrow(batch: Any) -> Records:
    """Records of a batch, wherever its rows come from."""
    import pyarrow as pa

    column = batch.column("record").cast(pa.large_binary())
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[column.offset :][: len(column) + 1]
    return Records(memoryview(data if data is not None else b""), places)


@contextmanager
def opened(path: str) -> Iterator[tuple[Any, Any]]:
    """A file, unpacked if it is compressed, and the file as it is stored."""
    with open(path, "rb") as stored:
        if path.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=stored) as unpacked:
                yield unpacked, stored
        else:
            yield stored, stored


def blocks(path: str, quotes: bool, n_bytes: int = BLOCK_BYTES) -> Iterator[TextBlock]:
    r"""All records of a file in blocks of some megabytes.

    Parameters
    ----------
    path : str
    quotes : bool
        As in comma-separated text: line ends between quote characters do not end a record, and
        a lone ``\r`` is a line end. Otherwise each ``\n`` ends a record.
    n_bytes : int, default=2**22
        That are read at once.
    """
    line = 1
    with reading(path), opened(path) as (file, stored):
        size = max(1, os.fstat(stored.fileno()).st_size)
        left = file.read(len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK)
        while True:
            new = file.read(n_bytes)
            data, final = left + new, not new
            if final and data and not data.endswith((b"\n", b"\r")):
                data += b"\n"
            ends, lines = _record_ends(path, data, line, quotes, final)
            if ends.size:
                records = Records(memoryview(data), np.concatenate([[0], ends]))
                yield TextBlock(records, lines[:-1], min(1.0, stored.tell() / size))
                left, line = data[ends[-1] :], int(lines[-1])
            else:
                left = data
            if len(left) > MAX_RECORD_BYTES:
                raise ReplearnError(
                    f"{path}, line {line} must be shorter than {MAX_RECORD_BYTES >> 20} MiB, got "
                    "more without an end. Check for a quote that is not closed."
                )
            if final:
                return


def _record_ends(
    path: str, data: bytes, line: int, quotes: bool, final: bool
) -> tuple[Offsets, Offsets]:
    """Ends of the complete records; their first lines, and the line below the last of them."""
    ends = _line_ends(data, final, quotes)
    if quotes and b'"' in data:
        try:
            last = _last_lines(data, ends)
        except csv.Error as problem:
            raise ReplearnError(
                f"{path}, line {line} or below must be comma-separated text: {one_line(problem)}. "
                "Repair the line."
            ) from None
    else:
        last = np.arange(ends.size)
    if final and (last[-1] + 1 if last.size else 0) < ends.size:
        raise ReplearnError(
            f"{path}, line {line + (last[-1] + 1 if last.size else 0)} opens a quote that is not "
            "closed before the file ends. Close it, or double a quote that is part of a text."
        )
    return ends[last], line + np.concatenate([[0], last + 1])


def _last_lines(data: bytes, ends: Offsets) -> Offsets:
    """Which of the lines end a record of comma-separated text."""
    view = np.frombuffer(data, dtype=np.uint8)
    quotes = np.flatnonzero(view == ord('"'))
    if _are_plain(view, quotes):
        return np.flatnonzero(np.searchsorted(quotes, ends) % 2 == 0)
    return _last_lines_by_reader(data, ends)


def _are_plain(view: NDArray[np.uint8], quotes: Offsets) -> bool:
    """Whether quotes open only at the start of a cell and close only at its end.

    Then a line end is within quotes if and only if their number before it is odd. A doubled
    quote closes and opens at once.
    """
    opening, closing = quotes[::2], quotes[1::2]
    doubled = closing[: opening.size - 1] + 1 == opening[1:]
    before = view[np.maximum(opening - 1, 0)]
    opens = _is_border(before) | (opening == 0)
    opens[1:] |= doubled
    after = view[np.minimum(closing + 1, view.size - 1)]
    closes = _is_border(after) | (closing == view.size - 1)
    closes[: doubled.size] |= doubled
    return bool(opens.all() and closes.all())


def _is_border(characters: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (characters == ord(",")) | (characters == ord("\n")) | (characters == ord("\r"))


def _last_lines_by_reader(data: bytes, ends: Offsets) -> Offsets:
    """The same, as the standard library reads it."""
    waiting = False

    def lines() -> Iterator[str]:
        nonlocal waiting
        start = 0
        for end in ends.tolist():
            # as Latin-1 each byte is a character, and quotes, commas and line ends are themselves
            yield data[start:end].decode("latin-1")
            start = end
        waiting = True

    found: list[int] = []
    reader = csv.reader(lines())
    for _ in reader:
        if waiting:  # for the end of the last record
            break
        found.append(reader.line_num - 1)
    return np.array(found, dtype=np.int64)


def _line_ends(data: bytes, final: bool, lone_returns: bool) -> Offsets:
    r"""Places after each line end: ``\n``, ``\r\n`` and perhaps a lone ``\r``."""
    view = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(view == ord("\n")) + 1
    if not lone_returns or b"\r" not in data:
        return ends
    returns = np.flatnonzero(view == ord("\r")) + 1
    at_the_end = returns[returns == view.size]
    returns = returns[returns < view.size]
    lone = [returns[view[returns] != ord("\n")]]
    if final:  # otherwise what follows may be \n
        lone.append(at_the_end)
    return np.sort(np.concatenate([ends, *lone]))


def _offsets(lengths: list[int]) -> Offsets:
    return np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))]).astype(np.int64)
