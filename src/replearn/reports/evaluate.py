"""Performance of a finished model on labelled rows: discrimination, calibration, usefulness."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import Bernoulli, Loss, Multinomial, decided
from replearn.reports import figures
from replearn.reports.files import load_model
from replearn.study import (
    Measure,
    Original,
    Performance,
    RowEncoder,
    Scored,
    area_under_curve,
    balanced_accuracy,
    held_out,
)
from replearn.tables import CsvOptions, class_numbers, levels_of, open_table, target_numbers
from replearn.types import Array, Mask, Matrix, Vector
from replearn.words import Facts, Figure, Row, Spoken, Table

#: Groups with fewer rows say nothing, and may say something about a person.
LEAST_GROUP = 10

_MOST_GROUPS = 100
_N_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Rows with neighbouring probabilities: what was predicted, and what happened."""

    n_rows: int
    predicted: float
    observed: Measure


def calibration_table(title: str, bins: Sequence[Bin]) -> Table:
    """What was predicted beside what happened, with its interval."""
    header = ("rows", "predicted", "observed", "from", "to")
    rows = [
        (one.n_rows, one.predicted, one.observed.value, one.observed.low, one.observed.high)
        for one in bins
    ]
    return Table(title, header, rows, ("", "%", "%", "%", "%"))


