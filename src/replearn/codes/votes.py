"""Codes of boosting: one rounded mean after the other, and the sum of their directions.

Round ``t`` of a box reads row ``t`` of the stream "boost/box", of foam row ``t`` of "boost/foam".
No draw depends on data.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from replearn.codes.coins import Coins
from replearn.codes.foam import (
    MAX_FOAM_INPUTS,
    MAX_PROPOSAL,
    foam_centre,
    foam_codes,
    share_leaving_foam,
)
from replearn.codes.space import Decimal6, InputCount
from replearn.documents import Part, Unfit
from replearn.exact import total
from replearn.types import Codes, Matrix, Vector

#: Rounds of a model at the most: each costs its reader a look at the stream.
MAX_ROUNDS = 1 << 14


def codes_per_round(rounding: str, n_inputs: int) -> int:
    """Whole numbers of a round: the box, or the proposal and the translate of its droplet."""
    return n_inputs + (rounding == "foam")


def round_mean(rounding: str, point: Vector, t: int, coins: Coins) -> Codes:
    """Codes of the mean of round t, given in units of the grid width."""
    if rounding == "foam":
        return foam_codes(point, t, coins)
    return np.floor(point - _offsets(point.size, t, coins)).astype(np.int64)


def centre(rounding: str, codes: Codes, t: int, coins: Coins) -> Vector:
    """What stands for the codes of round t, in units of the grid width."""
    if rounding == "foam":
        return foam_centre(codes, t, coins)
    return codes + (_offsets(codes.size, t, coins) + 0.5)


def hypothesis(rounding: str, codes: Codes, t: int, coins: Coins) -> Vector:
    """Weak hypothesis of round t: the direction of the centre."""
    vector = centre(rounding, codes, t, coins)
    length = math.sqrt(total(vector * vector))
    if length > 0:
        return vector / length
    return vector


def vote(rounding: str, codes: Codes, n_inputs: int, coins: Coins) -> Vector:
    """Sum of the weak hypotheses of all rounds, in their order.

    The cost is that of reading each code once, whatever the codes say.
    """
    sum_of_rounds = np.zeros(n_inputs)
    for t, own in enumerate(codes.reshape(-1, codes_per_round(rounding, n_inputs))):
        sum_of_rounds += hypothesis(rounding, own, t, coins)
    return sum_of_rounds


def share_leaving(
    rounding: str, point: Vector, codes: Codes, moved: Matrix, t: int, coins: Coins
) -> float:
    """Share of ``point + moved[i]`` that get other codes in round t; all in grid widths."""
    if rounding == "foam":
        return share_leaving_foam(point, codes, moved, t, coins)
    offset = point - centre(rounding, codes, t, coins)
    return float((np.abs(offset + moved) >= 0.5).any(axis=1).mean())


def _offsets(n_inputs: int, t: int, coins: Coins) -> Vector:
    return coins.uniforms("boost/box", n_inputs, row=t)


@dataclass(frozen=True)
class VoteSpace(Part):
    """A shared map from the means of the rounds to integer codes."""

    kind: Literal["vote"]
    # length of a direction: features, and one more for the intercept
    n_inputs: InputCount
    rounding: Literal["box", "foam"]
    grid_width: Decimal6  # side of a box, or of the cube of a droplet

    def check(self) -> None:
        """Refuse foam that nobody could fill."""
        if self.rounding == "foam" and self.n_inputs > MAX_FOAM_INPUTS:
            raise Unfit(f"foam has at most {MAX_FOAM_INPUTS} inputs, got {self.n_inputs:,}")

    def check_codes(self, codes: Codes) -> None:
        """Refuse codes that the space does not have, and rounds that cost their reader too much."""
        size = codes_per_round(self.rounding, self.n_inputs)
        n_rounds, left = divmod(codes.size, size)
        if left or not 1 <= n_rounds <= MAX_ROUNDS:
            raise Unfit(
                f"codes must be {size:,} numbers for each of 1 to {MAX_ROUNDS:,} rounds, got "
                f"{codes.size:,}"
            )

        if self.rounding == "foam":  # its reader draws up to the proposal
            proposals = codes[::size]
            if proposals.min() < 0 or proposals.max() >= MAX_PROPOSAL:
                raise Unfit(f"proposals must be below {MAX_PROPOSAL:,}, got others")

    def decode(self, codes: Codes, coins: Coins) -> Vector:
        """Sum of the weak hypotheses: a function of codes and coins alone."""
        return vote(self.rounding, codes, self.n_inputs, coins)
