"""Survival analysis as a scikit-learn estimator."""

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from replearn.documents import FilePath
from replearn.errors import ReplearnError
from replearn.estimators.described import estimator
from replearn.estimators.glm import _ReplicableGLM
from replearn.estimators.shell import set_columns, study_of
from replearn.glm import concordance, log_hazards, survival_at
from replearn.study import table_of
from replearn.tables import open_table, rows_at_risk
from replearn.types import Mask, Vector


@estimator()
class ReplicableSurvivalAnalysis(_ReplicableGLM):
    """Survival analysis that labs with different rows replicate exactly.

    A piecewise exponential model with proportional hazards: a constant hazard in each interval
    between published cuts, quantiles of the original's event times with 20 events or more between
    them. Its hazard ratios are those of Cox's model but for a fraction of a standard error.
    Rows are counted as rows at risk, one for each interval of each row.

    Parameters
    ----------
    {original}

    Attributes
    ----------
    {glm_fitted}

    See Also
    --------
    ReplicablePoissonRegressor : counts, with an exposure.
    register_study : a study in which nobody is first.
    update : constants fitted anew where the base risk differs.

    Notes
    -----
    The model is piecewise exponential [Friedman82]: rows are cut at published quantiles of the
    event times, and their pieces fit a Poisson regression with the logarithm of the time at risk
    as offset. A lab's own hazard ratios are those of Cox's partial likelihood, with ties as Efron
    has them.

    References
    ----------
    .. [Friedman82] Friedman. Piecewise exponential models for survival data with covariates.
       Annals of Statistics 10(1), 1982.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> death, end = rng.exponential(np.exp(-0.5 * X[:, 0])), rng.uniform(0, 3, 4000)
    >>> y = np.array(
    ...     list(zip(death <= end, np.minimum(death, end))), dtype=[("died", "?"), ("years", "f8")]
    ... )
    >>> first = rl.ReplicableSurvivalAnalysis().fit(X[:2000], y[:2000])
    >>> second = rl.ReplicableSurvivalAnalysis(study=first.study_).fit(X[2000:], y[2000:])
    >>> second.fingerprint_ == first.fingerprint_
    True
    >>> second.predict_risk(X[:2], horizon=1.0).shape
    (2,)
    """

    _kind = "survival"

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, groups: Any = None, centres: Any = None
    ) -> Self:
        """Fit an original, or, with ``study``, a replication.

        Parameters
        ----------
        X : dataframe or array of shape (n_samples, n_features)
            A dataframe may have text and gaps.
        y : structured array of shape (n_samples,)
            As scikit-survival has it: first whether the event was seen, then the time.
        groups : array-like of shape (n_samples,), optional
            Rows of one person, ward or family; only the original uses them.
        centres : array-like of shape (n_samples,), optional
            The hospital or country of each row; only the original uses them. They are no
            predictor: they show how much centres differ, so that new ones are promised the model.

        Returns
        -------
        self : estimator
            Fitted.
        """
        event, time, (event_name, time_name) = _event_and_time(y)
        # the event stands where other models have an offset: a number of each row
        died = event.astype(np.float64)
        table = self._table(X, time, offset=died, groups=groups, centres=centres)

        study = study_of(self.study, self._kind)
        if study is not None:  # with the intervals of the original
            table = rows_at_risk(table, study.design.loss.cuts, study.design.target)
        self._learn(table, {"target": event_name, "time": time_name}, study)
        return self

    def fit_file(  # type: ignore[override]
        self,
        path: FilePath,
        time: str | None = None,
        event: str | None = None,
        groups: str | None = None,
        centres: str | None = None,
    ) -> Self:
        """Fit the rows of a file, which may be larger than memory: the model of `fit`, to the bit.

        Parameters
        ----------
        path : path
            A table: .csv, .csv.gz or .parquet.
        time, event, groups, centres : str, optional
            Names of columns. A study names its own, so that a replication needs none.

        Returns
        -------
        self : estimator
            Fitted.
        """
        study = study_of(self.study, self._kind)
        if study is not None:
            table = table_of(study.design, path)
            time, event = study.design.loss.time, study.design.target
        elif time is None or event is None:
            raise ReplearnError("fit_file needs the columns of time and event. Name both.")
        else:
            table = open_table(path, target=time, offset=event, groups=groups, centres=centres)

        set_columns(self, table)
        self._learn(table, {"target": event, "time": time}, study)
        return self

    @available_if(lambda self: False)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Not there: a replication of survival needs all rows at once.

        Parameters
        ----------
        X : object
            Not used.
        y : object
            Not used.

        Returns
        -------
        self : estimator
            Never: it raises an error.
        """
        raise NotImplementedError

    def predict(self, X: Any) -> Vector:
        """Log-hazard of each row: the larger, the earlier the event.

        Parameters
        ----------
        X : dataframe or array of shape (n_samples, n_features)
            Rows with the columns of the fit.

        Returns
        -------
        hazards : array of shape (n_samples,)
            Sums of the terms, without the baseline.
        """
        check_is_fitted(self, "model_")
        return log_hazards(self._model(), self._columns(X))

    def predict_survival(self, X: Any, times: Any) -> Vector:
        """Probability that the event has not come by each of the times, a row for each row of X.

        Parameters
        ----------
        X : dataframe or array of shape (n_samples, n_features)
            Rows with the columns of the fit.
        times : array-like of shape (n_times,)
            In the unit of the fit.

        Returns
        -------
        survival : array of shape (n_samples, n_times)
            Probabilities.
        """
        check_is_fitted(self, "model_")
        return survival_at(self._model(), self._columns(X), times)

    def predict_risk(self, X: Any, horizon: float) -> Vector:
        """Probability that the event comes within the horizon, in the unit of the times.

        Parameters
        ----------
        X : dataframe or array of shape (n_samples, n_features)
            Rows with the columns of the fit.
        horizon : float
            In the unit of the fit.

        Returns
        -------
        risks : array of shape (n_samples,)
            Probabilities.
        """
        return 1.0 - self.predict_survival(X, [horizon])[:, 0]

    def score(self, X: Any, y: Any) -> float:
        """Harrell's concordance of the risks and what came.

        Parameters
        ----------
        X : dataframe or array of shape (n_samples, n_features)
            Rows with the columns of the fit.
        y : structured array of shape (n_samples,)
            Event and time, as in `fit`.

        Returns
        -------
        score : float
            0.5 is guessing, 1 is perfect.
        """
        event, time, _ = _event_and_time(y)
        return concordance(self.predict(X), time, event.astype(np.float64))

    def _columns(self, X: Any) -> Any:
        """X as `open_table` takes it: an array gets the names of the fit."""
        names = getattr(self, "feature_names_in_", None)
        if hasattr(X, "columns") or names is None:
            return X
        return dict(zip(names, np.asarray(X).T, strict=True))


def _event_and_time(y: Any) -> tuple[Mask, Vector, tuple[str, str]]:
    """What a structured array holds, as scikit-survival makes it."""
    fields = getattr(getattr(y, "dtype", None), "names", None)
    if fields is None or len(fields) != 2 or y.dtype[0].kind != "b":
        raise ReplearnError(
            "y must be a structured array with two fields, whether the event was seen and the "
            "time, as Surv.from_arrays(event, time) of scikit-survival makes it. Without that "
            'package: numpy.array(list(zip(event, time)), dtype=[("event", "?"), ("time", "f8")]).'
        )
    return y[fields[0]], y[fields[1]].astype(np.float64), fields
