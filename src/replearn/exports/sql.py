"""Models as SQL expressions, for rows that live in a database."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from replearn.codes.encoding import CategoryColumn, Column, NumberColumn
from replearn.codes.model import Label, Model
from replearn.exports.rules import Rule, check_text, model_of, rule_of
from replearn.types import Vector

#: Names of what a query adds to a table.
PREDICTION = "replearn_prediction"
SCORE, LABEL, PROBABILITY = "replearn_score", "replearn_label", "replearn_probability"

#: Databases refuse to take the exponential of more than about 709.
_LARGEST_EXPONENT = 700.0

#: Longest chain of one operator: parsers limit how deep an expression may be (SQLite: 1,000).
_CHAIN = 64


@dataclass(frozen=True)
class Sql:
    """A model in SQL.

    Attributes
    ----------
    score : str
        Scalar expression: the decision function of a row.
    label : str
        Scalar expression: the label of a row.
    query : str
        Statement: all columns of the table, ``replearn_score``, of a logistic model
        ``replearn_probability``, and ``replearn_label``.
    probability : str or None
        Scalar expression: the probability of the second label, of a logistic model; of more than
        two classes that of the label which is given.

    Of more than two classes ``score`` is the largest of their scores. Of a regression both
    expressions are the number that it predicts, and the query adds ``replearn_prediction``.
    """

    score: str
    label: str
    query: str
    probability: str | None = None


def to_sql(source: Any, table: str = "rows", *, large: bool = False) -> Sql:
    """Write a model as SQL.

    Parameters
    ----------
    source : Model or fitted classifier
        What is exported.
    table : str, default="rows"
        Name or alias of the table, in front of every column's name: SQLite would take the name
        of a column that does not exist for a text.
    large : bool, default=False
        Decode a model of more than 2^18 features, or a map of more than 2^24 numbers, from a file.

    Returns
    -------
    Sql
        ``score``, ``label`` and ``probability`` as expressions, ``query`` as a statement.

    Notes
    -----
    The columns are the raw columns of the model's encoding, which the expressions apply; without
    one, the feature names, or x0, x1, ... A missing number that the encoding does not fill in
    makes score and label NULL. Numbers have an exponent, which makes them double precision, and
    as many digits as are needed to read back as the same double.

    A logistic model needs the functions SQRT and EXP. Its score is the log-odds minus those of the
    threshold, of the row shortened to the published length; NULL if the squared length of the row
    overflows.

    Examples
    --------
    >>> import numpy as np
    >>> from replearn import Model
    >>> from replearn.codes.space import CodeSpace
    >>> space = CodeSpace(1, "none", 1, "centre", "0.5")
    >>> model = Model("svm", 1, False, space, "2024", ("well", "ill"), np.array([-7]))
    >>> print(to_sql(model, table="t").score)
    ((-1e0) * "t"."x0")
    """
    model = model_of(source, large)
    rule, name = rule_of(model), quoted(table)
    columns: Sequence[Column] = (
        model.encoding.columns
        if model.encoding is not None
        else [NumberColumn(feature, "0", "1") for feature in rule.names]
    )
    if model.n_classes > 2:
        return _of_classes(model, rule, columns, name)
    if model.is_numeric:
        score = _shortened_score(rule, columns, name)
        return Sql(score, score, f'SELECT {name}.*, {score} AS "{PREDICTION}"\nFROM {name}\n')
    low, high = (literal(label) for label in model.classes)
    if rule.threshold is not None:  # its score may be NULL when no number is missing
        score = _shortened_score(rule, columns, name)
        label = f"(CASE WHEN {score} > 0e0 THEN {high} WHEN {score} <= 0e0 THEN {low} END)"
    else:
        score, missing = _plain_score(model, rule, columns, name)
        label = _null_if(missing, f"CASE WHEN {score} > 0e0 THEN {high} ELSE {low} END")
    found = f'"scored"."{SCORE}"'
    added, probability = "", None
    if rule.threshold is not None:
        probability = _probability(score, rule.threshold)
        added = f'{_probability(found, rule.threshold)} AS "{PROBABILITY}",\n'
    query = f"""\
