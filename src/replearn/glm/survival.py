"""What a survival model predicts: hazard ratios, survival and risk at a time, and concordance."""

import bisect
from dataclasses import replace
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm.losses import Hazard
from replearn.glm.model import GlmModel
from replearn.tables import Encoding, Table, open_table, time_at_risk
from replearn.types import Matrix, Vector


def hazard_of(model: GlmModel) -> Hazard:
    """The loss of a survival model; other models are refused."""
    loss = model.design.loss
    if not isinstance(loss, Hazard):
        raise ReplearnError(f"a survival model is needed, got one of {loss.title}. Use predict.")
    return loss


def log_hazards(model: GlmModel, X: Any) -> Vector:
    """Log-hazard of each row in the first interval: its order is that of the risks."""
    _, encoding, theta, _ = _parts(model)
    batches = (X if isinstance(X, Table) else open_table(X, columns=encoding.names)).batches()
    constant = model.theta[0, 0]
    return np.concatenate([encoding.values(batch) @ theta for batch in batches]) + constant


def survival_at(model: GlmModel, X: Any, times: Any) -> Matrix:
    """Probability that the event has not come by each time: a row for each row of X."""
    loss, _, _, later = _parts(model)
    spent = time_at_risk(np.asarray(times, dtype=np.float64).reshape(-1), loss.cuts)
    cumulated = spent @ np.exp(later)  # of a log-hazard of 0
    return np.exp(-np.multiply.outer(np.exp(log_hazards(model, X)), cumulated))


def concordance(risks: Vector, times: Vector, events: Vector) -> float:
    """Harrell's: of pairs whose order is known, the share in which the higher risk came first.

    Equal risks count half. A row that is censored when another has its event lived longer.
    """
    order = np.lexsort((events, -times))  # the longest first; censored ones before events
    below: list[float] = []
    good = pairs = 0.0
    waiting: list[float] = []  # events of one time are no pair
    last = None
    for i in order.tolist():
        if times[i] != last:
            for risk in waiting:
                bisect.insort(below, risk)
            waiting, last = [], times[i]
        risk = float(risks[i])
        if events[i]:
            low, high = bisect.bisect_left(below, risk), bisect.bisect_right(below, risk)
            good += low + (high - low) / 2
            pairs += len(below)
            waiting.append(risk)
        else:
            bisect.insort(below, risk)
    if not pairs:
        raise ReplearnError("rows must have an event with a longer time beside it, got none.")
    return good / pairs


def _parts(model: GlmModel) -> tuple[Hazard, Encoding, Vector, Vector]:
    """Loss, encoding and coefficients without the interval; and log-hazard ratios of intervals."""
    loss, encoding, theta = hazard_of(model), model.design.encoding, model.theta[0, 1:]
    others = encoding.own_columns
    n_others = sum(len(column.terms) for column in others)
    n_intervals = len(encoding.terms) - n_others - len(encoding.products)
    # the interval is the last column: its terms stand before the products
    rest = np.append(theta[:n_others], theta[n_others + n_intervals :])
    later = np.append(0.0, theta[n_others : n_others + n_intervals])
    return loss, replace(encoding, columns=others), rest, later
