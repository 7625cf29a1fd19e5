"""Lattices of 2 to 12 dimensions for roundings: integer coordinates, points, facets of their cells.

A point has integer coordinates ``c`` and stands at ``c * units``; the lattice has unit volume.
Their residues say which ``c`` belong to it (`replearn.kernels.boxes`):

====== ========== =========================================================================
name   lattice    integer coordinates ``c``
====== ========== =========================================================================
a2     hexagonal  pairs ``(a, b)``, both even or both odd; the point is ``(a, sqrt(3) b)``,
                  scaled
d3s    D3*, bcc   all even or all odd
d4     D4         of even sum
d5s    D5*        all even or all odd
e6s    E6*        three pairs as in a2, and the sum of the ``a`` is a multiple of 3
e7s    E7*        the places of the odd ones are a word of the Hamming code of length 7
d10p   D10+       all even or all odd, and the sum is a multiple of 4
k12    Coxeter-   six pairs as in a2, which are Eisenstein integers ``(a + b sqrt(-3)) / 2``;
       Todd       modulo 2 they are a word of the hexacode
====== ========== =========================================================================

These are the constructions of [CS99, Ch. 4 and 7]. Up to 7 and in 12 dimensions they are the
lattices with the smallest second moments of [CS99, Table 2.3].

The shared shift is uniform on a box with sides ``moduli * units``. These sides are lattice vectors,
so the box is a whole number of fundamental cells and the shift is uniform modulo the lattice.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replearn.codes.cells import CELLS, Cell
from replearn.kernels.boxes import nearest_in_boxes
from replearn.types import Codes, Matrix, Vector


@dataclass(frozen=True)
class BoxLattice(Cell):
    """A unit-volume lattice that is a union of shifted boxes.

    Attributes
    ----------
    units : tuple of float
        A point is ``codes * units``.
    moduli, weights : tuple of int
        Box sides, and what the square of each integer coordinate counts in a squared length.
    generators : tuple of tuples of int
        Words that generate all residues of lattice points.
    facet_norms : tuple of int
        Squared lengths, in integer coordinates, of the vectors whose facets bound the cell.
    """

    units: tuple[float, ...]
    moduli: tuple[int, ...]
    weights: tuple[int, ...]
    generators: tuple[tuple[int, ...], ...]
    facet_norms: tuple[int, ...]


# Eisenstein integers modulo 2, the letters of the hexacode, as pairs (a, b) modulo 4; the pair
# (2, 2) is twice an Eisenstein integer.
_ZERO, _ONE, _OMEGA, _OMEGA2, _TWICE = (0, 0), (2, 0), (3, 1), (3, 3), (2, 2)
_HEXACODE = (
    (_ONE, _ZERO, _ZERO, _ONE, _OMEGA2, _OMEGA),
    (_ZERO, _ONE, _ZERO, _ONE, _OMEGA, _OMEGA2),
    (_ZERO, _ZERO, _ONE, _ONE, _ONE, _ONE),
)
_TIMES_OMEGA = {_ZERO: _ZERO, _ONE: _OMEGA, _OMEGA: _OMEGA2, _OMEGA2: _ONE}


def _k12_generators() -> tuple[tuple[int, ...], ...]:
    words = [
        *_HEXACODE,
        *(tuple(_TIMES_OMEGA[letter] for letter in word) for word in _HEXACODE),
        *(tuple(_TWICE if i == j else _ZERO for i in range(6)) for j in range(6)),
    ]
    return tuple(tuple(number for letter in word for number in letter) for word in words)


def _pair_of(n: int, first: int, size: int) -> tuple[int, ...]:
    """``size`` at two neighbouring places, 0 elsewhere."""
    return tuple(size if i in (first, first + 1) else 0 for i in range(n))


# The units are written out, correctly rounded, so that no library computes other bits.
A2 = BoxLattice(
    **vars(CELLS["a2"]),
    units=(0.537284965911771, 0.9306048591020996),  # (2 sqrt(3))^(-1/2), and sqrt(3) times that
    moduli=(2, 2),
    weights=(1, 3),
    generators=((1, 1),),
    facet_norms=(4,),
)
D3S = BoxLattice(
    **vars(CELLS["d3s"]),
    units=(0.6299605249474366,) * 3,  # 4^(-1/3)
    moduli=(2,) * 3,
    weights=(1,) * 3,
    generators=((1, 1, 1),),
    facet_norms=(3, 4),
)
D4 = BoxLattice(
    **vars(CELLS["d4"]),
    units=(0.8408964152537145,) * 4,  # 2^(-1/4)
    moduli=(2,) * 4,
    weights=(1,) * 4,
    generators=tuple(_pair_of(4, i, 1) for i in range(3)),
    facet_norms=(2,),
)
D5S = BoxLattice(
    **vars(CELLS["d5s"]),
    units=(0.5743491774985175,) * 5,  # 16^(-1/5)
    moduli=(2,) * 5,
    weights=(1,) * 5,
    generators=((1,) * 5,),
    facet_norms=(4, 5),
)
E6S = BoxLattice(
    **vars(CELLS["e6s"]),
    units=(0.4473881527219965, 0.7748990112188823) * 3,  # (72 sqrt(3))^(-1/6), sqrt(3) times that
    moduli=(6, 2) * 3,
    weights=(1, 3) * 3,
    generators=(
        *((3, 1, 0, 0, 0, 0), (0, 0, 3, 1, 0, 0), (0, 0, 0, 0, 3, 1)),
        *((2, 0, 4, 0, 0, 0), (0, 0, 2, 0, 4, 0)),
    ),
    facet_norms=(8, 12),
)
E7S = BoxLattice(
    **vars(CELLS["e7s"]),
    units=(0.7429971445684742,) * 7,  # 8^(-1/7)
    moduli=(2,) * 7,
    weights=(1,) * 7,
    generators=(
        *((1, 0, 0, 0, 0, 1, 1), (0, 1, 0, 0, 1, 0, 1)),
        *((0, 0, 1, 0, 1, 1, 0), (0, 0, 0, 1, 1, 1, 1)),
    ),
    facet_norms=(3, 4),
)
D10P = BoxLattice(
    **vars(CELLS["d10p"]),
    units=(0.5,) * 10,
    moduli=(4,) * 10,
    weights=(1,) * 10,
    generators=(*(_pair_of(10, i, 2) for i in range(9)), (1,) * 9 + (3,)),
    facet_norms=(8, 10),
)
K12 = BoxLattice(
    **vars(CELLS["k12"]),
    units=(0.37991784282579627, 0.6580370064762462) * 6,  # (4096 27)^(-1/12), sqrt(3) times that
    moduli=(4,) * 12,
    weights=(1, 3) * 6,
    generators=_k12_generators(),
    facet_norms=(16, 24),
)

BOX_LATTICES = {
    "a2": A2,
    "d3s": D3S,
    "d4": D4,
    "d5s": D5S,
    "e6s": E6S,
    "e7s": E7S,
    "d10p": D10P,
    "k12": K12,
}


@functools.cache
def words(lattice: BoxLattice) -> NDArray[np.int8]:
    """Residues of all lattice points, sorted: the group that the generators span. Read-only."""
    moduli = np.array(lattice.moduli)
    found = np.zeros((1, lattice.block), dtype=np.int64)
    for generator in np.array(lattice.generators):
        order = math.lcm(*(m // math.gcd(m, g) for m, g in zip(moduli, generator, strict=True)))
        multiples = np.arange(order)[:, None] * generator
        sums = (found[:, None] + multiples) % moduli
        found = np.unique(sums.reshape(-1, lattice.block), axis=0)
    result = found.astype(np.int8)
    result.flags.writeable = False
    return result


@functools.cache
def _common_places(lattice: BoxLattice) -> NDArray[np.int64]:
    """How many first places each word has in common with the one before it."""
    rows = words(lattice)
    common = np.zeros(len(rows), dtype=np.int64)
    common[1:] = (rows[1:] != rows[:-1]).argmax(axis=1)
    return common


def nearest_codes(lattice: BoxLattice, scaled: Matrix) -> Codes:
    """Integer coordinates of the nearest lattice points.

    Points are in units of the integer coordinates: divided by ``units``.

    Examples
    --------
    >>> nearest_codes(D4, np.array([[0.9, 0.2, -0.1, 0.4]]))
    array([[1, 0, 0, 1]])
    """
    moduli, weights = np.array(lattice.moduli), np.array(lattice.weights)
    points = np.ascontiguousarray(scaled)
    return nearest_in_boxes(points, moduli, weights, words(lattice), _common_places(lattice))


@functools.cache
def facet_vectors(lattice: BoxLattice) -> NDArray[np.int8]:
    """Integer coordinates of the vectors whose facets bound the cell. Read-only.

    The lattice vectors of the squared lengths `facet_norms`, all of them and no others: a vector
    has a facet when it and its negative are the only shortest ones of its class modulo twice the
    lattice [CS99, Ch. 21].
    """
    vectors = np.concatenate([_vectors_of_norm(lattice, norm) for norm in lattice.facet_norms])
    vectors.flags.writeable = False
    return vectors


def _vectors_of_norm(lattice: BoxLattice, norm: int) -> NDArray[np.int8]:
    """All lattice vectors of this squared length, in integer coordinates.

    Coordinate by coordinate: what is too long, or begins like no word, is not continued.
    """
    n, moduli = lattice.block, lattice.moduli
    places = np.concatenate([[1], np.cumprod(moduli[:-1], dtype=np.int64)])
    allowed = words(lattice).astype(np.int64) * places
    vectors = np.zeros((1, n), dtype=np.int8)
    norms = np.zeros(1, dtype=np.int64)
    residues = np.zeros(1, dtype=np.int64)  # those so far, as one number
    for i in range(n):
        largest = math.isqrt(norm // lattice.weights[i])
        values = np.arange(-largest, largest + 1)
        longer = norms[:, None] + lattice.weights[i] * values**2
        begun = residues[:, None] + places[i] * (values % moduli[i])
        kept = (longer <= norm) & np.isin(begun, allowed[:, : i + 1].sum(axis=1))
        parents, chosen = np.nonzero(kept)
        vectors = vectors[parents]
        vectors[:, i] = values[chosen]
        norms, residues = longer[kept], begun[kept]
    return vectors[norms == norm]


@functools.cache
def facets(lattice: BoxLattice) -> tuple[Vector, Matrix]:
    """Distances of the facets from the centre of the cell, and their outer unit normals."""
    vectors = facet_vectors(lattice) * np.array(lattice.units)
    lengths = np.sqrt((vectors**2).sum(axis=1))
    heights, normals = lengths / 2, vectors / lengths[:, None]
    heights.flags.writeable = normals.flags.writeable = False
    return heights, normals
