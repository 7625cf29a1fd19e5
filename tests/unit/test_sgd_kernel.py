"""Gradient descent: against its twin, and bit by bit."""

from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from replearn.kernels import gradient_descent as sgd
from replearn.kernels.exact import fixed_mean
from replearn.kernels.tally import merge_tallies, new_tally, read_tally
from tests.reference import best_average, directions, sgd_average

N_GROUPS = 3


def population(n, d, margin=0.2, seed=0, density=1.0):
    """Rows of different lengths; the first coordinate tells the class."""
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([-1, 1], np.int8), n)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    X[:, 0] = signs * margin * rng.uniform(0.3, 2, n)
    return X * rng.uniform(0.1, 10, (n, 1)), signs


def settings_of(n_steps, intercept=False, **changes):
    numbers = {"margin": 0.2, "weight": 0.04, "radius": 1.0} | changes
    return sgd.new_run(intercept=intercept, n_steps=n_steps, **numbers)


def advance(X, signs, order, run, state, sums):
    sgd.advance(X, signs, order, run, state, *sums)


def no_sums(run, n_features):
    hi, lo = np.zeros((2, N_GROUPS, n_features + int(run.bias)), np.int64)
    return hi, lo, new_tally()


def descend(X, signs, run, cuts=(), order=None):
    """Limbs and tally of all blocks; the rows are taken in pieces that end at the cuts."""
    order = np.arange(X.shape[0]) if order is None else order
    state, sums = sgd.new_state(X.shape[1], run), no_sums(run, X.shape[1])
    for start, stop in pairwise([0, *sorted(cuts), order.size]):
        advance(X, signs, order[start:stop], run, state, sums)
    return sums


def mean_of(sums):
    return fixed_mean(sums[0].sum(axis=0), sums[1].sum(axis=0), read_tally(sums[2]).n_batches)


