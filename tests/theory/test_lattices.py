"""Laws of rounding to E8 and Leech after a shared uniform shift (THEORY 2.6; `Lattice`).

Points are ``nearest(x - dither) + dither``; the dither is uniform on a cube of side `dither_side`.
Each check has a false-alarm probability of 1e-6 or less; what it would catch is said beside it.
"""

import numpy as np
import pytest
from scipy import stats

from replearn.codes.lattices import E8, LEECH, minimal_vectors
from replearn.kernels.lattices import nearest_e8, nearest_leech
from tests.error_budget import assert_mean_close, assert_rate_at_most, assert_rate_between

FALSE_ALARM = 1e-6
NEAREST = {E8: nearest_e8, LEECH: nearest_leech}
N_DRAWS = {E8: 400_000, LEECH: 100_000}

both = pytest.mark.parametrize("lattice", [E8, LEECH], ids=["e8", "leech"])


def draw_dither(lattice, n_draws, rng):
    return rng.uniform(0, lattice.dither_side, size=(n_draws, lattice.block))


def rounding_errors(lattice, point, n_draws, rng):
    shifted = point - draw_dither(lattice, n_draws, rng)
    return NEAREST[lattice](shifted) * lattice.unit - shifted


def count_flips(lattice, steps, rng):
    """How many of these displacements change the codes, each under its own dither."""
    start = draw_dither(lattice, len(steps), rng)
    nearest = NEAREST[lattice]
    return int(np.any(nearest(start) != nearest(start + steps), axis=1).sum())


def unit_vectors(n_draws, block, rng):
    vectors = rng.normal(size=(n_draws, block))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def errors(seed_block):
    """Errors of E8 and Leech at a point that has nothing special."""
    rng = np.random.default_rng([seed_block, 1])
    return {
        lattice: rounding_errors(lattice, rng.normal(size=lattice.block), n_draws, rng)
        for lattice, n_draws in N_DRAWS.items()
    }


def test_constants():
    # the numbers quoted in docstrings and in THEORY 2.6
    assert pytest.approx(8 * np.sqrt(2)) == E8.surface
    assert E8.second_moment == pytest.approx(0.071682, abs=1e-6)
    for lattice, isotropic, worst in ((E8, 1.6463, 2.0), (LEECH, 1.9749, 2.4495)):
        assert lattice.isotropic_flips == pytest.approx(isotropic, abs=1e-4)
        assert lattice.worst_flips == pytest.approx(worst, abs=1e-4)
        # E|u_1| <= (E u_1^2)^(1/2): an average cannot be above the worst case
        assert lattice.isotropic_flips < lattice.worst_flips


@both
def test_error_is_unbiased(lattice, errors):
    for coordinate in range(lattice.block):
        assert_mean_close(
            errors[lattice][:, coordinate], 0.0, false_alarm=FALSE_ALARM / lattice.block
        )
    # would catch a bias of .0026 (E8), .0051 (Leech) in one coordinate with probability .8;
    # a cell's half width is .7 or more


@both
def test_second_moment(lattice, errors):
    assert_mean_close((errors[lattice] ** 2).mean(axis=1), lattice.second_moment)
    # would catch a constant that is wrong by .2 % (E8: 1.5e-4, Leech: 1.1e-4) with probability .8


@both
def test_error_is_white(lattice, errors):
    # irreducible symmetry: the covariance is second_moment times the identity
    sample = errors[lattice]
    block = lattice.block
    n_tests = block * (block + 1) // 2
    for i in range(block):
        for j in range(i + 1):
            expected = lattice.second_moment if i == j else 0.0
            assert_mean_close(sample[:, i] * sample[:, j], expected, 0.0, FALSE_ALARM / n_tests)
    # would catch a correlation of .010 (E8), .021 (Leech) with probability .8


@both
def test_error_law_is_the_same_at_every_point(lattice, seed_block):
    rng = np.random.default_rng([seed_block, 2])
    n_draws = N_DRAWS[lattice] // 4
    far = rng.uniform(-1e6, 1e6, size=lattice.block)
    at_zero = rounding_errors(lattice, np.zeros(lattice.block), n_draws, rng)
    at_far = rounding_errors(lattice, far, n_draws, rng)
    direction = unit_vectors(1, lattice.block, rng)[0]
    views = [lambda e: (e**2).sum(axis=1), lambda e: e[:, 0], lambda e: e @ direction]
    for view in views:
        p_value = stats.ks_2samp(view(at_zero), view(at_far), method="asymp").pvalue
        assert p_value > FALSE_ALARM / len(views)
    # would catch distribution functions .016 (E8), .032 (Leech) apart with probability .9


