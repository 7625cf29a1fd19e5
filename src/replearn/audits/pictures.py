"""What ``plot()`` draws: plans, certificates, audits, protocols and models on given or new axes."""

import math
from functools import singledispatch
from typing import Any

import numpy as np

from replearn.audits.figures import (
    BLUE,
    GREY,
    ORANGE,
    STYLE,
    disagreement_by_rows,
    paint_agreement,
    paint_weights,
)
from replearn.audits.findings import AuditResult
from replearn.codes.design import Design
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.plans.cell_prices import chosen_positions, stay_chance
from replearn.plans.plan_logistic import LogisticPlan
from replearn.plans.sizes import Plan
from replearn.stages.certificate import Certificate
from replearn.study.protocol import Protocol
from replearn.study.regression_pilot import RegressionPlan
from replearn.types import Vector

_PALE = "#cbd2dc"


def plotted(thing: Any, ax: Any = None) -> Any:
    """Draw a plan, certificate, audit, protocol or model.

    Parameters
    ----------
    thing : Plan, LogisticPlan, RegressionPlan, Certificate, AuditResult, Protocol or Model
    ax : matplotlib axes, optional
        Where to draw; by default on those of a new figure.

    Returns
    -------
    ax : matplotlib axes
    """
    try:
        import matplotlib as mpl
        import matplotlib.pyplot as plt
    except ImportError:
        raise ReplearnError(
            'a picture needs matplotlib. Install it: pip install "replearn[report]"'
        ) from None
    with mpl.rc_context(STYLE):
        if ax is None:
            ax = plt.figure(figsize=(6.4, 3.6), layout="constrained").add_subplot()
        _paint(thing, ax)
    return ax


@singledispatch
def _paint(thing: Any, axes: Any) -> None:
    raise ReplearnError(f"there is no picture of {type(thing).__name__}.")


_paint.register(AuditResult, paint_agreement)
_paint.register(Model, paint_weights)


# --- plans ------------------------------------------------------------------------------------


@_paint.register
def _plan(plan: Plan, axes: Any) -> None:
    promise = plan.guarantee.max_disagreement
    sizes = _around(plan.n_samples)
    values = np.minimum(1, promise * np.sqrt(plan.n_samples / sizes))
    _rows_curve(axes, sizes, values, promise, plan.n_samples)
    axes.set_title(f"Plan: {plan.algorithm}, {plan.mode}", loc="left")


@_paint.register
def _scores_plan(plan: LogisticPlan, axes: Any) -> None:
    sizes = _around(plan.n_samples)
    values = _disagreements(plan.design, sizes, plan.max_disagreement)
    _rows_curve(axes, sizes, values, plan.max_disagreement, plan.n_samples)
    bits = plan.design.space.hint_bits
    axes.set_title(f"Plan: {plan.algorithm}" + (f", {bits} hint bits" if bits else ""), loc="left")


def _around(n_samples: int) -> Vector:
    return np.geomspace(max(1, n_samples / 30), 30 * n_samples, 120)


def _disagreements(design: Design, sizes: Vector, promise: float) -> Vector:
    """With cells as published, and as many rows as given at both sites."""
    factors = np.sqrt(sizes / design.samples_per_site)
    if design.space.rounding != "centre":  # cells of other shapes: by the first order
        return np.minimum(1, promise / factors)
    ratios = 1 / np.maximum(design.spread_numbers, 1e-9)
    if design.space.hint_bits == 0:
        mean_gap = math.sqrt(2 / math.pi)
        crossed = np.minimum(1, mean_gap / (ratios[:, None] * factors))
        return np.asarray(1 - np.prod(1 - crossed, axis=0))
    places = chosen_positions(ratios, design.space.hint_bits)[0]
    return np.array([1 - stay_chance(places, ratios * factor).mean() for factor in factors])


