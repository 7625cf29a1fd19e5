"""NumPy archives. They are read as a whole; what they declare is checked before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.files.arrays import ArrayFile, BadArrays, Header, open_arrays
from replearn.sources.common import (
    Piece,
    Request,
    Source,
    columns_to_read,
    one_line,
    reading,
    rows_per_batch,
)
from replearn.types import refuse_not_finite

_CSR_KEYS = ("data", "indices", "indptr", "shape")
_MEMORY_IF_UNKNOWN = 2**36


@dataclass(frozen=True, kw_only=True)
class NpzSource(Source):
    """A table in a NumPy archive."""

    chosen: tuple[int, ...] | None  # columns that are taken; None: all
    in_memory_only: ClassVar[bool] = True

    def load(self) -> Piece:
        """All rows and labels."""
        (path,) = self.paths
        keys = ("X",) if not self.sparse else _CSR_KEYS
        with _archive(path) as archive:
            headers = archive.headers
            asked = [*keys, "format", *([] if self.target is None else [self.target])]
            found = {key: headers[key] for key in asked if key in headers}
            _check_memory(path, found)
            arrays = {key: archive.read(key) for key in found}
        if self.sparse:
            X = _csr(path, arrays)
        else:  # 32-bit floats stay that, shorter ones become that
            numbers = arrays["X"]
            single = numbers.dtype.kind == "f" and numbers.dtype.itemsize <= 4
            X = np.ascontiguousarray(numbers, dtype=np.float32 if single else np.float64)
        refuse_not_finite(X, partial(_not_finite, path))
        if self.chosen is not None:
            X = X[:, list(self.chosen)]
        seen = None
        if self.encoding is not None:
            X, seen = self.encoding.counted(X)
            refuse_not_finite(X, partial(_not_finite, path))
        y = None if self.target is None else arrays[self.target]
        return Piece(X if self.sparse else np.ascontiguousarray(X), y, 0, seen)

    def _pieces(self, start: int) -> Iterator[tuple[float, Piece]]:
        whole = self.load()
        n_rows = whole.X.shape[0]
        most = rows_per_batch(1 if self.sparse else self.n_features)
        for first in range(start, n_rows, most):
            stop = min(first + most, n_rows)
            y = None if whole.y is None else whole.y[first:stop]
            seen = whole.seen if first == start else None  # once: it is that of all rows
            yield stop / n_rows, Piece(whole.X[first:stop], y, first, seen)

    def _batches(self, start: int) -> Iterator[tuple[float, Any]]:
        raise self._no_batches()

    def parse(self, batch: Any, first_row: int) -> Piece:
        """Not for this format, which has no batches."""
        raise self._no_batches()

    def _no_batches(self) -> ReplearnError:
        return ReplearnError(
            f"{self.place} is read as a whole and has no batches. Use its pieces, or write the "
            "rows as a Parquet file."
        )


def open_npz(request: Request) -> NpzSource:
    """Look at the headers of the arrays in an archive."""
    if len(request.paths) > 1:
        raise ReplearnError(
            f"{request.place} must hold one .npz file, since it is read as a whole, got "
            f"{len(request.paths)}. Write the rows as Parquet files."
        )
    (path,) = request.paths
    encoding = request.encoding
    with _archive(path) as archive:
        headers = archive.headers
        sparse = "X" not in headers
        shape = _csr_shape(path, archive) if sparse else headers["X"].shape
        if len(shape) != 2 or 0 in shape:
            raise ReplearnError(
                f"{path}: X must have rows and columns, got the shape {shape}. Check the file."
            )
        names = _names(path, archive, shape[1])
    numbers = headers["data" if sparse else "X"]
    if numbers.kind not in "biuf":
        raise ReplearnError(
            f"{path}: {'data' if sparse else 'X'} must hold numbers, got an array of type "
            f"{numbers.dtype}. Encode text as numbers first."
        )
    chosen = None
    if names is not None and (request.columns is not None or encoding is not None):
        wanted = columns_to_read(replace(request, target=None), path, names)
        chosen, names = tuple(names.index(name) for name in wanted), wanted
    n_columns = shape[1] if chosen is None else len(chosen)
    if encoding is not None and len(encoding.columns) != n_columns:
        raise ReplearnError(
            f"{path}: X must have {len(encoding.columns)} columns, as in the protocol, got "
            f"{n_columns}."
        )
    single = encoding is None and numbers.kind == "f" and numbers.itemsize < 8
    return NpzSource(
        place=request.place,
        paths=(path,),
        target=_label_key(path, headers, request.target, shape[0]),
        encoding=encoding,
        raw=request.raw,
        names=names if encoding is None else encoding.output_names,
        n_features=n_columns if encoding is None else encoding.n_outputs,
        n_rows=shape[0],
        sparse=sparse,
        itemsize=4 if single else 8,
        chosen=chosen,
    )


@contextmanager
def _archive(path: str) -> Iterator[ArrayFile]:
    """An open archive; what is wrong with it comes out in one line."""
    try:
        with reading(path), open_arrays(path) as archive:
            yield archive
    except BadArrays as problem:
        raise ReplearnError(
            f"{path} must be a NumPy archive of named arrays, without pickled objects: {problem}. "
            "Write it with numpy.savez(path, X=X, y=y)."
        ) from None


def _check_memory(path: str, headers: dict[str, Header]) -> None:
    """Refuse what does not fit into the machine before anything of it is read."""
    needed, there = sum(header.nbytes for header in headers.values()), _machine_memory()
    if needed > there:
        raise ReplearnError(
            f"{path} needs {needed / 2**30:,.1f} GiB of memory, and this machine has "
            f"{there / 2**30:,.1f} GiB. Write the rows as a Parquet file, which is read piece by "
            "piece."
        )


def _machine_memory() -> int:
    if not hasattr(os, "sysconf"):
        return _MEMORY_IF_UNKNOWN
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _csr_shape(path: str, archive: ArrayFile) -> tuple[int, ...]:
    headers = archive.headers
    absent = [key for key in _CSR_KEYS if key not in headers]
    if absent:
        raise ReplearnError(
            f"{path} must hold the array X, or those of a CSR matrix, but {absent[0]!r} is not in "
            "it. Write it with numpy.savez(path, X=X, y=y)."
        )
    for key in _CSR_KEYS:
        if len(headers[key].shape) != 1 or (key != "data" and headers[key].kind not in "iu"):
            raise _invalid_csr(path, f"{key} has the wrong shape or type")
    if headers["shape"].shape != (2,):
        raise _invalid_csr(path, f"it has {headers['shape'].shape[0]} dimensions")
    layout = headers.get("format", Header((), "S3"))
    if layout.shape != () or layout.nbytes > 64:
        raise _invalid_csr(path, "its format has no name")
    if "format" in headers and (name := archive.read("format").item()) not in ("csr", b"csr"):
        raise _invalid_csr(path, f"the format is {name!r}")
    n_rows, n_columns = (int(size) for size in archive.read("shape"))
    if headers["indptr"].shape != (n_rows + 1,) or not 0 <= n_columns < 2**31:
        raise _invalid_csr(path, "its shape does not fit its rows")
    return n_rows, n_columns


def _csr(path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    data, indices, indptr, shape = (arrays[key] for key in _CSR_KEYS)
    _check_places(path, indices, indptr, data.size, int(shape[1]))
    import scipy.sparse as sp

    try:
        X = sp.csr_array(
            (
                data.astype(np.promote_types(data.dtype, np.float32)),
                indices.astype(np.int64),
                indptr.astype(np.int64),
            ),
            shape=tuple(int(size) for size in shape),
        )
        X.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as problem:
        raise _invalid_csr(path, one_line(problem)) from None
    X.sum_duplicates()
    return X


def _check_places(
    path: str, indices: NDArray[Any], indptr: NDArray[Any], n_entries: int, n_columns: int
) -> None:
    """Refuse places outside of the matrix: SciPy's own checks miss those of unsigned integers."""
    if (
        indptr.size == 0
        or indices.size != n_entries
        or indptr[0] != 0
        or indptr[-1] != n_entries
        or (indptr[1:] < indptr[:-1]).any()
        or (n_entries > 0 and not (indices.min() >= 0 and indices.max() < n_columns))
    ):
        raise _invalid_csr(path, "its rows or columns do not fit its entries")