@dataclass(frozen=True)
class Evaluation(Spoken):
    """Performance of a model on labelled rows.

    Attributes
    ----------
    performance : Performance
        On all rows, beside the base rate of these rows.
    fingerprint : str or None
        Of the model, if it is one of replearn's.
    by : str or None
        Column whose values make the groups.
    groups : tuple of (str, Performance)
        Groups of at least ten rows.
    n_small : int
        Rows in smaller groups, which are left out.
    bins : tuple of Bin
        Calibration, for two classes.
    slope, in_the_large, ratio : Measure or None
        Calibration: 1, 0 and 1 are perfect. A slope below 1 says that predictions are too extreme;
        in the large is what must be added to the log-odds, and the ratio is that of observed to
        expected events.
    scores, targets : arrays
        Of all rows, for figures.
    brier : (Measure, float) or None
        Mean squared error of the probabilities, and that of the base rate alone; for two classes.

    See Also
    --------
    evaluate : makes one.

    Notes
    -----
    Intervals hold the model fixed: they are for new rows of the same kind.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> other = rl.datasets.load_readmission("Castleton", 1000)
    >>> found = rl.evaluate(first, other, "readmitted", by="nyha")
    >>> found.performance.n_rows, [name for name, group in found.groups]
    (1000, ['I', 'II', 'III', 'IV'])
    >>> found.is_inverted, found.slope.low < found.slope.value < found.slope.high
    (False, True)
    """

    performance: Performance
    fingerprint: str | None
    by: str | None
    groups: tuple[tuple[str, Performance], ...]
    n_small: int
    scores: Vector
    targets: Vector
    # of two classes
    bins: tuple[Bin, ...] = ()
    slope: Measure | None = None
    in_the_large: Measure | None = None
    ratio: Measure | None = None
    brier: tuple[Measure, float] | None = None

    @property
    def n_rows(self) -> int:
        """Rows that were scored."""
        return self.performance.n_rows

    @property
    def is_inverted(self) -> bool:
        """Whether it ranks the wrong way round."""
        return self.performance.auc is not None and self.performance.auc.value < 0.5

    def facts(self) -> Facts:
        """In words."""
        performance = self.performance
        verdict = performance.facts().verdict
        if self.is_inverted:
            verdict = (
                f"On {performance.n_rows:,} rows the model ranks the wrong way round: its AUC is "
                "below 0.5. Are the labels exchanged?"
            )

        # slope and ratio stand above the fold; the rest of the calibration is a detail
        measures, n_first = self.calibration(), 0
        if self.slope is not None and self.ratio is not None:
            n_first = 2
        if self.by is None:
            items: list[Any] = [*performance.rows()[:3], *measures[:n_first]]
        else:
            items = [*performance.rows()[:2], self._group_table(), *measures[:n_first]]
            if self.n_small:
                items.append(f"Groups of fewer than {LEAST_GROUP} rows are left out.")

        details = [Row("model", self.fingerprint), *measures[n_first:]]
        return Facts(verdict, items, details, self.figures())

    def calibration(self) -> list[Any]:
        """What a paper says besides log-loss and AUC, about two classes."""
        items: list[Any] = []
        if self.slope is not None and self.in_the_large is not None and self.ratio is not None:
            # a note names the direction only where the interval excludes a perfect slope
            note = "1 is perfect"
            if self.slope.high < 1:
                note = "too extreme"
            elif self.slope.low > 1:
                note = "not extreme enough"
            items.append(self.slope.row("calibration slope", note))
            items.append(self.ratio.row("observed to expected", "1 is perfect"))
            items.append(self.in_the_large.row("calibration in the large", "0 is perfect"))

        if self.brier is not None:
            n_rows, n_events = len(self.targets), int(self.targets.sum())
            note = f"{n_events:,} of {n_rows:,} rows"
            items.append(Row("base rate", n_events / n_rows, "%", note=note))
            measure, base = self.brier
            items.append(measure.row("Brier score", f"base rate alone {base:.3f}"))

        if self.bins:
            items.append(calibration_table("Calibration", self.bins))
        return items

    def _group_table(self) -> Table:
        header = [str(self.by), "rows", self.performance.words, "base rate alone"]
        if self.performance.auc is not None:
            header += ["AUC", "from", "to"]

        rows: list[list[Any]] = []
        for name, performance in self.groups:
            row = [name, performance.n_rows, performance.loss.value, performance.base]
            if performance.auc is not None:
                row += [performance.auc.value, performance.auc.low, performance.auc.high]
            rows.append(row)
        return Table(f"By {self.by}", header, rows, key="groups")

    def figures(self) -> list[Figure]:
        """Calibration, ROC and decision curve, for two classes."""
        if not self.bins:
            return []
        return [
            Figure(
                "Calibration: observed against predicted shares",
                lambda: figures.calibration(self.bins),
                "Marks on the line: what was predicted happened. Bars: 95% intervals.",
            ),
            Figure(
                "ROC curve",
                lambda: figures.roc(self.scores, self.targets),
                "Sensitivity against the share of false alarms.",
            ),
            Figure(
                "Decision curve: net benefit by threshold",
                lambda: figures.decision(self.scores, self.targets),
                "Above both other lines: acting on the model is better than on all or on none.",
            ),
        ]


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    by: Any = None,
    sample_weight: Any = None,
    csv: CsvOptions | None = None,
) -> Evaluation:
    """Measure a fitted model on labelled rows that it has not seen.

    Parameters
    ----------
    model : path, model, fitted estimator of replearn, or any fitted classifier of scikit-learn
        What is measured.
    X : path, dataframe, array, or what `replearn` reads elsewhere
        Rows that it has not seen.
    y : str or array, optional
        Labels, or the column that holds them; by default the model's own target.
    by : str or array, optional
        A column of X, or a value for each row, whose values make groups.
    sample_weight : str or array, optional
        Weights of rows, or the column that holds them.
    csv : CsvOptions, optional
        How a CSV file is written.

    Returns
    -------
    evaluation : Evaluation
        ``print`` it; ``evaluation.performance.auc`` has the AUC with its interval.

    See Also
    --------
    update : recalibrates a model that is off.
    compare : whether models are the same.

    Notes
    -----
    Intervals are for the mean loss and the AUC over new rows of the same kind, with the model held
    fixed. Calibration is reported as TRIPOD+AI asks: in the large, as observed to expected, and as
    a slope.

    References
    ----------
    .. [Collins24] Collins et al. TRIPOD+AI statement. BMJ 385, e078378, 2024.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> model = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> other = rl.datasets.load_readmission("Birchwood", 2000)
    >>> found = rl.evaluate(model, other, "readmitted")
    >>> found.performance.n_rows, bool(found.performance.auc.value > 0.7)
    (2000, True)
    """
    if isinstance(model, str | os.PathLike):
        model = load_model(model)
    model = getattr(model, "model_", model)
    # ours read some rows at a time; any other classifier takes them all at once
    if hasattr(model, "fingerprint"):
        rows = _of_ours(model, X, y, by, sample_weight, csv)
    else:
        rows = _of_sklearn(model, X, y, by, sample_weight)

    name = by
    if by is not None and not isinstance(by, str):
        name = "group"
    return _measured(rows, getattr(model, "fingerprint", None), name)


