"""Models as SQL, for rows that live in a database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from replearn.documents import Label
from replearn.errors import ReplearnError, one_of, short
from replearn.exports.rules import Rule, level_places, rule_of
from replearn.tables import (
    BOOLEANS,
    MISSING,
    MISSING_WORDS,
    OTHER,
    WHITE_SPACE,
    LevelColumn,
    NumberColumn,
    is_number_text,
)

Dialect = Literal["sqlite", "duckdb", "postgres"]

#: Databases refuse to take the exponential of much more, and PostgreSQL of much less.
_LARGEST_EXPONENT = 700.0

#: Longest chain of one operator: parsers limit how deep an expression may be (SQLite: 1,000).
_CHAIN = 64

_ROWS, _SCORED, _PREFIX = '"replearn_rows"', '"replearn_scored"', "replearn"
_ANSWERS = {*BOOLEANS, OTHER, MISSING}
_DECIMAL = r"'^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$'"


@dataclass(frozen=True)
class _Words:
    """What dialects say differently: templates in which {0} is replaced."""

    double: str  # a literal
    cell: str  # the number in a column; NULL if it is missing
    number: str  # the number that a text is; NULL if it is none
    clip: str = "LEAST(GREATEST({0}, {1}), {2})"


_DIALECTS = {
    "sqlite": _Words(
        "{0}",
        # a cast takes the digits that a text begins with; it equals the text if that is all
        "CASE WHEN {0} = CAST({0} AS NUMERIC) THEN CAST({0} AS REAL) "
        "WHEN {0} IN ('true', 'True', 'TRUE') THEN 1e0 "
        "WHEN {0} IN ('false', 'False', 'FALSE') THEN 0e0 END",
        "CASE WHEN {0} = CAST({0} AS NUMERIC) THEN CAST({0} AS REAL) END",
        "MIN(MAX({0}, {1}), {2})",
    ),
    "duckdb": _Words(
        "{0}",
        "NULLIF(TRY_CAST({0} AS DOUBLE), CAST('nan' AS DOUBLE))",
        f"CASE WHEN regexp_matches({{0}}, {_DECIMAL}) THEN TRY_CAST({{0}} AS DOUBLE) END",
    ),
    "postgres": _Words(
        "float8 '{0}'",  # without the type it would be numeric, and so would the sums
        "NULLIF(CAST({0} AS float8), float8 'NaN')",
        f"CASE WHEN {{0}} ~ {_DECIMAL} THEN CAST({{0}} AS float8) END",
    ),
}


def to_sql(source: Any, table: str = "rows", *, dialect: Dialect = "sqlite") -> str:
    """Write a model as a SELECT statement.

    Parameters
    ----------
    source : model or fitted estimator
        Of replearn.
    table : str, default="rows"
        Name of the table; it stands in one place of the statement.
    dialect : {"sqlite", "duckdb", "postgres"}, default="sqlite"
        The database that runs it.

    Returns
    -------
    statement : str
        It gives predictions, and then all columns of the table.

    See Also
    --------
    to_onnx : a file that other languages run.
    to_csv : coefficients.

    Notes
    -----
    For two classes the predictions are ``replearn_label``, ``replearn_probability`` (of the second
    class, unless the model is a halfspace) and ``replearn_score``; for more classes there is a
    ``replearn_probability_k`` for each, and a ``replearn_score_k`` for each but the first, numbered
    from 0 in the order of the classes. Numbers have ``replearn_prediction`` and its score.

    Cells mean what they mean to the model: NULL, NaN and words such as NA are missing, "01" is the
    level 1, and white space around a level is left out. If a row has a missing cell that the model
    refuses, its predictions are NULL. Columns of numbers must have a type of numbers in PostgreSQL;
    in the others a text that is no number is missing, as for the model. It needs SQLite 3.35, or
    PostgreSQL 12, which refuses a table that has a column ``replearn_score`` already. What both
    dialects share is SQL as in [ISO9075].

    References
    ----------
    .. [ISO9075] International Organization for Standardization. Database languages SQL. ISO/IEC
       9075:2023.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> model = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> "replearn_probability" in rl.to_sql(model, "patients")
    True
    """
    one_of("dialect", dialect, list(_DIALECTS))
    rule = rule_of(source)
    if dialect != "postgres" and len({name.lower() for name in rule.names}) < len(rule.names):
        raise ReplearnError(
            f"names of columns must differ in more than case for {dialect}. Rename some of them."
        )
    if not table or "\0" in table:
        raise ReplearnError(f"table must be the name of a table, got {short(table)}.")
    return _Writer(rule, dialect).statement(_quoted(table))


class _Writer:
    """A rule in one dialect."""

    def __init__(self, rule: Rule, dialect: Dialect) -> None:
        self.rule, self.words, self.has_booleans = rule, _DIALECTS[dialect], dialect != "sqlite"
        self.owners = [(column, i) for column in rule.columns for i in range(len(column.terms))]

    def statement(self, table: str) -> str:
        """All predictions of all rows."""
        n_scores = len(self.rule.constants)
        names = [f'"{_PREFIX}_score"']
        if n_scores > 1:
            # from 1 on: the first class has no score
            names = [f'"{_PREFIX}_score_{k + 1}"' for k in range(n_scores)]
        scores = [f"{self._score(k)} AS {name},\n" for k, name in enumerate(names)]
        results = self._results([f"{_SCORED}.{name}" for name in names])

        # Materialized: each score is computed once. Predictions come first: of two columns with
        # one name, the first is the one that is meant.
        return (
            f"WITH {_SCORED} AS MATERIALIZED (SELECT {''.join(scores)}{_ROWS}.*\n"
            f"FROM {table} AS {_ROWS})\nSELECT "
            + "".join(f'{value} AS "{_PREFIX}_{name}",\n' for name, value in results.items())
            + f"{_SCORED}.*\nFROM {_SCORED}\n"
        )

    def _results(self, scores: list[str]) -> dict[str, str]:
        """What scores say, by name."""
        rule, one = self.rule, self._double(1.0)
        if rule.classes is None:
            (prediction,) = scores
            if rule.link == "log":
                prediction = self._exp(prediction, rule.largest)
            return {"prediction": prediction}

        every = [self._double(0.0), *scores]
        cases, chances = [], []
        for k, label in enumerate(rule.classes):
            others = [score for i, score in enumerate(every) if i != k]
            largest = _joined([f"{every[k]} >= {score}" for score in others], "AND")
            cases.append(f"WHEN {largest} THEN {_literal(label)}")  # of equal scores the first
            odds = [self._exp(f"({score} - {every[k]})") for score in others]
            chances.append(f"{one} / {_joined([one, *odds], '+')}")

        results = {"label": f"CASE {' '.join(cases)} END"}
        if len(scores) > 1:
            results |= {f"probability_{k}": chance for k, chance in enumerate(chances)}
        elif rule.link != "sign":
            results["probability"] = chances[1]
        return results

    def _score(self, k: int) -> str:
        rule, n_basic = self.rule, len(self.owners)
        weights = [self._double(weight) for weight in rule.weights[:, k].tolist()]
        factors = weights[:n_basic]  # of each term what it is multiplied by, with products
        heads: dict[int, list[tuple[int, str]]] = {}
        for product, weight in zip(rule.products, weights[n_basic:], strict=True):
            heads.setdefault(product.first, []).append((product.second, weight))
        for first, seconds in heads.items():
            factors[first] = _joined([factors[first], *self._terms(seconds)], "+")

        parts = [self._double(rule.constants[k]), *self._terms(list(enumerate(factors)))]
        for column, _, own in rule.parts():
            if isinstance(column, NumberColumn):
                parts += self._bends(column, own[1:, k].tolist())
        if rule.offset is not None:
            parts.append(f"{self._double(rule.offset_weight)} * ({self._cell(rule.offset)})")
        if rule.length_weight:
            squares = [f"({self._cell(name)}) * ({self._cell(name)})" for name in rule.names]
            parts.append(f"{self._double(rule.length_weight)} * SQRT({_joined(squares, '+')})")

        total = _joined(parts, "+")
        if not rule.refuses_missing:
            return total
        absent = _joined([self._is_missing(column) for column in rule.columns], "OR")
        return f"CASE WHEN {absent} THEN NULL ELSE {total} END"

    def _terms(self, factors: Sequence[tuple[int, str]]) -> list[str]:
        """Terms times expressions, without bends; those of a column's levels in one expression."""
        parts: list[str] = []
        levels: dict[str, tuple[LevelColumn, dict[int, str]]] = {}
        for term, factor in factors:
            column, place = self.owners[term]
            if isinstance(column, LevelColumn):
                adds = levels.setdefault(column.name, (column, {}))[1]
                if place in adds:
                    factor = f"({adds[place]} + {factor})"
                adds[place] = factor
            elif place == 0:
                x = self._clipped(column)
                if self.rule.clips:
                    centre = self._double(float(column.centre))
                    x = f"(({x} - {centre}) / {self._double(float(column.spread))})"
                parts.append(f"{factor} * {x}")
        return [*parts, *(self._case(column, adds) for column, adds in levels.values())]

    # --- cells ------------------------------------------------------------------------------------

    def _cell(self, name: str) -> str:
        return self.words.cell.format(f"{_ROWS}.{_quoted(name)}")

    def _clipped(self, column: NumberColumn) -> str:
        """A number between its ends; the centre if it is missing."""
        cell = self._cell(column.name)
        if not self.rule.clips:
            return f"({cell})"
        ends = map(self._double, column.nodes[[0, -1]].tolist())
        return self.words.clip.format(
            f"COALESCE({cell}, {self._double(float(column.centre))})", *ends
        )

    def _bends(self, column: NumberColumn, weights: Sequence[float]) -> list[str]:
        """What a number adds besides its line: hats, as lines between nodes, and its absence."""
        parts, x, n_knots = [], self._clipped(column), len(column.knots)
        heights = [self._double(height) for height in (0.0, *weights[:n_knots], 0.0)]
        nodes = [self._double(node) for node in column.nodes.tolist()]
        if n_knots:
            cases = ""
            for j, (low, high) in enumerate(pairwise(nodes)):
                line = f"{heights[j]} * ({high} - {x}) + {heights[j + 1]} * ({x} - {low})"
                cases += f"WHEN {x} <= {high} THEN ({line}) / ({high} - {low}) "
            parts.append(f"CASE {cases}END")

        if column.indicator:
            adds, zero = self._double(weights[-1]), self._double(0.0)
            parts.append(f"CASE WHEN {self._is_missing(column)} THEN {adds} ELSE {zero} END")
        return parts

    def _text(self, column: LevelColumn) -> str:
        """A cell without white space around it; the empty text if it is missing."""
        cell = f"CAST({_ROWS}.{_quoted(column.name)} AS TEXT)"
        return f"COALESCE(TRIM({cell}, '{WHITE_SPACE}'), '')"

    def _case(self, column: LevelColumn, adds: Mapping[int, str]) -> str:
        """One of some expressions, by the level of a cell."""
        text, zero, places = self._text(column), self._double(0.0), level_places(column)
        texts, numbers = dict.fromkeys(MISSING_WORDS, column.places[MISSING]), ""
        for level, place in places.items():
            if is_number_text(level):
                numbers += f"WHEN {self._double(float(level))} THEN {adds.get(place, zero)} "
            else:
                texts |= dict.fromkeys(BOOLEANS.get(level, (level,)), place)
                if level in BOOLEANS and not self.has_booleans and set(places) <= _ANSWERS:
                    texts[str(int(level == "true"))] = place

        other = adds.get(column.places[OTHER], zero)
        if numbers:
            other = f"CASE {self.words.number.format(text)} {numbers}ELSE {other} END"
        cases = (f"WHEN {_literal(t)} THEN {adds.get(i, zero)}" for t, i in texts.items())
        return f"CASE {text} {' '.join(cases)} ELSE {other} END"

    def _is_missing(self, column: NumberColumn | LevelColumn) -> str:
        if isinstance(column, NumberColumn):
            return f"({self._cell(column.name)}) IS NULL"
        return f"{self._text(column)} IN ({', '.join(map(_literal, MISSING_WORDS))})"

    # --- arithmetic -------------------------------------------------------------------------------

    def _exp(self, exponent: str, largest: float = _LARGEST_EXPONENT) -> str:
        low, high = self._double(-_LARGEST_EXPONENT), self._double(largest)
        bounded = f"WHEN {exponent} < {low} THEN {low} WHEN {exponent} > {high} THEN {high}"
        return f"EXP(CASE {bounded} ELSE {exponent} END)"  # GREATEST would hide a NULL

    def _double(self, value: float) -> str:
        """A literal that reads back as the same double."""
        text = f"{value:.15g}"  # as many digits as SQLite promises to read exactly
        if float(text) != value:
            text = f"{value:.17g}"
        if "e" not in text:
            text += "e0"

        text = self.words.double.format(text)
        if text.startswith("-"):  # two minus signs begin a comment
            text = f"({text})"
        return text


def _joined(parts: Sequence[str], operator: str) -> str:
    """Parts joined by an operator that may be bracketed in any way, in chains of limited length."""
    while len(parts) > _CHAIN:
        parts = [_joined(parts[i : i + _CHAIN], operator) for i in range(0, len(parts), _CHAIN)]
    return "(" + f"\n{operator} ".join(parts) + ")"


def _literal(label: Label) -> str:
    """A label or level."""
    if isinstance(label, str):
        return "'" + label.replace("'", "''") + "'"
    return str(label).upper()  # TRUE, FALSE, or a whole number


def _quoted(name: str) -> str:
    """The name of a column or table."""
    return '"' + name.replace('"', '""') + '"'
