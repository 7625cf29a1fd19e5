"""Projections: each is one fixed matrix, applied and transposed, without ever storing it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from tests.reference import PROJECTION_MATRICES

SIZES = [1, 2, 3, 7, 64, 100]
SHARED = SharedRandomness(5)

every = pytest.mark.parametrize("name", list(PROJECTIONS))
each_size = pytest.mark.parametrize("n_inputs", SIZES)


def component_counts(name, n_inputs):
    if PROJECTIONS[name].full:
        return [n_inputs]
    most = n_inputs if name == "hadamard" else 2 * n_inputs
    return sorted({1, max(1, n_inputs // 3), min(n_inputs, most), most})


def matrix(name, n_inputs, n_components, shared=SHARED):
    """The matrix, column by column, from what it does to the axes."""
    columns = [PROJECTIONS[name].apply(axis, n_components, shared) for axis in np.eye(n_inputs)]
    return np.array(columns).T


@every
@each_size
def test_projection_is_its_definition(name, n_inputs):
    for n_components in component_counts(name, n_inputs):
        expected = PROJECTION_MATRICES[name](n_inputs, n_components, SHARED)
        got = matrix(name, n_inputs, n_components)
        np.testing.assert_allclose(got, expected, atol=1e-13, rtol=0)


# ---------------------------------------------------------------- one matrix


@every
@each_size
def test_lift_is_the_transpose_of_apply(name, n_inputs):
    for n_components in component_counts(name, n_inputs):
        lifted = [PROJECTIONS[name].lift(axis, n_inputs, SHARED) for axis in np.eye(n_components)]
        expected = matrix(name, n_inputs, n_components)
        np.testing.assert_allclose(np.array(lifted), expected, atol=1e-13, rtol=0)


@every
@given(size=st.sampled_from(SIZES), seed=st.integers(0, 2**32), scale=st.floats(-1e3, 1e3))
def test_apply_and_lift_are_linear(name, size, seed, scale):
    shared = SharedRandomness(seed)
    x, y = shared.normals("x", size), shared.normals("y", size)
    n_components = component_counts(name, size)[-1]
    a, b = shared.normals("a", n_components), shared.normals("b", n_components)
    maps = [
        (lambda v: PROJECTIONS[name].apply(v, n_components, shared), x, y),
        (lambda v: PROJECTIONS[name].lift(v, size, shared), a, b),
    ]
    for linear, v, w in maps:
        expected = scale * linear(v) + linear(w)
        size_of_terms = 1e-12 * (1 + abs(scale)) * 10 * math.sqrt(size)
        np.testing.assert_allclose(linear(scale * v + w), expected, atol=size_of_terms, rtol=0)
        np.testing.assert_array_equal(linear(-v), -linear(v))
        np.testing.assert_array_equal(linear(np.zeros_like(v)), 0.0)


@every
@each_size
def test_inputs_are_left_as_they_were(name, n_inputs):
    point = SHARED.normals("point", n_inputs)
    before = point.copy()
    n_components = component_counts(name, n_inputs)[-1]
    components = PROJECTIONS[name].apply(point, n_components, SHARED)
    np.testing.assert_array_equal(point, before)
    before = components.copy()
    PROJECTIONS[name].lift(components, n_inputs, SHARED)
    np.testing.assert_array_equal(components, before)


@every
@each_size
def test_same_bits_when_called_twice(name, n_inputs):
    point = SHARED.normals("point", n_inputs)
    for n_components in component_counts(name, n_inputs):
        first = PROJECTIONS[name].apply(point, n_components, SHARED)
        again = PROJECTIONS[name].apply(point.copy(), n_components, SharedRandomness("5"))
        assert first.shape == (n_components,)
        assert first.tobytes() == again.tobytes()
        lifted = PROJECTIONS[name].lift(first, n_inputs, SHARED)
        assert lifted.shape == (n_inputs,)
        again = PROJECTIONS[name].lift(first.copy(), n_inputs, SharedRandomness("5"))
        assert lifted.tobytes() == again.tobytes()


@every
def test_another_seed_is_another_matrix(name):
    if name == "none":
        return
    point = SHARED.normals("point", 64)
    n_components = component_counts(name, 64)[-1]
    other = PROJECTIONS[name].apply(point, n_components, SharedRandomness(6))
    assert not np.any(PROJECTIONS[name].apply(point, n_components, SHARED) == other)


@pytest.mark.parametrize("name", ["gaussian", "signs"])
@each_size
def test_fewer_components_are_the_first_ones(name, n_inputs):
    # Rows do not depend on how many there are, but for the factor 1/sqrt(k); roots of 4^i are exact
    point = SHARED.normals("point", n_inputs)
    longest = PROJECTIONS[name].apply(point, 64, SHARED) * 8.0
    for root in (1, 2, 4):
        shorter = PROJECTIONS[name].apply(point, root * root, SHARED) * root
        assert shorter.tobytes() == longest[: root * root].tobytes()
    seven = PROJECTIONS[name].apply(point, 7, SHARED) * math.sqrt(7)
    np.testing.assert_allclose(seven, longest[:7], rtol=1e-15)


@each_size
def test_hadamard_keeps_different_rows_of_one_orthogonal_matrix(n_inputs):
    whole = matrix("hadamard", n_inputs, n_inputs)
    np.testing.assert_allclose(whole @ whole.T, np.eye(n_inputs), atol=1e-13)
    for n_components in component_counts("hadamard", n_inputs):
        few = matrix("hadamard", n_inputs, n_components)
        scale = math.sqrt(n_inputs / n_components)
        np.testing.assert_allclose(few, whole[:n_components] * scale, atol=1e-13)


@each_size
def test_rotation_is_undone_by_its_lift(n_inputs):
    point = SHARED.normals("point", n_inputs)
    there = PROJECTIONS["rotation"].apply(point, n_inputs, SHARED)
    back = PROJECTIONS["rotation"].lift(there, n_inputs, SHARED)
    np.testing.assert_allclose(back, point, atol=1e-13)
    assert np.linalg.norm(there) == pytest.approx(np.linalg.norm(point), rel=1e-13)


def test_what_a_projection_says_of_itself():
    assert {name for name, each in PROJECTIONS.items() if each.full} == {"rotation", "none"}
