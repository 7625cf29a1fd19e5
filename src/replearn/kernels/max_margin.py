"""Large-margin vectors of consecutive batches, added up exactly.

Rows are directions: ``v_i = sign_i x_i / ||x_i||``, with a constant 1 appended before the
normalisation if there is an intercept. A batch's vector solves

    ``min_u  1/2 ||u||^2 + C sum_i (1 - <u, v_i>)_+``,    C = inf: the hard margin,

by dual coordinate descent on ``u = sum_i a_i v_i``, ``0 <= a_i <= C`` (C may be another one for
rows of sign -1). One sweep in the order of
the rows computes the lengths too (the only pass through main memory: rows are never copied or
normalised, ``1/||x||`` goes into the row's scalar). The next sweep drops the rows that look
settled, further sweeps run over the rest in shuffled order, and a pass over the whole batch
verifies the result or says which rows to take up again. The shuffle starts afresh for each
batch, so a batch's vector depends on its rows alone.

Stopping is by proof. With ``g_i = <u, v_i>``:

* soft: the duality gap ``||u||^2 + C sum (1 - g_i)_+ - sum a_i`` is at most
  ``max(abs_gap, rel_gap ||u||^2 / 2)``; then ``||u - u*|| <= sqrt(2 gap)``.
* hard: ``min g_i >= share ||u||^2 / sum a_i``. No unit vector has a margin above
  ``||u|| / sum a_i`` on the batch, so the margin of u is at least ``share`` of the largest. When
  that bound is below ``floor_margin``, the batch is proved to have no such margin.

``||u||^2`` is taken as ``sum a_i g_i``: no sum over columns, of which sparse data have many.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import by_kind, njit, wrapping
from replearn.kernels.exact import MAX_ENTRY, split_fixed
from replearn.kernels.lanes import DenseRows, row_axpy, row_dot, row_dot_and_square, row_prefetch
from replearn.kernels.rows import HUGE, TINY, clear, is_zero, open_rows, rescaled, take, unmarked
from replearn.kernels.tally import (
    BATCHES,
    INFEASIBLE_BATCHES,
    MARGIN_BOUND,
    SHORTENED,
    UNCONVERGED,
    VISITS,
    WORST_GAP,
    WORST_RELATIVE_GAP,
    ZERO_ROWS,
    TallyArrays,
    count_norm,
    count_pair,
)
from replearn.types import Order, Signs

MAX_LENGTH = MAX_ENTRY  # longer vectors would not fit into the exact sums

_ZERO_VECTOR = 1e-10  # below this share of sum a_i, the length of u is rounding noise
_OVERSTEP = 1.3  # over-relaxation of soft sweeps: about 15 % fewer updates
_AHEAD = 4  # rows to ask for in advance: a fit is 6 % faster in order, 24 % when shuffled
_STREAM = 16  # touching a column at random costs as much as passing by this many in order
# distances are sums of squared integers, so that order cannot matter; 2**-24 is their quantum
_COARSER, _PAIR_QUANTUM = 2.0**-6, 2.0**24

_DONE, _GO_ON, _INFEASIBLE, _EXTREME = range(4)


# --- what callers use -------------------------------------------------------------------------


class Problem(NamedTuple):
    """What is solved, and how well: ``box`` is C, ``bias`` 1 with an intercept, else 0.

    ``negative_box`` is C of rows whose sign is -1.
    """

    box: float
    negative_box: float
    share: float
    floor_margin: float
    abs_gap: float
    rel_gap: float
    max_sweeps: int
    bias: float


class Output(NamedTuple):
    """What is made of a batch's solution."""

    unit: bool
    scale: float
    length_cap: float


