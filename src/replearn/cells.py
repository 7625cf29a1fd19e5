"""What each rounding does to a point: the constants, and where they come from."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CellLaw:
    """What a rounding does, for a cell of unit volume.

    Attributes
    ----------
    block : int
        Dimension of the cell.
    variance : float
        Of the rounding error, per coordinate.
    surface : float
        Surface of the cell, or an upper bound of it.
    proved : bool
        The error is proved sub-Gaussian with this variance as its proxy.

    Notes
    -----
    For a displacement D inside one block a random cell wall is crossed with probability at
    most ``0.5 * integral |<n, D>| dS`` over the cell's surface (equality for small D).
    Averaged over directions of D that is ``0.5 * surface * E|u_1| * |D|``. For every
    D, because the cell's symmetry group acts irreducibly, Cauchy-Schwarz gives
    ``0.5 * surface / sqrt(block) * |D|``. Tested in tests/theory/test_lattices.py.
    """

    block: int
    variance: float
    surface: float
    proved: bool

    def isotropic(self) -> float:
        """Flip probability per displacement of one block, averaged over directions."""
        n = self.block
        if n == 1:  # one coordinate of an isotropic displacement in many dimensions
            return math.sqrt(2 / math.pi)
        mean_cosine = math.gamma(n / 2) / (math.sqrt(math.pi) * math.gamma((n + 1) / 2))
        return 0.5 * self.surface * mean_cosine

    def worst(self) -> float:
        """Flip probability per displacement of one block, whatever its direction."""
        return 0.5 * self.surface / math.sqrt(self.block)


CELLS: dict[str, CellLaw] = {
    "ak": CellLaw(block=1, variance=1 / 6, surface=2.0, proved=True),
    "centre": CellLaw(block=1, variance=1 / 12, surface=2.0, proved=True),
    "e8": CellLaw(block=8, variance=929 / 12960, surface=8 * math.sqrt(2), proved=False),
    "leech": CellLaw(block=24, variance=0.065771, surface=24.0, proved=False),
}


def flip_constant(rounding: str, n_components: int, worst: bool = False) -> float:
    """Flip probability per (displacement / grid width) in ``n_components`` dimensions.

    The displacement is spread evenly over the coordinates (isotropic), or the worst possible.
    """
    cell = CELLS[rounding]
    whole, rest = divmod(n_components, cell.block)
    if worst:
        return cell.worst() * math.sqrt(whole + (rest > 0))
    blocks = whole * math.sqrt(cell.block / n_components) + math.sqrt(rest / n_components)
    return cell.isotropic() * blocks


def provable_flip_constant(
    projection: str, rounding: str, n_inputs: int, n_components: int
) -> float:
    """Upper bound of P[other codes] per (|z - z'| / grid width), over seeds, for every z - z'.

    Gaussian and Haar maps make the displacement isotropic. The others do not: there the worst
    direction counts, and a Hadamard map of few rows may lengthen it by sqrt(d/k).
    """
    if projection == "rotation":  # E|u_1| for a unit vector of that many coordinates, exactly
        if CELLS[rounding].block == 1:
            return n_components * math.sqrt(2 / math.pi) / _mean_length(n_components)
        return flip_constant(rounding, n_components)
    if projection == "gaussian":
        return flip_constant(rounding, n_components)
    stretch = math.sqrt(n_inputs / n_components) if projection == "hadamard" else 1.0
    return stretch * flip_constant(rounding, n_components, worst=True)


def _mean_length(n: int) -> float:
    """Mean length of a standard normal vector, ``sqrt(2) Gamma((n+1)/2) / Gamma(n/2)``."""
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))
