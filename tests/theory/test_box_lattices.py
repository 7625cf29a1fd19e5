"""Laws of rounding to the lattices of `replearn.codes.box_lattices` after a shared uniform shift.

As for E8 and Leech (test_lattices.py): the error is centred and white with the second moment of
`CELLS`, and flips of small displacements follow the surface of the cell. Each check has a
false-alarm probability of 1e-6 or less; what it would catch is said beside it.
"""

import math

import numpy as np
import pytest

from replearn.codes.box_lattices import BOX_LATTICES, facet_vectors, facets, nearest_codes
from replearn.codes.cells import CELLS, flip_constant
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import round_codes
from tests.error_budget import assert_mean_close, assert_rate_at_most, assert_rate_between

FALSE_ALARM = 1e-6
N_DRAWS = {"d10p": 40_000, "k12": 12_000}

every = pytest.mark.parametrize("name", list(BOX_LATTICES))


def draw(name, rng):
    """Points uniform on the box of the shared shift, in integer coordinates."""
    lattice = BOX_LATTICES[name]
    n_draws = N_DRAWS.get(name, 100_000)
    return rng.uniform(0, 1, size=(n_draws, lattice.block)) * np.array(lattice.moduli)


@pytest.fixture(scope="module")
def errors(seed_block):
    rng = np.random.default_rng([seed_block, 1])
    found = {}
    for name, lattice in BOX_LATTICES.items():
        points = draw(name, rng)
        found[name] = (points - nearest_codes(lattice, points)) * np.array(lattice.units)
    return found


@every
def test_second_moment(name, errors):
    assert_mean_close((errors[name] ** 2).mean(axis=1), CELLS[name].second_moment)
    # would catch a constant that is wrong by .9 % (a2) to .5 % (k12) with probability .8


@every
def test_error_is_unbiased_and_white(name, errors):
    sample = errors[name]
    n = sample.shape[1]
    n_tests = n + n * (n + 1) // 2
    for i in range(n):
        assert_mean_close(sample[:, i], 0.0, false_alarm=FALSE_ALARM / n_tests)
        for j in range(i + 1):
            expected = CELLS[name].second_moment if i == j else 0.0
            assert_mean_close(sample[:, i] * sample[:, j], expected, 0.0, FALSE_ALARM / n_tests)
    # would catch a correlation of .02 (k12: .06) with probability .8


@every
def test_shares_of_the_pyramids(name, errors):
    # a point of the cell lies over the facet that its ray meets first
    lattice, n = BOX_LATTICES[name], BOX_LATTICES[name].block
    heights, normals = facets(lattice)
    vectors = facet_vectors(lattice)
    norms = (vectors.astype(np.int64) ** 2 * np.array(lattice.weights)).sum(axis=1)
    ratios = errors[name] @ (normals / heights[:, None]).T
    assert ratios.max() <= 1 + 1e-12  # the facets bound the cell
    inverse_heights = 1 / heights[ratios.argmax(axis=1)]
    # surface = n times the mean of 1 / height
    if len(set(norms.tolist())) == 1:
        assert n * inverse_heights[0] == pytest.approx(CELLS[name].surface, rel=1e-12)
    else:
        assert_mean_close(n * inverse_heights, CELLS[name].surface)
    # would catch a surface that is wrong by .2 % (k12: .4 %) with probability .8


@every
def test_flips_of_isotropic_displacements(name, seed_block):
    lattice, n = BOX_LATTICES[name], BOX_LATTICES[name].block
    rng = np.random.default_rng([seed_block, 2])
    points = draw(name, rng)
    deviation = 0.02
    moved = points + deviation * rng.normal(size=points.shape) / np.array(lattice.units)
    codes, others = nearest_codes(lattice, points), nearest_codes(lattice, moved)
    flips = int(np.any(codes != others, axis=1).sum())
    first_order = flip_constant(name, n) * math.sqrt(n) * deviation
    # at most the first order, and below it by walls crossed twice, which is of second order
    assert_rate_between(flips, len(points), 0.95 * first_order, first_order)
    # would catch a rate 11 % above or 15 % below (k12: 15 %, 19 %) with probability .8


@every
def test_worst_case_of_flips(name, seed_block):
    lattice, n = BOX_LATTICES[name], BOX_LATTICES[name].block
    rng = np.random.default_rng([seed_block, 3])
    units = np.array(lattice.units)
    root = facet_vectors(lattice)[0] * units
    directions = [np.eye(n)[0], root / np.linalg.norm(root), np.full(n, n**-0.5)]
    for direction in directions:
        points = draw(name, rng)[:5_000]
        moved = points + 0.2 * direction / units
        differ = np.any(nearest_codes(lattice, points) != nearest_codes(lattice, moved), axis=1)
        bound = CELLS[name].worst_flips * 0.2
        assert_rate_at_most(int(differ.sum()), len(points), bound, FALSE_ALARM / 24)
    # would catch a rate 10 % (k12) to 15 % (a2) above the bound with probability .8


@every
def test_facet_vectors_are_a_design(name):
    # what the worst case rests on: for each length, the mean of v v^T is a multiple of the identity
    lattice = BOX_LATTICES[name]
    vectors = facet_vectors(lattice) * np.array(lattice.units)
    norms = np.rint((vectors**2).sum(axis=1) * 1e9)
    for norm in set(norms.tolist()):
        shell = vectors[norms == norm]
        total = shell.T @ shell
        expected = np.eye(lattice.block) * (shell**2).sum() / lattice.block
        np.testing.assert_allclose(total, expected, atol=1e-9 * total.max())


@pytest.mark.parametrize(
    ("rounding", "n_components"), [("d10p", 9), ("e8", 5), ("leech", 16), ("e8+a2", 10)]
)
def test_flips_of_padded_and_mixed_blocks(rounding, n_components, seed_block):
    # sections of a cell: `flip_constant` is an upper bound that is 3 % above at most, and for
    # whole blocks of e8 3.2 % more
    rng = np.random.default_rng([seed_block, 4])
    n_draws, flips = 4000, 0
    for _ in range(n_draws):
        point = rng.uniform(0, 100, n_components)
        moved = point + 0.05 * rng.normal(size=n_components)
        seed = SharedRandomness(int(rng.integers(2**62)))
        codes = round_codes(point, 1.0, rounding, seed)
        flips += bool(np.any(codes != round_codes(moved, 1.0, rounding, seed)))
    first_order = flip_constant(rounding, n_components) * math.sqrt(n_components) * 0.05
    assert_rate_between(flips, n_draws, 0.85 * first_order, first_order)
    # would catch a rate 20 % above or 33 % below the bound with probability .8
