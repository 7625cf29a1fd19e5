"""Files with the state of long work: arrays as npz, all else as JSON in one of them; no pickle."""

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import InvalidFile, short
from replearn.files.arrays import ArrayFile, BadArrays, Header, open_arrays
from replearn.files.atomic import write_atomically
from replearn.files.jsonfile import parse_json, require_regular

FORMAT_VERSION = 1

_HEADER = "header"
_MAX_HEADER = 1 << 24

Arrays = Mapping[str, NDArray[Any]]


def write_state(
    path: str | os.PathLike[str], kind: str, about: dict[str, Any], arrays: Arrays
) -> None:
    """Write a state, whole or not at all; its kind goes into the format's name."""
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
    """A state whose header has been read."""

    path: str | os.PathLike[str]
    kind: str
    about: Any  # as it was given to `write_state`; not checked
    digest: Any  # of the arrays

    def arrays(self, like: Arrays) -> dict[str, NDArray[Any]]:
        """The arrays, which must have the names, types and shapes of ``like``."""
        with _opened(self) as file:
            if set(file.headers) != {*like, _HEADER}:
                raise self.unfit(f"it must hold the arrays {', '.join(like)}")
            for name, array in like.items():
                if file.headers[name] != Header(array.shape, array.dtype.str):
                    raise self.unfit(
                        f"{name!r} is not an array of {array.dtype} of shape {array.shape}"
                    )
            arrays = {name: file.read(name) for name in like}
        if self.digest != _digest(arrays):
            raise InvalidFile(f"{self.path} was altered or damaged. Get it again from its source.")
        return arrays

    def expecting(self, keys: set[str]) -> "StateFile":
        """The same, if ``about`` has these keys."""
        if not isinstance(self.about, dict) or set(self.about) != keys:
            raise self.unfit(f"'about' must have the keys {', '.join(sorted(keys))}")
        return self

    def unfit(self, problem: str) -> InvalidFile:
        """An error that says what is wrong with the file."""
        return InvalidFile(
            f"{self.path} is not a saved {self.kind}: {problem}. Is it the right file?"
        )


def read_state(path: str | os.PathLike[str], kind: str) -> StateFile:
    """Read the header of a state file."""
    state = StateFile(path, kind, None, None)
    with _opened(state) as file:
        found = file.headers.get(_HEADER, Header((), "|S0"))
        if found.dtype != "|u1" or len(found.shape) != 1:
            raise state.unfit("it has no header")
        if found.nbytes > _MAX_HEADER:
            raise state.unfit(f"its header has {found.nbytes:,} bytes, {_MAX_HEADER:,} are read")
        text = file.read(_HEADER).tobytes()
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
            f"version {short(header['version'])} is unknown; {FORMAT_VERSION} is read"
        )
    return StateFile(path, kind, header["about"], header["digest"])


@contextmanager
def _opened(state: StateFile) -> Iterator[ArrayFile]:
    require_regular(state.path)
    try:
        with open_arrays(state.path) as file:
            yield file
    except BadArrays as problem:
        raise state.unfit(str(problem)) from None


def _digest(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        little = arrays[name].astype(arrays[name].dtype.newbyteorder("<"))
        digest.update(name.encode() + b"\0" + little.tobytes())
    return digest.hexdigest()
