"""Tables in files, as arrays. A new format is one more entry of ``FORMATS``."""

import csv
import gzip
import io
import math
import os
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from replearn.errors import ReplearnError

#: Told from time to time which share of a file has been read.
Watch = Callable[[float], None]

_ROWS_PER_CALL = 4096  # of a Watch
_CSR_KEYS = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a file.

    Attributes
    ----------
    X : float array or CSR array of shape (n_rows, n_columns)
        Finite numbers.
    y : array of shape (n_rows,), or None if no label column was asked for
        Labels as integers, if all of them are; else as floats or text.
    names : tuple of str, or None if the file has no column names
    """

    X: Any
    y: NDArray[Any] | None
    names: tuple[str, ...] | None


def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    columns: Sequence[str] | None = None,
    watch: Watch | None = None,
) -> Table:
    """Read a numeric table with or without labels.

    Parameters
    ----------
    path : path
        ``.npz`` with the arrays ``X`` and ``y`` (or ``data``, ``indices``, ``indptr``, ``shape``
        of a CSR matrix, and ``y``; ``feature_names`` if there are names), or ``.csv`` or
        ``.csv.gz`` with a header row.
    target : str, optional
        Label column. Without it a CSV file has no labels, and those of an ``.npz`` file are
        its ``y``, if there is one.
    columns : sequence of str, optional
        Feature columns to take, in this order; default all but the target. A file without column
        names is taken as it is.
    watch : callable, optional
        Called with the share of the file that has been read.

    Returns
    -------
    Table

    Raises
    ------
    ReplearnError
        If the file cannot be read or holds anything but finite numbers and labels.
    """
    place = Path(path)
    suffix = next((end for end in FORMATS if place.name.lower().endswith(end)), None)
    if suffix is None:
        raise ReplearnError(
            f"{path} must end in one of {', '.join(FORMATS)}. Convert it, or rename it if it "
            "has one of these formats."
        )
    try:
        return FORMATS[suffix](place, target, columns, watch or _nobody)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as problem:
        reason = getattr(problem, "strerror", None) or str(problem) or "it ends too early"
        raise ReplearnError(
            f"{path} cannot be read: {reason}. Check the path, and that the file is complete."
        ) from None


def read_columns(
    path: str | os.PathLike[str], target: str | None = None, watch: Watch | None = None
) -> tuple[dict[str, NDArray[Any]], NDArray[Any] | None]:
    """Read raw columns by name, numbers and text, for a protocol to encode.

    An empty cell is a missing value. Files other than CSV have numbers only.

    Returns
    -------
    columns : dict of arrays
        Float arrays, NaN for a missing value; object arrays of text, None for a missing value.
    y : array or None
    """
    place = Path(path)
    if not place.name.lower().endswith((".csv", ".csv.gz")):
        table = read_table(path, target, watch=watch)
        names = table.names or tuple(f"x{i}" for i in range(table.X.shape[1]))
        return dict(zip(names, np.asarray(table.X).T, strict=True)), table.y
    with place.open("rb") as raw, _as_text(place, raw) as text:
        lines = _lines(place, text)
        _, names_found = next(lines, (1, []))
        _check_header(place, names_found)
        _choose(place, names_found, target, None)
        rows = [cells for _, cells in lines]
    if not rows:
        raise ReplearnError(f"{path} must have rows below its header, got none. Check the file.")
    columns = dict(zip(names_found, zip(*rows, strict=True), strict=True))
    y = None if target is None else _typed_labels(list(columns.pop(target)))
    return {name: _typed_column(cells) for name, cells in columns.items()}, y


def _typed_column(cells: Sequence[str]) -> NDArray[Any]:
    """Numbers if every cell that is not empty is one, else text."""
    try:
        return np.array([float(cell) if cell.strip() else np.nan for cell in cells])
    except ValueError:
        return np.array([cell if cell.strip() else None for cell in cells], dtype=object)


def _nobody(share: float) -> None:
    """A Watch that nobody watches."""


def _choose(
    path: Path, names: Sequence[str], target: str | None, columns: Sequence[str] | None
) -> list[int]:
    """Places of the feature columns."""
    asked = [*(columns or ()), *([] if target is None else [target])]
    absent = [name for name in asked if name not in names]
    if absent:
        listed = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
        raise ReplearnError(
            f"{path} has no column {absent[0]!r}; its columns are {listed}. Name one of "
            "these, or rename the column in the file."
        )
    wanted = [name for name in names if name != target] if columns is None else columns
    if not wanted:
        raise ReplearnError(f"{path} must have a feature column besides {target!r}, got none.")
    place = {name: i for i, name in enumerate(names)}
    return [place[name] for name in wanted]


# --- comma-separated text ---------------------------------------------------------------------


def _read_csv(path: Path, target: str | None, columns: Sequence[str] | None, watch: Watch) -> Table:
    with path.open("rb") as raw, _as_text(path, raw) as text:
        lines = _lines(path, text)
        _, names = next(lines, (1, []))
        _check_header(path, names)
        chosen = _choose(path, names, target, columns)
        size = max(1, path.stat().st_size)
        numbers, labels = _cells(
            path, names, chosen, target, lines, lambda: watch(raw.tell() / size)
        )
    if not numbers:
        raise ReplearnError(f"{path} must have rows below its header, got none. Check the file.")
    X = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(chosen))
    y = None if target is None else _typed_labels(labels)
    return Table(X, y, tuple(names[i] for i in chosen))


def _cells(
    path: Path,
    names: list[str],
    chosen: list[int],
    target: str | None,
    lines: Iterator[tuple[int, list[str]]],
    report: Callable[[], None],
) -> tuple["array[float]", list[str]]:
    """Numbers of all rows, one after the other, and their labels."""
    numbers, labels = array("d"), []
    take = itemgetter(*chosen) if len(chosen) > 1 else lambda cells: (cells[chosen[0]],)
    label_place = None if target is None else names.index(target)
    for n_rows, (line, cells) in enumerate(lines, start=1):
        if len(cells) != len(names):
            raise ReplearnError(
                f"{path}, line {line} must have {len(names)} cells like the header, got "
                f"{len(cells)}. Repair the line, or quote cells that contain commas."
            )
        numbers.extend(_floats(take(cells), path, line, names, chosen))
        if label_place is not None:
            if not cells[label_place].strip():
                raise _bad_cell(path, line, names[label_place], "", "hold a label")
            labels.append(cells[label_place])
        if n_rows % _ROWS_PER_CALL == 0:
            report()
    return numbers, labels


def _as_text(path: Path, raw: Any) -> io.TextIOWrapper:
    unpacked: Any = gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw
    return io.TextIOWrapper(unpacked, encoding="utf-8-sig", newline="")


def _lines(path: Path, text: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row; empty lines are allowed at the end only."""
    reader = csv.reader(text)
    empty: int | None = None
    try:
        for cells in reader:
            if not cells:
                empty = empty or reader.line_num
                continue
            if empty is not None:
                raise ReplearnError(
                    f"{path}, line {empty} must not be empty, since rows follow it. Remove it."
                )
            yield reader.line_num, cells
    except UnicodeDecodeError as problem:
        raise ReplearnError(
            f"{path} must be UTF-8 text, got the byte 0x{problem.object[problem.start]:02x} near "
            f"line {reader.line_num + 1}. Save it as UTF-8."
        ) from None
    except csv.Error as problem:
        raise ReplearnError(
            f"{path}, line {reader.line_num} must be comma-separated text: {problem}. "
            "Repair the line."
        ) from None


