"""How likely is it that the other sites choose the same model? Two estimates, one proved bound.

The lemmas and their proofs are in docs/choosing.md; the tests in tests/theory/test_model_choice.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaincinv, ndtr

from replearn.codes.randomness import SharedRandomness
from replearn.plans.plan_choice import (
    expected_disagreement,
    expected_loss,
    spreads_of,
    tie_integrals,
)
from replearn.stages.model_scores import PRODUCT_ERROR, ScoreSums
from replearn.types import Matrix, Vector

CONFIDENCE = 0.95
_DRAWS = 2000  # standard error .007 at a disagreement of .1
_FEWEST_ROWS = 30  # fewer say nothing about their own spread
_ELSEWHERE = 0.01  # chance, in the bound, that the sites' scores lie outside their region


@dataclass(frozen=True)
class ChoiceCertificate:
    """What a site can say about the replicability of its choice.

    Attributes
    ----------
    estimated_disagreement : float or None
        Estimated probability that not all sites choose this candidate *under this seed*. None:
        not estimable (too few rows).
    expected_disagreement : float or None
        The same, averaged over seeds.
    disagreement_bound : float
        Proved upper bound of the probability, over seeds and samples, that not all sites choose
        the same; 1 says nothing.
    confidence : float
        Probability, over samples, with which ``disagreement_bound`` holds.
    assumes : str
        What the bound assumes.
    expected_loss : float
        Score that a choice with this noise gives up on average over seeds, on these rows.
    rows_per_site : tuple of int
        Rows of the sites that this is about.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> y = np.arange(400) % 2
    >>> predictions = np.column_stack([y, 1 - y])  # a right model, and a wrong one
    >>> chosen = rl.ReplicableChoiceClassifier([0, 1]).fit(predictions, y)
    >>> chosen.certificate_.expected_loss < 0.01
    True
    """

    estimated_disagreement: float | None
    expected_disagreement: float | None
    disagreement_bound: float
    confidence: float
    assumes: str
    expected_loss: float
    rows_per_site: tuple[int, ...]

    def __str__(self) -> str:
        estimates = [
            "not estimable from so few rows" if value is None else f"{value:.3f} (estimated)"
            for value in (self.estimated_disagreement, self.expected_disagreement)
        ]
        bound = (
            "nothing proved"
            if self.disagreement_bound >= 1
            else f"<= {self.disagreement_bound:.3f} proved at confidence {self.confidence:g}"
        )
        return (
            f"disagreement under this seed: {estimates[0]}\n"
            f"disagreement averaged over seeds: {estimates[1]}, {bound}; assumes {self.assumes}\n"
            f"score given up on average over seeds: {self.expected_loss:.4f} (estimated)"
        )


def certify_models(
    sums: ScoreSums,
    noisy: Vector,
    noise_scale: float,
    rows_per_site: Sequence[int],
    row_range: float | None,
    *,
    binary: bool = False,
    published: bool = True,
    inflation: float = 1.0,
) -> ChoiceCertificate:
    """Certificate of a choice among finished models.

    Parameters
    ----------
    sums : ScoreSums
        Of this site's rows.
    noisy : array of shape (n_candidates,)
        Scores with the shared noise of this seed.
    noise_scale : float
    rows_per_site : sequence of int
        Rows of all sites, this one included.
    row_range : float or None
        Largest minus smallest number of a row; None if a score is no mean of bounded numbers.
    binary : bool, default=False
        The number of a row is 0 or 1.
    published : bool, default=True
        The noise scale does not come from the rows.
    inflation : float, default=1
        Variance of the scores, in units of what independent rows would give. Above 1, for
        cross-validation, nothing is proved.

    Returns
    -------
    ChoiceCertificate

    Notes
    -----
    Estimate under the seed: the true scores are normal around mine, the other sites' normal around
    these, with the covariance of my rows; counted is how often another candidate has the largest
    noisy score. Over seeds: `expected_disagreement`. Bound: `proved_disagreement`.
    """
    n = sums.n_rows
    estimable = n >= _FEWEST_ROWS
    scores, covariance = sums.scores, sums.covariance * inflation
    estimated = expected = None
    if estimable:
        estimated = _under_this_seed(noisy, covariance, n, rows_per_site)
        spreads = np.sqrt(np.maximum(spreads_of(covariance, n) ** 2 - 1 / n, 0.0))
        expected = expected_disagreement(scores, spreads, rows_per_site, noise_scale)
    assumes = "rows drawn independently from one population at every site"
    bound, confidence = 1.0, 1.0
    if inflation > 1:
        assumes += "; nothing is proved for cross-validation"
    elif row_range is None:
        assumes += "; nothing is proved for scores that are no means of bounded numbers"
    elif not published:
        assumes += "; nothing is proved, since the noise scale came from the rows"
    else:
        bound = proved_disagreement(sums, noise_scale, rows_per_site, row_range, binary=binary)
        confidence = CONFIDENCE if bound < 1 else 1.0
    return ChoiceCertificate(
        estimated,
        expected,
        bound,
        confidence,
        assumes,
        expected_loss(scores, noise_scale),
        tuple(rows_per_site),
    )


def _under_this_seed(
    noisy: Vector, covariance: Matrix, n_rows: int, rows_per_site: Sequence[int]
) -> float:
    """How often scores drawn for the other sites have another largest one."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    chosen = int(np.argmax(noisy))
    leads = noisy[chosen] - noisy
    others = list(rows_per_site)
    others.remove(min(others, key=lambda rows: abs(rows - n_rows)))
    truth = _normals(noisy.size, 0) @ root.T / math.sqrt(n_rows)
    differ = np.zeros(_DRAWS, dtype=bool)
    for site, rows in enumerate(others, start=1):
        moved = truth + _normals(noisy.size, site) @ root.T / math.sqrt(rows)
        differ |= (moved - moved[:, [chosen]] > leads).any(axis=1)
    return float(differ.mean())


