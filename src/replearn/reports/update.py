"""An original's model recalibrated on other rows: its slopes are kept, or take one factor."""

import math
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.codes import Model
from replearn.errors import ReplearnError, short
from replearn.glm import (
    GlmModel,
    Loss,
    Recalibration,
    fit_constants,
    fit_factor,
    over_scores,
    slopes_of,
    thousandths,
)
from replearn.reports.files import load
from replearn.rows import THETA_BITS, Rows, on_grid
from replearn.study import Measure, Performance, RowEncoder, Scored, TableRows, read_rows, table_of
from replearn.tables import CsvOptions, Table, open_table
from replearn.types import Matrix, Vector
from replearn.words import Facts, Row, Spoken
from replearn.words import Table as FactTable

#: Events, or rows of a class, for each number that is fitted.
LEAST_EVENTS = 10


@dataclass(frozen=True)
class Update(Spoken):
    """A model that was recalibrated, what changed, and its calibration before and after.

    Attributes
    ----------
    model : GlmModel
        The updated one. It names its parent, and has a fingerprint of its own.
    n_rows : int
        Rows behind the update.
    n_events : int or None
        Rows of the last class among them, counts, or None for measurements.
    shifts : tuple of (str, Measure)
        How the base risk differs from what the parent says, for each score: a ratio of odds, rates
        or hazards, or a difference of means.
    slope : Measure or None
        On the parent's slopes; 1 is perfect. None for many classes.
    before, after : Performance
        Performance of parent and updated model on these rows, which the update has seen.
    ratios : (Measure or None, Measure or None)
        Observed to expected events, before and after.
    with_slope : bool
        Whether the updated model has the factor.

    See Also
    --------
    update : makes one.

    Notes
    -----
    The constant, or the constant and one factor on all slopes, is fitted exactly on these rows;
    nothing else of the parent changes.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> found = rl.update(first, rl.datasets.load_readmission("Dunmore", 1000))
    >>> found.parent == first.fingerprint_, found.with_slope
    (True, False)
    >>> found.after.loss.value <= found.before.loss.value
    True
    """

    model: GlmModel
    n_rows: int
    n_events: int | None
    shifts: tuple[tuple[str, Measure], ...]
    slope: Measure | None
    before: Performance
    after: Performance
    ratios: tuple[Measure | None, Measure | None]
    with_slope: bool

    @property
    def fingerprint(self) -> str:
        """Of the updated model."""
        return self.model.fingerprint

    @property
    def parent(self) -> str:
        """Fingerprint of the model that was updated."""
        assert self.model.recalibration is not None
        return self.model.recalibration.parent

    def facts(self) -> Facts:
        """In words: what changed, first."""
        loss, items = self.model.design.loss, list[Any]()
        measure, note = "difference of means", "0: as the parent says"
        if loss.ratio:
            measure, note = f"base risk, {loss.ratio}", "1: as the parent says"

        # 1 constants and slopes, with intervals
        if len(self.shifts) == 1:
            items.append(self.shifts[0][1].row(measure, note))
        else:
            rows = [(name, one.value, one.low, one.high) for name, one in self.shifts]
            items.append(
                FactTable(measure, ("class", "ratio", "from", "to"), rows, key="base_risks")
            )
        if self.slope is not None:
            items.append(self.slope.row("calibration slope", self._on_slope()))

        # 2 both models on these rows
        events = "" if self.n_events is None else f"{self.n_events:,} events"
        items += [self._calibration(), Row("rows here", self.n_rows, note=events)]
        details = [Row("fingerprint", self.fingerprint), Row("parent", self.parent)]
        values = {"events": self.n_events}
        return Facts(self._sentence(), items, [*details, *self.after.rows()], values=values)

    def _on_slope(self) -> str:
        """What a calibration slope says."""
        assert self.slope is not None
        if _holds(self.slope, 1.0):
            return "1 is perfect"
        effects = "weaker effects here" if self.slope.value < 1 else "stronger effects here"
        if self.with_slope:
            return effects
        return f"{effects}; see --slope"

    def _calibration(self) -> FactTable:
        """Both models on these rows."""
        header = ["model", self.before.words]
        rows: list[list[Any]] = [
            ["parent", self.before.loss.value],
            ["updated", self.after.loss.value],
        ]
        if self.ratios[0] is not None and self.ratios[1] is not None:
            header.append("observed to expected")
            for row, ratio in zip(rows, self.ratios, strict=True):
                row.append(ratio.value)  # type: ignore[union-attr]

        # an updated model with the factor has, by its fit, a slope of 1
        if self.slope is not None:
            header.append("slope")
            factor = self.slope.value if self.with_slope else 1.0
            rows[0].append(self.slope.value)
            rows[1].append(self.slope.value / factor)
        title = "On these rows, which the update has seen"
        return FactTable(title, header, rows, key="models")

    def _sentence(self) -> str:
        """What changed."""
        loss, (_, first) = self.model.design.loss, self.shifts[0]
        if len(self.shifts) > 1:
            changed = "constants of all classes were fitted here"
        elif loss.ratio:
            changed = _base_risk(first, loss.ratio.removesuffix(" ratio"))
        elif _holds(first, 0.0):
            changed = "the mean does not differ from what the parent says"
        else:
            what = "higher" if first.value > 0 else "lower"
            changed = f"the mean is {abs(first.value):.3g} {what} here"

        kept = "the slopes are the parent's"
        if self.with_slope and self.slope is not None:
            kept = f"all slopes are {self.slope.value:.3g} times the parent's"
        return f"The model is updated: {changed}; {kept}."


