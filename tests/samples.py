"""Samples for tests of recipes: rows in memory, in the order given."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from replearn.rows import MemoryRows, SignedRows


class Whole(MemoryRows):
    """Rows and labels (-1 and +1) that come in one block, or in blocks of about ``size`` rows."""

    size: int | None

    def __init__(self, X: Any, y: Any, size: int | None = None) -> None:
        super().__init__(X, np.asarray(y, dtype=np.int8))
        object.__setattr__(self, "size", size)

    def blocks(self, step: int) -> Iterator[SignedRows]:
        size = self.n_rows if self.size is None else -(-self.size // step) * step
        for start in range(0, self.n_rows, size):
            yield MemoryRows(*self.read(start, start + size))
