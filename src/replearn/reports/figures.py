"""Pictures of an evaluation: plain SVG, without any package."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replearn.types import Vector
from replearn.words import round_numbers

if TYPE_CHECKING:
    from replearn.reports.evaluate import Bin

_SIZE, _LEFT, _BOTTOM = 320, 64, 44
_BLUE, _RED = "#0072b2", "#d55e00"


def calibration(bins: "Sequence[Bin]") -> str:
    """Observed against predicted shares, with intervals."""
    most = max(max(b.predicted, b.observed.high) for b in bins)
    top = min(1.0, np.ceil(most * 10 + 0.2) / 10)
    axes = _Axes((0, top), (0, top))
    parts = [axes.reference([(0, 0), (top, top)])]
    for b in bins:
        ends = [(b.predicted, b.observed.low), (b.predicted, b.observed.high)]
        parts.append(axes.line(ends, _BLUE))
        x, y = axes.place(b.predicted, b.observed.value)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_BLUE}"/>')
    return axes.frame(parts, "predicted", "observed")


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
    axes = _Axes((0, 1), (0, 1))
    parts = [axes.reference([(0, 0), (1, 1)]), axes.line(points, _BLUE)]
    return axes.frame(parts, "1 - specificity", "sensitivity")


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

    last = float(thresholds[-1])
    axes = _Axes((0.0, last), (-0.1 * share, 1.1 * share))
    parts = [
        axes.reference([(0, 0), (last, 0)]),
        axes.curve(thresholds, everyone, _RED),
        axes.curve(thresholds, benefit, _BLUE),
    ]
    return axes.frame(parts, "threshold (blue: model, orange: all)", "net benefit")


@dataclass(frozen=True)
class _Axes:
    """Both ends of the numbers from left to right, and from the bottom up."""

    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is drawn."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        room = _SIZE - _BOTTOM
        return _LEFT + across * (_SIZE - _LEFT - 12), room - up * (room - 12)

    def line(self, points: Iterable[tuple[float, float]], color: str, dashes: str = "none") -> str:
        """A line through some points."""
        placed = " ".join("{:.1f},{:.1f}".format(*self.place(*point)) for point in points)
        return (
            f'<polyline points="{placed}" fill="none" stroke="{color}" stroke-width="2" '
            f'stroke-dasharray="{dashes}"/>'
        )

    def reference(self, points: Iterable[tuple[float, float]]) -> str:
        """A dashed line, beside which others are looked at."""
        return self.line(points, "currentColor", "4 3")

    def curve(self, x: Vector, y: Vector, color: str) -> str:
        """A line through the points that are not below the picture."""
        return self.line(
            [(float(a), float(b)) for a, b in zip(x, y, strict=True) if b >= self.y[0]], color
        )

    def frame(self, parts: list[str], below: str, beside: str) -> str:
        """The whole picture: what was drawn in a box with round ticks."""
        marks = []
        for value in round_numbers(*self.x):
            at, floor = self.place(value, self.y[0])
            marks.append(
                f'<text x="{at:.1f}" y="{floor + 16}" text-anchor="middle">{value:g}</text>'
            )

        # the same up the side
        for value in round_numbers(*self.y):
            left, at = self.place(self.x[0], value)
            marks.append(
                f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>'
            )
        middle = (_LEFT + _SIZE) / 2
        marks.append(
            f'<text x="{middle}" y="{_SIZE - 8}" text-anchor="middle">{below}</text>'
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
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" '
            f'width="{_SIZE}" font-family="system-ui,sans-serif" font-size="14" '
            f'fill="currentColor">{box}{"".join(parts)}{"".join(marks)}</svg>'
        )
