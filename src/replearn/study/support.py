"""Whether a lab's patients support a model, and what the model is worth to them.

Support has two legs. The patients are *compatible*: a score test with all rows does not contradict
the model, given that centres differ as the study says. And the model is *better than the base
rate* of this centre, its constant fitted here; so are its strongest column and all others, each
beside the rest. That differences between centres are usual excuses no harm. Performance stands
beside it: the base rate, the
original's model and the lab's own fit on the same rows.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from replearn.documents import Label
from replearn.errors import ReplearnError
from replearn.glm import (
    Between,
    GlmModel,
    Loss,
    Reference,
    ScoreTest,
    combined,
    fit_constants,
    fit_factor,
    score_test,
    slopes_of,
)
from replearn.rows import THETA_BITS, Rows, on_grid
from replearn.study.performance import Measure, Performance, Scored
from replearn.study.strongest import PartGain, parts_of
from replearn.study.study import GlmStudy
from replearn.tables import INTERVAL
from replearn.types import Matrix
from replearn.words import Facts, Row, Spoken, p_value
from replearn.words import Table as FactTable

#: Patients contradict a model below this p-value.
UNLIKELY = 0.01
#: Base risks differ where the whole interval of events, observed to expected, lies beyond a quarter
#: more, or of a mean beyond as many standard deviations. Of bioequivalence: 0.8 to 1.25.
_MARGIN = math.log(1.25)


#: What holds of a model: all of it, its slopes, these up to a factor, or not these columns.
Rung = Literal["model", "slopes", "factor", "columns"]


@dataclass(frozen=True)
class ColumnDifference:
    """A coefficient of the model beside this lab's own estimate, per unit of its column."""

    name: str
    label: Label  # of many classes the one whose score it belongs to
    model: float
    own: float
    low: float  # 95% interval of the own estimate
    high: float
    p: float  # of the whole column

    @property
    def shown(self) -> str:
        """The name, of many classes with the class."""
        return self.name if self.label == "" else f"{self.name}, {self.label}"


