"""Certified fits that run: the layer cake, the test of the variance, the test on held-out rows."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import replearn as rl
from replearn.codes import CodeSpace, Coins, Promise, Sizes
from replearn.codes.projection import project
from replearn.errors import NotEnoughSamples, ReplearnError
from replearn.exact import PAIR_UNIT
from replearn.halfspaces.rounded import (
    CALM_VARIANCE,
    MAX_REFUSED,
    calm_variance,
    component_tail,
    far_distance,
    largest_variance,
    rows_that_pass,
    seen_disagreement,
    variance_allowed,
)
from replearn.halfspaces.svm import SVM, stability
from replearn.halfspaces.turned_signs import Turned
from tests.error_budget import assert_rate_at_most
from tests.populations import draw
from tests.theory.labs import differ, error, pair, sample

PROMISE = Promise(0.3, 0.1, 0.1, 0.05)


def test_the_sizes_of_the_page():
    """What docs/theory/table1.md prints: sizes that a laptop runs."""
    assert SVM.sizes(PROMISE, 10, "certified", Sizes()).n_rows <= 400_000
    assert SVM.sizes(PROMISE, 10, "certified", Sizes(sketch_bits=3)).n_rows <= 5_000


# ---------------------------------------------------------------- the layer cake


@pytest.mark.parametrize(
    ("projection", "rounding", "size"),
    [("rotation", "centre", 0.2), ("rotation", "e8+centre", 0.15), ("gaussian", "centre", 300)],
)
def test_the_line_is_above_every_probability(projection, rounding, size):
    turned = Turned(projection, rounding, 10, size)
    first, price = turned.cake(0.3, 0.02, 0.05, 1.0)
    for hinge in np.linspace(0, 1.5, 301):
        assert turned.at((1 - hinge) * 0.3 - 0.02) <= first + price * hinge + 1e-12
    assert price < 1 / 0.05  # that of Markov's inequality


@pytest.mark.slow
def test_signs_of_a_mixture_are_turned_less_often_than_the_line_says(seeds):
    """Most rows have no hinge loss, few have much: the mean error is below the line."""
    width, d, margin = 0.35, 10, 0.3
    first, price = Turned("rotation", "centre", d, width).cake(margin, 0.0, 0.1, 1.0)
    hinges = np.where(np.arange(400) < 360, 0.0, np.linspace(0.1, 0.9, 400))
    space = CodeSpace("rounded", d, "rotation", d, "centre", repr(width), 0)
    margins = (1 - hinges) * margin
    z = np.zeros(d)
    z[0] = 1.0
    side = np.zeros((400, d))
    side[:, 1] = np.sqrt(1 - margins**2)
    rows = side + margins[:, None] * z
    n_turned = 0
    for seed in seeds(100):
        coins = Coins(seed)
        codes = space.encode(project("rotation", z[None, :], d, coins)[0], coins)
        n_turned += int((rows @ space.decode(codes, coins) <= 0).sum())
    assert_rate_at_most(n_turned // 400, 100, first + price * hinges.mean())


# ---------------------------------------------------------------- looking at the variance


def looking_labs(plan, n_batches, variance, trials, rng):
    """Pairs of labs: whether each gives a model, and whether a wall is between their means.

    Batch vectors of length 1 that are one of two with a small chance, in a random cell.
    """
    # w = e0 with probability 1 - q, else e1: half of a squared distance is 1, or 0
    q = (1 - math.sqrt(1 - 2 * variance)) / 2 if variance < 0.5 else 0.5

    @cache
    def gives(n_apart):
        counts = {"pairs": n_batches // 2, "pair_sum": round(2 * n_apart / PAIR_UNIT)}
        return seen_disagreement(plan, counts, n_batches) <= plan.promise.max_disagreement

    for _ in range(trials):
        labs = rng.random((2, n_batches)) < q
        given = []
        for lab in labs:
            n_apart = int((lab[0::2][: n_batches // 2] != lab[1::2][: n_batches // 2]).sum())
            given.append(gives(n_apart))
        # cubes at a random offset, along the direction from e0 to e1: a wall between the means
        distance = math.sqrt(2) * abs(labs[0].mean() - labs[1].mean())
        yield given, rng.random() < distance / float(plan.grid_width)


@pytest.mark.parametrize("share", [0.5, 1.5, 4.0])
def test_labs_that_give_models_give_the_same(share, seed_block):
    """The theorem, where the variance is below, at and above what the rounding allows."""
    plan = SVM.sizes(PROMISE, 4, "certified", Sizes())
    variance = min(0.9, share * variance_allowed(plan, plan.n_batches))
    rng = np.random.default_rng([seed_block, int(10 * share)])
    trials, n_bad, n_given = 2000, 0, 0
    for given, is_apart in looking_labs(plan, plan.n_batches, variance, trials, rng):
        n_given += given[0]
        n_bad += all(given) and is_apart
    assert_rate_at_most(n_bad, trials, 0.1)
    if share > 1:
        assert_rate_at_most(n_given, trials, 0.05)  # the level of the test


@pytest.mark.parametrize("times", [1, 2])
def test_calm_populations_keep_definition_1_1_in_full(times, seed_block):
    """A refusal is a result, too: one lab that refuses and one that does not differ."""
    plan = SVM.sizes(PROMISE, 4, "certified", Sizes())
    n_batches = times * plan.n_batches
    calm = calm_variance(plan, n_batches)
    assert 0 < calm < variance_allowed(plan, n_batches)

    rng, trials, n_other = np.random.default_rng([seed_block, times]), 2000, 0
    for given, is_apart in looking_labs(plan, n_batches, calm, trials, rng):
        n_other += given[0] != given[1] or (all(given) and is_apart)
    assert_rate_at_most(n_other, trials, 0.1)


def test_between_calm_and_restless_one_lab_may_refuse(seed_block):
    """So the promise is weaker there than Definition 1.1."""
    plan = SVM.sizes(PROMISE, 4, "certified", Sizes())
    rng, n_alone = np.random.default_rng(seed_block), 0
    variance = 0.4 * variance_allowed(plan, plan.n_batches)
    for given, _ in looking_labs(plan, plan.n_batches, variance, 400, rng):
        n_alone += given[0] != given[1]
    assert n_alone > 100


def test_the_chernoff_bound_is_one(seed_block):
    """Of coins, the worst law on an interval: it is above the mean but with its failure."""
    rng, n, failure = np.random.default_rng(seed_block), 200, 0.1
    for mean in (0.002, 0.02, 0.3):
        heads = rng.binomial(n, mean / 2, size=2000)
        bounds = {
            k: largest_variance({"pairs": n, "pair_sum": round(4 * k / PAIR_UNIT)}, 1.0, failure)
            for k in np.unique(heads)
        }
        n_below = sum(bounds[k] < mean for k in heads)
        assert_rate_at_most(n_below, 2000, failure)


@pytest.mark.slow
def test_restless_rows_are_refused_and_told():
    plan = SVM.sizes(Promise(0.5, 0.2, 0.2, 0.2), 5, "certified", Sizes())
    X, y = draw("adversary", plan.n_rows, 5, 0.5, 3)
    estimator = rl.ReplicableSVMClassifier(
        margin=0.5, max_error=0.2, max_disagreement=0.2, failure_prob=0.2, mode="certified",
        fit_intercept=False,
    )  # fmt: skip
    fitted = SVM.run(sample("adversary", plan.n_rows, 5, 0.5, 3), plan, Coins(0))
    bound = stability(plan, plan.n_rows, fitted.spread).proved
    if bound <= 0.2:
        estimator.fit(X, y)
        assert estimator.certificate_.proved <= 0.2
    else:
        with pytest.raises(NotEnoughSamples, match="batches differ more than most") as caught:
            estimator.fit(X, y)
        assert caught.value.needed == rows_that_pass(plan, fitted.spread) > plan.n_rows


@pytest.mark.slow
def test_certified_pairs_in_full(seeds):
    """Both promises, counted with sizes as planned; the plan's own rows, no row more."""
    promise = Promise(0.5, 0.2, 0.2, 0.2)
    plan = SVM.sizes(promise, 5, "certified", Sizes())
    assert plan.n_rows < 30_000
    n_differ, n_wrong, trials = 0, 0, 30
    for seed in seeds(trials):
        fits = pair(SVM, plan, "tight", plan.n_rows, 5, 0.5, seed)
        assert all(stability(plan, plan.n_rows, fit.spread).proved <= 0.2 for fit in fits)
        n_differ += differ(fits)
        n_wrong += error(fits[0], seed, "tight", 5, 0.5) > 0.2
    assert_rate_at_most(n_differ, trials, 0.2)
    assert_rate_at_most(n_wrong, trials, 0.2)


