"""Directions in whole numbers: exact answers, and the same bits in every order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from replearn.exact import UNIT_BITS, nonzero_rows, products, project_rows, unit_rows, weighted_sums
from replearn.exact.directions import WEIGHT_BITS
from replearn.kernels.error_counts import count_errors

UNIT = 2.0**UNIT_BITS


def random_rows(rng, n=200, d=7):
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))
    X[rng.random((n, d)) < 0.4] = 0.0
    return X, rng.choice(np.array([-1, 1], dtype=np.int8), size=n)


@pytest.mark.parametrize("intercept", [False, True])
def test_unit_rows_are_the_directions_of_rows(intercept):
    X, signs = random_rows(np.random.default_rng(0))
    X[3] = 0.0
    whole = unit_rows(X, signs, X.shape[1] + intercept)
    assert (whole == np.rint(whole)).all()
    # a row's own length is appended, so that the row times a number is the same direction
    own = np.linalg.norm(X, axis=1, keepdims=True)
    full = np.hstack([X, own]) if intercept else X
    lengths = np.linalg.norm(full, axis=1, keepdims=True)
    expected = np.divide(full, lengths, out=np.zeros_like(full), where=lengths > 0)
    np.testing.assert_allclose(whole, UNIT * signs[:, None] * expected, rtol=0, atol=0.6)
    assert not nonzero_rows(whole)[3]
    assert nonzero_rows(whole).sum() == (lengths > 0).sum()


@pytest.mark.parametrize("intercept", [False, True])
def test_sparse_rows_are_the_same(intercept):
    X, signs = random_rows(np.random.default_rng(1))
    X[5] = 0.0
    dense = unit_rows(X, signs, X.shape[1] + intercept)
    found = unit_rows(sparse.csr_matrix(X), signs, X.shape[1] + intercept)
    np.testing.assert_array_equal(found.toarray(), dense)
    np.testing.assert_array_equal(nonzero_rows(found), nonzero_rows(dense))


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1.0, 1e200, 1e308])
def test_extreme_lengths_keep_their_direction(scale):
    X = np.array([[1.0, -1.0], [1.0, 0.5]]) * scale
    signs = np.ones(2, dtype=np.int8)
    np.testing.assert_array_equal(
        unit_rows(X, signs, 2)[0], np.rint(UNIT * np.sqrt([0.5, 0.5]) * [1, -1])
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_no_order_changes_a_bit(seed, d):
    rng = np.random.default_rng(seed)
    X, signs = random_rows(rng, 64, d)
    columns, order = rng.permutation(d), rng.permutation(64)
    whole = unit_rows(X, signs, d)
    np.testing.assert_array_equal(unit_rows(X[:, columns], signs, d), whole[:, columns])
    vector = rng.standard_normal(d) * 10.0 ** rng.integers(-9, 9)
    np.testing.assert_array_equal(
        products(whole[:, columns], vector[columns]), products(whole, vector)
    )
    np.testing.assert_array_equal(
        products(sparse.csr_matrix(whole), vector), products(whole, vector)
    )
    np.testing.assert_allclose(
        products(whole, vector), whole @ vector / UNIT, rtol=0, atol=1e-8 * abs(vector).max()
    )
    matrix = rng.standard_normal((d, 5))
    points = project_rows(whole, matrix)
    np.testing.assert_array_equal(
        project_rows(whole[order][:, columns], matrix[columns]), points[:, order]
    )
    weights = rng.random(64)
    sums, masses = weighted_sums(whole, weights, 1)
    again, others = weighted_sums(whole[order], weights[order], 1)
    np.testing.assert_array_equal(sums, again)
    np.testing.assert_array_equal(masses, others)


def reference_counts(points, chosen):
    """The twin: single precision, component after component."""
    scores = np.zeros((len(chosen), points.shape[1]), dtype=np.float32)
    for component, row in zip(chosen.T, points, strict=True):
        scores += component[:, None] * row
    return (scores <= 0).sum(axis=1)


@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 255), (4, 256), (6, 3000), (9, 257), (24, 1000)])
def test_errors_are_counted_as_by_the_twin(k, n):
    rng = np.random.default_rng(k)
    X, signs = random_rows(rng, n, k)
    points = project_rows(unit_rows(X, signs, k), None)
    chosen = rng.standard_normal((50, k)).astype(np.float32)
    expected = reference_counts(points, chosen)
    np.testing.assert_array_equal(count_errors(points, chosen, np.full(50, n)), expected)
    limits = rng.integers(-1, n, size=50)
    found = count_errors(points, chosen, limits)
    np.testing.assert_array_equal(found, np.minimum(expected, limits + 1))


def test_points_are_whole_numbers_of_23_bits():
    for k in (1, 6, 500):
        rng = np.random.default_rng(k)
        rows = unit_rows(rng.standard_normal((20, k)), np.ones(20, dtype=np.int8), k)
        points = project_rows(rows, None)
        assert points.dtype == np.float32
        assert (points == np.rint(points)).all()
        assert (abs(points).max(axis=0) <= 2.0**23).all()
        assert (abs(points).max(axis=0) >= 2.0**22).all()


def test_weighted_sums_are_exact():
    rng = np.random.default_rng(5)
    rows = unit_rows(rng.standard_normal((500, 3)), np.ones(500, dtype=np.int8), 3)
    weights = rng.random(500)
    sums, masses = weighted_sums(rows, weights, 7)
    whole = np.rint(weights * 2**WEIGHT_BITS).astype(int)
    for group in range(7):
        expected = (rows[group::7].astype(int) * whole[group::7, None]).sum(axis=0)
        np.testing.assert_array_equal(sums[group], expected)
        assert masses[group] == whole[group::7].sum()
    found, same = weighted_sums(sparse.csr_matrix(rows), weights, 7)
    np.testing.assert_array_equal(found, sums)
    np.testing.assert_array_equal(same, masses)
