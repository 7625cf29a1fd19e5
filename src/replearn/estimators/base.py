"""What all replicable estimators share: checks, one fit, prediction."""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from replearn.codes.encoding import Seen
from replearn.codes.model import Label, Model
from replearn.codes.published import Published
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.estimators.checks import refuse_odd_parameters, refuse_unwritable
from replearn.estimators.frames import numbers_of
from replearn.estimators.useless import warn_of_noise
from replearn.files.modelfile import MAX_CODE
from replearn.plans.sizes import Guarantee
from replearn.progress import tracked
from replearn.sources.common import warn_if_coded_differently
from replearn.sources.labels import Labels, label_values
from replearn.stages.batches import Rows, UnorderedSample
from replearn.stages.certificate import Certificate
from replearn.stages.net_search import PointSource
from replearn.stages.signal import ELSEWHERE, ONLY_SUMS, TOO_FEW, Signal, signal_of, spaced_signal
from replearn.stages.weights import whole_weights, with_weights
from replearn.types import BlockMap, Vector, refuse_not_finite
from replearn.warn import warn

_LOG = logging.getLogger("replearn")

#: What an algorithm asks of its rows. "batches": sums over batches, which are consecutive rows in
#: canonical order. "sums": sums over rows in any order. "counts": how many rows each candidate of a
#: net gets wrong. "rows": the rows themselves, again and again, so that they must be in memory.
Asks = Literal["batches", "sums", "counts", "rows"]