SELECT "scored".*,
{added}CASE WHEN {found} > 0e0 THEN {high} WHEN {found} <= 0e0 THEN {low} END AS "{LABEL}"
FROM (SELECT {name}.*, {score} AS "{SCORE}"
FROM {name}) AS "scored"
"""
    return Sql(score, label, query, probability)


def _plain_score(
    model: Model, rule: Rule, columns: Sequence[Column], name: str
) -> tuple[str, list[str]]:
    """The product of a halfspace or the mean of votes, and the conditions that make it NULL."""
    missing = [
        f"{name}.{quoted(column.name)} IS NULL"
        for column in columns
        if isinstance(column, NumberColumn) and not column.fill_missing
    ]
    products = []
    for weights, intercept in zip(rule.weights, rule.intercepts, strict=True):
        constant = [number(intercept)] if model.fit_intercept else []
        products.append(_joined([*_terms(columns, weights, name), *constant], "+"))
    if model.is_halfspace:
        return products[0], missing  # NULL if one of its terms is
    votes = [f"CASE WHEN {product} > 0e0 THEN 1e0 ELSE -1e0 END" for product in products]
    return _null_if(missing, f"{_joined(votes, '+')} / {number(len(votes))}"), missing


def _shortened_score(rule: Rule, columns: Sequence[Column], name: str) -> str:
    """Product and intercept of a row that is shortened to the published length."""
    product = _joined(list(_terms(columns, rule.weights[0], name)), "+")
    factor = _shortening(_joined(list(_squares(columns, name)), "+"), rule.cap)
    return f"({product} * {factor} + {number(rule.intercepts[0])})"


def _of_classes(model: Model, rule: Rule, columns: Sequence[Column], name: str) -> Sql:
    """A model of more than two classes; of a logistic one the first has the score 0."""
    products = [_joined(list(_terms(columns, weights, name)), "+") for weights in rule.weights]
    factor = ""
    if rule.threshold is not None:
        factor = " * " + _shortening(_joined(list(_squares(columns, name)), "+"), rule.cap)
    scores = [
        f"({product}{factor} + {number(intercept)})"
        for product, intercept in zip(products, rule.intercepts, strict=True)
    ]
    labels = [literal(label) for label in model.classes]
    places = [f'"scored"."{SCORE}_{place}"' for place in range(len(scores))]
    listed = ", ".join(f'{score} AS "{SCORE}_{place}"' for place, score in enumerate(scores))
    probability, added = None, ""
    if rule.threshold is not None:
        probability = _chance_of_largest(scores)
        added = f'{_chance_of_largest(places)} AS "{PROBABILITY}",\n'
    query = f"""\
