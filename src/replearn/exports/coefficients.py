"""Coefficients as a table that people and spreadsheets read."""

import csv
import io
from typing import Any

import numpy as np

from replearn.codes.encoding import OTHER, NumberColumn
from replearn.codes.model import Model
from replearn.exports.rules import Rule, check_text, model_of, rule_of
from replearn.kernels.portable import exponential, sigmoid

INTERCEPT, THRESHOLD, LONGEST = "(intercept)", "(threshold)", "(longest row)"

#: First characters with which spreadsheets begin a formula, their wide forms too.
_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")

_ORIGIN = ["column", "category", "centre", "scale"]
_ODDS = ["log_odds_per_unit", "odds_ratio_per_unit", "odds_ratio_per_scale"]


def to_csv(source: Any, *, large: bool = False, spreadsheet: bool = False) -> str:
    """Coefficients of a model as CSV text.

    Parameters
    ----------
    source : Model or fitted classifier
        What is exported.
    large : bool, default=False
        Decode a model of more than 2^18 features, or a map of more than 2^24 numbers, from a file.
    spreadsheet : bool, default=False
        Put an apostrophe before every name or category that a spreadsheet would take for a
        formula, as ``=cmd``. Then names are no longer what they were, where they began so.

    Returns
    -------
    str
        A header, one line for each feature, and the intercept as the last line. Every number
        reads back as exactly the same double.

    Notes
    -----
    Columns: ``feature`` and ``coefficient``. With an encoding also ``column``, the raw column,
    and ``category``, or ``centre``, and ``scale``: a line adds its coefficient over its scale if
    the column has that category (a category without a scale has 1), or its coefficient times
    ``(value - centre) / scale``. Of a majority, the first column is ``vote``, the number of the
    halfspace, and each halfspace has its own intercept.

    Of a logistic model the sum is the log-odds of the second label. Two more lines follow the
    intercept: the log-odds of the threshold, and the length of an encoded row beyond which the sum
    without the intercept is multiplied by that length over the row's. Three more columns are for
    reading, with six digits: ``log_odds_per_unit``, by one unit of the raw column or by having the
    category; ``odds_ratio_per_unit``, its exponential; and ``odds_ratio_per_scale``, the
    exponential of the coefficient. That is per published scale, which comes from the pilot, and
    not per standard deviation of anybody's rows: it is the same at every site. A report of
    ``replearn evaluate`` has what one standard deviation of its own rows adds. Of more than two
    classes the first column is ``class``; sums are log-odds against the first class, whose lines
    are left out, and the last line is the length of a row. Of other models of more than two classes
    all have lines, sums are signed distances, and the largest decides.

    Of a regression the sum is the number that is predicted; ``per_unit`` is what one unit of the
    raw column, or having the category, adds; the last line is the length of a row.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> print(rl.to_csv(fitted).splitlines()[0])
    "feature","coefficient"
    """
    model = model_of(source, large)
    rule = rule_of(model)
    text = io.StringIO()
    # all text is quoted: older versions of Python leave a lone "\r" in a name without quotes
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    rows = _lines(model, rule)
    writer.writerows([map(harmless, row) for row in rows] if spreadsheet else rows)
    return text.getvalue()


