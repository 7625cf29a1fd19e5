"""What a logistic fit can say about its own replicability."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import rel_entr

from replearn.codes.cells import CELLS, runs
from replearn.codes.design import Design
from replearn.codes.walls import chance_to_leave
from replearn.kernels.small_algebra import solve_positive
from replearn.plans.cell_prices import chosen_positions
from replearn.plans.plan_logistic import LogisticPlan
from replearn.stages.certificate import Certificate
from replearn.stages.scores import Scored
from replearn.types import Matrix, Vector

ASSUMES = "rows drawn independently from one population, by both labs, the same number"
_CELLS_AROUND = 2  # in which the first lab may be

ASSUMES_OF_WEIGHTS = ", with weights that were given before the rows were looked at"


def certify_scores(scored: Scored, plan: LogisticPlan, follows: bool = False) -> Certificate:
    """Certificate of a logistic fit.

    Parameters
    ----------
    scored : Scored
    plan : LogisticPlan
    follows : bool, default=False
        The hint was published by another lab, with which the estimate is then concerned.

    Returns
    -------
    Certificate

    Notes
    -----
    Estimate: another lab's point is normal around mine with twice the sandwich covariance of a
    mean over my rows; counted is how often it leaves my cell. A lab that follows a hint knows more:
    the first lab's point is near the centre of its cell (`chance_of_another_cell`). Bound, for
    one step: what is rounded
    is an affine function of a mean of bounded vectors, so a coordinate of two labs' difference
    has a standard deviation of at most ``sqrt(2 v / n)``, and v has an empirical bound
    (`deviation_bounds`). Without a hint a wall is crossed with probability at most the sum of these
    over the widths; with one, at most the sum of Bernstein tails beyond the distances to the
    walls, averaged over uniform positions of the first point. Calibration is tested in
    tests/theory/test_score_certificate.py.

    Weights: given these, a weighted mean varies like that of ``n = (sum w)^2 / sum w^2`` rows
    [Kis65], and a row's part in it is at most ``max w / sum w`` instead of ``1 / n``; all three
    inequalities hold for independent terms of unequal size with these two numbers.
    """
    n_rows = scored.sums.effective_rows
    covariance = covariance_of_row(scored, plan.design)
    spread = _root(covariance * (2 / n_rows))
    bound, confidence = 1.0, 1.0
    if plan.design.n_steps == 1:
        bound, confidence = proved_bound(scored, plan)
    if follows and scored.space.rounding == "centre" and scored.space.hint_bits:
        estimate = chance_of_another_cell(scored.residual, np.diag(covariance), n_rows, plan.design)
    else:
        left = chance_to_leave(scored.residual[None, :], spread, scored.space.rounding)
        estimate = float(left[0])
    return Certificate(
        estimated_disagreement=estimate,
        disagreement_bound=bound,
        confidence=confidence,
        assumes=ASSUMES + (ASSUMES_OF_WEIGHTS if scored.sums.squares is not None else ""),
        n_batches=int(n_rows),
    )


def chance_of_another_cell(
    residual: Vector, variances: Vector, n_rows: float, design: Design
) -> float:
    """Probability that the first lab's cell is not that of a lab which follows its hint.

    Parameters
    ----------
    residual : array of shape (q,)
        The following lab's place in its cell, from the centre.
    variances : array of shape (q,)
        Of what one row adds, in cells.
    n_rows : float
    design : Design
        With cubes and hint bits.

    Notes
    -----
    The first lab's place in its cell has a known law, independent of how far the labs are apart
    (docs/theory.md). So, coordinate by coordinate, a cell that is m further is as likely as the
    density of "difference plus place" at ``residual + m``; coordinates are taken as independent.
    """
    ratios = 1 / np.maximum(design.spread_numbers, 1e-9)
    places = _first_positions(tuple(ratios.tolist()), design.space.hint_bits)
    spread = np.maximum(np.sqrt(2 * variances / n_rows), 1e-9)
    own, all_cells = np.zeros(spread.size), np.zeros(spread.size)
    for further in range(-_CELLS_AROUND, _CELLS_AROUND + 1):
        distance = (residual[: spread.size] + further - places) / spread
        density = np.exp(-(distance**2) / 2).mean(axis=0) + 1e-300
        all_cells += density
        if further == 0:
            own = density
    return float(1 - np.prod(own / all_cells))


def covariance_of_row(scored: Scored, design: Design) -> Matrix:
    """Covariance, in cells, of what one row adds: the sandwich, seen through the encoding."""
    score = scored.sums.mean_score()
    meat = scored.sums.mean_second() - np.outer(score, score)
    through = _through(scored, design)
    return np.asarray(through @ meat @ through.T)


def _through(scored: Scored, design: Design) -> Matrix:
    """From a row's score to what it adds, in cells."""
    bread = design.curvature_numbers
    if design.n_steps > 1:
        bread = scored.sums.mean_fisher() + design.penalty_numbers
    return design.encode_numbers @ np.asarray(solve_positive(bread, np.eye(len(bread))))


