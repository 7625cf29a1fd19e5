"""How likely is it that the other sites choose the same model? Two estimates, one proved bound.

The lemmas and their proofs are in docs/choosing.md; the tests in tests/theory/test_model_choice.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, ndtr, rel_entr

from replearn.codes.randomness import SharedRandomness
from replearn.plans.plan_choice import (
    expected_disagreement,
    expected_loss,
    spreads_of,
)
from replearn.stages.intervals import CONFIDENCE, largest_means
from replearn.stages.model_scores import PRODUCT_ERROR, ScoreSums
from replearn.stages.tie_bounds import largest_tie_spread, score_radii
from replearn.types import Matrix, Vector

DRAWS = 2000  # standard error .007 at a disagreement of .1
FEWEST_ROWS = 30  # fewer say nothing about their own spread

#: How the chance that the bound is wrong is divided among what the rows say.
_DOUBTS = {"spread": 0.6, "radii": 0.3, "squares": 0.05, "far": 0.05}

_FAR = 1e-4  # chance, in the bound, that a site chooses a candidate that is left out
_WIDE = 2.0  # variance of a difference of two sites, in squared scales, that is left out
_GRID = 4000


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

    ``noisy`` are the scores with the shared noise of this seed, ``rows_per_site`` the rows of all
    sites, this one included. ``row_range`` is the largest minus the smallest number of a row, which
    is 0 or 1 if ``binary``; None if a score is no mean of bounded numbers. ``published``: the noise
    scale does not come from the rows. ``inflation`` is the variance of the scores, in units of what
    independent rows would give. Above 1, for cross-validation, nothing is proved.

    Notes
    -----
    Estimate under the seed: the true scores are normal around mine, the other sites' normal around
    these, with the covariance of my rows; counted is how often another candidate has the largest
    noisy score. Over seeds: `expected_disagreement`. Bound: `proved_disagreement`.
    """
    n = sums.n_rows
    scores, covariance = sums.scores, sums.covariance * inflation
    estimated = expected = None
    if n >= FEWEST_ROWS:
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
    truth = _normals(noisy.size, 0) @ root.T / math.sqrt(n_rows)
    differ = np.zeros(DRAWS, dtype=bool)
    for site, rows in enumerate(other_sites(n_rows, rows_per_site), start=1):
        moved = truth + _normals(noisy.size, site) @ root.T / math.sqrt(rows)
        differ |= (moved - moved[:, [chosen]] > leads).any(axis=1)
    return float(differ.mean())


def other_sites(n_rows: int, rows_per_site: Sequence[int]) -> list[int]:
    """Rows of all sites but this one, which has the number nearest to ``n_rows``."""
    others = list(rows_per_site)
    others.remove(min(others, key=lambda rows: abs(rows - n_rows)))
    return others


@cache
def _normals(n_candidates: int, site: int) -> Matrix:
    """The same draws for every certificate: they decide about no choice."""
    draws = SharedRandomness("certificate").normals("choice", DRAWS * n_candidates, row=site)
    return draws.reshape(DRAWS, n_candidates)


# --- the proved bound ---------------------------------------------------------------------------


