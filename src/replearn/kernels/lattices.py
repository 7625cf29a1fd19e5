"""Nearest points of the E8 and the Leech lattice, as integer codes.

Both lattices have unit volume here. Rounding a block of 8 or 24 coordinates to one of them,
after a shared random shift, makes fewer flips than rounding to cubes at the same noise: the
Voronoi cell is rounder, so it has less surface through which a second run can leave
(replicable rounding is an isoperimetric problem, [HIKLY24]).
`replearn.codes.lattices` holds the constants.

Integer coordinates ``c`` of a point:

- E8 (``x = c / 2``): all ``c`` even or all odd, and ``sum(c) % 4 == 0``. This is the union of
  D8 and D8 + 1/2 [CS99, Ch. 4].
- Leech (``x = c / sqrt(8)``): for ``p`` 0 or 1, all ``c % 2 == p``, the places where
  ``(c - p) / 2`` is odd are a word of the extended binary Golay code, and
  ``sum(c) % 8 == 4 * p`` [CS99, Ch. 4]. The order of the 24 places is that of `GOLAY_BYTES`.

**Exactness.** A point is scaled, split into a whole part and a fraction (both exact), and the
fraction is taken to the nearest multiple of 2**-52. From there on everything is integer
arithmetic: squared distances are compared without their common term ``|fraction|**2``, which
makes them linear in the fraction. So the result is the true nearest point, the order of sums
cannot matter, and no compiler or processor can move a code.

**Ties.** Of several nearest points, the one whose ``c`` is lexicographically smallest. A
translation by a lattice vector keeps this order, so codes then shift by exactly that vector.

Points must be finite, at most 2**50 in size.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import njit
from replearn.types import Codes, Matrix

E8_BLOCK = 8
LEECH_BLOCK = 24

# IEEE 754 asks for a correctly rounded square root, so these are the same everywhere.
SQRT8 = math.sqrt(8.0)
SQRT_EIGHTH = math.sqrt(0.125)


def _span(generators: list[int]) -> NDArray[np.uint8]:
    """All sums of the generators; word ``i ^ j`` is the sum of words ``i`` and ``j``."""
    words = np.zeros(1, dtype=np.uint8)
    for generator in generators:
        words = np.concatenate([words, words ^ np.uint8(generator)])
    return words


# Turyn's form of the Golay code [CS99, Ch. 11]: the words (a+x, b+x, a+b+x), with a and b in
# the extended Hamming code and x in its reverse. GOLAY_BYTES[x, a] is the byte a+x; bit i of
# byte j stands for coordinate 8 j + i.
_HAMMING = _span([0b10001011, 0b10010110, 0b10101100, 0b11011000])
_REVERSE = _span([0b10001101, 0b10011010, 0b10110100, 0b11101000])
GOLAY_BYTES = _HAMMING[None, :] ^ _REVERSE[:, None]

_BITS = 52  # fractions are integers in units of 2**-52
_ONE = 1 << _BITS


@njit(cache=True, nogil=True)
def _split(value, log_step):
    """Write a value as ``whole * 2**log_step + fraction``, the fraction in units of 2**-52.

    All of it is exact, but for the last rounding when the value is smaller than 1.
    """
    step = float(1 << log_step)
    whole = np.rint(value / step)
    return np.int64(whole), np.int64(np.rint((value - whole * step) * float(_ONE)))


@njit(cache=True, nogil=True)
def _nearest_of_class(fraction, residue, log_step):
    """Nearest integer that is ``residue`` modulo the step: how many steps, value, error.

    The error, ``fraction - value``, is in (-step/2, step/2]: the lower value wins a tie.
    """
    shift = _BITS + log_step
    distance = fraction - residue * _ONE
    n_steps = (distance + (1 << (shift - 1)) - 1) >> shift
    return n_steps, residue + (n_steps << log_step), distance - (n_steps << shift)


@njit(cache=True, nogil=True)
def _flip_sum_parity(codes, errors, step):
    """Move one coordinate to its second nearest value, at the least cost.

    That is where the error is largest. Among equals the lexicographically smallest result: the
    first coordinate that can go down (``error <= 0``), or else the last one.
    """
    largest = np.abs(errors).max()
    chosen = -1
    for i in range(errors.size):
        if abs(errors[i]) == largest:
            chosen = i
            if errors[i] <= 0:
                break
    codes[chosen] += step if errors[chosen] > 0 else -step


@njit(cache=True, nogil=True)
def _precedes(codes, others):
    for i in range(codes.size):
        if codes[i] != others[i]:
            return codes[i] < others[i]
    return False


@njit(cache=True, nogil=True)
def _e8_coset(wholes, fractions, parity, codes, errors):
    """Write the nearest point with even (odd) coordinates into codes; return its cost."""
    cost = np.int64(0)
    odd = np.int64(0)
    for i in range(E8_BLOCK):
        n_steps, value, errors[i] = _nearest_of_class(fractions[i], parity, 1)
        codes[i] = 2 * wholes[i] + value
        cost += value * (value * _ONE - 2 * fractions[i])
        odd ^= (wholes[i] + n_steps) & 1
    if odd:
        cost += 4 * (_ONE - np.abs(errors).max())
        _flip_sum_parity(codes, errors, 2)
    return cost


@njit(cache=True, nogil=True)
def _nearest_e8_scaled(scaled):
    """Nearest E8 points of points in units of the integer coordinates."""
    codes = np.empty(scaled.shape, dtype=np.int64)
    wholes = np.empty(E8_BLOCK, dtype=np.int64)
    fractions = np.empty(E8_BLOCK, dtype=np.int64)
    errors = np.empty(E8_BLOCK, dtype=np.int64)
    odd_codes = np.empty(E8_BLOCK, dtype=np.int64)
    for block in range(scaled.shape[0]):
        for i in range(E8_BLOCK):
            wholes[i], fractions[i] = _split(scaled[block, i], 1)
        even = _e8_coset(wholes, fractions, 0, codes[block], errors)
        odd = _e8_coset(wholes, fractions, 1, odd_codes, errors)
        if odd < even or (odd == even and _precedes(odd_codes, codes[block])):
            codes[block] = odd_codes
    return codes


@njit(cache=True, nogil=True)
def nearest_e8(points: Matrix) -> Codes:
    """Integer coordinates of the nearest points of the E8 lattice.

    Points have shape (n_blocks, 8), in units where the lattice has unit volume.

    Notes
    -----
    The better of the nearest points of D8 and D8 + 1/2; for each, round every coordinate and
    move the worst one if the sum rule fails [CS99, Ch. 20]. Exact; see the module for ties.

    Examples
    --------
    >>> nearest_e8(np.array([[0.9, 0.1, -1.2, 0.0, 0.2, 0.1, 0.0, 0.0]]))
    array([[ 2,  0, -2,  0,  0,  0,  0,  0]])
    """
    return _nearest_e8_scaled(points * 2.0)


@njit(cache=True, nogil=True)
def _leech_classes(fractions, odd_wholes, parity, costs, repairs, odds):
    """Tabulate, for the three octets and all 256 patterns, what the pattern's coordinates cost.

    ``repairs`` is the least extra cost of moving one of them to its second nearest value,
    ``odds`` whether they are an odd number of steps from ``parity + 2 * pattern``.
    """
    for octet in range(3):
        cost, repair, odd = costs[octet], repairs[octet], odds[octet]
        cost[0], repair[0], odd[0] = 0, 16 * _ONE, 0
        for i in range(8):
            fraction = fractions[8 * octet + i]
            # a 1 at this place first: its half of the table is copied from the other one
            for bit in (1, 0):
                n_steps, value, error = _nearest_of_class(fraction, parity + 2 * bit, 2)
                add = value * (value * _ONE - 2 * fraction)
                extra = 16 * _ONE - 8 * abs(error)
                flip = (odd_wholes[8 * octet + i] + n_steps) & 1
                for s in range(1 << i):
                    to = s + (bit << i)
                    cost[to] = cost[s] + add
                    repair[to] = min(repair[s], extra)
                    odd[to] = odd[s] ^ flip


@njit(cache=True, nogil=True)
def _leech_coset(wholes, fractions, word, codes, errors):
    """Write the nearest point of one (parity, Golay word) pair into codes."""
    parity, x, a, b = word
    odd = parity
    for octet, pattern in enumerate((GOLAY_BYTES[x, a], GOLAY_BYTES[x, b], GOLAY_BYTES[x, a ^ b])):
        for bit in range(8):
            i = 8 * octet + bit
            residue = parity + 2 * ((np.int64(pattern) >> bit) & 1)
            n_steps, value, errors[i] = _nearest_of_class(fractions[i], residue, 2)
            codes[i] = 4 * wholes[i] + value
            odd ^= (wholes[i] + n_steps) & 1
    # Words have weight 0 mod 4, so sum(c) is 4 times the number of steps, modulo 8.
    if odd:
        _flip_sum_parity(codes, errors, 4)


@njit(cache=True, nogil=True)
def _nearest_leech_scaled(scaled):
    """Nearest Leech points of points in units of the integer coordinates."""
    codes = np.empty(scaled.shape, dtype=np.int64)
    wholes = np.empty(LEECH_BLOCK, dtype=np.int64)
    fractions = np.empty(LEECH_BLOCK, dtype=np.int64)
    errors = np.empty(LEECH_BLOCK, dtype=np.int64)
    rival = np.empty(LEECH_BLOCK, dtype=np.int64)
    costs = np.empty((3, 256), dtype=np.int64)
    repairs = np.empty((3, 256), dtype=np.int64)
    odds = np.empty((3, 256), dtype=np.int64)
    for block in range(scaled.shape[0]):
        for i in range(LEECH_BLOCK):
            wholes[i], fractions[i] = _split(scaled[block, i], 2)
        best = np.int64(1) << 62
        best_word = (0, 0, 0, 0)
        for parity in range(2):
            _leech_classes(fractions, wholes & 1, parity, costs, repairs, odds)
            for x in range(16):
                for a in range(16):
                    first = GOLAY_BYTES[x, a]
                    for b in range(16):
                        second, third = GOLAY_BYTES[x, b], GOLAY_BYTES[x, a ^ b]
                        cost = costs[0, first] + costs[1, second] + costs[2, third]
                        if odds[0, first] ^ odds[1, second] ^ odds[2, third] ^ parity:
                            repair = min(repairs[0, first], repairs[1, second])
                            cost += min(repair, repairs[2, third])
                        if cost > best:
                            continue
                        word = (parity, x, a, b)
                        if cost == best:
                            _leech_coset(wholes, fractions, best_word, codes[block], errors)
                            _leech_coset(wholes, fractions, word, rival, errors)
                            if not _precedes(rival, codes[block]):
                                continue
                        best, best_word = cost, word
        _leech_coset(wholes, fractions, best_word, codes[block], errors)
    return codes


@njit(cache=True, nogil=True)
def nearest_leech(points: Matrix) -> Codes:
    """Integer coordinates of the nearest points of the Leech lattice.

    Points have shape (n_blocks, 24), in units where the lattice has unit volume.

    Notes
    -----
    All 2 * 4096 pairs (parity, Golay word) are tried: given the pair, every coordinate has its
    residue modulo 4 and takes the nearest such value; if the sum rule fails, the
    coordinate with the largest error takes its second nearest value. Turyn's construction makes
    the cost of a word the sum of three table entries. Exact; see the module for ties.
    """
    return _nearest_leech_scaled(points * SQRT8)


@njit(cache=True, nogil=True)
def inner_products(columns, weights):
    """``weights @ columns`` in a fixed order, without a float copy of the columns."""
    n, size = columns.shape
    products = np.zeros(size)
    for start in range(0, size, 2048):  # a stretch of the result stays in the cache
        stretch = products[start : start + 2048]
        for i in range(n):
            column = columns[i, start : start + 2048]
            for j in range(stretch.size):
                stretch[j] += weights[i] * column[j]
    return products


# --- how far a point is from the nearest wall of its cell ------------------------------------
# A first lab chooses its hint by these, so they must be the same bits everywhere.


@njit(cache=True, nogil=True)
def least_slack(heights, normals, point):
    """Least distance from a point to one of several walls, ``min(heights - normals @ point)``."""
    least = np.inf
    for wall in range(normals.shape[0]):
        reached = 0.0
        for i in range(point.size):
            reached += normals[wall, i] * point[i]
        least = min(least, heights[wall] - reached)
    return least


@njit(cache=True, nogil=True)
def leech_reach(point, words):
    """Largest inner product of a point with the shortest vectors of the Leech lattice.

    ``words`` are the 4096 words of the Golay code as rows of bits; vectors are in integer
    coordinates: two entries +-4; +-2 on a word of weight 8 with an even number of minus signs; -1
    on a word and 1 elsewhere, with one entry moved by 4 to the other side of 0.
    """
    first = second = 0.0
    for i in range(24):
        size = abs(point[i])
        if size > first:
            first, second = size, first
        elif size > second:
            second = size
    largest = 4 * (first + second)
    for word in range(words.shape[0]):
        signed = 0.0  # inner product with the signs of the word
        lowest = np.inf
        on_word = 0.0  # sum of sizes on the word
        smallest = np.inf
        weight = n_negative = 0
        for i in range(24):
            value = point[i]
            if words[word, i]:
                weight += 1
                size = abs(value)
                on_word += size
                smallest = min(smallest, size)
                n_negative += value < 0
                value = -value
            signed += value
            lowest = min(lowest, value)
        largest = max(largest, signed - 4 * lowest)
        if weight == 8:
            odd = n_negative % 2 == 1
            largest = max(largest, 2 * (on_word - 2 * smallest if odd else on_word))
    return largest
