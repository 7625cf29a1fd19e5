"""What a result says: named values, tables and figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from replearn.words.values import cell_words, in_words, is_number

#: Units that say how a value is written, and stand nowhere: a percentage has its sign already.
_FORMS = ("", "%", "p")


@dataclass(frozen=True)
class Row:
    """One named value.

    Examples
    --------
    >>> Row("deaths", 0.0712, "%", (0.0671, 0.0755), "at this lab").shown
    '7.1% (6.7% to 7.5%), at this lab'
    >>> Row("income", 1.000310, interval=(1.000287, 1.000334)).shown  # ends are told apart
    '1.00031 (1.00029 to 1.00033)'
    """

    name: str  # in the user's words
    value: Any  # as a program wants it. None is "not known".
    unit: str = ""  # stands behind the value; "%" shows a share as a percentage, "p" a p-value
    interval: tuple[float, float] | None = None  # ends of an interval, in the unit of the value
    note: str = ""  # a few words behind it all
    key: str = ""  # its name in JSON; by default the name in snake case
    in_json: bool = True  # no key may come from a column's name: a table has such rows

    @property
    def shown(self) -> str:
        """The value in words."""
        numbers = [self.value, *(self.interval or ())]
        value, *ends = in_words(numbers, self.unit, ends_apart=len(numbers) > 1)
        unit = ""
        if self.unit not in _FORMS:
            unit = f" {self.unit}"

        text = value + unit
        if ends:
            text += f" ({ends[0]} to {ends[1]}{unit})"
        if self.note:
            text += f", {self.note}"
        return text


@dataclass(frozen=True)
class Table:
    """Rows of values under a header; a column of numbers has one precision."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]  # cells as in `Row`
    units: Sequence[str] = ()  # of the columns, as in `Row`; by default none
    key: str = ""  # its name in JSON; by default the title in snake case
    # significant digits of each number of a column that has no one precision; 0: it has one, and
    # less than 0: it holds ratios, of which those near 1 need more; `AS_PUBLISHED`: decimals
    digits: Sequence[int] = ()

    @property
    def columns(self) -> list[tuple[str, list[str], bool]]:
        """For each column its header, its cells in words, and whether it holds numbers."""
        units = [*self.units, *[""] * len(self.header)]
        digits = [*self.digits, *[0] * len(self.header)]
        columns = []
        for i, name in enumerate(self.header):
            cells = [row[i] for row in self.rows]
            numeric = any(map(is_number, cells)) and not any(isinstance(c, str) for c in cells)
            if units[i] not in _FORMS:
                name += f" ({units[i]})"
            columns.append((name, cell_words(cells, units[i], digits[i]), numeric))
        return columns


@dataclass(frozen=True)
class Figure:
    """A picture that is drawn when somebody looks."""

    label: str  # what it shows: its title, and for those who do not see it
    draw: Callable[[], str]  # gives an SVG
    caption: str = ""


Item = Row | Table | str