def proved_disagreement(
    sums: ScoreSums,
    noise_scale: float,
    rows_per_site: Sequence[int],
    row_range: float,
    *,
    binary: bool = False,
) -> float:
    """Bound of the probability that not all sites choose the same, over seeds and samples.

    ``sums``, of one site's rows, bound what is unknown, with ``CONFIDENCE``; the noise scale is
    published; ``row_range`` and ``binary`` are as for `certify_models`. A bound of 1 says nothing.

    Notes
    -----
    For any anchor m and sites whose scores lie ``h`` away from it, the sites disagree with
    probability ``sum over i != j of w_ij(m) (exp(t_ij / s) - 1)`` at most, over seeds, where
    ``t_ij`` is the largest ``h_j - h_i`` of a site, or 0, and ``w`` the `tie_weights`, which add
    up to 1/2 at most over pairs. Two sites with as many rows: m is the mean of both, about which
    the scores are symmetric, and ``sum over i < j of w_ij(m) sinh(t_ij + t_ji)`` is another bound,
    mostly smaller. Otherwise: m is the truth. What a pair costs is a concave function, or nearly,
    of its variance, so all that matters is the mean variance of pairs that tie; with the weights
    of the true scores that is one mean over rows, for which one bound is enough, and the rows
    say within which radii the true scores are (`largest_tie_spread`).
    """
    n, n_candidates = sums.n_rows, sums.totals.size
    if n_candidates == 1:
        return 0.0
    n_pairs = n_candidates * (n_candidates - 1) / 2
    doubt = 1 - CONFIDENCE
    most = _largest_squares(sums, row_range, binary, _DOUBTS["squares"] * doubt / n_pairs)
    log = math.log(2 * n_pairs / (_DOUBTS["far"] * doubt))
    kept, far = _in_the_running(sums.scores, most, n, noise_scale, rows_per_site, row_range, log)
    if kept.size == 1:
        return min(1.0, far)
    scores, most = sums.scores[kept], most[np.ix_(kept, kept)]
    squares = sums.square_differences[np.ix_(kept, kept)]
    radii = score_radii(
        scores, squares, n, row_range, binary, _DOUBTS["radii"] * doubt / (2 * n_pairs)
    )
    if not binary:
        squares = (np.sqrt(squares) + 2 * PRODUCT_ERROR) ** 2
        np.fill_diagonal(squares, 0.0)

    def spread(factors: Matrix) -> float:
        """Mean squared difference of pairs that tie, with a factor for each pair, at most."""
        largest = row_range**2 * largest_tie_spread(scores, radii, factors, noise_scale, 1)
        found = largest_tie_spread(scores, radii, factors * squares, noise_scale)
        share = min(found / largest, 1.0) if largest > 0 else 0.0
        return largest * largest_mean(share, n, _DOUBTS["spread"] * doubt)

    if len(rows_per_site) == 2 and rows_per_site[0] == rows_per_site[1]:
        rows = rows_per_site[0]
        step = 2 * row_range / (rows * noise_scale)
        growth = _growth(scores, radii, most, noise_scale, rows, row_range, binary)
        unit = 2 / (rows * noise_scale**2)  # variance of a difference of two sites
        wide = _chance_of_wide(unit * most, rows, step)
        variance = unit * spread(growth)
        middle = min(
            half_of_majorant(partial(cost, step=step), variance, _WIDE)
            for cost in (cost_on_the_way, cost_from_the_middle)
        )
        if middle + wide < 1:
            return min(1.0, middle + wide + far)

    def from_truth(squares: Vector) -> Vector:
        return _costs_from_truth(squares, noise_scale, rows_per_site, row_range)

    bound = half_of_majorant(from_truth, spread(np.ones_like(radii)), float(most.max()))
    return min(1.0, bound + far)


def _in_the_running(
    scores: Vector,
    most: Matrix,
    n_rows: int,
    scale: float,
    rows_per_site: Sequence[int],
    row_range: float,
    log: float,
) -> tuple[NDArray[np.intp], float]:
    """Candidates that may be chosen, and the chance that some site chooses another.

    A candidate is chosen with probability ``exp(-gap / scale)`` at most, whose mean over samples
    follows from the true gap and its variance [Ben62].
    """
    best = int(np.argmax(scores))
    above = np.sqrt(2 * most[best] * log / n_rows) + row_range * log / (3 * n_rows)
    gaps = (scores - scores[best] + above) / scale
    chances = np.zeros(scores.size)
    for rows in rows_per_site:
        step = min(row_range / (rows * scale), 50.0)
        moment = rows * most[best] / row_range**2 * (math.expm1(step) - step)
        chances += np.exp(np.minimum(gaps + moment, 1.0))
    far = chances < _FAR / scores.size
    far[best] = False
    return np.flatnonzero(~far), float(chances[far].sum())


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
    return largest_means(share, math.log(1 / doubt) / n) * row_range**2


