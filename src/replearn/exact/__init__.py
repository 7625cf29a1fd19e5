"""Arithmetic that gives the same bits everywhere: grids, elementary functions, small algebra."""

from replearn.exact.algebra import total
from replearn.exact.directions import (
    UNIT_BITS,
    Points,
    nonzero_rows,
    products,
    project_rows,
    unit_rows,
    weighted_sums,
)
from replearn.exact.draws import minus_logs, normals, uniforms
from replearn.exact.elementary import LN2_HI, MAX_SCORE, exp, log, sigmoid, softplus
from replearn.exact.fixed_order_dot import length, lengths, row_products, unit
from replearn.exact.fixed_point import (
    BATCHES,
    COUNTS,
    HI,
    INFEASIBLE,
    LO,
    PAIR_SUM,
    PAIR_UNIT,
    PAIRS,
    UNCONVERGED,
    ZERO_ROWS,
    fixed_mean,
)
