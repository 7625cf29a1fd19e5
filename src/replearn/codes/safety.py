"""How safe a point is in its cell: the distance to the nearest wall."""

from functools import cache

import numpy as np

from replearn.codes.box_lattices import BOX_LATTICES, facets
from replearn.codes.cells import runs
from replearn.codes.lattices import E8, LEECH, golay_words, minimal_vectors
from replearn.kernels.lattices import least_slack, leech_reach
from replearn.types import Matrix, Vector


def wall_distance(residual: Vector, rounding: str, n_components: int) -> float:
    """Distance from a point to the nearest wall of its cell, in grid widths.

    ``residual`` is the point, measured from the centre of its cell, padded to whole blocks.

    Notes
    -----
    The same bits everywhere: sums have a fixed order. Of the Leech lattice only the walls of the
    shortest vectors are looked at, which have 99.7 % of the crossings.

    Examples
    --------
    >>> wall_distance(np.array([0.1, -0.3]), "centre", 2)
    0.2
    """
    nearest = np.inf
    for run in runs(rounding, n_components):
        block = run.cell.block
        part = np.ascontiguousarray(residual[run.start : run.stop])
        if block == 1:
            nearest = min(nearest, 0.5 - float(np.abs(part).max()))
            continue
        for start in range(0, part.size, block):
            nearest = min(nearest, _in_block(run.name, part[start : start + block]))
    return float(nearest)


def _in_block(name: str, residual: Vector) -> float:
    if name == "leech":
        reach = leech_reach(residual, golay_words()) * (LEECH.unit / LEECH.minimal_norm)
        return float(LEECH.minimal_norm / 2 - reach)
    heights, normals = _e8_walls() if name == "e8" else facets(BOX_LATTICES[name])
    return float(least_slack(heights, normals, residual))


@cache
def _e8_walls() -> tuple[Vector, Matrix]:
    normals = minimal_vectors(E8).astype(np.float64) * (E8.unit / E8.minimal_norm)
    return np.full(len(normals), E8.minimal_norm / 2), normals
