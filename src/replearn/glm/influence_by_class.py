"""Influences on coefficients of many classes, by the information of each class alone.

Like `replearn.glm.influence`; a step of a score is the difference of steps of its class and of the
first one (see `replearn.glm.preconditioners`). Spreads are 0.95 to 1.1
times those of the whole matrix in the median, and 0.75 to 1.5 times in the worst cases, as
`tests/unit/test_many_classes.py` asks. Parts of an original's own rows check them, as all spreads.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from replearn.exact import algebra
from replearn.glm.derivatives import mean_parts
from replearn.glm.influence import (
    FINE_BITS,
    Influence,
    Metric,
    Moments,
    RowParts,
    add_pulls,
    influence_from,
    moments_of,
    on_bits,
)
from replearn.glm.losses import Loss
from replearn.glm.preconditioners import class_factors
from replearn.rows import ROW_BITS, Block, ExactSums, product
from replearn.types import Matrix, Vector

#: Numbers of the pulls at a piece that are in use at once: 2 MB, near the core; and rows at least,
#: since each piece costs a call for each class.
_AT_ONCE, _LEAST_ROWS = 1 << 18, 32


def influence_by_class(
    blocks: Iterable[Block],
    loss: Loss,
    theta: Matrix,
    sums: ExactSums,
    ridge: float,
    triangles: tuple[Matrix, Matrix],
    n_rows: int,
    weight: float,
) -> Influence:
    """As `influence_of`; ``sums`` have the information of each class at ``theta``."""
    lowers = class_factors(mean_parts(sums, loss, "classes"), ridge)
    pull = _ClassPull.of(theta, lowers, triangles, weight)
    return influence_from(moments_of(pull, blocks, loss), pull.unit, n_rows)


@dataclass(frozen=True)
class _ClassPull:
    """By the information of each class."""

    theta: Matrix
    turns: list[tuple[Matrix, float]]  # from gradients of each class to coordinates, on a grid
    metrics: list[Metric]  # of the classes that have scores
    of_scores: Matrix  # what each class does to each coordinate of scores, the first class too
    unit: Vector
    weight: float  # of all rows

    @classmethod
    def of(
        cls, theta: Matrix, lowers: Matrix, triangles: tuple[Matrix, Matrix], weight: float
    ) -> "_ClassPull":
        """From Cholesky's triangles of the classes."""
        scores, columns = triangles
        first = np.zeros(len(scores))
        for row in scores:
            first = first - row
        of_scores = np.vstack([first, scores])

        turns, predicted = [], np.zeros((len(scores), len(columns)))
        for lower, of_class in zip(lowers, of_scores, strict=True):
            half = algebra.forward_triangle(lower, columns)
            turns.append(on_bits(algebra.backward(lower.T, half)))
            own = np.array([algebra.dot(column, column) for column in half.T])
            predicted += np.square(of_class)[:, None] * own

        # units are powers of two, so that dividing by them is exact
        unit = np.ldexp(1.0, np.frexp(np.sqrt(predicted).reshape(-1))[1] - FINE_BITS)
        metrics = [Metric.of(lower) for lower in lowers[1:]]
        return cls(theta, turns, metrics, of_scores, unit, weight)

    @property
    def most_rows(self) -> int:
        """Each score has an array of all coordinates."""
        return max(_AT_ONCE // (len(self.theta) * self.theta.size), _LEAST_ROWS)

    def add(self, sums: Moments, loss: Loss, some: RowParts) -> None:
        """Add influences of some rows, and what the model predicts of them."""
        turned = [product(some.X, turn) * (step * 2.0**-ROW_BITS) for turn, step in self.turns]
        per_unit = 1.0 / self.unit.reshape(len(self.theta), -1)
        of_first = (self.of_scores[0][:, None] * per_unit) * turned[0][:, None, :]
        pulls = []
        for k, metric in enumerate(self.metrics):
            hc3 = metric.hc3(some, k, self.weight)
            # what its own class feels, and what the first class feels less
            own = (self.of_scores[k + 1][:, None] * per_unit) * turned[k + 1][:, None, :]
            own -= of_first
            own *= hc3[:, None, None]
            pulls.append(own.reshape(len(hc3), -1))
        add_pulls(sums, loss, some, pulls)
