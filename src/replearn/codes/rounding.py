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
a2      hexagon, blocks of 2                .0802         .743
d3s     truncated octahedron, blocks of 3   .0785         .707
d4      24-cell, blocks of 4                .0766         .671
d5s     Voronoi cell of D5*, blocks of 5    .0756         .651
e6s     of E6*, blocks of 6                 .0742         .621
e7s     of E7*, blocks of 7                 .0731         .598
e8      of E8, blocks of 8                  .0717         .564
d10p    of D10+, blocks of 10               .0708         .537
k12     of K12, blocks of 12                .0701         .519
leech   of the Leech lattice, blocks of 24  .0658         .399
======= =================================== ============= ==============================

``width`` is the side of the cube of the same volume. The lattice cells are rounder than a cube,
so at equal error fewer points lie near a wall [HIKLY24]. Names joined by "+" mix them
(`replearn.codes.cells`).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from replearn.codes.box_lattices import BOX_LATTICES, BoxLattice, nearest_codes
from replearn.codes.cells import Run, padded_size, runs
from replearn.codes.lattices import E8, LEECH
from replearn.codes.randomness import SharedRandomness
from replearn.kernels.lattices import E8_BLOCK, LEECH_BLOCK, nearest_e8, nearest_leech
from replearn.types import Codes, Vector


