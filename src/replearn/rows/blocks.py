"""Encoded rows as blocks of whole numbers, and sums over them that BLAS makes exactly.

Rows are int16 in units of 2^-12, coefficients are multiples of 2^-26. Every product and every
partial sum of a block is then a whole number below 2^53, which float64 holds exactly: no order of
additions, no thread and no BLAS kernel can change a bit.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

from replearn.errors import Unbounded
from replearn.rows.levels import LevelRows
from replearn.types import Array, BlockMap, Ints, Matrix, Vector, Words, Words32, is_sparse, stacked

#: The grids, as powers of two: one unit of an encoded row is 2^-12, and so on.
ROW_BITS, THETA_BITS, WEIGHT_BITS, RESIDUAL_BITS = 12, 26, 16, 22
#: Encoded numbers are at most 4 in size, that is 2^14 units.
MAX_ROW = 1 << 14
#: Sums of at most this many rows stay exact: 2^14 rows x 2^14 x 2^22 is 2^50.
MAX_BLOCK = 1 << 14
#: The information matrix takes rows in units of 2^-8: 2^11 rows x 2^10 x 2^10 x 2^22 is 2^53.
COARSE_SHIFT, COARSE_BLOCK = 4, 1 << 11
COARSE = 2.0**COARSE_SHIFT
#: Numbers of a float64 block that a core's cache holds.
_CACHED = 1 << 18
#: Columns of a product of rows with themselves.
_STRIP = 32
#: Rows that choices and checks look at, at most.
MOST_TRIED = 1 << 17
_ODD = 0x9E3779B97F4A7C15
#: Marks of rows are below it: with this threshold every row is taken.
#: Kinds of rows that are compared at least; copies that are asked about if not by chance.
_FEWEST_KINDS, _MANY_COPIES = 16, 0.1
EVERY_ROW = 1 << 32


@dataclass(frozen=True)
class Block:
    """Some encoded rows: terms without the constant, targets, weights (1) and offsets (0).

    An offset is a number for each row, or one for each of its scores.
    """

    terms: Any
    targets: Vector
    weights: Vector | None = None
    offset: Vector | Matrix | None = None
    groups: Array | None = None
    centres: Array | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.targets.size)

    @cached_property
    def marks(self) -> Words32:
        """Numbers by which rows are sampled for the information: see `marks`."""
        parts = pieces(self, self.terms.shape[1] + 1)
        return np.concatenate([marks(piece.terms) for piece in parts])

    @cached_property
    def hashes(self) -> Words:
        """A 64-bit hash of all that a row holds, but its group: for all samples and folds."""
        parts = pieces(self, self.terms.shape[1] + 1)
        hashes = np.concatenate([term_hashes(piece.terms) for piece in parts])
        for values in (self.targets, self.weights, self.offset):
            if values is not None:
                bits = (values + 0.0).view(np.uint64)  # -0 becomes 0
                hashes = _mixed(hashes * np.uint64(_ODD) + bits, *_MIX_64)
        return hashes

    @cached_property
    def hashes_apart(self) -> Words:
        """The same, where each of several equal rows has its own, whichever has which."""
        order = np.argsort(self.hashes, kind="stable")
        ordered = self.hashes[order]
        repeats = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
        if not repeats.size:
            return self.hashes

        # repeats of one row follow each other: the first has the number 1, and so on
        del ordered
        begins = np.diff(repeats, prepend=-1) > 1
        first = np.maximum.accumulate(np.where(begins, repeats, 0))
        apart = self.hashes.copy()
        apart[order[repeats]] += (repeats - first + 1).astype(np.uint64) * np.uint64(_ODD)
        return apart

    @property
    def weight(self) -> int:
        """Of all rows, in units of 2^-16."""
        return int(on_grid(self.masses, WEIGHT_BITS).sum())

    @property
    def masses(self) -> Vector:
        """Weights of the rows, 1 where they have none."""
        if self.weights is None:
            return np.ones(self.n_rows)
        return self.weights

    def scores(self, theta: Matrix) -> Matrix:
        """Scores of the rows at coefficients in whole units."""
        return scores(self.terms, theta, self.offset)

    def part(self, rows: Any) -> "Block":
        """Some of the rows, by a slice or a mask."""

        def cut(values: Any) -> Any:
            if values is None:
                return None
            if isinstance(rows, slice) and is_sparse(values):
                return _sparse_view(values, rows)
            return values[rows]

        return Block(*(cut(getattr(self, name)) for name in Block.__match_args__))


def _sparse_view(terms: Any, rows: slice) -> Any:
    """Consecutive sparse rows, without a copy."""
    start, stop, _ = rows.indices(terms.shape[0])
    starts = terms.indptr[start : max(start, stop) + 1]
    part = slice(starts[0], starts[-1])
    shape = len(starts) - 1, terms.shape[1]
    return sparse_rows(terms.data[part], terms.indices[part], starts - starts[0], shape)


def sparse_rows(data: Any, columns: Any, starts: Any, shape: tuple[int, int]) -> Any:
    """Sparse rows of known parts, which scipy neither checks nor copies."""
    from scipy import sparse

    rows = sparse.csr_matrix(shape, dtype=data.dtype)
    rows.data, rows.indices, rows.indptr = data, columns, starts
    return rows


def column_sums(rows: Any, values: Any) -> Any:
    """Sums over rows of each column's number times values, a row for each column of ``values``."""
    if isinstance(rows, LevelRows):
        return rows.column_sums(values)
    if not is_sparse(rows):
        return (rows.T @ values).T

    from scipy import sparse

    # ``rows.T``, without scipy's checks
    turned = sparse.csc_matrix(rows.shape[::-1], dtype=rows.dtype)
    turned.data, turned.indices, turned.indptr = rows.data, rows.indices, rows.indptr
    return (turned @ values).T


