"""The parts of [ILPS22]: replicable tests, smooth boosting, the sampler, and all of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from replearn.codes import Coins, Promise, Sizes
from replearn.codes.votes import vote
from replearn.exact import products, unit_rows
from replearn.halfspaces.boosting import (
    BOX,
    FOAM,
    run,
    servedio,
    smooth_boost_rounds,
    smooth_weights,
    stability,
    weighted_mean,
)
from tests.error_budget import (
    FALSE_ALARM,
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_close,
)
from tests.populations import draw
from tests.samples import Whole

pytestmark = pytest.mark.slow

PROMISE = Promise(0.4, 0.1, 0.3, 0.05)


def plan_of(recipe, d, mode="practical", promise=PROMISE, **by_hand):
    return recipe.sizes(promise, d, mode, Sizes(by_hand))


# ---------------------------------------------------------------- lemmas


def test_means_on_the_scale_of_roots():
    """E (sqrt(p^) - sqrt(p))^2 <= 1/m, whatever p: no sampling error here."""
    for m in (1, 3, 30, 1000):
        values = np.arange(m + 1)
        for p in (1e-4, 0.01, 0.1, 0.5, 0.99):
            law = stats.binom.pmf(values, m, p)
            assert (law * (np.sqrt(values / m) - math.sqrt(p)) ** 2).sum() <= 1 / m


@pytest.mark.parametrize("truth", [0.05, 0.15, 0.3])
def test_walls_separate_two_labs_as_rarely_as_bounded(truth, seed_block):
    rng = np.random.default_rng([seed_block, int(100 * truth)])
    n, m, low, high = 20_000, 400, 0.1, 0.3
    means = rng.binomial(m, truth, size=(n, 2)) / m
    roots = math.sqrt(low) + rng.random(n) * (math.sqrt(high) - math.sqrt(low))
    passed = means < (roots**2)[:, None]
    bound = math.sqrt(2 / m) / (math.sqrt(high) - math.sqrt(low))
    differ = int((passed[:, 0] != passed[:, 1]).sum())
    assert_rate_at_most(differ, n, bound, FALSE_ALARM / 3)
    # would catch 0.33 instead of 0.31 with probability 0.9
    if truth == 0.15:
        assert differ / n > bound / 3  # nothing much is given away


def test_the_stopping_test_is_a_random_wall(seeds):
    plan = plan_of(BOX, 3)
    share = [float(Coins(seed).uniforms("boost/test", 1)[0]) for seed in seeds(2000)]
    low, high = math.sqrt(float(plan.low)), math.sqrt(float(plan.high))
    assert stats.kstest(share, stats.uniform.cdf).pvalue > FALSE_ALARM
    assert 0 < low < high <= math.sqrt(PROMISE.max_error)


# ---------------------------------------------------------------- SmoothBoost


@pytest.mark.parametrize("name", ["plain", "skewed"])
def test_smooth_boosting_ends_in_time_with_few_small_margins(name):
    tau, density, d = 0.4, 0.05, 6
    X, y = draw(name, 1500, d, tau, 3)
    rows = unit_rows(X, y.astype(np.int8), d)
    threshold, decay = servedio(tau / 4)
    plan = replace(plan_of(BOX, d), threshold=threshold, decay=decay)
    total, said, n_rounds = np.zeros(d), np.zeros(len(y)), 0
    while True:
        weights = smooth_weights(said, n_rounds, plan)
        if weights.mean() < density:
            break
        assert weights.max() <= 1.0  # smooth: no row has more than 1/density of its fair share
        mean, _ = weighted_mean(rows, weights)
        total += mean / np.linalg.norm(mean)
        before, said = said, products(rows, total)
        edge = ((said - before) * weights).sum() / weights.sum()
        assert edge >= tau / 2 - 1e-6  # Lemma: the mean of y x is at least one margin long
        n_rounds += 1
    assert n_rounds <= smooth_boost_rounds(tau / 4, density)
    assert (said / n_rounds <= float(threshold)).mean() < density
    assert (said <= 0).mean() < density


@pytest.mark.parametrize("advantage", [0.1, 0.4])
def test_smooth_boosting_ends_in_time_against_an_adversary(advantage):
    # hypotheses of +-1 with just the advantage: right on the rows that need it least
    n, density = 2000, 0.1
    threshold, decay = servedio(advantage)
    plan = replace(plan_of(BOX, 2), threshold=threshold, decay=decay)
    said, n_rounds = np.zeros(n), 0
    while True:
        weights = smooth_weights(said, n_rounds, plan)
        if weights.mean() < density:
            break
        order = np.argsort(-said, kind="stable")
        heavy = np.cumsum(weights[order]) / weights.sum()
        n_right = int(np.searchsorted(heavy, 0.5 + advantage)) + 1
        answer = -np.ones(n)
        answer[order[:n_right]] = 1.0
        assert (answer * weights).sum() / weights.sum() >= 2 * advantage - 1e-12
        said += answer
        n_rounds += 1
    assert n_rounds <= smooth_boost_rounds(advantage, density)
    assert (said / n_rounds <= float(threshold)).mean() < density


def test_the_sampler_keeps_rows_in_proportion_to_their_weights(seeds):
    weights = np.random.default_rng(6).random(1000) ** 3
    kept = [(Coins(seed).uniforms("boost/coins", 1000) < weights) for seed in seeds(400)]
    sizes = np.sum(kept, axis=1)
    assert_mean_close(sizes, weights.sum(), false_alarm=FALSE_ALARM / 2)
    part = (weights >= 0.1) & (weights < 0.5)
    trials = 400 * int(part.sum())
    # sums of independent tosses with these mean chances vary less than a binomial
    n_kept = int(np.sum(kept, axis=0)[part].sum())
    assert_rate_close(n_kept, trials, weights[part].mean(), false_alarm=FALSE_ALARM / 2)


# ---------------------------------------------------------------- stability, in three directions


@pytest.mark.parametrize("recipe", [BOX, FOAM], ids=["box", "foam"])
def test_plans_invert_the_bound(recipe):
    for mode in ("certified", "practical"):
        plan = plan_of(recipe, 5, mode)
        step = plan.n_rounds if plan.fresh_rows else 1
        assert stability(plan, plan.n_rows, None).in_mode(mode) <= PROMISE.max_disagreement
        fewer = stability(plan, plan.n_rows - step, None).in_mode(mode)
        assert fewer > PROMISE.max_disagreement


@pytest.mark.parametrize("recipe", [BOX, FOAM], ids=["box", "foam"])
def test_sizes_scale_as_certified_and_as_printed(recipe):
    """Exponents of the rows between two promises, beside those of the docstring."""
    printed = {"box": (4, 10, 2, 3), "foam": (3, 8, 2, 1)}[recipe.name]
    certified = {"box": (4, 8, 2, 2), "foam": (4, 8, 2, 1)}[recipe.name]
    for mode, expected in (("paper", printed), ("certified", certified)):
        base = {"max_error": 0.01, "margin": 0.1, "max_disagreement": 0.1}

        def rows(mode=mode, d=20, **promise):
            return recipe.sizes(Promise(**promise), d, mode, Sizes()).n_rows

        start = rows(**base)
        found = [math.log2(rows(**base | {name: base[name] / 2}) / start) for name in base]
        found.append(math.log2(rows(d=40, **base) / start))
        np.testing.assert_allclose(found, expected, atol=0.15)


@pytest.mark.parametrize("recipe", [BOX, FOAM], ids=["box", "foam"])
def test_the_bound_holds_with_fresh_rows(recipe, seeds):
    """Few rounds by hand, so that the bound says something at a size that runs."""
    promise = Promise(0.4, 0.5, 0.3, 0.05)
    plan = plan_of(recipe, 3, "certified", promise)
    width = "0.5" if recipe is BOX else "1.8"
    plan = replace(plan, n_rounds=2, grid_width=width, low="0.2", high="0.45", test_share="0.3")
    n_rows, pairs = 60_000, 60
    bound = stability(plan, n_rows, None).proved
    assert bound < 0.4
    differ = 0
    for seed in seeds(pairs):
        labs = [Whole(*draw("plain", n_rows, 3, 0.4, [seed, lab])) for lab in (0, 1)]
        first, second = (run(lab, plan, Coins(seed)).codes for lab in labs)
        differ += not np.array_equal(first, second)
    assert_rate_at_most(differ, pairs, bound, FALSE_ALARM / 2)
    # would catch a disagreement of 0.75 with probability 0.9


# ---------------------------------------------------------------- all of it


def error(plan, codes, coins, X, y):
    return float((y * (X @ vote(plan.rounding, codes, plan.n_inputs, coins)) <= 0).mean())


@pytest.mark.parametrize("name", ["plain", "decoy"])
@pytest.mark.parametrize("recipe", [BOX, FOAM], ids=["box", "foam"])
def test_labs_with_the_planned_rows_agree(recipe, name, seeds):
    d, n = 4, 60
    plan = plan_of(recipe, d)
    assert plan.n_rows < 20_000
    X, y = draw(name, 20_000, d, 0.4, 2**31)
    differ = wrong = 0
    for seed in seeds(n):
        labs = [Whole(*draw(name, plan.n_rows, d, 0.4, [seed, lab])) for lab in (0, 1)]
        first, second = (run(lab, plan, Coins(seed)).codes for lab in labs)
        differ += not np.array_equal(first, second)
        wrong += error(plan, first, Coins(seed), X, y) > 0.1
    assert_rate_at_most(differ, n, 0.3, FALSE_ALARM / 8)
    assert_rate_at_most(wrong, n, 0.05, FALSE_ALARM / 8)
    # would catch a disagreement of 0.68 with probability 0.8, a failure of 0.33 with 0.9


@pytest.mark.parametrize("recipe", [BOX, FOAM], ids=["box", "foam"])
def test_the_estimate_is_what_is_seen(recipe, seeds):
    n, differ, estimates = 120, 0, []
    plan = plan_of(recipe, 3)
    for seed in seeds(n):
        labs = [Whole(*draw("plain", 3000, 3, 0.4, [seed, lab])) for lab in (0, 1)]
        first, second = (run(lab, plan, Coins(seed)) for lab in labs)
        differ += not np.array_equal(first.codes, second.codes)
        estimates.append(stability(plan, 3000, first.spread).expected)
    assert 0.02 < np.mean(estimates) < 0.9
    assert_rate_close(differ, n, float(np.mean(estimates)), 0.08, FALSE_ALARM / 2)
    # would catch a disagreement 0.36 above or below the estimate with probability 0.9
