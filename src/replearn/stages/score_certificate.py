"""What a logistic fit can say about its own replicability."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr, xlog1py, xlogy

from replearn.codes.cells import CELLS, runs
from replearn.codes.design import Design
from replearn.codes.walls import chance_to_leave
from replearn.kernels.small_algebra import solve_positive
from replearn.plans.cell_prices import chosen_positions
from replearn.plans.plan_logistic import LogisticPlan
from replearn.stages.certificate import ASSUMES, Certificate
from replearn.stages.intervals import largest_means
from replearn.stages.scores import Scored
from replearn.types import Matrix, Vector

_CELLS_AROUND = 2  # in which the first lab may be
_N_PLACES, _N_POSITIONS = 2000, 8000  # of the first point: drawn for an estimate, for the bound
_STEP = 1.01  # ratio of deviations that are told apart in the bound
_FARTHEST, _N_ENDS, _N_STARTS = 6.5, 66, 33  # of the mixture of cubes, in spreads
_OF_WEIGHTS = ", with weights that were given before the rows were looked at"


def certify_scores(scored: Scored, plan: LogisticPlan, follows: bool = False) -> Certificate:
    """Certificate of a logistic fit.

    ``follows``: the hint was published by another lab, with which the estimate is then concerned.

    Notes
    -----
    Estimate: another lab's point is normal around mine with twice the sandwich covariance of a
    mean over my rows; counted is how often it leaves my cell. A lab that follows a hint knows more:
    the first lab's point is near the centre of its cell (`chance_of_another_cell`). Bound, for
    one step: what is rounded
    is an affine function of a mean of bounded vectors, so a coordinate of two labs' difference
    has a standard deviation of at most ``sqrt(2 v / n)``, and v has an empirical bound
    (`deviation_bounds`). Without a hint a wall is crossed with probability at most the sum of these
    over the widths; with one, see `hinted_bound`. Calibration is tested in
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
        estimate = chance_to_leave(scored.residual, spread, scored.space.rounding)
    return Certificate(
        estimated_disagreement=estimate,
        disagreement_bound=bound,
        confidence=confidence,
        assumes=ASSUMES + (_OF_WEIGHTS if scored.sums.squares is not None else ""),
        n_batches=int(n_rows),
    )


def chance_of_another_cell(
    residual: Vector, variances: Vector, n_rows: float, design: Design
) -> float:
    """Probability that the first lab's cell is not that of a lab which follows its hint.

    ``residual`` is the following lab's place in its cell, from the centre, ``variances`` those of
    what one row adds, in cells, which are cubes.

    Notes
    -----
    The first lab's place in its cell has a known law, independent of how far the labs are apart
    (docs/theory.md). So, coordinate by coordinate, a cell that is m further is as likely as the
    density of "difference plus place" at ``residual + m``; coordinates are taken as independent.
    """
    ratios = 1 / np.maximum(design.spread_numbers, 1e-9)
    places = _first_positions(tuple(ratios.tolist()), design.space.hint_bits, _N_PLACES)
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
        # a mean is not larger than a root mean square
        thirds = heaviness * (reach + deviations) / n_rows
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
    return np.asarray(limits * np.sqrt(largest_means(shares, math.log(1 / failure) / n_rows)))


