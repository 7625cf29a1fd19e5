"""Scores of finished models on a site's rows: one number per row and model, summed exactly.

================== ================================================= =================
scoring            number of a row, larger is better                 needs
================== ================================================= =================
accuracy           1 if the class is right                           labels
balanced_accuracy  1 / (K share of the class) if it is right         labels
neg_cost           minus the published cost of this mistake          labels
neg_brier_score    minus half the squared distance of the            probabilities
                   probabilities from what came
neg_log_loss       ln of the probability of what came, at least      probabilities
                   ln ``CLIP``
roc_auc            the area, and by how much the row moves it        scores, two classes
================== ================================================= =================

A score is the mean over rows. Numbers of rows are whole multiples of 2^-30 (of 2^-12 for their
products), so sums do not depend on the order, on chunks or on the machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.kernels.sigmoid import log_losses
from replearn.stages import ranking
from replearn.types import IntegerArray, Matrix, Vector

#: Scorings by what they need of a candidate.
NEEDS = {
    "accuracy": "labels",
    "balanced_accuracy": "labels",
    "neg_cost": "labels",
    "neg_brier_score": "probabilities",
    "neg_log_loss": "probabilities",
    "roc_auc": "scores",
}

#: Probabilities count as at least this much in a log-loss, so that no row decides alone.
CLIP = 0.001

#: Largest number of a row, for instance the weight of a class with a share of .001 in two.
LARGEST = 1024.0

_SUM_BITS, _PRODUCT_BITS = 30, 12
_EXACT_ROWS = 1 << 8  # sums of this many products of 22 by 22 bits are exact in a double
_SAFE_ROWS = 1 << 17  # and of this many in a 64-bit integer


@dataclass(frozen=True)
class Scoring:
    """How candidates are scored; published.

    Attributes
    ----------
    name : str
        A key of ``NEEDS``.
    prevalence : tuple of str or None
        Of "balanced_accuracy": share of each class, decimals, in the order of the classes. None:
        those of the site's own rows.
    costs : tuple of tuples of str or None
        Of "neg_cost": decimals, by true class (outer) and predicted class (inner).
    """

    name: str
    prevalence: tuple[str, ...] | None = None
    costs: tuple[tuple[str, ...], ...] | None = None

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        extra: dict[str, Any] = {}
        if self.prevalence is not None:
            extra["prevalence"] = list(self.prevalence)
        if self.costs is not None:
            extra["costs"] = [list(row) for row in self.costs]
        return {"name": self.name} | extra

    @property
    def row_range(self) -> float | None:
        """Largest minus smallest number that a row can have; None if the rows decide it."""
        if self.name == "balanced_accuracy":
            if self.prevalence is None:
                return None
            return max(1 / (len(self.prevalence) * float(share)) for share in self.prevalence)
        if self.name == "neg_cost":
            assert self.costs is not None
            costs = [float(cost) for row in self.costs for cost in row]
            return max(costs) - min(costs)
        return {
            "accuracy": 1.0,
            "neg_brier_score": 1.0,
            "neg_log_loss": -math.log(CLIP),
        }.get(self.name)

    @property
    def binary(self) -> bool:
        """A row's number is 0 or 1."""
        return self.name == "accuracy"


