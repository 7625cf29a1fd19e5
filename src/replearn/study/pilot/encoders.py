"""Published scalings of a pilot's columns, and the pilot's rows in them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from replearn.codes.encoding import (
    CategoryColumn,
    Column,
    Encoding,
    NumberColumn,
    columns_of,
    names_of,
)
from replearn.plans.sizes import decimal
from replearn.study.pilot.safe_columns import RARE, known_numbers, published_categories
from replearn.types import Matrix, Vector

#: Scalings in words.
SCALINGS = {
    "own": "each column scaled by its own spread",
    "plain": "each number scaled by its own spread, categories as 0 and 1",
    "common": "each column scaled by a common spread",
}

#: A column that is constant in the pilot says nothing there: its values are scaled away.
_NO_SPREAD = "1e+30"

#: Rows longer than this many times the given quantile of the pilot's lengths are shortened.
_CAP_QUANTILE, _CAP_FACTOR = 0.95, 1.25

#: Smallest scale of a column, relative to the median of all: a column that hardly varies in the
#: pilot may vary later. Likewise the spread of an indicator, which the pilot may have seen rarely.
_SCALE_FLOOR, _INDICATOR_FLOOR = 0.1, 0.14


@dataclass(frozen=True)
class EncodedPilot:
    """A pilot's rows under one published scaling."""

    scaling: str  # of SCALINGS
    encoding: Encoding
    cap: str  # published length beyond which rows are shortened
    rows: Any  # array or CSR, encoded and shortened; their mean squared length is about 1


def encoded_pilots(X: Any, categories: Sequence[str], rare: int) -> list[EncodedPilot]:
    """The pilot in the scalings that are tried; the first is taken where no labels can tell.

    "own": every column by its own spread, robustly. "plain": numbers likewise, categories as 0 and
    1, so that a ridge penalty shrinks rare ones most; tried where there are categories. "common":
    all numbers by one spread, which is right for columns of one kind (pixels, counts, words); tried
    where there are only numbers.
    """
    if sp.issparse(X):
        spreads = _sparse_spreads(X)
        ways = [
            ("common", _sparse_encoding(_common_of(spreads))),
            ("own", _sparse_encoding(spreads)),
        ]
    else:
        table = _named_columns(X)
        columns = [_column(name, table[name], name in categories, rare) for name in table]
        ways = [("own", _floored(columns))]
        if all(isinstance(column, NumberColumn) for column in columns):
            ways.append(("common", _common(columns, table)))
        else:
            ways.append(("plain", _floored([_plain(column) for column in columns])))
    return [_encoded(scaling, encoding, X) for scaling, encoding in ways]


def row_lengths(rows: Any) -> Vector:
    """Length of each row."""
    if sp.issparse(rows):
        return np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def shortened(rows: Any, cap: float) -> Any:
    """Rows of at most this length."""
    factors = np.minimum(1.0, cap / np.maximum(row_lengths(rows), 1e-300))
    if sp.issparse(rows):
        return sp.csr_matrix(sp.diags_array(factors) @ rows)
    return rows * factors[:, None]


def in_own_span(rows: Any) -> tuple[Matrix, Matrix]:
    """The rows in an orthonormal basis of their span: coordinates and basis, largest first.

    With more columns than rows by way of the rows' inner products, so that wide and sparse pilots
    cost no more than their rows.
    """
    n_rows, n_columns = rows.shape
    if n_columns <= n_rows:
        dense = rows.toarray() if sp.issparse(rows) else rows
        values, vectors = np.linalg.eigh(dense.T @ dense)
        basis = vectors[:, values > values[-1] * 1e-10][:, ::-1].T
        return dense @ basis.T, basis
    inner = (rows @ rows.T).toarray() if sp.issparse(rows) else rows @ rows.T
    values, vectors = np.linalg.eigh(inner)
    kept = values > values[-1] * 1e-8
    lengths = np.sqrt(values[kept][::-1])
    vectors = vectors[:, kept][:, ::-1]
    return vectors * lengths, np.asarray((rows.T @ (vectors / lengths)).T)


