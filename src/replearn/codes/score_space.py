"""The code space of logistic and linear regression in published directions."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.cells import padded_size, runs
from replearn.codes.decimals import Decimals, DecimalTable, number_table, numbers
from replearn.codes.hints import hinted
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import residual, round_codes, unround
from replearn.kernels.small_algebra import times
from replearn.types import Codes, Matrix, Vector


@dataclass(frozen=True)
class ScoreSpace:
    """A published map from integer codes to a regression, and the cells of the codes.

    A row x of ``n_features`` numbers is shortened to length ``cap`` if it is longer; with the
    directions D its log-odds are ``theta[0] + theta[1:] @ (D x)``. Codes stand for a cell of
    unit width. Its centre c is drawn towards 0, the start, to ``y = shrink * c``, but in each
    block of coordinates that are rounded together not further than a ball of the cell's volume
    reaches: not out of the cell, or hardly. Then ``theta = start + lift @ y``.

    Attributes
    ----------
    directions : Basis
        k published directions; their widths are not used.
    cap : str
        Longest row; a decimal number, like all numbers here.
    start : tuple of str
        q = k + 1 numbers: the published model, intercept first. With K > 2 classes K - 1 times as
        many, for one class after the other; the first class has the score 0.
    shrink : tuple of str
        q numbers from 0 to 1: how much of a centre is believed, next to what the start knows.
        Wide cells say little, so they should not carry a model far from its published start.
    lift : tuple of tuple of str
        From y to what is added to the start, q rows of q numbers.
    rounding : str
        A name in ``ROUNDINGS``.
    threshold : str
        Log-odds from which on a row gets the second label.
    hint_bits, hint : int
        ``2**hint_bits`` published moves of the grid, and the one that is used.
    target : tuple of str
        Of a linear regression: centre and width of the published range of its numbers, whose score
        is ``(y - centre) / width``. Nothing: the score is log-odds.
    """

    directions: Basis
    cap: str
    start: Decimals
    shrink: Decimals
    lift: DecimalTable
    rounding: str
    threshold: str = "0"
    hint_bits: int = 0
    hint: int = 0
    target: Decimals = ()

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return ({"target": list(self.target)} if self.target else {}) | {
            "cap": self.cap,
            "directions": self.directions.rows.tolist(),
            "hint": self.hint,
            "hint_bits": self.hint_bits,
            "lift": [list(row) for row in self.lift],
            "rounding": self.rounding,
            "shrink": list(self.shrink),
            "start": list(self.start),
            "threshold": self.threshold,
        }

    @property
    def n_inputs(self) -> int:
        """Length of a direction: features, and one more for the intercept."""
        return self.n_features + 1

    @property
    def n_features(self) -> int:
        """Numbers of an encoded row."""
        return int(self.directions.rows.shape[1])

    @property
    def n_components(self) -> int:
        """q: the numbers that are rounded."""
        return len(self.start)

    @property
    def n_outputs(self) -> int:
        """Scores of a row: one, or one for each of several classes after the first."""
        return self.n_components // (len(self.directions.rows) + 1)

    @property
    def is_numeric(self) -> bool:
        """Whether the score is a number to predict, and not log-odds of labels."""
        return bool(self.target)

    @property
    def target_range(self) -> tuple[float, float]:
        """Smallest and largest number, of a linear regression; others are cut to them."""
        centre, width = (float(number) for number in self.target)
        return centre - width / 2, centre + width / 2

    @property
    def target_in_words(self) -> str:
        """The range of the numbers, of a linear regression."""
        low, high = self.target_range
        return f"published range {low:g} to {high:g}"

    @property
    def n_classes(self) -> int:
        """Labels that a row may have; none, if a number is predicted."""
        return 0 if self.is_numeric else self.n_outputs + 1

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a classifier."""
        return padded_size(self.n_components, self.rounding)

    def by_output(self, theta: Vector) -> Matrix:
        """Intercept and weights of the directions of each class after the first."""
        return theta.reshape(-1, len(self.directions.rows) + 1)

    def with_hint(self, hint: int) -> "ScoreSpace":
        """The space under one of its moves."""
        return replace(self, hint=hint)

    def encode(self, components: Vector, shared: SharedRandomness) -> Codes:
        """Codes of q numbers, in cells of unit width."""
        return round_codes(components, 1.0, self.rounding, self._coins(shared))

    def residual(self, components: Vector, codes: Codes, shared: SharedRandomness) -> Vector:
        """Where q numbers lie in the cell of their codes, from its centre."""
        return residual(components, codes, 1.0, self.rounding, self._coins(shared))

    def theta(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Intercept and weights of the directions that stand for the codes; a fixed order."""
        centre = unround(codes, self.n_components, 1.0, self.rounding, self._coins(shared))
        return self.start_numbers + times(self._lift, self._drawn_in(centre))

    def decode(self, codes: Codes, shared: SharedRandomness) -> Vector | Matrix:
        """Weights of the features, and the intercept last; of several classes, by row."""
        return self.lifted(self.theta(codes, shared))

    def lifted(self, theta: Vector) -> Vector | Matrix:
        """Weights of the features of an intercept and weights of the directions.

        With more than two classes there is a row for each, the first of zeros.
        """
        if self.is_numeric:
            centre, width = (float(number) for number in self.target)
            theta = theta * width
            theta[0] += centre
        plain = replace(self.directions, widths=("1",) * self.directions.rows.shape[0])
        found = [np.append(plain.lift(row[1:]), row[0]) for row in self.by_output(theta)]
        return found[0] if len(found) == 1 else np.array([np.zeros_like(found[0]), *found])

    @cached_property
    def start_numbers(self) -> Vector:
        """The published model: intercept and weights of the directions."""
        return numbers(self.start)

    @cached_property
    def _shrink(self) -> Vector:
        return numbers(self.shrink)

    @cached_property
    def _lift(self) -> Matrix:
        return number_table(self.lift)

    def _drawn_in(self, centre: Vector) -> Vector:
        """A cell's centre, drawn towards the start by at most the cell's radius in each block."""
        pull = (1.0 - self._shrink) * centre
        for run in runs(self.rounding, self.n_components):
            block, radius = run.cell.block, run.cell.radius
            for first in range(run.start, run.start + run.n_components, block):
                part = pull[first : min(first + block, run.start + run.n_components)]
                total = 0.0
                for x in part.tolist():  # `sum` adds in another way from Python 3.12 on
                    total += x * x
                length = math.sqrt(total)
                if length > radius:
                    part *= radius / length
        return centre - pull

    def _coins(self, shared: SharedRandomness) -> SharedRandomness:
        return hinted(shared, self.hint_bits, self.hint)
