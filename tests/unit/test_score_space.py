"""How codes of logistic regression are decoded."""

import numpy as np
import pytest

from replearn.codes.basis import Basis
from replearn.codes.cells import CELLS, runs
from replearn.codes.decimals import decimal_table
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace

# distance from a lattice point to the furthest point of its cell, at unit volume [CS99]
COVERING = {"centre": 0.5, "a2": 0.6204, "d4": 0.8409, "e8": 1.0, "leech": np.sqrt(2)}


def space(rounding, q, shrink):
    return ScoreSpace(
        directions=Basis.from_directions(np.eye(q - 1)),
        cap="1",
        start=("0",) * q,
        shrink=(str(shrink),) * q,
        lift=decimal_table(np.eye(q)),
        rounding=rounding,
    )


@pytest.mark.parametrize(("name", "reach"), COVERING.items())
def test_a_cell_that_holds_the_start_says_nothing_against_it(name, reach):
    # shrink 0: nothing is believed but that the point is in its cell, and the start is
    q = max(2, CELLS[name].block)
    one = space(name, q, 0)
    n_blocks = runs(name, q)[0].n_blocks
    for seed in range(40):
        shared = SharedRandomness(seed)
        theta = one.theta(one.encode(np.zeros(q), shared), shared)
        furthest = max(0.0, reach - CELLS[name].radius)
        assert np.linalg.norm(theta) <= np.sqrt(n_blocks) * furthest + 1e-4


@pytest.mark.parametrize("rounding", ["centre", "e8", "leech+centre"])
def test_a_far_cell_overrules_the_start(rounding):
    # whatever the pilot believed, sites in a cell far away get a model of that cell or next to it
    q, shared = 26, SharedRandomness(3)
    one = space(rounding, q, 0)
    point = np.linspace(30, 50, q)
    codes = one.encode(point, shared)
    theta, centre = one.theta(codes, shared), space(rounding, q, 1).theta(codes, shared)
    for run in runs(rounding, q):
        for first in range(run.start, run.start + run.n_components, run.cell.block):
            part = slice(first, min(first + run.cell.block, q))
            assert np.linalg.norm((theta - centre)[part]) == pytest.approx(run.cell.radius)
            assert theta[part] @ centre[part] > 0


def test_what_is_believed_moves_the_centre_by_its_share():
    shared = SharedRandomness(5)
    point = np.array([0.3, -0.2, 0.4])
    codes = space("centre", 3, 1).encode(point, shared)
    centre = space("centre", 3, 1).theta(codes, shared)
    assert space("centre", 3, 0.75).theta(codes, shared) == pytest.approx(0.75 * centre)
