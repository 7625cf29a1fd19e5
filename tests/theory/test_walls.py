"""The chance that a displacement leaves a cell, against counting (`replearn.codes.walls`)."""

import math

import numpy as np
import pytest
from scipy import stats

from replearn.codes.cells import padded_size
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import residual, round_codes
from replearn.codes.walls import chance_to_leave
from tests.error_budget import assert_rate_close

CASES = [
    *[("centre", 3), ("a2", 2), ("d3s", 3), ("d4", 4), ("d5s", 5), ("e6s", 6), ("e7s", 7)],
    *[("e8", 8), ("d10p", 9), ("d10p", 10), ("leech", 13), ("e8+centre", 9), ("d4+a2", 6)],
]


def draw_case(rounding, n, rng, seed):
    """A point, its codes and residual, and a spread that is neither round nor of full rank."""
    shared = SharedRandomness(seed)
    point = rng.normal(size=n)
    codes = round_codes(point, 1.0, rounding, shared)
    offset = residual(point, codes, 1.0, rounding, shared)
    spread = rng.normal(size=(5, n)) * rng.uniform(0.02, 0.12, size=n) / math.sqrt(5)
    return shared, point, codes, offset, spread


@pytest.mark.parametrize(("rounding", "n"), CASES)
def test_chance_to_leave_is_the_share_that_leaves(rounding, n, seed_block):
    rng = np.random.default_rng([seed_block, n, len(rounding)])
    n_draws = 3000
    for seed in range(2):
        shared, point, codes, offset, spread = draw_case(rounding, n, rng, seed)
        chance = chance_to_leave(offset, spread, rounding)
        moved = point + rng.normal(size=(n_draws, 5)) @ spread
        left = sum(np.any(round_codes(p, 1.0, rounding, shared) != codes) for p in moved)
        assert_rate_close(int(left), n_draws, chance, tolerance=0.03 * chance + 0.01)
        # would catch a chance of .10 that should be .16 with probability .9


def test_intervals_against_the_exact_chance():
    spread = np.array([[0.1]])
    for offset in (0.0, 0.2, -0.35, 0.45):
        walls = (0.5 - offset, 0.5 + offset)
        exact = sum(stats.norm.sf(wall / 0.1) for wall in walls)
        chance = chance_to_leave(np.array([offset]), spread, "centre")
        assert chance == pytest.approx(exact, rel=0.05)  # of 512 signs, not quite half are +


def test_squares_against_the_exact_chance_down_to_one_in_a_million():
    # independent coordinates: the chances to stay multiply
    deviations = np.array([0.09, 0.06])
    for offset in np.array([[0.0, 0.0], [0.1, -0.2], [0.3, 0.1], [0.45, 0.4]]):
        inside = stats.norm.cdf((0.5 - offset) / deviations)
        inside -= stats.norm.cdf((-0.5 - offset) / deviations)
        chance = chance_to_leave(offset, np.diag(deviations), "centre")
        exact = 1 - inside.prod()
        assert chance == pytest.approx(exact, rel=0.25 if exact < 1e-4 else 0.08)


def test_it_does_not_matter_which_root_of_the_covariance():
    rng = np.random.default_rng(1)
    spread = rng.normal(size=(40, 8)) * 0.02
    root = np.linalg.cholesky(spread.T @ spread).T
    for offset in rng.uniform(-0.2, 0.2, size=(3, 8)):
        chance = chance_to_leave(offset, spread, "e8")
        assert chance == pytest.approx(chance_to_leave(offset, root, "e8"), rel=1e-6)


def test_centre_is_safest_and_no_spread_never_leaves():
    offsets = [t * np.array([0.4, 0.1, 0.0, 0.2]) for t in (0.0, 0.5, 1.0)]
    chances = [chance_to_leave(offset, 0.1 * np.eye(4), "d4") for offset in offsets]
    assert np.all(np.diff(chances) > 0)
    assert all(chance_to_leave(offset, np.zeros((2, 4)), "d4") == 0 for offset in offsets)


def test_padding_does_not_move(seed_block):
    rng = np.random.default_rng([seed_block, 7])
    assert padded_size(5, "e8") == 8
    spread = rng.normal(size=(6, 5)) * 0.05
    offset = rng.uniform(-0.1, 0.1, size=8)
    wide = np.concatenate([spread, np.zeros((6, 3))], axis=1)
    assert chance_to_leave(offset, spread, "e8") == pytest.approx(
        chance_to_leave(offset, wide, "e8"), rel=1e-9
    )
