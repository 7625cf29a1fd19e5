"""Nearest points of the E8 and the Leech lattice as integer codes, and the walls of their cells.

Both lattices have unit volume here. Integer coordinates ``c`` of a point:

- E8 (``x = c / 2``): all ``c`` even or all odd, and ``sum(c) % 4 == 0``: D8 and D8 + 1/2
  [CS99, Ch. 4].
- Leech (``x = c / sqrt(8)``): for ``p`` 0 or 1, all ``c % 2 == p``, the places where
  ``(c - p) / 2`` is odd are a word of the extended binary Golay code, and ``sum(c) % 8 == 4 p``
  [CS99, Ch. 4].

**Exactness.** A point is scaled, split into a whole part and a fraction, and the fraction is taken
to the nearest multiple of 2^-52. From there on everything is integer arithmetic: squared distances
are compared without their common term. So the result is the true nearest point on any machine.

**Ties.** Of several nearest points, the one whose ``c`` is lexicographically smallest. Points must
be finite, at most 2^50 in size.
"""

import functools
import itertools
import math

import numpy as np
from numpy.typing import NDArray

from replearn.types import Codes, Matrix, Vector

#: A lattice point is ``codes * unit``.
UNITS = {"e8": 0.5, "leech": math.sqrt(0.125)}
#: Side of the cube from which the shared shift is drawn: lattice vectors along the axes have it.
DITHER = {"e8": 2.0, "leech": math.sqrt(8.0)}
#: Length of the shortest vectors.
_SHORTEST = {"e8": math.sqrt(2.0), "leech": 2.0}

_BITS = 52
_ONE = 1 << _BITS


def _span(generators: list[int]) -> NDArray[np.uint8]:
    words = np.zeros(1, dtype=np.uint8)
    for generator in generators:
        words = np.concatenate([words, words ^ np.uint8(generator)])
    return words


# Turyn's form of the Golay code [CS99, Ch. 11]: the words (a+x, b+x, a+b+x), with a and b in the
# extended Hamming code and x in its reverse. Bit i of byte j stands for coordinate 8 j + i.
_HAMMING = _span([0b10001011, 0b10010110, 0b10101100, 0b11011000])
_REVERSE = _span([0b10001101, 0b10011010, 0b10110100, 0b11101000])
_BYTES = _HAMMING[None, :] ^ _REVERSE[:, None]


@functools.cache
def golay_octets() -> NDArray[np.uint8]:
    """The 4096 words of the code, three bytes each."""
    x, a, b = np.indices((16, 16, 16)).reshape(3, -1)
    return np.stack([_BYTES[x, a], _BYTES[x, b], _BYTES[x, a ^ b]], axis=1)


def nearest_codes(name: str, points: Matrix) -> Codes:
    """Integer coordinates of the nearest lattice points.

    Parameters
    ----------
    name : {"e8", "leech"}
    points : array of shape (n_blocks, 8) or (n_blocks, 24)

    Examples
    --------
    >>> nearest_codes("e8", np.array([[0.9, 0.1, -1.2, 0.0, 0.2, 0.1, 0.0, 0.0]])).tolist()
    [[2, 0, -2, 0, 0, 0, 0, 0]]
    """
    if name == "e8":
        return _nearest_e8(points * 2.0)
    return np.array([_nearest_leech(point) for point in points * DITHER["leech"]]).reshape(-1, 24)


def _split(values: Matrix, step: int) -> tuple[Codes, Codes]:
    """``values = whole * step + fraction``, fractions in units of 2^-52; a step is a power of 2."""
    whole = np.rint(values / step)
    return whole.astype(np.int64), np.rint((values - whole * step) * float(_ONE)).astype(np.int64)


def _nearest_of_class(
    fraction: Codes, residue: Codes | int, log_step: int
) -> tuple[Codes, Codes, Codes]:
    """Nearest integer that is ``residue`` modulo the step: how many steps, value, error.

    The error, ``fraction - value``, is in (-step/2, step/2]: the lower value wins a tie.
    """
    shift = _BITS + log_step
    distance = fraction - residue * np.int64(_ONE)
    n_steps = (distance + ((1 << (shift - 1)) - 1)) >> shift
    return n_steps, residue + (n_steps << log_step), distance - (n_steps << shift)


