"""What a model is worth on labelled rows: next to always guessing, and with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.stages import intervals, ranking
from replearn.stages.calibration import LEAST, Calibration, calibrate
from replearn.stages.intervals import CONFIDENCE, Measured
from replearn.types import IntegerArray, Matrix, Vector

#: Slopes of calibration from which on probabilities mislead, if the whole interval is beyond.
_TOO_SURE, _TOO_TIMID = 0.9, 1.1


@dataclass(frozen=True)
class Worth:
    """What a model is worth on rows whose classes are known.

    All intervals have the same confidence and take the rows as independent draws from one
    population. Numbers that do not exist are None; ``absent`` says why.

    Attributes
    ----------
    labels : tuple
        The K classes, in the order of all tuples below; of two the second is "positive".
    n_rows : int
    confidence : float
    confusion : tuple of tuples of int
        Rows by true class (outer) and predicted class (inner).
    base_rates, predicted_shares : tuple of Measured
        Share of each class among the rows, and among the predictions. Wilson.
    recalls, precisions : tuple of Measured or None
        Share of each class that is found; share of each prediction that is right. Wilson. None for
        a class that has no rows, or is never predicted.
    accuracy : Measured
        Wilson.
    balanced_accuracy : Measured or None
        Mean of the recalls; their Wilson intervals combined.
    auc : Measured or None
        DeLong. With more than two classes the mean over classes, each against the rest.
    signal_p : float or None
        P-value of "the scores know nothing of the class" (Mann and Whitney; with more than two
        classes the smallest, times K).
    log_loss, brier : Measured or None
        In nats; mean squared error of the probability of the positive class (with more than two
        classes the sum over classes). Student's t. Need probabilities.
    log_loss_gain : Measured or None
        How much less that is, row by row, than that of always giving the base rates of these rows.
    calibration : Calibration or None
        Needs probabilities.
    absent : tuple of str
        One sentence for each thing that could not be said.
    """

    labels: tuple[Any, ...]
    n_rows: int
    confidence: float
    confusion: tuple[tuple[int, ...], ...]
    base_rates: tuple[Measured, ...]
    predicted_shares: tuple[Measured, ...]
    recalls: tuple[Measured | None, ...]
    precisions: tuple[Measured | None, ...]
    accuracy: Measured
    balanced_accuracy: Measured | None
    auc: Measured | None
    signal_p: float | None
    log_loss: Measured | None
    brier: Measured | None
    log_loss_gain: Measured | None
    calibration: Calibration | None
    absent: tuple[str, ...]

    @cached_property
    def base_log_loss(self) -> float:
        """Log-loss of always giving the base rates of these rows."""
        rates = (rate.value for rate in self.base_rates)
        return -math.fsum(rate * math.log(rate) for rate in rates if rate > 0)

    @cached_property
    def base_brier(self) -> float:
        """Brier score of always giving the base rates of these rows."""
        rates = [rate.value for rate in self.base_rates]
        spread = math.fsum(rate * (1 - rate) for rate in rates)
        return spread / 2 if len(rates) == 2 else spread

    @cached_property
    def majority(self) -> int:
        """Number of the most frequent class."""
        return max(range(len(self.labels)), key=lambda k: (self.base_rates[k].value, -k))

    @property
    def constant(self) -> bool:
        """Every row gets the same class."""
        return sum(share.value > 0 for share in self.predicted_shares) == 1

    @property
    def no_signal(self) -> bool:
        """The rows do not show that the scores know anything of the class."""
        if self.signal_p is None:
            return False
        return self.signal_p >= 1 - self.confidence

    @property
    def inverted(self) -> bool:
        """The scores order the rows the wrong way round, beyond chance."""
        return self.auc is not None and self.auc.high < 0.5 and not self.no_signal

    @property
    def worse_than_base_rate(self) -> bool:
        """Always giving the base rates would be better, beyond chance.

        By log-loss; without probabilities by accuracy, if the balanced accuracy is not
        shown to be better than guessing.
        """
        if self.log_loss_gain is not None:
            return self.log_loss_gain.high < 0
        balanced = self.balanced_accuracy
        if balanced is None or balanced.low > 1 / len(self.labels):
            return False
        return self.accuracy.high < self.base_rates[self.majority].value

    @property
    def flags(self) -> tuple[str, ...]:
        """What makes the model useless, in words of a program; empty if nothing does."""
        names = ("constant", "inverted", "no_signal", "worse_than_base_rate")
        return tuple(name for name in names if getattr(self, name))

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes the model useless, one sentence each, with what to do."""
        found = []
        if self.constant:
            (only,) = (
                label
                for label, share in zip(self.labels, self.predicted_shares, strict=True)
                if share.value > 0
            )
            # a model without signal has a sentence of its own
            remedy = (
                ""
                if self.no_signal or self.auc is None
                else " Its scores do order the rows: decide at another threshold."
            )
            found.append(
                f"The model gives every one of {self.n_rows:,} rows the class {only!r}.{remedy}"
            )
        if self.inverted:
            assert self.auc is not None
            found.append(
                f"The model orders the rows the wrong way round: AUC {self.auc}, where guessing "
                "has 0.5. Check that the labels mean the same in both files."
            )
        elif self.no_signal:
            assert self.auc is not None
            found.append(
                f"These {self.n_rows:,} rows do not show that the model knows anything of the "
                f"class: AUC {self.auc}, where guessing has 0.5 ({_p(self.signal_p)}). "
                "Evaluate it on more rows, or plan a study with fewer directions or more rows."
            )
        if self.worse_than_base_rate and not self.inverted:
            if self.log_loss is not None:
                found.append(
                    f"Always giving the base rates would be better: log-loss {self.log_loss}, "
                    f"theirs {self.base_log_loss:.3f}. Recalibrate the model on such rows."
                )
            else:
                found.append(
                    f"Always answering {self.labels[self.majority]!r} would be right more often: "
                    f"accuracy {self.accuracy}, and {self.base_rates[self.majority].value:.3f}."
                )
        return tuple(found)

    def lines(self, own: bool = False) -> list[tuple[str, str]]:
        """The short table, as names and values.

        ``own``: these are the rows of the fit. The p-value is not that of this AUC, so it stands
        elsewhere.
        """
        most = self.labels[self.majority]
        rates = ", ".join(
            f"{rate.value:.1%} {label}"
            for label, rate in zip(self.labels, self.base_rates, strict=True)
        )
        lines = [("rows", f"{self.n_rows:,}: {rates}")]
        if self.auc is not None:
            p = "" if own else f", {_p(self.signal_p)}"
            lines.append(("AUC", f"{self.auc}; guessing 0.5{p}"))
        if self.balanced_accuracy is not None:
            guess = f"{1 / len(self.labels):.3g}"
            lines.append(("balanced accuracy", f"{self.balanced_accuracy}; guessing {guess}"))
        always = self.base_rates[self.majority].value
        lines.append(("accuracy", f"{self.accuracy}; always {most}: {always:.3f}"))
        if self.log_loss is not None:
            lines.append(("log-loss", f"{self.log_loss}; base rate {self.base_log_loss:.3f}"))
        if self.brier is not None:
            lines.append(("Brier score", f"{self.brier}; base rate {self.base_brier:.3f}"))
        if self.calibration is not None:
            offsets = ", ".join(map(str, self.calibration.intercepts))
            slope = self.calibration.slope
            text = f"intercept {offsets}" + ("" if slope is None else f", slope {slope}")
            if slope is not None and slope.high < _TOO_SURE:
                text += ": too sure of itself"
            elif slope is not None and slope.low > _TOO_TIMID:
                text += ": not sure enough of itself"
            lines.append(("calibration", text))
        lines += [
            (
                f"true {label}",
                ", ".join(
                    f"{count:,} predicted {other}"
                    for other, count in zip(self.labels, counts, strict=True)
                ),
            )
            for label, counts in zip(self.labels, self.confusion, strict=True)
        ]
        return lines

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.lines()) + 2
        text = [f"{name:<{width}}{value}" for name, value in self.lines()]
        return "\n".join([*text, *self.problems, *self.absent])

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        by_class = {
            "base_rates": self.base_rates,
            "predicted_shares": self.predicted_shares,
            "recalls": self.recalls,
            "precisions": self.precisions,
        }
        numbers = {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "auc": self.auc,
            "log_loss": self.log_loss,
            "log_loss_gain": self.log_loss_gain,
            "brier": self.brier,
        }
        return {
            "labels": list(self.labels),
            "rows": self.n_rows,
            "confidence": self.confidence,
            "confusion": [list(counts) for counts in self.confusion],
            **{name: [_data(m) for m in measured] for name, measured in by_class.items()},
            **{name: _data(measured) for name, measured in numbers.items()},
            "signal_p": self.signal_p,
            "base_log_loss": self.base_log_loss,
            "base_brier": self.base_brier,
            "calibration": None
            if self.calibration is None
            else {
                "intercepts": [_data(m) for m in self.calibration.intercepts],
                "slope": _data(self.calibration.slope),
            },
            "flags": list(self.flags),
            "problems": list(self.problems),
            "absent": list(self.absent),
        }


