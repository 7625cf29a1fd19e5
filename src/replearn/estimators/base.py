"""What all replicable classifiers share: checks, one fit, prediction."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from replearn.codes.basis import Basis
from replearn.codes.cells import CELLS
from replearn.codes.encoding import Encoding
from replearn.codes.model import Label, Model
from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.estimators.checks import (
    refuse_large,
    refuse_odd_parameters,
    refuse_unwritable,
)
from replearn.estimators.frames import collected, refuse_other_than_numbers
from replearn.files.jsonfile import MAX_WIDTH, MIN_WIDTH, seed_text, shown
from replearn.files.modelfile import MAX_CODE
from replearn.plans.sizes import Guarantee, Plan, Sizes, Spent, require_samples
from replearn.progress import tracked
from replearn.stages import recipes
from replearn.stages.batches import LabelRuns, Rows, Sample
from replearn.stages.certificate import Certificate, certify
from replearn.stages.net_search import PointSource
from replearn.types import BlockMap, Codes, Order, Signs, Vector


class ReplicableClassifier(ClassifierMixin, BaseEstimator):
    """What all replicable classifiers share. Not for direct use."""

    # Names and defaults of the constructor are those of the subclasses.
    margin: float | str
    max_error: float
    max_disagreement: float
    failure_prob: float
    shared_seed: int | str
    mode: str
    fit_intercept: bool
    shuffle: bool
    random_state: int | None
    n_jobs: int | None
    verbose: int
    n_batches: int | str
    batch_size: int | str
    n_components: int | str
    grid_width: float | str
    projection: str
    rounding: str
    regularization: float | str
    unit_mean: bool
    basis: Basis | None
    encoding: Encoding | None
    classes: tuple[Label, Label] | None

    # set by fit
    classes_: NDArray[Any]
    n_features_in_: int
    plan_: Plan
    model_: Model
    certificate_: Certificate
    residual_: Vector | None  # place of the mean in its cell, in grid widths; audits read it

    #: Whether a sum over batches is all that it asks of the rows, so that they may be anywhere.
    streams: ClassVar[bool] = False

    #: Whether counts of errors are all that it asks of the rows, so that a cluster can hold them.
    counts: ClassVar[bool] = False

    #: The algorithm, a function of ``recipes``.
    _recipe: ClassVar[Callable[..., recipes.Fitted | recipes.Chosen | recipes.Boosted]]

    def _plan(self, n_inputs: int) -> Plan:
        """Sizes of this estimator's algorithm."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Self:
        """Learn a halfspace that another lab would learn too.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Any two labels.

        Returns
        -------
        self
        """
        self._check_parameters()
        return self._fit_rows(*self._check_training_data(X, y))

    def fit_sample(
        self,
        sample: Sample | PointSource,
        n_features: int,
        classes: NDArray[Any],
        names: tuple[str, ...] | None = None,
    ) -> Self:
        """Learn from rows that are not one array in memory; `fit_file` and clusters do.

        Parameters
        ----------
        sample : Sample
            Checked rows, encoded and in canonical order.
        n_features : int
        classes : array of two labels
            The second is +1 in the sample.
        names : tuple of str, optional
            Of the features.

        Returns
        -------
        self
        """
        if not self.streams and not (self.counts and isinstance(sample, PointSource)):
            raise ReplearnError(
                f"{type(self).__name__} needs its rows in memory. Use fit, or "
                "ReplicableSVMClassifier or ReplicableSGDClassifier, which need not."
            )
        self._check_parameters()
        self._describe_rows(n_features, classes, names)
        shared = self._shared()
        with silent_overflow():
            learned = self._learn_from(sample, n_features, shared, self._threads())
        return self._finish(*learned, shared)

    def _fit_rows(self, X: Any, signs: Signs) -> Self:
        """Learn from checked rows in memory."""
        shared = self._shared()
        with silent_overflow():
            learned = self._learn(X, signs, shared)
        return self._finish(*learned, shared)

    def _finish(self, plan: Plan, fitted: Any, shared: SharedRandomness) -> Self:
        self._publish(plan, fitted, shared)
        self._warn()
        return self

    def _describe_rows(
        self, n_features: int, classes: NDArray[Any], names: tuple[str, ...] | None
    ) -> None:
        """Set what the checks of ``fit`` set."""
        self._check_classes(classes, names)
        self.classes_, self.n_features_in_ = classes, n_features
        self.__dict__.pop("feature_names_in_", None)
        if names is not None and self.encoding is None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _publish(self, plan: Plan, fitted: Any, shared: SharedRandomness) -> None:
        """Set what a fit leaves behind."""
        self.plan_ = plan.with_spent(fitted.spent)
        self.model_ = Model(
            recipe=plan.algorithm,
            n_features=self.n_features_in_,
            fit_intercept=bool(self.fit_intercept),
            space=fitted.space,
            seed=str(shared.seed),
            classes=self._published_classes(),
            codes=fitted.codes,
            feature_names=_names(self) if self.encoding is None else self.encoding.output_names,
            encoding=self.encoding,
        )
        self.residual_ = _residual(fitted, plan, shared)
        _check_codes(fitted.codes, self.residual_, plan)
        self.certificate_ = self._certify(fitted, shared)

    def _learn(self, X: Any, signs: Signs, shared: SharedRandomness) -> tuple[Plan, Any]:
        """Learn from rows in memory, in their canonical order."""
        batch_size = self._smallest_batch(X.shape[1])
        rows = Rows(X, signs, self._row_order(signs, signs.size // batch_size))
        return self._learn_from(rows, X.shape[1], shared, self._run())

    def _learn_from(
        self, sample: Any, n_features: int, shared: SharedRandomness, run: BlockMap
    ) -> tuple[Plan, Any]:
        """Plan, then run the recipe."""
        plan = self._plan(n_features + bool(self.fit_intercept))
        if plan.mode != "practical":  # rows in files must be counted first
            require_samples(plan, sample.n_rows)
        refuse_large(plan)
        return plan, type(self)._recipe(sample, plan, shared, run)

    def _smallest_batch(self, n_features: int) -> int:
        """Rows in a batch; fewer than twice as many need no particular order."""
        return self._plan(n_features + bool(self.fit_intercept)).batch_size

    def _certify(self, fitted: Any, shared: SharedRandomness) -> Certificate:
        """What the fit can say about its own replicability."""
        return certify(fitted, self.plan_, shared)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distance of each row to the boundary; positive means ``classes_[1]``.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,)
        """
        check_is_fitted(self, "model_")
        X = validate_data(
            self,
            self._encoded(X),
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            reset=False,
        )
        _check_finite(X, self)
        scores = self.model_.scores(X)
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise ReplearnError(
                "X must hold numbers whose weighted sum is a number, got larger ones in row "
                f"{row}. Scale its rows: their directions decide."
            )
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
        """
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.int64)]

    def to_sklearn(self, *, encoded: bool = False) -> Any:
        """The same classifier in plain scikit-learn parts: see `replearn.to_sklearn`.

        Parameters
        ----------
        encoded : bool, default=False
            Rows will be encoded already: leave the encoding of a protocol out.

        Returns
        -------
        LinearSVC, VotingClassifier or Pipeline
            Fitted.
        """
        check_is_fitted(self, "model_")
        from replearn.exports import to_sklearn  # loads parts of scikit-learn that no fit needs

        return to_sklearn(self, encoded=encoded)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, shape (1, n_features)."""
        return self._fitted_model().coef[None, :]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Weight of the constant, shape (1,)."""
        return np.array([self._fitted_model().intercept])

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of the model's canonical bytes, in hex."""
        return self._fitted_model().fingerprint

    def _fitted_model(self) -> Model:
        try:
            return self.model_
        except AttributeError:
            # hasattr(estimator, "coef_") must be False before fit
            raise AttributeError(
                f"{type(self).__name__} has no model yet. Call fit first."
            ) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    def _guarantee(self, margin: float | str | None = None) -> Guarantee:
        given: Any = self.margin if margin is None else margin
        return Guarantee(given, self.max_error, self.max_disagreement, self.failure_prob)

    def _shared(self) -> SharedRandomness:
        if isinstance(self.shared_seed, bool) or not isinstance(
            self.shared_seed, int | str | np.integer
        ):
            raise ReplearnError(
                f"shared_seed must be an int or a string, got {self.shared_seed!r}. "
                "Publish one and pass it at every site."
            )
        return SharedRandomness(seed_text(self.shared_seed, "shared_seed"))

    def _check_parameters(self) -> None:
        """Refuse parameters of the wrong kind before the rows are looked at."""
        self._shared()
        if self.random_state is not None:
            self.order_coins()
        refuse_odd_parameters(self.get_params(deep=False))

    def _encoded(self, X: Any) -> Any:
        X = collected(X)
        if self.encoding is not None:
            return self.encoding.transform(X)
        refuse_other_than_numbers(X)
        return X

    def _check_rows(
        self, X: Any, y: Any, reset: bool = True, first_row: int = 0
    ) -> tuple[Any, NDArray[Any]]:
        """Validated rows and labels; ``reset`` when these are the first.

        ``first_row`` is the number of the first row, for messages.
        """
        X, y = validate_data(
            self,
            self._encoded(X),
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
            reset=reset,
        )
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()  # the caller's matrix stays as it is
            X.sum_duplicates()
        _check_finite(X, self, first_row)
        if two_numbers(y) is None:
            check_classification_targets(y)
        return X, y

    def _check_training_data(self, X: Any, y: Any) -> tuple[Any, NDArray[np.int8]]:
        """Validated rows, and their labels as signs; sets ``classes_``."""
        X, y = self._check_rows(X, y)
        self.classes_, positive = two_classes(y)
        self._check_classes(self.classes_, _names(self))
        return X, np.where(positive, np.int8(1), np.int8(-1))

    def _check_classes(self, classes: NDArray[Any], names: tuple[str, ...] | None) -> None:
        """Refuse labels that are not those of the protocol, or that no file can hold."""
        refuse_unwritable(label_values(classes), names)
        if self.classes is not None and set(label_values(classes)) != set(self.classes):
            raise ReplearnError(
                f"y must hold the labels of the protocol, {self.classes[0]!r} and "
                f"{self.classes[1]!r}, got {classes[0]!r} and {classes[1]!r}. "
                "Recode the labels, or use the protocol of this study."
            )

    def _published_classes(self) -> tuple[Label, Label]:
        """The labels as the protocol writes them: True at one site is 1 at another."""
        written = {label: label for label in self.classes or ()}
        low, high = label_values(self.classes_)
        return written.get(low, low), written.get(high, high)

    def _row_order(self, signs: NDArray[np.int8], n_batches: int) -> Order:
        """Canonical order of the rows: as given, or permuted by one keyed permutation."""
        n_rows = signs.size
        if self.shuffle:
            coins, stream = self.order_coins()
            return coins.row_order(stream, n_rows)
        if n_batches > 1:
            refuse_sorted(LabelRuns.of(signs))
        return np.arange(n_rows, dtype=np.int64)

    def order_coins(self) -> tuple[SharedRandomness, str]:
        """Coins and the stream that put the rows in order, if ``shuffle`` is on."""
        if self.random_state is None:
            return self._shared(), "order"
        if not isinstance(self.random_state, int | np.integer):
            raise ReplearnError(
                f"random_state must be an int or None, got {self.random_state!r}. It is a "
                "key, so that the same rows give the same model."
            )
        return SharedRandomness(seed_text(self.random_state, "random_state")), "order/private"

    def _run(self) -> BlockMap:
        """Map over blocks, with progress if that is wanted."""
        return tracked(self._threads(), "fitting") if self.verbose else self._threads()

    def _threads(self) -> BlockMap:
        """Map over blocks with ``n_jobs`` threads; the kernels release the interpreter lock."""
        n_threads = effective_n_jobs(self.n_jobs)

        def threaded(function: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
            with ThreadPoolExecutor(n_threads) as pool:
                yield from pool.map(function, blocks)

        return map if n_threads == 1 else threaded

    def _sizes(self) -> Sizes:
        return Sizes(
            n_batches=whole_or_auto(self.n_batches, "n_batches"),
            batch_size=whole_or_auto(self.batch_size, "batch_size"),
            n_components=whole_or_auto(self.n_components, "n_components"),
            grid_width=_real(self.grid_width, "grid_width", zero_allowed=False),
            projection=choice_or_auto(
                self.projection,
                "projection",
                ["published"] if self.basis is not None else PROJECTIONS,
            ),
            rounding=choice_or_auto(self.rounding, "rounding", CELLS),
            regularization=_real(self.regularization, "regularization", zero_allowed=True),
            basis=self.basis,
            unit_mean=True if self.unit_mean else None,
        )

    def _warn(self) -> None:
        """Say what the user must know about this fit, in words."""
        spent: Spent | None = self.plan_.spent
        assert spent is not None
        if spent.n_unconverged:
            warnings.warn(
                f"{spent.n_unconverged:,} of {spent.n_batches:,} batches did not reach the "
                f"accuracy asked for (worst duality gap {spent.worst_gap:.2g}). Raise "
                "regularization, or scale the features.",
                ReplicabilityWarning,
                stacklevel=5,
            )
        if spent.n_infeasible:
            warnings.warn(
                f"{spent.n_infeasible:,} of {spent.n_batches:,} batches have no margin of "
                f"{self.plan_.accuracy.margin_floor:g}, so the promise of margin {self.margin} "
                "does not hold. Lower margin, or set regularization above 0.",
                ReplicabilityWarning,
                stacklevel=5,
            )
        estimate = self.certificate_.estimated_disagreement
        if self.mode != "practical":
            return
        if estimate is None:
            warnings.warn(
                f"The disagreement with another lab cannot be estimated from "
                f"{spent.n_batches} {'batch' if spent.n_batches == 1 else 'batches'} of "
                f"{self.plan_.batch_size} rows. Get more rows: seven batches are the fewest.",
                ReplicabilityWarning,
                stacklevel=5,
            )
        elif estimate > self.max_disagreement:
            # disagreement falls like one over the square root of the number of rows
            needed = spent.n_rows * (estimate / self.max_disagreement) ** 2
            warnings.warn(
                f"Another lab would get a different model with an estimated probability of "
                f"{estimate:.2f}, above max_disagreement={self.max_disagreement:g}. "
                f"Get more rows (about {float(f'{needed:.1g}'):,.0f} per lab at this seed), allow "
                "a larger max_error or margin, or plan from a pilot sample.",
                ReplicabilityWarning,
                stacklevel=5,
            )


def refuse_sorted(labels: LabelRuns) -> None:
    """Refuse rows whose labels are sorted or clustered, if they are to be cut as they come."""
    if labels.look_sorted():
        raise ReplearnError(
            "y looks sorted or clustered, so batches of consecutive rows would not be independent "
            "samples. Use shuffle=True, or shuffle the rows once and keep that order."
        )


def _residual(fitted: Any, plan: Plan, shared: SharedRandomness) -> Vector | None:
    """Where what was rounded lies in its cell; None for choices from a net."""
    if not isinstance(fitted, recipes.Fitted):
        return None
    mean = recipes.mean_direction(fitted.sums, plan)
    return fitted.space.residual(mean, fitted.codes, shared)


def silent_overflow() -> Any:
    """Round without NumPy's warnings: codes that overflow are refused after it, in words."""
    return np.errstate(over="ignore", invalid="ignore")


def _check_codes(codes: Codes, residual: Vector | None, plan: Plan) -> None:
    """Refuse codes that overflowed: no file holds them, and they are those of another point."""
    too_many_bits = bool(((codes > MAX_CODE) | (codes < -MAX_CODE)).any())
    if too_many_bits or (residual is not None and not (np.abs(residual) < _LARGEST_CELL).all()):
        raise ReplearnError(
            f"grid_width must be so large that codes have at most 53 bits, got {plan.grid_width}. "
            'Leave it "auto", or raise it.'
        )


#: No point of a cell is so far from its centre, in grid widths.
_LARGEST_CELL = 4.0


def two_numbers(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """The two labels and where the larger stands, if y holds two whole numbers and no other.

    A few passes instead of the sorting that scikit-learn's checks and ``np.unique`` do.
    """
    if y.dtype.kind not in "biuf" or y.size == 0:
        return None
    low, high = y.min(), y.max()
    if low == high or (y.dtype.kind == "f" and not (low.is_integer() and high.is_integer())):
        return None
    positive = y == high
    return (np.array([low, high]), positive) if (positive | (y == low)).all() else None


def two_classes(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The two labels, and the rows that have the second; any other y is refused."""
    quick = two_numbers(y)
    if quick is not None:
        return quick
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ReplearnError(
            "Only binary classification is supported. The type of the target is "
            f"{kind}. Pass labels with two values."
        )
    classes, indices = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise ReplearnError(
            f"y must hold two classes, got one class: {classes[0]!r}. "
            "Check the label column; a sample of one class cannot be learned from."
        )
    return classes, indices.ravel() == 1


def label_values(classes: NDArray[Any]) -> tuple[Label, Label]:
    """The two labels as they stand in a model file; 1.0 is written as 1."""
    low, high = (
        int(label) if isinstance(label, float) and label.is_integer() else label
        for label in classes.tolist()
    )
    return (low, high) if isinstance(low, bool | int | str) else (str(low), str(high))


def _check_finite(X: Any, estimator: Any, first_row: int = 0) -> None:
    """Refuse NaN and infinity, and say where they are."""
    values = X.data if sp.issparse(X) else X
    with np.errstate(all="ignore"):
        total = values.sum()  # finite for nearly all data: no array of flags is needed
    if np.isfinite(total) or np.isfinite(values).all():
        return
    place = int(np.argmin(np.isfinite(values)))
    if sp.issparse(X):
        row, column = int(np.searchsorted(X.indptr, place, side="right")) - 1, X.indices[place]
    else:
        row, column = divmod(place, X.shape[1])
    names = _names(estimator)
    raise ReplearnError(
        f"X must be finite, got {'NaN' if np.isnan(values.flat[place]) else 'inf'} in row "
        f"{first_row + row}, column {column if names is None else repr(names[column])}. Fill in "
        "such values, or drop their rows."
    )


def _names(estimator: Any) -> tuple[str, ...] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def whole_or_auto(value: Any, name: str) -> int | None:
    """A positive integer, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ReplearnError(f'{name} must be "auto" or a positive integer, got {value!r}.')
    return int(value)


def _real(value: Any, name: str, *, zero_allowed: bool) -> float | None:
    if isinstance(value, str) and value == "auto":
        return None
    number = isinstance(value, int | float | np.integer | np.floating)
    value = float(value) if isinstance(value, np.floating) else value
    positive = number and not isinstance(value, bool) and 0 < value < np.inf
    if not positive and not (zero_allowed and number and value == 0):
        what = "a number of at least 0" if zero_allowed else "a positive number"
        raise ReplearnError(f'{name} must be "auto" or {what}, got {shown(value)}.')
    if positive and not MIN_WIDTH <= value <= MAX_WIDTH:
        raise ReplearnError(
            f"{name} must be from {MIN_WIDTH:g} to {MAX_WIDTH:g}, got {shown(value)}. Scale it."
        )
    return float(value)


def real_or_auto(value: Any, name: str) -> float | None:
    """A positive number, or None for "auto"."""
    return _real(value, name, zero_allowed=False)


def choice_or_auto(value: Any, name: str, known: Iterable[str]) -> str | None:
    """One of the known names, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if not isinstance(value, str) or value not in known:
        raise ReplearnError(f'{name} must be "auto" or one of {", ".join(known)}, got {value!r}.')
    return str(value)
