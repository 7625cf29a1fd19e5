"""How wide the cells of Algorithms 1 and 2 must be with hint bits, and what that costs.

The first lab's point has an independent uniform place in its cell under each of K = 2^b offsets,
and the offset with the place farthest from all walls is taken. Let C_t be the part of a cell that
is at least t from all walls. Of K places the best is uniform on C_t with t random: the share X of
the volume that C_t has is Beta(2, K - 1) distributed (docs/theory.md). What follows is arithmetic.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from replearn.codes.cells import mean_length, runs, second_moment
from replearn.types import Vector

_RATIOS = (1e-2, 1e12)  # range that is searched
_HALVINGS = 60


@lru_cache(maxsize=16)
def shares_left(bits: int) -> tuple[Vector, Vector]:
    """Values of X, the share of a cell that is as safe as the chosen place, and their chances.

    Always 1 without hint bits. Rounded up, so that places are never safer than they are.
    """
    if bits == 0:
        return np.ones(1), np.ones(1)
    from scipy.special import betaincinv  # plans without hints need no scipy

    # X exceeds these with the chances `above`, which are fine where places are least safe
    above = np.concatenate([np.linspace(1, 0.05, 200), np.geomspace(0.05, 1e-14, 250)[1:], [0.0]])
    values = 1 - betaincinv((1 << bits) - 1, 2, above)
    return np.asarray(values[1:]), -np.diff(above)


def mean_excess(distance: Vector) -> Vector:
    """``E (g - distance)_+`` of a standard normal g."""
    from scipy.special import ndtr

    density = np.exp(-(distance**2) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(density - distance * ndtr(-distance))


def hinted_disagreement(ratio: float, n_walls: float, crossings: float, bits: int) -> float:
    """Chance that a second lab leaves the cell of the first, which chose among 2^bits offsets.

    Parameters
    ----------
    ratio : float
        Grid width over the standard deviation of two labs' difference in each coordinate.
    n_walls : float
        Half of the surface of all blocks: ``n`` for n cubes.
    crossings : float
        The part of it that a difference can cross: less if the last block is padded.

    Notes
    -----
    A normal difference leaves a cell that is uniform on C_t with probability at most
    ``surface E(g s - t)_+ / (1 - t/h)``, s = 1/ratio, h the height of the walls: proved for
    cubes. For lattices cells count as the number of cubes with the same surface, which is
    right to 5 % (tests/theory/test_block_hints.py).
    """
    shares, chances = shares_left(bits)
    inner = np.exp(np.log(shares) / n_walls)  # 1 - t/h
    safe = (1 - inner) / 2  # t, of cubes
    leaving = 2 * crossings / ratio * mean_excess(safe * ratio) / inner
    return float(np.minimum(leaving, 1.0) @ chances)


@lru_cache(maxsize=4096)
def hinted_ratio(rounding: str, n_components: int, bits: int, disagreement: float) -> float:
    """Grid width over the standard deviation of two labs' difference, for a disagreement.

    Examples
    --------
    >>> [round(hinted_ratio("leech", 24, bits, 0.06), 1) for bits in (0, 2, 4)]
    [159.6, 32.5, 17.4]
    """
    n_walls, crossings = _walls(rounding, n_components)
    low, high = _RATIOS
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if hinted_disagreement(middle, n_walls, crossings, bits) > disagreement:
            low = middle
        else:
            high = middle
    return high


def _walls(rounding: str, n_components: int) -> tuple[float, float]:
    parts = runs(rounding, n_components)
    n_walls = sum(run.cell.surface / 2 * run.n_blocks for run in parts)
    return n_walls, sum(run.crossings for run in parts)


def position_variance(rounding: str, n_components: int, bits: int) -> float:
    """Mean squared rounding error of a coordinate, in squared grid widths.

    A cell with all walls at one height keeps its shape: ``C_t`` is the cell, shrunk by
    ``X^(1/n)``, so the second moment shrinks by ``E X^(2/n)``, n codes. AKround decodes to a random
    point of its cell: only half of its error is the place in the cell.
    """
    whole = second_moment(rounding, n_components)
    if bits == 0:
        return whole
    n_codes, n_offsets = runs(rounding, n_components)[-1].stop, 1 << bits
    power = 2 / n_codes
    shrink = math.exp(
        math.lgamma(2 + power) + math.lgamma(n_offsets + 1) - math.lgamma(n_offsets + 1 + power)
    )
    return whole * ((1 + shrink) / 2 if rounding == "ak" else shrink)


# --- proved ---------------------------------------------------------------------------------

_LEAST = 1e-7  # disagreements below this are not told apart
_GRID = 1.01  # distances are looked at on a grid with this ratio


@dataclass(frozen=True)
class HintedCubes:
    """What is proved about hints: cubes, and a projection that turns differences at random."""

    projection: str  # "gaussian" or "rotation"
    n_components: int
    bits: int

    def disagreement(self, distance: float) -> float:
        """Chance of other codes for points at this distance, in grid widths; at most.

        A Gaussian map makes the difference normal, with variance ``distance^2 / k`` in each
        coordinate. A rotation gives a coordinate the law of ``distance g_1 / |g|``, for which
        convex functions have smaller means than for ``distance g_1 / E|g|`` (Jensen).
        """
        k = self.n_components
        length = math.sqrt(k) if self.projection == "gaussian" else mean_length(k)
        return hinted_disagreement(length / distance, k, k, self.bits)

    def bound(self, mean_square: float, step: float) -> float:
        """Chance of other codes of two labs, at most, whatever the population.

        Parameters
        ----------
        mean_square : float
            Bound of the mean squared distance of their means, in squared grid widths.
        step : float
            Bound of what one batch of each lab changes in the distance.

        Notes
        -----
        The distance D is that of a sum of independent vectors of length at most ``step``, so
        ``E D^4 <= 3 (E D^2)^2 + step^2 E D^2``. If the disagreement F is at most ``a D^2`` (or
        ``a D^4``) from some distance on, it is ``a E D^2`` (``a E D^4``) at most on average, and
        what F is at that distance. Tested in tests/theory/test_block_hints.py.
        """
        if mean_square <= 0:
            return 0.0
        start, second, fourth = _slopes(self)
        by_fourth = fourth * (3 * mean_square**2 + step**2 * mean_square)
        return min(1.0, start + min(second * mean_square, by_fourth))

    def allowed(self, disagreement: float) -> float:
        """Largest mean squared distance, in squared grid widths, with at most this bound.

        That is of vectors of which none is long.
        """
        return _allowed(self, disagreement)


@lru_cache(maxsize=4096)
def _allowed(law: HintedCubes, disagreement: float) -> float:
    low, high = 1e-30, 1e6
    for _ in range(_HALVINGS * 2):
        middle = math.sqrt(low * high)
        if law.bound(middle, 0.0) > disagreement:
            high = middle
        else:
            low = middle
    return low


@lru_cache(maxsize=256)
def _slopes(law: HintedCubes) -> tuple[float, float, float]:
    """Disagreement at a small distance, and the largest ratios to its square and fourth power."""
    distance = 1.0
    while law.disagreement(distance) > _LEAST:
        distance /= 2
    start = law.disagreement(distance)
    second = fourth = 0.0
    reached = 0.0
    while reached < 0.999:  # from there on it counts as 1, and the ratios fall
        reached = law.disagreement(distance * _GRID)  # the largest of this step of the grid
        second = max(second, reached / distance**2)
        fourth = max(fourth, reached / distance**4)
        distance *= _GRID
    return start, max(second, 1 / distance**2), max(fourth, 1 / distance**4)
