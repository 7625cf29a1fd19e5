"""How much candidates that tie at the top can differ on a row, at most: from one site's rows.

A site knows the scores of the population up to a radius for each pair of candidates. Within these
radii the weights of ties (`tie_weights`) move, but they keep adding up to 1/2; so what they give on
average hardly moves. The lemmas and their proofs are in docs/choosing.md, the tests in
tests/theory/test_tie_bounds.py.
"""

import math

import numpy as np

from replearn.plans.plan_choice import choice_probabilities
from replearn.stages.intervals import largest_differences
from replearn.stages.model_scores import PRODUCT_ERROR
from replearn.types import IntegerArray, Matrix, Vector

_MOST_POTENTIALS = 64  # candidates whose potentials are searched, and values that these have


# --- means of bounded numbers -------------------------------------------------------------------


def score_radii(
    scores: Vector, squares: Matrix, n_rows: int, row_range: float, binary: bool, doubt: float
) -> Matrix:
    """By how much more than observed one candidate may be better than another.

    ``squares`` are mean squared differences of candidates on a row, whose numbers are 0 or 1 if
    ``binary``. Each radius is too small with chance ``doubt``; ``radii[i, j]`` is that of the score
    of i minus the score of j.
    """
    means = (scores[:, None] - scores) / row_range
    shares = np.minimum(squares / row_range**2, 1.0)
    if not binary:  # products know the numbers up to their rounding
        shares = np.minimum((np.sqrt(shares) + 2 * PRODUCT_ERROR / row_range) ** 2, 1.0)
    radii = (largest_differences(means, shares, n_rows, binary, doubt) - means) * row_range
    np.fill_diagonal(radii, 0.0)
    return np.asarray(radii)


# --- ties within the radii ----------------------------------------------------------------------


def largest_tie_spread(
    scores: Vector, radii: Matrix, squares: Matrix, scale: float, n_rounds: int = 3
) -> float:
    """The most that pairs which tie can differ on a row, on average, within the radii.

    With radii from `score_radii`, mean ``squares`` of differences of candidates on a row, and the
    scale of the noise: at least ``2 sum over pairs of w_ij(m) squares_ij`` for all scores m with
    ``m_i - m_j <= scores_i - scores_j + radii_ij``. Potentials and weights are found from each
    other, ``n_rounds`` times; one more is a little sharper.

    Notes
    -----
    If ``a_i + a_j >= squares_ij`` for all pairs, the sum is at most ``2 sum a_i p_i(m)`` with the
    chances ``p`` that candidates are chosen: at the top i ties with probability density ``p_i / s``
    at most. Sorted by a, that is a sum of chances of the sets of the first candidates, and the
    chance of a set is largest if the set is up and the others are down; up by y and down by z
    is enough for all m if ``y_i + z_j >= radii_ij``.
    """
    weights = choice_probabilities(scores, scale) + 1e-6
    run = np.argsort(-weights, kind="stable")[:_MOST_POTENTIALS]
    up, down = _radius_potentials(radii, weights, run)
    best = math.inf
    for _ in range(n_rounds):
        potentials = _levels(_square_potentials(squares, weights, run))
        chances = _largest_chances(potentials, scores, radii, up, down, scale)
        best = min(best, 2 * float(chances @ potentials))
        weights = (weights + chances) / 2
    return best


def _largest_chances(
    potentials: Vector, scores: Vector, radii: Matrix, up: Vector, down: Vector, scale: float
) -> Vector:
    """Increments of the largest chances of sets, which grow from the largest potential on."""
    chances = np.zeros(scores.size)
    reached = 0.0
    levels = np.unique(potentials)[::-1]
    for level in levels:
        inside = potentials >= level
        chance = 1.0
        if level > levels[-1]:
            # potentials of all pairs are more than the pairs across this set need
            rise = (radii[inside][:, ~inside] - down[~inside]).max(axis=1)
            fall = (radii[inside][:, ~inside] - rise[:, None]).max(axis=0)
            moved = scores.copy()
            moved[inside] += rise
            moved[~inside] -= fall
            chance = min(1.0, float(choice_probabilities(moved, scale)[inside].sum()))
        here = potentials == level
        chances[here] = max(0.0, chance - reached) / here.sum()
        reached = max(reached, chance)
    return chances


def _levels(potentials: Vector) -> Vector:
    """Rounded up to a few dozens of values: larger potentials cover as well."""
    if potentials.size <= _MOST_POTENTIALS:
        return potentials
    levels = np.quantile(potentials, np.linspace(0, 1, _MOST_POTENTIALS), method="higher")
    return np.asarray(levels[np.searchsorted(levels, potentials)])


def _square_potentials(squares: Matrix, weights: Vector, run: IntegerArray) -> Vector:
    """Potentials with ``a_i + a_j >= squares_ij``, of small weighted sum."""
    first, second = np.triu_indices(run.size, 1)
    found = _cover(squares[run[first], run[second]], first, second, weights[run])
    potentials = np.zeros(weights.size)
    potentials[run] = found
    rest = np.setdiff1d(np.arange(weights.size), run)
    if rest.size:
        among = squares[np.ix_(rest, rest)].max(axis=1) / 2
        against = (squares[np.ix_(rest, run)] - found).max(axis=1)
        potentials[rest] = np.maximum(np.maximum(among, against), 0.0)
    return potentials


def _radius_potentials(radii: Matrix, weights: Vector, run: IntegerArray) -> tuple[Vector, Vector]:
    """Potentials with ``up_i + down_j >= radii_ij``, of small weighted sum."""
    size = run.size
    first, second = (index.ravel() for index in np.indices((size, size)))
    pairs = first != second
    first, second = first[pairs], second[pairs]
    found = _cover(radii[run[first], run[second]], first, size + second, np.tile(weights[run], 2))
    up, down = np.zeros(weights.size), np.zeros(weights.size)
    up[run], down[run] = found[:size], found[size:]
    rest = np.setdiff1d(np.arange(weights.size), run)
    if rest.size:
        down[rest] = (radii[np.ix_(run, rest)] - up[run][:, None]).max(axis=0)
        up[rest] = (radii[rest] - down).max(axis=1)
    return up, down


def _cover(needed: Vector, first: IntegerArray, second: IntegerArray, weights: Vector) -> Vector:
    """Numbers from 0 with ``x[first] + x[second] >= needed``, of least weighted sum.

    A linear programme. Whatever the solver returns is lifted until it covers.
    """
    if needed.size == 0:
        return np.zeros(weights.size)
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    rows = np.arange(needed.size)
    table = csr_array(
        (np.full(2 * needed.size, -1.0), (np.tile(rows, 2), np.concatenate([first, second]))),
        shape=(needed.size, weights.size),
    )
    size = max(float(needed.max()), 1e-300)  # the solver's tolerances are absolute
    found = linprog(weights / weights.sum(), A_ub=table, b_ub=-needed / size, method="highs")
    solved = np.maximum(found.x, 0.0) * size if found.x is not None else np.zeros(weights.size)
    short = float((needed - solved[first] - solved[second]).max())
    return np.asarray(solved + max(0.0, short) / 2)
