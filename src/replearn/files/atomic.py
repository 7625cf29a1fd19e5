"""Files that are there as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replearn.files.ownership import file_beside


@contextmanager
def replacing(path: str | os.PathLike[str], private: bool = False) -> Iterator[Path]:
    """Give a new file beside the target to write to; rename it when all went well.

    A reader sees the old file or the new one, whatever happens in between. If anything is raised,
    the new file is removed and the old one stays. What a killed process was writing is removed by
    the next one that writes the same target. A private file nobody but its owner may read, not
    for a moment.
    """
    target = Path(path)
    with file_beside(target) as beside:
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
