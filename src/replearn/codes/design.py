"""What a study of scores publishes: where to start, how to step, how to round."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from replearn.codes.decimals import Decimals, DecimalTable, number_table, numbers
from replearn.codes.score_space import ScoreSpace
from replearn.types import Matrix, Vector


@dataclass(frozen=True)
class Design:
    """Regression in published directions, before any site looks at its rows.

    A site starts at ``space.start``, takes ``n_steps`` Newton steps on its own rows, and rounds
    ``encode @ (theta - start)``, cut to ``+-reach``, in cells of unit width.

    Attributes
    ----------
    space : ScoreSpace
        Directions, start, cells, and how codes are read.
    encode : tuple of tuple of str
        From q numbers to cells: q rows of q decimal numbers.
    curvature : tuple of tuple of str
        With one step: the published matrix H that stands for the Fisher information, so that
        what is rounded is an affine function of a mean over rows. With more: not used.
    penalty : tuple of tuple of str
        Ridge towards the start: ``(theta - start)' penalty (theta - start) / 2`` is added to the
        mean loss. Part of ``curvature`` already.
    n_steps : int
    limits : tuple of int
        Exponents of two: the product of a row with direction j is cut to ``+-2**limits[j]`` in
        training, so that no single row can push far.
    pushes : tuple of str
        An entry of a row's score ``(p - t) (1, D x)`` is cut to this size: k + 1 numbers, for every
        class.
    reach : tuple of str
        Farthest from the start, in cells, that a coordinate may go.
    spread : tuple of str
        Standard deviation, in cells, of what two sites of ``samples_per_site`` rows differ by, as
        planned; decides which hint the first site publishes.
    samples_per_site : int
        Rows that the plan counts on.
    class_weights : tuple of str
        A number from 0 to 1 for each class, the largest 1: what a row of the class counts in the
        loss. None: all count the same.
    """

    space: ScoreSpace
    encode: DecimalTable
    curvature: DecimalTable
    penalty: DecimalTable
    n_steps: int
    limits: tuple[int, ...]
    pushes: Decimals
    reach: Decimals
    spread: Decimals
    samples_per_site: int
    class_weights: Decimals = ()

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        weights = {"class_weights": list(self.class_weights)} if self.class_weights else {}
        return weights | {
            "curvature": [list(row) for row in self.curvature],
            "encode": [list(row) for row in self.encode],
            "limits": list(self.limits),
            "n_steps": self.n_steps,
            "penalty": [list(row) for row in self.penalty],
            "pushes": list(self.pushes),
            "reach": list(self.reach),
            "samples_per_site": self.samples_per_site,
            "space": self.space.content(),
            "spread": list(self.spread),
        }

    @property
    def cap(self) -> float:
        """Longest row."""
        return float(self.space.cap)

    @cached_property
    def direction_rows(self) -> Matrix:
        """The published directions, one in each row."""
        return self.space.directions.directions

    @cached_property
    def units(self) -> Vector:
        """Largest size of the entries of ``(1, D x)``: powers of two."""
        return np.array([1.0, *(2.0**limit for limit in self.limits)])

    @cached_property
    def encode_numbers(self) -> Matrix:
        """From q numbers to cells."""
        return number_table(self.encode)

    @cached_property
    def curvature_numbers(self) -> Matrix:
        """The published curvature, penalty included."""
        return number_table(self.curvature)

    @cached_property
    def penalty_numbers(self) -> Matrix:
        """The ridge towards the start."""
        return number_table(self.penalty)

    @cached_property
    def push_numbers(self) -> Vector:
        """Largest size of an entry of a row's score, as it counts."""
        return np.minimum(numbers(self.pushes), self.units)

    @property
    def n_outputs(self) -> int:
        """Scores of a row: classes after the first, or 1."""
        return self.space.n_outputs

    @cached_property
    def class_factors(self) -> Vector | None:
        """What a row of each class counts in the loss; None: all the same."""
        return numbers(self.class_weights) if self.class_weights else None

    @cached_property
    def reach_numbers(self) -> Vector:
        """Farthest from the start, in cells."""
        return numbers(self.reach)

    @cached_property
    def spread_numbers(self) -> Vector:
        """Planned standard deviation of what two sites differ by, in cells."""
        return numbers(self.spread)
