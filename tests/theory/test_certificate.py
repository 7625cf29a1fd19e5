"""The certificate's numbers, against what other labs really get."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

from replearn import Published, ReplicabilityWarning, ReplicableSVMClassifier
from replearn.datasets import make_margin
from tests.error_budget import FALSE_ALARM, assert_rate_at_most

N_ROWS = 6000
N_PAIRS = 120


def fits(parameters: dict[str, Any], n_pairs: int, first_seed: int) -> Any:
    """Pairs of labs, each pair with its own seed; equal code spaces, different samples."""
    for pair in range(first_seed, first_seed + n_pairs):
        labs = [make_margin(N_ROWS, 6, 0.2, random_state=[pair, lab]) for lab in (0, 1)]
        classifier = ReplicableSVMClassifier(margin=0.2, shared_seed=pair, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplicabilityWarning)
            yield [
                (fitted.fingerprint_, fitted.certificate_)
                for fitted in (classifier.fit(X, y) for X, y in labs)
            ]


@pytest.mark.parametrize(
    "parameters",
    [
        {"rounding": "ak", "projection": "none", "grid_width": 0.15},
        {"rounding": "centre", "projection": "rotation", "grid_width": 0.2},
        {"rounding": "e8", "projection": "none", "grid_width": 0.2},
        {"rounding": "leech", "projection": "gaussian", "n_components": 24, "grid_width": 0.3},
        {
            "rounding": "leech",
            "projection": "none",
            "grid_width": 0.2,
            "published": Published(unit_mean=True),
        },
    ],
    ids=lambda p: f"{p['rounding']}-{p['projection']}" + ("-unit" if "published" in p else ""),
)
def test_the_estimate_is_calibrated(parameters: dict[str, Any], seed_block: int) -> None:
    # Each fit's estimate is the probability that its partner differs: the number of pairs that
    # differ has mean sum(p) and variance sum(p (1-p)) if it is right. A tenth of the mean is
    # allowed for the estimate's own bias. False alarm 1e-6; the grids are chosen so that about
    # a third of the pairs differ, so a factor of 2 would be caught with probability > .9.
    differ, predicted = [], []
    for (one, certificate), (other, _) in fits(parameters, N_PAIRS, 1000 * seed_block):
        differ.append(one != other)
        predicted.append(certificate.estimated_disagreement)
    p = np.array(predicted)
    tolerance = stats.norm.isf(FALSE_ALARM / 2) * math.sqrt((p * (1 - p)).sum()) + 0.1 * p.sum()
    assert abs(sum(differ) - p.sum()) <= tolerance
    assert 0.1 < np.mean(differ) < 0.7  # or the check above would say little


def test_the_bound_holds_over_seeds(seed_block: int) -> None:
    # averaged over seeds; would catch a true rate of twice the bound with probability > .99
    parameters = {"rounding": "centre", "projection": "rotation", "grid_width": 0.5}
    results = list(fits(parameters, N_PAIRS, 1000 * seed_block + 500_000))
    bound = max(certificate.disagreement_bound for (_, certificate), _ in results)
    assert bound < 1
    differ = sum(one != other for (one, _), (other, _) in results)
    assert_rate_at_most(differ, N_PAIRS, bound)


def test_one_batch_is_not_estimable() -> None:
    X, y = make_margin(80, 5, 0.2, random_state=0)
    with pytest.warns(ReplicabilityWarning, match="cannot be estimated"):
        fitted = ReplicableSVMClassifier(margin=0.2).fit(X, y)
    assert fitted.certificate_.estimated_disagreement is None
    assert "not estimable" in str(fitted.certificate_)


def test_a_large_estimate_warns_with_the_remedy() -> None:
    X, y = make_margin(3000, 20, 0.1, random_state=0)
    with pytest.warns(ReplicabilityWarning, match=r"Get more rows \(about .* per lab"):
        ReplicableSVMClassifier(margin=0.1).fit(X, y)
