"""What each rounding does to a point: the constants, and where they come from."""

import math
from dataclasses import dataclass


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
        Surface of the cell: exact, but an upper bound for Leech.
    proxy_proved : bool
        The error is proved sub-Gaussian with ``second_moment`` as its variance proxy.

    Notes
    -----
    *Second moment.* Shifted uniformly, the error is uniform on the cell, whatever the point.
    E8: 929/12960 exactly [CS99, Ch. 21]. Leech: .065753, our measurement with a standard error of
    .0000015 (1.5e7 draws); the .065771 of [CS99, Table 2.3] is .03 % more. The cube has
    1/12 = .0833.

    *Surface.* The cell is a union of pyramids over its facets with the centre as their apex, so
    ``1 = sum(area * height) / n``. E8's facets belong to its 240 minimal vectors, all at height
    ``sqrt(2)/2``: the surface is ``8 sqrt(2)`` exactly. Leech's belong to the minimal vectors
    (height 1) and to those of norm 6 (height 1.22), so the surface is at most 24. It is close to
    that, about 23.98, as 99.7 % of the crossings are over minimal vectors (measured). The cube
    has ``2 n``.

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


CELLS: dict[str, Cell] = {
    # AKround flips like an interval of width 1; its error is the sum of two uniforms
    "ak": Cell(block=1, second_moment=1 / 6, surface=2.0, proxy_proved=True),
    "centre": Cell(block=1, second_moment=1 / 12, surface=2.0, proxy_proved=True),
    "e8": Cell(block=8, second_moment=929 / 12960, surface=8 * math.sqrt(2), proxy_proved=False),
    "leech": Cell(block=24, second_moment=0.065753, surface=24.0, proxy_proved=False),
}


def flip_constant(rounding: str, n_components: int) -> float:
    """Flip probability per (length of the displacement / grid width), for isotropic ones.

    Blocks of n of the k coordinates carry ``sqrt(n/k)`` of the length each; the mean absolute
    value of a single coordinate is ``sqrt(2/pi)`` of that.
    """
    cell = CELLS[rounding]
    whole, rest = divmod(n_components, cell.block)
    lengths = whole * math.sqrt(cell.block / n_components) + math.sqrt(rest / n_components)
    single = math.sqrt(2 / math.pi) if cell.block == 1 else 1.0
    return cell.isotropic_flips * single * lengths


def worst_flip_constant(rounding: str, n_components: int) -> float:
    """Flip probability per (length of the displacement / grid width), for the worst direction."""
    cell = CELLS[rounding]
    return cell.worst_flips * math.sqrt(-(-n_components // cell.block))


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
    cell = CELLS[rounding]
    whole, rest = divmod(n_components, cell.block)
    if projection in ("gaussian", "rotation"):
        gaussian = projection == "gaussian"
        length = math.sqrt(n_components) if gaussian else _mean_length(n_components)
        blocks = whole + math.sqrt(rest / cell.block)
        return cell.surface / 2 * math.sqrt(2 / math.pi) / length * blocks
    if projection in ("signs", "hadamard"):
        lengths = whole * math.sqrt(cell.block / n_components) + math.sqrt(rest / n_components)
        return cell.worst_flips * lengths
    return worst_flip_constant(rounding, n_components)


def _mean_length(n: int) -> float:
    """Mean length of a standard normal vector, ``sqrt(2) Gamma((n+1)/2) / Gamma(n/2)``."""
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))
