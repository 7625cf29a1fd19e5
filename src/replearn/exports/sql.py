"""Models as SQL, for rows that live in a database."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from replearn.documents import Label
from replearn.errors import ReplearnError, short
from replearn.exports.rules import BOOLEANS, Factor, Levels, Number, Rule, rule_of
from replearn.tables import MISSING, OTHER
from replearn.tables.cells import MISSING_WORDS, WHITE_SPACE, is_number_text

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
    table : str, default="rows"
        Name of the table; it stands in one place of the statement.
    dialect : {"sqlite", "duckdb", "postgres"}

    Returns
    -------
    statement : str
        It gives predictions, and then all columns of the table.

    Notes
    -----
    Of two classes the predictions are ``replearn_label``, ``replearn_probability`` (of the second
    class, unless the model is a halfspace) and ``replearn_score``; of more classes there is a
    ``replearn_probability_k`` for each, and a ``replearn_score_k`` for each but the first, numbered
    from 0 in the order of the classes. Of a number it is ``replearn_prediction``.

    Cells mean what they mean to the model: NULL, NaN and words such as NA are missing, "01" is the
    level 1, and white space around a level is left out. If a row has a missing cell that the model
    refuses, its predictions are NULL. Columns of numbers must have a type of numbers in PostgreSQL;
    in the others a text that is no number is missing, as for the model. It needs SQLite 3.35, or
    PostgreSQL 12.

    Numbers are doubles, with as many digits as are needed to read back as the same double.
    """
    if dialect not in _DIALECTS:
        known = ", ".join(map(repr, _DIALECTS))
        raise ReplearnError(f"dialect must be one of {known}, got {short(dialect)}.")
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
        self.products: list[dict[Factor, dict[Factor, str]]] = []  # of each score
        for k in range(len(rule.constants)):
            found: dict[Factor, dict[Factor, str]] = {}
            for (first, second), weights in rule.products.items():
                found.setdefault(first, {})[second] = self._double(weights[k])
            self.products.append(found)

    def statement(self, table: str) -> str:
        """All predictions of all rows."""
        places = range(len(self.rule.constants))
        names = [f'"{_PREFIX}_score' + (f'_{k + 1}"' if len(places) > 1 else '"') for k in places]
        scores = [f"{self._score(k)} AS {names[k]},\n" for k in places]
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
            is_log = rule.kind == "poisson"
            return {"prediction": self._exp(scores[0], rule.largest) if is_log else scores[0]}
        every = [self._double(0.0), *scores]
        cases, chances = [], []
        for k, label in enumerate(rule.classes):
            others = [score for i, score in enumerate(every) if i != k]
            largest = _joined([f"{every[k]} >= {score}" for score in others], "AND")
            cases.append(f"WHEN {largest} THEN {_literal(label)}")  # of equal scores the first
            odds = [self._exp(f"({score} - {every[k]})") for score in others]
            chances.append(f"{one} / {_joined([one, *odds], '+')}")
        results = {"label": f"CASE {' '.join(cases)} END"}
        if rule.kind == "multinomial":
            results |= {f"probability_{k}": chance for k, chance in enumerate(chances)}
        elif rule.kind == "bernoulli":
            results["probability"] = chances[1]
        return results

    def _score(self, k: int) -> str:
        rule = self.rule
        adds: dict[Factor, str] = {}  # of each factor its weight, and the products that it heads
        parts = [self._double(rule.constants[k])]
        for place, column in enumerate(rule.columns):
            if isinstance(column, Number):
                adds[place, None] = self._double(column.weights[k])
                parts += self._bends(column, k)
            else:
                for level, weight in enumerate(column.weights[:, k].tolist()):
                    adds[place, level] = self._double(weight)
        for factor, seconds in self.products[k].items():
            adds[factor] = _joined([adds[factor], *self._terms(seconds)], "+")
        parts += self._terms(adds)
        if rule.offset is not None:
            parts.append(f"{self._double(rule.offset_weight)} * ({self._cell(rule.offset)})")
        total = _joined(parts, "+")
        if not rule.refuses_missing:
            return total
        absent = _joined([self._is_missing(column) for column in rule.columns], "OR")
        return f"CASE WHEN {absent} THEN NULL ELSE {total} END"

    def _terms(self, adds: Mapping[Factor, str]) -> list[str]:
        """Terms times expressions; those of a column's levels in one expression."""
        parts, levels = [], dict[int, dict[int, str]]()
        for (place, level), expression in adds.items():
            column = self.rule.columns[place]
            if level is not None:
                levels.setdefault(place, {})[level] = expression
            elif isinstance(column, Number):
                x = self._clipped(column)
                if math.isfinite(column.nodes[0]):
                    x = f"(({x} - {self._double(column.centre)}) / {self._double(column.spread)})"
                parts.append(f"{expression} * {x}")
        for place, found in levels.items():
            column = self.rule.columns[place]
            assert isinstance(column, Levels)
            parts.append(self._case(column, found))
        return parts

    # --- cells ------------------------------------------------------------------------------------

    def _cell(self, name: str) -> str:
        return self.words.cell.format(f"{_ROWS}.{_quoted(name)}")

    def _clipped(self, column: Number) -> str:
        """A number between its ends; the centre if it is missing."""
        if not math.isfinite(column.nodes[0]):
            return f"({self._cell(column.name)})"
        filled = f"COALESCE({self._cell(column.name)}, {self._double(column.centre)})"
        return self.words.clip.format(
            filled, *map(self._double, column.nodes[:: len(column.nodes) - 1])
        )

    def _bends(self, column: Number, k: int) -> list[str]:
        """What a number adds besides its line: hats, as lines between nodes, and its absence."""
        parts, x = [], self._clipped(column)
        ends = [0.0, *column.heights[:, k].tolist(), 0.0]
        cases = ""
        for j in range(len(column.nodes) - 1):
            low, high = map(self._double, column.nodes[j : j + 2])
            rises = f"{self._double(ends[j + 1])} * ({x} - {low})"
            falls = f"{self._double(ends[j])} * ({high} - {x})"
            cases += f"WHEN {x} <= {high} THEN ({rises} + {falls}) / ({high} - {low}) "
        if len(ends) > 2:
            parts.append(f"CASE {cases}END")
        if column.missing is not None:
            weight = self._double(column.missing[k])
            absent = self._is_missing(column)
            parts.append(f"CASE WHEN {absent} THEN {weight} ELSE {self._double(0.0)} END")
        return parts

    def _text(self, column: Levels) -> str:
        """A cell without white space around it; the empty text if it is missing."""
        cell = f"CAST({_ROWS}.{_quoted(column.name)} AS TEXT)"
        return f"COALESCE(TRIM({cell}, '{WHITE_SPACE}'), '')"

    def _case(self, column: Levels, adds: Mapping[int, str]) -> str:
        """One of some expressions, by the level of a cell."""

        def of(place: int | None) -> str:
            return self._double(0.0) if place is None else adds.get(place, self._double(0.0))

        text = self._text(column)
        texts: dict[str, int | None] = dict.fromkeys(MISSING_WORDS, column.missing)
        numbers = ""
        for level, place in column.places.items():
            if is_number_text(level):
                numbers += f"WHEN {self._double(float(level))} THEN {of(place)} "
            else:
                texts |= dict.fromkeys(BOOLEANS.get(level, (level,)), place)
                if level in BOOLEANS and not self.has_booleans and set(column.places) <= _ANSWERS:
                    texts.setdefault("1" if level == "true" else "0", place)
        other = of(column.other)
        if numbers:
            other = f"CASE {self.words.number.format(text)} {numbers}ELSE {other} END"
        cases = " ".join(f"WHEN {_literal(word)} THEN {of(place)}" for word, place in texts.items())
        return f"CASE {text} {cases} ELSE {other} END"

    def _is_missing(self, column: Number | Levels) -> str:
        if isinstance(column, Number):
            return f"({self._cell(column.name)}) IS NULL"
        return f"{self._text(column)} IN ({', '.join(map(_literal, MISSING_WORDS))})"

    # --- arithmetic -------------------------------------------------------------------------------

    def _exp(self, exponent: str, largest: float = _LARGEST_EXPONENT) -> str:
        low, high = self._double(-_LARGEST_EXPONENT), self._double(largest)
        bounded = f"WHEN {exponent} < {low} THEN {low} WHEN {exponent} > {high} THEN {high}"
        return f"EXP(CASE {bounded} ELSE {exponent} END)"  # GREATEST would hide a NULL

    def _double(self, value: float) -> str:
        """A literal that reads back as the same double."""
        digits = f"{value:.15g}"  # as many digits as SQLite promises to read exactly
        text = digits if float(digits) == value else f"{value:.17g}"
        text = self.words.double.format(text if "e" in text else f"{text}e0")
        return f"({text})" if text.startswith("-") else text  # two minus signs begin a comment


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
