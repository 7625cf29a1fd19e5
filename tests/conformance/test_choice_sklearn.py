"""Choices keep scikit-learn's contract, as far as it applies to models that are never fitted."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import replearn as rl


class FromItsOwnRows(rl.ReplicableChoiceClassifier):
    """Makes candidates for whatever data a check of scikit-learn comes with."""

    def __init__(self, shared_seed=0):
        super().__init__(None, shared_seed=shared_seed)

    candidates = property(lambda self: self._made, lambda self, value: None)

    def fit(self, X, y):
        models = {
            "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
            "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
        }
        self._made = {name: model.fit(X, y) for name, model in models.items()}
        return super().fit(X, y)


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")
@parametrize_with_checks([FromItsOwnRows()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
