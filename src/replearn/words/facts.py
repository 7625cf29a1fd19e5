"""The one way to speak: facts with words, as text, JSON, a page or a notebook's cell."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain, groupby, zip_longest
from typing import Any

from replearn.errors import printable

#: Lines below the verdict, without details.
MAX_LINES = 10
#: Lines of items, whatever is told about rows.
LEAST_LINES = 4
#: Rows of a table that a terminal shows; JSON and pages have all.
MAX_TABLE_ROWS = 500


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
    unit: str = ""  # stands behind the value; "%" shows a share as a percentage
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
        if self.unit not in ("", "%"):  # a percentage has its sign already
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
    # less than 0: it holds ratios, of which those near 1 need more
    digits: Sequence[int] = ()

    @property
    def columns(self) -> list[tuple[str, list[str], bool]]:
        """For each column its header, its cells in words, and whether it holds numbers."""
        units = [*self.units, *[""] * len(self.header)]
        digits = [*self.digits, *[0] * len(self.header)]
        columns = []
        for i, name in enumerate(self.header):
            cells = [row[i] for row in self.rows]
            numeric = any(map(_is_number, cells)) and not any(isinstance(c, str) for c in cells)
            if units[i] not in ("", "%"):
                name += f" ({units[i]})"
            columns.append((name, _cell_words(cells, units[i], digits[i]), numeric))
        return columns


@dataclass(frozen=True)
class Figure:
    """A picture that is drawn when somebody looks."""

    label: str  # what it shows: its title, and for those who do not see it
    draw: Callable[[], str]  # gives an SVG
    caption: str = ""


Item = Row | Table | str


@dataclass(frozen=True)
class Facts:
    """What a result has to say, in all forms.

    Examples
    --------
    >>> facts = Facts("The models are identical.", [Row("rows", 8010), Row("AUC", 0.8421)])
    >>> print(facts.text())
    The models are identical.
      rows  8,010
      AUC   0.842
    >>> facts.data()
    {'verdict': 'The models are identical.', 'rows': 8010, 'auc': 0.8421}
    """

    verdict: str  # one sentence: the answer
    # what stands below it, most important first; a str is a note, one or two sentences
    items: Sequence[Item] = ()
    details: Sequence[Item] = ()  # what is shown on demand, and on pages
    figures: Sequence[Figure] = ()
    # further JSON types for programs, by key. They take precedence over rows and tables.
    values: Mapping[str, Any] = field(default_factory=dict)
    told: Sequence[str] = ()  # what was done to rows, or is asked about them: never cut short

    def text(
        self, width: int = 78, details: bool = False, more: str = "facts().text(details=True)"
    ) -> str:
        """Lines for a terminal: the verdict, then at most ten lines unless details are wanted.

        What is told about rows comes first, all of it; the most important items follow even if
        that takes more than ten lines.

        ``more`` is how a reader asks for the details.
        """
        told = list(chain(*(wrapped(sentence, width) for sentence in self.told)))
        if details:
            others = self._all_lines(width)
        else:
            others = self._first_lines(width, more, max(MAX_LINES - len(told), LEAST_LINES))
        return "\n".join([*wrapped(self.verdict, width), *told, *others])

    def _all_lines(self, width: int) -> list[str]:
        """Items and details, tables with an empty line on either side."""
        lines: list[str] = []
        after_table = False
        items = [*self.items, *self.details]
        for item, item_lines in zip(items, _item_lines(items, width), strict=True):
            is_table = isinstance(item, Table)
            if is_table or after_table:
                lines.append("")
            lines += item_lines
            after_table = is_table
        return lines

    def _first_lines(self, width: int, more: str, n_most: int) -> list[str]:
        """As many items as fit, and how a reader asks for the others."""
        # all that is not shown must be asked for
        blocks = _item_lines(self.items, width)
        if self.details or sum(map(len, blocks)) > n_most:
            last = wrapped(f"More: {more}", width)
            n_free, fitting = n_most - len(last), []
            for item, block in zip(self.items, blocks, strict=True):
                if isinstance(item, Table) and len(block) > n_free:
                    block = _shortened(item, width, n_free)
                if len(block) <= n_free:  # a short one may fit where a longer one did not
                    fitting.append(block)
                    n_free -= len(block)
            blocks = [*fitting, last]
        return list(chain(*blocks))

    def data(self) -> dict[str, Any]:
        """All of it as JSON types: keys from names, rows of tables as objects, notes."""
        values: dict[str, Any] = {"verdict": self.verdict}
        notes = list(self.told)
        for item in (*self.items, *self.details):
            if isinstance(item, str):
                notes.append(item)
            elif isinstance(item, Table):
                keys = [_snake(name) or f"column_{i}" for i, name in enumerate(item.header)]
                key = _new_key(item.key or _snake(item.title) or "table", values)
                values[key] = [dict(zip(keys, row, strict=True)) for row in item.rows]
            elif item.in_json:
                key = _new_key(item.key or _snake(item.name) or "row", values)
                values[key] = item.value
                if item.interval is not None:
                    values[f"{key}_interval"] = item.interval

        if notes:
            values["notes"] = notes
        return _plain(values | dict(self.values))

    def html(self, title: str) -> str:
        """One page without scripts: light and dark, readable aloud, printable on A4."""
        details = _items_html(self.details)
        if details:
            details = f"<section>\n<h2>Details</h2>\n{details}\n</section>"

        return _PAGE.format(
            title=_safe(title),
            style=_STYLE,
            verdict=_safe(self.verdict),
            items=_items_html((*self.told, *self.items)),
            figures=self._html_figures(),
            details=details,
        )

    def _repr_html_(self) -> str:
        """For a notebook."""
        details = _items_html(self.details)
        if details:
            details = f"<details><summary>Details</summary>{details}</details>"

        verdict = f"<p><strong>{_safe(self.verdict)}</strong></p>"
        items = _items_html((*self.told, *self.items))
        return f"<div>{verdict}{items}{self._html_figures()}{details}</div>"

    def _html_figures(self) -> str:
        """Beside each other where there is room."""
        if not self.figures:
            return ""
        row = 'class="figures" style="display:flex;flex-wrap:wrap;gap:0 1.5rem"'  # notebooks, too
        return f"<div {row}>{''.join(map(_figure_html, self.figures))}</div>"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Facts: {printable(self.verdict)}>"


class Spoken:
    """A result that speaks through its facts: text, notebook and a representation in one line.

    In a dataclass it comes first among the bases: ``class Study(Spoken, Document)``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep the short representation: a dataclass would write its own."""
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def facts(self) -> Facts:
        """What it has to say."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.facts().text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(self.facts().verdict)}>"

    def _repr_html_(self) -> str:
        """For a notebook."""
        return self.facts()._repr_html_()


