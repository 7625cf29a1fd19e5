"""The one way to speak: facts with words, as text, JSON, a page or a notebook's cell."""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby, zip_longest
from typing import Any

from replearn.errors import printable

#: Lines below the verdict, without details.
MAX_LINES = 8
#: Rows of a table that a terminal shows; JSON and pages have all.
MAX_TABLE_ROWS = 40


@dataclass(frozen=True)
class Row:
    """One named value.

    Examples
    --------
    >>> Row("deaths", 0.0712, "%", (0.0671, 0.0755), "at this lab").shown
    '7.1% (6.7% to 7.5%), at this lab'
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
        value, *ends = in_words([self.value, *(self.interval or ())], self.unit)
        unit = f" {self.unit}" if self.unit not in ("", "%") else ""
        interval = f" ({ends[0]} to {ends[1]}{unit})" if ends else ""
        return f"{value}{unit}{interval}{', ' if self.note else ''}{self.note}"


@dataclass(frozen=True)
class Table:
    """Rows of values under a header; a column of numbers has one precision."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]  # cells as in `Row`
    units: Sequence[str] = ()  # of the columns, as in `Row`; by default none
    key: str = ""  # its name in JSON; by default the title in snake case
    # significant digits of each number of a column that has no one precision; 0: it has
    digits: Sequence[int] = ()

    @property
    def columns(self) -> list[tuple[str, list[str], bool]]:
        """For each column its header, its cells in words, and whether it holds numbers."""
        units = [*self.units, *[""] * len(self.header)]
        digits = [*self.digits, *[0] * len(self.header)]
        found = []
        for i, name in enumerate(self.header):
            cells = [row[i] for row in self.rows]
            numeric = any(map(_is_number, cells)) and not any(isinstance(c, str) for c in cells)
            title = f"{name} ({units[i]})" if units[i] not in ("", "%") else name
            said = in_words(cells, units[i])
            if digits[i]:
                said = [
                    significant(c, digits[i]) if _is_number(c) else w
                    for c, w in zip(cells, said, strict=True)
                ]
            words = ["" if c is None else w for c, w in zip(cells, said, strict=True)]
            found.append((title, words, numeric))
        return found


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
        """Lines for a terminal: the verdict, then at most eight lines unless details are wanted.

        Questions about rows stand between, all of them.

        ``more`` is how a reader asks for the details.
        """
        lines = wrapped(self.verdict, width)
        for sentence in self.told:
            lines += wrapped(sentence, width)
        if details:
            after_table = False
            for items in (self.items, self.details):
                for item, item_lines in zip(items, _item_lines(items, width), strict=True):
                    is_table = isinstance(item, Table)
                    lines += ["", *item_lines] if is_table or after_table else item_lines
                    after_table = is_table
            return "\n".join(lines)
        candidates = _item_lines(self.items, width)
        if self.details or sum(map(len, candidates)) > MAX_LINES:
            last = wrapped(f"More: {more}", width)
            fitting: list[list[str]] = []
            for block in candidates:  # the first ones first
                if sum(map(len, (*fitting, block, last))) <= MAX_LINES:
                    fitting.append(block)
            candidates = [*fitting, last]
        return "\n".join([*lines, *(line for item in candidates for line in item)])

    def data(self) -> dict[str, Any]:
        """All of it as JSON types: keys from names, rows of tables as objects, notes."""
        found: dict[str, Any] = {"verdict": self.verdict}
        notes = list(self.told)
        for item in (*self.items, *self.details):
            if isinstance(item, str):
                notes.append(item)
                continue
            if isinstance(item, Row) and not item.in_json:
                continue
            name = (
                item.key
                or _snake(item.name if isinstance(item, Row) else item.title)
                or type(item).__name__.lower()
            )
            key = next(k for k in (name, *(f"{name}_{i}" for i in range(2, 999))) if k not in found)
            if isinstance(item, Row):
                found[key] = item.value
                if item.interval is not None:
                    found[f"{key}_interval"] = item.interval
            else:
                keys = [_snake(name) or f"column_{i}" for i, name in enumerate(item.header)]
                found[key] = [dict(zip(keys, row, strict=True)) for row in item.rows]
        return _plain(found | ({"notes": notes} if notes else {}) | dict(self.values))

    def html(self, title: str) -> str:
        """One page without scripts: light and dark, readable aloud, printable on A4."""
        details = self._html_items(self.details)
        return _PAGE.format(
            title=_safe(title),
            style=_STYLE,
            verdict=_safe(self.verdict),
            items=self._html_items((*self.told, *self.items)),
            figures=self._html_figures(),
            details=f"<section>\n<h2>Details</h2>\n{details}\n</section>" if details else "",
        )

    def _repr_html_(self) -> str:
        """For a notebook."""
        details = self._html_items(self.details)
        folded = f"<details><summary>Details</summary>{details}</details>" if details else ""
        verdict = f"<p><strong>{_safe(self.verdict)}</strong></p>"
        items = self._html_items((*self.told, *self.items))
        shown = f"{items}{self._html_figures()}"
        return f"<div>{verdict}{shown}{folded}</div>"

    def _html_figures(self) -> str:
        """Beside each other where there is room."""
        if not self.figures:
            return ""
        row = 'class="figures" style="display:flex;flex-wrap:wrap;gap:0 1.5rem"'  # notebooks, too
        return f"<div {row}>{''.join(map(_figure_html, self.figures))}</div>"

    def _html_items(self, items: Sequence[Item]) -> str:
        found = []
        for kind, group in groupby(items, type):
            if kind is Row:
                rows = "\n".join(
                    f'<tr><th scope="row">{_safe(row.name)}</th><td>{_safe(row.shown)}</td></tr>'
                    for row in group
                    if isinstance(row, Row)
                )
                found.append(f"<table><tbody>\n{rows}\n</tbody></table>")
            else:
                found += [
                    _table_html(item) if isinstance(item, Table) else f"<p>{_safe(str(item))}</p>"
                    for item in group
                ]
        return "\n".join(found)

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


