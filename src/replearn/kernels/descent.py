"""Averages of runs of projected stochastic gradient descent, added up exactly.

Rows are packed directions ``v``. A run takes one step for each of its rows, from zero, in one or
several passes over them, on

    ``f(w) = E (1 - <w, v> / margin)_+  +  weight / (2 margin^2) |w|^2``,    ``|w| <= radius``,

with ``step_t = 2 / (mu (t + 1))``, mu the strong convexity ``weight / margin^2``: with
``c_t = 2 margin / (weight (t + 1))``,

    ``w_{t+1} = P( (t - 1)/(t + 1) w_t  +  c_t v_t [<w_t, v_t> < margin] )``.

Its result is the average of ``w_1 .. w_T`` with weights t. A factor before f would change nothing,
since steps are relative to mu: the paper's surrogate loss is 2 f.

A batch is one or several runs, and rows on which these are compared: the run with the lowest f
there is the batch's vector (boostSGD). With one run there is nothing to compare.

Vectors are kept lazily, so that a step costs a pass over the row's own entries: ``w = scale raw``,
and with ``mass_t`` the sum of ``j scale_j`` up to t,

    ``sum_t t w_t = mass_T raw_T - late_T``,    ``late = sum of mass_t (step added to raw at t)``.

When ``scale`` gets small, or a step leads far out of the ball, this is brought back to scale 1 and
mass 0, or digits would cancel.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from replearn.exact import BATCHES, ZERO_ROWS
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
)
from replearn.types import Ints

_SMALL_SCALE = 2.0**-20
_LONG_STEP = 4.0  # in radii
_QUANTA = 2.0**24  # squared lengths are sums of squared integers


class Descent(NamedTuple):
    """What is done with a batch."""

    # see the module; the radius is at most 8, the range of the exact sums
    margin: float
    weight: float
    radius: float
    # runs of a batch, and its last rows, on which they are compared
    n_runs: float = 1.0
    n_validation: float = 0.0
    n_passes: float = 1.0  # of a run over its rows, in their order
    normalize: float = 0.0  # 1: a batch's vector is scaled to length 1, as the paper prints it


def add_descents(
    descent: Descent,
    rows: RawRows,
    first: int,
    batch_size: int,
    bias: int,
    hi: Ints,
    lo: Ints,
    counts: Ints,
) -> Ints:
    """Add the vectors of batches to exact sums, and count what happened.

    Parameters and result are those of `replearn.kernels.max_margin.add_batches`.

    Notes
    -----
    Twin: ``sgd_average`` in tests/reference.py; tests in tests/unit/test_kernels.py.
    """
    descent = descent._replace(radius=min(descent.radius, MAX_ENTRY))
    descent = Descent(*map(float, descent))  # or numba would compile anew for whole numbers
    marks = np.zeros(rows.members.size, np.int64)
    _add_descents(*rows, marks, first, batch_size, bias, descent, hi, lo, counts)
    return marks


@njit(cache=True, nogil=True)
def _add_descents(
    data, columns, ends, n_features, signs, members, keys,
    marks, first, batch_size, bias, descent, hi, lo, counts,
):  # fmt: skip
    n_runs, n_validation = int(descent.n_runs), int(descent.n_validation)
    n_inputs, last = n_features + bias, first + members.size // batch_size
    u, ones = np.zeros((2, n_inputs)), np.ones(2)
    raw, late = np.zeros(n_inputs), np.zeros(n_inputs)
    results, losses = np.zeros((n_runs, n_inputs)), np.zeros(n_runs)

    n_steps = (batch_size - n_validation) // n_runs

    # pairs of batches: their distance shows the spread
    for batch in range(first, last, 2):
        stop = min(batch + 2, last)
        pair = slice((batch - first) * batch_size, (stop - first) * batch_size)
        rows, places, starts = pack(
            data, columns, ends, n_features, signs, members[pair], bias, keys, marks[pair]
        )

        for side in range(stop - batch):
            start = side * batch_size
            for r in range(n_runs):
                own = starts[start + r * n_steps : start + (r + 1) * n_steps + 1]
                out = u[side] if n_runs == 1 else results[r]
                counts[ZERO_ROWS] += _descend(rows, places, own, descent, raw, late, out)

            counts[BATCHES] += 1
            if n_runs > 1:
                own = starts[start + batch_size - n_validation : start + batch_size + 1]
                u[side] = results[_best(rows, places, own, descent, results, losses)]
            if descent.normalize > 0.0:
                _to_length_1(u[side])

        group = (batch // 2) % hi.shape[0]
        distance = settle(places, u[0], u[1], ones, hi[group], lo[group])
        if stop - batch == 2:
            count_pair(distance, counts)


@njit(cache=True, nogil=True)
def _descend(data, columns, starts, descent, raw, late, out):
    """One run; its average goes to ``out``. Returns how many rows were zero."""
    margin, weight, radius = descent.margin, descent.weight, descent.radius
    scale, mass, squared, t, n_zero = 1.0, 0.0, 0.0, 0.0, 0
    n_rows = starts.size - 1
    for visit in range(n_rows * int(descent.n_passes)):
        i = visit % n_rows
        if is_zero(data, starts, i):
            n_zero += visit < n_rows
            continue

        # the score of the row, and what the regulariser makes of the iterate
        g = float_product(data, columns, starts, i, raw) * (scale / UNIT)
        t += 1.0
        mass += t * scale
        shrink = (t - 1.0) / (t + 1.0)
        squared *= shrink * shrink
        if t > 1.0:  # w_1 = 0, at any scale
            scale *= shrink

        # a step along the row, if it is within the margin, and back into the ball
        if g < margin:
            step = 2.0 * margin / (weight * (t + 1.0))
            if step > _LONG_STEP * radius:
                _bring_back(scale, mass, raw, late)
                scale, mass = 1.0, 0.0
            a = step / (scale * UNIT)
            add(a, data, columns, starts, i, raw)
            add(mass * a, data, columns, starts, i, late)
            squared += step * (2.0 * shrink * g + step)
            if squared > radius * radius:
                scale *= radius / math.sqrt(squared)
                squared = radius * radius

        if scale < _SMALL_SCALE:
            _bring_back(scale, mass, raw, late)
            scale, mass = 1.0, 0.0

    # the average, and a clean slate for the next run
    share = 2.0 / (t * (t + 1.0)) if t > 0.0 else 0.0
    for j in range(raw.size):
        out[j] = share * (mass * raw[j] - late[j])
        raw[j] = late[j] = 0.0
    return n_zero


@njit(cache=True, nogil=True)
def _to_length_1(w):
    """The zero vector stays."""
    square = 0.0
    for j in range(w.size):
        square += w[j] * w[j]
    if square > 0.0:
        for j in range(w.size):
            w[j] /= math.sqrt(square)


@njit(cache=True, nogil=True)
def _bring_back(scale, mass, raw, late):
    """The same w and the same sum of iterates, at scale 1 and mass 0."""
    for j in range(raw.size):
        late[j] -= mass * raw[j]
        raw[j] *= scale


@njit(cache=True, nogil=True)
def _best(data, columns, starts, descent, results, losses):
    """The run with the lowest f on the validation rows; the first of equals."""
    margin, weight = descent.margin, descent.weight
    losses[:] = 0.0
    n_rows = 0
    for i in range(starts.size - 1):
        if is_zero(data, starts, i):
            continue
        n_rows += 1
        for r in range(losses.size):
            g = float_product(data, columns, starts, i, results[r]) / UNIT
            losses[r] += max(0.0, 1.0 - g / margin)

    # with the regulariser, whose squares are sums of integers
    best, lowest = 0, np.inf
    for r in range(losses.size):
        square = np.int64(0)
        for j in range(results.shape[1]):
            quanta = np.int64(np.rint(results[r, j] * _QUANTA))
            square += quanta * quanta
        penalty = 0.5 * weight / margin**2 * (square / _QUANTA**2)
        if losses[r] + n_rows * penalty < lowest:
            best, lowest = r, losses[r] + n_rows * penalty
    return best