def worth(
    truth: IntegerArray,
    predicted: IntegerArray,
    *,
    labels: Sequence[Any],
    scores: Vector | Matrix | None = None,
    probabilities: Vector | Matrix | None = None,
    confidence: float = CONFIDENCE,
    calibrated: bool = True,
) -> Worth:
    """What a model is worth on rows whose classes are known.

    Parameters
    ----------
    truth, predicted : int arrays of shape (n_rows,)
        Class numbers 0..K-1, of any integer type.
    labels : sequence of K labels
    scores : float array of shape (n_rows,), or (n_rows, K)
        Of two classes: larger for the second. Of more: one for each class. Default: the
        probabilities.
    probabilities : float array of shape (n_rows,), or (n_rows, K), optional
        Of two classes those of the second are enough.
    confidence : float, default=0.95
        Of every interval.
    calibrated : bool, default=True
        Measure the calibration as well, which takes longer than all the rest.

    Returns
    -------
    Worth

    Examples
    --------
    >>> truth = np.array([0, 0, 0, 1, 1, 0, 1, 1])
    >>> p = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
    >>> print(worth(truth, p > 0.5, labels=("no", "yes"), probabilities=p).auc)
    0.875 (0.345 to 0.989)
    """
    truth, predicted = np.asarray(truth), np.asarray(predicted)
    n_rows, n_classes = truth.size, len(labels)
    if n_rows == 0:
        raise ReplearnError("a model is evaluated on labelled rows, got none. Pass at least one.")
    if probabilities is not None and probabilities.ndim == 1:
        probabilities = np.column_stack([1.0 - probabilities, probabilities])
    if scores is None:
        scores = probabilities
    absent = []
    pairs = truth.astype(np.int64) * n_classes + predicted
    confusion = np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes)
    by_truth, by_prediction = confusion.sum(axis=1), confusion.sum(axis=0)
    hits = confusion.diagonal()
    recalls = [_share(hits[k], by_truth[k], confidence) for k in range(n_classes)]
    found = [recall for recall in recalls if recall is not None]
    all_there = len(found) == n_classes
    if not all_there:
        missing = ", ".join(repr(labels[k]) for k in range(n_classes) if by_truth[k] == 0)
        absent.append(
            f"No row has the class {missing}, so there is no AUC, balanced accuracy or calibration."
        )
    area, p_value = None, None
    if scores is None:
        absent.append("The model has no scores, so there is no AUC.")
    elif all_there:
        area, p_value = _ranking(scores, truth, n_classes, confidence)
    losses, squares, calibration = None, None, None
    if probabilities is None:
        absent.append(
            "The model has scores and no probabilities, so there is no log-loss, Brier score or "
            "calibration."
        )
    else:
        own = probabilities[np.arange(n_rows), truth]
        losses = -np.log(np.clip(own, LEAST, 1.0))
        squares = _squares(probabilities, truth)
        if all_there and calibrated:
            calibration = calibrate(probabilities, truth.astype(np.int64), confidence)
            if calibration is None or calibration.slope is None:
                absent.append(
                    "There is no calibration slope: the probabilities are all equal, or separate "
                    "the classes."
                )
    gain = None
    if losses is not None:
        base = -np.log(np.maximum(by_truth, 1) / n_rows)
        gain = intervals.mean(base[truth] - losses, confidence)
    return Worth(
        labels=tuple(labels),
        n_rows=n_rows,
        confidence=confidence,
        confusion=tuple(tuple(int(count) for count in row) for row in confusion),
        base_rates=tuple(intervals.share(int(n), n_rows, confidence) for n in by_truth),
        predicted_shares=tuple(intervals.share(int(n), n_rows, confidence) for n in by_prediction),
        recalls=tuple(recalls),
        precisions=tuple(_share(hits[k], by_prediction[k], confidence) for k in range(n_classes)),
        accuracy=intervals.share(int(hits.sum()), n_rows, confidence),
        balanced_accuracy=intervals.mean_of_shares(found) if all_there else None,
        auc=area,
        signal_p=p_value,
        log_loss=None if losses is None else intervals.mean(losses, confidence),
        brier=None if squares is None else intervals.mean(squares, confidence),
        log_loss_gain=gain,
        calibration=calibration,
        absent=tuple(absent),
    )


