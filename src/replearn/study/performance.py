"""What a model is worth on rows: log-loss, AUC and balanced accuracy, beside the base rate."""

import math
from dataclasses import dataclass

import numpy as np

from replearn.glm import Loss, Poisson, decided, means_of, shift_of
from replearn.rows import WEIGHT_BITS
from replearn.types import Matrix, Vector
from replearn.words import Facts, Figure, Row, Spoken, forest, in_words

_NORMAL_95 = 1.959963984540054
#: Newton's steps of a calibration line, and the length of the last one.
_MOST_STEPS, _SMALL = 50, 1e-10


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
    return [Measure(float(b), float(b - r), float(b + r)) for b, r in zip(beta, reach, strict=True)]


def observed_to_expected(
    loss: Loss, scores: Matrix, targets: Vector, masses: Vector
) -> Measure | None:
    """Events (or totals) beside what the model predicts; None for many classes."""
    if loss.n_scores > 1 or loss.link == "identity":
        return None
    return _ratio(targets, means_of(loss, scores)[:, 0], masses)


def _ratio(observed: Vector, expected: Vector, masses: Vector) -> Measure:
    """Of two sums."""
    total = float(observed @ masses)
    ratio = total / float(expected @ masses)
    left = (observed - expected) * masses
    reach = min(1.96 * math.sqrt(float(left @ left)) / max(total, 1e-12), 300.0)
    return Measure(ratio, ratio * math.exp(-reach), ratio * math.exp(reach))


def base_risk_shifts(
    loss: Loss, scores: Matrix, targets: Vector, masses: Vector
) -> tuple[Measure, ...]:
    """Logarithms of observed to expected, of each class if there are many; of numbers the mean."""
    if loss.link == "identity":  # in standard deviations of the original's target
        return (Measure.mean(targets - scores[:, 0], masses),)

    expected = means_of(loss, scores)
    pairs = [(targets, expected[:, 0])]
    if loss.n_scores > 1:
        every = [1.0 - expected.sum(axis=1), *expected.T]
        pairs = [((targets == label) * 1.0, of_class) for label, of_class in enumerate(every)]
    ratios = [_ratio(*pair, masses) for pair in pairs if pair[0].any()]
    return tuple(Measure(*map(math.log, (one.value, one.low, one.high))) for one in ratios)


def calibration_in_the_large(
    loss: Loss, scores: Matrix, targets: Vector, masses: Vector
) -> Measure:
    """What must be added to scores so that they predict as many events as there are."""
    shift = float(shift_of(loss, scores, targets, masses)[0])
    information = float(loss.curvature(scores + shift)[:, 0] @ masses)
    reach = 1.96 / math.sqrt(max(information, 1e-12))
    return Measure(shift, shift - reach, shift + reach)