def proved_bound(scored: Scored, plan: LogisticPlan) -> tuple[float, float]:
    """Bound of the disagreement over seeds, and its confidence."""
    design, failure = plan.design, plan.failure_prob / 2
    n_rows, heaviness = scored.sums.effective_rows, scored.sums.heaviness
    through = _through(scored, design)
    squares = np.diag(through @ scored.sums.mean_second() @ through.T)
    reach = term_reach(design)
    # with weights as many rows as the heaviest could make up: log-moments are convex in the weight
    deviations = deviation_bounds(squares, reach, n_rows / heaviness, failure / reach.size)
    if design.space.hint_bits == 0:
        gaps = deviations * math.sqrt(2 / n_rows)
        thirds = (
            heaviness * (reach + deviations) / n_rows
        )  # a mean is not larger than a root mean square
        return proved_crossings(gaps, thirds, design.space.rounding), 1 - failure
    bound = hinted_bound(deviations, reach, n_rows, design, failure, heaviness)
    return bound, 1 - 2 * failure


def deviation_bounds(squares: Vector, reach: Vector, n_rows: float, failure: float) -> Vector:
    """Upper confidence bounds of root mean squares, from means of squares of bounded terms.

    ``Y = (X / reach)^2`` is between 0 and 1, so its mean over n rows is q or less with probability
    ``exp(-n kl(q, E Y))`` at most, kl the divergence of two coins [Hoe63]: solved for ``E Y``. The
    variance of X is at most ``E X^2``.
    """
    limits = np.maximum(reach, 1e-300)
    shares = np.clip(squares / limits**2, 0.0, 1.0)
    low, high = shares.copy(), np.ones_like(shares)
    for _ in range(60):
        middle = (low + high) / 2
        far = n_rows * _divergence(shares, middle) > math.log(1 / failure)
        low, high = np.where(far, low, middle), np.where(far, middle, high)
    return np.asarray(limits * np.sqrt(high))


def _divergence(share: Vector, truth: Vector) -> Vector:
    """Divergence of a coin with one chance from a coin with another, in nats."""
    return np.asarray(rel_entr(share, truth) + rel_entr(1 - share, 1 - truth))


def proved_crossings(gaps: Vector, thirds: Vector, rounding: str) -> float:
    """Bound of the chance that two points have other codes, over uniform offsets of the grid.

    Parameters
    ----------
    gaps : array of shape (q,)
        Standard deviation of two labs' difference in each coordinate, in cells, at most.
    thirds : array of shape (q,)
        Bound of a row's part over the number of rows, likewise.
    rounding : str

    Notes
    -----
    A displacement D leaves a cell with probability at most half the integral of ``|<n, D>|`` over
    its surface, n the normal. A mean of n terms X with variance v has ``E|<n, D>|`` of at most
    ``sqrt(2/pi)`` times its standard deviation, plus ``E|X|^3 / (n v)`` [Gol10, constant 1]. The
    symmetry of a cell makes the mean of ``<n, D>^2`` over its surface the mean square of the
    coordinates of D in its block.
    """
    total = 0.0
    for run in runs(rounding, gaps.size):
        cell = CELLS[run.name]
        for start in range(run.start, run.start + run.n_components, cell.block):
            block = slice(start, min(start + cell.block, run.start + run.n_components))
            deviation = math.sqrt(float((gaps[block] ** 2).sum()) / cell.block)
            third = math.sqrt(float((thirds[block] ** 2).sum()))
            total += cell.surface / 2 * (math.sqrt(2 / math.pi) * deviation + third)
    return min(1.0, total)


def hinted_bound(
    deviations: Vector,
    reach: Vector,
    n_rows: float,
    design: Design,
    failure: float,
    heaviness: float = 1.0,
) -> float:
    """Bernstein tails beyond the walls, averaged over positions of the first point; cubes only."""
    if design.space.rounding != "centre":
        return 1.0
    ratios = 1 / np.maximum(design.spread_numbers, 1e-9)
    positions = _first_positions(tuple(ratios.tolist()), design.space.hint_bits)
    walls = np.stack([0.5 - positions, 0.5 + positions])
    # the difference of two means of n: variance 2 v / n, centred terms within reach and mean
    far = heaviness * (reach + deviations)
    exponents = n_rows * walls**2 / (2 * (2 * deviations**2 + far * walls / 3))
    leaving = np.minimum(1.0, np.exp(-exponents).sum(axis=(0, 2)))
    # positions are drawn: an empirical Bernstein bound of their mean, terms in [0, 1]
    n, log = leaving.size, math.log(2 / failure)
    margin = math.sqrt(2 * leaving.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))
    return float(min(1.0, leaving.mean() + margin))


@lru_cache(maxsize=8)
def _first_positions(ratios: tuple[float, ...], bits: int) -> Matrix:
    """Positions of first points; kept, as an audit certifies many fits of one design."""
    return chosen_positions(np.array(ratios), bits)[0]


def term_reach(design: Design) -> Vector:
    """Largest size of what one row adds to each coordinate, in cells.

    A row adds ``-S (p - t) a`` with ``a = (1, D x)``, entries of the score cut to their pushes.
    """
    sensitivity = design.encode_numbers @ np.linalg.inv(design.curvature_numbers)
    return np.asarray(np.abs(sensitivity) @ np.tile(design.push_numbers, design.n_outputs))


def _root(covariance: Matrix) -> Matrix:
    """Rows whose standard normal combination has this covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)
