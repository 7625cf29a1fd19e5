"""Lane sums have the documented order; fixed-point sums are exact in any order."""

import itertools
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from replearn.kernels import lanes
from replearn.kernels.exact import add_fixed, fixed_mean, split_fixed
from tests.reference import exact_sum, lane_dot

LENGTHS = (0, 1, 3, 15, 16, 17, 31, 32, 48, 100, 129, 1000)
entries = st.floats(-8, 8, allow_nan=False)


# --- lanes ------------------------------------------------------------------------------------


@njit
def sparse_row(values, columns, w, a):
    rows = lanes.SparseRows(values, columns, np.array([0, values.size]), np.array([0]))
    both = lanes.row_dot_and_square(rows, 0, w)
    product = lanes.row_dot(rows, 0, w)
    lanes.row_axpy(a, rows, 0, w)
    return product, both


@njit
def dense_row(X, members, k, w, a):
    rows = lanes.DenseRows(X, members)
    both = lanes.row_dot_and_square(rows, k, w)
    product = lanes.row_dot(rows, k, w)
    lanes.row_axpy(a, rows, k, w)
    return product, both


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_have_the_order_of_the_twin(dtype):
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        x = rng.standard_normal(n).astype(dtype)
        w = rng.standard_normal(n + 3)
        assert lanes.dot(x, w) == lane_dot(x, w)
        assert lanes.square(x) == lane_dot(x, x.astype(float))
        expected = w.copy()
        expected[:n] += 0.3 * x.astype(float)
        lanes.axpy(0.3, x, w)
        np.testing.assert_array_equal(w, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_and_sparse_rows_have_the_bits_of_vectors(dtype):
    rng = np.random.default_rng(1)
    members = np.array([4, 0, 2])
    for n in LENGTHS[1:]:
        X = rng.standard_normal((5, n)).astype(dtype)
        X[rng.random(X.shape) < 0.6] = 0
        w = rng.standard_normal(n + 1)
        for k, member in enumerate(members):
            x = X[member]
            columns = np.flatnonzero(x).astype(np.int32)
            dense, sparse, moved = w.copy(), w.copy(), w.copy()
            lanes.axpy(-1.7, x, moved)
            product = lane_dot(x, w)
            expected = product, (product, lane_dot(x, x.astype(float)))
            assert dense_row(X, members, k, dense, -1.7) == expected
            assert sparse_row(x[columns], columns, sparse, -1.7) == expected
            np.testing.assert_array_equal(dense, moved)
            np.testing.assert_array_equal(sparse, moved)


def test_a_row_at_the_end_of_memory_is_not_read_past_its_end():
    # entries outside a masked block may be NaN: they must not be touched
    x = np.full(40, np.nan)
    x[:21] = 1.0
    w = np.full(40, np.nan)
    w[:21] = 2.0
    assert lanes.dot(x[:21], w) == 42.0
    lanes.axpy(1.0, x[:21], w)
    assert (w[:21] == 3.0).all()
    assert np.isnan(w[21:]).all()


# --- fixed point ------------------------------------------------------------------------------


@given(entries)
def test_one_number_is_within_half_a_quantum(value):
    hi, lo = split_fixed(value)
    assert abs(lo) <= 2**30
    (kept,) = exact_sum([hi], [lo])
    assert abs(kept - Fraction(value)) <= Fraction(1, 2**62)


def add_all(vector, hi, lo):
    for j, value in enumerate(vector):
        add_fixed(value, hi, lo, j)


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(3)), elements=entries))
def test_sums_are_exact_up_to_the_rounding_of_each_summand(vectors):
    hi, lo = np.zeros(3, np.int64), np.zeros(3, np.int64)
    for w in vectors:
        add_all(w, hi, lo)
    for column, kept in zip(vectors.T, exact_sum(hi, lo), strict=True):
        error = abs(kept - sum(map(Fraction, column)))
        assert error <= Fraction(len(vectors), 2**62)


@given(
    hnp.arrays(np.float64, (6, 2), elements=entries),
    st.permutations(range(6)),
    st.integers(0, 6),
)
def test_order_and_grouping_do_not_matter(vectors, order, cut):
    def total(rows):
        limbs = np.zeros((2, 2), np.int64)
        for w in rows:
            add_all(w, *limbs)
        return limbs

    merged = total(vectors[order[:cut]]) + total(vectors[order[cut:]])
    np.testing.assert_array_equal(merged, total(vectors))


@given(hnp.arrays(np.float64, st.integers(1, 40), elements=entries))
def test_mean_is_correct_to_the_last_bits(values):
    hi, lo = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for value in values:
        add_fixed(value, hi, lo, 0)
    exact = exact_sum(hi, lo)[0] / values.size
    mean = Fraction(float(fixed_mean(hi, lo, values.size)[0]))
    assert abs(mean - exact) <= abs(exact) * Fraction(4, 2**53)


def test_equal_sums_have_equal_means_however_the_limbs_are_split():
    hi = np.array([5, 5 - 7, 5 + 3])
    lo = np.array([12, 12 + 7 * 2**31, 12 - 3 * 2**31])
    assert np.unique(fixed_mean(hi, lo, 3)).size == 1


def test_the_range_is_as_documented():
    hi, lo = np.zeros(2, np.int64), np.zeros(2, np.int64)
    add_all([8.0, -8.0], hi, lo)
    n = 2**30 - 1
    for high, sign in zip(hi, (1, -1), strict=True):
        assert int(high) * n == sign * 8 * 2**30 * n
        assert abs(int(high) * n) < 2**63
    smallest = max(
        abs(int(split_fixed(sign * (k + 0.5) * 2.0**-30 + tiny)[1]))
        for sign, k, tiny in itertools.product((1, -1), range(4), (0.0, 2.0**-61, -(2.0**-61)))
    )
    assert smallest * 2**30 < 2**63
