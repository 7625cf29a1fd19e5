"""A lab whose patients follow a model is told that they contradict it as rarely as stated.

The full table, with the power of the test beside that of a likelihood ratio, is printed by
benchmarks/support.py.
"""

import numpy as np
import pytest

from benchmarks.support import Null, p_values, powers
from replearn import ReplicableLogisticClassifier
from replearn.glm import (
    Bernoulli,
    Between,
    Coordinates,
    Reference,
    Summary,
    assumed,
    fit,
    score_test,
)
from replearn.rows import ROW_BITS, THETA_BITS, Block, MemoryBlocks
from tests.error_budget import assert_rate_at_most, assert_rate_between

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
    found, _ = p_values(kind, n_rows, events, REPETITIONS[n_rows], rng)
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


def test_a_centre_with_rare_events_is_not_contradicted_for_a_step_that_led_too_far(seeds):
    """Typical centres differ by so much; at 1% events a step to such a truth is six times it."""
    rng = np.random.default_rng(seeds(1)[0])
    null = Null.draw("centres", 20_000, 0.01, rng)
    truth = null.theta + np.array([0.4, -0.3, -0.1, 1.2, 0.4, -0.7])
    y = (rng.random(len(null.X)) < 1 / (1 + np.exp(-null.X @ truth))) * 1.0
    assert null.p_value(y) > 1e-4


def wide_rows(rng, slopes, n_rows, factor=1.0):
    """Rows of more columns than are tested one by one, in whole units of 1/4096."""
    terms = np.rint(4096 * np.clip(rng.normal(size=(n_rows, len(slopes))), -4, 4))
    score = factor * (terms @ slopes) / 4096 - 0.5
    targets = (rng.random(n_rows) < 1 / (1 + np.exp(-score))) * 1.0
    return MemoryBlocks(Block(terms.astype(np.int16), targets))


@pytest.mark.slow
def test_overfitting_of_the_original_contradicts_no_model(seeds):
    """620 columns and 1,500 rows: honest second samples had p = 1e-29; a reversed one still has."""
    rng = np.random.default_rng(seeds(1)[0])
    loss, ridge, n_rows, n_columns = Bernoulli(), 0.03, 1500, 620
    scales = np.full(n_columns + 1, 1 << 14)
    coordinates = Coordinates(np.array([[1 << 13]]), None, scales)
    between = Between(np.zeros(n_columns + 1), 0)
    n_contradicted = 0
    for _ in range(4):
        slopes = rng.normal(size=n_columns) * 2 / np.sqrt(n_columns)
        rows = wide_rows(rng, slopes, n_rows)
        theta = fit(rows, loss, str(ridge), Summary.of(rows, loss))
        reference = Reference(loss, theta, ridge, coordinates, between, n_rows)
        honest = [score_test(wide_rows(rng, slopes, n_rows), reference) for _ in range(10)]
        n_contradicted += sum(min(one.p_value, one.p_slopes) < 0.01 for one in honest)

        spoiled = score_test(wide_rows(rng, slopes, n_rows, -1.0), reference)
        assert spoiled.p_slopes < 1e-6
    assert_rate_at_most(n_contradicted, trials=40, bound=0.02, false_alarm=1e-6)


def test_one_column_of_many_contradicts_by_itself():
    """Of twenty columns one has no effect here: lost in a sum of squares, but not by itself."""
    rng = np.random.default_rng(11)
    n_rows, n_columns = 4000, 20
    slopes = np.r_[1.0, np.full(n_columns - 1, 0.2)]
    for of_centre, is_found in ((slopes, False), (np.r_[0.6, slopes[1:]], True)):
        p_all = p_best = 1.0
        for _ in range(5):
            test = at_a_lab(rng, slopes, of_centre, n_rows)
            p_all, p_best = min(p_all, test.p_value), min(p_best, test.p_all)
        assert (p_best < 0.01) == is_found
        assert p_all > 0.002


def at_a_lab(rng, slopes, of_centre, n_rows):
    """A model with these slopes, at a typical centre whose patients follow others."""
    X = rng.normal(size=(n_rows, len(slopes)))
    terms = np.clip(np.rint(X * 2.0**ROW_BITS), -(1 << 14), 1 << 14).astype(np.int16)
    y = (rng.logistic(size=n_rows) < X @ of_centre) * 1.0
    coordinates = Coordinates.of(np.array([[0.25]]), np.eye(len(slopes) + 1), 1e-3)
    theta = np.rint(np.r_[0.0, slopes][None] * 2.0**THETA_BITS).astype(np.int64)
    reference = Reference(Bernoulli(), theta, 0.0, coordinates, assumed(coordinates), 1e12)
    return score_test(MemoryBlocks(Block(terms, y)), reference)


def test_parts_that_are_worth_next_to_nothing_are_not_blamed(seeds):
    """Ten columns are together worth 2% of one: where centres differ, they harm a fifth of them.

    Would catch a true rate of 0.2 with probability 0.97.
    """
    rng, n_rows, n_blamed = np.random.default_rng(seeds(1)[0]), 20_000, 0
    # in units of spreads, where a difference of d costs d^2 / 2 nats a row
    unit = 1 / np.sqrt(0.18)
    weak = rng.normal(size=10)
    slopes = np.r_[0.8, 0.05 * unit * weak / np.linalg.norm(weak)]

    def lab(shift, slopes):
        X = rng.normal(size=(n_rows, slopes.size))
        p = 1 / (1 + np.exp(1 - shift - X @ slopes))
        return X, (rng.random(n_rows) < p).astype(int)

    for _ in range(40):
        first = ReplicableLogisticClassifier().fit(*lab(0, slopes))
        here = slopes + 0.03 * unit * rng.normal(size=slopes.size)
        second = ReplicableLogisticClassifier(study=first).fit(*lab(0.2 * rng.normal(), here))
        n_blamed += second.replication_.support.worse_than != ""
    assert_rate_at_most(n_blamed, trials=40, bound=0.01, false_alarm=1e-3)
