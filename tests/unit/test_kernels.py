"""Compiled loops against their twins, and the same bits whatever the rows come in."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import replearn as rl
from replearn.exact import COUNTS, fixed_mean
from replearn.kernels.descent import Descent, add_descents
from replearn.kernels.int32_directions import RawRows
from replearn.kernels.max_margin import Problem, add_batches
from tests.reference import best_average, best_hard, best_soft, directions, duality_gap, sgd_average

SOFT = Problem(0.01, 1e-9, 0.0, 0.5, 0.05, 1e5, 1.0, 8.0)
HARD = Problem(0.0, 0.0, 1e-4, 0.99, 0.05, 1e5, 0.0, 8.0)
DESCENT = Descent(0.2, 0.04, 1.0)


def rows_of(n, d, seed=0, margin=0.2):
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), n)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    X[:, 0] = signs * (margin + 0.3 * rng.random(n))
    return np.ldexp(X, rng.integers(-3, 4, n)[:, None]), signs


def sums(add, X, signs, problem, batch_size, bias=0, n_groups=3, first=0, order=None):
    hi, lo = np.zeros((2, n_groups, X.shape[1] + bias), np.int64)
    counts = np.zeros(len(COUNTS), np.int64)
    order = np.arange(len(signs)) if order is None else order
    rows = RawRows.of(X, signs, order)
    marks = add(problem, rows, first, batch_size, bias, hi, lo, counts)
    return hi, lo, counts, marks


def vector(add, X, signs, problem, bias=0):
    hi, lo, counts, _ = sums(add, X, signs, problem, len(signs), bias, 1)
    return fixed_mean(hi[0], lo[0], 1), dict(zip(COUNTS, counts.tolist(), strict=True))


# ---------------------------------------------------------------- the batch SVM


@pytest.mark.parametrize("bias", [0, 1])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (40, 5), (30, 60), (100, 17)])
def test_soft_vectors_are_the_optimum(n, d, bias):
    X, signs = rows_of(n, d, seed=n)
    found, counts = vector(add_batches, X, signs, SOFT, bias)
    V = directions(X, signs, bool(bias))
    best, _ = best_soft(V, 1 / (n * SOFT.weight))
    # |u - u*| <= sqrt(2 gap), and rows are rounded to 2^-30
    assert np.linalg.norm(found - best) < math.sqrt(2e-9) + 1e-6
    assert counts["unconverged"] == 0


def test_a_relative_gap_is_kept():
    X, signs = rows_of(60, 8)
    problem = SOFT._replace(abs_gap=0.0, rel_gap=1e-2)
    found, _ = vector(add_batches, X, signs, problem)
    V = directions(X, signs)
    best, alpha = best_soft(V, 1 / (60 * SOFT.weight))
    assert duality_gap(V, best, alpha, 1 / (60 * SOFT.weight)) <= 1e-10
    assert np.linalg.norm(found - best) ** 2 / 2 <= 1.01e-2 * found @ found / 2


def test_hard_vectors_have_the_largest_margin():
    X, signs = rows_of(50, 6)
    found, counts = vector(add_batches, X, signs, HARD)
    _, margin = best_hard(directions(X, signs))
    assert np.linalg.norm(found) == pytest.approx(1)
    assert (directions(X, signs) @ found).min() >= 0.98 * margin
    assert counts["infeasible"] == 0


def test_a_batch_without_margin_gives_the_zero_vector():
    X, signs = rows_of(50, 3)
    signs[0] *= -1
    X = np.vstack([X, X[:1]])
    signs = np.append(signs, -signs[0])
    found, counts = vector(add_batches, X, signs, HARD)
    assert not found.any()
    assert counts["infeasible"] == 1


def test_vectors_are_shortened_and_scaled():
    X, signs = rows_of(30, 4)
    plain, _ = vector(add_batches, X, signs, SOFT)
    half, _ = vector(add_batches, X, signs, SOFT._replace(length=0.5))
    np.testing.assert_allclose(half, plain / 2, atol=1e-15)
    short, _ = vector(add_batches, X, signs, SOFT._replace(cap=0.7))
    assert np.linalg.norm(short) == pytest.approx(0.7)


# ---------------------------------------------------------------- gradient descent


@pytest.mark.parametrize("bias", [0, 1])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2), (200, 7), (3000, 4)])
def test_averages_are_those_of_plain_descent(n, d, bias):
    X, signs = rows_of(n, d, seed=n)
    found, _ = vector(add_descents, X, signs, DESCENT, bias)
    expected = sgd_average(directions(X, signs, bool(bias)), 0.2, 0.04, 1.0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_best_of_several_runs():
    X, signs = rows_of(400, 5)
    found, _ = vector(add_descents, X, signs, DESCENT._replace(n_runs=4, n_validation=100))
    expected = best_average(directions(X, signs), 4, 75, 0.2, 0.04, 1.0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


# ---------------------------------------------------------------- both


both = pytest.mark.parametrize(
    ("add", "problem"), [(add_batches, SOFT), (add_batches, HARD), (add_descents, DESCENT)]
)


@pytest.mark.slow  # loops are compiled for each kind of rows
@both
@pytest.mark.parametrize("bias", [0, 1])
def test_same_bits_dense_sparse_narrow_wide(add, problem, bias):
    X, signs = rows_of(240, 9)
    X = np.where(np.abs(X) < 0.1, 0.0, X).astype(np.float32)
    expected = sums(add, X.astype(np.float64), signs, problem, 40, bias)
    read_only = X.copy()
    read_only.flags.writeable = False
    shuffled = np.random.default_rng(1).permutation(240)
    wide = sp.csr_matrix(X.astype(np.float64))
    for other in (
        sums(add, X, signs, problem, 40, bias),
        sums(add, read_only, signs, problem, 40, bias),
        sums(add, wide, signs, problem, 40, bias),
        sums(add, X[shuffled], signs[shuffled], problem, 40, bias, order=np.argsort(shuffled)),
    ):
        for one, two in zip(expected, other, strict=True):
            np.testing.assert_array_equal(one, two)


@both
def test_sums_of_ranges_add_up(add, problem):
    X, signs = rows_of(7 * 30, 6)
    whole = sums(add, X, signs, problem, 30)
    first = sums(add, X[:120], signs[:120], problem, 30)
    last = sums(add, X[120:], signs[120:], problem, 30, first=4)
    for one, two, three in zip(whole[:3], first[:3], last[:3], strict=True):
        np.testing.assert_array_equal(one, two + three)


@both
def test_pairs_are_compared(add, problem):
    X, signs = rows_of(4 * 50, 4)
    _, _, counts, _ = sums(add, X, signs, problem, 50)
    vectors = [vector(add, X[i : i + 50], signs[i : i + 50], problem)[0] for i in range(0, 200, 50)]
    squares = [float(((vectors[i] - vectors[i + 1]) ** 2).sum()) for i in (0, 2)]
    named = dict(zip(COUNTS, counts.tolist(), strict=True))
    assert named["pairs"] == 2
    assert named["pair_sum"] * 2.0**-24 == pytest.approx(sum(squares), rel=1e-5)


@both
def test_rows_of_zeros_are_counted_and_change_nothing(add, problem):
    X, signs = rows_of(40, 5)
    padded = np.insert(X, [3, 17], 0.0, axis=0)
    labels = np.insert(signs, [3, 17], 1)
    if problem == SOFT:  # the box constraint is one over the rows
        problem = SOFT._replace(weight=SOFT.weight * 40 / 42)
    found, counts = vector(add, padded, labels, problem)
    expected, _ = vector(add, X, signs, SOFT if add is add_batches and problem.weight else problem)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert counts["zero_rows"] == 2
    nothing, counts = vector(add, np.zeros((6, 3)), np.ones(6, np.int8), problem)
    assert not nothing.any()
    assert counts["zero_rows"] == 6


@both
@pytest.mark.parametrize("exponent", [-1060, -600, 600, 1010])
def test_rows_of_extreme_length_are_directions_too(add, problem, exponent):
    X, signs = rows_of(20, 3)
    X = np.ldexp(np.rint(np.ldexp(X, 8)), -8)  # few bits, so that nothing is lost
    expected, _ = vector(add, X, signs, problem)
    found, _ = vector(add, np.ldexp(X, exponent), signs, problem)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_equal_directions_have_equal_marks():
    X, signs = rows_of(60, 7)
    X[30:] = 4.0 * X[:30]  # powers of two, so that directions are equal to the bit
    signs[30:] = signs[:30]
    *_, marks = sums(add_batches, X, signs, SOFT, 30)
    np.testing.assert_array_equal(marks[:30], marks[30:])
    assert np.unique(marks).size == 30
    *_, others = sums(add_batches, X, -signs, SOFT, 30)
    assert not np.isin(others, marks).any()


@given(st.lists(st.floats(-8, 8), min_size=1, max_size=40))
def test_fixed_point_sums_are_exact(values):
    hi = np.zeros((2, 1), np.int64)
    for split in (len(values) // 2, 0):
        parts = [values[:split], values[split:]]
        limbs = []
        for part in parts:
            high = [round(value * 2**30) for value in part]
            low = [round((v - h / 2**30) * 2**61) for v, h in zip(part, high, strict=True)]
            limbs.append((sum(high), sum(low)))
        hi = np.array([[sum(limb[0] for limb in limbs)], [sum(limb[1] for limb in limbs)]])
        mean = float(fixed_mean(hi[0], hi[1], len(values))[0])
        assert mean == pytest.approx(math.fsum(values) / len(values), rel=1e-15, abs=2e-18)


def test_the_best_run_at_length_1_where_it_is_asked_for():
    """As printed; the direction is that of the run as it is."""
    X, y = rl.datasets.make_margin(1200, 4, margin=0.3, random_state=2)
    sizes = {"n_batches": 3, "batch_size": 400, "n_repetitions": 3, "n_validation": 100}
    fits = [
        rl.ReplicableSGDClassifier(
            margin=0.3, mode="paper", trace=True, normalize=normalize, shuffle=False, **sizes
        ).fit(X, y)
        for normalize in (None, True)
    ]
    plain, scaled = (fitted.trace_.directions for fitted in fits)
    lengths = np.linalg.norm(plain, axis=1)
    assert (lengths < 0.999).any()
    np.testing.assert_allclose(scaled, plain / lengths[:, None], atol=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_batches_of_paper_mode_have_the_share_of_the_margin_that_is_asked_for(share):
    X, y = rl.datasets.make_margin(400, 4, margin=0.2, random_state=2)
    fitted = rl.ReplicableSVMClassifier(
        margin=0.2, mode="paper", trace=True, margin_share=share, shuffle=False, n_batches=2,
        batch_size=200,
    ).fit(X, y)  # fmt: skip
    for w, rows, signs in zip(
        fitted.trace_.directions, np.split(X, 2), np.split(y, 2), strict=True
    ):
        v = directions(rows, signs)
        best = best_hard(v)[1]
        assert share * best * 0.999 <= (v @ w).min() <= best * 1.001


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rl.plan("svm", n_features=3, margin_share=0.9), 'belongs to mode="paper"'),
        (lambda: rl.plan("svm", n_features=3, mode="paper", margin_share=1.0), "between 0 and 1"),
        (lambda: rl.plan("sgd", n_features=3, normalize=True), 'belongs to mode="paper"'),
        (lambda: rl.plan("sgd", n_features=3, mode="paper", normalize=2), "True or False"),
        (lambda: rl.plan("net", n_features=3, sketch_bits=2), "sketch_bits must be 0 for net"),
    ],
)
def test_what_only_paper_mode_has(call, words):
    with pytest.raises(rl.ReplearnError, match=words):
        call()
