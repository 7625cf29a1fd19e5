"""The code space of boosting: the codes of one rounded mean after the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import unit
from replearn.kernels import foam
from replearn.types import Codes, Matrix, Vector

_MAX_NEIGHBOURS = 20_000


@dataclass(frozen=True)
class BoostSpace:
    """A shared map from the vectors of the rounds to integer codes.

    Attributes
    ----------
    n_inputs : int
        Length of a vector (features, and one more for the intercept).
    rounding : {"box", "foam"}
    grid_width : str
        A decimal number: side of a box, or of the cube of a droplet.
    n_rounds : int
        Rounds that were done.
    output : {"halfspace", "majority"}
        The sign of the sum of the rounds' products, or the majority of their signs.

    Notes
    -----
    Round t (from 0) of a box reads the uniforms of the stream "boost/{t}/offset", of foam the
    rows of "boost/{t}/foam"; no draw depends on data. Box: as the rounding "centre" of
    `replearn.codes.rounding`. Foam: two points at distance D get other codes with probability
    at most ``2 pi D / grid_width``, and the error has independent coordinates with mean 0
    and variance ``.03267 grid_width^2``, whatever the point. Tested in tests/theory/test_foam.py.
    """

    n_inputs: int
    rounding: str
    grid_width: str
    n_rounds: int
    output: str

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "boosting": self.rounding,
            "grid_width": self.grid_width,
            "n_rounds": self.n_rounds,
            "output": self.output,
        }

    @property
    def codes_per_round(self) -> int:
        """Integers of one round: the box, or the proposal and the translate of its droplet."""
        return self.n_inputs + (self.rounding == "foam")

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a classifier."""
        return self.n_rounds * self.codes_per_round

    def encode_round(self, t: int, point: Vector, shared: SharedRandomness) -> Codes:
        """Codes of the vector of round t."""
        scaled = point / float(self.grid_width)
        if self.rounding == "box":
            return np.floor(scaled - self._offsets(t, shared)).astype(np.int64)
        proposal = foam.first_droplet(scaled, *shared.key(f"boost/{t}/foam"))
        corner = self._corner(t, proposal, shared)
        return np.array([proposal, *np.floor(scaled - corner).astype(np.int64)])

    def decode_round(self, t: int, codes: Codes, shared: SharedRandomness) -> Vector:
        """The vector that stands for the codes of round t."""
        if self.rounding == "box":
            corner, cell = self._offsets(t, shared), codes
        else:
            corner, cell = self._corner(t, int(codes[0]), shared), codes[1:]
        return (cell + (corner + 0.5)) * float(self.grid_width)

    def voters(self, codes: Codes, shared: SharedRandomness) -> Matrix:
        """Weak hypotheses of all rounds: unit vectors, one in each row."""
        rounds = codes.reshape(self.n_rounds, self.codes_per_round)
        vectors = [unit(self.decode_round(t, own, shared)) for t, own in enumerate(rounds)]
        return np.array(vectors).reshape(self.n_rounds, self.n_inputs)

    def decode(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Sum of the weak hypotheses, in the order of the rounds."""
        return total_vote(self.voters(codes, shared))

    def leaving(
        self, t: int, point: Vector, codes: Codes, moved: Matrix, shared: SharedRandomness
    ) -> float:
        """Share of ``point + moved[i]`` whose codes are not those of the point."""
        width = float(self.grid_width)
        if self.rounding == "box":
            offset = point / width - (codes + (self._offsets(t, shared) + 0.5))
            return float((np.abs(offset + moved / width) >= 0.5).any(axis=1).mean())
        own, key = int(codes[0]), shared.key(f"boost/{t}/foam")
        reach = np.abs(moved).max(axis=0) / width
        others = np.empty(_MAX_NEIGHBOURS, dtype=np.int64)
        n_others = foam.near_proposals(point / width, reach, *key, own, others)
        if n_others < 0:  # too many neighbours: most of the points leave
            return 1.0
        corner = self._corner(t, own, shared)
        points = np.ascontiguousarray((point + moved) / width)
        n_left = foam.count_leaving(points, corner, codes[1:], own, others[:n_others], *key)
        return float(n_left / moved.shape[0])

    def _offsets(self, t: int, shared: SharedRandomness) -> Vector:
        return shared.uniforms(f"boost/{t}/offset", self.n_inputs)

    def _corner(self, t: int, proposal: int, shared: SharedRandomness) -> Vector:
        return shared.uniforms(f"boost/{t}/foam", self.n_inputs + 1, proposal)[1:]


def total_vote(voters: Matrix) -> Vector:
    """Sum of rows, one after the other: NumPy's own order depends on its version."""
    total = np.zeros(voters.shape[1])
    for voter in voters:
        total += voter
    return total
