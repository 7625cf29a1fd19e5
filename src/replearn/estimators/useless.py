"""Warnings of useless models: the one place for all fits and evaluations."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

from replearn.codes.model import Model
from replearn.errors import UselessModelWarning
from replearn.stages.batches import Rows
from replearn.stages.planned import Planned
from replearn.stages.signal import Signal
from replearn.stages.weights import parted
from replearn.stages.worth import Worth, worth
from replearn.warn import warn

_warns: ContextVar[bool] = ContextVar("warns", default=True)


@contextmanager
def without_warnings_of_worth() -> Iterator[None]:
    """Fit without warnings of worth: code that fits many models warns once for all of them."""
    before = _warns.set(False)
    try:
        yield
    finally:
        _warns.reset(before)


def warn_if_useless(found: Worth, planned: Planned | None = None) -> None:
    """Warn of what makes a model useless, or worth less than the pilot's own, all at once."""
    problems = found.problems + (() if planned is None else planned.problems(found))
    if problems:
        warn(" ".join(problems), UselessModelWarning)


def warn_of_noise(signal: Signal | None) -> None:
    """Warn if the rows of a fit show no signal."""
    if signal is not None and signal.problem and _warns.get():
        warn(signal.problem, UselessModelWarning)


def warn_of_fit(
    model: Model, rows: Rows, notes: Any, class_weights: bool, signal: Signal | None
) -> None:
    """Warn if a logistic model is worth nothing on the (encoded) rows that it was fitted on.

    ``notes`` say what the protocol knows of its pilot. With ``class_weights`` classes count by
    published weights, so probabilities are not those of these rows. If the rows show no signal,
    that was reported: the scores on rows that the model has seen prove nothing.
    """
    numbers, weights = parted(rows.signs)
    if signal is not None and not signal.found:
        return
    if weights is not None or not _warns.get():  # weighted rows are another population
        return
    scores = model.scores(rows.X)
    chances = model.probabilities(scores)
    found = worth(
        numbers.astype(np.int64),
        model.decided(scores),
        labels=model.classes,
        # of several classes a score is relative to the first class: it ranks no class by itself
        scores=scores if len(model.classes) == 2 else chances,
        probabilities=None if class_weights else chances,
        calibrated=False,
    )
    if signal is not None:
        found = replace(found, signal_p=signal.p_value)
    warn_if_useless(found, Planned.of(notes))
