"""Certificates of weighted rows: tails that a sample has not seen."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from replearn.glm import sketched as glm
from replearn.study import Request, publish
from replearn.study.certificate import _EffectiveRows, _tails
from replearn.tables import open_table
from tests.error_budget import assert_rate_at_least, assert_rate_at_most

PROMISE = glm.GlmPromise(0.01, 8, 4000, 4000)
N_NUMBERS = 5


def means(rng, n_labs, sigma):
    """Weighted means of labs of 4,000, their standard errors, and what a certificate adds."""
    found = np.zeros((n_labs, 3))
    for i in range(n_labs):
        weights, values = rng.lognormal(0, sigma, 4000), rng.normal(size=4000)
        total, squares = weights.sum(), weights**2
        behind = squares.sum() ** 2 / (squares**2).sum()
        rows = _EffectiveRows(np.ones(1), np.ones(1), behind)
        error = np.sqrt((squares * values**2).sum()) / total
        found[i] = weights @ values / total, error, _tails(rows, PROMISE, N_NUMBERS)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1.0, 2.0, 2.5])
def test_a_certificate_of_heavy_weights_is_not_too_good(sigma, seeds):
    """Labs leave cells of 3.7 errors at most as often as is said; false alarm 1e-6.

    Normal tails would say .02 %; with heavy weights it is ten times as often, which is caught.
    """
    rng = np.random.default_rng(seeds(1)[0])
    first, second = means(rng, 20_000, sigma), means(rng, 20_000, sigma)
    reach = 3.72 * np.sqrt(2) * first[:, 1]
    n_left = int((np.abs(first[:, 0] - second[:, 0]) > reach).sum())

    said = 2 * stats.norm.sf(3.72 / first[:, 2])
    assert_rate_at_most(n_left, 20_000, float(said.mean()))
    if sigma > 1:
        assert_rate_at_least(n_left, 20_000, 2e-3 / 3)
    else:
        assert said.mean() < 1e-3


def certificate(weights):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=4000), "z": rng.normal(size=4000), "w": weights})
    frame["y"] = (rng.random(4000) < 1 / (1 + np.exp(1 - frame["x"]))).astype(int)
    request = Request(target="y", weights="w", ridge=0.01)
    return publish(open_table(frame, target="y", weights="w"), request).certificate


def test_usual_weights_stay_publishable_and_heavy_ones_promise_less():
    rng = np.random.default_rng(2)
    usual = [rng.uniform(0.5, 5, 4000), rng.exponential(size=4000), rng.lognormal(0, 1, 4000)]
    for weights in usual:
        assert not (found := certificate(weights)).problems
        assert found.expected < 0.01

    # normal tails would say 2e-4 of these
    heavy = [certificate(rng.lognormal(0, 2, 4000)).expected for _ in range(9)]
    assert np.median(heavy) > 1e-3
