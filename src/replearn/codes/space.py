"""The code space: everything besides the seed that turns a direction into codes and back."""

import math
from dataclasses import dataclass, replace
from typing import Any

from replearn.codes.basis import Basis
from replearn.codes.cells import padded_size
from replearn.codes.hints import redrawn
from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import residual, round_codes, unround
from replearn.kernels.lanes import square
from replearn.types import Codes, Vector


@dataclass(frozen=True)
class CodeSpace:
    """A shared map from directions to integer codes.

    Attributes
    ----------
    n_inputs : int
        Length of a direction (features, and one more for the intercept).
    projection, rounding : str
        Names in ``PROJECTIONS`` and ``ROUNDINGS``; projection "published" uses ``basis``.
    n_components : int
    grid_width : str
        A decimal number. A string, so that no platform reads another number.
    basis : Basis or None
        Published directions, for the projection "published".
    hint_bits, hint : int
        ``2**hint_bits`` published offsets of the grid, and the one that is used.
    """

    n_inputs: int
    projection: str
    n_components: int
    rounding: str
    grid_width: str
    basis: Basis | None = None
    hint_bits: int = 0
    hint: int = 0

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        content: dict[str, Any] = {
            "grid_width": self.grid_width,
            "n_components": self.n_components,
            "projection": self.projection,
            "rounding": self.rounding,
        }
        if self.basis is not None:
            content["basis"] = self.basis.content()
        if self.hint_bits:
            content |= {"hint": self.hint, "hint_bits": self.hint_bits}
        return content

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a classifier."""
        return padded_size(self.n_components, self.rounding)

    def with_hint(self, hint: int) -> "CodeSpace":
        """The space under one of its offsets."""
        return replace(self, hint=hint)

    def project(self, direction: Vector, shared: SharedRandomness) -> Vector:
        """Components of a direction, before rounding."""
        if self.basis is not None:
            return self.basis.apply(direction)
        return PROJECTIONS[self.projection].apply(direction, self.n_components, shared)

    def encode(self, direction: Vector, shared: SharedRandomness) -> Codes:
        """Codes of a direction."""
        return self.round(self.project(direction, shared), shared)[0]

    def round(self, components: Vector, shared: SharedRandomness) -> tuple[Codes, Vector]:
        """Codes of components, and where they lie in their cell, in grid widths."""
        coins, width = redrawn(shared, self.hint), float(self.grid_width)
        codes = round_codes(components, width, self.rounding, coins)
        return codes, residual(components, codes, width, self.rounding, coins)

    def residual(self, direction: Vector, codes: Codes, shared: SharedRandomness) -> Vector:
        """Where a direction lies in the cell of its codes, from the centre, in grid widths."""
        components, coins = self.project(direction, shared), redrawn(shared, self.hint)
        return residual(components, codes, float(self.grid_width), self.rounding, coins)

    def rounded(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Components that stand for the codes."""
        coins, width = redrawn(shared, self.hint), float(self.grid_width)
        return unround(codes, self.n_components, width, self.rounding, coins)

    def decode(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Direction that stands for the codes: a function of codes and coins alone."""
        components = self.rounded(codes, shared)
        if self.basis is not None:
            return self.basis.lift(components)
        return PROJECTIONS[self.projection].lift(components, self.n_inputs, shared)


def unit(vector: Vector) -> Vector:
    """The vector at length 1, the same bits everywhere; the zero vector as it is."""
    length = math.sqrt(square(vector))
    return vector / length if length > 0 else vector
