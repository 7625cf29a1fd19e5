"""Lemmas of the choice among finished models (docs/choosing.md), measured."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from replearn.codes.randomness import SharedRandomness
from replearn.plans.plan_choice import (
    choice_probabilities,
    expected_disagreement,
    expected_loss,
    most_loss,
    noise_for,
    plan_choice,
    site_range,
    spreads_of,
    tie_weights,
)
from replearn.stages.choice_certificate import (
    _costs_from_truth,
    certify_models,
    cost_from_the_middle,
    cost_on_the_way,
    proved_disagreement,
)
from replearn.stages.model_scores import ScoreSums, sum_scores
from replearn.stages.score_rounding import round_score
from replearn.stages.selection import noisy_best, noisy_scores
from tests.error_budget import (
    assert_mean_close,
    assert_rate_at_least,
    assert_rate_at_most,
    assert_rate_close,
    power,
)
from tests.reference import same_choice

SCORES = np.array([0.90, 0.895, 0.893, 0.88, 0.85])
SCALE = 0.01

score_lists = arrays(np.float64, st.integers(2, 7), elements=st.floats(0, 1))
scales = st.floats(0.003, 3)


# --- what the noise does ------------------------------------------------------------------------


def test_the_choice_is_that_of_permute_and_flip(seeds):
    trials = 6000
    counts = np.bincount(
        [noisy_best(SCORES, SCALE, seed) for seed in seeds(trials)], minlength=SCORES.size
    )
    for count, share in zip(counts, permute_and_flip(SCORES, SCALE), strict=True):
        assert_rate_close(int(count), trials, share)
    np.testing.assert_allclose(
        choice_probabilities(SCORES, SCALE), permute_and_flip(SCORES, SCALE), rtol=1e-12
    )
    # would catch a share of .57 instead of .52 with probability above .99
    assert permute_and_flip(SCORES, SCALE)[0] == pytest.approx(0.52, abs=0.005)
    assert power(trials, 0.52, 0.57) > 0.99


def permute_and_flip(scores, scale):
    """Candidates in random order, each taken with probability exp(-gap/scale): [MS20], by sum."""
    ratios = np.exp((scores - scores.max()) / scale)
    shares = np.zeros(scores.size)
    orders = list(itertools.permutations(range(scores.size)))
    for order in orders:
        left = 1.0
        for i in order:
            shares[i] += left * ratios[i] / len(orders)
            left *= 1 - ratios[i]
    return shares


@given(score_lists, scales)
def test_ties_at_the_top_weigh_one_half_at_most(scores, scale):
    weights = tie_weights(scores, scale)
    assert (weights >= 0).all()
    assert np.triu(weights).sum() <= 0.5 + 1e-9
    assert choice_probabilities(scores, scale).sum() == pytest.approx(1)


def test_tied_candidates_weigh_one_half_however_many():
    for n in (2, 3, 12, 200):
        assert np.triu(tie_weights(np.full(n, 0.7), 0.01)).sum() == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("shift", [0.0005, 0.004, 0.03])
def test_two_sites_choose_the_same_as_often_as_computed(shift, seeds):
    there = SCORES + shift * np.array([-1, 1, 0.5, 0, 2])
    trials = 4000
    same = sum(
        noisy_best(SCORES, SCALE, seed) == noisy_best(there, SCALE, seed) for seed in seeds(trials)
    )
    assert_rate_close(same, trials, same_choice(SCORES, there, SCALE))


def test_disagreement_is_half_of_what_the_gap_suggests():
    # |D| / (2 scale) for two tied candidates, not |D| / scale
    first, second = np.array([0.5, 0.5]), np.array([0.5, 0.501])
    assert 1 - same_choice(first, second, 0.01) == pytest.approx(0.05, rel=0.06)


@given(score_lists, st.integers(0, 10_000), scales, st.floats(0.001, 2))
def test_the_anchor_lemma(middle, seed, scale, size):
    moves = np.random.default_rng(seed).normal(0, size * scale, middle.size) / 2
    first, second = middle - moves, middle + moves
    differences = np.abs(moves[:, None] - moves)
    weights = tie_weights(middle, scale)
    bound = float((weights * np.expm1(np.minimum(differences / scale, 500))).sum())
    assert 1 - same_choice(first, second, scale) <= bound + 1e-9


@given(score_lists, st.integers(0, 10_000), scales, st.floats(0.001, 0.3))
def test_weights_change_slowly(scores, seed, scale, size):
    # leaving one row out multiplies a weight by exp(2 range / scale) at most
    move = np.random.default_rng(seed).uniform(0, size * scale, scores.size)
    before, after = tie_weights(scores, scale), tie_weights(scores + move, scale)
    growth = math.exp(2 * float(np.ptp(move)) / scale)
    assert (after <= before * growth * (1 + 1e-6) + 1e-15).all()


@given(score_lists, scales)
def test_no_more_is_given_up_than_promised(scores, scale):
    assert expected_loss(scores, scale) <= most_loss(scores.size, scale)
    assert most_loss(scores.size, scale) <= scale * math.log(scores.size)


def test_what_is_given_up_is_measured(seeds):
    lost = [SCORES.max() - SCORES[noisy_best(SCORES, SCALE, seed)] for seed in seeds(3000)]
    assert_mean_close(lost, expected_loss(SCORES, SCALE))
    # would notice twice as much
    assert expected_loss(SCORES, SCALE) > 10 * np.std(lost) / math.sqrt(3000)


@pytest.mark.parametrize("rows", [[400, 400], [400] * 5, [100, 900, 900]])
def test_range_of_the_sites_means(rows, seed_block):
    rng = np.random.default_rng(seed_block)
    draws = rng.normal(size=(20_000, len(rows))) / np.sqrt(rows)
    assert_mean_close(np.ptp(draws, axis=1), site_range(rows))


# --- plans and certificates ---------------------------------------------------------------------

#: Chance of each candidate to be right, and how much of that they share.
CHANCES = np.array([0.86, 0.858, 0.855, 0.84, 0.80, 0.75])
COMMON = 0.8


def draw_rows(rng, n):
    """Which candidates are right on which rows: they mostly agree, as real ones do."""
    common = rng.random((n, 1)) < COMMON
    u = np.where(common, rng.random((n, 1)), rng.random((n, CHANCES.size)))
    return (u < CHANCES).astype(np.float64)


def draw_sums(rng, n):
    return sum_scores(list(draw_rows(rng, n).T))


def spreads():
    """Of the population: candidates differ on their own draws, and between their chances."""
    low, high = np.minimum.outer(CHANCES, CHANCES), np.maximum.outer(CHANCES, CHANCES)
    own = low * (1 - high) + high * (1 - low)
    square = COMMON * (high - low) + (1 - COMMON) * own - (high - low) ** 2
    np.fill_diagonal(square, 0.0)
    return np.sqrt(square)


@pytest.mark.parametrize("n_sites", [2, 4])
def test_a_planned_choice_keeps_its_disagreement(n_sites, seed_block):
    n, rho, trials = 2000, 0.1, 500
    scale = noise_for(CHANCES, spreads(), [n] * n_sites, rho)
    rng = np.random.default_rng([seed_block, n_sites])
    differ = 0
    for seed in range(trials):
        picks = {noisy_best(draw_sums(rng, n).scores, scale, f"{seed}") for _ in range(n_sites)}
        differ += len(picks) > 1
    assert_rate_at_most(differ, trials, rho)
    expected = expected_disagreement(CHANCES, spreads(), [n] * n_sites, scale)
    assert_rate_close(differ, trials, expected, tolerance=0.015)
    # would catch a true rate of .22 with probability .99
    assert power(trials, rho, 0.22) > 0.99


def test_sites_may_take_the_noise_from_their_own_rows(seed_block):
    n, rho, trials = 2000, 0.1, 400
    rng = np.random.default_rng([seed_block, 7])
    differ = 0
    for seed in range(trials):
        picks = set()
        for _ in range(2):
            sums = draw_sums(rng, n)
            scale = noise_for(sums.scores, spreads_of(sums.covariance, n), [n, n], rho)
            picks.add(noisy_best(sums.scores, scale, f"{seed}"))
        differ += len(picks) > 1
    assert_rate_at_most(differ, trials, rho)


def test_certificates_estimate_the_disagreement(seed_block):
    n, trials = 2000, 300
    scale = noise_for(CHANCES, spreads(), [n, n], 0.1)
    rng = np.random.default_rng([seed_block, 11])
    differ, estimates, expected, bounds = 0, [], [], []
    for seed in range(trials):
        shared = SharedRandomness(f"{seed}")
        sums = [draw_sums(rng, n) for _ in range(2)]
        noisy = [noisy_scores(one.scores, scale, shared, "choice") for one in sums]
        differ += int(np.argmax(noisy[0]) != np.argmax(noisy[1]))
        proves = seed < 100  # a bound takes longer than an estimate
        found = certify_models(sums[0], noisy[0], scale, [n, n], 1.0, binary=True, published=proves)
        estimates.append(found.estimated_disagreement)
        expected.append(found.expected_disagreement)
        if proves:
            bounds.append(found.disagreement_bound)
    # both estimates are right on average, and the bound holds
    assert_rate_close(differ, trials, float(np.mean(estimates)), tolerance=0.02)
    assert_rate_close(differ, trials, float(np.mean(expected)), tolerance=0.02)
    assert np.std(expected) < 0.1 * np.mean(expected)
    truth = expected_disagreement(CHANCES, spreads(), [n, n], scale)
    assert_rate_at_least(sum(bound >= truth for bound in bounds), len(bounds), 0.95)


def test_bounds_are_close_to_the_truth(seed_block):
    n = 10_000
    scale = noise_for(CHANCES, spreads(), [n, n], 0.1)
    rng = np.random.default_rng([seed_block, 29])
    bounds = [
        proved_disagreement(draw_sums(rng, n), scale, [n, n], 1.0, binary=True) for _ in range(5)
    ]
    truth = expected_disagreement(CHANCES, spreads(), [n, n], scale)
    assert truth < np.median(bounds) < 1.5 * truth


def test_estimates_under_a_seed_tell_seeds_apart(seed_block):
    n, trials = 2000, 600
    scale = noise_for(CHANCES, spreads(), [n, n], 0.2)
    rng = np.random.default_rng([seed_block, 13])
    differ = {False: [0, 0], True: [0, 0]}
    for seed in range(trials):
        shared = SharedRandomness(f"{seed}")
        sums = [draw_sums(rng, n) for _ in range(2)]
        noisy = [noisy_scores(one.scores, scale, shared, "choice") for one in sums]
        found = certify_models(sums[0], noisy[0], scale, [n, n], 1.0, binary=True, published=False)
        group = differ[found.estimated_disagreement > 0.25]
        group[0] += int(np.argmax(noisy[0]) != np.argmax(noisy[1]))
        group[1] += 1
    assert_rate_at_most(differ[False][0], differ[False][1], 0.15)
    assert_rate_at_least(differ[True][0], differ[True][1], 0.25)


def test_bounds_cover_rare_disagreements_and_many_sites(seed_block):
    # the population is drawn first, so the bound must hold with confidence over samples alone
    rng = np.random.default_rng([seed_block, 17])
    n, scale, trials, held = 1500, 0.02, 100, {2: 0, 3: 0}
    chances = np.array([0.99, 0.989, 0.988])
    square = np.add.outer(chances * (1 - chances), chances * (1 - chances))
    truths = {3: expected_disagreement(chances, np.sqrt(square), [n] * 3, scale)}
    # of two sites: exact over seeds, averaged over samples
    pairs = rng.binomial(n, chances, size=(1000, 2, 3)) / n
    apart = [1 - same_choice(first, second, scale) for first, second in pairs]
    truths[2] = float(np.mean(apart))
    assert np.std(apart) / math.sqrt(len(apart)) < 0.03 * truths[2]
    for _ in range(trials):
        right = (rng.random((n, 3)) < chances).astype(np.float64)
        sums = sum_scores(list(right.T))
        for n_sites, truth in truths.items():
            held[n_sites] += (
                proved_disagreement(sums, scale, [n] * n_sites, 1.0, binary=True) >= truth
            )
    for count in held.values():
        assert_rate_at_least(count, trials, 0.95)
    # would catch a true coverage of .7 with probability .99
    assert power(trials, 0.05, 0.3) > 0.99


@pytest.mark.parametrize("n_rows", [60, 600])
def test_costs_of_a_pair_bound_its_mean_excess(n_rows, seed_block):
    # what a unit of weight costs, by simulation of two sites with rare differences
    rng = np.random.default_rng([seed_block, n_rows])
    scale, share = 0.5 / math.sqrt(n_rows), 0.1
    moves = [
        (rng.multinomial(n_rows, [share / 2, share / 2, 1 - share], size=40_000) @ [1, -1, 0])
        / n_rows
        for _ in range(2)
    ]
    square = np.array([share])
    apart = np.abs(moves[0] - moves[1]) / scale
    variance = 2 * square / (n_rows * scale**2)
    step = 2 / (n_rows * scale)
    assert np.sinh(apart).mean() <= cost_on_the_way(variance, step)[0]
    assert 2 * np.expm1(apart / 2).mean() <= cost_from_the_middle(variance, step)[0]
    up, down = np.maximum(*moves).clip(0), -np.minimum(*moves).clip(None, 0)
    truth = np.expm1(up / scale) + np.expm1(down / scale)
    assert truth.mean() <= _costs_from_truth(square, scale, [n_rows, n_rows], 1.0)[0]


def test_plans_before_any_data_hold_for_tied_candidates(seed_block):
    n, trials, share = 2000, 500, 0.1
    plan = plan_choice(8, n, 0.1, row_disagreement=share)
    rng = np.random.default_rng([seed_block, 19])
    differ = 0
    for seed in range(trials):
        # every candidate is wrong on its own twentieth of the rows: pairs differ on a tenth
        picks = {
            noisy_best(
                1 - (rng.random((n, 8)) < share / 2).mean(axis=0),
                float(plan.noise_scale),
                f"{seed}",
            )
            for _ in range(2)
        }
        differ += len(picks) > 1
    assert_rate_close(differ, trials, 0.1 * math.sqrt(1 - share / 2), tolerance=0.01)


# --- numbers ------------------------------------------------------------------------------------


def test_rounded_scores_are_unbiased_and_as_stable_as_they_say(seed_block):
    n, trials, chance, width = 2000, 600, 0.8, "0.15"
    rng = np.random.default_rng([seed_block, 23])
    differ, errors, bounds, expected = 0, [], [], []
    for seed in range(trials):
        shared = SharedRandomness(f"{seed}")
        found = [
            round_score(one_score(rng, n, chance), "accuracy", width, [n, n], shared, "", 1.0)
            for _ in range(2)
        ]
        differ += found[0].code != found[1].code
        errors.append(found[0].value - chance)
        bounds.append(found[0].disagreement_bound)
        expected.append(found[0].expected_disagreement)
    truth = math.sqrt(chance * (1 - chance)) * site_range([n, n]) / float(width)
    assert_rate_close(differ, trials, truth)
    assert_mean_close(errors, 0.0)
    assert np.max(np.abs(errors)) < float(width) / 2 + 6 * 0.4 / math.sqrt(n)
    assert np.mean(expected) == pytest.approx(truth, rel=0.05)
    assert_rate_at_least(sum(bound >= truth for bound in bounds), trials, 0.95)
    assert np.max(bounds) < 2 * truth


def one_score(rng, n, chance) -> ScoreSums:
    return sum_scores([(rng.random(n) < chance).astype(np.float64)])
