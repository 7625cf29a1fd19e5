"""A choice among finished models that every site makes alike."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from replearn.codes.choice import Candidate, Choice
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError, ReplicabilityWarning, UselessModelWarning
from replearn.estimators.candidates import Contender, PredictionColumn, contenders, n_rows_of
from replearn.plans.plan_choice import noise_for, rows_of_sites, spreads_of
from replearn.plans.sizes import decimal
from replearn.sources.labels import Labels, label_values
from replearn.stages.choice_certificate import ChoiceCertificate, certify_models
from replearn.stages.model_scores import (
    NEEDS,
    ScoreSums,
    Scoring,
    check_classes_present,
    check_scoring,
    row_scores,
    sum_scores,
)
from replearn.stages.selection import noisy_scores
from replearn.types import IntegerArray, Matrix, Vector
from replearn.warn import warn


class Chooser(ClassifierMixin, BaseEstimator):
    """What a choice among models and a search among parameters share. Not for direct use."""

    max_disagreement: float
    noise_scale: float | str
    samples_per_site: int | Sequence[int] | None
    n_sites: int
    choice_: Choice
    noise_scale_: str
    certificate_: ChoiceCertificate
    classes_: NDArray[Any]

    def _choose(
        self,
        candidates: Iterable[Candidate],
        sums: ScoreSums,
        scoring: Scoring,
        classes: NDArray[Any],
        purpose: str,
        inflation: float = 1.0,
        features: Sequence[str] | None = None,
    ) -> None:
        """Add the shared noise to the scores, take the largest, and certify that.

        ``purpose`` names the coins; ``inflation`` is that of `certify_models`.
        """
        seed = seed_text(self.shared_seed, "shared_seed")
        own = sums.n_rows if self.samples_per_site is None else self.samples_per_site
        rows = rows_of_sites(own, self.n_sites)
        self.noise_scale_ = used_noise(
            self.noise_scale, sums, rows, self.max_disagreement, inflation
        )
        scale = float(self.noise_scale_)
        noisy = noisy_scores(sums.scores, scale, SharedRandomness(seed), purpose)
        self.classes_ = classes
        self.choice_ = Choice(
            candidates=tuple(candidates),
            index=int(np.argmax(noisy)),
            scoring=scoring.content(),
            classes=label_values(classes),
            seed=seed,
            features=None if features is None else tuple(features),
        )
        self.certificate_ = certify_models(
            sums,
            noisy,
            scale,
            rows,
            scoring.row_range,
            binary=scoring.binary,
            published=self.noise_scale != "auto",
            inflation=inflation,
        )


class ReplicableChoiceClassifier(Chooser):
    """One of several finished models, the same one at every site.

    The scores of good models differ by less than their noise, so the best model of one sample is
    rarely the best of another. Here every site adds the same shared noise to its scores and takes
    the largest: a little score is given up, and sites agree with a probability that is set.

    Parameters
    ----------
    candidates : list of models or of (name, model), or dict from names to models
        Fitted scikit-learn classifiers or pipelines, of two or more classes; replearn's models;
        paths of ONNX files; or columns of ``X`` with predictions (a name or number; a tuple of
        columns with the probabilities of all classes). Never fitted again, nor cloned. The same
        candidates in the same order at every site.
    scoring : str or array, default="accuracy"
        "accuracy", "balanced_accuracy", "neg_log_loss" (probabilities count as .001 at least),
        "neg_brier_score", "roc_auc" (two classes), or a table of costs, true class by predicted
        class.
    prevalence : sequence of float, optional
        With "balanced_accuracy": published share of each class, in their order. Without it the
        shares of the site's own rows are taken, and nothing is proved.
    max_disagreement : float, default=0.1
        Probability that not all sites choose the same model.
    shared_seed : int or str, default=0
        Published; the same at every site. Reads the stream "choice/exponential".
    noise_scale : float or "auto", default="auto"
        Scale of the shared noise, in units of the score. Published, if it was planned
        (`replearn.plan_choice`); "auto" takes it from the rows, so that sites have nearly the
        same one, and nothing is proved.
    samples_per_site : int or sequence of int, optional
        Rows of each site, published; a sequence has one number for each. Default: as many as here.
    n_sites : int, default=2
        Number of sites, if ``samples_per_site`` is not a sequence.
    classes : sequence of labels, optional
        Published classes. Default: those that the candidates know, or else those of ``y``.
    hashes : dict from names to SHA-256, optional
        Published hashes of candidates; a candidate with another one is refused by name. Those of
        ONNX files and of replearn's models are found without it.
    features : sequence of str, optional
        For ONNX files that take one matrix: columns of a table, in their order.

    Attributes
    ----------
    choice_ : Choice
        With ``index``, ``name`` and ``fingerprint``.
    chosen_ : object
        The chosen model.
    scores_ : array of shape (n_candidates,)
        On these rows; larger is better.
    fingerprint_ : str
        SHA-256 of the candidates' names and hashes, scoring, classes, seed and choice.
    noise_scale_ : str
        The noise scale that was used, a decimal.
    certificate_ : ChoiceCertificate
        How likely other sites are to choose the same.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `replearn.noisy_best` on exact means over the rows: neither their order nor the machine
    matters. Candidates that saw these rows in training are flattered; take rows that none of them
    has seen.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(9000, n_informative=5, random_state=0)
    >>> candidates = {
    ...     "logistic": LogisticRegression().fit(X[:1000], y[:1000]),
    ...     "deep tree": DecisionTreeClassifier(random_state=0).fit(X[:1000], y[:1000]),
    ...     "small tree": DecisionTreeClassifier(max_depth=4).fit(X[:1000], y[:1000]),
    ... }
    >>> sites = [
    ...     ReplicableChoiceClassifier(candidates, shared_seed=2024).fit(X[rows], y[rows])
    ...     for rows in (slice(1000, 5000), slice(5000, 9000))
    ... ]
    >>> sites[0].fingerprint_ == sites[1].fingerprint_
    True
    """

    scores_: Vector
    n_features_in_: int

    def __init__(
        self,
        candidates: Any,
        *,
        scoring: Any = "accuracy",
        prevalence: Sequence[float] | None = None,
        max_disagreement: float = 0.1,
        shared_seed: int | str = 0,
        noise_scale: float | str = "auto",
        samples_per_site: int | Sequence[int] | None = None,
        n_sites: int = 2,
        classes: Sequence[Any] | None = None,
        hashes: dict[str, str] | None = None,
        features: Sequence[str] | None = None,
    ) -> None:
        self.candidates = candidates
        self.scoring = scoring
        self.prevalence = prevalence
        self.max_disagreement = max_disagreement
        self.shared_seed = shared_seed
        self.noise_scale = noise_scale
        self.samples_per_site = samples_per_site
        self.n_sites = n_sites
        self.classes = classes
        self.hashes = hashes
        self.features = features

    def __sklearn_clone__(self) -> Self:
        # candidates are finished: scikit-learn's clone would forget what they have learned
        return type(self)(**self.get_params(deep=False))

    def fit(self, X: Any, y: Any) -> Self:
        """Score the candidates on these rows and choose one.

        Parameters
        ----------
        X : rows, as the candidates take them
        y : array of labels

        Returns
        -------
        self
        """
        seed_text(self.shared_seed, "shared_seed")
        check_share(self.max_disagreement, "max_disagreement")
        fields = contenders(self.candidates, self.hashes, self.features, self.classes)
        y = labels_of(y, n_rows_of(X))
        classes = self._classes(fields, y)
        truth = class_numbers(classes, y)
        scoring = read_scoring(self.scoring, self.prevalence, classes.size)
        if not isinstance(X, Mapping):
            validate_data(self, X=X, skip_check_array=True)
        sums = score_candidates(fields, scoring, X, truth, classes)
        published = [one.published for one in fields]
        self._choose(published, sums, scoring, classes, "choice", features=self.features)
        self.scores_ = sums.scores
        self._contender = fields[self.choice_.index]
        self._warn(scoring, truth)
        return self

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of the choice."""
        check_is_fitted(self, "choice_")
        return self.choice_.fingerprint

    @property
    def chosen_(self) -> Any:
        """The chosen model."""
        check_is_fitted(self, "choice_")
        return self._contender.model

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels by the chosen model."""
        self._check_rows(X)
        if self._holds_numbers:
            return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        numbers = self._contender.labels(X, self.classes_)
        if (numbers < 0).any():
            raise ReplearnError(
                f"the chosen model {self.choice_.name!r} gives a label that is none of the "
                f"classes, in row {int(np.argmax(numbers < 0))}. Publish all classes (classes=)."
            )
        return self.classes_[numbers]

    @available_if(lambda self: self._can("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of the classes, by the chosen model."""
        self._check_rows(X)
        return self._contender.probabilities(X, self.classes_)

    @available_if(lambda self: self._can("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """What the chosen model says."""
        self._check_rows(X)
        return self.chosen_.decision_function(X)

    def _check_rows(self, X: Any) -> None:
        check_is_fitted(self, "choice_")
        n_rows_of(X)
        if not isinstance(X, Mapping):
            validate_data(self, X=X, skip_check_array=True, reset=False)

    def _can(self, method: str) -> bool:
        check_is_fitted(self, "choice_")
        if isinstance(self.chosen_, PredictionColumn):
            return method == "predict_proba" and self._holds_numbers
        return self._contender.has(method)

    @property
    def _holds_numbers(self) -> bool:
        """The chosen model is a column, of probabilities rather than labels."""
        is_column = isinstance(self.chosen_, PredictionColumn)
        return is_column and NEEDS[self.choice_.scoring["name"]] != "labels"

    # --- parts of a fit ---------------------------------------------------------------------------

    def _classes(self, fields: list[Contender], y: NDArray[Any]) -> NDArray[Any]:
        """Published classes, or those that candidates know, or those of the rows."""
        if self.classes is not None:
            classes = np.asarray(self.classes)
        else:
            known = [one.classes for one in fields if one.classes is not None]
            classes = np.unique(np.concatenate(known)) if known else np.unique(y)
        if classes.ndim != 1 or classes.size < 2:
            raise ReplearnError(
                f"there must be two classes at least, got {classes.tolist()!r:.80}. A choice "
                "needs rows of both, or classes=."
            )
        return classes

    def _warn(self, scoring: Scoring, truth: IntegerArray) -> None:
        expected = self.certificate_.expected_disagreement
        n_rows = truth.size
        if expected is None:
            warn(
                f"The disagreement with other sites cannot be estimated from {n_rows} rows. Get "
                "more.",
                ReplicabilityWarning,
            )
        elif expected > 1.05 * self.max_disagreement:
            warn(
                f"Other sites would choose another model with an estimated probability of "
                f"{expected:.2f}, above max_disagreement={self.max_disagreement:g}. Publish a "
                "larger noise_scale (plan_choice), or get more rows.",
                ReplicabilityWarning,
            )
        if scoring.name == "accuracy":
            majority = float(np.bincount(truth).max()) / n_rows
            score = float(self.scores_[self.choice_.index])
            if score <= majority:
                warn(
                    f"The chosen model {self.choice_.name!r} is right on {score:.3f} of these "
                    f"rows; always guessing the most frequent class on {majority:.3f}. "
                    'Score by "balanced_accuracy", "roc_auc" or "neg_log_loss".',
                    UselessModelWarning,
                )


# --- shared with the search and the number ------------------------------------------------------


def score_candidates(
    fields: Sequence[Contender],
    scoring: Scoring,
    X: Any,
    truth: IntegerArray,
    classes: NDArray[Any],
) -> ScoreSums:
    """Exact sums of the candidates' scores on these rows."""
    check_classes_present(scoring, truth, classes.size)
    need = NEEDS[scoring.name]
    return sum_scores(
        [row_scores(scoring, truth, getattr(one, need)(X, classes)) for one in fields]
    )


def read_scoring(scoring: Any, prevalence: Sequence[float] | None, n_classes: int) -> Scoring:
    """The scoring that a user passes: a name, a table of costs, or a `Scoring`."""
    if isinstance(scoring, Scoring):
        found = scoring
    elif isinstance(scoring, str):
        shares = None if prevalence is None else tuple(_decimals(prevalence, "prevalence"))
        found = Scoring(scoring, prevalence=shares)
    else:
        try:
            table = np.asarray(scoring, dtype=np.float64)
        except (TypeError, ValueError):
            table = np.empty(0)
        if table.ndim != 2:
            raise ReplearnError(
                f"scoring must be one of {', '.join(NEEDS)}, or a table of costs, true class by "
                f"predicted class, got {scoring!r:.80}."
            )
        found = Scoring("neg_cost", costs=tuple(tuple(_decimals(row, "costs")) for row in table))
    check_scoring(found, n_classes)
    return found


def _decimals(values: Any, name: str) -> list[str]:
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        raise ReplearnError(f"{name} must be numbers, got {values!r:.80}.") from None
    return [repr(int(number)) if number.is_integer() else repr(number) for number in numbers]


def used_noise(
    noise_scale: Any,
    sums: ScoreSums,
    rows_per_site: Sequence[int],
    max_disagreement: float,
    inflation: float = 1.0,
) -> str:
    """The noise scale that was given, or the one that the rows ask for; a decimal."""
    if isinstance(noise_scale, str) and noise_scale == "auto":
        spreads = spreads_of(sums.covariance * inflation, sums.n_rows)
        return decimal(noise_for(sums.scores, spreads, rows_per_site, max_disagreement))
    number = isinstance(noise_scale, int | float | np.number) and not isinstance(noise_scale, bool)
    if not number or not 0 < noise_scale < math.inf:
        raise ReplearnError(
            f'noise_scale must be "auto" or a positive number, got {noise_scale!r:.80}.'
        )
    return repr(float(noise_scale))


def class_numbers(classes: NDArray[Any], y: NDArray[Any]) -> IntegerArray:
    """Places of the labels among the classes; others are refused."""
    labels = Labels(
        known=classes, whose="the candidates", remedy="Recode them, or publish classes=."
    )
    return labels.numbers(y).astype(np.int64)


def check_share(value: Any, name: str) -> None:
    """Refuse what is no probability."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ReplearnError(f"{name} must be a number in (0, 1), got {value!r:.80}.")
    if not 0 < value < 1:
        raise ReplearnError(
            f"{name} must be a number in (0, 1), got {value!r}. It is a probability; for 5 % pass "
            "0.05."
        )


def labels_of(y: Any, n_rows: int) -> NDArray[Any]:
    """Labels as a vector, one for each row."""
    if y is None:
        raise ReplearnError("fit requires y to be passed, but the target y is None.")
    labels = column_or_1d(y, warn=True)
    if labels.size != n_rows or n_rows == 0:
        raise ReplearnError(
            f"y must have one label for each row of X, at least one, got {labels.size:,} for "
            f"{n_rows:,} rows."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        kind = "NaN" if np.isnan(labels).any() else "infinity"
        raise ReplearnError(f"Input y contains {kind}: every row needs a label.")
    try:
        check_classification_targets(labels)
    except ValueError:
        raise ReplearnError(
            f"Unknown label type: y must hold classes, got {labels[0]!s}. Name another column."
        ) from None
    return labels