def _lines(model: Model, rule: Rule) -> list[list[Any]]:
    """The header, and for each halfspace a line for each feature and one for its intercept."""
    many, threshold = model.n_classes > 2, rule.threshold
    readings: dict[str, Any] = {}  # columns for people, with six digits
    if model.is_numeric:
        readings = {"per_unit": rule.weights[0] * output_heights(model)}
    elif threshold is not None and not many:
        per_unit = rule.weights[0] * output_heights(model)
        odds = [per_unit, exponential(per_unit), exponential(rule.weights[0])]
        readings = dict(zip(_ODDS, odds, strict=True))
    header = ["feature", "coefficient", *(_ORIGIN if model.encoding is not None else []), *readings]
    blank = [""] * (len(header) - 2)
    first = 0  # log-odds are against the first of many classes
    marks: list[list[Any]] = [[]]
    if many:
        header.insert(0, "class")
        first = 0 if threshold is None else 1
        marks = [
            [check_text(label, "a label", "CSV") if isinstance(label, str) else label]
            for label in model.classes[first:]
        ]
    elif not model.is_halfspace:
        header.insert(0, "vote")
        marks = [[vote] for vote in range(len(rule.weights))]
    features = [check_text(name, "a feature's name", "CSV") for name in rule.names]
    details = [
        [*origin, *(float(f"{values[i]:.6g}") for values in readings.values())]
        for i, origin in enumerate(_origins(model))
    ]
    lines: list[list[Any]] = [header]
    parts = zip(marks, rule.weights[first:], rule.intercepts[first:], strict=True)
    for mark, weights, intercept in parts:
        for feature, weight, detail in zip(features, weights, details, strict=True):
            lines.append([*mark, feature, float(weight), *detail])
        constant = intercept if many or threshold is None else intercept + threshold
        lines.append([*mark, INTERCEPT, float(constant), *blank])
    if threshold is not None and not many:
        lines.append([THRESHOLD, threshold, *blank])
    if threshold is not None or model.is_numeric:
        lines.append([*([""] if many else []), LONGEST, rule.cap, *blank])
    return lines


def output_heights(model: Model) -> Any:
    """By how much one unit of a raw column, or having a category, moves each feature."""
    if model.encoding is None:
        return np.ones(model.n_features)
    return np.concatenate(
        [
            [1 / float(column.scale)] if isinstance(column, NumberColumn) else column.heights
            for column in model.encoding.columns
        ]
    )


def in_words(model: Model, n_shown: int = 5) -> list[tuple[str, str]]:
    """What a logistic model says, as names and sentences for people."""
    rule = rule_of(model)
    assert rule.threshold is not None
    space: Any = model.space
    theta = space.theta(model.codes, model.shared)
    probability = float(sigmoid(np.array([rule.threshold]))[0])
    hint = "none: 0 bits" if space.hint_bits == 0 else f"{space.hint} of {1 << space.hint_bits}"
    if model.n_classes > 2:
        return [
            ("directions", f"{len(space.directions.rows)} published, shared by the classes"),
            ("intercepts", " ".join(f"{value:+.4g}" for value in rule.intercepts)),
            ("hint", hint),
            ("longest row", f"{space.cap}; longer ones are shortened to it"),
        ]
    per_unit = rule.weights[0] * output_heights(model)
    largest = np.argsort(-np.abs(rule.weights[0]), kind="stable")[:n_shown]
    ratios = exponential(per_unit)
    unit = "one unit" if model.encoding is None else "one unit, or of a category"
    return [
        ("threshold", f"{model.classes[1]!r} from a probability of {probability:.4g} on"),
        ("intercept", f"{rule.intercepts[0] + rule.threshold:+.4g} log-odds at the centres"),
        (
            "directions",
            f"{space.n_components - 1} published, weights "
            + " ".join(f"{weight:+.4g}" for weight in theta[1:]),
        ),
        ("start", "published model, weights " + " ".join(space.start[1:])),
        ("hint", hint),
        ("longest row", f"{space.cap}; longer ones are shortened to it"),
        (
            "odds ratios",
            f"of {unit}: "
            + ", ".join(f"{rule.names[i]} {_ratio_words(ratios[i])}" for i in largest),
        ),
    ]


def _ratio_words(ratio: float) -> str:
    """Four digits; more if they would all be those of 1, as of one dollar more of income."""
    return f"{ratio:.{4 if abs(ratio - 1) > 0.01 else 7}g}"


def _origins(model: Model) -> list[list[Any]]:
    """Raw column, category, centre and scale of each feature; nothing without an encoding."""
    if model.encoding is None:
        return [[]] * model.n_features
    origins: list[list[Any]] = []
    for column in model.encoding.columns:
        if isinstance(column, NumberColumn):
            origins.append([column.name, "", float(column.centre), float(column.scale)])
        else:
            values = (*column.values, OTHER) if column.other else column.values
            scales: list[Any] = [float(scale) for scale in column.scales] or [""] * len(values)
            origins += [
                [column.name, value, "", scale] for value, scale in zip(values, scales, strict=True)
            ]
    return origins


# --- spreadsheets -----------------------------------------------------------------------------


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
