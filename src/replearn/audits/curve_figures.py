"""Figures of an evaluation: the ROC curve, and predicted against observed shares."""

from collections.abc import Sequence
from typing import Any

from replearn.audits.figures import BLUE, GREY, draw
from replearn.stages.calibration import Bin
from replearn.types import Matrix


def roc_figure(points: Matrix) -> str:
    """The ROC curve, and the line of guessing."""

    def paint(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
        axes.text(0.62, 0.55, "guessing", color=GREY)
        axes.plot(points[:, 0], points[:, 1], color=BLUE, linewidth=2)
        axes.set(
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
            xlabel="share of the other rows that is flagged",
            ylabel="share of positive rows\nthat is found",
        )
        axes.set_aspect("equal")

    return draw(paint, width=4.2, height=3.9)


def calibration_figure(bins: Sequence[Bin]) -> str:
    """What was predicted, what observed, and how many rows that is."""

    def paint(axes: Any) -> None:
        top = max(0.02, *(max(b.predicted, b.observed.high) for b in bins)) * 1.05
        axes.plot([0, top], [0, top], color=GREY, linestyle="--", linewidth=1)
        for b in bins:
            axes.plot(
                [b.predicted, b.predicted],
                [b.observed.low, b.observed.high],
                color=BLUE,
                linewidth=1.5,
            )
        axes.plot([b.predicted for b in bins], [b.observed.value for b in bins], "o", color=BLUE)
        axes.set(
            xlim=(-0.02 * top, top),
            ylim=(-0.02 * top, top),
            xlabel="probability that the model gives",
            ylabel="share that observed true",
        )
        axes.set_aspect("equal")

    return draw(paint, width=4.2, height=3.9)