def _holds(measure: Measure, value: float) -> bool:
    return measure.low <= value <= measure.high


def _base_risk(ratio: Measure, scale: str) -> str:
    """How the base risk differs, if it does; on the scale of odds, rates or hazards."""
    if _holds(ratio, 1.0):
        return "the base risk does not differ from what the parent says"
    times, word = (ratio.value, "high") if ratio.value > 1 else (1 / ratio.value, "low")
    verb = "are" if scale == "odds" else "is"
    return f"the base {scale} {verb} {times:.3g} times as {word} here"


def update(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    slope: bool = False,
    sample_weight: Any = None,
    offset: Any = None,
    csv: CsvOptions | None = None,
) -> Update:
    """Recalibrate a model on other rows: constants are fitted anew, and slopes are kept.

    Use it where a replication says that the base risk alone differs, or slopes up to a factor. The
    updated model names its parent and has a fingerprint of its own. It predicts, is evaluated,
    shown, exported and compared like any other. The fit is exact: the same rows in any order give
    the same bytes.

    Parameters
    ----------
    model : path, model or fitted estimator of replearn
        The original's.
    X : path, dataframe, array or mapping of columns
        Rows of this centre. Of a survival model they have the columns of time and event.
    y : column name or array, optional
        What is predicted; by default the model's own target.
    slope : bool, default=False
        Fit one factor on all slopes, too; for models of one score.
    sample_weight, offset : column names or arrays, optional
        By default the columns that the model names, if it names some.
    csv : CsvOptions, optional
        How a CSV file is written.

    Returns
    -------
    update : Update
        ``update.model`` is the updated model; ``replearn.save`` writes it.

    See Also
    --------
    evaluate : shows whether an update is needed.

    Notes
    -----
    The constant alone, or with one factor on all slopes, is fitted by exact Newton steps with the
    model's score as offset: the first steps of a ladder of updates [Vergouwe17].

    References
    ----------
    .. [Vergouwe17] Vergouwe et al. A closed testing procedure to select an appropriate method for
       updating prediction models. Statistics in Medicine 36(28), 2017.

    Examples
    --------
    >>> import replearn as rl
    >>> labs = [rl.datasets.load_readmission(name, 2000) for name in ("Ashford", "Dunmore")]
    >>> target = [lab.pop("readmitted") for lab in labs]
    >>> first = rl.ReplicableLogisticClassifier().fit(labs[0], target[0])
    >>> found = rl.update(first, labs[1], target[1])
    >>> found.parent == first.fingerprint_
    True
    """
    parent = _model_of(model)
    loss = parent.design.loss
    if slope and loss.n_scores > 1:
        raise ReplearnError(
            f"slope must be False for {loss.n_scores + 1} classes, whose scores have no one factor "
            "in common, got True. Update the constants alone."
        )

    source = TableRows(
        _table(parent, X, y, sample_weight, offset, csv), RowEncoder.of(parent.design)
    )
    rows = read_rows(source)
    n_events = _check_events(rows, loss, 2 if slope else 1)
    return _updated(parent, rows, n_events, slope)