# ---------------------------------------------------------------- rows that are held out


def test_a_published_model_is_rarely_bad_and_rarely_differs():
    """Both promises are of models that were published: of three in four, at least."""
    plan = SVM.sizes(PROMISE, 10, "certified", Sizes(sketch_bits=3))
    assert 0 < plan.n_held_out < plan.n_rows
    n, allowed, published = plan.n_held_out, plan.n_allowed, 1 - MAX_REFUSED
    passes = stats.binom.cdf([allowed, allowed + 1], n, PROMISE.max_error)
    assert passes[0] / published <= PROMISE.failure_prob < passes[1] / published

    # the theorem about all pairs of samples, with the best q of a fine grid
    reach = float(plan.grid_width) * (0.5 - 2**-4)
    variance = 1.05 / (plan.batch_size * float(plan.regularization))  # C, and duality gaps
    k, chances = plan.n_components, []
    for q in np.geomspace(1e-3, 0.1, 200):
        distance = far_distance(variance, 1.0, plan.n_batches, q)
        chances.append(q + k * component_tail(plan.projection, k, reach / distance))
    assert min(chances) / published <= PROMISE.max_disagreement


def test_plans_keep_definition_1_1_in_full_where_batches_are_calm():
    for d, margin in ((10, 0.3), (20, 0.2), (5, 0.5)):
        plan = SVM.sizes(replace(PROMISE, margin=margin), d, "certified", Sizes())
        fewer = plan.n_batches - plan.n_batches // 50
        assert calm_variance(plan, plan.n_batches) >= CALM_VARIANCE > calm_variance(plan, fewer)