@cache
def _normals(n_candidates: int, site: int) -> Matrix:
    """The same draws for every certificate: they decide about no choice."""
    draws = SharedRandomness("certificate").normals("choice", _DRAWS * n_candidates, row=site)
    return draws.reshape(_DRAWS, n_candidates)


# --- the proved bound ---------------------------------------------------------------------------


def proved_disagreement(
    sums: ScoreSums,
    noise_scale: float,
    rows_per_site: Sequence[int],
    row_range: float,
    *,
    binary: bool = False,
    confidence: float = CONFIDENCE,
) -> float:
    """Bound of the probability that not all sites choose the same, over seeds and samples.

    Parameters
    ----------
    sums : ScoreSums
        Of one site's rows; they bound what is unknown, with ``confidence``.
    noise_scale : float
        Published.
    rows_per_site : sequence of int
    row_range, binary
        As for `certify_models`.
    confidence : float, default=0.95

    Returns
    -------
    bound : float
        1: nothing.

    Notes
    -----
    For any anchor m and sites whose scores lie ``h`` away from it, the sites disagree with
    probability ``sum over i != j of w_ij(m) (exp(t_ij / s) - 1)`` at most, over seeds, where
    ``t_ij`` is the largest ``h_j - h_i`` of a site, or 0, and ``w`` the `tie_weights`, which add
    up to 1/2 at most over pairs. Two sites
    with as many rows: m is the mean of both, about which the scores are symmetric. Otherwise: m
    is the truth. What a pair costs follows from its variance, which the rows bound (exactly, if
    numbers are 0 or 1, otherwise by Chernoff's bound); the weights are the costliest ones that
    the rows allow.
    """
    n, n_candidates = sums.n_rows, sums.totals.size
    if n_candidates == 1:
        return 0.0
    n_pairs = n_candidates * (n_candidates - 1) // 2
    doubt = (1 - confidence) / 2
    squares = _largest_squares(sums, row_range, binary, doubt / n_pairs)

    def radii(log: float, variance: float, share: float) -> Matrix:
        """Bernstein: how far score differences are from the anchor's."""
        return np.asarray(np.sqrt(2 * squares * variance * log) + 2 * row_range * share * log / 3)

    costs = _costs_from_truth(squares, noise_scale, rows_per_site, row_range)
    reach = radii(math.log(2 * n_pairs / doubt), 1 / n, 1 / n)
    bound = _costliest(sums.scores, reach, costs, noise_scale)
    if len(rows_per_site) == 2 and rows_per_site[0] == rows_per_site[1]:
        rows = 2 * rows_per_site[0]
        # Markov: but with chance `doubt` the rows are such that the middle is in reach, but with
        # chance `_ELSEWHERE`
        log = math.log(2 * n_pairs / (doubt * _ELSEWHERE))
        reach = radii(log, 1 / n + 1 / rows, 1 / min(n, rows))
        costs = _costs_from_middle(squares, noise_scale, rows // 2, row_range)
        middle = _costliest(sums.scores, reach, costs, noise_scale)
        bound = min(bound, middle + _ELSEWHERE * float(costs.max()) / 2)
    return min(1.0, bound)


def _largest_squares(sums: ScoreSums, row_range: float, binary: bool, doubt: float) -> Matrix:
    """Upper bounds of the mean squares of score differences, each wrong with ``doubt`` at most."""
    n = sums.n_rows
    found = sums.square_differences
    if binary:  # the number of rows that differ is binomial: Clopper and Pearson [CP34]
        counts = np.rint(found * n)
        upper = betaincinv(counts + 1, np.maximum(n - counts, 1), 1 - doubt)
        return np.where(counts >= n, 1.0, upper)
    # the products know the numbers up to their rounding
    root = np.sqrt(found) + 2 * PRODUCT_ERROR
    share = np.minimum((root / row_range) ** 2, 1.0)
    return _chernoff(share, math.log(1 / doubt) / n) * row_range**2


def _chernoff(share: Matrix, distance: float) -> Matrix:
    """The largest q with ``KL(share, q) <= distance``: no mean of numbers in [0, 1] is larger."""
    low, high = share.copy(), np.ones_like(share)
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(share > 0, share * np.log(share / middle), 0.0)
            second = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - middle)), 0.0)
        inside = first + second <= distance
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def _costs_from_middle(squares: Matrix, scale: float, rows: int, row_range: float) -> Matrix:
    """What a unit of weight of a pair costs, two sites, the anchor in their middle.

    Given the unordered pairs of rows, the sites' difference is a sum of fair signs with variance
    ``u scale^2``. Its mean absolute value is at most its deviation, and at most that of a normal
    plus a share of the largest summand [Gol10]; its higher moments are at most those of a
    normal [Haagerup81].
    """
    u = 2 * squares / (rows * scale**2)
    root = np.sqrt(u)
    normal = math.sqrt(2 / math.pi) * root
    first = np.minimum(root, normal + 2 * row_range / (rows * scale))
    higher = 2 * (2 * np.exp(np.minimum(u / 8, 50.0)) * ndtr(root / 2) - 1) - normal
    # u is a mean over the same rows as the middle: leaving one out costs this factor
    coupled = math.expm1(min(50.0, 4 * row_range / (rows * scale)))
    return np.asarray(first + higher + (first / 2 + 2 * higher) * coupled)


