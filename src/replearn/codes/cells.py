"""What each rounding does to a point: the constants, and where they come from.

A rounding is named by the cells that it uses, "e8" or "d10p+centre". The parts of a name come in
order: each takes as many whole blocks of the coordinates as it can, and the last one also takes
what remains, padded with zeros to a whole block. So "e8+centre" rounds 17 coordinates in two
blocks of 8 and one interval, and "e8" alone in three blocks of 8, the last with 7 zeros.
`best_blocks` says which name is best.
"""

import functools
import itertools
import math
from dataclasses import dataclass

#: Radius of the ball of unit volume in n dimensions, to four digits: part of the model file, so it
#: must not depend on a machine's gamma function.
_UNIT_BALLS = {
    1: 0.5, 2: 0.5642, 3: 0.6204, 4: 0.6709, 5: 0.7174, 6: 0.7605,
    7: 0.8011, 8: 0.8394, 10: 0.9106, 12: 0.9762, 24: 1.2975,
}  # fmt: skip


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
        Surface of the cell: exact, but measured for D10+ and K12, an upper bound for Leech.
    proxy_proved : bool
        The error is proved sub-Gaussian with ``second_moment`` as its variance proxy.

    Notes
    -----
    *Second moment.* Shifted uniformly, the error is uniform on the cell, whatever the point.
    The cube has 1/12 = .0833, E8 929/12960 exactly [CS82]. Leech: .065753, our measurement with a
    standard error of .0000015 (1.5e7 draws); the .065771 that [CS99, Table 2.3] quotes is .03 %
    more. The others are fractions, too. Draws with other constructions and other code
    (``benchmarks/cells.py --moments 2e7``) are within 1.7 standard errors of all of these, errors
    of .000003 to .000017; for Leech they give .065737 with an error of .000013.

    *Surface.* The cell is a union of pyramids over its facets with the centre as their apex, so
    ``1 = sum(area * height) / n``. E8's facets belong to its 240 minimal vectors, all at height
    ``sqrt(2)/2``: the surface is ``8 sqrt(2)`` exactly. Leech's belong to the minimal vectors
    (height 1) and to those of norm 6 (height 1.22), so the surface is at most 24. It is close to
    that, about 23.98, as 99.7 % of the crossings are over minimal vectors (measured). The cube
    has ``2 n``. The other cells have one or two kinds of facets. The share of the volume that is in
    the pyramids over each kind was found from the vertices of the cell (rational to ten digits),
    for D10+ and K12 from 3.2e6 draws: their surfaces have a standard error of .003 %.

    *Flips.* For points that differ by ``delta`` (in units of the lattice), P[codes differ] is at
    most ``integral over the surface of <normal, delta>_+``, which is half the integral of
    ``|<normal, delta>|``, and equals it in the limit of small ``delta``; for large ones cut the
    segment into short pieces, each of which has the same law, and add up. Averaged over
    directions this gives `isotropic_flips`. For the worst direction: the symmetry group acts
    irreducibly, so the integral of ``normal normal^T`` is ``surface / n`` times the identity, and
    Cauchy-Schwarz gives `worst_flips`.

    All of these are tested in tests/theory/test_lattices.py.
    """

    block: int
    second_moment: float
    surface: float
    proxy_proved: bool

    @property
    def radius(self) -> float:
        """Radius of the ball of the same volume: about how far the cell reaches from its centre."""
        return _UNIT_BALLS[self.block]

    @property
    def isotropic_flips(self) -> float:
        """P[codes differ] per unit of E|delta|, at most, for delta of random direction.

        ``surface / 2 * E|u_1|`` with u uniform on the sphere: 1 for an interval, 1.646 for E8,
        1.975 for Leech.
        """
        n = self.block
        mean_abs = math.exp(math.lgamma(n / 2) - math.lgamma((n + 1) / 2)) / math.sqrt(math.pi)
        return self.surface / 2 * mean_abs

    @property
    def worst_flips(self) -> float:
        """P[codes differ] per unit of |delta|, at most, in any direction.

        ``surface / 2 / sqrt(n)``: 1 for an interval, 2 for E8, 2.449 for Leech.
        """
        return self.surface / 2 / math.sqrt(self.block)


def _voronoi(block: int, second_moment: float, volume: float, shares: dict[int, float]) -> Cell:
    """A Voronoi cell, from the share of the volume over facets of vectors with each squared length.

    ``volume`` and squared lengths are those of the integer coordinates.
    """
    heights = {norm: math.sqrt(norm) / 2 / volume ** (1 / block) for norm in shares}
    surface = block * sum(share / heights[norm] for norm, share in shares.items())
    return Cell(block, second_moment, surface, proxy_proved=False)


_CUBE_ROOT_2 = 2 ** (1 / 3)

#: In the order of their dimension. Integer coordinates: `replearn.codes.box_lattices`.
CELLS: dict[str, Cell] = {
    # AKround flips like an interval of width 1; its error is the sum of two uniforms
    "ak": Cell(block=1, second_moment=1 / 6, surface=2.0, proxy_proved=True),
    "centre": Cell(block=1, second_moment=1 / 12, surface=2.0, proxy_proved=True),
    "a2": _voronoi(2, 5 / (36 * math.sqrt(3)), 2 * math.sqrt(3), {4: 1.0}),
    "d3s": _voronoi(3, 19 / (192 * _CUBE_ROOT_2), 4.0, {3: 3 / 4, 4: 1 / 4}),
    "d4": _voronoi(4, 13 / (120 * math.sqrt(2)), 2.0, {2: 1.0}),
    "d5s": _voronoi(5, 2641 / (23040 * 2**0.6), 16.0, {5: 115 / 192, 4: 77 / 192}),
    "e6s": _voronoi(
        6, 12619 * 3 ** (1 / 6) / 204120, 72 * math.sqrt(3), {8: 124 / 135, 12: 11 / 135}
    ),
    "e7s": _voronoi(7, 21361 * 2 ** (1 / 7) / 322560, 8.0, {3: 117 / 160, 4: 43 / 160}),
    "e8": Cell(block=8, second_moment=929 / 12960, surface=8 * math.sqrt(2), proxy_proved=False),
    "d10p": _voronoi(10, 4568341 / 64512000, 1024.0, {8: 0.53726, 10: 0.46274}),
    "k12": _voronoi(
        12, 797361941 / (6567561000 * math.sqrt(3)), 110592.0, {16: 0.93705, 24: 0.06295}
    ),
    "leech": Cell(block=24, second_moment=0.065753, surface=24.0, proxy_proved=False),
}


# --- names ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A stretch of coordinates that one kind of cell rounds.

    Attributes
    ----------
    name : str
        A key of ``CELLS``.
    start : int
        First coordinate, and first code.
    n_components : int
    n_codes : int
        As many, padded to whole blocks.
    """

    name: str
    start: int
    n_components: int
    n_codes: int

    @property
    def cell(self) -> Cell:
        """The cell of each block."""
        return CELLS[self.name]

    @property
    def stop(self) -> int:
        """One past the last code."""
        return self.start + self.n_codes

    @property
    def n_blocks(self) -> int:
        """Number of blocks, the padded one included."""
        return self.n_codes // self.cell.block

    @property
    def blocks_in_use(self) -> float:
        """Number of whole blocks, and ``sqrt(rest / n)`` for one of which only ``rest`` are used.

        That is at most the mean length of the part of the walls' normals that lies in the
        coordinates in use (Cauchy-Schwarz).
        """
        whole, rest = divmod(self.n_components, self.cell.block)
        return whole + math.sqrt(rest / self.cell.block)

    @property
    def crossings(self) -> float:
        """Half of the surface, over all blocks, as far as displacements can cross it."""
        return self.cell.surface / 2 * self.blocks_in_use


