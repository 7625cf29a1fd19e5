"""Pairs that agree and pairs that differ: rates, intervals, verdicts, and how many are needed."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scipy import stats

from replearn.errors import ReplearnError

CONFIDENCE = 0.95
_MOST_PAIRS = 1_000_000


def pairs_needed(
    max_disagreement: float,
    confidence: float = CONFIDENCE,
    expected: float = 0.0,
    power: float = 0.8,
) -> int:
    """How many independent pairs the verdict "within" takes.

    Parameters
    ----------
    max_disagreement : float
        The claim: two labs get different models at most this often.
    confidence : float, default=0.95
        Of the one-sided bound.
    expected : float, default=0
        The disagreement that you think is true; 0 counts pairs that are all clean.
    power : float, default=0.8
        For ``expected`` above 0: chance of the verdict, if that is the truth.

    Returns
    -------
    n_pairs : int
        The fewest pairs with which the verdict is possible, or likely.

    Examples
    --------
    >>> pairs_needed(0.05), pairs_needed(0.1)
    (59, 29)
    >>> pairs_needed(0.1, expected=0.03)
    76
    """
    for name, value in (
        ("max_disagreement", max_disagreement),
        ("confidence", confidence),
        ("power", power),
    ):
        if not 0 < value < 1:
            raise ReplearnError(f"{name} must be in (0, 1), got {value!r}. It is a probability.")
    if not 0 <= expected < max_disagreement:
        raise ReplearnError(
            f"expected must be at least 0 and below max_disagreement={max_disagreement:g}, got "
            f"{expected!r}. No number of pairs shows a claim that is not true."
        )
    clean = math.ceil(math.log(1 - confidence) / math.log1p(-max_disagreement))
    if expected == 0:
        return clean
    n_pairs = clean
    while n_pairs < _MOST_PAIRS:
        allowed = _most_allowed(n_pairs, max_disagreement, confidence)
        if stats.binom.cdf(allowed, n_pairs, expected) >= power:
            return n_pairs
        n_pairs = max(n_pairs + 1, math.ceil(n_pairs * 1.01))
    raise ReplearnError(
        f"expected={expected:g} is too close to max_disagreement={max_disagreement:g}: more than "
        f"{_MOST_PAIRS:,} pairs are needed. Allow a larger max_disagreement."
    )


def _most_allowed(n_pairs: int, max_disagreement: float, confidence: float) -> int:
    """Most different pairs with which the upper bound is still ``max_disagreement``; -1: none."""
    # P[at most k different] under max_disagreement must be at most 1 - confidence
    k = int(stats.binom.ppf(1 - confidence, n_pairs, max_disagreement))
    while k >= 0 and stats.binom.cdf(k, n_pairs, max_disagreement) > 1 - confidence:
        k -= 1
    return k


@dataclass(frozen=True)
class Agreement:
    """Pairs of models that were compared, and what follows for the disagreement.

    Attributes
    ----------
    n_pairs, n_different : int
    max_disagreement : float
        The claim.
    confidence : float
        Of the interval, and of each one-sided bound behind the verdict.
    """

    n_pairs: int
    n_different: int
    max_disagreement: float
    confidence: float = CONFIDENCE

    @property
    def disagreement(self) -> float:
        """Share of pairs with different models."""
        return self.n_different / self.n_pairs

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson interval of the disagreement, two-sided."""
        return self._bounds("two-sided")

    @cached_property
    def upper(self) -> float:
        """One-sided upper bound of the disagreement."""
        return self._bounds("less")[1]

    @cached_property
    def lower(self) -> float:
        """One-sided lower bound of the disagreement."""
        return self._bounds("greater")[0]

    @property
    def verdict(self) -> str:
        """Whether the claim is shown ("within"), refuted ("exceeds") or neither ("undecided")."""
        if self.upper <= self.max_disagreement:
            return "within"
        return "exceeds" if self.lower > self.max_disagreement else "undecided"

    @property
    def advice(self) -> str:
        """What a claim that is undecided needs."""
        if self.verdict != "undecided":
            return ""
        clean = pairs_needed(self.max_disagreement, self.confidence)
        text = f"{clean} clean pairs are the fewest that show {self.max_disagreement:g}"
        if self.disagreement < 0.9 * self.max_disagreement and self.n_different:
            wanted = pairs_needed(self.max_disagreement, self.confidence, self.disagreement)
            text += f"; if the true rate is the one seen here, about {wanted:,} pairs would"
        return text

    def _bounds(self, alternative: str) -> tuple[float, float]:
        test = stats.binomtest(self.n_different, self.n_pairs, alternative=alternative)
        interval = test.proportion_ci(self.confidence, method="exact")
        return float(interval.low), float(interval.high)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "pairs": self.n_pairs,
            "different": self.n_different,
            "disagreement": self.disagreement,
            "interval": list(self.interval),
            "upper": self.upper,
            "lower": self.lower,
            "verdict": self.verdict,
            "max_disagreement": self.max_disagreement,
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.n_different} of {self.n_pairs} pairs differ: disagreement "
            f"{self.disagreement:.3f}, {self.confidence:.0%} interval {low:.3f} to {high:.3f}"
        )


def at_other_size(disagreement: float, n_rows: int, other: int) -> float:
    """A disagreement that was measured with ``n_rows`` rows, at another number of rows.

    The distance of two labs falls like one over the square root of the rows, and so does the
    rate at which walls of cells come between them: ``1 - (1 - d)**sqrt(n_rows / other)``. An
    extrapolation, not a bound; with hint bits the disagreement falls faster. Tested in
    tests/theory/test_audit.py.
    """
    return float(1 - (1 - disagreement) ** math.sqrt(n_rows / other))


def verdict_in_words(agreement: Agreement, about: str = "") -> str:
    """One sentence about the claim, and ``about`` what it holds for."""
    claim = f"{agreement.max_disagreement:g}"
    seen = f"{agreement.n_different} of {agreement.n_pairs} pairs of fits gave different models"
    where = f", {about}" if about else ""
    if agreement.verdict == "within":
        return (
            f"within {claim}: {seen}, so the disagreement is at most {agreement.upper:.3f} "
            f"with {agreement.confidence:.0%} confidence{where}."
        )
    if agreement.verdict == "exceeds":
        return (
            f"exceeds {claim}: {seen}, so the disagreement is at least {agreement.lower:.3f} "
            f"with {agreement.confidence:.0%} confidence{where}."
        )
    return (
        f"undecided about {claim}{where}: {seen}, which is compatible with more and with less. "
        f"{agreement.advice[0].upper()}{agreement.advice[1:]}."
    )
