"""Columns of a table to rows of numbers, moved and scaled on the way, in one pass."""

import numpy as np

from replearn.kernels.compiler import interpreted_as, njit
from replearn.types import IntegerArray, Matrix, Order, Vector

#: Columns that are written together: they fill a cache line of a row, which columns one by one
#: would fetch eight times.
_ABREAST = 8

_AT_ONCE = 256  # rows whose numbers wait in the first-level cache


class ScaledColumns:
    """Columns of a table, ready to be written as rows: ``(column - centre) / scale``, NaN as 0.

    ``places`` says where in a row each column goes.

    Notes
    -----
    Twin: ``scaled_column`` in tests/reference.py; tests in tests/unit/test_columns_kernel.py.
    """

    def __init__(
        self, columns: list[Vector], centres: Vector, scales: Vector, places: Order
    ) -> None:
        if any(column.shape != columns[0].shape for column in columns):
            raise ValueError("columns of a table must be of the same length.")
        ready, self._n_columns = [_read_only(column) for column in columns], len(columns)
        self._groups = []
        for first in range(0, len(columns), _ABREAST):
            here = slice(first, first + _ABREAST)
            some = ready[here]
            padded = (*some, *(some[-1:] * (_ABREAST - len(some))))  # compiled for eight
            self._groups.append((padded, centres[here], scales[here], places[here], here))

    def write(self, X: Matrix, start: int = 0) -> tuple[IntegerArray, bool]:
        """Put the rows from ``start`` on into some columns of X, as many as it has.

        Written fastest if X fits in a cache. Returns how many values of each column are missing,
        and whether all that was written is finite.
        """
        n_missing, n_infinite = np.zeros(self._n_columns, np.int64), 0
        for columns, centres, scales, places, here in self._groups:
            if start + X.shape[0] > columns[0].size:
                raise ValueError("columns of a table must be of the same length.")
            n_infinite += _write(columns, start, centres, scales, places, X, n_missing[here])
        return n_missing, n_infinite == 0


def _read_only(column: Vector) -> Vector:
    """The same memory, marked as columns of Arrow are: numba compiles everything anew otherwise."""
    flags = column.flags
    if flags.writeable or not flags.c_contiguous:
        column = np.ascontiguousarray(column).view()
        column.flags.writeable = False
    return column


def _write_at_once(columns, start, centres, scales, places, X, n_missing):
    """The same, a column at a time."""
    n_infinite = 0
    for i in range(places.size):
        column = columns[i][start : start + X.shape[0]]
        missing = np.isnan(column)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.where(missing, 0.0, (column - centres[i]) / scales[i])
            X[:, places[i]] = scaled
        n_missing[i] += np.count_nonzero(missing)
        n_infinite += int(np.count_nonzero(~np.isfinite(scaled)))
    return n_infinite


@interpreted_as(_write_at_once)
@njit(cache=True, nogil=True)
def _write(columns, start, centres, scales, places, X, n_missing):
    """Write some columns of a tuple of eight; returns how many numbers are not finite."""
    n_infinite, work = 0, np.empty((_ABREAST, _AT_ONCE))
    for first in range(0, X.shape[0], _AT_ONCE):
        m = min(_AT_ONCE, X.shape[0] - first)
        for i in range(places.size):
            column = columns[i][start + first : start + first + m]
            n_odd = _scale(column, centres[i], scales[i], work[i])
            if n_odd > 0:
                n_filled = _fill(column, work[i])
                n_missing[i] += n_filled
                n_infinite += n_odd - n_filled
        _lay_out(work, places, X[first : first + m])
    return n_infinite


@njit(cache=True, nogil=True)
def _lay_out(work, places, X):
    """Write columns of numbers as rows."""
    if places.size == _ABREAST and np.all(places[1:] - places[:-1] == 1):
        place = np.uint64(places[0])  # unsigned: no look for negative indices
        for r in range(X.shape[0]):
            row = X[r]
            for i in range(_ABREAST):
                row[place + np.uint64(i)] = work[np.uint64(i), r]
        return
    for r in range(X.shape[0]):
        for i in range(places.size):
            X[r, places[i]] = work[i, r]


@njit(cache=True, nogil=True, error_model="numpy")  # a look for x/0 would stop vectorisation
def _scale(values, centre, scale, out):
    """Write scaled values; returns how many are NaN or infinite."""
    n_odd = 0
    for r in range(values.size):
        scaled = (values[r] - centre) / scale
        n_odd += scaled - scaled != 0.0
        out[r] = scaled
    return n_odd


@njit(cache=True, nogil=True)
def _fill(values, out):
    """Write 0 for missing values; returns how many there are."""
    n_filled = 0
    for r in range(values.size):
        if values[r] != values[r]:
            out[r] = 0.0
            n_filled += 1
    return n_filled
