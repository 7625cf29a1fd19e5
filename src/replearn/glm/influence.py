"""How much the numbers of two labs differ: the influence of each row, in whole numbers.

The spread of a coordinate is the sandwich of its influences, with leverages taken out (HC3), or
what the model itself predicts, whichever is larger. Cells are wider where few effective rows
stand behind a coordinate. Sums of squares are exact, so a study file has the same bytes on every
machine.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from replearn.exact import algebra
from replearn.glm.losses import Loss, means_of, own_pairs
from replearn.rows import (
    MAX_ROW,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    LevelRows,
    most_rows,
    on_grid,
    product,
    scores,
    with_constant,
)
from replearn.types import Matrix, Vector, is_sparse

#: Influences have units of 2^-12 of what the model predicts, and are at most 2^22 units.
FINE_BITS, LARGEST = 12, 2.0**22
#: Squares are taken to their own square in units of 2^20, so that sums stay in int64.
COARSE_BITS = 20
#: Arrays of the size of a piece that are in use at once.
_AT_ONCE = 16
#: Columns of a product with a triangle.
_STRIP = 64
#: Of cells variances are taken ``1 + 10/m`` times, m being the effective rows at the smaller lab;
#: ``1 + 3/m`` times where the model predicts them. Found by counting pairs of labs, equal and
#: unequal (``benchmarks/performance.py``), and not derived.
_TAIL_SEEN, _TAIL_EXPECTED = 10.0, 3.0


def upper_variance_factor(m: Any) -> Any:
    """Upper confidence bound of a variance that m effective terms show, as a factor.

    The variance of a sum of squares is about 2/m of its square; three standard deviations and a
    term for the tails make ``1 + 3 sqrt(2/m) + 10/m``.
    """
    m = np.maximum(m, 0.1)
    return 1.0 + 3.0 * np.sqrt(2.0 / m) + 10.0 / m


@dataclass(frozen=True)
class Influence:
    """Spread of coordinates: a coordinate of n rows has the variance ``variance / n``.

    Attributes
    ----------
    observed, expected : array
        Variance of one row's influence: what rows show, and what the model itself predicts.
    m_observed, m_expected : array
        Effective numbers of rows behind each: ``(sum I^2)^2 / sum I^4``.
    n_rows : int
        Rows of the lab (or groups, where rows come in groups).
    """

    observed: Vector
    expected: Vector
    m_observed: Vector
    m_expected: Vector
    n_rows: int

    @property
    def variance(self) -> Vector:
        """Of one row's influence."""
        return np.maximum(np.maximum(self.observed, self.expected), 1e-30)

    @property
    def effective(self) -> Vector:
        """Effective number of rows behind each coordinate."""
        most = np.where(self.expected > self.observed, self.m_expected, self.m_observed)
        return np.maximum(most, 1.0)

    def differences(self, n_here: float, n_there: float, upper: bool) -> Vector:
        """Standard deviation of the difference between two labs with so many rows.

        With ``upper`` it is wider by what few effective rows at the smaller lab do to tails.
        """
        variance = self.variance
        if upper:
            share = min(1.0, n_there / self.n_rows)
            m_observed = np.maximum(share * self.m_observed, 0.1)
            m_expected = np.maximum(share * self.m_expected, 0.1)

            observed = self.observed * (1.0 + _TAIL_SEEN / m_observed)
            expected = self.expected * (1.0 + _TAIL_EXPECTED / m_expected)
            variance = np.maximum(np.maximum(observed, expected), 1e-30)
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
    """Influence of rows on the coordinates of a fit, ``theta`` in whole units.

    ``blocks`` are all rows or a sample; if they have groups, influences add up within each.
    ``information`` is the mean of a row with the ridge, ``triangles`` are those of the coordinates
    (scores, columns), ``n_rows`` and ``weight`` those of all rows.
    """
    pull = _Pull.of(loss, theta, information, triangles, weight)
    return influence_from(moments_of(pull, blocks, loss), pull.unit, n_rows)


def moments_of(pull: "Pull", blocks: Iterable[Block], loss: Loss) -> "Moments":
    """One pass: moments of what each row does to each coordinate."""
    moments = Moments.none(len(pull.unit), loss.n_scores)
    for block in blocks:
        # sparse rows are dense once they pull
        most = pull.most_rows
        for start in range(0, block.n_rows, most):
            moments.add(loss, pull, block.part(slice(start, start + most)))
    return moments


