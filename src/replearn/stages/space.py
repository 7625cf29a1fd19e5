"""The code space: everything besides the seed that turns a direction into codes and back."""

from dataclasses import dataclass

from replearn.randomness import SharedRandomness
from replearn.stages.projection import PROJECTIONS
from replearn.stages.rounding import padded_size, residual, round_codes, unround
from replearn.types import Codes, Vector


@dataclass(frozen=True)
class CodeSpace:
    """A shared map from directions to integer codes.

    Attributes
    ----------
    n_inputs : int
        Length of a direction (features, and one more for the intercept).
    projection, rounding : str
        Names in ``PROJECTIONS`` and ``ROUNDINGS``.
    n_components : int
    grid_width : str
        A decimal number. A string, so that no platform reads another number.
    """

    n_inputs: int
    projection: str
    n_components: int
    rounding: str
    grid_width: str

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a classifier."""
        return padded_size(self.n_components, self.rounding)

    def project(self, direction: Vector, shared: SharedRandomness) -> Vector:
        """Components of a direction, before rounding."""
        return PROJECTIONS[self.projection].apply(direction, self.n_components, shared)

    def encode(self, direction: Vector, shared: SharedRandomness) -> Codes:
        """Codes of a direction."""
        components = self.project(direction, shared)
        return round_codes(components, float(self.grid_width), self.rounding, shared)

    def residual(self, direction: Vector, codes: Codes, shared: SharedRandomness) -> Vector:
        """Where a direction lies in the cell of its codes, from the centre, in grid widths."""
        components = self.project(direction, shared)
        return residual(components, codes, float(self.grid_width), self.rounding, shared)

    def rounded(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Components that stand for the codes."""
        return unround(codes, self.n_components, float(self.grid_width), self.rounding, shared)

    def decode(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Direction that stands for the codes: a function of codes and coins alone."""
        return PROJECTIONS[self.projection].lift(self.rounded(codes, shared), self.n_inputs, shared)