def evaluate_original(original: Original) -> Evaluation:
    """Say the same of an original by cross-validation: on rows that each fit has not seen."""
    rows = _Scored(original.study.design.loss, *held_out(original.folds), None)
    return _measured(rows, original.model.fingerprint)


def _measured(rows: "_Scored", fingerprint: str | None, by: str | None = None) -> Evaluation:
    """All rows, groups of them, and calibration of two classes."""
    groups, n_small = _groups(rows)
    evaluation = Evaluation(
        rows.performance(), fingerprint, by, groups, n_small, rows.scores[:, 0], rows.targets
    )
    if isinstance(rows.loss, Bernoulli):
        return _calibrated(evaluation, rows, rows.loss)
    return evaluation


@dataclass(frozen=True)
class _Scored:
    """Scores, targets and weights of the same rows; no loss: a halfspace."""

    loss: Loss | None
    scores: Matrix
    targets: Vector
    masses: Vector
    groups: Array | None

    def performance(self, chosen: Mask | slice = slice(None)) -> Performance:
        scores, targets, masses = self.scores[chosen], self.targets[chosen], self.masses[chosen]
        if self.loss is not None:
            return Scored(self.loss, scores, targets, masses).performance(held_out=False)

        # a halfspace has labels and no probabilities: errors take the place of the log-loss
        labels = decided(scores)
        share = float(targets @ masses) / float(masses.sum())
        errors = (labels != targets).astype(np.float64)
        errors_of_majority = (targets != (share > 0.5)).astype(np.float64)
        return Performance(
            n_rows=len(targets),
            loss=Measure.mean(errors, masses),
            base=min(share, 1 - share),
            gain=Measure.mean(errors_of_majority - errors, masses),
            auc=area_under_curve(scores[:, 0], targets, masses),
            balanced_accuracy=balanced_accuracy(labels.astype(np.float64), targets, masses),
            words="error",
            held_out=False,
        )


def _of_ours(model: Any, X: Any, y: Any, by: Any, weights: Any, csv: CsvOptions | None) -> _Scored:
    """Read a table some rows at a time; only scores and targets are kept."""
    design, features = model.design, model.feature_names
    if design.recipe == "survival" and not hasattr(X, "roles"):
        raise ReplearnError(
            "a survival model is evaluated at a time: pass --horizon TIME, in the unit of its "
            "times (score of ReplicableSurvivalAnalysis gives the concordance)."
        )

    # 1 the table; a column that is a predictor cannot be read as groups as well
    in_features = isinstance(by, str) and by in features
    roles = {
        "target": design.target if y is None else y,
        "weights": weights,
        "offset": design.offset,
        "groups": None if in_features else by,
    }
    table = X if hasattr(X, "roles") else open_table(X, columns=features, csv=csv, **roles)
    table = replace(table, names=features)
    if "target" not in table.roles:
        raise ReplearnError("evaluate needs labels. Pass y, or --target COLUMN.")

    # 2 scores, targets, weights and groups of each batch; a halfspace has no encoder
    encoder = None
    if design.loss is not None:
        encoder = RowEncoder.of(design)
    parts: list[tuple[Matrix, Vector]] = []
    masses: list[Vector] = []
    named: list[Array] = []
    for batch in table.batches():
        assert batch.y is not None
        if encoder is not None:
            targets = encoder.targets(batch)
        else:
            targets = class_numbers(batch.y, model.classes).astype(np.float64)
        parts.append((model.scores_of(batch), targets))

        mass = np.ones(batch.n_rows)
        if batch.weights is not None:
            mass = target_numbers(batch.weights, "sample_weight", least=0)
        masses.append(mass)
        if by is not None:
            column = batch.column(by) if in_features else batch.groups
            assert column is not None
            codes, names = levels_of(column)
            named.append(np.array([*names, "(missing)"], dtype=object)[codes])

    return _Scored(
        design.loss,
        np.concatenate([scores for scores, _ in parts]),
        np.concatenate([targets for _, targets in parts]),
        np.concatenate(masses),
        np.concatenate(named) if named else None,
    )


