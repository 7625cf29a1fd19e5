"""Sums of vectors that do not depend on the order: fixed point in two 64-bit integers.

Float addition is not associative, so a float sum changes with the number of threads and the
size of the blocks. Here a number is split into integers, ``hi * 2**-30 + lo * 2**-61``, and the
integers are added up: exactly, in any order and in any grouping. Two sums are merged by plain
addition of their limbs.

Range: entries of at most 8 in absolute value, fewer than 2**30 summands. Error: at most
``2**-62`` per summand and entry (the rounding of the second limb); nothing is lost after that.
"""

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import njit
from replearn.types import Vector

MAX_ENTRY = 8.0

_HI = 2.0**30
_LO = 2.0**61
_CARRY = 31  # bits between the two limbs


@njit(cache=True, nogil=True)
def split_fixed(value):
    """The limbs ``(hi, lo)`` of one number, ``|value| <= 8``, as whole floats."""
    hi = np.rint(value * _HI)
    # products with powers of two and this difference of near numbers are exact
    return hi, np.rint((value - hi * (1.0 / _HI)) * _LO)


@njit(cache=True, nogil=True)
def add_fixed(value, hi, lo, j):
    """Add a number to entry j of the sum held in the int64 vectors ``hi`` and ``lo``."""
    high, low = split_fixed(value)
    hi[j] += np.int64(high)
    lo[j] += np.int64(low)


def fixed_mean(
    hi: NDArray[np.int64], lo: NDArray[np.int64], count: int | NDArray[np.int64]
) -> Vector:
    """The mean of the ``count`` summands of a sum.

    The limbs are as ``add_fixed`` leaves them, or plain sums of such limbs. A count of 1 gives the
    sum itself.

    Notes
    -----
    Equal sums give equal bits, however they came about: the limbs are carried first, then five
    correctly rounded IEEE operations follow. Relative error at most ``4 * 2**-53``, on top of
    the ``2**-62`` per summand of the sum.

    Examples
    --------
    >>> hi, lo = np.zeros(1, np.int64), np.zeros(1, np.int64)
    >>> for _ in range(10):
    ...     add_fixed(0.1, hi, lo, 0)
    >>> fixed_mean(hi, lo, 10)
    array([0.1])
    """
    carry = lo >> _CARRY
    low = lo - (carry << _CARRY)
    total = (hi + carry).astype(np.float64) / _HI + low.astype(np.float64) / _LO
    return np.asarray(total / count, dtype=np.float64)
