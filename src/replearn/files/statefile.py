"""Files with the state of long work: arrays as npz, all else as JSON in one of them; no pickle."""

import ast
import hashlib
import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import InvalidFile
from replearn.files.atomic import write_atomically
from replearn.files.jsonfile import parse_json, require_regular, shown

FORMAT_VERSION = 1

_HEADER = "header"
_MAX_HEADER = 1 << 24
_MAX_ARRAY_HEADER = 256  # what npy puts before such small shapes

Arrays = Mapping[str, NDArray[Any]]

#: All that zipfile and NumPy are known to raise on damaged files.
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    OverflowError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def write_state(
    path: str | os.PathLike[str], kind: str, about: dict[str, Any], arrays: Arrays
) -> None:
    """Write a state, whole or not at all.

    Parameters
    ----------
    path : path
    kind : str
        What it is a state of; goes into the format's name.
    about : dict
        JSON types.
    arrays : mapping of str to array
    """
    header = {
        "about": about,
        "digest": _digest(arrays),
        "format": f"replearn-{kind}",
        "version": FORMAT_VERSION,
    }
    text = json.dumps(header, sort_keys=True, allow_nan=False).encode()
    content: dict[str, Any] = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    write_atomically(path, buffer.getvalue())


@dataclass(frozen=True)
class StateFile:
    """A state whose header has been read.

    Attributes
    ----------
    path : path
    kind : str
    about : dict
        As it was given to `write_state`; not checked.
    digest : str
        Of the arrays.
    """

    path: str | os.PathLike[str]
    kind: str
    about: Any
    digest: Any

    def arrays(self, like: Arrays) -> dict[str, NDArray[Any]]:
        """The arrays, which must have the names, types and shapes of ``like``."""
        with _opened(self.path, self.kind) as file:
            if set(file.namelist()) != {f"{name}.npy" for name in (*like, _HEADER)}:
                raise self.unfit(f"it must hold the arrays {', '.join(like)}")
            arrays = {
                name: _read_array(file, name, array.dtype, array.shape, self)
                for name, array in like.items()
            }
        if self.digest != _digest(arrays):
            raise InvalidFile(f"{self.path} was altered or damaged. Get it again from its source.")
        return arrays

    def unfit(self, problem: str) -> InvalidFile:
        """An error that says what is wrong with the file."""
        return InvalidFile(
            f"{self.path} is not a saved {self.kind}: {problem}. Is it the right file?"
        )


def read_state(path: str | os.PathLike[str], kind: str) -> StateFile:
    """Read the header of a state file."""
    state = StateFile(path, kind, None, None)
    with _opened(path, kind) as file:
        size = max(0, file.getinfo(f"{_HEADER}.npy").file_size - 128)  # after npy's own header
        if size > _MAX_HEADER:
            raise state.unfit(f"its header has {size:,} bytes, at most {_MAX_HEADER:,} are read")
        text = _read_array(file, _HEADER, np.dtype(np.uint8), (size,), state).tobytes()
    try:
        header = parse_json(text)
    except ValueError:
        raise state.unfit("its header is not JSON") from None
    keys = {"about", "digest", "format", "version"}
    if (
        not isinstance(header, dict)
        or set(header) != keys
        or header["format"] != f"replearn-{kind}"
    ):
        raise state.unfit(f"its format is not 'replearn-{kind}'")
    if header["version"] != FORMAT_VERSION:
        raise state.unfit(
            f"version {shown(header['version'])} is unknown; {FORMAT_VERSION} is read"
        )
    return StateFile(path, kind, header["about"], header["digest"])


def _opened(path: str | os.PathLike[str], kind: str) -> zipfile.ZipFile:
    state = StateFile(path, kind, None, None)
    require_regular(path)
    try:
        file = zipfile.ZipFile(path)
    except PermissionError:
        raise
    except _DAMAGE:
        raise state.unfit("it is no npz file") from None
    if f"{_HEADER}.npy" not in file.namelist():
        file.close()
        raise state.unfit("it has no header")
    return file


def _read_array(
    file: zipfile.ZipFile,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    state: StateFile,
) -> NDArray[Any]:
    """One array of known type and shape. Nothing is unpacked before its size is known."""
    wrong = state.unfit(f"{name!r} is not an array of {dtype} of shape {shape}")
    size = dtype.itemsize * int(np.prod(shape))
    member = file.getinfo(f"{name}.npy")
    if not size <= member.file_size <= size + _MAX_ARRAY_HEADER:
        raise wrong
    try:
        content = io.BytesIO(file.read(member))
        if content.read(8) != b"\x93NUMPY\x01\x00":
            raise wrong
        # read here: NumPy's own reader goes to great lengths, and warns, for old and odd headers
        header = content.read(int.from_bytes(content.read(2), "little")).decode("latin-1")
        described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        if ast.literal_eval(header.strip()) != described:
            raise wrong
        return np.frombuffer(content.read(size), dtype=dtype).reshape(shape).copy()
    except _DAMAGE:
        raise wrong from None


def _digest(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        little = arrays[name].astype(arrays[name].dtype.newbyteorder("<"))
        digest.update(name.encode() + b"\0" + little.tobytes())
    return digest.hexdigest()
