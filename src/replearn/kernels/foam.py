"""Foam rounding [KORW12]: droplets of a shared stream cover space, without libm.

Proposal ``t`` is row ``t`` of a stream: its first uniform is the height ``u``, the next d are the
corner ``Z`` of a unit cube. Its droplets are ``{x : prod_i sin^2(pi (x_i - Z_i)) > u}``, one in
each integer translate ``Z + c + [0, 1)^d`` of the cube. A point belongs to the first proposal one
of whose droplets holds it. A proposal holds a given point with probability ``2^-d``.

All factors are at most 1, so a proposal is given up at the first product that is not above its
height. The height and three coordinates are one Philox block: that much is worked out for many
proposals at once, and one in eight of them is looked at further, whatever d. Only
additions, multiplications and floors in a fixed order, so every platform gets the same bits.
"""

import math

import numpy as np

from replearn.kernels.compiler import njit
from replearn.kernels.philox import philox_block, uniform_from_word

_FOUR_PI_SQUARED = 39.47841760435743

_FRONT = 3  # coordinates in the first block of a proposal
_FIRST_CHUNK, _CHUNK = 16, 256  # proposals worked on at once, at first and later


@njit(cache=True, nogil=True)
def sin_squared(x):
    """``sin^2(pi x)``, within 1e-15.

    With w the distance of x to the nearest multiple of 1/2, at most 1/4, and ``y = (2 pi w)^2``:
    ``sin^2(pi w) = (1 - cos(2 pi w)) / 2 = y/4 - y^2/48 + ... = sum_k -(-y)^k / (2 (2k)!)``.
    """
    fraction = x - math.floor(x)
    fold = fraction if fraction < 0.5 else 1.0 - fraction
    w = fold if fold < 0.25 else 0.5 - fold
    y = _FOUR_PI_SQUARED * (w * w)
    series = 4.448395696225287e-22
    series = series * y + -2.0551588116560824e-19
    series = series * y + 7.809603484293113e-17
    series = series * y + -2.3897386661936926e-14
    series = series * y + 5.735372798864862e-12
    series = series * y + -1.043837849393405e-09
    series = series * y + 1.3778659611992944e-07
    series = series * y + -1.240079365079365e-05
    series = series * y + 0.0006944444444444445
    series = series * y + -0.020833333333333332
    series = series * y + 0.25
    low = y * series
    return low if fold <= 0.25 else 1.0 - low


@njit(cache=True, nogil=True)
def first_droplet(point, key0, key1):
    """Number of the first proposal that holds the point: ``2^d`` on average, without a limit."""
    n_front = min(point.size, _FRONT)
    heights = np.empty(_CHUNK)
    corners = np.zeros((_FRONT, _CHUNK))  # including those of no proposal yet
    products = np.empty(_CHUNK)
    start, size = 0, _FIRST_CHUNK
    while True:
        for k in range(size):
            words = philox_block(np.uint64(0), np.uint64(start + k), key0, key1)
            heights[k] = uniform_from_word(words[0])
            corners[0, k] = uniform_from_word(words[1])
            corners[1, k] = uniform_from_word(words[2])
            corners[2, k] = uniform_from_word(words[3])
        products[:] = 1.0
        for i in range(n_front):
            _multiply(point[i], corners[i], products)
        for k in range(size):
            if products[k] > heights[k] and holds(point, np.uint64(start + k), key0, key1):
                return start + k
        start += size
        size = min(2 * size, _CHUNK)


@njit(cache=True, nogil=True)
def _multiply(coordinate, corners, products):
    for k in range(products.size):  # no branch here, so that the compiler can vectorise it
        products[k] *= sin_squared(coordinate - corners[k])


@njit(cache=True, nogil=True)
def holds(point, t, key0, key1):
    """Whether a droplet of proposal ``t`` holds the point."""
    words = philox_block(np.uint64(0), t, key0, key1)
    height = uniform_from_word(words[0])
    product = 1.0
    for i in range(point.size):
        place = (i + 1) & 3
        if place == 0:
            words = philox_block(np.uint64((i + 1) >> 2), t, key0, key1)
        product *= sin_squared(point[i] - uniform_from_word(words[place]))
        if product <= height:
            return False
    return True


@njit(cache=True, nogil=True)
def near_proposals(point, reach, key0, key1, last, out):
    """Proposals before ``last`` that may hold a point within ``reach[i]`` of this one, by axis.

    ``|sin(pi (a + b))| <= |sin(pi a)| + pi |b|``, and it is at most 1. Writes their numbers to
    ``out`` and returns how many there are, or -1 if ``out`` is too short.
    """
    n_found = 0
    for t in range(last):
        words = philox_block(np.uint64(0), np.uint64(t), key0, key1)
        height = uniform_from_word(words[0])
        product = 1.0
        for i in range(point.size):
            place = (i + 1) & 3
            if place == 0:
                words = philox_block(np.uint64((i + 1) >> 2), np.uint64(t), key0, key1)
            sine = math.sqrt(sin_squared(point[i] - uniform_from_word(words[place])))
            sine = min(1.0, sine + math.pi * reach[i])
            product *= sine * sine
            if product <= height:
                break
        if product > height:
            if n_found == out.size:
                return -1
            out[n_found] = t
            n_found += 1
    return n_found


@njit(cache=True, nogil=True)
def count_leaving(points, corner, cell, own, others, key0, key1):
    """How many points are outside droplet ``cell`` of proposal ``own``, or held by an earlier one.

    ``corner`` is Z of the proposal ``own``; ``others`` are earlier proposals to look at.
    """
    n_left = 0
    for k in range(points.shape[0]):
        point = points[k]
        left = not holds(point, np.uint64(own), key0, key1)
        for i in range(point.size):
            left = left or np.int64(math.floor(point[i] - corner[i])) != cell[i]
        for t in others:
            if left:
                break
            left = holds(point, np.uint64(t), key0, key1)
        n_left += left
    return n_left
