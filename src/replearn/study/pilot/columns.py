"""Reading a pilot: labels, and the scalings of its columns that are tried."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from replearn.errors import ReplearnError
from replearn.plans.sizes import decimal
from replearn.sources.labels import Labels, label_values
from replearn.study.pilot.safe_columns import RARE, known_numbers, published_categories
from replearn.types import IntegerArray, Vector

MIN_ROWS, MIN_OF_CLASS = 100, 5


def read_labels(y: Any) -> tuple[IntegerArray, tuple[Any, ...]]:
    """Numbers of the rows' classes, and the labels."""
    labels = Labels(many=True)
    numbers = labels.targets(y).astype(np.int64)
    counts = np.bincount(numbers, minlength=labels.classes.size)
    if numbers.size < MIN_ROWS or counts.min() < MIN_OF_CLASS:
        rare = label_values(labels.classes)[int(np.argmin(counts))]
        raise ReplearnError(
            f"a pilot needs at least {MIN_ROWS} rows and {MIN_OF_CLASS} of each class, got "
            f"{numbers.size} rows, {counts.min()} of class {rare!r}. A thousand rows are good; "
            "merge rare classes."
        )
    return numbers, label_values(labels.classes)


def encodings(X: Any, categories: Sequence[str], rare: int = RARE) -> list[tuple[str, Encoding]]:
    """The two scalings that are tried: each column by its own spread, or all by one number.

    Categories in fewer than ``rare`` rows are folded into one.
    """
    if sp.issparse(X):
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        common = decimal(float(np.median(lengths)) or 1.0)
        names = [f"x{i}" for i in range(X.shape[1])]
        return [("common", Encoding(tuple(NumberColumn(name, "0", common) for name in names)))]
    table = named_columns(X)
    columns = [_column(name, table[name], name in categories, rare) for name in table]
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    values = np.array([numbers_of(table[column.name]) for column in numbers])
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


def named_columns(X: Any) -> Mapping[str, NDArray[Any]]:
    """Columns of a pilot by name; x0, x1, ... if they have none."""
    names = names_of(X)
    return columns_of(X, [f"x{i}" for i in range(np.shape(X)[1])] if names is None else names)


def category_column(name: str, values: NDArray[Any], rare: int) -> CategoryColumn:
    """A column of categories, those in few rows folded into one."""
    kept, n_folded, share = published_categories(values, rare)
    return CategoryColumn(name, kept, other=f"{share:.3f}" if n_folded else None)


def centre_text(centre: float, spread: float) -> str:
    """A centre with digits down to the size of the spread, not of the centre."""
    digits = max(0, 2 - math.floor(math.log10(spread)))
    return f"{centre:.{min(digits, 20)}f}"


def _column(name: str, values: NDArray[Any], as_category: bool, rare: int) -> Column:
    """Published scaling of one column.

    Binary columns are moved to 0 and 1, not standardised: the spread of a rare one in a pilot
    says little. If values are missing the centre is the mean, which stands for them.
    """
    if as_category or values.dtype.kind not in "biuf":
        return category_column(name, values, rare)
    numbers = numbers_of(values)
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
    return NumberColumn(name, centre_text(centre, spread), decimal(spread), missing)


def numbers_of(values: NDArray[Any]) -> Vector:
    """A column of numbers, NaN where one is missing."""
    return np.asarray(values, dtype=np.float64)
