"""The logistic function and log-losses, compiled, without libm: the same bits everywhere.

``docs/sigmoid.md`` is the specification, ``kernels.portable`` the same in NumPy alone. The code
has no branch and no call, so that a loop over it becomes vector instructions.
"""

import numpy as np

from replearn.kernels.compiler import njit
from replearn.kernels.philox import natural_log
from replearn.kernels.portable import HIGHEST, INVERSE_LN2, LN2_HI, LN2_LO, LOWEST, SERIES, WHOLE
from replearn.types import Vector

(_C17, _C16, _C15, _C14, _C13, _C12, _C11, _C10, _C9, _C8, _C7, _C6, _C5, _C4, _C3, _C2, _, _) = (
    SERIES
)

_BIAS = np.int64(1023)


@njit(cache=True, nogil=True, inline="always")
def exponential(x):
    """``e^x`` of ``x`` cut to +-700: ``portable.exponential`` of one number."""
    x = LOWEST if x < LOWEST else x
    x = HIGHEST if x > HIGHEST else x
    shifted = (x * INVERSE_LN2 - 0.5) + WHOLE
    n = shifted - WHOLE
    r = (x - n * LN2_HI) - n * LN2_LO
    r = 0.0 if r < 0.0 else r
    series = _C17 * r + _C16
    series = series * r + _C15
    series = series * r + _C14
    series = series * r + _C13
    series = series * r + _C12
    series = series * r + _C11
    series = series * r + _C10
    series = series * r + _C9
    series = series * r + _C8
    series = series * r + _C7
    series = series * r + _C6
    series = series * r + _C5
    series = series * r + _C4
    series = series * r + _C3
    series = series * r + _C2
    series = (series * r + 1.0) * r + 1.0
    series = 2.0 if series > 2.0 else series
    # the lowest bits of `shifted` are n: moved up they are the exponent of 2^n
    exponent = (np.float64(shifted).view(np.int64) + _BIAS) << np.int64(52)
    return series * np.int64(exponent).view(np.float64)


@njit(cache=True, nogil=True, inline="always")
def sigmoid(s):
    """``1 / (1 + e^-s)``: ``portable.sigmoid`` of one number."""
    return 1.0 / (1.0 + exponential(-s))


@njit(cache=True, nogil=True)
def _fill_log_losses(probabilities, floor, out):
    """``out[i] = -ln p``, p the probability of what came, at least ``floor`` and at most 1."""
    for i in range(out.size):
        out[i] = -natural_log(min(max(probabilities[i], floor), 1.0))


def log_losses(probabilities: Vector, floor: float) -> Vector:
    """Log-loss of each row from the probability that was given to its class."""
    out = np.empty(probabilities.size)
    _fill_log_losses(np.ascontiguousarray(probabilities, dtype=np.float64), floor, out)
    return out