# ---------------------------------------------------------------- values in words


def in_words(values: Sequence[Any], unit: str = "", *, ends_apart: bool = False) -> list[str]:
    """Values of one row or column in words, numbers with one precision.

    With ``ends_apart`` it tells the smallest number from the largest.

    Examples
    --------
    >>> in_words([0.5, 12.25, None]), in_words([1200, 7]), in_words([True, "a"])
    (['0.50', '12.25', 'not known'], ['1,200', '7'], ['yes', 'a'])
    >>> in_words([0.0001, 0.25, 1.0], "%"), in_words([0.05], "%")
    (['<0.1%', '25.0%', '100.0%'], ['5%'])
    """
    numbers = [abs(value) for value in values if _is_number(value)]
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
    return [format(value + 0, form) if _is_number(value) else _word(value) for value in values]


def _percentages(values: Sequence[Any], largest: float) -> list[str]:
    decimals = 1
    if 0 < largest < 0.01:
        decimals = 2
    texts = [_percent(v, decimals) if _is_number(v) else _word(v) for v in values]

    if len(texts) == 1:  # in a column it would stand out
        texts[0] = texts[0].replace(f".{'0' * decimals}%", "%")
    return texts


def _cell_words(cells: Sequence[Any], unit: str, digits: int) -> list[str]:
    """Cells of a column in words; what is not known stays empty."""
    words = in_words(cells, unit)
    for i, cell in enumerate(cells):
        if cell is None:
            words[i] = ""
        elif digits < 0 and _is_number(cell):
            words[i] = ratio(cell, -digits)
        elif digits and _is_number(cell):
            words[i] = significant(cell, digits)
    return words


def ratio(number: float, digits: int) -> str:
    """A ratio with so many significant digits, and two of how far it is from 1.

    Examples
    --------
    >>> ratio(1.3934, 4), ratio(1.00031, 4), ratio(0.99914, 4), ratio(1.0, 4)
    ('1.393', '1.00031', '0.99914', '1.000')
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
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "batch", "batches")
    ('1 row', '2,000 rows', '2 batches')
    """
    noun = many or f"{one}s"
    if number == 1:
        noun = one
    return f"{number:,} {noun}"


def _exponent(number: float) -> int:
    """The power of ten of the first digit."""
    if not number:
        return 0
    return math.floor(math.log10(abs(number)))


