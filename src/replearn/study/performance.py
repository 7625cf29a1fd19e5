"""What a model is worth on rows: log-loss, AUC and balanced accuracy, beside the base rate."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from replearn.glm import Loss, Poisson, decided, means_of, shift_of
from replearn.rows import WEIGHT_BITS, Rows, pieces, sampled
from replearn.types import Matrix, Vector
from replearn.words import Facts, Figure, Row, Spoken, forest, in_words

_NORMAL_95 = 1.959963984540054
#: Newton's steps of a calibration line, and the length of the last one.
_MOST_STEPS, _SMALL = 50, 1e-10
#: Rows that are scored, at most.
_MOST_SCORED = 1 << 21


@dataclass(frozen=True)
class Measure:
    """A number with its 95% confidence interval."""

    value: float
    low: float
    high: float

    @classmethod
    def mean(cls, values: Vector, weights: Vector) -> "Measure":
        """A weighted mean over independent rows."""
        total = float(weights.sum())
        value = float(values @ weights) / total
        spread = math.sqrt(float(((values - value) * weights) @ ((values - value) * weights)))
        reach = _NORMAL_95 * spread / total
        return cls(value, max(value - reach, float(values.min())), value + reach)

    @classmethod
    def around(cls, value: float, reach: float) -> "Measure":
        """An interval that reaches as far to both sides."""
        return cls(value, value - reach, value + reach)

    def row(self, name: str, note: str = "", unit: str = "") -> Row:
        """As a fact."""
        return Row(name, self.value, unit, (self.low, self.high), note)


def area_under_curve(scores: Vector, positive: Vector, weights: Vector) -> Measure:
    """AUC: the chance that a row of the second class has the larger score; ties count half.

    The interval is DeLong's.
    """
    order = np.argsort(scores, kind="stable")
    placed = scores[order]
    first = np.searchsorted(placed, placed, side="left")
    last = np.searchsorted(placed, placed, side="right")

    # for each row the share of either class below it
    share = []
    for chosen in (positive > 0, positive == 0):
        mass = np.where(chosen, weights, 0.0)
        below = np.concatenate([[0.0], np.cumsum(mass[order])])
        share.append((below[first] + below[last]) / 2 / max(below[-1], 1e-300))
    among_positive, among_negative = (np.empty_like(part) for part in share)
    among_positive[order], among_negative[order] = share

    # the mean over one class, with the variance of both
    is_positive = positive > 0
    ups, downs = among_negative[is_positive], among_positive[~is_positive]
    if not ups.size or not downs.size:
        return Measure(math.nan, math.nan, math.nan)
    up = Measure.mean(ups, weights[is_positive])
    down = Measure.mean(downs, weights[~is_positive])
    reach = math.hypot(up.high - up.value, down.high - down.value)
    return Measure(up.value, max(0.0, up.value - reach), min(1.0, up.value + reach))


@dataclass(frozen=True)
class Performance(Spoken):
    """What scores say about targets.

    Attributes
    ----------
    loss : Measure
        Mean loss: log-loss in nats, half the squared error in units of the target's spread, or
        half the Poisson deviance.
    base : float
        That of the constant model, the base rate.
    gain : Measure
        By how much the model's loss is smaller, row by row: much more certain than either loss.
    auc : Measure or None
        Area under the ROC curve, for two classes.
    balanced_accuracy : Measure or None
        Mean share of each class that is right, for classes.
    words : str
        What the loss is called.
    n_rows : int
        Rows that were scored.
    held_out : bool
        Whether the model had not seen them.
    counted : str
        What the rows are called; a person has a row at risk in each interval of time.

    See Also
    --------
    ReplicableLogisticClassifier : its ``performance_`` is one.
    evaluate : the performance of any fitted model.

    Notes
    -----
    Intervals are 95%: normal ones for mean losses, and those of DeLong for the AUC.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> found = first.performance_
    >>> found.n_rows, found.held_out, found.words
    (1000, True, 'log-loss')
    >>> found.loss.value < found.base, found.auc.low < found.auc.value < found.auc.high
    (True, True)
    """

    n_rows: int
    loss: Measure
    base: float
    gain: Measure
    auc: Measure | None
    balanced_accuracy: Measure | None
    words: str
    held_out: bool = True
    counted: str = "rows"

    @classmethod
    def of(
        cls,
        loss: Loss,
        scores: Matrix,
        targets: Vector,
        weights: Vector | None = None,
        held_out: bool = True,
        at_risk: Vector | None = None,
    ) -> "Performance":
        """From scores and targets of the same rows; ``at_risk`` is the log of their time at risk.

        Rows end with their event, so a time at risk tells of it: the base must know it as well.
        """
        masses = np.ones(len(targets))
        if weights is not None:
            masses = weights
        values = loss.value(scores, targets)
        least: Vector | float = 0.0
        if isinstance(loss, Poisson):  # a deviance is counted from means that equal the counts
            least = loss.least_value(targets)

        # the constant model of these rows
        units = masses * 2.0**WEIGHT_BITS
        shares = loss.totals(targets, units) / float(units.sum())
        if not loss.is_enough(shares):
            shares = np.maximum(shares, 1e-12)
        constant = np.tile(loss.start(shares), (len(targets), 1))
        if at_risk is not None:  # the events for each unit of time, times the time
            rate = float(targets @ masses) / float(np.exp(at_risk) @ masses)
            constant = (math.log(max(rate, 1e-300)) + at_risk)[:, None]
        values, base_values = values - least, loss.value(constant, targets) - least
        gain = Measure.mean(base_values - values, masses)
        base = float(base_values @ masses) / float(masses.sum())

        auc = balanced = None
        if loss.by_class and loss.n_scores == 1:
            auc = area_under_curve(scores[:, 0], targets, masses)
        if loss.by_class:
            balanced = balanced_accuracy(decided(scores).astype(np.float64), targets, masses)
        return cls(
            n_rows=len(targets),
            loss=Measure.mean(values, masses),
            base=base,
            gain=gain,
            auc=auc,
            balanced_accuracy=balanced,
            words=loss.measure,
            held_out=held_out,
            counted=loss.counted,
        )

    @property
    def explained(self) -> float:
        """Share of the constant model's loss that is gone; below 0 for a harmful model."""
        return 1.0 - self.loss.value / self.base if self.base > 0 else 0.0

    @property
    def is_useless(self) -> bool:
        """Whether it is no better than the base rate, or ranks the wrong way round."""
        return self.loss.value >= self.base or (self.auc is not None and self.auc.high < 0.5)

    @property
    def null(self) -> str:
        """What the model is compared with: it ignores all columns."""
        return "mean" if self.balanced_accuracy is None else "base rate"

    def rows(self) -> list[Row]:
        """As facts."""
        ends = (self.loss.value, self.loss.low, self.loss.high)
        unit = "%" if self.words == "error" else ""
        base = in_words([*ends, self.base], unit)[-1]
        rows = [self.loss.row(self.words, f"{self.null} alone {base}", unit)]
        if self.auc is not None:
            rows.append(self.auc.row("AUC"))
        if self.balanced_accuracy is not None:
            rows.append(self.balanced_accuracy.row("balanced accuracy"))
        return rows

    def facts(self) -> Facts:
        """What the model is worth, in words."""
        what = self.words if self.words.startswith("half") else f"the {self.words}"
        answer = f"removes {self.explained:.1%} of {what} of the {self.null}"
        if self.is_useless:
            answer = f"is no better than the {self.null}"

        held_out = "held-out " if self.held_out else ""
        verdict = f"On {self.n_rows:,} {held_out}{self.counted} the model {answer}."
        return Facts(verdict, self.rows(), figures=[Figure("Performance", self._picture)])

    def _picture(self) -> str:
        loss, base = self.loss, self.base
        here = ("this model", f"{loss.value:.3f}", loss.value, loss.low, loss.high)
        alone = (f"{self.null} alone", f"{base:.3f}", base, base, base)
        return forest([here, alone], base, self.words)