def assert_same(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(one[2].counts, other[2].counts)


# --- the algorithm ----------------------------------------------------------------------------


@given(
    n=st.integers(1, 60),
    d=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    weight=st.sampled_from([1e-6, 1e-3, 0.04, 1.0, 30.0]),
    radius=st.sampled_from([0.3, 1.0, 8.0]),
    intercept=st.booleans(),
    sparse=st.booleans(),
)
@settings(max_examples=80)
def test_a_run_is_the_twins_average(n, d, seed, weight, radius, intercept, sparse):
    X, signs = population(n, d, seed=seed, density=0.4 if sparse else 1.0)
    run = settings_of(n, intercept, weight=weight, radius=radius)
    rows = sp.csr_array(X) if sparse else X
    average = mean_of(descend(rows, signs, run))
    twin = sgd_average(directions(X, signs, intercept), 0.2, weight, radius)
    np.testing.assert_allclose(average, twin, rtol=0, atol=1e-10 * radius)


@pytest.mark.parametrize("weight", [1e-5, 0.04])
def test_long_runs_lose_no_digits(weight):
    # 1e-5: w stays at the edge of the ball, and the scale falls like a high power of 1/t
    X, signs = population(60_000, 3)
    average = mean_of(descend(X, signs, settings_of(60_000, weight=weight)))
    twin = sgd_average(directions(X, signs), 0.2, weight, 1.0)
    np.testing.assert_allclose(average, twin, rtol=0, atol=1e-9)


def test_blocks_are_averaged():
    X, signs = population(1000, 7)
    average = mean_of(descend(X, signs, settings_of(90)))
    V = directions(X, signs)
    blocks = [sgd_average(V[b * 90 : b * 90 + 90], 0.2, 0.04, 1.0) for b in range(11)]
    np.testing.assert_allclose(average, np.mean(blocks, axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_best_run_is_chosen_on_the_validation_rows(sparse, intercept):
    X, signs = population(1200, 9, seed=4, density=0.5)
    X[17] = 0  # in a run, and among the validation rows of the first block
    X[250] = 0
    run = settings_of(40, intercept, n_runs=5, n_validation=100)
    rows = sp.csr_array(X) if sparse else X
    average = mean_of(descend(rows, signs, run))
    expected = np.zeros(9 + intercept)
    for block in range(4):
        here = slice(300 * block, 300 * block + 300)
        kept = [
            directions(X[here][i : i + 1], signs[here][i : i + 1], intercept) for i in range(300)
        ]
        runs = [np.vstack(kept[40 * r : 40 * r + 40]) for r in range(5)]
        rest = np.vstack(kept[200:])
        averages = [sgd_average(V, 0.2, 0.04, 1.0) for V in runs]
        values = [
            np.maximum(0, 1 - rest @ w / 0.2).mean() + 0.02 * (w @ w) / 0.04 for w in averages
        ]
        expected += averages[int(np.argmin(values))] / 4
    np.testing.assert_allclose(average, expected, rtol=0, atol=1e-12)


def test_best_average_is_the_best_of_its_runs():
    X, signs = population(300, 9, seed=5)
    run = settings_of(40, n_runs=5, n_validation=100)
    twin = best_average(directions(X, signs), 5, 40, 0.2, 0.04, 1.0)
    np.testing.assert_allclose(mean_of(descend(X, signs, run)), twin, rtol=0, atol=1e-12)


def test_zero_rows_make_no_step():
    X, signs = population(200, 5)
    holes = np.insert(X, [0, 30, 30, 199], 0.0, axis=0)
    labels = np.insert(signs, [0, 30, 30, 199], 1)
    with_holes = descend(holes, labels, settings_of(204))
    np.testing.assert_array_equal(mean_of(with_holes), mean_of(descend(X, signs, settings_of(200))))
    assert read_tally(with_holes[2]).n_zero_rows == 4
    nothing = descend(np.zeros((6, 5)), np.ones(6, np.int8), settings_of(3))
    assert not nothing[0].any()
    assert read_tally(nothing[2]).n_batches == 2


@pytest.mark.parametrize("intercept", [False, True])
def test_rows_of_extreme_length_are_directions_too(intercept):
    X, signs = population(60, 5)
    rng = np.random.default_rng(0)
    powers = rng.choice([-1000, -600, 0, 600, 1000], 60) if not intercept else np.zeros(60, int)
    powers[3:9] = 600  # so long that the constant 1 vanishes beside them
    X[3:9] *= 2.0**600
    scaled = np.ldexp(X, np.where(np.arange(60) < 9, 0, powers)[:, None])
    run = settings_of(20, intercept, n_runs=2, n_validation=20)
    expected = mean_of(descend(X, signs, run))
    for rows in (scaled, sp.csr_array(scaled)):
        np.testing.assert_allclose(mean_of(descend(rows, signs, run)), expected, rtol=0, atol=1e-14)


def test_the_tally_counts_blocks_rows_and_pairs():
    X, signs = population(1000, 6)
    tally = read_tally(descend(X, signs, settings_of(90))[2])
    V = directions(X, signs)
    blocks = [sgd_average(V[b * 90 : b * 90 + 90], 0.2, 0.04, 1.0) for b in range(11)]
    distances = np.array([np.sum((blocks[b] - blocks[b + 1]) ** 2) for b in range(0, 10, 2)])
    assert (tally.n_batches, tally.n_row_visits, tally.n_pairs) == (11, 990, 5)
    assert (tally.n_unconverged, tally.n_infeasible, tally.n_shortened) == (0, 0, 0)
    np.testing.assert_allclose(tally.squared_norm_sum, np.sum(np.square(blocks)), rtol=1e-6)
    np.testing.assert_allclose(tally.pair_sum, distances.sum(), rtol=1e-6)
    np.testing.assert_allclose(tally.pair_square_sum, (distances**2).sum(), rtol=1e-6)


# --- the same bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("runs", [{}, {"n_runs": 3, "n_validation": 31}])
def test_dense_sparse_and_float32_give_the_same_bits(intercept, runs):
    X, signs = population(2000, 37, seed=2, density=0.2)
    X = X.astype(np.float32).astype(np.float64)
    X[100:103] = 0
    run = settings_of(50, intercept, **runs)
    order = np.random.default_rng(0).permutation(2000)
    expected = descend(X, signs, run, order=order)
    for rows in (
        X.astype(np.float32),
        sp.csr_array(X),
        sp.csr_array(X.astype(np.float32)),
        sp.csr_array(X, dtype=np.float64).astype(np.float64),
    ):
        assert_same(descend(rows, signs, run, order=order), expected)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert_same(descend(wide, signs, run, order=order), expected)
    assert_same(descend(X[order], signs[order], run), expected)


@given(
    cuts=st.lists(st.integers(0, 700), max_size=30),
    n_steps=st.sampled_from([1, 7, 50, 900]),
    best_of=st.booleans(),
    sparse=st.booleans(),
)
@settings(max_examples=40)
def test_pieces_do_not_matter(cuts, n_steps, best_of, sparse):
    X, signs = population(700, 20, seed=3, density=0.3)
    runs = {"n_runs": 2, "n_validation": 5} if best_of else {}
    run = settings_of(n_steps, True, **runs)
    rows = sp.csr_array(X) if sparse else X
    assert_same(descend(rows, signs, run, cuts), descend(X, signs, run))


def test_dense_and_sparse_pieces_can_follow_each_other():
    X, signs = population(900, 20, seed=3, density=0.3)
    run = settings_of(100, True)
    state, sums = sgd.new_state(20, run), no_sums(run, 20)
    for number, start in enumerate(range(0, 900, 30)):
        piece = slice(start, start + 30)
        rows = sp.csr_array(X[piece]) if number % 3 == 0 else X[piece]
        advance(rows, signs[piece], np.arange(30), run, state, sums)
    assert_same(sums, descend(X, signs, run))


@pytest.mark.parametrize("ends", [[13], [2, 4, 13], [6, 8, 10, 13]])
def test_ranges_of_blocks_can_be_merged(ends):
    X, signs = population(1300, 11)
    run = settings_of(100)

    def work(block):
        first, last = block
        sums, state = no_sums(run, 11), sgd.new_state(11, run, first)
        advance(X, signs, np.arange(100 * first, 100 * last), run, state, sums)
        return sums

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(work, pairwise([0, *ends])))
    merged = reduce(lambda a, b: (a[0] + b[0], a[1] + b[1], merge_tallies(a[2], b[2])), parts)
    assert_same(merged, descend(X, signs, run))


@given(stop=st.integers(0, 650), best_of=st.booleans(), sparse=st.booleans())
@settings(max_examples=30)
def test_a_saved_state_goes_on(stop, best_of, sparse):
    X, signs = population(650, 20, seed=6, density=0.3)
    rows = sp.csr_array(X) if sparse else X
    runs = {"n_runs": 2, "n_validation": 20} if best_of else {}
    run = settings_of(40, **runs)
    state, sums = sgd.new_state(20, run), no_sums(run, 20)
    advance(rows, signs, np.arange(stop), run, state, sums)
    saved = {name: array.copy() for name, array in sgd.arrays_of(state).items()}
    again = sgd.state_of(run, saved)
    assert again is not None
    advance(rows, signs, np.arange(stop, 650), run, again, sums)
    assert_same(sums, descend(X, signs, run))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("raw", 0, np.nan),
        ("numbers", 0, 0.0),
        ("numbers", 1, np.inf),
        ("counts", 1, 40),
        ("counts", 1, -1),
        ("counts", 3, 10**9),
        ("counts", 0, -5),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(name, place, value):
    run = settings_of(40)
    arrays = sgd.arrays_of(sgd.new_state(3, run))
    arrays[name][place] = value
    assert sgd.state_of(run, arrays) is None


def test_unfinished_blocks_can_be_closed():
    X, signs = population(30, 4)
    run = settings_of(100)
    state, sums = sgd.new_state(4, run), no_sums(run, 4)
    advance(X, signs, np.arange(30), run, state, sums)
    assert read_tally(sums[2]).n_batches == 0
    assert (sgd.n_blocks(state), sgd.n_taken(state)) == (0, 30)
    sgd.end_block(run, state, *sums)
    assert_same(sums, descend(X, signs, settings_of(30)))