def is_rounding(name: object) -> bool:
    """Whether this names a rounding: known parts, larger blocks first, "ak" only alone."""
    if not isinstance(name, str):
        return False
    parts = name.split("+")
    if any(part not in CELLS for part in parts) or ("ak" in parts and len(parts) > 1):
        return False
    sizes = [CELLS[part].block for part in parts]
    return all(size > after for size, after in itertools.pairwise(sizes))


@functools.lru_cache(maxsize=4096)
def runs(rounding: str, n_components: int) -> tuple[Run, ...]:
    """Who rounds which coordinates; parts of the name that get none are left out.

    Examples
    --------
    >>> [(run.name, run.start, run.n_components, run.n_codes) for run in runs("e8+centre", 17)]
    [('e8', 0, 16, 16), ('centre', 16, 1, 1)]
    >>> [(run.name, run.start, run.n_components, run.n_codes) for run in runs("e8", 17)]
    [('e8', 0, 17, 24)]
    """
    found = []
    start = 0
    *before, last = rounding.split("+")
    for name in before:
        size = (n_components - start) // CELLS[name].block * CELLS[name].block
        if size:
            found.append(Run(name, start, size, size))
            start += size
    if start < n_components:
        rest, block = n_components - start, CELLS[last].block
        found.append(Run(last, start, rest, -(-rest // block) * block))
    return tuple(found)


def padded_size(n_components: int, rounding: str) -> int:
    """Number of codes of a point with ``n_components`` coordinates."""
    return runs(rounding, n_components)[-1].stop


def second_moment(rounding: str, n_components: int) -> float:
    """Mean squared rounding error of a coordinate, in squared grid widths."""
    parts = runs(rounding, n_components)
    if len(parts) == 1:
        return parts[0].cell.second_moment
    return sum(run.n_components * run.cell.second_moment for run in parts) / n_components


def proxy_proved(rounding: str) -> bool:
    """Whether the error is proved sub-Gaussian with its second moment as variance proxy."""
    return all(CELLS[part].proxy_proved for part in rounding.split("+"))


# --- flips ----------------------------------------------------------------------------------


def flip_constant(rounding: str, n_components: int) -> float:
    """Flip probability per (length of the displacement / grid width), for isotropic ones.

    With independent normal coordinates of variance ``v``, a wall is crossed at the rate
    ``sqrt(2 v / pi)`` per unit of half its surface. For "e8" and "leech" alone it is 3 % and 1 %
    more, so that the plans of version 0.1 stay: there blocks of n of the k coordinates carry
    ``sqrt(n/k)`` of the length each, which is their root mean square and not their mean.
    """
    parts = runs(rounding, n_components)
    if rounding not in ("ak", "centre", "e8", "leech"):
        crossings = sum(run.crossings for run in parts)
        return math.sqrt(2 / math.pi) * crossings / math.sqrt(n_components)
    cell = parts[0].cell
    single = math.sqrt(2 / math.pi) if cell.block == 1 else 1.0
    return cell.isotropic_flips * single * _lengths(parts[0], n_components)


def worst_flip_constant(rounding: str, n_components: int) -> float:
    """Flip probability per (length of the displacement / grid width), for the worst direction.

    Blocks add up, and by Cauchy-Schwarz a displacement is worst when its part in each block is
    proportional to the block's own constant.
    """
    parts = runs(rounding, n_components)
    return math.hypot(*(run.cell.worst_flips * math.sqrt(run.n_blocks) for run in parts))


def provable_flip_constant(
    projection: str, rounding: str, n_inputs: int, n_components: int
) -> float:
    """Upper bound of P[other codes] per (|z - z'| / grid width), over seeds, for every z - z'.

    A displacement D in one block crosses a wall with probability at most half the integral of
    ``|<normal, D>|`` over the surface.

    * Gaussian and Haar maps: ``E|<normal, D>|`` is ``sqrt(2/pi) |z - z'| / L`` times the length of
      the normal's part in the coordinates in use, with ``L = sqrt(k)`` for independent entries
      and the mean length of a normal vector for a rotation. In a block of which only some
      coordinates are in use, that part is ``sqrt(rest / n)`` at most on average (Cauchy-Schwarz).
    * Signs and Hadamard: each component has mean square ``|z - z'|^2 / k``, so a block's mean
      length is at most ``sqrt(n/k) |z - z'|``; its direction may be the worst.
    * Otherwise all may be the worst.
    """
    parts = runs(rounding, n_components)
    if projection in ("gaussian", "rotation"):
        gaussian = projection == "gaussian"
        length = math.sqrt(n_components) if gaussian else mean_length(n_components)
        per_surface = math.sqrt(2 / math.pi) / length
        return sum(run.cell.surface / 2 * per_surface * run.blocks_in_use for run in parts)
    if projection in ("signs", "hadamard"):
        return sum(run.cell.worst_flips * _lengths(run, n_components) for run in parts)
    return worst_flip_constant(rounding, n_components)


def _lengths(run: Run, n_components: int) -> float:
    """Sum of the blocks' shares of a length that is spread evenly over all components."""
    whole, rest = divmod(run.n_components, run.cell.block)
    block = run.cell.block
    return whole * math.sqrt(block / n_components) + math.sqrt(rest / n_components)


def mean_length(n: int) -> float:
    """Mean length of a standard normal vector, ``sqrt(2) Gamma((n+1)/2) / Gamma(n/2)``."""
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))


# --- which cells are best -------------------------------------------------------------------


def price(rounding: str, n_components: int) -> float:
    """Expected excess deviance of two labs' model, in nats, times ``n rho^2``.

    n rows per lab, disagreement rho, and coordinates in the Fisher metric: a lab's estimate has
    variance 1/n in each. Two labs differ by a normal vector of variance 2/n, so the width is
    ``w = crossings * 2 / sqrt(pi n) / rho``, and the rounding error costs half its squared length:
    ``w^2 / 2`` times the sum of second moments. Cubes: ``q^3 / (6 pi) = .0531 q^3``.
    """
    crossings = sum(run.crossings for run in runs(rounding, n_components))
    noise = n_components * second_moment(rounding, n_components)
    return 2 / math.pi * crossings**2 * noise


def ball_price(n_components: int) -> float:
    """The `price` if cells could be balls, which no cells can beat: ``q^3 / (2 pi (q + 2))``.

    At a given volume no body has less surface, nor a smaller second moment, than the ball.
    """
    return n_components**3 / (2 * math.pi * (n_components + 2))


_PADDING = 1.02  # a padded block must save this much: it has more codes, and cells of many shapes


@functools.cache
def best_blocks(n_components: int) -> str:
    """The rounding that crosses least at equal noise: the name with the smallest `price`.

    Notes
    -----
    All names of up to three parts are tried. Other ways to cut the coordinates into blocks than
    those that a name can say are no better (tests/unit/test_cells.py). All blocks have the same
    grid width: widths of their own would save less than 1 %.

    What it finds, and what that costs (``python benchmarks/cells.py`` prints this; error is the
    `second_moment`, crossings is half of the surface, the last column is the price over that of
    balls):

    === ============== ====== ========= ========= ========= ======
      q best blocks    error  crossings     price     cubes / ball
    === ============== ====== ========= ========= ========= ======
      1 centre         0.0833     1.000      0.05      0.05   1.00
      2 a2             0.0802     1.861      0.35      0.42   1.11
      3 d3s            0.0785     2.657      1.06      1.43   1.23
      4 d4             0.0766     3.364      2.21      3.40   1.30
      5 d5s            0.0756     4.078      4.00      6.63   1.41
      6 e6s            0.0742     4.671      6.19     11.46   1.44
      7 e7s            0.0731     5.244      8.96     18.20   1.48
      8 e8             0.0717     5.657     11.68     27.16   1.43
      9 d10p           0.0708     6.380     16.52     38.67   1.57
     10 d10p           0.0708     6.726     20.39     53.05   1.54
     11 k12            0.0701     7.473     27.41     70.61   1.68
     12 k12            0.0701     7.805     32.62     91.67   1.66
     13 leech          0.0658     8.832     42.45    116.55   1.82
     16 leech          0.0658     9.798     64.30    217.30   1.78
     20 leech          0.0658    10.954    100.46    424.41   1.74
     24 leech          0.0658    12.000    144.67    733.39   1.71
     25 leech+centre   0.0665    13.000    178.75    828.93   1.94
     32 leech+e8       0.0672    17.657    427.03   1738.40   2.78
     48 leech          0.0658    24.000   1157.34   5867.09   3.29
    === ============== ====== ========= ========= ========= ======
    """
    names = [name for name in CELLS if name != "ak"]
    names.sort(key=lambda name: -CELLS[name].block)
    best, least = "centre", math.inf
    for size in range(1, 4):
        for parts in itertools.combinations(names, size):
            rounding = "+".join(parts)
            found = runs(rounding, n_components)
            if len(found) < size:  # a shorter name says the same
                continue
            padded = found[-1].stop > n_components
            cost = price(rounding, n_components) * (_PADDING if padded else 1.0)
            if cost < least * (1 - 1e-9):
                best, least = rounding, cost
    return best
