"""NumPy archives. They are read as a whole; what they declare is checked before."""

import math
import os
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.sources.common import (
    Piece,
    Request,
    Source,
    columns_to_read,
    one_line,
    reading,
    rows_per_batch,
)

_CSR_KEYS = ("data", "indices", "indptr", "shape")
_MAX_HEADER = 10_000  # bytes; those of arrays of numbers and text have about a hundred
_HEADER = re.compile(  # as NumPy writes it
    r"\{'descr': '([^']*)', 'fortran_order': (?:False|True), 'shape': \(([0-9, ]*)\),? ?\}"
)
_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|[US][0-9]{1,9})")
_MEMORY_IF_UNKNOWN = 2**36


@dataclass(frozen=True)
class Header:
    """What an array in an archive says of itself."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def kind(self) -> str:
        """Letter of the type."""
        return np.dtype(self.dtype).kind

    @property
    def itemsize(self) -> int:
        """Bytes of an entry."""
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return math.prod(self.shape) * self.itemsize


@dataclass(frozen=True, kw_only=True)
class NpzSource(Source):
    """A table in a NumPy archive.

    Attributes
    ----------
    chosen : tuple of int or None
        Columns that are taken, or None for all.
    """

    chosen: tuple[int, ...] | None
    in_memory_only: ClassVar[bool] = True

    def load(self) -> Piece:
        """All rows and labels."""
        (path,) = self.paths
        keys = ("X",) if not self.sparse else _CSR_KEYS
        with _archive(path) as archive:
            headers = _headers(path, archive)
            asked = [*keys, "format", *([] if self.target is None else [self.target])]
            found = {key: headers[key] for key in asked if key in headers}
            _check_memory(path, found)
            arrays = {key: _array(archive, key) for key in found}
        X = _csr(path, arrays) if self.sparse else _as_floats(arrays["X"])
        _check_finite(path, X)
        if self.chosen is not None:
            X = X[:, list(self.chosen)]
        if self.encoding is not None:
            X = self.encoding.transform(X)
            _check_finite(path, X)
        y = None if self.target is None else arrays[self.target]
        return Piece(X if self.sparse else np.ascontiguousarray(X), y, 0)

    def _pieces(self, start: int) -> Iterator[tuple[float, Piece]]:
        whole = self.load()
        n_rows = whole.X.shape[0]
        most = rows_per_batch(1 if self.sparse else self.n_features)
        for first in range(start, n_rows, most):
            stop = min(first + most, n_rows)
            y = None if whole.y is None else whole.y[first:stop]
            yield stop / n_rows, Piece(whole.X[first:stop], y, first)

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
        headers = _headers(path, archive)
        sparse = "X" not in headers
        shape = _csr_shape(path, archive, headers) if sparse else headers["X"].shape
        if len(shape) != 2 or 0 in shape:
            raise ReplearnError(
                f"{path}: X must have rows and columns, got the shape {shape}. Check the file."
            )
        names = _names(path, archive, headers, shape[1])
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


# --- archives -----------------------------------------------------------------------------------


@contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    """An open archive; what is wrong with it comes out in one line."""
    try:
        with reading(path), open(path, "rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise ValueError("it is a single array")
            with zipfile.ZipFile(file) as archive:
                yield archive
    except ReplearnError:
        raise
    except (  # all that zipfile and NumPy are known to raise on damaged files
        ValueError,
        TypeError,
        KeyError,
        SyntaxError,
        RuntimeError,
        OverflowError,
        struct.error,
        zlib.error,
    ) as problem:
        raise ReplearnError(
            f"{path} must be a NumPy archive of named arrays, without pickled objects: "
            f"{one_line(problem)}. Write it with numpy.savez(path, X=X, y=y)."
        ) from None


def _headers(path: str, archive: zipfile.ZipFile) -> dict[str, Header]:
    """Headers of the arrays by name."""
    headers: dict[str, Header] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            continue
        if name in headers:
            raise ValueError(f"{name!r} is in it twice")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name!r} is compressed in an unusual way")
        with archive.open(member) as file:
            headers[name] = _header(name, file)
        if headers[name].nbytes > member.file_size:
            raise ReplearnError(
                f"{path}: {name} must be as large as it says, got {member.file_size:,} bytes "
                f"instead of {headers[name].nbytes:,}. Write the file anew."
            )
    return headers


def _header(name: str, file: Any) -> Header:
    """What the first bytes of an array in the npy format say; nothing is unpickled."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:7] not in (b"\x01", b"\x02", b"\x03"):
        raise ValueError(f"{name!r} is no array")
    size = int.from_bytes(file.read(2 if start[6] == 1 else 4), "little")
    if size > _MAX_HEADER:
        raise ValueError(f"{name!r} has a header of {size:,} bytes")
    text = file.read(size).decode("latin-1")
    found = _HEADER.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{name!r} has the header {text[:80].strip()!r}")
    kind, sizes = found.groups()
    if not _TYPE.fullmatch(kind):
        raise ValueError(f"{name!r} has the type {kind[:40]!r}")
    return Header(tuple(int(n) for n in sizes.replace(" ", "").split(",") if n), kind)


def _array(archive: zipfile.ZipFile, key: str) -> NDArray[Any]:
    with archive.open(f"{key}.npy") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about files of Python 2
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        points = np.atleast_1d(np.ascontiguousarray(array)).view(
            np.dtype(np.uint32).newbyteorder(array.dtype.byteorder)
        )
        # no character has such a number, and Python breaks when it makes one of it
        if int(points.max()) > 0x10FFFF or bool(((points >> 11) == 0xD800 >> 11).any()):
            raise ValueError(f"{key!r} has text that is not Unicode")
    return array


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


# --- arrays -------------------------------------------------------------------------------------


def _as_floats(values: NDArray[Any]) -> NDArray[Any]:
    """As 32-bit floats if they are that or shorter, else as 64-bit ones."""
    single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return np.ascontiguousarray(values, dtype=np.float32 if single else np.float64)


def _csr_shape(path: str, archive: zipfile.ZipFile, headers: dict[str, Header]) -> tuple[int, ...]:
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
    if "format" in headers and _array(archive, "format").item() not in ("csr", b"csr"):
        raise _invalid_csr(path, f"the format is {_array(archive, 'format').item()!r}")
    n_rows, n_columns = (int(size) for size in _array(archive, "shape"))
    if headers["indptr"].shape != (n_rows + 1,) or not 0 <= n_columns < 2**31:
        raise _invalid_csr(path, "its shape does not fit its rows")
    return n_rows, n_columns


def _csr(path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    data, indices, indptr, shape = (arrays[key] for key in _CSR_KEYS)
    _check_places(path, indices, indptr, data.size, int(shape[1]))
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


def _check_finite(path: str, X: Any) -> None:
    values = X.data if sp.issparse(X) else X
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


def _names(
    path: str, archive: zipfile.ZipFile, headers: dict[str, Header], n_columns: int
) -> tuple[str, ...] | None:
    if "feature_names" not in headers:
        return None
    header = headers["feature_names"]
    if header.shape != (n_columns,) or header.kind != "U":
        raise ReplearnError(
            f"{path}: feature_names must be {n_columns:,} strings, one per column, got shape "
            f"{header.shape} of type {header.dtype}. Correct them, or leave them out."
        )
    _check_memory(path, {"feature_names": header})
    return tuple(_array(archive, "feature_names").tolist())


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
