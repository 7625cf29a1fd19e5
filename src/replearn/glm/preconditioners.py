"""What a gradient is multiplied by to make a Newton step: an inverse information, or nearly one.

Few coefficients have the inverse of the whole matrix. More coefficients of several classes have a
matrix of each class. If all K classes had scores, the first one too, their information would be
``diag(p) - p p'`` in a row, which the diagonal ``p (1 - p)`` bounds within a factor of two. So each
class is solved alone, and scores against the first class are differences of these solutions.
Thousands of columns have a first row and a diagonal in place of a matrix: each column is solved
beside the constant alone.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from replearn.exact import algebra
from replearn.glm.derivatives import Form, mean_information, mean_parts
from replearn.glm.losses import Loss
from replearn.rows import ExactSums
from replearn.types import Matrix, Vector

#: Pivots of the information matrix are raised to it: what the grid of curvatures can show.
LEAST_PIVOT = 2.0**-24

#: From a gradient, a row for each score, to a step.
Preconditioner = Callable[[Matrix], Matrix]


def preconditioner_of(sums: ExactSums, loss: Loss, ridge: float, form: Form) -> Preconditioner:
    """From the information that sums have, with the ridge."""
    if form == "pairs":
        lower = algebra.cholesky(mean_information(sums, loss, ridge), LEAST_PIVOT)
        return lambda gradient: algebra.solve(lower, gradient.reshape(-1)).reshape(gradient.shape)

    parts = mean_parts(sums, loss, form)
    solve: Preconditioner = partial(_solved_alone, parts, ridge)
    if form == "classes":
        solve = algebra.solver_of_each(class_factors(parts, ridge))
    return partial(_by_class, solve)


def class_factors(parts: Matrix, ridge: float) -> Matrix:
    """Cholesky's, of the information of each class."""
    penalty = np.full(parts.shape[1], ridge)
    penalty[0] = 0.0
    return algebra.cholesky(parts + np.diag(penalty), LEAST_PIVOT)


def _by_class(solve: Callable[[Matrix], Matrix], gradient: Matrix) -> Matrix:
    """Solve each class alone; gradients of all classes add up to nothing."""
    if len(gradient) == 1:
        return solve(gradient)

    first = np.zeros(gradient.shape[1])
    for row in gradient:
        first = first - row
    solutions = solve(np.vstack([first, gradient]))
    return solutions[1:] - solutions[0]


def schur_complements(
    first: Vector, diagonal: Vector, penalty: float
) -> tuple[float, Vector, Vector]:
    """The constant's own information, slopes of columns on it, and what columns have beside it.

    A column that hardly varies keeps a 64th of its square.
    """
    pivot = max(float(first[0]), LEAST_PIVOT)
    slope = first[1:] / pivot
    own = diagonal[1:] + penalty
    complement = np.maximum(np.maximum(own - first[1:] * slope, own / 64), LEAST_PIVOT)
    return pivot, slope, complement


def _solved_alone(parts: Matrix, ridge: float, right: Matrix) -> Matrix:
    """Inverse information of columns that are alone beside the constant, times rows."""
    solution = np.empty_like(right)
    for row, values, (first, diagonal) in zip(solution, right, parts, strict=True):
        pivot, slope, complement = schur_complements(first, diagonal, ridge)
        row[1:] = (values[1:] - slope * values[0]) / complement
        row[0] = values[0] / pivot - algebra.dot(slope, row[1:])
    return solution
