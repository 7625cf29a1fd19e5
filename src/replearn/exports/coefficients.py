"""Coefficients as a table that statisticians read, and from which predictions follow."""

import csv
import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from replearn.documents import FilePath, check_start, write_atomically
from replearn.exports.rules import Rule, rule_of
from replearn.glm import Coefficients
from replearn.tables import NumberColumn, is_number_text, per_unit

_WORDS = ("term", "column", "level", "second_column", "second_level")
_PLACES = ("if_missing", "low", "high", "from", "top", "to")
_OWN = ("estimate", "standard_error", "estimate_low", "estimate_high")

#: First characters with which spreadsheets begin a formula, their wide forms too; and the mark.
_STARTS = tuple("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")


def to_csv(source: Any, path: FilePath) -> None:
    """Write the coefficients of a model as a CSV file.

    Parameters
    ----------
    source : model or fitted estimator
        Of replearn.
    path : path
        The file to write.

    See Also
    --------
    to_sql : a statement that predicts.
    to_sklearn : plain scikit-learn objects.

    Notes
    -----
    A score is the sum over all lines of the coefficient times

    - of ``constant``: 1;
    - of ``number``: the number of the column, moved to ``low`` or ``high`` if it is beyond, and
      ``if_missing`` in place of a missing one. So it is per unit of the column;
    - of ``hat``: 1 if that number is at ``top``, 0 if it is below ``from`` or above ``to``, and
      linear between. It comes on top of the line of the number;
    - of ``missing``: 1 if the number is missing, else 0;
    - of ``level``: 1 if the column has the level, else 0. "(other)" are all levels without a line,
      "(missing)" cells without a value. Where there is no "(missing)", missing cells count as
      "(other)", and where there is no "(other)", as the reference;
    - of ``reference``: the level that others are compared with, whose coefficient is 0;
    - of ``product``: what the lines of both terms are multiplied by, so it is per unit of both;
    - of ``offset``: the column, which is known and not estimated;
    - of ``length``: the root of the sum of squares of all numbers of the row (halfspaces with an
      intercept).

    The score is the log-odds of the second class. More classes have lines for each ``class`` but
    the first, with log-odds against the first. For a regression the score is the prediction; for
    counts it is the logarithm of the mean, at most the coefficient of ``largest``; for survival the
    logarithm of the hazard in an interval. A halfspace
    predicts the second class if the score is above 0. ``odds_ratio`` or
    ``rate_ratio`` is the exponential of the coefficient: per unit, or against the reference level.
    For a column with hats or products it is that of the one line.

    A fitted estimator and the model file of a lab know what its own rows say: ``estimate`` is
    without the ridge, with its ``standard_error`` and a 95% interval.

    Every number reads back as the same double. A text with which a spreadsheet might begin a
    formula, as "=cmd", and one that begins with an apostrophe, has an apostrophe put before it.

    All lines together are the specification of a model that TRIPOD+AI asks for in item 22
    [Collins24].

    References
    ----------
    .. [Collins24] Collins et al. TRIPOD+AI statement. BMJ 385, e078378, 2024.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> model = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.csv")
    >>> rl.to_csv(model, path)
    >>> with open(path) as file:
    ...     file.readline().split(",")[:2]
    ['"term"', '"column"']
    """
    check_start(path, b'"term","column","level",', "table of coefficients")
    rule = rule_of(source, as_table=True)
    known = getattr(source, "coefficients_", None) or getattr(source, "coefficients", None)
    own = None
    if isinstance(known, Coefficients):
        own = known.own

    text = io.StringIO()
    # all text is quoted: older versions of Python leave a lone "\r" in a name without quotes
    writer = csv.DictWriter(
        text, _header(rule, own), "", lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
    )
    writer.writeheader()
    for k in range(len(rule.constants)):
        place = 0  # of the coefficient among the estimates
        for words, coefficient, places in _lines(rule, k):
            row: dict[str, Any] = dict(zip(_WORDS, map(harmless, words), strict=False))
            row |= {"coefficient": coefficient} | places
            if len(rule.constants) > 1 and rule.classes:
                row["class"] = harmless(rule.classes[k + 1])
            if rule.ratio and words[0] not in ("constant", "offset", "largest"):
                row[_ratio_name(rule)] = math.exp(min(coefficient, 700.0))
            if own is not None and words[0] not in ("reference", "offset", "largest"):
                numbers = own.estimate, own.standard_error, *own.interval
                row |= {name: float(n[k, place]) for name, n in zip(_OWN, numbers, strict=True)}
                place += 1
            writer.writerow(row)
    write_atomically(path, text.getvalue().encode())


def _header(rule: Rule, own: Any) -> list[str]:
    """Columns of the table: those that some of its lines use."""
    header = [*_WORDS, "coefficient"]
    if len(rule.constants) > 1:
        header.insert(0, "class")
    if rule.ratio:
        header.append(_ratio_name(rule))
    header += _PLACES
    if own is not None:
        header += _OWN
    return header


def _ratio_name(rule: Rule) -> str:
    return rule.ratio.replace(" ", "_")


def _lines(rule: Rule, k: int) -> Iterator[tuple[tuple[str, ...], float, dict[str, float]]]:
    """Words, coefficient and places of each line of a score."""
    constant, *weights = per_unit(
        rule.columns, rule.products, np.append(rule.constants[k], rule.weights[:, k])
    ).tolist()
    yield ("constant",), constant, {}

    terms: list[tuple[str, str]] = []  # column and level of each
    for column, start, _ in rule.parts():
        own = weights[start : start + len(column.terms)]
        if isinstance(column, NumberColumn):
            nodes = column.nodes.tolist()
            line = {"if_missing": float(column.centre)}
            if rule.clips:
                line |= {"low": nodes[0], "high": nodes[-1]}
            yield ("number", column.name), own[0], line
            for j, height in enumerate(own[1 : len(nodes) - 1]):
                hat = dict(zip(_PLACES[3:], nodes[j : j + 3], strict=True))
                yield ("hat", column.name), height, hat
            if column.indicator:
                yield ("missing", column.name), own[-1], {}
            terms += [(column.name, "")] * len(own)
        else:
            yield ("reference", column.name, column.reference), 0.0, {}
            for level, weight in zip(column.levels, own, strict=True):
                yield ("level", column.name, level), weight, {}
                terms.append((column.name, level))

    for product, weight in zip(rule.products, weights[len(terms) :], strict=True):
        yield ("product", *terms[product.first], *terms[product.second]), weight, {}

    # what is no coefficient of a column
    if rule.offset is not None:
        yield ("offset", rule.offset), rule.offset_weight, {}
    if rule.length_weight:
        yield ("length",), rule.length_weight, {}
    if math.isfinite(rule.largest):
        yield ("largest",), rule.largest, {}


def harmless(cell: Any) -> Any:
    """The cell, with an apostrophe before a text that might be computed."""
    if isinstance(cell, str) and cell.startswith(_STARTS) and not is_number_text(cell):
        return f"'{cell}"
    return cell
