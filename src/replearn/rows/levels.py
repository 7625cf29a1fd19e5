"""Rows with levels: one number says which of a column's indicators is 1.

A product with indicators is then a look into a table, and a sum over rows one by level. All are
sums of whole numbers below 2^53, so they have the bits of the dense products.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.types import Array, Ints, Matrix, Vector, is_sparse

#: Columns with fewer levels stay dense: a table costs as much as so many products.
LEAST_LEVELS = 8


@dataclass(frozen=True)
class LevelRows:
    """Encoded rows without their constant; wherever arrays are, these may be."""

    numbers: Array  # int16, or float64 during a pass
    levels: NDArray[np.uint16]  # a row for each column of levels: 0 for none, 1 for its first term
    number_places: NDArray[np.intp]  # where numbers stand among the terms
    level_places: tuple[NDArray[np.intp], ...]  # where the indicators of each column stand
    one: int  # what an indicator is, in units of the grid

    @classmethod
    def of(cls, terms: Array, groups: Sequence[slice], one: int) -> "LevelRows":
        """From encoded rows whose ``groups`` of columns have at most one indicator a row."""
        n_rows, n_terms = terms.shape
        places = tuple(np.arange(n_terms)[group] for group in groups)
        rest = np.setdiff1d(np.arange(n_terms), np.concatenate(places))

        levels = np.zeros((len(groups), n_rows), dtype=np.uint16)
        for level, group in zip(levels, groups, strict=True):
            rows, columns = np.nonzero(terms[:, group])
            level[rows] = columns + 1
        return cls(terms[:, rest], levels, rest, places, one)

    @classmethod
    def joined(cls, parts: Sequence["LevelRows"]) -> "LevelRows":
        """Rows of several tables with the same terms."""
        numbers = np.concatenate([part.numbers for part in parts])
        levels = np.concatenate([part.levels for part in parts], axis=1)
        return replace(parts[0], numbers=numbers, levels=levels)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and terms."""
        n_levels = sum(map(len, self.level_places))
        return len(self.numbers), len(self.number_places) + n_levels

    @property
    def n_stored(self) -> int:
        """Numbers that a row takes."""
        return len(self.number_places) + len(self.level_places)

    def __getitem__(self, rows: Any) -> "LevelRows":
        return replace(self, numbers=self.numbers[rows], levels=self.levels[:, rows])

    def __matmul__(self, right: Matrix) -> Matrix:
        product: Matrix = self.numbers.astype(np.float64, copy=False) @ right[self.number_places]
        for levels, places in zip(self.levels, self.level_places, strict=True):
            # what each level adds, after a 0 for rows without one
            table = np.zeros((1 + len(places), *right.shape[1:]))
            table[1:] = right[places] * self.one
            if table.size == len(table):  # one column, which is fastest as a vector
                product += table.reshape(-1).take(levels).reshape(product.shape)
            else:
                product += table.take(levels, axis=0)
        return product

    def dense(self, out: Array) -> None:
        """Write all terms into an array of this shape."""
        out[:, self.number_places] = self.numbers
        for levels, places in zip(self.levels, self.level_places, strict=True):
            out[:, places] = 0
            rows = np.flatnonzero(levels)
            out[rows, places[levels[rows].astype(np.intp) - 1]] = self.one

    def column_sums(self, values: Matrix) -> Matrix:
        """Sums over rows of each term times values: a row for each column of ``values``."""
        sums = np.empty((values.shape[1], self.shape[1]))
        sums[:, self.number_places] = (self.numbers.T @ values).T

        columns = np.ascontiguousarray(values.T)
        for levels, places in zip(self.levels, self.level_places, strict=True):
            sums[:, places] = _by_level(levels, len(places), columns) * self.one
        return sums

    def add_products(
        self, total: Ints, numbers: Matrix, weights: Vector, most: int, one: int
    ) -> None:
        """Add ``X' diag(weights) X`` to a matrix over the constant and all terms.

        ``numbers`` are the constant and the numbers on some grid, on which an indicator is
        ``one``; dense products of ``most`` rows are exact.
        """
        # numbers with numbers
        weighted = numbers * weights[:, None]
        columns = np.ascontiguousarray(weighted.T)
        here = np.concatenate([[0], self.number_places + 1])
        for start in range(0, len(numbers), most):
            part = slice(start, start + most)
            product = columns[:, part] @ numbers[part]
            total[np.ix_(here, here)] += product.astype(np.int64)

        every = list(zip(self.levels, (places + 1 for places in self.level_places), strict=True))
        for place, (levels, there) in enumerate(every):
            # levels with numbers, and with themselves: a row has one of them
            crossed = _by_level(levels, len(there), columns).astype(np.int64) * one
            total[np.ix_(here, there)] += crossed
            total[np.ix_(there, here)] += crossed.T
            total[there, there] += crossed[0]  # the constant is ``one`` too

            # levels with those of other columns, by counting pairs
            for others, beyond in every[:place]:
                width = len(beyond) + 1
                both = levels.astype(np.intp) * width + others
                table = np.bincount(both, weights, (len(there) + 1) * width)
                pairs = table.reshape(-1, width)[1:, 1:].astype(np.int64) * one**2
                total[np.ix_(there, beyond)] += pairs
                total[np.ix_(beyond, there)] += pairs.T


def dense_terms(terms: Any) -> Array:
    """Encoded rows in one array, however they are kept."""
    if isinstance(terms, LevelRows):
        out = np.empty(terms.shape)
        terms.dense(out)
        return out
    if is_sparse(terms):
        terms = terms.toarray()
    return np.asarray(terms)


def _by_level(levels: NDArray[np.uint16], n_levels: int, columns: Matrix) -> Matrix:
    """Sums of columns over the rows of each level, a row for each column."""
    places = levels.astype(np.intp)
    sums = np.empty((len(columns), n_levels))
    for by_level, column in zip(sums, columns, strict=True):
        by_level[:] = np.bincount(places, column, n_levels + 1)[1:]
    return sums
