"""Averages of short runs of projected stochastic gradient descent, added up exactly.

Rows are directions: ``v = sign x / ||x||``, with a constant 1 appended before the normalisation
if there is an intercept. A run takes one step for each of its rows, from zero, on

    ``f(w) = E (1 - <w, v> / margin)_+  +  weight / (2 margin^2) ||w||^2``,    ``||w|| <= radius``,

with ``step_t = 2 / (mu (t + 1))``, mu the strong convexity ``weight / margin^2``: with
``c_t = 2 margin / (weight (t + 1))``,

    ``w_{t+1} = P( (t - 1)/(t + 1) w_t  +  c_t v_t [<w_t, v_t> < margin] )``.

Its result is the average of ``w_1 .. w_T`` with weights t. A factor before f would change
nothing, since the steps are relative to mu: the paper's surrogate loss is 2 f.

A block is one or several runs, and rows on which these are compared: the run with the lowest f
there is the block's vector (``best_of_sgd``). With one run there is nothing to compare.

Vectors are kept lazily, so that a step costs one pass over the row's own entries, and two more
if w moves along it: ``w = scale * raw``, and with ``mass_t`` the sum of ``j scale_j`` up to t,

    ``sum_t t w_t = mass_T raw_T - late_T``,    ``late = sum of mass_t (step added to raw at t)``.

When ``scale`` has become small, or is about to, because a step leads far out of the ball, this is
brought back to scale 1 and mass 0, or digits would cancel. Everything that decides anything
(products, lengths, scale) is a number that has the same bits for dense rows and for sparse
ones, see ``lanes``.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import by_kind, njit
from replearn.kernels.exact import MAX_ENTRY, add_fixed
from replearn.kernels.lanes import DenseRows, SparseRows, row_axpy, row_dot_and_square, row_prefetch
from replearn.kernels.rows import HUGE, TINY, is_zero, open_rows, rescaled, take, unmarked
from replearn.kernels.tally import BATCHES, VISITS, ZERO_ROWS, TallyArrays, count_norm, count_pair
from replearn.types import Order, Signs

_SMALL_SCALE = 2.0**-20
_LONG_STEP = 4.0  # in radii
_AHEAD = 4  # rows to ask for in advance: 20 % faster in order, 40 % faster when shuffled
_STREAM = 16  # touching a column at random costs as much as passing by this many in order
_QUANTA = 2.0**24  # squared lengths are sums of squared integers, so that order cannot matter


# --- what callers use -------------------------------------------------------------------------


class Run(NamedTuple):
    """What a block does.

    Attributes
    ----------
    margin, weight, radius : float
        See the module. The radius is at most 8, the range of the exact sums.
    bias : float
        1 with an intercept, else 0.
    n_steps, n_runs, n_validation : int
        Rows of a run, runs of a block, rows on which they are compared.
    negative, positive : float
        What the loss of a row counts, by its sign.
    """

    margin: float
    weight: float
    radius: float
    bias: float
    n_steps: int
    n_runs: int
    n_validation: int
    negative: float
    positive: float

    @property
    def n_rows(self) -> int:
        """Rows of a block."""
        return self.n_runs * self.n_steps + self.n_validation


class State(NamedTuple):
    """Blocks in progress: all that the next row needs to know.

    Attributes
    ----------
    raw, late : float64 arrays of shape (n_features + 1,)
        See the module; the last entry belongs to the intercept.
    numbers : float64 array
        ``scale``, ``mass`` and the squared length of w.
    counts : int64 array
        ``n_blocks`` and ``n_taken`` read the first two.
    results : float64 array of shape (n_runs, n_features + 1)
        Averages of the finished runs of this block, if it has several; else without rows.
    losses : float64 array of shape (n_runs,)
        Their summed losses on the validation rows so far.
    touched, marks : int64 and bool arrays of shape (n_features + 1,)
        Columns that this block may have moved, as a list and as marks, while they are few.
    mate, mate_columns : int64 arrays of shape (n_features + 1,)
        Vector of the last even block in quanta, and its columns, if they are few.
    """

    raw: NDArray[np.float64]
    late: NDArray[np.float64]
    numbers: NDArray[np.float64]
    counts: NDArray[np.int64]
    results: NDArray[np.float64]
    losses: NDArray[np.float64]
    touched: NDArray[np.int64]
    marks: NDArray[np.bool_]
    mate: NDArray[np.int64]
    mate_columns: NDArray[np.int64]


# places in `numbers`
_SCALE, _MASS, _LENGTH, _N_NUMBERS = range(4)
# places in `counts`: number of the block; its rows so far, and those of them that were zero;
# steps of its run (a zero row makes none); rows its runs were compared on; columns on its list;
# columns of the last even block's vector. In the last two, _ALL stands for all columns.
_BLOCK, _TAKEN, _ZEROS, _STEPS, _VALIDATED, _TOUCHED, _MATE_COLUMNS, _N_PLACES = range(8)
_NO_MATE, _ALL = -1, 2**62


def new_run(
    margin: float,
    weight: float,
    radius: float,
    intercept: bool,
    n_steps: int,
    n_runs: int = 1,
    n_validation: int = 0,
    class_weights: tuple[float, float] = (1.0, 1.0),
) -> Run:
    """The same types in every call, or numba would compile anew for ``margin=1``."""
    numbers = float(margin), float(weight), min(float(radius), MAX_ENTRY), float(bool(intercept))
    return Run(*numbers, int(n_steps), int(n_runs), int(n_validation), *map(float, class_weights))


def new_state(n_features: int, run: Run, block: int = 0) -> State:
    """The state before the first row of a block."""
    size = n_features + 1
    state = State(
        raw=np.zeros(size),
        late=np.zeros(size),
        numbers=np.zeros(_N_NUMBERS),
        counts=np.zeros(_N_PLACES, np.int64),
        results=np.zeros((run.n_runs if run.n_runs > 1 else 0, size)),
        losses=np.zeros(run.n_runs),
        touched=np.zeros(size, np.int64),
        marks=np.zeros(size, np.bool_),
        mate=np.zeros(size, np.int64),
        mate_columns=np.zeros(size, np.int64),
    )
    state.numbers[_SCALE] = 1.0
    state.counts[_BLOCK] = block
    state.counts[_MATE_COLUMNS] = _NO_MATE
    return state


def n_blocks(state: State) -> int:
    """Number of the block in progress: blocks before it."""
    return int(state.counts[_BLOCK])


def n_taken(state: State) -> int:
    """Rows of the block in progress so far."""
    return int(state.counts[_TAKEN])


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """What a state consists of; lists of columns are left out, since all columns may stand in."""
    kept = ("raw", "late", "numbers", "counts", "results", "losses", "mate")
    return {name: getattr(state, name) for name in kept}


def state_of(run: Run, arrays: dict[str, NDArray[Any]]) -> State | None:
    """A state from its arrays, whose types and shapes are right; None if they make no sense."""
    size = arrays["raw"].size
    state = new_state(size - 1, run)._replace(**arrays)
    counts = state.counts
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return None
    if not (0 <= counts[_TAKEN] < run.n_rows and (counts >= _NO_MATE).all()):
        return None
    if not (0 < state.numbers[_SCALE] <= 1 and max(counts[_ZEROS], counts[_STEPS]) <= run.n_rows):
        return None
    counts[_TOUCHED] = _ALL
    if counts[_MATE_COLUMNS] != _NO_MATE:
        counts[_MATE_COLUMNS] = _ALL
    return state


def advance(
    X: Any,
    signs: Signs,
    order: Order,
    run: Run,
    state: State,
    hi: NDArray[np.int64],
    lo: NDArray[np.int64],
    tally: TallyArrays,
) -> None:
    """Take the rows ``order`` of X; blocks that get complete go to ``hi``, ``lo`` and ``tally``.

    Parameters
    ----------
    X : C-contiguous float32 or float64 array of shape (n_rows, n_features), or CSR matrix
        Column numbers of a CSR row ascend without duplicates.
    signs : int8 array of -1 and +1, one per row of X
    order : int64 array
        Rows to take, in this order.
    run : Run
    state : State
        Is changed.
    hi, lo : int64 arrays of shape (n_groups, n_features + intercept)
        Limbs of exact sums (see ``exact``); block b goes to group ``(b // 2) % n_groups``.
    tally : TallyArrays
        Gaps and what else has no meaning here are left as they are.

    Notes
    -----
    Taking rows in several calls is the same as in one, to the bit, and so are float32 and
    float64, dense and CSR, calls on disjoint ranges of blocks whose sums are merged. Twin:
    ``sgd_average`` in tests/reference.py; tests in tests/unit/test_sgd_kernel.py.
    """
    _advance(open_rows(X, order), unmarked(signs), run, state, hi, lo, tally)


# --- rows -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _advance(rows, signs, run, state, hi, lo, tally):
    n_rows, n_run_rows = rows.members.size, run.n_runs * run.n_steps
    counts = state.counts
    start = 0
    while start < n_rows:
        taken = counts[_TAKEN]
        if taken < n_run_rows:
            n = min(run.n_steps - taken % run.n_steps, n_rows - start)
            _take_steps(take(rows, start, start + n), signs, run, state)
            if run.n_runs > 1 and (taken + n) % run.n_steps == 0:
                _end_run(taken // run.n_steps, state)
        else:
            n = min(n_run_rows + run.n_validation - taken, n_rows - start)
            _validate(take(rows, start, start + n), signs, run, state)
        start += n
        counts[_TAKEN] += n
        if counts[_TAKEN] == n_run_rows + run.n_validation:
            end_block(run, state, hi, lo, tally)


@njit(cache=True, nogil=True)
def _take_steps(rows, signs, run, state):
    """One step for each row, all of one run."""
    raw, late, numbers, counts = state.raw, state.late, state.numbers, state.counts
    last, bias = raw.size - 1, run.bias
    touch_all(rows, state)
    scale, mass, length, t = numbers[_SCALE], numbers[_MASS], numbers[_LENGTH], counts[_STEPS]
    for k in range(rows.members.size):
        if k + _AHEAD < rows.members.size:
            row_prefetch(rows, k + _AHEAD)
        product, size = row_dot_and_square(rows, k, raw)
        size += bias
        usual = TINY < size < HUGE
        if not usual:
            if size == 0.0 and is_zero(rows, k):
                counts[_ZEROS] += 1
                continue
            product, size = row_dot_and_square(rescaled(take(rows, k, k + 1), bias), 0, raw)
            size += bias
        factor = signs[rows.members[k]] / math.sqrt(size)
        g = scale * (factor * (product + bias * raw[last]))
        t += 1
        mass += t * scale
        shrink = (t - 1.0) / (t + 1.0)
        length *= shrink * shrink
        if t > 1:  # w_1 = 0, at any scale
            scale *= shrink
        if g < run.margin:
            step = 2.0 * run.margin / (run.weight * (t + 1.0))
            step *= run.positive if factor > 0.0 else run.negative
            if step > _LONG_STEP * run.radius:
                _bring_back(scale, mass, state)
                scale, mass = 1.0, 0.0
            a = step / scale * factor
            if usual:
                row_axpy(a, rows, k, raw)
                row_axpy(mass * a, rows, k, late)
            else:
                single = rescaled(take(rows, k, k + 1), bias)
                row_axpy(a, single, 0, raw)
                row_axpy(mass * a, single, 0, late)
            raw[last] += bias * a
            late[last] += bias * (mass * a)
            touch(rows, k, run, state)
            length += step * (2.0 * shrink * g + step)
            if length > run.radius * run.radius:
                scale *= run.radius / math.sqrt(length)
                length = run.radius * run.radius
        if scale < _SMALL_SCALE:
            _bring_back(scale, mass, state)
            scale, mass = 1.0, 0.0
    numbers[_SCALE], numbers[_MASS], numbers[_LENGTH], counts[_STEPS] = scale, mass, length, t


@njit(cache=True, nogil=True)
def _bring_back(scale, mass, state):
    """The same w and the same sum of iterates, at scale 1 and mass 0."""
    raw, late = state.raw, state.late
    for p in range(min(state.counts[_TOUCHED], raw.size)):
        j = p if state.counts[_TOUCHED] == _ALL else state.touched[p]
        late[j] -= mass * raw[j]
        raw[j] *= scale


@njit(cache=True, nogil=True)
def _validate(rows, signs, run, state):
    """Add up the losses of the finished runs on these rows."""
    for k in range(rows.members.size):
        _, size = row_dot_and_square(rows, k, state.raw)  # between runs raw is 0
        size += run.bias
        if TINY < size < HUGE:
            _add_losses(rows, k, signs[rows.members[k]], run, state)
        elif size == 0.0 and is_zero(rows, k):
            state.counts[_ZEROS] += 1
        else:
            single = rescaled(take(rows, k, k + 1), run.bias)
            _add_losses(single, 0, signs[rows.members[k]], run, state)


@njit(cache=True, nogil=True)
def _add_losses(rows, k, sign, run, state):
    last = state.raw.size - 1
    for r in range(run.n_runs):
        w = state.results[r]
        product, size = row_dot_and_square(rows, k, w)
        g = sign / math.sqrt(size + run.bias) * (product + run.bias * w[last])
        counts_as = run.positive if sign > 0 else run.negative
        state.losses[r] += counts_as * max(0.0, 1.0 - g / run.margin)
    state.counts[_VALIDATED] += 1


# --- runs and blocks --------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _end_run(r, state):
    """Put the average of the iterates into ``results[r]`` and start anew from zero."""
    raw, late, counts = state.raw, state.late, state.counts
    share, mass = _share(state), state.numbers[_MASS]
    for p in range(min(counts[_TOUCHED], raw.size)):
        j = p if counts[_TOUCHED] == _ALL else state.touched[p]
        state.results[r, j] = share * (mass * raw[j] - late[j])
        raw[j] = late[j] = 0.0
    _start_run(state)


@njit(cache=True, nogil=True)
def _start_run(state):
    numbers = state.numbers
    numbers[_SCALE], numbers[_MASS], numbers[_LENGTH], state.counts[_STEPS] = 1.0, 0.0, 0.0, 0


@njit(cache=True, nogil=True)
def _share(state):
    """One over the sum of the weights of the run's iterates; 0 if there are none."""
    t = np.float64(state.counts[_STEPS])
    return 2.0 / (t * (t + 1.0)) if t > 0.0 else 0.0


@njit(cache=True, nogil=True)
def end_block(run, state, hi, lo, tally):
    """Add the average, of the best run if there are several, to the sums; start a new block.

    A block of one run may end here with fewer rows than planned.
    """
    counts = state.counts
    group = (counts[_BLOCK] // 2) % hi.shape[0]
    if run.n_runs == 1:
        share, mass = _share(state), state.numbers[_MASS]
        square, distance = _settle(state.raw, share, mass, state, hi[group], lo[group])
        _start_run(state)
    else:  # between runs, late is 0
        w = state.results[_best(run, state)]
        square, distance = _settle(w, 1.0, 1.0, state, hi[group], lo[group])
        state.results[:] = 0.0
        state.losses[:] = 0.0
    tally.counts[BATCHES] += 1
    tally.counts[ZERO_ROWS] += counts[_ZEROS]
    tally.counts[VISITS] += counts[_TAKEN] + (run.n_runs - 1) * counts[_VALIDATED]
    count_norm(square / _QUANTA**2, tally.counts)
    if counts[_BLOCK] % 2 == 0:
        counts[_MATE_COLUMNS] = counts[_TOUCHED]
    elif counts[_MATE_COLUMNS] != _NO_MATE:
        count_pair((distance + _forget_mate(state)) / _QUANTA**2, tally.counts)
    counts[_BLOCK] += 1
    counts[_TAKEN] = counts[_ZEROS] = counts[_VALIDATED] = counts[_TOUCHED] = 0


@njit(cache=True, nogil=True)
def _settle(front, share, mass, state, hi, lo):
    """Add ``w = share (mass front - late)`` to a sum, and set front and late to 0.

    w is remembered if the block is even, and compared with its mate if not. Returns its squared
    length, and its squared distance from the mate on its own columns, in squared quanta: sums of
    integers, whatever the order of the columns.
    """
    counts = state.counts
    even = counts[_BLOCK] % 2 == 0
    square, distance = np.int64(0), np.int64(0)
    if counts[_TOUCHED] == _ALL:
        for j in range(hi.size):
            own, apart = _settle_column(j, front, share, mass, even, state, hi, lo)
            square += own
            distance += apart
            state.marks[j] = False
        return square, distance
    for p in range(counts[_TOUCHED]):
        j = state.touched[p]
        own, apart = _settle_column(j, front, share, mass, even, state, hi, lo)
        square += own
        distance += apart
        state.marks[j] = False
        if even:
            state.mate_columns[p] = j
    return square, distance


@njit(cache=True, nogil=True)
def _settle_column(j, front, share, mass, even, state, hi, lo):
    value = share * (mass * front[j] - state.late[j])
    front[j] = state.late[j] = 0.0
    add_fixed(value, hi, lo, j)
    quanta = np.int64(np.rint(value * _QUANTA))
    difference = quanta - state.mate[j]
    state.mate[j] = quanta if even else 0
    return quanta * quanta, difference * difference


@njit(cache=True, nogil=True)
def _forget_mate(state):
    """Set the mate to 0; returns the square of what was left of it."""
    counts, mate = state.counts, state.mate
    square = np.int64(0)
    for p in range(min(counts[_MATE_COLUMNS], mate.size)):
        j = p if counts[_MATE_COLUMNS] == _ALL else state.mate_columns[p]
        square += mate[j] * mate[j]
        mate[j] = 0
    counts[_MATE_COLUMNS] = _NO_MATE
    return square


@njit(cache=True, nogil=True)
def _best(run, state):
    """The run with the lowest f on the validation rows; the first of equals."""
    best, lowest = 0, np.inf
    for r in range(run.n_runs):
        square = np.int64(0)
        for j in range(state.raw.size):
            quanta = np.int64(np.rint(state.results[r, j] * _QUANTA))
            square += quanta * quanta
        penalty = 0.5 * run.weight / run.margin**2 * (square / _QUANTA**2)
        value = state.losses[r] + state.counts[_VALIDATED] * penalty
        if value < lowest:
            best, lowest = r, value
    return best


# --- dense or sparse: compiled code only ------------------------------------------------------


@by_kind
def touch_all(rows, state):
    """Count on all columns, if the rows are dense."""

    def dense(rows, state):
        state.counts[_TOUCHED] = _ALL

    return dense if rows.instance_class is DenseRows else lambda rows, state: None


@by_kind
def touch(rows, k, run, state):
    """Put the columns of row k on the list, if the rows are sparse and it is not too long."""

    def sparse(rows, k, run, state):
        n = state.counts[_TOUCHED]
        if n == _ALL:
            return
        last, member = state.raw.size - 1, rows.members[k]
        for p in range(rows.indptr[member], rows.indptr[member + 1]):
            j = rows.indices[p]
            if not state.marks[j]:
                state.marks[j] = True
                state.touched[n] = j
                n += 1
        if run.bias and not state.marks[last]:
            state.marks[last] = True
            state.touched[n] = last
            n += 1
        state.counts[_TOUCHED] = n if n * _STREAM <= last else _ALL

    return sparse if rows.instance_class is SparseRows else lambda rows, k, run, state: None
