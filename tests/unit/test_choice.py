"""A choice among finished models, as an estimator: exact answers and refusals."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from replearn.codes.choices import ChoiceModel
from replearn.errors import (
    NotEnoughSamples,
    ReplearnError,
    ReplicabilityWarning,
    UselessModelWarning,
)
from replearn.estimators.choice import ReplicableChoiceClassifier

LABELS = np.array(["no", "yes"])


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, LABELS[(X[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)]


@pytest.fixture(scope="module")
def finished():
    X, y = rows(500, 0)
    return {
        "logistic": LogisticRegression().fit(X, y),
        "tree": DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y),
        "dummy": DummyClassifier().fit(X, y),
    }


@pytest.mark.parametrize("scoring", ["accuracy", "neg_brier_score", "neg_log_loss"])
def test_the_best_model_wins_when_it_is_far_ahead(finished, scoring):
    X, y = rows(40_000, 1)
    choice = ReplicableChoiceClassifier(finished, scoring=scoring, max_error=0.004)
    assert choice.fit(X, y).model_.name == "logistic"
    assert choice.chosen_ is finished["logistic"]
    assert choice.scores_.argmax() == 0
    assert ((choice.scores_ >= 0) & (choice.scores_ <= 1)).all()
    np.testing.assert_array_equal(choice.predict(X), finished["logistic"].predict(X))
    np.testing.assert_allclose(choice.predict_proba(X), finished["logistic"].predict_proba(X))


def test_scores_are_those_of_scikit_learn(finished):
    X, y = rows(1000, 2)
    probabilities = finished["tree"].predict_proba(X)
    own = probabilities[np.arange(1000), (y == "yes").astype(int)]
    expected = {
        "accuracy": finished["tree"].score(X, y),
        "neg_brier_score": 1 - ((1 - own) ** 2).mean(),
        "neg_log_loss": 1 + np.log(np.maximum(own, 0.001)).mean() / np.log(1000),
    }
    for scoring, score in expected.items():
        choice = ReplicableChoiceClassifier(finished, scoring=scoring, max_error=0.3).fit(X, y)
        assert choice.scores_[1] == pytest.approx(score, abs=1e-9)


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
def test_columns_of_predictions(finished):
    X, y = rows(2000, 3)
    table = pd.DataFrame({"a": finished["tree"].predict(X), "b": y})
    choice = ReplicableChoiceClassifier(["a", "b"], max_error=0.01).fit(table, y)
    assert choice.model_.name == "column b"
    assert (choice.predict(table) == y).all()
    numbers = np.column_stack([finished["tree"].predict_proba(X)[:, 1], (y == "yes") * 0.9 + 0.05])
    choice = ReplicableChoiceClassifier([0, 1], scoring="neg_log_loss").fit(numbers, y)
    assert choice.model_.name == "column 1"
    assert (choice.predict(numbers) == y).all()


def test_a_choice_survives_its_file_and_a_clone(finished, tmp_path):
    X, y = rows(2000, 4)
    choice = ReplicableChoiceClassifier(finished, max_error=0.2).fit(X, y)
    choice.model_.save(tmp_path / "choice.json")
    assert ChoiceModel.load(tmp_path / "choice.json") == choice.model_
    assert clone(choice).fit(X, y).fingerprint_ == choice.fingerprint_
    other = ReplicableChoiceClassifier(finished, max_error=0.2, shared_seed=9).fit(X, y)
    assert other.fingerprint_ != choice.fingerprint_
    assert "The choice is" in str(choice.model_)


def test_what_it_warns_of(finished):
    X, y = rows(60, 5)
    with pytest.warns(ReplicabilityWarning, match="second lab would choose differently"):
        ReplicableChoiceClassifier(
            [("one", finished["logistic"]), ("two", finished["tree"])],
            max_error=0.001,
            max_disagreement=0.01,
        ).fit(X, y)
    X, y = rows(4000, 6)
    bad = {"a": DummyClassifier(strategy="constant", constant="no").fit(X, y)}
    bad["b"] = DummyClassifier(strategy="constant", constant="yes").fit(X, y)
    with pytest.warns(UselessModelWarning, match="most frequent class"):
        ReplicableChoiceClassifier(bad, max_error=0.2).fit(X, y)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scoring": "roc_auc"}, "scoring must be one of accuracy"),
        ({"candidates": 5}, "candidates must be a list or a dict"),
        ({"candidates": {"a": object(), "b": 1}}, "must be a finished model with predict"),
        ({"candidates": [0]}, "a choice needs 2 to 1,000 candidates, got 1"),
        ({"candidates": [0, 9]}, "X must have the column 9"),
        ({"candidates": [("a", 0), ("a", 1)]}, "must have different names, got 'a' twice"),
        ({"candidates": [0, 1], "scoring": "neg_log_loss"}, "must hold probabilities"),
        ({"max_disagreement": 5}, "max_disagreement must be a number in"),
        ({"mode": "paper"}, "no paper prints it"),
        ({"mode": "best"}, "mode must be one of"),
    ],
)
def test_refusals(change, words):
    X, y = rows(100, 7)
    with pytest.raises(ReplearnError, match=words):
        ReplicableChoiceClassifier(**{"candidates": [0, 1]} | change).fit(X * 5, y)


def test_certified_mode_says_how_many_rows(finished):
    X, y = rows(100, 8)
    with pytest.raises(NotEnoughSamples, match="certified mode needs") as caught:
        ReplicableChoiceClassifier(finished, mode="certified", max_error=0.1).fit(X, y)
    assert caught.value.available == 100
    X, y = rows(caught.value.needed, 9)
    choice = ReplicableChoiceClassifier(finished, mode="certified", max_error=0.1).fit(X, y)
    assert choice.certificate_.proved <= 0.1


def test_labels_that_are_whole_floats_can_be_saved(tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.5).astype(float)
    X = np.column_stack([np.clip(y * 0.6 + 0.2, 0, 1), np.full(400, 0.5)])
    fitted = ReplicableChoiceClassifier({"a": 0, "b": 1}, scoring="neg_log_loss").fit(X, y)
    fitted.model_.save(tmp_path / "choice.json")
    assert fitted.model_.classes == (0, 1)
