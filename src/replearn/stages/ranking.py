"""How well scores order rows: the area under the ROC curve, its interval, its test, the curve."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from replearn.stages.intervals import CONFIDENCE, Measured, normal_quantile
from replearn.types import IntegerArray, Matrix, Vector


def auc(scores: Vector, positive: NDArray[np.bool_], confidence: float = CONFIDENCE) -> Measured:
    """Area under the ROC curve with DeLong's interval.

    The chance that a positive row has the larger score; ties count half. There must be at least one
    row of each kind.

    Notes
    -----
    The variance is that of DeLong, DeLong and Clarke-Pearson (1988): of the share of negative
    rows below each positive one, and of the share of positive rows above each negative one. The
    interval is normal for the log-odds of the area, so it stays inside (0, 1). If the scores
    separate the classes, that variance is 0, and the end is the area ``a`` for which
    ``min(n_positive, n_negative)`` disjoint pairs are all in order with probability
    ``(1 - confidence) / 2``: exact, and wide. Tested in tests/theory/test_worth.py.
    """
    above = np.sort(scores[positive])
    below = np.sort(scores[~positive])
    m, n = above.size, below.size
    # twice the number of pairs in order: whole numbers, so no order of summation matters
    twice = _placements(above, below)
    area = int(twice.sum()) / (2 * m * n)
    if not 0 < area < 1:
        return _of_separated(area, min(m, n), confidence)
    if min(m, n) < 2:
        return Measured(area, 0.0, 1.0, "none: one row of a class")
    variance = float((twice / (2 * n)).var(ddof=1)) / m
    variance += float((_placements(below, above) / (2 * m)).var(ddof=1)) / n
    return _of_log_odds(area, variance, confidence)


def mean_auc(
    columns: Sequence[tuple[Vector, NDArray[np.bool_]]], confidence: float = CONFIDENCE
) -> Measured:
    """Mean of the areas of several scores of the same rows, such as one for each class.

    Notes
    -----
    DeLong's variance with covariances: each row moves every area by so much, and it is the mean
    of these moves whose square is summed.
    """
    areas, moved = zip(*(moves(*column) for column in columns), strict=True)
    area = math.fsum(areas) / len(areas)
    if not 0 < area < 1:
        rarest = min(min(int(hit.sum()), int((~hit).sum())) for _, hit in columns)
        return _of_separated(area, rarest, confidence)
    together = np.mean(moved, axis=0)
    return _of_log_odds(area, float((together**2).sum()), confidence)


def moves(scores: Vector, positive: NDArray[np.bool_]) -> tuple[float, Vector]:
    """The area, and by how much each row moves it away from that of the population."""
    above, below = scores[positive], scores[~positive]
    m, n = above.size, below.size
    twice = _placements(above, np.sort(below))
    area = int(twice.sum()) / (2 * m * n)
    moved = np.empty(scores.size)
    moved[positive] = (twice / (2 * n) - area) / m
    moved[~positive] = (1 - _placements(below, np.sort(above)) / (2 * m) - area) / n
    return area, moved


def _of_separated(area: float, n_pairs: int, confidence: float) -> Measured:
    few = ((1 - confidence) / 2) ** (1 / n_pairs)
    low, high = (few, 1.0) if area == 1 else (0.0, 1 - few)
    return Measured(area, low, high, "exact, separated")


def _of_log_odds(area: float, variance: float, confidence: float) -> Measured:
    logit = math.log(area) - math.log1p(-area)
    half = normal_quantile(confidence) * math.sqrt(variance) / (area * (1 - area))
    return Measured(
        area, float(expit(logit - half)), float(expit(logit + half)), "DeLong, of the log-odds"
    )


def _placements(of: Vector, among: Vector) -> IntegerArray:
    """Twice how many of ``among``, which is sorted, are below each of ``of``; ties count half."""
    return np.searchsorted(among, of, "left") + np.searchsorted(among, of, "right")


def signal_p_value(scores: Vector, positive: NDArray[np.bool_]) -> float:
    """P-value of "the scores know nothing of the class": the area against 1/2, two-sided.

    The test of Mann and Whitney, in its normal form, corrected for ties and for continuity.

    Examples
    --------
    >>> scores = np.arange(20.0)
    >>> float(f"{signal_p_value(scores, scores >= 10):.2g}")
    0.00018
    """
    _, one_sided = area_and_p_value(scores, positive)
    return 2 * min(one_sided, 1 - one_sided)


def area_and_p_value(scores: Vector, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """The area, and the same test one-sided: small if positive rows have the larger scores."""
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    m, n = above.size, below.size
    if not m or not n:
        return 0.5, 0.5
    total, ordered = m + n, np.sort(scores)
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # of each group of ties
    twice, tied = 2 * int(np.searchsorted(below, above).sum()), 0.0
    if ends.size < total:
        twice = int(_placements(above, below).sum())
        ties = np.diff(ends, prepend=-1).astype(np.float64)
        tied = float((ties**3 - ties).sum()) / (total * max(1, total - 1))
    variance = m * n / 12 * (total + 1 - tied)
    if variance <= 0:  # all scores are equal
        return 0.5, 0.5
    excess = (twice - m * n) / 2
    tail = float(ndtr(-max(0.0, abs(excess) - 0.5) / math.sqrt(variance)))
    return twice / (2 * m * n), tail if excess > 0 else 1 - tail


def roc_points(scores: Vector, positive: NDArray[np.bool_], most: int = 400) -> Matrix:
    """Corners of the ROC curve, from (0, 0) to (1, 1), thinned to about ``most`` of them.

    Share of negative and share of positive rows at or above each score.
    """
    order = np.argsort(-scores, kind="stable")
    hits = positive[order]
    last = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0)  # of each group of ties
    if last.size > most:
        last = last[np.unique(np.linspace(0, last.size - 1, most).astype(np.int64))]
    true = np.cumsum(hits)[last]
    false = last + 1 - true
    n_positive = int(hits.sum())
    points = np.column_stack([false / (hits.size - n_positive), true / n_positive])
    return np.vstack([[0.0, 0.0], points])
