"""Coordinates in which a model is rounded, and how much labs differ in them.

Coefficients ``theta`` of correlated columns cannot be rounded one by one. Coordinates
``Z = C' theta L`` can: ``L L'`` is the second moment of the original's encoded rows, without
labels, and ``C C'`` the information of the constant model about its scores. Rounding each of them
by ``d`` costs about ``d^2 / 2`` nats in each row. Both triangles are published, as whole numbers.

Any invertible triangles would do: widths of cells are planned in the coordinates that are
published. So they are rounded coarsely, lest two studies that differ by one patient show the
patient: to eighths of what a column has of its own, given all others. One row of n moves an entry
by about ``1 / n`` of that, and a rounded one in about ``8 / n`` of the cases. Coordinates then
correlate by 0.04 or so, and of p columns cells become wider by a factor of about ``1 + p / 1500``.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from replearn.documents import Integers, Part, Unfit
from replearn.exact import algebra
from replearn.rows import THETA_BITS, integers
from replearn.types import Codes, Matrix, Vector

#: Entries of the triangles are whole numbers of units of 2^-14.
TRIANGLE_BITS = 14
#: Columns beyond which only the diagonal is published.
MOST_IN_TRIANGLE = 300

#: Steps in what a column has of its own, which is itself rounded to so many parts.
_STEPS, _PARTS = 8.0, 16.0

_LARGEST = 1 << 24


@dataclass(frozen=True)
class Coordinates(Part):
    """The published triangles.

    Attributes
    ----------
    scores : lower triangle over the scores
    columns : lower triangle over the columns, the constant first; None if there are too many
    scales : the diagonal alone, in that case
    """

    scores: Annotated[Codes, Integers(2, -_LARGEST, _LARGEST, 1 << 14, triangular=True)]
    columns: Annotated[Codes, Integers(2, -_LARGEST, _LARGEST, 1 << 17, triangular=True)] | None
    scales: Annotated[Codes, Integers(1, 1, _LARGEST, 1 << 16)] | None = None

    def check(self) -> None:
        """Both triangles must be invertible."""
        if (self.columns is None) == (self.scales is None):
            raise Unfit("must have either columns or scales, got both or none")
        for triangle in (self.scores, self.columns):
            if triangle is not None and not (np.diagonal(triangle) >= 1).all():
                raise Unfit("diagonals must be at least 1, so that the coordinates are invertible")

    @classmethod
    def of(cls, scores: Matrix, moments: Matrix | Vector, ridge: float) -> "Coordinates":
        """From the information about the scores and the second moments of a row.

        Of too many columns for a triangle mean squares are enough. The ridge, relative to the
        mean information, keeps the triangle away from singular.
        """
        weight = ridge / (algebra.total(np.diagonal(scores).copy()) / len(scores))
        penalty = np.append(0.0, np.full(len(moments) - 1, weight))
        of_scores = _whole(_coarse(algebra.cholesky(scores)))
        if moments.ndim == 1:
            return cls(of_scores, None, _whole(_four_bits(np.sqrt(moments + penalty))))

        steady = moments + np.diag(penalty)
        return cls(of_scores, _whole(_coarse(algebra.cholesky(steady, weight))))

    @property
    def n_columns(self) -> int:
        """Columns, with the constant."""
        return len(self.columns if self.columns is not None else self.scales)  # type: ignore[arg-type]

    @property
    def scores_factor(self) -> Matrix:
        """The triangle over the scores in float64."""
        return self.scores * np.float64(2.0**-TRIANGLE_BITS)

    def factors(self) -> tuple[Matrix, Matrix]:
        """Both triangles in float64."""
        columns = self.columns
        if columns is None:
            assert self.scales is not None
            columns = np.diag(self.scales)
        return self.scores_factor, columns * np.float64(2.0**-TRIANGLE_BITS)

    def of_theta(self, theta: Matrix) -> Vector:
        """Coordinates of coefficients in whole units of 2^-26: exact, then rounded once."""
        turned = integers(theta)
        if self.columns is None:
            turned = turned * integers(self.scales)
        else:
            turned = turned @ integers(self.columns)
        exact = integers(self.scores).T @ turned
        return exact.astype(np.float64).reshape(-1) * 2.0 ** -(2 * TRIANGLE_BITS + THETA_BITS)

    def to_theta(self, z: Vector) -> Matrix:
        """Coefficients, a row for each score, the constant first."""
        scores = self.scores_factor
        half = algebra.backward(scores.T, z.reshape(len(scores), -1))
        if self.scales is not None:  # without a matrix of all columns
            return half / (self.scales * 2.0**-TRIANGLE_BITS)
        return algebra.backward(self.factors()[1].T, half.T).T

    @property
    def diagonal(self) -> Vector:
        """What one score's coefficients are multiplied by, where only scales are published."""
        assert self.scales is not None
        return self.scores[0, 0] * self.scales * 4.0**-TRIANGLE_BITS


def _coarse(triangle: Matrix) -> Matrix:
    """A triangle that hardly tells of a single row: see the top of this module."""
    inverse = algebra.solve(triangle, np.eye(len(triangle)))
    own = 1.0 / np.sqrt(np.diagonal(inverse))  # at most the diagonal of the triangle
    steps = (_four_bits(own) / _STEPS)[:, None]
    return np.floor(triangle / steps + 0.5) * steps


def _four_bits(values: Vector) -> Vector:
    """Positive numbers, rounded to sixteenths of the next power of two."""
    fractions, exponents = np.frexp(values)
    return np.ldexp(np.floor(fractions * _PARTS + 0.5) / _PARTS, exponents)


def _whole(values: Matrix) -> Codes:
    units = np.floor(values * 2.0**TRIANGLE_BITS + 0.5).astype(np.int64)
    if units.ndim == 1:
        return np.maximum(units, 1)

    # a diagonal of at least 1 keeps the triangle invertible
    places = np.arange(len(units))
    units[places, places] = np.maximum(units[places, places], 1)
    return units
