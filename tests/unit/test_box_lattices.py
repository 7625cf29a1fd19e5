"""Lattices made of boxes: the definitions, the nearest points, their ties and their facets."""

import hashlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from replearn.codes.box_lattices import (
    A2,
    BOX_LATTICES,
    D3S,
    D4,
    D5S,
    D10P,
    E6S,
    E7S,
    K12,
    facet_vectors,
    facets,
    nearest_codes,
    words,
)
from replearn.codes.walls import near_facets
from replearn.kernels.boxes import nearest_in_boxes
from replearn.kernels.lattices import nearest_e8
from tests import reference

every = pytest.mark.parametrize("lattice", BOX_LATTICES.values(), ids=list(BOX_LATTICES))
small = pytest.mark.parametrize("name", ["a2", "d3s", "d4", "d5s", "e6s", "e7s"])

# [CS99, Table 1.2 and Ch. 4]: how many vectors have each of the two smallest squared lengths
SHELLS = {
    A2: [6],
    D3S: [8, 6],
    D4: [24],
    D5S: [10, 32],
    E6S: [54, 72],
    E7S: [56, 126],
    D10P: [180, 512],
    K12: [756, 4032],
}


def belongs(name, c):
    """Whether rows of integer coordinates belong to the lattice: the table of the module."""
    parities = c % 2
    same = np.all(parities == parities[:, :1], axis=1)
    pairs = np.all(parities[:, ::2] == parities[:, 1::2], axis=1) if c.shape[1] % 2 == 0 else None
    checks = np.array([[0, 1, 1, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [1, 1, 0, 1, 0, 0, 1]])
    return {
        "a2": lambda: same,
        "d3s": lambda: same,
        "d4": lambda: c.sum(axis=1) % 2 == 0,
        "d5s": lambda: same,
        "e6s": lambda: pairs & (c[:, ::2].sum(axis=1) % 3 == 0),
        "e7s": lambda: np.all(parities @ checks.T % 2 == 0, axis=1),
    }[name]()


def draw_points(lattice, n_points, size, seed):
    """Points in units of the integer coordinates."""
    return np.random.default_rng(seed).uniform(-size, size, size=(n_points, lattice.block))


def squares(lattice, vectors):
    return (vectors**2 * np.array(lattice.weights)).sum(axis=1)


@every
def test_words_are_a_group(lattice):
    found = words(lattice)
    rows = {tuple(word) for word in found.tolist()}
    assert len(rows) == len(found)
    some = found[:: max(1, len(found) // 40)].astype(np.int64)
    for a, b in itertools.product(some, some):
        assert tuple((a - b) % lattice.moduli) in rows
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1


@every
def test_unit_volume(lattice):
    box = math.prod(m * unit for m, unit in zip(lattice.moduli, lattice.units, strict=True))
    assert box == pytest.approx(len(words(lattice)), rel=1e-14)
    units = np.array(lattice.units)
    np.testing.assert_allclose(units**2 / units[0] ** 2, lattice.weights, rtol=1e-14)


@every
def test_facet_vectors_are_as_many_as_known(lattice):
    vectors = facet_vectors(lattice).astype(np.int64)
    norms = squares(lattice, vectors)
    assert [int((norms == norm).sum()) for norm in lattice.facet_norms] == SHELLS[lattice]
    assert len(np.unique(vectors, axis=0)) == len(vectors) == sum(SHELLS[lattice])
    residues = {tuple(word) for word in words(lattice).tolist()}
    assert all(tuple(v) in residues for v in (vectors % lattice.moduli).tolist())


@every
def test_facet_vectors_have_facets(lattice):
    # halfway to v only 0 and v are nearest: |v/2 - u| > |v/2| for all other u
    vectors = facet_vectors(lattice).astype(np.int64)
    some = vectors[:: max(1, len(vectors) // 200)]
    excess = squares(lattice, vectors) - (some * np.array(lattice.weights)) @ vectors.T
    assert np.all((excess > 0).sum(axis=1) == len(vectors) - 1)


@small
def test_words_are_those_of_the_definition(name):
    lattice = BOX_LATTICES[name]
    residues = np.array(list(itertools.product(*(range(m) for m in lattice.moduli))))
    expected = residues[belongs(name, residues)]
    np.testing.assert_array_equal(words(lattice), expected)


def test_d10p_by_its_definition():
    found = words(D10P).astype(np.int64)
    assert len(found) == 1024
    assert np.all(found % 2 == found[:, :1] % 2)
    assert np.all(found.sum(axis=1) % 4 == 0)


def test_k12_is_a_lattice_of_eisenstein_integers():
    # multiplication by omega: (a, b) -> ((-a - 3 b) / 2, (a - b) / 2)
    found = words(K12).astype(np.int64)
    a, b = found[:, ::2], found[:, 1::2]
    assert np.all((a - b) % 2 == 0)
    turned = np.stack([(-a - 3 * b) // 2, (a - b) // 2], axis=2).reshape(-1, 12) % 4
    assert {tuple(word) for word in turned.tolist()} <= {tuple(word) for word in found.tolist()}


@small
def test_nearest_is_the_nearest_of_all_points_around(name):
    lattice = BOX_LATTICES[name]
    reach = [
        -(-m // 2) if w == 1 else 1 for m, w in zip(lattice.moduli, lattice.weights, strict=True)
    ]
    window = np.array(list(itertools.product(*(range(-r - 1, r + 2) for r in reach))))
    for point in draw_points(lattice, 6, 50, 1):
        around = np.rint(point).astype(np.int64) + window
        around = around[belongs(name, around)]
        nearest = around[squares(lattice, around - point).argmin()]
        np.testing.assert_array_equal(nearest_codes(lattice, point[None])[0], nearest)


@every
@pytest.mark.parametrize("size", [2.0, 1e6, 2.0**40])
def test_no_neighbour_is_closer(lattice, size):
    # these are all facets of the cell, so this proves the decoder right at these points
    points = draw_points(lattice, 100, size, 2)
    residuals = (points - nearest_codes(lattice, points)) * np.array(lattice.units)
    heights, normals = facets(lattice)
    assert (heights - residuals @ normals.T).min() > -1e-12


def coarse(lattice):
    """Points on a coarse grid, so that ties are common."""
    return st.sampled_from([1, 2, 4, 6, 2**30]).flatmap(
        lambda denominator: arrays(
            np.int64, lattice.block, elements=st.integers(-6 * denominator, 6 * denominator)
        ).map(lambda numerators: numerators / denominator)
    )


@every
@given(data=st.data())
@settings(max_examples=15)
def test_nearest_agrees_with_twin_also_on_walls(lattice, data):
    point = data.draw(coarse(lattice))
    # what the kernel sees: fractions of 2**-52
    exact = [
        Fraction(round(Fraction(x) * 2**52), 2**52) if abs(x) < 1 else Fraction(x)
        for x in point.tolist()
    ]
    rows = words(lattice).tolist()
    if len(rows) > 100:  # the twin is slow: the words of near points only
        near = nearest_codes(lattice, point[None])[0] + np.vstack(
            [np.zeros((1, lattice.block), dtype=np.int64), facet_vectors(lattice)]
        )
        excess = squares(lattice, near - point)
        near = near[excess <= excess.min() + 1e-6]
        rows = np.unique(near % lattice.moduli, axis=0).tolist()
    expected = reference.nearest_in_boxes(exact, lattice.moduli, lattice.weights, rows)
    assert tuple(nearest_codes(lattice, point[None])[0].tolist()) == expected


@every
@given(data=st.data())
@settings(max_examples=25)
def test_translation_by_a_lattice_vector_shifts_codes(lattice, data):
    point = data.draw(coarse(lattice))
    point = np.rint(point * 2**20) / 2**20  # the sum must be exact, so that a tie stays a tie
    word = data.draw(st.sampled_from(range(len(words(lattice)))))
    boxes = data.draw(arrays(np.int64, lattice.block, elements=st.integers(-(2**20), 2**20)))
    shift = words(lattice)[word] + boxes * np.array(lattice.moduli)
    codes = nearest_codes(lattice, np.stack([point, point + shift]))
    np.testing.assert_array_equal(codes[1], codes[0] + shift)


def test_nearest_of_d8_plus_is_that_of_e8():
    # the same kernel, with words for E8, gives the codes of the kernel for E8, ties and all
    gens = np.array([[2 * (j in (i, i + 1)) for j in range(8)] for i in range(7)] + [[1] * 8])
    rows = np.zeros((1, 8), dtype=np.int64)
    for g in gens:
        rows = np.unique(np.concatenate([rows, rows + g, rows + 2 * g, rows + 3 * g]) % 4, axis=0)
    scaled = np.random.default_rng(3).integers(-24, 24, size=(500, 8)) / 4
    common = np.concatenate([[0], (rows[1:] != rows[:-1]).argmax(axis=1)])
    fours, ones = np.full(8, 4), np.ones(8, dtype=np.int64)
    codes = nearest_in_boxes(scaled, fours, ones, rows.astype(np.int8), common)
    np.testing.assert_array_equal(codes, nearest_e8(scaled / 2))


@every
def test_near_facets_tell_when_codes_change(lattice):
    (name,) = (name for name, other in BOX_LATTICES.items() if other is lattice)
    units = np.array(lattice.units)
    rng = np.random.default_rng(4)
    points = rng.uniform(-5, 5, size=(60, lattice.block))
    steps = rng.normal(size=points.shape)
    steps *= 0.2 / np.linalg.norm(steps, axis=1, keepdims=True)
    codes = nearest_codes(lattice, points / units)
    moved = nearest_codes(lattice, (points + steps) / units)
    same = np.all(codes == moved, axis=1)
    for residual, step, stays in zip(points - codes * units, steps, same, strict=True):
        slacks, normals = near_facets(name, residual, 0.21)
        assert np.all(normals @ step < slacks) == stays
    assert 0 < same.sum() < 60
    assert near_facets(name, np.zeros(lattice.block), np.inf)[0].size == sum(SHELLS[lattice])
    assert near_facets(name, np.zeros(lattice.block), 0.0)[1].shape == (0, lattice.block)


DIGESTS = {
    "a2": "4904c2c71f17e026",
    "d3s": "6f71449837bc74ca",
    "d4": "bfc1f5c704a91036",
    "d5s": "e2ec6dcdbdb8fda3",
    "e6s": "d292844d08d0394d",
    "e7s": "a0c8c77f7a447a4b",
    "d10p": "58172a3ca0a612f9",
    "k12": "45eb618a2069bc73",
}


@pytest.mark.parametrize("name", list(BOX_LATTICES))
def test_codes_are_frozen(name):
    # no random generator: 500 blocks on a line that winds around the torus, exact in binary
    lattice = BOX_LATTICES[name]
    numbers = np.arange(500 * lattice.block) * 40503 % 65536 / 4096.0 - 8.0
    codes = nearest_codes(lattice, numbers.reshape(-1, lattice.block)).astype("<i8")
    assert hashlib.sha256(codes.tobytes()).hexdigest()[:16] == DIGESTS[name]
