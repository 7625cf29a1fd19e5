"""A score as a number that sites share: rounded on a grid with a shared offset."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from replearn.codes.randomness import SharedRandomness
from replearn.plans.plan_choice import site_range
from replearn.stages.choice_certificate import DRAWS, FEWEST_ROWS, other_sites
from replearn.stages.intervals import CONFIDENCE
from replearn.stages.model_scores import ScoreSums


@dataclass(frozen=True)
class ReplicableScore:
    """A score that sites share.

    Attributes
    ----------
    value : float
        Middle of the cell; the same at every site, with probability 1 - disagreement. At most half
        a ``grid_width`` from the site's own score, and on average over seeds not off at all.
    code : int
        Number of the cell.
    grid_width : str
        Published; a decimal.
    scoring : str
    estimated_disagreement : float or None
        Estimated probability that not all sites get this number *under this seed*; None: too few
        rows.
    expected_disagreement : float or None
        The same, averaged over seeds.
    disagreement_bound : float
        Proved upper bound of that, at ``confidence``; 1 says nothing.
    confidence : float
    """

    value: float
    code: int
    grid_width: str
    scoring: str
    estimated_disagreement: float | None
    expected_disagreement: float | None
    disagreement_bound: float
    confidence: float

    def __str__(self) -> str:
        digits = max(0, 1 - math.floor(math.log10(float(self.grid_width))))
        return f"{self.scoring} {self.value:.{digits}f}, to +-{float(self.grid_width) / 2:.2g}"


def round_score(
    sums: ScoreSums,
    scoring: str,
    grid_width: str,
    rows_per_site: Sequence[int],
    shared: SharedRandomness,
    name: str,
    row_range: float | None,
) -> ReplicableScore:
    """Round a score to the middle of its cell.

    ``sums`` are those of one candidate, ``rows_per_site`` the rows of all sites, this one included,
    and ``row_range`` the largest minus the smallest number of a row. Reads the stream
    "score/{name}".

    Notes
    -----
    A wall falls between the sites' scores with probability ``range / grid_width`` at most, over
    seeds. The mean range of independent means is at most that of normals plus
    ``row_range / n`` for each site [Gol10], and at most ``sqrt(2 sum of variances)`` (two
    sites: ``sqrt(sum of variances)``); the variance has an empirical Bernstein bound. Tested in
    tests/theory/test_model_choice.py.
    """
    width = float(grid_width)
    score = float(sums.scores[0])
    variance = float(sums.covariance[0, 0])
    offset = float(shared.uniforms(f"score/{name}", 1)[0])
    code = math.floor(score / width - offset)
    value = (code + (offset + 0.5)) * width
    if scoring in ("accuracy", "roc_auc"):
        value = min(max(value, 0.0), 1.0)
    estimated = expected = None
    if sums.n_rows >= FEWEST_ROWS:
        place = score / width - offset - code  # in the cell, from 0 to 1
        estimated = _under_this_seed(place, math.sqrt(variance) / width, sums.n_rows, rows_per_site)
        expected = min(1.0, math.sqrt(variance) * site_range(rows_per_site) / width)
    bound = 1.0
    if row_range is not None and sums.n_rows > 1:
        bound = _bound(math.sqrt(variance), sums.n_rows, rows_per_site, row_range) / width
    bound = min(1.0, bound)
    return ReplicableScore(
        value,
        code,
        grid_width,
        scoring,
        estimated,
        expected,
        bound,
        CONFIDENCE if bound < 1 else 1.0,
    )


def _under_this_seed(
    place: float, spread: float, n_rows: int, rows_per_site: Sequence[int]
) -> float:
    draws = SharedRandomness("certificate")
    truth = place + spread / math.sqrt(n_rows) * draws.normals("score", DRAWS)
    left = np.zeros(DRAWS, dtype=bool)
    for site, rows in enumerate(other_sites(n_rows, rows_per_site), start=1):
        other = truth + spread / math.sqrt(rows) * draws.normals("score", DRAWS, row=site)
        left |= (other < 0) | (other >= 1)
    return float(left.mean())


def _bound(spread: float, n_rows: int, rows_per_site: Sequence[int], row_range: float) -> float:
    """Mean range of the sites' scores, at most."""
    shares = [1 / rows for rows in rows_per_site]
    slack = row_range * math.sqrt(2 * math.log(1 / (1 - CONFIDENCE)) / (n_rows - 1))
    largest = min(row_range / 2, spread * math.sqrt(n_rows / (n_rows - 1)) + slack)
    factor = 1 if len(shares) == 2 else 2
    return min(
        largest * site_range(rows_per_site) + row_range * math.fsum(shares),
        largest * math.sqrt(factor * math.fsum(shares)),
    )
