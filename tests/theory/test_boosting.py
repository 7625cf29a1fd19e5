"""The parts of [ILPS22]: replicable means, smooth boosting, the sampler, and all of it."""

import warnings

import numpy as np
import pytest
from scipy import stats

from replearn import ReplicabilityWarning, ReplicableBoostingClassifier, replicable_mean
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import unit
from replearn.datasets import make_margin
from replearn.plans.plan_boosting import (
    mean_sample_size,
    mean_width,
    plan_boosting,
    servedio,
    smooth_boost_rounds,
)
from replearn.plans.sizes import Guarantee
from replearn.stages.batches import Rows
from replearn.stages.boost_rounds import keep_some, margins, round_sums, smooth_weights
from replearn.stages.means import deciding_wall, rounded_mean
from tests.error_budget import (
    FALSE_ALARM,
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_close,
)

# ---------------------------------------------------------------- rSTAT


@pytest.mark.parametrize("truth", [0.03, 0.5, 0.81])
def test_replicable_mean_keeps_its_promise(truth, seed_block):
    tolerance, disagreement, failure = 0.1, 0.2, 0.05
    rng = np.random.default_rng([seed_block, int(100 * truth)])
    size = mean_sample_size(tolerance, disagreement, failure)
    width = mean_width(tolerance, disagreement, failure)
    n = 20_000
    means = rng.binomial(size, truth, size=(n, 2)) / size
    offsets = rng.random(n)
    results = np.array(
        [[rounded_mean(m, width, u) for m in pair] for pair, u in zip(means, offsets, strict=True)]
    )
    assert_rate_at_most(
        int((results[:, 0] != results[:, 1]).sum()), n, disagreement, FALSE_ALARM / 6
    )
    wrong = int((abs(results[:, 0] - truth) > tolerance).sum())
    assert_rate_at_most(wrong, n, failure, FALSE_ALARM / 6)
    # would catch rates of .217 and .060 with probability .8; they are far below, by Hoeffding


def test_replicable_mean_of_samples(seeds):
    tolerance, disagreement = 0.15, 0.4
    rng = np.random.default_rng(5)
    size = mean_sample_size(tolerance, disagreement, disagreement / 4)
    n, differ = 300, 0
    for seed in seeds(n):
        labs = (rng.random((2, size)) < 0.3).astype(float)
        first, second = (
            replicable_mean(lab, tolerance, disagreement, shared_seed=seed) for lab in labs
        )
        differ += first != second
        assert abs(first - 0.3) <= tolerance  # fails with a probability below 1e-9 here
    assert_rate_at_most(differ, n, disagreement)
    # would catch .56 with probability .78


def test_the_stopping_test_is_a_random_threshold(seeds):
    limit, width = 0.2, 0.17
    walls = []
    for seed in seeds(3000):
        offset = float(SharedRandomness(seed).uniforms("boost/test", 1)[0])
        walls.append(deciding_wall(limit, width, offset))
        for mean in (0.12, 0.17, 0.2, 0.24, 0.28):
            assert (rounded_mean(mean, width, offset) <= limit) == (mean < walls[-1])
    law = stats.uniform(limit - width / 2, width)
    assert stats.kstest(walls, law.cdf).pvalue > FALSE_ALARM


# ---------------------------------------------------------------- SmoothBoost


def boosted_weights(rows, advantage, density, n_inputs):
    """Rounds of the exact weak learner until the mean weight is below ``density``."""
    threshold, decay = (float(text) for text in servedio(advantage))
    voters = np.empty((0, n_inputs))
    order, n_rounds = rows.order, 0
    said = margins(rows, order, voters, "halfspace")
    while True:
        weights = smooth_weights(said, n_rounds, threshold, decay)
        if weights.mean() < density:
            return n_rounds, said, threshold
        assert weights.max() <= 1.0
        # smooth: no row has more than 1/density times its fair share
        assert weights.max() / weights.sum() <= 1 / (density * weights.size)
        mean = round_sums(rows, order, weights, n_inputs).mean()
        voters = np.vstack([voters, unit(mean)])
        before, said = said, margins(rows, order, voters, "halfspace")
        edge = ((said - before) * weights).sum() / weights.sum()
        assert edge >= 2 * advantage  # Lemma: the mean of y x is at least one margin long
        n_rounds += 1


@pytest.mark.parametrize("options", [{}, {"decoy": 0.7, "decay": 0.5}], ids=["plain", "decoy"])
def test_smooth_boosting_ends_in_time_with_few_small_margins(options):
    tau, density = 0.4, 0.05
    X, y = make_margin(1500, 6, tau, random_state=3, **options)
    rows = Rows(X, y.astype(np.int8), np.arange(len(y)))
    n_rounds, said, threshold = boosted_weights(rows, tau / 4, density, 6)
    assert n_rounds <= smooth_boost_rounds(tau / 4, density)
    assert (said / n_rounds <= threshold).mean() < density
    assert (said <= 0).mean() < density