@both
def test_flips_in_random_directions(lattice, seed_block):
    rng = np.random.default_rng([seed_block, 3])
    n_draws = N_DRAWS[lattice]
    length = 0.02
    flips = count_flips(lattice, length * unit_vectors(n_draws, lattice.block, rng), rng)
    first_order = lattice.isotropic_flips * length
    # At most the first-order rate, for every length. Below it by walls crossed twice, which is of
    # second order, and for Leech by the .1 % that its surface is below 24.
    assert_rate_between(flips, n_draws, 0.97 * first_order, first_order)
    # would catch a rate 5 % above or 8 % below the first order (Leech 9 %, 12 %; the standard
    # error is .9 %, 1.6 %) with probability .8


def axis_rate(lattice):
    """First-order flips along an axis: all facets of minimal vectors have the same area."""
    along = np.abs(minimal_vectors(lattice)[:, 0].astype(np.float64)).mean()
    return lattice.surface / 2 * along * lattice.unit / lattice.minimal_norm


@both
def test_flips_along_an_axis(lattice, seed_block):
    # 23/15 for E8, 1.852 for Leech: less than in a random direction
    assert axis_rate(lattice) < lattice.isotropic_flips
    rng = np.random.default_rng([seed_block, 4])
    n_draws = N_DRAWS[lattice]
    length = 0.02
    steps = np.zeros((n_draws, lattice.block))
    steps[:, 0] = length
    flips = count_flips(lattice, steps, rng)
    # for Leech .3 % of the surface belongs to norm-6 vectors, whose share along an axis is unknown
    first_order = axis_rate(lattice) * length
    assert_rate_between(flips, n_draws, 0.97 * first_order, 1.01 * first_order)
    # would catch a rate 6 % above or 8 % below (Leech 10 %, 12 %) with probability .8


def test_worst_case_of_flips_holds_at_every_length(seed_block):
    # Provable in every direction: P[flip] <= worst_flips * |delta|. The bound that needs no
    # symmetry, surface / 2 * |delta|, is 5.7 * |delta| for E8 and 12 * |delta| for Leech.
    rng = np.random.default_rng([seed_block, 5])
    n_draws = 10_000
    for lattice in (E8, LEECH):
        root = minimal_vectors(lattice)[0] * lattice.unit / lattice.minimal_norm
        hole = np.eye(lattice.block)[0]
        diagonal = np.full(lattice.block, lattice.block**-0.5)
        for direction in (root, hole, diagonal):
            for length in (0.05, 0.2, 0.4):
                steps = np.tile(length * direction, (n_draws, 1))
                flips = count_flips(lattice, steps, rng)
                assert_rate_at_most(flips, n_draws, lattice.worst_flips * length, FALSE_ALARM / 18)
    # at length .05 would catch a rate 18 % above the bound (.10 for E8, .12 for Leech) with
    # probability .8; the rates seen are 23 % to 40 % below it


def test_minimal_vectors_are_a_design():
    # What the worst case rests on: the mean of v v^T is |v|^2 / n times the identity
    # (exact in integers; the norm-6 vectors of Leech have the same symmetry).
    for lattice in (E8, LEECH):
        vectors = minimal_vectors(lattice).astype(np.float64)
        total = vectors.T @ vectors
        expected = (vectors**2).sum() / lattice.block * np.eye(lattice.block)
        np.testing.assert_array_equal(total, expected)


@both
def test_errors_look_sub_gaussian(lattice, errors, seed_block):
    # Empirical, not proved: E exp(s <error, u>) <= exp(s^2 second_moment / 2). The law of the
    # error is symmetric, so cosh has the same mean as exp and less variance.
    rng = np.random.default_rng([seed_block, 6])
    root = minimal_vectors(lattice)[0] * lattice.unit / lattice.minimal_norm
    directions = [np.eye(lattice.block)[0], root, *unit_vectors(3, lattice.block, rng)]
    strengths = [2.0, 4.0, 8.0, 12.0]
    n_tests = len(directions) * len(strengths)
    for direction in directions:
        projected = errors[lattice] @ direction
        for strength in strengths:
            samples = np.cosh(strength * projected)
            bound = np.exp(strength**2 * lattice.second_moment / 2)
            excess = (samples.mean() - bound) / stats.sem(samples)
            assert stats.norm.sf(excess) > FALSE_ALARM / n_tests
    # would catch a proxy 1.2 % (E8), 2.6 % (Leech) above the second moment with probability .8;
    # seen: 1.2 % (E8), .7 % (Leech) below it at strength 2, 23 % and 12 % below at 12