def influence_from(sums: "Moments", unit: Vector, n_rows: int) -> Influence:
    """Influences in units, from moments of rows; ``n_rows`` are all that there are."""
    # 1 rows of one group move a fit together
    seen, design_effect = sums.seen, 1.0
    if sums.grouped:
        seen = _of_groups(sums.grouped)
        alone = max(1, sum(map(int, sums.seen.second)))
        design_effect = max(1.0, sum(map(int, seen.second)) / alone)
    dispersion = _dispersion(sums)

    # 2 from units of the sums to the variance of one row
    mean_weight = sums.weight * 2.0**-WEIGHT_BITS / sums.n_rows
    scale = unit * unit / sums.n_rows / (mean_weight * mean_weight)
    observed = seen.second.astype(np.float64) * scale
    expected = sums.likely.second.astype(np.float64) * scale * dispersion * design_effect

    # 3 effective rows of all rows; events that come together count less
    per_sampled = n_rows / sums.n_rows
    m_observed = seen.effective(sums.n_rows) * per_sampled
    m_expected = sums.likely.effective(sums.n_rows) * per_sampled
    m_expected /= design_effect * max(1.0, dispersion)
    return Influence(observed, expected, m_observed, m_expected, n_rows)


def _of_groups(grouped: dict[object, np.ndarray]) -> "SquareSums":
    """Moments of the influences of groups."""
    influences = np.array(list(grouped.values()))
    shift = max(int(np.abs(influences).max()).bit_length() - 22, 0)  # squares stay in int64
    return SquareSums.none(influences.shape[1]).add_whole(influences >> shift, shift)


def _dispersion(sums: "Moments") -> float:
    """Squares of residuals, beside what the model predicts of them.

    Counts often vary more than a Poisson law predicts, and numbers have their own variance.
    Classes that are nearly separable have fewer errors than a fit with a ridge predicts.
    """
    dispersion = float(sums.misfit.second.sum()) / max(float(sums.noise.second.sum()), 1.0)
    upper = dispersion * float(upper_variance_factor(sums.misfit.effective().min()))
    # residuals make cells narrower only where they are surely smaller
    if upper < 1.0:
        return upper
    return max(1.0, dispersion)


@dataclass(frozen=True)
class RowParts:
    """What a pass has of some rows: their terms, residuals, curvatures and masses."""

    X: Any
    residual: Matrix
    curvature: Matrix  # of each score with itself
    mass: Vector
    means: Matrix  # residuals at targets of 0
    groups: Any


class Pull(Protocol):
    """How residuals of a row pull at the coordinates of a fit."""

    @property
    def theta(self) -> Matrix:
        """The fit, in whole units."""

    @property
    def unit(self) -> Vector:
        """Of influences on each coordinate."""

    @property
    def most_rows(self) -> int:
        """Rows whose pulls are in use at once."""

    def add(self, sums: "Moments", loss: Loss, some: RowParts) -> None:
        """Add influences of some rows, and what the model predicts of them."""


@dataclass(frozen=True)
class _Pull:
    """By the whole information matrix."""

    theta: Matrix
    turn: Matrix  # from gradients to coordinates in units, on grids
    turn_unit: float
    metrics: "list[Metric]"  # in which leverages are lengths, one for each score
    unit: Vector
    weight: float  # of all rows

    @classmethod
    def of(
        cls,
        loss: Loss,
        theta: Matrix,
        information: Matrix,
        triangles: tuple[Matrix, Matrix],
        weight: float,
    ) -> "_Pull":
        """From the information matrix at ``theta``."""
        # coordinates are triangles times theta, which a gradient moves by the inverse information
        lower = algebra.cholesky(information)
        triangle = np.asarray(np.kron(*triangles), dtype=np.float64)
        half = algebra.forward_triangle(lower, triangle)
        turn, turn_unit = on_bits(algebra.backward(lower.T, half).T)

        # leverages of a score come from its own block of the information
        own = [lower]
        if loss.n_scores > 1:
            parts = [slice(k, k + theta.shape[1]) for k in range(0, theta.size, theta.shape[1])]
            own = [algebra.cholesky(information[part, part]) for part in parts]
        metrics = [Metric.of(lower) for lower in own]

        # units are powers of two, so that dividing by them is exact
        predicted = np.sqrt([algebra.dot(column, column) for column in half.T])
        unit = np.ldexp(1.0, np.frexp(predicted)[1] - FINE_BITS)
        turn /= unit[:, None]
        return cls(theta, turn, turn_unit, metrics, unit, weight)

    @property
    def most_rows(self) -> int:
        """Many arrays of this size are made of a piece, which should stay in the cache together."""
        return most_rows(_AT_ONCE * max(self.theta.shape[1], len(self.unit)))

    def add(self, sums: "Moments", loss: Loss, some: RowParts) -> None:
        """Add influences of some rows, and what the model predicts of them."""
        n_columns = self.theta.shape[1]
        pulls = []
        for k, metric in enumerate(self.metrics):
            factor = metric.hc3(some, k, self.weight) * (self.turn_unit * 2.0**-ROW_BITS)

            # in place: these are the largest arrays of a piece
            turned = product(some.X, self.turn[:, k * n_columns : (k + 1) * n_columns].T)
            turned *= factor[:, None]
            pulls.append(turned)
        add_pulls(sums, loss, some, pulls)


