"""The one door from a table to encoded rows: every fit, pass and check comes through here."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from replearn.documents import Label
from replearn.errors import ReplearnError
from replearn.glm import DIRECTION_BITS, GlmDesign, Loss
from replearn.rows import (
    LEAST_LEVELS,
    MAX_ROW,
    ROW_BITS,
    WEIGHT_BITS,
    Block,
    LevelRows,
    MemoryBlocks,
    Rows,
    joined,
    on_grid,
)
from replearn.tables import (
    BATCH_ROWS,
    Batch,
    Encoding,
    EncodingCounts,
    LevelColumn,
    Scratch,
    Table,
    class_numbers,
    levels_of,
    target_numbers,
)
from replearn.types import Array, BlockMap, Codes, Grid, Ints, Vector, is_sparse
from replearn.words import threads

#: Encoded rows are kept in memory up to so many bytes, and in a scratch file beyond. Targets and
#: hashes of rows take memory, too: more than the terms of many rows of few columns.
MOST_KEPT, MOST_ROWS_KEPT = 1 << 28, 1 << 23
#: Bytes of encoded rows that are made at once.
MOST_AT_ONCE = 1 << 26


@dataclass(frozen=True)
class RowEncoder:
    """How a batch of a table becomes a block: all that a design says about rows."""

    encoding: Encoding
    loss: Loss
    classes: tuple[Label, ...] | None = None
    class_weight: Vector | None = None
    directions: Codes | None = None

    @classmethod
    def of(cls, design: GlmDesign) -> "RowEncoder":
        """That of a study's design."""
        weights = None
        if design.class_weight is not None:
            weights = np.array(design.class_weight, dtype=np.float64)
        return cls(design.encoding, design.loss, design.classes, weights, design.directions)

    @property
    def n_terms(self) -> int:
        """Encoded numbers of a row, without the constant."""
        if self.directions is None:
            return self.encoding.n_terms
        return len(self.directions)

    def with_levels(self, block: Block) -> Block:
        """The same rows, with one number for all indicators of a column with many levels."""
        if self.directions is not None:
            return block

        groups, start = [], 0
        for column in self.encoding.columns:
            stop = start + len(column.terms)
            if isinstance(column, LevelColumn) and stop - start >= LEAST_LEVELS:
                groups.append(slice(start, stop))
            start = stop
        if not groups:
            return block
        return replace(block, terms=LevelRows.of(block.terms, groups, 1 << ROW_BITS))

    def targets(self, batch: Batch) -> Vector:
        """Class numbers, standardised numbers or counts."""
        assert batch.y is not None
        if self.classes is not None:
            return self.loss.units(class_numbers(batch.y, self.classes))
        return self.loss.units(target_numbers(batch.y, least=self.loss.least))

    def masses(self, batch: Batch, targets: Vector) -> Vector | None:
        """Weights of rows before they are scaled; None if all are 1."""
        weights = None
        if batch.weights is not None:
            weights = target_numbers(batch.weights, "sample_weight", least=0)
        if self.class_weight is None:
            return weights

        by_class = self.class_weight[targets.astype(np.int64)]
        if weights is None:
            return by_class
        return weights * by_class

    def block(self, batch: Batch, scale: float, seen: EncodingCounts | None = None) -> Block:
        """Encode some rows; rows without weight are left out."""
        targets = self.targets(batch)
        terms = self.encoding.encode(batch, seen)
        if self.directions is not None:
            terms = projected(terms, self.directions)
        offset = None if batch.offset is None else target_numbers(batch.offset, "offset")
        groups, centres = (_names(column) for column in (batch.groups, batch.centres))

        masses = self.masses(batch, targets)
        if masses is None:
            return Block(terms, targets, None, offset, groups, centres)

        # a weight that rounds to nothing is one unit: its row still counts
        units = np.maximum(on_grid(masses / scale, WEIGHT_BITS), masses > 0)
        weights = units * 2.0**-WEIGHT_BITS
        return Block(terms, targets, weights, offset, groups, centres).part(weights > 0)


def _names(column: Any) -> Array | None:
    """The group or centre of each row, as text; empty where it is missing."""
    if column is None:
        return None
    codes, names = levels_of(column)
    return np.array([*names, ""], dtype=object)[codes]


