"""Lemmas of the proved bound of a choice (docs/choosing.md), checked one by one."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from replearn.plans.plan_choice import choice_probabilities, tie_weights
from replearn.stages.choice_certificate import (
    _growth,
    _in_the_running,
    cost_from_the_middle,
    cost_on_the_way,
    half_of_majorant,
    largest_mean,
    largest_slopes,
)
from replearn.stages.intervals import largest_differences, largest_means
from replearn.stages.tie_bounds import largest_tie_spread
from tests.error_budget import assert_rate_at_most, power
from tests.reference import same_choice

score_lists = arrays(np.float64, st.integers(3, 7), elements=st.floats(0, 1))
scales = st.floats(0.01, 3)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=9))
def test_mean_of_a_sum_of_signs(sizes):
    sums = [abs(np.dot(signs, sizes)) for signs in itertools.product([-1, 1], repeat=len(sizes))]
    deviation, largest = math.sqrt(np.dot(sizes, sizes)), max(sizes)
    found, normal = float(np.mean(sums)), math.sqrt(2 / math.pi) * deviation
    assert found * (1 - largest**2 / (2 * deviation**2)) <= normal + 1e-12
    # and what a pair costs, from all signs
    sums, variance = np.array(sums), np.array([deviation**2])
    assert np.sinh(sums).mean() <= cost_on_the_way(variance, largest)[0] + 1e-12
    assert 2 * np.expm1(sums / 2).mean() <= cost_from_the_middle(variance, largest)[0] + 1e-12


@given(score_lists, st.integers(0, 10_000), scales)
def test_tie_weights_are_log_concave(scores, seed, scale):
    move = np.random.default_rng(seed).normal(0, scale, scores.size)
    middle = tie_weights(scores, scale)
    ends = tie_weights(scores + move, scale) * tie_weights(scores - move, scale)
    assert (ends <= middle**2 * (1 + 1e-7) + 1e-250).all()


@given(score_lists, st.integers(0, 10_000), scales, st.floats(0.001, 3))
def test_the_middle_lemma(middle, seed, scale, size):
    """Two sites around a middle; the law of their choices is exact, no draws."""
    rng = np.random.default_rng(seed)
    kinds = rng.normal(size=middle.size), rng.choice([-1.0, 1.0], middle.size)
    move = size * scale * kinds[seed % 2]
    apart = np.abs(move[:, None] - move)
    weights = np.triu(tie_weights(middle, scale), 1)
    bound = float((weights * np.sinh(np.minimum(apart / scale, 300))).sum())
    assert 1 - same_choice(middle - move / 2, middle + move / 2, scale) <= bound + 1e-9


@given(score_lists, scales)
def test_gradients_of_tie_weights(scores, scale):
    """A third candidate's are negative; one of the pair has -1 to 1, below 1 if it is the best."""
    weights = tie_weights(scores, scale)
    step = 1e-6
    for k in range(scores.size):
        raised = tie_weights(scores + step * scale * (np.arange(scores.size) == k), scale)
        slopes = (raised - weights) / (step * np.maximum(weights, 1e-300))
        others = np.flatnonzero(np.arange(scores.size) != k)
        third = slopes[np.ix_(others, others)][np.triu_indices(others.size, 1)]
        assert (third <= 1e-4).all()
        assert (slopes[k, others] <= 1 + 1e-4).all()
        assert (slopes[k, others] >= -1 - 1e-4).all()


@given(score_lists, scales)
def test_ties_of_a_candidate_weigh_no_more_than_its_chance(scores, scale):
    weights, chances = tie_weights(scores, scale), choice_probabilities(scores, scale)
    assert (weights.sum(axis=1) <= chances * (1 + 1e-9)).all()


@settings(max_examples=25)
@given(score_lists, st.integers(0, 10_000), scales)
def test_spread_of_ties_is_the_largest_within_the_radii(scores, seed, scale):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(scores.size, 3))
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    radii = rng.uniform(0, 2 * scale, (scores.size, scores.size))
    np.fill_diagonal(radii, 0.0)
    bound = largest_tie_spread(scores, radii, squares, scale)
    for _ in range(20):
        move = rng.normal(0, scale, scores.size)
        apart = move[:, None] - move
        with np.errstate(divide="ignore", invalid="ignore"):
            move *= min(1.0, float(np.nanmin(np.where(apart > 0, radii / apart, np.inf))))
        found = float((tie_weights(scores + move, scale) * squares).sum())
        assert found <= bound * (1 + 1e-9)


@given(score_lists, st.integers(0, 10_000))
def test_slopes_of_third_candidates(scores, seed):
    rng = np.random.default_rng(seed)
    gaps = scores.max() - scores
    low, high = (
        gaps + rng.uniform(0, 1, gaps.size),
        np.maximum(0, gaps - rng.uniform(0, 1, gaps.size)),
    )
    slopes = largest_slopes(np.exp(-high), np.exp(-low))
    step = 1e-6
    for k in range(scores.size):
        raised = scores + step * (np.arange(scores.size) == k)
        fall = (
            -np.log(
                tie_weights(raised, 1.0) / np.maximum(tie_weights(scores, 1.0), 1e-300) + 1e-300
            )
            / step
        )
        others = np.array([i for i in range(scores.size) if i != k])
        pairs = fall[np.ix_(others, others)][np.triu_indices(others.size, 1)]
        assert (pairs <= slopes[k] + 1e-3).all()


