"""Laws of the choices from a finite list: how often two labs choose the same."""

import math

import numpy as np
import pytest
from scipy import stats

from replearn.codes.randomness import SharedRandomness
from replearn.plans.choice_sizes import amplified_disagreement
from replearn.stages.selection import (
    ThresholdLaw,
    amplified,
    correlated_choice,
    draw_threshold,
    first_below,
)
from tests.error_budget import FALSE_ALARM, assert_rate_at_most, assert_rate_close, power

TRIALS = 6000


def gumbel_agreement(p, q):
    """J_P of [DMS24], Gumbel-max: sum_i 1 / sum_j max(p_j / p_i, q_j / q_i)."""
    ratios = np.maximum(p[None, :] / p[:, None], q[None, :] / q[:, None])
    return float((1 / ratios.sum(axis=1)).sum())


def holenstein_agreement(p, q):
    """Both accept the first proposal that one of them accepts, or the other comes to it later."""
    both = np.minimum(p, q)
    later = ((p - both) * q + (q - both) * p).sum()
    return float((both.sum() + later) / np.maximum(p, q).sum())


def tv(p, q):
    return float(np.abs(p - q).sum() / 2)


def random_pair(rng):
    n, concentration = int(rng.integers(2, 12)), 10 ** rng.uniform(-1, 1.5)
    pair = rng.dirichlet(np.full(n, concentration), size=2) + 1e-12
    return pair / pair.sum(axis=1, keepdims=True)


def test_gumbel_is_never_worse_than_holenstein_nor_this_than_the_bound(seed_block):
    """No sampling error here: the laws themselves are compared, on 5,000 random pairs."""
    rng = np.random.default_rng([seed_block, 1])
    for _ in range(5000):
        p, q = random_pair(rng)
        bound = (1 - tv(p, q)) / (1 + tv(p, q))
        assert gumbel_agreement(p, q) >= holenstein_agreement(p, q) - 1e-12
        assert holenstein_agreement(p, q) >= bound - 1e-12


PAIRS = {
    "near": (np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.33, 0.36, 0.21, 0.1])),
    "far": (np.array([0.7, 0.1, 0.1, 0.05, 0.05]), np.array([0.1, 0.1, 0.2, 0.3, 0.3])),
    "many": (np.arange(1, 41) / 820.0, (np.arange(1, 41) + 8.0) / (820 + 320)),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    ("method", "law"), [("gumbel", gumbel_agreement), ("holenstein", holenstein_agreement)]
)
def test_agreement_follows_its_law(method, law, pair, seeds):
    p, q = PAIRS[pair]
    logs = np.log(p), np.log(q)
    n_same = sum(
        len({correlated_choice(weights, seed, method=method) for weights in logs}) == 1
        for seed in seeds(TRIALS)
    )
    assert law(p, q) >= (1 - tv(p, q)) / (1 + tv(p, q))
    assert_rate_close(n_same, TRIALS, law(p, q))
    # would catch a law that is wrong by .05 with probability above .99
    assert power(TRIALS, law(p, q), law(p, q) - 0.05, FALSE_ALARM / 2) > 0.99


@pytest.mark.parametrize("method", ["gumbel", "holenstein"])
def test_choices_have_the_given_weights(method, seeds):
    p = PAIRS["far"][0]
    chosen = [correlated_choice(np.log(p), seed, method=method) for seed in seeds(TRIALS)]
    counts = np.bincount(chosen, minlength=p.size)
    # a shift of .04 from one candidate to another would be caught with probability above .99
    assert stats.chisquare(counts, TRIALS * p).pvalue > FALSE_ALARM


