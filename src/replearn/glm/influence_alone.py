"""Influences of rows with thousands of sparse columns, nearly all alone beside the constant.

The inverse information of 5,000 columns takes minutes, and a gigabyte; its first row and diagonal
take one pass over what is stored. The columns that most rows tell of are looked at together: they
share more with each other than a ridge outweighs.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.exact import algebra
from replearn.glm.coordinates import MOST_IN_TRIANGLE, Coordinates
from replearn.glm.derivatives import mean_information, mean_parts, sums_at
from replearn.glm.influence import (
    COARSE_BITS,
    FINE_BITS,
    LARGEST,
    Influence,
    Moments,
    RowParts,
    SquareSums,
    influence_from,
    influence_of,
    moments_of,
    on_bits,
)
from replearn.glm.losses import Loss
from replearn.glm.preconditioners import schur_complements
from replearn.rows import (
    COARSE,
    COARSE_SHIFT,
    EVERY_ROW,
    MAX_BLOCK,
    ROW_BITS,
    Block,
    column_sums,
    integers,
    scores,
    sparse_rows,
)
from replearn.types import Codes, Matrix, Vector

#: Bits of what a column adds to a leverage: 2^20 of its square, and 2^13 columns, are below 2^53.
_LEVERAGE_BITS = 20


def influence_alone(
    block: Block,
    loss: Loss,
    theta: Matrix,
    ridge: float,
    coordinates: Coordinates,
    n_rows: int,
    weight: float,
) -> Influence:
    """Influence of sparse rows on coordinates that are coefficients times scales.

    There is one score. ``n_rows`` and ``weight`` are those of all rows.
    """
    # 0 each column alone
    sums = sums_at([block], loss, theta, EVERY_ROW, "alone")
    first, diagonal = mean_parts(sums, loss, "alone")[0]
    pull = _AlonePull.of(theta, first, diagonal, ridge, coordinates.diagonal, weight)
    alone = influence_from(
        pull.with_zeros(moments_of(pull, [block], loss), loss), pull.unit, n_rows
    )

    # 1 those with the most information together, given the scores of the others
    _, _, complement = schur_complements(first, diagonal, ridge)
    top = np.sort(np.argsort(-complement, kind="stable")[:MOST_IN_TRIANGLE])
    places = np.append(0, top + 1)
    rest = theta.copy()
    rest[:, places] = 0.0
    terms = block.terms[:, top]
    some = replace(block, terms=terms, offset=scores(block.terms, rest, block.offset)[:, 0])
    information = mean_information(sums_at([some], loss, theta[:, places], EVERY_ROW), loss, ridge)
    scales = np.diag(coordinates.diagonal[places])
    together = influence_of(
        [some], loss, theta[:, places], information, (np.eye(1), scales), n_rows, weight
    )
    return _wider(alone, together, places)


def _wider(alone: Influence, together: Influence, places: Codes) -> Influence:
    """The larger variance of each coordinate, with the rows behind it."""
    is_wider = together.variance > alone.variance[places]
    found = {}
    for name in ("observed", "expected", "m_observed", "m_expected"):
        values = getattr(alone, name).copy()
        values[places[is_wider]] = getattr(together, name)[is_wider]
        found[name] = values
    return replace(alone, **found)


@dataclass(frozen=True)
class _AlonePull:
    """By what each column has beside the constant: a row x pulls at it by ``(x - slope) gain``."""

    theta: Matrix
    unit: Vector
    slope: Vector
    gain: Vector  # of a residual of 1, in units
    constant: float  # what the constant's coordinate feels of a row without columns, in units
    from_columns: Matrix  # what it feels less for columns, on a grid
    leverage: float  # of a row without columns
    of_squares: Matrix  # what squares and cells add to it, on grids
    steps: tuple[float, float, float]  # of the three grids
    weight: float
    most_rows: int = MAX_BLOCK

    @classmethod
    def of(
        cls,
        theta: Matrix,
        first: Vector,
        diagonal: Vector,
        ridge: float,
        scales: Vector,
        weight: float,
    ) -> "_AlonePull":
        """From the first row and the diagonal of the mean information."""
        pivot, slope, complement = schur_complements(first, diagonal, ridge)
        share = slope / complement
        without = 1.0 / pivot + algebra.dot(slope, share)  # the constant's own inverse

        # units are powers of two, so that dividing by them is exact
        predicted = scales * np.sqrt(np.append(without, 1.0 / complement))
        unit = np.ldexp(1.0, np.frexp(predicted)[1] - FINE_BITS)
        gain = scales[1:] / complement / unit[1:]
        at_constant = scales[0] / float(unit[0])

        from_columns, step = on_bits(share[:, None] * at_constant)
        squares, square_step = on_bits(1.0 / complement[:, None], _LEVERAGE_BITS)
        cells, cell_step = on_bits(2.0 * share[:, None], _LEVERAGE_BITS)
        return cls(
            theta,
            unit,
            slope,
            gain,
            without * at_constant,
            from_columns,
            without,
            np.hstack([squares, cells]),
            (step, square_step, cell_step),
            weight,
        )

    def add(self, sums: Moments, loss: Loss, some: RowParts) -> None:
        """Add influences of stored cells, and what the model predicts of them."""
        mass = some.mass
        # with the length t of a row among all others HC3 divides by 1 - t / (1 + t)
        length = self._lengths(some) * some.curvature[:, 0] * mass / self.weight
        hc3 = mass * (1.0 + np.minimum(length, 9.0))
        moved = np.square(some.residual[:, 0] * hc3)
        second, fourth = (part[:, 0] for part in loss.expected(some.means, [hc3[:, None]]))

        # the constant feels every row
        cells = some.X.astype(np.float64) @ self.from_columns
        at_constant = self.constant - cells * (self.steps[0] * 2.0**-ROW_BITS)
        square = np.square(at_constant)

        # squares of influences as they are, and as the model predicts them
        light = np.square(mass / hc3)  # zeros count without what the row weighs more: see below
        for name, twice, four_times in (
            ("seen", moved, np.square(moved)),
            ("likely", second, fourth),
        ):
            constant = SquareSums.none(1).add(
                square * twice[:, None], np.square(square) * four_times[:, None]
            )
            columns = self._of_cells(some.X, twice, four_times, light)
            setattr(sums, name, getattr(sums, name) + _beside(constant, columns))

    def _lengths(self, some: RowParts) -> Vector:
        """Squared lengths of rows in the inverse information."""
        X = some.X
        coarse = np.floor(X.data * (1.0 / COARSE) + 0.5)
        squared, cells = (
            sparse_rows(data, X.indices, X.indptr, X.shape) for data in (coarse * coarse, coarse)
        )
        unit = 2.0 ** (COARSE_SHIFT - ROW_BITS)
        _, square_step, cell_step = self.steps
        of_squares = squared @ self.of_squares[:, 0] * (square_step * unit * unit)
        of_cells = cells @ self.of_squares[:, 1] * (cell_step * unit)
        return self.leverage + of_squares - of_cells

    def _of_cells(self, X: Any, second: Vector, fourth: Vector, light: Vector) -> SquareSums:
        """Over stored cells x, ``((x - s) g)^2 - (s g)^2`` times second, and of fourth powers."""
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        slope, gain = self.slope[X.indices], self.gain[X.indices]
        here = np.square((X.data * 2.0**-ROW_BITS - slope) * gain)
        zero = np.square(slope * gain) * light[rows]
        squares = (here - zero) * second[rows]
        fourths = (np.square(here) - np.square(zero)) * fourth[rows] * 4.0**-COARSE_BITS

        sums = []
        ones = np.ones((X.shape[0], 1), dtype=np.int64)
        for values, most in ((squares, LARGEST**2), (fourths, 2.0**48)):
            whole = np.floor(np.clip(values, -most, most) + 0.5).astype(np.int64)
            cells = sparse_rows(whole, X.indices, X.indptr, X.shape)
            sums.append(integers(column_sums(cells, ones)[0]))
        return SquareSums(*sums)

    def with_zeros(self, sums: Moments, loss: Loss) -> Moments:
        """With the influence that each row has on columns in which it is 0.

        Residuals of all rows say it, without what single rows weigh more.
        """
        base = np.append(0.0, self.slope * self.gain)
        second = float(sums.misfit.second[0]) * 4.0**-loss.bits
        fourth = float(sums.misfit.fourth[0]) * 16.0**-loss.bits
        expected = float(sums.noise.second[0]) * 4.0**-loss.bits
        sums.seen = sums.seen + _scaled(base, second, fourth)
        sums.likely = sums.likely + _scaled(base, expected, fourth)
        return sums


def _beside(constant: SquareSums, columns: SquareSums) -> SquareSums:
    return SquareSums(
        np.append(constant.second, columns.second), np.append(constant.fourth, columns.fourth)
    )


def _scaled(base: Vector, second: float, fourth: float) -> SquareSums:
    """Moments of a residual, times a factor for each column."""
    square = base * base
    return SquareSums(
        integers(np.floor(square * second + 0.5)),
        integers(np.floor(square * square * fourth + 0.5)),
    )