def check_scoring(scoring: Scoring, n_classes: int) -> None:
    """Refuse a scoring that does not fit the number of classes."""
    if scoring.name not in NEEDS:
        raise ReplearnError(
            f"scoring must be one of {', '.join(NEEDS)}, got {scoring.name!r}. A table of costs "
            "is given as an array."
        )
    if scoring.name == "roc_auc" and n_classes != 2:
        raise ReplearnError(
            f"roc_auc is for two classes, got {n_classes}. Use accuracy, neg_log_loss or "
            "neg_brier_score."
        )
    if scoring.prevalence is not None:
        shares = [float(share) for share in scoring.prevalence]
        if scoring.name != "balanced_accuracy" or len(shares) != n_classes:
            raise ReplearnError(
                f"prevalence must have one share for each of {n_classes} classes, and goes with "
                f"balanced_accuracy, got {len(shares)} and {scoring.name}."
            )
        if min(shares) < 1 / LARGEST or abs(math.fsum(shares) - 1) > 0.01:
            raise ReplearnError(
                f"prevalence must be shares of at least {1 / LARGEST:.2g} that add up to 1, got "
                f"{', '.join(scoring.prevalence)}."
            )
    if (scoring.name == "neg_cost") != (scoring.costs is not None):
        raise ReplearnError("neg_cost and a table of costs go together. Pass the table as scoring.")
    if scoring.costs is not None:
        table = [[float(cost) for cost in row] for row in scoring.costs]
        if len(table) != n_classes or any(len(row) != n_classes for row in table):
            raise ReplearnError(
                f"costs must be a table of {n_classes} by {n_classes}, true class by predicted "
                f"class, got {len(table)} rows."
            )
        if not all(math.isfinite(cost) and abs(cost) <= LARGEST for row in table for cost in row):
            raise ReplearnError(
                f"costs must be numbers of at most {LARGEST:g} in absolute value. Scale them."
            )


# --- one number per row -------------------------------------------------------------------------


def row_scores(scoring: Scoring, truth: IntegerArray, predicted: NDArray[Any]) -> Vector:
    """Numbers of the rows of one candidate; their mean is its score.

    ``truth`` holds numbers of classes; ``predicted`` is what ``NEEDS`` says: numbers of classes (-1
    for a label that is none of the classes), or probabilities of shape (n_rows, n_classes), or
    scores of the second class.

    Notes
    -----
    The area under the ROC curve and the balanced accuracy with a site's own class shares are no
    means over rows. Their numbers are the score plus by how much each row moves it (DeLong's
    placements, for the area), so that their mean is the score and their spread gives its variance.
    """
    if scoring.name == "accuracy":
        return (predicted == truth).astype(np.float64)
    if scoring.name == "balanced_accuracy":
        return _balanced(scoring, truth, predicted == truth)
    if scoring.name == "neg_cost":
        assert scoring.costs is not None
        table = np.array([[float(cost) for cost in row] for row in scoring.costs])
        # a label that is none of the classes costs as much as the worst mistake
        known = np.where(predicted >= 0, predicted, 0)
        return -np.where(predicted >= 0, table[truth, known], table[truth].max(axis=1))
    if scoring.name == "neg_log_loss":
        return -log_losses(predicted[np.arange(truth.size), truth], CLIP)
    if scoring.name == "neg_brier_score":
        came = np.arange(predicted.shape[1]) == truth[:, None]
        return -0.5 * ((predicted - came) ** 2).sum(axis=1)
    area, moved = ranking.moves(np.asarray(predicted, dtype=np.float64), truth == 1)
    return area + truth.size * moved


def _balanced(scoring: Scoring, truth: IntegerArray, right: NDArray[np.bool_]) -> Vector:
    if scoring.prevalence is not None:
        shares = np.array([float(share) for share in scoring.prevalence])
        return np.where(right, 1 / (shares.size * shares)[truth], 0.0)
    counts = np.bincount(truth)
    recalls = np.bincount(truth, weights=right) / counts
    moved = (right - recalls[truth]) * (truth.size / (counts.size * counts))[truth]
    return np.asarray(recalls.mean() + moved)


def check_classes_present(scoring: Scoring, truth: IntegerArray, n_classes: int) -> None:
    """Refuse rows without some class, if the score is about all of them."""
    own_shares = scoring.name == "balanced_accuracy" and scoring.prevalence is None
    if scoring.name != "roc_auc" and not own_shares:
        return
    counts = np.bincount(truth, minlength=n_classes)
    if counts.min() == 0:
        raise ReplearnError(
            f"y must hold all {n_classes} classes for {scoring.name}, got {int((counts > 0).sum())}"
            ". Get rows of the others, or use accuracy or neg_log_loss."
        )


