"""Roundings: the paper's definition to the last bit, and what codes and points have in common."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from replearn.codes.box_lattices import BOX_LATTICES
from replearn.codes.cells import CELLS, padded_size, runs
from replearn.codes.lattices import E8, LEECH
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import ROUNDINGS, residual, round_codes, unround
from replearn.codes.walls import near_walls
from tests.reference import akround

CUBES = ["ak", "centre"]
# the largest distance from a centre to a corner of its cell, per coordinate for the cubes
CELL_RADIUS = {
    "ak": 1.0,
    "centre": 0.5,
    "e8": 1.0,
    "leech": 2**0.5,
    # covering radii, from the corners of the cells; K12: [CS99, Ch. 4]; D10+: a rough bound
    "a2": 0.6205,
    "d3s": 0.7044,
    "d4": 0.8409,
    "d5s": 0.8616,
    "e6s": 0.8948,
    "e7s": 0.9829,
    "d10p": 1.2,
    "k12": 1.2408,
}

cubes = pytest.mark.parametrize("rounding", CUBES)
every = pytest.mark.parametrize("rounding", list(ROUNDINGS))
sizes = st.sampled_from([1, 2, 3, 7, 8, 9, 24, 25, 50])
seeds_drawn = st.integers(0, 2**32)
points = sizes.flatmap(lambda n: arrays(np.float64, n, elements=st.floats(-1e3, 1e3)))
widths = st.floats(1e-3, 1e3)


class ChosenCoins:
    """Shared randomness of which the test chooses every draw."""

    def __init__(self, offsets, thresholds):
        self.streams = {"rounding/offset": offsets, "rounding/threshold": thresholds}

    def uniforms(self, stream, n, row=0):
        return np.array(self.streams[stream][:n])


sixteenths = st.integers(0, 15).map(lambda i: i / 16)


@given(st.lists(st.tuples(st.integers(-200, 200), sixteenths, sixteenths), min_size=1))
@example([(4, 0.0, 0.5)])  # a threshold that is met
def test_akround_is_exact_also_on_the_walls(draws):
    # sixteenths: floats are exact here, and points often lie on a wall or a threshold
    z = np.array([number / 16 for number, _, _ in draws])
    offsets = [o for _, o, _ in draws]
    thresholds = [u for _, _, u in draws]
    coins = ChosenCoins(offsets, thresholds)
    beta = 0.5
    rounded = unround(round_codes(z, beta, "ak", coins), z.size, beta, "ak", coins)
    expected = [
        akround(Fraction(number), Fraction(beta), Fraction(o) * Fraction(beta), Fraction(u))
        for number, o, u in zip(z.tolist(), offsets, thresholds, strict=True)
    ]
    assert [Fraction(value) for value in rounded.tolist()] == expected


@given(st.lists(st.tuples(st.integers(-200, 200), sixteenths), min_size=1))
def test_centre_is_the_middle_of_the_half_open_cell(draws):
    z = np.array([number / 16 for number, _ in draws])
    offsets = np.array([o for _, o in draws])
    coins = ChosenCoins(offsets, None)
    codes = round_codes(z, 0.5, "centre", coins)
    low = (codes + offsets) * 0.5
    assert np.all((low <= z) & (z < low + 0.5))
    np.testing.assert_array_equal(unround(codes, z.size, 0.5, "centre", coins), low + 0.25)


@cubes
@given(point=points, seed=seeds_drawn, data=st.data())
def test_codes_shift_by_whole_cells(rounding, point, seed, data):
    shift = data.draw(arrays(np.int64, point.size, elements=st.integers(-1000, 1000)))
    point = np.round(point * 2**20) / 2**20  # so that adding whole widths is exact
    shared = SharedRandomness(seed)
    codes = round_codes(point, 0.5, rounding, shared)
    moved = round_codes(point + shift * 0.5, 0.5, rounding, shared)
    place = residual(point, codes, 0.5, rounding, shared)
    clear = np.abs(place) < 0.5 - 1e-9  # on a wall, the last bit of the offset decides
    np.testing.assert_array_equal(moved[clear], (codes + shift)[clear])
    assert np.all(np.abs(moved - (codes + shift)) <= 1)


@pytest.mark.parametrize("lattice", [E8, LEECH], ids=["e8", "leech"])
@given(seed=seeds_drawn, shift=st.integers(-100, 100))
def test_lattice_codes_shift_by_whole_lattice_vectors(lattice, seed, shift):
    # dither_side along an axis is a lattice vector
    rounding = {E8: "e8", LEECH: "leech"}[lattice]
    shared = SharedRandomness(seed)
    point = SharedRandomness(seed + 1).normals("point", lattice.block)
    step = np.zeros(lattice.block)
    step[0] = shift * lattice.dither_side
    difference = round_codes(point + step, 1.0, rounding, shared) - round_codes(
        point, 1.0, rounding, shared
    )
    expected = np.zeros(lattice.block, dtype=np.int64)
    expected[0] = shift * round(lattice.dither_side / lattice.unit)
    np.testing.assert_array_equal(difference, expected)


@every
@given(point=points, width=widths, seed=seeds_drawn)
def test_unround_stays_in_reach(rounding, point, width, seed):
    shared = SharedRandomness(seed)
    codes = round_codes(point, width, rounding, shared)
    rounded = unround(codes, point.size, width, rounding, shared)
    block = CELLS[rounding].block
    assert rounded.shape == point.shape
    padding = np.zeros(-point.size % block)
    errors = np.concatenate([rounded - point, padding]).reshape(-1, block)
    slack = 1e-9 * (1 + np.abs(point).max() / width)
    assert np.linalg.norm(errors, axis=1).max() <= width * (CELL_RADIUS[rounding] + slack)


@every
@given(point=points, width=widths, seed=seeds_drawn)
def test_residual_is_in_the_cell(rounding, point, width, seed):
    shared = SharedRandomness(seed)
    codes = round_codes(point, width, rounding, shared)
    place = residual(point, codes, width, rounding, shared)
    assert place.shape == codes.shape
    block = CELLS[rounding].block
    radius = 0.5 if block == 1 else CELL_RADIUS[rounding]
    slack = 1e-9 * (1 + np.abs(point).max() / width)
    assert np.linalg.norm(place.reshape(-1, block), axis=1).max() <= radius + slack


@every
@given(point=points, width=widths, seed=seeds_drawn)
def test_codes_are_integers_in_whole_blocks_and_the_same_when_asked_again(
    rounding, point, width, seed
):
    shared = SharedRandomness(seed)
    codes = round_codes(point, width, rounding, shared)
    assert codes.dtype == np.int64
    assert codes.shape == (padded_size(point.size, rounding),)
    assert codes.size % CELLS[rounding].block == 0
    assert codes.size - point.size < CELLS[rounding].block
    np.testing.assert_array_equal(
        codes, round_codes(point, width, rounding, SharedRandomness(seed))
    )


@every
@given(point=points, seed=seeds_drawn)
def test_points_of_a_cell_are_rounded_to_their_own_cell(rounding, point, seed):
    # the centre of a cell has the codes of the cell
    shared = SharedRandomness(seed)
    codes = round_codes(point, 1.0, rounding, shared)
    centre = ROUNDINGS[rounding].to_centre(codes, shared.uniforms)
    np.testing.assert_array_equal(ROUNDINGS[rounding].to_codes(centre, shared.uniforms), codes)


@cubes
@given(point=points, more=points, seed=seeds_drawn)
def test_a_coordinate_does_not_see_the_others(rounding, point, more, seed):
    shared = SharedRandomness(seed)
    alone = round_codes(point, 0.3, rounding, shared)
    together = round_codes(np.concatenate([point, more]), 0.3, rounding, shared)
    np.testing.assert_array_equal(together[: point.size], alone)


MIXED = ["e8+centre", "d10p+a2", "leech+e6s+centre", "e8+d5s"]


@pytest.mark.parametrize("rounding", MIXED)
@given(point=points, seed=seeds_drawn)
def test_a_mixed_rounding_is_its_parts_side_by_side(rounding, point, seed):
    shared = SharedRandomness(seed)
    codes = round_codes(point, 0.7, rounding, shared)
    rounded = unround(codes, point.size, 0.7, rounding, shared)
    place = residual(point, codes, 0.7, rounding, shared)
    assert codes.size == padded_size(point.size, rounding) == place.size
    offsets = shared.uniforms("rounding/offset", codes.size)
    for run in runs(rounding, point.size):
        part = slice(run.start, run.start + run.n_components)
        coins = ChosenCoins(offsets[run.start : run.stop], None)
        expected = round_codes(point[part], 0.7, run.name, coins)
        np.testing.assert_array_equal(codes[run.start : run.stop], expected)
        back = unround(expected, run.n_components, 0.7, run.name, coins)
        np.testing.assert_array_equal(rounded[part], back)
        inside = residual(point[part], expected, 0.7, run.name, coins)
        np.testing.assert_array_equal(place[run.start : run.stop], inside)


def test_a_shift_of_a_whole_box_changes_codes_by_the_box():
    # the box of the shared shift is a whole number of fundamental cells
    for name, lattice in BOX_LATTICES.items():
        point = SharedRandomness(1).normals("point", lattice.block)
        zero = ChosenCoins(np.zeros(lattice.block), None)
        one = ChosenCoins(np.ones(lattice.block), None)
        difference = round_codes(point, 1.0, name, zero) - round_codes(point, 1.0, name, one)
        np.testing.assert_array_equal(difference, lattice.moduli)


def test_roundings_and_cells_have_the_same_names():
    assert set(ROUNDINGS) == set(CELLS)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("rounding", "n"), [("a2", 2), ("e8", 8), ("leech", 24)])
def test_displacements_along_one_line_cross_no_wall_beside_it(rounding, n, seed):
    # columns that say the same thing; variances across the other walls are 0 up to rounding
    rng = np.random.default_rng(seed)
    line = np.where(rng.random(n) < 0.5, rng.normal(), 0.0)
    slacks, reaches = near_walls(np.zeros(n), 0.3 * np.stack([line, -line]), rounding)
    assert np.isfinite(slacks).all()
    assert np.isfinite(reaches).all()
