import functools
import hashlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from replearn.codes.lattices import E8, LEECH, minimal_vectors, near_facets
from replearn.kernels.lattices import (
    E8_BLOCK,
    LEECH_BLOCK,
    _nearest_e8_scaled,
    _nearest_leech_scaled,
    nearest_e8,
    nearest_leech,
)

NEAREST = {E8: nearest_e8, LEECH: nearest_leech}
NEAREST_SCALED = {E8: _nearest_e8_scaled, LEECH: _nearest_leech_scaled}

# The definition once more, from nothing of the kernels: a basis of the Golay code, bit i of a
# word standing for coordinate i.
GOLAY_BASIS = [
    *(0x0000FF, 0x001D1D, 0x002727, 0x004E4E, 0x008B74, 0x030339),
    *(0x05054B, 0x09092E, 0x110C78, 0x210655, 0x410F12, 0x810A63),
]


@functools.cache
def golay_words():
    words = np.zeros(1, dtype=np.int64)
    for generator in GOLAY_BASIS:
        words = np.concatenate([words, words ^ generator])
    return words[:, None] >> np.arange(24) & 1


def cosets(lattice):
    """(representatives, step, what the sum must be modulo twice the step) of each parity."""
    for parity in (0, 1):
        if lattice == E8:
            yield np.full((1, 8), parity), 2, 0
        else:
            yield parity + 2 * golay_words(), 4, 4 * parity


def is_lattice_point(codes):
    """By definition, for one vector of integer coordinates."""
    parity = codes[0] % 2
    if np.any(codes % 2 != parity):
        return False
    if codes.size == E8_BLOCK:
        return codes.sum() % 4 == 0
    word = (codes - parity) // 2 % 2
    return codes.sum() % 8 == 4 * parity and bool(np.any(np.all(golay_words() == word, axis=1)))


def twin(lattice, scaled):
    """The nearest point among those of every coset, for one point without ties."""
    best, best_cost = None, np.inf
    for representatives, step, sum_rule in cosets(lattice):
        codes = representatives + step * np.rint((scaled - representatives) / step)
        errors = scaled - codes
        wrong = np.flatnonzero(codes.sum(axis=1) % (2 * step) != sum_rule)
        worst = np.abs(errors[wrong]).argmax(axis=1)
        codes[wrong, worst] += step * np.where(errors[wrong, worst] > 0, 1, -1)
        costs = ((scaled - codes) ** 2).sum(axis=1)
        if costs.min() < best_cost:
            best, best_cost = codes[costs.argmin()], costs.min()
    return best.astype(np.int64)


def points_of(lattice, codes):
    return codes * lattice.unit


def random_lattice_points(lattice, n_points, size, rng):
    """Integer coordinates of lattice points, up to about ``size`` large."""
    result = []
    for _ in range(n_points):
        representatives, step, sum_rule = list(cosets(lattice))[rng.integers(2)]
        codes = rng.choice(representatives) + step * rng.integers(
            -size // step, size // step, lattice.block
        )
        codes[-1] += (sum_rule - codes.sum()) % (2 * step)
        result.append(codes)
    return np.array(result)


@functools.cache
def short_vectors(lattice):
    """Differences of equally near points: for E8 all of them, for Leech the minimal vectors."""
    vectors = minimal_vectors(lattice).astype(np.float64)
    if lattice == E8:
        sums = (vectors[:, None] + vectors).reshape(-1, 8)
        norm_four = np.unique(sums[(sums**2).sum(axis=1) == 16], axis=0)
        assert len(norm_four) == 2160
        vectors = np.concatenate([vectors, norm_four])
    return vectors


both = pytest.mark.parametrize("lattice", [E8, LEECH], ids=["e8", "leech"])


def test_golay_code_is_the_extended_golay_code():
    # a linear [24, 12] code of minimal weight 8 is that code, up to the order of the places
    weights, counts = np.unique(golay_words().sum(axis=1), return_counts=True)
    assert dict(zip(weights.tolist(), counts.tolist(), strict=True)) == {
        0: 1, 8: 759, 12: 2576, 16: 759, 24: 1
    }  # fmt: skip