def projected(terms: Any, directions: Codes) -> Grid:
    """Published combinations of encoded numbers, on the same grid and clipped like them."""
    combined = np.asarray(terms @ directions.T.astype(np.float64))  # exact: whole numbers
    scaled = np.floor(combined * 2.0**-DIRECTION_BITS + 0.5)
    return np.clip(scaled, -MAX_ROW, MAX_ROW).astype(np.int16)


def refuse_weightless(has_weight: bool) -> None:
    """Stop where all rows weigh nothing."""
    if not has_weight:
        raise ReplearnError(
            "sample_weight must not be zero in all rows. Pass some that are positive."
        )


@dataclass
class TableRows(Rows):
    """Encoded rows of a table, read anew at each pass."""

    table: Table
    encoder: RowEncoder
    work: BlockMap = map
    n_rows: int = 0  # after the first pass, as is what follows
    seen: EncodingCounts = field(init=False)
    label_counts: Ints | None = field(init=False, default=None)

    @property
    def n_terms(self) -> int:
        """Encoded numbers of a row, without the constant."""
        return self.encoder.n_terms

    @cached_property
    def scale(self) -> float:
        """A power of two that no weight exceeds."""
        if "weights" not in self.table.roles and self.encoder.class_weight is None:
            return 1.0
        self.table = self.table.kept()  # the largest weight takes a pass of its own
        largest = 0.0
        for batch in self.table.batches():
            masses = self.encoder.masses(batch, self.encoder.targets(batch))
            largest = max(largest, 1.0 if masses is None else float(masses.max()))
        refuse_weightless(largest > 0)
        return 2.0 ** math.frexp(largest)[1]

    def blocks(self) -> Iterator[Block]:
        """The rows, from the beginning; the first pass counts what it sees."""
        scale = self.scale
        fresh = EncodingCounts(self.encoder.encoding)
        n_classes = len(self.encoder.classes or ())
        counts, n_rows = np.zeros(n_classes, dtype=np.int64), 0

        # dense rows take memory as they are encoded, so few of them at a time
        if self.table.is_sparse:
            batches = self.table.batches()
        else:
            most = max(1, min(BATCH_ROWS, MOST_AT_ONCE // (2 * self.encoder.encoding.n_terms)))
            batches = self.table.batches(most)

        for batch in batches:
            block = self.encoder.block(batch, scale, fresh)
            n_rows += block.n_rows
            if n_classes:
                counts += np.bincount(block.targets.astype(np.int64), minlength=n_classes)
            yield block

        fresh.refuse()
        self.seen, self.n_rows = fresh, n_rows
        self.label_counts = counts if n_classes else None


@dataclass
class ScratchBlocks:
    """Encoded rows in a scratch file, which is gone when nobody uses it any more.

    A pass costs less than reading the columns of a Parquet file, and a fifth of encoding them.
    """

    n_terms: int
    work: BlockMap
    n_rows: int = 0
    scratch: Scratch = field(default_factory=Scratch)
    stored: list[int] = field(default_factory=list)

    def add(self, block: Block) -> None:
        """Write some rows."""
        self.stored.append(self.scratch.put(block))
        self.n_rows += block.n_rows

    def blocks(self) -> Iterator[Block]:
        """The rows, from the beginning."""
        return map(self.scratch.get, self.stored)


def read_rows(rows: TableRows, n_jobs: int | None = None) -> Rows:
    """Rows in memory, two bytes a number, if they fit; else in a scratch file.

    Where the disk has no room, they are read anew at each pass.
    """
    rows.work = threads(n_jobs)
    kept: list[Block] = []
    stored: ScratchBlocks | None = None
    size, n_rows, has_room = 0, 0, True
    for block in rows.blocks():  # to the end in any case: what is seen counts all rows
        terms = block.terms
        size += terms.data.nbytes if is_sparse(terms) else terms.nbytes
        n_rows += block.n_rows
        kept.append(block)
        if size <= MOST_KEPT and n_rows <= MOST_ROWS_KEPT:
            continue

        # too many for memory: all so far go to the file
        try:
            while kept and has_room:
                stored = stored or ScratchBlocks(rows.n_terms, rows.work)
                stored.add(kept.pop(0))
        except OSError:  # the disk is full
            has_room = False
        kept.clear()

    if not has_room:
        return rows
    return stored or MemoryBlocks(rows.encoder.with_levels(joined(kept)), rows.work)
