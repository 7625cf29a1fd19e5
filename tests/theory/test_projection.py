"""What shared maps do to lengths, and what projection and rounding together do to a margin.

The unit of chance is a seed. Each check has a false-alarm probability of 1e-6 or less.
"""

import math

import numpy as np
import pytest
from scipy import stats

from replearn.codes import CELLS, CodeSpace, Coins, projection_matrix
from replearn.codes.projection import lift, project
from replearn.halfspaces.turned_signs import proved_space, sign_lost
from tests.error_budget import assert_mean_close, assert_rate_at_most, assert_rate_close
from tests.reference import gaussian_matrix, hadamard_matrix, rotation_matrix

MATRICES = {"gaussian": gaussian_matrix, "hadamard": hadamard_matrix, "rotation": rotation_matrix}


@pytest.mark.parametrize(("name", "d", "k"), [("gaussian", 13, 5), ("gaussian", 3, 40),
    ("hadamard", 21, 9), ("hadamard", 64, 64), ("rotation", 12, 12)])  # fmt: skip
def test_maps_are_the_matrices_of_their_definition(name, d, k):
    coins = Coins("a seed")
    expected = MATRICES[name](d, k, coins)
    points = np.random.default_rng(0).normal(size=(4, d))
    np.testing.assert_allclose(project(name, points, k, coins), points @ expected.T, atol=1e-12)
    np.testing.assert_allclose(projection_matrix(name, d, k, coins), expected.T, atol=1e-13)
    components = np.random.default_rng(1).normal(size=k)
    np.testing.assert_allclose(
        lift(name, components, d, coins), expected.T @ components, atol=1e-12
    )


@pytest.mark.parametrize(("name", "k"), [("gaussian", 6), ("hadamard", 6), ("rotation", 10)])
def test_inner_products_are_kept_in_expectation(name, k, seeds):
    rng = np.random.default_rng(4)
    one, two = rng.normal(size=(2, 10))
    found = []
    for seed in seeds(100 if name == "rotation" else 800):
        a, b = project(name, np.array([one, two]), k, Coins(seed))
        found.append(float(a @ b))
    if name == "rotation":
        np.testing.assert_allclose(found, one @ two, atol=1e-12)
    else:
        assert_mean_close(np.array(found), float(one @ two), 1e-9)


def pair_with_margin(m, d):
    """A unit direction and a unit point with the inner product m, in general position."""
    basis = np.linalg.qr(np.random.default_rng(7).normal(size=(d, d)))[0]
    return m * basis[:, 0] + math.sqrt(1 - m**2) * basis[:, 1], basis[:, 0]


def count_wrong(cells, m, seeds):
    """How many seeds turn the sign of the inner product, which is positive."""
    direction, point = pair_with_margin(m, cells.n_inputs)
    n_wrong = 0
    for seed in seeds:
        coins = Coins(seed)
        codes = cells.encode(cells.project(direction[None], coins)[0], coins)
        n_wrong += bool(cells.decode(codes, coins) @ point <= 0)
    return n_wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("projection", "rounding", "d", "bits"),
    [("gaussian", "centre", 5, 0), ("gaussian", "ak", 5, 0), ("gaussian", "centre", 5, 2),
     ("rotation", "centre", 10, 0), ("rotation", "centre", 10, 3),
     ("rotation", "e8+centre", 17, 0)],
)  # fmt: skip
def test_a_proved_space_keeps_the_sign(projection, rounding, d, bits, seeds):
    m, level, n_seeds = 0.4, 0.1, 500
    k, width = proved_space(projection, rounding, m, level, d, bits)
    cells = CodeSpace("rounded", d, projection, k, rounding, width, bits)
    n_wrong = count_wrong(cells, m, seeds(n_seeds))
    assert_rate_at_most(n_wrong, n_seeds, level)  # would catch 0.195 with probability 0.9
    # a space that is 2.5 times as coarse breaks it
    coarse = CodeSpace("rounded", d, projection, k, rounding, repr(2.5 * float(width)), bits)
    assert count_wrong(coarse, m, seeds(200)) > 200 * level


@pytest.mark.slow
def test_students_law_of_projected_and_rounded_margins(seeds):
    # exact without rounding; sums of many uniforms are nearly normal (THEORY 2.4)
    m, k, n_seeds = 0.4, 25, 1000
    width = 1 / math.sqrt(CELLS["centre"].second_moment * k)
    cells = CodeSpace("rounded", 5, "gaussian", k, "centre", repr(width), 0)
    expected = stats.t.cdf(-m / math.sqrt((1 - m**2) / k + 1 / k), k)
    assert_rate_close(count_wrong(cells, m, seeds(n_seeds)), n_seeds, expected, 0.05 * expected)
    # would catch 0.14 or 0.028 instead of 0.076 with probability 0.9


@pytest.mark.parametrize(("m", "k"), [(0.2, 300), (0.2, 640), (0.4, 90), (0.7, 40)])
def test_what_is_proved_is_nearly_students_law(m, k):
    student = stats.t.cdf(-m / math.sqrt((2 - m**2) / k), k)
    assert student < sign_lost(m, k) < 3 * student
    assert sign_lost(m, k) < (1 - m**2 / 2) ** (k / 2) / 2.5  # Chernoff
    printed = (1 - m**2 / 2) ** ((k - 1) / 2) * (2 - m**2)
    printed /= m * math.sqrt(math.pi * (1 - m**2) * (2 * k - 3))
    assert sign_lost(m, k) == pytest.approx(printed) or m > 0.5


@pytest.mark.parametrize("length", [1.0, 0.7, 0.41])
def test_shorter_vectors_lose_their_sign_no_more_often(length, seed_block):
    """The projection smooths less if the vector lies along the row; then it is also right."""
    m, k, n_draws = 0.4, 30, 50_000
    rng = np.random.default_rng([seed_block, int(100 * length)])
    along, across = rng.normal(size=(2, n_draws, k))
    error = rng.uniform(-math.sqrt(3), math.sqrt(3), size=(n_draws, k))
    score = (along * (m * along + math.sqrt(length**2 - m**2) * across + error)).sum(axis=1)
    assert_rate_at_most(int((score <= 0).sum()), n_draws, sign_lost(m, k))
    # would catch 1.1 times the bound with probability 0.9


def test_the_largest_of_the_three_is_the_one_that_is_stated():
    """Statement 4: the value at the largest q, for margins up to a half."""
    for m in np.linspace(0.004, 0.5, 125):
        for k in (np.array([12, 13, 20, 100, 2000]) / m**2).astype(int) + 1:
            stated = (1 - m * m / 2) ** ((k - 1) / 2) * (2 - m * m)
            stated /= m * math.sqrt(math.pi * (1 - m * m) * (2 * k - 3))
            assert sign_lost(m, int(k)) <= stated * (1 + 1e-6)
