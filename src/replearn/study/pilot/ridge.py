"""Ridge logistic regression on a pilot, and scores of rows that a fit has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from replearn.codes.randomness import SharedRandomness
from replearn.types import IntegerArray, Matrix, Vector

Truth = NDArray[np.bool_]

#: Ridge weights that are tried, in units of the mean squared length of a row. Tables whose classes
#: are nearly separable want the smallest.
WEIGHTS = tuple(10.0 ** np.arange(-6, 0.6, 0.5))

N_FOLDS = 5


@dataclass(frozen=True)
class HeldOut:
    """Ridge fits of a pilot, each judged by the rows that it has not seen.

    Fits are an intercept and weights. An intercept and a slope correct the held-out scores: fits on
    small samples are too sure.
    """

    truth: Truth  # which rows have the second label
    fold: IntegerArray  # of each row
    weight: float  # the ridge weight whose held-out log-loss is smallest
    by_fold: list[Vector]  # fits that leave out each fold
    whole: Vector  # the fit on all rows
    scores: Vector  # log-odds of each row by the fit that has not seen it
    correction: Vector

    @property
    def calibrated(self) -> Vector:
        """Held-out log-odds, calibrated."""
        return np.asarray(self.correction[0] + self.correction[1] * self.scores)


def held_out(rows: Matrix, truth: Truth, shared: SharedRandomness) -> HeldOut:
    """Choose the ridge weight by cross-validation, and fit."""
    fold = stratified_folds(truth, shared)
    scores = np.zeros((len(WEIGHTS), truth.size))
    paths = []
    for left_out in range(N_FOLDS):
        seen = fold != left_out
        path = ridge_path(rows[seen], truth[seen], WEIGHTS)
        paths.append(path)
        for i, fit in enumerate(path):
            scores[i, ~seen] = log_odds(rows[~seen], fit)
    best = int(np.argmin([log_loss(truth, row) for row in scores]))
    return HeldOut(
        truth=truth,
        fold=fold,
        weight=WEIGHTS[best],
        by_fold=[path[best] for path in paths],
        whole=ridge_path(rows, truth, WEIGHTS[best:])[0],
        scores=scores[best],
        correction=calibration(scores[best], truth),
    )


def stratified_folds(labels: Truth | IntegerArray, shared: SharedRandomness) -> IntegerArray:
    """Folds with equal shares of all classes."""
    fold = np.empty(labels.size, dtype=np.int64)
    for label in np.unique(labels).tolist():
        members = np.flatnonzero(labels == label)
        order = shared.permutation(f"pilot/folds/{int(label)}", members.size)
        fold[members[order]] = np.arange(members.size) % N_FOLDS
    return fold


def ridge_path(rows: Matrix, truth: Truth, weights: Sequence[float]) -> list[Vector]:
    """Fits for all ridge weights; each starts at that of the next larger weight."""
    path: list[Vector] = []
    for weight in reversed(weights):
        path.append(ridge_fit(rows, truth, weight, path[-1] if path else None))
    return path[::-1]


def ridge_fit(rows: Matrix, truth: Truth, weight: float, start: Vector | None = None) -> Vector:
    """Intercept, which is free, and weights of a ridge logistic regression."""
    n_rows = len(rows)
    curvature = 0.25 * (rows * rows).mean(axis=0)
    units = np.concatenate([[2.0], 1 / np.sqrt(curvature + weight)])  # for an even curvature

    def loss(scaled: Vector) -> tuple[float, Vector]:
        fit = scaled * units
        scores = log_odds(rows, fit)
        residuals = (expit(scores) - truth) / n_rows
        slope = np.concatenate([[residuals.sum()], rows.T @ residuals + weight * fit[1:]])
        penalty = 0.5 * weight * float(fit[1:] @ fit[1:])
        return log_loss(truth, scores) + penalty, slope * units

    first = np.zeros(rows.shape[1] + 1) if start is None else start / units
    options = {"maxiter": 60, "ftol": 1e-8, "gtol": 1e-5}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x * units)


def log_odds(rows: Matrix, fit: Vector) -> Vector:
    """Scores of rows by an intercept and weights."""
    return np.asarray(rows @ fit[1:] + fit[0])


def log_loss(truth: Truth, scores: Vector) -> float:
    """Mean log-loss of log-odds, in nats."""
    return float(-np.mean(np.where(truth, log_expit(scores), log_expit(-scores))))


def calibration(scores: Vector, truth: Truth) -> Vector:
    """Intercept and slope that make scores calibrated, drawn a little towards 0 and 1."""
    columns = np.column_stack([np.ones(scores.size), scores])
    towards, pull = np.array([0.0, 1.0]), np.array([1e-3, 1e-2 * (scores.var() + 1e-9)])
    fit = towards.copy()
    for _ in range(8):
        chance = expit(columns @ fit)
        slope = columns.T @ (chance - truth) / scores.size + pull * (fit - towards)
        curvature = (columns * (chance * (1 - chance))[:, None]).T @ columns / scores.size
        fit = fit - short_step(curvature + np.diag(pull), slope)
    return fit


def short_step(curvature: Matrix, slope: Vector) -> Vector:
    """A Newton step, at most of length 1 in the metric of the curvature."""
    step = np.linalg.solve(curvature, slope)
    length = np.sqrt(max(float(step @ curvature @ step), 1e-300))
    return np.asarray(step * min(1.0, 1.0 / length))
