"""Foam rounding [KORW12]: how often it flips, how long it takes, and the law of its error."""

import numpy as np
import pytest
from scipy import stats

from replearn.codes.boost_space import BoostSpace
from replearn.codes.randomness import SharedRandomness
from replearn.plans.plan_boosting import FOAM_FLIPS, FOAM_VARIANCE, TYPICAL_FOAM_FLIPS
from tests.error_budget import (
    FALSE_ALARM,
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_close,
)

WIDTH = 0.37


def space(d):
    return BoostSpace(d, "foam", repr(WIDTH), 1, "halfspace")


def draws(d, points, seeds):
    """Codes of the points (one for each seed), and the vectors that stand for them."""
    codes, vectors = [], []
    for seed, point in zip(seeds, points, strict=True):
        shared = SharedRandomness(seed)
        codes.append(space(d).encode_round(0, point, shared))
        vectors.append(space(d).decode_round(0, codes[-1], shared))
    return np.array(codes), np.array(vectors)


def flips(d, step, seeds):
    """How many seeds give other codes to points that differ by ``step``."""
    points = np.random.default_rng(d).normal(size=(len(seeds), d))
    here, _ = draws(d, points, seeds)
    there, _ = draws(d, points + step, seeds)
    return int((here != there).any(axis=1).sum())


def direction(kind, d):
    return np.eye(d)[0] if kind == "axis" else np.full(d, d**-0.5)


def cosine_law(n, rng):
    """Draws from ``2 cos^2(pi x)`` on (-1/2, 1/2), by rejection."""
    x = rng.uniform(-0.5, 0.5, size=3 * n)
    kept = x[rng.random(3 * n) < np.cos(np.pi * x) ** 2]
    return kept[:n]


# ---------------------------------------------------------------- flips


@pytest.mark.parametrize("kind", ["axis", "diagonal"])
@pytest.mark.parametrize(("d", "distance"), [(1, 0.05), (2, 0.05), (4, 0.05), (7, 0.02)])
def test_flip_probability_is_at_most_two_pi_times_the_distance(d, distance, kind, seeds):
    n = 10_000 if d < 7 else 5000
    n_flips = flips(d, distance * WIDTH * direction(kind, d), seeds(n))
    assert_rate_at_most(n_flips, n, FOAM_FLIPS * distance, FALSE_ALARM / 8)
    # would catch .345 instead of .314 (d < 7) with probability .93, .156 instead of .126 with .85


@pytest.mark.parametrize(("d", "distance"), [(1, 0.05), (1, 0.3), (3, 0.1), (6, 0.05)])
def test_flip_probability_along_an_axis(d, distance, seeds):
    # correlated sampling of two densities: 2 TV / (1 + TV); here TV = D + sin(pi D)/pi, about 2 D
    apart = distance + np.sin(np.pi * distance) / np.pi
    n = 10_000
    n_flips = flips(d, distance * WIDTH * direction("axis", d), seeds(n))
    assert_rate_close(n_flips, n, 2 * apart / (1 + apart), false_alarm=FALSE_ALARM / 4)
    # so 4 D for small D; at D = .05 would catch 4.2 D or 3.1 D (true: 3.6 D) with probability .97


def total_variation(d, distance, n, rng):
    """Monte Carlo: between the laws of the offset of two points, along the diagonal."""
    x = cosine_law(d * n, rng).reshape(-1, d)
    moved = x - distance / np.sqrt(d)
    ratio = np.prod((np.cos(np.pi * moved) / np.cos(np.pi * x)) ** 2 * (abs(moved) < 0.5), axis=1)
    return np.maximum(1 - ratio, 0).mean()


def test_flip_probability_along_the_diagonal(seeds):
    d, distance, n = 7, 0.05, 6000
    apart = total_variation(d, distance, 200_000, np.random.default_rng(3))
    n_flips = flips(d, distance * WIDTH * direction("diagonal", d), seeds(n))
    assert_rate_close(n_flips, n, 2 * apart / (1 + apart), 0.002)
    # so 4.1 D at D = .05; would catch 4.8 D or 3.4 D with probability .93


def test_constant_of_flips_along_the_diagonal():
    # 2 TV / D for small D, slowly from 4 (d = 1) to 2 pi sqrt(2/pi) = 5.01: heavy tails
    rng = np.random.default_rng(4)
    constants = [2 * total_variation(d, 0.01, 3_000_000 // d, rng) / 0.01 for d in (1, 7, 200)]
    assert constants == sorted(constants)
    assert constants[0] == pytest.approx(4.0, rel=0.01)
    assert constants[-1] == pytest.approx(TYPICAL_FOAM_FLIPS, rel=0.03)


# ---------------------------------------------------------------- cost


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
def test_two_to_the_d_proposals_on_average(d, seeds):
    n = 3000 if d < 8 else 1500
    points = np.random.default_rng(d).normal(size=(n, d))
    codes, _ = draws(d, points, seeds(n))
    # geometric: the standard deviation is that of the mean, so one in sqrt(n)
    assert_mean_close(codes[:, 0] + 1, 2.0**d, false_alarm=FALSE_ALARM / 5)
    # would catch 15 % more or less (d = 8: 21 %) with probability .99


# ---------------------------------------------------------------- error


@pytest.mark.parametrize("d", [1, 2, 5])
def test_error_law(d, seeds):
    n = 6000
    points = np.random.default_rng(d).normal(size=(n, d)) * 3
    _, vectors = draws(d, points, seeds(n))
    errors = (vectors - points) / WIDTH
    assert (abs(errors) < 0.5).all()
    assert_mean_close(errors, 0.0, false_alarm=FALSE_ALARM / 12)
    assert_mean_close(errors**2, FOAM_VARIANCE, false_alarm=FALSE_ALARM / 12)
    assert pytest.approx(0.03267, abs=5e-6) == FOAM_VARIANCE

    def law(x):
        return x + 0.5 + np.sin(2 * np.pi * x) / (2 * np.pi)

    for i in range(d):
        # coordinates of one error are independent; those of different seeds are anyway
        assert stats.kstest(errors[:, i], law).pvalue > FALSE_ALARM / (6 * d)
        if i:
            product = errors[:, i] * errors[:, i - 1] / FOAM_VARIANCE
            assert_mean_close(product, 0.0, false_alarm=FALSE_ALARM / 12)
    # would catch a variance wrong by 7 %, a bias of .017 and a correlation of .09 with prob. .9
    near = abs((points[:, 0] / WIDTH) % 1 - 0.5) < 0.25
    for part in (near, ~near):  # wherever the point is
        assert stats.kstest(errors[part, 0], law).pvalue > FALSE_ALARM / 24


def test_other_rounds_have_other_coins(seeds):
    n = 300
    point = np.array([0.1, 0.2])
    same = 0
    for seed in seeds(n):
        shared = SharedRandomness(seed)
        first, second = (space(2).encode_round(t, point, shared) for t in (0, 1))
        same += np.array_equal(first, second)
    assert_rate_at_most(same, n, 1 / 3)
    # two independent geometric numbers with mean 4 are equal with probability 1/7
