"""What a command has to say, and the exit codes."""

from dataclasses import dataclass
from typing import Any

DONE = 0  # or: the same model, or an audit within its bound
DIFFERENT = 1  # the models differ, or an audit exceeds its bound
BAD_INPUT = 2  # or bad usage
UNDECIDED = 3  # neither shown nor refuted: a pipeline must not take it for a pass
BUG = 70  # not 1, which would say that two models differ
INTERRUPTED = 130
CLOSED_PIPE = 141


class CommandWarning(UserWarning):
    """What a user of the command line should know, though the command did its work."""


@dataclass(frozen=True)
class Outcome:
    """What a command has to say: text for people, data (JSON types) for programs."""

    text: str
    data: dict[str, Any]
    code: int = DONE
    exact: bool = False  # the text is for another program: as it is, unless a terminal reads it
