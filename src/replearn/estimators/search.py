"""A grid search in which every site finds the same parameters."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, indexable

from replearn.codes.choice import MAX_CANDIDATES, Candidate
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.estimators.candidates import Contender
from replearn.estimators.choice import (
    Chooser,
    check_share,
    class_numbers,
    labels_of,
    read_scoring,
)
from replearn.stages.model_scores import NEEDS, check_classes_present, row_scores, sum_scores
from replearn.types import Vector
from replearn.warn import warn


class ReplicableSearchCV(MetaEstimatorMixin, Chooser):
    """Cross-validated grid search: the same parameters at every site.

    Every site scores every setting by cross-validation on its own rows, adds the same shared
    noise, and takes the largest; then it fits that setting on all its rows.

    Parameters
    ----------
    estimator : scikit-learn classifier
        It is cloned and fitted with every setting.
    param_grid : dict or list of dicts
        Settings, as for scikit-learn's `GridSearchCV`. The same at every site.
    scoring : str or array, default="accuracy"
        As for `ReplicableChoiceClassifier`. "roc_auc" ranks the rows of all folds together, so
        give it estimators whose scores are comparable, such as probabilities.
    prevalence : sequence of float, optional
        With "balanced_accuracy": published share of each class.
    cv : int or splitter, default=5
        An int: the number of stratified folds, dealt by the shared seed. Each row is tested once.
    max_disagreement : float, default=0.1
        Probability that not all sites choose the same parameters.
    shared_seed : int or str, default=0
        Published. Reads the streams "search/exponential" and "search/folds".
    noise_scale : float or "auto", default="auto"
        Scale of the shared noise; "auto": from the rows.
    samples_per_site : int or sequence of int, optional
        Rows of each site, published. Default: as many as here.
    n_sites : int, default=2
        All of them choose the same, except with probability ``max_disagreement``.
    refit : bool, default=True
        Fit the chosen setting on all rows.
    n_jobs : int, optional
        For joblib. Results do not depend on it.

    Attributes
    ----------
    best_params_, best_index_, best_score_, best_estimator_, cv_results_
        As in scikit-learn; "best" means chosen.
    choice_ : Choice
        The chosen setting; ``choice_.fingerprint`` is equal where the parameters are.
    fingerprint_ : str
        Of parameters and fitted model together, if the model has a fingerprint; else there is
        none, because the fitted models differ.
    noise_scale_, certificate_, classes_, n_features_in_
        As for `ReplicableChoiceClassifier`.

    Notes
    -----
    What is promised is the choice of the parameters, and by estimate only: the scores of
    cross-validation depend on each other through the rows that are trained on, so their variance
    is taken as ``1 + k / (k - 1)`` times that of independent rows [NB03], and nothing is proved.
    The model that is then fitted on a site's own rows is another one at every site, unless the
    estimator is replicable itself; its disagreement adds to that of the choice. With few rows, or
    settings that need many, sites' scores may differ by more than this variance says: audit it.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(4000, n_informative=5, random_state=0)
    >>> search = ReplicableSearchCV(
    ...     DecisionTreeClassifier(random_state=0), {"max_depth": [2, 4, 8]}, shared_seed=2024
    ... )
    >>> sites = [
    ...     search.fit(X[rows], y[rows]).best_params_ for rows in (slice(2000), slice(2000, 4000))
    ... ]
    >>> sites[0] == sites[1]
    True
    """

    cv_results_: dict[str, Any]
    best_index_: int

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = "accuracy",
        prevalence: Sequence[float] | None = None,
        cv: Any = 5,
        max_disagreement: float = 0.1,
        shared_seed: int | str = 0,
        noise_scale: float | str = "auto",
        samples_per_site: int | Sequence[int] | None = None,
        n_sites: int = 2,
        refit: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.prevalence = prevalence
        self.cv = cv
        self.max_disagreement = max_disagreement
        self.shared_seed = shared_seed
        self.noise_scale = noise_scale
        self.samples_per_site = samples_per_site
        self.n_sites = n_sites
        self.refit = refit
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> Self:
        """Score the settings by cross-validation, choose one, and fit it on all rows.

        Parameters
        ----------
        X : rows, as the estimator takes them
        y : array of labels

        Returns
        -------
        self
        """
        shared = SharedRandomness(seed_text(self.shared_seed, "shared_seed"))
        check_share(self.max_disagreement, "max_disagreement")
        settings = _settings(self.param_grid)
        X, y = indexable(X, y)
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        y = labels_of(y, X.shape[0])
        classes = np.unique(y)
        if classes.size < 2:
            raise ReplearnError(f"y must hold two classes at least, got one class: {classes[0]!r}.")
        truth = class_numbers(classes, y)
        scoring = read_scoring(self.scoring, self.prevalence, classes.size)
        check_classes_present(scoring, truth, classes.size)
        folds = self._folds(X, y, shared)
        need = NEEDS[scoring.name]
        numbers = []
        tasks = [(setting, fold) for setting in settings for fold in folds]
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(_out_of_fold)(self.estimator, setting, X, y, fold, need, classes)
            for setting, fold in tasks
        )
        for start in range(0, len(tasks), len(folds)):
            parts = found[start : start + len(folds)]
            predicted = np.empty((len(y), *parts[0].shape[1:]), dtype=parts[0].dtype)
            for (_, test), part in zip(folds, parts, strict=True):
                predicted[test] = part
            numbers.append(row_scores(scoring, truth, predicted))
        sums = sum_scores(numbers)
        candidates = [Candidate(_words(setting)) for setting in settings]
        inflation = 1 + len(folds) / (len(folds) - 1)
        self._choose(candidates, sums, scoring, classes, "search", inflation)
        self.best_index_ = self.choice_.index
        self.cv_results_ = _results(settings, sums.scores)
        expected = self.certificate_.expected_disagreement
        if expected is None or expected > 1.05 * self.max_disagreement:
            what = "cannot be estimated" if expected is None else f"is about {expected:.2f}"
            warn(
                f"The probability that other sites choose other parameters {what}; "
                f"max_disagreement is {self.max_disagreement:g}. Get more rows, or publish a "
                "larger noise_scale.",
                ReplicabilityWarning,
            )
        if self.refit:
            chosen = clone(self.estimator).set_params(**_cloned(settings[self.best_index_]))
            self.best_estimator_ = chosen.fit(X, y)
        return self

    @property
    def best_params_(self) -> dict[str, Any]:
        """The chosen setting."""
        check_is_fitted(self, "choice_")
        return dict(self.cv_results_["params"][self.best_index_])

    @property
    def best_score_(self) -> float:
        """Its cross-validated score on these rows."""
        check_is_fitted(self, "choice_")
        return float(self.cv_results_["mean_test_score"][self.best_index_])

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of the chosen setting, and of the fitted model."""
        check_is_fitted(self, "choice_")
        if not self.refit:
            return self.choice_.fingerprint
        model = getattr(self.best_estimator_, "fingerprint_", None)
        if model is None:
            raise AttributeError(
                f"{type(self.best_estimator_).__name__} has no fingerprint: what is fitted on a "
                "site's own rows differs from site to site. Compare choice_.fingerprint, or search "
                "over a replicable classifier."
            )
        return hashlib.sha256(f"{self.choice_.fingerprint} {model}".encode()).hexdigest()

    @property
    def n_features_in_(self) -> int:
        """Number of features, as the fitted model has seen it."""
        check_is_fitted(self, "best_estimator_")
        return int(self.best_estimator_.n_features_in_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels by the fitted model."""
        return np.asarray(self._fitted("predict").predict(X))

    @available_if(lambda self: self._has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities by the fitted model."""
        return self._fitted("predict_proba").predict_proba(X)

    @available_if(lambda self: self._has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Scores by the fitted model."""
        return self._fitted("decision_function").decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        return tags

    def _fitted(self, method: str) -> Any:
        check_is_fitted(self, "choice_")
        if not self.refit:
            raise AttributeError(f"{method} needs refit=True.")
        return self.best_estimator_

    def _has(self, method: str) -> bool:
        fitted = getattr(self, "best_estimator_", self.estimator)
        return hasattr(fitted, method)

    def _folds(
        self, X: Any, y: NDArray[Any], shared: SharedRandomness
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        if isinstance(self.cv, int | np.integer) and not isinstance(self.cv, bool):
            state = int(shared.words("search/folds", 1)[0] >> np.uint64(33))
            splitter = StratifiedKFold(int(self.cv), shuffle=True, random_state=state)
        else:
            splitter = check_cv(self.cv, y, classifier=True)
        folds = list(splitter.split(X, y))
        tested = np.concatenate([test for _, test in folds])
        if tested.size != y.size or np.unique(tested).size != y.size or len(folds) < 2:
            raise ReplearnError(
                f"cv must test each of {y.size:,} rows once, in two folds at least, got "
                f"{tested.size:,} tests in {len(folds)}. Use KFold or StratifiedKFold."
            )
        return folds


def _out_of_fold(
    estimator: Any,
    setting: Mapping[str, Any],
    X: Any,
    y: NDArray[Any],
    fold: tuple[Any, Any],
    need: str,
    classes: NDArray[Any],
) -> NDArray[Any]:
    """What a setting predicts for the rows of one fold."""
    train, test = fold
    fitted = clone(estimator).set_params(**_cloned(setting))
    fitted.fit(_safe_indexing(X, train), y[train])
    one = Contender(fitted, Candidate(_words(setting)), finished=False)
    return np.asarray(getattr(one, need)(_safe_indexing(X, test), classes))


def _settings(param_grid: Any) -> list[dict[str, Any]]:
    try:
        settings = list(ParameterGrid(param_grid))
    except (TypeError, ValueError) as problem:
        raise ReplearnError(
            f"param_grid must be a dict from parameters to lists, or a list of such: {problem}"
        ) from None
    if not 1 <= len(settings) <= MAX_CANDIDATES:
        raise ReplearnError(
            f"param_grid must have 1 to {MAX_CANDIDATES:,} settings, got {len(settings):,}."
        )
    return settings


def _words(setting: Mapping[str, Any]) -> str:
    """A setting under which sites know it; numbers of NumPy are plain ones."""
    parts = []
    for name, value in sorted(setting.items()):
        plain = value.item() if isinstance(value, np.generic) else value
        parts.append(f"{name}={plain!r}")
    return " ".join(", ".join(parts).split()) or "defaults"


def _cloned(setting: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clone(value, safe=False) for name, value in setting.items()}


def _results(settings: list[dict[str, Any]], scores: Vector) -> dict[str, Any]:
    """What scikit-learn calls cv_results_, as far as it goes."""
    names = sorted({name for setting in settings for name in setting})
    columns: dict[str, Any] = {
        f"param_{name}": np.ma.MaskedArray(
            np.fromiter((setting.get(name) for setting in settings), object, len(settings)),
            mask=[name not in setting for setting in settings],
        )
        for name in names
    }
    order = np.argsort(-scores, kind="stable")
    ranks = np.empty(scores.size, dtype=np.int64)
    ranks[order] = np.arange(1, scores.size + 1)
    return columns | {"params": settings, "mean_test_score": scores, "rank_test_score": ranks}
