"""scikit-learn shells: they check what users pass, and call the rooms below."""

from collections.abc import Callable
from functools import partial
from typing import Any

from replearn.estimators.batches import ReplicableSGDClassifier, ReplicableSVMClassifier
from replearn.estimators.boosting import ReplicableBoostingClassifier
from replearn.estimators.dp import ReplicableDPClassifier
from replearn.estimators.glm import (
    ReplicableLinearRegressor,
    ReplicableLogisticClassifier,
    ReplicablePoissonRegressor,
)
from replearn.estimators.halfspaces import table_of
from replearn.estimators.net import ReplicableNetClassifier
from replearn.estimators.survival import ReplicableSurvivalAnalysis

#: The estimator of each line of Table 1, by the name of its recipe.
ESTIMATORS: dict[str, Callable[..., Any]] = {
    "foam": partial(ReplicableBoostingClassifier, rounding="foam"),
    "box": partial(ReplicableBoostingClassifier, rounding="box"),
    "svm": ReplicableSVMClassifier,
    "sgd": ReplicableSGDClassifier,
    "net": ReplicableNetClassifier,
    "dp": ReplicableDPClassifier,
}
