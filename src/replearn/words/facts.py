"""The one way to speak: facts with words, as text, JSON, a page or a notebook's cell."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from replearn.errors import printable, whole_number
from replearn.words.items import Figure, Item, Table
from replearn.words.pages import PAGE, STYLE, figure_html, items_html, safe
from replearn.words.terminal import item_lines, shortened, wrapped

#: Lines of items below the verdict, without details.
MAX_LINES = 10


@dataclass(frozen=True)
class Facts:
    """What a result has to say, in all forms.

    Examples
    --------
    >>> from replearn.words import Row
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
    most_lines: int = MAX_LINES  # below the verdict, on a terminal

    def text(
        self, width: int = 78, details: bool = False, more: str = "facts().text(details=True)"
    ) -> str:
        """Lines for a terminal: the verdict, then at most ten lines unless details are wanted.

        What is told about rows comes before these, all of it: it never displaces the answer.

        ``more`` is how a reader asks for the details.
        """
        width = whole_number("width", width, "Terminals have 80.", least=20)
        told = list(chain(*(wrapped(sentence, width) for sentence in self.told)))
        if details:
            others = self._all_lines(width)
        else:
            others = self._first_lines(width, more)
        return "\n".join([*wrapped(self.verdict, width), *told, *others])

    def _all_lines(self, width: int) -> list[str]:
        """Items and details, tables with an empty line on either side."""
        lines: list[str] = []
        after_table = False
        items = [*self.items, *self.details]
        for item, block in zip(items, item_lines(items, width), strict=True):
            is_table = isinstance(item, Table)
            if is_table or after_table:
                lines.append("")
            lines += block
            after_table = is_table
        return lines

    def _first_lines(self, width: int, more: str) -> list[str]:
        """As many items as fit, and how a reader asks for the others."""
        # all that is not shown must be asked for
        blocks = item_lines(self.items, width)
        if self.details or sum(map(len, blocks)) > self.most_lines:
            last = wrapped(f"More: {more}", width)
            n_free, fitting = self.most_lines - len(last), []
            for item, block in zip(self.items, blocks, strict=True):
                if isinstance(item, Table) and len(block) > n_free:
                    block = shortened(item, width, n_free)
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
        details = items_html(self.details)
        if details:
            details = f"<section>\n<h2>Details</h2>\n{details}\n</section>"

        return PAGE.format(
            title=safe(title),
            style=STYLE,
            verdict=safe(self.verdict),
            items=items_html((*self.told, *self.items)),
            figures=self._html_figures(),
            details=details,
        )

    def _repr_html_(self) -> str:
        """For a notebook."""
        details = items_html(self.details)
        if details:
            details = f"<details><summary>Details</summary>{details}</details>"

        verdict = f"<p><strong>{safe(self.verdict)}</strong></p>"
        items = items_html((*self.told, *self.items))
        return f"<div>{verdict}{items}{self._html_figures()}{details}</div>"

    def _html_figures(self) -> str:
        """Beside each other where there is room."""
        if not self.figures:
            return ""
        row = 'class="figures" style="display:flex;flex-wrap:wrap;gap:0 1.5rem"'  # notebooks, too
        return f"<div {row}>{''.join(map(figure_html, self.figures))}</div>"

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
