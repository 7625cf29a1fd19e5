"""Weights of a shared random choice, without libm: the same bits everywhere."""

import math

import numpy as np

from replearn.kernels.compiler import njit
from replearn.kernels.philox import index_from_word, philox_block, uniform_from_word
from replearn.kernels.portable import INVERSE_LN2, LN2_HI, LN2_LO


@njit(cache=True, nogil=True)
def exponential(x):
    """``e^x`` for ``x <= 0``, within 2 units in the last place; 0 below -700.

    ``e^x = 2^n e^r`` with ``|r| <= ln(2)/2`` and the power series of ``e^r`` to ``r^14``.
    """
    if x < -700.0:
        return 0.0
    n = np.rint(x * INVERSE_LN2)
    r = (x - n * LN2_HI) - n * LN2_LO
    series = 1.0
    for i in range(14, 0, -1):
        series = 1.0 + series * r / i
    return math.ldexp(series, int(n))


@njit(cache=True, nogil=True)
def fill_weights(log_weights, out):
    """``out[i] = e^(log_weights[i])``, all at most 0; returns their sum, added up in order."""
    total = 0.0
    for i in range(log_weights.size):
        out[i] = exponential(log_weights[i])
        total += out[i]
    return total


@njit(cache=True, nogil=True)
def first_accepted(weights, total, key0, key1):
    """Rejection as in [Holenstein07]: the first proposal ``w`` with ``u total < weights[w]``.

    Proposal ``t`` and its uniform ``u`` come from words 0 and 1 of row ``t``. Some weight must be
    positive; then this ends, after ``weights.size`` proposals on average.
    """
    t = np.uint64(0)
    while True:
        four = philox_block(np.uint64(0), t, key0, key1)
        proposal = index_from_word(four[0], weights.size)
        if uniform_from_word(four[1]) * total < weights[proposal]:
            return proposal
        t += np.uint64(1)
