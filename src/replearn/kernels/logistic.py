"""Sums for logistic regression in a few published directions, exact and without an order.

A row ``x`` is shortened to length ``cap`` if it is longer, and seen in k directions only:
``a = (1, D x')``, q = k + 1 numbers. Of K classes, class 0 has the score 0 and class c the score
``theta_c . a``; ``p`` are their probabilities (``docs/sigmoid.md``), ``t`` is 1 for the row's own
class. Added up over the rows are, for the C = K - 1 classes from 1 on,

* the **score** ``v = (p_c - t_c) a``,
* the **Fisher** information ``p_c (1 - p_c) a a'``, or ``- p_c p_c' a a'`` between classes,
* the **second** moments ``v v'`` of the score,
* the **loss** ``- ln p`` of the row's own class.

Everything is counted in whole numbers. Direction j has a *unit*, a power of two that no
projection exceeds, and each term is rounded to a multiple of ``2^-51`` units as it is added to
``3.0``: there a double has the quantum ``2^-51``, and the difference of its bits from those of
``3.0`` is the multiple. Integers add up exactly in any order and grouping, so a sum is a function
of the multiset of rows. Per term that is a multiplication, an addition and a whole-number
addition; all three become vector instructions over a *pack* of rows.

Twin: ``score_terms`` in tests/reference.py; tests in tests/unit/test_logistic_kernel.py.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload
from numpy.typing import NDArray

from replearn.kernels.lanes import N_LANES, DenseRows, SparseRows, row_dot, row_square, square
from replearn.kernels.philox import natural_log
from replearn.kernels.readonly import unmarked
from replearn.kernels.rows import HUGE, is_zero, open_rows, rescaled, take
from replearn.kernels.scores import shortening
from replearn.kernels.sigmoid import exponential, sigmoid
from replearn.types import IntegerArray, Matrix, Order, Vector

#: A term of one unit, in quanta.
QUANTA = 2**51
#: Largest weight of a row.
MAX_WEIGHT = 2**24
#: The unit of a loss: none exceeds 701 nats.
LOSS_UNIT = 1024.0
#: A sum is ``hi * 2^40 + lo``.
LIMB = 40

_PACK = 256
_ORIGIN = 3.0
_ORIGIN_BITS = np.float64(_ORIGIN).view(np.int64)
_LOW = np.int64(2**LIMB - 1)
# a weighted term is split here, so that the products with the weight stay below 2^50
_HALF, _HALF_LOW = np.int64(26), np.int64(2**26 - 1)
_ABREAST = 4  # directions of a sparse row that are done together
# places in the counts of a projection
_ZERO, _CAPPED = range(2)


class Projected(NamedTuple):
    """Rows in the published directions.

    Attributes
    ----------
    values : float64 array of shape (n_directions, n_rows)
        ``D x'``.
    n_zero, n_capped : int
        Rows of zeros only; rows longer than the cap.
    """

    values: Matrix
    n_zero: int
    n_capped: int


class Parts(NamedTuple):
    """Which sums are made, beside those of the score."""

    fisher: bool
    second: bool
    loss: bool


@dataclass(frozen=True)
class ScoreSums:
    """Sums over rows, in whole numbers; ``+`` merges those of two sets of rows.

    Attributes
    ----------
    n_rows, n_zero, n_capped, n_cut : int
        Rows; rows of zeros only; rows longer than the cap; rows with a projection beyond its
        unit, which was cut to it (none, if units come from ``projection_units``).
    class_weights : int64 array of shape (n_classes,)
        Sum of the weights of each class; without weights, its number of rows.
    units : float64 array of shape (q,)
        Powers of two; that of the intercept is 1.
    parts : Parts
    limbs : int64 array of shape (2, n_sums)
        ``hi`` and ``lo`` of every sum, ``0 <= lo < 2^40``: the score (C, q), then the Fisher
        information and the second moments (pairs of outputs, pairs of coordinates), the loss.
    """

    n_rows: int
    n_zero: int
    n_capped: int
    n_cut: int
    class_weights: IntegerArray
    units: Vector
    parts: Parts
    limbs: IntegerArray

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        """The sums of both sets of rows; order and grouping do not matter."""
        if (
            self.limbs.shape != other.limbs.shape
            or self.class_weights.size != other.class_weights.size
            or self.parts != other.parts
            or not np.array_equal(self.units, other.units)
        ):
            raise ValueError(
                "Sums can be added if they have the same classes, directions, units and parts, "
                f"got {self._kind()} and {other._kind()}. Make both from one protocol."
            )
        hi, lo = self.limbs + other.limbs
        return ScoreSums(
            self.n_rows + other.n_rows,
            self.n_zero + other.n_zero,
            self.n_capped + other.n_capped,
            self.n_cut + other.n_cut,
            self.class_weights + other.class_weights,
            self.units,
            self.parts,
            np.stack([hi + (lo >> LIMB), lo & _LOW]),
        )

    def integers(self) -> list[int]:
        """Every sum as one integer, in quanta of its unit."""
        return [(int(hi) << LIMB) + int(lo) for hi, lo in self.limbs.T]

    def mean_score(self) -> Vector:
        """Mean of ``(p_c - t_c) a``, shape (C * q,), each entry correctly rounded."""
        n = self._n_outputs * self.units.size
        return self._means(0, n, np.tile(self.units, self._n_outputs))

    def mean_fisher(self) -> Matrix:
        """Mean Fisher information, shape (C * q, C * q), each entry correctly rounded."""
        if not self.parts.fisher:
            raise ValueError("There is no Fisher information in these sums: pass fisher=True.")
        return self._matrix(self._n_outputs * self.units.size)

    def mean_second(self) -> Matrix:
        """Mean of ``v v'`` for the score ``v``, shape (C * q, C * q), correctly rounded."""
        if not self.parts.second:
            raise ValueError("There are no second moments in these sums: pass second=True.")
        start = self._n_outputs * self.units.size
        return self._matrix(start + self.parts.fisher * self._n_pairs)

    def mean_loss(self) -> float:
        """Mean of ``- ln p`` of the rows' own classes, in nats."""
        if not self.parts.loss:
            raise ValueError("There is no loss in these sums: pass loss=True.")
        return float(self._means(self.limbs.shape[1] - 1, 1, np.array([LOSS_UNIT]))[0])

    @property
    def total_weight(self) -> int:
        """Sum of the weights; without weights, the number of rows."""
        return int(self.class_weights.sum())

    @property
    def _n_outputs(self) -> int:
        return self.class_weights.size - 1

    @property
    def _n_pairs(self) -> int:
        return _triangle(self._n_outputs) * _triangle(self.units.size)

    def _kind(self) -> str:
        units = ", ".join(f"{unit:g}" for unit in self.units)
        return f"{self.class_weights.size} classes, units [{units}], {self.parts}"

    def _means(self, start: int, n: int, units: Vector) -> Vector:
        """Quotients of integers are correctly rounded, and a power of two changes no digit."""
        whole = self.total_weight * QUANTA
        if whole == 0:
            raise ValueError("There is no mean of no rows: the total weight is 0.")
        hi, lo = self.limbs[:, start : start + n]
        quotients = [((int(h) << LIMB) + int(low)) / whole for h, low in zip(hi, lo, strict=True)]
        return np.array(quotients) * units

    def _matrix(self, start: int) -> Matrix:
        C, q = self._n_outputs, self.units.size
        rows, columns = np.triu_indices(q)
        units = np.tile(self.units[rows] * self.units[columns], _triangle(C))
        blocks = self._means(start, self._n_pairs, units).reshape(_triangle(C), -1)
        matrix = np.empty((C, q, C, q))
        for block, c, other in zip(blocks, *np.triu_indices(C), strict=True):
            for i, j in ((rows, columns), (columns, rows)):
                matrix[c, i, other, j] = matrix[other, i, c, j] = block
        return matrix.reshape(C * q, C * q)


