"""A choice among finished models: what it gives up, and how often labs agree."""

import math

import numpy as np
import pytest

from replearn.codes.coins import Coins
from replearn.recipes.choice import CHOICE, run, stability
from replearn.recipes.recipe import Promise, Sizes
from tests.error_budget import FALSE_ALARM, assert_mean_close, assert_rate_at_most
from tests.samples import Whole

pytestmark = pytest.mark.slow


def plan_of(n_candidates, max_error=0.05, rho=0.1, mode="practical", **by_hand):
    return CHOICE.sizes(Promise(0.1, max_error, rho), n_candidates, mode, Sizes(by_hand))


def scores_of(rates, n_rows, seed):
    """Right or wrong on each row; two neighbours differ on about a tenth of the rows."""
    rng = np.random.default_rng(seed)
    common = rng.random((n_rows, 1))
    own = rng.random((n_rows, len(rates)))
    noise = np.where(rng.random((n_rows, len(rates))) < 0.25, own, common)
    return (noise < rates).astype(float)


@pytest.mark.parametrize("n_candidates", [2, 5, 40])
def test_no_more_is_given_up_than_asked(n_candidates, seeds):
    """Worst case: all but one equally bad, so far below that noise may just reach."""
    plan = plan_of(n_candidates)
    scale = float(plan.noise_scale)
    for gap in (0.5, 1.0, 2.0):
        scores = np.full(n_candidates, 0.5)
        scores[0] += gap * scale
        losses = []
        for seed in seeds(3000):
            noise = Coins(seed).exponentials("choice/exponential", n_candidates)
            losses.append(scores[0] - scores[np.argmax(scores + scale * noise)])
        standard_error = np.std(losses) / math.sqrt(3000)
        assert np.mean(losses) <= 0.05 + 5 * standard_error


def test_the_gap_of_the_two_largest_is_at_least_exponential(seeds):
    """Whatever the scores: the lemma behind the disagreement."""
    scale, scores = 0.01, np.array([0.9, 0.9, 0.897, 0.89, 0.5])
    n, short = 4000, 0.002
    n_short = 0
    for seed in seeds(n):
        noisy = scores + scale * Coins(seed).exponentials("choice/exponential", 5)
        second, first = np.sort(noisy)[-2:]
        n_short += first - second < short
    assert_rate_at_most(n_short, n, 1 - math.exp(-short / scale))
    # would catch 0.22 instead of 0.18 with probability 0.9


@pytest.mark.parametrize("mode", ["practical", "certified"])
@pytest.mark.parametrize("n_candidates", [2, 30])
def test_plans_invert_the_bound(mode, n_candidates):
    plan = plan_of(n_candidates, mode=mode)
    assert stability(plan, plan.n_rows, None).in_mode(mode) <= 0.1
    assert stability(plan, plan.n_rows - 1, None).in_mode(mode) > 0.1


@pytest.mark.parametrize("rates", [[0.9, 0.9], [0.9, 0.895, 0.89, 0.8], [0.8] * 12], ids=len)
def test_the_bound_holds(rates, seeds):
    pairs, n_rows = 300, 4000
    plan = plan_of(len(rates), max_error=0.2)
    bound = stability(plan, n_rows, None).proved
    assert bound < 0.9
    differ = 0
    for seed in seeds(pairs):
        labs = [scores_of(rates, n_rows, [seed, lab]) for lab in (0, 1)]
        first, second = (run(Whole(s, np.ones(n_rows)), plan, Coins(seed)).codes for s in labs)
        differ += int(first[0] != second[0])
    assert_rate_at_most(differ, pairs, bound, FALSE_ALARM / 3)


@pytest.mark.parametrize("rates", [[0.9, 0.9], [0.9, 0.895, 0.89, 0.8], [0.8] * 12], ids=len)
def test_the_estimate_is_what_is_seen(rates, seeds):
    pairs, n_rows = 300, 1000
    plan = plan_of(len(rates), max_error=0.03)
    gaps = []
    for seed in seeds(pairs):
        samples = [Whole(scores_of(rates, n_rows, [seed, lab]), np.ones(n_rows)) for lab in (0, 1)]
        fits = [run(sample, plan, Coins(seed)) for sample in samples]
        estimates = [stability(plan, n_rows, fitted.spread).expected for fitted in fits]
        gaps.append((fits[0].codes[0] != fits[1].codes[0]) - np.mean(estimates))
    assert_mean_close(gaps, 0.0, tolerance=0.04)
    # standard error 0.025: would catch estimates that are 0.2 off with probability 0.95


def test_order_and_blocks_change_no_choice():
    scores = scores_of([0.9, 0.9, 0.9], 700, 1)
    plan, coins = plan_of(3), Coins(5)
    found = run(Whole(scores, np.ones(700)), plan, coins)
    parts = run(Whole(scores, np.ones(700), size=64), plan, coins)
    order = np.random.default_rng(0).permutation(700)
    again = run(Whole(scores[order], np.ones(700)), plan, coins)
    assert found.codes == parts.codes == again.codes
    np.testing.assert_array_equal(found.spread.slacks, again.spread.slacks)
    np.testing.assert_array_equal(found.spread.moves, parts.spread.moves)
