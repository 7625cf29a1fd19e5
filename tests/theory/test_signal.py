"""The test of "no signal": its p-value is valid where a model's own rows deceive."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import replearn as rl
from replearn.stages.ranking import signal_p_value
from replearn.stages.signal import signal_of
from tests.error_budget import assert_rate_at_most, power


def noise(rng, n, d, kind):
    if kind == "normal":
        return rng.normal(size=(n, d))
    if kind == "heavy":
        return rng.standard_t(1.5, size=(n, d)) * np.exp(rng.normal(size=d) * 3)
    return sp.random_array((n, d), density=0.05, format="csr", rng=rng)


@pytest.mark.parametrize("share", [0.5, 0.05])
@pytest.mark.parametrize(
    ("kind", "n", "d"),
    [("normal", 300, 5), ("normal", 120, 400), ("heavy", 300, 20), ("sparse", 300, 200)],
)
def test_p_value_is_valid_for_labels_that_are_noise(kind, n, d, share, seeds):
    trials, levels = 250, (0.01, 0.05, 0.2)
    counts = dict.fromkeys(levels, 0)
    n_done = 0
    for seed in seeds(trials):
        rng = np.random.default_rng([seed, n, d])
        found = signal_of(noise(rng, n, d, kind), np.where(rng.random(n) < share, 1, -1))
        n_done += found is not None
        for level in levels:
            counts[level] += found is not None and found.p_value <= level
    assert n_done > 0.7 * trials  # the others have too few rows of a class
    for level, count in counts.items():
        assert_rate_at_most(count, n_done, level)
    # would catch a true rate of .25 at level .05 with probability above .99
    assert power(175, 0.05, 0.25) > 0.99


def test_two_looks_keep_the_level(seeds, monkeypatch):
    from replearn.stages import signal

    monkeypatch.setattr(signal, "_FIRST_LOOK", 100)
    trials, count = 600, 0
    for seed in seeds(trials):
        rng = np.random.default_rng(seed)
        found = signal_of(rng.normal(size=(400, 3)), np.where(rng.random(400) < 0.5, 1, 0))
        count += found.p_value <= 0.05
    assert_rate_at_most(count, trials, 0.05)
    # would catch a true rate of .12 with probability above .95
    assert power(trials, 0.05, 0.12) > 0.95


def test_a_model_on_its_own_rows_would_deceive():
    """Why the model's own scores are not tested on the rows of its fit."""
    n_deceived = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(2000, 40)), np.where(rng.random(2000) < 0.5, 1, -1)
        estimator = rl.ReplicableSVMClassifier(margin=0.1, shared_seed=seed, grid_width=0.02)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(X, y)
        n_deceived += signal_p_value(estimator.decision_function(X), y > 0) < 0.001
        assert estimator.signal_.p_value > 0.001
    assert n_deceived >= 3


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_signal_is_found_whatever_the_scale_of_other_columns(scale):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 10))
    y = np.where(X[:, 0] + 3 * rng.normal(size=2000) > 0, "yes", "no")
    X[:, 5] *= scale
    found = signal_of(X, (y == "yes").astype(np.uint8))
    assert found.found
    assert found.p_value < 1e-6
    assert 0.55 < found.auc < 0.7


def test_many_classes_and_too_few_rows():
    rng = np.random.default_rng(4)
    numbers = rng.integers(3, size=900).astype(np.uint8)
    X = rng.normal(size=(900, 4))
    assert not signal_of(X, numbers).found
    X[:, 2] += numbers == 2
    assert signal_of(X, numbers).found
    assert signal_of(X[:30], numbers[:30]) is None
    rare = np.zeros(900, dtype=np.uint8)
    rare[:3] = 1
    assert signal_of(X, rare) is None


def test_sorted_rows_are_looked_at_from_all_over(monkeypatch):
    from replearn.stages import signal

    monkeypatch.setattr(signal, "_FIRST_LOOK", 100)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1000, 3))
    y = np.sort(rng.integers(2, size=1000)).astype(np.uint8)
    X[:, 1] += 2 * y
    assert signal_of(X, y).n_rows == 100
    assert signal_of(X, y).found
