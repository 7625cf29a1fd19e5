"""Measured numbers and their intervals: shares, means and averages of shares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, rel_entr, stdtrit

from replearn.types import Matrix, Vector

CONFIDENCE = 0.95

#: Bets of the intervals of means, as shares of the largest that cannot lose everything.
_BETS = np.geomspace(0.01, 0.9, 12)
_CURVES = np.array([-(math.log1p(-share) + share) / share**2 for share in _BETS])
_HALVINGS = 28


@dataclass(frozen=True)
class Measured:
    """A number that was measured on rows, and where the true one may be.

    Attributes
    ----------
    value, low, high : float
        The ends are those of a two-sided interval.
    method : str
        How the interval was made.
    """

    value: float
    low: float
    high: float
    method: str

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def data(self) -> dict[str, Any]:
        """As JSON types; an end that is not there is null."""
        ends = [end if math.isfinite(end) else None for end in (self.low, self.high)]
        return {"value": self.value, "interval": ends, "method": self.method}


def normal_quantile(confidence: float) -> float:
    """Half of a two-sided normal interval, in standard errors."""
    return float(ndtri(0.5 + confidence / 2))


def share(count: int, trials: int, confidence: float = CONFIDENCE) -> Measured:
    """Share of successes, with Wilson's interval.

    Notes
    -----
    Wilson's interval holds all rates that a score test does not reject. It stays in [0, 1], has
    a width at 0 and at 1, and its coverage is close to the nominal one on average over rates
    (it can be some hundredths below near 0 and 1). Tested in tests/theory/test_worth.py.

    Examples
    --------
    >>> print(share(0, 20))
    0.000 (0.000 to 0.161)
    """
    z = normal_quantile(confidence)
    rate, shrink = count / trials, z * z / trials
    centre = (rate + shrink / 2) / (1 + shrink)
    half = z * math.sqrt(rate * (1 - rate) / trials + shrink / (4 * trials)) / (1 + shrink)
    low = 0.0 if count == 0 else max(0.0, centre - half)
    high = 1.0 if count == trials else min(1.0, centre + half)
    return Measured(rate, low, high, "Wilson")


def mean_of_shares(shares: Sequence[Measured]) -> Measured:
    """Mean of independent shares, with an interval made of theirs.

    The intervals of the shares are Wilson's, of one confidence.

    Notes
    -----
    The distances to the ends are those of the shares, added like standard errors (Zou and
    Donner's method of variance estimates recovery). Unlike a normal interval it has a width when
    all shares are 0 or 1.
    """
    n = len(shares)
    mean = math.fsum(s.value for s in shares) / n
    below = math.sqrt(math.fsum((s.value - s.low) ** 2 for s in shares)) / n
    above = math.sqrt(math.fsum((s.high - s.value) ** 2 for s in shares)) / n
    return Measured(mean, max(0.0, mean - below), min(1.0, mean + above), "Wilson, combined")


def mean(values: Vector, confidence: float = CONFIDENCE) -> Measured:
    """Mean of one number per row, with Student's interval.

    A single number has an interval without ends.
    """
    n, value = values.size, float(values.mean())
    if n < 2:
        return Measured(value, -math.inf, math.inf, "Student's t")
    half = float(stdtrit(n - 1, 0.5 + confidence / 2)) * float(values.std(ddof=1)) / math.sqrt(n)
    return Measured(value, value - half, value + half, "Student's t")


def largest_means(shares: Matrix, distance: float) -> Matrix:
    """The largest q with ``kl(share, q) <= distance``: no mean of numbers in [0, 1] is larger.

    ``shares`` are means of n numbers in [0, 1]. With ``distance = log(1 / failure) / n`` a result
    is below the true mean with probability ``failure`` at most, as ``P[mean <= share] <= exp(-n
    kl(share, q))`` for numbers of mean q [Hoe63].
    """
    low, high = shares.copy(), np.ones_like(shares)
    for _ in range(60):
        middle = (low + high) / 2
        inside = rel_entr(shares, middle) + rel_entr(1 - shares, 1 - middle) <= distance
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.asarray(high)


def largest_differences(
    means: Matrix, squares: Matrix, n_rows: int, binary: bool, doubt: float
) -> Matrix:
    """Upper ends of true means of numbers in [-1, 1], each too small with ``doubt`` at most.

    ``means`` and ``squares`` are those of n numbers, which are -1, 0 or 1 if ``binary``.

    Notes
    -----
    A gambler who bets a share ``b`` of the capital, row by row, against a mean as large as m, has
    ``prod (1 - b (X - m))``, whose mean is 1 if m is the mean of X: so it exceeds ``1/doubt`` with
    probability ``doubt`` at most, and so does an average over several b [WR24]. If X is -1, 0 or 1
    the product is a function of counts; otherwise it has a lower bound in the first two moments,
    since ``(log(1 + y) - y) / y^2`` increases with y [FGL15].
    """
    goal = math.log(1 / doubt)
    low, high = means.copy(), np.ones_like(means)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        won = (_won_by_counts if binary else _won_by_moments)(means, squares, middle, n_rows)
        low, high = np.where(won > goal, low, middle), np.where(won > goal, middle, high)
    return np.asarray(high)


def _won_by_counts(means: Matrix, squares: Matrix, truth: Matrix, n: int) -> Matrix:
    """Logarithm of what bets have on average; differences are -1, 0 or 1."""
    up, down = n * (squares + means) / 2, n * (squares - means) / 2
    even = n - up - down
    logs = []
    for share in _BETS:
        bet = share / np.maximum(1 - truth, 1e-12)
        logs.append(
            up * np.log1p(-bet * (1 - truth))
            + down * np.log1p(bet * (1 + truth))
            + even * np.log1p(np.maximum(bet * truth, -1 + 1e-12))
        )
    return np.asarray(np.logaddexp.reduce(logs) - math.log(len(logs)))


def _won_by_moments(means: Matrix, squares: Matrix, truth: Matrix, n: int) -> Matrix:
    """A lower bound of the logarithm of what bets have on average."""
    spread = np.maximum(squares - 2 * truth * means + truth**2, 0.0)
    shape = (-1, *(1,) * np.ndim(truth))  # all bets at once
    bets = _BETS.reshape(shape) / (1 - np.minimum(truth, 1 - 1e-12))
    logs = n * (bets * (truth - means) - _CURVES.reshape(shape) * bets**2 * spread)
    return np.asarray(np.logaddexp.reduce(logs) - math.log(len(_BETS)))