@both
def test_unit_volume(lattice):
    # the cube of the dither, one period of the lattice, holds as many points as its volume
    period = round(lattice.dither_side / lattice.unit)
    n_points = 0
    for representatives, step, _ in cosets(lattice):
        n_points += len(representatives) * (period // step) ** lattice.block // 2  # the sum rule
    assert n_points == round(lattice.dither_side**lattice.block)


@both
def test_minimal_vectors(lattice):
    vectors = minimal_vectors(lattice)
    assert vectors.shape == {E8: (240, 8), LEECH: (196560, 24)}[lattice]
    assert vectors.dtype == np.int8
    norms = (vectors.astype(np.int64) ** 2).sum(axis=1)
    assert set((norms * lattice.unit**2).round(12)) == {round(lattice.minimal_norm**2, 12)}
    in_order = np.unique(vectors, axis=0)
    assert len(in_order) == len(vectors)
    np.testing.assert_array_equal(in_order, np.unique(-vectors, axis=0))
    assert all(is_lattice_point(v.astype(np.int64)) for v in vectors[:: len(vectors) // 200])
    with pytest.raises(ValueError, match="read-only"):
        vectors[0, 0] = 1


@both
def test_minimal_vectors_decode_to_themselves(lattice):
    vectors = minimal_vectors(lattice)[:: len(minimal_vectors(lattice)) // 240].astype(np.int64)
    np.testing.assert_array_equal(NEAREST[lattice](points_of(lattice, vectors)), vectors)


@both
@pytest.mark.parametrize("size", [1.0, 30.0, 1e6])
def test_nearest_agrees_with_twin(lattice, size):
    points = np.random.default_rng(1).normal(scale=size, size=(60, lattice.block))
    codes = NEAREST[lattice](points)
    expected = [twin(lattice, point / lattice.unit) for point in points]
    np.testing.assert_array_equal(codes, expected)
    assert all(is_lattice_point(c) for c in codes)


@pytest.mark.slow
@both
def test_no_neighbour_is_closer(lattice):
    # for E8 this proves the decoder right at these points: the 240 are all its facets
    points = np.random.default_rng(2).uniform(-9, 9, size=(200, lattice.block))
    for residual in points - points_of(lattice, NEAREST[lattice](points)):
        slacks, _ = near_facets(residual, np.inf)
        assert len(slacks) == len(minimal_vectors(lattice))
        assert slacks.min() > -1e-12


@both
@pytest.mark.parametrize("size", [10, 2**20, 2**31])  # 2**31 / sqrt(8) is 7.6e8, 2**31 / 2 is 1e9
def test_noise_within_packing_radius_is_removed(lattice, size):
    rng = np.random.default_rng(3)
    codes = random_lattice_points(lattice, 300, size, rng)
    noise = rng.normal(size=codes.shape)
    noise *= 0.999 * lattice.minimal_norm / 2 / np.linalg.norm(noise, axis=1, keepdims=True)
    np.testing.assert_array_equal(NEAREST[lattice](points_of(lattice, codes) + noise), codes)


@both
def test_deep_holes(lattice):
    # covering radius 1 resp. sqrt(2) [CS99, Ch. 21 and 23]
    radius = {E8: 1.0, LEECH: np.sqrt(2)}[lattice]
    hole = np.zeros((1, lattice.block))
    hole[0, 0] = {E8: 2, LEECH: 4}[lattice]
    codes = NEAREST_SCALED[lattice](hole)
    np.testing.assert_array_equal(codes, 0)  # of 16 resp. 48 nearest points the smallest
    assert np.linalg.norm((hole - codes) * lattice.unit) == pytest.approx(radius)
    points = np.random.default_rng(4).uniform(-5, 5, size=(3000, lattice.block))
    residuals = points - points_of(lattice, NEAREST[lattice](points))
    assert np.linalg.norm(residuals, axis=1).max() < radius


def scaled_points(block):
    """Points in units of the integer coordinates; on a coarse grid, so that ties are common."""
    return st.sampled_from([1, 2, 4, 2**30]).flatmap(
        lambda denominator: arrays(
            np.int64, (1, block), elements=st.integers(-6 * denominator, 6 * denominator)
        ).map(lambda numerators: numerators / denominator)
    )


@both
@given(data=st.data())
@settings(max_examples=150)
def test_translation_by_a_lattice_vector_shifts_codes(lattice, data):
    point = data.draw(scaled_points(lattice.block))
    # the sum below must be exact, so that a tie stays a tie: 30 + 22 bits
    size = data.draw(st.sampled_from([8, 2**20]))
    seed = data.draw(st.integers(0, 2**32))
    shift = random_lattice_points(lattice, 1, size, np.random.default_rng(seed))
    nearest = NEAREST_SCALED[lattice]
    np.testing.assert_array_equal(nearest(point + shift), nearest(point) + shift)


@both
@given(data=st.data())
@settings(max_examples=60)
def test_of_equally_near_points_the_smallest_is_taken(lattice, data):
    point = data.draw(scaled_points(lattice.block))
    (codes,) = NEAREST_SCALED[lattice](point)
    assert is_lattice_point(codes)
    vectors = short_vectors(lattice)
    # |residual - v|^2 - |residual|^2: exact, since the point has at most 30 binary places
    norms = np.einsum("ij,ij->i", vectors, vectors)
    excess = norms - 2 * (vectors @ (point[0] - codes))
    assert excess.min() >= 0
    for tied in vectors[excess == 0]:
        assert tuple(codes) < tuple(codes + tied)


@given(point=scaled_points(LEECH_BLOCK))
@example(point=np.ones((1, 24)))  # on both sides of many facets, also of norm 6
@example(point=np.full((1, 24), 0.5))
@settings(max_examples=25)
def test_leech_distance_is_the_least_over_all_cosets(point):
    (codes,) = _nearest_leech_scaled(point)
    (expected,) = ((point - twin(LEECH, point[0])) ** 2).sum(axis=1)
    assert ((point - codes) ** 2).sum() == expected


@both
def test_blocks_do_not_touch_each_other(lattice):
    points = np.random.default_rng(5).normal(scale=3, size=(20, lattice.block))
    one_by_one = np.concatenate([NEAREST[lattice](points[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(NEAREST[lattice](points), one_by_one)
    assert NEAREST[lattice](points[:0]).shape == (0, lattice.block)


@both
def test_near_facets_agrees_with_brute_force(lattice):
    point = np.random.default_rng(7).normal(size=(1, lattice.block))
    residual = (point - points_of(lattice, NEAREST[lattice](point)))[0]
    vectors = minimal_vectors(lattice) * lattice.unit
    lengths = np.linalg.norm(vectors, axis=1)
    expected = (lengths**2 / 2 - vectors @ residual) / lengths
    reach = np.sort(expected)[20] + 1e-9
    slacks, normals = near_facets(residual, reach)
    near = expected < reach
    assert slacks.shape == (near.sum(),)
    np.testing.assert_allclose(slacks, expected[near], atol=1e-14)
    np.testing.assert_allclose(normals, (vectors / lengths[:, None])[near], atol=1e-15)
    assert near_facets(residual, 0.0)[1].shape == (0, lattice.block)
    # the centre has the same distance to all of them; facets at the reach are left out
    assert near_facets(0 * residual, lattice.minimal_norm / 2)[0].size == 0


@both
def test_near_facets_tell_when_codes_change(lattice):
    rng = np.random.default_rng(8)
    points = rng.uniform(-5, 5, size=(50, lattice.block))
    steps = rng.normal(size=points.shape)
    steps *= 0.1 / np.linalg.norm(steps, axis=1, keepdims=True)
    codes, moved = NEAREST[lattice](points), NEAREST[lattice](points + steps)
    n_changed = 0
    for residual, step, same in zip(
        points - points_of(lattice, codes), steps, np.all(codes == moved, axis=1), strict=True
    ):
        slacks, normals = near_facets(residual, 0.11)
        # for Leech a norm-6 facet might come first; with this seed none does
        assert np.all(normals @ step < slacks) == same
        n_changed += not same
    assert 0 < n_changed < 50


@pytest.mark.parametrize(
    ("nearest", "block", "digest"),
    [
        (nearest_e8, E8_BLOCK, "d023eae4d976e726"),
        (nearest_leech, LEECH_BLOCK, "ceb92d13dd370c89"),
    ],
)
def test_codes_are_frozen(nearest, block, digest):
    # no random generator: 1000 blocks on a line that winds around the torus, exact in binary
    points = (np.arange(1000 * block) * 40503 % 65536 / 4096.0 - 8.0).reshape(-1, block)
    codes = nearest(points).astype("<i8")
    assert hashlib.sha256(codes.tobytes()).hexdigest()[:16] == digest