def test_held_out_rows_decide():
    promise = {"margin": 0.5, "max_error": 0.2, "max_disagreement": 0.2, "failure_prob": 0.02}
    how = {"mode": "certified", "sketch_bits": 3, "fit_intercept": False, "shuffle": False}
    planned = rl.plan(
        "svm", n_features=5, mode="certified", sketch_bits=3, fit_intercept=False, **promise
    ).plan
    X, y = draw("plain", planned.n_rows, 5, 0.5, 0)
    first = rl.ReplicableSVMClassifier(**promise, **how).fit(X, y)
    assert first.counts_["held_out"] == planned.n_held_out
    assert first.counts_["held_out_errors"] == 0

    # the rows of the test deny the model, which they did not make
    wrong = y.copy()
    wrong[-planned.n_held_out :] *= -1
    with pytest.raises(ReplearnError, match="held out"):
        rl.ReplicableSVMClassifier(**promise, **how).fit(X, wrong)

    # a replication needs the rows that made the model, and holds none out
    n_training = planned.n_rows - planned.n_held_out
    X2, y2 = draw("plain", n_training, 5, 0.5, 1)
    second = rl.ReplicableSVMClassifier(study=first.study_, fit_intercept=False).fit(X2, y2)
    assert second.replication_.same


def test_plans_without_bits_hold_nothing_out():
    plan = SVM.sizes(replace(PROMISE, max_disagreement=0.3), 5, "certified", Sizes())
    assert plan.n_held_out == 0
    assert plan.looks
