"""What a plan is worth, next to what a sceptic would ask for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from replearn.codes.decimals import number_table
from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness
from replearn.stages.ranking import auc
from replearn.study.pilot.allotment import Allotment
from replearn.study.pilot.ridge import Truth, log_loss
from replearn.study.pilot.softmax import weighted_loss
from replearn.types import IntegerArray, Matrix, Vector

_DRAWS = 60  # of the rounding noise

#: Gains and losses of AUC smaller than this are within what a pilot can tell.
TIE = 0.002


@dataclass(frozen=True)
class PlanRow:
    """One row of the table; ranges are from 10 % to 90 % over seeds."""

    name: str
    log_loss: float
    auc: float
    balanced_accuracy: float
    accuracy: float
    disagreement: float | None = None
    log_loss_range: tuple[float, float] | None = None
    auc_range: tuple[float, float] | None = None


def majority(share: float) -> PlanRow:
    """The share of positives for everybody."""
    entropy = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    return PlanRow("always the base rate", entropy, 0.5, 0.5, max(share, 1 - share), 0.0)


def of_scores(name: str, truth: Truth, scores: Vector, threshold: float) -> PlanRow:
    """Of held-out log-odds."""
    positive = scores > threshold
    sensitivity, specificity = float(positive[truth].mean()), float((~positive[~truth]).mean())
    return PlanRow(
        name,
        log_loss(truth, scores),
        auc(scores, truth).value,
        (sensitivity + specificity) / 2,
        float((positive == truth).mean()),
        0.0,
    )


def growth(base: PlanRow, start: PlanRow, loss: float) -> float:
    """How much more than the start a model of this log-loss ranks, over guessing.

    What ranks grows like the root of what the log-loss explains. A start that explains next to
    nothing says nothing about that, so there is an end to it.
    """
    explained = max(base.log_loss - start.log_loss, 1e-9)
    return min(4.0, math.sqrt(max(base.log_loss - loss, 0.0) / explained))


def expected(name: str, start: PlanRow, base: PlanRow, gain: float) -> PlanRow:
    """Of a model that is better than the start by a gain in log-loss."""
    loss = max(start.log_loss - gain, 1e-6)
    factor = growth(base, start, loss)

    def grown(value: float) -> float:
        return min(0.9999, max(0.0, 0.5 + (value - 0.5) * factor))

    balanced = grown(start.balanced_accuracy)
    accuracy = min(0.9999, start.accuracy + balanced - start.balanced_accuracy)
    return PlanRow(name, loss, grown(start.auc), balanced, accuracy)


@dataclass(frozen=True)
class TwoClasses:
    """Which rows are positive, and what scores are worth next to that."""

    truth: Truth

    def loss(self, scores: Any) -> float:
        """Log-loss of log-odds."""
        return log_loss(self.truth, scores)

    def auc(self, scores: Any) -> float:
        """Area under the ROC curve."""
        return auc(scores, self.truth).value


@dataclass(frozen=True)
class ManyClasses:
    """Numbers of the rows' classes, and what each row counts."""

    numbers: IntegerArray
    counts: Vector

    def loss(self, scores: Any) -> float:
        """Mean log-loss, by what rows count."""
        return weighted_loss(self.numbers, scores, self.counts)

    def auc(self, scores: Any) -> float:
        """Mean over the classes, each against the rest, of its probability."""
        chances = softmax(scores, axis=1)
        areas = [auc(column, self.numbers == c).value for c, column in enumerate(chances.T)]
        return float(np.mean(areas))


Labelled = TwoClasses | ManyClasses


def shifted(scores: Any, columns: Matrix, moved: Vector, design: Design) -> Any:
    """Scores after the weights have moved; of more than two classes the first one's stay."""
    if scores.ndim == 1:
        return scores + columns @ moved
    found = scores.copy()
    found[:, 1:] += columns @ design.space.by_output(moved).T
    return found


def seed_noise(
    allotment: Allotment, design: Design, columns: Matrix, labelled: Labelled, scores: Any
) -> Matrix:
    """Log-loss and AUC of held-out scores with rounding noise added, one row for each seed."""
    n, q = allotment.agreement.samples_per_site, allotment.size
    coins = SharedRandomness("pilot/seeds")
    uniform = coins.uniforms("positions", _DRAWS * q).reshape(_DRAWS, q) * 2 - 1
    normal = coins.normals("estimates", _DRAWS * q).reshape(_DRAWS, q)
    # the law of a position is close to uniform, with the variance that a hint leaves
    positions = uniform * math.sqrt(3 * allotment.moment)
    noise = positions + normal * np.sqrt(allotment.family.variance[:q] / n) / allotment.widths
    lift = number_table(design.space.lift)
    after = [
        shifted(scores, columns, moved, design) for moved in (lift @ (noise * allotment.shrink).T).T
    ]
    return np.array([(labelled.loss(found), labelled.auc(found)) for found in after])


def with_seeds(row: PlanRow, noise: Matrix) -> PlanRow:
    """The row with its range over seeds: the noise moves around its mean."""
    low, high = np.quantile(noise, [0.1, 0.9], axis=0) - noise.mean(axis=0)
    return replace(
        row,
        log_loss_range=(row.log_loss + float(low[0]), row.log_loss + float(high[0])),
        auc_range=(row.auc + float(low[1]), min(1.0, row.auc + float(high[1]))),
    )


def cautions(base: PlanRow, start: PlanRow, planned: PlanRow, own_model: bool) -> list[str]:
    """What must be said about a plan that is worth little."""
    found = []
    if planned.auc < 0.5 + TIE:
        found.append(
            "This protocol is expected to know nothing about the label: its AUC is "
            f"{planned.auc:.3f}. Get more rows per site, take hint bits, or other columns."
        )
    elif planned.auc - 0.5 < (start.auc - 0.5) / 2:
        found.append(
            f"This protocol keeps less than half of the pilot's signal (AUC {planned.auc:.3f} "
            f"against {start.auc:.3f}). Get more rows per site, or take hint bits."
        )
    worse = planned.log_loss > start.log_loss - 1e-3 * base.log_loss
    if worse and not own_model:
        found.append(
            f"The pilot's own model is expected to be better (AUC {start.auc:.3f} against "
            f"{planned.auc:.3f}), and publishing it has no disagreement at all. Discovery is for "
            "studies that must not use the pilot's labels; hint bits and more rows help."
        )
    elif worse:
        found.append(
            "The sites' rows are expected to add next to nothing to the pilot's own model. "
            "Publishing that model as it is has no disagreement at all; this study lets every "
            "site confirm or overrule it."
        )
    return found


def table(rows: Sequence[PlanRow]) -> list[str]:
    """The rows as aligned text."""
    width = max(len(row.name) for row in rows)
    lines = [
        f"  {'':<{width}}  {'log-loss':>8}  {'AUC':>6}  {'bal. acc.':>9}  {'accuracy':>8}"
        f"  {'disagreement':>12}"
    ]
    for row in rows:
        disagreement = "-" if row.disagreement is None else f"{row.disagreement:.3f}"
        lines.append(
            f"  {row.name:<{width}}  {row.log_loss:8.4f}  {row.auc:6.3f}  "
            f"{row.balanced_accuracy:9.3f}  {row.accuracy:8.3f}  {disagreement:>12}"
        )
        if row.log_loss_range is not None and row.auc_range is not None:
            low, high = row.log_loss_range
            worse, better = row.auc_range
            lines.append(
                f"  {'  10 % to 90 % over seeds':<{width}}  {low:.4f} to {high:.4f}, "
                f"AUC {worse:.3f} to {better:.3f}"
            )
    return lines