def _check_header(path: Path, names: list[str]) -> None:
    if not names:
        raise ReplearnError(f"{path} must have a header row, got an empty file. Check the path.")
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise ReplearnError(
                f"{path} must name every column, but column {number} has no name. Name it, or "
                "leave it out if it numbers the rows (pandas: to_csv(..., index=False))."
            )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ReplearnError(
            f"{path} must have different column names, got {twice!r} twice. Rename one of them."
        )


def _floats(
    cells: Sequence[str], path: Path, line: int, names: list[str], chosen: list[int]
) -> list[float]:
    """Numbers of one row."""
    try:
        values = [float(cell) for cell in cells]
        if math.isfinite(sum(values)):
            return values
    except ValueError:
        values = []
    for cell, place in zip(cells, chosen, strict=True):
        if not _is_finite(cell):
            raise _bad_cell(path, line, names[place], cell, "be a finite number")
    return values  # finite, but their sum is not


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _bad_cell(path: Path, line: int, column: str, cell: str, rule: str) -> ReplearnError:
    value = f"{cell[:40]!r}" if cell.strip() else "an empty cell"
    return ReplearnError(
        f"{path}, line {line}, column {column!r} must {rule}, got {value}. Correct it, or leave "
        "out the row or the column."
    )


def _typed_labels(labels: list[str]) -> NDArray[Any]:
    """Labels as integers if all of them are, else as floats, else as text."""
    different = set(labels)
    for kind in (int, float):
        try:
            values = {label: kind(label) for label in different}
        except ValueError:
            continue
        return np.array([values[label] for label in labels])
    return np.array(labels)


