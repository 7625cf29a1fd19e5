"""Plans of choices: arithmetic, frontiers, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replearn.errors import ReplearnError
from replearn.plans.ledger import StudyLedger
from replearn.plans.plan_choice import (
    MAX_CANDIDATES,
    choice_probabilities,
    expected_disagreement,
    noise_for,
    plan_choice,
    spreads_of,
    tie_weights,
)
from tests.reference import same_choice


def test_noise_follows_from_rows_sites_and_disagreement():
    base = float(plan_choice(12, 10_000, 0.1, row_disagreement=0.04).noise_scale)
    assert base == pytest.approx(0.2 * 2 / np.sqrt(np.pi * 10_000) / 0.2, rel=0.01)
    assert float(plan_choice(2, 10_000, 0.1, row_disagreement=0.04).noise_scale) == base
    quarter = float(plan_choice(12, 40_000, 0.1, row_disagreement=0.04).noise_scale)
    assert quarter == pytest.approx(base / 2, rel=0.01)
    assert float(plan_choice(12, 10_000, 0.05, spread=0.2).noise_scale) == pytest.approx(2 * base)
    more = float(plan_choice(12, 10_000, 0.1, n_sites=16, spread=0.2).noise_scale)
    assert more / base == pytest.approx(3.532 / 1.128, rel=0.01)
    uneven = plan_choice(12, [10_000, 40_000], 0.1, spread=0.2)
    assert base / 2 < float(uneven.noise_scale) < base


def test_a_frontier_trades_score_for_agreement():
    rng = np.random.default_rng(0)
    table = (rng.random((500, 6)) < np.linspace(0.7, 0.9, 6)).astype(float)
    for plan in (plan_choice(6), plan_choice(row_scores=table)):
        scales = [float(point.noise_scale) for point in plan.frontier]
        losses = [point.given_up for point in plan.frontier]
        assert sorted(scales, reverse=True) == scales
        assert sorted(losses, reverse=True) == losses
        assert json.loads(json.dumps(plan.data()))["noise_scale"] == plan.noise_scale
        assert plan.noise_scale in str(plan)
    assert plan.basis == "pilot"
    assert plan.n_candidates == 6


def test_a_pilot_makes_cheaper_plans_than_the_worst_case():
    rng = np.random.default_rng(1)
    table = (rng.random((1000, 12)) < 0.9).astype(float)
    plan = plan_choice(row_scores=table, samples_per_site=5000)
    blind = plan_choice(12, 5000, row_disagreement=0.18)
    assert plan.given_up < blind.given_up / 2


def test_a_plan_says_what_happens_without_noise():
    rng = np.random.default_rng(4)
    ahead = (rng.random((2000, 4)) < [0.9, 0.8, 0.8, 0.8]).astype(float)
    assert plan_choice(row_scores=ahead, samples_per_site=2000).without_noise < 0.01
    tied = (rng.random((2000, 4)) < 0.9).astype(float)
    plan = plan_choice(row_scores=tied, samples_per_site=2000)
    assert 0.1 < plan.without_noise < 0.9
    assert "without noise" in str(plan)
    assert plan_choice(4).without_noise is None


def test_candidates_that_never_differ_need_no_noise():
    table = np.repeat(np.random.default_rng(2).random((400, 1)) < 0.8, 3, axis=1)
    plan = plan_choice(row_scores=table, samples_per_site=10_000)
    assert float(plan.noise_scale) < 0.005
    spreads = np.zeros((3, 3))
    assert noise_for(np.full(3, 0.8), spreads, [100, 100], 0.1) == 1e-12


@given(st.integers(2, 9), st.integers(0, 10_000))
def test_many_candidates_are_integrated_as_exactly_as_few(n, seed):
    rng = np.random.default_rng(seed)
    scores, scale = rng.normal(0, 1, n), rng.uniform(0.05, 2)
    t = (np.arange(20_000) + 0.5) / 20_000
    ratios = np.exp((scores - scores.max()) / scale)
    factors = 1 - t[:, None] * ratios
    shares = [ratios[i] * np.delete(factors, i, axis=1).prod(axis=1).mean() for i in range(n)]
    np.testing.assert_allclose(choice_probabilities(scores, scale), shares, atol=1e-6)
    weights = tie_weights(scores, scale)
    for i, j in ((0, 1), (0, n - 1)):
        if i != j:
            inner = t * np.delete(factors, [i, j], axis=1).prod(axis=1)
            assert weights[i, j] == pytest.approx(ratios[i] * ratios[j] * inner.mean(), abs=1e-6)
    assert same_choice(scores, scores, scale) == pytest.approx(1)


def test_a_thousand_candidates():
    scores = np.random.default_rng(3).normal(0.8, 0.02, 300)
    assert choice_probabilities(scores, 0.005).sum() == pytest.approx(1, rel=1e-6)
    assert expected_disagreement(scores, np.full((300, 300), 0.3), [5000, 5000], 0.02) < 0.13


def test_spreads_count_one_more_difference():
    assert spreads_of(np.zeros((2, 2)), 100)[0, 1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_candidates": 1}, "from 2 to"),
        ({"n_candidates": MAX_CANDIDATES + 1}, "from 2 to"),
        ({}, "n_candidates must be"),
        ({"n_candidates": 3, "max_disagreement": 5}, "for 5 % pass 0.05"),
        ({"n_candidates": 3, "samples_per_site": 0}, "positive number of rows"),
        ({"n_candidates": 3, "samples_per_site": [100]}, "at least two sites"),
        ({"n_candidates": 3, "n_sites": 1}, "n_sites"),
        ({"n_candidates": 3, "row_disagreement": 0}, "share in"),
        ({"n_candidates": 3, "spread": -1}, "positive number"),
        ({"n_candidates": 3, "spread": 1, "row_disagreement": 0.1}, "Leave one out"),
        ({"n_candidates": 3, "row_scores": np.ones((5, 3))}, "without n_candidates"),
        ({"row_scores": np.ones(5)}, "got shape"),
        ({"row_scores": np.full((5, 3), np.nan)}, "finite"),
    ],
)
def test_odd_plans_are_refused(arguments, words):
    with pytest.raises(ReplearnError, match=words):
        plan_choice(**arguments)


def test_a_ledger_is_not_overdrawn():
    ledger = StudyLedger(0.2)
    ledger.spend("choice", 0.1)
    ledger.spend("score", 0.1)
    assert ledger.spent == pytest.approx(0.2)
    assert ledger.remaining == 0
    with pytest.raises(ReplearnError, match=r"would spend 0.01, but 0 of 0.2 is left"):
        ledger.spend("another", 0.01)
    with pytest.raises(ReplearnError, match="two names"):
        ledger.spend("choice", 0)
    with pytest.raises(ReplearnError, match="share must be"):
        ledger.spend("odd", 1)
    with pytest.raises(ReplearnError, match="max_disagreement"):
        StudyLedger(1)
    assert "0.2 of 0.2" in str(ledger)
