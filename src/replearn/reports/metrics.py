"""Agreement of models, as numbers and as scorers of scikit-learn."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from replearn.errors import ReplearnError

__all__ = ["churn", "same_model_rate", "same_model_scorer"]


def same_model_rate(models: Sequence[Any]) -> float:
    """Share of the pairs of models that are exactly the same.

    Parameters
    ----------
    models : sequence of models or fitted estimators of replearn
        At least two, such as those of several labs.

    Returns
    -------
    rate : float
        From 0 to 1; by fingerprints, so that nothing is compared by floats.
    """
    prints = [_fingerprint(model) for model in models]
    if len(prints) < 2:
        raise ReplearnError(f"a rate of agreement needs at least two models, got {len(prints)}.")
    pairs = list(combinations(prints, 2))
    return sum(first == second for first, second in pairs) / len(pairs)


def churn(first: Any, second: Any, X: Any) -> float:
    """Share of rows that get a different label from the second model.

    Parameters
    ----------
    first, second : anything with ``predict``
    X : rows, as both take them
    """
    one, other = (np.asarray(model.predict(X)).astype(object) for model in (first, second))
    if one.size == 0:
        raise ReplearnError("churn needs rows, got none.")
    return float((one != other).mean())


def same_model_scorer(reference: Any) -> Callable[..., float]:
    """A scorer: 1 if an estimator has exactly the model of the reference, else 0.

    Parameters
    ----------
    reference : model or fitted estimator of replearn

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)``, for ``scoring=`` of scikit-learn.
    """
    wanted = _fingerprint(reference)

    def score(estimator: Any, X: Any, y: Any = None) -> float:
        return float(_fingerprint(estimator) == wanted)

    return score


def _fingerprint(model: Any) -> str:
    for name in ("fingerprint", "fingerprint_"):
        found = getattr(model, name, None)
        if isinstance(found, str):
            return found
    raise ReplearnError(
        f"a model or fitted estimator of replearn is needed, got {type(model).__name__}. Use churn "
        "for others."
    )
