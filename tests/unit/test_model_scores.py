"""Scores of finished models: the known measures, exactly, whatever the order of the rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from replearn.errors import ReplearnError
from replearn.kernels.sigmoid import log_losses
from replearn.stages.model_scores import (
    CLIP,
    LARGEST,
    NEEDS,
    Scoring,
    check_classes_present,
    check_scoring,
    row_scores,
    sum_scores,
)
from tests import reference

RNG = np.random.default_rng(0)
N = 700
TRUTH = RNG.integers(0, 2, N)
CHANCES = np.clip(0.3 + 0.4 * TRUTH + RNG.normal(0, 0.25, (3, N)), 0, 1)
COSTS = (("0", "1"), ("5.5", "-0.5"))


def predicted(need, chances):
    return {
        "labels": (chances > 0.5).astype(int),
        "probabilities": np.column_stack([1 - chances, chances]),
        "scores": chances,
    }[need]


def scoring(name):
    return Scoring(name, costs=COSTS if name == "neg_cost" else None)


def numbers(name, chances=CHANCES, rows=slice(None)):
    need = NEEDS[name]
    return [row_scores(scoring(name), TRUTH[rows], predicted(need, one[rows])) for one in chances]


KNOWN = {
    "accuracy": lambda y, p: metrics.accuracy_score(y, p > 0.5),
    "balanced_accuracy": lambda y, p: metrics.balanced_accuracy_score(y, p > 0.5),
    "neg_brier_score": lambda y, p: -metrics.brier_score_loss(y, p),
    "neg_log_loss": lambda y, p: -metrics.log_loss(y, np.clip(p, CLIP, 1 - CLIP)),
    "roc_auc": metrics.roc_auc_score,
    "neg_cost": lambda y, p: (
        -np.where(p > 0.5, np.where(y, -0.5, 1.0), np.where(y, 5.5, 0.0)).mean()
    ),
}


@pytest.mark.parametrize("name", NEEDS)
def test_scores_are_the_known_measures(name):
    found = sum_scores(numbers(name)).scores
    wanted = [KNOWN[name](TRUTH, one) for one in CHANCES]
    tolerance = CLIP if name == "neg_log_loss" else 1e-9  # ours does not clip at 1 - CLIP
    np.testing.assert_allclose(found, wanted, atol=tolerance)


@pytest.mark.parametrize("name", NEEDS)
def test_neither_order_nor_chunks_matter(name):
    values = np.array(numbers(name))
    whole = sum_scores(list(values))
    order = np.random.default_rng(1).permutation(N)
    shuffled = sum_scores(list(values[:, order]))
    parts = sum_scores(list(values[:, :123])) + sum_scores(list(values[:, 123:]))
    for other in (shuffled, parts):
        assert (other.totals == whole.totals).all()
        assert (other.products == whole.products).all()
        assert (other.scores == whole.scores).all()
        assert (other.covariance == whole.covariance).all()
    np.testing.assert_allclose(whole.covariance, np.cov(values, bias=True), atol=2e-3)


def test_delongs_variance_of_an_area():
    areas = [
        sum_scores(numbers("roc_auc", rows=rows)).scores[0] for rows in np.array_split(range(N), 7)
    ]
    variance = sum_scores(numbers("roc_auc")).covariance[0, 0]
    assert math.sqrt(variance / (N / 7)) == pytest.approx(np.std(areas, ddof=1), rel=0.7)


def test_balanced_accuracy_with_published_shares_is_a_mean_over_rows():
    shares = ("0.8", "0.2")
    found = Scoring("balanced_accuracy", prevalence=shares)
    right = predicted("labels", CHANCES[0]) == TRUTH
    weights = np.where(TRUTH == 1, 1 / 0.4, 1 / 1.6)
    values = row_scores(found, TRUTH, predicted("labels", CHANCES[0]))
    np.testing.assert_allclose(values, right * weights)
    assert found.row_range == pytest.approx(2.5)
    assert Scoring("balanced_accuracy").row_range is None


def test_more_than_two_classes():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 200)
    table = rng.dirichlet(np.ones(3), 200)
    found = sum_scores([row_scores(Scoring("neg_log_loss"), truth, table)]).scores[0]
    assert found == pytest.approx(-metrics.log_loss(truth, table), abs=0.01)
    half = sum_scores([row_scores(Scoring("neg_brier_score"), truth, table)]).scores[0]
    squares = ((table - np.eye(3)[truth]) ** 2).sum(axis=1).mean()
    assert half == pytest.approx(-squares / 2)


def test_a_label_that_is_no_class_is_wrong():
    strange = np.full(N, -1)
    assert sum_scores([row_scores(Scoring("accuracy"), TRUTH, strange)]).scores[0] == 0
    cost = sum_scores([row_scores(scoring("neg_cost"), TRUTH, strange)]).scores[0]
    assert cost == pytest.approx(-np.where(TRUTH == 1, 5.5, 1.0).mean())


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(1e-6, 0.5))
def test_log_losses_are_those_of_numpy(chances, floor):
    wanted = reference.log_losses(chances, floor)
    np.testing.assert_allclose(log_losses(np.array(chances), floor), wanted, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("odd", "n_classes", "words"),
    [
        (Scoring("f1"), 2, "one of accuracy"),
        (Scoring("roc_auc"), 3, "for two classes, got 3"),
        (Scoring("balanced_accuracy", prevalence=("0.5",)), 2, "one share for each of 2"),
        (Scoring("balanced_accuracy", prevalence=("0.5", "0.6")), 2, "add up to 1"),
        (Scoring("accuracy", prevalence=("0.5", "0.5")), 2, "goes with balanced_accuracy"),
        (Scoring("neg_cost"), 2, "go together"),
        (Scoring("neg_cost", costs=(("0", "1"),)), 2, "2 by 2"),
        (Scoring("neg_cost", costs=(("0", "1e9"), ("1", "0"))), 2, "Scale them"),
    ],
)
def test_odd_scorings_are_refused(odd, n_classes, words):
    with pytest.raises(ReplearnError, match=words):
        check_scoring(odd, n_classes)


def test_missing_classes_and_huge_numbers_are_refused():
    with pytest.raises(ReplearnError, match="must hold all 2 classes"):
        check_classes_present(Scoring("roc_auc"), np.zeros(5, dtype=np.int64), 2)
    check_classes_present(Scoring("accuracy"), np.zeros(5, dtype=np.int64), 2)
    with pytest.raises(ReplearnError, match="too rare"):
        sum_scores([np.array([2 * LARGEST])])
    with pytest.raises(ReplearnError, match="too rare"):
        sum_scores([np.array([np.nan])])
