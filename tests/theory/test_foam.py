"""Foam rounding [KORW12]: how often it flips, how long it takes, and the law of its error."""

import math

import numpy as np
import pytest
from scipy import stats

from replearn.codes import FOAM_FLIPS, FOAM_VARIANCE, TYPICAL_FOAM_FLIPS, Coins
from replearn.codes.foam import foam_centre, foam_codes, share_leaving_foam, sin_squared
from tests.error_budget import (
    FALSE_ALARM,
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_close,
)

pytestmark = pytest.mark.slow


def codes_of(points, seeds):
    return np.array([foam_codes(x, 0, Coins(seed)) for x, seed in zip(points, seeds, strict=True)])


def flips(d, step, seeds):
    """How many seeds give other codes to points that differ by ``step``."""
    points = np.random.default_rng(d).normal(size=(len(seeds), d))
    return int((codes_of(points, seeds) != codes_of(points + step, seeds)).any(axis=1).sum())


def direction(kind, d):
    return np.eye(d)[0] if kind == "axis" else np.full(d, d**-0.5)


def test_sines_need_no_library():
    x = np.random.default_rng(0).uniform(-3, 3, size=100_000)
    np.testing.assert_allclose(sin_squared(x), np.sin(np.pi * x) ** 2, rtol=0, atol=2e-15)


@pytest.mark.parametrize("kind", ["axis", "diagonal"])
@pytest.mark.parametrize(("d", "distance"), [(1, 0.05), (4, 0.05), (7, 0.02)])
def test_flip_probability_is_at_most_two_pi_times_the_distance(d, distance, kind, seeds):
    n = 1000
    n_flips = flips(d, distance * direction(kind, d), seeds(n))
    assert_rate_at_most(n_flips, n, FOAM_FLIPS * distance, FALSE_ALARM / 6)
    # would catch 0.42 instead of 0.314 (d < 7) with probability 0.9, 0.20 instead of 0.126


@pytest.mark.parametrize(("d", "distance"), [(1, 0.3), (3, 0.1), (6, 0.05)])
def test_flip_probability_along_an_axis(d, distance, seeds):
    # correlated sampling of two densities: 2 TV / (1 + TV); here TV = D + sin(pi D)/pi, about 2 D
    apart = distance + np.sin(np.pi * distance) / np.pi
    n = 1500
    n_flips = flips(d, distance * direction("axis", d), seeds(n))
    assert_rate_close(n_flips, n, 2 * apart / (1 + apart), false_alarm=FALSE_ALARM / 3)
    # so 4 D for small D; at D = 0.05 would catch 5.0 D or 2.3 D (true: 3.6 D) with probability 0.9


def total_variation(d, distance, n, rng):
    """Monte Carlo: between the laws of the offset of two points, along the diagonal."""
    x = rng.uniform(-0.5, 0.5, size=3 * d * n)
    x = x[rng.random(3 * d * n) < np.cos(np.pi * x) ** 2][: d * n].reshape(-1, d)
    moved = x - distance / np.sqrt(d)
    ratio = np.prod((np.cos(np.pi * moved) / np.cos(np.pi * x)) ** 2 * (abs(moved) < 0.5), axis=1)
    return np.maximum(1 - ratio, 0).mean()


def test_constant_of_flips_along_the_diagonal():
    # 2 TV / D for small D, slowly from 4 (d = 1) to 2 pi sqrt(2/pi) = 5.01: heavy tails
    rng = np.random.default_rng(4)
    constants = [2 * total_variation(d, 0.01, 2_000_000 // d, rng) / 0.01 for d in (1, 7, 200)]
    assert constants == sorted(constants)
    assert constants[0] == pytest.approx(4.0, rel=0.01)
    assert constants[-1] == pytest.approx(TYPICAL_FOAM_FLIPS, rel=0.03)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_two_to_the_d_proposals_on_average(d, seeds):
    n = 800
    points = np.random.default_rng(d).normal(size=(n, d))
    # geometric: the standard deviation is that of the mean, so one in sqrt(n)
    assert_mean_close(codes_of(points, seeds(n))[:, 0] + 1, 2.0**d, false_alarm=FALSE_ALARM / 3)
    # would catch 36 % more or 21 % less with probability 0.99


@pytest.mark.parametrize("d", [1, 4])
def test_error_law(d, seeds):
    n = 4000
    points = np.random.default_rng(d).normal(size=(n, d)) * 3
    every = codes_of(points, seeds(n))
    pairs = zip(every, seeds(n), strict=True)
    centres = [foam_centre(codes, 0, Coins(seed)) for codes, seed in pairs]
    errors = np.array(centres) - points
    assert (abs(errors) < 0.5).all()
    assert_mean_close(errors, 0.0, false_alarm=FALSE_ALARM / 12)
    assert_mean_close(errors**2, FOAM_VARIANCE, false_alarm=FALSE_ALARM / 12)

    def law(x):
        return x + 0.5 + np.sin(2 * np.pi * x) / (2 * np.pi)

    for i in range(d):
        # coordinates of one error are independent; those of different seeds are anyway
        assert stats.kstest(errors[:, i], law).pvalue > FALSE_ALARM / (6 * d)
        if i:
            product = errors[:, i] * errors[:, i - 1] / FOAM_VARIANCE
            assert_mean_close(product, 0.0, false_alarm=FALSE_ALARM / 12)
    # would catch a variance wrong by 9 %, a bias of 0.02 and a correlation of 0.11 with prob. 0.9
    near = abs(points[:, 0] % 1 - 0.5) < 0.25
    for part in (near, ~near):  # wherever the point is
        assert stats.kstest(errors[part, 0], law).pvalue > FALSE_ALARM / 24


def test_rounds_have_coins_of_their_own(seeds):
    n, point = 300, np.array([0.1, 0.2])
    same = sum(
        np.array_equal(foam_codes(point, 0, Coins(seed)), foam_codes(point, 1, Coins(seed)))
        for seed in seeds(n)
    )
    assert_rate_at_most(same, n, 1 / 3)
    # two independent geometric numbers with mean 4 are equal with probability 1/7


def test_points_that_leave_are_those_with_other_codes(seeds):
    """The shortcut past far proposals finds exactly what rounding every point again finds."""
    rng = np.random.default_rng(8)
    for seed in seeds(20):
        d = int(rng.integers(1, 6))
        point, coins = rng.normal(size=d), Coins(seed)
        moved = rng.normal(size=(40, d)) * 10 ** rng.uniform(-3, -0.5)
        codes = foam_codes(point, 2, coins)
        other = [not np.array_equal(foam_codes(point + step, 2, coins), codes) for step in moved]
        assert share_leaving_foam(point, codes, moved, 2, coins) == math.fsum(other) / 40
