"""How much the truth differs from centre to centre, beyond what rows explain.

Lab l has coefficients of its own, ``theta + delta_l``. In the coordinates of a study, where a
difference of d costs ``d^2 / 2`` nats a row, ``delta_l`` has the standard deviation tau. An
original of K centres and a new centre then differ, besides the errors of their rows, by a number of
variance ``tau^2 (1 + 1/K)``: an added variance, which more rows do not make smaller.

What is known of tau is always used in one way. Nothing known: centres are *typical*. Centres in the
original's table, or labs of a joint original: moments, shrunk towards the typical values.

From K centres nothing can be promised about a next one without an assumption: if all K + 1 are
exchangeable, the next is the furthest of all with probability 1 / (K + 1). And a centre that is
unlike the others is so in many numbers at once: other patients, other codes, a unit. So a new
centre has one *size* s for all its numbers, ``delta ~ N(0, s^2 tau^2)``, and its law is assumed:
Student's with four degrees of freedom, ``4 / s^2 ~ chi^2_4``, so that ``P[size <= s] = (1 + 2 /
s^2) exp(-2 / s^2)``. Sizes are rounded up to a power of two, since K such centres show less than
their root mean square more often than not: most are 1 or 2, some 4, few more. Given the size all is
normal, and the chance to leave some cell is a sum over six sizes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.codes import chance_of_any, chance_of_leaving, least_number
from replearn.errors import is_real
from replearn.glm.coordinates import Coordinates
from replearn.types import Mask, Matrix, Vector

#: Typical centres: standard deviations of the mean score (in log-odds, log-rates or spreads of the
#: target), and of each slope in its coordinate. Base risks of 90 hospitals had 0.18; slopes of
#: public tables by centre had medians of 0 to 0.03.
TYPICAL = (0.2, 0.03)
#: Strong slopes differ more: by this share of themselves. It is the standard deviation of
#: calibration slopes between centres; the likelihood of three public tables, two of flights and one
#: of patients, is largest at 0.08 to 0.1. Typical centres leave it out: widths that follow from
#: nothing but a model's own numbers would tell them to whoever reads the study.
PROPORTIONAL = 0.1
#: Sizes of new centres, in what K centres showed, and how many of 100,000 centres have each.
SIZES = (1, 2, 4, 8, 16, 32)
SHARES = (40_601, 50_379, 8_301, 671, 45, 3)
#: Degrees of freedom that the typical values are worth beside those of centres.
_PRIOR_FREEDOM = 4


@dataclass(frozen=True)
class Between:
    """Differences between centres, beside the sampling error of their rows.

    Attributes
    ----------
    deviations : array
        Standard deviation of a new centre's difference from the original, in each number.
    n_centres : int
        That showed it; 1: typical, or given by hand; 0: all labs sample one population.
    """

    deviations: Vector
    n_centres: int

    def sizes(self) -> list[tuple[float, float]]:
        """How much a new centre may differ, in ``deviations``, each with its probability.

        Typical centres, and those given by hand, differ as they are stated to.
        """
        if self.n_centres < 2:
            return [(1.0, 1.0)]
        return [(size, share / sum(SHARES)) for size, share in zip(SIZES, SHARES, strict=True)]

    def with_sampling(self, sampling: Vector, size: float = 1.0) -> Vector:
        """Standard deviations with those of rows, at a centre of some size."""
        return np.sqrt(sampling**2 + (size * self.deviations) ** 2)

    def chance_of_leaving(
        self, widths: Vector, bits: int, sampling: Vector, residual: Vector | None = None
    ) -> float:
        """Probability that some number of a new centre leaves its cell, whatever its size."""
        expected = 0.0
        for size, probability in self.sizes():
            deviations = self.with_sampling(sampling, size)
            places = None if residual is None else residual / deviations
            chances = chance_of_leaving(widths / deviations, bits, places)
            expected += probability * chance_of_any(chances)
        return expected

    def of(self, numbers: Mask) -> "Between":
        """The same of some of the numbers."""
        return Between(self.deviations[numbers], self.n_centres)

    @classmethod
    def none(cls, n_numbers: int) -> "Between":
        """One population."""
        return cls(np.zeros(n_numbers), 0)


@dataclass(frozen=True)
class CentreFits:
    """Numbers of the fits of single centres, with the rows of each."""

    names: tuple[str, ...]
    numbers: Matrix  # a row for each centre
    n_rows: Vector
    without_fit: tuple[str, ...] = ()  # centres with no model of their own: no event, say


def typical(coordinates: Coordinates, pair: tuple[float, float] = TYPICAL) -> Vector:
    """Standard deviations between single centres: of the mean score, and of the slopes.

    The first number of each score is the mean score times the root of its information; slopes of
    counts vary in their logarithm, so that large counts show more of it.
    """
    constant, slopes = pair
    scores = coordinates.scores_factor
    lengths = np.sqrt((scores * scores).sum(axis=0))

    tau = np.tile(slopes * np.maximum(1.0, lengths)[:, None], (1, coordinates.n_columns))
    tau[:, 0] = constant * lengths
    return tau.reshape(-1)


def assumed(coordinates: Coordinates, pair: tuple[float, float] = TYPICAL) -> Between:
    """A single centre as original, and a new one: both differ from the mean of all centres."""
    tau = typical(coordinates, pair)
    return Between(math.sqrt(2.0) * tau, 1 if tau.any() else 0)


def times_typical(between: Between, coordinates: Coordinates) -> float:
    """How much more slopes differ than typical ones, as a ratio of mean squares' roots."""
    expected = assumed(coordinates).deviations
    is_slope = np.arange(len(expected)) % coordinates.n_columns > 0
    if not is_slope.any():
        return 1.0
    squares = [float(np.mean(one[is_slope] ** 2)) for one in (between.deviations, expected)]
    return math.sqrt(squares[0] / squares[1])


