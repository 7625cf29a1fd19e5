"""Foam rounding [KORW12]: droplets of a shared stream cover space, without libm.

A proposal is a height ``u`` and the corner ``Z`` of a unit cube. Its droplets are
``{x : prod_i sin^2(pi (x_i - Z_i)) > u}``, one in each integer translate ``Z + c + [0, 1)^d`` of
the cube. A point belongs to the first proposal one of whose droplets holds it. A proposal holds a
given point with probability ``2^-d``.

Two points at distance D (in cubes) get different codes with probability at most ``2 pi D``, in any
direction; 4 D along an axis, about 5 D in many dimensions. The error ``centre - point`` has
independent coordinates with mean 0 and variance ``1/12 - 1/(2 pi^2)``, whatever the point: the
accepted corner has the density ``prod_i 2 sin^2(pi (x_i - Z_i))``. So this is correlated sampling
of two densities. Tested in tests/theory/test_foam.py.
"""

import math
from collections.abc import Iterator

import numpy as np

from replearn.codes.coins import Coins
from replearn.exact import uniforms
from replearn.types import Codes, Mask, Matrix, Order, Vector, Words

#: P[other codes] per distance, at most; and for small isotropic steps of many coordinates.
FOAM_FLIPS = 2 * math.pi
TYPICAL_FOAM_FLIPS = 2 * math.pi * math.sqrt(2 / math.pi)

#: Variance of each coordinate's error.
FOAM_VARIANCE = 1 / 12 - 1 / (2 * math.pi**2)

#: 2^24 proposals take seconds for each point.
MAX_FOAM_INPUTS = 24

#: A proposal of a file is below this: 2^20 times what a point in 24 dimensions needs.
MAX_PROPOSAL = 1 << 44

_STREAM = "boost/foam"
_FRONT = 3  # coordinates that are looked at first: they leave one proposal in eight
_NEIGHBOURS = 20_000

#: ``sin^2(pi w) = sum_k -(-y)^k / (2 (2k)!)`` with ``y = (2 pi w)^2``, from the highest power.
_FOUR_PI_SQUARED = 39.47841760435743
_SERIES = tuple(-((-1.0) ** k) / (2 * math.factorial(2 * k)) for k in range(11, 0, -1))


def sin_squared(x: Matrix) -> Matrix:
    """``sin^2(pi x)`` within 1e-15: additions, multiplications and floors in a fixed order."""
    # by symmetry to an eighth of a turn, where the series is short
    fraction = x - np.floor(x)
    fold = np.minimum(fraction, 1.0 - fraction)
    w = np.minimum(fold, 0.5 - fold)

    y = _FOUR_PI_SQUARED * (w * w)
    series = np.full_like(y, _SERIES[0])
    for coefficient in _SERIES[1:]:
        series = series * y + coefficient
    low = y * series
    return np.where(fold <= 0.25, low, 1.0 - low)


def foam_codes(point: Vector, round_number: int, coins: Coins) -> Codes:
    """Number of the proposal that holds a point, and the translate of its droplet.

    A point has at most 24 inputs, in units of the cube's side. Each round has proposals of its own:
    a row of the stream "boost/foam".
    """
    for first, drawn in _proposals(point.size, round_number, coins):
        held = _holding(point, drawn)
        if held.size:
            corner = uniforms(drawn[held[0], 1 : point.size + 1])
            cell = np.floor(point - corner).astype(np.int64)
            return np.array([first + held[0], *cell])
    raise AssertionError("proposals never end")


def foam_centre(codes: Codes, round_number: int, coins: Coins) -> Vector:
    """Centre of the cube of a droplet, in units of its side; the cost is that of one proposal."""
    drawn = _draw(int(codes[0]), 1, codes.size - 1, round_number, coins)
    return codes[1:] + (uniforms(drawn[0, 1 : codes.size]) + 0.5)


def share_leaving_foam(
    point: Vector, codes: Codes, moved: Matrix, round_number: int, coins: Coins
) -> float:
    """Share of the points ``point + moved[i]`` whose codes are not those of the point."""
    last, points, reach = int(codes[0]), point + moved, np.abs(moved).max(axis=0)

    # those that the droplet of the point does not hold
    corner = foam_centre(codes, round_number, coins) - 0.5
    left = ~_held(points, _draw(last, 1, point.size, round_number, coins)).any(axis=1)
    left |= (np.floor(points - corner) != 0).any(axis=1)

    # and those that an earlier proposal takes
    n_neighbours = 0
    for first, drawn in _proposals(point.size, round_number, coins):
        if first >= last:
            break
        earlier = drawn[: last - first]
        neighbours = earlier[_reachable(point, reach, earlier)]
        n_neighbours += len(neighbours)
        if n_neighbours > _NEIGHBOURS:  # then most points leave
            return 1.0
        left |= _held(points, neighbours).any(axis=1)
    return float(left.mean())


def _proposals(n_inputs: int, row: int, coins: Coins) -> Iterator[tuple[int, Words]]:
    """Blocks of proposals in their order, each with the number of its first one."""
    first, size = 0, 64
    while True:
        yield first, _draw(first, size, n_inputs, row, coins)
        first += size
        size = min(2 * size, 1 << 12)


def _draw(first: int, size: int, n_inputs: int, row: int, coins: Coins) -> Words:
    """Words of proposals: height (column 0), corner, padding up to whole Philox blocks."""
    n_blocks = -(-(n_inputs + 1) // 4)
    counter = np.array([first * n_blocks, row, 0, 0], dtype=np.uint64)
    bits = np.random.Philox(counter=counter, key=coins.key(_STREAM))
    return bits.random_raw(size * n_blocks * 4).reshape(size, n_blocks * 4)


def _holding(point: Vector, drawn: Words) -> Order:
    """Places of the proposals that hold a point: a product only falls, so few are seen through."""
    places = np.arange(len(drawn))
    heights, product = uniforms(drawn[:, 0]), np.ones(len(drawn))
    for i, coordinate in enumerate(point, start=1):
        product = product * sin_squared(coordinate - uniforms(drawn[places, i]))
        if i >= _FRONT or i == point.size:
            keep = product > heights
            places, heights, product = places[keep], heights[keep], product[keep]
    return places


def _held(points: Matrix, drawn: Words) -> Mask:
    """Which of the points (rows) each proposal (column) holds."""
    product = np.ones((len(points), len(drawn)))
    for i, coordinate in enumerate(points.T, start=1):
        product *= sin_squared(coordinate[:, None] - uniforms(drawn[:, i]))
    return product > uniforms(drawn[:, 0])


def _reachable(point: Vector, reach: Vector, drawn: Words) -> Order:
    """Proposals that may hold a point within ``reach[i]`` of this one, by axis.

    ``|sin(pi (a + b))| <= |sin(pi a)| + pi |b|``, and it is at most 1.
    """
    product = np.ones(len(drawn))
    for i, coordinate in enumerate(point, start=1):
        sines = np.sqrt(sin_squared(coordinate - uniforms(drawn[:, i])))
        product *= np.minimum(sines + math.pi * reach[i - 1], 1.0) ** 2
    return np.flatnonzero(product > uniforms(drawn[:, 0]))
