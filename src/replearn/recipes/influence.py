"""How much the numbers of two labs differ: the influence of each row, in whole numbers.

The spread of a coordinate is the sandwich of its influences, with leverages taken out (HC3), and
raised to an upper confidence bound by the effective number of rows behind it. Sums of squares are
exact, so a study file has the same bytes on every machine.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from replearn.exact import algebra
from replearn.exact.rows import (
    MAX_ROW,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    marks,
    on_grid,
    pieces,
    scores,
    with_constant,
)
from replearn.losses import Loss
from replearn.types import Matrix, Vector

#: Influences are at most 2^22 units; their squares add up in int64.
_UNITS = 22
#: Rows beyond which a sample of them, by content, shows the spread.
MOST_ROWS = 1 << 18


@dataclass(frozen=True)
class Influence:
    """Spread of coordinates.

    Attributes
    ----------
    variance : array
        Of one row's influence: a coordinate of n rows has the variance ``variance / n``.
    effective : array
        Effective number of rows behind each coordinate: ``(sum I^2)^2 / sum I^4``.
    n_rows : int
        Rows of the lab (or groups, where rows come in groups).
    """

    variance: Vector
    effective: Vector
    n_rows: int

    @property
    def upper(self) -> Vector:
        """Upper confidence bound of the variance.

        The variance of a sum of squares with m effective terms is about 2/m of its square; three
        standard deviations and a term for the tails make ``1 + 3 sqrt(2/m) + 10/m``.
        """
        m = self.effective
        return self.variance * (1.0 + 3.0 * np.sqrt(2.0 / m) + 10.0 / m)

    def differences(self, n_here: float, n_there: float, upper: bool = True) -> Vector:
        """Standard deviation of the difference between two labs with so many rows."""
        variance = self.upper if upper else self.variance
        return np.sqrt(variance * (1.0 / n_here + 1.0 / n_there))


def influence_of(
    blocks: Iterable[Block],
    loss: Loss,
    theta: Matrix,
    information: Matrix,
    triangles: tuple[Matrix, Matrix],
    n_rows: int,
    weight: float,
) -> Influence:
    """Influence of rows on the coordinates of a fit.

    Parameters
    ----------
    blocks : iterable of Block
        If they have groups, influences add up within each.
    loss : Loss
    theta : array of shape (n_scores, n_columns)
        The fit, in whole units.
    information : array
        Mean information of a row with the ridge, over scores and columns.
    triangles : pair of arrays
        Of the coordinates: scores and columns.
    n_rows : int
    weight : float
        Sum of the rows' weights.
    """
    n_scores, n_columns = theta.shape
    lower = algebra.cholesky(information)
    turn = algebra.solve(lower, np.kron(*triangles)).T  # gradients to coordinates
    turn_whole, turn_unit = _whole(turn)
    inverse = [_Metric.of(_block(information, k, n_columns)) for k in range(n_scores)]
    unit = np.ldexp(1.0, np.frexp(_reach(turn))[1] - _UNITS)
    share = (1 << 32) if n_rows <= MOST_ROWS else (MOST_ROWS << 32) // n_rows
    squares = np.zeros(len(turn), dtype=object)
    fourths = np.zeros(len(turn), dtype=object)
    grouped: dict[object, np.ndarray] = {}
    n_seen, seen_weight = 0, 0.0
    for block in blocks:
        for piece in pieces(block, max(n_columns, len(turn))):
            X = with_constant(piece.terms)
            if share < 1 << 32:
                chosen = marks(X, salt=1) < share
                X, piece = X[chosen], piece.part(chosen)
            found = scores(X, theta, piece.offset)
            residual = loss.residual(found, piece.targets)
            curvature = loss.curvature(found)[:, _diagonal(n_scores)]
            mass = np.ones(len(found)) if piece.weights is None else piece.weights
            total = np.zeros((len(found), len(turn)))
            for k in range(n_scores):
                leverage = inverse[k].squared_lengths(X) * (curvature[:, k] * mass) / weight
                pull = residual[:, k] * mass / (1.0 - np.minimum(leverage, 0.9))
                turned = X @ turn_whole[:, k * n_columns : (k + 1) * n_columns].T
                total += turned * (turn_unit * 2.0**-ROW_BITS) * pull[:, None]
            whole = np.clip(np.floor(total / unit + 0.5), -(2.0**_UNITS), 2.0**_UNITS)
            n_seen += len(found)
            seen_weight += float((mass * 2.0**WEIGHT_BITS).sum())
            if piece.groups is None:
                _add(whole.astype(np.int64), squares, fourths)
            else:
                _gather(whole.astype(np.int64), piece.groups, grouped)
    if grouped:
        whole = np.array(list(grouped.values()))
        shift = max(int(np.abs(whole).max()).bit_length() - _UNITS, 0)  # squares stay in int64
        _add(whole >> shift, squares, fourths)
        unit = unit * 2.0**shift
    mean_weight = seen_weight * 2.0**-WEIGHT_BITS / n_seen
    second = squares.astype(np.float64)
    fourth = fourths.astype(np.float64) * 2.0 ** (2 * _UNITS)
    variance = second * unit * unit / n_seen / (mean_weight * mean_weight)
    effective = second * second / np.maximum(fourth, 1.0) * (n_rows / n_seen)
    return Influence(np.maximum(variance, 1e-30), np.maximum(effective, 1.0), n_rows)


def _diagonal(n_scores: int) -> np.ndarray:
    """Places of the pairs (k, k) among all pairs (k, l) with k <= l."""
    first, second = np.triu_indices(n_scores)
    return np.flatnonzero(first == second)


def _block(information: Matrix, k: int, n_columns: int) -> Matrix:
    part = slice(k * n_columns, (k + 1) * n_columns)
    return information[part, part]


def _whole(matrix: Matrix) -> tuple[Matrix, float]:
    """A matrix on a grid of 26 bits, so that its products with rows are exact."""
    largest = float(np.abs(matrix).max())
    unit = 2.0 ** (math.frexp(largest)[1] - THETA_BITS)
    return np.floor(matrix / unit + 0.5), unit


def _reach(matrix: Matrix) -> Vector:
    """The largest product that each row of a matrix can have with an encoded row."""
    return np.array([algebra.total(np.abs(row)) for row in matrix]) * (MAX_ROW * 2.0**-ROW_BITS)


@dataclass(frozen=True)
class _Metric:
    """Lengths of rows in the metric of an information matrix."""

    inverse: Matrix
    unit: float
    reach: float

    @classmethod
    def of(cls, information: Matrix) -> "_Metric":
        inverse = algebra.forward(algebra.cholesky(information), np.eye(len(information)))
        return cls(*_whole(inverse), 2.0 ** math.frexp(float(_reach(inverse).max()))[1])

    def squared_lengths(self, X: Matrix) -> Vector:
        turned = np.asarray(X @ self.inverse.T) * (self.unit * 2.0**-ROW_BITS / self.reach)
        whole = np.floor(turned * 2.0**24 + 0.5).astype(np.int64)
        # squares of at most 2^48, fewer than 2^15 of them: exact
        return (whole * whole).sum(axis=1).astype(np.float64) * (self.reach * 2.0**-24) ** 2


def _add(whole: np.ndarray, squares: np.ndarray, fourths: np.ndarray) -> None:
    """Add up squares, and squares of squares on a coarser grid."""
    for start in range(0, len(whole), 1 << 14):
        square = whole[start : start + (1 << 14)] ** 2
        squares += square.sum(axis=0).astype(object)
        coarse = square >> _UNITS
        fourths += (coarse * coarse).sum(axis=0).astype(object)


def _gather(whole: np.ndarray, groups: np.ndarray, grouped: dict[object, np.ndarray]) -> None:
    """Add influences up within groups."""
    names, places = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(names), whole.shape[1]), dtype=np.int64)
    np.add.at(sums, places, whole)
    for name, row in zip(names.tolist(), sums, strict=True):
        grouped[name] = grouped[name] + row if name in grouped else row