@dataclass
class Moments:
    """What is added up over rows."""

    seen: "SquareSums"  # influences of single rows, and what the model predicts of them
    likely: "SquareSums"
    misfit: "SquareSums"  # residuals, and what the model predicts of them
    noise: "SquareSums"
    grouped: dict[object, np.ndarray]
    n_rows: int = 0
    weight: int = 0

    @classmethod
    def none(cls, n_numbers: int, n_scores: int) -> "Moments":
        """Of no rows."""
        of_numbers, of_scores = SquareSums.none(n_numbers), SquareSums.none(n_scores)
        return cls(of_numbers, of_numbers, of_scores, of_scores, {})

    def add(self, loss: Loss, pull: Pull, piece: Block) -> None:
        """Add some rows."""
        X = piece.terms
        if not isinstance(X, LevelRows) and not is_sparse(X):
            X = with_constant(X)
        eta = scores(X, pull.theta, piece.offset)
        residual = loss.residual(eta, piece.targets)
        curvature = loss.curvature(eta)[:, own_pairs(loss)]
        mass = piece.masses

        # what each row does to each coordinate, as it is and as the model predicts it
        means = means_of(loss, eta)
        pull.add(self, loss, RowParts(X, residual, curvature, mass, means, piece.groups))

        # how far residuals are from what the model predicts
        missed = on_grid(residual * mass[:, None], loss.bits)
        self.misfit = self.misfit.add_whole(missed.astype(np.int64))
        square = curvature * (mass * mass)[:, None] * 4.0**loss.bits
        self.noise = self.noise.add(square, np.zeros_like(square))

        self.n_rows += len(eta)
        self.weight += piece.weight


def add_pulls(sums: Moments, loss: Loss, some: RowParts, pulls: list[Matrix]) -> None:
    """Add what residuals of some rows do, and what the model predicts of them."""
    influences = _influences(pulls, some.residual)
    sums.seen = sums.seen.add_whole(influences)
    sums.likely = sums.likely.add(*loss.expected(some.means, pulls))
    if some.groups is not None:
        _gather(influences, some.groups, sums.grouped)


def _influences(pulls: list[Matrix], residual: Matrix) -> np.ndarray:
    """Of rows on coordinates, in whole units."""
    total = pulls[0] * residual[:, :1]
    part = np.empty_like(total)
    for k, of_score in enumerate(pulls[1:], 1):
        total += np.multiply(of_score, residual[:, k, None], out=part)

    # round and cut in place
    total += 0.5
    np.floor(total, out=total)
    return np.clip(total, -LARGEST, LARGEST, out=total).astype(np.int64)


