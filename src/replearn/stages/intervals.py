"""Measured numbers and their intervals: shares, means and averages of shares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtri, stdtrit

from replearn.types import Vector

CONFIDENCE = 0.95


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

    Parameters
    ----------
    count, trials : int
        At least one trial.
    confidence : float, default=0.95

    Returns
    -------
    Measured

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

    Parameters
    ----------
    shares : sequence of Measured
        With Wilson intervals of one confidence.

    Returns
    -------
    Measured

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

    Parameters
    ----------
    values : float array
        At least one. A single one has an interval without ends.
    confidence : float, default=0.95

    Returns
    -------
    Measured
    """
    n, value = values.size, float(values.mean())
    if n < 2:
        return Measured(value, -math.inf, math.inf, "Student's t")
    half = float(stdtrit(n - 1, 0.5 + confidence / 2)) * float(values.std(ddof=1)) / math.sqrt(n)
    return Measured(value, value - half, value + half, "Student's t")