# --- NumPy archives ---------------------------------------------------------------------------


def _read_npz(path: Path, target: str | None, columns: Sequence[str] | None, watch: Watch) -> Table:
    arrays = _load_arrays(path, ("X", *_CSR_KEYS, "format", "feature_names", target or "y"))
    X = _csr(path, arrays) if "X" not in arrays else _numbers(path, "X", arrays["X"])
    if X.ndim != 2 or 0 in X.shape:
        raise ReplearnError(
            f"{path}: X must have rows and columns, got the shape {X.shape}. Check the file."
        )
    _check_finite(path, X)
    names = _array_names(path, arrays.get("feature_names"), X.shape[1])
    if columns is not None and names is not None:
        chosen = _choose(path, names, None, columns)
        X, names = X[:, chosen], tuple(columns)
    watch(1.0)
    return Table(X, _array_labels(path, arrays, target, X.shape[0]), names)


def _load_arrays(path: Path, keys: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that are there; nothing is unpickled."""
    try:
        with path.open("rb") as raw:
            archive = np.load(raw, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("it is a single array")
            return {key: archive[key] for key in keys if key in archive.files}
    except ValueError as problem:
        raise ReplearnError(
            f"{path} must be a NumPy archive of named arrays, without pickled objects: "
            f"{_one_line(problem)}. Write it with numpy.savez(path, X=X, y=y)."
        ) from None


def _numbers(path: Path, name: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "biuf":
        raise ReplearnError(
            f"{path}: {name} must hold numbers, got an array of type {values.dtype}. Encode text "
            "as numbers first."
        )
    return values


def _csr(path: Path, arrays: dict[str, NDArray[Any]]) -> Any:
    absent = [key for key in _CSR_KEYS if key not in arrays]
    if absent:
        raise ReplearnError(
            f"{path} must hold the array X, or those of a CSR matrix, but {absent[0]!r} is not in "
            "it. Write it with numpy.savez(path, X=X, y=y)."
        )
    layout = arrays.get("format", np.array("csr")).item()
    data, indices, indptr, shape = (_numbers(path, key, arrays[key]) for key in _CSR_KEYS)
    try:
        if layout not in ("csr", b"csr"):
            raise ValueError(f"the format is {layout!r}")
        X = sp.csr_array(
            (data.astype(np.promote_types(data.dtype, np.float32)), indices, indptr),
            shape=tuple(int(size) for size in shape),
        )
        X.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as problem:
        raise ReplearnError(
            f"{path} must hold a valid CSR matrix: {_one_line(problem)}. Write its data, indices, "
            "indptr and shape anew."
        ) from None
    X.sum_duplicates()
    return X


def _check_finite(path: Path, X: Any) -> None:
    values = X.data if sp.issparse(X) else X
    if values.dtype.kind != "f":
        return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sp.issparse(X):
        place = int(np.argmax(bad))
        row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        column, value = int(X.indices[place]), values[place]
    else:
        row, column = (int(i) for i in np.unravel_index(np.argmax(bad), X.shape))
        value = X[row, column]
    raise ReplearnError(
        f"{path}: X must hold finite numbers, got {value} in row {row}, column {column} (counted "
        "from 0). Fill it in, or leave out the row or the column."
    )


def _array_names(path: Path, names: NDArray[Any] | None, n_columns: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if names.shape != (n_columns,) or names.dtype.kind != "U":
        raise ReplearnError(
            f"{path}: feature_names must be {n_columns:,} strings, one per column, got shape "
            f"{names.shape} of type {names.dtype}. Correct them, or leave them out."
        )
    return tuple(names.tolist())


def _array_labels(
    path: Path, arrays: dict[str, NDArray[Any]], target: str | None, n_rows: int
) -> NDArray[Any] | None:
    key = target or "y"
    if key not in arrays:
        if target is None:
            return None
        raise ReplearnError(f"{path} has no array {key!r}. Name the array that holds the labels.")
    labels = arrays[key]
    if labels.shape != (n_rows,) or labels.dtype.kind not in "biufU":
        raise ReplearnError(
            f"{path}: {key} must be {n_rows:,} labels (numbers or text), one per row, got shape "
            f"{labels.shape} of type {labels.dtype}. Correct it."
        )
    return labels


def _one_line(problem: Exception) -> str:
    return " ".join(str(problem).split()).rstrip(".")


FORMATS: dict[str, Callable[[Path, str | None, Sequence[str] | None, Watch], Table]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
}