def _repaired(codes: Codes, errors: Codes, step: int) -> Codes:
    """Move one coordinate of each row to its second nearest value, at the least cost.

    That is where the error is largest. Among equals the lexicographically smallest result: the
    first coordinate that can go down (``error <= 0``), or else the last one.
    """
    sizes = np.abs(errors)
    largest = sizes == sizes.max(axis=1, keepdims=True)
    down = largest & (errors <= 0)
    last = errors.shape[1] - 1 - np.argmax(largest[:, ::-1], axis=1)
    chosen = np.where(down.any(axis=1), np.argmax(down, axis=1), last)

    rows = np.arange(len(codes))
    repaired = codes.copy()
    repaired[rows, chosen] += np.where(errors[rows, chosen] > 0, step, -step)
    return repaired


def _nearest_e8(scaled: Matrix) -> Codes:
    """The better of the nearest points of D8 and D8 + 1/2 [CS99, Ch. 20]."""
    wholes, fractions = _split(scaled, 2)
    nearest = []
    for parity in range(2):
        n_steps, values, errors = _nearest_of_class(fractions, parity, 1)
        codes = 2 * wholes + values
        costs = (values * (values * np.int64(_ONE) - 2 * fractions)).sum(axis=1)

        # where the sum rule fails, one coordinate takes its second nearest value
        odd = (wholes + n_steps).sum(axis=1) % 2 == 1
        costs += np.where(odd, 4 * (_ONE - np.abs(errors).max(axis=1)), 0)
        nearest.append((costs, np.where(odd[:, None], _repaired(codes, errors, 2), codes)))

    (even_costs, even), (odd_costs, odds) = nearest
    best = np.where((odd_costs < even_costs)[:, None], odds, even)
    for row in np.flatnonzero(odd_costs == even_costs):
        best[row] = min(even[row].tolist(), odds[row].tolist())
    return best


def _nearest_leech(scaled: Vector) -> Codes:
    """The best of all 2 * 4096 pairs (parity, Golay word).

    Given the pair, every coordinate has its residue modulo 4 and takes the nearest such value; if
    the sum rule fails, the one with the largest error takes its second nearest value. The cost of
    a word is the sum of three entries of tables, one for each octet.
    """
    wholes, fractions = _split(scaled, 4)
    octets = golay_octets()
    costs = np.empty((2, len(octets)), dtype=np.int64)
    for parity in range(2):
        # row i has the entries of octet i of each word
        cost, repair, odd = (
            np.take_along_axis(table, octets.T.astype(np.intp), axis=1)
            for table in _octet_tables(wholes, fractions, parity)
        )
        breaks = np.bitwise_xor.reduce(odd, axis=0) ^ parity
        costs[parity] = cost.sum(axis=0) + np.where(breaks == 1, repair.min(axis=0), 0)

    nearest = []
    for parity, word in np.argwhere(costs == costs.min()).tolist():
        nearest.append(_leech_coset(wholes, fractions, parity, octets[word]))
    return min(nearest, key=lambda codes: codes.tolist())  # the lexicographically smallest


def _octet_tables(wholes: Codes, fractions: Codes, parity: int) -> tuple[Codes, Codes, Codes]:
    """What the 256 patterns of each octet cost.

    Also the least extra cost of moving one coordinate to its second nearest value, and whether
    the coordinates are an odd number of steps from ``parity + 2 pattern``.
    """
    cost, odd = np.zeros((3, 1), dtype=np.int64), np.zeros((3, 1), dtype=np.int64)
    repair = np.full((3, 1), 16 * _ONE, dtype=np.int64)
    by_octet, steps = fractions.reshape(3, 8, 1), wholes.reshape(3, 8, 1)

    # each coordinate doubles the tables: patterns without its bit, then those with it
    for i in range(8):
        halves = []
        for bit in range(2):
            fraction = by_octet[:, i]
            n_steps, value, error = _nearest_of_class(fraction, parity + 2 * bit, 2)
            add = value * (value * np.int64(_ONE) - 2 * fraction)
            extra = 16 * _ONE - 8 * np.abs(error)
            flip = (steps[:, i] + n_steps) & 1
            halves.append((cost + add, np.minimum(repair, extra), odd ^ flip))
        cost, repair, odd = (np.concatenate(pair, axis=1) for pair in zip(*halves, strict=True))
    return cost, repair, odd


