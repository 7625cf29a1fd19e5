"""Files that are there as a whole or not at all, and folders that are gone afterwards.

A process holds a lock on what it is writing. The lock dies with it, even by ``kill -9``, so what
has one of our names and nobody's lock was left behind, and the next process removes it.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: there nothing is swept
    fcntl = None  # type: ignore[assignment]

_RANDOM = "[a-z0-9_]{8}"  # what tempfile puts into names
_SCRATCH = ".replearn-scratch-"


@contextmanager
def replacing(path: str | os.PathLike[str], private: bool = False) -> Iterator[Path]:
    """Give a new file beside the target to write to; rename it when all went well.

    A reader sees the old file or the new one, whatever happens in between. If anything is raised,
    the new file is removed and the old one stays. What a killed process was writing is removed by
    the next one that writes the same target. A private file nobody but its owner may read, not
    for a moment.
    """
    target = Path(path)
    start, end = f".{target.name}.", ".part"

    def make() -> Path:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=start, suffix=end)
        os.close(number)
        return Path(name)

    _sweep(target.parent, re.escape(start) + _RANDOM + re.escape(end))
    with _held_while_used(make) as beside:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())  # the content must be safe before its new name is
        if not private:  # it was made with 0600
            mask = os.umask(0)
            os.umask(mask)
            beside.chmod(0o666 & ~mask)
        beside.replace(target)


def write_atomically(path: str | os.PathLike[str], content: bytes, private: bool = False) -> None:
    """Write beside the target and rename, so that no reader ever sees half a file."""
    with replacing(path, private) as beside:
        beside.write_bytes(content)


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Give a folder that is gone afterwards, and remove those of killed processes.

    By default it is made in the system's folder for temporary files.
    """
    place = Path(parent or tempfile.gettempdir())
    _sweep(place, re.escape(_SCRATCH) + _RANDOM)
    with _held_while_used(lambda: Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=place))) as folder:
        yield folder


@contextmanager
def _held_while_used(make: Callable[[], Path]) -> Iterator[Path]:
    """Make a file or a folder and lock it; it is removed afterwards, unless it was renamed."""
    while True:
        path = make()
        handle = _hold(path, wait=True)
        if path.exists():  # no other process has swept it before it was locked
            break
    try:
        yield path
    finally:
        _remove(path)
        if handle is not None:
            os.close(handle)


def _sweep(folder: Path, names: str) -> None:
    """Remove files and folders with such names that no living process holds."""
    with suppress(OSError):
        for path in [path for path in folder.iterdir() if re.fullmatch(names, path.name)]:
            handle = None if path.is_symlink() else _hold(path)
            if handle is not None:
                _remove(path)
                os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _hold(path: Path, wait: bool = False) -> int | None:
    """Lock a file or a folder until its handle is closed, or until this process dies.

    Gives None if another process holds it (unless ``wait``), if it is not there, or if there are no
    locks here.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    with suppress(OSError):
        held = flock(handle, wait)
        if held and os.path.samestat(os.fstat(handle), os.stat(path)):  # not removed meanwhile
            return handle
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
