"""The code space of a net: an index among candidates that are made on the fly."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.basis import Basis
from replearn.codes.nets import lattice_volumes
from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from replearn.kernels import error_counts as kernel
from replearn.types import Codes, IntegerArray, Matrix, Vector

Candidates = NDArray[np.float32]


@dataclass(frozen=True)
class NetSpace:
    """A net of directions: what turns an index into a direction.

    Attributes
    ----------
    n_inputs : int
        Length of a direction (features, and one more for the intercept).
    projection : str
        A name in ``PROJECTIONS``; "published" uses ``basis``.
    n_components : int
        Of a candidate.
    net : {"random", "lattice"}
    n_candidates : int
        Indices run from 0 to ``n_candidates - 1``.
    radius : str
        Of the lattice net, as a decimal; empty for the random net.
    basis : Basis or None
        Published directions, for the projection "published".
    """

    n_inputs: int
    projection: str
    n_components: int
    net: str
    n_candidates: int
    radius: str = ""
    basis: Basis | None = None

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        content: dict[str, Any] = {
            "n_candidates": self.n_candidates,
            "n_components": self.n_components,
            "net": self.net,
            "projection": self.projection,
        }
        if self.basis is not None:
            content["basis"] = self.basis.content()
        return content | {"radius": self.radius} if self.radius else content

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a classifier: the index."""
        return 1

    def candidates(self, indices: IntegerArray, shared: SharedRandomness) -> Candidates:
        """The candidates with these indices, as rows."""
        out = np.empty((indices.size, self.n_components), dtype=np.float32)
        if self.net == "lattice":
            kernel.fill_lattice(indices, lattice_volumes(self.n_components, self.radius), out)
        else:
            kernel.fill_directions(indices, *shared.key("net/candidates"), out)
        return out

    def decode(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Direction of a candidate: a function of its index and of coins alone."""
        candidate = self.candidates(codes, shared)[0].astype(np.float64)
        return self._lifted(candidate, shared)

    def matrix(self, shared: SharedRandomness) -> Matrix:
        """The projection, transposed: shape (n_inputs, n_components)."""
        axes = np.eye(self.n_components)
        return np.stack([self._lifted(axis, shared) for axis in axes], axis=1)

    def _lifted(self, components: Vector, shared: SharedRandomness) -> Vector:
        if self.basis is not None:
            return self.basis.lift(components)
        return PROJECTIONS[self.projection].lift(components, self.n_inputs, shared)