# --- what callers use -------------------------------------------------------------------------


def projection_units(directions: Matrix, cap: float) -> Vector:
    """Powers of two that no projection exceeds: 1 for the intercept, above ``cap ||D_j||``.

    Parameters
    ----------
    directions : array of shape (n_directions, n_features)
    cap : float
        Finite: without a cap there is no such number.
    """
    if not 0.0 < cap < math.inf:
        raise ValueError(
            f"cap must be positive and finite, got {cap}. "
            "Without a cap nothing bounds a projection: choose units, which cut projections."
        )
    lengths = [cap * math.sqrt(square(unmarked(row))) for row in np.ascontiguousarray(directions)]
    # a little more, for the roundings of a projection
    exponents = [math.frexp(length * (1.0 + 2.0**-20))[1] for length in lengths]
    return np.array([1.0] + [math.ldexp(1.0, exponent) for exponent in exponents])


def project(
    X: Any, directions: Matrix, cap: float = math.inf, members: Order | None = None
) -> Projected:
    """Shorten rows to the cap and project them.

    Parameters
    ----------
    X : array or CSR matrix
        C-ordered float32 or float64, and columns that ascend within a row, are used in place.
    directions : float64 array of shape (n_directions, n_features)
    cap : float
        Between ``2^-400`` and ``2^300``, or inf.
    members : int64 array, optional
        Numbers of the rows; all rows if not given.

    Notes
    -----
    ``<D_j, x> * (cap / ||x||)`` if ``<x, x> > cap * cap``, else ``<D_j, x>``; sums as in
    ``lanes``. A row with ``<x, x> >= 2^1000`` is first multiplied by a power of two.
    """
    rows = open_rows(X, members)
    values = np.empty((directions.shape[0], rows.members.size))
    counts = np.zeros(2, np.int64)
    _project(rows, _table(rows, directions), float(cap), 0, rows.members.size, values, counts)
    return Projected(values, *map(int, counts))