def _model_of(given: Any) -> GlmModel:
    """The model to update, or why there is none."""
    # a file, a model, or a fitted estimator
    if isinstance(given, str | os.PathLike):
        model = load(given)
    else:
        model = getattr(given, "model_", given)
    if isinstance(model, GlmModel):
        return model

    # what cannot be updated, and why
    if isinstance(model, Model):
        raise ReplearnError(
            "update takes a model of a study (replearn/model), got a halfspace, which predicts "
            "labels and has no base risk. Fit it anew: replearn fit."
        )
    raise ReplearnError(
        f"update takes the original's model (replearn/model), got {short(model, 60)}. Ask the "
        "original for its model file, which publish keeps as a.model.json."
    )


def _table(
    model: GlmModel, X: Any, y: Any, weights: Any, offset: Any, csv: CsvOptions | None
) -> Table:
    """The rows of a centre with the columns that the model needs."""
    design = model.design
    if design.loss.kind == "hazard":
        if y is not None or weights is not None or offset is not None:
            raise ReplearnError(
                "a survival model is updated from a table with its columns of time and event, got "
                "y, weights or an offset beside it. Put both columns into X."
            )
        return table_of(design, X, csv)

    # columns have the parent's names, unless others are given
    given = {"target": y, "weights": weights, "offset": offset}
    roles = {name: role for name, role in given.items() if role is not None}
    named = {name: getattr(design, name) for name in given}
    return open_table(X, columns=model.feature_names, csv=csv, **named | roles)


def _check_events(rows: Rows, loss: Loss, n_fitted: int) -> int | None:
    """Events, where rows have some; too few are refused."""
    n_classes = loss.n_scores + 1 if loss.by_class else 1
    counts = np.zeros(n_classes)
    for block in rows.blocks():
        counts += loss.totals(block.targets, np.ones(block.n_rows))

    # what a constant rests on: rows of each class, events, or rows of measurements
    what, fewest = "rows", float(counts.min())
    if loss.link == "identity":
        fewest = rows.n_rows
    elif loss.link == "log":
        what = "events"
    elif loss.by_class:
        what = "rows of each class"

    needed = LEAST_EVENTS * n_fitted
    if fewest < needed:
        raise ReplearnError(
            f"an update needs at least {needed} {what}, got {fewest:,.0f}: fewer say too little "
            "about a base risk, and would show single patients. Get more rows."
        )
    if loss.link == "identity" or loss.n_scores > 1:
        return None
    return int(counts[-1])