def _encoded(scaling: str, encoding: Encoding, X: Any) -> EncodedPilot:
    lengths = row_lengths(encoding.transform(X))
    unit = math.sqrt(float((lengths**2).mean())) or 1.0
    encoding = Encoding(tuple(_rescaled(column, unit) for column in encoding.columns))
    rows = encoding.transform(X)
    cap = decimal(_CAP_FACTOR * float(np.quantile(row_lengths(rows), _CAP_QUANTILE)) or 1.0)
    return EncodedPilot(scaling, encoding, cap, shortened(rows, float(cap)))


def _rescaled(column: Column, factor: float) -> Column:
    if isinstance(column, CategoryColumn):
        return replace(column, scales=tuple(_times(scale, factor) for scale in column.scales))
    return replace(column, scale=_times(column.scale, factor))


def _plain(column: Column) -> Column:
    """Categories as 0 and 1."""
    if isinstance(column, CategoryColumn):
        return replace(column, scales=("1",) * len(column.scales))
    return column


def _times(scale: str, factor: float) -> str:
    return scale if scale == _NO_SPREAD else decimal(float(scale) * factor)


def _column(name: str, values: Any, as_category: bool, rare: int) -> Column:
    """Published scaling of one column by its own spread."""
    if as_category or values.dtype.kind not in "biuf":
        column = _category_column(name, values, rare)
        shares = column.transform(values).mean(axis=0)
        spreads = np.maximum(np.sqrt(shares * (1 - shares)), _INDICATOR_FLOOR)
        return replace(column, scales=tuple(decimal(spread) for spread in spreads))
    known = known_numbers(values)
    missing = known.size < values.size
    centre, spread = _centre_and_spread(known)
    if spread == 0:
        return NumberColumn(name, "0", _NO_SPREAD, missing)
    return NumberColumn(name, _centre_text(centre, spread), decimal(spread), missing)


def _centre_and_spread(values: Vector) -> tuple[float, float]:
    """Robust centre and spread; those of an indicator if there are two values."""
    if values.size == 0 or values.min() == values.max():
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    mean, deviation = float(values.mean()), float(values.std())
    if ((values == low) | (values == high)).all():
        return mean, max(deviation, _INDICATOR_FLOOR * (high - low))
    lower, middle, upper = np.quantile(values, [0.05, 0.5, 0.95])
    robust = float(upper - lower) / 3.29  # of a normal column
    if robust > 0.2 * deviation:
        return float(middle), robust
    return mean, deviation  # nearly constant, with rare large values


def _floored(columns: Sequence[Column]) -> Encoding:
    """No column may be scaled up far more than the others."""
    scales = [
        float(column.scale)
        for column in columns
        if isinstance(column, NumberColumn) and column.scale != _NO_SPREAD
    ]
    # only columns of one unit can be compared; those that were measured apart differ by far more
    floor = _SCALE_FLOOR * float(np.median(scales)) if scales and _alike(scales) else 0.0
    return Encoding(
        tuple(
            replace(column, scale=decimal(max(float(column.scale), floor)))
            if isinstance(column, NumberColumn) and column.scale != _NO_SPREAD
            else column
            for column in columns
        )
    )


def _alike(scales: Sequence[float]) -> bool:
    """Whether the spreads of most columns are within a factor of ten: one unit, as of pixels."""
    low, high = np.quantile(scales, [0.25, 0.75])
    return bool(len(scales) >= 8 and high <= 10 * low)


def _common(columns: Sequence[Column], table: Any) -> Encoding:
    numbers = [_numbers(table[column.name]) for column in columns]
    spreads = np.array([float(np.nanstd(values)) for values in numbers])
    live = spreads > 0
    scale = decimal(float(_common_of(spreads).max()) or 1.0)
    return Encoding(
        tuple(
            replace(
                column,
                centre=_centre_text(float(np.nanmean(values)), float(scale)) if alive else "0",
                scale=scale if alive else _NO_SPREAD,
            )
            for column, values, alive in zip(columns, numbers, live.tolist(), strict=True)
            if isinstance(column, NumberColumn)
        )
    )


def _common_of(spreads: Vector) -> Vector:
    """One spread for all columns that have any: the root of their mean square."""
    live = spreads > 0
    common = math.sqrt(float((spreads[live] ** 2).mean())) if live.any() else 0.0
    return np.where(live, common, 0.0)