def score_sums(
    projected: Projected,
    classes: NDArray[np.uint8],
    theta: Vector | Matrix,
    units: Vector,
    weights: IntegerArray | None = None,
    *,
    fisher: bool = True,
    second: bool = True,
    loss: bool = False,
) -> ScoreSums:
    """Sums over rows that were projected before.

    Parameters
    ----------
    projected : Projected
    classes : uint8 array of shape (n_rows,)
        Number of each row's class.
    theta : float64 array of shape (q,) or (C, q)
        Of each class from 1 on, the intercept first.
    units : float64 array of shape (q,)
        As from ``projection_units``. Projections beyond them are cut.
    weights : int64 array of shape (n_rows,), optional
        Between 0 and ``2^24``. A row of weight m counts like m equal rows, to the bit.
    fisher, second, loss : bool
        Which sums are made beside those of the score.

    Notes
    -----
    Total weights up to ``2^50``. The result has the same bits for any order of the rows and,
    added up, for any split.
    """
    parts = Parts(bool(fisher), bool(second), bool(loss))
    scaled, limbs, counts = _prepare(theta, units, parts)
    values, own = unmarked(projected.values), unmarked(classes)
    _sum_projected(values, own, _checked(weights), scaled, units, parts, limbs, counts)
    n_rows, n_cut, by_class = values.shape[1], int(counts[-1]), counts[:-1]
    n_zero, n_capped = projected.n_zero, projected.n_capped
    return ScoreSums(n_rows, n_zero, n_capped, n_cut, by_class, units, parts, limbs)


def row_score_sums(
    X: Any,
    directions: Matrix,
    cap: float,
    classes: NDArray[np.uint8],
    theta: Vector | Matrix,
    units: Vector | None = None,
    weights: IntegerArray | None = None,
    members: Order | None = None,
    *,
    fisher: bool = True,
    second: bool = True,
    loss: bool = False,
) -> ScoreSums:
    """``score_sums`` of ``project``, in one pass that keeps nothing; the same bits.

    Parameters
    ----------
    X, directions, cap, members
        As for ``project``.
    classes, weights : arrays of shape (X.shape[0],)
        One entry per row of X, also if only ``members`` are taken.
    theta, units, fisher, second, loss
        As for ``score_sums``. By default ``units`` are ``projection_units(directions, cap)``.
    """
    units = projection_units(directions, cap) if units is None else units
    parts = Parts(bool(fisher), bool(second), bool(loss))
    scaled, limbs, counts = _prepare(theta, units, parts)
    rows, own, seen = open_rows(X, members), unmarked(classes), np.zeros(2, np.int64)
    where = rows, _table(rows, directions), float(cap)
    _sum_rows(*where, own, _checked(weights), scaled, units, parts, limbs, counts, seen)
    n_rows, n_cut, by_class = rows.members.size, int(counts[-1]), counts[:-1]
    n_zero, n_capped = map(int, seen)
    return ScoreSums(n_rows, n_zero, n_capped, n_cut, by_class, units, parts, limbs)


