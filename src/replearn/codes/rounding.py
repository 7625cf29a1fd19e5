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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.codes.box_lattices import BOX_LATTICES, BoxLattice, nearest_codes
from replearn.codes.cells import Run, padded_size, runs
from replearn.codes.lattices import E8, LEECH, Lattice
from replearn.codes.randomness import SharedRandomness
from replearn.kernels.lattices import nearest_e8, nearest_leech
from replearn.types import Codes, Matrix, Vector

#: The shared coins, as far as a rounding reads them: ``n`` uniforms on [0, 1) of a named stream.
Draw = Callable[[str, int], Vector]


@dataclass(frozen=True)
class Rounding:
    """One way to round points whose cells have unit volume.

    ``to_codes(point, draw)`` gives codes, ``to_point(codes, draw)`` the point that stands for
    them, and ``to_centre`` the centre of the cell: of all points that get these codes.
    """

    to_codes: Callable[[Vector, Draw], Codes]
    to_point: Callable[[Codes, Draw], Vector]
    to_centre: Callable[[Codes, Draw], Vector]


def round_codes(point: Vector, grid_width: float, rounding: str, shared: SharedRandomness) -> Codes:
    """Round a point to integer codes that nearby points share.

    ``grid_width`` is the side of a grid cell, or of the cube with the volume of a lattice cell;
    ``rounding`` a name of the table above, or several, joined by "+". There are as many codes as
    coordinates, padded to whole blocks for the lattices. Reads the streams "rounding/..." and no
    other.

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
    cells = _in_cells(point, grid_width, rounding)
    return np.asarray(_each_run("to_codes", cells, point.size, rounding, shared))


def unround(
    codes: Codes, n_components: int, grid_width: float, rounding: str, shared: SharedRandomness
) -> Vector:
    """Give back the point that stands for the codes."""
    point = _each_run("to_point", codes, n_components, rounding, shared)
    return np.asarray(point[:n_components] * grid_width)


def residual(
    point: Vector, codes: Codes, grid_width: float, rounding: str, shared: SharedRandomness
) -> Vector:
    """Place of a point in its cell: measured from the centre, in grid widths, padded."""
    centre = _each_run("to_centre", codes, point.size, rounding, shared)
    return np.asarray(_in_cells(point, grid_width, rounding) - centre)


def _in_cells(point: Vector, grid_width: float, rounding: str) -> Vector:
    padded = np.zeros(padded_size(point.size, rounding))
    padded[: point.size] = point / grid_width
    return padded


def _each_run(
    convert: str, values: Any, n_components: int, rounding: str, shared: SharedRandomness
) -> Any:
    """Convert each run of coordinates by its own rounding; a code has the coins of its place."""

    def converted(run: Run) -> Any:
        def draw(stream: str, n: int) -> Vector:
            return shared.uniforms(stream, run.start + n)[run.start :]

        return getattr(ROUNDINGS[run.name], convert)(values[run.start : run.stop], draw)

    return np.concatenate([converted(run) for run in runs(rounding, n_components)])


def _offsets(size: int, draw: Draw) -> Vector:
    return draw("rounding/offset", size)


def _ak_codes(point: Vector, draw: Draw) -> Codes:
    above_corner = point - _offsets(point.size, draw)
    corner = np.floor(above_corner)
    share_of_corner = 1.0 - (above_corner - corner)  # the paper's p(z)
    thresholds = draw("rounding/threshold", point.size)
    return (corner + (thresholds > share_of_corner)).astype(np.int64)


def _ak_point(codes: Codes, draw: Draw) -> Vector:
    return codes + _offsets(codes.size, draw)


def _ak_centre(codes: Codes, draw: Draw) -> Vector:
    # code c stands for the points from c - u to c + 1 - u above the offset, u the threshold
    thresholds = draw("rounding/threshold", codes.size)
    return _ak_point(codes, draw) + (0.5 - thresholds)


def _centre_codes(point: Vector, draw: Draw) -> Codes:
    return np.floor(point - _offsets(point.size, draw)).astype(np.int64)


def _centre_point(codes: Codes, draw: Draw) -> Vector:
    return codes + (_offsets(codes.size, draw) + 0.5)


def _cubes(lattice: Lattice, nearest: Callable[[Matrix], Codes]) -> Rounding:
    """Rounding to E8 or Leech; the shift is uniform on a cube."""

    def shift(size: int, draw: Draw) -> Vector:
        return _offsets(size, draw) * lattice.dither_side

    def to_codes(point: Vector, draw: Draw) -> Codes:
        shifted = point - shift(point.size, draw)
        return nearest(shifted.reshape(-1, lattice.block)).ravel()

    def to_point(codes: Codes, draw: Draw) -> Vector:
        return codes * lattice.unit + shift(codes.size, draw)

    return Rounding(to_codes, to_point, to_point)


def _boxes(lattice: BoxLattice) -> Rounding:
    """Rounding to a lattice made of boxes; the shift is uniform on a box."""
    units = np.array(lattice.units)
    moduli = np.array(lattice.moduli, dtype=np.float64)

    def shift(size: int, draw: Draw) -> Vector:
        return _offsets(size, draw).reshape(-1, lattice.block) * moduli

    def to_codes(point: Vector, draw: Draw) -> Codes:
        scaled = point.reshape(-1, lattice.block) / units
        return nearest_codes(lattice, scaled - shift(point.size, draw)).ravel()

    def to_point(codes: Codes, draw: Draw) -> Vector:
        shifted = codes.reshape(-1, lattice.block) + shift(codes.size, draw)
        return np.ravel(shifted * units)

    return Rounding(to_codes, to_point, to_point)


ROUNDINGS: dict[str, Rounding] = {
    "ak": Rounding(_ak_codes, _ak_point, _ak_centre),
    "centre": Rounding(_centre_codes, _centre_point, _centre_point),
    "e8": _cubes(E8, nearest_e8),
    "leech": _cubes(LEECH, nearest_leech),
    **{name: _boxes(lattice) for name, lattice in BOX_LATTICES.items()},
}
