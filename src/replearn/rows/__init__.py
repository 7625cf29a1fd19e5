"""Encoded rows in blocks of whole numbers, and sums over them that are exact in any order."""

from replearn.rows.blocks import (
    COARSE,
    COARSE_BLOCK,
    COARSE_SHIFT,
    EVERY_ROW,
    MAX_BLOCK,
    MAX_ROW,
    MOST_TRIED,
    RESIDUAL_BITS,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    MemoryBlocks,
    Rows,
    add_lower_products,
    column_sums,
    copied_share,
    joined,
    marks,
    most_rows,
    on_grid,
    pieces,
    product,
    row_marks,
    sampled,
    scores,
    sparse_rows,
    squared,
    term_hashes,
    threshold_for,
    with_constant,
)
from replearn.rows.levels import LEAST_LEVELS, LevelRows, dense_terms
from replearn.rows.samples import MemoryRows, Sample, SignedRows
from replearn.rows.sums import ExactSums, WholeNumbers, integers
