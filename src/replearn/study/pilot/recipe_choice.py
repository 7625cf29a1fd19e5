"""Logistic regression or Algorithm 1: the one that a pilot's held-out rows like better."""

import math
from dataclasses import replace
from typing import Any

from replearn.codes.decimals import Decimals
from replearn.study.pilot.pilot_plan import PilotPlan
from replearn.study.pilot.request import Request
from replearn.study.pilot.safe_columns import Remark
from replearn.study.pilot.svm_plan import SvmPilotPlan, plan_svm_study
from replearn.types import Signs

#: Settings of Algorithm 1 that are tried: its accuracy changes little between them.
_FEW = (0.03, 0.3)


def better_recipe(
    logistic: PilotPlan,
    X: Any,
    signs: Signs | None,
    classes: tuple[Any, ...] | None,
    balanced: Decimals,
    remarks: tuple[Remark, ...],
    request: Request,
) -> PilotPlan | SvmPilotPlan:
    """The plan to take, which says what the other recipe would have given.

    Both are judged by balanced accuracy on held-out rows, with the rounding noise drawn;
    ``balanced`` are the weights of the classes that make an accuracy such a one. Algorithm 1 is the
    best of several settings, has no probabilities, and a pilot errs: it is taken if it is better by
    more than the standard error of such a score.
    """
    if signs is None or classes is None or request.needs_logistic:
        return replace(
            logistic,
            other="Algorithm 1 was not tried: it is planned from labels, for two sites, without "
            "scores, thresholds and discovery",
        )
    first = plan_svm_study(X, signs, classes, remarks, request, balanced, regularizations=_FEW)
    ours, theirs = logistic.table[2].balanced_accuracy, first.chosen.accuracy
    if theirs > ours + _standard_error(ours, logistic.n_positive, logistic.n_pilot):
        return replace(
            first,
            other=f"a logistic study would have balanced accuracy {ours:.3f}, not {theirs:.3f}",
        )
    return replace(
        logistic,
        other=f"Algorithm 1 ({first.chosen.projection}, balanced classes) would have balanced "
        f"accuracy {theirs:.3f}, and no probabilities",
    )


def _standard_error(accuracy: float, n_positive: int, n_pilot: int) -> float:
    """Of a balanced accuracy: half the sum of two shares of independent rows."""
    spread = accuracy * (1 - accuracy)
    return 0.5 * math.sqrt(spread / max(n_positive, 1) + spread / max(n_pilot - n_positive, 1))
