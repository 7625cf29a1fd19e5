"""Agreement of models, as numbers and as scorers of scikit-learn.

>>> import replearn as rl
>>> from replearn.metrics import churn, same_model_rate
>>> labs = [rl.datasets.make_margin(90_000, 3, margin=0.3, random_state=lab) for lab in (1, 2)]
>>> fits = [rl.ReplicableSVMClassifier(margin=0.3, shared_seed=7).fit(X, y) for X, y in labs]
>>> same_model_rate(fits), churn(*fits, labs[0][0])
(1.0, 0.0)
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from replearn.errors import ReplearnError

__all__ = ["agreement_scorer", "churn", "same_model_rate", "same_model_scorer"]


def same_model_rate(models: Sequence[Any]) -> float:
    """Share of the pairs of models that are exactly the same.

    Parameters
    ----------
    models : sequence of models or fitted classifiers of replearn
        At least two, such as those of several labs.

    Returns
    -------
    float
        From 0 to 1; by fingerprints, so that nothing is compared by floats.
    """
    prints = [_fingerprint(model) for model in models]
    if len(prints) < 2:
        raise ReplearnError(f"a rate of agreement needs at least two models, got {len(prints)}.")
    pairs = list(combinations(prints, 2))
    return sum(first == second for first, second in pairs) / len(pairs)


def churn(first: Any, second: Any, X: Any) -> float:
    """Share of rows that get another class from the second model than from the first.

    Parameters
    ----------
    first, second : anything with ``predict``
    X : array, dataframe or CSR matrix

    Returns
    -------
    float
        From 0 to 1.
    """
    one, other = (np.asarray(model.predict(X)).astype(object) for model in (first, second))
    if one.size == 0:
        raise ReplearnError("churn needs rows, got none.")
    return float((one != other).mean())


def same_model_scorer(reference: Any) -> Callable[..., float]:
    """A scorer: 1 if an estimator has exactly the model of the reference, else 0.

    Parameters
    ----------
    reference : Model or fitted classifier of replearn

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``, for ``scoring=`` of scikit-learn.
    """
    wanted = _fingerprint(reference)

    def score(estimator: Any, X: Any, y: Any = None) -> float:
        return float(_fingerprint(estimator) == wanted)

    return score


def agreement_scorer(reference: Any) -> Callable[..., float]:
    """A scorer: the share of rows that get the class that the reference gives them.

    Parameters
    ----------
    reference : anything with ``predict``

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``, for ``scoring=`` of scikit-learn; one minus `churn`.
    """

    def score(estimator: Any, X: Any, y: Any = None) -> float:
        return 1.0 - churn(reference, estimator, X)

    return score


def _fingerprint(model: Any) -> str:
    for name in ("fingerprint", "fingerprint_"):
        found = getattr(model, name, None)
        if isinstance(found, str):
            return found
    raise ReplearnError(
        f"a model or fitted classifier of replearn is needed, got {type(model).__name__}. Use "
        "churn for others."
    )