def test_choices_below_a_threshold_follow_the_jaccard_index(seeds):
    here, there = np.ones(60), np.ones(60)
    here[:25] = there[10:30] = 0.0  # 15 of 30 candidates are below at both labs
    n_differ = sum(
        first_below(here, seed, low=0.5, high=0.5) != first_below(there, seed, low=0.5, high=0.5)
        for seed in seeds(TRIALS)
    )
    assert_rate_close(n_differ, TRIALS, 1 - 15 / 30)
    # would catch a rate of .45 with probability above .99
    assert power(TRIALS, 0.5, 0.45, FALSE_ALARM / 2) > 0.99


def test_random_threshold_keeps_its_bound(seeds):
    """|H| = 500, errors off by t at both labs, in opposite directions: 2 t ln|H| / W at most.

    The numbers of candidates below a threshold grow exponentially with its root, the worst case.
    """
    n, top, t = 500, 0.5, 0.01
    roots = top * np.log(np.arange(1, n + 1)) / math.log(n)
    here, there = (roots + t) ** 2, np.maximum(roots - t, 0) ** 2
    low, high = t**2, (top - t) ** 2
    bound = 2 * t * math.log(n) / (top - 2 * t)
    n_differ = sum(
        first_below(here, seed, low=low, high=high) != first_below(there, seed, low=low, high=high)
        for seed in seeds(TRIALS)
    )
    assert bound == pytest.approx(0.259, abs=0.001)
    assert_rate_at_most(n_differ, TRIALS, bound)
    # and it is nearly reached: 1 - exp(-2 t ln|H| / top) = .22
    assert n_differ / TRIALS > 0.18
    # would catch a rate of .3 with probability above .99
    assert power(TRIALS, bound, 0.3) > 0.99


def test_start_flips_with_the_distance_over_the_cell(seeds):
    """Agnostic: the smallest errors of two labs are .004 apart, the cell is .02 wide."""
    law = ThresholdLaw(0.02, 0.08, 0.02)
    n_differ = 0
    for seed in seeds(TRIALS):
        shared = SharedRandomness(seed)
        here, there = (draw_threshold(law, smallest, shared, "t") for smallest in (0.1, 0.104))
        n_differ += here != there
    assert_rate_close(n_differ, TRIALS, 0.2)
    # would catch a rate of .24 with probability above .99
    assert power(TRIALS, 0.2, 0.24, FALSE_ALARM / 2) > 0.99


def test_amplification_decides_alike_unless_the_level_lies_between(seeds):
    """Frequencies .70 and .76 of one candidate: decisions differ with probability 6 (.06)."""
    trials = TRIALS

    def lab(share, seed):
        choices = [[0] * round(50 * share) + list(range(1, 51 - round(50 * share))), [99] * 50]
        shared = SharedRandomness(seed)
        return amplified(lambda string, i: choices[string][i], 50, 2, shared, "t")[0]

    n_differ = sum(lab(0.70, seed) != lab(0.76, seed) for seed in seeds(trials))
    assert_rate_close(n_differ, trials, 0.36)
    # would catch a rate of .42 with probability above .99
    assert power(trials, 0.36, 0.42, FALSE_ALARM / 2) > 0.99


def test_amplification_keeps_its_bound(seeds):
    """A choice that disagrees with probability .01, repeated 3,000 times for 3 strings."""
    trials, n_repeats, n_strings = 60, 3000, 3
    n_differ = 0
    for seed in seeds(trials):
        shared = SharedRandomness(seed)
        results = set()
        for lab in (0, 1):
            odd = np.random.default_rng([seed, lab]).random((n_strings, n_repeats)) < 0.005
            results.add(
                amplified(
                    lambda string, i, odd=odd: 1000 + i if odd[string, i] else string,
                    n_repeats,
                    n_strings,
                    shared,
                    "t",
                )[0]
            )
        n_differ += len(results) > 1
    bound = amplified_disagreement(0.01, n_repeats, n_strings)
    assert bound < 0.55
    assert_rate_at_most(n_differ, trials, bound)
    # would catch a rate of .95 with probability above .99
    assert power(trials, bound, 0.95) > 0.99
