"""Hints: one of a few published moves of the shared grid, named by the first lab.

The seed gives one uniform offset of the grid. With ``bits`` hint bits there are ``2**bits`` known
moves of it, and the first lab publishes the number of the move under which its own point lies
safest in its cell. All others use that move.

Moves are the points of a rank-1 lattice rule (Korobov): coordinate j of move i is the fraction
``i * generator**j mod 2**bits`` over ``2**bits``. They are spread more evenly than independent
ones, and the proof needs no more than the one uniform offset: it makes all positions of
a point in its cells independent of what another lab differs by (docs/theory.md).

That is for logistic studies, which round a few numbers in cubes. Algorithms 1 and 2 round many, in
cells of lattices, of which those fractions may be vectors, so that nothing moves at all. There
each hint has an offset of its own, drawn independently: in 20 dimensions and more it is as good as
cosets of a finer lattice or a lattice rule, within 5 % of the width (docs/theory.md).
"""

from dataclasses import dataclass

import numpy as np

from replearn.codes.randomness import SharedRandomness
from replearn.types import Matrix, Vector

#: More bits would say much about one sample, and gain little (see `replearn.plans.cell_prices`).
MAX_HINT_BITS = 8

#: Generators of the moves by number of bits: odd, so that every coordinate takes all values.
_GENERATORS = (1, 1, 3, 3, 3, 11, 11, 47, 75)


def moves(bits: int, size: int) -> Matrix:
    """All moves of a grid in ``size`` dimensions, one in each row; fractions of a cell.

    Examples
    --------
    >>> moves(2, 3)
    array([[0.  , 0.  , 0.  ],
           [0.25, 0.75, 0.25],
           [0.5 , 0.5 , 0.5 ],
           [0.75, 0.25, 0.75]])
    """
    n_moves = 1 << bits
    powers = [pow(_GENERATORS[bits], j, n_moves) for j in range(size)]
    return np.outer(np.arange(n_moves), powers) % n_moves / n_moves


@dataclass(frozen=True)
class HintedRandomness(SharedRandomness):
    """The published coins of a study, with the grid moved as a hint says.

    Only the stream "rounding/offset" differs from that of `SharedRandomness`.
    """

    bits: int = 0
    hint: int = 0

    def uniforms(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` uniforms on ``[0, 1)``; those of the grid's offset are moved, exactly."""
        drawn = super().uniforms(stream, n, row)
        if stream != "rounding/offset" or self.hint == 0:
            return drawn
        move = moves(self.bits, n)[self.hint]
        # both branches are exact: multiples of 2^-53 below 1
        return np.where(drawn >= 1 - move, drawn - (1 - move), drawn + move)


def hinted(shared: SharedRandomness, bits: int, hint: int) -> SharedRandomness:
    """The coins with the grid moved; the same coins if there is nothing to move."""
    return HintedRandomness(shared.seed, bits, hint) if bits and hint else shared


@dataclass(frozen=True)
class RedrawnRandomness(SharedRandomness):
    """The published coins of a study, with a grid that belongs to a hint and to a halfspace.

    Row ``256 output + hint`` of the stream "rounding/offset", and row ``256 output`` of the other
    ones of a rounding; row 0 is that of the only halfspace, or of the first one, without hints.
    """

    hint: int = 0
    output: int = 0

    def uniforms(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` uniforms on ``[0, 1)``; those of the grid are the hint's and halfspace's own."""
        if stream.startswith("rounding/"):
            row += self.output << MAX_HINT_BITS
        return super().uniforms(stream, n, row + self.hint if stream == "rounding/offset" else row)


def redrawn(shared: SharedRandomness, hint: int, output: int = 0) -> SharedRandomness:
    """The coins with the grid of a hint and a halfspace; the same coins if both are 0."""
    return RedrawnRandomness(shared.seed, hint, output) if hint or output else shared
