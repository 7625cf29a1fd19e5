"""scikit-learn classifiers: thin shells around plans, recipes and models."""

from replearn.estimators.svm import ReplicableSVMClassifier

__all__ = ["ReplicableSVMClassifier"]