def _prepare(
    theta: Vector | Matrix, units: Vector, parts: Parts
) -> tuple[Matrix, IntegerArray, IntegerArray]:
    """What the compiled loops take: theta in units, empty sums and empty counts."""
    scaled = np.atleast_2d(np.asarray(theta, dtype=np.float64)) * units
    n_outputs, q = scaled.shape
    n_pairs = _triangle(n_outputs) * _triangle(q)
    n_sums = n_outputs * q + (int(parts.fisher) + int(parts.second)) * n_pairs + int(parts.loss)
    limbs = np.zeros((2, n_sums), np.int64)
    counts = np.zeros(n_outputs + 2, np.int64)  # of each class, then of rows that were cut
    return scaled, limbs, counts


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


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


# --- from rows to projections -----------------------------------------------------------------


def _table(rows: DenseRows | SparseRows, directions: Matrix) -> Matrix:
    """The directions as the loops want them: (k, d), or for sparse rows (d, at least k).

    A sparse row fetches a column's entry in four directions at once, from one place in memory.
    """
    if isinstance(rows, DenseRows):
        return unmarked(np.ascontiguousarray(directions, dtype=np.float64))
    k, d = directions.shape
    if k in (0, 2, 3):
        directions = np.concatenate([directions, np.zeros((_ABREAST - k, d))])
    return unmarked(np.ascontiguousarray(directions.T, dtype=np.float64))


@njit(cache=True, nogil=True)
def _project(rows, table, cap, start, stop, out, counts):
    """Write the projections of rows ``start`` to ``stop`` to the first columns of ``out``."""
    work = np.empty(N_LANES * _ABREAST)
    for i in range(start, stop):
        size = row_square(rows, i)
        if size >= HUGE:
            single = rescaled(take(rows, i, i + 1), 0.0)
            size = row_square(single, 0)
            row_dots(single, 0, table, work, out, i - start)
        else:
            row_dots(rows, i, table, work, out, i - start)
            if size == 0.0 and is_zero(rows, i):
                counts[_ZERO] += 1
        if size > cap * cap:
            counts[_CAPPED] += 1
            factor = shortening(size, cap)
            for j in range(out.shape[0]):
                out[j, i - start] *= factor


def row_dots(rows, i, table, work, out, place):
    """Write ``<x_i, D_j>`` to ``out[j, place]`` for each direction."""
    raise NotImplementedError("compiled code only")


@overload(row_dots)
def _row_dots(rows, i, table, work, out, place):
    def dense(rows, i, table, work, out, place):
        for j in range(out.shape[0]):
            out[j, place] = row_dot(rows, i, table[j])

    def sparse(rows, i, table, work, out, place):
        k = out.shape[0]
        if k == 1:
            out[0, place] = row_dot(rows, i, table.reshape(-1))
        else:
            for first in range(0, k, _ABREAST):
                # the last four may overlap with the ones before: the same bits again
                _four_dots(rows, i, table, min(first, max(k - _ABREAST, 0)), work, out, place)

    return dense if rows.instance_class is DenseRows else sparse


@njit(cache=True, nogil=True)
def _four_dots(rows, i, table, first, work, out, place):
    """Four directions of a sparse row, in the order of ``lanes``: work[4 lane + direction]."""
    # unsigned: no look for negative indices
    j0 = np.uint64(first)
    j1, j2, j3 = j0 + np.uint64(1), j0 + np.uint64(2), j0 + np.uint64(3)
    member = rows.members[i]
    work[:] = 0.0
    for p in range(np.uint64(rows.indptr[member]), np.uint64(rows.indptr[member + 1])):
        x, column = np.float64(rows.data[p]), np.uint64(rows.indices[p])
        s0 = (column & np.uint64(N_LANES - 1)) * np.uint64(_ABREAST)
        s1, s2, s3 = s0 + np.uint64(1), s0 + np.uint64(2), s0 + np.uint64(3)
        # all loads before all stores: the compiler cannot know that they do not overlap
        moved0 = work[s0] + x * table[column, j0]
        moved1 = work[s1] + x * table[column, j1]
        moved2 = work[s2] + x * table[column, j2]
        moved3 = work[s3] + x * table[column, j3]
        work[s0], work[s1], work[s2], work[s3] = moved0, moved1, moved2, moved3
    half = N_LANES * _ABREAST // 2
    while half >= _ABREAST:
        for s in range(half):
            work[s] += work[s + half]
        half //= 2
    for j in range(min(_ABREAST, out.shape[0] - first)):
        out[first + j, place] = work[j]


