"""Long work that goes on where it was stopped, even by ``kill -9`` or a power cut."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from replearn.codes.canonical import canonical_json
from replearn.errors import ReplearnError, short
from replearn.files.atomic import flock, write_atomically
from replearn.files.jsonfile import read_json
from replearn.files.statefile import read_state, write_state

_KIND = "fit"
_WORK, _DONE, _LOCK = "replearn-work", "replearn-done", "replearn-lock"
_JOB = "job.json"


class Checkpoint:
    """A folder with the state of one piece of work.

    The work is a sequence of named steps; each keeps arrays, and how they grow is its own
    business. Files are written beside and renamed, so a state is there as a whole or not at all.
    All of them are in one folder within the given one, which `clear` renames before it removes
    them: like any file, a checkpoint exists as a whole or not at all.

    The folder is made if it is not there, and is for one process at a time. ``job`` says what the
    work is, in JSON types: a folder of another job is refused. A state is saved each time that
    ``every`` seconds have passed.
    """

    def __init__(
        self, folder: str | os.PathLike[str], job: dict[str, Any], every: float = 30.0
    ) -> None:
        self.place, self._every = Path(folder), every
        self.folder = self.place / _WORK
        self._saved_at = time.monotonic()
        self._lock = _locked(self.place)
        try:
            _remove_done(self.place)
            self.folder.mkdir(exist_ok=True)
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
                f"{self.place} holds the checkpoint of another fit, which differs in "
                f"{_differences(before, job, changed)}. Name another folder, or delete this one to "
                "start anew."
            )

    def load(
        self, step: str, about: dict[str, Any], like: dict[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]] | None:
        """Arrays saved last for a step, which must be about the same; None if there are none."""
        path = self.folder / f"{step}.state"
        if not path.exists():
            return None
        state = read_state(path, _KIND)
        if state.about != about:
            raise state.unfit(f"it is about {short(state.about)}, but the step is about {about}")
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
            write_state(self.folder / f"{step}.state", _KIND, about, arrays())
            self._saved_at = time.monotonic()

    def close(self) -> None:
        """Let another process use the folder."""
        os.close(self._lock)


def clear(folder: str | os.PathLike[str]) -> None:
    """Remove the checkpoint in a folder, and the folder if nothing else is in it.

    A checkpoint that another process has taken over in the meantime is left to it.
    """
    place = Path(folder)
    if not place.is_dir():
        return
    try:
        lock = _locked(place)
    except InUse:
        return
    try:
        _remove_done(place)
        if (place / _WORK).exists():
            (place / _WORK).rename(place / _DONE)  # at once, so that no kill leaves half of it
            _remove_done(place)
        (place / _LOCK).unlink(missing_ok=True)
        with suppress(OSError):  # there are other files in it
            place.rmdir()
    finally:
        os.close(lock)


def _remove_done(place: Path) -> None:
    """Remove a checkpoint that has served, which a killed process may have left."""
    if (place / _DONE).exists():
        shutil.rmtree(place / _DONE)


def _differences(before: dict[str, Any], job: dict[str, Any], changed: list[str]) -> str:
    """Names of what differs; of files what it is about them."""
    words = [name for name in changed if name != "files"]
    if "files" in changed:
        mine, theirs = job.get("files"), before.get("files")
        if not isinstance(mine, list) or not isinstance(theirs, list) or len(mine) != len(theirs):
            words.append("the number of files")
        else:
            pairs = zip(theirs, mine, strict=True)
            words.append(next(_difference(old, new) for old, new in pairs if old != new))
    return ", ".join(words)


def _difference(old: Any, new: dict[str, Any]) -> str:
    """What is another in a file than it was: its name, its content, or when it was written."""
    if not isinstance(old, dict) or old.get("name") != new["name"]:
        return f"the file {new['name']}"
    if (old.get("size"), old.get("sha256")) != (new["size"], new["sha256"]):
        return f"the content of {new['name']}"
    return f"the place or the times of {new['name']}"


class InUse(ReplearnError):
    """A folder that another process works in."""


def _locked(place: Path) -> int:
    """Hold a lock that dies with the process; two processes in one folder would spoil it."""
    path = place / _LOCK
    while True:
        place.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # the folder has just been removed by a process that was done
            continue
        try:
            if not flock(handle, wait=False):  # no locks here: the user takes care
                return handle
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise InUse(
                f"{place} is in use by another process. Wait for it, or name another folder."
            ) from None
        except FileNotFoundError:
            pass
        os.close(handle)  # of a lock that has just been removed
