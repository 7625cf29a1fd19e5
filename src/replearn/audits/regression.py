"""What a regression is worth on rows with numbers, next to the mean."""

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replearn.codes.model import Model
from replearn.errors import ReplearnError, UselessModelWarning
from replearn.sources.common import total_seen, warn_if_coded_differently
from replearn.sources.numbers import Numbers
from replearn.sources.opening import source_for
from replearn.stages.intervals import CONFIDENCE, Measured, mean, normal_quantile
from replearn.types import InNotebooks, Vector
from replearn.warn import warn

if TYPE_CHECKING:
    from replearn.sources import Watch

#: Rows that are needed to say anything.
FEWEST_ROWS = 20


@dataclass(frozen=True)
class RegressionWorth(InNotebooks):
    """What a regression is worth on some rows.

    Attributes
    ----------
    fingerprint : str or None
    place : str
        Where the rows are.
    n_rows : int
    r2, rmse, mae : Measured
        Share of the variance that is explained, root mean square and mean size of the errors.
    mean_rmse, mean_mae : float
        Those of the mean of these very rows, given to all.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> y = X[:, 0] + np.random.default_rng(1).normal(size=5000)
    >>> fitted = rl.ReplicableLinearRegressor((-6, 6), 0.5, samples_per_site=5000).fit(X, y)
    >>> rl.evaluate_regression(fitted, X, y).r2.value > 0.4
    True
    """

    fingerprint: str | None
    place: str
    n_rows: int
    r2: Measured
    rmse: Measured
    mae: Measured
    mean_rmse: float
    mean_mae: float

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.n_rows:,} rows of {self.place}, next to their mean",
                f"  R2     {self.r2}",
                f"  RMSE   {_in_units(self.rmse)}   the mean: {self.mean_rmse:.4g}",
                f"  MAE    {_in_units(self.mae)}   the mean: {self.mean_mae:.4g}",
            ]
        )

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        names = ("fingerprint", "place", "n_rows", "mean_rmse", "mean_mae")
        measured = {name: getattr(self, name).data() for name in ("r2", "rmse", "mae")}
        return {name: getattr(self, name) for name in names} | measured


def evaluate_regression(
    model: Any, X: Any, y: Any, *, confidence: float = CONFIDENCE
) -> RegressionWorth:
    """Say what a fitted regression is worth on rows with numbers.

    Parameters
    ----------
    model : Model, or any fitted regressor
        What is evaluated.
    X : rows, as the model takes them
        Rows that the model has not seen, or its worth is flattered.
    y : array of numbers
        What is to be predicted, a number for each row.
    confidence : float, default=0.95
        Of every interval.

    Returns
    -------
    RegressionWorth
        R2, RMSE and MAE next to the mean, with intervals; it prints as a table.

    Warns
    -----
    UselessModelWarning
        If the model is not shown to be better than the mean.

    Notes
    -----
    Intervals are those of a mean of many independent rows (normal; that of R2 by the delta method),
    so that they are too narrow for few rows and heavy tails.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> y = X[:, 0] + np.random.default_rng(1).normal(size=5000)
    >>> fitted = rl.ReplicableLinearRegressor((-6, 6), 0.5, samples_per_site=5000).fit(X, y)
    >>> found = rl.evaluate_regression(fitted, X, y)
    >>> found.rmse.value < found.mean_rmse
    True
    """
    numbers = np.asarray(y, dtype=np.float64)
    predicted = np.asarray(model.predict(X), dtype=np.float64)
    if numbers.shape != predicted.shape:
        raise ReplearnError(f"y must have {predicted.size} numbers, got shape {numbers.shape}.")
    fingerprint = getattr(model, "fingerprint", getattr(model, "fingerprint_", None))
    return _measured(predicted, numbers, fingerprint, "arrays in memory", confidence)


def evaluate_regression_file(
    model: Model,
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    confidence: float = CONFIDENCE,
    watch: "Watch | None" = None,
) -> RegressionWorth:
    """The same for the rows of a file, or a folder of files, which are read piece by piece."""
    place, source = os.fspath(path), source_for(model, path, target)
    if not source.labelled:
        raise ReplearnError(
            f"{place}: numbers are needed, got none. Name their column (target, on the command "
            "line --target)."
        )
    space: Any = model.space
    numbers = Numbers(f"the column of numbers of {place}", space)
    truth, predicted, seen = [], [], []
    for piece in source.pieces(watch=watch):
        assert piece.y is not None  # the source is labelled
        truth.append(numbers.take(piece.y))
        predicted.append(model.scores(piece.X))
        seen.append(piece.seen)
    warn_if_coded_differently(place, model.encoding, total_seen(seen))
    return _measured(
        np.concatenate(predicted), np.concatenate(truth), model.fingerprint, place, confidence
    )


def _measured(
    predicted: Vector, truth: Vector, fingerprint: str | None, place: str, confidence: float
) -> RegressionWorth:
    if truth.size < FEWEST_ROWS:
        raise ReplearnError(
            f"an evaluation needs at least {FEWEST_ROWS} rows, got {truth.size}. Take more."
        )
    errors, apart = predicted - truth, truth - truth.mean()
    square, variance = float((errors**2).mean()), float((apart**2).mean())
    if variance == 0:
        raise ReplearnError("numbers must vary, or there is nothing to explain. Take other rows.")
    r2 = 1 - square / variance
    # the delta method: how far one row moves the quotient of two means
    pull = (errors**2 - square) / variance - square * (apart**2 - variance) / variance**2
    half = normal_quantile(confidence) * float(pull.std()) / math.sqrt(truth.size)
    squares = mean(errors**2, confidence)
    low, high = math.sqrt(max(0.0, squares.low)), math.sqrt(squares.high)
    rmse = Measured(math.sqrt(square), low, high, squares.method)
    found = RegressionWorth(
        fingerprint,
        place,
        truth.size,
        Measured(r2, r2 - half, min(1.0, r2 + half), "delta method"),
        rmse,
        mean(np.abs(errors), confidence),
        math.sqrt(variance),
        float(np.abs(apart).mean()),
    )
    if found.r2.low <= 0:
        warn(
            f"The model is not shown to predict better than the mean: R2 {found.r2}. Get more "
            "rows or hint bits, or other columns.",
            UselessModelWarning,
        )
    return found


def _in_units(measured: Measured) -> str:
    return f"{measured.value:.4g} ({measured.low:.4g} to {measured.high:.4g})"
