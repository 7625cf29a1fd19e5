"""The code space: everything besides the seed that turns a direction into codes and back."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.cells import padded_size
from replearn.codes.hints import redrawn
from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import residual, round_codes, unround
from replearn.kernels.lanes import square
from replearn.types import Codes, Matrix, Vector


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
    n_outputs : int
        Halfspaces: 1, or one for each of more than two classes. They share the projection, and
        each has a grid of its own. Directions, components and codes then come one halfspace after
        the other.
    """

    n_inputs: int
    projection: str
    n_components: int
    rounding: str
    grid_width: str
    basis: Basis | None = None
    hint_bits: int = 0
    hint: int = 0
    n_outputs: int = 1

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
        if self.n_outputs > 1:
            content["n_outputs"] = self.n_outputs
        return content

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a classifier."""
        return self.n_outputs * padded_size(self.n_components, self.rounding)

    def with_hint(self, hint: int) -> "CodeSpace":
        """The space under one of its offsets."""
        return replace(self, hint=hint)

    def project(self, direction: Vector, shared: SharedRandomness) -> Vector:
        """Components of a direction, before rounding."""
        parts = direction.reshape(self.n_outputs, -1)
        return _joined([self._projected(part, shared) for part in parts])

    def _projected(self, direction: Vector, shared: SharedRandomness) -> Vector:
        if self.basis is not None:
            return self.basis.apply(direction)
        return PROJECTIONS[self.projection].apply(direction, self.n_components, shared)

    def encode(self, direction: Vector, shared: SharedRandomness) -> Codes:
        """Codes of a direction."""
        return self.round(self.project(direction, shared), shared)[0]

    def round(self, components: Vector, shared: SharedRandomness) -> tuple[Codes, Vector]:
        """Codes of components, and where they lie in their cell, in grid widths."""
        width, found = float(self.grid_width), []
        for output, part in enumerate(components.reshape(self.n_outputs, -1)):
            coins = redrawn(shared, self.hint, output)
            codes = round_codes(part, width, self.rounding, coins)
            found.append((codes, residual(part, codes, width, self.rounding, coins)))
        return _joined([codes for codes, _ in found]), _joined([place for _, place in found])

    def rounded(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Components that stand for the codes."""
        width, k, parts = float(self.grid_width), self.n_components, []
        for output, part in enumerate(codes.reshape(self.n_outputs, -1)):
            parts.append(unround(part, k, width, self.rounding, redrawn(shared, self.hint, output)))
        return _joined(parts)

    def decode(self, codes: Codes, shared: SharedRandomness) -> Vector | Matrix:
        """Direction that stands for the codes: a function of codes and coins alone.

        Of more than one halfspace, a row for each.
        """
        components = self.rounded(codes, shared).reshape(self.n_outputs, -1)
        found = [self._lifted(part, shared) for part in components]
        return found[0] if len(found) == 1 else np.array(found)

    def _lifted(self, components: Vector, shared: SharedRandomness) -> Vector:
        if self.basis is not None:
            return self.basis.lift(components)
        return PROJECTIONS[self.projection].lift(components, self.n_inputs, shared)


def _joined(parts: list[Any]) -> Any:
    """One halfspace after the other; of one, its own array."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def unit(vector: Vector) -> Vector:
    """The vector at length 1, the same bits everywhere; the zero vector as it is."""
    length = math.sqrt(square(vector))
    return vector / length if length > 0 else vector
