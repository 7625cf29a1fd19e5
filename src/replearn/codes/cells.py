"""What each rounding does to a point: its cells, and their constants.

Every rounding shifts its cells by a shared uniform offset. So the error ``decoded - point`` has
mean zero and a law that does not depend on the point (dithering).

======= =================================== ============= ==============================
name    cell                                error         chance that points at distance
                                            variance      D (isotropic) get other codes,
                                            / width^2     times width / (D sqrt(k))
======= =================================== ============= ==============================
ak      AKround of [KKLVZ24, Sec. 2]        1/6           0.798
centre  cube, decoded to its centre         1/12          0.798
e8      Voronoi cell of E8, blocks of 8     0.0717        0.564
leech   of the Leech lattice, blocks of 24  0.0658        0.399
======= =================================== ============= ==============================

``width`` is the side of the cube of the same volume. A rounder cell has less surface at the same
error, so fewer points lie near a wall [HIKLY24]. Names joined by "+" come in order: each part
takes as many whole blocks of the coordinates as it can, and the last one also takes what remains,
padded with zeros. So "e8+centre" rounds 17 coordinates in two blocks of 8 and one interval.
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from replearn.codes.lattices import near_walls
from replearn.errors import ReplearnError, short
from replearn.types import Matrix, Vector


@dataclass(frozen=True)
class Cell:
    """The cell of a rounding, scaled to unit volume.

    Attributes
    ----------
    block : int
        Dimension n: how many coordinates are rounded together.
    second_moment : float
        Mean squared rounding error per coordinate.
    surface : float
        Of the cell; for Leech an upper bound.

    Notes
    -----
    *Second moment.* The error is uniform on the cell: 1/12 for the cube, 929/12960 for E8 [CS82],
    0.065753 for Leech, measured with a standard error of 0.0000015; [CS99] quotes 0.065771.
    AKround's error is a sum of two uniforms.

    *Surface.* The cell is a union of pyramids over its facets, so ``1 = sum(area * height) / n``.
    E8's facets all have height ``sqrt(2)/2``, so its surface is ``8 sqrt(2)``. Leech's have height
    1, or 1.22 for 0.3% of them, so its surface is at most 24. The cube has ``2 n``.

    *Flips.* Points that differ by ``delta`` get other codes with probability at most half the
    integral of ``|<normal, delta>|`` over the surface, with equality for small ``delta``. For
    ``delta`` of random direction that is ``surface / 2 * E|u_1| * E|delta|``. In the worst
    direction it is ``surface / 2 / sqrt(n) * |delta|``: the symmetry group acts irreducibly, so the
    integral of ``normal normal^T`` is a multiple of the identity (Cauchy-Schwarz).

    Tested in tests/theory/test_rounding.py.
    """

    block: int
    second_moment: float
    surface: float

    @property
    def worst_flips(self) -> float:
        """P[codes differ] per unit of |delta|, at most, in any direction."""
        return self.surface / 2 / math.sqrt(self.block)


CELLS: dict[str, Cell] = {
    "ak": Cell(1, 1 / 6, 2.0),
    "centre": Cell(1, 1 / 12, 2.0),
    "e8": Cell(8, 929 / 12960, 8 * math.sqrt(2)),
    "leech": Cell(24, 0.065753, 24.0),
}

#: Roundings whose error is proved sub-Gaussian with its second moment as variance proxy.
CUBES = ("ak", "centre")


@dataclass(frozen=True)
class Run:
    """A stretch of coordinates that one kind of cell rounds; codes are padded to whole blocks."""

    name: str
    cell: Cell
    start: int
    stop: int  # of the codes
    n_components: int

    @property
    def n_blocks(self) -> int:
        """Number of blocks, the padded one included."""
        return (self.stop - self.start) // self.cell.block

    @property
    def crossings(self) -> float:
        """Half of the surface of all blocks, as far as displacements can cross it.

        A block of which ``rest`` coordinates are in use counts ``sqrt(rest / n)``: that bounds the
        mean length of the part of the normals that lies in them (Cauchy-Schwarz).
        """
        n_full, rest = divmod(self.n_components, self.cell.block)
        return self.cell.surface / 2 * (n_full + math.sqrt(rest / self.cell.block))


def check_rounding(name: object) -> None:
    """Refuse what names no rounding: known parts, larger blocks first, "ak" only alone."""
    parts = [""]
    if isinstance(name, str):
        parts = name.split("+")

    sizes = [CELLS[part].block for part in parts if part in CELLS]
    larger_first = all(size > after for size, after in itertools.pairwise(sizes))
    if len(sizes) < len(parts) or not larger_first or ("ak" in parts and len(parts) > 1):
        raise ReplearnError(
            f"rounding must be one of {', '.join(CELLS)}, or some of the last three joined by +, "
            f"largest first, got {short(name)}. Leave it out for the planned one."
        )


@functools.lru_cache(maxsize=4096)
def runs(rounding: str, n_components: int) -> tuple[Run, ...]:
    """Who rounds which coordinates; parts of the name that get none are left out.

    Examples
    --------
    >>> [(run.name, run.start, run.stop, run.n_components) for run in runs("e8+centre", 17)]
    [('e8', 0, 16, 16), ('centre', 16, 17, 1)]
    >>> [(run.name, run.start, run.stop, run.n_components) for run in runs("e8", 17)]
    [('e8', 0, 24, 17)]
    """
    stretches, start = [], 0
    *leading, last = rounding.split("+")

    # all parts but the last take full blocks
    for name in leading:
        cell = CELLS[name]
        size = (n_components - start) // cell.block * cell.block
        if size:
            stretches.append(Run(name, cell, start, start + size, size))
            start += size

    # the last one takes what remains, padded
    rest = n_components - start
    if rest:
        cell = CELLS[last]
        stop = start + -(-rest // cell.block) * cell.block
        stretches.append(Run(last, cell, start, stop, rest))
    return tuple(stretches)


def second_moment(rounding: str, n_components: int) -> float:
    """Mean squared rounding error of a coordinate, in squared widths."""
    parts = runs(rounding, n_components)
    return sum(run.n_components * run.cell.second_moment for run in parts) / n_components


def isotropic_flips(rounding: str, n_components: int) -> float:
    """P[other codes] per (root mean squared distance / width), for normal differences.

    Coordinates of variance ``v`` cross walls at the rate ``sqrt(2 v / pi)`` per half surface.
    """
    crossings = sum(run.crossings for run in runs(rounding, n_components))
    return math.sqrt(2 / math.pi) * crossings / math.sqrt(n_components)


def proved_flips(projection: str, rounding: str, n_components: int) -> float:
    """P[other codes] per (distance / width), at most, as a mean over seeds, for all differences.

    * Gaussian and Haar maps: ``E|<normal, D>|`` is ``sqrt(2/pi) |z - z'| / L`` times the length of
      the normal's part in the coordinates in use, with ``L = sqrt(k)`` for independent entries and
      the mean length of a normal vector for a rotation.
    * Hadamard: each component has mean square ``|z - z'|^2 / k``, so a block's mean length is at
      most ``sqrt(n/k) |z - z'|``; its direction may be the worst.
    * None: blocks add up, and by Cauchy-Schwarz a difference is worst when its part in each block
      is proportional to the block's own constant.
    """
    k, parts = n_components, runs(rounding, n_components)

    if projection in ("gaussian", "rotation"):
        size = math.sqrt(k)
        if projection == "rotation":
            size = math.sqrt(2) * math.exp(math.lgamma((k + 1) / 2) - math.lgamma(k / 2))
        return math.sqrt(2 / math.pi) / size * sum(run.crossings for run in parts)

    if projection == "hadamard":
        flips = []
        for run in parts:
            n_full, rest = divmod(run.n_components, run.cell.block)
            mean_lengths = n_full * math.sqrt(run.cell.block / k) + math.sqrt(rest / k)
            flips.append(run.cell.worst_flips * mean_lengths)
        return sum(flips)

    return math.hypot(*(run.cell.worst_flips * math.sqrt(run.n_blocks) for run in parts))


# --- walls, for estimates: no code depends on them ----------------------------------------------

_REACH = 6.0  # walls further away than this many standard deviations are left out
_MAX_WALLS = 1000  # of a block: the nearest, in standard deviations, take nearly all crossings


def walls(rounding: str, place: Vector, spread: Matrix) -> tuple[Vector, Matrix]:
    """Distances to the near walls of a cell, and how a displacement moves across each of them.

    ``place`` is a point measured from the centre of its cell, in widths, padded. Standard normal
    combinations of the rows of ``spread`` have the law of the displacement; so have those of the
    second result, with a column for each wall.
    """
    padded = np.zeros((len(spread), place.size))
    padded[:, : spread.shape[1]] = spread

    distances, displacements = [], []
    for run in runs(rounding, spread.shape[1]):
        size = run.cell.block
        if size == 1:  # intervals need no loop
            size = run.stop - run.start
        for start in range(run.start, run.stop, size):
            own = slice(start, start + size)
            slacks, moves = _block_walls(run.name, place[own], padded[:, own])
            distances.append(slacks)
            displacements.append(moves)
    return np.concatenate(distances), np.concatenate(displacements, axis=1)


def _block_walls(name: str, place: Vector, spread: Matrix) -> tuple[Vector, Matrix]:
    """Near walls of one lattice cell, or of a row of intervals."""
    if CELLS[name].block == 1:
        slacks = np.concatenate([0.5 - place, 0.5 + place])
        moves = np.concatenate([spread, -spread], axis=1)
    else:
        largest = math.sqrt(float(np.linalg.norm(spread.T @ spread, 2)))
        slacks, normals = near_walls(name, place, _REACH * largest)
        moves = spread @ normals.T

    # the nearest ones, in standard deviations of the displacement across each
    ratios = slacks / np.maximum(np.sqrt((moves**2).sum(axis=0)), 1e-300)
    kept = np.flatnonzero(ratios < _REACH)
    if kept.size > _MAX_WALLS:
        kept = kept[np.argpartition(ratios[kept], _MAX_WALLS)[:_MAX_WALLS]]
    return slacks[kept], moves[:, kept]