def _is_extreme(exponent: int) -> bool:
    """Whether a number would have so many zeros that nobody counts them."""
    return exponent < -5 or exponent > 14


def _is_number(value: Any) -> bool:
    return (
        not isinstance(value, bool | str) and hasattr(value, "__float__") and math.isfinite(value)
    )


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return "not known"


def _percent(share: float, decimals: int) -> str:
    # what would be rounded to nothing, or to all
    least = 10.0 ** -(decimals + 2)
    if 0 < share < least / 2:
        return f"<{least:.{decimals}%}"
    if 1 > share > 1 - least / 2:
        return f">{1 - least:.{decimals}%}"
    return f"{share:.{decimals}%}"


def _snake(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _new_key(name: str, taken: Mapping[str, Any]) -> str:
    """The name, with a number behind it where others have it."""
    key, number = name, 2
    while key in taken:
        key, number = f"{name}_{number}", number + 1
    return key


def _plain(value: Any) -> Any:
    """JSON types; a number that is none becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# ---------------------------------------------------------------- lines for a terminal


def _columns_of(text: str) -> int:
    """Columns that a terminal gives a text: two for a wide character, none for a mark on one."""
    if text.isascii():
        return len(text)

    n_columns = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        n_columns += 1 + (unicodedata.east_asian_width(character) in "WF")
    return n_columns


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns; a long word is broken."""
    lines = [""]
    for word in printable(text).split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and _columns_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer

        # a word that is longer than a line, where a character may take two columns
        while _columns_of(lines[-1]) > width:
            cut = width
            while cut > 1 and _columns_of(lines[-1][:cut]) > width:
                cut -= 1
            lines[-1:] = [lines[-1][:cut], lines[-1][cut:]]
    return lines


def _item_lines(items: Sequence[Item], width: int) -> list[list[str]]:
    """The lines of each item; the values of neighbouring rows stand in one column."""
    blocks: list[list[str]] = []
    for kind, group in groupby(items, type):
        if kind is Row:
            blocks += _row_lines([item for item in group if isinstance(item, Row)], width)
            continue
        for item in group:
            if isinstance(item, Table):
                blocks.append(_table_lines(item, width))
            else:
                blocks.append(wrapped(str(item), width))
    return blocks


def _row_lines(rows: list[Row], width: int) -> list[list[str]]:
    left = min(max(_columns_of(printable(row.name)) for row in rows), width // 3)
    right = width - left - 4

    blocks = []
    for row in rows:
        if max(map(_columns_of, printable(row.shown).split()), default=0) > right:
            # a long word, such as a fingerprint, stays in one piece below its name
            parts = [*wrapped(row.name, width - 2), *wrapped(row.shown, width - 2)]
            blocks.append([f"  {part}" for part in parts])
        else:
            blocks.append(_beside([(row.name, left, False), (row.shown, right, False)]))
    return blocks


def _beside(cells: Sequence[tuple[str, int, bool]]) -> list[str]:
    """The lines of cells (text, width, whether it stands at the right) that stand in one row."""
    lines = []
    for parts in zip_longest(*(wrapped(text, width) for text, width, _ in cells), fillvalue=""):
        line = ""
        for part, (_, width, at_right) in zip(parts, cells, strict=True):
            space = " " * (width - _columns_of(part))
            pair = (part, space)
            if at_right:
                pair = (space, part)
            line += "  " + "".join(pair)
        lines.append(line.rstrip())
    return lines


def _shortened(table: Table, width: int, n_lines: int) -> list[str]:
    """The first rows of a table, of those that fit; all of it if fewer than two do."""
    n_rows = n_lines - len(_table_lines(table, width, 0))  # a title, the header and the last line
    return _table_lines(table, width, n_rows if n_rows > 1 else MAX_TABLE_ROWS)


def _table_lines(table: Table, width: int, n_most: int = MAX_TABLE_ROWS) -> list[str]:
    """A title, a header and rows; a line for each cell where the columns do not fit."""
    heads, columns, numeric = zip(*table.columns, strict=True)
    rows = list(zip(*(cells[:n_most] for cells in columns), strict=True))
    sizes = [max(map(_columns_of, column)) for column in zip(heads, *rows, strict=True)]

    # the widest text gives way, down to twelve columns; then the next
    excess = sum(sizes) + 2 * len(sizes) - width
    texts = [i for i in range(len(sizes)) if not numeric[i]]
    for i in sorted(texts, key=lambda i: -sizes[i]):
        given = max(0, min(excess, sizes[i] - 12))
        sizes[i] -= given
        excess -= given

    lines: list[str] = []
    if table.title:
        lines += wrapped(table.title, width)
    if sum(sizes) + 2 * len(sizes) > width:
        for row in rows:
            lines += chain(*_row_lines(list(map(Row, heads, row)), width))
    else:
        for row in (heads, *rows):
            lines += _beside(list(zip(row, sizes, numeric, strict=True)))

    n_more = len(table.rows) - len(rows)
    if n_more:
        lines.append(f"  ... and {n_more:,} more")
    return lines


# ---------------------------------------------------------------- pages


def _safe(text: str) -> str:
    return escape(printable(text))


def _items_html(items: Sequence[Item]) -> str:
    parts = []
    for kind, group in groupby(items, type):
        if kind is Row:
            parts.append(_rows_html(group))
            continue
        for item in group:
            if isinstance(item, Table):
                parts.append(_table_html(item))
            else:
                parts.append(f"<p>{_safe(str(item))}</p>")
    return "\n".join(parts)


def _rows_html(rows: Iterable[Any]) -> str:
    lines = [
        f'<tr><th scope="row">{_safe(row.name)}</th><td>{_safe(row.shown)}</td></tr>'
        for row in rows
    ]
    return "\n".join(["<table><tbody>", *lines, "</tbody></table>"])


def _table_html(table: Table) -> str:
    heads, columns, numeric = zip(*table.columns, strict=True)
    classes = [' class="number"' * is_number for is_number in numeric]

    head = ""
    for name, kind in zip(heads, classes, strict=True):
        head += f'<th scope="col"{kind}>{_safe(name)}</th>'

    # cells have the class of their column: numbers stand at the right
    rows = []
    for row in zip(*columns, strict=True):
        cells = "".join(f"<td{k}>{_safe(c)}</td>" for c, k in zip(row, classes, strict=True))
        rows.append(f"<tr>{cells}</tr>")
    body = "<tbody>\n" + "\n".join(rows) + "\n</tbody>"

    caption = ""
    if table.title:
        caption = f"<caption>{_safe(table.title)}</caption>"
    table_html = f"<table>{caption}<thead><tr>{head}</tr></thead>\n{body}</table>"

    # a wide table scrolls by itself, also for those who have no mouse
    label = _safe(table.title or "Table")
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{table_html}</div>'


def _figure_html(figure: Figure) -> str:
    """Inline SVG, without what stands before its root; one that tells itself keeps its words."""
    root, _, parts = figure.draw().partition("<svg")[2].partition(">")
    # a picture that says nothing itself is called by its title
    if "aria-label" not in root:
        root = f' role="img" aria-label="{_safe(figure.label)}"{root}'
    svg = f"<svg{root}>{parts}"
    words = f"<strong>{_safe(figure.label)}.</strong> {_safe(figure.caption)}"
    return f"<figure>{svg}<figcaption>{words}</figcaption></figure>"


_STYLE = """
:root { color-scheme: light dark; --ink: #1c1f23; --soft: #59616d; --line: #d3d9e0; --back: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #a4acb8; --line: #3b424c; --back: #16191d; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--back);
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1.2rem 1rem 3rem; }
h1 { font-size: 1.2rem; color: var(--soft); font-weight: 600; } h2 { font-size: 1.15rem; }
.verdict { font-size: 1.35rem; line-height: 1.35; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { text-align: left; padding: .3rem 1.2rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
tbody th { font-weight: 400; color: var(--soft); min-width: 10rem; }
.scroll th, .scroll td { overflow-wrap: normal; }
.number { text-align: right; white-space: nowrap; }
figure { margin: 1.2rem 0; } figure svg { max-width: 100%; height: auto; }
.figures figure { flex: 1 1 14rem; min-width: 0; max-width: 100%; } p { overflow-wrap: anywhere; }
.figures figure:has([width="640"]) { flex-basis: 100%; }
figcaption { color: var(--soft); font-size: .92rem; }
@media (max-width: 600px) { figure { overflow-x: auto; } figure svg { min-width: 30rem; } }
@page { size: A4; margin: 15mm; }
@media print {
  :root { font-size: 9pt; --ink: #000; --soft: #333; --line: #bbb; --back: #fff; }
  main { max-width: none; padding: 0; } .scroll { overflow: visible; }
  th, td { padding: .15rem 1.2rem .15rem 0; } .figures figure { flex-basis: 5cm; }
  h1, h2, caption { break-after: avoid; } p, tr, figure { break-inside: avoid; } }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="replearn">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main>
<h1>{title}</h1>
<p class="verdict">{verdict}</p>
{items}
{figures}
{details}
</main></body>
</html>
"""
