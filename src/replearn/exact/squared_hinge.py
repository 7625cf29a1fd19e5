"""One large-margin vector of all rows, in whole numbers.

For directions v_i of `replearn.exact.directions.unit_rows` it solves

    ``min_u  lambda/2 |u|^2 + 1/(2 n) sum_i (1 - <u, v_i>)_+^2``

by Newton's method over the rows with a loss; a step is solved by a triangle for few columns, by
conjugate gradients for many. Products
with rows are whole numbers, and losses are cut to whole numbers before they are added up. So the
same rows give the same bits in any order, dense or sparse, on any machine.

Twin: ``squared_hinge_vector`` in tests/reference.py.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from replearn.exact import algebra
from replearn.exact.algebra import dot
from replearn.exact.directions import UNIT_BITS, products
from replearn.exact.fixed_order_dot import length
from replearn.types import Matrix, Vector, is_sparse

#: Losses have this many bits: so many rows of 2^20 each then add up to 2^53.
_LOSS_BITS, _EXACT_ROWS = 20, 1 << 13

#: Columns for which Newton's matrix is made.
_FEW_COLUMNS = 128

_MAX_STEPS = 60
_MAX_CONJUGATE = 400
#: A fit ends when a step promises to lower the objective by no more than this share of it; refits
#: show a spread, or are a start, and need less.
_TOLERANCE, ROUGH = 1e-9, 1e-5
#: Conjugate gradients end at this share of the gradient.
_INNER_TOLERANCE = 1e-3
_MAX_HALVINGS = 30

#: Rows are picked out where they are fewer than one in so many: else it is faster to look at all.
_SEEN_SHARE = 4


def fit(
    rows: Any,
    ridge: float,
    start: Vector,
    tolerance: float = _TOLERANCE,
    scores: Vector | None = None,
) -> Vector:
    """The minimiser, from a start where scores may be known. Infinite ones leave rows out."""
    if scores is None:
        scores = products(rows, start)
    seen = _Seen(rows, start, scores, max(1, int(np.isfinite(scores).sum())))
    n, u = seen.n_rows, start
    active, losses, objective = seen.losses(u, ridge)

    for _ in range(_MAX_STEPS):
        # 1. the gradient, by the rows that have a loss, and Newton's direction
        gradient = ridge * u - weighted_sum(active, losses) / n
        step = _solve(active, n, ridge, gradient)
        decrease = dot(gradient, step)
        if decrease <= tolerance * objective:
            break

        # 2. half as far, until the objective falls
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            candidate = u - size * step
            found = seen.losses(candidate, ridge)
            if found.objective <= objective - 1e-4 * size * decrease:
                break
            size /= 2
        else:
            break
        u, (active, losses, objective) = candidate, found

    return u


def without_each_group(rows: Any, n_groups: int, ridge: float, solution: Vector) -> Matrix:
    """The minimisers without one group of rows after the other: every so many rows are a group."""
    scores = products(rows, solution)
    refits = []
    for left_out in range(n_groups):
        others = scores.copy()
        others[left_out::n_groups] = np.inf
        refits.append(fit(rows, ridge, solution, ROUGH, others))
    return np.array(refits)


def weighted_sum(rows: Any, weights: Vector) -> Vector:
    """``sum_i weight_i v_i``, exact for weights that are cut to 20 bits of the largest."""
    top = float(np.abs(weights).max(initial=0.0))
    if top == 0.0:
        return np.zeros(rows.shape[1])

    bits = _LOSS_BITS - math.frexp(top)[1]
    rounded = np.rint(np.ldexp(weights, bits))
    total = np.zeros(rows.shape[1], dtype=np.int64)
    for start in range(0, rounded.size, _EXACT_ROWS):
        part = slice(start, start + _EXACT_ROWS)
        block = rows[part].astype(np.float64)
        total += np.asarray(block.T @ rounded[part]).astype(np.int64)
    return np.ldexp(total.astype(np.float64), -(bits + UNIT_BITS))


class _Losses(NamedTuple):
    """Rows that have a loss, ``(1 - <u, v>)_+`` of these, and the objective."""

    rows: Any
    losses: Vector
    objective: float


@dataclass
class _Seen:
    """Scores at an earlier vector, by which most rows have no loss and are not looked at again.

    A row has length 1, so its score moves by no more than the vector does.
    """

    rows: Any
    vector: Vector
    scores: Vector  # infinite: left out
    n_rows: int

    def losses(self, u: Vector, ridge: float) -> _Losses:
        """What is lost at u."""
        # lengths of rows, and what products round away
        rounded = u.size * 2.0**-31 * float(np.abs(u).max() + np.abs(self.vector).max())
        places = np.flatnonzero(self.scores < 1 + 1.001 * length(u - self.vector) + rounded)

        if _SEEN_SHARE * places.size < self.scores.size:
            rows = self.rows[places]
            scores = products(rows, u)
        else:
            left_out = np.isinf(self.scores)
            rows, scores = self.rows, products(self.rows, u)
            scores[left_out] = np.inf
            self.vector, self.scores = u, scores

        near = np.flatnonzero(scores < 1.0)
        losses = 1.0 - scores[near]

        # whole numbers, so that the order of additions does not matter
        bits = _LOSS_BITS - math.frexp(float(losses.max(initial=0.0)))[1]
        whole = np.rint(np.ldexp(losses, bits)).astype(np.int64)
        total = math.ldexp(float((whole * whole).sum()), -2 * bits)
        return _Losses(rows[near], losses, total / (2 * self.n_rows) + ridge / 2 * dot(u, u))


def _solve(active: Any, n: int, ridge: float, gradient: Vector) -> Vector:
    """``(ridge + active' active / n)^-1 gradient``."""
    if gradient.size > _FEW_COLUMNS:
        return _conjugate_gradients(active, n, ridge, gradient)
    matrix = _gram(active) / n + ridge * np.eye(gradient.size)
    return algebra.solve(algebra.cholesky(matrix, floor=ridge / 2), gradient)


def _gram(rows: Any) -> Matrix:
    """``sum_i v_i v_i'``, exact for up to 2^23 rows: blocks add up to 2^53 at most."""
    total = np.zeros((rows.shape[1], rows.shape[1]), dtype=np.int64)
    for start in range(0, rows.shape[0], _EXACT_ROWS):
        block = rows[start : start + _EXACT_ROWS].astype(np.float64)
        squares = block.T @ block
        if is_sparse(rows):
            squares = squares.toarray()
        total += squares.astype(np.int64)
    return np.ldexp(total.astype(np.float64), -2 * UNIT_BITS)


def _conjugate_gradients(active: Any, n: int, ridge: float, gradient: Vector) -> Vector:
    solution, residual = np.zeros_like(gradient), gradient
    direction, square = residual, dot(residual, residual)
    enough = _INNER_TOLERANCE**2 * square

    for _ in range(_MAX_CONJUGATE):
        if square <= enough:
            break
        image = ridge * direction + weighted_sum(active, products(active, direction)) / n
        size = square / dot(direction, image)
        solution = solution + size * direction
        residual = residual - size * image
        new_square = dot(residual, residual)
        direction, square = residual + new_square / square * direction, new_square

    return solution