def _costs_from_truth(
    squares: Matrix, scale: float, rows_per_site: Sequence[int], row_range: float
) -> Matrix:
    """What a unit of weight of a pair costs, any sites, the anchor in the truth."""
    rows = np.asarray(rows_per_site, dtype=np.float64)
    unit = 2 * _mean_largest(rows)  # of independent normals and 0, both ways
    remainder = 4 * row_range * float((1 / rows).sum())
    deviations = np.sqrt(squares)
    first = np.minimum(
        unit * deviations + remainder, deviations * math.sqrt(2 * float((1 / rows).sum()))
    )
    steps = 2 * row_range / (rows * scale)
    growth = rows * (np.expm1(np.minimum(steps, 50.0)) - steps) / (4 * row_range**2)
    higher = 2 * np.expm1(np.minimum(squares[..., None] * growth, 50.0)).sum(axis=-1)
    return np.asarray(first / scale + higher)


def _mean_largest(rows: Vector) -> float:
    """Mean of the largest of 0 and independent normals with variances ``1 / rows``."""
    deviations = 1 / np.sqrt(rows)
    points, step = np.linspace(0, 9, 1801, retstep=True)
    below = ndtr(points[:, None] * (deviations.max() / deviations)).prod(axis=1)
    missed = 1 - below
    missed[0] /= 2  # trapezoids
    return float(missed.sum() * step * deviations.max())


def _costliest(scores: Vector, radii: Matrix, costs: Matrix, scale: float) -> float:
    """The largest cost of weights that add up to 1/2 and are possible within the radii."""
    best = int(np.argmax(scores))
    gaps = scores - scores[best]
    reach = np.where(np.arange(scores.size) == best, 0.0, radii[best])
    highest = np.exp(np.minimum((gaps + reach) / scale, 300.0))
    lowest = np.minimum(1.0, np.exp((gaps - reach) / scale))
    upper = np.triu_indices(scores.size, 1)
    most, cost = tie_integrals(highest, lowest)[upper], costs[upper]
    order = np.argsort(-cost)
    filled = np.minimum(np.cumsum(most[order]), 0.5)
    return float(np.diff(filled, prepend=0.0) @ cost[order])