class Uniforms(Protocol):
    """The shared coins, as far as a rounding reads them."""

    def uniforms(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` uniforms on ``[0, 1)`` of a named stream."""


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

    to_codes: Callable[[Vector, Uniforms], Codes]
    to_point: Callable[[Codes, Uniforms], Vector]
    to_centre: Callable[[Codes, Uniforms], Vector]
    block: int = 1


def round_codes(point: Vector, grid_width: float, rounding: str, shared: SharedRandomness) -> Codes:
    """Round a point to integer codes that nearby points share.

    Parameters
    ----------
    point : array of shape (n_components,)
    grid_width : float
        Side of a grid cell, or of the cube with the volume of a lattice cell. Positive.
    rounding : str
        A name of the table above, or several, joined by "+".
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
    return rounding_named(rounding, point.size).to_codes(
        _in_cells(point, grid_width, rounding), shared
    )


def unround(
    codes: Codes, n_components: int, grid_width: float, rounding: str, shared: SharedRandomness
) -> Vector:
    """Give back the point that stands for the codes."""
    point = rounding_named(rounding, n_components).to_point(codes, shared)
    return point[:n_components] * grid_width


def residual(
    point: Vector, codes: Codes, grid_width: float, rounding: str, shared: SharedRandomness
) -> Vector:
    """Place of a point in its cell: measured from the centre, in grid widths, padded."""
    centre = rounding_named(rounding, point.size).to_centre(codes, shared)
    return _in_cells(point, grid_width, rounding) - centre


def _in_cells(point: Vector, grid_width: float, rounding: str) -> Vector:
    padded = np.zeros(padded_size(point.size, rounding))
    padded[: point.size] = point / grid_width
    return padded


def _offsets(size: int, shared: Uniforms) -> Vector:
    return shared.uniforms("rounding/offset", size)


def _ak_codes(point: Vector, shared: Uniforms) -> Codes:
    above_corner = point - _offsets(point.size, shared)
    corner = np.floor(above_corner)
    share_of_corner = 1.0 - (above_corner - corner)  # the paper's p(z)
    thresholds = shared.uniforms("rounding/threshold", point.size)
    return (corner + (thresholds > share_of_corner)).astype(np.int64)


def _ak_point(codes: Codes, shared: Uniforms) -> Vector:
    return codes + _offsets(codes.size, shared)


def _ak_centre(codes: Codes, shared: Uniforms) -> Vector:
    # code c stands for the points from c - u to c + 1 - u above the offset, u the threshold
    thresholds = shared.uniforms("rounding/threshold", codes.size)
    return _ak_point(codes, shared) + (0.5 - thresholds)


def _centre_codes(point: Vector, shared: Uniforms) -> Codes:
    return np.floor(point - _offsets(point.size, shared)).astype(np.int64)


def _centre_point(codes: Codes, shared: Uniforms) -> Vector:
    return codes + (_offsets(codes.size, shared) + 0.5)


def _e8_codes(point: Vector, shared: Uniforms) -> Codes:
    shifted = point - _dither(point.size, E8.dither_side, shared)
    return nearest_e8(shifted.reshape(-1, E8_BLOCK)).ravel()


def _e8_point(codes: Codes, shared: Uniforms) -> Vector:
    return codes * E8.unit + _dither(codes.size, E8.dither_side, shared)


def _leech_codes(point: Vector, shared: Uniforms) -> Codes:
    shifted = point - _dither(point.size, LEECH.dither_side, shared)
    return nearest_leech(shifted.reshape(-1, LEECH_BLOCK)).ravel()


def _leech_point(codes: Codes, shared: Uniforms) -> Vector:
    return codes * LEECH.unit + _dither(codes.size, LEECH.dither_side, shared)


def _dither(size: int, side: float, shared: Uniforms) -> Vector:
    # A cube of this side is a whole number of fundamental cells, so a point uniform on
    # it is uniform modulo the lattice.
    return shared.uniforms("rounding/offset", size) * side


def _boxes(lattice: BoxLattice) -> Rounding:
    """Rounding to a lattice made of boxes; the shift is uniform on a box."""
    units = np.array(lattice.units)
    moduli = np.array(lattice.moduli, dtype=np.float64)

    def shift(size: int, shared: Uniforms) -> Vector:
        return _offsets(size, shared).reshape(-1, lattice.block) * moduli

    def to_codes(point: Vector, shared: Uniforms) -> Codes:
        scaled = point.reshape(-1, lattice.block) / units
        return nearest_codes(lattice, scaled - shift(point.size, shared)).ravel()

    def to_point(codes: Codes, shared: Uniforms) -> Vector:
        shifted = codes.reshape(-1, lattice.block) + shift(codes.size, shared)
        return np.ravel(shifted * units)

    return Rounding(to_codes, to_point, to_point, lattice.block)


ROUNDINGS: dict[str, Rounding] = {
    "ak": Rounding(_ak_codes, _ak_point, _ak_centre),
    "centre": Rounding(_centre_codes, _centre_point, _centre_point),
    "e8": Rounding(_e8_codes, _e8_point, _e8_point, block=8),
    "leech": Rounding(_leech_codes, _leech_point, _leech_point, block=24),
    **{name: _boxes(lattice) for name, lattice in BOX_LATTICES.items()},
}


# --- several kinds of cells -----------------------------------------------------------------


@dataclass(frozen=True)
class _From:
    """The coins from some place on."""

    shared: Uniforms
    start: int

    def uniforms(self, stream: str, n: int, row: int = 0) -> Vector:
        return self.shared.uniforms(stream, self.start + n, row)[self.start :]


@functools.lru_cache(maxsize=64)
def rounding_named(name: str, n_components: int) -> Rounding:
    """The rounding of a name, which may join several, for a number of components.

    Examples
    --------
    >>> mixed = rounding_named("d4+centre", 5)
    >>> mixed.to_codes(np.array([0.1, -1.2, 0.3, 2.2, 0.4]), SharedRandomness(7))
    array([-2, -3, -1,  2,  0])
    """
    return _mixed(runs(name, n_components)) if "+" in name else ROUNDINGS[name]


def _mixed(parts: tuple[Run, ...]) -> Rounding:
    """Each run of coordinates by its own rounding; the coins of a code are those of its place."""

    def to_codes(point: Vector, shared: Uniforms) -> Codes:
        return np.concatenate(
            [
                ROUNDINGS[run.name].to_codes(point[run.start : run.stop], _From(shared, run.start))
                for run in parts
            ]
        )

    def to_point(codes: Codes, shared: Uniforms) -> Vector:
        return np.concatenate(
            [
                ROUNDINGS[run.name].to_point(codes[run.start : run.stop], _From(shared, run.start))
                for run in parts
            ]
        )

    return Rounding(to_codes, to_point, to_point)