SELECT "scored".*,
{_largest(places, places)} AS "{SCORE}",
{added}{_largest(places, labels)} AS "{LABEL}"
FROM (SELECT {name}.*, {listed}
FROM {name}) AS "scored"
"""
    return Sql(_largest(scores, scores), _largest(scores, labels), query, probability)


def _largest(scores: Sequence[str], values: Sequence[str]) -> str:
    """The value of the largest score, the first of equal ones; NULL if there is none."""
    cases = []
    for place, score in enumerate(scores):
        others = [
            f"{score} {'>' if other < place else '>='} {found}"
            for other, found in enumerate(scores)
            if other != place
        ]
        cases.append(f"WHEN {_joined(others, 'AND')} THEN {values[place]}")
    return f"(CASE {' '.join(cases)} END)"


def _chance_of_largest(scores: Sequence[str]) -> str:
    """Its probability: one over the sum of exponentials of what the others lack."""
    top, least = _largest(scores, scores), number(-_LARGEST_EXPONENT)
    terms = []
    for score in scores:
        lack = f"({score} - {top})"
        terms.append(f"EXP(CASE WHEN {lack} < {least} THEN {least} ELSE {lack} END)")
    return f"(1e0 / {_joined(terms, '+')})"


def _terms(columns: Sequence[Column], weights: Vector, table: str) -> Iterator[str]:
    """What each column adds to a product."""
    left = iter(weights.tolist())
    for column in columns:
        place = f"{table}.{quoted(column.name)}"
        if isinstance(column, CategoryColumn):
            yield _case(column, place, [next(left) * float(height) for height in column.heights])
        else:
            yield f"{number(next(left))} * {_scaled(column, place)}"


def _squares(columns: Sequence[Column], table: str) -> Iterator[str]:
    """What each column adds to the squared length of a row."""
    for column in columns:
        place = f"{table}.{quoted(column.name)}"
        if isinstance(column, CategoryColumn):
            yield _case(column, place, [float(height) ** 2 for height in column.heights])
        else:
            value = _scaled(column, place)
            yield f"{value} * {value}"


def _case(column: CategoryColumn, place: str, numbers: Sequence[float]) -> str:
    """A number for each output of a column of categories; 0 for what has none."""
    # no CAST: a text in quotes takes the type of the column, so '1' finds 1 and 1.0
    cases = [
        f"WHEN {literal(value)} THEN {number(found)}"
        for value, found in zip(column.values, numbers, strict=False)
    ]
    other = number(numbers[-1]) if column.other else "0e0"
    case = f"CASE {place} {' '.join(cases)} ELSE {other} END" if cases else other
    return f"CASE WHEN {place} IS NULL THEN 0e0 ELSE {case} END" if column.other else case


def _shortening(size: str, cap: float) -> str:
    """What a row of this squared length is multiplied by; NULL if the length overflows."""
    shorter = f"NULLIF({number(cap)} / SQRT({size}), 0e0)"
    return f"CASE WHEN {size} > {number(cap * cap)} THEN {shorter} ELSE 1e0 END"


def _probability(score: str, threshold: float) -> str:
    log_odds = f"({score} + {number(threshold)})" if threshold else score
    most = number(_LARGEST_EXPONENT)
    exponent = (
        f"CASE WHEN {log_odds} > {most} THEN {number(-_LARGEST_EXPONENT)} "
        f"WHEN {log_odds} < {number(-_LARGEST_EXPONENT)} THEN {most} ELSE -{log_odds} END"
    )
    return f"(1e0 / (1e0 + EXP({exponent})))"


def _scaled(column: NumberColumn, place: str) -> str:
    """The number of a column, after centring, scaling and filling in."""
    centre, scale = float(column.centre), float(column.scale)
    if (centre, scale) == (0, 1):
        value = place
    else:
        value = f"(({place} - {number(centre)}) / {number(scale)})"
    return f"COALESCE({value}, 0e0)" if column.fill_missing else value


def _null_if(missing: Sequence[str], expression: str) -> str:
    """NULL if one of the conditions holds, else the expression."""
    if not missing:
        return f"({expression})"
    return f"(CASE WHEN {_joined(missing, 'OR')} THEN NULL ELSE {expression} END)"


def _joined(parts: Sequence[str], operator: str) -> str:
    """Parts joined by an operator that may be bracketed in any way, in chains of limited length."""
    while len(parts) > _CHAIN:
        parts = [_joined(parts[i : i + _CHAIN], operator) for i in range(0, len(parts), _CHAIN)]
    return "(" + f"\n{operator} ".join(parts) + ")"


def number(value: float) -> str:
    """A double precision literal that reads back as the same number."""
    short = f"{value:.15g}"  # what SQLite promises to read exactly
    text = short if float(short) == value else f"{value:.17g}"
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text  # two minus signs would begin a comment


def literal(label: Label) -> str:
    """A label or category."""
    if isinstance(label, bool):
        return "TRUE" if label else "FALSE"
    if isinstance(label, int):
        return str(label)
    return "'" + check_text(label, "a label or category", "SQL").replace("'", "''") + "'"


def quoted(name: str) -> str:
    """The name of a column or table."""
    return '"' + check_text(name, "a name", "SQL").replace('"', '""') + '"'
