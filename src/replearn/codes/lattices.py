"""The lattices of the roundings "e8" and "leech": constants, points, and facets of their cells.

The nearest points are found by `replearn.kernels.lattices`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from replearn.codes.cells import CELLS, Cell
from replearn.kernels.lattices import GOLAY_BYTES, SQRT8, SQRT_EIGHTH, inner_products
from replearn.types import Matrix, Vector


@dataclass(frozen=True)
class Lattice(Cell):
    """A unit-volume lattice whose Voronoi cell is the cell of a rounding.

    Attributes
    ----------
    unit : float
        A lattice point is ``codes * unit``.
    dither_side : float
        Side of the cube from which the shared shift is drawn uniformly. It is the length of
        lattice vectors along the axes (``4 e_i / 2``, ``8 e_i / sqrt(8)``), so the
        cube is a whole number of fundamental cells and the shift is uniform modulo the lattice.
    minimal_norm : float
        Length of the shortest vectors.
    """

    unit: float
    dither_side: float
    minimal_norm: float


E8 = Lattice(**vars(CELLS["e8"]), unit=0.5, dither_side=2.0, minimal_norm=math.sqrt(2.0))
LEECH = Lattice(**vars(CELLS["leech"]), unit=SQRT_EIGHTH, dither_side=SQRT8, minimal_norm=2.0)


def _signed_pairs(n: int, size: int) -> NDArray[np.int8]:
    """All vectors with two entries +-size and zeros elsewhere."""
    first, second = np.triu_indices(n, k=1)
    rows = np.arange(first.size)
    vectors = np.zeros((4, first.size, n), dtype=np.int8)
    for signs in range(4):
        vectors[signs, rows, first] = size if signs & 1 else -size
        vectors[signs, rows, second] = size if signs & 2 else -size
    return vectors.reshape(-1, n)


def _even_signs(n: int) -> NDArray[np.int8]:
    """All +-1 vectors with an even number of minus signs."""
    bits = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    return (1 - 2 * bits[bits.sum(axis=1) % 2 == 0]).astype(np.int8)


@functools.cache
def golay_words() -> NDArray[np.int8]:
    """The 4096 words of the extended Golay code as rows of 24 bits. Made once."""
    x, a, b = np.indices((16, 16, 16)).reshape(3, -1)
    octets = np.stack([GOLAY_BYTES[x, a], GOLAY_BYTES[x, b], GOLAY_BYTES[x, a ^ b]], axis=1)
    return np.unpackbits(octets, axis=1, bitorder="little").astype(np.int8)


@functools.cache
def minimal_vectors(lattice: Lattice) -> NDArray[np.int8]:
    """All shortest nonzero vectors, as integer coordinates. Made once; read-only.

    Their shape is (240, 8) or (196560, 24).

    Notes
    -----
    E8: two entries +-2, or eight +-1 with an even number of minus signs. Leech: two entries +-4;
    +-2 on a Golay word of weight 8 with an even number of minus signs; -1 on a Golay word and 1
    elsewhere, with one entry moved by 4 to the other side of 0 [CS99, Ch. 4].
    """
    if lattice == E8:
        vectors = np.concatenate([_signed_pairs(8, 2), _even_signs(8)])
    else:
        words = golay_words()
        places = np.nonzero(words[words.sum(axis=1) == 8])[1].reshape(-1, 1, 8)
        eights = np.zeros((len(places), 128, 24), dtype=np.int8)
        np.put_along_axis(eights, places, 2 * _even_signs(8)[None], axis=2)
        ones = np.repeat(1 - 2 * words[:, None], 24, axis=1)
        ones[:, range(24), range(24)] *= -3
        parts = [_signed_pairs(24, 4), eights.reshape(-1, 24), ones.reshape(-1, 24)]
        vectors = np.concatenate(parts)
    vectors.flags.writeable = False
    return vectors


@functools.cache
def _columns(lattice: Lattice) -> NDArray[np.int8]:
    return np.ascontiguousarray(minimal_vectors(lattice).T)


def near_facets(residual: Vector, reach: float) -> tuple[Vector, Matrix]:
    """The facets of the Voronoi cell that are close to a point of it.

    ``residual`` is a point minus its nearest lattice point. Slacks are distances ``(|v|**2 / 2 -
    <residual, v>) / |v|`` to the facets' hyperplanes, normals ``v / |v|`` point outwards. Facets at
    the distance ``reach`` or further are left out; ``inf`` keeps all.

    Notes
    -----
    ``residual + step`` stays in the cell if ``normals @ step < slacks``, for steps shorter than
    ``reach``. For E8 this is exact. For Leech only the facets of the 196,560 minimal vectors
    are here; those of the 16,773,120 vectors of norm 6, with .3 % of the crossings, are
    not: good for an estimate, no proof.
    """
    lattice = E8 if residual.size == E8.block else LEECH
    to_unit = lattice.unit / lattice.minimal_norm
    slacks = lattice.minimal_norm / 2 - inner_products(_columns(lattice), residual * to_unit)
    near = np.flatnonzero(slacks < reach)
    return slacks[near], minimal_vectors(lattice)[near].astype(np.float64) * to_unit
