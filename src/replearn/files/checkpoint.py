"""Long work that goes on where it was stopped, even by ``kill -9`` or a power cut."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from replearn.codes.model import canonical_json
from replearn.errors import ReplearnError
from replearn.files.atomic import remove_leftovers, write_atomically
from replearn.files.jsonfile import read_json, shown
from replearn.files.statefile import read_state, write_state

_KIND = "fit"
_JOB = "job.json"
_LOCK = "lock"
_SUFFIX, _FOLDER_SUFFIX = ".state", ".scratch"


class Checkpoint:
    """A folder with the state of one piece of work.

    The work is a sequence of named steps; each keeps arrays, and how they grow is its own
    business. Files are written beside and renamed, so a state is there as a whole or not at all.

    Parameters
    ----------
    folder : path
        Made if it is not there. One process at a time.
    job : dict
        What the work is, in JSON types. A folder of another job is refused.
    every : float, default=30.0
        Seconds between two states.
    """

    def __init__(
        self, folder: str | os.PathLike[str], job: dict[str, Any], every: float = 30.0
    ) -> None:
        self.folder, self._every = Path(folder), every
        self._saved_at = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder / _LOCK)
        try:
            remove_leftovers(self.folder)
            self._take(job)
        except BaseException:
            self.close()
            raise

    def _take(self, job: dict[str, Any]) -> None:
        """Note whose folder this is, or check it."""
        path = self.folder / _JOB
        if not path.exists():
            write_atomically(path, canonical_json(job))
            return
        before = read_json(path)
        changed = sorted(name for name in {*job, *before} if job.get(name) != before.get(name))
        if changed:
            raise ReplearnError(
                f"{self.folder} holds the checkpoint of another fit, which differs in "
                f"{', '.join(changed)}. Name another folder, or delete this one to start anew."
            )

    def load(
        self, step: str, about: dict[str, Any], like: dict[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]] | None:
        """Arrays saved last for a step, which must be about the same; None if there are none."""
        path = self.folder / f"{step}{_SUFFIX}"
        if not path.exists():
            return None
        state = read_state(path, _KIND)
        if state.about != about:
            raise state.unfit(f"it is about {shown(state.about)}, but the step is about {about}")
        return state.arrays(like)

    def save(
        self,
        step: str,
        about: dict[str, Any],
        arrays: Callable[[], dict[str, NDArray[Any]]],
        now: bool = True,
    ) -> None:
        """Save the state of a step; unless it must be ``now``, only if the last one is old."""
        if now or time.monotonic() - self._saved_at >= self._every:
            write_state(self.folder / f"{step}{_SUFFIX}", _KIND, about, arrays())
            self._saved_at = time.monotonic()

    def subfolder(self, name: str) -> Path:
        """A folder for larger files of the same work."""
        folder = self.folder / f"{name}{_FOLDER_SUFFIX}"
        folder.mkdir(exist_ok=True)
        return folder

    def close(self) -> None:
        """Let another process use the folder."""
        os.close(self._lock)


def clear(folder: str | os.PathLike[str]) -> None:
    """Remove the checkpoint in a folder, and the folder if nothing else is in it."""
    place = Path(folder)
    for scratch in place.glob(f"*{_FOLDER_SUFFIX}"):
        shutil.rmtree(scratch)
    for path in (*place.glob(f"*{_SUFFIX}"), place / _JOB, place / _LOCK):
        path.unlink(missing_ok=True)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()


def _locked(path: Path) -> int:
    """Hold a lock that dies with the process; two processes in one folder would spoil it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        import fcntl
    except ImportError:  # Windows has no such lock: there the user takes care
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ReplearnError(
            f"{path.parent} is in use by another process. Wait for it, or name another folder."
        ) from None
    return handle