def _share(count: int, trials: int, confidence: float) -> Measured | None:
    return intervals.share(int(count), int(trials), confidence) if trials else None


def _squares(probabilities: Matrix, truth: IntegerArray) -> Vector:
    """Squared error of the probabilities of each row; of two classes that of the second."""
    if probabilities.shape[1] == 2:
        return (probabilities[:, 1] - truth) ** 2
    errors = probabilities.copy()
    errors[np.arange(truth.size), truth] -= 1.0
    return (errors**2).sum(axis=1)


def _ranking(
    scores: Vector | Matrix, truth: IntegerArray, n_classes: int, confidence: float
) -> tuple[Measured, float]:
    """Area under the ROC curve and the p-value of no signal; of several classes the mean."""
    if n_classes == 2:
        column = scores if scores.ndim == 1 else scores[:, 1]
        positive = truth == 1
        p_value = ranking.signal_p_value(column, positive)
        return ranking.auc(column, positive, confidence), p_value
    columns = [(scores[:, k], truth == k) for k in range(n_classes)]
    p_values = [ranking.signal_p_value(*column) for column in columns]
    return ranking.mean_auc(columns, confidence), min(1.0, n_classes * min(p_values))


def _data(measured: Measured | None) -> dict[str, Any] | None:
    return None if measured is None else measured.data()


def _p(value: float | None) -> str:
    assert value is not None
    return f"p = {value:.2g}" if value >= 1e-6 else "p < 1e-6"