def joined(blocks: list[Block]) -> Block:
    """One block of several."""
    if len(blocks) == 1:
        return blocks[0]

    values: dict[str, Any] = {}
    for name in Block.__match_args__:
        parts = [getattr(block, name) for block in blocks]
        if isinstance(parts[0], LevelRows):
            values[name] = LevelRows.joined(parts)
        elif parts[0] is not None:
            values[name] = stacked(parts)
    return Block(**values)


class Rows(Protocol):
    """What can be read several times: the blocks of a table, in any order."""

    @property
    def n_terms(self) -> int:
        """Encoded numbers of a row, without the constant."""

    @property
    def n_rows(self) -> int:
        """Number of rows; of a table that is read anew, after its first pass."""

    @property
    def work(self) -> BlockMap:
        """How passes over the blocks are made: one after the other, or on threads."""

    def blocks(self) -> Iterator[Block]:
        """The rows, from the beginning."""


@dataclass(frozen=True)
class MemoryBlocks:
    """Rows that are kept in memory, two bytes a number."""

    block: Block
    work: BlockMap = map

    @property
    def n_terms(self) -> int:
        """Encoded numbers of a row, without the constant."""
        return int(self.block.terms.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.block.n_rows

    def blocks(self) -> Iterator[Block]:
        """All rows at once."""
        yield self.block


def most_rows(n_columns: int) -> int:
    """Rows of a piece at most."""
    return min(max(_CACHED // n_columns, 256), MAX_BLOCK)


def pieces(block: Block, n_columns: int) -> Iterator[Block]:
    """A block in pieces that fit a core's cache and keep sums exact."""
    if is_sparse(block.terms) and block.n_rows:
        n_columns = block.terms.nnz // (2 * block.n_rows) + 1  # whose numbers are shorter

    most = most_rows(n_columns)
    if block.n_rows <= most:
        yield block
        return
    for start in range(0, block.n_rows, most):
        yield block.part(slice(start, start + most))


def add_lower_products(total: Ints, weighted: Matrix, rows: Matrix) -> None:
    """Add ``weighted' rows`` up to the diagonal, in strips: what is above is hardly made."""
    for start in range(0, rows.shape[1], _STRIP):
        strip = slice(start, start + _STRIP)
        products = weighted[:, start:].T @ rows[:, strip]
        total[start:, strip] += products.astype(np.int64)


def with_constant(terms: Any, room: Matrix | None = None) -> Any:
    """Rows in float64 with the constant 1 as their first column; sparse rows stay sparse.

    Dense rows are written into ``room`` if it is given, which saves the time of new memory.
    """
    if is_sparse(terms):
        return _sparse_with_constant(terms)

    n_rows, n_terms = terms.shape
    if room is None:
        room = np.empty((n_rows, n_terms + 1))
    out = room[:n_rows]
    out[:, 0] = 1 << ROW_BITS
    if isinstance(terms, LevelRows):
        terms.dense(out[:, 1:])
    else:
        out[:, 1:] = terms
    return out


def _sparse_with_constant(terms: Any) -> Any:
    """Each row begins with its constant, and what it has moves on by one place and column."""
    from scipy import sparse

    n_rows, n_terms = terms.shape
    starts = terms.indptr + np.arange(n_rows + 1, dtype=terms.indptr.dtype)
    is_term = np.ones(terms.nnz + n_rows, dtype=bool)
    is_term[starts[:-1]] = False

    values = np.full(is_term.size, float(1 << ROW_BITS))
    values[is_term] = terms.data
    columns = np.zeros(is_term.size, dtype=terms.indices.dtype)
    columns[is_term] = terms.indices + 1
    return sparse.csr_matrix((values, columns, starts), (n_rows, n_terms + 1))


def squared(rows: Any) -> Any:
    """The square of each number, of an array or a sparse one."""
    if is_sparse(rows):
        return rows.multiply(rows).tocsr()
    return rows * rows


def scores(rows: Any, theta: Matrix, offset: Vector | Matrix | None) -> Matrix:
    """Scores of rows; ``theta`` has a row of whole numbers for each score.

    Rows have their constant, except for those that `product` takes without.
    """
    if not np.abs(theta).sum(axis=1).max() * MAX_ROW < 2.0**53:
        raise Unbounded(
            "coefficients must keep scores below 2^15, got larger ones. Use a larger ridge."
        )

    # those of one score in one piece, since losses take them one by one
    predicted = np.asfortranarray(product(rows, theta.astype(np.float64, copy=False).T))
    # in place, since new memory takes longer than arithmetic
    predicted *= 2.0 ** -(ROW_BITS + THETA_BITS)
    if offset is None:
        return predicted
    if offset.ndim == 1:  # the same for all scores of a row
        offset = offset[:, None]
    return predicted + offset


def product(rows: Any, right: Matrix) -> Matrix:
    """Rows times a matrix of whole numbers, exact below 2^53.

    Its first row meets the constant, which sparse rows and those with levels leave out.
    """
    n_others = len(right) - rows.shape[1]
    others = right[n_others:]
    if not n_others or others.any():
        products = np.asarray(rows @ others)
    else:  # at the constant model, where fits begin
        products = np.zeros((rows.shape[0], right.shape[1]))
    if n_others:
        products += right[0] * 2.0**ROW_BITS
    return products


def marks(terms: Any) -> Words32:
    """A well-mixed 32-bit number of each row's encoded numbers, by which rows are sampled.

    No order of rows can matter, and equal rows are always together. The twins in JavaScript and R
    compute it too: docs/format.md has it in words.
    """
    return _lanes(terms, 1)[0]


def term_hashes(terms: Any) -> Words:
    """A 64-bit hash of each row's encoded numbers, whose upper half is its mark."""
    upper, lower = _lanes(terms, 2)
    return (upper.astype(np.uint64) << np.uint64(32)) | lower


def _lanes(terms: Any, n_lanes: int) -> list[Words32]:
    """Numbers of 32 bits, each of two exact sums of a row's numbers times fixed random factors.

    Sums with random factors of 24 bits are equal for two different rows with probability 2^-24,
    and products make them as fast for levels and sparse rows as a score is.
    """
    n_columns = terms.shape[1] + 1
    factors = _factors(n_columns, 2 * n_lanes)
    # exact, below 2^53
    sums = np.asarray(terms @ factors[1:] + factors[0] * 2.0**ROW_BITS).astype("<i8")
    words = sums.view("<u4").T  # of each sum the lower half, then the upper one
    lanes = []
    for lane in range(n_lanes):
        mixed = np.zeros(len(sums), dtype=np.uint32)
        for word in words[4 * lane : 4 * lane + 4]:
            mixed = _mixed(mixed ^ word, *_MIX_32)
        lanes.append(mixed)
    return lanes


@lru_cache(maxsize=2)
def _factors(n_columns: int, n_sums: int) -> Matrix:
    """Fixed random odd numbers below 2^24: a row for each column, the constant's first."""
    column = np.arange(1, n_columns + 1, dtype=np.uint32)[:, None]
    place = column * np.uint32(4) + np.arange(n_sums, dtype=np.uint32)
    seeds = (place * np.uint32(0x9E3779B1)).astype(np.uint32)
    factors = ((_mixed(seeds, *_MIX_32) >> np.uint32(8)) | np.uint32(1)).astype(np.float64)
    factors.setflags(write=False)
    return factors


def copied_share(hashes: Any) -> float:
    """Share of rows that are copies of others, by their hashes; 0 where rows are alike by chance.

    Rows of few kinds are alike by nature. Then some occur three times where others do twice: of
    ``m`` pairs, with a share ``r`` of rows that occur again, at least about ``2 m r / 3``.
    """
    counts = np.unique(hashes, return_counts=True)[1]
    n_kinds, n_rows = counts.size, int(counts.sum())
    if n_kinds < _FEWEST_KINDS:
        return 0.0
    if counts.min() >= 2 and n_rows <= 3 * n_kinds:  # the whole table twice, or three times
        return 1.0

    share = 1 - n_kinds / n_rows
    n_by_chance = 2 / 3 * share * int((counts == 2).sum())
    n_more = int((counts > 2).sum())
    if share >= _MANY_COPIES and n_by_chance >= 8 and 8 * n_more <= n_by_chance:
        return share
    return 0.0


def threshold_for(most: int, n_rows: int) -> int:
    """Below which lie the marks of about ``most`` of so many rows."""
    return min(EVERY_ROW, (most << 32) // max(n_rows, 1))


def sampled(rows: Rows, most: int, salt: int) -> MemoryBlocks:
    """Some of the rows, chosen by their content, in memory."""
    sample_threshold = threshold_for(most, rows.n_rows)
    if not isinstance(rows, MemoryBlocks):  # blocks have no order, so equal rows cannot be counted
        kept = [
            block.part(row_marks(block, salt, apart=False) < sample_threshold)
            for block in rows.blocks()
        ]
        return MemoryBlocks(joined(kept))

    if sample_threshold == EVERY_ROW:
        return rows
    return MemoryBlocks(rows.block.part(row_marks(rows.block, salt) < sample_threshold))


def row_marks(block: Block, salt: int, apart: bool = True) -> Words:
    """A well-mixed number below 2^32 for each row, by which rows are sampled and folded.

    Rows of one group have one mark. Of rows that are equal in all respects each has its own,
    unless ``apart`` is false: it does not matter which has which. No order of rows changes the
    marks of a table.
    """
    if block.groups is not None:
        names, places = np.unique(block.groups, return_inverse=True)
        by_group = [zlib.crc32(f"{salt}/{name}".encode()) for name in names.tolist()]
        return np.array(by_group, dtype=np.uint64)[places]

    # the salt makes samples and folds independent of each other
    x = block.hashes_apart if apart else block.hashes
    salted = _mixed(np.full(1, salt + 1, dtype=np.uint64), *_MIX_64)
    return _mixed(x ^ salted, *_MIX_64) >> np.uint64(32)


#: Shifts and factors, in turn: the last steps of MurmurHash3, and splitmix64.
_MIX_32 = tuple(map(np.uint32, (16, 0x85EBCA6B, 13, 0xC2B2AE35, 16)))
_MIX_64 = tuple(map(np.uint64, (30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31)))


def _mixed(
    x: Any, shift: Any, factor: Any, second_shift: Any, second_factor: Any, last: Any
) -> Any:
    """All bits depend on all others."""
    x = (x ^ (x >> shift)) * factor
    x = (x ^ (x >> second_shift)) * second_factor
    return x ^ (x >> last)


def on_grid(values: Any, bits: int) -> Any:
    """The nearest whole number of units of 2^-bits, halves upwards."""
    units = values * 2.0**bits
    units += 0.5
    # in place, since new memory takes longer than arithmetic
    return np.floor(units, out=units if isinstance(units, np.ndarray) else None)