def learned(
    fits: CentreFits, variance: Vector, coordinates: Coordinates, pooled: Vector
) -> Between:
    """From the fits of K centres: moments, shrunk to the typical values.

    Parameters
    ----------
    fits : CentreFits
        Of at least two centres.
    variance : array
        Of one row's influence on each number: sampling explains ``variance / n_rows``.
    coordinates : Coordinates
    pooled : array
        Numbers of the fit of all centres together.

    Notes
    -----
    Each number's variance between centres is that of Paule and Mandel. Slopes share a prior: the
    typical one, scaled by what all slopes show together, and a tenth of the slope itself. Two
    centres that happen to have one strong slope in common would else promise it to all others.
    Where slopes differ more than typical ones, base risks are expected to do so, too: K constants
    alone show little about the next one, and centres whose constants happen to be alike would
    promise them to all others. Priors weigh as much as four degrees of freedom.

    That slopes tell about constants was chosen on real tables (`benchmarks/centre_tables.py` has
    those that chose), and judged on others. How often new centres leave cells of such
    widths is counted in tests/theory/test_between.py, for normal centres, heavy tails, mixtures of
    unlike centres, unequal sizes, and effects that some centres do not have.
    """
    n_centres = len(fits.numbers)
    own = np.array([
        excess_variance(fits.numbers[:, j], variance[j] / fits.n_rows) for j in range(len(variance))
    ])  # fmt: skip

    prior = typical(coordinates) ** 2
    is_slope = np.arange(len(own)) % coordinates.n_columns > 0
    if is_slope.any():
        n_shown = (n_centres - 1) * int(is_slope.sum())
        scale = float(np.mean(own[is_slope] / prior[is_slope]))
        scale = (_PRIOR_FREEDOM + n_shown * scale) / (_PRIOR_FREEDOM + n_shown)
        prior[is_slope] *= scale
        prior[~is_slope] *= max(1.0, scale)
        prior[is_slope] += (PROPORTIONAL * pooled[is_slope]) ** 2

    freedom = n_centres - 1
    tau_squared = (_PRIOR_FREEDOM * prior + freedom * own) / (_PRIOR_FREEDOM + freedom)

    # unequal centres count as fewer: the original's own mean is that of its rows
    shares = fits.n_rows / fits.n_rows.sum()
    n_effective = 1.0 / float(shares @ shares)
    return Between(np.sqrt(tau_squared * (1.0 + 1.0 / n_effective)), n_centres)


def excess_variance(values: Vector, sampling: Vector) -> float:
    """Variance between centres at which their differences are as large as expected.

    Differences from the weighted mean, in standard deviations, have squares that add up to the
    degrees of freedom (Paule and Mandel 1982).
    """

    def squares(excess: float) -> float:
        weights = 1.0 / (sampling + excess)
        mean = float(weights @ values) / float(weights.sum())
        return float(weights @ (values - mean) ** 2)

    freedom = len(values) - 1
    if squares(0.0) <= freedom:
        return 0.0
    return least_number(lambda excess: squares(excess) <= freedom, start=float(sampling.max()))


def named_pair(between: object) -> tuple[float, float] | None:
    """What ``between`` asks for: two standard deviations; None if it is no such value."""
    if isinstance(between, str):
        return TYPICAL if between == "typical" else None

    # two numbers, or 0 for both
    numbers: tuple[Any, ...] = (between, between)
    if isinstance(between, Sequence | np.ndarray) and len(between) == 2:
        numbers = tuple(between)
    elif isinstance(between, np.ndarray) or between != 0:
        return None
    if not all(is_real(one) and 0 <= one <= 10 for one in numbers):
        return None
    constant, slopes = map(float, numbers)
    return constant, slopes