# --- exact sums ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Exact sums of the numbers of rows.

    Attributes
    ----------
    n_rows : int
    totals : array of whole numbers (Python's), shape (n_candidates,)
        Sums of the numbers, in units of 2^-30.
    halves, products : arrays of whole numbers, shapes (n_candidates,), (n_candidates, n_candidates)
        Sums of the numbers in units of 2^-12, and of their products in units of 2^-24.
    """

    n_rows: int
    totals: NDArray[Any]
    halves: NDArray[Any]
    products: NDArray[Any]

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        return ScoreSums(
            self.n_rows + other.n_rows,
            self.totals + other.totals,
            self.halves + other.halves,
            self.products + other.products,
        )

    @property
    def scores(self) -> Vector:
        """Means over the rows, rounded once."""
        unit = self.n_rows << _SUM_BITS
        return np.array([int(total) / unit for total in self.totals])

    @property
    def covariance(self) -> Matrix:
        """Of the numbers of a row."""
        n = self.n_rows
        exact = n * self.products - np.outer(self.halves, self.halves)
        unit = (n * n) << (2 * _PRODUCT_BITS)
        return np.array([[int(entry) / unit for entry in row] for row in exact])

    @property
    def square_differences(self) -> Matrix:
        """Mean squares of the differences of two candidates' numbers."""
        squares = np.diag(self.products)
        exact = squares[:, None] + squares[None, :] - 2 * self.products
        unit = self.n_rows << (2 * _PRODUCT_BITS)
        return np.array([[int(entry) / unit for entry in row] for row in exact])


#: Largest error of a number in `ScoreSums.products`.
PRODUCT_ERROR = 2.0 ** -(_PRODUCT_BITS + 1)


def sum_scores(numbers: Sequence[Vector]) -> ScoreSums:
    """Exact sums of the numbers of rows, in any order.

    There is an array for each candidate, of numbers of at most ``LARGEST`` in absolute value.

    Examples
    --------
    >>> right = [np.array([1.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])]
    >>> sums = sum_scores(right)
    >>> sums.scores, float(sums.square_differences[0, 1])
    (array([0.75, 0.5 ]), 0.25)
    """
    table = np.column_stack(list(numbers))
    if not (np.abs(table) <= LARGEST).all():
        raise ReplearnError(
            f"scores of rows must be at most {LARGEST:g} in absolute value: one class is too rare. "
            "Use accuracy, neg_log_loss or neg_brier_score."
        )
    totals = _exact_sum(np.rint(table * 2.0**_SUM_BITS))
    parts = np.rint(table * 2.0**_PRODUCT_BITS)
    return ScoreSums(len(table), totals, _exact_sum(parts), _exact_products(parts))


def _exact_sum(whole: Matrix) -> NDArray[Any]:
    """Sums of columns of whole numbers, as Python's integers."""
    sums = [
        whole[start : start + _SAFE_ROWS].astype(np.int64).sum(axis=0).astype(object)
        for start in range(0, len(whole), _SAFE_ROWS)
    ]
    return np.asarray(reduce(np.add, sums))


def _exact_products(parts: Matrix) -> NDArray[Any]:
    sums: list[NDArray[Any]] = []
    for start in range(0, len(parts), _SAFE_ROWS):
        total = np.zeros((parts.shape[1], parts.shape[1]), dtype=np.int64)
        some = parts[start : start + _SAFE_ROWS]
        for first in range(0, len(some), _EXACT_ROWS):
            block = some[first : first + _EXACT_ROWS]
            # whole numbers below 2^53: exact in whatever order the library adds them
            total += (block.T @ block).astype(np.int64)
        sums.append(total.astype(object))
    return np.asarray(reduce(np.add, sums))
