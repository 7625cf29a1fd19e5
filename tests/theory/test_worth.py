"""Intervals of what a model is worth hold the truth about as often as they say."""

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from replearn.stages.calibration import calibrate
from replearn.stages.intervals import mean_of_shares, share
from replearn.stages.ranking import auc, mean_auc, signal_p_value
from tests.error_budget import assert_rate_at_most, assert_rate_between

TRIALS = 2000


def test_area_of_two_normals_lies_in_delongs_interval():
    rng = np.random.default_rng(1)
    for gap, n_positive, n_negative in ((1.0, 40, 200), (2.5, 60, 60)):
        truth, missed = norm.cdf(gap / np.sqrt(2)), 0
        positive = np.arange(n_positive + n_negative) < n_positive
        for _ in range(TRIALS):
            found = auc(rng.normal(size=positive.size) + gap * positive, positive)
            missed += not found.low <= truth <= found.high
        assert_rate_at_most(missed, TRIALS, 0.065)
        # an interval of 90 % would be caught with probability .86


def test_mean_area_of_three_classes_lies_in_its_interval():
    rng = np.random.default_rng(2)
    classes = np.repeat(np.arange(3), (40, 60, 80))
    # two unit normals, means 1.2 apart along the class's own score
    truth = norm.cdf(1.2 / np.sqrt(2))
    missed = 0
    for _ in range(TRIALS):
        scores = rng.normal(size=(classes.size, 3)) + 1.2 * np.eye(3)[classes]
        found = mean_auc([(scores[:, k], classes == k) for k in range(3)])
        missed += not found.low <= truth <= found.high
    assert_rate_between(missed, TRIALS, 0.035, 0.065)


def test_separated_classes_are_rare_below_the_exact_end():
    """P[all in order] at the lower end is at most 2.5 %."""
    rng = np.random.default_rng(3)
    positive = np.arange(30) < 10
    low = auc(positive.astype(float), positive).low
    gap = norm.ppf(low) * np.sqrt(2)
    separated = 0
    for _ in range(TRIALS):
        scores = rng.normal(size=30) + gap * positive
        separated += scores[positive].min() > scores[~positive].max()
    assert_rate_at_most(separated, TRIALS, 0.025)


def test_noise_is_called_signal_as_often_as_the_p_value_says():
    rng = np.random.default_rng(4)
    positive = np.arange(100) < 30
    alarms = sum(
        signal_p_value(np.round(rng.normal(size=100), 1), positive) < 0.05 for _ in range(TRIALS)
    )
    assert_rate_between(alarms, TRIALS, 0.03, 0.055)


def test_balanced_accuracy_lies_in_its_interval():
    rng = np.random.default_rng(5)
    for rates in ((0.6, 0.9), (0.98, 0.99)):
        missed = 0
        for _ in range(TRIALS):
            counts = rng.binomial((50, 400), rates)
            found = mean_of_shares([share(int(counts[0]), 50), share(int(counts[1]), 400)])
            missed += not found.low <= np.mean(rates) <= found.high
        assert_rate_at_most(missed, TRIALS, 0.065)


def test_calibration_slope_and_intercept_lie_in_their_intervals():
    rng = np.random.default_rng(6)
    missed = np.zeros(2, int)
    for _ in range(500):
        odds = 1.5 * rng.normal(size=400) - 1
        truth = (rng.random(400) < expit(odds)).astype(int)
        p = expit(odds)
        found = calibrate(np.column_stack([1 - p, p]), truth)
        missed[0] += not found.slope.low <= 1 <= found.slope.high
        missed[1] += not found.intercepts[0].low <= 0 <= found.intercepts[0].high
    for count in missed:
        assert_rate_between(int(count), 500, 0.03, 0.07)
        # would catch a true rate of .15 with probability .86