@dataclass(frozen=True)
class Support(Spoken):
    """What a lab's patients say about a model.

    Attributes
    ----------
    test : ScoreTest
        Do these rows contradict the model, in all coefficients, in slopes, or up to a factor?
    gain : Measure
        Mean loss of this centre's base rate less that of the model with a constant fitted here.
    model, own : Performance
        Performance on this lab's rows: of the model as it is, and of the lab's own fit, which has
        seen these rows.
    ratio : Measure or None
        Observed to expected events, or totals.
    shifts : tuple of Measure
        By how much means of outcomes differ from what the model expects, 0 is perfect: logarithms
        of observed to expected, of each class if there are many; or standard deviations.
    line : (Measure, Measure) or None
        Calibration in the large and slope, for two classes: 0 and 1 are perfect.
    p_one_population : float
        Of all coefficients, if centres did not differ by more than their rows explain.
    centres_known : bool
        Whether centres showed by how much they differ.
    n_tested : int
        Rows of the test: all, or a sample of those that are on a cluster.
    columns : tuple of ColumnDifference
        Those that differ most, first.
    measure : str
        What a coefficient is called: "odds ratio", "rate ratio" or "coefficient".
    of_slopes : bool
        Whether slopes alone are tested, because constants are this lab's own.
    parts : tuple of PartGain
        What the strongest column adds to all others, and these to it.

    See Also
    --------
    replearn.study.GlmReplication : its ``support`` is one.

    Notes
    -----
    ``Q = g' V^-1 g`` of the gradient g of this lab's loss at the model, a score test [Cox74]. V
    has the variance of these rows, of the original's, and of what centres differ by. The column
    that differs most is tested by itself, too. A model is contradicted below p = 0.01, or where
    the base rate of this lab is better, or a model without a part: without the strongest column,
    or with this column alone.

    Base risks differ where events are shown to be more than a quarter more, or fewer, than
    expected. That typical centres differ as much is an assumption, and excuses nothing; what
    centres showed does, unless p of the constants is below 0.01.

    References
    ----------
    .. [Cox74] Cox and Hinkley. Theoretical Statistics, section 9.3. Chapman and Hall, 1974.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> other = rl.datasets.load_readmission("Birchwood", 1000)
    >>> target = other.pop("readmitted")
    >>> second = rl.ReplicableLogisticClassifier(study=first.study_).fit(other, target)
    >>> found = second.replication_.support
    >>> found
    <Support: Your patients support the model.>
    >>> found.contradicts, found.beats_base_rate, found.culprits
    (False, True, ())
    """

    test: ScoreTest
    gain: Measure
    model: Performance
    own: Performance
    ratio: Measure | None
    shifts: tuple[Measure, ...]
    line: tuple[Measure, Measure] | None
    p_one_population: float
    centres_known: bool
    n_tested: int
    columns: tuple[ColumnDifference, ...]
    measure: str  # "odds ratio", "rate ratio" or "coefficient"
    of_slopes: bool = False  # constants are this lab's own, so that slopes alone are tested
    parts: tuple[PartGain, ...] = ()

    @property
    def p_value(self) -> float:
        """Of all coefficients that labs agree on."""
        if self.of_slopes:
            return self.test.p_slopes
        return self.test.p_value

    @property
    def worse_than(self) -> str:
        """What is shown to predict better here than the model; "" if nothing is."""
        if self.gain.high < 0:
            return "your base rate"
        harmful = [one for one in self.parts if one.is_harmful]
        return harmful[0].part.alternative if harmful else ""

    @property
    def contradicts(self) -> bool:
        """The test rejects the model, or less than the model is better."""
        return self.p_value < UNLIKELY or bool(self.worse_than)

    @property
    def contradicts_slopes(self) -> bool:
        """The same whatever the constants."""
        return self.test.p_slopes < UNLIKELY or bool(self.worse_than)

    @property
    def base_risk_differs(self) -> bool:
        """Events are too many or too few, by more than centres are known to differ."""
        if self.of_slopes:
            return False
        is_shown = any(one.low > _MARGIN or one.high < -_MARGIN for one in self.shifts)
        return is_shown and not (self.centres_known and self.test.p_constants >= UNLIKELY)

    @property
    def rung(self) -> Rung:
        """How far the model holds here, after Vergouwe's closed test."""
        if self.p_value >= UNLIKELY and not self.base_risk_differs:
            return "model"
        if self.test.p_slopes >= UNLIKELY:
            return "slopes"
        # a factor of 0 suits labels that no column tells anything about
        if self.test.p_factor >= UNLIKELY and not self.worse_than:
            return "factor"
        return "columns"

    @property
    def beats_base_rate(self) -> bool:
        """Shown, not only possible."""
        return self.gain.low > 0

    @property
    def culprits(self) -> tuple[str, ...]:
        """Columns that contradict the model by themselves."""
        names = dict.fromkeys(one.name for one in self.columns if one.p < UNLIKELY)
        return tuple(names)[:3]

    def facts(self) -> Facts:
        """In words: whether the rows contradict the model, first."""
        verdict = "Your patients support the model."
        if self.contradicts:
            verdict = "Your patients contradict the model."
        elif self.base_risk_differs:
            verdict = "Your patients have a different base risk."
        elif not self.beats_base_rate:
            verdict = "Your patients do not show that the model beats their base rate."
        return Facts(verdict, self.rows(), self.details())

    def rows(self) -> list[Row | FactTable]:
        """What stands below a verdict."""
        header = ["model", self.model.words]
        table: list[list[object]] = [["base rate here", self.model.base]]
        table.append(["the original's model", self.model.loss.value])
        table.append(["own fit, rows it saw", self.own.loss.value])

        # two classes are ranked, too
        if self.model.auc is not None and self.own.auc is not None:
            header.append("AUC")
            ranks = (None, self.model.auc.value, self.own.auc.value)
            table = [[*row, auc] for row, auc in zip(table, ranks, strict=True)]

        facts: list[Row | FactTable] = [
            FactTable("Performance on these rows", header, table, key="models")
        ]
        if self.ratio is not None:
            facts.append(self.ratio.row("observed to expected", "1 is perfect"))
        if self.line is not None:
            facts.append(self.line[1].row("calibration slope", "1 is perfect"))

        # rows that only differences between centres excuse
        if self.p_one_population < UNLIKELY <= self.p_value:
            alone = f"{p_value(self.p_one_population)} if centres did not differ"
            words = f"{p_value(self.p_value)}; {alone}"
            facts.append(Row("differs as centres do", words, in_json=False))
        return facts

    def details(self) -> list[Row | FactTable]:
        """The rest."""
        rows: list[Row | FactTable] = [
            Row("patients fit the model", p_value(self.p_value), key="compatible"),
            Row(
                "if centres did not differ",
                p_value(self.p_one_population),
                key="compatible_one_population",
            ),
            Row("base risk alone", p_value(self.test.p_constants), key="compatible_constants"),
            Row("slopes alone", p_value(self.test.p_slopes), key="compatible_slopes"),
            Row("slopes up to a factor", p_value(self.test.p_factor), key="compatible_factor"),
            self.gain.row("gain over the base rate", "constant fitted here"),
            *(one.row() for one in self.parts),
        ]
        if self.line is not None:
            rows.append(self.line[0].row("calibration in the large", "0 is perfect"))
        rows.append(
            FactTable(
                f"The model, and one step towards your patients ({self.measure})",
                ("column", "model", "step", "from", "to", "p"),
                [(c.shown, c.model, c.own, c.low, c.high, c.p) for c in self._shown()],
                ("", "", "", "", "", "p"),
                key="coefficients",
                digits=(0, *[-4 * self.measure.endswith("ratio")] * 4),
            )
        )

        return rows

    def _shown(self) -> list[ColumnDifference]:
        """Effects; intervals of time are the baseline, and shown where they contradict it."""
        is_baseline = f"{INTERVAL} = "
        return [c for c in self.columns if c.p < UNLIKELY or not c.name.startswith(is_baseline)]


