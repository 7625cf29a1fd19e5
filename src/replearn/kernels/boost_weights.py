"""Votes on rows, weights of rows, and their weighted signed means as exact sums.

Rows are directions, as everywhere: ``v = sign x / ||x||``, with a constant 1 appended before the
normalisation if there is an intercept.
"""

import math

import numpy as np

from replearn.kernels.compiler import by_kind, njit
from replearn.kernels.exact import add_fixed
from replearn.kernels.lanes import DenseRows, row_dot, row_dot_and_square
from replearn.kernels.rows import HUGE, TINY, is_zero, rescaled, take
from replearn.kernels.weighted_choice import exponential


@njit(cache=True, nogil=True)
def fill_margins(rows, signs, voters, as_signs, bias, out):
    """Margins of rows: what the voters say, for a row's own label.

    Voters are directions, one in each row; ``as_signs``: each says +1 or -1 (-1 on its boundary)
    instead of a product. ``bias`` is 1 with an intercept, else 0. Written is the sum over the
    voters, in order; NaN for a row of zeros.
    """
    nothing = np.zeros(voters.shape[1])
    for k in range(rows.members.size):
        sign = np.float64(signs[rows.members[k]])
        size = row_dot_and_square(rows, k, nothing)[1] + bias
        if TINY < size < HUGE:
            out[k] = _margin_of_row(rows, k, sign, math.sqrt(size), voters, as_signs, bias)
        elif size == 0.0 and is_zero(rows, k):
            out[k] = np.nan
        else:
            single = rescaled(take(rows, k, k + 1), bias)
            size = row_dot_and_square(single, 0, nothing)[1] + bias
            out[k] = _margin_of_row(single, 0, sign, math.sqrt(size), voters, as_signs, bias)


@njit(cache=True, nogil=True)
def _margin_of_row(rows, k, sign, length, voters, as_signs, bias):
    total = 0.0
    for v in range(voters.shape[0]):
        product = row_dot(rows, k, voters[v]) + bias * voters[v, voters.shape[1] - 1]
        if as_signs:
            total += sign if product > 0.0 else -sign
        else:
            total += sign * product / length
    return total


@njit(cache=True, nogil=True)
def fill_weights(margins, threshold, decay, out):
    """SmoothBoost's weights: 1 where ``N = margin - threshold <= 0``, else ``exp(-decay N)``.

    Rows of zeros (margin NaN) get weight 0.
    """
    for k in range(margins.size):
        excess = margins[k] - threshold
        if np.isnan(excess):
            out[k] = 0.0
        else:
            out[k] = 1.0 if excess <= 0.0 else exponential(-decay * excess)


@njit(cache=True, nogil=True)
def add_signed(rows, signs, weights, first, bias, hi, lo):
    """Add ``weight v`` of each row, and its weight, to the sum of its group.

    Weights are between 0 and 1, 0 for rows of zeros. Row k is in group ``(first + k) % n_groups``,
    ``first`` being the place of the first of these rows in the round. The limbs of the sums (see
    ``exact``) have shape (n_groups, n_inputs + 1); the last column is the sum of the weights.
    """
    n_groups, last = hi.shape[0], hi.shape[1] - 1
    nothing = np.zeros(last)
    for k in range(rows.members.size):
        if weights[k] == 0.0:
            continue
        group = (first + k) % n_groups
        factor = weights[k] * signs[rows.members[k]]
        size = row_dot_and_square(rows, k, nothing)[1] + bias
        if TINY < size < HUGE:
            factor /= math.sqrt(size)
            add_row(factor, rows, k, hi[group], lo[group])
        else:
            single = rescaled(take(rows, k, k + 1), bias)
            factor /= math.sqrt(row_dot_and_square(single, 0, nothing)[1] + bias)
            add_row(factor, single, 0, hi[group], lo[group])
        if bias != 0.0:
            add_fixed(factor, hi[group], lo[group], last - 1)
        add_fixed(weights[k], hi[group], lo[group], last)


@by_kind
def add_row(factor, rows, k, hi, lo):
    """Add ``factor x_k`` to a sum."""

    def dense(factor, rows, k, hi, lo):
        member = rows.members[k]
        for j in range(rows.X.shape[1]):
            add_fixed(factor * np.float64(rows.X[member, j]), hi, lo, j)

    def sparse(factor, rows, k, hi, lo):
        member = rows.members[k]
        for p in range(rows.indptr[member], rows.indptr[member + 1]):
            add_fixed(factor * np.float64(rows.data[p]), hi, lo, rows.indices[p])

    return dense if rows.instance_class is DenseRows else sparse
