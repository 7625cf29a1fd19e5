"""The batch SVM: against its twin, by its certificates, and bit by bit."""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from replearn.kernels import max_margin as svm
from replearn.kernels.exact import fixed_mean
from replearn.kernels.lanes import DenseRows
from replearn.kernels.tally import merge_tallies, new_tally, read_tally
from tests.reference import best_hard, best_soft, directions, duality_gap

PROBLEM = {
    "C": 0.3,
    "share": 0.9,
    "floor_margin": 1e-3,
    "abs_gap": 0.0,
    "rel_gap": 1e-5,
    "max_sweeps": 10_000,
}
OUTPUT = {"unit": False, "scale": 0.1, "length_cap": svm.MAX_LENGTH}


def population(n, d, margin=0.2, noise=0.0, seed=0):
    """Rows of different lengths; the first coordinate tells the class, except for the noise."""
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([-1, 1], np.int8), n)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[:, 0] = signs * (margin + np.abs(X[:, 0]))
    X *= rng.uniform(0.1, 10, (n, 1))
    return X, np.where(rng.random(n) < noise, -signs, signs).astype(np.int8)


def add_up(X, signs, batch_size, order=None, blocks=None, n_groups=3, intercept=False, **changes):
    """Limbs and tally of all batches, or of a list of ranges, merged."""
    order = np.arange(X.shape[0]) if order is None else order
    n_batches = order.size // batch_size
    output = svm.new_output(**{name: changes.pop(name, OUTPUT[name]) for name in OUTPUT})
    problem = svm.new_problem(**PROBLEM | changes, intercept=intercept)

    def work(block):
        first, last = block
        hi, lo = np.zeros((2, n_groups, X.shape[1] + intercept), np.int64)
        tally = new_tally()
        rows = order[first * batch_size : last * batch_size]
        svm.sum_batches(X, signs, rows, first, batch_size, problem, output, hi, lo, tally)
        return hi, lo, tally

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(work, blocks or [(0, n_batches)]))
    return reduce(
        lambda a, b: (a[0] + b[0], a[1] + b[1], merge_tallies(a[2], b[2])),
        parts,
    )


def vector_and_tally(X, signs, **changes):
    """The vector of one batch of all rows, and its tally."""
    hi, lo, tally = add_up(X, signs, X.shape[0], n_groups=1, **changes)
    return fixed_mean(hi[0], lo[0], 1), read_tally(tally)


def solve(X, signs, intercept=False, **changes):
    """State of the solver after one batch of all rows: solution, u and alpha."""
    problem = svm.new_problem(**PROBLEM | changes, intercept=intercept)
    n, d = X.shape
    work = svm.Work(np.zeros(d + 1), np.zeros(n), np.zeros(n), np.zeros(n, np.int64))
    members = np.arange(n)
    solution = svm.solve(DenseRows(X, members), signs, problem, work)
    return solution, work.u[: d + intercept], work.alpha


