"""Sizes of the fit that looks at all rows at once, in practical mode."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from replearn.errors import ReplearnError
from replearn.plans.sizes import Guarantee, RoundedPlan, Sizes, Spent
from replearn.plans.space_sizes import check_components, practical_space, weight_text

#: Regularisation over margin^2, if it is not set by hand: of .1 to 3 it needed the fewest rows on
#: populations with a decoy, and nearly so without one (docs/theory.md).
_WEIGHT = 0.3

#: Smaller ones are refused: vectors become so long that losses leave their range.
SMALLEST_WEIGHT = 1e-5

#: Share of ``max_error`` that rounding may cost; the rest is for the rows' own noise.
_ERROR_SHARE = 0.9

#: How far a solver may stop from the optimum, as a share of the distance at which labs disagree as
#: often as they may: it adds at most twice that share to the disagreement.
_DISTANCE_SHARE = 0.005

#: Margins of the population that the sizes are for, as multiples of the margin.
_WIDEST = 4.0
_LARGEST_MARGIN = 0.95
_POINTS = 64


@dataclass(frozen=True, kw_only=True)
class RowPlan(RoundedPlan):
    """Sizes of one regularised logistic fit on all rows, whose direction is rounded.

    Attributes
    ----------
    n_rows : int
        Rows that the promise needs; a fit uses all that it has.
    distance : str
        How far what is rounded may be from that of the exact minimum; relative to its length if
        that is 1.
    """

    n_rows: int
    distance: str

    @property
    def n_samples(self) -> int:
        """Rows that one lab needs for the promise."""
        return self.n_rows

    def _solver_line(self) -> str:
        return (
            f"  all rows         logistic loss, regularization {self.regularization}, solved to "
            f"{self.distance}"
        )

    def _spent_words(self, spent: Spent) -> str:
        passes = spent.n_row_visits // max(spent.n_rows, 1)
        return f"{passes:,} passes over them"


def plan_rows(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str = "practical",
    sizes: Sizes | None = None,
    constants: dict[str, float] | None = None,
) -> RowPlan:
    """Sizes of a logistic fit on all rows in place of the mean of batch SVMs: practical mode only.

    For a population with margins uniform from ``margin`` to four times as much, and the same spread
    in all other directions: the length b of ``margin * u`` there solves
    ``E t/(1 + e^(b t)) = b lambda/margin^2`` for t uniform from 1 to 4, the noise makes the error
    .9 ``max_error``, and the variance of a row's part is that of the sandwich formula. Measured
    in benchmarks/sample_cost.py.
    """
    sizes = sizes or Sizes()
    if mode != "practical":
        raise ReplearnError(
            f'estimate="rows" needs mode="practical", got mode={mode!r}: nothing is proved about '
            'its error. Use estimate="batches".'
        )
    if constants:
        raise ReplearnError(
            'constants belong to mode="paper", got estimate="rows". Leave constants out.'
        )
    for name in ("n_batches", "batch_size"):
        if getattr(sizes, name) is not None:
            raise ReplearnError(
                f'{name} belongs to estimate="batches", got estimate="rows", which has no '
                'batches. Leave it "auto".'
            )
    check_components(sizes, n_inputs)
    tau = guarantee.margin
    weight = weight_text(sizes, _WEIGHT * tau**2)
    if float(weight) < SMALLEST_WEIGHT:
        raise ReplearnError(
            f'regularization must be at least {SMALLEST_WEIGHT:g} with estimate="rows", got '
            f'{weight}. Raise it or the margin, or use estimate="batches".'
        )
    length, slope, curvature = _solution(tau, float(weight))
    noise = tau * length / _quantile(tau, _ERROR_SHARE * guarantee.max_error)
    common, spread = practical_space(guarantee, n_inputs, noise, sizes, length**2)
    variance = slope * (tau / (float(weight) + curvature / n_inputs)) ** 2
    return RowPlan(
        algorithm="svm",
        n_rows=max(1, math.ceil(2 * variance / spread**2)),
        regularization=weight,
        distance=f"{_DISTANCE_SHARE * spread:.2g}",
        **common,
    )


def _margins(tau: float) -> list[float]:
    """Margins of the population, as multiples of tau: points of a midpoint rule."""
    top = max(1.0, min(_WIDEST, _LARGEST_MARGIN / tau))
    return [1 + (top - 1) * (i + 0.5) / _POINTS for i in range(_POINTS)]


def _solution(tau: float, weight: float) -> tuple[float, float, float]:
    """Length of tau u on that population; means of squared slopes and of curvatures there."""
    margins, ratio = _margins(tau), weight / tau**2
    low, high = 0.0, 1.0 / ratio * _WIDEST
    for _ in range(60):
        length = (low + high) / 2
        pull = sum(t / (1 + math.exp(min(length * t, 700.0))) for t in margins) / _POINTS
        low, high = (length, high) if pull > ratio * length else (low, length)
    slopes = [1 / (1 + math.exp(min(length * t, 700.0))) for t in margins]
    squared = sum(p * p for p in slopes) / _POINTS
    return length, squared, sum(p * (1 - p) for p in slopes) / _POINTS


def _quantile(tau: float, error: float) -> float:
    """X with ``E Phi(-x t) = error`` over the margins t."""
    margins, tail = _margins(tau), NormalDist().cdf
    low, high = 0.0, 40.0
    for _ in range(60):
        x = (low + high) / 2
        turned = sum(tail(-x * t) for t in margins) / _POINTS
        low, high = (x, high) if turned > error else (low, x)
    return high
