"""Large-margin vectors of consecutive batches, added up exactly.

A batch's vector solves, for packed directions ``v_i``,

    ``min_u  1/2 |u|^2 + C sum_i (1 - <u, v_i>)_+``,    C = inf: the hard margin,

by dual coordinate descent on ``u = sum_i a_i v_i``, ``0 <= a_i <= C``. Products are whole numbers,
which are good to 1e-7 of a relative gap; they are floats if an absolute gap is asked for. Settled
rows leave; a pass over the whole batch then verifies the result or takes rows up again. The
shuffle starts afresh for each batch, so that a batch's vector depends on its rows alone. Stopping
is by proof. With ``g_i = <u, v_i>``:

* soft: the duality gap ``|u|^2 + C sum (1 - g_i)_+ - sum a_i`` is at most
  ``max(abs_gap, rel_gap |u|^2 / 2)``; then ``|u - u*| <= sqrt(2 gap)``.
* hard: ``min g_i >= share |u|^2 / sum a_i``. No unit vector has a margin above ``|u| / sum a_i``
  on the batch. When that bound is below ``floor``, the batch is proved to have no such margin.

The dual value ``sum a_i - |u|^2 / 2`` never falls and starts at 0. So ``|u|^2 <= 2 n C``; and with
a hard margin ``m`` that is at least the floor, ``|u| <= 2/m``. That bounds the whole numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from replearn.exact import BATCHES, INFEASIBLE, UNCONVERGED, ZERO_ROWS
from replearn.kernels.int32_directions import (
    MAX_ENTRY,
    UNIT,
    RawRows,
    add,
    count_pair,
    float_product,
    is_zero,
    pack,
    settle,
    whole_product,
)
from replearn.types import Ints

_OVERSTEP = 1.3  # over-relaxation of soft sweeps: about 15 % fewer updates
_ZERO_VECTOR = 1e-10  # below this share of sum a_i, the length of u is rounding noise
_SWEEPS = 200  # of active rows, after which all rows are looked at again
_DONE, _GO_ON, _INFEASIBLE = range(3)


class Problem(NamedTuple):
    """What is solved, how well, and what is made of it."""

    weight: float  # ``lambda = 1 / (C n)`` for n rows; 0 is the hard margin
    # soft margin: when to stop
    abs_gap: float
    rel_gap: float
    # hard margin: the share of the largest margin to certify, and the least margin
    share: float
    floor: float
    # a batch that is not done by then counts as unconverged, and gives what it has
    max_sweeps: float
    # ``length * u`` is added up, shortened to ``cap``; ``length`` 0: ``u / |u|``
    length: float
    cap: float


def add_batches(
    problem: Problem,
    rows: RawRows,
    first: int,
    batch_size: int,
    bias: int,
    hi: Ints,
    lo: Ints,
    counts: Ints,
) -> Ints:
    """Add the vectors of batches to exact sums, count what happened, and mark the rows.

    The rows are those of one batch after the other, ``first`` the even number of the first of them:
    batch b goes to group ``(b // 2) % n_groups`` of the limbs ``hi`` and ``lo``, and is compared
    with its neighbour. A ``bias`` of 1 appends a constant to each row; its coefficient is the last
    entry of a vector. Rows with equal marks have equal directions and signs.

    The same bits for any split into ranges, float32 or float64, dense or CSR, on any machine. Twin:
    ``batch_vector`` in tests/reference.py; tests in tests/unit/test_kernels.py.
    """
    problem = Problem(*map(float, problem))  # or numba would compile anew for C = 1
    problem = problem._replace(cap=min(problem.cap, MAX_ENTRY))
    marks = np.zeros(rows.members.size, np.int64)
    precise = True if problem.abs_gap > 0 else None  # None: numba compiles no floats at all
    _add_batches(*rows, marks, first, batch_size, bias, precise, problem, hi, lo, counts)
    return marks


@njit(cache=True, nogil=True)
def _add_batches(
    data, columns, ends, n_features, signs, members, keys,
    marks, first, batch_size, bias, precise, problem, hi, lo, counts,
):  # fmt: skip
    weight, floor = problem.weight, problem.floor
    last = first + members.size // batch_size
    u, factors = np.zeros((2, n_features + bias)), np.zeros(2)
    alpha, active = np.empty(batch_size), np.empty(batch_size, np.int64)

    # the longest vector there can be, in whole numbers below 2^31
    box = np.inf if weight == 0.0 else 1.0 / (batch_size * weight)
    longest = 2.0 / floor if box == np.inf else math.sqrt(2.0 / weight)
    scale = 2.0 ** (29 - math.frexp(longest)[1])

    # pairs of batches: their distance shows the spread
    for batch in range(first, last, 2):
        stop = min(batch + 2, last)
        pair = slice((batch - first) * batch_size, (stop - first) * batch_size)
        rows, places, starts = pack(
            data, columns, ends, n_features, signs, members[pair], bias, keys, marks[pair]
        )

        for side in range(stop - batch):
            mine = starts[side * batch_size : (side + 1) * batch_size + 1]
            solved = _solve(
                rows, places, mine, precise, box, scale, problem, u[side], alpha, active
            )
            factors[side] = _factor(solved, box == np.inf, scale, problem, counts)

        group = (batch // 2) % hi.shape[0]
        distance = settle(places, u[0], u[1], factors, hi[group], lo[group])
        if stop - batch == 2:
            count_pair(distance, counts)
        factors[:] = 0.0


@njit(cache=True, nogil=True)
def _solve(data, columns, starts, precise, box, scale, problem, u, alpha, active):
    """Solve one batch: the vector times ``scale`` goes to ``u``, which is 0 before.

    Returns the status, ``|u|^2``, ``sum a_i``, ``min g_i`` and rows of zeros.
    """
    abs_gap, rel_gap, max_sweeps = problem.abs_gap, problem.rel_gap, problem.max_sweeps
    share, floor = problem.share, problem.floor
    n, hard, n_zero = starts.size - 1, box == np.inf, 0
    n_active = np.int64(0)  # or numba would compile a sweep for the constant 0, too
    for i in range(n):
        alpha[i] = 0.0
        if is_zero(data, starts, i):
            n_zero += 1
        else:
            active[n_active] = i
            n_active += 1

    if n_active == 0:
        return _DONE, 0.0, 0.0, np.inf, n_zero

    # sweeps over active rows, until they look settled; then over all rows
    n_sweeps, random = 0, np.uint64(0)
    squared = total = 0.0
    while True:
        promising, n_swept = False, 0
        while n_active > 0 and n_sweeps < max_sweeps and not promising and n_swept < _SWEEPS:
            n_swept += 1
            if n_sweeps > 0:
                random = _shuffle(active, n_active, random)
            n_sweeps += 1
            stride = 1.0 if hard or n_sweeps == 1 else _OVERSTEP
            n_active, lowest, gap, longer, moved = _sweep(
                data, columns, starts, precise, n_active, stride, box, scale, share, u, alpha,
                active,
            )  # fmt: skip
            squared += longer
            total += moved
            # the rows were seen at different moments: this only guesses when to verify
            promising = (
                _status(lowest, gap, squared, total, hard, abs_gap, rel_gap, share, floor) != _GO_ON
            )
            if hard and squared > (2.0 / floor) ** 2:
                break

        # the whole batch proves it, or takes rows up again
        level = share * squared / total if hard else 1.0
        n_active, lowest, gap, squared, total = _verify(
            data, columns, starts, precise, level, box, scale, u, alpha, active
        )
        status = _status(lowest, gap, squared, total, hard, abs_gap, rel_gap, share, floor)
        if hard and squared > (1.9 / floor) ** 2:
            status = _INFEASIBLE
        if status != _GO_ON or n_sweeps >= max_sweeps or n_active == 0:
            return status, squared, total, lowest, n_zero


@njit(cache=True, nogil=True)
def _status(lowest, gap, squared, total, hard, abs_gap, rel_gap, share, floor):
    """What these numbers prove."""
    if not hard:
        allowed = max(abs_gap, rel_gap * 0.5 * squared)
        return _DONE if gap <= allowed else _GO_ON

    if squared < (floor * total) ** 2:
        return _INFEASIBLE
    return _DONE if lowest * total >= share * squared else _GO_ON


@njit(cache=True, nogil=True)
def _sweep(data, columns, starts, precise, n_active, stride, box, scale, share, u, alpha, active):
    """A step for each active row. Settled rows leave; returns how many stay, and estimates."""
    lowest, gap, longer, moved = np.inf, 0.0, 0.0, 0.0
    slack = (1.0 - share) / 2.0 if box == np.inf else 0.0
    unit, factor, n_kept = 1.0 / (UNIT * scale), scale / UNIT, 0
    for k in range(n_active):
        i = active[k]
        before = alpha[i]
        g = _product(data, columns, starts, precise, i, u) * unit

        # the step that the dual value asks for, within the box
        room = box - before
        step = min(max(stride - stride * g, -before), room)
        after = box if step == room else before + step

        if step != 0.0:
            alpha[i] = after
            add(step * factor, data, columns, starts, i, u)
            longer += step * (2.0 * g + step)
            moved += step
        lowest = min(lowest, g)
        gap += _row_gap(g, before, box)

        # rows that no step would move leave
        if (after > 0.0 or g < 1.0 + slack) and (after < box or g > 1.0 - slack):
            active[k] = active[n_kept]
            active[n_kept] = i
            n_kept += 1
    return n_kept, lowest, gap, longer, moved


@njit(cache=True, nogil=True)
def _verify(data, columns, starts, precise, level, box, scale, u, alpha, active):
    """The state of the whole batch, and the rows that are not settled at ``level``."""
    lowest, gap, squared, total, n_active = np.inf, 0.0, 0.0, 0.0, 0
    unit = 1.0 / (UNIT * scale)
    for i in range(starts.size - 1):
        if is_zero(data, starts, i):
            continue
        g = _product(data, columns, starts, precise, i, u) * unit

        a = alpha[i]
        lowest = min(lowest, g)
        gap += _row_gap(g, a, box)
        squared += a * g
        total += a

        if (a > 0.0 or g < level) and (a < box or g > 1.0):
            active[n_active] = i
            n_active += 1
    return n_active, lowest, gap, max(squared, 0.0), total


@njit(cache=True, nogil=True, inline="always")
def _product(data, columns, starts, precise, i, u):
    if precise is None:
        return whole_product(data, columns, starts, i, u)
    return float_product(data, columns, starts, i, u)


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
def _factor(solved, hard, scale, problem, counts):
    """What a batch's u is multiplied by; also counts the batch."""
    status, squared, total, lowest, n_zero = solved
    counts[BATCHES] += 1
    counts[ZERO_ROWS] += n_zero
    if status == _INFEASIBLE:
        counts[INFEASIBLE] += 1
        return 0.0
    if status == _GO_ON:
        counts[UNCONVERGED] += 1

    # a vector of rounding noise has no direction
    length = math.sqrt(squared)
    if length <= _ZERO_VECTOR * total or (hard and lowest <= 0.0):
        return 0.0
    factor = problem.length
    if factor == 0.0:
        factor = 1.0 / length
    elif hard:
        factor /= lowest

    if factor * length > problem.cap:
        factor = problem.cap / length
    return factor / scale
