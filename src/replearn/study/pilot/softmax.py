"""Softmax regression on a pilot: fits, and what their gradients and curvatures are.

Scores of K classes are the columns of a matrix; the first class has the score 0 where there are
only K - 1 columns.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from replearn.codes.randomness import SharedRandomness
from replearn.study.pilot.ridge import N_FOLDS, stratified_folds
from replearn.types import IntegerArray, Matrix, Vector

#: Ridge weights that are tried, in units of the mean squared length of a row. Text of seven classes
#: wants 3e-5, forest cover 1e-5.
_WEIGHTS = (3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2, 1e-1)

#: Slopes that are tried to calibrate held-out scores.
_SLOPES = np.linspace(0.3, 1.5, 25)

#: Probabilities are drawn towards equal ones by this much where a curvature is made of them: those
#: of a small pilot are too sure, and a step in a curvature that is too small goes too far.
_SMOOTH = 0.1


@dataclass(frozen=True)
class Fits:
    """Ridge fits of a pilot, each judged by the rows that it has not seen.

    Fits have an intercept and weights in the row of each class.
    """

    fold: IntegerArray
    by_fold: list[Matrix]  # fits that leave out each fold
    whole: Matrix
    scores: Matrix  # of each row by the fit that has not seen it, calibrated
    slope: float  # that calibrates: fits on small samples are too sure


def held_out_fits(
    rows: Matrix, numbers: IntegerArray, counts: Vector, shared: SharedRandomness
) -> Fits:
    """Choose the ridge weight by cross-validation, and fit."""
    fold, n_classes = stratified_folds(numbers, shared), int(numbers.max()) + 1
    scores = np.zeros((len(_WEIGHTS), numbers.size, n_classes))
    paths: list[list[Matrix]] = []
    for left_out in range(N_FOLDS):
        seen = fold != left_out
        path: list[Matrix] = []
        for weight in reversed(_WEIGHTS):
            start = path[-1] if path else None
            path.append(
                ridge_fit(rows[seen], numbers[seen], counts[seen], n_classes, weight, start)
            )
        paths.append(path[::-1])
        for i, fit in enumerate(paths[-1]):
            scores[i, ~seen] = scores_of(rows[~seen], fit)
    best = int(np.argmin([weighted_loss(numbers, one, counts) for one in scores]))
    losses = [weighted_loss(numbers, slope * scores[best], counts) for slope in _SLOPES]
    slope = float(_SLOPES[int(np.argmin(losses))])
    whole = ridge_fit(rows, numbers, counts, n_classes, _WEIGHTS[best], paths[0][best])
    return Fits(fold, [path[best] for path in paths], whole, slope * scores[best], slope)


def ridge_fit(
    rows: Matrix,
    numbers: IntegerArray,
    counts: Vector,
    n_classes: int,
    weight: float,
    start: Matrix | None = None,
) -> Matrix:
    """Intercepts, which are free, and weights of a softmax regression: one row for each class."""
    n_columns = rows.shape[1]
    truth = np.eye(n_classes)[numbers]
    curvature = 0.25 * (rows * rows).mean(axis=0)
    units = np.concatenate([[2.0], 1 / np.sqrt(curvature + weight)])
    total = counts.sum()

    def loss(flat: Vector) -> tuple[float, Vector]:
        fit = flat.reshape(n_classes, n_columns + 1) * units
        scores = scores_of(rows, fit)
        residuals = (softmax(scores, axis=1) - truth) * (counts / total)[:, None]
        slope = np.column_stack([residuals.sum(axis=0), residuals.T @ rows + weight * fit[:, 1:]])
        penalty = 0.5 * weight * float((fit[:, 1:] ** 2).sum())
        return weighted_loss(numbers, scores, counts) + penalty, (slope * units).ravel()

    first = np.zeros((n_classes, n_columns + 1)) if start is None else start / units
    options = {"maxiter": 40, "ftol": 1e-7, "gtol": 1e-5}
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x.reshape(n_classes, n_columns + 1) * units)


def scores_of(rows: Matrix, fit: Matrix) -> Matrix:
    """Scores of rows by intercepts and weights of classes."""
    return np.asarray(rows @ fit[:, 1:].T + fit[:, 0])


def weighted_loss(numbers: IntegerArray, scores: Matrix, counts: Vector) -> float:
    """Mean log-loss, in nats."""
    own = log_softmax(scores, axis=1)[np.arange(numbers.size), numbers]
    return float(-(counts * own).sum() / counts.sum())


def moments(
    columns: Matrix, numbers: IntegerArray, counts: Vector, theta: Matrix, smooth: float = _SMOOTH
) -> tuple[Vector, Matrix, Matrix]:
    """Mean score, curvature and second moments of the score of each row at ``theta``.

    ``theta`` has shape (q, K - 1): weights of the columns for each class but the first. Coordinate
    (column j, class c) has the place ``j (K - 1) + c`` in the results.
    """
    n_rows, q = columns.shape
    n_outputs = theta.shape[1]
    scores = np.column_stack([np.zeros(n_rows), columns @ theta])
    chance = softmax(scores, axis=1)
    residuals = (chance - np.eye(n_outputs + 1)[numbers])[:, 1:] * counts[:, None]
    parts = (columns[:, :, None] * residuals[:, None, :]).reshape(n_rows, q * n_outputs)
    p = ((1 - smooth) * chance + smooth / (n_outputs + 1))[:, 1:]
    curvature = np.zeros((q, n_outputs, q, n_outputs))
    for c in range(n_outputs):
        for e in range(c, n_outputs):
            weights = counts * (p[:, c] * (float(c == e) - p[:, e]))
            block = (columns * weights[:, None]).T @ columns / n_rows
            curvature[:, c, :, e] = curvature[:, e, :, c] = block
    size = q * n_outputs
    return parts.mean(axis=0), curvature.reshape(size, size), parts.T @ parts / n_rows
