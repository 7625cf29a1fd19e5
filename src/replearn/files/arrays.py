"""Named arrays in a file (npz), safe to open: what they declare is checked before it is unpacked.

Numbers, booleans and text; nothing is unpickled. Tables and states are read by this one reader.
"""

import errno
import math
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_HEADER = 10_000  # bytes; those of arrays of numbers and text have about a hundred
_HEADER = re.compile(  # as NumPy writes it
    r"\{'descr': '([^']*)', 'fortran_order': (?:False|True), 'shape': \(([0-9, ]*)\),? ?\}"
)
_TYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|[US][0-9]{1,9})")

#: All that zipfile and NumPy are known to raise on damaged files.
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class BadArrays(Exception):
    """What is wrong with a file of arrays, without its name."""


@dataclass(frozen=True)
class Header:
    """What an array in a file says of itself."""

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


class ArrayFile:
    """An open file of arrays whose headers have been read."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.headers: dict[str, Header] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                continue
            if name in self.headers:
                raise ValueError(f"{name!r} is in it twice")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name!r} is compressed in an unusual way")
            with archive.open(member) as file:
                header = _header(name, file)
            if header.nbytes > member.file_size:
                raise ValueError(
                    f"{name!r} must be as large as it says, got {member.file_size:,} bytes instead "
                    f"of {header.nbytes:,}"
                )
            self.headers[name] = header

    def read(self, name: str) -> NDArray[Any]:
        """One of the arrays. Its size is up to the caller to check."""
        with self._archive.open(f"{name}.npy") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about files of Python 2
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            if file.read(1):  # which also makes zipfile look at the checksum
                raise ValueError(f"{name!r} is longer than it says")
        if array.dtype.kind == "U" and not _is_unicode(array):
            raise ValueError(f"{name!r} has text that is not Unicode")
        return array


@contextmanager
def open_arrays(path: str | PathLike[str]) -> Iterator[ArrayFile]:
    """Open a file of arrays and look at their headers.

    Raises
    ------
    BadArrays
        If it is no such file or damaged, here or while its arrays are read.
    OSError, MemoryError
    """
    try:
        with open(path, "rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise ValueError("it is a single array")
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no npz file")
            with zipfile.ZipFile(file) as archive:
                yield ArrayFile(archive)
    except _DAMAGE as problem:
        raise BadArrays(" ".join(str(problem).split()).rstrip(".")[:200]) from None
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            raise
        raise BadArrays("it points to places before its start") from None


def _header(name: str, file: Any) -> Header:
    """What the first bytes of an array in the npy format say."""
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


def _is_unicode(array: NDArray[Any]) -> bool:
    """Whether all numbers are those of characters: Python breaks when it makes one of others."""
    if not array.size or not array.dtype.itemsize:
        return True
    number = np.dtype(np.uint32).newbyteorder(array.dtype.byteorder)
    points = np.atleast_1d(np.ascontiguousarray(array)).view(number)
    surrogates = (points >> 11) == 0xD800 >> 11
    return int(points.max()) <= 0x10FFFF and not bool(surrogates.any())
