"""Warnings that name the user's own line."""

import inspect
import warnings
from pathlib import Path

_HOME = str(Path(__file__).parent)


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and name the line outside of replearn that led to it: the one that a user can change.

    The message gives the rule, the value and the remedy.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HOME):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
