"""Generalised linear models with a sketch, as scikit-learn estimators."""

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from replearn.documents import FilePath
from replearn.errors import (
    ColumnWarning,
    ReplearnError,
    ReplicabilityWarning,
    UselessModelWarning,
    short,
)
from replearn.estimators.described import estimator
from replearn.estimators.shell import (
    ROW_CHECKS,
    HasModel,
    name_of,
    name_of_target,
    refuse_odd,
    set_columns,
    study_of,
)
from replearn.glm import Coefficients, GlmModel, Kind, decided
from replearn.study import (
    Certificate,
    GlmReplication,
    GlmStudy,
    Options,
    Original,
    Performance,
    Request,
    publish,
    replicate,
    replicate_more,
)
from replearn.tables import (
    Finding,
    Table,
    classes_like,
    in_sentences,
    open_table,
    refuse_lazy,
    some_rows,
)
from replearn.types import Array, Later, Vector, is_sparse, unmasked
from replearn.words import warn

#: Fits make small products, in which threads of BLAS would wait for each other.
_THREADS = ThreadpoolController()


@estimator()
class _ReplicableGLM(HasModel, Options, BaseEstimator):
    """What the generalised linear models share. Not for direct use."""

    opened: Any = None
    study: "GlmStudy | str | os.PathLike[str] | BaseEstimator | None" = None
    verbose: int = 0

    _kind: ClassVar[Kind]

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        groups: Any = None,
        centres: Any = None,
    ) -> Self:
        """Fit an original, or, with ``study``, a replication.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            A dataframe may have text and gaps.
        y : array-like of shape (n_samples,)
            What is predicted: labels, numbers or counts.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of rows; rows of weight 0 are left out.
        offset : array-like of shape (n_samples,), optional
            Added to the score of each row; for counts the logarithm of the exposure.
        groups : array-like of shape (n_samples,), optional
            Rows of one person, ward or family; only the original uses them.
        centres : array-like of shape (n_samples,), optional
            The hospital, month or country of each row; only the original uses them. They are no
            predictor: they show how much centres differ, so that new ones are promised the model.

        Returns
        -------
        self : estimator
            Fitted.
        """
        table = self._table(
            X, y, weights=sample_weight, offset=offset, groups=groups, centres=centres
        )

        # what a study calls its columns
        columns = open_table(X).names if _has_columns(X) else ()
        names = {"target": name_of_target(y, columns)}
        if sample_weight is not None:
            names["weights"] = name_of(sample_weight, "sample_weight")
        if offset is not None:
            names["offset"] = name_of(offset, "offset")

        study = study_of(self.study, self._kind)
        if study is not None:
            _say_unlike(study, sample_weight is not None, offset is not None)

        self._learn(table, names, study)
        if self._kind == "logistic":
            # labels as this lab spells them, which may be 1.0 for the study's 1
            self.classes_ = classes_like(self.model_.classes or (), y)
        return self

    def fit_file(
        self,
        path: FilePath,
        target: str | None = None,
        sample_weight: str | None = None,
        offset: str | None = None,
        groups: str | None = None,
        centres: str | None = None,
    ) -> Self:
        """Fit the rows of a file, which may be larger than memory: the model of `fit`, to the bit.

        Parameters
        ----------
        path : path
            A table: .csv, .csv.gz, .parquet, .npz or .svm.
        target, sample_weight, offset, groups, centres : str, optional
            Names of columns. A study names its own, so that a replication needs none. Rows of
            weight 0 have a part in the encoding; `fit` leaves them out.

        Returns
        -------
        self : estimator
            Fitted.
        """
        study, columns = study_of(self.study, self._kind), None
        names: dict[str, Any] = {"target": target, "weights": sample_weight, "offset": offset}
        if study is not None:  # columns may have a different name here
            names = {role: name or getattr(study.design, role) for role, name in names.items()}
            columns = study.design.encoding.names
            groups = centres = None  # only the original uses them
            _say_unlike(study, names["weights"] is not None, names["offset"] is not None)

        table = open_table(path, columns=columns, groups=groups, centres=centres, **names)
        set_columns(self, table)
        names["target"] = names["target"] or "y"  # files of arrays bring theirs, without a name
        self._learn(table, names, study)
        return self

    def _learn(self, table: Table, names: dict[str, Any], study: GlmStudy | None) -> None:
        """The way of all rows, wherever they come from, to a model."""
        self.__dict__.pop("_stream", None)
        with _THREADS.limit(limits=1, user_api="blas"):
            if study is not None:
                made = replicate(study, table, self.opened, self.n_jobs)
                self._set_replication(study, *made)
                return

            if self.opened is not None:
                raise ReplearnError("opened is for a replication. Pass study=, too.")
            request = Request(
                **{option.name: getattr(self, option.name) for option in fields(Options)},
                kind=self._kind,
                verbose=self.verbose,
                class_weight=getattr(self, "class_weight", None),
                **names,
            )
            self._publish(publish(table, request))

    @available_if(lambda self: self.study is not None)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Replicate with further rows: those of all calls together.

        Only with a ``study``: an original needs all of its rows at once. Rows are kept encoded,
        two bytes a number; each call fits all rows so far, and gives the bytes that one `fit` of
        them gives.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            Further rows.
        y : array-like of shape (n_samples,)
            What is predicted.

        Returns
        -------
        self : estimator
            Fitted.
        """
        study = study_of(self.study, self._kind)
        assert study is not None  # without one there is no such method
        if self.opened is not None:
            raise ReplearnError("partial_fit does not use opened. Pass all rows to fit.")
        stream = self.__dict__.get("_stream")
        table = self._table(X, y, reset=stream is None)

        with _THREADS.limit(limits=1, user_api="blas"):
            self._stream, model, replication = replicate_more(study, table, stream)
        self._set_replication(study, model, replication)
        return self

    def _publish(self, original: Original) -> None:
        self._set_model(original.study, original.model)
        self.opening_ = original.opening
        self.certificate_: Certificate | None = original.certificate
        self._performance: Later[Performance | None] = Later.known(original.performance)
        self.replication_: GlmReplication | None = None
        self._own = original.own

        # what a user must hear before the study leaves the house
        for problem in original.certificate.problems:
            warn(f"The study cannot be published: {problem}", ReplicabilityWarning)
        for remark in original.remarks:
            if remark.refused:
                warn(f"The study cannot be published: {remark}.", ReplicabilityWarning)
        noted = [Finding(r.column, r.reason) for r in original.remarks if not r.refused]
        for sentence in in_sentences(noted):
            warn(sentence, ColumnWarning)
        if original.performance.is_useless:
            warn("The model is no better than the base rate.", UselessModelWarning)

    def _set_model(self, study: GlmStudy, model: GlmModel) -> None:
        self.study_, self.model_ = study, model
        if self._kind == "logistic":
            self.classes_ = np.array(model.classes)

    def _set_replication(
        self, study: GlmStudy, model: GlmModel, replication: GlmReplication
    ) -> None:
        self._set_model(study, model)
        self.replication_ = replication
        self.opening_ = self.certificate_ = None
        self._performance = Later(lambda: replication.performance)
        self._own = replication.own_later
        if replication.same is False:
            warn(
                "These rows do not give the original's model, so there is no model to predict "
                "with; replication_ says what differs, and what to do next.",
                ReplicabilityWarning,
            )

    @property
    def performance_(self) -> Performance | None:
        """Of an original on rows not seen; of its model on the rows of a lab that replicates."""
        check_is_fitted(self)
        return self._performance()

    def _table(self, X: Any, y: Any, reset: bool = True, **roles: Any) -> Table:
        """The rows of a fit, checked."""
        X, known = self._checked(X, reset)
        roles = {name: role for name, role in roles.items() if role is not None}
        roles["target"] = y = _column(y)

        if "weights" in roles:
            weights = roles["weights"] = _weights(roles["weights"], len(y))
            if not weights.all() and weights.any():
                # rows without a weight say nothing about any column
                X, roles = some_rows(X, weights != 0), some_rows(roles, weights != 0)
        return open_table(X, **known, **roles)

    def _checked(self, X: Any, reset: bool) -> tuple[Any, dict[str, Any]]:
        """A checked X, and what `open_table` need not find out: names, and that all are finite.

        Without ``reset`` the columns must be those of the fit.
        """
        X = unmasked(X)
        refuse_lazy(X)

        # columns by name
        if _has_columns(X):
            table = open_table(X)  # says in our words what no table is
            if not isinstance(X, Mapping):
                validate_data(self, X, skip_check_array=True, reset=reset)
            elif reset:
                set_columns(self, table)
            return X, {}

        # an array, which scikit-learn looks at
        refuse_odd(X)
        X = validate_data(self, X, ensure_all_finite="allow-nan", reset=reset, **ROW_CHECKS)
        names = tuple(getattr(self, "feature_names_in_", ()))
        if is_sparse(X) or not names:
            return X, {"is_finite": True}
        return X, {"is_finite": True, "names": names}

    def _scores(self, X: Any, offset: Any = None) -> Vector:
        check_is_fitted(self, "model_")
        if offset is None and self.model_.design.offset is not None:
            offset = self.model_.design.offset
            if not _has_columns(X) or offset not in X.columns:
                raise ReplearnError(
                    "the model was fitted with an offset, got none. Pass offset= to predict."
                )
        X, known = self._checked(X, reset=False)
        table = open_table(X, columns=self.model_.feature_names, offset=offset, **known)
        return np.concatenate([self.model_.scores_of(batch) for batch in table.batches()])

    @property
    def coef_(self) -> Vector:
        """Coefficients of the terms, per unit of their columns."""
        return self._model().coef

    @property
    def intercept_(self) -> Vector:
        """Constants that go with `coef_`."""
        return self._model().intercept

    @property
    def coefficients_(self) -> Coefficients:
        """A table: the model's coefficients, and this lab's own estimates with standard errors.

        Estimates are without the ridge; intervals are 95%, robust, by group where there are groups.
        """
        return self._model().stating(self._own()).coefficients

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "indicator"
        tags.input_tags.string = True
        return tags


def _say_unlike(study: GlmStudy, weighted: bool, has_offset: bool) -> None:
    """Say where rows are weighted at one lab only; scores without their offset mean nothing."""
    design = study.design
    if design.offset is not None and not has_offset:
        raise ReplearnError(
            f"the study has an offset, {design.offset!r}, got none. Pass offset= as the original "
            "has it."
        )

    # weights at one lab only change what is estimated
    if weighted != (design.weights is not None):
        there, here = "has no weights", "some"
        if not weighted:
            there, here = f"has weights, {design.weights!r}", "none"
        warn(
            f"The study {there}, and these rows have {here}: the same rows would give a different "
            "model.",
            ReplicabilityWarning,
        )


def _has_columns(X: Any) -> bool:
    """Whether X is a dataframe or a table with named columns."""
    return hasattr(X, "columns") or hasattr(X, "column_names") or isinstance(X, Mapping)


def _column(y: Any) -> Any:
    """A target that has one column."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    if isinstance(y, str | Mapping):
        what = "a mapping"
        if isinstance(y, str):
            what = f"the text {y!r}"
        raise ReplearnError(
            f"y must hold a value for each row, got {what}. Pass the column itself, such as "
            "table['y']; or name it to fit_file."
        )

    refuse_lazy(y)
    # a series stays one: its name is that of the target
    y = unmasked(y)
    if not hasattr(y, "__array__") or not hasattr(y, "name"):
        y = np.asarray(y)
    if len(y.shape) == 2 and y.shape[1] == 1:
        return column_or_1d(np.asarray(y), warn=True)
    if len(y.shape) != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
    return y


