"""Sums for logistic regression: against their twin, and the same bits however they are made."""

import hashlib
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from replearn.kernels import portable
from replearn.kernels.logistic import (
    MAX_WEIGHT,
    Projected,
    ScoreSums,
    project,
    projection_units,
    row_score_sums,
    score_sums,
)
from replearn.kernels.score_sums import QUANTA
from replearn.kernels.scores import capped_scores, scores
from tests.reference import projected_row, score_integers

CAP = 4.0


def population(n=700, d=37, k=4, n_classes=2, seed=0):
    """Rows about as long as the cap, half of them zeros, one row empty; published numbers."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    X[n // 2] = 0
    D = rng.integers(-9, 10, (k, d)).astype(np.float64)
    classes = rng.integers(0, n_classes, n).astype(np.uint8)
    theta = rng.standard_normal((n_classes - 1, k + 1)) * 0.1
    return X, D, classes, theta


def everything(sums):
    """All that is in the sums, to compare."""
    numbers = sums.n_rows, sums.n_zero, sums.n_capped, sums.n_cut
    return numbers, sums.class_weights.tolist(), sums.units.tolist(), sums.limbs.tolist()


# --- the numbers ------------------------------------------------------------------------------


@given(
    n=st.integers(1, 8),
    d=st.integers(1, 40),
    k=st.integers(0, 6),
    n_classes=st.integers(2, 4),
    cap=st.sampled_from([0.5, 4.0, 100.0]),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    balanced=st.booleans(),
)
@settings(max_examples=60)
def test_integers_are_those_of_the_twin(n, d, k, n_classes, cap, seed, weighted, balanced):
    X, D, classes, theta = population(n, d, k, n_classes, seed)
    weights = np.random.default_rng(seed).integers(0, MAX_WEIGHT + 1, n) if weighted else None
    factors = np.random.default_rng(seed).random(n_classes) if balanced else None
    counted = np.ones(n, np.int64) if weights is None else weights
    sums = row_score_sums(X, D, cap, classes, theta, weights=weights, factors=factors)
    expected = score_integers(X, D, cap, classes, theta, sums.units, counted.tolist(), factors)
    squares = sum(weight**2 for weight in counted.tolist())
    assert sums.squares == (squares if weighted else None)
    assert weighted or sums.effective_rows == n
    assert sums.integers() == expected
    assert sums.n_rows == n
    assert sums.n_zero == int((X == 0).all(axis=1).sum())
    assert sums.n_cut == 0
    for c in range(n_classes):
        assert sums.class_weights[c] == counted[classes == c].sum()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_means_are_those_of_the_definitions(n_classes):
    X, D, classes, theta = population(n_classes=n_classes)
    sums = row_score_sums(X, D, CAP, classes, theta, loss=True)
    n = len(X)
    A = np.column_stack([np.ones(n), project(X, D, CAP).values.T])
    s = np.column_stack([np.zeros(n), A @ theta.T])
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    residuals = (p - np.eye(n_classes)[classes])[:, 1:]
    v = (residuals[:, :, None] * A[:, None, :]).reshape(n, -1)
    np.testing.assert_allclose(sums.mean_score(), v.mean(axis=0), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(sums.mean_second(), v.T @ v / n, rtol=1e-12, atol=1e-11)
    q = p[:, 1:]
    fisher = sum(
        np.kron(np.diag(row) - np.outer(row, row), np.outer(a, a))
        for row, a in zip(q, A, strict=True)
    )
    np.testing.assert_allclose(sums.mean_fisher(), fisher / n, rtol=1e-12, atol=1e-11)
    loss = -np.log(p[np.arange(n), classes]).mean()
    np.testing.assert_allclose(sums.mean_loss(), loss, rtol=1e-12)


def test_means_are_correctly_rounded():
    X, D, classes, theta = population(n=50)
    sums = row_score_sums(X, D, CAP, classes, theta)
    scaled = np.array(sums.integers()[:5], dtype=object) / (50 * QUANTA)
    assert sums.mean_score().tolist() == (scaled.astype(float) * sums.units).tolist()


def test_the_loss_of_a_hopeless_row_is_finite():
    D, classes = np.eye(2), np.array([0, 1], np.uint8)
    sums = row_score_sums(
        np.eye(2), D, 1.0, classes, np.array([0.0, 1e6, -1e6]), fisher=False, loss=True
    )
    assert 699 < sums.mean_loss() < 701


# --- the cap and the units --------------------------------------------------------------------


def test_rows_are_shortened_to_the_cap():
    X, D, _, _ = population()
    values, n_zero, n_capped = project(X, D, CAP)
    lengths = np.linalg.norm(X, axis=1)
    shortened = X * np.minimum(1, CAP / np.maximum(lengths, 1e-300))[:, None]
    np.testing.assert_allclose(values, D @ shortened.T, rtol=1e-12, atol=1e-12)
    assert (n_zero, n_capped) == (1, int((lengths > CAP).sum()))
    units = np.array([1.0, 2.0**9, 2.0**9, 2.0**9, 2.0**9])
    expected = [projected_row(x, D, CAP, units) for x in X]
    assert (values.T / units[1:]).tolist() == [row[1:] for row in expected]


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_no_projection_exceeds_its_unit(seed, cap):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((3, 20)) * 10.0 ** rng.integers(-3, 4, (3, 1))
    units = projection_units(D, cap)
    lengths = cap * np.linalg.norm(D, axis=1)
    assert (units[1:] > lengths).all()
    assert (units[1:] <= 2.001 * lengths).all()
    assert np.array_equal(np.frexp(units)[0], np.full(4, 0.5))
    X = D * 1e6  # as long as can be, along the directions
    assert row_score_sums(X, D, cap, np.zeros(3, np.uint8), np.zeros(4)).n_cut == 0
    assert (np.abs(project(X, D, cap).values) <= units[1:, None]).all()


def test_units_need_a_cap():
    with pytest.raises(ValueError, match="cap must be positive and finite"):
        projection_units(np.eye(2), math.inf)


def test_without_a_cap_projections_are_cut_to_the_units():
    X, D, classes, theta = population()
    units = np.array([1.0, 8.0, 8.0, 8.0, 8.0])
    sums = row_score_sums(X, D, math.inf, classes, theta, units)
    values = project(X, D).values
    assert sums.n_cut == int((np.abs(values) > 8).any(axis=0).sum()) > 0
    assert sums.n_capped == 0
    cut = Projected(np.clip(values, -8, 8), 1, 0)
    assert sums.limbs.tolist() == score_sums(cut, classes, theta, units).limbs.tolist()


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_rows_of_extreme_length_keep_their_direction(make):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((6, 20))
    D = rng.standard_normal((3, 20))
    scaled = X * 10.0 ** np.array([[0], [150], [300], [-150], [-300], [100]])
    exact = D @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
    far = project(make(scaled), D, 1e-3)
    np.testing.assert_allclose(far.values[:, [0, 1, 2, 5]], 1e-3 * exact[:, [0, 1, 2, 5]])
    assert (np.abs(far.values[:, 3:5]) < 1e-100).all()
    assert far.n_zero == 0
    assert far.n_capped == 4


def test_a_row_of_tiny_numbers_is_not_a_row_of_zeros():
    X = np.array([[1e-300, 0.0], [0.0, 0.0], [-0.0, 0.0]])
    assert project(X, np.eye(2), 1.0).n_zero == 2
    assert project(sp.csr_matrix(X), np.eye(2), 1.0).n_zero == 2


# --- the same bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 7, 11])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_dense_and_sparse_kept_and_not_have_the_same_bits(k, n_classes):
    X, D, classes, theta = population(k=k, n_classes=n_classes)
    expected = row_score_sums(X, D, CAP, classes, theta, loss=True)
    for rows in (X, sp.csr_matrix(X), sp.csr_array(X), np.asfortranarray(X)):
        once = row_score_sums(rows, D, CAP, classes, theta, loss=True)
        assert everything(once) == everything(expected)
        kept = score_sums(project(rows, D, CAP), classes, theta, expected.units, loss=True)
        assert everything(kept) == everything(expected)
    fortran = row_score_sums(sp.csr_matrix(X), np.asfortranarray(D), CAP, classes, theta, loss=True)
    assert everything(fortran) == everything(expected)


def test_single_precision_is_widened():
    X, D, classes, theta = population()
    narrow = X.astype(np.float32)
    expected = row_score_sums(narrow.astype(np.float64), D, CAP, classes, theta)
    for rows in (narrow, sp.csr_matrix(narrow)):
        assert everything(row_score_sums(rows, D, CAP, classes, theta)) == everything(expected)


@given(
    cuts=st.lists(st.integers(0, 700), max_size=5),
    seed=st.integers(0, 100),
    weighted=st.booleans(),
)
@settings(max_examples=25)
def test_order_split_and_threads_do_not_matter(cuts, seed, weighted):
    X, D, classes, theta = population(n_classes=3)
    weights = np.random.default_rng(1).integers(0, 9, len(X)) if weighted else None
    expected = row_score_sums(X, D, CAP, classes, theta, weights=weights, loss=True)
    order = np.random.default_rng(seed).permutation(len(X))
    matrix = sp.csr_matrix(X)

    def work(block):
        members = order[block[0] : block[1]]
        rows = X if block[0] % 2 else matrix
        own = None if weights is None else weights[members]
        return row_score_sums(
            rows[members], D, CAP, classes[members], theta, weights=own, loss=True
        )

    edges = sorted([0, *cuts, len(X)])
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(work, pairwise(edges)))
    assert everything(reduce(add, parts)) == everything(expected)
    assert everything(reduce(add, parts[::-1])) == everything(expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_counts_like_equal_rows(n_classes):
    X, D, classes, theta = population(n_classes=n_classes)
    weights = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = row_score_sums(X, D, CAP, classes, theta, weights=weights, loss=True)
    repeated = row_score_sums(
        np.repeat(X, weights, axis=0), D, CAP, np.repeat(classes, weights), theta, loss=True
    )
    assert weighted.integers() == repeated.integers()
    assert weighted.class_weights.tolist() == repeated.class_weights.tolist()
    np.testing.assert_array_equal(weighted.mean_fisher(), repeated.mean_fisher())
    assert weighted.total_weight == repeated.n_rows
    kept = score_sums(project(X, D, CAP), classes, theta, weighted.units, weights, loss=True)
    assert everything(kept) == everything(weighted)


def test_fewer_parts_leave_the_others_as_they_are():
    X, D, classes, theta = population(n_classes=3)
    whole = row_score_sums(X, D, CAP, classes, theta, loss=True)
    score = row_score_sums(X, D, CAP, classes, theta, fisher=False, second=False)
    np.testing.assert_array_equal(score.mean_score(), whole.mean_score())
    no_fisher = row_score_sums(X, D, CAP, classes, theta, fisher=False, loss=True)
    np.testing.assert_array_equal(no_fisher.mean_second(), whole.mean_second())
    assert no_fisher.mean_loss() == whole.mean_loss()
    for missing in (score.mean_fisher, score.mean_second, score.mean_loss):
        with pytest.raises(ValueError, match="in these sums"):
            missing()


def test_nothing_is_written_to():
    X, D, classes, theta = population()
    matrix = sp.csr_matrix(X)
    arrays = [X, D, classes, theta, matrix.data, matrix.indices, matrix.indptr]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    row_score_sums(X, D, CAP, classes, theta)
    row_score_sums(matrix, D, CAP, classes, theta)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_sums_reach_the_stated_limits():
    # 2^26 of the heaviest rows, as 2^26 sums would be merged: the limbs stay far from overflow
    X, D, classes, theta = np.eye(2)[:1], np.eye(2), np.zeros(1, np.uint8), np.full(3, 20.0)
    sums = row_score_sums(X, D, 1.0, classes, theta, weights=np.array([MAX_WEIGHT]))
    one = sums.integers()
    for _ in range(26):
        sums = sums + sums
    assert sums.total_weight == 2**50
    assert sums.integers() == [value * 2**26 for value in one]
    assert np.abs(sums.limbs).max() < 2**62


def fields(sums, **changes):
    names = ["n_rows", "n_zero", "n_capped", "n_cut", "class_weights", "units", "parts"]
    return {name: getattr(sums, name) for name in names} | changes


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("fisher", [True, False])
def test_integers_and_back(n_classes, fisher):
    X, D, classes, theta = population(n_classes=n_classes)
    sums = row_score_sums(X, D, CAP, classes, theta, fisher=fisher, loss=True)
    again = ScoreSums.from_integers(sums.integers(), **fields(sums))
    assert everything(again) == everything(sums)
    assert everything(again + sums) == everything(sums + sums)


def test_integers_that_no_rows_can_give():
    X, D, classes, theta = population()
    sums = row_score_sums(X, D, CAP, classes, theta)
    whole = sums.integers()
    with pytest.raises(ValueError, match="There must be 35 sums"):
        ScoreSums.from_integers(whole[1:], **fields(sums))
    with pytest.raises(ValueError, match="do not come from rows"):
        ScoreSums.from_integers([2**62, *whole[1:]], **fields(sums))
    heavy = np.array([2**50, 1])
    with pytest.raises(ValueError, match="at most"):
        ScoreSums.from_integers(whole, **fields(sums, class_weights=heavy))


def test_what_cannot_be_added():
    X, D, classes, theta = population()
    sums = row_score_sums(X, D, CAP, classes, theta)
    for other in (
        row_score_sums(X, D, CAP, classes, theta, loss=True),
        row_score_sums(X, D, 2 * CAP, classes, theta),
        row_score_sums(X, D, CAP, classes, np.zeros((2, 5)), sums.units),
    ):
        with pytest.raises(ValueError, match="one protocol"):
            sums + other


@pytest.mark.parametrize("bad", [np.array([1.0] * 700), np.full(700, -1), np.full(700, 2**25)])
def test_weights_are_whole_numbers_in_their_range(bad):
    X, D, classes, theta = population()
    with pytest.raises((TypeError, ValueError), match="weights must be"):
        row_score_sums(X, D, CAP, classes, theta, weights=bad)


def test_no_rows_have_no_mean():
    X, D, classes, theta = population()
    sums = row_score_sums(X[:0], D, CAP, classes[:0], theta)
    assert set(sums.integers()) == {0}
    with pytest.raises(ValueError, match="no mean of no rows"):
        sums.mean_score()


# --- scores of shortened rows -----------------------------------------------------------------


@pytest.mark.parametrize("cap", [0.7, CAP, math.inf])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, np.float32])
def test_capped_scores_have_the_same_bits_without_numba(cap, make):
    X, D, _, _ = population()
    rows = make(X)
    intercepts = np.array([0.5, -1.0, 0.0, 2.0])
    all_four = capped_scores(rows, D, intercepts, cap)
    assert (portable.capped_scores(rows, D, intercepts, cap) == all_four).all()
    for j in range(4):
        alone = capped_scores(rows, D[j], float(intercepts[j]), cap)
        np.testing.assert_array_equal(alone, all_four[:, j])
        assert (portable.capped_scores(rows, D[j], intercepts[j], cap) == alone).all()
        if cap == math.inf:
            np.testing.assert_array_equal(alone, scores(rows, D[j], float(intercepts[j])))
    values = project(rows, D, cap).values
    np.testing.assert_array_equal(all_four, values.T + intercepts)


def test_scores_of_huge_rows_are_those_of_their_directions():
    X = np.array([[3e200, 4e200], [3.0, 4.0], [3e307, 4e307]])
    np.testing.assert_allclose(capped_scores(X, np.array([1.0, 2.0]), 0.0, 5.0), [11, 11, 11])


def digest():
    """Hash of sums of all kinds."""
    seen = hashlib.sha256()
    for n_classes in (2, 3):
        X, D, classes, theta = population(n_classes=n_classes)
        weights = np.arange(700) % 5
        counted = (None, weights) if n_classes == 2 else (weights, None)
        for rows, counts in zip((X, sp.csr_matrix(X)), counted, strict=True):
            sums = row_score_sums(rows, D, CAP, classes, theta, weights=counts, loss=True)
            seen.update(sums.limbs.tobytes())
        seen.update(capped_scores(X, D, np.ones(4), CAP).tobytes())
    return seen.hexdigest()


@pytest.mark.slow
def test_another_processor_gives_the_same_bits():
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    code = "from tests.unit.test_logistic_kernel import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest()


def test_scores_are_cut_to_their_largest_sizes():
    rng = np.random.default_rng(5)
    X, classes = rng.normal(size=(400, 3)), rng.integers(0, 2, 400).astype(np.uint8)
    directions, theta, most = np.eye(3), np.array([0.1, 0.5, -0.2, 0.0]), np.full(4, 0.3)
    sums = row_score_sums(X, directions, CAP, classes, theta, most=most)
    a = np.column_stack([np.ones(400), X])
    residuals = 1 / (1 + np.exp(-a @ theta)) - classes
    cut = np.clip(residuals[:, None] * a, -0.3, 0.3)
    np.testing.assert_allclose(sums.mean_score(), cut.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(sums.mean_second(), cut.T @ cut / 400, atol=1e-12)
