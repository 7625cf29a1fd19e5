"""Choosing the margin replicably."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

from replearn import ReplearnError, ReplicabilityWarning, ReplicableSVMClassifier
from replearn.datasets import make_margin
from replearn.kernels.soft_errors import QUANTUM, soft_error, sum_soft_errors
from tests.error_budget import assert_rate_at_most


def fit(X: Any, y: Any, seed: int, **options: Any) -> ReplicableSVMClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        return ReplicableSVMClassifier(margin="auto", shared_seed=seed, **options).fit(X, y)


def test_labs_choose_the_same_margin(seed_block: int) -> None:
    # Bound: over thresholds uniform on an interval of max_error/2 = .025, two labs differ with
    # probability |difference of their errors| / .025 for each margin tried; errors are means of
    # 4,000 numbers in [0, 1], so below .005 apart on average for the one or two margins whose
    # error is near the interval: rate <= .2. Would catch a true rate of .5 with probability > .99.
    n_pairs, differ = 60, 0
    for pair in range(n_pairs):
        labs = [make_margin(4000, 5, 0.15, random_state=[seed_block, pair, k]) for k in (0, 1)]
        fits = [fit(X, y, pair) for X, y in labs]
        margins = [fitted.plan_.guarantee.margin for fitted in fits]
        differ += margins[0] != margins[1]
    assert_rate_at_most(differ, n_pairs, 0.2)


@pytest.mark.parametrize(("margin", "expected"), [(0.5, {0.4, 0.2}), (0.1, {0.1, 0.05})])
def test_the_choice_is_near_the_margin(margin: float, expected: set[float]) -> None:
    X, y = make_margin(20_000, 8, margin, random_state=0)
    fitted = fit(X, y, 0)
    assert fitted.plan_.guarantee.margin in expected
    assert fitted.plan_.margins_tried[-1][0] == fitted.plan_.guarantee.margin
    assert fitted.certificate_.disagreement_bound == 1
    assert "margins tried" in str(fitted.plan_)


def test_the_choice_does_not_depend_on_threads_or_storage() -> None:
    import scipy.sparse as sp

    X, y = make_margin(5000, 7, 0.1, random_state=0)
    prints = {
        fit(X, y, 3).fingerprint_,
        fit(X, y, 3, n_jobs=3).fingerprint_,
        fit(sp.csr_matrix(X), y, 3).fingerprint_,
    }
    assert len(prints) == 1


def test_soft_errors_are_nearly_the_normal_tail() -> None:
    scores = np.linspace(-6, 6, 241)
    soft = np.array([soft_error(score) for score in scores])
    assert np.abs(soft - stats.norm.cdf(-scores)).max() < 0.023


def test_soft_errors_are_summed_exactly() -> None:
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(50, 3)), rng.choice([-1, 1], 50).astype(np.int8)
    direction = rng.normal(size=4)
    with_one = np.hstack([X, np.ones((50, 1))])
    scores = signs * (with_one @ direction) / np.linalg.norm(with_one, axis=1) / 0.4
    total, n_rows = sum_soft_errors(X, signs, direction, 0.4)
    assert n_rows == 50
    assert total / QUANTUM == pytest.approx(sum(soft_error(score) for score in scores), abs=1e-6)
    parts = [slice(start, start + 10) for start in range(0, 50, 10)]
    assert sum(sum_soft_errors(X[p], signs[p], direction, 0.4)[0] for p in parts) == total


def test_a_promise_needs_a_margin() -> None:
    X, y = make_margin(200, 5, 0.2, random_state=0)
    with pytest.raises(ReplearnError, match='margin="auto" needs mode="practical"'):
        fit(X, y, 0, mode="certified")
