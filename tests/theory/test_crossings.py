"""Crossing a wall that a hint keeps far: the parts of the proof in docs/theory.md."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from replearn.stages.score_certificate import crossings_beyond
from tests.error_budget import assert_rate_at_most, power


def normal_cube(x):
    """``E (x + g)_+^3`` of a standard normal g."""
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return (x * x + 2) * density + (x**3 + 3 * x) * ndtr(x)


@given(st.floats(-8, 8))
def test_a_sign_has_smaller_mean_cubes_than_a_normal(x):
    sign = (max(0.0, x + 1) ** 3 + max(0.0, x - 1) ** 3) / 2
    assert sign <= normal_cube(x) * (1 + 1e-9) + 1e-12


@given(st.floats(-3, 3), st.floats(0.01, 4))
def test_mean_cubes_are_convex_in_the_variance(start, variance):
    step = variance / 10

    def mean(v):
        return v**1.5 * normal_cube(-start / math.sqrt(v))

    assert mean(variance - step) + mean(variance + step) >= 2 * mean(variance) - 1e-9


TERMS = {
    "rare": lambda rng, shape: (rng.random(shape) < 0.05).astype(float),
    "half": lambda rng, shape: np.where(rng.random(shape) < 0.5, 1.0, -1.0),
    "skew": lambda rng, shape: np.minimum(rng.exponential(0.15, size=shape), 1.0),
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("n", [40, 400])
def test_walls_are_crossed_less_often_than_bounded(name, n, seed_block):
    rng = np.random.default_rng([seed_block, n])
    trials = 4000
    terms = TERMS[name](rng, (2, trials, n))
    deviation = math.sqrt(float(TERMS[name](rng, (200_000,)).var()))
    spread = deviation * math.sqrt(2 / n)
    walls = np.sort(rng.uniform(1.2, 3.5, 500)) * spread
    bound = crossings_beyond(walls, deviation, 1.0, n)
    apart = terms[0].mean(axis=1) - terms[1].mean(axis=1)
    crossed = int((apart > rng.choice(walls, trials)).sum())
    assert_rate_at_most(crossed, trials, bound)
    # would catch a bound of half the size with probability .9
    normal = float(ndtr(-walls / spread).mean())
    assert power(trials, normal, 2 * normal) > 0.9
    if n == 400 and name == "half":
        assert bound < 2 * normal