# --- from projections to sums -----------------------------------------------------------------


class _Pack(NamedTuple):
    """Some rows, one after the other in memory in each number they have."""

    a: Any  # (q, rows): 1 and the projections, in units
    p: Any  # (outputs, rows): probabilities
    v: Any  # (outputs * q, rows): scores
    own: Any  # (rows,): class
    weight: Any  # (rows,)
    x: Any  # (rows,): a factor of the terms in work
    top: Any  # (rows,): largest score


@njit(cache=True, nogil=True)
def _new_pack(n_outputs, q):
    a = np.empty((q, _PACK))
    a[0] = 1.0
    p, v = np.empty((n_outputs, _PACK)), np.empty((n_outputs * q, _PACK))
    own, weight = np.empty(_PACK, np.int64), np.ones(_PACK, np.int64)
    return _Pack(a, p, v, own, weight, np.empty(_PACK), np.empty(_PACK))


@njit(cache=True, nogil=True)
def _sum_projected(values, classes, weights, theta, units, parts, limbs, counts):
    n = values.shape[1]
    pack = _new_pack(*theta.shape)
    for start in range(0, n, _PACK):
        m = min(_PACK, n - start)
        for r in range(m):
            pack.own[r] = classes[start + r]
        if weights.size > 0:
            pack.weight[:m] = weights[start : start + m]
        counts[-1] += _fill(pack.a, values, start, m, units, pack.x)
        _add_pack(pack, m, weights.size > 0, theta, parts, limbs, counts)


@njit(cache=True, nogil=True)
def _sum_rows(rows, table, cap, classes, weights, theta, units, parts, limbs, counts, seen):
    n = rows.members.size
    pack = _new_pack(*theta.shape)
    values = np.empty((theta.shape[1] - 1, _PACK))
    for start in range(0, n, _PACK):
        m = min(_PACK, n - start)
        for r in range(m):
            pack.own[r] = classes[rows.members[start + r]]
        if weights.size > 0:
            for r in range(m):
                pack.weight[r] = weights[rows.members[start + r]]
        _project(rows, table, cap, start, start + m, values, seen)
        counts[-1] += _fill(pack.a, values, 0, m, units, pack.x)
        _add_pack(pack, m, weights.size > 0, theta, parts, limbs, counts)


@njit(cache=True, nogil=True)
def _fill(a, values, start, m, units, work):
    """Write projections, in units and cut to +-1; returns how many rows were cut."""
    work[:m] = 0.0
    for j in range(1, a.shape[0]):
        inverse = 1.0 / units[j]
        column, source = a[j], values[j - 1, start : start + m]
        for r in range(m):
            value = source[r] * inverse
            work[r] = 1.0 if abs(value) > 1.0 else work[r]
            value = -1.0 if value < -1.0 else value
            column[r] = 1.0 if value > 1.0 else value
    n_cut = np.int64(0)
    for r in range(m):
        n_cut += np.int64(work[r])
    return n_cut


