"""Noise for a choice among finished models: how much of it, what it costs, and who agrees.

Every site adds the same shared exponential noise of scale s to its scores and takes the largest
sum. Notation: M candidates with scores S, ``r_k = exp((S_k - max S) / s)``. All of this is over
seeds, for given scores; the proofs are in docs/choosing.md, the tests in
tests/theory/test_model_choice.py.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from replearn.codes.choice import MAX_CANDIDATES
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.plans.sizes import decimal
from replearn.types import Matrix, Vector

#: A Gauss-Legendre rule is exact up to 127 candidates; beyond, to about ten digits.
_MOST_NODES = 64

#: Disagreements that a frontier shows.
_FRONTIER = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)

#: Noise is this much wider than estimated spreads ask for, since these may be too small.
_SAFETY = 1.1

_DRAWS = 1000

#: Rounds of the fixed point that weighs pairs by how likely they tie.
_ROUNDS = 10


# --- what the noise does ------------------------------------------------------------------------


def choice_probabilities(scores: Vector, noise_scale: float) -> Vector:
    """Probability, over seeds, that each candidate is chosen; larger scores are better.

    Notes
    -----
    ``r_i * integral over t in (0, 1) of the product over k != i of (1 - t r_k)``: a polynomial,
    so Gauss-Legendre gives it exactly. (This is also the law of "permute and flip" [MS20]:
    candidates in random order, each taken with probability ``r_i``.)

    Examples
    --------
    >>> choice_probabilities(np.array([0.9, 0.9, 0.5]), 0.01).round(3)
    array([0.5, 0.5, 0. ])
    """
    ratios = _ratios(scores, noise_scale)
    nodes, node_weights = _nodes(scores.size)
    logs = np.log1p(-nodes[:, None] * ratios)
    others = np.exp(logs.sum(axis=1, keepdims=True) - logs)
    return np.asarray(ratios * (node_weights @ others))


def tie_weights(scores: Vector, noise_scale: float) -> Matrix:
    """How likely each pair of candidates is to tie at the top, in units of the noise scale.

    A symmetric matrix: ``noise_scale`` times the density, at 0, of the difference of the noisy
    scores of i and j, on the event that both are the largest; 0 on the diagonal.

    Notes
    -----
    ``r_i r_j * integral over t in (0, 1) of t * the product over k != i, j of (1 - t r_k)``. The
    sum over pairs is at most 1/2, whatever the scores and their number: by the lack of memory
    the gap of the two largest noisy scores is at least exponential. If the score difference of
    i and j is other by ``D_ij`` at a second site, the choice is another one with probability
    ``sum over pairs of weight * |D_ij| / noise_scale``, to first order.

    Examples
    --------
    >>> tie_weights(np.array([0.9, 0.9]), 0.01)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    ratios = _ratios(scores, noise_scale)
    nodes, node_weights = _nodes(ratios.size)
    total = np.zeros((ratios.size, ratios.size))
    for node, weight in zip(nodes, node_weights, strict=True):
        below = 1.0 - node * ratios
        logs = np.log(below)
        # a product over all but two, as a quotient: no factor is 0 inside (0, 1)
        quotients = np.exp(logs.sum() / 2 - logs)
        total += weight * node * np.outer(quotients, quotients)
    total *= np.outer(ratios, ratios)
    np.fill_diagonal(total, 0.0)
    return total


def expected_loss(scores: Vector, noise_scale: float) -> float:
    """Score that a choice gives up on average over seeds, next to the best candidate."""
    probabilities = choice_probabilities(scores, noise_scale)
    return float(probabilities @ (scores.max() - scores))


def most_loss(n_candidates: int, noise_scale: float) -> float:
    """Score that a choice gives up on average over seeds, at most, whatever the scores.

    The chosen candidate's noise exceeds the best one's by at least the loss, and the largest of M
    exponentials is ``1 + 1/2 + ... + 1/M`` on average: at most ``noise_scale ln M``.
    """
    return noise_scale * math.fsum(1 / k for k in range(2, n_candidates + 1))