def balanced_accuracy(chosen: Vector, targets: Vector, masses: Vector) -> Measure:
    """Mean share of right labels over the classes."""
    parts = []
    for label in np.unique(targets):
        rows = targets == label
        parts.append(Measure.mean((chosen[rows] == label).astype(np.float64), masses[rows]))
    value = sum(part.value for part in parts) / len(parts)
    reach = math.sqrt(sum((part.high - part.value) ** 2 for part in parts)) / len(parts)
    return Measure(value, max(0.0, value - reach), min(1.0, value + reach))


def calibration_line(scores: Vector, targets: Vector, masses: Vector) -> list[Measure] | None:
    """Logistic regression of the target on the score: constant and slope.

    None if scores have one value, or separate the classes.
    """
    spread = float(scores.std())
    if spread == 0 or not 0 < targets.mean() < 1:
        return None

    # 1 Newton's steps from the base rate, halved until the loss falls
    design = np.column_stack([np.ones(len(scores)), scores])

    def loss_at(beta: Vector) -> float:
        eta = design @ beta
        return float(masses @ (np.logaddexp(0.0, eta) - targets * eta))

    mean = float(targets @ masses) / float(masses.sum())
    beta = np.array([math.log(mean / (1 - mean)), 0.0])
    for _ in range(_MOST_STEPS):
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -500, 500)))
        gradient = design.T @ (masses * (targets - p))
        information = (design * (masses * p * (1 - p))[:, None]).T @ design
        step = np.linalg.pinv(information, hermitian=True) @ gradient

        before = loss_at(beta)
        while loss_at(beta + step) > before and np.abs(step).max() > _SMALL:
            step = step / 2
        beta = beta + step
        if np.abs(step).max() <= _SMALL * (1 + np.abs(beta).max()):
            break
    else:
        return None

    # 2 robust errors: rows are independent, their weights are not counts
    moved = design * (masses * (targets - p))[:, None]
    inverse = np.linalg.pinv(information, hermitian=True)
    with np.errstate(over="ignore", invalid="ignore"):  # scores of 1e300
        reach = 1.96 * np.sqrt(np.diag(inverse @ (moved.T @ moved) @ inverse))
    if not math.isfinite(beta.sum() + reach.sum()):
        return None
    return [Measure.around(*both) for both in zip(beta.tolist(), reach.tolist(), strict=True)]


