"""A published linear map, chosen from a pilot sample and written into the protocol."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.kernels.lanes import axpy, dot
from replearn.types import IntegerArray, Matrix, Vector

#: Entries are whole numbers of this unit, so that everybody reads the same map.
UNIT = 2.0**-14


@dataclass(frozen=True, eq=False)
class Basis:
    """Directions of a code space, with a cell width for each.

    Attributes
    ----------
    rows : int64 array of shape (n_components, n_inputs)
        Nearly orthonormal directions, in units of 2^-14.
    widths : tuple of str
        Width of each direction's cells, relative to the grid width; decimal numbers.
    """

    rows: IntegerArray
    widths: tuple[str, ...]

    @classmethod
    def from_directions(cls, directions: Matrix, widths: Vector | None = None) -> "Basis":
        """Round orthonormal rows, and relative widths, to what is published."""
        relative = np.ones(len(directions)) if widths is None else widths
        return cls(
            np.rint(directions / UNIT).astype(np.int64), tuple(f"{width:.3g}" for width in relative)
        )

    def apply(self, direction: Vector) -> Vector:
        """Components of a direction, each in units of its relative width; a fixed order of sums."""
        products = np.array([dot(row, direction) for row in self.directions])
        return products / self._widths

    def lift(self, components: Vector) -> Vector:
        """Direction that has these components."""
        lifted = np.zeros(self.rows.shape[1])
        for row, component in zip(self.directions, components * self._widths, strict=True):
            axpy(component, row, lifted)
        return lifted

    @property
    def longest_stretch(self) -> float:
        """Largest length of the components of a direction of length 1.

        One over the smallest width for orthonormal rows of equal widths; rows that are not may
        stretch a displacement more.
        """
        return float(np.linalg.norm(self.directions / self._widths[:, None], 2))

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"rows": self.rows.tolist(), "widths": list(self.widths)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Basis) and self.content() == other.content()

    def __hash__(self) -> int:
        return hash((self.rows.tobytes(), self.widths))

    @cached_property
    def directions(self) -> Matrix:
        """The rows as numbers."""
        return self.rows.astype(np.float64) * UNIT

    @cached_property
    def _widths(self) -> Vector:
        return np.array([float(width) for width in self.widths])


def check_basis(basis: Basis, n_inputs: int) -> None:
    """Refuse a basis that does not belong to the data."""
    if basis.rows.shape[1] != n_inputs:
        raise ReplearnError(
            f"basis must have {n_inputs} columns (features, and one for the intercept), got "
            f"{basis.rows.shape[1]}. Use the protocol on the columns that it was made for."
        )
