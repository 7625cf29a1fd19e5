"""Rows that are chosen by their content: no order of rows changes what is sampled or folded."""

import zlib

import numpy as np
from numpy.typing import NDArray

from replearn.exact.rows import Block, Kept, Rows, joined, marks, pieces

#: Rows that cross-validation and checks on halves use at most.
MOST_TRIED = 1 << 17
_ODD = 0x9E3779B97F4A7C15


def sampled(rows: Rows, n_rows: int, most: int, salt: int) -> Kept:
    """Some of the rows, chosen by their content, in memory."""
    share = (1 << 32) if n_rows <= most else (most << 32) // n_rows
    if not isinstance(rows, Kept):  # blocks have no order, so equal rows cannot be counted
        kept = [block.part(row_marks(block, salt, apart=False) < share) for block in rows.blocks()]
        return Kept(joined(kept))
    if share == 1 << 32:
        return rows
    return Kept(rows.block.part(row_marks(rows.block, salt) < share))


def row_marks(block: Block, salt: int, apart: bool = True) -> NDArray[np.uint64]:
    """A well-mixed number below 2^32 for each row, by which rows are sampled and folded.

    Rows of one group have one mark. Of rows that are equal in all respects each has its own,
    unless ``apart`` is false. No order of rows changes the marks of a table.
    """
    if block.groups is not None:
        names, places = np.unique(block.groups, return_inverse=True)
        found = [zlib.crc32(f"{salt}/{name}".encode()) for name in names.tolist()]
        return np.array(found, dtype=np.uint64)[places]
    x = contents(block)
    if apart:
        order = np.argsort(x, kind="stable")
        here = np.arange(x.size)
        is_first = np.append(True, x[order][1:] != x[order][:-1])
        number = np.empty(x.size, dtype=np.uint64)
        number[order] = here - np.maximum.accumulate(np.where(is_first, here, 0))
        x = x + number * np.uint64(_ODD)
    return _mixed(x ^ _mixed(np.full(1, salt + 1, dtype=np.uint64))) >> np.uint64(32)


def contents(block: Block) -> NDArray[np.uint64]:
    """A number of all that a row holds, but its group."""
    parts = [marks(piece.terms) for piece in pieces(block, block.terms.shape[1] + 1)]
    found = np.concatenate(parts).astype(np.uint64)
    for values in (block.targets, block.weights, block.offset):
        if values is not None:
            found = _mixed(found * np.uint64(_ODD) + (values + 0.0).view(np.uint64))
    return found


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """All bits depend on all others (splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