@pytest.mark.parametrize("advantage", [0.1, 0.2, 0.4])
def test_smooth_boosting_ends_in_time_against_an_adversary(advantage):
    # hypotheses of +-1 with just the advantage: right on the rows that need it least
    n, density = 2000, 0.1
    threshold, decay = (float(text) for text in servedio(advantage))
    said = np.zeros(n)
    n_rounds = 0
    while True:
        weights = smooth_weights(said, n_rounds, threshold, decay)
        if weights.mean() < density:
            break
        order = np.argsort(-said, kind="stable")
        heavy = np.cumsum(weights[order]) / weights.sum()
        n_right = int(np.searchsorted(heavy, 0.5 + advantage)) + 1
        vote = -np.ones(n)
        vote[order[:n_right]] = 1.0
        assert (vote * weights).sum() / weights.sum() >= 2 * advantage - 1e-12
        said += vote
        n_rounds += 1
    assert n_rounds <= smooth_boost_rounds(advantage, density)
    assert (said / n_rounds <= threshold).mean() < density


# ---------------------------------------------------------------- rejection sampler


def test_the_sampler_keeps_rows_in_proportion_to_their_weights(seeds):
    rng = np.random.default_rng(6)
    n, target = 1000, 100
    weights = rng.random(n) ** 3
    kept = np.zeros(n)
    expected = np.zeros(n)
    sizes = []
    for seed in seeds(400):
        coins = SharedRandomness(seed).uniforms("boost/coins", n)
        everything = keep_some(weights, coins, 0)
        sizes.append(everything.sum())
        kept += everything
        expected += weights
        first = keep_some(weights, coins, target)
        assert first.sum() == target
        last = np.flatnonzero(first)[-1]
        np.testing.assert_array_equal(first[: last + 1], everything[: last + 1])
        assert not first[last + 1 :].any()
    assert_mean_close(sizes, weights.sum(), false_alarm=FALSE_ALARM / 4)
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 1.0)):
        part = (weights >= low) & (weights < high)
        trials = 400 * int(part.sum())
        # sums of independent tosses with these mean chances vary less than a binomial
        assert_rate_close(
            int(kept[part].sum()), trials, weights[part].mean(), false_alarm=FALSE_ALARM / 4
        )
    # in the middle part would catch a rate of .283 instead of .27 with probability .99


# ---------------------------------------------------------------- all of it


def fitted(n_rows, d, state, seed, **parameters):
    X, y = make_margin(n_rows, d, 0.4, random_state=state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)  # some seeds are unlucky
        classifier = ReplicableBoostingClassifier(
            margin=0.4, max_error=0.1, fit_intercept=False, shared_seed=seed, **parameters
        )
        return classifier.fit(X, y)


@pytest.mark.parametrize("rounding", ["box", "foam"])
def test_labs_with_the_planned_rows_agree(rounding, seeds):
    d, rho, n = 4, 0.3, 60
    guarantee = Guarantee(0.4, 0.1, rho, 0.05)
    n_rows = plan_boosting(guarantee, d, rounding=rounding).n_samples
    assert n_rows < 20_000
    X, y = make_margin(20_000, d, 0.4, random_state=-1 % 2**32)
    differ = wrong = 0
    for seed in seeds(n):
        first, second = (
            fitted(n_rows, d, [seed, lab], seed, rounding=rounding, max_disagreement=rho)
            for lab in (0, 1)
        )
        differ += first.fingerprint_ != second.fingerprint_
        wrong += first.score(X, y) < 0.9
    assert_rate_at_most(differ, n, rho, FALSE_ALARM / 4)
    assert_rate_at_most(wrong, n, 0.05, FALSE_ALARM / 4)
    # would catch a disagreement of .68 with probability .82, a failure of .33 with .93


@pytest.mark.parametrize("rounding", ["box", "foam"])
@pytest.mark.parametrize("fresh_rows", [True, False])
def test_the_certificate_estimates_the_disagreement(rounding, fresh_rows, seeds):
    n, differ, estimates = 100, 0, []
    for seed in seeds(n):
        first, second = (
            fitted(3000, 3, [seed, lab], seed, rounding=rounding, fresh_rows=fresh_rows)
            for lab in (0, 1)
        )
        differ += first.fingerprint_ != second.fingerprint_
        estimates.append(first.certificate_.estimated_disagreement)
    assert 0.02 < np.mean(estimates) < 0.9
    assert_rate_close(differ, n, float(np.mean(estimates)), 0.08, FALSE_ALARM / 4)
    # would catch a disagreement .40 above or below the estimate with probability .94


def test_the_majority_keeps_the_error_too(seeds):
    X, y = make_margin(20_000, 3, 0.4, random_state=77)
    n = wrong = 0
    for seed in seeds(20):
        done = fitted(5000, 3, [seed, 5], seed, output="majority")
        if done.plan_.spent.below:
            n += 1
            wrong += done.score(X, y) < 0.9
    assert n >= 15
    assert_rate_at_most(wrong, n, 0.05)
    # would catch a failure of .62 with probability .96
