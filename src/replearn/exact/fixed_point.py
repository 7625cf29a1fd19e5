"""Fixed-point sums of batch vectors, and what is counted beside them; no compiler is needed.

A sum is fixed point in two int64 limbs, ``hi 2^-30 + lo 2^-61``: exact in any order and in any
grouping, for entries of at most 8 and fewer than 2^30 summands.
"""

from typing import Any

import numpy as np

from replearn.types import Ints, Vector

#: Numbers that a solver counts, in their order; pairs are neighbouring batches (2k, 2k + 1).
COUNTS = ("batches", "unconverged", "infeasible", "zero_rows", "pairs", "pair_sum")
BATCHES, UNCONVERGED, INFEASIBLE, ZERO_ROWS, PAIRS, PAIR_SUM = range(len(COUNTS))
#: Squared distances of pairs are counted in this unit.
PAIR_UNIT = 2.0**-24

#: The units of the limbs, and the bits between them.
HI, LO, CARRY = 2.0**30, 2.0**61, 31


def fixed_mean(hi: Ints, lo: Ints, count: Any) -> Vector:
    """The mean of ``count`` summands: equal sums give equal bits, however they came about."""
    carry = lo >> CARRY
    low = lo - (carry << CARRY)
    total = (hi + carry).astype(np.float64) / HI + low.astype(np.float64) / LO
    return total / count
