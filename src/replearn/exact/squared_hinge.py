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
from collections.abc import Sequence
from typing import Any

import numpy as np

from replearn.exact import algebra
from replearn.exact.algebra import dot
from replearn.exact.directions import UNIT_BITS, products
from replearn.types import Matrix, Vector, is_sparse, stacked

#: Losses have this many bits: so many rows of 2^20 each then add up to 2^53.
_LOSS_BITS, _EXACT_ROWS = 20, 1 << 13

#: Columns for which Newton's matrix is made.
_FEW_COLUMNS = 128

#: Rows whose products are made at once.
_BLOCK_ROWS = 1 << 14

_MAX_STEPS = 60
_MAX_CONJUGATE = 400
#: A fit ends when a step promises to lower the objective by no more than this share of it; refits
#: show a spread, or are a start, and need less.
_TOLERANCE, ROUGH = 1e-9, 1e-5
#: Conjugate gradients end at this share of the gradient.
_INNER_TOLERANCE = 1e-3
_MAX_HALVINGS = 30

#: Refits without a group of rows look at rows with a score below this: the others keep no loss.
_SCREEN = 1.5


def fit(
    groups: Sequence[Any], ridge: float, start: Vector, tolerance: float = _TOLERANCE
) -> Vector:
    """The minimiser for the rows of all groups, from a start."""
    u = start
    n = sum(rows.shape[0] for rows in groups)
    losses, objective = _losses(groups, u, ridge, n)

    for _ in range(_MAX_STEPS):
        # 1. the gradient and the rows that have a loss
        active = stacked([rows[loss > 0] for rows, loss in zip(groups, losses, strict=True)])
        active_losses = np.concatenate([loss[loss > 0] for loss in losses])
        gradient = ridge * u - weighted_sum(active, active_losses) / n

        # 2. Newton's direction
        step = _solve(active, n, ridge, gradient)
        decrease = dot(gradient, step)
        if decrease <= tolerance * objective:
            break

        # 3. half as far, until the objective falls
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            candidate = u - size * step
            candidate_losses, candidate_objective = _losses(groups, candidate, ridge, n)
            if candidate_objective <= objective - 1e-4 * size * decrease:
                break
            size /= 2
        else:
            break
        u, losses, objective = candidate, candidate_losses, candidate_objective

    return u


def without_each_group(groups: Sequence[Any], ridge: float, solution: Vector) -> Matrix:
    """The minimisers without one group of rows after the other: one row each."""
    sizes = [rows.shape[0] for rows in groups]
    screened = [rows[_scores(rows, solution) < _SCREEN] for rows in groups]

    refits = []
    for left_out in range(len(groups)):
        others = screened[:left_out] + screened[left_out + 1 :]
        n_all = sum(sizes) - sizes[left_out]
        n_others = sum(rows.shape[0] for rows in others)
        # the objective of all rows, divided by the share of those that are looked at
        scaled_ridge = ridge * n_all / max(1, n_others)
        refits.append(fit(others, scaled_ridge, solution, ROUGH))
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


def _losses(groups: Sequence[Any], u: Vector, ridge: float, n: int) -> tuple[list[Vector], float]:
    """``(1 - <u, v>)_+`` of each row, and the objective."""
    losses = [np.maximum(0.0, 1.0 - _scores(rows, u)) for rows in groups]
    top = max(float(loss.max(initial=0.0)) for loss in losses)

    # whole numbers, so that the order of additions does not matter
    bits, total = _LOSS_BITS - math.frexp(top)[1], 0
    for loss in losses:
        rounded = np.rint(np.ldexp(loss, bits)).astype(np.int64)
        total += int((rounded * rounded).sum())
    return losses, math.ldexp(float(total), -2 * bits) / (2 * n) + ridge / 2 * dot(u, u)


def _scores(rows: Any, u: Vector) -> Vector:
    """``<u, v>`` of each row; rows are kept in single precision, which holds them exactly."""
    blocks = [
        products(rows[start : start + _BLOCK_ROWS].astype(np.float64), u)
        for start in range(0, rows.shape[0], _BLOCK_ROWS)
    ]
    return np.concatenate(blocks) if blocks else np.zeros(0)


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
        image = ridge * direction + weighted_sum(active, _scores(active, direction)) / n
        size = square / dot(direction, image)
        solution = solution + size * direction
        residual = residual - size * image
        new_square = dot(residual, residual)
        direction, square = residual + new_square / square * direction, new_square

    return solution
