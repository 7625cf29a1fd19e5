"""Cells that know centres: a new centre leaves them at most about as often as planned."""

import math

import numpy as np
import pytest
from scipy import stats

import replearn as rl
from replearn.glm import GLM, CentreFits, Coordinates, GlmPromise, assumed, learned
from replearn.glm.between import SHARES, SIZES
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
#: How many times as much a centre differs, in all its numbers.
UNLIKE = {
    "alike": lambda rng: 1.0,
    "heavy tails": lambda rng: math.sqrt(4 / rng.chisquare(4)),
    "a tenth is unlike": lambda rng: 4.0 if rng.random() < 0.1 else 1.0,
    "without an effect": lambda rng: 1.0,
}


def centre(unlike, spread, n_rows, rng):
    """A centre's own numbers."""
    tau = np.append(*spread) if np.size(spread[1]) > 1 else np.full(N_NUMBERS, spread[1])
    tau[0] = spread[0]
    truth = STRONG + UNLIKE[unlike](rng) * tau * rng.normal(size=N_NUMBERS)
    if unlike == "without an effect":
        truth[1:][rng.random(N_NUMBERS - 1) < 0.05] = 0.0
    return truth + rng.normal(size=N_NUMBERS) / math.sqrt(n_rows)


def leaving(n_centres, spread, trials, rng, unlike="alike", sizes=(800, 4000)):
    """How many new centres leave some cell; each trial draws its own original and new centre."""
    names = tuple(map(str, range(n_centres)))
    n_left = 0
    for _ in range(trials):
        n_rows = np.exp(rng.uniform(*np.log(sizes), size=n_centres))
        numbers = np.array([centre(unlike, spread, rows, rng) for rows in n_rows])
        fits = CentreFits(names, numbers, n_rows)

        # the original pools its rows; the new centre has its own truth and rows
        pooled = n_rows @ numbers / n_rows.sum()
        between = learned(fits, np.ones(N_NUMBERS), COORDINATES, pooled)
        sampling = np.full(N_NUMBERS, math.sqrt(1 / n_rows.sum() + 1 / sizes[0]))
        widths = GLM.sizes(GlmPromise(PLANNED, 8, 2, 2), sampling, between).widths
        residual = (rng.random(N_NUMBERS) - 0.5) * widths / 2**8
        here = centre(unlike, spread, sizes[0], rng)
        n_left += bool((np.abs(here - pooled + residual) > widths / 2).any())
    return n_left


@pytest.mark.parametrize("spread", list(SPREADS))
@pytest.mark.parametrize("n_centres", [2, 4, 8])
def test_new_centres_leave_learned_cells_as_planned_at_most(n_centres, spread, seeds):
    """Also centres that differ four times as much in their slopes as typical ones do."""
    rng = np.random.default_rng(seeds(1)[0])
    trials = 100
    n_left = leaving(n_centres, SPREADS[spread], trials, rng)
    assert_rate_at_most(n_left, trials, PLANNED)


@pytest.mark.parametrize("unlike", list(UNLIKE))
@pytest.mark.parametrize("spread", ["typical", "large", "mixed"])
@pytest.mark.parametrize("sizes", [(800, 4000), (300, 10_000)])
def test_so_do_centres_that_are_unlike_the_others(unlike, spread, sizes, seeds):
    """Four centres make the original; its cells are planned for the smallest."""
    rng = np.random.default_rng(seeds(1)[0])
    trials = 100
    n_left = leaving(4, SPREADS[spread], trials, rng, unlike, sizes)
    assert_rate_at_most(n_left, trials, 1.5 * PLANNED)


def test_constants_that_happen_to_be_alike_promise_little_where_slopes_differ():
    """Ten times as much as typical ones, say: the next base risk may differ as much."""
    slopes = 0.3 * np.random.default_rng(0).normal(size=(4, N_NUMBERS - 1))
    numbers = np.column_stack([np.full(4, -1.0), slopes])
    fits = CentreFits(tuple("abcd"), numbers, np.full(4, 1e6))
    found = learned(fits, np.ones(N_NUMBERS), COORDINATES, numbers.mean(axis=0)).deviations[0]

    typical = assumed(COORDINATES).deviations[0] / math.sqrt(2)
    prior_share = 4 / 7  # the constants themselves show nothing
    assert found == pytest.approx(10 * typical * math.sqrt(prior_share * 1.25), rel=0.3)


