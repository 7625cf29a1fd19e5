"""Pictures of an evaluation: plain SVG, without any package."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from replearn.types import Vector

if TYPE_CHECKING:
    from replearn.reports.evaluate import Bin

_SIZE, _LEFT, _BOTTOM = 320, 64, 44
_BLUE, _RED = "#0072b2", "#d55e00"


def calibration(bins: "Sequence[Bin]") -> str:
    """Observed against predicted shares, with intervals."""
    most = max(max(b.predicted, b.observed.high) for b in bins)
    top = min(1.0, np.ceil(most * 10 + 0.2) / 10)
    parts = [_line([(0, 0), (top, top)], (0, top), (0, top), "currentColor", "4 3")]
    for b in bins:
        ends = [(b.predicted, b.observed.low), (b.predicted, b.observed.high)]
        parts.append(_line(ends, (0, top), (0, top), _BLUE))
        x, y = _place(b.predicted, b.observed.value, (0, top), (0, top))
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_BLUE}"/>')
    return _frame(parts, (0, top), (0, top), "predicted", "observed")


def roc(scores: Vector, targets: Vector) -> str:
    """The ROC curve, at no more than 200 corners."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(targets[order]) / max(1.0, float(targets.sum()))
    alarms = np.cumsum(1 - targets[order]) / max(1.0, float((1 - targets).sum()))
    last = np.append(scores[order][1:] != scores[order][:-1], True)  # ties move together
    hits, alarms = hits[last], alarms[last]

    # few enough to draw
    some = np.unique(np.linspace(0, len(hits) - 1, 200).astype(int))
    points = [(0.0, 0.0), *zip(alarms[some].tolist(), hits[some].tolist(), strict=True)]
    parts = [
        _line([(0, 0), (1, 1)], (0, 1), (0, 1), "currentColor", "4 3"),
        _line(points, (0, 1), (0, 1), _BLUE),
    ]
    return _frame(parts, (0, 1), (0, 1), "1 - specificity", "sensitivity")


def decision(scores: Vector, targets: Vector) -> str:
    """Net benefit of acting above a threshold, beside acting on all and on none."""
    probability = 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
    share = float(targets.mean())
    thresholds = np.linspace(0.01, min(0.95, max(0.2, 3 * share)), 80)

    # a false alarm costs the odds of the threshold
    odds = thresholds / (1 - thresholds)
    acted = probability[:, None] >= thresholds
    benefit = (targets[:, None] * acted).mean(axis=0)
    benefit = benefit - ((1 - targets)[:, None] * acted).mean(axis=0) * odds
    everyone = share - (1 - share) * odds
    x, y = (0.0, float(thresholds[-1])), (-0.1 * share, 1.1 * share)
    parts = [
        _line([(0, 0), (x[1], 0)], x, y, "currentColor", "4 3"),
        _line(_inside(thresholds, everyone, y[0]), x, y, _RED),
        _line(_inside(thresholds, benefit, y[0]), x, y, _BLUE),
    ]
    return _frame(parts, x, y, "threshold (blue: model, orange: all)", "net benefit")


def _inside(x: Vector, y: Vector, low: float) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in zip(x, y, strict=True) if b >= low]


def _place(
    x: float, y: float, x_range: tuple[float, float], y_range: tuple[float, float]
) -> tuple[float, float]:
    across = (x - x_range[0]) / (x_range[1] - x_range[0])
    up = (y - y_range[0]) / (y_range[1] - y_range[0])
    return _LEFT + across * (_SIZE - _LEFT - 12), (_SIZE - _BOTTOM) - up * (_SIZE - _BOTTOM - 12)


def _line(
    points: Iterable[tuple[float, float]],
    x: tuple[float, float],
    y: tuple[float, float],
    color: str,
    dashes: str = "none",
) -> str:
    placed = " ".join("{:.1f},{:.1f}".format(*_place(a, b, x, y)) for a, b in points)
    return (
        f'<polyline points="{placed}" fill="none" stroke="{color}" stroke-width="2" '
        f'stroke-dasharray="{dashes}"/>'
    )


def _ticks(ends: tuple[float, float]) -> list[float]:
    """Three to six round numbers between two ends."""
    low, high = ends
    power = 10 ** np.floor(np.log10(high - low))
    step = power * min(one for one in (0.2, 0.5, 1, 2) if (high - low) / (one * power) <= 5.01)
    first = int(np.ceil(low / step - 1e-9))
    return [round(i * step, 9) for i in range(first, int(high / step + 1e-9) + 1)]


def _frame(
    parts: list[str], x: tuple[float, float], y: tuple[float, float], below: str, beside: str
) -> str:
    """Axes with round ticks around what was drawn."""
    marks = []
    for value in _ticks(x):
        at, floor = _place(value, y[0], x, y)
        marks.append(f'<text x="{at:.1f}" y="{floor + 16}" text-anchor="middle">{value:g}</text>')

    # the same up the side
    for value in _ticks(y):
        left, at = _place(x[0], value, x, y)
        marks.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    middle = (_LEFT + _SIZE) / 2
    marks.append(f'<text x="{middle}" y="{_SIZE - 8}" text-anchor="middle">{below}</text>')
    marks.append(
        f'<text transform="translate(12 {_SIZE / 2 - 16}) rotate(-90)" '
        f'text-anchor="middle">{beside}</text>'
    )

    # a box around what was drawn
    width, height = _SIZE - _LEFT - 12, _SIZE - _BOTTOM - 12
    box = (
        f'<rect x="{_LEFT}" y="12" width="{width}" height="{height}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.4"/>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" '
        'font-family="system-ui,sans-serif" font-size="14" fill="currentColor">'
        f"{box}{''.join(parts)}{''.join(marks)}</svg>"
    )
