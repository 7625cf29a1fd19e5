"""Who is in a study: Table 1 of a paper, columns by outcome, with the shares that are missing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from replearn.tables import (
    LEAST_COUNT,
    QUANTILE_ROWS,
    ColumnScan,
    Learned,
    LevelColumn,
    NumberColumn,
    TableScan,
    place_text,
    quantile,
)
from replearn.types import Vector
from replearn.words import Table

#: Classes that have a column each, at most.
_MOST_CLASSES = 4
#: A larger share of gaps is told beside a verdict.
_TOLD = 0.05
#: Columns that are named there.
_NAMED = 6


def cohort_table(learned: Learned, target: str, classes: Sequence[Any] | None) -> Table:
    """Medians with quartiles, or counts with shares, of all rows and of each class.

    Counts below ten are not shown, and quartiles only of 50 rows or more: the table is for a paper.
    """
    look, shown = learned.look, list(classes or ())
    if len(shown) > _MOST_CLASSES:
        shown = []
    header = ["column", "all", *(f"{target} = {label}" for label in shown), "missing"]

    # rows of each class come first
    rows: list[list[Any]] = []
    if shown:
        rows.append(_counts_row(look))

    for column in learned.encoding.own_columns:
        scan = look.columns[column.name]
        missing = _share(scan.n_missing, look.n_rows)
        if isinstance(column, NumberColumn):
            rows.append([column.name, *_number_cells(look, column, len(shown)), missing])
        else:
            rows += _level_rows(scan, column, len(shown), missing)

    title = "Who is in the study: median (quartiles), or number (share)"
    return Table(title, header, rows, key="cohort")


def gaps_told(learned: Learned) -> list[str]:
    """Columns of which more than 5% are missing, and what such cells count as."""
    look = learned.look
    shares: dict[bool, dict[str, float]] = {True: {}, False: {}}  # by whether gaps have a term
    for column in learned.encoding.own_columns:
        share = look.columns[column.name].n_missing / look.n_rows
        if share >= _TOLD:
            has_term = any(kind == "missing" for kind, _ in column.terms)
            shares[has_term][column.name] = share

    told = []
    for has_term, words in (
        (True, "Missing values have coefficients of their own"),
        (False, "Too few for that, missing values count as the median, (other) or the reference"),
    ):
        if shares[has_term]:
            told.append(f"{words}: {_worst(shares[has_term])}.")
    return told


def _worst(shares: dict[str, float]) -> str:
    """Columns by their share, the worst first; too many are counted."""
    worst = sorted(shares, key=lambda name: -shares[name])
    listed = ", ".join(f"{name} {shares[name]:.0%}" for name in worst[:_NAMED])
    if len(worst) > _NAMED:
        listed += f", and {len(worst) - _NAMED} more columns"
    return listed


def _counts_row(look: TableScan) -> list[Any]:
    """Rows of each class."""
    cells = [_count(count, look.n_rows) for count in look.class_counts.tolist()]
    return ["rows", f"{look.n_rows:,}", *cells, ""]


def _number_cells(look: TableScan, column: NumberColumn, n_classes: int) -> list[str]:
    """Median and quartiles, of 0/1 columns the number of ones."""
    # all rows, and those of each class
    cells = look.cells(column.name)
    parts = [cells]
    if n_classes and look.classes is not None:
        parts += [cells[look.classes == label] for label in range(n_classes)]
    known = [np.sort(part[~np.isnan(part)]) for part in parts]
    if np.unique(known[0]).tolist() != [0.0, 1.0]:
        return [_quartiles(part, column.spread) for part in known]

    # ones and zeros: a sample of rows stands for all
    scale = look.n_rows / look.n_sampled
    counts = np.array([[float(part.sum()), float((1 - part).sum())] for part in known]) * scale
    shown = [_count(round(ones), ones + zeros) for ones, zeros in counts.tolist()]

    # who knows both classes but one cell finds it by subtraction
    if counts[1:].min(initial=LEAST_COUNT) < LEAST_COUNT:
        return _hidden(shown)
    return shown


def _quartiles(values: Vector, spread: str) -> str:
    """As many digits as the column's spread has, so that years are years."""
    if values.size < QUANTILE_ROWS:
        return "few rows"
    low, middle, high = (place_text(quantile(values, share), spread) for share in (0.25, 0.5, 0.75))
    return f"{middle} ({low}, {high})"


def _level_rows(
    scan: ColumnScan, column: LevelColumn, n_classes: int, missing: str
) -> list[list[Any]]:
    """A row for each level that the study has; others are taken together."""
    # rows of each level, by class
    named = [column.reference, *(text for text in column.levels if text in scan.counts)]
    counts = {text: scan.counts[text] for text in named}
    rest = [rows for text, rows in scan.counts.items() if text not in counts]
    if rest:
        counts["(other)"] = np.sum(rest, axis=0)
    totals = np.sum(list(counts.values()), axis=0)

    # levels of few rows in a class, and another one, or the others would tell it
    few = {text for text, of_class in counts.items() if of_class.min() < LEAST_COUNT}
    if len(few) == 1 and len(counts) > 1:
        few.add(min(counts.keys() - few, key=lambda text: int(counts[text].min())))

    rows: list[list[Any]] = []
    for text, of_class in counts.items():
        cells = [_count(of_class.sum(), totals.sum())]
        if n_classes > 1:
            cells += map(_count, of_class.tolist(), totals.tolist())
        if text in few:
            cells = _hidden(cells)
        rows.append([f"{column.name} = {text}", *cells, missing])
        missing = ""  # it stands in the first line of its column
    return rows


def _hidden(cells: list[str]) -> list[str]:
    """The first of them, that of all rows; of classes nothing."""
    return [cells[0], *["few rows"] * (len(cells) - 1)]


def _count(count: float, total: float) -> str:
    if count < LEAST_COUNT:
        return f"< {LEAST_COUNT}"
    return f"{count:,.0f} ({count / max(total, 1):.1%})"


def _share(count: int, total: int) -> str:
    if count < LEAST_COUNT:
        return "0%" if count == 0 else f"< {LEAST_COUNT} rows"
    return f"{count / total:.1%}"