def _leech_coset(wholes: Codes, fractions: Codes, parity: int, word: NDArray[np.uint8]) -> Codes:
    """The nearest point of one (parity, Golay word) pair."""
    bits = np.unpackbits(word, bitorder="little").astype(np.int64)
    n_steps, values, errors = _nearest_of_class(fractions, parity + 2 * bits, 2)
    codes = (4 * wholes + values)[None, :]
    # words have weight 0 mod 4, so sum(c) is 4 times the number of steps, modulo 8
    if (int((wholes + n_steps).sum()) + parity) % 2:
        codes = _repaired(codes, errors[None, :], 4)
    return codes[0]


# --- walls, for estimates -----------------------------------------------------------------------


def _signed_pairs(n: int, size: int) -> NDArray[np.int8]:
    """All vectors with two entries +-size and zeros elsewhere."""
    first, second = np.triu_indices(n, k=1)
    rows = np.arange(first.size)
    vectors = np.zeros((4, first.size, n), dtype=np.int8)
    for k, (b, a) in enumerate(itertools.product((-size, size), repeat=2)):
        vectors[k, rows, first], vectors[k, rows, second] = a, b
    return vectors.reshape(-1, n)


def _even_signs() -> NDArray[np.int8]:
    """All vectors of eight +-1 with an even number of minus signs."""
    bits = np.arange(1 << 8)[:, None] >> np.arange(8) & 1
    return (1 - 2 * bits[bits.sum(axis=1) % 2 == 0]).astype(np.int8)


@functools.cache
def minimal_vectors(name: str) -> NDArray[np.int8]:
    """All shortest nonzero vectors in integer coordinates: 240 of E8, 196,560 of Leech.

    E8: two entries +-2, or eight +-1 with an even number of minus signs. Leech: two entries +-4;
    +-2 on a Golay word of weight 8 with an even number of minus signs; -1 on a Golay word and 1
    elsewhere, with one entry moved by 4 to the other side of 0 [CS99, Ch. 4].
    """
    if name == "e8":
        return np.concatenate([_signed_pairs(8, 2), _even_signs()])
    words = np.unpackbits(golay_octets(), axis=1, bitorder="little").astype(np.int8)

    # +-2 on the eight places of a word
    places = np.nonzero(words[words.sum(axis=1) == 8])[1].reshape(-1, 1, 8)
    eights = np.zeros((len(places), 128, 24), dtype=np.int8)
    np.put_along_axis(eights, places, 2 * _even_signs()[None], axis=2)

    # +-1, and +-3 at one place
    ones = np.repeat(1 - 2 * words[:, None], 24, axis=1)
    ones[:, range(24), range(24)] *= -3
    return np.concatenate([_signed_pairs(24, 4), eights.reshape(-1, 24), ones.reshape(-1, 24)])


@functools.cache
def _float_vectors(name: str) -> NDArray[np.float32]:
    return minimal_vectors(name).astype(np.float32)


def near_walls(name: str, place: Vector, reach: float) -> tuple[Vector, Matrix]:
    """Distances to the walls of the Voronoi cell near a place in it, and their unit normals.

    ``place`` is a point minus its nearest lattice point. Walls at ``reach`` or further are left
    out. For Leech only walls of minimal vectors are here; those of norm 6, with 0.3% of the
    crossings, are not: good for an estimate, no proof.
    """
    size, scale = _SHORTEST[name], UNITS[name] / _SHORTEST[name]
    slacks = size / 2 - _float_vectors(name) @ (place * scale).astype(np.float32)
    kept = np.flatnonzero(slacks < reach)
    return slacks[kept].astype(np.float64), minimal_vectors(name)[kept].astype(np.float64) * scale
