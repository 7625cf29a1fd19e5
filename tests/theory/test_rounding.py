"""Laws of the shared roundings (Section 2 of the paper; replearn.codes.cells).

A point with many coordinates, rounded under one seed, is as many independent roundings of one
number. Each check has a false-alarm probability of 1e-6 or less; what it would catch is said
beside it.
"""

import math

import numpy as np
import pytest
from scipy import stats

from replearn.codes import CELLS, CodeSpace, Coins, isotropic_flips, proved_flips, second_moment
from replearn.codes.lattices import minimal_vectors, near_walls, nearest_codes
from tests.error_budget import assert_mean_close, assert_rate_at_most, assert_rate_close
from tests.reference import akround

FALSE_ALARM = 1e-6
WIDTH = 0.37
N_DRAWS = 100_000

cubes = pytest.mark.parametrize("rounding", ["ak", "centre"])
lattices = pytest.mark.parametrize("rounding", ["e8", "leech"])


def space(k, rounding, projection="none", width=WIDTH):
    return CodeSpace("rounded", k, projection, k, rounding, repr(width), 0)


def errors(point, rounding, coins):
    cells = space(point.size, rounding)
    return cells.components(cells.encode(point, coins), coins) - point


def flips(point, step, rounding, coins):
    """Which coordinates get another code after the step."""
    cells = space(point.size, rounding)
    return cells.encode(point + step, coins) != cells.encode(point, coins)


def test_akround_is_the_papers_definition(seeds):
    rng = np.random.default_rng(1)
    for seed in seeds(100):
        coins, beta = Coins(seed), rng.uniform(0.01, 2.0)
        z = rng.normal(scale=3.0, size=25)
        offsets = beta * coins.uniforms("rounding/offset", z.size)
        thresholds = coins.uniforms("rounding/threshold", z.size)
        expected = [
            akround(number, beta, o, u) for number, o, u in zip(z, offsets, thresholds, strict=True)
        ]
        cells = space(25, "ak", width=beta)
        np.testing.assert_allclose(
            cells.components(cells.encode(z, coins), coins), expected, atol=1e-12
        )
    # no chance involved: a wrong code is off by a whole beta


@cubes
@pytest.mark.parametrize("share", [0.027, 0.27, 0.999])
def test_lemma_2_1_flips_are_exactly_proportional(rounding, share, seed_block):
    for value, step in ((0.0, share * WIDTH), (-7.1, -share * WIDTH)):
        n_flips = int(flips(np.full(N_DRAWS, value), step, rounding, Coins(seed_block)).sum())
        assert_rate_close(n_flips, N_DRAWS, share, 1e-9, FALSE_ALARM / 2)
    # would catch rates of 0.0242, 0.0301; 0.2619, 0.2782; 0.9983 with probability 0.8


@cubes
def test_lemma_2_1_coordinates_flip_independently(rounding, seed_block):
    shares = np.array([0.05, 0.1, 0.2, 0.3])
    n_points = N_DRAWS // 4
    steps = np.tile(shares * WIDTH, n_points)
    differ = flips(np.zeros(N_DRAWS), steps, rounding, Coins(seed_block))
    n_flips = int(differ.reshape(n_points, 4).any(axis=1).sum())
    assert_rate_close(n_flips, n_points, 1 - np.prod(1 - shares), tolerance=1e-9)
    assert_rate_at_most(n_flips, n_points, shares.sum())
    # 0.5212; one offset for all coordinates would give 0.30, the union bound is 0.65


@cubes
def test_error_law(rounding, seed_block):
    law = stats.uniform(loc=-WIDTH / 2, scale=WIDTH)
    if rounding == "ak":
        law = stats.triang(0.5, loc=-WIDTH, scale=2 * WIDTH)
    for value in (0.0, 1 / 3, -50.0):
        sample = errors(np.full(N_DRAWS, value), rounding, Coins(seed_block))
        assert stats.kstest(sample, law.cdf).pvalue > FALSE_ALARM / 9
        assert_mean_close(sample, 0.0, 1e-12, FALSE_ALARM / 9)
    assert law.var() == pytest.approx(CELLS[rounding].second_moment * WIDTH**2)
    # would catch a distribution function 0.011 apart with probability 0.9


# ---------------------------------------------------------------- lattices