def assert_same(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(one[2].counts, other[2].counts)
    np.testing.assert_array_equal(one[2].extremes, other[2].extremes)


# --- the optimum ------------------------------------------------------------------------------


@given(
    n=st.integers(1, 25),
    d=st.integers(1, 20),
    seed=st.integers(0, 10**6),
    C=st.sampled_from([0.01, 0.3, 1.0, 20.0]),
    noise=st.sampled_from([0.0, 0.1, 0.5]),
    intercept=st.booleans(),
)
@settings(max_examples=60)
def test_soft_margin_reaches_its_gap_and_the_optimum(n, d, seed, C, noise, intercept):
    X, signs = population(n, d, noise=noise, seed=seed)
    gap = 1e-7
    solution, u, alpha = solve(X, signs, intercept, C=C, abs_gap=gap, rel_gap=0.0)
    V = directions(X, signs, intercept)
    assert alpha.min() >= 0
    assert alpha.max() <= C
    np.testing.assert_allclose(u, V.T @ alpha, atol=1e-12 * alpha.sum())
    assert duality_gap(V, u, alpha, C) <= gap * (1 + 1e-6) + 1e-13 * alpha.sum()
    assert abs(solution.squared - u @ u) <= 1e-12 * alpha.sum() ** 2
    best, _ = best_soft(V, C, gap)
    assert np.linalg.norm(u - best) <= 2 * math.sqrt(2 * gap)


@pytest.mark.parametrize("rel_gap", [1e-1, 1e-3, 1e-6])
def test_relative_gap_is_relative_to_half_the_squared_length(rel_gap):
    X, signs = population(200, 30, noise=0.02)
    _, u, alpha = solve(X, signs, C=1 / 3, rel_gap=rel_gap)
    assert duality_gap(directions(X, signs), u, alpha, 1 / 3) <= rel_gap * u @ u / 2 * (1 + 1e-9)


@given(
    n=st.integers(1, 40),
    d=st.integers(2, 20),
    seed=st.integers(0, 10**6),
    margin=st.sampled_from([0.03, 0.2, 0.6]),
    share=st.sampled_from([0.5, 0.8, 0.99]),
    intercept=st.booleans(),
)
@settings(max_examples=60)
def test_hard_margin_reaches_its_share_of_the_largest(n, d, seed, margin, share, intercept):
    X, signs = population(n, d, margin=margin, seed=seed)
    solution, u, alpha = solve(X, signs, intercept, C=math.inf, share=share)
    V = directions(X, signs, intercept)
    _, largest = best_hard(V)
    bound = math.sqrt(solution.squared) / solution.total
    assert bound >= largest * (1 - 1e-9)
    assert (V @ u).min() / np.linalg.norm(u) >= share * bound * (1 - 1e-9)
    assert alpha.min() >= 0


def test_hard_margin_of_two_points_is_their_bisector():
    X = np.array([[3.0, 0.0], [0.0, -0.5]])
    signs = np.array([1, -1], np.int8)
    vector, tally = vector_and_tally(X, signs, C=math.inf, share=0.999999, unit=True)
    np.testing.assert_allclose(vector, [math.sqrt(0.5)] * 2, atol=1e-5)
    assert tally.margin_bound == pytest.approx(math.sqrt(0.5))
    assert tally.worst_relative_gap <= 1e-6


# --- batches that cannot be solved ------------------------------------------------------------


def test_a_floor_above_the_margin_is_proved_unreachable():
    X, signs = population(60, 5, margin=0.1)
    _, largest = best_hard(directions(X, signs))
    _, tally = vector_and_tally(X, signs, C=math.inf, floor_margin=largest * 0.95)
    assert (tally.n_infeasible, tally.n_unconverged) == (0, 0)
    vector, tally = vector_and_tally(X, signs, C=math.inf, floor_margin=largest * 1.05, share=0.99)
    assert (tally.n_infeasible, tally.n_unconverged) == (1, 0)
    assert largest <= tally.margin_bound < largest * 1.05
    assert tally.worst_gap == 0
    assert not vector.any()


def test_contradicting_rows_have_no_hard_margin_and_no_soft_vector():
    X = np.array([[1.0, 2.0], [1.0, 2.0]])
    signs = np.array([1, -1], np.int8)
    vector, tally = vector_and_tally(X, signs, C=math.inf, floor_margin=0.01)
    assert tally.n_infeasible == 1
    assert not vector.any()
    for unit in (False, True):
        vector, tally = vector_and_tally(X, signs, C=0.3, unit=unit, abs_gap=1e-12)
        assert (tally.n_infeasible, tally.n_unconverged) == (0, 0)
        assert not vector.any()
        assert tally.squared_norm_sum == 0


def test_a_batch_that_is_not_done_in_time_says_how_far_it_came():
    X, signs = population(300, 20, margin=0.02, noise=0.1)
    solution, u, alpha = solve(X, signs, C=1.0, max_sweeps=3)
    gap = duality_gap(directions(X, signs), u, alpha, 1.0)
    vector, tally = vector_and_tally(X, signs, C=1.0, max_sweeps=3)
    assert tally.n_unconverged == 1
    assert tally.worst_gap == pytest.approx(gap)
    assert tally.worst_relative_gap == pytest.approx(gap / (u @ u / 2))
    np.testing.assert_allclose(vector, 0.1 * u, atol=1e-14)
    assert solution.gap == tally.worst_gap


def test_a_hard_batch_that_is_not_done_adds_only_a_vector_with_a_margin():
    X, signs = population(300, 20, margin=0.02)
    vector, tally = vector_and_tally(X, signs, C=math.inf, max_sweeps=1)
    assert tally.n_unconverged == 1
    assert not vector.any()
    V = directions(X, signs)
    vector, tally = vector_and_tally(X, signs, C=math.inf, max_sweeps=30, share=0.9999, scale=0.01)
    assert tally.n_unconverged == 1
    assert (V @ vector).min() == pytest.approx(0.01)
    shortfall = tally.margin_bound - (V @ vector).min() / np.linalg.norm(vector)
    assert tally.worst_gap == pytest.approx(shortfall)
    assert tally.worst_relative_gap == pytest.approx(shortfall / tally.margin_bound)


# --- odd rows ---------------------------------------------------------------------------------


def test_zero_rows_are_skipped_and_counted():
    X, signs = population(40, 7, noise=0.1)
    alone, tally = vector_and_tally(X, signs)
    assert tally.n_zero_rows == 0
    with_zeros = np.insert(X, [0, 13, 40], 0.0, axis=0)
    more_signs = np.insert(signs, [0, 13, 40], 1)
    vector, tally = vector_and_tally(with_zeros, more_signs, rel_gap=1e-9)
    assert tally.n_zero_rows == 3
    np.testing.assert_allclose(vector, alone, atol=1e-2)
    _, u, alpha = solve(with_zeros, more_signs)
    assert (alpha[[0, 14, 42]] == 0).all()
    assert duality_gap(directions(X, signs), u, np.delete(alpha, [0, 14, 42]), 0.3) < 1e-3


def test_zero_rows_have_a_direction_with_an_intercept():
    X = np.zeros((3, 2))
    vector, tally = vector_and_tally(X, np.ones(3, np.int8), intercept=True, unit=True)
    np.testing.assert_allclose(vector, [0, 0, 1])
    assert tally.n_zero_rows == 0


@pytest.mark.parametrize("C", [0.3, math.inf])
def test_a_batch_of_zero_rows_adds_nothing(C):
    signs = np.ones(4, np.int8)
    for X in (np.zeros((4, 3)), sp.csr_matrix((4, 3))):
        vector, tally = vector_and_tally(X, signs, C=C)
        assert not vector.any()
        assert (tally.n_zero_rows, tally.n_unconverged, tally.n_infeasible) == (4, 0, 0)
        assert (tally.worst_gap, tally.margin_bound) == (0, math.inf)


def test_one_class_is_no_special_case():
    X, signs = population(50, 6)
    one_class = X * signs[:, None]
    expected, _ = vector_and_tally(X, signs, C=math.inf)
    vector, _ = vector_and_tally(one_class, np.ones(50, np.int8), C=math.inf)
    np.testing.assert_array_equal(vector, expected)


def test_duplicates_share_their_weight():
    X, signs = population(20, 5, noise=0.1)
    twice = np.repeat(X, 2, axis=0)
    vector, _ = vector_and_tally(twice, np.repeat(signs, 2), C=0.15, rel_gap=1e-10)
    expected, _ = vector_and_tally(X, signs, C=0.3, rel_gap=1e-10)
    np.testing.assert_allclose(vector, expected, atol=1e-5)


@pytest.mark.parametrize("C", [0.3, math.inf])
def test_lengths_of_rows_do_not_matter_however_extreme(C):
    X, signs = population(60, 9, margin=0.1)
    # powers of two change no digit, so the bits must agree
    powers = np.random.default_rng(3).choice([0, 2, -40, 500, -500, 1000, -1000], 60)
    stretched = np.ldexp(X, powers[:, None])
    for scaled in (stretched, sp.csr_matrix(stretched)):
        assert_same(add_up(scaled, signs, 20, C=C), add_up(X, signs, 20, C=C))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("factor", [1e200, 1e-200, 1e307, 5e-324])
def test_entries_whose_squares_over_or_underflow(factor, intercept):
    X, signs = population(30, 6)
    X[::3] = np.clip(np.round(X[::3]), -9, 9) * factor
    solution, u, alpha = solve(X, signs, intercept, C=0.3, rel_gap=1e-7)
    V = directions(X, signs, intercept)
    kept = np.abs(X).max(axis=1) > 0 if not intercept else np.ones(30, bool)
    assert solution.n_zero_rows == 30 - kept.sum()
    assert duality_gap(V, u, alpha[kept], 0.3) <= 1e-7 * u @ u / 2 + 1e-12


# --- what is added up -------------------------------------------------------------------------


def test_vectors_units_scales_and_caps():
    X, signs = population(50, 8, margin=0.2, noise=0.05)
    _, u, _ = solve(X, signs)
    length = np.linalg.norm(u)
    vector, tally = vector_and_tally(X, signs, scale=0.2)
    np.testing.assert_allclose(vector, 0.2 * u, atol=1e-15)
    assert tally.squared_norm_sum == pytest.approx(0.04 * length**2, abs=1e-15)
    vector, _ = vector_and_tally(X, signs, unit=True)
    np.testing.assert_allclose(vector, u / length, atol=1e-15)
    vector, tally = vector_and_tally(X, signs, scale=0.2, length_cap=0.1)
    np.testing.assert_allclose(vector, 0.1 * u / length, atol=1e-15)
    assert tally.n_shortened == 1
    vector, tally = vector_and_tally(X, signs, scale=1e6)
    assert np.linalg.norm(vector) == pytest.approx(svm.MAX_LENGTH)
    assert tally.squared_norm_sum == pytest.approx(svm.MAX_LENGTH**2)


def test_hard_margin_vectors_have_functional_margin_one_times_the_scale():
    X, signs = population(50, 8)
    vector, _ = vector_and_tally(X, signs, C=math.inf, scale=0.2)
    assert (directions(X, signs) @ vector).min() == pytest.approx(0.2)


@pytest.mark.parametrize("intercept", [False, True])
def test_groups_and_pairs_are_those_of_single_batches(intercept):
    X, signs = population(9 * 20, 5, noise=0.1)
    hi, lo, arrays = add_up(X, signs, 20, n_groups=3, intercept=intercept)
    blocks = [slice(start, start + 20) for start in range(0, 180, 20)]
    alone = [vector_and_tally(X[block], signs[block], intercept=intercept) for block in blocks]
    vectors, tallies = zip(*alone, strict=True)
    for group, batches in enumerate(([0, 1, 6, 7], [2, 3, 8], [4, 5])):
        total = np.sum([vectors[b] for b in batches], axis=0)
        np.testing.assert_allclose(fixed_mean(hi[group], lo[group], 1), total, atol=1e-14)
    tally = read_tally(arrays)
    distances = [np.sum((vectors[b] - vectors[b + 1]) ** 2) for b in range(0, 8, 2)]
    assert (tally.n_batches, tally.n_pairs) == (9, 4)
    assert tally.pair_sum == pytest.approx(sum(distances), rel=1e-5)
    assert tally.pair_square_sum == pytest.approx(np.sum(np.square(distances)), rel=1e-5)
    assert tally.squared_norm_sum == pytest.approx(np.sum(np.square(vectors)))
    assert tally.n_row_visits == sum(t.n_row_visits for t in tallies)
    assert tally.worst_gap == max(t.worst_gap for t in tallies)
    assert tally.worst_relative_gap == max(t.worst_relative_gap for t in tallies)
    assert tally.margin_bound == min(t.margin_bound for t in tallies)


def test_equal_batches_have_distance_zero():
    X, signs = population(20, 5, noise=0.1)
    tally = read_tally(add_up(np.tile(X, (4, 1)), np.tile(signs, 4), 20)[2])
    assert (tally.n_pairs, tally.pair_sum, tally.pair_square_sum) == (2, 0, 0)


# --- bit by bit -------------------------------------------------------------------------------


def sparse_population(n, d, density, seed=0):
    X, signs = population(n, d, noise=0.1, seed=seed)
    X[np.random.default_rng(seed + 1).random(X.shape) > density] = 0
    return X.astype(np.float32).astype(np.float64), signs


@given(
    d=st.sampled_from([1, 2, 15, 16, 17, 40, 200, 4000]),
    density=st.sampled_from([0.001, 0.02, 0.3, 1.0]),
    seed=st.integers(0, 10**6),
    hard=st.booleans(),
    unit=st.booleans(),
    intercept=st.booleans(),
)
@settings(max_examples=40)
def test_dense_csr_and_both_float_types_give_equal_bits(d, density, seed, hard, unit, intercept):
    X, signs = sparse_population(60, d, density, seed)
    changes = {"C": math.inf if hard else 0.3, "max_sweeps": 50, "unit": unit}
    expected = add_up(X, signs, 10, intercept=intercept, **changes)
    assert_same(add_up(X.astype(np.float32), signs, 10, intercept=intercept, **changes), expected)
    assert_same(add_up(sp.csr_matrix(X), signs, 10, intercept=intercept, **changes), expected)


def test_csr_may_have_float32_values_wide_indices_and_explicit_zeros():
    X, signs = sparse_population(60, 50, 0.2)
    expected = add_up(X, signs, 10)
    matrix = sp.csr_matrix(X.astype(np.float32))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    assert_same(add_up(matrix, signs, 10), expected)
    matrix = sp.csr_matrix(X)
    matrix[3, matrix[3].indices[0]] = 0.0
    X[3] = matrix[3].toarray()
    assert matrix.nnz > np.count_nonzero(X)
    assert_same(add_up(matrix, signs, 10), add_up(X, signs, 10))


@given(st.sets(st.integers(1, 7)), st.integers(0, 5), st.sampled_from([0.3, math.inf]))
@settings(max_examples=20)
def test_any_split_into_ranges_gives_the_same_sums(cuts, n_odd, C):
    X, signs = population(16 * 12 + n_odd, 7, noise=0.05)
    edges = [0, *(2 * cut for cut in sorted(cuts)), 16]
    blocks = list(pairwise(edges))[::-1]
    for matrix in (X, sp.csr_matrix(X)):
        assert_same(
            add_up(matrix, signs, 12, blocks=blocks, C=C, max_sweeps=200),
            add_up(matrix, signs, 12, C=C, max_sweeps=200),
        )


def test_a_batch_depends_on_its_rows_alone():
    X, signs = population(60, 7, noise=0.05)
    order = np.random.default_rng(0).permutation(60)
    read_only = X[order]
    read_only.flags.writeable = False
    expected = add_up(read_only, signs[order], 20)
    assert_same(add_up(X, signs, 20, order=order), expected)
    assert_same(add_up(sp.csr_matrix(X), signs, 20, order=order), expected)


def test_data_are_left_alone():
    X, signs = population(40, 7)
    X[3] *= 1e300
    before, matrix = X.copy(), sp.csr_matrix(X)
    add_up(X, signs, 20)
    add_up(matrix, signs, 20)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(matrix.toarray(), before)
