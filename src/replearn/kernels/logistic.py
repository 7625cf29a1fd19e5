"""Sums for regression in a few published directions, exact and without an order.

A row ``x`` is shortened to length ``cap`` if it is longer, and seen in k directions only:
``a = (1, D x')``, q = k + 1 numbers. Of K classes, class 0 has the score 0 and class c the score
``theta_c . a``; ``p`` are their probabilities (``docs/sigmoid.md``), ``t`` is 1 for the row's own
class. Added up over the rows are, for the C = K - 1 classes from 1 on,

* the **score** ``v = (p_c - t_c) a``,
* the **Fisher** information ``p_c (1 - p_c) a a'``, or ``- p_c p_c' a a'`` between classes,
* the **second** moments ``v v'`` of the score,
* the **loss** ``- ln p`` of the row's own class.

With numbers instead of classes there is one output; ``theta . a`` itself stands for p and the
row's number for t: ``v = r a`` with the residual ``r = theta . a - t``, cut to +-1, the information
is ``a a'`` and the loss ``r^2 / 2`` (beyond 1 its tangent).

Everything is counted in whole numbers. Direction j has a *unit*, a power of two that no
projection exceeds, and each term is rounded to a multiple of ``2^-51`` units as it is added to
``3.0``: there a double has the quantum ``2^-51``, and the difference of its bits from those of
``3.0`` is the multiple. Integers add up exactly in any order and grouping, so a sum is a function
of the multiset of rows. Per term that is a multiplication, an addition and a whole-number
addition; all three become vector instructions over a *pack* of rows, four terms at a time if they
have a factor in common.

Twin: ``score_terms`` in tests/reference.py; tests in tests/unit/test_logistic_kernel.py.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import njit, wrapping
from replearn.kernels.directions import (
    CAPPED,
    ZERO,
    Projected,
    arranged,
    fill_projected,
    project,
    projection_units,
)
from replearn.kernels.philox import natural_log
from replearn.kernels.rows import open_rows, unmarked
from replearn.kernels.score_sums import LIMB, LOSS_UNIT, LOW, Parts, ScoreSums, triangle
from replearn.kernels.sigmoid import exponential, sigmoid
from replearn.types import IntegerArray, Matrix, Vector

__all__ = [
    "MAX_WEIGHT",
    "Parts",
    "Projected",
    "ScoreSums",
    "project",
    "projection_units",
    "row_score_sums",
    "score_sums",
]

#: Largest weight of a row.
MAX_WEIGHT = 2**24

_PACK = 256
_KEPT = 2**15  # projections between the two loops of a pass: they stay in the cache
_ORIGIN = 3.0
_ORIGIN_BITS = np.float64(_ORIGIN).view(np.int64)
# a weighted term is split here, so that the products with the weight stay below 2^50
_HALF, _HALF_LOW = np.int64(26), np.int64(2**26 - 1)
_WEIGHT_BITS = np.int64(2**27 - 1)
_LOWEST_BITS = np.float64(_ORIGIN - 1.0).view(np.int64)


# --- what callers use -------------------------------------------------------------------------


def score_sums(
    projected: Projected,
    classes: NDArray[Any],
    theta: Vector | Matrix,
    units: Vector,
    weights: IntegerArray | None = None,
    *,
    fisher: bool = True,
    second: bool = True,
    loss: bool = False,
    most: Vector | None = None,
    factors: Vector | None = None,
) -> ScoreSums:
    """Sums over rows that were projected before.

    Parameters
    ----------
    projected : Projected
    classes : uint8 or float64 array of shape (n_rows,)
        Number of each row's class; in float64, numbers from -1/2 to 1/2 to regress on.
    theta : float64 array of shape (q,) or (C, q)
        Of each class from 1 on, the intercept first.
    units : float64 array of shape (q,)
        As from ``projection_units``. Projections beyond them are cut.
    weights : int64 array of shape (n_rows,), optional
        Between 0 and ``2^24``. A row of weight m counts like m equal rows, to the bit.
    fisher, second, loss : bool
        Which sums are made beside those of the score.
    most : float64 array of shape (q,), optional
        An entry of a row's score ``(p - t) a`` is cut to this size, in the score and in its second
        moments, so that no row pushes far.
    factors : float64 array of shape (n_classes,), optional
        From 0 to 1, by the row's own class: its score, information and loss are multiplied by it
        (the second moments by its square), but it counts as a whole row in every mean.

    Notes
    -----
    Total weights up to ``2^50``. The result has the same bits for any order of the rows and,
    added up, for any split.
    """
    work = _new_work(theta, units, most, factors, Parts(bool(fisher), bool(second), bool(loss)))
    values, n_rows = unmarked(projected.values), projected.values.shape[1]
    numeric = classes.dtype == np.float64
    _add_projected(values, n_rows, unmarked(classes), numeric, _checked(weights), work)
    return work.sums(n_rows, projected.n_zero, projected.n_capped, weights)


def row_score_sums(
    X: Any,
    directions: Matrix,
    cap: float,
    classes: NDArray[Any],
    theta: Vector | Matrix,
    units: Vector | None = None,
    weights: IntegerArray | None = None,
    *,
    fisher: bool = True,
    second: bool = True,
    loss: bool = False,
    most: Vector | None = None,
    factors: Vector | None = None,
) -> ScoreSums:
    """``score_sums`` of ``project``, in one pass that keeps nothing; the same bits.

    Parameters
    ----------
    X, directions, cap
        As for ``project``.
    classes, theta, units, weights, fisher, second, loss, most, factors
        As for ``score_sums``. By default ``units`` are ``projection_units(directions, cap)``.
    """
    units = projection_units(directions, cap) if units is None else units
    work = _new_work(theta, units, most, factors, Parts(bool(fisher), bool(second), bool(loss)))
    rows, counts, grains = open_rows(X), np.zeros(2, np.int64), _checked(weights)
    table, n_rows, k = arranged(rows, directions), rows.members.size, directions.shape[0]
    values, numeric = np.empty((k, max(_PACK, _KEPT // max(1, k)))), classes.dtype == np.float64
    for start in range(0, n_rows, values.shape[1]):
        stop = min(start + values.shape[1], n_rows)
        fill_projected(rows, table, float(cap), start, stop, values, counts)
        some = grains[start:stop] if grains.size else grains
        _add_projected(values, stop - start, unmarked(classes[start:stop]), numeric, some, work)
    return work.sums(n_rows, int(counts[ZERO]), int(counts[CAPPED]), weights)


class _Work(NamedTuple):
    """What the loops take and fill: theta in units, terms, limbs of sums, counts, parts.

    Term ``t`` is the product of two *factors* of a row, numbers ``terms[0, t]`` and
    ``terms[1, t]``: first the q entries of ``a``, then those of ``v`` for each output, of
    ``p (1 - p) a`` or ``- p p' a`` for each pair of outputs, and the loss.
    """

    theta: Matrix
    units: Vector
    most: Vector  # in units
    factors: Vector  # of each class
    terms: IntegerArray
    limbs: IntegerArray
    counts: IntegerArray  # of each class, then of rows that were cut
    parts: Parts

    def sums(
        self, n_rows: int, n_zero: int, n_capped: int, weights: IntegerArray | None
    ) -> ScoreSums:
        """The result."""
        n_cut, by_class = int(self.counts[-1]), self.counts[:-1]
        counts = n_rows, n_zero, n_capped, n_cut
        found = ScoreSums(*counts, by_class, self.units, self.parts, self.limbs)
        if weights is None:
            return found
        heaviest = int(weights.max(initial=0))
        return replace(found, squares=_sum_of_squares(weights), heaviest=heaviest)


def _sum_of_squares(weights: IntegerArray) -> int:
    """Exact: the halves of a weight have squares far below 2^63."""
    high, low = weights >> 12, weights & 0xFFF
    parts = ((high * high).sum(), (high * low).sum(), (low * low).sum())
    return (int(parts[0]) << 24) + (int(parts[1]) << 13) + int(parts[2])


def _new_work(
    theta: Vector | Matrix,
    units: Vector,
    most: Vector | None,
    factors: Vector | None,
    parts: Parts,
) -> _Work:
    scaled = np.atleast_2d(np.asarray(theta, dtype=np.float64)) * units
    n_outputs, q = scaled.shape
    table = _terms(n_outputs, q, parts)
    counts = np.zeros(n_outputs + 2, np.int64)
    limits = np.ones(q) if most is None else np.minimum(1.0, most / units)
    by_class = np.ones(n_outputs + 1) if factors is None else np.array(factors, dtype=np.float64)
    if by_class.shape != (n_outputs + 1,) or not ((by_class >= 0) & (by_class <= 1)).all():
        raise ValueError(f"There must be {n_outputs + 1} factors from 0 to 1, got {by_class}.")
    return _Work(scaled, units, limits, by_class, table, np.zeros_like(table), counts, parts)


@lru_cache(maxsize=8)  # the same for every block of rows
def _terms(n_outputs: int, q: int, parts: Parts) -> IntegerArray:
    """Which factors each term is the product of: see `_Work`."""
    a = np.arange(q)
    v = q + np.arange(n_outputs * q).reshape(n_outputs, q)
    h = v.size + q + np.arange(triangle(n_outputs) * q).reshape(-1, q)
    i, j = np.triu_indices(q)
    terms = [(entry, 0) for entry in v.ravel()]
    if parts.fisher:
        terms += [pair for row in h for pair in zip(row[i], a[j], strict=True)]
    if parts.second:
        outputs = zip(*np.triu_indices(n_outputs), strict=True)
        terms += [pair for c, e in outputs for pair in zip(v[c][i], v[e][j], strict=True)]
    if parts.loss:
        terms.append((h.max() + 1, 0))
    return np.array(terms, dtype=np.int64).T.copy()


def _checked(weights: IntegerArray | None) -> IntegerArray:
    """The weights; an empty array stands for none."""
    if weights is None:
        return np.empty(0, np.int64)
    if weights.dtype != np.int64:
        raise TypeError(
            f"weights must be int64, got {weights.dtype}. Publish a unit, and divide and round."
        )
    if weights.size and not 0 <= weights.min() <= weights.max() <= MAX_WEIGHT:
        raise ValueError(
            f"weights must be between 0 and {MAX_WEIGHT}, got {weights.min()} to {weights.max()}. "
            "Take a coarser unit."
        )
    return unmarked(np.ascontiguousarray(weights))


# --- compiled: from projections to sums -------------------------------------------------------


class _Pack(NamedTuple):
    """Some rows, one after the other in memory in each number that they have."""

    factors: Any  # (factors, rows): see _Work
    p: Any  # (outputs, rows): scores, then probabilities
    own: Any  # (rows,): class; 0 if there are numbers
    target: Any  # (rows,): number to regress on, if there are some
    weight: Any  # (rows,)
    factor: Any  # (rows,): of its class
    x: Any  # (rows,): for use in between
    top: Any  # (rows,): largest score


@njit(cache=True, nogil=True)
def _add_projected(values, n, classes, numeric, weights, work):
    """Add the terms of the first n columns of ``values``; no weights stand for weights 1."""
    n_outputs, q = work.theta.shape
    n_factors = q + n_outputs * q + n_outputs * (n_outputs + 1) // 2 * q + 1
    pack = _Pack(
        np.empty((n_factors, _PACK)),
        np.empty((n_outputs, _PACK)),
        np.zeros(_PACK, np.int64),
        np.empty(_PACK),
        np.ones(_PACK, np.int64),
        np.ones(_PACK),
        np.empty(_PACK),
        np.empty(_PACK),
    )
    pack.factors[0] = 1.0
    for start in range(0, n, _PACK):
        m = min(_PACK, n - start)
        for r in range(m):
            if numeric:
                pack.target[r] = classes[start + r]
            else:
                pack.own[r] = np.int64(classes[start + r])
            if weights.size > 0:
                pack.weight[r] = weights[start + r]
            pack.factor[r] = work.factors[pack.own[r]]
            work.counts[pack.own[r]] += pack.weight[r]
        work.counts[-1] += _fill_a(pack, values, start, m, work.units)
        _fill_scores(pack, m, work.theta)
        if numeric:
            _fill_residuals(pack, m, q, work.most, work.parts)
        else:
            _fill_probabilities(pack, m, work.parts.loss)
            _fill_factors(pack, m, q, work.most, work.parts.fisher)
        _add_terms(pack, m, weights.size > 0, work.terms, work.limbs)


@njit(cache=True, nogil=True)
def _fill_a(pack, values, start, m, units):
    """Projections in units, cut to +-1; returns how many rows were cut."""
    cut = pack.x
    for r in range(m):
        cut[r] = 0.0
    for j in range(1, units.size):
        inverse = 1.0 / units[j]
        a, source = pack.factors[j], values[j - 1, start : start + m]
        for r in range(m):
            value = source[r] * inverse
            cut[r] = 1.0 if abs(value) > 1.0 else cut[r]
            value = -1.0 if value < -1.0 else value
            a[r] = 1.0 if value > 1.0 else value
    n_cut = np.int64(0)
    for r in range(m):
        n_cut += np.int64(cut[r])
    return n_cut


@njit(cache=True, nogil=True)
def _fill_scores(pack, m, theta):
    """``theta_c . a``, added up in the order of the coordinates."""
    for c in range(theta.shape[0]):
        total = pack.p[c]
        for r in range(m):
            total[r] = theta[c, 0]
        for j in range(1, theta.shape[1]):
            factor, a = theta[c, j], pack.factors[j]
            for r in range(m):
                total[r] += factor * a[r]


@njit(cache=True, nogil=True, error_model="numpy")  # a look for x/0 would stop vectorisation
def _fill_probabilities(pack, m, loss):
    """Turn scores into probabilities, and write the loss, in its unit, to the last factor."""
    p, own, x, top = pack.p, pack.own, pack.x, pack.top
    n_outputs = p.shape[0]
    if n_outputs == 1:
        s = p[0]
        if loss:
            for r in range(m):
                x[r] = sigmoid(s[r] if own[r] == 1 else -s[r])
        for r in range(m):
            s[r] = sigmoid(s[r])
    else:
        for r in range(m):
            top[r] = 0.0
        for c in range(n_outputs):
            for r in range(m):
                top[r] = p[c, r] if p[c, r] > top[r] else top[r]
        for r in range(m):
            x[r] = exponential(-top[r])
        for c in range(n_outputs):
            for r in range(m):
                p[c, r] = exponential(p[c, r] - top[r])
        total = top
        for r in range(m):  # a slice would compile the text of an error message for seconds
            total[r] = x[r]
        for c in range(n_outputs):
            for r in range(m):
                total[r] += p[c, r]
        for r in range(m):
            x[r] = x[r] / total[r]
        for c in range(n_outputs):
            for r in range(m):
                p[c, r] = p[c, r] / total[r]
                x[r] = p[c, r] if own[r] == c + 1 else x[r]
    if loss:
        for r in range(m):
            pack.factors[-1, r] = -natural_log(x[r]) * (1.0 / LOSS_UNIT) * pack.factor[r]


@njit(cache=True, nogil=True)
def _fill_factors(pack, m, q, most, fisher):
    """The factors ``v``, and those of the Fisher information."""
    p, x, n_outputs = pack.p, pack.x, pack.p.shape[0]
    place = q
    for c in range(n_outputs):
        for r in range(m):
            x[r] = (p[c, r] - (1.0 if pack.own[r] == c + 1 else 0.0)) * pack.factor[r]
        place = _fill_products(pack, x, m, q, place)
        _cut_products(pack, m, most, place - q)
    if fisher:
        for c in range(n_outputs):
            for other in range(c, n_outputs):
                for r in range(m):
                    x[r] = p[c, r] * (1.0 - p[c, r] if c == other else -p[other, r])
                    x[r] *= pack.factor[r]
                place = _fill_products(pack, x, m, q, place)


@njit(cache=True, nogil=True)
def _fill_residuals(pack, m, q, most, parts):
    """The factors ``v``, those of the information, and the loss, of rows with numbers."""
    x, score = pack.x, pack.p[0]
    for r in range(m):
        residual = score[r] - pack.target[r]
        cut = -1.0 if residual < -1.0 else residual
        x[r] = 1.0 if cut > 1.0 else cut
        # half the square, beyond 1 its tangent; no sum can hold more than its unit
        loss = x[r] * (residual - 0.5 * x[r]) * (1.0 / LOSS_UNIT)
        pack.factors[-1, r] = 1.0 if loss > 1.0 else loss
    place = _fill_products(pack, x, m, q, q)
    _cut_products(pack, m, most, q)
    if parts.fisher:
        for r in range(m):
            x[r] = 1.0
        _fill_products(pack, x, m, q, place)


@njit(cache=True, nogil=True)
def _fill_products(pack, x, m, q, place):
    """Write ``x a``; returns the place after it."""
    for i in range(q):
        a, out = pack.factors[i], pack.factors[place + i]
        for r in range(m):
            out[r] = x[r] * a[r]
    return place + q


@njit(cache=True, nogil=True)
def _cut_products(pack, m, most, place):
    """Cut the products from this place on to their largest sizes."""
    for i in range(most.size):
        if most[i] < 1.0:
            out, high = pack.factors[place + i], most[i]
            for r in range(m):
                value = -high if out[r] < -high else out[r]
                out[r] = high if value > high else value


@wrapping
@njit(cache=True, nogil=True)
def _add_terms(pack, m, weighted, terms, limbs):
    """Add the products of factors, none above 1, to their sums."""
    t, factors = 0, pack.factors
    while t < terms.shape[1]:
        one, two = factors[terms[0, t]], factors[terms[1, t]]
        if weighted:
            high, low = _weighted_quanta(one, two, pack.weight, m)
            limbs[0, t] += high >> (LIMB - _HALF)
            _carry(limbs, t, ((high << _HALF) & LOW) + low)
            t += 1
        elif _share_a_factor(terms, t):
            others = factors[terms[1, t + 1]], factors[terms[1, t + 2]], factors[terms[1, t + 3]]
            four = _four_quanta(one, two, others[0], others[1], others[2], m)
            for i in range(4):
                _carry(limbs, t + i, four[i])
            t += 4
        else:
            _carry(limbs, t, _quanta(one, two, m))
            t += 1


@njit(cache=True, nogil=True)
def _share_a_factor(terms, t):
    """Whether the next four terms have their first factor in common."""
    if t + 3 >= terms.shape[1]:
        return False
    one = terms[0, t]
    return terms[0, t + 1] == one and terms[0, t + 2] == one and terms[0, t + 3] == one


@njit(cache=True, nogil=True)
def _carry(limbs, t, total):
    """Add a number to a sum."""
    limbs[0, t] += total >> LIMB
    limbs[1, t] += total & LOW
    limbs[0, t] += limbs[1, t] >> LIMB
    limbs[1, t] &= LOW


@wrapping
@njit(cache=True, nogil=True)
def _quanta(x, y, m):
    """Sum of products; the bits of ``3.0`` wrap around, and are taken off at the end."""
    total = np.int64(0)
    for r in range(m):
        total += np.float64(x[r] * y[r] + _ORIGIN).view(np.int64)
    return total - np.int64(m) * _ORIGIN_BITS


@wrapping
@njit(cache=True, nogil=True)
def _four_quanta(x, y0, y1, y2, y3, m):
    """The same with four others: ``x`` is fetched once."""
    s0, s1, s2, s3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for r in range(m):
        s0 += np.float64(x[r] * y0[r] + _ORIGIN).view(np.int64)
        s1 += np.float64(x[r] * y1[r] + _ORIGIN).view(np.int64)
        s2 += np.float64(x[r] * y2[r] + _ORIGIN).view(np.int64)
        s3 += np.float64(x[r] * y3[r] + _ORIGIN).view(np.int64)
    all_bits = np.int64(m) * _ORIGIN_BITS
    return s0 - all_bits, s1 - all_bits, s2 - all_bits, s3 - all_bits


@njit(cache=True, nogil=True)
def _weighted_quanta(x, y, weight, m):
    """The sum is ``high * 2^26 + low``."""
    high, low, total = np.int64(0), np.int64(0), np.int64(0)
    for r in range(m):
        # from -1 on: halves without a sign, and masks, let vectors multiply 32 bits by 32
        quanta = np.float64(x[r] * y[r] + _ORIGIN).view(np.int64) - _LOWEST_BITS
        counted = weight[r] & _WEIGHT_BITS
        high += counted * ((quanta >> _HALF) & _WEIGHT_BITS)
        low += counted * (quanta & _HALF_LOW)
        total += counted
    return high - (total << np.int64(51 - _HALF)), low
