"""Files that are there as a whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a new file beside the target to write to; rename it when all went well.

    A reader sees the old file or the new one, whatever happens in between. If anything is raised,
    the new file is removed and the old one stays.

    Parameters
    ----------
    path : path

    Yields
    ------
    beside : Path
        Empty file in the folder of ``path``.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())  # the content must be safe before its new name is
        beside.chmod(0o666 & ~_umask())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside the target and rename, so that no reader ever sees half a file."""
    with replacing(path) as beside:
        beside.write_bytes(content)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process was writing. Only for a folder that nobody else writes to."""
    for path in folder.glob(".*.part"):
        path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