class Replicable(BaseEstimator):
    """What all replicable estimators share. Not for direct use."""

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
    class_weight: dict[Any, float] | None
    published: Published | None

    # set by fit
    classes_: NDArray[Any]
    n_features_in_: int
    plan_: Any
    model_: Model
    certificate_: Certificate
    signal_: Signal | None  # whether the rows know anything of the labels; None: not tested
    untested_: str  # why not; "" if they were
    seen_: Seen  # what was missing or unknown in the columns of an encoding
    residual_: Vector | None  # place of the mean in its cell, in grid widths; audits read it

    #: What it asks of its rows, which decides where they may be; see `Asks`.
    asks: ClassVar[Asks]

    #: Whether there may be more than two classes, and whether two of them come as signs even so.
    _many_classes: ClassVar[bool] = False
    _signs_of_two: ClassVar[bool] = False

    #: Why rows cannot have weights, and the remedy; None: they can.
    _no_weights: ClassVar[str | None] = (
        "it cuts its rows into batches of a fixed number and searches among them, and no weighted "
        "batch is an independent sample. Use ReplicableLogisticClassifier, whose sums are exact "
        "with weights too."
    )

    #: What helps against a disagreement that is too large, besides more rows.
    _remedy: ClassVar[str]

    @property
    def agreed(self) -> Published:
        """What a protocol fixes; without one, nothing."""
        return Published() if self.published is None else self.published

    # --- what a subclass says ---------------------------------------------------------------------

    def _plan(self, n_inputs: int) -> Any:
        """Sizes of this estimator's algorithm: ``algorithm``, ``n_samples``, ``with_spent``."""
        raise NotImplementedError

    @property
    def _recipe(self) -> Callable[..., Any]:
        """The algorithm: (sample, plan, shared, run) to what `_publish` reads."""
        raise NotImplementedError

    def _certify(self, fitted: Any, shared: SharedRandomness) -> Certificate:
        """What the fit can say about its own replicability."""
        raise NotImplementedError

    def _learn(
        self, sample: Any, n_inputs: int, shared: SharedRandomness, run: BlockMap
    ) -> tuple[Any, Any]:
        """Plan, then run the recipe."""
        plan = self._plan(n_inputs)
        if plan.mode != "practical":  # rows in files must be counted first
            plan.require_samples(sample.n_rows)
        return plan, self._recipe(sample, plan, shared, run)

    def _warn_of_worth(self, rows: Rows) -> None:
        """Warn if the model is worth nothing on its own rows; a protocol says what to expect."""

    def _troubles(self) -> Iterator[str]:
        """What went wrong in the fit, besides its disagreement, in words."""
        yield from ()

    def _no_estimate(self) -> str:
        """From what the disagreement cannot be estimated, and the remedy; "": reported already."""
        raise NotImplementedError

    # --- the one way to a model -------------------------------------------------------------------

    def fit(self, X: Any, y: Any, **weights: Any) -> Self:
        """Learn a halfspace that another lab would learn too.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Any two labels; of some algorithms, more.
        **weights
            ``sample_weight``, if the algorithm takes it; otherwise the error says why not.

        Returns
        -------
        self
        """
        if weights and self._no_weights is not None:
            name = next(iter(weights))
            raise ReplearnError(f"{type(self).__name__} takes no {name}: {self._no_weights}")
        self.check_parameters()
        X, y = self._check_rows(X, y)
        self.warn_of_codes(self.__dict__.get("seen_"))
        labels = self.labels()
        targets = labels.targets(y)
        labels.require_both()
        if weights.get("sample_weight") is not None:
            grains = whole_weights(weights["sample_weight"], targets.size)
            targets = with_weights(targets, grains)
        self._describe(X.shape[1], labels.classes, _names(self))
        rows = self.in_memory(X, targets)
        self._fit(rows)
        self._warn_of_worth(rows)
        return self

    def fit_sample(
        self,
        sample: UnorderedSample | PointSource,
        n_features: int,
        classes: NDArray[Any],
        names: tuple[str, ...] | None = None,
    ) -> Self:
        """Learn from rows that are not one array in memory; `fit_file` and clusters do.

        Parameters
        ----------
        sample : Sample
            Checked rows, encoded and in canonical order; without one if only sums are asked for.
        n_features : int
        classes : array of labels
            Of two, the second is +1 in the sample; of more, it holds their numbers.
        names : tuple of str, optional
            Of the features.

        Returns
        -------
        self
        """
        if not isinstance(sample, Rows) and not (
            isinstance(sample, PointSource) if self.asks == "counts" else self.asks != "rows"
        ):
            raise ReplearnError(
                f"{type(self).__name__} needs its rows in memory. Use fit, or "
                "ReplicableSVMClassifier or ReplicableSGDClassifier, which need not."
            )
        self.check_parameters()
        self.__dict__.pop("feature_names_in_", None)
        if names is not None and self.agreed.encoding is None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._describe(n_features, classes, names)
        # files that need an order may be read in pieces, and must then give the same
        return self._fit(sample, spaced=self.asks == "batches")

    def _fit(self, sample: Any, spaced: bool = False) -> Self:
        """Learn from checked rows, wherever they are; test them for signal."""
        shared = self._shared()
        # samples elsewhere show the progress of their passes over the rows
        run = self._run() if isinstance(sample, Rows) else self._threads()
        with silent_overflow():
            n_inputs = self.n_features_in_ + bool(self.fit_intercept)
            plan, fitted = self._learn(sample, n_inputs, shared, run)
        self._publish(plan, fitted, shared)
        self.signal_, self.untested_ = self._test(sample, spaced)
        self._warn()
        return self

    def _test(self, sample: Any, spaced: bool) -> tuple[Signal | None, str]:
        """Whether the rows hold any signal, or why that was not tested.

        Rows elsewhere say it, if a pass has kept some of them.
        """
        if isinstance(sample, Rows):
            test = spaced_signal if spaced else signal_of
            found = test(sample.X, sample.signs, sample.order)
        elif hasattr(sample, "signal"):
            found = sample.signal()
        else:
            return None, ELSEWHERE
        return found, "" if found is not None else TOO_FEW

    def _describe(
        self, n_features: int, classes: NDArray[Any], names: tuple[str, ...] | None
    ) -> None:
        """Set what is known of the rows before the fit."""
        refuse_unwritable(label_values(classes), names)
        self.classes_, self.n_features_in_ = classes, n_features

    def _publish(self, plan: Any, fitted: Any, shared: SharedRandomness) -> None:
        """Set what a fit leaves behind."""
        _check_codes(fitted)
        self.signal_, self.untested_ = None, ONLY_SUMS
        self.plan_ = plan.with_spent(fitted.spent)
        self.model_ = self._model(plan, fitted, shared)
        self.residual_ = fitted.residual
        self.certificate_ = self._certify(fitted, shared)
        _LOG.info(
            "%s: %s rows, model %s",
            type(self).__name__,
            fitted.spent.n_rows,
            self.model_.fingerprint,
        )

    def _model(self, plan: Any, fitted: Any, shared: SharedRandomness) -> Model:
        """The classifier that was learned."""
        encoding = self.agreed.encoding
        return Model(
            recipe=plan.algorithm,
            n_features=self.n_features_in_,
            fit_intercept=bool(self.fit_intercept),
            space=fitted.space,
            seed=str(shared.seed),
            classes=self._label_values(),
            codes=fitted.codes,
            feature_names=_names(self) if encoding is None else encoding.output_names,
            encoding=encoding,
        )

    def _label_values(self) -> tuple[Label, ...]:
        """Labels as they stand in a model."""
        return label_values(self.classes_)

    def _warn(self) -> None:
        """Say what the user must know about this fit, in words."""
        for message in self._messages():
            warn(message, ReplicabilityWarning)
        warn_of_noise(self.signal_)

    def _messages(self) -> Iterator[str]:
        yield from self._troubles()
        if getattr(self, "mode", "practical") != "practical":
            return
        estimate = self.certificate_.estimated_disagreement
        if estimate is None:
            if reason := self._no_estimate():
                yield f"The disagreement with another lab cannot be estimated {reason}"
        elif estimate > self.max_disagreement:
            # disagreement falls like one over the square root of the number of rows
            needed = self.plan_.spent.n_rows * (estimate / self.max_disagreement) ** 2
            remedy = self._remedy
            if self.published is not None:  # a protocol has fixed what one could set
                remedy = "or plan the study again for the rows that the sites have"
            yield (
                f"Another lab would get a different model with an estimated probability of "
                f"{estimate:.2f}, above max_disagreement={self.max_disagreement:g}. "
                f"Get more rows (about {float(f'{needed:.1g}'):,.0f} per lab at this seed), "
                f"{remedy}."
            )

    # --- prediction -------------------------------------------------------------------------------

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """What the model adds up for each row; rows of any kind are checked first."""
        model = self._fitted_model()
        X, seen = numbers_of(X, self.agreed.encoding)
        self.warn_of_codes(seen)
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            reset=False,
        )
        refuse_not_finite(X, partial(_not_finite, self, 0))
        scores = model.scores(X)
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)))
            raise ReplearnError(
                "X must hold numbers whose weighted sum is a number, got larger ones in row "
                f"{row}. Scale its rows: their directions decide."
            )
        return scores

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
        self._fitted_model()
        from replearn.exports import to_sklearn  # loads parts of scikit-learn that no fit needs

        return to_sklearn(self, encoded=encoded)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, shape (1, n_features); more than two classes: a row for each."""
        return np.atleast_2d(self._fitted_model().coef)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Weight of the constant, shape (1,), or one for each of more than two classes."""
        return np.atleast_1d(self._fitted_model().intercept)

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of the model's canonical bytes, in hex."""
        return self._fitted_model().fingerprint

    def _fitted_model(self) -> Model:
        try:
            return self.model_
        except ReplearnError:  # it says why there is none
            raise
        except AttributeError:
            # another one: hasattr(estimator, "coef_") must be False before fit
            raise NotFittedError(
                f"{type(self).__name__} has no model yet. Call fit first."
            ) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _guarantee(self, margin: float | str | None = None) -> Guarantee:
        given: Any = self.margin if margin is None else margin
        return Guarantee(given, self.max_error, self.max_disagreement, self.failure_prob)

    def _shared(self) -> SharedRandomness:
        return SharedRandomness(seed_text(self.shared_seed, "shared_seed"))

    def check_parameters(self) -> None:
        """Refuse parameters of the wrong kind before the rows are looked at."""
        self._shared()
        parameters = self.get_params(deep=False)
        if parameters.get("random_state") is not None:
            self.order_coins()
        refuse_odd_parameters(parameters)

    def warn_of_codes(self, seen: Seen | None) -> None:
        """Warn of columns that this lab codes differently."""
        warn_if_coded_differently("X", self.agreed.encoding, seen)

    def _check_rows(
        self, X: Any, y: Any, reset: bool = True, first_row: int = 0
    ) -> tuple[Any, NDArray[Any]]:
        """Validated rows and labels; ``reset`` when these are the first.

        ``first_row`` is the number of the first row, for messages.
        """
        X, seen = numbers_of(X, self.agreed.encoding)
        if seen is not None:
            self.seen_ = seen if reset else self.seen_ + seen
        X, y = validate_data(
            self,
            X,
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
        refuse_not_finite(X, partial(_not_finite, self, first_row))
        return X, y

    def labels(self, place: str = "y", *, from_text: bool = False) -> Labels:
        """What turns labels into signs: those of the protocol, or the ones that are found."""
        known = self.agreed.classes
        return Labels(
            place,
            None if known is None else sorted(known),
            from_text=from_text,
            many=self._many_classes,
            signs_of_two=self._signs_of_two,
        )

    def in_memory(self, X: Any, signs: NDArray[Any]) -> Rows:
        """Checked rows in their canonical order: as given, or permuted by a keyed permutation."""
        if self.asks == "sums" or not self.shuffle:
            order = np.arange(signs.size, dtype=np.int64)
            return Rows(X, signs, order, as_given=self.asks != "sums")
        coins, stream = self.order_coins()
        return Rows(X, signs, coins.row_order(stream, signs.size))

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
            pool = ThreadPoolExecutor(n_threads)
            try:
                yield from pool.map(function, blocks)
            finally:  # no thread is joined, as in `replearn.sources.common.ahead`
                pool.shutdown(wait=False, cancel_futures=True)

        return map if n_threads == 1 else threaded


class ReplicableClassifier(ClassifierMixin, Replicable):
    """What all replicable classifiers share. Not for direct use."""

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distance of each row to the boundary; positive means ``classes_[1]``.

        With more than two classes, a score for each of them, and the largest decides.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,), or (n_samples, n_classes)
        """
        return self._scores(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
        """
        model = self._fitted_model()
        return self.classes_[model.decided(self.decision_function(X))]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._many_classes
        return tags


def silent_overflow() -> Any:
    """Round without NumPy's warnings: codes that overflow are refused after it, in words."""
    return np.errstate(over="ignore", invalid="ignore")


def _check_codes(fitted: Any) -> None:
    """Refuse codes that overflowed: no file holds them, and they are those of another point."""
    codes, residual = fitted.codes, fitted.residual
    too_many_bits = bool(((codes > MAX_CODE) | (codes < -MAX_CODE)).any())
    if too_many_bits or (residual is not None and not (np.abs(residual) < _LARGEST_CELL).all()):
        raise ReplearnError(
            "grid_width must be so large that codes have at most 53 bits, got "
            f'{fitted.space.grid_width}. Leave it "auto", or raise it.'
        )


#: No point of a cell is so far from its centre, in grid widths.
_LARGEST_CELL = 4.0


def _not_finite(
    estimator: Any, first_row: int, row: int, column: int, value: float
) -> ReplearnError:
    names = _names(estimator)
    return ReplearnError(
        f"X must be finite, got {'NaN' if np.isnan(value) else 'inf'} in row "
        f"{first_row + row}, column {column if names is None else repr(names[column])}. Fill in "
        "such values, or drop their rows."
    )


def _names(estimator: Any) -> tuple[str, ...] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)
