"""ReplicableSGDClassifier keeps scikit-learn's contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from replearn import ReplicableSGDClassifier

#: Fifty noisy rows with weights of 1,000 and .0001: what is left of them is rounded away.
HOPELESS = {"check_class_weight_classifiers": "the check fits fifty rows of noise"}


# scikit-learn's data sets are far too small to say anything about another lab
@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@parametrize_with_checks(
    [
        ReplicableSGDClassifier(),
        ReplicableSGDClassifier(fit_intercept=False, batch_size=5, rounding="ak", n_jobs=2),
    ],
    expected_failed_checks=lambda _: HOPELESS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
