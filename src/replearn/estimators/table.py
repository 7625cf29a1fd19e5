"""The estimator of each line of Table 1, by the name of its recipe."""

from collections.abc import Callable
from functools import partial
from typing import Any

from replearn.estimators.batches import ReplicableSGDClassifier, ReplicableSVMClassifier
from replearn.estimators.boosting import ReplicableBoostingClassifier
from replearn.estimators.dp import ReplicableDPClassifier
from replearn.estimators.net import ReplicableNetClassifier

ESTIMATORS: dict[str, Callable[..., Any]] = {
    "foam": partial(ReplicableBoostingClassifier, rounding="foam"),
    "box": partial(ReplicableBoostingClassifier, rounding="box"),
    "svm": ReplicableSVMClassifier,
    "sgd": ReplicableSGDClassifier,
    "net": ReplicableNetClassifier,
    "dp": ReplicableDPClassifier,
}