def _of_sklearn(model: Any, X: Any, y: Any, by: Any, weights: Any) -> _Scored:
    """Any classifier with probabilities."""
    if not hasattr(model, "predict_proba") or y is None:
        raise ReplearnError(
            f"evaluate takes models of replearn, or classifiers with predict_proba and labels y, "
            f"got {type(model).__name__}."
        )

    # log-odds against the first class, as our models have them
    classes = list(model.classes_)
    loss: Loss = Bernoulli() if len(classes) == 2 else Multinomial(len(classes))
    # a probability of 0 has no logarithm
    logs = np.log(np.maximum(np.asarray(model.predict_proba(X)), 1e-300))
    places = {label: place for place, label in enumerate(classes)}
    targets = np.array([places[label] for label in np.asarray(y).tolist()], dtype=np.float64)

    groups = None
    if by is not None:
        groups = np.asarray(X[by] if isinstance(by, str) else by).astype(str)
    masses = np.ones(len(targets))
    if weights is not None:
        masses = np.asarray(weights, dtype=np.float64)
    return _Scored(loss, logs[:, 1:] - logs[:, :1], targets, masses, groups)


def _groups(rows: _Scored) -> tuple[tuple[tuple[str, Performance], ...], int]:
    if rows.groups is None:
        return (), 0
    names, places = np.unique(rows.groups.astype(str), return_inverse=True)
    if names.size > _MOST_GROUPS:
        raise ReplearnError(
            f"by must make at most {_MOST_GROUPS} groups, got {names.size:,}. Name a column with "
            "fewer values."
        )

    # small groups may be single patients
    counts = np.bincount(places)
    kept = [i for i in range(names.size) if counts[i] >= LEAST_GROUP]
    groups = tuple((str(names[i]), rows.performance(places == i)) for i in kept)
    return groups, int(counts.sum() - counts[kept].sum())


def _calibrated(evaluation: Evaluation, rows: _Scored, loss: Bernoulli) -> Evaluation:
    """An evaluation with what a paper says about the probabilities of two classes."""
    targets, masses = rows.targets, rows.masses
    scored = Scored(loss, rows.scores, targets, masses)
    probability = loss.mean(rows.scores)[:, 1]

    # the Brier score, beside that of one risk for all
    share = float(targets @ masses / masses.sum())
    brier = Measure.mean((probability - targets) ** 2, masses), share * (1 - share)

    # the line of log-odds has a slope where it can be fitted
    line, slope = scored.line(), None
    if line is not None:
        slope = line[1]
    bins = _bins(rows, probability)
    evaluation = replace(evaluation, brier=brier, slope=slope, bins=bins)
    if not 0 < targets.mean() < 1:  # the rest takes rows of both classes
        return evaluation

    in_the_large, ratio = scored.in_the_large(), scored.observed_to_expected()
    return replace(evaluation, in_the_large=in_the_large, ratio=ratio)


def _bins(rows: _Scored, probability: Vector) -> tuple[Bin, ...]:
    """Ten bins of neighbouring scores, of about equal size: observed beside predicted shares."""
    targets, masses = rows.targets, rows.masses
    order = np.argsort(rows.scores[:, 0], kind="stable")
    bins = []
    for part in np.array_split(order, min(_N_BINS, max(1, len(order) // LEAST_GROUP))):
        if masses[part].sum() > 0:
            observed = Measure.mean(targets[part], masses[part])
            # a normal interval knows no ends, but shares have some
            observed = Measure(observed.value, max(0.0, observed.low), min(1.0, observed.high))
            predicted = float(probability[part] @ masses[part] / masses[part].sum())
            bins.append(Bin(len(part), predicted, observed))
    return tuple(bins)
