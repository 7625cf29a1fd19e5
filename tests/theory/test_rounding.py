"""Laws of the shared roundings (THEORY 2.1, 2.2, 2.6; Section 2 of the paper).

A point with many coordinates, rounded under one seed, is as many independent roundings of one
number. Each check has a false-alarm probability of 1e-6 or less; what it would catch is said
beside it.
"""

import numpy as np
import pytest
from scipy import stats

from replearn.codes.cells import CELLS
from replearn.codes.lattices import near_facets
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import residual, round_codes, unround
from tests.error_budget import (
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_close,
)
from tests.reference import akround

FALSE_ALARM = 1e-6
WIDTH = 0.37
N_DRAWS = 400_000

cubes = pytest.mark.parametrize("rounding", ["ak", "centre"])
lattices = pytest.mark.parametrize("rounding", ["e8", "leech"])


def errors(point, rounding, shared):
    codes = round_codes(point, WIDTH, rounding, shared)
    return unround(codes, point.size, WIDTH, rounding, shared) - point


def flips(point, step, rounding, shared):
    """Which coordinates get another code after the step."""
    before = round_codes(point, WIDTH, rounding, shared)
    return round_codes(point + step, WIDTH, rounding, shared) != before


def error_law(rounding):
    """Triangular for AKround, the sum of two uniforms; uniform on the cell for the centre."""
    if rounding == "ak":
        return stats.triang(0.5, loc=-WIDTH, scale=2 * WIDTH)
    return stats.uniform(loc=-WIDTH / 2, scale=WIDTH)


# ---------------------------------------------------------------- the definition


def test_akround_is_the_papers_definition(seeds):
    rng = np.random.default_rng(1)
    for seed in seeds(200):
        shared = SharedRandomness(seed)
        beta = rng.uniform(0.01, 2.0)
        z = rng.normal(scale=3.0, size=25)
        offsets = beta * shared.uniforms("rounding/offset", z.size)
        thresholds = shared.uniforms("rounding/threshold", z.size)
        expected = [
            akround(number, beta, o, u) for number, o, u in zip(z, offsets, thresholds, strict=True)
        ]
        rounded = unround(round_codes(z, beta, "ak", shared), z.size, beta, "ak", shared)
        np.testing.assert_allclose(rounded, expected, atol=1e-13, rtol=0)
    # no chance involved: a wrong code is off by a whole beta


# ---------------------------------------------------------------- stability (lemma:round)


@cubes
@pytest.mark.parametrize("share", [0.027, 0.27, 0.81, 0.999])
def test_lemma_round_flips_are_exactly_proportional(rounding, share, seed_block):
    shared = SharedRandomness(seed_block)
    for value, step in ((0.0, share * WIDTH), (-7.1, -share * WIDTH)):
        n_flips = int(flips(np.full(N_DRAWS, value), step, rounding, shared).sum())
        assert_rate_close(n_flips, N_DRAWS, share, 1e-9, FALSE_ALARM / 2)
    # would catch rates of .0255, .0286; .2658, .2742; .8063, .8137; .9986, .9993 with
    # probability .8


@cubes
def test_lemma_round_a_whole_width_always_flips(rounding, seed_block):
    point = np.full(N_DRAWS, 0.1)
    for step in (1.0001 * WIDTH, -1.0001 * WIDTH, 2.5 * WIDTH):
        assert flips(point, step, rounding, SharedRandomness(seed_block)).all()


@cubes
def test_lemma_round_coordinates_flip_independently(rounding, seed_block):
    shares = np.array([0.05, 0.1, 0.2, 0.3])
    n_points = N_DRAWS // 4
    steps = np.tile(shares * WIDTH, n_points)
    differ = flips(np.zeros(N_DRAWS), steps, rounding, SharedRandomness(seed_block))
    n_flips = int(differ.reshape(n_points, 4).any(axis=1).sum())
    assert_rate_close(n_flips, n_points, 1 - np.prod(1 - shares), tolerance=1e-9)
    # .5212; would catch a rate of .5121 or .5303 with probability .8. One offset for all
    # coordinates would give .30, the union bound is .65.
    assert_rate_at_most(n_flips, n_points, shares.sum())


@cubes
def test_lemma_round_flips_over_seeds(rounding, seeds):
    # The unit of replication is a seed, not a coordinate.
    z = np.array([0.31, -1.7, 12.0])
    step = np.array([0.1, -0.05, 0.15]) * WIDTH
    n_seeds = 20_000
    n_flips = sum(
        bool(flips(z, step, rounding, SharedRandomness(seed)).any()) for seed in seeds(n_seeds)
    )
    assert_rate_close(n_flips, n_seeds, 1 - 0.9 * 0.95 * 0.85, tolerance=1e-9)
    # .27325; would catch a rate of .2553 or .2915 with probability .8
    assert_rate_at_most(n_flips, n_seeds, np.abs(step).sum() / WIDTH)


# ---------------------------------------------------------------- error


