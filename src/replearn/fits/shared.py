"""What goes to workers and comes back: versions that must be equal, warnings that nobody sees."""

import warnings
from collections.abc import Callable
from typing import Any

from replearn import __version__
from replearn.errors import ReplearnError, ReplicabilityWarning, UselessModelWarning


class Shared:
    """What many tasks need: sent once, as the result of a task that can be made again.

    Not a dataclass, which Dask would take apart.
    """

    def __init__(self, content: Any) -> None:
        self._content = content
        self._version = __version__

    def unpacked(self) -> Any:
        """The content; another version of replearn is refused, since it may give other bytes."""
        if self._version != __version__:
            raise other_version(self._version, __version__)
        return self._content


def other_version(wanted: str, found: str) -> ReplearnError:
    """What to say about a worker with another version, or "none"."""
    return ReplearnError(
        f"all workers must have replearn {wanted}, as here, got {found} on one. Install the same "
        "version everywhere."
    )


def called(function: Callable[[Any], Any], item: Any) -> Any:
    """A function's result on a worker, where nobody sees warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        warnings.simplefilter("ignore", UselessModelWarning)
        return function(item)


def one_line(problem: BaseException | str) -> str:
    """The start of a message, in one line without a full stop."""
    return " ".join(str(problem).split())[:300].rstrip(".")