@dataclass(frozen=True)
class Scored:
    """Scores of a model on rows, with the targets and weights of these."""

    loss: Loss
    scores: Matrix
    targets: Vector
    masses: Vector

    @classmethod
    def of(cls, loss: Loss, rows: Rows, *thetas: Matrix) -> "list[Scored]":
        """Of coefficients in whole units, on the same rows, at most two million."""
        kept = sampled(rows, _MOST_SCORED, salt=6)
        parts = [p for block in kept.blocks() for p in pieces(block, thetas[0].shape[1])]
        targets = np.concatenate([p.targets for p in parts])
        masses = np.concatenate([p.masses for p in parts])
        by_model = (np.concatenate([p.scores(theta) for p in parts]) for theta in thetas)
        return [cls(loss, scores, targets, masses) for scores in by_model]

    @cached_property
    def shift(self) -> Vector:
        """What must be added to scores so that they predict as many events as there are."""
        return shift_of(self.loss, self.scores, self.targets, self.masses)

    @cached_property
    def shifted(self) -> "Scored":
        """The same with scores that do."""
        return replace(self, scores=self.scores + self.shift)

    def performance(self, held_out: bool = True, at_risk: Vector | None = None) -> Performance:
        """What the scores say about the targets."""
        return Performance.of(self.loss, self.scores, self.targets, self.masses, held_out, at_risk)

    def gain_over(self, base: "Scored") -> Measure:
        """What is saved beyond other scores, in nats a row; both have constants of these rows."""
        values, theirs = (self.loss.value(s.shifted.scores, self.targets) for s in (self, base))
        mean = Measure.mean(theirs - values, self.masses)
        return Measure.around(mean.value, mean.high - mean.value)

    def observed_to_expected(self) -> Measure | None:
        """Events (or totals) beside what the model predicts; None for many classes."""
        if self.loss.n_scores > 1 or self.loss.link == "identity":
            return None
        return _ratio(self.targets, means_of(self.loss, self.scores)[:, 0], self.masses)

    def base_risk_shifts(self) -> tuple[Measure, ...]:
        """Logarithms of observed to expected, of each class if many; of numbers the mean."""
        loss, targets, masses = self.loss, self.targets, self.masses
        if loss.link == "identity":  # in standard deviations of the original's target
            return (Measure.mean(targets - self.scores[:, 0], masses),)

        expected = means_of(loss, self.scores)
        pairs = [(targets, expected[:, 0])]
        if loss.n_scores > 1:
            every = [1.0 - expected.sum(axis=1), *expected.T]
            pairs = [((targets == label) * 1.0, of_class) for label, of_class in enumerate(every)]
        ratios = [_ratio(*pair, masses) for pair in pairs if pair[0].any()]
        return tuple(Measure(*map(math.log, (one.value, one.low, one.high))) for one in ratios)

    def in_the_large(self) -> Measure:
        """Calibration of two classes: the shift with its interval."""
        shift = float(self.shift[0])
        information = float(self.loss.curvature(self.scores + shift)[:, 0] @ self.masses)
        return Measure.around(shift, 1.96 / math.sqrt(max(information, 1e-12)))

    def line(self) -> list[Measure] | None:
        """Constant and slope of two classes on the score; see `calibration_line`."""
        return calibration_line(self.scores[:, 0], self.targets, self.masses)


def _ratio(observed: Vector, expected: Vector, masses: Vector) -> Measure:
    """Of two sums."""
    total = float(observed @ masses)
    ratio = total / float(expected @ masses)
    left = (observed - expected) * masses
    reach = min(1.96 * math.sqrt(float(left @ left)) / max(total, 1e-12), 300.0)
    return Measure(ratio, ratio * math.exp(-reach), ratio * math.exp(reach))
