"""A lab whose patients follow a model is told that they contradict it as rarely as stated.

The full table, with the power of the test beside that of a likelihood ratio, is printed by
benchmarks/support.py.
"""

import numpy as np
import pytest

from benchmarks.support import Null, p_values, powers
from tests.error_budget import assert_rate_between

#: Repetitions: large labs take longer.
REPETITIONS = {300: 400, 1000: 250, 5000: 80, 20_000: 30}
#: 72 checks at this level: the whole file gives a false alarm with probability below 1e-4.
FALSE_ALARM = 1e-6


@pytest.mark.parametrize("kind", ["plain", "rare levels", "nearly separable"])
@pytest.mark.parametrize("events", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("n_rows", list(REPETITIONS))
def test_size_is_as_stated(n_rows, events, kind, seeds):
    """Between half and one and a half of it, at .05 and .01."""
    rng = np.random.default_rng(seeds(1)[0])
    found = p_values(kind, n_rows, events, REPETITIONS[n_rows], rng)
    for level in (0.05, 0.01):
        n_below = int((found < level).sum())
        assert_rate_between(n_below, len(found), 0.5 * level, 1.5 * level, FALSE_ALARM)


@pytest.mark.parametrize("events", [0.01, 0.1, 0.5])
def test_power_is_that_of_a_likelihood_ratio_test(events, seeds):
    """Up to a tenth, and up to chance: 300 labs each, four standard errors."""
    ours, theirs = powers("plain", 1000, events, 300, np.random.default_rng(seeds(1)[0]))
    assert ours > theirs - 0.1 - 4 * np.sqrt(2 * 0.25 / 300)
    assert ours > 0.5


def test_a_level_without_a_row_here_says_nothing(seeds):
    """Neither against the model by the pull of its ridge, nor by a singular matrix."""
    rng = np.random.default_rng(seeds(1)[0])
    null = Null.draw("rare levels", 1000, 0.1, rng)
    y = null.labels(null.truth, rng)
    absent = null.X.copy()
    absent[:, -1] = 0.0
    ridged = Null(absent, null.theta, null.truth, null.coordinates, null.between, ridge=1e-3)
    plain = Null(absent, null.theta, null.truth, null.coordinates, null.between)
    assert ridged.p_value(y) > 0.2 * plain.p_value(y)


@pytest.mark.parametrize("how", ["labels permuted", "reversed", "doubled"])
def test_a_spoiled_centre_is_contradicted(how, seeds):
    """Also where centres may differ as typical ones do: 5,000 patients, half of them events."""
    rng = np.random.default_rng(seeds(1)[0])
    null = Null.draw("centres", 5000, 0.5, rng)
    theta = 2.0 * null.theta
    null = Null(null.X, theta, theta, null.coordinates, null.between)
    moved = theta.copy()
    moved[1] *= {"labels permuted": 1.0, "reversed": -1.0, "doubled": 2.0}[how]
    y = null.labels(moved, rng)
    if how == "labels permuted":
        y = rng.permutation(y)
    assert null.p_value(y) < 0.01
    assert null.p_value((rng.random(len(y)) < 1 / (1 + np.exp(-null.X @ theta))) * 1.0) > 0.01
