"""Many classes with splines: fits by the information of each class, and spreads of coefficients."""

import numpy as np
import pytest

from replearn.glm import Coordinates, Multinomial, Summary, derivatives, influence_of, newton
from replearn.glm import sketched as glm
from replearn.rows import Block, MemoryBlocks

N_CLASSES, RIDGE = 12, "0.001"


@pytest.fixture(scope="module")
def rows():
    """Six columns as they are and as hats, which follow from each other but for bends."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(N_CLASSES, 6)) * 1.5
    y = rng.integers(0, N_CLASSES, 1500)
    x = centres[y] + rng.normal(size=(1500, 6))
    hats = np.concatenate([np.maximum(0, 1 - np.abs(x - knot)) for knot in range(-3, 4)], axis=1)
    terms = np.floor(np.clip(np.concatenate([x / 3, hats], axis=1), -4, 4) * 4096 + 0.5)
    return MemoryBlocks(Block(terms.astype(np.int16), y.astype(float)))


def fitted(rows):
    """The fit, and how many passes it took."""
    loss, n_passes = Multinomial(N_CLASSES), 0
    iterate = newton.start(loss, Summary.of(rows, loss), rows.n_terms + 1)
    while isinstance(iterate, newton.NewtonState):
        sums = iterate.sums(rows.blocks(), loss)
        iterate = newton.advance(iterate, sums, loss, float(RIDGE))
        n_passes += 1
    return iterate, n_passes


def influence(rows, theta):
    """By class, in coordinates of the rows."""
    loss, summary = Multinomial(N_CLASSES), Summary.of(rows, Multinomial(N_CLASSES))
    information = loss.information(summary.shares)
    coordinates = Coordinates.of(information, glm.moments_for(rows), float(RIDGE))
    return glm.spread_of(rows, loss, RIDGE, theta, coordinates, summary), coordinates


def test_a_fit_takes_few_passes(rows):
    theta, n_passes = fitted(rows)
    assert derivatives.form_of(theta.shape) == "classes"
    assert n_passes < 40  # with a diagonal alone of the first pass it took 189


def test_spreads_are_nearly_those_of_the_whole_matrix(rows):
    theta, _ = fitted(rows)
    by_class, coordinates = influence(rows, theta)
    loss, n_rows = Multinomial(N_CLASSES), rows.block.n_rows
    sums = derivatives.sums_at(rows.blocks(), loss, theta, 1 << 32)
    information = derivatives.mean_information(sums, loss, float(RIDGE))
    parts = coordinates.factors()
    exact = influence_of(rows.blocks(), loss, theta, information, parts, n_rows, float(n_rows))

    ratio = np.sqrt(by_class.variance / exact.variance)
    assert 0.95 < np.median(ratio) < 1.1
    assert 0.75 < ratio.min() < ratio.max() < 1.5


def test_the_order_of_rows_changes_no_bit_of_a_spread(rows):
    theta, _ = fitted(rows)
    order = np.random.default_rng(1).permutation(rows.block.n_rows)
    shuffled = MemoryBlocks(Block(rows.block.terms[order], rows.block.targets[order]))
    here, there = (influence(some, theta)[0] for some in (rows, shuffled))
    for name in ("observed", "expected", "m_observed", "m_expected"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