@cubes
def test_rounding_is_unbiased(rounding, seed_block):
    shared = SharedRandomness(seed_block)
    # near a wall of an unshifted grid, far from it, and large
    for value in (0.0, WIDTH / 2, -1e3 * WIDTH / 3):
        sample = errors(np.full(N_DRAWS, value), rounding, shared)
        assert_mean_close(sample, 0.0, 1e-12, FALSE_ALARM / 3)
    # would catch a bias of .0039 widths (ak), .0027 widths (centre) with probability .8


@cubes
def test_error_law(rounding, seed_block):
    shared = SharedRandomness(seed_block)
    law = error_law(rounding)
    rng = np.random.default_rng([seed_block, 4])
    for value in (0.0, 1 / 3, -50.0, rng.normal()):
        sample = errors(np.full(N_DRAWS, value), rounding, shared)
        assert stats.kstest(sample, law.cdf).pvalue > FALSE_ALARM / 8
        moment = CELLS[rounding].second_moment * WIDTH**2
        assert_mean_close(sample**2, moment, 1e-12, FALSE_ALARM / 8)
    assert law.var() == pytest.approx(CELLS[rounding].second_moment * WIDTH**2)
    # would catch a distribution function .0056 apart with probability .9, and a second moment
    # wrong by 1.2 % (ak), .9 % (centre) with probability .8


@cubes
def test_error_is_independent_of_the_point(rounding, seed_block):
    shared = SharedRandomness(seed_block)
    rng = np.random.default_rng([seed_block, 5])
    points = rng.normal(size=N_DRAWS)
    sample = errors(points, rounding, shared)
    place = np.floor(4 * (points / WIDTH % 1)).astype(int)  # quarters of an unshifted cell
    law = error_law(rounding)
    for quarter in range(4):
        assert stats.kstest(sample[place == quarter], law.cdf).pvalue > FALSE_ALARM / 4
    # would catch a distribution function .011 apart in one quarter with probability .9


@cubes
def test_errors_of_coordinates_are_independent(rounding, seed_block):
    sample = errors(np.full(N_DRAWS, 0.1), rounding, SharedRandomness(seed_block)) / WIDTH
    variance = CELLS[rounding].second_moment
    fourth = stats.kurtosis(sample, fisher=False) * variance**2
    spread = np.sqrt(fourth - variance**2)
    for lag in (1, 2, 3, 4, 7, 8):
        products = sample[lag:] * sample[:-lag] / variance
        squares = (sample[lag:] ** 2 - variance) * (sample[:-lag] ** 2 - variance) / spread**2
        # products of neighbours share a factor only with neighbours: they are uncorrelated
        assert_mean_close(products, 0.0, false_alarm=FALSE_ALARM / 12)
        assert_mean_close(squares, 0.0, false_alarm=FALSE_ALARM / 12)
    # would catch a correlation of .0098 of errors or of their squares with probability .8


# ---------------------------------------------------------------- inner products (lemma:inner)


def directions(size, rng):
    flat = np.full(size, size**-0.5)
    axis = np.eye(size)[0]
    random = rng.normal(size=size)
    return [axis, flat, random / np.linalg.norm(random)]


@cubes
def test_lemma_inner_tail(rounding, seed_block):
    rng = np.random.default_rng([seed_block, 7])
    size = 16
    n_points = N_DRAWS // size
    factor = 1 / (2 * CELLS[rounding].second_moment)  # 3 (ak), 6 (centre); the paper has 2
    sample = errors(np.full(N_DRAWS, 0.1), rounding, SharedRandomness(seed_block))
    sample = sample.reshape(n_points, size)
    for direction in directions(size, rng):
        deviations = np.abs(sample @ direction)
        for bound in (0.5, 0.1, 0.01):
            a = WIDTH * np.sqrt(np.log(2 / bound) / factor)  # where 2 exp(-factor a^2/width^2)
            n_beyond = int((deviations > a).sum())
            assert_rate_at_most(n_beyond, n_points, bound, FALSE_ALARM / 9)
    # would catch rates of .519, .112 and .0141 with probability .8; normal errors of this variance
    # have .096, .0144 and .0011, so this is a check of the bound and the next one of the variance


@cubes
def test_lemma_inner_variance_proxy(rounding, seed_block):
    # E exp(s <error, x>) <= exp(s^2 proxy / 2). The law is symmetric: cosh has the same mean.
    rng = np.random.default_rng([seed_block, 8])
    size = 16
    proxy = CELLS[rounding].second_moment
    sample = errors(np.full(N_DRAWS, 0.1), rounding, SharedRandomness(seed_block)) / WIDTH
    sample = sample.reshape(-1, size)
    strengths = (1.0, 3.0)
    for direction in directions(size, rng):
        for strength in strengths:
            values = np.cosh(strength * (sample @ direction))
            excess = (values.mean() - np.exp(strength**2 * proxy / 2)) / stats.sem(values)
            assert stats.norm.sf(excess) > FALSE_ALARM / 6
    # at strength 1 would catch a proxy 6 % above the second moment with probability .8


