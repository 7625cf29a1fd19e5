"""Large-margin vectors of consecutive batches, added up exactly.

A batch's vector solves, for packed directions ``v_i``,

    ``min_u  1/2 |u|^2 + C sum_i (1 - <u, v_i>)_+``,    C = inf: the hard margin,

by dual coordinate descent on ``u = sum_i a_i v_i``, ``0 <= a_i <= C``. Sweeps use products of whole
numbers. Settled rows leave; a pass over the whole batch in floats then verifies the result or takes
rows up again. The shuffle starts afresh for each batch, so that a batch's vector depends on its
rows alone. Stopping is by proof. With ``g_i = <u, v_i>``:

* soft: the duality gap ``|u|^2 + C sum (1 - g_i)_+ - sum a_i`` is at most
  ``max(abs_gap, rel_gap |u|^2 / 2)``; then ``|u - u*| <= sqrt(2 gap)``.
* hard: ``min g_i >= share |u|^2 / sum a_i``. No unit vector has a margin above ``|u| / sum a_i``
  on the batch. When that bound is below ``floor``, the batch is proved to have no such margin.

The dual value ``sum a_i - |u|^2 / 2`` never falls and starts at 0. So ``|u|^2 <= 2 n C``; and with a
hard margin ``m`` that is at least the floor, ``|u| <= 2/m``. That bounds the whole numbers.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from replearn.exact.packed import (
    BATCHES,
    INFEASIBLE,
    MAX_ENTRY,
    SHORTENED,
    UNCONVERGED,
    UNIT,
    VISITS,
    ZERO_ROWS,
    add_both,
    as_members,
    count_pair,
    float_product,
    is_zero,
    pack,
    product,
    raw_rows,
    settle,
)
from replearn.types import Order, Signs

_OVERSTEP = 1.3  # over-relaxation of soft sweeps: about 15 % fewer updates
_ZERO_VECTOR = 1e-10  # below this share of sum a_i, the length of u is rounding noise
_DONE, _GO_ON, _INFEASIBLE = range(3)


class Problem(NamedTuple):
    """What is solved, how well, and what is made of it: floats, so that it is compiled once.

    Attributes
    ----------
    weight : float
        ``lambda = 1 / (C n)`` for n rows; 0 is the hard margin.
    abs_gap, rel_gap : float
        Soft margin: when to stop.
    share, floor : float
        Hard margin: the share of the largest margin to certify, and the least margin.
    max_sweeps : float
        A batch that is not done by then counts as unconverged, and gives what it has.
    length, cap : float
        ``length * u`` is added up, shortened to ``cap``; ``length`` 0: ``u / |u|``.
    """

    weight: float
    abs_gap: float
    rel_gap: float
    share: float
    floor: float
    max_sweeps: float
    length: float
    cap: float


def add_batches(
    X: Any,
    signs: Signs,
    order: Order,
    first: int,
    batch_size: int,
    intercept: bool,
    problem: Problem,
    hi: NDArray[np.int64],
    lo: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Add the vectors of batches to exact sums, and count what happened.

    Parameters
    ----------
    X : array or CSR matrix
    signs : int8 array of -1 and +1, one per row of X
    order : int64 array
        The rows of one batch after the other.
    first : int
        Number of the first batch, even; pairs are compared within one call.
    batch_size : int
    intercept : bool
        Append a constant 1 to each row; its coefficient is the last entry of a vector.
    problem : Problem
    hi, lo : int64 arrays of shape (n_groups, n_features + intercept)
        Limbs of exact sums; batch b goes to group ``(b // 2) % n_groups``.
    counts : int64 array

    Notes
    -----
    The same bits for any split into ranges, float32 or float64, dense or CSR, on any machine.
    Twin: ``batch_vector`` in tests/reference.py; tests in tests/unit/test_kernels.py.
    """
    members, kinds = as_members(order, signs)
    settings = Problem(*map(float, problem))._replace(cap=min(float(problem.cap), MAX_ENTRY))
    _add_batches(
        raw_rows(X), kinds, members, first, batch_size, int(intercept), settings, hi, lo, counts
    )


