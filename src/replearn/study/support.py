"""Whether a lab's patients support a model, and what the model is worth to them.

Support has two legs. The patients are *compatible*: a score test with all rows does not contradict
the model, given that centres differ as the study says. And the model is *better than the base
rate* of this centre, its constant fitted here. Performance stands beside it: the base rate, the
original's model and the lab's own fit on the same rows.
"""

import math
from dataclasses import dataclass

import numpy as np

from replearn.documents.facts import Row, p_value
from replearn.documents.facts import Table as FactTable
from replearn.exact.rows import THETA_BITS, Rows, on_grid, pieces, sampled, scores, with_constant
from replearn.recipes.losses import Loss
from replearn.recipes.model import Model
from replearn.recipes.support import Reference, ScoreTest, score_test, shift_of
from replearn.study.study import Study
from replearn.study.worth import (
    Measure,
    Worth,
    calibration_in_the_large,
    calibration_line,
    observed_to_expected,
)
from replearn.tables import NumberColumn
from replearn.types import Matrix, Vector

#: Patients contradict a model below this p-value.
UNLIKELY = 0.01
#: Rows on which performance is measured, at most; the test takes all.
_MOST_MEASURED = 1 << 21


@dataclass(frozen=True)
class ColumnDifference:
    """A coefficient of the model beside this lab's own estimate, per unit of its column."""

    name: str
    model: float
    own: float
    low: float  # 95% interval of the own estimate
    high: float
    p: float  # of the whole column


@dataclass(frozen=True)
class Support:
    """What a lab's patients say about a model.

    Attributes
    ----------
    test : ScoreTest
    gain : Measure
        Mean loss of this centre's base rate less that of the model with a constant fitted here.
    model, own : Worth
        Performance on this lab's rows: of the model as it is, and of the lab's own fit, which has
        seen these rows.
    ratio : Measure or None
        Observed to expected events, or totals.
    line : (Measure, Measure) or None
        Calibration in the large and slope, for two classes: 0 and 1 are perfect.
    columns : tuple of ColumnDifference
        Those that differ most, first.
    """

    test: ScoreTest
    gain: Measure
    model: Worth
    own: Worth
    ratio: Measure | None
    line: tuple[Measure, Measure] | None
    columns: tuple[ColumnDifference, ...]
    measure: str  # "odds ratio", "rate ratio" or "coefficient"

    @property
    def contradicts(self) -> bool:
        """The test rejects the model, or the base rate is better."""
        return self.test.p_value < UNLIKELY or self.gain.high < 0

    @property
    def contradicts_slopes(self) -> bool:
        """The same whatever the constants."""
        return self.test.p_slopes < UNLIKELY or self.gain.high < 0

    @property
    def beats_base_rate(self) -> bool:
        """Shown, not only possible."""
        return self.gain.low > 0

    @property
    def culprits(self) -> tuple[str, ...]:
        """Columns that contradict the model by themselves."""
        return tuple(one.name for one in self.columns if one.p < UNLIKELY)[:3]

    def rows(self) -> list[Row | FactTable]:
        """As facts."""
        measures = self.model.words
        table: list[tuple[object, ...]] = [("base rate here", self.model.base, None)]
        for name, one in (("the original's model", self.model), ("own fit, rows it saw", self.own)):
            table.append((name, one.loss.value, None if one.auc is None else one.auc.value))
        found: list[Row | FactTable] = [
            FactTable("Performance on these rows", ("model", measures, "AUC"), table, key="models")
        ]
        if self.ratio is not None:
            found.append(self.ratio.row("observed to expected", "1 is perfect"))
        if self.line is not None:
            found.append(self.line[1].row("calibration slope", "1 is perfect"))
        return found

    def details(self) -> list[Row | FactTable]:
        """The rest."""
        found: list[Row | FactTable] = [
            Row("patients fit the model", p_value(self.test.p_value), key="compatible"),
            Row("slopes alone", p_value(self.test.p_slopes), key="compatible_slopes"),
            Row("slopes up to a factor", p_value(self.test.p_factor), key="compatible_factor"),
            self.gain.row("gain over the base rate", "constant fitted here"),
        ]
        if self.line is not None:
            found.append(self.line[0].row("calibration in the large", "0 is perfect"))
        found.append(
            FactTable(
                f"Coefficients: the model beside your own estimates ({self.measure})",
                ("column", "model", "own", "from", "to", "p"),
                [(c.name, c.model, c.own, c.low, c.high, c.p) for c in self.columns],
                key="coefficients",
            )
        )
        return found


