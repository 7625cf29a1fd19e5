"""Nets of directions: how many candidates it takes to be near every direction.

``radius`` is the sine of an angle: a candidate within it of the best normal classifies every point
whose cosine with that normal is larger than the radius.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError

NETS = ("random", "lattice")

#: Largest squared length, in lattice steps, of a lattice net: bounds the size of its tables.
MAX_SQUARED_LENGTH = 1 << 18

#: Most components of a lattice net, likewise.
MAX_LATTICE_COMPONENTS = 64


def log_cap(n_components: int, radius: float) -> float:
    """Logarithm of the share of the sphere within the angle ``arcsin(radius)`` of a point.

    Half of the regularised incomplete beta function ``I_{radius^2}((k - 1)/2, 1/2)``, by its
    power series, all of whose terms are positive.

    Examples
    --------
    >>> round(math.exp(log_cap(2, 0.5)), 6)  # 30 degrees to either side, of 360
    0.166667
    """
    if n_components == 1:
        return math.log(0.5)
    x, a = radius**2, (n_components - 1) / 2
    term = series = 1.0
    n = 0
    while term > 1e-17 * series:
        term *= x * (a + 0.5 + n) / (a + 1 + n)
        series += term
        n += 1
    log_beta = math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
    return a * math.log(x) + 0.5 * math.log1p(-x) - math.log(2 * a) - log_beta + math.log(series)


def log_random_size(n_components: int, radius: float, failure: float) -> float:
    """Logarithm of the number of random directions, one of which is within the radius.

    Except with probability ``failure``: N directions miss a cap with ``(1 - cap)^N``.
    """
    return math.log(math.log(1 / failure)) - log_cap(n_components, radius)


def squared_length(n_components: int, radius: str) -> int:
    """Largest squared length of an integer vector of the lattice net.

    The lattice ``(2 radius / sqrt(k)) Z^k`` has a point within the radius of every point of the
    unit ball; such points are at most ``1 + radius`` long.
    """
    exact = Fraction(radius)
    return math.floor(n_components * (1 + exact) ** 2 / (4 * exact**2))


def log_lattice_size(n_components: int, radius: str) -> float:
    """Logarithm of an upper bound of the size of the lattice net: a ball of its cubes."""
    reach = math.sqrt(squared_length(n_components, radius)) + math.sqrt(n_components) / 2
    log_unit_ball = n_components / 2 * math.log(math.pi) - math.lgamma(n_components / 2 + 1)
    return log_unit_ball + n_components * math.log(reach)


@lru_cache(maxsize=8)
def lattice_volumes(n_components: int, radius: str) -> NDArray[np.int64]:
    """Numbers of integer vectors in balls: entry (m, s) for m entries and squared length <= s.

    Its last entry, less 1 for the origin, is the size of the lattice net.

    Examples
    --------
    >>> lattice_volumes(2, "0.9")[2].tolist()  # the origin, 4 neighbours, 4 diagonal ones
    [1, 5, 9]
    """
    widest = squared_length(n_components, radius)
    if (
        widest > MAX_SQUARED_LENGTH
        or n_components > MAX_LATTICE_COMPONENTS
        or log_lattice_size(n_components, radius) > 60 * math.log(2)
    ):
        raise ReplearnError(
            f"A lattice net needs at most {MAX_LATTICE_COMPONENTS} components and fewer than 2^60 "
            f"candidates, got {n_components} components and radius {radius}. "
            'Use net="random", fewer components or a larger radius.'
        )
    volumes = np.ones((n_components + 1, widest + 1), dtype=np.int64)
    for m in range(1, n_components + 1):
        volumes[m] = volumes[m - 1]
        for entry in range(1, math.isqrt(widest) + 1):
            volumes[m, entry * entry :] += 2 * volumes[m - 1, : widest + 1 - entry * entry]
    volumes.setflags(write=False)
    return volumes


def lattice_size(n_components: int, radius: str) -> int:
    """Number of candidates of the lattice net."""
    return int(lattice_volumes(n_components, radius)[-1, -1]) - 1


def log_projected_tail(n_components: int, margin: float, cosine: float) -> float:
    """Logarithm of a bound of P[cos(Aw, Ax) < cosine], A Gaussian, if cos(w, x) >= margin.

    The cosine of two projected vectors is the correlation of ``k`` pairs of normals. In its
    density, ``(k-1)/pi (1-m^2)^{k/2} (1-r^2)^{(k-3)/2} int_0^oo (cosh w - m r)^{-k} dw``,
    ``cosh w >= 1 + w^2/2`` gives a bound in closed form, tight to a factor ``1 + O(1/k)``.
    It is integrated by the midpoint rule. Tested in tests/theory/test_net.py.
    """
    k, m = n_components, margin
    log_beta = math.lgamma(0.5) + math.lgamma(k - 0.5) - math.lgamma(k)
    constant = (
        math.log((k - 1) / math.pi) + k / 2 * math.log1p(-(m**2)) + log_beta - math.log(2) / 2
    )
    step = (1 + cosine) / 500
    logs = [
        (k - 3) / 2 * math.log1p(-(r**2)) - (k - 0.5) * math.log1p(-m * r)
        for r in (cosine - (i + 0.5) * step for i in range(500))
    ]
    largest = max(logs)
    return constant + largest + math.log(step * math.fsum(math.exp(x - largest) for x in logs))


def decimal_up(value: float) -> str:
    """Three significant digits, rounded up."""
    return _three_digits(value, ROUND_CEILING)


def decimal_down(value: float) -> str:
    """Three significant digits, rounded down."""
    return _three_digits(value, ROUND_FLOOR)


def _three_digits(value: float, rounding: str) -> str:
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(value)):.3g}"
