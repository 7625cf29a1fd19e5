"""Thousands of sparse columns: what is left out of the arithmetic of a few."""

import numpy as np
import pytest
from scipy import sparse

from replearn.glm import Bernoulli, Coordinates, Summary, fit, influence_of
from replearn.glm import sketched as glm
from replearn.glm.coordinates import MOST_IN_TRIANGLE
from replearn.glm.derivatives import mean_information, sums_at
from replearn.glm.influence_alone import influence_alone
from replearn.rows import Block, MemoryBlocks

N_ROWS, RIDGE = 4000, 0.01


@pytest.fixture(scope="module")
def words():
    """Rows of rare words; two frequent ones nearly always stand together."""
    rng = np.random.default_rng(0)
    n_columns = MOST_IN_TRIANGLE + 60
    dense = np.where(rng.random((N_ROWS, n_columns)) < 0.05, 4096.0, 0.0)
    dense *= rng.uniform(0.5, 2.0, size=dense.shape)
    dense[:, 0] = np.where(rng.random(N_ROWS) < 0.5, 4096.0, 0.0)
    dense[:, 1] = np.where(rng.random(N_ROWS) < 0.9, dense[:, 0], 4096.0 - dense[:, 0])
    terms = np.floor(dense).astype(np.int16)
    y = (rng.logistic(size=N_ROWS) < (terms[:, 0] - terms[:, 2]) / 4096).astype(float)
    return Block(sparse.csr_matrix(terms), y)


def influences(block, *, exactly=True):
    """By columns that are nearly all alone, and by the whole information matrix."""
    rows, loss = MemoryBlocks(block), Bernoulli()
    summary = Summary.of(rows, loss)
    theta = fit(rows, loss, str(RIDGE), summary)
    coordinates = Coordinates.of(loss.information(summary.shares), glm.moments_for(rows), RIDGE)
    alone = influence_alone(block, loss, theta, RIDGE, coordinates, N_ROWS, N_ROWS)
    if not exactly:
        return alone, None

    information = mean_information(sums_at([block], loss, theta, 1 << 32), loss, RIDGE)
    parts = coordinates.factors()
    return alone, influence_of([block], loss, theta, information, parts, N_ROWS, N_ROWS)


def test_moments_of_many_columns_are_mean_squares(words):
    squares = np.square(words.terms.toarray() / 4096.0).mean(axis=0)
    found = glm.moments_for(MemoryBlocks(words))
    np.testing.assert_allclose(found, [1.0, *squares], rtol=1e-12)
    few = Block(words.terms[:, :5], words.targets)
    assert glm.moments_for(MemoryBlocks(few)).shape == (6, 6)


def test_columns_alone_vary_nearly_as_all_of_them_say(words):
    alone, exact = influences(words)
    ratio = np.sqrt(alone.variance / exact.variance)[1:]
    assert 0.95 < np.median(ratio) < 1.05
    assert 0.8 < ratio.min() < ratio.max() < 1.25
    np.testing.assert_allclose(np.median(alone.effective / exact.effective), 1.0, rtol=0.2)


def test_the_order_of_rows_changes_no_bit(words):
    order = np.random.default_rng(1).permutation(N_ROWS)
    shuffled = Block(words.terms[order], words.targets[order])
    here, there = (influences(block, exactly=False)[0] for block in (words, shuffled))
    for name in ("observed", "expected", "m_observed", "m_expected"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