@dataclass(frozen=True)
class SquareSums:
    """Exact sums of squares, and of squares of squares in units of 2^40."""

    second: np.ndarray
    fourth: np.ndarray

    @classmethod
    def none(cls, n_numbers: int) -> "SquareSums":
        """Of no rows."""
        zero = np.zeros(n_numbers, dtype=object)
        return cls(zero, zero)

    def __add__(self, other: "SquareSums") -> "SquareSums":
        return SquareSums(self.second + other.second, self.fourth + other.fourth)

    def effective(self, most: float = math.inf) -> Vector:
        """Effective number of terms in each sum, never more than there are.

        Where influences are below the grid, as in a column that follows from others, squares of
        squares are 0.
        """
        second, fourth = (sums.astype(np.float64) for sums in (self.second, self.fourth))
        effective = second * second / np.maximum(fourth * 4.0**COARSE_BITS, 1.0)
        return np.clip(effective, 0.01, most)

    def add_whole(self, whole: np.ndarray, shift: int = 0) -> "SquareSums":
        """With the influences of some rows, in units of 2^shift."""
        second, fourth = self.second, self.fourth
        # so few at a time that int64 holds their sums, which are then added up without a bound
        for start in range(0, len(whole), 1 << 14):
            square = whole[start : start + (1 << 14)] ** 2
            coarse = square >> COARSE_BITS
            second = second + square.sum(axis=0).astype(object) * (1 << 2 * shift)
            fourth = fourth + (coarse * coarse).sum(axis=0).astype(object) * (1 << 4 * shift)
        return SquareSums(second, fourth)

    def add(self, second: Matrix, fourth: Matrix) -> "SquareSums":
        """With the moments of some rows, at most 2^14 of them."""
        squares = np.floor(np.minimum(second, LARGEST**2) + 0.5).astype(np.int64)
        coarse = np.minimum(fourth * 2.0 ** (-2 * COARSE_BITS), 2.0**48)
        fourths = np.floor(coarse + 0.5).astype(np.int64)
        return SquareSums(
            self.second + squares.sum(axis=0).astype(object),
            self.fourth + fourths.sum(axis=0).astype(object),
        )


def on_bits(matrix: Matrix, bits: int = THETA_BITS) -> tuple[Matrix, float]:
    """A matrix on a grid of so many bits, so that its products with rows are exact."""
    largest = float(np.abs(matrix).max())
    unit = 2.0 ** (math.frexp(largest)[1] - bits)
    return np.floor(matrix / unit + 0.5), unit


@dataclass(frozen=True)
class Metric:
    """Lengths of rows in the metric of an information matrix."""

    inverse: Matrix
    unit: float
    reach: float

    @classmethod
    def of(cls, lower: Matrix) -> "Metric":
        """From the triangle of that matrix."""
        inverse = algebra.inverse(lower)
        # the largest product that a row of it can have with an encoded row, up to a power of two
        reach = max(algebra.total(np.abs(row)) for row in inverse) * (MAX_ROW * 2.0**-ROW_BITS)
        return cls(*on_bits(inverse), 2.0 ** math.frexp(reach)[1])

    def hc3(self, some: RowParts, k: int, weight: float) -> Vector:
        """What rows weigh with their leverages in a score taken out; ``weight`` is of all rows."""
        leverage = self.squared_lengths(some.X) * (some.curvature[:, k] * some.mass) / weight
        return some.mass / (1.0 - np.minimum(leverage, 0.9))

    def squared_lengths(self, X: Any) -> Vector:
        """Of some rows."""
        total = np.zeros(X.shape[0], dtype=np.int64)
        for turned in self._turned(X):
            turned *= self.unit * 2.0 ** (24 - ROW_BITS) / self.reach
            turned += 0.5
            whole = np.floor(turned, out=turned).astype(np.int64)
            whole *= whole
            total += whole.sum(axis=1)
        # squares of at most 2^48, fewer than 2^15 of them: exact
        return total.astype(np.float64) * (self.reach * 2.0**-24) ** 2

    def _turned(self, X: Any) -> Iterator[Matrix]:
        """Rows times the inverse, some columns at a time: of a triangle, without its zeros."""
        if not isinstance(X, np.ndarray):
            yield product(X, self.inverse.T)
            return
        for start in range(0, X.shape[1], _STRIP):
            stop = start + _STRIP
            yield X[:, :stop] @ self.inverse[start:stop, :stop].T


def _gather(whole: np.ndarray, groups: np.ndarray, grouped: dict[object, np.ndarray]) -> None:
    """Add influences up within groups."""
    names, places = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(names), whole.shape[1]), dtype=np.int64)
    np.add.at(sums, places, whole)
    for name, row in zip(names.tolist(), sums, strict=True):
        grouped[name] = grouped.get(name, 0) + row