def new_problem(
    C: float | tuple[float, float],
    *,
    share: float,
    floor_margin: float,
    abs_gap: float,
    rel_gap: float,
    max_sweeps: int,
    intercept: bool,
) -> Problem:
    """What is solved, with the same types in every call: numba would compile anew for ``C=1``.

    Parameters
    ----------
    C : float in (0, inf], or two of them
        Of rows with sign -1, and with +1.
    share, floor_margin : float
        Hard margin only: the share of the largest margin to certify, in (0, 1), and the margin
        without which a batch contributes the zero vector.
    abs_gap, rel_gap : float
        Soft margin only.
    max_sweeps : int
        A batch that is not done by then counts as unconverged. It contributes the vector it
        has; with a hard margin, the zero vector if some ``<u, v_i> <= 0``.
    intercept : bool
        Append a constant 1 to each row; its coefficient is the last entry of a vector.
    """
    negative, positive = C if isinstance(C, tuple) else (C, C)
    accuracy = float(share), float(floor_margin), float(abs_gap), float(rel_gap)
    return Problem(float(positive), float(negative), *accuracy, int(max_sweeps), float(intercept))


def new_output(unit: bool, scale: float, length_cap: float = MAX_LENGTH) -> Output:
    """What is added up.

    ``u / ||u||`` if ``unit`` (0 if u = 0), else ``scale * u`` with a positive scale, where a
    hard-margin u is first brought to ``min <u, v_i> = 1``. Vectors longer than ``length_cap``, and
    than 8 in any case, are shortened.
    """
    return Output(bool(unit), float(scale), min(float(length_cap), MAX_LENGTH))


def sum_batches(
    X: Any,
    signs: Signs,
    order: Order,
    first: int,
    batch_size: int,
    problem: Problem,
    output: Output,
    hi: NDArray[np.int64],
    lo: NDArray[np.int64],
    tally: TallyArrays,
) -> None:
    """Add the vectors of batches to exact sums, and count what happened.

    Parameters
    ----------
    X : C-contiguous float32 or float64 array of shape (n_rows, n_features), or CSR matrix
        Column numbers of a CSR row ascend without duplicates.
    signs : int8 array of -1 and +1, one per row of X
    order : int64 array
        The rows of one batch after the other.
    first : int
        Number of the first batch. Pairs (2k, 2k + 1) are compared only within one call.
    batch_size : int
    problem : Problem
    output : Output
    hi, lo : int64 arrays of shape (n_groups, n_features + intercept)
        Limbs of exact sums (see ``exact``); batch b goes to group ``(b // 2) % n_groups``.
    tally : TallyArrays

    Notes
    -----
    The result has the same bits for any split into ranges, float32 or float64, dense or CSR.
    Twin: ``batch_vector`` in tests/reference.py; tests in tests/unit/test_svm_kernel.py.
    """
    rows, settings = open_rows(X, order), (problem, output)
    _add_up(rows, X.shape[1], unmarked(signs), first, batch_size, *settings, hi, lo, tally)


# --- one batch --------------------------------------------------------------------------------


class Work(NamedTuple):
    """Vector (its last entry is the intercept), duals, sign over length, rows to visit."""

    u: Any
    alpha: Any
    inverse: Any
    active: Any


class Solution(NamedTuple):
    """A verified state: ``squared = ||u||^2``, ``total = sum a_i``, ``lowest = min g_i``."""

    status: int
    squared: float
    total: float
    lowest: float
    gap: float
    n_visits: int
    n_zero_rows: int


@njit(cache=True, nogil=True)
def solve(rows, signs, problem, work):
    """Solve one batch: the duals go to ``work.alpha``, the vector to ``work.u``, 0 before."""
    solution = _solve(rows, signs, problem, work)
    if solution.status == _EXTREME:
        clear(rows, work.u)
        solution = _solve(rescaled(rows, problem.bias), signs[rows.members], problem, work)
    return solution


