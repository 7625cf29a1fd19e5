"""Hazard ratios without a baseline: Cox's partial likelihood of rows at risk.

A study shares a hazard that is constant in each interval. With few intervals it follows the true
one roughly, and own estimates of hazard ratios move by up to a third of a standard error; with an
interval for each event they become Cox's. So a lab's *own* estimates are Cox's, with Efron's way
of ties. Rows at risk are those of a counting process: all rows of an interval enter where it
begins, so risk sets are sums from the longest time downwards.
"""

from dataclasses import dataclass

import numpy as np

from replearn.types import Array, Matrix, Vector

_MOST_STEPS = 50
#: What is left of a ridge, in rows: columns that separate keep a finite interval.
_LEFT = 0.01
_SMALL = 1e-9


@dataclass(frozen=True, eq=False)
class CoxFit:
    """Log-hazard ratios, and their covariance by the sandwich or the model, the larger one."""

    beta: Vector
    covariance: Matrix


def cox_fit(
    X: Matrix, interval: Array, time: Vector, event: Vector, groups: Array, pinned: Vector
) -> CoxFit | None:
    """Fit rows at risk, ``time`` being what each spends in its interval; None if steps do not end.

    ``groups`` are persons, or clusters of them: residuals add up in each one before the sandwich
    squares them, as Lin and Wei have it (JASA 84, 1989).
    ``pinned`` is a ridge of each column, which keeps those that follow from others at 0.
    """
    left = _LEFT + pinned
    # rows of an interval enter together; the longest time comes first
    strata = [np.flatnonzero(interval == k) for k in np.unique(interval)]
    strata = [rows[np.argsort(-time[rows], kind="stable")] for rows in strata]

    # Newton's steps, halved where the likelihood falls: far values and separating columns need that
    beta = before = np.zeros(X.shape[1])
    highest = -np.inf
    for _ in range(_MOST_STEPS):
        value, scores, information = _derivatives(X, strata, time, event, beta)
        value -= 0.5 * float(left @ beta**2)
        if not value >= highest - _SMALL * abs(highest):
            beta = 0.5 * (beta + before)
            continue

        gradient = scores.sum(axis=0) - left * beta
        step = np.linalg.solve(information + np.diag(left), gradient)
        if float(gradient @ step) < _SMALL:
            break
        before, highest = beta, value
        beta = beta + step
    else:
        return None

    # the sandwich, with residuals added up within groups
    _, places = np.unique(groups, return_inverse=True)
    grouped = np.zeros((int(places.max()) + 1, len(beta)))
    np.add.at(grouped, places, scores)
    inverse = np.linalg.inv(information + np.diag(left))
    sandwich = inverse @ (grouped.T @ grouped) @ inverse

    # what the model predicts, where that is more
    variance = np.diagonal(sandwich)
    larger = np.maximum(variance, np.diagonal(inverse)) / variance
    return CoxFit(beta, sandwich * np.sqrt(np.outer(larger, larger)))


def _derivatives(
    X: Matrix, strata: list[Array], time: Vector, event: Vector, beta: Vector
) -> tuple[float, Matrix, Matrix]:
    """The logarithm of the likelihood, the score residual of each row, and the information."""
    value, scores = 0.0, np.zeros_like(X)
    information = np.zeros((X.shape[1], X.shape[1]))
    eta = X @ beta
    eta -= eta.max()  # a common factor changes nothing
    weight = np.exp(eta)

    for rows in strata:
        logs, of_rows, part = _of_stratum(X[rows], weight[rows], time[rows], event[rows])
        value += float(eta[rows] @ event[rows]) - logs
        scores[rows] = of_rows
        information += part
    return value, scores, information


def _of_stratum(X: Matrix, w: Vector, time: Vector, event: Vector) -> tuple[float, Matrix, Matrix]:
    """The same for rows that enter together, the longest time first; first what the value loses."""
    at_risk = np.cumsum(w)
    at_risk_x = np.cumsum(w[:, None] * X, axis=0)
    hazard, hazard_x = np.zeros(len(w)), np.zeros_like(X)  # what rows collect at each event
    drop, drop_x = np.zeros(len(w)), np.zeros_like(X)  # less for those whose event it is
    mean_at = np.zeros_like(X)
    squares = np.zeros((X.shape[1], X.shape[1]))
    logs = 0.0

    for moment in np.unique(time[event > 0]).tolist():
        # the events of this moment, and the last of the rows that are at risk
        first, end = (int(np.searchsorted(-time, -moment, side)) for side in ("left", "right"))
        here, last = first + np.flatnonzero(event[first:end] > 0), end - 1

        # Efron's: of tied events each one leaves a larger share of them
        tied, tied_x = float(w[here].sum()), (w[here, None] * X[here]).sum(axis=0)
        share = np.arange(len(here)) / len(here)
        total = at_risk[last] - share * tied
        means = (at_risk_x[last] - share[:, None] * tied_x) / total[:, None]

        logs += float(np.log(total).sum())
        hazard[last] += float((1 / total).sum())
        hazard_x[last] += (means / total[:, None]).sum(axis=0)
        drop[here] = float((share / total).sum())
        drop_x[here] = ((share / total)[:, None] * means).sum(axis=0)
        mean_at[here] = means.mean(axis=0)
        squares += means.T @ means

    # a row collects the hazard of all events up to its time: those that stand after it, and its own
    collected = np.cumsum(hazard[::-1])[::-1] - drop
    collected_x = np.cumsum(hazard_x[::-1], axis=0)[::-1] - drop_x
    seen = event[:, None] * (X - mean_at)
    expected = w[:, None] * (X * collected[:, None] - collected_x)
    information = (X * (w * collected)[:, None]).T @ X - squares
    return logs, seen - expected, information