def _weights(given: Any, n_rows: int) -> Vector:
    """A weight for each row."""
    refuse_lazy(given)
    texts = np.asarray(given).dtype.kind in "US"
    if texts or isinstance(given, Mapping):
        raise ReplearnError(
            f"sample_weight must hold a weight for each row, got {short(given)}. Pass the "
            "column itself; or name it to fit_file."
        )
    real = {"ensure_2d": False, "dtype": np.float64, "ensure_min_samples": 0}
    checked = check_array(unmasked(given), input_name="sample_weight", **real)
    if checked.ndim and checked.shape != (n_rows,):
        raise ReplearnError(
            f"sample_weight must have a value for each of the {n_rows:,} rows, got "
            f"{checked.size:,}. Pass one number, or one for each row."
        )
    return np.broadcast_to(checked, n_rows)


@estimator()
class ReplicableLogisticClassifier(ClassifierMixin, _ReplicableGLM):
    """Logistic regression that labs with different rows replicate exactly.

    Two classes or more. Without ``study`` the fit is an *original*: it makes ``study_``, which is
    published. With ``study`` it is a *replication*.

    Parameters
    ----------
    {original}
    class_weight : "balanced", dict or None, default=None
        Weights of classes, published as numbers.

    Attributes
    ----------
    {glm_fitted}
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.

    See Also
    --------
    ReplicableSVMClassifier : halfspaces with a margin, where nobody is first.
    register_study : a study in which nobody is first.
    update : constants fitted anew where the base risk differs.

    Notes
    -----
    The original fits a ridge regression by exact Newton steps, writes its coefficients in
    coordinates in which they vary independently, and publishes for each where its cell of a
    shared grid lies (the *sketch*, 8 bits). A replication fits its own rows in the same way and
    rounds to the published cells. The same sums of whole numbers are added in any order, so no
    thread, file or machine changes a bit. Agreement is estimated from the spread of single rows
    and of centres; it is not proved.

    References
    ----------
    .. [DORS08] Dodis, Ostrovsky, Reyzin and Smith. Fuzzy extractors: how to generate strong keys
       from biometrics and other noisy data. SIAM Journal on Computing 38(1), 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = X[:, 0] + rng.logistic(size=4000) > 0
    >>> first = rl.ReplicableLogisticClassifier(shared_seed="draw 7").fit(X[:2000], y[:2000])
    >>> second = rl.ReplicableLogisticClassifier(study=first.study_).fit(X[2000:], y[2000:])
    >>> second.fingerprint_ == first.fingerprint_
    True
    """

    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None

    _kind = "logistic"

    def decision_function(self, X: Any, offset: Any = None) -> Vector:
        """Log-odds of the second class; for more classes a column for each.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.
        offset : array-like of shape (n_samples,), optional
            Added to the scores; by default the model's own column, if it has one.

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            Log-odds; with more classes against the first, whose column is 0.
        """
        scores = self._scores(X, offset)
        if scores.shape[1] == 1:
            return scores[:, 0]
        return np.column_stack([np.zeros(len(scores)), scores])

    def predict_proba(self, X: Any, offset: Any = None) -> Vector:
        """Probability of each class.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.
        offset : array-like of shape (n_samples,), optional
            Added to the scores; by default the model's own column, if it has one.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return self._model().design.loss.mean(self._scores(X, offset))

    def predict_log_proba(self, X: Any, offset: Any = None) -> Vector:
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.
        offset : array-like of shape (n_samples,), optional
            Added to the scores; by default the model's own column, if it has one.

        Returns
        -------
        logarithms : array of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return np.log(self.predict_proba(X, offset))

    def predict(self, X: Any, offset: Any = None) -> Array:
        """The most probable class of each row.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.
        offset : array-like of shape (n_samples,), optional
            Added to the scores; by default the model's own column, if it has one.

        Returns
        -------
        labels : array of shape (n_samples,)
            From ``classes_``.
        """
        scores = self._scores(X, offset)  # first: it says what is not fitted
        return self.classes_[decided(scores)]


@estimator()
class _ReplicableRegressor(RegressorMixin, _ReplicableGLM):
    """What models of numbers share. Not for direct use."""

    def predict(self, X: Any, offset: Any = None) -> Vector:
        """The expected number of each row.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.
        offset : array-like of shape (n_samples,), optional
            Added to the scores; by default the model's own column, if it has one.

        Returns
        -------
        numbers : array of shape (n_samples,)
            Means; of counts, with the exposure of ``offset``.
        """
        scores = self._scores(X, offset)  # first: it says what is not fitted
        return self._model().design.loss.mean(scores)


@estimator()
class ReplicableLinearRegressor(_ReplicableRegressor):
    """Linear regression that labs with different rows replicate exactly.

    Parameters
    ----------
    {original}

    Attributes
    ----------
    {glm_fitted}

    See Also
    --------
    ReplicablePoissonRegressor : counts.
    register_study : a study in which nobody is first.
    update : constants fitted anew where the base risk differs.

    Notes
    -----
    The loss is half the squared error. Apart from it everything is as
    `ReplicableLogisticClassifier` has it: exact sums, cells, a sketch.

    References
    ----------
    .. [DORS08] Dodis, Ostrovsky, Reyzin and Smith. Fuzzy extractors: how to generate strong keys
       from biometrics and other noisy data. SIAM Journal on Computing 38(1), 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = X @ [1.0, 0.5, 0.0] + rng.normal(size=4000)
    >>> first = rl.ReplicableLinearRegressor().fit(X[:2000], y[:2000])
    >>> second = rl.ReplicableLinearRegressor(study=first.study_).fit(X[2000:], y[2000:])
    >>> second.fingerprint_ == first.fingerprint_
    True
    """

    _kind = "linear"


@estimator()
class ReplicablePoissonRegressor(_ReplicableRegressor):
    """Poisson regression of counts that labs with different rows replicate exactly.

    Pass the logarithm of an exposure as ``offset``.

    Parameters
    ----------
    {original}

    Attributes
    ----------
    {glm_fitted}

    See Also
    --------
    ReplicableLinearRegressor : numbers that may be negative.
    register_study : a study in which nobody is first.
    update : constants fitted anew where the base risk differs.

    Notes
    -----
    The logarithm of the expected count is linear; a known exposure is an ``offset`` on that scale.
    Standard errors are robust, so overdispersed counts keep honest intervals. The rest is as in
    `ReplicableLogisticClassifier`.

    References
    ----------
    .. [DORS08] Dodis, Ostrovsky, Reyzin and Smith. Fuzzy extractors: how to generate strong keys
       from biometrics and other noisy data. SIAM Journal on Computing 38(1), 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = rng.poisson(np.exp(0.5 * X[:, 0]))
    >>> first = rl.ReplicablePoissonRegressor().fit(X[:2000], y[:2000])
    >>> second = rl.ReplicablePoissonRegressor(study=first.study_).fit(X[2000:], y[2000:])
    >>> second.fingerprint_ == first.fingerprint_
    True
    """

    _kind = "poisson"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the deviance that the model explains (D2), as `PoissonRegressor` has it.

        Parameters
        ----------
        X : dataframe, array or sparse matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.
        y : array-like of shape (n_samples,)
            Counts.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of rows.

        Returns
        -------
        score : float
            1 is perfect, 0 is as good as the mean.
        """
        from sklearn.metrics import d2_tweedie_score

        score = d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1)
        return float(score)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        tags.target_tags.positive_only = True
        return tags
