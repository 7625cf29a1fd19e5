"""Second moments of lattices by draws, from textbook constructions: none of the library's code.

Each lattice is a union of shifted copies of one whose nearest point is found coordinate by
coordinate: cubes, checkerboards, or hexagons for pairs of coordinates. So the squared distance to
the nearest point is the smallest over the copies. `python benchmarks/cells.py --moments 1e7`
prints them beside the constants of `replearn.codes.cells`.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from replearn.types import Vector

_SQRT3 = math.sqrt(3)
_OMEGA = complex(-0.5, _SQRT3 / 2)
_THETA = complex(0, _SQRT3)

#: Squared distances of n points, drawn uniformly on a period, to their nearest lattice points.
Draw = Callable[[np.random.Generator, int], Vector]


def drawn_moments(name: str, rng: np.random.Generator, n: int) -> Vector:
    """Squared distances per coordinate of n draws, of the lattice scaled to volume 1."""
    draw, dimension, volume = LATTICES[name]
    return draw(rng, n) / (dimension * volume ** (2 / dimension))


# --- from cubes ---------------------------------------------------------------------------------


def _cubes(dimension: int, shifts: Sequence[Sequence[float]], side: float = 1.0) -> Draw:
    """Copies of the cubes of this side."""

    def draw(rng: np.random.Generator, n: int) -> Vector:
        points = side * rng.random((n, dimension))
        best = np.full(n, np.inf)
        for shift in shifts:
            inside = (points - shift) / side
            best = np.minimum(best, side**2 * ((inside - np.rint(inside)) ** 2).sum(axis=1))
        return best

    return draw


def _checkers(dimension: int, shifts: Sequence[float]) -> Draw:
    """Copies of D_n: whole numbers with an even sum; else the coordinate that costs least moves."""

    def draw(rng: np.random.Generator, n: int) -> Vector:
        points = 2 * rng.random((n, dimension))
        best = np.full(n, np.inf)
        for shift in shifts:
            whole = np.rint(points - shift)
            off = np.abs(points - shift - whole)
            odd = whole.sum(axis=1) % 2
            best = np.minimum(best, (off**2).sum(axis=1) + odd * (1 - 2 * off).min(axis=1))
        return best

    return draw


#: Codewords of the [7, 4] code of Hamming: least weight 3.
_HAMMING = [
    np.array(bits) @ [[1, 1, 0, 1, 0, 0, 0], [0, 1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 0, 1, 0],
                      [0, 0, 0, 1, 1, 0, 1]] % 2
    for bits in itertools.product([0, 1], repeat=4)
]  # fmt: skip


# --- from hexagons ------------------------------------------------------------------------------


def _hexagon(points: np.ndarray) -> np.ndarray:
    """Squared distances to the numbers ``a + b omega`` of Eisenstein: two rectangular grids."""

    def grid(z: np.ndarray) -> np.ndarray:
        return (z.real - np.rint(z.real)) ** 2 + (z.imag - _SQRT3 * np.rint(z.imag / _SQRT3)) ** 2

    return np.minimum(grid(points), grid(points - complex(0.5, _SQRT3 / 2)))


def _hexagons(
    length: int, scale: complex, shifts: Sequence[complex], words: Sequence[Sequence[int]]
) -> Draw:
    """Copies of hexagons: ``scale`` times numbers of Eisenstein, shifted as a word says."""

    def draw(rng: np.random.Generator, n: int) -> Vector:
        across, up = rng.random((2, n, length))
        points = scale * (across + up * _OMEGA)
        parts = [abs(scale) ** 2 * _hexagon((points - shift) / scale) for shift in shifts]
        best = np.full(n, np.inf)
        for word in words:
            best = np.minimum(best, sum(parts[c][:, i] for i, c in enumerate(word)))
        return best

    return draw


def _hexacode() -> list[tuple[int, ...]]:
    """The 64 words over the field of four elements, 0, 1, omega and its conjugate."""
    times = [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]

    def value(a: int, b: int, c: int, x: int) -> int:
        return times[times[a][x]][x] ^ times[b][x] ^ c

    return [
        (a, b, c, *(value(a, b, c, x) for x in (1, 2, 3)))
        for a, b, c in itertools.product(range(4), repeat=3)
    ]


# --- Leech --------------------------------------------------------------------------------------


@functools.cache
def golay() -> np.ndarray:
    """The 4096 words of the extended code of Golay, from its generator polynomial."""
    generator = 0b101011100011
    rows = np.array([[(generator << i) >> j & 1 for j in range(23)] for i in range(12)])
    rows = np.column_stack([rows, rows.sum(axis=1) % 2])
    bits = (np.arange(4096)[:, None] >> np.arange(12)) & 1
    return np.asarray(bits @ rows % 2, dtype=np.float64)


def _leech(rng: np.random.Generator, n: int) -> Vector:
    """Coordinates ``m + 2 c_i + 4 k_i``, m 0 or 1, c a word of Golay, with the sum 4 m modulo 8."""
    words = golay()
    points = 8 * rng.random((n, 24))
    best = np.full(n, np.inf)
    for m in (0, 1):
        parts, moves, odd = [], [], []
        for c in (0, 1):
            inside = (points - m - 2 * c) / 4
            whole = np.rint(inside)
            off = np.abs(inside - whole)
            parts.append(16 * off**2)
            moves.append(16 * (1 - 2 * off))
            odd.append(whole % 2)
        whole_sums = odd[0].sum(axis=1)[:, None] + (odd[1] - odd[0]) @ words.T
        wrong = (20 * m + 2 * words.sum(axis=1) + 4 * whole_sums) % 8 != 0
        costs = parts[0].sum(axis=1)[:, None] + (parts[1] - parts[0]) @ words.T
        enough = np.where(wrong, np.inf, costs).min(axis=1)  # without any move
        for row in range(n):
            near = np.flatnonzero(costs[row] <= enough[row])
            move = np.where(words[near] == 1, moves[1][row], moves[0][row]).min(axis=1)
            best[row] = min(best[row], float((costs[row, near] + wrong[row, near] * move).min()))
    return best


def _in_parts(draw: Draw, size: int) -> Draw:
    """The same draws, so many at a time: they take memory."""

    def all_parts(rng: np.random.Generator, n: int) -> Vector:
        return np.concatenate([draw(rng, min(size, n - i)) for i in range(0, n, size)])

    return all_parts


#: How to draw, dimension, and volume of a cell.
LATTICES: dict[str, tuple[Draw, int, float]] = {
    "centre": (_cubes(1, [[0.0]]), 1, 1.0),
    "a2": (_hexagons(1, 1, [0], [[0]]), 2, _SQRT3 / 2),
    "d3s": (_cubes(3, [[0.0] * 3, [0.5] * 3]), 3, 0.5),
    "d4": (_checkers(4, [0.0]), 4, 2.0),
    "d5s": (_cubes(5, [[0.0] * 5, [0.5] * 5]), 5, 0.5),
    "e6s": (
        _hexagons(
            3, _THETA, [0, 1, -1], [[a, b, -(a + b) % 3] for a in range(3) for b in range(3)]
        ),
        6,
        (3 * _SQRT3 / 2) ** 3 / 9,
    ),
    "e7s": (_cubes(7, _HAMMING, side=2.0), 7, 8.0),
    "e8": (_checkers(8, [0.0, 0.5]), 8, 1.0),
    "d10p": (_checkers(10, [0.0, 0.5]), 10, 1.0),
    "k12": (_hexagons(6, 2, [0, 1, _OMEGA, _OMEGA**2], _hexacode()), 12, (_SQRT3 / 2) ** 6 * 64),
    "leech": (_in_parts(_leech, 64), 24, 2.0**36),
}
