"""What all shells share: how they take rows, targets and studies."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from replearn.errors import ReplearnError, short
from replearn.study import given_study
from replearn.tables import Table, checked_names

#: How scikit-learn checks rows of numbers.
ROW_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}

#: The estimator of each kind of study: those of GLMs by their loss, those of halfspaces by recipe.
_ESTIMATORS = {
    "logistic": "ReplicableLogisticClassifier",
    "linear": "ReplicableLinearRegressor",
    "poisson": "ReplicablePoissonRegressor",
    "survival": "ReplicableSurvivalAnalysis",
    "svm": "ReplicableSVMClassifier",
    "sgd": "ReplicableSGDClassifier",
}


def set_columns(estimator: Any, table: Table) -> None:
    """Tell an estimator the columns of a file, as scikit-learn does for those of a dataframe."""
    estimator.n_features_in_ = len(table.names)
    vars(estimator).pop("feature_names_in_", None)
    if table.is_named:
        estimator.feature_names_in_ = np.array(table.names, dtype=object)


def name_of(values: Any, default: str) -> str:
    """The name of a series; of other values the default."""
    (name,) = checked_names("a series", [str(getattr(values, "name", None) or default)])
    return name


def name_of_target(y: Any, columns: Iterable[str]) -> str:
    """What a study calls its target, beside the columns of its table.

    A series keeps the name of the column that it was computed from, as ``df.delay >= 15`` does:
    then it is no name of its values, which are true or false; nor is one that the table still has.
    """
    name = name_of(y, "y")
    is_computed = "bool" in str(getattr(y, "dtype", "")).lower()
    return "y" if is_computed or name in columns else name


class HasModel:
    """What all estimators say of their model."""

    model_: Any

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of the model's canonical bytes, in hex: equal if and only if the models are."""
        fingerprint: str = self._model().fingerprint
        return fingerprint

    def _model(self) -> Any:
        if "model_" not in vars(self):
            raise NotFittedError(f"{type(self).__name__} has no model yet. Call fit first.")
        return self.model_


def study_of(given: Any, kind: str) -> Any:
    """The study that an estimator of this kind replicates: from a path, or a fitted estimator.

    None: it makes an original.
    """
    if given is None:
        return None
    study = given_study(given)

    # each estimator replicates studies of its own recipe
    recipe = study.design.recipe
    if recipe != kind:
        raise ReplearnError(
            f"study must be one of {_ESTIMATORS[kind]}, got one of {_ESTIMATORS[recipe]}. Use "
            "that estimator."
        )
    return study


def refuse_odd(X: Any) -> None:
    """Refuse what is no table at all; scikit-learn checks arrays."""
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        raise ReplearnError(
            "a table must be columns of numbers or text, got a list of mappings. Make a dataframe "
            "of it, or a mapping of columns."
        )
    if isinstance(X, str):
        raise ReplearnError(f"X must be a table, got the text {X!r}. Pass a file to fit_file.")
    if not any(hasattr(X, name) for name in ("__array__", "__len__", "shape")):
        raise ReplearnError(
            f"X must be a table: a dataframe, an array or a mapping of columns, got {short(X)}."
        )
