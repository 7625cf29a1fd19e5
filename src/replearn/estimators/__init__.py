"""scikit-learn classifiers: thin shells around plans, recipes and models."""

from replearn.estimators.boosting import ReplicableBoostingClassifier
from replearn.estimators.dp import ReplicableDPClassifier
from replearn.estimators.logistic import ReplicableLogisticClassifier
from replearn.estimators.net import ReplicableNetClassifier
from replearn.estimators.sgd import ReplicableSGDClassifier
from replearn.estimators.svm import ReplicableSVMClassifier

__all__ = [
    "ReplicableBoostingClassifier",
    "ReplicableDPClassifier",
    "ReplicableLogisticClassifier",
    "ReplicableNetClassifier",
    "ReplicableSGDClassifier",
    "ReplicableSVMClassifier",
]
