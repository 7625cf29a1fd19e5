"""Algorithm 3: covers, the lemmas behind its bound, and the promise end to end."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from replearn.codes import (
    Coins,
    Promise,
    Sizes,
    candidates,
    log_cap,
    log_net_size,
    log_projected_tail,
    projection_matrix,
)
from replearn.halfspaces.net import NET, draw_threshold, run, stability
from tests.error_budget import (
    FALSE_ALARM,
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_between,
    assert_rate_close,
    power,
)
from tests.populations import draw
from tests.samples import Whole

pytestmark = pytest.mark.slow

STRONG = Promise(0.3, 0.1, 0.1, 0.05)
WEAK = Promise(0.5, 0.2, 0.3, 0.1)


# ---------------------------------------------------------------- covers


def test_random_net_misses_a_direction_as_rarely_as_planned(seeds):
    """d = 4, radius 0.5, failure 0.1: (1 - cap)^N is just below 0.1."""
    trials, failure = 2000, 0.1
    size = math.ceil(math.exp(log_net_size(4, 0.5, failure)))
    direction = np.array([0.5, -0.5, 0.1, 0.7])
    direction /= np.linalg.norm(direction)
    n_missed = 0
    for seed in seeds(trials):
        net = candidates(np.arange(size), 4, Coins(seed))
        cosines = net @ direction / np.linalg.norm(net, axis=1)
        n_missed += cosines.max() < math.sqrt(1 - 0.25)
    assert_rate_between(n_missed, trials, 0.085, failure)
    # would catch a rate of 0.15 with probability above 0.9
    assert power(trials, failure, 0.15, FALSE_ALARM / 2) > 0.9


@pytest.mark.parametrize(("k", "radius"), [(2, 0.3), (5, 0.7), (30, 0.9)])
def test_caps_are_shares_of_the_sphere(k, radius):
    rng = np.random.default_rng(k)
    first = rng.standard_normal((200_000, k))
    cosines = first[:, 0] / np.linalg.norm(first, axis=1)
    share = math.exp(log_cap(k, radius))
    n_inside = int((cosines >= math.sqrt(1 - radius**2)).sum())
    assert_rate_close(n_inside, 200_000, share, false_alarm=FALSE_ALARM / 3)


def test_a_candidate_within_the_radius_classifies_every_point_beyond_it(seed_block):
    """sin(angle) < margin, so angle + arccos(margin) is below a right angle."""
    rng = np.random.default_rng([seed_block, 5])
    normal = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    for _ in range(1000):
        margin = rng.uniform(0.05, 0.9)
        side = rng.normal(size=(2, 5))
        side[:, 0] = 0.0
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        radius = 0.99 * margin
        candidate = math.sqrt(1 - radius**2) * normal + radius * side[0]
        for other in (side[1], -side[0]):
            point = margin * normal + math.sqrt(1 - margin**2) * other
            assert candidate @ point > 0


@pytest.mark.parametrize(
    ("k", "margin", "cosine"), [(6, 0.5, 0.1), (20, 0.3, 0.05), (30, 0.7, 0.5)]
)
def test_projected_cosines_fall_as_rarely_as_bounded(k, margin, cosine, seed_block):
    trials = 200_000
    rng = np.random.default_rng([seed_block, k])
    left = rng.standard_normal((trials, k))
    right = margin * left + math.sqrt(1 - margin**2) * rng.standard_normal((trials, k))
    lengths = np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
    n_below = int(((left * right).sum(axis=1) < cosine * lengths).sum())
    bound = math.exp(log_projected_tail(k, margin, cosine))
    assert_rate_between(n_below, trials, 0.93 * bound, bound)
    # would catch a bound that is 15 % too small, or 25 % too large, with probability above 0.99
    assert power(trials, bound, 1.15 * bound, FALSE_ALARM / 2) > 0.99
    assert power(trials, 0.93 * bound, 0.8 * bound, FALSE_ALARM / 2) > 0.99


# ---------------------------------------------------------------- lemmas


def test_error_rates_on_the_scale_of_roots():
    """P[root p^ >= root p + t] <= e^(-2nt^2), P[root p^ <= root p - t] <= e^(-(2-t/root p)nt^2)."""
    for n, p in itertools.product((5, 30, 300, 3000), (0.001, 0.01, 0.05, 0.2, 0.5, 0.9)):
        root = math.sqrt(p)
        for t in np.geomspace(1e-3, 0.7, 40):
            above = stats.binom.sf(math.ceil(n * (root + t) ** 2 - 1e-9) - 1, n, p)
            assert above <= math.exp(-2 * n * t * t) + 1e-300
            if t < root:
                below = stats.binom.cdf(math.floor(n * (root - t) ** 2 + 1e-9), n, p)
                assert below <= math.exp(-(2 - t / root) * n * t * t) + 1e-300


def first_below(errors, threshold, rng_order):
    """The rule itself, on a list of errors: the first in an order, at or below a threshold."""
    passing = rng_order[errors[rng_order] <= threshold]
    return int(passing[0]) if passing.size else -1


def test_choices_below_a_threshold_follow_the_jaccard_index(seed_block):
    trials = 4000
    here, there = np.ones(60), np.ones(60)
    here[:25] = there[10:30] = 0.0  # 15 of 30 candidates are below at both labs
    n_differ = 0
    for trial in range(trials):
        order = np.random.default_rng([seed_block, trial]).permutation(60)
        n_differ += first_below(here, 0.5, order) != first_below(there, 0.5, order)
    assert_rate_close(n_differ, trials, 1 - 15 / 30)
    # would catch a rate of 0.45 with probability above 0.9
    assert power(trials, 0.5, 0.45, FALSE_ALARM / 2) > 0.9


def test_random_threshold_keeps_its_bound(seeds):
    """|H| = 500, errors off by t at both labs, in opposite directions: 2 t ln|H| / W at most.

    The numbers of candidates below a threshold grow exponentially with its root, the worst case.
    """
    n, top, t, trials = 500, 0.5, 0.01, 4000
    roots = top * np.log(np.arange(1, n + 1)) / math.log(n)
    here, there = (roots + t) ** 2, np.maximum(roots - t, 0) ** 2
    plan = replace(NET.sizes(STRONG, 3, "practical", Sizes()), low=repr(t**2), high="0.2401")
    bound = 2 * t * math.log(n) / (top - 2 * t)
    n_differ = 0
    for seed in seeds(trials):
        threshold = draw_threshold(plan, Coins(seed))
        order = np.random.default_rng(seed).permutation(n)
        n_differ += first_below(here, threshold, order) != first_below(there, threshold, order)
    assert_rate_at_most(n_differ, trials, bound)
    # and it is nearly reached: 1 - exp(-2 t ln|H| / top) = 0.22
    assert n_differ / trials > 0.17
    # would catch a rate of 0.31 with probability above 0.9
    assert power(trials, bound, 0.31) > 0.9


# ---------------------------------------------------------------- stability, in three directions


@pytest.mark.parametrize(
    ("mode", "d"),
    [("practical", 3), ("practical", 24), ("certified", 3), ("certified", 5), ("certified", 40)],
)
def test_plans_invert_the_bound(mode, d):
    plan = NET.sizes(STRONG, d, mode, Sizes())
    assert stability(plan, plan.n_rows, None).in_mode(mode) <= 0.1
    assert stability(plan, plan.n_rows * 98 // 100, None).in_mode(mode) > 0.1


def test_rows_scale_as_printed_and_no_net_is_built():
    base = {"max_error": 0.01, "margin": 0.05, "max_disagreement": 0.01}

    def rows(d=20, **promise):
        return NET.sizes(Promise(**promise), d, "paper", Sizes()).n_rows

    found = [math.log2(rows(**base | {name: base[name] / 2}) / rows(**base)) for name in base]
    np.testing.assert_allclose(found, (1, 4, 2), atol=0.1)  # the rest is a logarithm
    assert rows(d=20, **base) == rows(d=2000, **base)
    cover = NET.sizes(Promise(**base), 2000, "paper", Sizes()).cover
    assert cover.log_size > 1e4  # nobody could build it


# ---------------------------------------------------------------- end to end


def error(fitted, plan, coins, X, y):
    k = plan.cover.n_components
    normal = candidates(fitted.codes, k, coins)[0]
    if plan.cover.projection != "none":
        normal = projection_matrix(plan.cover.projection, plan.n_inputs, k, coins) @ normal
    return float((y * (X @ normal) <= 0).mean())


def pairs_of(recipe, plan, name, d, margin, n_rows, seeds):
    """For each seed: whether two labs agree, the larger error, and both fits."""
    X, y = draw(name, 20_000, d, margin, 2**31)  # a finite population: its error is exact
    for seed in seeds:
        fits = []
        for lab in (0, 1):
            rows = np.random.default_rng([seed, lab]).integers(20_000, size=n_rows, dtype=np.int32)
            fits.append(recipe.run(Whole(X[rows], y[rows]), plan, Coins(seed)))
        errors = [error(fitted, plan, Coins(seed), X, y) for fitted in fits]
        yield np.array_equal(fits[0].codes, fits[1].codes), max(errors), fits


@pytest.mark.parametrize("name", ["plain", "tight", "decoy"])
def test_the_certified_promise_holds_on_many_pairs(name, seeds):
    pairs = 50
    plan = NET.sizes(WEAK, 3, "certified", Sizes())
    results = list(pairs_of(NET, plan, name, 3, 0.5, plan.n_rows, seeds(pairs)))
    assert_rate_at_most(sum(not agree for agree, _, _ in results), pairs, 0.3)
    # the larger of two errors: twice the failure probability
    assert_rate_at_most(sum(worst > 0.2 for _, worst, _ in results), pairs, 2 * 0.1)
    # would catch a disagreement of 0.78 with probability above 0.95, a failure of 0.7 likewise
    assert power(pairs, 0.3, 0.78) > 0.95
    assert power(pairs, 0.2, 0.7) > 0.95


def test_the_practical_promise_holds_with_a_projection(seeds):
    pairs, d = 25, 30
    promise = Promise(0.5, 0.3, 0.3, 0.05)
    plan = NET.sizes(promise, d, "practical", Sizes({"n_components": 8, "n_candidates": 20_000}))
    assert plan.cover.projection != "none"
    results = list(pairs_of(NET, plan, "tight", d, 0.6, plan.n_rows, seeds(pairs)))
    assert_rate_at_most(sum(not agree for agree, _, _ in results), pairs, 0.3)
    assert_rate_at_most(sum(worst > 0.3 for _, worst, _ in results), pairs, 2 * 0.05)


def test_the_estimate_is_what_is_seen(seeds):
    """Few rows, so that labs disagree in one case of five or so; estimates match on average."""
    pairs = 150
    promise = Promise(0.2, 0.15, 0.1, 0.05)
    plan = NET.sizes(promise, 6, "practical", Sizes({"n_candidates": 50_000}))
    gaps, seen = [], 0
    for agree, _, fits in pairs_of(NET, plan, "plain", 6, 0.2, 1000, seeds(pairs)):
        estimates = [stability(plan, 1000, fitted.spread).expected for fitted in fits]
        gaps.append((not agree) - sum(estimates) / 2)
        seen += not agree
    assert 0.08 < seen / pairs < 0.5
    assert_mean_close(gaps, 0.0, tolerance=0.06)
    # standard error 0.03: would catch estimates that are 0.25 off with probability above 0.95


def test_the_search_finds_what_a_full_enumeration_finds(seeds):
    X, y = draw("noisy", 600, 4, 0.3, 1)
    plan = NET.sizes(Promise(0.3, 0.3, 0.1), 4, "practical", Sizes({"n_candidates": 700}))
    for seed in seeds(20):
        coins = Coins(seed)
        fitted = run(Whole(X, y), plan, coins)
        scores = y[:, None] * (X @ candidates(np.arange(700), 4, coins).T)
        errors = (scores <= 0).sum(axis=0)
        passing = np.flatnonzero(errors <= draw_threshold(plan, coins) * 600)
        if passing.size:
            assert fitted.codes[0] == passing[0]
        else:
            assert fitted.codes[0] == np.argmin(errors)
            assert fitted.counts["below"] == 0
        assert fitted.n_used == 600


def test_blocks_and_workers_change_nothing():
    X, y = draw("plain", 500, 4, 0.3, 1)
    plan = NET.sizes(STRONG, 5, "practical", Sizes())
    whole = run(Whole(X, y), plan, Coins(1))
    parts = run(Whole(X, y, size=64), plan, Coins(1), lambda f, blocks: list(map(f, blocks)))
    assert np.array_equal(whole.codes, parts.codes)
    assert np.array_equal(whole.spread.moves, parts.spread.moves)
