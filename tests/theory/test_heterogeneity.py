"""Cochran's Q of sites' sums: its level for one population, its power for two."""

import numpy as np
import pytest

import replearn as rl
from replearn.coalitions.influence import heterogeneity
from tests.error_budget import assert_rate_at_least, assert_rate_between

SIZES = (200, 300, 500)


def draw(rng, n_rows, odds=-0.5):
    X = rng.normal(size=(n_rows, 3))
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-X[:, 0] - odds))).astype(int)


@pytest.fixture(scope="module")
def protocol():
    pilot = draw(np.random.default_rng(5), 600)
    return rl.plan_from_pilot(*pilot, samples_per_site=1000).protocol


def p_value(protocol, rng, odds):
    sites = [rl.row_sums(protocol, *draw(rng, n, o)) for n, o in zip(SIZES, odds, strict=True)]
    total = sites[0].sums + sites[1].sums + sites[2].sums
    return heterogeneity(sites, total, protocol.design).p_value


def test_q_has_its_level_for_one_population(protocol):
    rng = np.random.default_rng(1)
    n_low = sum(p_value(protocol, rng, (-0.5, -0.5, -0.5)) < 0.1 for _ in range(400))
    # the law is a limit: rates from .07 to .13 are fine; would catch .25 with probability .92
    assert_rate_between(n_low, trials=400, low=0.07, high=0.13)


def test_q_finds_a_site_of_another_population(protocol):
    rng = np.random.default_rng(2)
    n_found = sum(p_value(protocol, rng, (-0.5, -0.5, 0.5)) < 0.01 for _ in range(50))
    # z of the intercept's difference is about 6: nearly all are found; would catch a rate of .5
    assert_rate_at_least(n_found, trials=50, bound=0.95)
