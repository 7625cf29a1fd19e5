"""A choice among finished models as a scikit-learn classifier."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from replearn.codes.choices import Candidate, ChoiceModel
from replearn.codes.coins import Coins, seed_text
from replearn.documents import decimal_text
from replearn.errors import ReplearnError, ReplicabilityWarning, UselessModelWarning, short
from replearn.recipes.batches import MemoryRows
from replearn.recipes.choice import ChoicePlan, log_scores, run, sizes, stability
from replearn.recipes.estimates import Rivals
from replearn.recipes.recipe import Bound, Promise, Sizes
from replearn.study.progress import warn
from replearn.tables import learn_classes
from replearn.tables.cells import column_from, columns_from, numbers_of
from replearn.types import Matrix, Vector, unmasked

SCORINGS = ("accuracy", "neg_brier_score", "neg_log_loss")


@dataclass(eq=False, repr=False)
class ReplicableChoiceClassifier(ClassifierMixin, BaseEstimator):
    """One of several finished models, the same one at every lab.

    The scores of good models differ by less than their noise, so the best model of one sample is
    rarely the best of the next one. Here every lab adds the same shared noise to its scores and
    takes the largest: it gives up a little score, and labs agree with a stated probability.

    Parameters
    ----------
    candidates : list of models or of (name, model), dict from names to models, or None
        Fitted scikit-learn classifiers, models of replearn, or columns of ``X`` that hold
        predictions (a name, or a number): labels, or probabilities of the second class. Never
        fitted again, nor cloned. The same candidates in the same order at every lab. None: for
        each class the model that always says it.
    scoring : {"accuracy", "neg_brier_score", "neg_log_loss"}, default="accuracy"
        Scaled so that each row has a score between 0 and 1, and 1 is best. Probabilities count
        as 0.001 at least.
    max_error : float, default=0.01
        Score that the choice may give up on average over seeds. It sets the noise, which is
        therefore the same at every lab.
    max_disagreement : float, default=0.1
        Probability that two labs choose different models.
    shared_seed : int or str, default=0
        Published; the same at every lab.
    mode : {"practical", "certified"}, default="practical"
        Practical chooses on any number of rows, and warns. Certified refuses rows that are too few
        for Hoeffding's inequality.

    Attributes
    ----------
    model_ : ChoiceModel
        Which candidate, and what labs compare.
    chosen_ : object
        The chosen model.
    scores_ : array of shape (n_candidates,)
        On these rows; 1 is best.
    fingerprint_ : str
    certificate_ : Bound
        How likely a second lab is to choose differently: proved, and estimated from these rows.
    plan_ : ChoicePlan
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Candidates that saw these rows in training are flattered; take rows that none of them has seen.
    `replearn.recipes.choice` has the algorithm and the bound.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(9000, n_informative=5, random_state=0)
    >>> candidates = {
    ...     "logistic": LogisticRegression().fit(X[:1000], y[:1000]),
    ...     "deep tree": DecisionTreeClassifier(random_state=0).fit(X[:1000], y[:1000]),
    ... }
    >>> labs = [
    ...     ReplicableChoiceClassifier(candidates, shared_seed=2025).fit(X[rows], y[rows])
    ...     for rows in (slice(1000, 5000), slice(5000, 9000))
    ... ]
    >>> labs[0].fingerprint_ == labs[1].fingerprint_
    True
    """

    candidates: Any = None
    _: KW_ONLY
    scoring: str = "accuracy"
    max_error: float = 0.01
    max_disagreement: float = 0.1
    shared_seed: int | str = 0
    mode: str = "practical"

    def __sklearn_clone__(self) -> Self:
        # candidates are finished: scikit-learn's clone would forget what they have learned
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.candidates is None
        tags.no_validation = self.candidates is not None
        tags.input_tags.sparse = True
        return tags

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
        if self.scoring not in SCORINGS:
            raise ReplearnError(
                f"scoring must be one of {', '.join(SCORINGS)}, got {short(self.scoring)}."
            )
        X, y = self._checked(X, y)
        self.classes_ = np.unique(y)
        if self.classes_.size < 2:
            raise ReplearnError(
                f"y must hold two classes at least, got one class {short(self.classes_[0])}. A "
                "choice needs rows of both."
            )
        contenders = list(self._contenders())
        coins = Coins(seed_text(self.shared_seed))
        promise = Promise(0.5, self.max_error, self.max_disagreement)  # the margin means nothing
        plan = sizes(promise, len(contenders), self.mode, Sizes())  # type: ignore[arg-type]
        self.plan_: ChoicePlan = plan
        plan.require(y.size)
        table = np.column_stack([self._row_scores(one, X, y) for one in contenders])
        self.scores_ = table.mean(axis=0)
        no_signs, order = np.empty(0, dtype=np.int8), np.arange(y.size)
        fitted = run(MemoryRows(table, no_signs, order), plan, coins)
        chosen = int(fitted.codes[0])
        self.chosen_ = contenders[chosen].model
        self._contender = contenders[chosen]
        self.model_ = ChoiceModel(
            candidates=tuple(one.identity for one in contenders),
            chosen=chosen,
            scoring=self.scoring,  # type: ignore[arg-type]
            noise_scale=decimal_text(float(plan.noise_scale)),
            classes=learn_classes(column_from(self.classes_), "y")[0],  # 1.0 is the label 1
            seed=coins.seed,  # type: ignore[arg-type]
        )
        assert isinstance(fitted.spread, Rivals)
        self.certificate_: Bound = stability(plan, y.size, fitted.spread)
        self._warn(y)
        return self

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of the choice."""
        check_is_fitted(self, "model_")
        return self.model_.fingerprint

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels by the chosen model."""
        X = self._checked_again(X)
        if self.scoring == "accuracy" or not self._contender.is_column:
            return self._contender.labels(X)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of the classes, by the chosen model."""
        X = self._checked_again(X)
        return self._contender.probabilities(X, self.classes_)

    # --- parts of a fit ---------------------------------------------------------------------------

    def _checked(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Candidates check their own rows; constant ones leave it to us."""
        if y is None:
            raise ReplearnError("fit requires y to be passed, but the target y is None.")
        X, y = unmasked(X), unmasked(y)
        if self.candidates is None:
            X, y = validate_data(self, X, y, accept_sparse="csr")
        else:
            validate_data(self, X=X, skip_check_array=True)
            y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None)
            check_consistent_length(X, y)
        check_classification_targets(y)
        return X, np.asarray(y)

    def _checked_again(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        X = unmasked(X)
        if self.candidates is None:
            return validate_data(self, X, accept_sparse="csr", reset=False)
        validate_data(self, X=X, skip_check_array=True, reset=False)
        return X

    def _contenders(self) -> "Iterator[_Contender]":
        """The candidates with their names."""
        given = self.candidates
        if given is None:
            for label in self.classes_.tolist():
                yield _Contender(f"always {label}", _Always(label))
            return
        if not isinstance(given, Mapping | list | tuple):
            raise ReplearnError(
                f"candidates must be a list or a dict of finished models, got {short(given)}."
            )
        pairs = given.items() if isinstance(given, Mapping) else enumerate(given, start=1)
        names = set()
        for name, model in pairs:
            if isinstance(model, tuple) and len(model) == 2:
                name, model = model
            elif isinstance(name, int):
                is_column = isinstance(model, str | int | np.integer)
                name = f"column {model}" if is_column else f"{name} {type(model).__name__}"
            if name in names:
                raise ReplearnError(f"candidates must have different names, got {name!r} twice.")
            names.add(name)
            if not isinstance(model, str | int | np.integer) and not hasattr(model, "predict"):
                raise ReplearnError(
                    f"candidate {name!r} must be a finished model with predict, or a column of X, "
                    f"got {short(model)}."
                )
            yield _Contender(str(name), model)

    def _row_scores(self, contender: "_Contender", X: Any, y: NDArray[Any]) -> Vector:
        """Score of each row, between 0 and 1."""
        if self.scoring == "accuracy":
            return (contender.labels(X) == y).astype(np.float64)
        probabilities = contender.probabilities(X, self.classes_)
        truth = y[:, None] == self.classes_
        if self.scoring == "neg_brier_score":
            squares = (probabilities - truth) ** 2
            return np.asarray(1 - np.minimum(squares.sum(axis=1), 2.0) / 2)
        return log_scores((probabilities * truth).sum(axis=1))

    def _warn(self, y: NDArray[Any]) -> None:
        expected = self.certificate_.expected
        if expected is None or expected > 1.05 * self.max_disagreement:
            known = "an unknown probability" if expected is None else f"probability {expected:.2f}"
            warn(
                f"A second lab would choose differently with {known}, max_disagreement is "
                f"{self.max_disagreement:g}. Raise max_error, which widens the shared noise, or "
                "get more rows.",
                ReplicabilityWarning,
            )
        majority = float(np.unique(y, return_counts=True)[1].max()) / y.size
        score = float(self.scores_[self.model_.chosen])
        if self.candidates is not None and self.scoring == "accuracy" and score <= majority:
            warn(
                f"The chosen model {self.model_.name!r} is right on {score:.3f} of these rows; "
                f"always guessing the most frequent class on {majority:.3f}. Score by "
                '"neg_log_loss", or find better candidates.',
                UselessModelWarning,
            )


# --- candidates -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Always:
    """The model that always says one label."""

    label: Any

    def predict(self, X: Any) -> NDArray[Any]:
        return np.full(X.shape[0], self.label)

    def predict_proba(self, X: Any) -> Matrix:
        return np.ones((X.shape[0], 1))

    @property
    def classes_(self) -> NDArray[Any]:
        return np.array([self.label])


@dataclass(frozen=True)
class _Contender:
    """A candidate with its name: a model, or a column of X."""

    name: str
    model: Any

    @property
    def is_column(self) -> bool:
        return isinstance(self.model, str | int | np.integer)

    @property
    def identity(self) -> Candidate:
        return Candidate(self.name, getattr(self.model, "fingerprint", None))

    def labels(self, X: Any) -> NDArray[Any]:
        """What the candidate says about each row."""
        return self._column(X) if self.is_column else np.asarray(self.model.predict(X))

    def probabilities(self, X: Any, classes: NDArray[Any]) -> Matrix:
        """Probability of each class; classes that the candidate does not know get 0."""
        if self.is_column:
            read = {self.name: lambda: column_from(self._column(X))}
            second = numbers_of(columns_from("X", read)[self.name])[0]
            if classes.size != 2 or not ((second >= 0) & (second <= 1)).all():
                raise ReplearnError(
                    f"candidate {self.name!r} must hold probabilities of the second of two "
                    'classes. Score labels by "accuracy".'
                )
            return np.column_stack([1 - second, second])
        if not hasattr(self.model, "predict_proba"):
            raise ReplearnError(
                f"candidate {self.name!r} gives no probabilities. Score by "
                '"accuracy", or leave it out.'
            )
        found = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        own = list(np.asarray(getattr(self.model, "classes_", classes)).tolist())
        out = np.zeros((len(found), classes.size))
        for place, label in enumerate(classes.tolist()):
            if label in own:
                out[:, place] = found[:, own.index(label)]
        return out

    def _column(self, X: Any) -> NDArray[Any]:
        try:
            found = X[self.model] if hasattr(X, "columns") else np.asarray(X)[:, self.model]
        except (KeyError, IndexError):
            raise ReplearnError(
                f"X must have the column {self.model!r} that a candidate names, got none."
            ) from None
        return np.asarray(found)