@njit(cache=True, nogil=True)
def _add_pack(pack, m, weighted, theta, parts, limbs, counts):
    """Add the terms of the first m rows of the pack to the sums."""
    n_outputs, q = theta.shape
    a, v, x = pack.a, pack.v, pack.x
    for r in range(m):
        counts[pack.own[r]] += pack.weight[r] if weighted else 1
    _fill_scores(a, theta, m, pack.p)
    _fill_probabilities(pack, m, limbs, weighted, parts.loss)
    place = 0
    for c in range(n_outputs):
        for r in range(m):
            x[r] = pack.p[c, r] - (1.0 if pack.own[r] == c + 1 else 0.0)
        for i in range(q):
            _multiply(x, a[i], m, v[place])
            _count(v[place], a[0], pack.weight, m, weighted, limbs, place)
            place += 1
    if parts.fisher:
        for c in range(n_outputs):
            for other in range(c, n_outputs):
                for i in range(q):
                    _fill_information(pack.p, c, other, a[i], m, x)
                    for j in range(i, q):
                        _count(x, a[j], pack.weight, m, weighted, limbs, place)
                        place += 1
    if parts.second:
        for c in range(n_outputs):
            for other in range(c, n_outputs):
                for i in range(q):
                    for j in range(i, q):
                        one, two = v[c * q + i], v[other * q + j]
                        _count(one, two, pack.weight, m, weighted, limbs, place)
                        place += 1


@njit(cache=True, nogil=True)
def _fill_scores(a, theta, m, out):
    """``out[c] = theta_c . a``, added up in the order of the coordinates."""
    for c in range(theta.shape[0]):
        total = out[c]
        for r in range(m):
            total[r] = theta[c, 0]
        for j in range(1, a.shape[0]):
            factor, column = theta[c, j], a[j]
            for r in range(m):
                total[r] += factor * column[r]


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_probabilities(pack, m, limbs, weighted, loss):
    """Turn the scores in ``pack.p`` into probabilities; count the losses on the way."""
    p, x, top = pack.p, pack.x, pack.top
    n_outputs = p.shape[0]
    if n_outputs == 1:
        s = p[0]
        if loss:
            for r in range(m):
                x[r] = sigmoid(s[r] if pack.own[r] == 1 else -s[r])
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
        for r in range(m):
            top[r] = x[r]
        for c in range(n_outputs):
            for r in range(m):
                top[r] += p[c, r]
        for r in range(m):
            x[r] = x[r] / top[r]
        for c in range(n_outputs):
            for r in range(m):
                p[c, r] = p[c, r] / top[r]
                x[r] = p[c, r] if pack.own[r] == c + 1 else x[r]
    if loss:
        for r in range(m):
            x[r] = -natural_log(x[r]) * (1.0 / LOSS_UNIT)
        _count(x, pack.a[0], pack.weight, m, weighted, limbs, limbs.shape[1] - 1)


@njit(cache=True, nogil=True)
def _fill_information(p, c, other, a, m, out):
    """``out = p (1 - p) a``, or ``- p p' a`` between two outputs."""
    one, two = p[c], p[other]
    if c == other:
        for r in range(m):
            out[r] = one[r] * (1.0 - one[r]) * a[r]
    else:
        for r in range(m):
            out[r] = -one[r] * two[r] * a[r]


@njit(cache=True, nogil=True)
def _multiply(x, y, m, out):
    for r in range(m):
        out[r] = x[r] * y[r]


@njit(cache=True, nogil=True)
def _count(x, y, weight, m, weighted, limbs, place):
    """Add the terms ``x[r] y[r]``, at most 1 in absolute value, to a sum."""
    if weighted:
        high, low = _weighted_quanta(x, y, weight, m)
        limbs[0, place] += high >> (LIMB - _HALF)
        limbs[1, place] += ((high << _HALF) & _LOW) + low
    else:
        total = _quanta(x, y, m)
        limbs[0, place] += total >> LIMB
        limbs[1, place] += total & _LOW
    limbs[0, place] += limbs[1, place] >> LIMB
    limbs[1, place] &= _LOW


@njit(cache=True, nogil=True)
def _quanta(x, y, m):
    total = np.int64(0)
    for r in range(m):
        total += np.float64(x[r] * y[r] + _ORIGIN).view(np.int64) - _ORIGIN_BITS
    return total


@njit(cache=True, nogil=True)
def _weighted_quanta(x, y, weight, m):
    """The sum is ``high * 2^26 + low``."""
    high, low = np.int64(0), np.int64(0)
    for r in range(m):
        quanta = np.float64(x[r] * y[r] + _ORIGIN).view(np.int64) - _ORIGIN_BITS
        high += weight[r] * (quanta >> _HALF)
        low += weight[r] * (quanta & _HALF_LOW)
    return high, low