def test_they_are_not_far_too_wide_either(seeds):
    """Where centres differ by the assumed law, a fifth of what is planned leaves at least."""
    rng = np.random.default_rng(seeds(1)[0])
    n_left = leaving(8, SPREADS["large"], 500, rng, "heavy tails")
    assert_rate_at_least(n_left, 500, PLANNED / 5)


def test_sizes_of_centres_follow_students_law():
    """Of four degrees of freedom, rounded up to a power of two."""
    sizes = np.array(SIZES)
    up_to = stats.chi2.sf(4 / sizes**2, 4)
    assert np.cumsum(SHARES) / 1e5 == pytest.approx(up_to, abs=1e-4)
    assert sum(SHARES) == 100_000


def test_a_typical_centre_leaves_assumed_cells_as_planned(seeds):
    rng = np.random.default_rng(seeds(1)[0])
    trials = 20_000
    between = assumed(COORDINATES)
    sampling = np.full(N_NUMBERS, 0.02)
    deviations = between.with_sampling(sampling)
    widths = GLM.sizes(GlmPromise(PLANNED, 8, 2, 2), sampling, between).widths
    moves = deviations * rng.normal(size=(trials, N_NUMBERS))
    moves += (rng.random(moves.shape) - 0.5) * widths / 2**8
    n_left = int((np.abs(moves) > widths / 2).any(axis=1).sum())
    assert_rate_at_most(n_left, trials, PLANNED)
    assert_rate_at_least(n_left, trials, 0.9 * PLANNED)


@pytest.mark.parametrize("n_centres", [2, 3, 4])
def test_learned_cells_are_those_that_their_own_study_implies(n_centres, tmp_path):
    """Sizes of centres are planned with stated spreads, from which a replication computes them."""
    rng = np.random.default_rng(n_centres)
    centre = np.repeat(np.arange(n_centres), 150)
    for number in range(4):
        slopes = 1 + rng.normal(size=(n_centres, 4)) / 2
        X = rng.normal(size=(len(centre), 4))
        y = rng.logistic(size=len(centre)) < (X * slopes[centre]).sum(axis=1)
        fit = rl.ReplicableLogisticClassifier(ridge=0.01).fit(X, y, centres=centre)

        study = fit.study_
        assert study.n_centres == n_centres
        assert f"differ as these {n_centres} do" in fit.certificate_.facts().text(details=True)
        assert (study.widths / study.implied_widths).min() > 0.99
        study.save(tmp_path / f"{number}.json")


def test_a_centre_without_an_event_shows_nothing_and_is_named():
    rng = np.random.default_rng(0)
    centre = np.repeat(["a", "b", "c", "none"], 250)
    X = rng.normal(size=(1000, 2))
    y = (rng.logistic(size=1000) < X @ [0.8, -0.5] - 1) & (centre != "none")
    fit = rl.ReplicableLogisticClassifier(ridge=0.01).fit(X, y, centres=centre)
    assert fit.study_.n_centres == 3
    assert "events for a fit of its own: centre 'none'" in str(fit.certificate_)


def test_luck_of_patients_is_no_difference_between_centres():
    """Eight visits of each patient: without groups their luck looks like that of centres."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(720), 8)
    centre = (patient // 120).astype(str)
    X = rng.normal(size=(720, 3))[patient]
    luck = 1.5 * rng.normal(size=720)[patient]
    y = rng.logistic(size=len(X)) < X @ [0.5, -0.3, 0.0] + luck - 1

    slopes = []
    for groups in (None, patient):
        fit = rl.ReplicableLogisticClassifier(ridge=0.01)
        study = fit.fit(X, y, centres=centre, groups=groups).study_
        assert study.n_centres == 6
        slopes.append(np.array(study.between[1:], dtype=float))
    assert (slopes[1] < 0.9 * slopes[0]).all()
