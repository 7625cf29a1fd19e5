"""Rows with levels beside the same rows with all indicators: every sum has the same bits."""

import numpy as np
import pytest

from replearn.glm import Bernoulli, Multinomial, influence_of
from replearn.glm.derivatives import sums_at
from replearn.glm.sketched import second_moments
from replearn.rows import Block, LevelRows, MemoryBlocks, joined, product, with_constant

ONE = 1 << 12
GROUPS = [slice(1, 10), slice(12, 24)]


@pytest.fixture
def rows():
    """Numbers in the columns 0, 10, 11 and 24, and two columns of levels, some cells without."""
    rng = np.random.default_rng(0)
    dense = rng.integers(-9000, 9000, (3000, 25)).astype(np.int16)
    for group in GROUPS:
        n_levels = group.stop - group.start
        chosen = rng.integers(0, n_levels + 1, len(dense))
        dense[:, group] = ONE * (chosen[:, None] == np.arange(1, n_levels + 1))
    return dense, LevelRows.of(dense, GROUPS, ONE)


def test_all_terms_come_back(rows):
    dense, levels = rows
    assert levels.shape == dense.shape
    assert (with_constant(levels)[:, 1:] == dense).all()
    assert (with_constant(levels[100:200])[:, 1:] == dense[100:200]).all()
    some = dense[:, 0] > 0
    twice = joined([Block(levels[some], some[some] * 1.0), Block(levels, some * 1.0)])
    assert (with_constant(twice.terms)[:, 1:] == np.concatenate([dense[some], dense])).all()


def test_products_and_marks_are_those_of_all_indicators(rows):
    dense, levels = rows
    right = np.random.default_rng(1).integers(-(2**20), 2**20, (26, 3)).astype(float)
    assert (product(levels, right) == with_constant(dense) @ right).all()
    assert (product(levels, right[:, :1]) == with_constant(dense) @ right[:, :1]).all()
    targets = np.zeros(len(dense))
    assert (Block(levels, targets).hashes == Block(dense, targets).hashes).all()


@pytest.mark.parametrize("loss", [Bernoulli(), Multinomial(4)])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("share", [0, 1 << 31, 1 << 32])
def test_sums_of_a_newton_step_are_those_of_all_indicators(rows, loss, whole, share):
    rng = np.random.default_rng(2)
    theta = rng.integers(-(2**24), 2**24, (loss.n_scores, 26)).astype(float)
    targets = rng.integers(0, loss.n_scores + 1, 3000).astype(float)
    weights = rng.integers(1, 2**16, 3000) * 2.0**-16
    found, expected = (
        sums_at([Block(terms, targets, weights)], loss, theta, share, whole)
        for terms in (rows[1], rows[0])
    )
    for name, value in expected.values.items():
        assert (found.values[name] == value).all(), name
        assert found.values[name].shape == value.shape


def test_moments_and_influences_are_those_of_all_indicators(rows):
    rng = np.random.default_rng(3)
    targets = rng.integers(0, 2, 3000).astype(float)
    both = [Block(terms, targets) for terms in rows]
    moments, expected = (second_moments(MemoryBlocks(block)) for block in both)
    assert (moments == expected).all()

    theta = rng.integers(-(2**24), 2**24, (1, 26)).astype(float)
    information = moments + 0.01 * np.eye(26)
    turns = np.eye(1), np.eye(26)
    found, there = (
        influence_of([block], Bernoulli(), theta, information, turns, 3000, 3000.0)
        for block in both
    )
    assert (found.observed == there.observed).all()
    assert (found.expected == there.expected).all()
    assert (found.effective == there.effective).all()
