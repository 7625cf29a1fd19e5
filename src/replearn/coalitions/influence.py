"""What each site adds to a coalition, and whether the sites are of one population."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from operator import add
from typing import Any

import numpy as np
from scipy.special import chdtrc

from replearn.coalitions.site_sums import SiteSums, batches_of, scores_of
from replearn.codes.design import Design
from replearn.codes.model import Model
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace
from replearn.errors import ReplearnError
from replearn.kernels.score_sums import ScoreSums
from replearn.kernels.small_algebra import solve_positive
from replearn.plans.sizes import BatchPlan
from replearn.stages.batches import Total
from replearn.stages.recipes import code_space, mean_direction
from replearn.stages.scores import Scored, Steps, next_theta, round_theta
from replearn.types import Codes, Matrix, Vector


@dataclass(frozen=True)
class Influence:
    """What one site adds to the model of a coalition.

    Attributes
    ----------
    site : str
        Its name, or its place among the files.
    n_rows, n_positive : int
    same : bool
        The model is the same without the site.
    codes_moved : tuple of int
        Places of the codes that are others without it.
    shift : tuple of float
        How far the site moves each coded number, in cells.
    estimate, error : tuple of float
        The site's own numbers relative to those of all, in cells, and their standard errors. These
        three are empty for Algorithm 1.
    unknown : int
        Rows with unknown values, over all columns.
    """

    site: str
    n_rows: int
    n_positive: int
    same: bool
    codes_moved: tuple[int, ...]
    shift: tuple[float, ...]
    estimate: tuple[float, ...]
    error: tuple[float, ...]
    unknown: int

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        found = asdict(self)
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in found.items()
        }

    def __str__(self) -> str:
        words = "same without it" if self.same else f"moves codes {list(self.codes_moved)}"
        if self.shift:
            words += f", moves the point by {max(map(abs, self.shift)):.2g} cells at most"
        return (
            f"{self.site}: {self.n_rows:,} rows, {self.n_positive / self.n_rows:.1%} positive, "
            f"{words}"
        )


@dataclass(frozen=True)
class Heterogeneity:
    """Cochran's Q of the sites' mean scores, in the published metric.

    Attributes
    ----------
    q : float
        Large if sites differ by more than chance.
    degrees : int
    p_value : float
        Of a larger Q if all rows are of one population.
    i_squared : float
        Share of the sites' differences that is more than chance, from 0 to 1.
    by_number : tuple of float
        p-value for each coded number alone.
    """

    q: float
    degrees: int
    p_value: float
    i_squared: float
    by_number: tuple[float, ...]

    def __str__(self) -> str:
        words = "sites differ by no more than chance" if self.p_value >= 0.01 else "SITES DIFFER"
        return f"Q = {self.q:.1f} (chi-squared, {self.degrees}), p = {self.p_value:.2g}: {words}"


def influences(
    sites: Sequence[SiteSums],
    total: ScoreSums,
    looked: Vector,
    steps: Steps,
    design: Design,
    model: Model,
) -> tuple[Influence, ...]:
    """What each site adds: from the sums of the last round, which ``looked`` at these weights.

    With one step the model without a site is exactly that of the other sites' rows. With more, the
    other sites take the last step from where all sites came to. Left-out models use the hint of
    the model of all.
    """
    assert isinstance(model.space, ScoreSpace)
    shared, hint = model.shared, model.space.hint
    through = published_map(total, design)
    whole = next_theta(looked, total, design)
    relative = steps.following - whole  # not 0 if the last pass went too far
    point = round_theta(steps.following, total, design, shared, hint)
    own_scores = _points(sites, through)
    centre = through @ total.mean_score()
    found = []
    rest = _others(list(map(scores_of, sites)))
    for place, (site, others) in enumerate(zip(sites, rest, strict=True)):
        codes: Codes | None = model.codes
        shift = np.zeros(point.components.size)
        if others is not None:
            without = _without(others, looked, relative, design, shared, hint)
            codes = None if without is None else without.codes
            shift = shift if without is None else point.components - without.components
        error = np.sqrt(np.maximum(0.0, np.diag(_spread(scores_of(site), through))) / site.n_rows)
        estimate = centre - own_scores[place]  # a step goes against the score
        found.append(_influence(place, site, model, codes, shift, estimate, error))
    return tuple(found)


def batch_influences(
    sites: Sequence[SiteSums], plan: BatchPlan, model: Model
) -> tuple[Influence, ...]:
    """What each site adds to a model of Algorithm 1: the model without it is that of the others."""
    space, found = code_space(plan).with_hint(model.hint), []
    rest = _others(list(map(batches_of, sites)))
    for place, (site, others) in enumerate(zip(sites, rest, strict=True)):
        codes = model.codes
        if others is not None:
            codes = space.encode(mean_direction(others.batches, plan), model.shared)
        found.append(_influence(place, site, model, codes))
    return tuple(found)


def _influence(
    place: int,
    site: SiteSums,
    model: Model,
    codes: Codes | None,
    shift: Iterable[float] = (),
    estimate: Iterable[float] = (),
    error: Iterable[float] = (),
) -> Influence:
    """What a site adds, if the others have these codes; None: they make no model."""
    moved = () if codes is None else tuple(map(int, np.flatnonzero(codes != model.codes)))
    return Influence(
        site=f"file {place + 1}" if site.site is None else site.site,
        n_rows=site.n_rows,
        n_positive=int(site.sums.class_weights[1]),
        same=codes is not None and not moved,
        codes_moved=moved,
        shift=_plain(shift),
        estimate=_plain(estimate),
        error=_plain(error),
        unknown=sum(site.unknown),
    )


def _without(
    others: ScoreSums,
    looked: Vector,
    relative: Vector,
    design: Design,
    shared: SharedRandomness,
    hint: int,
) -> Scored | None:
    """What the other sites learn; None if they have one class or no curvature."""
    if min(others.class_weights) == 0:
        return None
    try:
        theta = next_theta(looked, others, design) + relative
        return round_theta(theta, others, design, shared, hint)
    except ReplearnError:
        return None


def _others(sums: Sequence[Total]) -> list[Total | None]:
    """For each site the sums of all others, by sums from both ends."""
    before: list[Total | None] = [None, *accumulate(sums[:-1], add)]
    after: list[Total | None] = [*reversed(list(accumulate(reversed(sums[1:]), add))), None]
    return [
        b if a is None else a if b is None else a + b for b, a in zip(before, after, strict=True)
    ]


def heterogeneity(sites: Sequence[SiteSums], total: ScoreSums, design: Design) -> Heterogeneity:
    """Test whether the mean scores of sites, two at least, are compatible with one population.

    Notes
    -----
    With ``z_s`` the mean score of site s seen in cells, and C the pooled covariance of a row within
    sites, ``Q = sum n_s (z_s - z)' C^-1 (z_s - z)`` has, for rows of one population and many rows
    per site, a chi-squared law of ``(S - 1) rank C`` degrees [Cochran54]. Tested in
    tests/theory/test_heterogeneity.py.
    """
    through = published_map(total, design)
    weights = np.array([site.n_rows for site in sites], dtype=np.float64)
    points = _points(sites, through)
    spreads = np.array([_spread(scores_of(site), through) for site in sites])
    pooled = np.tensordot(weights, spreads, 1) / weights.sum()
    apart = points - weights @ points / weights.sum()
    values, vectors = np.linalg.eigh(pooled)
    kept = values > 1e-10 * max(float(values.max()), 1e-300)
    standard = apart @ vectors[:, kept] / np.sqrt(values[kept])
    q, degrees = float(weights @ (standard**2).sum(axis=1)), (len(sites) - 1) * int(kept.sum())
    variances = np.maximum(np.diag(pooled), 1e-300)
    alone = weights @ (apart**2 / variances)
    return Heterogeneity(
        q=q,
        degrees=degrees,
        p_value=float(chdtrc(degrees, q)),
        i_squared=max(0.0, 1 - degrees / q) if q > 0 else 0.0,
        by_number=_plain(chdtrc(len(sites) - 1, alone)),
    )


def published_map(total: ScoreSums, design: Design) -> Matrix:
    """From a mean score to cells: what one step does to the coded numbers, without its sign."""
    bread = design.curvature_numbers
    if design.n_steps > 1:
        bread = total.mean_fisher() + design.penalty_numbers
    return np.asarray(design.encode_numbers @ np.asarray(solve_positive(bread, np.eye(len(bread)))))


def _points(sites: Sequence[SiteSums], through: Matrix) -> Matrix:
    return np.array([through @ scores_of(site).mean_score() for site in sites])


def _spread(sums: ScoreSums, through: Matrix) -> Matrix:
    """Covariance, in cells, of what one row adds."""
    score = sums.mean_score()
    meat = sums.mean_second() - np.outer(score, score)
    return np.asarray(through @ meat @ through.T)


def _plain(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
