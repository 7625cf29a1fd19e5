"""Columns to a matrix of finite numbers, encoded if there is an encoding."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import CategoryColumn, EncodedColumns, Encoding, NumberColumn, Seen
from replearn.errors import ReplearnError
from replearn.kernels.columns import ScaledColumns
from replearn.sources.common import PROTOCOL_REMEDY, total_seen
from replearn.types import Matrix

_CACHED_NUMBERS = 2**19  # 4 MiB: fewer take longer to add up

_REMEDY = f"Correct it, leave out the row or the column, or {PROTOCOL_REMEDY}"


class BadCell(Exception):
    """A cell that is not what it must be; its row is that in the batch.

    The reader of the format says where it is.
    """

    def __init__(self, row: int, column: str, rule: str, remedy: str) -> None:
        super().__init__(row, column, rule, remedy)
        self.row, self.column, self.rule, self.remedy = row, column, rule, remedy


def not_a_number(row: int, column: str, encoding: Encoding | None) -> BadCell:
    """A cell that cannot be read as a number."""
    if encoding is None:
        return BadCell(row, column, "be a finite number", _REMEDY)
    remedy = "Correct it, or make a protocol in which the column is a category"
    return BadCell(row, column, "be a finite number, as in the protocol", remedy)


def category_names(encoding: Encoding | None) -> set[str]:
    """Columns of an encoding that hold categories."""
    columns = () if encoding is None else encoding.columns
    return {column.name for column in columns if isinstance(column, CategoryColumn)}


def check_labels(labels: NDArray[Any], column: str) -> None:
    """Refuse a row without a label: None among objects, NaN among floats."""
    if labels.dtype == object:
        missing = labels == None  # noqa: E711 (element by element)
    elif labels.dtype.kind == "f":
        missing = np.isnan(labels)
    else:
        return
    if missing.any():
        raise BadCell(
            int(np.argmax(missing)), column, "hold a label", "Fill it in, or leave out the row"
        )


def as_matrix(
    columns: Mapping[str, NDArray[Any]], names: Sequence[str], encoding: Encoding | None, dtype: Any
) -> tuple[NDArray[Any], Seen | None]:
    """Rows as a C-contiguous float array, all finite; what was missing or unknown before encoding.

    Columns are numbers with NaN for a missing value, and for categories objects with None. Without
    an encoding those of ``names`` are taken, in this order, and become numbers of type ``dtype``.
    """
    if encoding is None:
        return _laid_out([columns[name] for name in names], names, dtype), None
    try:
        X, seen, finite = encoding.encoded(columns)
    except ReplearnError:  # said better by the reader, who knows where it is
        _check_numbers(encoding, columns)
        raise
    if not finite:
        _check_numbers(encoding, columns)
        # the numbers are finite, so scaling made them too large
        row, place = np.argwhere(~np.isfinite(X))[0]
        name = encoding.output_names[place]
        raise BadCell(int(row), name, "be finite after scaling by the protocol", "Correct it")
    return X, seen


class ColumnRows:
    """Encoded rows that are written when they are asked for: ``X[rows]`` is an array.

    For who looks at each row once, some at a time: what is written is then still in a cache when it
    is used. ``at_once`` rows are best asked for together. ``located`` makes an error of a
    `BadCell`: the first of all rows, as if all had been written at once.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        encoding: Encoding,
        located: Callable[[BadCell], ReplearnError],
    ) -> None:
        self._columns, self._encoding, self._located = columns, encoding, located
        try:
            self._ready = EncodedColumns(encoding, columns)
        except ReplearnError:
            self.check()
            raise
        self.shape = self._ready.n_rows, encoding.n_outputs
        self.at_once = max(1, _CACHED_NUMBERS // max(1, encoding.n_outputs))
        self._seen: dict[int, Seen] = {}

    def __getitem__(self, rows: slice) -> Matrix:
        start, stop, step = rows.indices(self.shape[0])
        ready = self._ready
        if step != 1:
            some = {name: values[rows] for name, values in self._columns.items()}
            ready, start, stop = EncodedColumns(self._encoding, some), 0, -(-(stop - start) // step)
        try:
            X, seen, finite = ready.rows(start, stop)
        except ReplearnError:
            self.check()
            raise
        if not finite:
            self.check()
        if step == 1:
            self._seen[start] = seen
        return X

    @property
    def seen(self) -> Seen | None:
        """What was missing or unknown in the rows that were asked for, one after the other."""
        return total_seen(self._seen.values())

    def check(self) -> None:
        """Refuse all rows if there is something to refuse in any of them."""
        try:
            as_matrix(self._columns, (), self._encoding, np.float64)
        except BadCell as bad:
            raise self._located(bad) from None


def _laid_out(columns: Sequence[NDArray[Any]], names: Sequence[str], dtype: Any) -> NDArray[Any]:
    """Columns as a C-contiguous matrix of one type, all finite."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is refused like any other
        alike = [column.astype(dtype, copy=False) for column in columns]
    X, n = np.empty((columns[0].size, len(columns)), dtype=dtype), len(columns)
    n_missing, finite = ScaledColumns(alike, np.zeros(n), np.ones(n), np.arange(n)).write(X)
    if n_missing.any() or not finite:
        row, place = np.argwhere(~np.isfinite(np.column_stack(alike)))[0]
        raise not_a_number(int(row), names[place], None)
    return X


def _check_numbers(encoding: Encoding, columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse a cell that is infinite, or missing where it must not be."""
    for column in encoding.columns:
        if not isinstance(column, NumberColumn) or columns[column.name].dtype.kind != "f":
            continue
        missing, infinite = np.isnan(columns[column.name]), np.isinf(columns[column.name])
        if missing.any() and not column.fill_missing:
            raise BadCell(
                int(np.argmax(missing)),
                column.name,
                "not be missing, since the protocol does not say what to do then",
                "Fill it in or leave out the row, or plan with a pilot in which the column has "
                "missing values",
            )
        if infinite.any():
            raise not_a_number(int(np.argmax(infinite)), column.name, encoding)
