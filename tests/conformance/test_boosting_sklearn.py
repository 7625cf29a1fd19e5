"""Boosting keeps scikit-learn's contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from replearn import ReplicableBoostingClassifier

# scikit-learn's data sets are far too small to say anything about another lab
TINY = pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")


@TINY
@parametrize_with_checks(
    [
        ReplicableBoostingClassifier(),
        ReplicableBoostingClassifier(rounding="foam"),
        ReplicableBoostingClassifier(rounding="foam", output="majority", n_jobs=2),
        ReplicableBoostingClassifier(fresh_rows=True, fit_intercept=False, n_rounds=3),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
