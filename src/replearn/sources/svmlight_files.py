"""Sparse rows in the text format of svmlight: ``label index:value ...``, columns from 1 on.

Lines are parsed by scikit-learn, block by block. A block that it does not take is read line by
line here, to say what is wrong with which line, or to read what is odd but valid.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.sources.common import Piece, Request, Source, arrow, rows_per_batch
from replearn.sources.text import blocks, lines_from_row, one_after_another, to_arrow

MAX_COLUMNS = 2**24

#: More must be asked for: memory grows with the columns, and a single number makes many of them.
MAX_COLUMNS_UNASKED = 2**20

_INDEX = re.compile(rb"(?<!\S)\+?(\d+):")


@dataclass(frozen=True, kw_only=True)
class SvmlightSource(Source):
    """A table in svmlight files.

    The files do not say how many columns there are: a study must fix it, since the largest column
    that one lab has in its rows need not be that of another lab.
    """

    n_columns: int  # before encoding
    has_own_labels: ClassVar[bool] = True
    header: ClassVar[bytes] = b""

    def _rows(self, start: int) -> Iterator[tuple[float, int, list[bytes]]]:
        """Share read, first row and lines that are rows."""
        found = one_after_another(self.paths, lambda number: _row_blocks(self.paths[number]))
        return lines_from_row(found, start, rows_per_batch(1))

    def _batches(self, start: int) -> Iterator[tuple[float, Any]]:
        arrow()
        for share, _, lines in self._rows(start):
            yield share, to_arrow(lines)

    def _pieces(self, start: int) -> Iterator[tuple[float, Piece]]:
        for share, first_row, lines in self._rows(start):
            yield share, self._parse(lines, first_row)

    def parse(self, batch: Any, first_row: int) -> Piece:
        """Numbers and labels of a batch; ``first_row`` is its place in the table."""
        return self._parse(batch.column("record").to_pylist(), first_row)

    def _parse(self, lines: list[bytes], first_row: int) -> Piece:
        try:
            n = self.n_columns
            X, y = parsed_by_sklearn(lines, n) or parsed_by_lines(lines, n)
        except BadLine as bad:
            where = self._locate(first_row + bad.row, lines[bad.row])
            raise ReplearnError(f"{where} must {bad.complaint}") from None
        if self.encoding is not None:
            X, seen = self.encoding.counted(X)
            return Piece(_canonical(X), y, first_row, seen)
        return Piece(X, y, first_row)

    def _locate(self, row: int, line: bytes) -> str:
        """File and line of a row, for a message; the file is read once more for this.

        A line that is not found there (rows may have been put in another order) is told by its
        place among the rows.
        """
        left = row
        for path in self.paths:
            found = (line for _, lines in blocks(path) for line in lines)
            for number, other in enumerate(found, start=1):
                if not _is_row(other):
                    continue
                if left == 0 and other == line:
                    return f"{path}, line {number}"
                left -= 1
        return f"{self.place}, record {row} (counted from 0)"


class BadLine(Exception):
    """A line that is no row of the table; ``complaint`` follows "must" in a message."""

    def __init__(self, row: int, complaint: str) -> None:
        super().__init__(row, complaint)
        self.row, self.complaint = row, complaint


def open_svmlight(request: Request) -> SvmlightSource:
    """Look for the number of columns, if it is not given: this reads the files once."""
    place, encoding = request.place, request.encoding
    if request.target is not None and not request.raw:
        raise ReplearnError(
            f"{place} has its labels at the start of each line, got the label column "
            f"{request.target!r}. Leave out the name of the label column."
        )
    n_columns = _n_columns(request)
    if not 1 <= n_columns <= MAX_COLUMNS:
        raise ReplearnError(
            f"{place} must have 1 to {MAX_COLUMNS:,} columns, got {n_columns:,}. Number the "
            "columns without gaps, or leave out those that are not needed."
        )
    return SvmlightSource(
        place=place,
        paths=request.paths,
        target=None,
        encoding=encoding,
        raw=request.raw,
        names=None if encoding is None else encoding.output_names,
        n_features=n_columns if encoding is None else encoding.n_outputs,
        sparse=True,
        n_columns=n_columns,
    )


def _n_columns(request: Request) -> int:
    if request.n_features is not None:
        return request.n_features
    if request.encoding is not None:
        return len(request.encoding.columns)
    if request.columns is not None:
        return len(request.columns)
    if request.raw:
        return 1
    largest = max(_largest_index(path) for path in request.paths)
    if MAX_COLUMNS_UNASKED < largest <= MAX_COLUMNS:
        raise ReplearnError(
            f"{request.place} must have at most {MAX_COLUMNS_UNASKED:,} columns unless their "
            f"number is given, got column {largest:,}. Give the number of columns (n_features, "
            "--features)."
        )
    return largest


def _row_blocks(path: str) -> Iterator[tuple[float, list[bytes]]]:
    for share, lines in blocks(path):
        found = [line for line in lines if _is_row(line)]
        if found:
            yield share, found


def _is_row(line: bytes) -> bool:
    """Whether a line has more than blanks and a comment."""
    return line[0] > ord("#") or bool(line.partition(b"#")[0].strip())


def _largest_index(path: str) -> int:
    largest = 0
    for _, lines in blocks(path):
        content = b"\n".join(line.partition(b"#")[0] for line in lines)
        largest = max(largest, *map(_bounded, _INDEX.findall(content)), 0)
    return largest


def _bounded(digits: bytes) -> int:
    """A number, or one that is too large if it has too many digits."""
    return int(digits) if len(digits) < 16 else MAX_COLUMNS + 1


def parsed_by_sklearn(lines: list[bytes], n_columns: int) -> tuple[Any, NDArray[np.float64]] | None:
    """Rows and labels, or None if the lines must be looked at one by one.

    All that is taken here is taken by ``parsed_by_lines``, with the same values.
    """
    from sklearn.datasets import load_svmlight_file

    content = b"".join(lines)
    # scikit-learn reads 1_0 as 10, leaves out qid, and stops at a zero byte
    if not lines or b"_" in content or b"qid" in content or b"\0" in content:
        return None
    try:
        X, y = load_svmlight_file(
            io.BytesIO(content), n_features=n_columns, dtype=np.float64, zero_based=False
        )
    except (ValueError, OverflowError):
        return None
    if X.shape[0] != len(lines) or not np.isfinite(X.data).all() or not np.isfinite(y).all():
        return None
    return _canonical(X), y


def parsed_by_lines(lines: list[bytes], n_columns: int) -> tuple[Any, NDArray[np.float64]]:
    """Rows and labels, or a word about what is wrong."""
    import scipy.sparse as sp

    labels = np.empty(len(lines))
    data: list[float] = []
    indices: list[int] = []
    ends = [0]
    for row in range(len(lines)):
        label, *cells = lines[row].partition(b"#")[0].split()
        labels[row] = _number(row, label, "start with a label that is a finite number")
        pairs = sorted(_pair(row, cell, n_columns) for cell in cells)
        for (index, _), (following, _) in pairwise(pairs):
            if index == following:
                raise BadLine(row, f"have each column once, got {index} twice. Repair the line.")
        indices += [index - 1 for index, _ in pairs]
        data += [value for _, value in pairs]
        ends.append(len(indices))
    X = sp.csr_array(
        (np.array(data, dtype=np.float64), np.array(indices, dtype=np.int32), np.array(ends)),
        shape=(len(lines), n_columns),
    )
    return _canonical(X), labels


def _pair(row: int, cell: bytes, n_columns: int) -> tuple[int, float]:
    """Column, counted from 1, and value."""
    index, colon, value = cell.partition(b":")
    if index == b"qid":
        raise BadLine(row, "have no qid, which is for ranking. Leave it out.")
    if not colon or not index.removeprefix(b"+").isdigit():
        raise BadLine(
            row,
            f"have cells like 3:0.5 (column, colon, value) after the label, got {_quoted(cell)}. "
            "Repair the line.",
        )
    column = _bounded(index.removeprefix(b"+").lstrip(b"0") or b"0")
    if column == 0:
        raise BadLine(row, "count columns from 1, got column 0. Add 1 to all columns.")
    if column > n_columns:
        raise BadLine(
            row,
            f"have columns up to {n_columns}, the number that was given, got column "
            f"{_quoted(index)}. Leave it out, or fix a larger number of columns for the whole "
            "study.",
        )
    return column, _number(row, value, "have finite numbers")


def _number(row: int, text: bytes, rule: str) -> float:
    try:
        value = np.nan if b"_" in text else float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise BadLine(row, f"{rule}, got {_quoted(text)}. Correct it, or leave it out.")
    return value


def _quoted(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))


def _canonical(X: Any) -> Any:
    """As a CSR array with sorted 32-bit indices."""
    import scipy.sparse as sp

    X = sp.csr_array(X)
    X.sort_indices()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X