def site_range(rows_per_site: Sequence[int]) -> float:
    """Average range of the sites' means of one number per row, in its standard deviations.

    Of independent normals. Two sites with n rows: ``2 / sqrt(pi n)``.

    Examples
    --------
    >>> round(site_range([100, 100]) * 10, 4), round(site_range([100] * 16) * 10, 3)
    (1.1284, 3.532)
    """
    deviations = 1 / np.sqrt(np.asarray(rows_per_site, dtype=np.float64))
    points, step = np.linspace(-9, 9, 3601, retstep=True)
    below = ndtr(points[:, None] * (deviations.max() / deviations))
    missed = 1 - below.prod(axis=1) - (1 - below).prod(axis=1)
    return float(missed.sum() * step * deviations.max())


def expected_disagreement(
    scores: Vector, spreads: Matrix, rows_per_site: Sequence[int], noise_scale: float
) -> float:
    """Probability that not all sites choose the same, over seeds and samples, to first order.

    ``spreads`` are standard deviations, over rows, of the difference of two candidates' scores.
    """
    ties = np.triu(tie_weights(scores, noise_scale), 1)
    return min(1.0, float((ties * spreads).sum()) * site_range(rows_per_site) / noise_scale)


def noise_for(
    scores: Vector, spreads: Matrix, rows_per_site: Sequence[int], max_disagreement: float
) -> float:
    """The noise scale at which sites disagree with ``max_disagreement`` at most.

    Notes
    -----
    1.1 times ``mean spread * site_range / (2 max_disagreement)``: the disagreement if the leading
    candidates were tied, the worst case, and a little room for spreads that are estimates. Only
    the mean over pairs, weighted by how likely they tie, knows the scores, and that is found by a
    fixed number of rounds: a continuous function of the scores, so that sites that take the
    scale from their own rows take nearly the same one.
    """
    worst = _SAFETY * site_range(rows_per_site) / (2 * max_disagreement)
    upper = np.triu_indices(scores.size, 1)
    spread = math.sqrt(float((spreads[upper] ** 2).mean())) if upper[0].size else 0.0
    for _ in range(_ROUNDS):
        if spread * worst < 1e-12:  # no two candidates ever differ
            return 1e-12
        ties = tie_weights(scores, spread * worst)[upper]
        spread = float(ties @ spreads[upper] / ties.sum())
    return max(1e-12, spread * worst)


def _ratios(scores: Vector, noise_scale: float) -> Vector:
    return np.asarray(np.exp((scores - scores.max()) / noise_scale))


