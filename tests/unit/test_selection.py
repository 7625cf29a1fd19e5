"""Choices from a finite list: definitions, bits, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import replearn as rl
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.kernels.weighted_choice import exponential, fill_weights
from replearn.stages.selection import (
    ThresholdLaw,
    amplified,
    correlated_choice,
    draw_threshold,
    first_below,
    first_of,
    noisy_best,
)
from tests import reference

SHARED = SharedRandomness(5)
SEEDS = st.integers(0, 2**40)
RATES = arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1))


def test_the_primitives_are_public():
    assert rl.correlated_choice is correlated_choice
    assert rl.first_below is first_below


# ---------------------------------------------------------------- correlated choice


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-50, 50)), SEEDS)
def test_gumbel_takes_the_largest_noisy_weight(log_weights, seed):
    noise = SharedRandomness(seed).gumbels("choice/gumbel", log_weights.size)
    assert correlated_choice(log_weights, seed) == np.argmax(log_weights + noise)


@given(st.integers(1, 40), st.integers(0, 40), SEEDS)
def test_noise_of_a_candidate_does_not_depend_on_the_list(n, more, seed):
    shared = SharedRandomness(seed)
    longer = shared.gumbels("choice/gumbel", n + more)
    assert (shared.gumbels("choice/gumbel", n) == longer[:n]).all()


@pytest.mark.parametrize("method", ["gumbel", "holenstein"])
def test_a_common_factor_of_the_weights_does_not_matter(method):
    log_weights = np.array([-1.0, 0.5, 0.25, -4.0])
    for seed in range(50):
        choices = {
            correlated_choice(log_weights + shift, seed, method=method) for shift in (0.0, 64.0)
        }
        assert len(choices) == 1


@pytest.mark.parametrize("method", ["gumbel", "holenstein"])
def test_weight_zero_is_never_chosen(method):
    log_weights = np.array([-math.inf, 0.0, -math.inf, 0.0])
    chosen = {correlated_choice(log_weights, seed, method=method) for seed in range(200)}
    assert chosen == {1, 3}


def test_purposes_have_their_own_coins():
    flat = np.zeros(1000)
    assert correlated_choice(flat, 1, purpose="a") != correlated_choice(flat, 1, purpose="b")


def test_seeds_of_every_kind():
    flat = np.zeros(1000)
    same = {correlated_choice(flat, seed) for seed in (7, "7", np.int64(7), SharedRandomness(7))}
    assert len(same) == 1


def test_gumbel_bits_never_change():
    draws = SharedRandomness(2024).gumbels("net/gumbel", 4)
    assert [x.hex() for x in draws.tolist()] == [
        "-0x1.cce049245cc4ap-3",
        "0x1.25096bc0db863p-2",
        "0x1.13e538de0372ep+2",
        "0x1.2117d5a6006d8p-1",
    ]
    # the rule of docs/shared-randomness.md, with the platform's logarithm
    words = SharedRandomness(2024).words("net/gumbel", 4)
    midpoints = ((words >> np.uint64(12)).astype(np.int64) * 2 + 1) * 2.0**-53
    np.testing.assert_allclose(draws, -np.log(-np.log(midpoints)), rtol=1e-14)


def test_noise_of_a_candidate_depends_on_no_other():
    scores = np.array([0.5, 0.6, 0.55])
    noise = SHARED.exponentials("choice/exponential", 3)
    assert noisy_best(scores, 0.1, SHARED) == int(np.argmax(scores + 0.1 * noise))
    assert (SHARED.exponentials("choice/exponential", 9)[:3] == noise).all()
    assert noisy_best(scores, 1e-9, SHARED) == 1


def test_exponential_draws_follow_the_specification():
    shared = SharedRandomness(2024)
    wanted = reference.exponentials(shared.words("choice/exponential", 50))
    np.testing.assert_allclose(shared.exponentials("choice/exponential", 50), wanted, rtol=1e-14)


@given(st.floats(-700, 0))
def test_exponential_is_accurate(x):
    assert exponential(x) == pytest.approx(math.exp(x), rel=5e-16, abs=0)


def test_exponential_below_its_range_is_zero():
    assert exponential(-701.0) == 0
    weights = np.empty(2)
    assert fill_weights(np.array([0.0, -math.inf]), weights) == 1
    assert weights.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: correlated_choice([], 1), "at least one number"),
        (lambda: noisy_best([0.1, math.nan], 0.1, 1), "got nan"),
        (lambda: noisy_best([0.1, 0.2], 0, 1), "noise_scale must be"),
        (lambda: noisy_best([0.1, 0.2], "x", 1), "noise_scale must be"),
        (lambda: correlated_choice([[1.0]], 1), r"shape \(1, 1\)"),
        (lambda: correlated_choice([1.0, math.nan], 1), "got nan"),
        (lambda: correlated_choice([-math.inf], 1), "one of them finite"),
        (lambda: correlated_choice([math.inf, 0.0], 1), "got inf"),
        (lambda: correlated_choice([0.0], 1.5), "must be an int or a string"),
        (lambda: correlated_choice([0.0], True), "must be an int or a string"),
        (lambda: correlated_choice([0.0], 1, method="x"), "one of gumbel, holenstein"),
        (lambda: first_below([0.5, 1.5], 1, high=0.1), "rates in .* got 1.5"),
        (lambda: first_below([math.nan], 1, high=0.1), "rates in"),
        (lambda: first_below([0.1], 1, low=0.2, high=0.1), "low must be at most high"),
        (lambda: first_below([0.1], 1, high=2), "high must be a number in"),
    ],
)
def test_bad_input_gets_one_clear_error(call, message):
    with pytest.raises(ReplearnError, match=message):
        call()


# ---------------------------------------------------------------- first below


@given(RATES, SEEDS, st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 0.2))
def test_first_below_is_below_or_there_is_none(errors, seed, low, width, cell):
    shared = SharedRandomness(seed)
    chosen = first_below(errors, seed, low=low, high=low + width, cell=cell)
    law = ThresholdLaw(low, low + width, cell)
    threshold = draw_threshold(law, float(errors.min()), shared, "choice")
    below = set(np.flatnonzero(errors <= threshold))
    assert chosen in below if below else errors[chosen] == errors.min()


@given(RATES, SEEDS, st.floats(0, 1))
def test_candidates_above_the_threshold_do_not_matter(errors, seed, limit):
    order = SharedRandomness(seed).permutation("any", errors.size)
    if errors.min() <= limit:
        worse = np.where(errors <= limit, errors, 1.0)
        other = errors.copy()
        other[errors > limit] = np.nextafter(limit, 2)
        assert first_of(errors, limit, order) == first_of(worse, limit, order)
        assert first_of(errors, limit, order) == first_of(other, limit, order)


@given(SEEDS, st.floats(0, 0.5), st.floats(0, 0.5), st.booleans())
def test_threshold_lies_between_its_ends(seed, low, width, root):
    law = ThresholdLaw(low, low + width, 0.0, root)
    threshold = draw_threshold(law, 0.3, SharedRandomness(seed), "t")
    assert low * (1 - 1e-12) <= threshold <= (low + width) * (1 + 1e-12)


@given(SEEDS, st.floats(0, 1), st.floats(1e-3, 0.5))
def test_start_is_at_most_a_cell_below_the_smallest_error(seed, smallest, cell):
    law = ThresholdLaw(0.5, 0.5, cell, root=False)
    start = draw_threshold(law, smallest, SharedRandomness(seed), "t") - 0.5
    assert smallest - cell - 1e-9 <= start <= smallest + 1e-9


def test_numbers_of_one_purpose_are_independent():
    law = ThresholdLaw(0.0, 1.0)
    drawn = {draw_threshold(law, 0.0, SHARED, "t", number) for number in range(50)}
    assert len(drawn) == 50


# ---------------------------------------------------------------- amplification


def test_amplified_takes_the_first_string_that_is_frequent_enough():
    choices = {0: [1, 2, 3, 4, 5, 6], 1: [7] * 6, 2: [8] * 6}
    candidate, shares, levels = amplified(lambda string, i: choices[string][i], 6, 3, SHARED, "t")
    assert candidate == 7
    assert shares == [1 / 6, 1.0]
    assert all(2 / 3 <= level <= 5 / 6 for level in levels)


def test_amplified_falls_back_to_the_last_string():
    candidate, shares, _ = amplified(lambda string, i: 10 * string + i % 2, 4, 2, SHARED, "t")
    assert candidate == 10
    assert shares == [0.5, 0.5]
