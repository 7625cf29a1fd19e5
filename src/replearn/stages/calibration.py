"""Whether probabilities mean what they say: intercept, slope, and the shares behind a plot."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from replearn.stages.intervals import CONFIDENCE, Measured, normal_quantile, share
from replearn.types import IntegerArray, Matrix, Vector

#: Probabilities nearer to 0 or 1 than this count as so near, so that a sure error costs 34.5 nats.
LEAST = 1e-15

_STEPS, _CONVERGED = 50, 1e-10
_BINS = 10
_WIDEST = 1e3  # a standard error beyond this is that of a number which runs away


@dataclass(frozen=True)
class Calibration:
    """How the log-odds of a model would have to be corrected.

    Attributes
    ----------
    intercepts : tuple of Measured
        What to add to the log-odds of each class but the first, against the first, the slope kept
        at 1 ("calibration in the large"): 0 if the mean probability is right, positive if it is
        too low.
    slope : Measured or None
        What to multiply them by, intercepts free: 1 is right, below 1 the model is too sure.
        None if it does not exist (constant probabilities, or classes that they separate).
    """

    intercepts: tuple[Measured, ...]
    slope: Measured | None


def calibrate(
    probabilities: Matrix, truth: IntegerArray, confidence: float = CONFIDENCE
) -> Calibration | None:
    """Calibration intercepts and slope, by maximum likelihood, with Wald intervals.

    ``truth`` holds class numbers. None if a class has no rows.
    """
    n_classes = probabilities.shape[1]
    counts = np.bincount(truth, minlength=n_classes)
    if not counts.all():
        return None
    logs = np.log(np.clip(probabilities, LEAST, 1.0))
    odds = logs[:, 1:] - logs[:, :1]
    hit = truth[:, None] == np.arange(1, n_classes)
    large = _maximise(odds, hit, free_slope=False)
    full = _maximise(odds, hit, free_slope=True)
    if large is None:
        return None
    z = normal_quantile(confidence)
    return Calibration(
        tuple(_wald(value, error, z) for value, error in zip(*large, strict=True)),
        None if full is None else _wald(full[0][-1], full[1][-1], z),
    )


def _wald(value: float, error: float, z: float) -> Measured:
    return Measured(float(value), float(value - z * error), float(value + z * error), "Wald")


def _maximise(
    odds: Matrix, hit: NDArray[np.bool_], *, free_slope: bool
) -> tuple[Vector, Vector] | None:
    """Intercepts (and the slope, last) and standard errors; None if there is no maximum."""
    n_rows, n_outputs = odds.shape
    theta = np.zeros(n_outputs + free_slope)
    if free_slope:
        theta[-1] = 1.0
    loss, gradient, hessian = _newton_parts(odds, hit, theta, free_slope)
    for _ in range(_STEPS):
        if not np.isfinite(hessian).all() or np.linalg.cond(hessian) > 1e14:
            return None
        step = np.linalg.solve(hessian, gradient)
        decrease = float(gradient @ step)
        if decrease <= _CONVERGED * n_rows:
            errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
            runs_away = loss < 1e-6 * n_rows or bool((errors > _WIDEST).any())
            return None if runs_away else (theta - step, errors)
        scale = 1.0
        while scale > 1e-6:
            trial = _newton_parts(odds, hit, theta - scale * step, free_slope)
            if trial[0] <= loss - 0.25 * scale * decrease:
                break
            scale /= 2
        theta = theta - scale * step
        loss, gradient, hessian = trial
    return None


def _newton_parts(
    odds: Matrix, hit: NDArray[np.bool_], theta: Vector, free_slope: bool
) -> tuple[float, Vector, Matrix]:
    """Negative log-likelihood, its gradient and its second derivatives."""
    n_outputs = odds.shape[1]
    slope = float(theta[-1]) if free_slope else 1.0
    scores = slope * odds + theta[:n_outputs]
    top = np.maximum(scores.max(axis=1), 0.0)
    weights = np.exp(scores - top[:, None])
    total = weights.sum(axis=1) + np.exp(-top)
    p = weights / total[:, None]
    loss = float((np.log(total) + top).sum() - scores[hit].sum())
    surprise = p - hit
    gradient = surprise.sum(axis=0)
    hessian = np.diag(p.sum(axis=0)) - p.T @ p
    if not free_slope:
        return loss, gradient, hessian
    along = (p * odds).sum(axis=1)
    mixed = (p * (odds - along[:, None])).sum(axis=0)
    spread = float((p * odds**2).sum() - (along**2).sum())
    gradient = np.append(gradient, (surprise * odds).sum())
    hessian = np.block([[hessian, mixed[:, None]], [mixed[None, :], np.array([[spread]])]])
    return loss, gradient, hessian


@dataclass(frozen=True)
class Bin:
    """Rows with about the same probability: the predicted one, and what was observed."""

    n_rows: int
    predicted: float
    observed: Measured


def calibration_bins(
    probability: Vector, positive: NDArray[np.bool_], confidence: float = CONFIDENCE
) -> tuple[Bin, ...]:
    """Rows in order of their probability, cut into bins of about equal size.

    Equal probabilities are never cut apart, so there may be fewer bins.
    """
    order = np.argsort(probability, kind="stable")
    predicted, observed = probability[order], positive[order]
    wanted = np.linspace(0, predicted.size, _BINS + 1)[1:-1].astype(np.int64)
    cuts = (
        np.unique(np.searchsorted(predicted, predicted[wanted], "left"))
        if predicted.size
        else wanted
    )
    edges = [0, *(int(cut) for cut in cuts if cut > 0), predicted.size]
    return tuple(
        Bin(
            high - low,
            math.fsum(predicted[low:high]) / (high - low),
            share(int(observed[low:high].sum()), high - low, confidence),
        )
        for low, high in pairwise(edges)
        if high > low
    )
