"""scikit-learn estimators: thin shells around plans, recipes and models."""

from replearn.estimators.boosting import ReplicableBoostingClassifier
from replearn.estimators.choice import ReplicableChoiceClassifier
from replearn.estimators.dp import ReplicableDPClassifier
from replearn.estimators.linear import ReplicableLinearRegressor
from replearn.estimators.logistic import ReplicableLogisticClassifier
from replearn.estimators.net import ReplicableNetClassifier
from replearn.estimators.search import ReplicableSearchCV
from replearn.estimators.sgd import ReplicableSGDClassifier
from replearn.estimators.svm import ReplicableSVMClassifier

__all__ = [
    "ReplicableBoostingClassifier",
    "ReplicableChoiceClassifier",
    "ReplicableDPClassifier",
    "ReplicableLinearRegressor",
    "ReplicableLogisticClassifier",
    "ReplicableNetClassifier",
    "ReplicableSearchCV",
    "ReplicableSGDClassifier",
    "ReplicableSVMClassifier",
]
