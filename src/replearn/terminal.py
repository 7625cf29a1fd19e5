"""Text that cannot steer a terminal: names and labels in files are not ours."""

import re

#: What moves the cursor, changes colours, ends a line, turns the direction of writing, or cannot be
#: written at all: control characters, separators of lines, marks of direction, halves of pairs.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""One line in which nothing steers the terminal.

    Examples
    --------
    >>> printable("a\x1b[2Jb\nc")
    'a?[2Jb?c'
    """
    return _STEERING.sub("?", text)


def printable_lines(text: str) -> str:
    """The same for lines that are our own; only a line feed ends one."""
    return "\n".join(map(printable, text.split("\n")))