def proved_crossings(gaps: Vector, thirds: Vector, rounding: str) -> float:
    """Bound of the chance that two points have other codes, over uniform offsets of the grid.

    In each coordinate, in cells, ``gaps`` are standard deviations of two labs' difference, at most,
    and ``thirds`` bounds of a row's part over the number of rows.

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
    """Chance to cross a wall, averaged over positions of the first point, at most; cubes only.

    ``deviations`` bound the root mean squares and ``reach`` the size of what one row adds, in
    cells; ``failure`` is the chance that the drawn positions say too little. ``heaviness`` is the
    largest weight of a row over the mean; above 1: Bernstein's tails, which are wide.

    Notes
    -----
    Positions are drawn; the chance to leave is a number in [0, 1] for each, so one bound for a mean
    is enough for all positions that were not drawn (`largest_means`). For those that were, see
    `crossings_beyond`.
    """
    if design.space.rounding != "centre":
        return 1.0
    ratios = tuple((1 / np.maximum(design.spread_numbers, 1e-9)).tolist())
    bits = design.space.hint_bits
    positions = _first_positions(ratios, bits, _N_PLACES if heaviness > 1 else _N_POSITIONS)
    if heaviness > 1:
        walls = np.stack([0.5 - positions, 0.5 + positions])
        far = heaviness * (reach + deviations)
        exponents = n_rows * walls**2 / (2 * (2 * deviations**2 + far * walls / 3))
        leaving = float(np.minimum(1.0, np.exp(-exponents).sum(axis=(0, 2))).mean())
    else:
        # rounded up, so that fits of one study look up what others of it have found
        powers = np.ceil(np.log(np.maximum(deviations, 1e-300)) / math.log(_STEP)).astype(int)
        leaving = 0.0
        for j, power in enumerate(powers.tolist()):
            leaving += _crossings(ratios, bits, j, power, float(reach[j]), n_rows)
    distance = math.log(1 / failure) / len(positions)
    return float(largest_means(np.array(min(1.0, leaving)), distance))


@lru_cache(maxsize=4096)
def _crossings(
    ratios: tuple[float, ...], bits: int, j: int, power: int, reach: float, n_rows: float
) -> float:
    """Chance to cross either wall of a coordinate, at most."""
    places = _first_positions(ratios, bits, _N_POSITIONS)[:, j]
    distances = np.sort(np.concatenate([0.5 - places, 0.5 + places]))
    return 2 * crossings_beyond(distances, min(_STEP**power, reach), reach, n_rows)


def crossings_beyond(distances: Vector, deviation: float, reach: float, n_rows: float) -> float:
    """Chance that two labs' difference is beyond a wall, averaged over walls, at most.

    ``distances`` of the walls are positive and ascend; ``deviation`` and ``reach`` bound the root
    mean square and the size of what one row adds. Each lab has ``n_rows``.

    Notes
    -----
    Pair the rows of the labs: given the unordered pairs, the difference is a sum of fair signs. For
    ``f(x) = (x - t)_+^3`` its mean is at most that of a normal with the same variance [Pin94], and
    that is convex in the variance, which is a sum of bounded terms: largest on average if
    these are 0 or as large as can be. So the chance is at most the mean of every mixture of such
    f that is, everywhere, at least the share of walls that are nearer; the best mixture is found
    by a linear programme. Proofs in docs/theory.md, test in tests/theory/test_crossings.py.
    """
    spread = deviation * math.sqrt(2 / n_rows)
    if spread <= 0:
        return 0.0
    ends = np.linspace(0, _FARTHEST, _N_ENDS)  # in units of the spread
    nearer = np.searchsorted(distances, ends * spread, side="right") / distances.size
    nearer[-1] = 1.0  # and all that are farther
    starts = np.linspace(-1.5, _FARTHEST - 0.5, _N_STARTS)
    means = _mean_cubes(starts, deviation, reach, n_rows)
    heights = np.maximum(ends[:-1, None] - starts, 0.0) ** 3
    from scipy.optimize import linprog

    found = linprog(means, A_ub=-heights, b_ub=-nearer[1:], method="highs")
    if found.x is None:
        return 1.0
    mixture = np.maximum(found.x, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # what a solver leaves uncovered
        short = np.where(nearer[1:] > 0, nearer[1:] / (heights @ mixture), 0.0).max()
    return float(min(1.0, max(1.0, short) * (mixture @ means)))


def _mean_cubes(starts: Vector, deviation: float, reach: float, n_rows: float) -> Vector:
    """Means of ``(x - start)_+^3``, in units of the spread, of a normal of binomial variance."""
    chance = min(1.0, (deviation / reach) ** 2 / 2)
    n = math.floor(n_rows)
    middle, wide = n * chance, 12 * math.sqrt(n * chance) + 30
    counts = np.arange(max(0, math.floor(middle - wide)), min(n, math.ceil(middle + wide)) + 1)
    logs = xlogy(counts, chance) + xlog1py(n - counts, -chance)
    logs += gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    weights = np.exp(logs)
    roots = np.sqrt(np.maximum(counts / middle, 1e-12))
    steps = starts / roots[:, None]
    density = np.exp(-(steps**2) / 2) / math.sqrt(2 * math.pi)
    cubes = (steps**2 + 2) * density - (steps**3 + 3 * steps) * ndtr(-steps)
    means = weights @ (np.maximum(cubes, 0.0) * roots[:, None] ** 3)
    # beyond these counts: variance at its largest, chance below 1e-15
    return np.asarray(means + 1e-15 * (n / middle) ** 1.5 * (np.abs(starts) + 2) ** 3)


@lru_cache(maxsize=8)
def _first_positions(ratios: tuple[float, ...], bits: int, n_draws: int) -> Matrix:
    """Positions of first points; kept, as an audit certifies many fits of one design."""
    return chosen_positions(np.array(ratios), bits, n_draws)[0]


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