@njit(cache=True, nogil=True)
def _add_batches(raw, signs, members, first, batch_size, bias, problem, hi, lo, counts):
    last = first + members.size // batch_size
    u, factors = np.zeros((2, raw.n_features + bias)), np.zeros(2)
    whole = np.zeros(raw.n_features + bias, np.int32)
    alpha, active = np.empty(batch_size), np.empty(batch_size, np.int64)
    box = np.inf if problem.weight == 0.0 else 1.0 / (batch_size * problem.weight)
    longest = 2.0 / problem.floor if box == np.inf else math.sqrt(2.0 / problem.weight)
    scale = 2.0 ** (29 - math.frexp(longest)[1])
    for batch in range(first, last, 2):
        stop = min(batch + 2, last)
        pair = members[(batch - first) * batch_size : (stop - first) * batch_size]
        rows = pack(raw, signs, pair, bias)
        for side in range(stop - batch):
            mine = _Part(side * batch_size, (side + 1) * batch_size)
            found = _solve(rows, mine, box, scale, problem, u[side], whole, alpha, active)
            factors[side] = _factor(found, box == np.inf, scale, problem, counts)
            _clear(rows, mine, whole)
        group = (batch // 2) % hi.shape[0]
        distance = settle(rows, u[0], u[1], factors, hi[group], lo[group])
        if stop - batch == 2:
            count_pair(distance, counts)
        factors[:] = 0.0


class _Part(NamedTuple):
    """Rows of one batch, among those of a pair."""

    start: int
    stop: int


class _Solution(NamedTuple):
    """``squared = |u|^2``, ``total = sum a_i``, ``lowest = min g_i``."""

    status: int
    squared: float
    total: float
    lowest: float
    n_visits: int
    n_zero: int


@njit(cache=True, nogil=True)
def _clear(rows, part, whole):
    if rows.columns.size == 0:
        whole[:] = 0
    else:
        for j in rows.columns[rows.starts[part.start] : rows.starts[part.stop]]:
            whole[j] = 0


@njit(cache=True, nogil=True)
def _solve(rows, part, box, scale, problem, u, whole, alpha, active):
    """Solve one batch: the vector times ``scale`` goes to ``u``, which is 0 before."""
    hard, n_active, n_zero = box == np.inf, 0, 0
    for i in range(part.start, part.stop):
        alpha[i - part.start] = 0.0
        if is_zero(rows, i):
            n_zero += 1
        else:
            active[n_active] = i
            n_active += 1
    if n_active == 0:
        return _Solution(_DONE, 0.0, 0.0, np.inf, n_zero, n_zero)
    n_visits, n_sweeps, random = 0, 0, np.uint64(0)
    squared = total = 0.0
    while True:
        promising = False
        while n_active > 0 and n_sweeps < problem.max_sweeps and not promising:
            if n_sweeps > 0:
                random = _shuffle(active, n_active, random)
            n_visits += n_active
            n_sweeps += 1
            stride = 1.0 if hard or n_sweeps == 1 else _OVERSTEP
            n_active, lowest, gap, longer, moved = _sweep(
                rows, part, n_active, stride, box, scale, problem, u, whole, alpha, active
            )
            squared += longer
            total += moved
            # the rows were seen at different moments: this only guesses when to verify
            promising = _status(lowest, gap, squared, total, hard, problem) != _GO_ON
            if hard and squared > (2.0 / problem.floor) ** 2:
                break
        level = problem.share * squared / total if hard else 1.0
        n_active, lowest, gap, squared, total = _verify(
            rows, part, level, box, scale, u, alpha, active
        )
        n_visits += part.stop - part.start - n_zero
        status = _status(lowest, gap, squared, total, hard, problem)
        if hard and squared > (1.9 / problem.floor) ** 2:
            status = _INFEASIBLE
        if status != _GO_ON or n_sweeps >= problem.max_sweeps or n_active == 0:
            return _Solution(status, squared, total, lowest, n_visits, n_zero)


@njit(cache=True, nogil=True)
def _status(lowest, gap, squared, total, hard, problem):
    """What these numbers prove."""
    if not hard:
        allowed = max(problem.abs_gap, problem.rel_gap * 0.5 * squared)
        return _DONE if gap <= allowed else _GO_ON
    if squared < (problem.floor * total) ** 2:
        return _INFEASIBLE
    return _DONE if lowest * total >= problem.share * squared else _GO_ON


@njit(cache=True, nogil=True)
def _sweep(rows, part, n_active, stride, box, scale, problem, u, whole, alpha, active):
    """A step for each active row. Settled rows leave; returns how many stay, and estimates."""
    lowest, gap, longer, moved = np.inf, 0.0, 0.0, 0.0
    slack = (1.0 - problem.share) / 2.0 if box == np.inf else 0.0
    unit, n_kept = 1.0 / (UNIT * scale), 0
    for k in range(n_active):
        i = active[k]
        before = alpha[i - part.start]
        g = product(rows, i, whole) * unit
        room = box - before
        step = min(max(stride - stride * g, -before), room)
        after = box if step == room else before + step
        if step != 0.0:
            alpha[i - part.start] = after
            add_both(step * scale / UNIT, rows, i, u, whole)
            longer += step * (2.0 * g + step)
            moved += step
        lowest = min(lowest, g)
        gap += _row_gap(g, before, box)
        if (after > 0.0 or g < 1.0 + slack) and (after < box or g > 1.0 - slack):
            active[k] = active[n_kept]
            active[n_kept] = i
            n_kept += 1
    return n_kept, lowest, gap, longer, moved


@njit(cache=True, nogil=True)
def _verify(rows, part, level, box, scale, u, alpha, active):
    """The state of the whole batch, and the rows that are not settled at ``level``."""
    lowest, gap, squared, total, n_active = np.inf, 0.0, 0.0, 0.0, 0
    unit = 1.0 / (UNIT * scale)
    for i in range(part.start, part.stop):
        if is_zero(rows, i):
            continue
        g, a = float_product(rows, i, u) * unit, alpha[i - part.start]
        lowest = min(lowest, g)
        gap += _row_gap(g, a, box)
        squared += a * g
        total += a
        if (a > 0.0 or g < level) and (a < box or g > 1.0):
            active[n_active] = i
            n_active += 1
    return n_active, lowest, gap, max(squared, 0.0), total


@njit(cache=True, nogil=True)
def _row_gap(g, a, box):
    """A row's part of the duality gap, ``C (1 - g)_+ - a (1 - g)`` >= 0; nothing if C = inf."""
    return max((box - a) * (1.0 - g), a * (g - 1.0)) if box < np.inf else 0.0


@njit(cache=True, nogil=True)
def _shuffle(active, n_active, state):
    """Fisher-Yates with a 64-bit linear congruential generator (Knuth's MMIX constants)."""
    for k in range(n_active - 1, 0, -1):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        other = np.int64(((state >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
        active[k], active[other] = active[other], active[k]
    return state


@njit(cache=True, nogil=True)
def _factor(found, hard, scale, problem, counts):
    """What a batch's u is multiplied by; also counts the batch."""
    counts[BATCHES] += 1
    counts[ZERO_ROWS] += found.n_zero
    counts[VISITS] += found.n_visits
    if found.status == _INFEASIBLE:
        counts[INFEASIBLE] += 1
        return 0.0
    if found.status == _GO_ON:
        counts[UNCONVERGED] += 1
    length = math.sqrt(found.squared)
    if length <= _ZERO_VECTOR * found.total or (hard and found.lowest <= 0.0):
        return 0.0
    factor = problem.length
    if problem.length == 0.0:
        factor = 1.0 / length
    elif hard:
        factor = problem.length / found.lowest
    if factor * length > problem.cap:
        counts[SHORTENED] += 1
        factor = problem.cap / length
    return factor / scale
