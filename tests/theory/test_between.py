"""Cells that know centres: a new centre leaves them at most about as often as planned."""

import math

import numpy as np
import pytest

import replearn as rl
from replearn.codes import chance_of_each, width_for
from replearn.glm import CentreFits, Coordinates, assumed, learned
from tests.error_budget import assert_rate_at_least, assert_rate_at_most

N_NUMBERS, PLANNED = 8, 0.05
COORDINATES = Coordinates.of(np.array([[0.1]]), np.eye(N_NUMBERS), 1e-6)
#: Two strong slopes, as models have them.
STRONG = np.array([-1.0, 1.9, -0.6, *[0.1] * (N_NUMBERS - 3)])
#: Standard deviations between centres: the constant's, and those of the slopes.
SPREADS = {
    "typical": (0.2 * math.sqrt(0.1), 0.03),
    "small": (0.02, 0.005),
    "large": (0.13, 0.12),
    "none": (0.0, 0.0),
    "proportional": (0.0632, 0.1 * np.abs(STRONG[1:])),
    "mixed": (0.0632, np.array([0.19, 0.01, 0.01, 0.03, 0.03, 0.03, 0.1])),
}


def leaving(n_centres, spread, trials, rng, sizes=(800, 4000)):
    """How many new centres leave some cell; each trial draws its own original and new centre."""
    tau = np.empty(N_NUMBERS)
    tau[0], tau[1:] = spread
    names = tuple(map(str, range(n_centres)))
    each = chance_of_each(PLANNED, N_NUMBERS)
    n_left = 0
    for _ in range(trials):
        n_rows = rng.integers(*sizes, size=n_centres).astype(float)
        truths = STRONG + tau * rng.normal(size=(n_centres, N_NUMBERS))
        numbers = truths + rng.normal(size=truths.shape) / np.sqrt(n_rows)[:, None]
        fits = CentreFits(names, numbers, n_rows)

        # the original pools its rows; the new centre has its own truth and rows
        pooled = n_rows @ numbers / n_rows.sum()
        between = learned(fits, np.ones(N_NUMBERS), COORDINATES, pooled)
        here = STRONG + tau * rng.normal(size=N_NUMBERS)
        here += rng.normal(size=N_NUMBERS) / math.sqrt(sizes[0])
        sampling = np.full(N_NUMBERS, math.sqrt(1 / n_rows.sum() + 1 / sizes[0]))
        deviations, freedoms = between.with_sampling(sampling)
        widths = deviations * [width_for(each, 8, freedom) for freedom in freedoms]
        residual = (rng.random(N_NUMBERS) - 0.5) * widths / 2**8
        n_left += bool((np.abs(here - pooled + residual) > widths / 2).any())
    return n_left


@pytest.mark.parametrize("spread", list(SPREADS))
@pytest.mark.parametrize("n_centres", [2, 4, 8])
def test_new_centres_leave_learned_cells_as_planned_at_most(n_centres, spread, seeds):
    """Also centres that differ four times as much in their slopes as typical ones do."""
    rng = np.random.default_rng(seeds(1)[0])
    trials = 400
    n_left = leaving(n_centres, SPREADS[spread], trials, rng)
    assert_rate_at_most(n_left, trials, 1.5 * PLANNED)  # catches 0.17 with probability 0.9


def test_they_are_not_far_too_wide_either(seeds):
    """Eight typical centres have shown enough: at least half of what is planned leaves."""
    rng = np.random.default_rng(seeds(1)[0])
    n_left = leaving(8, SPREADS["typical"], 400, rng)
    assert_rate_at_least(n_left, 400, PLANNED / 2)


def test_a_typical_centre_leaves_assumed_cells_as_planned(seeds):
    rng = np.random.default_rng(seeds(1)[0])
    trials = 20_000
    between = assumed(COORDINATES)
    sampling = np.full(N_NUMBERS, 0.02)
    deviations, freedoms = between.with_sampling(sampling)
    assert freedoms == [None] * N_NUMBERS
    widths = deviations * width_for(chance_of_each(PLANNED, N_NUMBERS), 8)
    moves = deviations * rng.normal(size=(trials, N_NUMBERS))
    moves += (rng.random(moves.shape) - 0.5) * widths / 2**8
    n_left = int((np.abs(moves) > widths / 2).any(axis=1).sum())
    assert_rate_at_most(n_left, trials, PLANNED)
    assert_rate_at_least(n_left, trials, 0.9 * PLANNED)


@pytest.mark.parametrize("n_centres", [2, 3, 4])
def test_learned_cells_are_those_that_their_own_study_implies(n_centres, tmp_path):
    """Student's law steps with the spread of rows: stated and planned spreads must not differ."""
    rng = np.random.default_rng(n_centres)
    centre = np.repeat(np.arange(n_centres), 150)
    for number in range(4):
        slopes = 1 + rng.normal(size=(n_centres, 4)) / 2
        X = rng.normal(size=(len(centre), 4))
        y = rng.logistic(size=len(centre)) < (X * slopes[centre]).sum(axis=1)
        fit = rl.ReplicableLogisticClassifier(ridge=0.01).fit(X, y, centres=centre)

        study = fit.study_
        assert study.n_centres == n_centres
        assert (study.widths / study.implied_widths).min() > 0.99
        study.save(tmp_path / f"{number}.json")