# ---------------------------------------------------------------- lattices


@lattices
def test_lattice_rounding_is_unbiased_with_its_second_moment(rounding, seed_block):
    shared = SharedRandomness(seed_block)
    blocks = errors(np.full(480_000, 0.1), rounding, shared).reshape(-1, CELLS[rounding].block)
    assert_mean_close(blocks.mean(axis=1), 0.0, false_alarm=FALSE_ALARM / 2)
    moment = CELLS[rounding].second_moment * WIDTH**2
    assert_mean_close((blocks**2).mean(axis=1), moment, false_alarm=FALSE_ALARM / 2)
    # would catch a common bias of .0023 (E8), .0022 (Leech) widths and a second moment wrong by
    # .53 % (E8), .37 % (Leech) with probability .8


@lattices
def test_padding_keeps_the_second_moment(rounding, seeds):
    # A point that fills part of a block: the error of its coordinates has the same law as ever.
    n_components = CELLS[rounding].block // 2 + 1
    n_seeds = 4000
    sample = np.array(
        [
            errors(np.full(n_components, 0.2), rounding, SharedRandomness(seed))
            for seed in seeds(n_seeds)
        ]
    )
    assert sample.shape == (n_seeds, n_components)
    assert_mean_close(sample.mean(axis=1), 0.0, false_alarm=FALSE_ALARM / 2)
    moment = CELLS[rounding].second_moment * WIDTH**2
    assert_mean_close((sample**2).mean(axis=1), moment, false_alarm=FALSE_ALARM / 2)
    # would catch a common bias of .0111 (E8), .0066 (Leech) widths and a second moment wrong by
    # 3.9 % (E8), 2.5 % (Leech) with probability .8


# ---------------------------------------------------------------- where the walls are


@cubes
def test_residual_measures_the_distance_to_the_walls(rounding, seeds):
    rng = np.random.default_rng(10)
    for seed in seeds(100):
        shared = SharedRandomness(seed)
        point = rng.normal(scale=2.0, size=20)
        codes = round_codes(point, WIDTH, rounding, shared)
        offset = residual(point, codes, WIDTH, rounding, shared)
        assert np.all(np.abs(offset) <= 0.5 + 1e-12)
        for side in (-1, 1):
            slack = (0.5 - side * offset) * WIDTH
            inside = point + side * (slack - 1e-9)
            outside = point + side * (slack + 1e-9)
            np.testing.assert_array_equal(round_codes(inside, WIDTH, rounding, shared), codes)
            beyond = round_codes(outside, WIDTH, rounding, shared)
            np.testing.assert_array_equal(beyond, codes + side)


def first_walls(point, codes, directions, rounding, shared):
    """How far each direction goes before it meets a facet of minimal vectors, in widths."""
    slacks, normals = near_facets(residual(point, codes, WIDTH, rounding, shared), np.inf)
    speeds = directions @ normals.T
    return np.min(np.where(speeds > 0, slacks / np.where(speeds > 0, speeds, 1), np.inf), axis=1)


def test_residual_measures_the_distance_to_the_walls_of_e8(seeds):
    rng = np.random.default_rng(11)
    for seed in seeds(100):
        shared = SharedRandomness(seed)
        point = rng.normal(scale=2.0, size=8)
        codes = round_codes(point, WIDTH, "e8", shared)
        unit = rng.normal(size=(5, 8))
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        for direction, far in zip(unit, first_walls(point, codes, unit, "e8", shared), strict=True):
            inside = point + (far * WIDTH - 1e-9) * direction
            outside = point + (far * WIDTH + 1e-9) * direction
            np.testing.assert_array_equal(round_codes(inside, WIDTH, "e8", shared), codes)
            assert np.any(round_codes(outside, WIDTH, "e8", shared) != codes)


def test_residual_finds_most_walls_of_leech(seeds):
    # Past a facet of a minimal vector the code changes; before it, only if a facet of norm 6 was
    # met: measured for 6 of 4000 directions.
    rng = np.random.default_rng(12)
    n_early, n_points = 0, 50
    for seed in seeds(n_points):
        shared = SharedRandomness(seed)
        point = rng.normal(scale=2.0, size=24)
        codes = round_codes(point, WIDTH, "leech", shared)
        direction = rng.normal(size=24)
        direction /= np.linalg.norm(direction)
        far = first_walls(point, codes, direction[None], "leech", shared)[0]
        outside = point + (far * WIDTH + 1e-9) * direction
        assert np.any(round_codes(outside, WIDTH, "leech", shared) != codes)
        inside = point + (far * WIDTH - 1e-9) * direction
        n_early += bool(np.any(round_codes(inside, WIDTH, "leech", shared) != codes))
    assert_rate_at_most(n_early, n_points, 0.02)
    # would catch a rate of .25 with probability .91
