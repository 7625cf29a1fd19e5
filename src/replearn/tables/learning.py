"""From an original's table to its encoding: what is published about columns, and what is not."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import combinations, product
from statistics import NormalDist
from typing import Literal

import numpy as np

from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.tables.cells import named_columns
from replearn.tables.clusters import Clusters
from replearn.tables.counts import MOST_MISSING
from replearn.tables.encoding import (
    CLIP,
    MISSING,
    OTHER,
    Encoding,
    LevelColumn,
    NumberColumn,
    Product,
)
from replearn.tables.safety import (
    LEAST_COUNT,
    Remark,
    make_other,
    published_share,
    reference_level,
    remarks_on,
)
from replearn.tables.scan import ColumnScan, TableScan, look_at, numbers_apart, quantile
from replearn.tables.table import Table
from replearn.types import Array, Vector

#: Rows behind each published quantile, and between knots.
QUANTILE_ROWS = 50

_TAIL = 0.05  # the spread is that of the middle 90%
_KNOT_SHARES = np.linspace(_TAIL, 1 - _TAIL, 5).tolist()  # of the rows that are below a knot
_FAR_TAIL = 0.01  # at most so many rows on one side are clipped
_ENOUGH_APART = 200  # rows of the sample that differ from the others, if not all shall be counted
_HARDLY = "is the same in all but a few rows (50 must differ), so it is left out"


@dataclass(frozen=True)
class Learned:
    """An encoding, what a look found, and remarks on columns.

    Of survival the look is at persons, and ``at_risk`` at their rows at risk, which labs count.
    """

    encoding: Encoding
    look: TableScan
    remarks: tuple[Remark, ...]
    at_risk: TableScan | None = None


def learn_encoding(
    table: Table,
    labels: Array | None = None,
    *,
    basis: Literal["linear", "splines"] = "linear",
    interactions: Literal["all"] | Sequence[tuple[str, str]] | None = None,
    missing: Literal["indicator", "refuse"] = "indicator",
    categories: Sequence[str] = (),
    numeric: Sequence[str] = (),
    least_rows: int = 50,
    clusters: Clusters | None = None,
) -> Learned:
    """Learn how the columns of an original become numbers.

    The result depends on the rows alone: not on their order, on batches, or on the kind of source.
    ``labels`` are class numbers or numbers to regress on. With splines, numbers have hats at knots:
    at most five quantiles from 5% to 95%. Columns in ``categories`` are levels, whatever
    they look like, others if a cell is no number; no remark is made about those in ``numeric``. A
    level or a missing indicator needs ``least_rows``, at least 10, to have a term; a product 50.
    With ``clusters`` these are independent rows.
    """
    _check_names(table, categories, numeric)
    names = table.names
    levels = {*categories, *table.levels.intersection(names).difference(numeric)}
    if table.is_sparse and (basis == "splines" or interactions or categories):
        raise ReplearnError(
            "a sparse table must be encoded with a linear basis, without products and categories. "
            "Pass it as a dense table."
        )

    # one pass over the rows, and what is odd about the columns
    classes = None
    if labels is not None and labels.dtype.kind in "iub":
        classes = labels
    look = look_at(table, names, classes, levels)
    if clusters is not None:
        clusters.count(table, look)
    least_rows = max(LEAST_COUNT, least_rows)
    remarks = remarks_on(look, levels, categories, numeric, least_rows)
    if missing == "refuse":
        _refuse_gaps(look)

    # numbers that vary have a scale; the others are left out, with a remark if they have cells
    levels.update(name for name, scan in look.columns.items() if scan.n_texts)
    empty = {remark.column for remark in remarks if remark.kind == "empty"}
    numbers = [name for name in names if name not in levels | empty]
    scales = _scales(table, look, numbers, least_rows, clusters)
    remarks += tuple(_unscaled(name, look) for name in numbers if name not in scales)

    columns = _columns(look, levels, scales, least_rows, basis == "splines")
    if not columns:
        raise ReplearnError(
            f"{table.place} must have a column that varies in enough rows, got none among "
            f"{named_columns(names)}."
        )

    _refuse_lost_gaps(columns, look, least_rows)
    encoding = Encoding(tuple(columns), missing=missing)
    if interactions:
        pairs = _column_pairs(encoding, interactions)
        encoding = _with_products(encoding, pairs, table, max(QUANTILE_ROWS, least_rows))
    return Learned(encoding, look, remarks)


def _columns(
    look: TableScan,
    levels: Collection[str],
    scales: Mapping[str, tuple[float, float]],
    least_rows: int,
    has_knots: bool,
) -> list[NumberColumn | LevelColumn]:
    """What is published about levels that have enough rows, and numbers that have a scale."""
    columns: list[NumberColumn | LevelColumn] = []
    share = min(1.0, look.n_sampled / look.n_rows)
    apart = max(QUANTILE_ROWS, least_rows) * share  # rows of the sample between knots
    for name, scan in look.columns.items():
        if name in levels:
            if (levelled := _level_column(name, scan, least_rows)) is not None:
                columns.append(levelled)
        elif name in scales:
            column = _number_column(name, scales[name], scan.n_independent_missing >= least_rows)
            if has_knots:
                column = replace(column, knots=_knots(look.numbers(name), column, apart))
            columns.append(column)
    return columns


def _check_names(table: Table, categories: Sequence[str], numeric: Sequence[str]) -> None:
    for option, given in (("categories", categories), ("numeric", numeric)):
        table.require_names(option, given)
    if both := [name for name in categories if name in numeric]:
        raise ReplearnError(f"{named_columns(both)} cannot be levels and numbers. Choose one.")


def _refuse_gaps(look: TableScan) -> None:
    for name, scan in look.columns.items():
        if scan.n_missing:
            raise ReplearnError(
                f"column {name!r} must have a value in every row, got {scan.n_missing:,} missing "
                'ones. Fill or leave out such rows, or pass missing="indicator".'
            )


def _refuse_lost_gaps(
    columns: Sequence[NumberColumn | LevelColumn], look: TableScan, least_rows: int
) -> None:
    """Refuse columns with many gaps that are worth too few rows for a coefficient of their own."""
    for column in columns:
        scan = look.columns[column.name]
        has_term = any(kind == "missing" for kind, _ in column.terms)
        if has_term or scan.n_missing <= MOST_MISSING * look.n_rows:
            continue
        worth = f"{least_rows} must stand behind a coefficient of gaps"
        remedy = f"Leave the column out (drop=['{column.name}']) or fill its gaps in."
        if scan.independent is None:
            worth += ", or the smallest lab has too few"
            remedy += " Or plan for larger labs (replication_rows)."
        else:
            worth += f", and they are worth {scan.n_independent_missing:.0f} independent ones: "
            worth += "groups are few, or alike"
            remedy += " If the groups are hospitals, name them as centres."
        raise ReplearnError(
            f"column {column.name!r} is missing in {scan.n_missing:,} of {look.n_rows:,} rows; "
            f"{worth}. {remedy}"
        )


# --- numbers --------------------------------------------------------------------------------------


def _scales(
    table: Table, look: TableScan, names: Sequence[str], least_rows: int, clusters: Clusters | None
) -> dict[str, tuple[float, float]]:
    """Centre and spread of each column of numbers; none of those that hardly vary.

    The spread is that of the middle 90% of the rows, or of less where fewer than 50 rows would
    be beyond; larger, if more than 1% on one side would be clipped. Where the middle rows are all
    alike, as in a column that is mostly 0, it is half the median distance of the others, if they
    are many enough, doubled while more than 2% of them would be clipped.
    """
    scales: dict[str, tuple[float, float]] = {}
    alike: dict[str, float] = {}  # centres of columns whose sample does not tell a spread
    for name in names:
        values = look.numbers(name)
        if not values.size:
            continue
        centre, spread = _scale(values, table.is_sparse)
        if spread is None:
            alike[name] = centre
        else:
            scales[name] = centre, spread

    if alike:
        independent = {}
        if clusters is not None:
            independent = clusters.independent_apart(table, alike)
        for name, apart in numbers_apart(table, alike).items():
            # of two values, 0 and 1 say, no quantile is published: they are like two levels
            least = max(least_rows, QUANTILE_ROWS)
            if apart.size and apart[0] == apart[-1] and not table.is_sparse:
                least = least_rows

            if independent.get(name, apart.size) >= least:
                scales[name] = alike[name], _spread_apart(apart, alike[name])
    return {name: scales[name] for name in names if name in scales}


def _unscaled(name: str, look: TableScan) -> Remark:
    """Why a column of numbers has no scale."""
    values = look.numbers(name)
    if values.size and values[0] == values[-1]:
        return Remark(name, "constant", "is the same in all rows, so it is left out")
    return Remark(name, "hardly", _HARDLY)


def _scale(values: Vector, is_sparse: bool) -> tuple[float, float | None]:
    """Centre and spread of sorted numbers; no spread if nearly all are alike."""
    # too few to publish quantiles: the ends, which repeated rows do not move
    low, high = float(values[0]), float(values[-1])
    is_few = values.size < QUANTILE_ROWS and high > low

    centre = quantile(values, 0.5)
    if is_few:
        centre = (low + high) / 2
    if is_sparse:  # zeros must stay zeros
        centre = 0.0
    if is_few:
        return centre, (high - low) / 3.29

    tail = _tail(_TAIL, QUANTILE_ROWS, values)
    width = quantile(values, 1 - tail) - quantile(values, tail)
    if width > 0:
        far = _tail(_FAR_TAIL, QUANTILE_ROWS, values)
        reach = max(quantile(values, 1 - far) - centre, centre - quantile(values, far))
        return centre, max(width / (-2 * NormalDist().inv_cdf(tail)), reach / CLIP)

    apart = values[values != centre]
    if apart.size >= _ENOUGH_APART:
        return centre, _spread_apart(apart, centre)
    return centre, None


def _tail(share: float, least_rows: int, values: Vector) -> float:
    """A share of the values with so many rows beyond, or a quarter."""
    return min(max(share, least_rows / values.size), 0.25)


def _spread_apart(apart: Vector, centre: float) -> float:
    distances = np.sort(np.abs(apart - centre))
    far = _tail(2 * _FAR_TAIL, LEAST_COUNT, distances)
    spread = quantile(distances, 0.5) / 2
    while quantile(distances, 1 - far) > CLIP * spread:  # doubled, so that it tells little of them
        spread *= 2
    return spread


def _number_column(name: str, scale: tuple[float, float], indicator: bool) -> NumberColumn:
    centre, spread = scale
    if not 1e-90 < spread < 1e90 or abs(centre) > 1e90:
        raise ReplearnError(
            f"column {name!r} must have numbers within 1e90, and not closer than 1e-90. Change "
            "its unit."
        )
    text = decimal_text(spread)
    return NumberColumn(name, place_text(centre, text), text, indicator=indicator)


def place_text(value: float, spread: str) -> str:
    """A number to the last of the three digits of the spread."""
    step = Decimal(spread).adjusted() - 2
    exact = Decimal(value)
    if exact.adjusted() - step > 15:  # more digits than a float64 has
        return decimal_text(value, 15)
    return decimal_text(float(exact.quantize(Decimal(1).scaleb(step), ROUND_HALF_EVEN)), 17)


def _knots(values: Vector, column: NumberColumn, apart: float) -> tuple[str, ...]:
    """Quantiles with so many rows between them."""
    # constant, z and hats together are at most as many as there are different values
    most = np.count_nonzero(np.diff(values[values <= quantile(values, 0.99)]) > 0) - 1
    low, high = column.nodes[0], column.nodes[-1]
    knots: list[str] = []
    n_below = 0  # rows up to the last knot
    for share in _KNOT_SHARES:
        text = place_text(quantile(values, share), column.spread)
        knot = float(text)
        below = int(np.searchsorted(values, knot, side="left"))
        above = values.size - int(np.searchsorted(values, knot, side="right"))
        if low < knot < high and below - n_below >= apart and above >= apart:
            if len(knots) < most:
                knots.append(text)
            n_below = below
    return tuple(knots)


# --- levels ---------------------------------------------------------------------------------------


def _level_column(name: str, look: ColumnScan, least_rows: int) -> LevelColumn | None:
    """Levels with enough rows, against the most frequent one; None if there is nothing to tell."""
    if look.too_many:
        return None
    counts = {text: rows for text, rows in look.counts.items() if text not in (OTHER, MISSING)}
    kept = {text for text in counts if look.n_independent(text) >= least_rows}
    if not kept:
        return None

    reference = reference_level(look, kept)
    levels = sorted(kept - {reference}, key=_by_value)

    folded = [text for text in look.counts if text not in kept]
    if make_other(look, folded, least_rows):
        levels.append(OTHER)
    if look.n_independent_missing >= least_rows:
        levels.append(MISSING)
    if not levels:
        return None

    n_folded, n_known = (
        sum(int(look.counts[text].sum()) for text in some) for some in (folded, look.counts)
    )
    return LevelColumn(name, tuple(levels), reference, published_share(n_folded, n_known))


def _by_value(text: str) -> tuple[bool, float, str]:
    """Numbers by their value, before texts."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


