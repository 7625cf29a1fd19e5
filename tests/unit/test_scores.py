"""A score depends on the row and the model alone: not on other rows, their layout or BLAS."""

import numpy as np
import pytest
import scipy.sparse as sp

from replearn.kernels.scores import scores
from tests.reference import lane_dot

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 37)) * (rng.random((200, 37)) < 0.5)
W = rng.normal(size=37)
C = 0.3


def test_scores_are_sums_in_the_fixed_order():
    expected = [lane_dot(row, W) + C for row in X]
    assert scores(X, W, C).tolist() == expected
    np.testing.assert_allclose(scores(X, W, C), X @ W + C, rtol=1e-12, atol=1e-12)


def read_only(rows):
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


def unsorted(rows):
    matrix = sp.csr_matrix(rows)
    for i in range(matrix.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        matrix.indices[part] = matrix.indices[part][::-1]
        matrix.data[part] = matrix.data[part][::-1]
    return sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


@pytest.mark.parametrize(
    "make", [np.asfortranarray, read_only, sp.csr_matrix, sp.csr_array, sp.csc_matrix, unsorted]
)
def test_layouts_give_the_same_bits(make):
    assert (scores(make(X), W, C) == scores(X, W, C)).all()


def test_a_row_has_its_score_alone_and_among_others():
    alone = [scores(X[i : i + 1], W, C)[0] for i in range(200)]
    assert scores(X, W, C).tolist() == alone


def test_narrow_and_whole_numbers_are_widened():
    narrow = X.astype(np.float32)
    assert (scores(narrow, W, C) == scores(narrow.astype(np.float64), W, C)).all()
    whole = rng.integers(-9, 9, (50, 37)).astype(np.int8)
    assert (scores(whole, W, C) == scores(whole.astype(np.float64), W, C)).all()


def test_no_rows():
    assert scores(np.empty((0, 37)), W, C).shape == (0,)
