"""Training rows with signs, wherever they are: what the paper's algorithms read.

A sample gives blocks of rows in one canonical order; a block gives any of its rows when it is
asked, from memory, a stream or a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from replearn.types import Order, Signs, is_sparse


class SignedRows(Protocol):
    """Consecutive rows of a sample, each with its label as -1 or +1."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    def read(self, start: int, stop: int) -> tuple[Any, Signs]:
        """Some of the rows, an array or a CSR matrix, and their signs."""


class Sample(Protocol):
    """Training rows in one canonical order."""

    @property
    def n_rows(self) -> int:
        """Number of rows; a stream may know it only after its last block."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    def first(self, n_rows: int) -> "Sample":
        """So many of the rows, from the first on."""

    def blocks(self, step: int) -> Iterator[SignedRows]:
        """Consecutive rows, all but the last block a whole multiple of ``step``.

        So no batch is cut apart.
        """


@dataclass(frozen=True)
class MemoryRows:
    """Rows in memory: a sample of one block."""

    X: Any
    signs: Signs
    order: Order | None = None  # the canonical one; None: as they stand

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.places.size)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def places(self) -> Order:
        """Of the rows, in their order."""
        if self.order is None:
            return np.arange(self.signs.size)
        return self.order

    def blocks(self, step: int) -> Iterator[SignedRows]:
        """All rows at once."""
        yield self

    def read(self, start: int, stop: int) -> tuple[Any, Signs]:
        """Some of the rows, and their signs."""
        if self.order is None:
            return self.X[start:stop], self.signs[start:stop]

        places = self.order[start:stop]
        rows = self.X[places] if is_sparse(self.X) else self.X.take(places, axis=0)
        return rows, self.signs[places]

    def first(self, n_rows: int) -> "MemoryRows":
        """So many of them, from the first on."""
        return replace(self, order=self.places[:n_rows])
