"""Files with the state of a stream: arrays as npz, all else as JSON in one of them; no pickle."""

import hashlib
import io
import json
import os
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import InvalidFile
from replearn.jsonfile import write_atomically
from replearn.plan import Plan
from replearn.stages.stream import Stream, new_stream, restored

FORMAT = "replearn-sgd-stream"
FORMAT_VERSION = 1

_HEADER = "header"
_MAX_HEADER = 1 << 24
_MAX_ARRAY_HEADER = 256  # what npy puts before such small shapes

Arrays = dict[str, NDArray[Any]]


def write_state(path: str | os.PathLike[str], stream: Stream, about: dict[str, Any]) -> None:
    """Write a stream, whole or not at all; ``about`` goes with it, as JSON."""
    arrays = stream.arrays()
    header = {
        "about": about,
        "blocks": defines_blocks(stream.plan, stream.n_features),
        "digest": _digest(arrays),
        "format": FORMAT,
        "version": FORMAT_VERSION,
    }
    text = json.dumps(header, sort_keys=True, allow_nan=False).encode()
    content: dict[str, Any] = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    write_atomically(path, buffer.getvalue())


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON part of a state file."""
    with _opened(path) as file:
        size = max(0, file.getinfo(f"{_HEADER}.npy").file_size - 128)  # after npy's own header
        if size > _MAX_HEADER:
            raise _unfit(path, f"its header has {size:,} bytes, at most {_MAX_HEADER:,} are read")
        text = _read_array(file, _HEADER, np.dtype(np.uint8), (size,), path).tobytes()
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise _unfit(path, "its header is not JSON") from None
    keys = {"about", "blocks", "digest", "format", "version"}
    if not isinstance(header, dict) or set(header) != keys or header["format"] != FORMAT:
        raise _unfit(path, f"its format is not {FORMAT!r}")
    if header["version"] != FORMAT_VERSION:
        raise _unfit(path, f"version {header['version']!r} is unknown; {FORMAT_VERSION} is read")
    return header


def read_stream(
    path: str | os.PathLike[str], header: dict[str, Any], plan: Plan, n_features: int
) -> Stream:
    """The stream of a state file, which must have been made with this plan."""
    mine, theirs = defines_blocks(plan, n_features), header["blocks"]
    for name, value in mine.items():
        if not isinstance(theirs, dict) or theirs.get(name) != value:
            other = theirs.get(name) if isinstance(theirs, dict) else None
            raise InvalidFile(
                f"{path} was saved with {name} = {other!r}, this estimator has {value!r}. "
                "Resume with the parameters that the stream was started with."
            )
    wanted = new_stream(plan, n_features).arrays()
    with _opened(path) as file:
        if set(file.namelist()) != {f"{name}.npy" for name in (*wanted, _HEADER)}:
            raise _unfit(path, f"it must hold the arrays {', '.join(wanted)}")
        arrays = {
            name: _read_array(file, name, array.dtype, array.shape, path)
            for name, array in wanted.items()
        }
    if header["digest"] != _digest(arrays):
        raise InvalidFile(f"{path} was altered or damaged. Get it again from its source.")
    stream = restored(plan, n_features, arrays)
    if stream is None:
        raise _unfit(path, "its numbers contradict each other")
    return stream


def defines_blocks(plan: Plan, n_features: int) -> dict[str, Any]:
    """What the vector of a block depends on, besides its rows; reals as text."""
    return {
        "batch_size": plan.batch_size,
        "length_cap": repr(plan.length_cap),
        "margin": repr(plan.guarantee.margin),
        "n_batches": plan.n_batches if plan.exact_batches else None,
        "n_features": n_features,
        "n_inputs": plan.n_inputs,
        "n_repetitions": plan.n_repetitions,
        "n_validation": plan.n_validation,
        "regularization": plan.regularization,
    }


def _opened(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    try:
        file = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise _unfit(path, "it is no npz file") from None
    if f"{_HEADER}.npy" not in file.namelist():
        file.close()
        raise _unfit(path, "it has no header")
    return file


def _read_array(
    file: zipfile.ZipFile,
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    path: str | os.PathLike[str],
) -> NDArray[Any]:
    """One array of known type and shape. Nothing is unpacked before its size is known."""
    wrong = _unfit(path, f"{name!r} is not an array of {dtype} of shape {shape}")
    size = dtype.itemsize * int(np.prod(shape))
    member = file.getinfo(f"{name}.npy")
    if not size <= member.file_size <= size + _MAX_ARRAY_HEADER:
        raise wrong
    try:
        content = io.BytesIO(file.read(member))
        if np.lib.format.read_magic(content) != (1, 0):
            raise wrong
        if np.lib.format.read_array_header_1_0(content) != (shape, False, dtype):
            raise wrong
        return np.frombuffer(content.read(size), dtype=dtype).reshape(shape).copy()
    except (ValueError, zipfile.BadZipFile, OSError, NotImplementedError):
        raise wrong from None


def _digest(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        little = arrays[name].astype(arrays[name].dtype.newbyteorder("<"))
        digest.update(name.encode() + b"\0" + little.tobytes())
    return digest.hexdigest()


def _unfit(path: object, problem: str) -> InvalidFile:
    return InvalidFile(f"{path} is not a saved stream: {problem}. Is it the right file?")