@njit(cache=True, nogil=True)
def _solve(rows, signs, problem, work):
    n = rows.members.size
    hard = problem.box == np.inf
    n_active, squared, total = _first_sweep(rows, signs, problem, work)
    if n_active <= 0:
        status = _DONE if n_active == 0 else _EXTREME
        return Solution(status, 0.0, 0.0, np.inf, 0.0, n, n)
    n_zero, n_visits, n_sweeps = n - n_active, n, 1
    random = np.uint64(0)
    # in high dimension the first sweep is often enough; elsewhere one glance shows it is not
    hasty = problem.max_sweeps > 1
    while True:
        level = problem.share * squared / total if hard else 1.0
        floor = level if hasty and hard else -np.inf
        ceiling = _allowed_gap(squared, problem) if hasty else np.inf
        n_seen, n_active, state = _verify(rows, level, floor, ceiling, problem, work)
        n_visits += n_seen
        if n_seen < n:
            n_active = _take_all(work)
        else:
            lowest, gap, squared, total = state
            status = _status(lowest, gap, squared, total, problem)
            if status != _GO_ON or n_sweeps >= problem.max_sweeps or n_active == 0:
                return Solution(status, squared, total, lowest, gap, n_visits, n_zero)
        hasty = False
        promising = False
        while n_sweeps < problem.max_sweeps and n_active > 0 and not promising:
            n_visits += n_active
            n_sweeps += 1
            random = _shuffle(work.active, n_active, random)
            n_active, lowest, gap, longer, moved = _sweep(rows, n_active, problem, work)
            squared += longer
            total += moved
            # the rows were seen at different moments: this only guesses when to verify
            promising = _status(lowest, gap, squared, total, problem) != _GO_ON


@njit(cache=True, nogil=True)
def _status(lowest, gap, squared, total, problem):
    """What these numbers prove."""
    if problem.box < np.inf:
        return _DONE if gap <= _allowed_gap(squared, problem) else _GO_ON
    if squared < (problem.floor_margin * total) ** 2:
        return _INFEASIBLE
    return _DONE if lowest * total >= problem.share * squared else _GO_ON


@njit(cache=True, nogil=True)
def _allowed_gap(squared, problem):
    return max(problem.abs_gap, problem.rel_gap * 0.5 * squared)


@njit(cache=True, nogil=True)
def _first_sweep(rows, signs, problem, work):
    """Lengths of the rows, and a first step for each; returns how many rows are not zero.

    -1: there is a row whose squared length is no good.
    """
    u, alpha, inverse, _ = work
    last = u.size - 1
    n_used, squared, total = 0, 0.0, 0.0
    for i in range(rows.members.size):
        if i + _AHEAD < rows.members.size:
            row_prefetch(rows, i + _AHEAD)
        product, length = row_dot_and_square(rows, i, u)
        length += problem.bias
        alpha[i] = inverse[i] = 0.0
        if not TINY < length < HUGE:
            if length == 0.0 and is_zero(rows, i):
                continue
            return -1, 0.0, 0.0
        inverse[i] = signs[rows.members[i]] / math.sqrt(length)
        g = inverse[i] * (product + problem.bias * u[last])
        a = min(max(1.0 - g, 0.0), problem.box if inverse[i] > 0.0 else problem.negative_box)
        if a > 0.0:
            alpha[i] = a
            _add_row(a * inverse[i], rows, i, problem.bias, u)
            squared += a * (2.0 * g + a)
            total += a
        n_used += 1
    return n_used, squared, total