@pytest.mark.parametrize("binary", [True, False])
def test_radii_hold_the_true_scores(binary, seed_block):
    # differences on 2 % of 1,000 rows, up and down; numbers in between if not binary
    rng = np.random.default_rng([seed_block, 41])
    n, trials, doubt = 1000, 4000, 0.05
    sizes = np.array([1.0, -1.0, 0.0]) if binary else np.array([0.9, -0.3, 0.0])
    shares = np.array([0.012, 0.008, 0.98])
    counts = rng.multinomial(n, shares, size=trials)
    means, squares = counts @ sizes / n, counts @ sizes**2 / n
    above = largest_differences(means, squares, n, binary, doubt) < shares @ sizes
    below = largest_differences(-means, squares, n, binary, doubt) < -shares @ sizes
    assert_rate_at_most(int(above.sum()), trials, doubt)
    assert_rate_at_most(int(below.sum()), trials, doubt)
    # would catch a true rate of .08 with probability .99
    assert power(trials, doubt, 0.08) > 0.99


def test_largest_means_hold(seed_block):
    rng = np.random.default_rng([seed_block, 43])
    n, trials, doubt = 500, 20_000, 0.05
    shares = rng.binomial(n, 0.01, size=trials) / n
    bounds = largest_means(shares, math.log(1 / doubt) / n)
    assert_rate_at_most(int((bounds < 0.01).sum()), trials, doubt)


@pytest.mark.parametrize("values", [(0, 1), (0, 0.5, 1), (0.1, 0.2, 0.9), (0, 0.3, 0.7)])
@pytest.mark.parametrize("rare", [0.02, 0.3, 0.9])
def test_a_mean_of_bounded_numbers_is_no_larger(values, rare):
    """The chance of a bound below the true mean, by convolution: exact, no draws."""
    n, doubt = 40, 0.03
    law = np.zeros(11)  # of ten times a number
    law[np.rint(10 * np.array(values)).astype(int)] = [
        1 - rare,
        *[rare / (len(values) - 1)] * (len(values) - 1),
    ]
    mean = float(law @ np.arange(11) / 10)
    sums = np.ones(1)
    for _ in range(n):
        sums = np.convolve(sums, law)
    tenths = np.arange(sums.size) / (10 * n)
    bounds = np.array([largest_mean(share, n, doubt) for share in tenths])
    assert sums[bounds < mean].sum() <= doubt
    assert (np.diff(bounds) >= -1e-12).all()
    alone = largest_means(tenths, math.log(1 / doubt) / n)
    assert (bounds <= alone + 1e-12).all()


def test_the_bound_of_a_mean_is_sharper_than_that_of_its_exponential_alone():
    assert 5000 * largest_mean(30 / 5000, 5000, 0.03) == pytest.approx(45.07, abs=0.01)
    assert largest_mean(1.0, 50, 0.03) == 1.0
    assert largest_mean(0.0, 50, 0.03) == pytest.approx(1 - 0.03 ** (1 / 50))


def test_candidates_that_are_left_out_are_not_chosen(seed_block):
    rng = np.random.default_rng([seed_block, 47])
    chances, n, scale = np.array([0.9, 0.89, 0.5]), 1000, 0.02
    rows = (rng.random((n, 3)) < chances).astype(float)
    scores = rows.mean(axis=0)
    squares = ((rows[:, :, None] - rows[:, None]) ** 2).mean(axis=0)
    kept, far = _in_the_running(scores, squares * 1.5, n, scale, [n, n], 1.0, 10.0)
    assert kept.tolist() == [0, 1]
    assert far < 1e-4
    drawn = rng.binomial(n, chances, size=(300, 3)) / n
    chosen = np.mean([choice_probabilities(one, scale)[2] for one in drawn])
    assert 2 * chosen <= far


def test_weights_in_the_middle_grow_as_much_as_is_allowed(seed_block):
    rng = np.random.default_rng([seed_block, 53])
    chances, n, scale, trials = np.array([0.92, 0.91, 0.9]), 400, 0.03, 2500
    truth = tie_weights(chances, scale)
    square = chances[:, None] * (1 - chances) + (1 - chances[:, None]) * chances
    np.fill_diagonal(square, 0.0)
    growth = _growth(chances, np.zeros((3, 3)), square, scale, n, 1.0, True)
    found = np.empty((trials, 3, 3))
    for trial in range(trials):
        rows = (rng.random((2, n, 3)) < chances).astype(float)
        parts = rows[0] - rows[1]
        apart = ((parts[:, :, None] - parts[:, None]) ** 2).mean(axis=0) / 2
        found[trial] = tie_weights(rows.mean(axis=(0, 1)), scale) * apart
    error = found.std(axis=0) / math.sqrt(trials)
    assert (found.mean(axis=0) <= growth * truth * square + 5 * error).all()
    assert growth.max() < 2


@pytest.mark.parametrize(
    ("cost", "means"),
    [(cost_from_the_middle, (0.01, 0.1, 0.7)), (cost_on_the_way, (0.01, 0.1, 0.25))],
)
def test_a_line_above_a_cost_is_above_its_mean(cost, means, seed_block):
    rng = np.random.default_rng([seed_block, 59])
    for mean in means:
        numbers = np.minimum(rng.exponential(mean, 10_000), 2.0)
        bound = half_of_majorant(partial(cost, step=0.05), float(numbers.mean()), 2.0)
        assert cost(numbers, 0.05).mean() / 2 <= bound
        # as good as concave there: nothing is lost
        assert bound <= 1.01 * cost(np.array([numbers.mean()]), 0.05)[0] / 2