def rungs_of(rows: Rows, reference: Reference) -> ScoreTest:
    """The score test, with the lower rungs tested where their free numbers are fitted.

    Far away from the model its curvature is a different one: slopes, and single columns, are
    tested at constants of these rows, and slopes up to a factor at the factor of these rows.
    """
    loss, test = reference.loss, score_test(rows, reference)
    slopes = slopes_of(reference.theta * 2.0**-THETA_BITS)

    def tested_at(factor: str) -> ScoreTest:
        theta = slopes_of(slopes * 2.0**-THETA_BITS, factor)
        theta[:, 0] = fit_constants(rows, loss, theta)
        return score_test(rows, replace(reference, theta=theta))

    own = test
    with suppress(ReplearnError):  # these rows have no bounded constant beside the slopes
        own = tested_at("1")
    p_factor = own.p_factor
    if loss.n_scores == 1 and slopes.any():
        with suppress(ReplearnError):  # or no positive factor
            scaled = tested_at(fit_factor(rows, loss, slopes))
            p_factor = combined(scaled.p_factor, *scaled.of_directions[1:])

    return replace(
        own,
        p_value=combined(test.p_value, *test.of_constants, *own.of_directions),
        p_constants=test.p_constants,
        p_slopes=combined(own.p_slopes, *own.of_directions),
        p_factor=p_factor,
        spreads=test.spreads,
    )


def p_if_centres_did_not_differ(rows: Rows, reference: Reference, of_slopes: bool) -> float:
    """What a test says that knows of no difference between centres, so that nothing hides there."""
    alike = Between.none(reference.theta.size)
    test = score_test(rows, replace(reference, between=alike))
    if of_slopes:
        return combined(test.p_slopes, *test.of_directions)
    return test.p_all


def support_of(study: GlmStudy, model: GlmModel, rows: Rows, own_theta: Matrix) -> Support:
    """Test a model on a lab's rows and measure its performance there.

    Where the study leaves constants to labs, the model must have those of this lab.
    """
    design, loss = study.design, study.design.loss
    theta = on_grid(model.fitted_theta, THETA_BITS)
    reference = Reference(
        loss, theta, float(design.ridge), design.coordinates, study.centres, study.n_original
    )
    test = rungs_of(rows, reference)
    is_local = design.constant == "local"

    parts = list(parts_of(study, theta))
    without = [part.without for part in parts]
    # performance is measured on many rows; the test takes all
    thetas = theta, own_theta, np.zeros_like(theta), *without
    ours, own, base, *rest = Scored.of(loss, rows, *thetas)
    gains = [ours.gain_over(one) for one in (base, *rest)]
    # the base rate of a survival study is one of events for each unit of time
    at_risk = base.scores[:, 0] if loss.kind == "hazard" else None
    return Support(
        test,
        gains[0],
        ours.performance(held_out=False, at_risk=at_risk),
        own.performance(held_out=False, at_risk=at_risk),
        ours.observed_to_expected(),
        ours.base_risk_shifts(),
        _calibration_of(ours),
        p_if_centres_did_not_differ(rows, reference, of_slopes=is_local),
        study.centres.n_centres > 1,
        rows.n_rows,
        _columns(model, test),
        loss.ratio or "coefficient",
        of_slopes=is_local,
        parts=tuple(map(PartGain, parts, gains[1:])),
    )


def _calibration_of(scored: Scored) -> tuple[Measure, Measure] | None:
    """Calibration in the large and slope, for two classes."""
    if scored.loss.kind != "bernoulli" or (line := scored.line()) is None:
        return None
    return scored.in_the_large(), line[1]


def _columns(model: GlmModel, test: ScoreTest) -> tuple[ColumnDifference, ...]:
    """Coefficients per unit, the model's and the lab's own, those that differ most first.

    On the scale of all other tables: who multiplies and adds gets the prediction.
    """
    design = model.design
    if design.directions is not None or test.step.shape[1] != design.coordinates.n_columns:
        return ()

    # from encoded columns to units
    turn = design.encoding.per_unit(np.eye(test.step.shape[1])) * design.loss.scale[0]
    theirs, ours = model.theta @ turn, (model.theta + test.step) @ turn

    differences, n_columns = [], len(turn)
    labels: tuple[Label, ...] = ("",)
    if design.loss.n_scores > 1:
        labels = design.score_labels
    for place, name in enumerate(design.encoding.term_names, 1):
        p = test.p_of([place])
        for k, label in enumerate(labels):
            part = slice(k * n_columns, (k + 1) * n_columns)
            weights = turn[:, place]
            variance = float(weights @ test.own_covariance[part, part] @ weights)
            reach = math.inf
            if np.isfinite(test.errors[k, place]):
                reach = 1.96 * math.sqrt(max(variance, 0.0))
            own = float(ours[k, place])
            ends = float(theirs[k, place]), own, own - reach, own + reach
            model_value, own, low, high = (_printed(value, design.loss) for value in ends)
            differences.append(ColumnDifference(name, label, model_value, own, low, high, p))
    return tuple(sorted(differences, key=lambda one: one.p))


def _printed(value: float, loss: Loss) -> float:
    """A coefficient as people read it: a ratio of odds or rates, or as it is."""
    if not loss.ratio:
        return value
    return math.exp(min(value, 700.0))
