"""The one place where the chance of leaving a cell is written, and the one bisection.

A number of the original lies in a cell of some width. A second lab's number differs from it by
``Delta``, and gets a different code if and only if it leaves the cell. Plans, widths, certificates,
stated rates and the rows that match half of the time all ask the functions below; widths and rows
invert the very formula that certificates evaluate.

Differences are normal; those of centres are so at a centre of a given size
(`replearn.glm.between`).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from replearn.types import Vector

#: A chance of exactly 1 has no logarithm.
_MOST_CHANCE = 1 - 1e-12
#: Nobody estimates that labs never differ.
_LEAST_CHANCE = 2.0**-50


def least_whole(holds: Callable[[int], bool], least: int = 1, most: int = 10**12) -> int:
    """The least whole number from ``least`` on at which something holds; it holds beyond it too.

    If it does not hold at ``most``, the answer is a number above it.
    """
    low, high = least - 1, least  # it does not hold at low
    while not holds(high):
        low, high = high, max(1, 2 * high)
        if low >= most:
            return high

    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def least_number(holds: Callable[[float], bool], start: float = 1.0) -> float:
    """The same for a positive number, to one part in 2^40."""
    high = start
    while not holds(high):
        high *= 2

    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high) or high - low < high * 2.0**-40:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def chance_of_leaving(
    width: Vector | float,
    bits: int,
    residual: Vector | float | None = None,
    degrees: float = math.inf,
) -> Vector:
    """Probability that a second lab's number leaves its cell.

    Parameters
    ----------
    width : array
        Of cells, in standard deviations of the difference between the two labs.
    bits : int
        Published about each number, so that the original lies within ``width / 2^(bits + 1)`` of
        its cell's centre.
    residual : array, optional
        Where this original lies, from the cell's centre, in the same units. By default the mean
        over the coins: ``P[|Delta + r| > width/2]`` with ``r`` uniform.
    degrees : float
        Of freedom: finite where few groups of rows show the deviation, for Student's tails.

    Examples
    --------
    >>> float(round(chance_of_leaving(7.2, bits=3) * 20, 3))
    0.01
    """
    half = np.asarray(width) / 2
    if residual is not None:
        chance = _tail(half - residual) + _tail(half + residual)
        return np.minimum(chance, 1.0)

    reach = half / 2**bits
    if math.isfinite(degrees):
        from scipy.special import stdtr

        places = half + reach * ((np.arange(16) + 0.5) / 8 - 1)
        return np.asarray(2 * stdtr(degrees, -places).mean())
    if bits >= 4:
        # the difference of two areas would cancel: Simpson's rule over so little
        ends = _tail(half - reach) + _tail(half + reach)
        chance = (ends + 4 * _tail(half)) / 3
    else:
        chance = (_tail_area(half + reach) - _tail_area(half - reach)) / reach
    return np.minimum(chance, 1.0)


def _tail(t: Vector) -> Vector:
    """``P[Delta > t]`` for a standard normal difference."""
    from scipy.special import ndtr

    return ndtr(-t)


def _tail_area(t: Vector) -> Vector:
    """Antiderivative of the tail."""
    density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    return t * _tail(t) - density


def chance_of_any(chances: Vector) -> float:
    """Probability that some number leaves its cell.

    Normal differences stay within all cells at least as often as if they were independent,
    whatever their correlations (Sidak).
    """
    stay = np.log1p(-np.minimum(chances, _MOST_CHANCE)).sum()
    return max(float(-np.expm1(stay)), _LEAST_CHANCE)


def chance_of_each(max_disagreement: float, n_numbers: int) -> float:
    """What each of so many numbers may have: the inverse of `chance_of_any`."""
    return -math.expm1(math.log1p(-max_disagreement) / n_numbers)


@lru_cache(maxsize=4096)
def width_for(chance: float, bits: int, degrees: float = math.inf) -> float:
    """Width of a cell, in standard deviations, that is left with this probability."""
    return least_number(
        lambda width: float(chance_of_leaving(width, bits, degrees=degrees)) <= chance
    )