def _updated(parent: GlmModel, rows: Rows, n_events: int | None, with_slope: bool) -> Update:
    design, loss = parent.design, parent.design.loss
    decoded = design.decode(parent.codes)
    before = parent.recalibration
    factor = "1" if before is None else before.factor

    # 1 the factor on the parent's slopes: fitted where it is asked for, else only told
    further = _factor(rows, loss, slopes_of(decoded, factor), with_slope)
    if with_slope:
        assert further is not None
        factor = thousandths(float(factor) * float(further))

    # 2 constants beside the slopes that the file will have
    slopes = slopes_of(decoded, factor)
    constants = fit_constants(rows, loss, slopes)
    changed = Recalibration(parent.fingerprint, constants, factor)
    model = replace(parent, recalibration=changed, provenance=None)

    # 3 how well both predict here
    thetas = [on_grid(one, THETA_BITS) for one in (_theta_here(parent), model.fitted_theta)]
    thetas += [slopes, np.zeros_like(slopes)]
    by_parent, by_update, sloped, offset = Scored.of(loss, rows, *thetas)

    # 4 the slope on the parent's score, with its interval
    slope = None
    if further is not None:
        along = (sloped.scores - offset.scores)[:, 0]
        if with_slope:
            along = along / float(further)
        slope = _slope(float(further), along, offset)
    return Update(
        model,
        rows.n_rows,
        n_events,
        _shifts(model, by_parent),
        slope,
        by_parent.performance(held_out=False),
        by_update.performance(held_out=False),
        (by_parent.observed_to_expected(), by_update.observed_to_expected()),
        with_slope,
    )


def _theta_here(parent: GlmModel) -> Matrix:
    """What the parent says; a constant that its study leaves to labs may be absent."""
    local = parent.design.constant is not None and parent.local_constants is None
    if local and parent.recalibration is None:
        return parent.design.decode(parent.codes)
    return parent.fitted_theta


def _factor(rows: Rows, loss: Loss, slopes: Matrix, is_needed: bool) -> str | None:
    """The factor on slopes that these rows have; None where it need not be known and is not."""
    if loss.n_scores > 1 or not slopes.any():
        if is_needed:
            raise ReplearnError("slope must be False for a model without slopes, got True.")
        return None
    try:
        return fit_factor(rows, loss, slopes)
    except ReplearnError:
        if is_needed:
            raise
        return None


def _shifts(model: GlmModel, by_parent: Scored) -> tuple[tuple[str, Measure], ...]:
    """How constants differ from the parent's, slopes kept; robust 95% intervals."""
    loss, shift, masses = by_parent.loss, by_parent.shift, by_parent.masses[:, None]

    # the information of constants, whose curvature is that of each pair of scores
    fitted = by_parent.scores + shift
    gradients = loss.residual(fitted, by_parent.targets) * masses
    curvature = (loss.curvature(fitted) * masses).sum(axis=0)
    information = over_scores(curvature[:, None, None], loss.n_scores)
    errors = _robust_errors(information, gradients)

    names = [str(label) for label in (model.classes or ())[1:]] or [model.design.target]
    shifts = []
    for name, value, error in zip(names, shift.tolist(), errors.tolist(), strict=True):
        ends = (value, value - 1.96 * error, value + 1.96 * error)
        if loss.ratio:
            shown = [math.exp(min(x, 700.0)) for x in ends]
        else:
            shown = [x * loss.scale[0] for x in ends]
        shifts.append((name, Measure(*shown)))
    return tuple(shifts)


def _robust_errors(information: Matrix, gradients: Matrix) -> Vector:
    """Standard errors by the sandwich, whose middle are the squares of single rows' gradients."""
    inverse = np.linalg.pinv(information)
    variances = np.diag(inverse @ (gradients.T @ gradients) @ inverse)
    return np.sqrt(np.maximum(variances, 0.0))


def _slope(factor: float, along: Vector, offset: Scored) -> Measure:
    """A factor on the slopes' score ``along``, with its robust 95% interval."""
    loss, masses = offset.loss, offset.masses[:, None]
    fitted = replace(offset, scores=factor * along[:, None] + offset.scores).shifted.scores

    # the information of constant and factor
    design = np.column_stack([np.ones_like(along), along])
    weighted = design * (loss.curvature(fitted) * masses)
    gradients = design * (loss.residual(fitted, offset.targets) * masses)
    reach = 1.96 * float(_robust_errors(weighted.T @ design, gradients)[1])
    return Measure.around(factor, reach)