def in_words(values: Sequence[Any], unit: str = "") -> list[str]:
    """Values of one row or column in words, numbers with one precision.

    Examples
    --------
    >>> in_words([0.5, 12.25, None]), in_words([1200, 7]), in_words([True, "a"])
    (['0.50', '12.25', 'not known'], ['1,200', '7'], ['yes', 'a'])
    >>> in_words([0.0001, 0.25, 1.0], "%"), in_words([0.05], "%")
    (['<0.1%', '25.0%', '100.0%'], ['5%'])
    """
    numbers = [abs(value) for value in values if _is_number(value)]
    if unit == "%":
        decimals = 1 if max(numbers, default=0) >= 0.01 or not any(numbers) else 2
        texts = [_percent(v, decimals) if _is_number(v) else _word(v) for v in values]
        whole = all(text.endswith(f".{'0' * decimals}%") for text in texts)
        return [text.split(".")[0] + "%" if whole and len(texts) == 1 else text for text in texts]
    exponent = math.floor(math.log10(largest)) if (largest := max(numbers, default=0)) else 0
    decimals = max(3 - exponent, 0) if exponent >= 0 else 2 - exponent
    if all(value == int(value) for value in numbers) and not any(
        isinstance(value, float) and value < 1e15 for value in values
    ):
        decimals = 0
    form = ",.2e" if exponent < -5 or exponent > 14 else f",.{decimals}f"
    return [format(value + 0, form) if _is_number(value) else _word(value) for value in values]


def significant(number: float, digits: int) -> str:
    """A number with so many significant digits, as a reader multiplies it.

    Examples
    --------
    >>> significant(0.019234, 3), significant(-2.0, 3), significant(123456.0, 3), significant(0, 3)
    ('0.0192', '-2.00', '123,456', '0.00')
    >>> significant(1.5e-7, 3)
    '1.50e-07'
    """
    exponent = math.floor(math.log10(abs(number))) if number else 0
    form = f".{digits - 1}e" if exponent < -5 or exponent > 14 else ""
    return format(number + 0, form or f",.{max(digits - 1 - exponent, 0)}f")


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
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row"), counted(2, "batch", "batches")
    ('1 row', '2,000 rows', '2 batches')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _is_number(value: Any) -> bool:
    return (
        not isinstance(value, bool | str) and hasattr(value, "__float__") and math.isfinite(value)
    )


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else "not known"


def _percent(share: float, decimals: int) -> str:
    least = 10.0 ** -(decimals + 2)
    if 0 < share < least / 2:
        return f"<{least:.{decimals}%}"
    if 1 > share > 1 - least / 2:
        return f">{1 - least:.{decimals}%}"
    return f"{share:.{decimals}%}"


