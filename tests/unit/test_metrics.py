"""Agreement as numbers and scorers, and what notebooks and logs show."""

import logging
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import replearn as rl
from replearn.metrics import agreement_scorer, churn, same_model_rate, same_model_scorer


def draw(seed, n_rows=2000):
    return rl.datasets.make_margin(n_rows, 3, margin=0.3, random_state=seed)


def fitted(seed, shared_seed=7):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return rl.ReplicableSVMClassifier(margin=0.3, shared_seed=shared_seed).fit(*draw(seed))


@pytest.fixture(scope="module")
def models():
    return [fitted(1), fitted(1), fitted(1, shared_seed=8)]


def test_rates_count_pairs(models):
    assert same_model_rate(models[:2]) == 1
    assert same_model_rate([model.model_ for model in models]) == pytest.approx(1 / 3)
    with pytest.raises(rl.ReplearnError, match="at least two"):
        same_model_rate(models[:1])
    with pytest.raises(rl.ReplearnError, match="Use churn"):
        same_model_rate([LogisticRegression(), LogisticRegression()])


def test_churn_counts_rows(models):
    X, _ = draw(3)
    assert churn(models[0], models[1], X) == 0
    expected = (models[0].predict(X) != models[2].predict(X)).mean()
    assert churn(models[0], models[2], X) == expected
    with pytest.raises(rl.ReplearnError, match="rows"):
        churn(models[0].model_, models[1].model_, X[:0])


def test_scorers_work_in_scikit_learn(models):
    X, y = draw(4)
    for scorer in (agreement_scorer(models[0]), same_model_scorer(models[0])):
        found = scorer(models[1], X, y)
        assert found == 1
    scores = cross_val_score(LogisticRegression(), X, y, scoring=agreement_scorer(models[0]), cv=2)
    assert ((scores > 0.8) & (scores <= 1)).all()


def test_notebooks_show_text_as_html(models):
    model = models[0]
    for shown in (model.model_, model.plan_, model.certificate_):
        text = shown._repr_html_()
        assert text.startswith('<div class="replearn"><strong>')
        assert "<script" not in text
    odd = rl.Model(
        "svm", 3, True, model.model_.space, "<b>seed</b>", ("a", "b"), np.array(model.model_.codes)
    )
    assert "<b>" not in odd._repr_html_()


def test_fits_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="replearn"):
        model = fitted(5)
    assert model.fingerprint_ in caplog.text
