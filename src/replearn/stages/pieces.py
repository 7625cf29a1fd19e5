"""Batches of rows that come in pieces, in memory that does not grow with their number."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from replearn.plans.sizes import BatchPlan
from replearn.stages.batches import BatchKernel, BatchSums, LabelRuns, Rows, no_sums, sum_batches
from replearn.types import BlockMap, Signs


class BatchStream:
    """Rows in pieces to sums of batch vectors: a pair of batches is added as soon as it is whole.

    Any pieces of the same rows give the sums of ``sum_batches`` on all of them in that order, to
    the bit, since those of pairs of batches are exact and can be merged. Rows of a pair that is not
    whole wait. Tested in tests/unit/test_pieces.py. ``first_row`` rows come before these and are
    added up elsewhere: whole pairs of batches.
    """

    def __init__(self, solve: BatchKernel, plan: BatchPlan, first_row: int = 0) -> None:
        self._solve, self._plan, self._first_row = solve, plan, first_row
        self._sums = no_sums(plan.n_inputs, plan.batch_size)
        self._labels = LabelRuns()
        self._waiting: tuple[Any, Signs] | None = None

    @property
    def n_added(self) -> int:
        """Rows that are part of the sums: where to go on from `arrays`."""
        return self._labels.n_rows

    @property
    def labels(self) -> LabelRuns:
        """Of all rows so far."""
        if self._waiting is None:
            return self._labels
        return self._labels.then(LabelRuns.of(self._waiting[1]))

    def take(self, X: Any, signs: Signs, run: BlockMap = map) -> None:
        """Take the next rows, an array or a CSR matrix."""
        pair, start, whole = 2 * self._plan.batch_size, 0, []
        if self._waiting is not None:
            start = min(pair - self._waiting[1].size, signs.size)
            X_pair = joined(self._waiting[0], X[:start])
            signs_pair = np.concatenate([self._waiting[1], signs[:start]])
            self._waiting = X_pair, signs_pair
            if signs_pair.size < pair:
                return
            whole.append(self._waiting)
            self._waiting = None
        stop = start + (signs.size - start) // pair * pair
        if stop > start:
            whole.append((X[start:stop], signs[start:stop]))
        if stop < signs.size:
            self._waiting = X[stop:].copy(), signs[stop:].copy()  # not a view of the whole piece
        for rows, their_signs in whole:
            self._sums = self._sums.merge(self._sum(rows, their_signs, run))
            self._labels = self._labels.then(LabelRuns.of(their_signs))

    def total(self) -> BatchSums:
        """Sums of all whole batches; fewer rows than one batch make one."""
        if self._waiting is None:
            return self._sums
        n_batches = (self._first_row + self._labels.n_rows) // self._plan.batch_size
        if n_batches and self._waiting[1].size < self._plan.batch_size:
            return self._sums
        last = self._sum(*self._waiting, map)
        return self._sums.merge(last) if n_batches else last

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is to be saved; the rows from ``n_added`` on are to be taken again."""
        return self._sums.arrays() | {"labels": self._labels.array()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on where another stream of this plan was when it gave these arrays."""
        self._sums = BatchSums.of_arrays(arrays, self._plan.batch_size)
        self._labels = LabelRuns(*arrays["labels"].tolist())
        self._waiting = None

    def _sum(self, X: Any, signs: Signs, run: BlockMap) -> BatchSums:
        order = np.arange(signs.size, dtype=np.int64)
        # what was added up before, here or elsewhere, is whole pairs of batches
        first_batch = (self._first_row + self._labels.n_rows) // self._plan.batch_size
        return sum_batches(self._solve, Rows(X, signs, order, first_batch), self._plan, run)


def joined(X: Any, more: Any) -> Any:
    """Rows of two arrays, or of two CSR matrices."""
    return sp.vstack([X, more], format="csr") if sp.issparse(X) else np.concatenate([X, more])
