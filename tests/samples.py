"""Samples for tests of recipes: rows in memory, in the order given."""

from collections.abc import Iterator
from typing import Any

import numpy as np


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

    def blocks(self, step: int) -> Iterator[tuple[Any, Any, Any]]:
        size = self.n_rows if self.size is None else -(-self.size // step) * step
        for start in range(0, self.n_rows, size):
            order = np.arange(start, min(start + size, self.n_rows))
            yield self.X, self.signs, order