def _sparse_spreads(X: Any) -> Vector:
    """Spread of every column; 0 where a column is constant.

    A word of a few rows is taken to be as frequent as an indicator with the smallest spread. By its
    own spread it would be scaled up most just where the pilot missed it by chance, and rows
    of the sites, which do not miss it, would be longer than any row that the plan has seen.
    """
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
    spreads = np.sqrt(np.maximum(square - mean**2, 0.0))
    filled = np.maximum(np.asarray((X != 0).mean(axis=0)).ravel(), 1e-300)
    return np.where(
        spreads > 0, np.maximum(spreads, _INDICATOR_FLOOR * np.sqrt(square / filled)), 0.0
    )


def _sparse_encoding(spreads: Vector) -> Encoding:
    """Columns divided by these spreads; zeros stay zeros."""
    return Encoding(
        tuple(
            NumberColumn(f"x{i}", "0", decimal(spread) if spread > 0 else _NO_SPREAD)
            for i, spread in enumerate(spreads.tolist())
        )
    )


# --- columns ----------------------------------------------------------------------------------


def _named_columns(X: Any) -> Mapping[str, NDArray[Any]]:
    """Columns of a pilot by name; x0, x1, ... if they have none."""
    names = names_of(X)
    return columns_of(X, [f"x{i}" for i in range(np.shape(X)[1])] if names is None else names)


def _category_column(name: str, values: NDArray[Any], rare: int) -> CategoryColumn:
    """A column of categories, those in few rows folded into one."""
    kept, n_folded, share = published_categories(values, rare)
    return CategoryColumn(name, kept, other=f"{share:.3f}" if n_folded else None)


def _centre_text(centre: float, spread: float) -> str:
    """A centre with digits down to the size of the spread, not of the centre."""
    digits = max(0, 2 - math.floor(math.log10(spread)))
    return f"{centre:.{min(digits, 20)}f}"


def _numbers(values: NDArray[Any]) -> Vector:
    """A column of numbers, NaN where one is missing."""
    return np.asarray(values, dtype=np.float64)


# --- for Algorithms 1 to 3 -----------------------------------------------------------------------


def encodings(X: Any, categories: Sequence[str], rare: int = RARE) -> list[tuple[str, Encoding]]:
    """The two scalings that are tried: each column by its own spread, or all by one number.

    Categories in fewer than ``rare`` rows are folded into one.
    """
    if sp.issparse(X):
        common = decimal(float(np.median(row_lengths(X))) or 1.0)
        names = [f"x{i}" for i in range(X.shape[1])]
        return [("common", Encoding(tuple(NumberColumn(name, "0", common) for name in names)))]
    table = _named_columns(X)
    columns = [_standard_column(name, table[name], name in categories, rare) for name in table]
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    values = np.array([_numbers(table[column.name]) for column in numbers])
    lengths = np.sqrt(np.nansum(values**2, axis=0)) if numbers else np.ones(1)
    common = decimal(float(np.median(lengths)) or 1.0)
    together = tuple(
        # moved only if missing values must have a place in its middle
        replace(column, centre=column.centre if column.fill_missing else "0", scale=common)
        if isinstance(column, NumberColumn)
        else column
        for column in columns
    )
    return [("standard", Encoding(tuple(columns))), ("common", Encoding(together))]


def _standard_column(name: str, values: NDArray[Any], as_category: bool, rare: int) -> Column:
    """Published scaling of one column.

    Binary columns are moved to 0 and 1, not standardised: the spread of a rare one in a pilot
    says little. If values are missing the centre is the mean, which stands for them.
    """
    if as_category or values.dtype.kind not in "biuf":
        return _category_column(name, values, rare)
    numbers = _numbers(values)
    missing = bool(np.isnan(numbers).any())
    distinct = np.unique(known_numbers(values))
    if distinct.size == 0:
        return NumberColumn(name, "0", "1", missing)
    if distinct.size == 1:
        return NumberColumn(name, decimal(distinct[0]), decimal(max(abs(distinct[0]), 1)), missing)
    if distinct.size == 2:
        low, high = distinct
        centre = float(np.nanmean(numbers)) if missing else low
        return NumberColumn(name, decimal(centre), decimal(high - low), missing)
    centre, spread = float(np.nanmean(numbers)), float(np.nanstd(numbers))
    return NumberColumn(name, _centre_text(centre, spread), decimal(spread), missing)