def support_of(study: Study, model: Model, rows: Rows, n_rows: int, own_theta: Matrix) -> Support:
    """Test a model on a lab's rows and measure its performance there."""
    design, loss = study.design, study.design.loss
    theta = on_grid(design.decode(model.codes), THETA_BITS)
    reference = Reference(
        theta, float(design.ridge), design.coordinates, study.centres, study.n_original
    )
    test = score_test(rows, loss, n_rows, reference)

    kept = sampled(rows, n_rows, _MOST_MEASURED, salt=6)
    parts = [piece for block in kept.blocks() for piece in pieces(block, theta.shape[1])]
    targets = np.concatenate([piece.targets for piece in parts])
    masses = np.concatenate(
        [np.ones(piece.n_rows) if piece.weights is None else piece.weights for piece in parts]
    )
    ours, own, base = (
        np.concatenate([scores(with_constant(p.terms), one, p.offset) for p in parts])
        for one in (theta, own_theta, np.zeros_like(theta))
    )
    return Support(
        test,
        gain_of(loss, ours, base, targets, masses),
        Worth.of(loss, ours, targets, masses, held_out=False),
        Worth.of(loss, own, targets, masses, held_out=False),
        observed_to_expected(loss, ours, targets, masses),
        _line(loss, ours, targets, masses),
        _columns(model, test),
        loss.ratio or "coefficient",
    )


def gain_of(loss: Loss, ours: Matrix, base: Matrix, targets: Vector, masses: Vector) -> Measure:
    """What a model saves beyond the base rate, in nats a row; both have constants of these rows."""
    ours, base = (one + shift_of(loss, one, targets, masses) for one in (ours, base))
    gains = loss.value(base, targets) - loss.value(ours, targets)
    mean = Measure.mean(gains, masses)
    reach = mean.high - mean.value
    return Measure(mean.value, mean.value - reach, mean.value + reach)


def _line(
    loss: Loss, found: Matrix, targets: Vector, masses: Vector
) -> tuple[Measure, Measure] | None:
    if loss.kind != "bernoulli":
        return None
    line = calibration_line(found[:, 0], targets, masses)
    if line is None:
        return None
    return calibration_in_the_large(loss, found, targets, masses), line[1]


def _columns(model: Model, test: ScoreTest) -> tuple[ColumnDifference, ...]:
    """Coefficients per unit, the model's and the lab's own, those that differ most first."""
    design = model.design
    if design.directions is not None or test.step.shape[1] != design.coordinates.n_columns:
        return ()
    encoding, found = design.encoding, []
    for place, (name, term) in enumerate(zip(encoding.term_names, encoding.terms, strict=True)):
        unit = design.loss.scale[0]
        column = encoding.columns[term.columns[0]]
        if term.kind == "z" and isinstance(column, NumberColumn):
            unit /= float(column.spread)
        p = test.p_of([place + 1])
        for k in range(design.loss.n_scores):
            value = float(model.theta[k, place + 1])
            own, error = value + test.step[k, place + 1], test.errors[k, place + 1]
            ends = (value, own, own - 1.96 * error, own + 1.96 * error)
            model_value, own_value, low, high = (_printed(unit * x, design.loss) for x in ends)
            found.append(ColumnDifference(name, model_value, own_value, low, high, p))
    return tuple(sorted(found, key=lambda one: one.p))


def _printed(value: float, loss: Loss) -> float:
    """A coefficient as people read it: a ratio of odds or rates, or as it is."""
    return math.exp(min(value, 700.0)) if loss.ratio else value
