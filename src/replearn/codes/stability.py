"""The one place where the chance of leaving a cell is written, and the one bisection.

A number of the original lies in a cell of some width. A second lab's number differs from it by
``Delta``, and gets a different code if and only if it leaves the cell. Plans, widths, certificates,
stated rates and the rows that a match takes all ask the functions below; widths and rows invert the
very formula that certificates evaluate.

Differences are normal, or follow Student's law where their variance was learned from few centres.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

#: Degrees of freedom beyond which Student's law is taken to be the normal one.
_MOST_FREEDOM = 400
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
        low, high = high, 2 * high
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


def tail(t: float, freedom: int | None = None) -> float:
    """``P[Delta > t]`` for a standard normal difference, or Student's with an even freedom."""
    if freedom is None:
        return math.erfc(t / math.sqrt(2)) / 2
    return _student_tail(t, freedom)


def _student_tail(t: float, freedom: int) -> float:
    """A finite sum, because the degrees of freedom are even."""
    sine = t / math.sqrt(freedom + t * t)
    cosine_squared = freedom / (freedom + t * t)

    term, total = 1.0, 1.0
    for k in range(1, freedom // 2):
        term *= cosine_squared * (2 * k - 1) / (2 * k)
        total += term
    inside = sine * total

    if inside < 1 - 1e-9:
        return (1 - inside) / 2
    return _far_student_tail(t, freedom)


def _far_student_tail(t: float, freedom: int) -> float:
    """Where ``1 - inside`` would cancel: the leading terms of the tail's expansion."""
    ratio = freedom / (t * t)
    density = _student_density(t, freedom)
    first = t * (1 + ratio) / freedom
    return density * first * (1 - ratio / (freedom + 2))


def _student_density(t: float, freedom: int) -> float:
    constant = 0.5 / math.sqrt(freedom)
    for k in range(1, freedom // 2):
        constant *= (k + 0.5) / k
    return constant * math.exp(-(freedom + 1) / 2 * math.log1p(t * t / freedom))


def _tail_area(t: float, freedom: int | None) -> float:
    """Antiderivative of the tail."""
    if freedom is None:
        density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        return t * tail(t) - density
    spread = (freedom + t * t) / (freedom - 1)
    return t * tail(t, freedom) - spread * _student_density(t, freedom)


def chance_of_leaving(
    width: float, bits: int, freedom: int | None = None, residual: float | None = None
) -> float:
    """Probability that a second lab's number leaves its cell.

    Parameters
    ----------
    width : float
        Of the cell, in standard deviations of the difference between the two labs.
    bits : int
        Published about the number, so that the original lies within ``width / 2^(bits + 1)`` of
        its cell's centre.
    freedom : int, optional
        Even degrees of freedom of Student's law; by default differences are normal.
    residual : float, optional
        Where this original lies, from the cell's centre, in the same units. By default the mean
        over the coins: ``P[|Delta + r| > width/2]`` with ``r`` uniform.

    Examples
    --------
    >>> round(chance_of_leaving(7.2, bits=3) * 20, 3)
    0.01
    """
    if width <= 0:
        return 1.0
    half = width / 2

    if residual is not None:
        return min(1.0, tail(half - residual, freedom) + tail(half + residual, freedom))

    reach = width / 2 ** (bits + 1)
    if bits >= 4:
        # the difference of two areas would cancel: Simpson's rule over so little
        ends = tail(half - reach, freedom) + tail(half + reach, freedom)
        return min(1.0, (ends + 4 * tail(half, freedom)) / 3)
    areas = _tail_area(half + reach, freedom) - _tail_area(half - reach, freedom)
    return min(1.0, areas / reach)


def chance_of_any(chances: Iterable[float]) -> float:
    """Probability that some number leaves its cell.

    Normal differences stay within all cells at least as often as if they were independent,
    whatever their correlations (Sidak); so do those of Student's law with one common scale.
    """
    stay = math.fsum(math.log1p(-min(chance, _MOST_CHANCE)) for chance in chances)
    return max(-math.expm1(stay), _LEAST_CHANCE)


def chance_of_each(max_disagreement: float, n_numbers: int) -> float:
    """What each of so many numbers may have: the inverse of `chance_of_any`."""
    return -math.expm1(math.log1p(-max_disagreement) / n_numbers)


@lru_cache(maxsize=4096)
def width_for(chance: float, bits: int, freedom: int | None = None) -> float:
    """Width of a cell, in standard deviations, that is left with this probability."""
    return least_number(lambda width: chance_of_leaving(width, bits, freedom) <= chance)


def freedom_of(sampling: float, between: float, n_centres: int) -> int | None:
    """Degrees of freedom of a difference whose variance has two parts (Satterthwaite).

    Rows show the ``sampling`` part; ``n_centres`` show the part ``between`` centres, together with
    a prior that is worth four degrees of freedom. None: the normal law, which also holds for
    typical centres, whose variance is stated rather than learned.
    """
    if n_centres < 2 or between <= 0:
        return None

    learned = 4 + (n_centres - 1)  # the prior's, and those of the centres
    freedom = learned * ((sampling + between) / between) ** 2
    if freedom > _MOST_FREEDOM:
        return None
    return 2 * math.floor(freedom / 2)  # even, so that the tail is a finite sum
