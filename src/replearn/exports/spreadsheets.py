"""Cells of a CSV file that a spreadsheet would take for a formula."""

from typing import Any

#: First characters with which spreadsheets begin a formula, their wide forms too.
_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def is_formula(cell: Any) -> bool:
    """Whether a spreadsheet might compute a text instead of showing it.

    Examples
    --------
    >>> is_formula("=1+1"), is_formula("one"), is_formula(-1.0)
    (True, False, False)
    """
    return isinstance(cell, str) and cell.lstrip(" ").startswith(_STARTS)


def harmless(cell: Any) -> Any:
    """The cell, with an apostrophe before a text that might be computed."""
    return f"'{cell}" if is_formula(cell) else cell
