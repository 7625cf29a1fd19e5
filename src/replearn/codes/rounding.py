"""Rounding a point to integer codes that nearby points share, and back.

Every rounding shifts its grid by a shared uniform offset, so the error ``unround(codes) - point``
has mean zero and a law that does not depend on the point (dithering).

======= =================================== ============= ==============================
name    cell                                error         chance that points at distance
                                            variance      D (isotropic) get other codes,
                                            / width^2     times width / (D sqrt(k))
======= =================================== ============= ==============================
ak      AKround of [KKLVZ24, Sec. 2]        1/6           .798
centre  cube, rounded to its centre         1/12          .798
e8      Voronoi cell of E8, blocks of 8     .0717         .582
leech   Voronoi cell of the Leech lattice,  .0658         .395
        blocks of 24
======= =================================== ============= ==============================

``width`` is the side of the cube of the same volume. The lattice cells are rounder than a cube,
so at equal error fewer points lie near a wall [HIKLY24].
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replearn.codes.lattices import E8, LEECH
from replearn.codes.randomness import SharedRandomness
from replearn.kernels.lattices import E8_BLOCK, LEECH_BLOCK, nearest_e8, nearest_leech
from replearn.types import Codes, Vector


@dataclass(frozen=True)
class Rounding:
    """One way to round points whose cells have unit volume.

    Attributes
    ----------
    to_codes : (point, shared) -> codes
    to_point : (codes, shared) -> point
        The point that stands for the codes.
    to_centre : (codes, shared) -> point
        Centre of the cell: of all points that get these codes.
    block : int
        Coordinates are rounded in blocks of this many; a point is padded with zeros.
    """

    to_codes: Callable[[Vector, SharedRandomness], Codes]
    to_point: Callable[[Codes, SharedRandomness], Vector]
    to_centre: Callable[[Codes, SharedRandomness], Vector]
    block: int = 1


def round_codes(point: Vector, grid_width: float, rounding: str, shared: SharedRandomness) -> Codes:
    """Round a point to integer codes that nearby points share.

    Parameters
    ----------
    point : array of shape (n_components,)
    grid_width : float
        Side of a grid cell, or of the cube with the volume of a lattice cell. Positive.
    rounding : {"ak", "centre", "e8", "leech"}
    shared : SharedRandomness
        Reads the streams "rounding/..." and no other.

    Returns
    -------
    codes : int64 array
        As long as ``point``, padded to whole blocks for the lattices.

    Notes
    -----
    Unbiased, with an error that does not depend on the point. Two points whose l1 distance
    is D get different "ak" or "centre" codes with probability at most ``D / grid_width``,
    coordinate by coordinate exactly ``min(1, |D_i| / grid_width)``; Lemma 2.1 of [KKLVZ24]
    allows twice that. Tested in tests/theory/test_rounding.py and test_lattices.py.

    Examples
    --------
    >>> round_codes(np.array([0.26, -0.27, 1.3]), 0.5, "centre", SharedRandomness(7))
    array([-1, -2,  1])
    """
    return ROUNDINGS[rounding].to_codes(_in_cells(point, grid_width, rounding), shared)


def unround(
    codes: Codes, n_components: int, grid_width: float, rounding: str, shared: SharedRandomness
) -> Vector:
    """Give back the point that stands for the codes."""
    return ROUNDINGS[rounding].to_point(codes, shared)[:n_components] * grid_width


def residual(
    point: Vector, codes: Codes, grid_width: float, rounding: str, shared: SharedRandomness
) -> Vector:
    """Place of a point in its cell: measured from the centre, in grid widths, padded."""
    return _in_cells(point, grid_width, rounding) - ROUNDINGS[rounding].to_centre(codes, shared)


def _in_cells(point: Vector, grid_width: float, rounding: str) -> Vector:
    padded = np.zeros(padded_size(point.size, rounding))
    padded[: point.size] = point / grid_width
    return padded


def padded_size(n_components: int, rounding: str) -> int:
    """Number of codes of a point with ``n_components`` coordinates."""
    block = ROUNDINGS[rounding].block
    return -(-n_components // block) * block


def _offsets(size: int, shared: SharedRandomness) -> Vector:
    return shared.uniforms("rounding/offset", size)


def _ak_codes(point: Vector, shared: SharedRandomness) -> Codes:
    above_corner = point - _offsets(point.size, shared)
    corner = np.floor(above_corner)
    share_of_corner = 1.0 - (above_corner - corner)  # the paper's p(z)
    thresholds = shared.uniforms("rounding/threshold", point.size)
    return (corner + (thresholds > share_of_corner)).astype(np.int64)


def _ak_point(codes: Codes, shared: SharedRandomness) -> Vector:
    return codes + _offsets(codes.size, shared)


def _ak_centre(codes: Codes, shared: SharedRandomness) -> Vector:
    # code c stands for the points from c - u to c + 1 - u above the offset, u the threshold
    thresholds = shared.uniforms("rounding/threshold", codes.size)
    return _ak_point(codes, shared) + (0.5 - thresholds)


def _centre_codes(point: Vector, shared: SharedRandomness) -> Codes:
    return np.floor(point - _offsets(point.size, shared)).astype(np.int64)


def _centre_point(codes: Codes, shared: SharedRandomness) -> Vector:
    return codes + (_offsets(codes.size, shared) + 0.5)


def _e8_codes(point: Vector, shared: SharedRandomness) -> Codes:
    shifted = point - _dither(point.size, E8.dither_side, shared)
    return nearest_e8(shifted.reshape(-1, E8_BLOCK)).ravel()


def _e8_point(codes: Codes, shared: SharedRandomness) -> Vector:
    return codes * E8.unit + _dither(codes.size, E8.dither_side, shared)


def _leech_codes(point: Vector, shared: SharedRandomness) -> Codes:
    shifted = point - _dither(point.size, LEECH.dither_side, shared)
    return nearest_leech(shifted.reshape(-1, LEECH_BLOCK)).ravel()


def _leech_point(codes: Codes, shared: SharedRandomness) -> Vector:
    return codes * LEECH.unit + _dither(codes.size, LEECH.dither_side, shared)


def _dither(size: int, side: float, shared: SharedRandomness) -> Vector:
    # A cube of this side is a whole number of fundamental cells, so a point uniform on
    # it is uniform modulo the lattice.
    return shared.uniforms("rounding/offset", size) * side


ROUNDINGS: dict[str, Rounding] = {
    "ak": Rounding(_ak_codes, _ak_point, _ak_centre),
    "centre": Rounding(_centre_codes, _centre_point, _centre_point),
    "e8": Rounding(_e8_codes, _e8_point, _e8_point, block=8),
    "leech": Rounding(_leech_codes, _leech_point, _leech_point, block=24),
}
