"""Sums for one regularised logistic fit on all rows, exact and without an order.

Rows are directions: ``v = sign x / |x|``, with a constant 1 appended before if there is an
intercept. At a vector ``u`` a row has the score ``s = <u, v>``, the loss ``ln(1 + e^-s)`` and the
slope ``p = 1 / (1 + e^s)``, minus the derivative of the loss. Added up over the rows are

* the **pull** ``p v``, minus the gradient of the loss,
* the **loss**.

Terms are counted in whole numbers, as in ``kernels.logistic``: none exceeds 1 (a loss is counted in
units of 1024), each is rounded to a multiple of 2^-51 as it is added to 3.0, and integers add up
exactly in any order and grouping. So a sum is a function of the multiset of rows.

Twin: ``slope_integers`` in tests/reference.py; tests in tests/unit/test_row_fit.py.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.kernels.compiler import by_kind, njit
from replearn.kernels.lanes import DenseRows, row_dot_and_square
from replearn.kernels.philox import natural_log
from replearn.kernels.rows import HUGE, TINY, is_zero, open_rows, rescaled, take, unmarked
from replearn.kernels.score_sums import LIMB, LOSS_UNIT, LOW, QUANTA, integers_of, merged_limbs
from replearn.kernels.sigmoid import sigmoid
from replearn.types import IntegerArray, Signs, Vector

_ORIGIN = 3.0
_ORIGIN_BITS = np.float64(_ORIGIN).view(np.int64)
_PACK = 2048  # rows whose terms fit into one integer


@dataclass(frozen=True)
class SlopeSums:
    """Sums over rows, in whole numbers; ``+`` merges those of two sets of rows.

    Attributes
    ----------
    n_rows, n_zero : int
        Rows with a direction, and rows of zeros only.
    limbs : int64 array of shape (2, n_inputs + 1)
        ``hi`` and ``lo`` of every sum, ``0 <= lo < 2^40``: the pull, then the loss.
    """

    n_rows: int
    n_zero: int
    limbs: IntegerArray

    def __add__(self, other: "SlopeSums") -> "SlopeSums":
        """The sums of both sets of rows; order and grouping do not matter."""
        limbs = merged_limbs(self.limbs, other.limbs)
        return SlopeSums(self.n_rows + other.n_rows, self.n_zero + other.n_zero, limbs)

    def integers(self) -> list[int]:
        """Every sum as one integer, in quanta."""
        return integers_of(self.limbs)

    def mean_pull(self) -> Vector:
        """Mean of ``p v``, each entry correctly rounded."""
        whole = max(self.n_rows, 1) * QUANTA
        return np.array([number / whole for number in self.integers()[:-1]])

    def mean_loss(self) -> float:
        """Mean loss, in nats."""
        return self.integers()[-1] / (max(self.n_rows, 1) * QUANTA) * LOSS_UNIT


def slope_sums(
    X: Any, signs: Signs, direction: Vector, class_weights: tuple[float, float] = (1.0, 1.0)
) -> SlopeSums:
    """Sums over the rows of a matrix at one vector.

    If the direction is one longer than a row, its last entry is the intercept's. Loss and slope of
    a row are multiplied by a class weight from 0 to 1, by its sign: -1, +1.
    """
    bias = 1.0 if direction.size > X.shape[1] else 0.0
    limbs = np.zeros((2, direction.size + 1), np.int64)
    counts = np.zeros(2, np.int64)
    _add(open_rows(X), unmarked(signs), unmarked(direction), bias, class_weights, limbs, counts)
    return SlopeSums(int(counts[0]), int(counts[1]), limbs)


def row_scores(X: Any, signs: Signs, direction: Vector) -> tuple[Vector, Vector]:
    """Score of every row, and its squared length with the constant; zero rows have length 0."""
    bias = 1.0 if direction.size > X.shape[1] else 0.0
    scores, sizes = np.zeros((2, signs.size))
    _fill_scores(open_rows(X), unmarked(signs), unmarked(direction), bias, scores, sizes)
    return scores, sizes


# --- compiled ---------------------------------------------------------------------------------


@by_kind
def add_row(rows, k, a, totals):
    """Add the quanta of ``a x_k`` to the totals."""

    def dense(rows, k, a, totals):
        x = rows.X[rows.members[k]]
        for j in range(x.size):
            totals[j] += np.float64(a * x[j] + _ORIGIN).view(np.int64) - _ORIGIN_BITS

    def sparse(rows, k, a, totals):
        member = rows.members[k]
        for place in range(rows.indptr[member], rows.indptr[member + 1]):
            term = np.float64(a * rows.data[place] + _ORIGIN).view(np.int64) - _ORIGIN_BITS
            totals[rows.indices[place]] += term

    return dense if rows.instance_class is DenseRows else sparse


@njit(cache=True, nogil=True)
def _quanta(value):
    return np.float64(value + _ORIGIN).view(np.int64) - _ORIGIN_BITS


@njit(cache=True, nogil=True)
def _add(rows, signs, direction, bias, class_weights, limbs, counts):
    n_rows, last = rows.members.size, direction.size - 1
    totals = np.empty(limbs.shape[1], np.int64)
    for start in range(0, n_rows, _PACK):
        totals[:] = 0
        for k in range(start, min(start + _PACK, n_rows)):
            product, size = row_dot_and_square(rows, k, direction)
            size += bias
            usual = TINY < size < HUGE
            if not usual:
                if size == 0.0 and is_zero(rows, k):
                    counts[1] += 1
                    continue
                product, size = row_dot_and_square(
                    rescaled(take(rows, k, k + 1), bias), 0, direction
                )
                size += bias
            counts[0] += 1
            factor = signs[rows.members[k]] / math.sqrt(size)
            score = factor * (product + bias * direction[last])
            weight = class_weights[1] if factor > 0.0 else class_weights[0]
            slope = sigmoid(-score) * weight
            a = slope * factor
            if usual:
                add_row(rows, k, a, totals)
            else:
                add_row(rescaled(take(rows, k, k + 1), bias), 0, a, totals)
            totals[last] += _quanta(bias * a)
            loss = -natural_log(sigmoid(score)) * weight
            totals[last + 1] += _quanta(loss * (1.0 / LOSS_UNIT))
        for j in range(totals.size):
            limbs[0, j] += totals[j] >> LIMB
            limbs[1, j] += totals[j] & LOW
            limbs[0, j] += limbs[1, j] >> LIMB
            limbs[1, j] &= LOW


@njit(cache=True, nogil=True)
def _fill_scores(rows, signs, direction, bias, scores, sizes):
    last = direction.size - 1
    for k in range(rows.members.size):
        product, size = row_dot_and_square(rows, k, direction)
        size += bias
        if not TINY < size < HUGE:
            if size == 0.0 and is_zero(rows, k):
                continue
            product, size = row_dot_and_square(rescaled(take(rows, k, k + 1), bias), 0, direction)
            size += bias
        sizes[k] = size
        scores[k] = signs[rows.members[k]] / math.sqrt(size) * (product + bias * direction[last])
