"""Coefficients as a table that people and spreadsheets read."""

import csv
import io
from typing import Any

from replearn.codes.encoding import OTHER, Encoding, NumberColumn
from replearn.exports.rules import check_text, model_of, rule_of

INTERCEPT = "(intercept)"

_ORIGIN = ["column", "category", "centre", "scale"]


def to_csv(source: Any) -> str:
    """Coefficients of a model as CSV text.

    Parameters
    ----------
    source : Model or fitted classifier

    Returns
    -------
    str
        A header, one line for each feature, and the intercept as the last line. Every number
        reads back as exactly the same double.

    Notes
    -----
    Columns: ``feature`` and ``coefficient``. With an encoding also ``column``, the raw column,
    and ``category``, or ``centre`` and ``scale``: a line adds its coefficient if the column has
    that category, or its coefficient times ``(value - centre) / scale``. Of a majority, the first
    column is ``vote``, the number of the halfspace, and each halfspace has its own intercept.
    """
    model = model_of(source)
    rule = rule_of(model)
    encoded, majority = model.encoding is not None, not model.is_halfspace
    origins = _origins(model.encoding) if model.encoding is not None else [[]] * model.n_features
    text = io.StringIO()
    # all text is quoted: older versions of Python leave a lone "\r" in a name without quotes
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    header = ["feature", "coefficient", *(_ORIGIN if encoded else [])]
    writer.writerow(["vote", *header] if majority else header)
    for vote, (weights, intercept) in enumerate(zip(rule.weights, rule.intercepts, strict=True)):
        number = [vote] if majority else []
        for name, weight, origin in zip(rule.names, weights, origins, strict=True):
            feature = check_text(name, "a feature's name", "CSV")
            writer.writerow([*number, feature, float(weight), *origin])
        writer.writerow([*number, INTERCEPT, float(intercept), *[""] * (len(header) - 2)])
    return text.getvalue()


def _origins(encoding: Encoding) -> list[list[Any]]:
    """Raw column, category, centre and scale of each feature."""
    origins: list[list[Any]] = []
    for column in encoding.columns:
        if isinstance(column, NumberColumn):
            origins.append([column.name, "", float(column.centre), float(column.scale)])
        else:
            values = (*column.values, OTHER) if column.other else column.values
            origins += [[column.name, value, "", ""] for value in values]
    return origins