@njit(cache=True, nogil=True)
def _sweep(rows, n_active, problem, work):
    """A step for each active row. Settled rows leave; returns how many stay, and estimates."""
    u, alpha, inverse, active = work
    bias = problem.bias
    lowest, gap, longer, moved = np.inf, 0.0, 0.0, 0.0
    hard = problem.box == np.inf
    slack, stride = ((1.0 - problem.share) / 2.0, 1.0) if hard else (0.0, _OVERSTEP)
    n_kept = 0
    for k in range(n_active):
        i = active[k]
        before = alpha[i]
        box = problem.box if inverse[i] > 0.0 else problem.negative_box
        room = box - before
        product = _product(rows, i, bias, u)
        # few operations between the product and the next row's: they are what a visit waits for
        step = min(max(stride - (stride * inverse[i]) * product, -before), room)
        after = box if step == room else before + step
        g = inverse[i] * product
        if step != 0.0:
            alpha[i] = after
            _add_row(step * inverse[i], rows, i, bias, u)
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
def _verify(rows, level, floor, ceiling, problem, work):
    """The state of the whole batch, and the rows that are not settled at ``level``.

    Gives up at the first row with ``g_i < floor``, or when the gap is above ``ceiling``.
    Returns the number of rows seen, the number that are not settled, and the state.
    """
    u, alpha, inverse, active = work
    bias = problem.bias
    lowest, gap, squared, total = np.inf, 0.0, 0.0, 0.0
    n_active = 0
    for i in range(rows.members.size):
        if inverse[i] == 0.0:  # an all-zero row
            continue
        g = inverse[i] * _product(rows, i, bias, u)
        a = alpha[i]
        box = problem.box if inverse[i] > 0.0 else problem.negative_box
        lowest = min(lowest, g)
        gap += _row_gap(g, a, box)
        squared += a * g
        total += a
        if (a > 0.0 or g < level) and (a < box or g > 1.0):
            active[n_active] = i
            n_active += 1
        if g < floor or gap > ceiling:
            return i, n_active, (lowest, gap, squared, total)
    return rows.members.size, n_active, (lowest, gap, max(squared, 0.0), total)


@njit(cache=True, nogil=True)
def _take_all(work):
    """Make every row active that is not zero."""
    n_active = 0
    for i in range(work.inverse.size):
        if work.inverse[i] != 0.0:
            work.active[n_active] = i
            n_active += 1
    return n_active


@njit(cache=True, nogil=True, inline="always")
def _product(rows, i, bias, u):
    """``<u, x_i>``, with the constant 1 appended to the row if there is a bias."""
    # inline, or LLVM may call it, which pushes twenty numbers for each row
    product = row_dot(rows, i, u)
    return product + u[u.size - 1] if bias != 0.0 else product


@njit(cache=True, nogil=True, inline="always")
def _add_row(a, rows, i, bias, u):
    row_axpy(a, rows, i, u)
    if bias != 0.0:
        u[u.size - 1] += a


@njit(cache=True, nogil=True)
def _row_gap(g, a, box):
    """A row's part of the duality gap, ``C (1 - g)_+ - a (1 - g)`` >= 0; nothing if C = inf."""
    # without a branch, which would be guessed wrong half of the time
    return max((box - a) * (1.0 - g), a * (g - 1.0)) if box < np.inf else 0.0


@wrapping
@njit(cache=True, nogil=True)
def _shuffle(active, n_active, state):
    """Fisher-Yates with a 64-bit linear congruential generator (Knuth's MMIX constants)."""
    for k in range(n_active - 1, 0, -1):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        other = np.int64(((state >> np.uint64(32)) * np.uint64(k + 1)) >> np.uint64(32))
        active[k], active[other] = active[other], active[k]
    return state


# --- what a pair of batches adds to the sums ---------------------------------------------------


@njit(cache=True, nogil=True)
def _factor(solution, hard, output, tally):
    """What a batch's u is multiplied by; also counts the batch."""
    counts, extremes = tally
    counts[BATCHES] += 1
    counts[ZERO_ROWS] += solution.n_zero_rows
    counts[VISITS] += solution.n_visits
    length = math.sqrt(solution.squared)
    if solution.total > 0.0:
        extremes[MARGIN_BOUND] = min(extremes[MARGIN_BOUND], length / solution.total)
    if solution.status == _INFEASIBLE:
        counts[INFEASIBLE_BATCHES] += 1
        return 0.0
    if solution.status == _GO_ON:
        counts[UNCONVERGED] += 1
    gap, relative = _gaps(solution, hard)
    extremes[WORST_GAP] = max(extremes[WORST_GAP], gap)
    extremes[WORST_RELATIVE_GAP] = max(extremes[WORST_RELATIVE_GAP], relative)
    if length <= _ZERO_VECTOR * solution.total or (hard and solution.lowest <= 0.0):
        return 0.0
    if output.unit:
        factor = 1.0 / length
    else:
        factor = output.scale / solution.lowest if hard else output.scale
    if factor * length > output.length_cap:
        counts[SHORTENED] += 1
        factor = output.length_cap / length
    count_norm(factor * factor * solution.squared, counts)
    return factor


