"""The choice of a ridge: what could not be tried is told, and errors are not mixed up."""

import numpy as np
import pytest

from replearn import ReplicableLogisticClassifier
from replearn.errors import NotConverged, ReplearnError
from replearn.glm import Bernoulli, Multinomial, derivatives, newton, validation
from replearn.glm.validation import best_ridge, folds_of
from replearn.rows import Block, MemoryBlocks


def few_classes(n_rows=600, n_columns=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return X, (rng.logistic(size=n_rows) < 2 * X[:, 0] - X[:, 1]).astype(float)


def kept_rows(X, y):
    return MemoryBlocks(Block(np.clip(np.floor(X * 4096 + 0.5), -16384, 16384).astype(np.int16), y))


def test_a_ridge_whose_fit_does_not_converge_is_told(monkeypatch):
    kept, loss = kept_rows(*few_classes()), Bernoulli()
    folds = folds_of(kept, loss)
    weakest = best_ridge(kept, folds, loss).ridge
    assert float(weakest) < 0.1
    honest = validation.fit

    def slow(rows, loss, ridge, *others):
        if float(ridge) < 0.1:
            raise NotConverged("the fit must converge, but it has no steps left.")
        return honest(rows, loss, ridge, *others)

    monkeypatch.setattr(validation, "fit", slow)
    found = best_ridge(kept, folds, loss)
    assert found.ridge == "0.1"
    assert "A ridge of 0.01 could not be tried" in found.untried[0]

    X, y = few_classes()
    lab = ReplicableLogisticClassifier().fit(X, y.astype(int))
    assert any("0.01 could not be tried" in caution for caution in lab.certificate_.cautions)


def test_an_error_of_a_different_kind_is_not_taken_for_a_ridge(monkeypatch):
    kept, loss = kept_rows(*few_classes()), Bernoulli()

    def torn(*given):
        raise ReplearnError("the scratch file must be whole, got half of it.")

    monkeypatch.setattr(validation, "fit", torn)
    with pytest.raises(ReplearnError, match="scratch file"):
        best_ridge(kept, folds_of(kept, loss), loss)


def test_many_classes_with_a_weak_ridge_converge():
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(12, 6)) * 1.5
    y = rng.integers(0, 12, 1500)
    x = centres[y] + rng.normal(size=(1500, 6))
    hats = np.concatenate([np.maximum(0, 1 - np.abs(x - knot)) for knot in range(-3, 4)], axis=1)
    kept, loss = kept_rows(np.concatenate([x / 3, hats], axis=1), y.astype(float)), Multinomial(12)
    assert loss.n_scores * (kept.n_terms + 1) > derivatives.MOST_STEERED
    summary = newton.Summary.of(kept, loss)
    theta = newton.fit(kept, loss, "0.0001", summary, newton.NEAR_ENOUGH)
    gradient = newton.mean_gradient(newton.sums_at(kept.blocks(), loss, theta), theta, loss, 1e-4)
    assert np.abs(gradient).max() < 1e-4


def test_one_step_is_near_the_fit_of_a_fold():
    kept, loss, ridge = kept_rows(*few_classes(20_000)), Bernoulli(), "0.001"
    found = validation.validate(kept, folds_of(kept, loss), loss, ridge)
    for fold in found.folds:
        honest = newton.fit(fold.learn, loss, ridge, fold.summary, newton.NEAR_ENOUGH)
        moved = np.abs(honest - found.guide.theta).max()
        assert 0 < np.abs(fold.theta - honest).max() < 0.25 * moved

    total = newton.sums_at(kept.blocks(), loss, found.guide.theta)
    for fold in found.folds:
        step = validation.one_step(fold, loss, ridge, found.guide, total)
        np.testing.assert_array_equal(fold.theta, step)


def test_a_fold_that_moves_far_is_fitted():
    """One step is too short where rows held out decide about a column."""
    rng = np.random.default_rng(0)
    X = np.zeros((400, 2))
    X[:, 0] = rng.normal(size=400)
    X[:4, 1] = 1.0  # of which one has an event
    y = (rng.random(400) < 0.2).astype(float)
    y[:4] = 1.0, 0.0, 0.0, 0.0
    kept, loss, ridge = kept_rows(X, y), Bernoulli(), "0.001"
    found = validation.validate(kept, folds_of(kept, loss), loss, ridge)
    total = newton.sums_at(kept.blocks(), loss, found.guide.theta)
    far = [
        fold
        for fold in found.folds
        if validation.one_step(fold, loss, ridge, found.guide, total) is None
    ]
    assert far
    for fold in far:
        honest = newton.fit(fold.learn, loss, ridge, fold.summary, newton.NEAR_ENOUGH, found.guide)
        np.testing.assert_array_equal(fold.theta, honest)