def _rows_curve(axes: Any, sizes: Vector, values: Vector, promise: float, n_samples: int) -> None:
    axes.plot(sizes, values, color=BLUE, linewidth=2)
    disagreement_by_rows(axes, sizes)
    axes.axhline(promise, color=ORANGE, linestyle="--", linewidth=1.5)
    axes.axvline(n_samples, color=GREY, linestyle=":", linewidth=1.5)
    axes.plot(n_samples, promise, "D", color=ORANGE, markersize=7)
    axes.annotate(
        f"planned: {n_samples:,} rows, {promise:g}",
        (n_samples, promise),
        xytext=(8, 8),
        textcoords="offset points",
    )


# --- certificates ------------------------------------------------------------------


@_paint.register
def _certificate(certificate: Certificate, axes: Any) -> None:
    bound, estimate = certificate.disagreement_bound, certificate.estimated_disagreement
    proved = bound < 1
    axes.barh([0], [bound], height=0.5, color=_PALE, edgecolor=GREY, hatch=None if proved else "//")
    words = f"at most {bound:.3f}, at confidence {certificate.confidence:g}"
    words = words if proved else "nothing is proved"
    axes.text(0, 0.3, words, va="bottom")
    if estimate is None:
        axes.text(0, 1, "not estimable from so few batches", va="center")
    else:
        axes.plot([0, estimate], [1, 1], color=BLUE, linewidth=2)
        axes.plot(estimate, 1, "o", color=BLUE, markersize=9)
        at_left = estimate > 0.6
        axes.annotate(
            f"{estimate:.3f}",
            (estimate, 1),
            xytext=(-10 if at_left else 10, 8),
            textcoords="offset points",
            ha="right" if at_left else "left",
        )
    axes.set_yticks([0, 1], ["proved,\nover seeds", "estimated,\nthis seed"])
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.5, 1.6), xlabel="disagreement with another lab")


# --- protocols ---------------------------------------------------------------------


@_paint.register
def _protocol(protocol: Protocol, axes: Any) -> None:
    notes = protocol.notes
    if protocol.algorithm == "linear" and isinstance(notes.get("table"), list):
        rows = [(str(row["name"]), float(row["r2"])) for row in notes["table"]]
        _bars(axes, rows, "R2 on held-out rows of the pilot", 0.0)
    elif (expected := _real(notes.get("expected_auc"))) is not None:
        rows = [("guessing", 0.5)]
        if (pilot := _real(notes.get("pilot_auc"))) is not None:
            rows.append(("the pilot's own model, published", pilot))
        _bars(axes, [*rows, ("this protocol", expected)], "AUC on held-out rows of the pilot", 0.5)
    elif (accuracy := _real(notes.get("expected_accuracy"))) is not None:
        rows = [("this protocol", accuracy)]
        _bars(axes, rows, "accuracy on held-out rows of the pilot", 0.5)
    else:
        raise ReplearnError(
            "the protocol says nothing of its worth, so there is nothing to draw. Plan with labels."
        )
    axes.set_title(f"Protocol {protocol.fingerprint[:16]}...", loc="left")


@_paint.register
def _regression(plan: RegressionPlan, axes: Any) -> None:
    rows = [(row.name, row.r2) for row in plan.table]
    _bars(axes, rows, "R2 on held-out rows of the pilot", 0.0)


def _bars(axes: Any, rows: list[tuple[str, float]], words: str, origin: float) -> None:
    """One bar for each row, from a value that says nothing; that of the protocol is filled."""
    for place, (name, value) in enumerate(reversed(rows)):
        own = name == "this protocol"
        axes.barh(
            place,
            value - origin,
            left=origin,
            height=0.6,
            color=BLUE if own else _PALE,
            edgecolor=BLUE if own else GREY,
        )
        axes.annotate(
            f"{value:.3f}",
            (max(value, origin), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
    axes.axvline(origin, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
    highest = max(value for _, value in rows)
    lowest = min(origin, *(value for _, value in rows))
    room = 0.15 * max(highest - lowest, 0.05)
    axes.set(xlim=(lowest - (room if lowest < origin else 0), highest + room), xlabel=words)


def _real(value: Any) -> float | None:
    """A number that a protocol's notes hold as text; anybody may have written them."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