def largest_mean(share: float, n: int, doubt: float) -> float:
    """The largest true mean of numbers in [0, 1] of which n have this mean, but with ``doubt``.

    ``share`` is the mean of n independent numbers in [0, 1] of one distribution; the result is
    below the true mean with probability ``doubt`` at most.

    Notes
    -----
    Two bounds of the same chance, so both hold at once: a mean of q falls to the share with
    probability ``exp(-n kl(share, q))`` at most [Hoe63], and ``e`` times that of a binomial one at
    most, its logarithm interpolated between whole numbers [Ben04]. The second is sharper: of 5,000
    rows 30 mean 45 at most, not 47. Tested in tests/theory/test_tie_bounds.py.
    """
    below, part = divmod(share * n, 1.0)
    if below >= n:
        return 1.0

    def log_chance(mean: float) -> float:
        at, above = np.log(np.maximum(bdtr([below, min(below + 1, n)], n, mean), 1e-300))
        return float(1 + (1 - part) * at + part * above)

    low, high = share, float(largest_means(np.array(share), math.log(1 / doubt) / n))
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if log_chance(middle) >= math.log(doubt) else (low, middle)
    return high


def cost_on_the_way(variance: Vector, step: float) -> Vector:
    """What a unit of weight of a pair costs, two sites, going from one to the other.

    Given the unordered pairs of rows, the sites' difference D is, in units of the scale, a sum of
    fair signs of sizes up to ``step``; this is at least ``E sinh|D|``. Higher moments are at most
    those of a normal [Haagerup81].
    """
    root = np.sqrt(variance)
    higher = np.exp(np.minimum(variance / 2, 50.0)) * (2 * ndtr(root) - 1)
    return mean_of_signs(variance, step) + np.asarray(higher - math.sqrt(2 / math.pi) * root)


def cost_from_the_middle(variance: Vector, step: float) -> Vector:
    """The same from the anchor lemma, at least ``E 2 (exp(|D| / 2) - 1)``: less if D is wide."""
    root = np.sqrt(variance)
    higher = 2 * (2 * np.exp(np.minimum(variance / 8, 50.0)) * ndtr(root / 2) - 1)
    return mean_of_signs(variance, step) + np.asarray(higher - math.sqrt(2 / math.pi) * root)


def mean_of_signs(variance: Vector, step: float) -> Vector:
    """Mean of ``|D|`` for a sum D of fair signs of sizes up to ``step``, at most.

    Its deviation, or that of a normal plus ``step^2`` over twice the deviation (docs/choosing.md).
    """
    root = np.sqrt(np.maximum(variance, 1e-300))
    return np.minimum(root, math.sqrt(2 / math.pi) * root + step**2 / (2 * root))


def _growth(
    scores: Vector,
    radii: Matrix,
    most: Matrix,
    scale: float,
    rows: int,
    row_range: float,
    binary: bool,
) -> Matrix:
    """Factor for each pair, for the weights of the middle of two sites in place of the truth's.

    Weights are log-concave in the scores, so the mean weight is the one in the mean of scores
    times a moment that is known from variances [Ben62]; and a row's own part in the middle, for
    the rows on which the pair differs.
    """
    gaps = (scores - scores[:, None] + radii.T).max(axis=1)  # to the best, at most
    ratios = _largest_ratios(scores, radii, scale)
    caps = np.minimum(1.0, largest_slopes(ratios, np.exp(-gaps / scale)) / 2)
    order = np.argsort(-most, axis=1)
    filled = np.minimum(np.cumsum(caps[order], axis=1), 1.0)
    shares = np.diff(filled, prepend=0.0, axis=1)
    mixed = (shares * np.take_along_axis(most, order, axis=1)).sum(axis=1)
    step = min(4 * row_range / scale / (2 * rows), 50.0)
    moment = 2 * rows * (math.expm1(step) - step) / (4 * row_range) ** 2
    own = (row_range if binary else 2 * row_range) + gaps[:, None] + gaps
    # the best of all may be in the pair: then its partner moves against it, too
    alone = np.maximum(mixed[:, None], mixed) + most / 2
    variances = 2 * np.maximum(mixed[:, None] + mixed, alone)
    logs = moment * variances + own / (2 * rows * scale)
    return np.asarray(np.exp(np.minimum(logs, 300.0)))


