"""Coefficients as a table that statisticians read, and from which predictions follow."""

import csv
import io
import math
import os
from collections.abc import Iterator
from typing import Any

from replearn.documents import write_atomically
from replearn.exports.rules import Rule, rule_of
from replearn.tables import NumberColumn
from replearn.tables.cells import is_number_text

_WORDS = ("term", "column", "level", "second_column", "second_level")
_PLACES = ("centre", "low", "high", "from", "top", "to")

#: First characters with which spreadsheets begin a formula, their wide forms too; and the mark.
_STARTS = tuple("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")


def to_csv(source: Any, path: str | os.PathLike[str]) -> None:
    """Write the coefficients of a model as a CSV file.

    Parameters
    ----------
    source : model or fitted estimator
    path : path

    Notes
    -----
    A score is the sum over all lines of the coefficient times

    - of ``constant``: 1;
    - of ``number``: x - ``centre``, with the number x of the column moved to ``low`` or ``high`` if
      it is beyond, and ``centre`` in place of a missing one. So it is per unit of the column;
    - of ``hat``: 1 if that x is at ``top``, 0 if it is below ``from`` or above ``to``, and linear
      between. It comes on top of the line of the number;
    - of ``missing``: 1 if the number is missing, else 0;
    - of ``level``: 1 if the column has the level, else 0. "(other)" are all levels without a line,
      "(missing)" cells without a value. Where there is no "(missing)", missing cells count as
      "(other)", and where there is no "(other)", as the reference;
    - of ``reference``: the level that others are compared with, whose coefficient is 0;
    - of ``product``: what the lines of both terms are multiplied by (x - ``centre``; 1 or 0);
    - of ``offset``: the column, which is known and not estimated.

    The score is the log-odds of the second class. More classes have lines for each ``class`` but
    the first, with log-odds against the first. For a regression the score is the prediction; for
    counts it is the logarithm of the mean, at most the coefficient of ``largest``. A halfspace
    predicts the second class if the score is above 0. ``odds_ratio`` or
    ``rate_ratio`` is the exponential of the coefficient: per unit, or against the reference level.
    For a column with hats or products it is that of the one line.

    Every number reads back as the same double. A text with which a spreadsheet might begin a
    formula, as "=cmd", and one that begins with an apostrophe, has an apostrophe put before it.
    """
    rule = rule_of(source)
    ratio, many = rule.ratio.replace(" ", "_"), len(rule.constants) > 1
    text = io.StringIO()
    # all text is quoted: older versions of Python leave a lone "\r" in a name without quotes
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    header = [*_WORDS, "coefficient", *([ratio] if ratio else []), *_PLACES]
    writer.writerow(["class", *header] if many else header)
    for k in range(len(rule.constants)):
        for words, coefficient, places in _lines(rule, k):
            row: list[Any] = [_harmless(rule.classes[k + 1])] if many and rule.classes else []
            row += [*map(_harmless, words), *[""] * (len(_WORDS) - len(words)), coefficient]
            if ratio:
                is_known = words[0] in ("offset", "largest")
                row.append("" if is_known else math.exp(min(coefficient, 700.0)))
            writer.writerow([*row, *(places.get(name, "") for name in _PLACES)])
    write_atomically(path, text.getvalue().encode())


def _lines(rule: Rule, k: int) -> Iterator[tuple[tuple[str, ...], float, dict[str, float]]]:
    """Words, coefficient and places of each line of a score."""
    yield ("constant",), float(rule.constants[k]), {}
    terms: list[tuple[str, str, float]] = []  # column, level and spread of each
    for column, _, weights in rule.parts():
        own = weights[:, k].tolist()
        if isinstance(column, NumberColumn):
            spread, nodes = float(column.spread), column.nodes.tolist()
            ends = {"low": nodes[0], "high": nodes[-1]} if rule.clips else {}
            places = {"centre": float(column.centre)} | ends
            yield ("number", column.name), own[0] / spread, places
            for j, height in enumerate(own[1 : len(nodes) - 1]):
                hat = dict(zip(_PLACES[3:], nodes[j : j + 3], strict=True))
                yield ("hat", column.name), height, hat
            if column.indicator:
                yield ("missing", column.name), own[-1], {}
            terms += [(column.name, "", spread)] * len(own)
        else:
            yield ("reference", column.name, column.reference), 0.0, {}
            for level, weight in zip(column.levels, own, strict=True):
                yield ("level", column.name, level), weight, {}
                terms.append((column.name, level, 1.0))
    for product, weights in zip(rule.products, rule.weights[len(terms) :], strict=True):
        (*first, a), (*second, b) = terms[product.first], terms[product.second]
        yield ("product", *first, *second), float(weights[k]) / (a * b), {}
    if rule.offset is not None:
        yield ("offset", rule.offset), rule.offset_weight, {}
    if math.isfinite(rule.largest):
        yield ("largest",), rule.largest, {}


def _harmless(cell: Any) -> Any:
    """The cell, with an apostrophe before a text that might be computed."""
    if isinstance(cell, str) and cell.startswith(_STARTS) and not is_number_text(cell):
        return f"'{cell}"
    return cell
