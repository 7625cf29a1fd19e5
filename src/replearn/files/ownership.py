"""Files and folders that belong to a living process; those of dead ones are removed.

A process holds a lock on what it is writing. The lock dies with it, even by ``kill -9``, so what
has one of our names and nobody's lock was left behind, and the next process removes it.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: there nothing is swept
    fcntl = None  # type: ignore[assignment]

_RANDOM = "[a-z0-9_]{8}"  # what tempfile puts into names
_SCRATCH = ".replearn-scratch-"


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Give a folder that is gone afterwards, and remove those of killed processes.

    By default it is made in the system's folder for temporary files.
    """
    place = Path(parent or tempfile.gettempdir())
    sweep(place, re.compile(re.escape(_SCRATCH) + _RANDOM))
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=place))
        handle = hold(folder, wait=True)
        if folder.exists():
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        release(handle)


@contextmanager
def file_beside(target: Path) -> Iterator[Path]:
    """Give a new file in the folder of ``target``, and remove those of killed processes.

    It is removed afterwards, unless it has been renamed by then.
    """
    start, end = f".{target.name}.", ".part"
    sweep(target.parent, re.compile(re.escape(start) + _RANDOM + re.escape(end)))
    while True:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=start, suffix=end)
        os.close(number)
        beside = Path(name)
        handle = hold(beside, wait=True)
        if beside.exists():
            break
    try:
        yield beside
    finally:
        beside.unlink(missing_ok=True)
        release(handle)


def sweep(folder: Path, names: re.Pattern[str]) -> None:
    """Remove files and folders with such names that no living process holds."""
    with suppress(OSError):
        found = [path for path in folder.iterdir() if names.fullmatch(path.name)]
        for path in found:
            handle = None if path.is_symlink() else hold(path)
            if handle is None:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            release(handle)


def hold(path: Path, wait: bool = False) -> int | None:
    """Lock a file or a folder until `release`, or until this process dies.

    Gives None if another process holds it (unless ``wait``), if it is not there, or if there are no
    locks here.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        held = flock(handle, wait)
        if held and os.path.samestat(os.fstat(handle), os.stat(path)):  # not removed meanwhile
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def flock(handle: int, wait: bool) -> bool:
    """Lock an open file; whether this system has such locks.

    Raises
    ------
    BlockingIOError
        If another process holds it, unless ``wait``.
    """
    if fcntl is None:
        return False
    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    return True


def release(handle: int | None) -> None:
    """Give up a lock."""
    if handle is not None:
        os.close(handle)
