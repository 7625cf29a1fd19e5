"""What a finished model is worth on labelled rows: in memory or in files of any size, by group."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from replearn.codes.encoding import Encoding, Seen, as_text, columns_of
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.estimators.useless import warn_if_useless
from replearn.sources import Piece, open_source
from replearn.sources.common import total_seen, warn_if_coded_differently
from replearn.sources.csv_files import CsvSource
from replearn.sources.labels import Labels
from replearn.sources.opening import source_for
from replearn.sources.parquet_files import ParquetSource
from replearn.stages.calibration import Bin, calibration_bins
from replearn.stages.intervals import CONFIDENCE
from replearn.stages.planned import Planned
from replearn.stages.ranking import roc_points
from replearn.stages.signal import Signal
from replearn.stages.worth import Worth, worth
from replearn.types import IntegerArray, Matrix, Vector

if TYPE_CHECKING:
    from replearn.sources import Watch

#: Groups with fewer rows say nothing, and may say something about a person.
FEWEST_ROWS = 10

_MOST_GROUPS = 100


@dataclass(frozen=True)
class Evaluation:
    """What a model is worth on labelled rows, and what the figures of a report need.

    Attributes
    ----------
    worth : Worth
        On all rows.
    fingerprint : str or None
        Of the model, if it is one of replearn's.
    place : str
        Where the rows come from.
    by : str or None
        Column whose values make the groups.
    groups : tuple of (str, Worth)
        Groups of at least ten rows, in the order of their names.
    n_small, n_small_rows : int
        Groups with fewer rows, which are left out, and their rows.
    roc : float array of shape (n_points, 2), or None
        Corners of the ROC curve; of two classes only.
    bins : tuple of Bin
        Predicted and observed shares, by probability; empty without probabilities.
    columns : dict
        Rows with a missing or unknown value, by column of the model's encoding; others left out.
    trouble : str
        What these rows code differently than the model knows, in words; "" if nothing.
    spreads : float array or None
        Standard deviations of the encoded features, if they were asked for.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> new_X, new_y = rl.datasets.make_margin(1000, 3, margin=0.3, random_state=1)
    >>> found = rl.evaluate(fitted.model_, new_X, new_y)
    >>> found.worth.flags, found.groups
    ((), ())
    """

    worth: Worth
    fingerprint: str | None
    place: str
    by: str | None = None
    groups: tuple[tuple[str, Worth], ...] = ()
    n_small: int = 0
    n_small_rows: int = 0
    roc: Matrix | None = field(default=None, repr=False, compare=False)
    bins: tuple[Bin, ...] = ()
    columns: dict[str, dict[str, int]] = field(default_factory=dict)
    trouble: str = ""
    spreads: Vector | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        lines = [str(self.worth)]
        if self.by is not None:
            lines.append("")
            lines += _table([(self.by, "rows", *_HEADINGS), *map(_group_line, self.groups)])
            if self.n_small:
                lines.append(self.left_out)
        return "\n".join(lines)

    @property
    def left_out(self) -> str:
        """A sentence about groups that are too small; empty if there are none."""
        if not self.n_small:
            return ""
        return (
            f"{self.n_small:,} group{'s'[: self.n_small > 1]} of fewer than {FEWEST_ROWS} rows "
            f"left out ({self.n_small_rows:,} rows)."
        )

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            **self.worth.data(),
            "fingerprint": self.fingerprint,
            "place": self.place,
            "by": self.by,
            "groups": [{"group": name, **found.data()} for name, found in self.groups],
            "groups_left_out": self.n_small,
            "columns": self.columns,
            "calibration_bins": [
                {"rows": b.n_rows, "predicted": b.predicted, "observed": b.observed.data()}
                for b in self.bins
            ],
        }


def evaluate(
    model: Any, X: Any, y: Any, *, by: Any = None, confidence: float = CONFIDENCE
) -> Evaluation:
    """Say what a fitted classifier is worth on labelled rows.

    Parameters
    ----------
    model : Model, or any fitted scikit-learn classifier
        Log-loss, Brier score and calibration need ``predict_proba``; the AUC that or
        ``decision_function``.
    X : rows, as the model takes them
        Rows that the model has not seen, or its worth is flattered.
    y : array of labels
        All must be classes of the model.
    by : str or array, optional
        A column of X, or one value for each row, whose values make groups that are evaluated apart.
    confidence : float, default=0.95
        Of every interval.

    Returns
    -------
    Evaluation
        Discrimination and calibration next to guessing, with intervals; it prints as a table.

    Warns
    -----
    UselessModelWarning
        If the model is constant, inverted, not shown to know anything, or worse than the base rate.

    Examples
    --------
    >>> from replearn import ReplicableSVMClassifier, datasets
    >>> X, y = datasets.make_margin(9000, 3, margin=0.4, random_state=0)
    >>> fitted = ReplicableSVMClassifier(margin=0.4, batch_size=50).fit(X[:8000], y[:8000])
    >>> evaluate(fitted, X[8000:], y[8000:]).worth.flags
    ()
    """
    collected = Collected(_classes(model))
    collected.add(_predictions_of(model, X, encoded=False), np.asarray(y), "y")
    groups, name = None, None
    if by is not None:
        name = by if isinstance(by, str) else "group"
        groups = columns_of(X, [by])[by] if isinstance(by, str) else np.asarray(by)
        if groups.shape != (collected.n_rows,):
            raise ReplearnError(
                f"by must have one value for each of {collected.n_rows:,} rows, got shape "
                f"{groups.shape}."
            )
    fingerprint = getattr(model, "fingerprint", getattr(model, "fingerprint_", None))
    found = collected.evaluation(fingerprint, "rows in memory", name, groups, confidence)
    return concluded(found)


def evaluate_file(
    model: Model,
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    by: str | None = None,
    confidence: float = CONFIDENCE,
    describe: bool = False,
    planned: Planned | None = None,
    watch: "Watch | None" = None,
    signal: Signal | None = None,
) -> Evaluation:
    """Say what a model is worth on the labelled rows of a file, or a folder of files, of any size.

    Parameters
    ----------
    model : Model
        For instance from `load`.
    path : path
        As for `fit_file`. Rows are read piece by piece; ten bytes of each are collected.
    target : str, optional
        Label column.
    by : str, optional
        Column of a CSV or Parquet file whose values make groups that are evaluated apart.
    confidence : float, default=0.95
        Of every interval.
    describe : bool, default=False
        Also compute the spread of each feature, for a report.
    planned : Planned, optional
        What a pilot expected: warn if the model falls short of it.
    watch : callable, optional
        Told the share of the rows that have been read.
    signal : Signal, optional
        Of a fit on these very rows, which has warned if they show none: its p-value takes the
        place of that of the scores, since the model has seen the rows.

    Returns
    -------
    Evaluation
        As from `evaluate`.

    Warns
    -----
    UselessModelWarning
        As `evaluate`.
    ReplicabilityWarning
        If a column is coded differently than the model knows.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "new.npz")
    ...     np.savez(path, X=X, y=y)
    ...     print(rl.evaluate_file(fitted.model_, path).worth.flags)
    ()
    """
    _classes(model)
    place, source = os.fspath(path), source_for(model, path, target)
    if not source.labelled:
        raise ReplearnError(
            f"{place}: labels are needed, got none. Name the label column (target, on the command "
            "line --target)."
        )
    groups = None if by is None else _column(place, by)
    collected, scaler = Collected(model.classes), StandardScaler(with_mean=False)
    for piece in source.pieces(watch=watch):
        collected.take(model, piece, place)
        if describe and piece.X.shape[0]:
            scaler.partial_fit(piece.X)
    found = collected.evaluation(model.fingerprint, place, by, groups, confidence)
    if describe:
        n_rows = collected.n_rows
        found = replace(found, spreads=np.sqrt(scaler.var_ * n_rows / max(1, n_rows - 1)))
    return concluded(found, model.encoding, collected.seen, planned, signal)


def concluded(
    found: Evaluation,
    encoding: Encoding | None = None,
    seen: Seen | None = None,
    planned: Planned | None = None,
    signal: Signal | None = None,
) -> Evaluation:
    """Add what the columns held, and warn of what is wrong with them or with the model."""
    if encoding is not None and seen is not None:
        trouble = warn_if_coded_differently(found.place, encoding, seen)
        found = replace(found, columns=encoding.counts(seen), trouble=trouble)
    if signal is not None:
        found = replace(found, worth=replace(found.worth, signal_p=signal.p_value))
    if signal is None or signal.found:
        warn_if_useless(found.worth, planned)
    return found


# --- predictions ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Predictions:
    """What a model says about some rows."""

    predicted: NDArray[np.uint8]
    scores: NDArray[np.float64] | None
    probabilities: NDArray[np.float64] | None


def _classes(model: Any) -> tuple[Any, ...]:
    if isinstance(model, Model):
        if model.is_numeric:
            raise ReplearnError(
                "evaluate is for labels, got a regression. Use evaluate_regression."
            )
        return model.classes
    try:
        return tuple(np.asarray(model.classes_).tolist())
    except AttributeError:
        raise ReplearnError(
            f"a fitted classifier is needed, got {type(model).__name__} without classes_. Fit it "
            "first."
        ) from None


def _predictions_of(model: Any, X: Any, *, encoded: bool) -> _Predictions:
    """What a model says; ``encoded``: X holds the numbers that a Model takes."""
    if isinstance(model, Model):
        scores = model.scores(X) if encoded else model.decision_function(X)
        predicted = model.decided(scores).astype(np.uint8)
        chances = model.probabilities(scores) if model.has_probabilities else None
    else:
        predicted = _labels(_classes(model), "predictions").numbers(model.predict(X))
        chances = model.predict_proba(X) if hasattr(model, "predict_proba") else None
        scores = None
        if chances is None and hasattr(model, "decision_function"):
            scores = np.asarray(model.decision_function(X), dtype=np.float64)
    if chances is None:
        return _Predictions(predicted, scores, None)
    chances = np.asarray(chances, dtype=np.float64)
    if chances.ndim == 2 and chances.shape[1] == 2:
        chances = np.ascontiguousarray(chances[:, 1])  # the other one is 1 minus this
    return _Predictions(predicted, None, chances)


def _labels(classes: Sequence[Any], place: str) -> Labels:
    remedy = "Recode the labels, or name another label column."
    return Labels(place, classes, whose="the model", remedy=remedy)


class Collected:
    """What is collected of each row: its class, the predicted one, and the score or probability."""

    def __init__(self, classes: Sequence[Any]) -> None:
        self._classes = tuple(classes)
        self._truth: list[NDArray[np.uint8]] = []
        self._predicted: list[_Predictions] = []
        self.seen: Seen | None = None

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return sum(part.size for part in self._truth)

    def add(self, made: _Predictions, y: NDArray[Any], place: str) -> None:
        """Add predictions and labels of some rows."""
        truth = _labels(self._classes, place).numbers(y)
        if truth.size != made.predicted.size:
            raise ReplearnError(
                f"{place} must have one label for each of {made.predicted.size:,} rows, got "
                f"{truth.size:,}."
            )
        self._truth.append(truth)
        self._predicted.append(made)

    def take(self, model: Model, piece: Piece, place: str) -> None:
        """Predict a piece of encoded, labelled rows, and add that."""
        assert piece.y is not None  # the rows are labelled
        self.add(_predictions_of(model, piece.X, encoded=True), piece.y, place)
        self.seen = total_seen((self.seen, piece.seen))

    def join(self, other: "Collected") -> "Collected":
        """Add what was collected elsewhere."""
        self._truth += other._truth
        self._predicted += other._predicted
        self.seen = total_seen((self.seen, other.seen))
        return self

    def evaluation(
        self,
        fingerprint: str | None,
        place: str,
        by: str | None,
        groups: NDArray[Any] | None,
        confidence: float,
    ) -> Evaluation:
        """What all this says of the model."""
        if self.n_rows == 0:
            raise ReplearnError(f"{place} must have labelled rows, got none.")
        truth = np.concatenate(self._truth)
        predicted = np.concatenate([made.predicted for made in self._predicted])
        scores = _joined([made.scores for made in self._predicted])
        chances = _joined([made.probabilities for made in self._predicted])

        def of(rows: Any) -> Worth:
            return worth(
                truth[rows],
                predicted[rows],
                labels=self._classes,
                scores=None if scores is None else scores[rows],
                probabilities=None if chances is None else chances[rows],
                confidence=confidence,
            )

        whole = of(slice(None))
        small, parts = [], []
        for name, rows in _groups(by, groups):
            if rows.size < FEWEST_ROWS:
                small.append(rows.size)
            else:
                parts.append((name, of(rows)))
        ranks = chances if scores is None else scores
        two = ranks is not None and ranks.ndim == 1 and whole.auc is not None
        return Evaluation(
            worth=whole,
            fingerprint=fingerprint,
            place=place,
            by=by,
            groups=tuple(parts),
            n_small=len(small),
            n_small_rows=sum(small),
            roc=roc_points(ranks, truth == 1) if two and ranks is not None else None,
            bins=()
            if chances is None or chances.ndim == 2
            else calibration_bins(chances, truth == 1, confidence=confidence),
        )


def _joined(parts: Sequence[NDArray[np.float64] | None]) -> Any:
    return (
        None if parts[0] is None else np.concatenate([part for part in parts if part is not None])
    )


# --- groups -----------------------------------------------------------------------------------


def _column(place: str, name: str) -> NDArray[Any]:
    """One raw column of a file."""
    source = open_source(place, raw=True)
    if not isinstance(source, CsvSource | ParquetSource):
        raise ReplearnError(
            f"{place}: groups need a CSV or Parquet file with a column for them. Convert the file, "
            "or leave --by out."
        )
    if name not in source.wanted:
        known = ", ".join(repr(column) for column in source.wanted[:8])
        raise ReplearnError(f"{place} has no column {name!r}; its columns are {known}.")
    parts = [
        np.asarray([as_text(value) for value in columns[name].tolist()], dtype=object)
        for columns in source.raw_columns(None, [name], None)
    ]
    return np.concatenate(parts)


def _groups(by: str | None, values: NDArray[Any] | None) -> list[tuple[str, IntegerArray]]:
    """Names of groups and their rows, in the order of the names."""
    if values is None:
        return []
    texts = [as_text(value) for value in values.tolist()]
    names = sorted({text for text in texts if text is not None})
    if len(names) > _MOST_GROUPS:
        raise ReplearnError(
            f"{by!r} must have at most {_MOST_GROUPS} different values to make groups, got "
            f"{len(names):,}. Name a column of categories, or cut it into a few ranges."
        )
    places: dict[str | None, int] = {name: place for place, name in enumerate(names)}
    places[None] = len(names)
    numbers = np.array([places[text] for text in texts], dtype=np.int64)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(len(names) + 2))
    found = [
        (name, order[ends[place] : ends[place + 1]])
        for place, name in enumerate([*names, "(missing)"])
    ]
    return [(name, rows) for name, rows in found if rows.size]


_HEADINGS = ("base rate", "AUC", "balanced accuracy", "log-loss")


def _group_line(group: tuple[str, Worth]) -> tuple[str, ...]:
    name, found = group
    rates = found.base_rates[1:] if len(found.labels) == 2 else found.base_rates
    return (
        name,
        f"{found.n_rows:,}",
        " ".join(f"{rate.value:.3f}" for rate in rates),  # of more than two, in their order
        *(str(m or "-") for m in (found.auc, found.balanced_accuracy, found.log_loss)),
    )


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns of text, each as wide as its longest cell, which is cut at 40."""
    cut = [tuple(cell[:40] for cell in row) for row in rows]
    widths = [max(len(row[place]) for row in cut) for place in range(len(cut[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cut
    ]