# --- products -------------------------------------------------------------------------------------


def _column_pairs(
    encoding: Encoding, interactions: Literal["all"] | Sequence[tuple[str, str]]
) -> list[tuple[int, int]]:
    """Places of the columns that are multiplied."""
    if interactions == "all":
        return list(combinations(range(len(encoding.columns)), 2))
    pairs = []
    for pair in interactions if isinstance(interactions, Iterable) else [interactions]:
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not is_pair or pair[0] == pair[1]:
            raise ReplearnError(f"interactions must be pairs of different columns, got {pair!r}.")

        absent = [name for name in pair if name not in encoding.names]
        if absent:
            raise ReplearnError(
                f"interactions must be of columns that have terms, got {named_columns(absent)}. "
                f"There are {named_columns(encoding.names)}."
            )
        pairs.append(tuple(sorted(encoding.names.index(name) for name in pair)))
    return sorted(set(pairs))  # type: ignore[arg-type]


def _with_products(
    encoding: Encoding, pairs: Iterable[tuple[int, int]], table: Table, least_rows: int
) -> Encoding:
    """All products of the terms of these columns that have enough rows."""
    of_column: dict[int, list[int]] = {}
    for number, term in enumerate(encoding.terms):
        if term.kind in ("z", "level"):
            of_column.setdefault(term.columns[0], []).append(number)
    candidates: list[tuple[int, int]] = []
    for i, j in pairs:
        candidates += product(of_column.get(i, []), of_column.get(j, []))
    factors = sorted({term for pair in candidates for term in pair})
    place = {term: number for number, term in enumerate(factors)}

    # rows in which both factors differ from 0
    joint = np.zeros((len(factors), len(factors)))
    for batch in table.batches():
        present = (encoding.encode(batch)[:, factors] != 0).astype(np.float64)
        joint += present.T @ present

    products = [Product(a, b) for a, b in candidates if joint[place[a], place[b]] >= least_rows]
    return replace(encoding, products=tuple(products))