@cache
def _nodes(n_candidates: int) -> tuple[Vector, Vector]:
    """Gauss-Legendre on (0, 1), exact for polynomials of degree ``n_candidates``."""
    points, weights = np.polynomial.legendre.leggauss(min(n_candidates // 2 + 1, _MOST_NODES))
    return (points + 1) / 2, weights / 2


# --- the plan -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChoicePoint:
    """One point of a frontier."""

    disagreement: float  # probability that not all sites choose the same candidate
    noise_scale: str  # decimal
    given_up: float  # score, on average: expected from a pilot's scores, else at most


@dataclass(frozen=True)
class ChoicePlan:
    """How a study chooses among finished models.

    Attributes
    ----------
    n_candidates : int
    rows_per_site : tuple of int
    max_disagreement : float
    noise_scale : str
        Scale of the shared exponential noise, in units of the score; a decimal, to be published.
    spread : float
        Standard deviation over rows of the difference of two candidates' scores that this is for.
    given_up : float
        Score given up on average, next to the best candidate.
    basis : {"pilot", "worst case"}
        "pilot": spread and ``given_up`` are estimates from scored rows. "worst case": ``given_up``
        holds for all scores.
    frontier : tuple of ChoicePoint
        The same for other disagreements.
    without_noise : float or None
        Probability that not all sites would have the same best score, as far as a pilot can tell.
        If that is small, one candidate is far ahead, and noise is hardly needed.

    Examples
    --------
    >>> import replearn as rl
    >>> plan = rl.plan_choice(12, samples_per_site=20_000, row_disagreement=0.05)
    >>> plan.noise_scale, plan.max_disagreement
    ('0.00892', 0.1)
    """

    n_candidates: int
    rows_per_site: tuple[int, ...]
    max_disagreement: float
    noise_scale: str
    spread: float
    given_up: float
    basis: str
    frontier: tuple[ChoicePoint, ...]
    without_noise: float | None = None

    def __str__(self) -> str:
        sites = f"{len(self.rows_per_site)} sites"
        rows = sorted(set(self.rows_per_site))
        rows_text = f"{rows[0]:,}" if len(rows) == 1 else f"{rows[0]:,} to {rows[-1]:,}"
        known = (
            "estimated from scored rows"
            if self.basis == "pilot"
            else "at most, whatever the candidates' scores"
        )
        lines = [
            f"choice among {self.n_candidates} finished models, {sites} with {rows_text} rows each",
            f"  noise scale       {self.noise_scale}, to be published",
            f"  disagreement      {self.max_disagreement:g} at most, over seeds and samples",
            f"  score given up    {self.given_up:.4f} on average, {known}",
            f"  spread            {self.spread:.3g}: standard deviation of a difference of two "
            "candidates on one row",
        ]
        if self.without_noise is not None:
            lines.append(
                f"  without noise     sites would differ with {self.without_noise:.3f}, as far as "
                "the pilot can tell"
            )
        lines += ["", "  disagreement   noise scale   score given up"]
        lines += [
            f"  {point.disagreement:>12g}   {point.noise_scale:>11}   {point.given_up:>14.4f}"
            for point in self.frontier
        ]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        data = asdict(self)
        frontier = list(data.pop("frontier"))
        return data | {"rows_per_site": list(self.rows_per_site), "frontier": frontier}


def plan_choice(
    n_candidates: int | None = None,
    samples_per_site: int | Sequence[int] = 10_000,
    max_disagreement: float = 0.1,
    *,
    n_sites: int = 2,
    row_disagreement: float | None = None,
    spread: float | None = None,
    row_scores: ArrayLike | None = None,
) -> ChoicePlan:
    """Plan a choice among finished models, before any site looks at its rows.

    Parameters
    ----------
    n_candidates : int, optional
        Not needed with ``row_scores``.
    samples_per_site : int or sequence of int, default=10000
        Rows of each site; a sequence has one number for each.
    max_disagreement : float, default=0.1
        Probability that not all sites choose the same candidate.
    n_sites : int, default=2
        Number of sites, if ``samples_per_site`` is one number.
    row_disagreement : float, optional
        Share of rows on which one of two leading candidates is right and the other wrong; the
        spread of accuracies is its square root. Default .1, if nothing else is given.
    spread : float, optional
        Instead: standard deviation, over rows, of the difference of two candidates' scores.
    row_scores : array of shape (n_rows, n_candidates), optional
        Instead: scores of the rows of a pilot, larger is better, such as ``labels == y[:, None]``.

    Returns
    -------
    ChoicePlan
        With ``noise_scale``, what the choice gives up, and a frontier.

    Notes
    -----
    Two sites with n rows disagree with probability ``spread * 2 / sqrt(pi n) / (2 noise_scale)``
    at most, to first order, and give up at most ``noise_scale * ln M``. Candidates that agree on
    most rows are cheap to choose among.

    Examples
    --------
    >>> plan = plan_choice(12, samples_per_site=20_000, row_disagreement=0.05)
    >>> plan.noise_scale, round(plan.given_up, 3)
    ('0.00892', 0.019)
    """
    rows_per_site = rows_of_sites(samples_per_site, n_sites)
    if not 0 < max_disagreement < 1:
        raise ReplearnError(
            f"max_disagreement must be a number in (0, 1), got {max_disagreement!r}. It is a "
            "probability; for 5 % pass 0.05."
        )
    if row_scores is not None:
        if n_candidates is not None or row_disagreement is not None or spread is not None:
            raise ReplearnError(
                "row_scores come without n_candidates, row_disagreement and spread, which follow "
                "from them. Leave these out."
            )
        table = _score_table(row_scores)
        centred = table - table.mean(axis=0)
        covariance = centred.T @ centred / len(table)
        return plan_from_scores(
            table.mean(axis=0), covariance, len(table), rows_per_site, max_disagreement
        )
    width = _given_spread(row_disagreement, spread)
    if n_candidates is None or not 2 <= n_candidates <= MAX_CANDIDATES:
        raise ReplearnError(
            f"n_candidates must be an integer from 2 to {MAX_CANDIDATES:,}, got {n_candidates!r}."
        )
    worst = width * site_range(rows_per_site) / 2

    def point(disagreement: float) -> ChoicePoint:
        scale = decimal(worst / disagreement)
        return ChoicePoint(disagreement, scale, most_loss(n_candidates, float(scale)))

    chosen = point(max_disagreement)
    return ChoicePlan(
        n_candidates,
        rows_per_site,
        max_disagreement,
        chosen.noise_scale,
        width,
        chosen.given_up,
        "worst case",
        tuple(map(point, _FRONTIER)),
    )


def plan_from_scores(
    scores: Vector,
    covariance: Matrix,
    n_rows: int,
    rows_per_site: Sequence[int],
    max_disagreement: float,
) -> ChoicePlan:
    """The plan for candidates with scores of a pilot; ``covariance`` is of the scores of a row."""
    spreads = spreads_of(covariance, n_rows)

    def point(disagreement: float) -> ChoicePoint:
        scale = decimal(noise_for(scores, spreads, rows_per_site, disagreement))
        return ChoicePoint(disagreement, scale, expected_loss(scores, float(scale)))

    chosen = point(max_disagreement)
    return ChoicePlan(
        scores.size,
        tuple(rows_per_site),
        max_disagreement,
        chosen.noise_scale,
        2 * max_disagreement * float(chosen.noise_scale) / (_SAFETY * site_range(rows_per_site)),
        chosen.given_up,
        "pilot",
        tuple(map(point, _FRONTIER)),
        _disagreement_without_noise(scores, covariance, n_rows, rows_per_site),
    )


def _disagreement_without_noise(
    scores: Vector, covariance: Matrix, n_rows: int, rows_per_site: Sequence[int]
) -> float:
    """Probability that not all sites would have the same best score, given scores of a pilot.

    The true scores are taken as normal around the pilot's, the sites' as normal around these.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    coins = SharedRandomness("plan of a choice")

    def draws(row: int, rows: int) -> Matrix:
        normals = coins.normals("scores", _DRAWS * scores.size, row=row)
        return np.asarray(normals.reshape(_DRAWS, scores.size) @ root / math.sqrt(rows))

    truth = scores + draws(0, n_rows)
    best = np.array(
        [(truth + draws(site, n)).argmax(axis=1) for site, n in enumerate(rows_per_site, start=1)]
    )
    return float((best != best[0]).any(axis=0).mean())


def spreads_of(covariance: Matrix, n_rows: int) -> Matrix:
    """Standard deviations of score differences, from the covariance of the scores of a row.

    One row on which two candidates differ by 1 is added, since few differences may have been seen:
    a plan from none of them would promise too much.
    """
    variances = np.diag(covariance)
    squares = variances[:, None] + variances[None, :] - 2 * covariance
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) + 1 / n_rows))


def _given_spread(row_disagreement: float | None, spread: float | None) -> float:
    if spread is not None and row_disagreement is not None:
        raise ReplearnError("spread and row_disagreement say the same thing. Leave one out.")
    if spread is not None:
        if not 0 < spread < math.inf:
            raise ReplearnError(f"spread must be a positive number, got {spread!r}.")
        return float(spread)
    share = 0.1 if row_disagreement is None else row_disagreement
    if not 0 < share <= 1:
        raise ReplearnError(f"row_disagreement must be a share in (0, 1], got {share!r}.")
    return math.sqrt(share)


def rows_of_sites(samples_per_site: int | Sequence[int], n_sites: int) -> tuple[int, ...]:
    """Rows of each site, from one number and the number of sites, or one for each."""
    several = isinstance(samples_per_site, Sequence | np.ndarray)
    if not several and (not isinstance(n_sites, int | np.integer) or not 2 <= n_sites <= 10_000):
        raise ReplearnError(f"n_sites must be an integer from 2 to 10,000, got {n_sites!r}.")
    rows: Any = samples_per_site if several else [samples_per_site] * n_sites
    if len(rows) < 2 or not all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 1 for n in rows
    ):
        raise ReplearnError(
            "samples_per_site must be a positive number of rows, or one for each of at least two "
            f"sites, got {samples_per_site!r}."
        )
    return tuple(int(n) for n in rows)


def _score_table(row_scores: ArrayLike) -> Matrix:
    table: NDArray[np.float64] = np.asarray(row_scores, dtype=np.float64)
    if table.ndim != 2 or len(table) < 2 or not 2 <= table.shape[1] <= MAX_CANDIDATES:
        raise ReplearnError(
            "row_scores must have at least two rows and a column for each of 2 to "
            f"{MAX_CANDIDATES:,} candidates, got shape {table.shape}."
        )
    if not np.isfinite(table).all():
        raise ReplearnError(
            "row_scores must be finite. Clip or drop rows that could not be scored."
        )
    return table
