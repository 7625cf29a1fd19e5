"""Exponential, logarithm and sigmoid without libm: the same bits on every machine.

Only ``+ - * /``, ``floor``, ``frexp`` and powers of two of float64 are used, elementwise and in the
order written here. docs/format.md repeats that order for other languages.
"""

import numpy as np

from replearn.types import Vector

#: ln 2 in two parts: the first has 32 bits, so that its product with a small integer is exact.
LN2_HI, LN2_LO = 0.693147180369123816490, 1.90821492927058770002e-10
_PER_LN2 = 1.4426950408889634

#: 1/k! for k = 8 ... 0: Taylor's polynomial on +-ln(2)/2 has a relative error below 3e-10.
_TAYLOR = tuple(1.0 / f for f in (40320, 5040, 720, 120, 24, 6, 2, 1, 1))

#: Scores are cut here: beyond, a probability is 0 or 1 on every grid of ours.
MAX_SCORE = 30.0

_SQRT_HALF = 0.7071067811865476


def exp(x: Vector) -> Vector:
    """``e^x`` for ``|x| <= 700``, with a relative error below 3e-10.

    Examples
    --------
    >>> exp(np.array([0.0, 1.0])).round(8).tolist()
    [1.0, 2.71828183]
    """
    k = x * _PER_LN2  # all steps in place: new memory takes longer than arithmetic
    k += 0.5
    np.floor(k, out=k)
    total = k * LN2_HI
    r = x - total
    r -= np.multiply(k, LN2_LO, out=total)

    total.fill(_TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        total *= r
        total += coefficient

    # as ldexp, but faster: k + 1023 in the place of a float64's exponent is 2^k
    k += 1023.0
    k *= 2.0**52
    total *= k.astype(np.int64).view(np.float64)
    return total


def sigmoid(score: Vector) -> Vector:
    """``1 / (1 + e^-score)``; scores are cut at +-30."""
    size = np.abs(score)
    np.minimum(size, MAX_SCORE, out=size)
    e = exp(np.negative(size, out=size))
    probability = np.maximum(e, score >= 0)  # 1 or e, which is at most 1
    e += 1.0
    probability /= e
    return probability


def log(x: Vector, n_terms: int = 8) -> Vector:
    """Natural logarithm of positive numbers, with an absolute error below 1e-12.

    With 11 terms it is within 2 units in the last place. ``ln x = e ln 2 + 2 artanh(s)`` with
    ``s = (m - 1) / (m + 1)`` and ``m`` in ``[0.7, 1.42)``.
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, 2.0 * mantissa, mantissa)
    exponent = (exponent - low).astype(np.float64)

    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = np.zeros_like(s)
    for i in range(n_terms, 0, -1):
        series = (series + 1.0 / (2 * i + 1)) * square
    return exponent * LN2_HI + (2.0 * s + (2.0 * s * series + exponent * LN2_LO))


def softplus(score: Vector) -> Vector:
    """``ln(1 + e^score)``, without overflow."""
    return np.maximum(score, 0.0) + log(1.0 + exp(-np.minimum(np.abs(score), MAX_SCORE)))
