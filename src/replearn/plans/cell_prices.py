"""How wide cells must be for a wanted agreement, with and without hints, and what that costs.

Two sites' points differ by a normal vector with standard deviation s in each of q coordinates, in
cells of width w. With a uniform offset and no hint, coordinates cross a wall independently with
probability ``E|difference| / w = sqrt(2/pi) s / w`` each. With hint bits the first site
chooses, among ``2**bits`` moves of the grid, the one under which its point is least likely to
be left; the second site then leaves with the probability that is averaged here over uniform
positions of the first point. ``ratio`` is w / s.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from replearn.codes.hints import moves
from replearn.codes.randomness import SharedRandomness
from replearn.plans.hint_table import DISAGREEMENTS, N_CODES, RATIOS, VARIANCES
from replearn.types import Matrix, Vector

_DRAWS = 2000  # positions of the first point; the standard error of a disagreement of .1 is .003
_DRAWN_NUMBERS = 1 << 22  # positions times moves times coordinates that are looked at, at most


def expected_range(n_sites: int) -> float:
    """Mean range of ``n_sites`` standard normals, over that of two: 1 for two sites.

    Examples
    --------
    >>> [round(expected_range(n), 2) for n in (2, 4, 16)]
    [1.0, 1.82, 3.13]
    """
    grid = np.linspace(-8, 8, 4001)
    below = ndtr(grid)
    range_ = np.trapezoid(1 - below**n_sites - (1 - below) ** n_sites, grid)
    return float(range_ * math.sqrt(math.pi) / 2)


def width_ratio(n_codes: int, bits: int, disagreement: float, n_sites: int = 2) -> float:
    """Width of cubes, over the standard deviation of two sites' difference, for an agreement.

    ``n_codes`` coordinates are rounded, with hint bits, and not all sites agree with probability
    ``disagreement``.

    Notes
    -----
    With hints the numbers are simulated once (``hint_table``) and interpolated.
    Without a hint: all coordinates stay with probability ``(1 - e / ratio)^q``, ``e`` the mean
    range of the sites' points. With one, every other site agrees with the first, by union.
    Tested in tests/theory/test_hints.py.
    """
    if bits == 0:
        mean_gap = math.sqrt(2 / math.pi) * expected_range(n_sites)
        return mean_gap / -math.expm1(math.log1p(-disagreement) / n_codes)
    return math.exp(_from_table(RATIOS[bits - 1], n_codes, disagreement / (n_sites - 1)))


def _from_table(table: Sequence[Sequence[float]], n_codes: int, disagreement: float) -> float:
    """Logarithm of an entry, interpolated on logarithmic scales.

    Beyond the most coordinates and below the smallest disagreement of the table the last slope is
    continued. Widths of many bits grow more slowly there, so that they come out a little too wide.
    """
    logs = np.log(np.array(table))
    wanted, steps = math.log(n_codes), np.log(N_CODES)
    at_codes = np.array([np.interp(wanted, steps, column) for column in logs.T])
    if wanted > steps[-1]:
        slopes = (logs[-1] - logs[-2]) / (steps[-1] - steps[-2])
        at_codes += slopes * (wanted - steps[-1])
    wanted, steps = math.log(disagreement), np.log(DISAGREEMENTS)
    if wanted < steps[0]:
        slope = (at_codes[1] - at_codes[0]) / (steps[1] - steps[0])
        return float(at_codes[0] + slope * (wanted - steps[0]))
    return float(np.interp(wanted, steps, at_codes))


@lru_cache(maxsize=64)
def _uniform_positions(n_codes: int, n_draws: int) -> Matrix:
    drawn = SharedRandomness("cell prices").uniforms(f"{n_codes}", n_codes * n_draws)
    return drawn.reshape(n_draws, n_codes)


def chosen_positions(ratios: Vector, bits: int, most_draws: int = _DRAWS) -> tuple[Matrix, Vector]:
    """Positions of first points under the moves they choose, and their chances to be met.

    Coordinates are independent; ``ratios`` are widths over standard deviations of the sites'
    difference. Positions, one in each row, are from the centre of the cell, in widths; a chance is
    that of the second site's point to be in the same cell. Fewer than ``most_draws`` if there are
    many moves and coordinates.
    """
    n_codes = ratios.size
    all_moves = moves(bits, n_codes)
    n_draws = max(256, min(most_draws, _DRAWN_NUMBERS // (len(all_moves) * n_codes)))
    drawn = _uniform_positions(n_codes, n_draws)
    best, stays = np.zeros_like(drawn), np.full(n_draws, -1.0)
    for move in all_moves:
        positions = (drawn - move) % 1.0 - 0.5
        chance = stay_chance(positions, ratios)
        better = chance > stays
        best[better], stays[better] = positions[better], chance[better]
    return best, stays


def stay_chance(positions: Matrix, ratios: Vector) -> Vector:
    """Chance that a normal difference keeps a point in its cube, coordinates independent."""
    above, below = (0.5 - positions) * ratios, (0.5 + positions) * ratios
    return np.asarray(np.prod(ndtr(above) - ndtr(-below), axis=-1))


def position_variance(n_codes: int, bits: int, disagreement: float, n_sites: int = 2) -> float:
    """Variance of a point around the centre of its cell, per coordinate, in squared widths.

    1/12 without a hint; a hint brings the first point near the centre.
    """
    if bits == 0:
        return 1 / 12
    found = math.exp(_from_table(VARIANCES[bits - 1], n_codes, disagreement / (n_sites - 1)))
    return min(found, 1 / 12)  # that of a uniform position, which the last slope would pass


def price(n_codes: int, bits: int, disagreement: float, n_sites: int = 2) -> float:
    """Expected excess deviance of the rounding, in nats times rows of a site.

    In the Fisher metric an efficient estimate has variance 1/n per coordinate, and a squared
    error of e costs e/2 nats; two sites differ with variance 2/n.

    Examples
    --------
    >>> round(price(2, 0, 0.06)), round(price(5, 0, 0.06))
    (114, 1754)
    """
    ratio = width_ratio(n_codes, bits, disagreement, n_sites)
    variance = position_variance(n_codes, bits, disagreement, n_sites)
    return n_codes * variance * ratio**2
