"""Sums of vectors that do not depend on the order: fixed point in two 64-bit integers.

Float addition is not associative, so a float sum changes with the number of threads and the
size of the blocks. Here a number is split into integers, ``hi * 2**-30 + lo * 2**-61``, and the
integers are added up: exactly, in any order and in any grouping. Merging two sums is plain
integer addition of their limbs.

Range: entries of at most 8 in absolute value, fewer than 2**30 summands. Error: at most
``2**-62`` per summand and entry (the rounding of the second limb); nothing is lost after that.
"""

from typing import Any

import numpy as np

from replearn.kernels.lanes import kernel
from replearn.types import IntegerArray, Vector

HI_SCALE = 2.0**30
LO_SCALE = 2.0**61
MAX_ENTRY = 8.0


@kernel
def split_fixed(value: Any) -> Any:
    """The limbs ``(hi, lo)`` of one number; ``|value| <= 8``."""
    hi = np.rint(value * HI_SCALE)
    # the difference is exact: both are multiples of value's last bit, and it is the smaller
    lo = np.rint((value - hi / HI_SCALE) * LO_SCALE)
    return np.int64(hi), np.int64(lo)


@kernel
def add_fixed(hi: Any, lo: Any, w: Any) -> None:
    """Add the vector ``w`` (float64, ``|w_j| <= 8``) to the sum held in ``hi`` and ``lo``."""
    for j in range(w.size):
        high, low = split_fixed(w[j])
        hi[j] += high
        lo[j] += low


@kernel
def add_fixed_at(hi: Any, lo: Any, columns: Any, w: Any) -> None:
    """Add ``w[j]`` to entry ``columns[j]`` of the sum; the other entries are not touched."""
    for j in range(w.size):
        high, low = split_fixed(w[j])
        hi[columns[j]] += high
        lo[columns[j]] += low
