"""scikit-learn shells: they check what users pass, and call the rooms below."""

from typing import Any

import numpy as np

from replearn.tables import Table


def set_columns(estimator: Any, table: Table) -> None:
    """Tell an estimator the columns of a file, as scikit-learn does for those of a dataframe."""
    estimator.n_features_in_ = len(table.names)
    vars(estimator).pop("feature_names_in_", None)
    if table.is_named:
        estimator.feature_names_in_ = np.array(table.names, dtype=object)