def largest_slopes(high: Vector, low: Vector) -> Vector:
    """By how much the logarithm of a tie weight falls with the score of a third candidate.

    ``high`` and ``low`` are the largest and smallest ``r = exp(-gap / scale)`` of each candidate.
    Slopes are in units of 1 / scale, at most, whichever pair ties.

    Notes
    -----
    The slope is the mean of ``t r / (1 - t r)`` over t with density ``t prod (1 - t r_l)``, l over
    all but the pair. An increasing function has a larger mean if decreasing factors are left out
    or fall more slowly: r of the third candidate is high, those of the others are low, and the two
    highest of these are left out for the pair.
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    nodes, weights = (nodes + 1) / 2, weights / 2
    order = np.argsort(-low)
    logs = np.log1p(-nodes[:, None] * low)
    together = logs.sum(axis=1)
    slopes = np.empty(high.size)
    for k in range(high.size):
        out = [k, *[one for one in order[:3] if one != k][:2]]
        others = np.exp(together - logs[:, out].sum(axis=1))
        above = float((weights * nodes**2 * others).sum()) * high[k]
        slopes[k] = above / float((weights * nodes * (1 - nodes * high[k]) * others).sum())
    return np.minimum(slopes, 2.0)


def _largest_ratios(scores: Vector, radii: Matrix, scale: float) -> Vector:
    """``exp(-gap / scale)`` of the true scores, at most."""
    best = int(np.argmax(scores))
    gaps = scores[best] - scores - radii[:, best]
    return np.asarray(np.exp(-np.maximum(gaps, 0.0) / scale))


def _chance_of_wide(variances: Matrix, rows: int, step: float) -> float:
    """Chance that some pair's variance, a sum of ``rows`` terms, is above ``_WIDE``; at most."""
    most = rows * step**2
    if most <= _WIDE:
        return 0.0
    share = np.minimum(variances[np.triu_indices(len(variances), 1)] / most, 1.0)
    goal = _WIDE / most
    exponents = rows * (rel_entr(goal, share) + rel_entr(1 - goal, 1 - share))
    return float(np.where(share < goal, np.exp(-exponents), 1.0).sum())


def half_of_majorant(cost: Callable[[Vector], Vector], mean: float, largest: float) -> float:
    """Half of what an increasing cost is on average at most, for numbers of this mean.

    Numbers are from 0 to ``largest``. A line above the cost is above its mean; several slopes are
    tried. Half, because weights of pairs add up to 1/2.
    """
    if mean <= 0 or mean >= largest:  # then all of them are
        return float(cost(np.array([min(max(mean, 0.0), largest)]))[0]) / 2
    ends = largest * np.linspace(0, 1, _GRID + 1) ** 3
    values = cost(ends[1:])
    around = np.array([mean * 0.999, mean * 1.001]) + 1e-300
    slope = float(np.diff(cost(around))[0] / np.diff(around)[0])
    tops = [
        float((values - one * (ends[:-1] - mean)).max())
        for one in slope * np.array([0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 2.0, 3.0])
    ]
    return min(tops) / 2


def _costs_from_truth(
    squares: Vector, scale: float, rows_per_site: Sequence[int], row_range: float
) -> Vector:
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
