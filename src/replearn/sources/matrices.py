"""Columns to a matrix of finite numbers, encoded if there is an encoding."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import Encoding, NumberColumn, Seen
from replearn.errors import ReplearnError
from replearn.sources.common import PROTOCOL_REMEDY

_REMEDY = f"Correct it, leave out the row or the column, or {PROTOCOL_REMEDY}"
_BLOCK_NUMBERS, _MIN_BLOCK_ROWS = 2**17, 2**11  # 1 MiB, unless that is too few rows to be worth it


class BadCell(Exception):
    """A cell that is not what it must be; the reader of the format says where it is.

    Attributes
    ----------
    row : int
        In the batch.
    column : str
    rule, remedy : str
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
    """Numbers of some rows.

    Parameters
    ----------
    columns : mapping from names to arrays
        Numbers with NaN for a missing value; for categories objects with None.
    names : sequence of str
        The columns to take, in this order, if there is no encoding.
    encoding : Encoding or None
    dtype : float type of the matrix, if there is no encoding

    Returns
    -------
    X : C-contiguous float array of shape (n_rows, n_features), all finite
    seen : Seen or None
        What was missing or unknown, if there is an encoding.
    """
    if encoding is None:
        X, finite = _interleaved([columns[name] for name in names], dtype)
        if not finite:
            raise _first_bad(X, names)
        return X, None
    try:
        X, seen = encoding.counted(columns)
    except ReplearnError:  # said better by the reader, who knows where it is
        _check_numbers(encoding, columns)
        raise
    if not _all_finite(X):
        _check_numbers(encoding, columns)
        # the numbers are finite, so scaling made them too large
        row, place = np.argwhere(~np.isfinite(X))[0]
        name = encoding.output_names[place]
        raise BadCell(int(row), name, "be finite after scaling by the protocol", "Correct it")
    return X, seen


def _interleaved(columns: Sequence[NDArray[Any]], dtype: Any) -> tuple[NDArray[Any], bool]:
    """Columns as a C-contiguous matrix of one type, and whether all of it is finite.

    Some rows at a time: their columns are laid out one after the other where the caches hold
    them, and transposed from there. To write one strided column after the other takes longer.
    """
    n_rows, n_columns = columns[0].size, len(columns)
    step = max(_MIN_BLOCK_ROWS, _BLOCK_NUMBERS // n_columns)
    X = np.empty((n_rows, n_columns), dtype=dtype)
    buffer = np.empty((n_columns, min(step, n_rows)), dtype=dtype)
    finite = True
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        block = buffer[:, : stop - start]
        with np.errstate(invalid="ignore"):  # a signalling NaN is refused like any other
            for row, column in zip(block, columns, strict=True):
                row[:] = column[start:stop]
        finite = finite and _all_finite(block)
        X[start:stop] = block.T
    return X, finite


def _all_finite(values: NDArray[Any]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # no number can repair an infinite or undefined sum
            return True
    return bool(np.isfinite(values).all())


def _first_bad(X: NDArray[Any], names: Sequence[str]) -> BadCell:
    row, place = np.argwhere(~np.isfinite(X))[0]
    return not_a_number(int(row), names[place], None)


def _check_numbers(encoding: Encoding, columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse a cell that is infinite, or missing where it must not be."""
    for column in encoding.columns:
        if isinstance(column, NumberColumn) and columns[column.name].dtype.kind == "f":
            _check_column(column, columns[column.name])


def _check_column(column: NumberColumn, values: NDArray[Any]) -> None:
    missing = np.isnan(values)
    if missing.any() and not column.fill_missing:
        raise BadCell(
            int(np.argmax(missing)),
            column.name,
            "not be missing, since the protocol does not say what to do then",
            "Fill it in or leave out the row, or plan with a pilot in which the column has "
            "missing values",
        )
    infinite = np.isinf(values)
    if infinite.any():
        raise not_a_number(int(np.argmax(infinite)), column.name, Encoding((column,)))