def _invalid_csr(path: str, reason: str) -> ReplearnError:
    return ReplearnError(
        f"{path} must hold a valid CSR matrix: {reason}. Write its data, indices, indptr and "
        "shape anew."
    )


def _not_finite(path: str, row: int, column: int, value: float) -> ReplearnError:
    return ReplearnError(
        f"{path}: X must hold finite numbers, got {value} in row {row}, column {column} (counted "
        "from 0). Fill it in, or leave out the row or the column."
    )


def _names(path: str, archive: ArrayFile, n_columns: int) -> tuple[str, ...] | None:
    if "feature_names" not in archive.headers:
        return None
    header = archive.headers["feature_names"]
    if header.shape != (n_columns,) or header.kind != "U":
        raise ReplearnError(
            f"{path}: feature_names must be {n_columns:,} strings, one per column, got shape "
            f"{header.shape} of type {header.dtype}. Correct them, or leave them out."
        )
    _check_memory(path, {"feature_names": header})
    return tuple(archive.read("feature_names").tolist())


def _label_key(
    path: str, headers: dict[str, Header], target: str | None, n_rows: int
) -> str | None:
    """Name of the array of labels."""
    key = target or "y"
    if key not in headers:
        if target is None:
            return None
        raise ReplearnError(f"{path} has no array {key!r}. Name the array that holds the labels.")
    if headers[key].shape != (n_rows,) or headers[key].kind not in "biufU":
        raise ReplearnError(
            f"{path}: {key} must be {n_rows:,} labels (numbers or text), one per row, got shape "
            f"{headers[key].shape} of type {headers[key].dtype}. Correct it."
        )
    return key