@lattices
def test_lattice_errors_have_the_second_moment_of_the_cell(rounding, seed_block):
    n = 2400 if rounding == "leech" else 40_000
    rng = np.random.default_rng(seed_block)
    sample = errors(rng.normal(size=n), rounding, Coins(seed_block)).reshape(-1, 8) / WIDTH
    moments = (sample**2).mean(axis=1)
    assert_mean_close(moments, CELLS[rounding].second_moment, 1e-5)
    assert_mean_close(sample.mean(axis=1), 0.0, 1e-12)
    # would catch a second moment that is off by 4 % (leech) and 0.8 % (e8) with probability 0.8


@pytest.mark.slow
@lattices
def test_lattice_flips_of_small_steps(rounding, seed_block):
    # small isotropic steps cross walls at the rate of half the surface times E|u_1|
    n_blocks, size = (400, 0.12) if rounding == "leech" else (6000, 0.12)
    block = CELLS[rounding].block
    rng = np.random.default_rng([seed_block, 1])
    steps = rng.normal(size=(n_blocks, block))
    steps *= size * WIDTH / np.linalg.norm(steps, axis=1)[:, None]
    point = rng.normal(size=n_blocks * block)
    differ = flips(point, steps.ravel(), rounding, Coins(seed_block))
    n_flips = int(differ.reshape(n_blocks, block).any(axis=1).sum())
    mean = math.gamma(block / 2) / math.gamma((block + 1) / 2) / math.sqrt(math.pi)
    assert_rate_at_most(n_flips, n_blocks, size * CELLS[rounding].surface / 2 * mean)
    assert n_flips > 0.7 * n_blocks * size * CELLS[rounding].surface / 2 * mean


@lattices
def test_minimal_vectors_are_of_the_lattice_and_shortest(rounding):
    vectors = minimal_vectors(rounding).astype(np.int64)
    assert len(vectors) == {"e8": 240, "leech": 196_560}[rounding]
    assert set((vectors**2).sum(axis=1).tolist()) == {{"e8": 8, "leech": 32}[rounding]}
    unit = {"e8": 0.5, "leech": math.sqrt(0.125)}[rounding]
    for vector in vectors[:: len(vectors) // 40]:
        assert (nearest_codes(rounding, vector[None] * unit)[0] == vector).all()


def test_walls_of_e8_are_where_codes_change(seed_block):
    rng = np.random.default_rng([seed_block, 2])
    for _ in range(40):
        place = rng.normal(size=8) * 0.1
        assert not nearest_codes("e8", place[None]).any()
        slacks, normals = near_walls("e8", place, np.inf)
        step = rng.normal(size=8)
        reach = 1 / (normals @ step / slacks).max()  # where this direction leaves the cell
        assert not nearest_codes("e8", (place + 0.999 * reach * step)[None]).any()
        assert nearest_codes("e8", (place + 1.001 * reach * step)[None]).any()


# ---------------------------------------------------------------- behind a projection


@pytest.mark.slow
@pytest.mark.parametrize(
    ("projection", "rounding", "k"),
    [("gaussian", "ak", 30), ("gaussian", "centre", 12), ("rotation", "e8+centre", 17),
     ("rotation", "centre", 10), ("hadamard", "e8", 20), ("none", "centre", 6)],
)  # fmt: skip
def test_proved_flips(projection, rounding, k, seeds):
    n_inputs = k if projection != "gaussian" else 7
    cells = CodeSpace("rounded", n_inputs, projection, k, rounding, repr(WIDTH), 0)
    rng = np.random.default_rng(3)
    difference = np.zeros(n_inputs)
    difference[0] = 1.0  # an axis: bad for maps that do not mix
    difference *= 0.25 * WIDTH / proved_flips(projection, rounding, k)
    n_seeds, n_flips = 800, 0
    for seed in seeds(n_seeds):
        coins, z = Coins(seed), rng.normal(size=n_inputs)
        one, two = cells.project(np.array([z, z + difference]), coins)
        n_flips += bool((cells.encode(one, coins) != cells.encode(two, coins)).any())
    assert_rate_at_most(n_flips, n_seeds, 0.25)
    # would catch a rate of 0.35 with probability 0.9; for cubes behind a Gaussian map the bound
    # is what is true but for double flips
    if projection == "gaussian":
        assert n_flips > 0.15 * n_seeds


def test_constants_of_the_table():
    for rounding, share in (("centre", 0.798), ("ak", 0.798), ("e8", 0.564), ("leech", 0.399)):
        assert isotropic_flips(rounding, 48) / math.sqrt(48) == pytest.approx(share, abs=6e-4)
        assert second_moment(rounding, 48) == CELLS[rounding].second_moment
