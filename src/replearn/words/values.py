"""Values in words: with the digits that a reader needs."""

import math
from collections.abc import Sequence
from typing import Any

#: Digits of a column of published decimals: all that there are, and no zeros behind them.
AS_PUBLISHED = 17


def in_words(values: Sequence[Any], unit: str = "", *, ends_apart: bool = False) -> list[str]:
    """Values of one row or column in words, numbers with one precision.

    With ``ends_apart`` it tells the smallest number from the largest.

    Examples
    --------
    >>> in_words([0.5, 12.25, None]), in_words([1200, 7]), in_words([True, "a"])
    (['0.50', '12.25', 'not known'], ['1,200', '7'], ['yes', 'a'])
    >>> in_words([0.0001, 0.25, 1.0], "%"), in_words([0.05], "%")
    (['<0.1%', '25.0%', '100.0%'], ['5%'])
    >>> in_words([0.00004, 0.25], "p")
    ['<0.001', '0.250']
    """
    if unit == "p":  # as papers print it
        return [_p(value) if is_number(value) else _word(value) for value in values]
    numbers = [abs(value) for value in values if is_number(value)]
    largest = max(numbers, default=0)
    if unit == "%":
        return _percentages(values, largest)

    # the digits that the largest needs: three of a small one, decimals of a large one
    exponent = _exponent(largest)
    decimals = max(3 - exponent, 0)
    if exponent < 0:
        decimals = 2 - exponent
    if ends_apart and numbers:
        width = max(values) - min(values)
        decimals = max(decimals, -_exponent(width)) if width > 1e-9 * largest else decimals

    # counts have none
    has_fractions = any(isinstance(value, float) and value < 1e15 for value in values)
    if not has_fractions and all(value == int(value) for value in numbers):
        decimals = 0

    form = f",.{decimals}f"
    if _is_extreme(exponent):
        form = ",.2e"
    return [format(value + 0, form) if is_number(value) else _word(value) for value in values]


def _percentages(values: Sequence[Any], largest: float) -> list[str]:
    decimals = 1
    if 0 < largest < 0.01:
        decimals = 2
    texts = [_percent(v, decimals) if is_number(v) else _word(v) for v in values]

    if len(texts) == 1:  # in a column it would stand out
        texts[0] = texts[0].replace(f".{'0' * decimals}%", "%")
    return texts


def cell_words(cells: Sequence[Any], unit: str, digits: int) -> list[str]:
    """Cells of a column in words; what is not known stays empty."""
    words = in_words(cells, unit)
    for i, cell in enumerate(cells):
        if cell is None:
            words[i] = ""
        elif digits < 0 and is_number(cell):
            words[i] = ratio_in_words(cell, -digits)
        elif digits == AS_PUBLISHED and is_number(cell):
            words[i] = format(cell, ",.12g")
        elif digits and is_number(cell):
            words[i] = significant(cell, digits)
    return words


def ratio_in_words(number: float, digits: int) -> str:
    """A ratio with so many significant digits, and two of how far it is from 1.

    Examples
    --------
    >>> [ratio_in_words(number, 4) for number in (1.3934, 1.00031, 0.99914, 1.0)]
    ['1.393', '1.00031', '0.99914', '1.000']
    """
    away = _exponent(number - 1.0)
    if not -6 <= away < 2 - digits:
        return significant(number, digits)
    return format(number, f".{1 - away}f")


def significant(number: float, digits: int) -> str:
    """A number with so many significant digits, as a reader multiplies it.

    Examples
    --------
    >>> significant(0.019234, 3), significant(-2.0, 3), significant(123456.0, 3), significant(0, 3)
    ('0.0192', '-2.00', '123,456', '0.00')
    >>> significant(1.5e-7, 3)
    '1.50e-07'
    """
    exponent = _exponent(number)
    if _is_extreme(exponent):
        return format(number + 0, f".{digits - 1}e")
    return format(number + 0, f",.{max(digits - 1 - exponent, 0)}f")


def percent(share: float) -> str:
    """A share as a percentage.

    Examples
    --------
    >>> percent(0.0123), percent(0.05), percent(0.99999), percent(0.00002)
    ('1.2%', '5%', '>99.9%', '<0.01%')
    """
    return in_words([share], "%")[0]


def p_value(p: float) -> str:
    """A p-value as papers print it.

    Examples
    --------
    >>> p_value(0.0321), p_value(1e-9)
    ('p = 0.032', 'p < 0.001')
    """
    return f"p < {_p(p)[1:]}" if p < 0.001 else f"p = {_p(p)}"


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _exponent(number: float) -> int:
    """The power of ten of the first digit."""
    if not number:
        return 0
    return math.floor(math.log10(abs(number)))


def _is_extreme(exponent: int) -> bool:
    """Whether a number would have so many zeros that nobody counts them."""
    return exponent < -5 or exponent > 14


def is_number(value: Any) -> bool:
    """Whether a value is shown in digits: finite, and neither true nor false."""
    return (
        not isinstance(value, bool | str) and hasattr(value, "__float__") and math.isfinite(value)
    )


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return "not known"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _percent(share: float, decimals: int) -> str:
    # what would be rounded to nothing, or to all
    least = 10.0 ** -(decimals + 2)
    if 0 < share < least / 2:
        return f"<{least:.{decimals}%}"
    if 1 > share > 1 - least / 2:
        return f">{1 - least:.{decimals}%}"
    return f"{share:.{decimals}%}"