@njit(cache=True, nogil=True)
def _gaps(solution, hard):
    """Absolute and relative gap of a solution, as ``Tally`` defines them."""
    if solution.squared == 0.0:
        return solution.gap, np.inf if solution.gap > 0.0 else 0.0
    if not hard:
        return solution.gap, solution.gap / (0.5 * solution.squared)
    length = math.sqrt(solution.squared)
    shortfall = length / solution.total - solution.lowest / length
    return shortfall, 1.0 - solution.lowest * solution.total / solution.squared


@by_kind
def settle(rows, u, v, factors, hi, lo):
    """Add the vectors of two batches, times their factors, to the exact sum, and set them to 0.

    Only where these rows can have changed them; ``u`` and ``v`` are zero elsewhere. Returns the
    squared distance of the two, in squared quanta.
    """

    def dense(rows, u, v, factors, hi, lo):
        return _settle_all(u, v, factors, hi, lo)

    def sparse(rows, u, v, factors, hi, lo):
        n_entries = 0
        for member in rows.members:
            n_entries += rows.indptr[member + 1] - rows.indptr[member]
        if _STREAM * n_entries > hi.size:
            return _settle_all(u, v, factors, hi, lo)
        distance = np.int64(0)
        for member in rows.members:
            for p in range(rows.indptr[member], rows.indptr[member + 1]):
                column = rows.indices[p]
                if u[column] != 0.0 or v[column] != 0.0:
                    distance += _settle_column(column, u, v, factors, hi, lo)
        if hi.size == u.size:  # the intercept
            distance += _settle_column(hi.size - 1, u, v, factors, hi, lo)
        return distance

    return dense if rows.instance_class is DenseRows else sparse


@njit(cache=True, nogil=True)
def _settle_all(u, v, factors, hi, lo):
    distance = np.int64(0)
    for column in range(hi.size):
        distance += _settle_column(column, u, v, factors, hi, lo)
    return distance


@njit(cache=True, nogil=True)
def _settle_column(column, u, v, factors, hi, lo):
    u_hi, u_lo = split_fixed(factors[0] * u[column])
    v_hi, v_lo = split_fixed(factors[1] * v[column])
    u[column] = v[column] = 0.0
    hi[column] += np.int64(u_hi + v_hi)
    lo[column] += np.int64(u_lo + v_lo)
    quanta = np.int64(np.rint((u_hi - v_hi) * _COARSER))
    return quanta * quanta


# --- all batches ------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _add_up(rows, n_features, signs, first, batch_size, problem, output, hi, lo, tally):
    """Solve the batches; the vectors of a pair (2k, 2k + 1) are added to the sums together."""
    last = first + rows.members.size // batch_size
    hard = problem.box == np.inf
    u, factors = _two_vectors(n_features + 1), np.zeros(2)
    alpha, inverse = np.empty(batch_size), np.empty(batch_size)
    active = np.empty(batch_size, np.int64)
    start = 0
    for batch in range(first, last):
        side = batch % 2
        stop = (batch - first + 1) * batch_size
        work = Work(u[side], alpha, inverse, active)
        solution = solve(take(rows, stop - batch_size, stop), signs, problem, work)
        factors[side] = _factor(solution, hard, output, tally)
        if side == 0 and batch + 1 < last:
            continue
        group = (batch // 2) % hi.shape[0]
        distance = settle(take(rows, start, stop), u[0], u[1], factors, hi[group], lo[group])
        if side == 1 and batch > first:
            count_pair(distance / _PAIR_QUANTUM**2, tally.counts)
        factors[:] = 0.0
        start = stop


@njit(cache=True, nogil=True)
def _two_vectors(size):
    """Zeros that start at cache lines: across lines a whole fit is a tenth slower."""
    width = 8 * (size // 8 + 1)
    raw = np.zeros(2 * width + 8)
    start = -(np.int64(raw.ctypes.data) // 8) % 8
    return raw[start : start + size], raw[start + width : start + width + size]
