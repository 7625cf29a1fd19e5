"""Algorithm 2: what is proved of gradient descent, and what plans promise.

In the units of the code, ``f(w) = E (1 - <w, v>/tau)_+ + r |w|^2`` on the unit ball, with
``r = weight / (2 tau^2)``: strong convexity ``mu = 2 r``, subgradients no longer than
``G = 1/tau + 2 r``. Populations are finite, so f and its minimum are known. Each check has a
false-alarm probability of 1e-6 or less.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from replearn.codes import Promise, Sizes
from replearn.errors import ReplearnError
from replearn.exact import COUNTS, fixed_mean
from replearn.halfspaces.sgd import SGD, stability, variance_bound
from replearn.kernels.descent import Descent, add_descents
from replearn.kernels.int32_directions import RawRows
from tests.error_budget import assert_mean_close, assert_rate_at_least, assert_rate_at_most
from tests.reference import best_soft
from tests.theory.labs import differ, error, pair

PROMISE = Promise(0.3, 0.05, 0.1, 0.05)
N_RUNS = 300


def cone(rng):
    """Margin 0.3, often not much more, in 6 dimensions."""
    first = 0.3 + 0.7 * rng.random(40) ** 4
    rest = rng.normal(size=(40, 5))
    rest *= (np.sqrt(1 - first**2) / np.linalg.norm(rest, axis=1))[:, None]
    return np.column_stack([first, rest]), 0.3, 0.02


def coupons(rng):
    """One of 16 axes: margin 1/4, and nothing is learnt about an axis that was not seen."""
    return np.eye(16), 0.25, 0.01


def axes(rng):
    """An axis of a random sign: no margin, and f is quadratic wherever gradient descent goes."""
    return np.concatenate([np.eye(4), -np.eye(4)]), 0.5, 1.0


POPULATIONS = {"cone": cone, "coupons": coupons, "axes": axes}
populations = pytest.mark.parametrize("name", POPULATIONS)
lengths = pytest.mark.parametrize("n_steps", [10, 300])


@cache
def population(name):
    """Points, margin, weight, minimiser of f (which lies in the ball), and f there."""
    V, tau, weight = POPULATIONS[name](np.random.default_rng(0))
    u, _ = best_soft(V, 1 / (len(V) * weight), gap=1e-7 / weight)
    assert np.linalg.norm(tau * u) <= 1
    return V, tau, weight, tau * u, float(objective(V, tau, weight, tau * u))


def objective(V, tau, weight, w):
    hinge = np.maximum(0, 1 - np.asarray(w) @ V.T / tau).mean(axis=-1)
    return hinge + weight / (2 * tau**2) * np.sum(np.square(w), axis=-1)


def averages(name, n_steps, n_runs, rng, n_repetitions=1, n_validation=0):
    """Results of independent batches."""
    V, tau, weight, _, _ = population(name)
    descent = Descent(tau, weight, 1.0, n_repetitions, n_validation)
    size = n_repetitions * n_steps + n_validation
    results = []
    for _ in range(n_runs):
        rows = RawRows.of(V, np.ones(len(V), np.int8), rng.integers(len(V), size=size))
        hi, lo = np.zeros((2, 1, V.shape[1]), np.int64)
        add_descents(descent, rows, 0, size, 0, hi, lo, np.zeros(len(COUNTS), np.int64))
        results.append(fixed_mean(hi[0], lo[0], 1))
    return np.array(results)


def assert_mean_at_most(samples, bound):
    """One-sided t-test."""
    spread = samples.std(ddof=1) / math.sqrt(samples.size)
    assert samples.mean() - stats.t.isf(1e-6, samples.size - 1) * spread <= bound


def axes_square(tau, weight, n_steps):
    """``E |w|^2`` of the average for "axes": a weighted sum of independent unit vectors.

    Without projection or satisfied margins ``t (t+1) w_{t+1} = (2 tau/weight) sum_s s v_s``, so
    v_s has the coefficient ``4 tau s (1/s + ... + 1/(T-1)) / (weight T (T+1))`` in the average.
    """
    s = np.arange(1, n_steps)
    tails = np.cumsum((1 / s)[::-1])[::-1]
    return (4 * tau / (weight * n_steps * (n_steps + 1))) ** 2 * np.sum((s * tails) ** 2)


@populations
@lengths
def test_theorem_6_2_of_bubeck_and_the_variance_bound(name, n_steps, seed_block):
    V, tau, weight, best, lowest = population(name)
    runs = averages(name, n_steps, N_RUNS, np.random.default_rng([seed_block, 1, n_steps]))
    mu, G = weight / tau**2, 1 / tau + weight / tau**2
    gaps = objective(V, tau, weight, runs) - lowest
    assert gaps.min() >= -1e-6
    assert_mean_at_most(gaps, 2 * G**2 / (mu * (n_steps + 1)))
    squares = np.sum((runs - best) ** 2, axis=1)
    assert_mean_at_most(squares, variance_bound(tau, weight, n_steps))
    assert (np.linalg.norm(runs, axis=1) <= 1 + 1e-9).all()
    if name == "axes":  # the law is known
        assert_mean_close(squares, axes_square(tau, weight, n_steps), 1e-6)
        assert variance_bound(tau, weight, n_steps) < 40 * squares.mean()
    # "axes": would catch a variance that is 25 % off with probability 0.9


def test_boosting_makes_failures_rare(seed_block):
    # Runs so short that one of them misses the level with probability 1/2: all of 6 do with
    # probability 1/64, and 3,000 rows tell them apart.
    V, tau, weight, _, _ = population("axes")
    rng = np.random.default_rng([seed_block, 5])
    single = objective(V, tau, weight, averages("axes", 6, 2000, rng))
    best = objective(V, tau, weight, averages("axes", 6, 300, rng, 6, 3000))
    n_good = int((best <= float(np.median(single)) + 0.02).sum())
    assert_rate_at_least(n_good, 300, 1 - 0.56**6 - 0.01)
    # would catch a rate of 0.87 with probability 0.9; without a choice it would be 1/2


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize("bits", [0, 2])
@pytest.mark.parametrize("mode", ["practical", "certified"])
def test_plans_invert_the_bound(mode, bits):
    plan = SGD.sizes(PROMISE, 10, mode, Sizes(sketch_bits=bits))
    assert stability(plan, plan.n_rows, None).in_mode(mode) <= 0.1
    if not bits:
        fewer = stability(plan, plan.n_rows - plan.batch_size, None).in_mode(mode)
        assert fewer > 0.1 or mode == "certified"
        assert stability(plan, plan.n_rows // 2, None).in_mode(mode) > 0.1


def test_exponents_of_the_paper():
    """As printed: eps^-2 tau^-6 rho^-2, up to logarithms."""
    base = SGD.sizes(PROMISE, 10, "paper", Sizes()).n_rows
    for name, value, exponent in (
        ("margin", 0.003, 6),
        ("max_error", 5e-4, 2),
        ("max_disagreement", 1e-3, 2),
    ):
        rows = SGD.sizes(replace(PROMISE, **{name: value}), 10, "paper", Sizes()).n_rows
        assert math.log(rows / base, 100) == pytest.approx(exponent, abs=0.4)


def test_paper_mode_is_what_is_printed():
    log = math.log(1 / (0.05 * 0.3 * 0.1 * 0.05))
    plan = SGD.sizes(PROMISE, 10, "paper", Sizes(constants={"C1": 2.0}))
    assert plan.batch_size == math.ceil(2 * log / (0.05 * 0.3) ** 2)
    assert plan.n_batches == math.ceil(log / (0.3**4 * 0.1**2))
    assert plan.n_components == math.ceil(log / 0.3**2)
    assert float(plan.regularization) == pytest.approx(0.05 * 0.3**2 / 10, rel=5e-3)
    assert plan.n_repetitions == math.ceil(math.log2(10 * plan.n_batches / 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "tight"])
def test_practical_promise_is_kept(name, seeds):
    plan = SGD.sizes(replace(PROMISE, max_disagreement=0.15), 10, "practical", Sizes())
    trials, n_differ, estimates, errors = 80, 0, [], []
    for seed in seeds(trials):
        fits = pair(SGD, plan, name, plan.n_rows, 10, 0.3, seed)
        n_differ += differ(fits)
        estimates.append(stability(plan, plan.n_rows, fits[0].spread).expected)
        errors.append(error(fits[0], seed, name, 10, 0.3))
    assert_rate_at_most(n_differ, trials, 0.15)
    assert_rate_at_most(n_differ, trials, min(0.9, 1.3 * float(np.mean(estimates)) + 0.02))
    assert np.mean(errors) < 0.05


@pytest.mark.parametrize(
    ("mode", "by_hand", "words"),
    [
        ("practical", {"regularization": 0}, "regularization must be positive"),
        ("practical", {"n_repetitions": 3}, "n_repetitions belongs to mode"),
        ("paper", {"batch_size": 5, "n_repetitions": 9}, "batch_size must be at least"),
        ("certified", {"regularization": 0.1}, "regularization must be left out"),
    ],
)
def test_refusals(mode, by_hand, words):
    with pytest.raises(ReplearnError, match=words):
        SGD.sizes(PROMISE, 10, mode, Sizes(by_hand))