def _snake(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _plain(value: Any) -> Any:
    """JSON types; a number that is none becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------- lines for a terminal


def _columns_of(text: str) -> int:
    """Columns that a terminal gives a text: two for a wide character, none for a mark on one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns; a long word is broken."""
    lines = [""]
    for word in printable(text).split():
        if lines[-1] and _columns_of(f"{lines[-1]} {word}") > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
        while _columns_of(lines[-1]) > width:
            cut = width
            while cut > 1 and _columns_of(lines[-1][:cut]) > width:
                cut -= 1
            lines[-1:] = [lines[-1][:cut], lines[-1][cut:]]
    return lines


def _item_lines(items: Sequence[Item], width: int) -> list[list[str]]:
    """The lines of each item; the values of neighbouring rows stand in one column."""
    found: list[list[str]] = []
    for kind, group in groupby(items, type):
        if kind is Row:
            found += _row_lines([item for item in group if isinstance(item, Row)], width)
        else:
            found += [
                _table_lines(item, width) if isinstance(item, Table) else wrapped(str(item), width)
                for item in group
            ]
    return found


def _row_lines(rows: list[Row], width: int) -> list[list[str]]:
    left = min(max(_columns_of(printable(row.name)) for row in rows), width // 3)
    right = width - left - 4
    found = []
    for row in rows:
        if max(map(_columns_of, printable(row.shown).split()), default=0) > right:
            # a long word, such as a fingerprint, stays whole below its name
            parts = [*wrapped(row.name, width - 2), *wrapped(row.shown, width - 2)]
            found.append([f"  {part}" for part in parts])
        else:
            found.append(_beside([(row.name, left, False), (row.shown, right, False)]))
    return found


def _beside(cells: Sequence[tuple[str, int, bool]]) -> list[str]:
    """The lines of cells (text, width, whether it stands at the right) that stand in one row."""
    found = []
    for parts in zip_longest(*(wrapped(text, width) for text, width, _ in cells), fillvalue=""):
        line = ""
        for part, (_, width, at_right) in zip(parts, cells, strict=True):
            space = " " * (width - _columns_of(part))
            line += f"  {space}{part}" if at_right else f"  {part}{space}"
        found.append(line.rstrip())
    return found


def _table_lines(table: Table, width: int) -> list[str]:
    """A title, a header and rows; a line for each cell where the columns do not fit."""
    heads, columns, numeric = zip(*table.columns, strict=True)
    rows = list(zip(*(cells[:MAX_TABLE_ROWS] for cells in columns), strict=True))
    sizes = [max(map(_columns_of, column)) for column in zip(heads, *rows, strict=True)]
    excess = sum(sizes) + 2 * len(sizes) - width
    texts = [i for i in range(len(sizes)) if not numeric[i]]
    if excess > 0 and texts:
        widest = max(texts, key=lambda i: sizes[i])
        excess, sizes[widest] = max(12 + excess - sizes[widest], 0), max(sizes[widest] - excess, 12)
    if excess > 0:
        blocks = [
            line
            for row in rows
            for line in _row_lines([Row(h, c) for h, c in zip(heads, row, strict=True)], width)
        ]
    else:
        blocks = [_beside(list(zip(row, sizes, numeric, strict=True))) for row in (heads, *rows)]
    lines = wrapped(table.title, width) if table.title else []
    lines += [line for block in blocks for line in block]
    n_more = len(table.rows) - len(rows)
    return [*lines, f"  ... and {n_more:,} more"] if n_more else lines


# ---------------------------------------------------------------- pages


def _safe(text: str) -> str:
    return escape(printable(text))


def _table_html(table: Table) -> str:
    classes = [' class="number"' if numeric else "" for _, _, numeric in table.columns]
    heads = [head for head, _, _ in table.columns]
    head = "".join(
        f'<th scope="col"{kind}>{_safe(name)}</th>'
        for name, kind in zip(heads, classes, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td{k}>{_safe(c)}</td>" for c, k in zip(row, classes, strict=True))
        + "</tr>"
        for row in zip(*(cells for _, cells, _ in table.columns), strict=True)
    )
    caption = f"<caption>{_safe(table.title)}</caption>" if table.title else ""
    table_html = (
        f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    )
    label = _safe(table.title or "Table")
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{table_html}</div>'


def _figure_html(figure: Figure) -> str:
    """Inline SVG, without what stands before its root; one that tells itself keeps its words."""
    root, _, parts = figure.draw().partition("<svg")[2].partition(">")
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
