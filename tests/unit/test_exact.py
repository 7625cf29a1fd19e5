import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from replearn.errors import ReplearnError
from replearn.exact import algebra, exp, log, sigmoid, softplus
from replearn.rows import (
    MAX_BLOCK,
    Block,
    ExactSums,
    MemoryBlocks,
    integers,
    marks,
    pieces,
    scores,
    term_hashes,
    with_constant,
)


@given(st.floats(-700, 700))
def test_exp_is_within_3e_10_of_libm(x):
    assert exp(np.array([x]))[0] == pytest.approx(math.exp(x), rel=3e-10)


@given(st.floats(1e-300, 1e300))
def test_log_is_within_1e_12_of_libm(x):
    assert log(np.array([x]))[0] == pytest.approx(math.log(x), rel=1e-12, abs=1e-12)


@given(st.floats(-1e6, 1e6))
def test_sigmoid_is_a_probability_and_symmetric_to_the_bit(score):
    up, down = sigmoid(np.array([score]))[0], sigmoid(np.array([-score]))[0]
    assert 0 < up < 1 or abs(score) >= 30
    assert up == pytest.approx(1 - down, abs=1e-15)
    if abs(score) < 30:
        assert up == pytest.approx(1 / (1 + math.exp(-score)), rel=1e-9)


def test_softplus_of_large_scores():
    found = softplus(np.array([-800.0, 0.0, 800.0]))
    assert found == pytest.approx([0.0, math.log(2), 800.0], abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_small_algebra_solves(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    matrix = root @ root.T + np.eye(n)
    lower = algebra.cholesky(matrix)
    assert lower @ lower.T == pytest.approx(matrix)
    right = rng.normal(size=(n, 3))
    assert matrix @ algebra.solve(lower, right) == pytest.approx(right)
    values, vectors = algebra.eigenvectors(matrix)
    assert vectors @ matrix @ vectors.T == pytest.approx(np.diag(values), abs=1e-9)
    assert values == pytest.approx(np.linalg.eigvalsh(matrix)[::-1])


def test_columns_that_are_zero_need_no_rotation():
    values, vectors = algebra.eigenvectors(np.diag([0.0, 2.0, 0.0]))
    assert values.tolist() == [2.0, 0.0, 0.0]
    assert vectors.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_a_matrix_that_is_not_positive_is_refused_unless_it_has_a_floor():
    with pytest.raises(ArithmeticError):
        algebra.cholesky(np.diag([1.0, -1.0]))
    assert algebra.cholesky(np.diag([1.0, -1.0]), floor=4.0)[1, 1] == 2.0


def test_scores_are_whole_numbers_that_no_order_changes():
    rng = np.random.default_rng(0)
    rows = with_constant(rng.integers(-(1 << 14), 1 << 14, (300, 400)).astype(np.int16))
    theta = np.floor(rng.uniform(-1, 1, (1, 401)) * 2.0**26)
    order = rng.permutation(401)
    exact = rows.astype(object) @ theta[0].astype(np.int64).astype(object)
    found = scores(rows, theta, None)[:, 0] * 2.0**38
    assert (found.astype(np.int64) == exact.astype(np.int64)).all()
    assert (scores(rows[:, order], theta[:, order], None) == scores(rows, theta, None)).all()


def test_scores_that_could_round_are_refused():
    with pytest.raises(ReplearnError, match="larger ridge"):
        scores(np.zeros((1, 1024)), np.full((1, 1024), 2.0**30), None)


def test_marks_follow_content_alone_and_are_well_mixed():
    rng = np.random.default_rng(1)
    terms = rng.integers(-4096, 4096, (20_000, 5)).astype(np.int16)
    dense = marks(terms)
    assert (marks(sparse.csr_array(terms)) == dense).all()
    assert (marks(terms[::-1])[::-1] == dense).all()
    counts = np.bincount(dense >> np.uint32(28), minlength=16)
    assert ((counts - 1250) ** 2 / 1250).sum() < 60  # chi-square of 15; 60 has p = 2e-7
    hashes = term_hashes(terms)
    assert (hashes >> np.uint64(32) == dense).all()
    lower = (hashes & np.uint64(0xFFFFFFFF)).astype(np.float64)
    assert np.corrcoef(dense, lower)[0, 1] == pytest.approx(0, abs=0.04)


def test_hashes_of_different_rows_differ():
    """Every row of twenty indicators, and neighbours in three numbers: the lattices of sums."""
    every = np.arange(1 << 20)[:, None] >> np.arange(20) & 1
    levels = (every * 4096).astype(np.int16)
    assert np.unique(term_hashes(levels)).size == 1 << 20

    numbers = np.stack(np.meshgrid(*[np.arange(-40, 40)] * 3), axis=-1).reshape(-1, 3)
    assert np.unique(term_hashes(numbers.astype(np.int16))).size == 80**3


def test_pieces_keep_sums_exact():
    block = Block(np.zeros((3 * MAX_BLOCK, 1), dtype=np.int16), np.zeros(3 * MAX_BLOCK))
    sizes = [piece.n_rows for piece in pieces(block, 2)]
    assert sum(sizes) == block.n_rows
    assert max(sizes) <= MAX_BLOCK
    assert next(MemoryBlocks(block).blocks()) is block


def test_sums_add_up_and_refuse_others():
    part = ExactSums("a pass", {"rows": integers([2**62])})
    assert (part + part + part).count("rows") == 3 * 2**62
    assert part.reals("rows")[0] == 2.0**62
    for other in (ExactSums("b", part.values), ExactSums("a pass", {"weight": integers([1])})):
        with pytest.raises(ReplearnError, match="one pass"):
            part + other
