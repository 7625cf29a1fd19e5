"""Samples for tests of recipes: rows in memory, in the order given."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from replearn.rows import MemoryRows


class Whole:
    """Rows and labels (-1 and +1) that come in one block, or in blocks of a size."""

    def __init__(self, X: Any, y: Any, size: int | None = None) -> None:
        self.X, self.signs, self.size = X, np.asarray(y, dtype=np.int8), size

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def first(self, n_rows: int) -> "Whole":
        return Whole(self.X[:n_rows], self.signs[:n_rows], self.size)

    def blocks(self, step: int) -> Iterator[MemoryRows]:
        size = self.n_rows if self.size is None else -(-self.size // step) * step
        for start in range(0, self.n_rows, size):
            order = np.arange(start, min(start + size, self.n_rows))
            yield MemoryRows(self.X, self.signs, order)
