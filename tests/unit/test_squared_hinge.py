"""One large-margin vector of all rows: against its twin, and the same bits in any order."""

import numpy as np
import pytest
import scipy.sparse as sp

from replearn.exact import squared_hinge, unit_rows
from tests.populations import draw
from tests.reference import squared_hinge_vector


def directions(name, n, d, margin, seed=0):
    X, y = draw(name, n, d, margin, seed)
    return unit_rows(X, y, d)


@pytest.mark.parametrize("name", ["plain", "decoy", "adversary", "noise5"])
def test_it_is_the_minimiser(name):
    rows = directions(name, 3000, 8, 0.2)
    u = squared_hinge.fit([rows], 1e-5, np.zeros(8))
    np.testing.assert_allclose(u, squared_hinge_vector(rows / 2**20, 1e-5), rtol=2e-4, atol=1e-3)


def test_same_bits_in_any_order_and_form():
    rows = directions("decoy", 5000, 8, 0.2)
    expected = squared_hinge.fit([rows], 1e-5, np.zeros(8))
    order = np.random.default_rng(0).permutation(5000)
    single = rows.astype(np.float32)
    for groups in (
        [rows[order]],
        [single[:1234], single[1234:]],
        [sp.csr_matrix(rows[:300]), sp.csr_matrix(rows[300:])],
    ):
        np.testing.assert_array_equal(squared_hinge.fit(groups, 1e-5, np.zeros(8)), expected)


def test_a_jackknife_shows_how_much_labs_differ():
    ridge, groups = 1e-4, 16
    fits = []
    for seed in range(12):
        rows = directions("noise5", 4000, 6, 0.2, seed)
        parts = [rows[place::groups] for place in range(groups)]
        fits.append(squared_hinge.fit(parts, ridge, np.zeros(6)))
    others = squared_hinge.without_each_group(parts, ridge, fits[-1])
    jackknife = (groups - 1) / groups * ((others - others.mean(axis=0)) ** 2).sum()
    between = np.var(np.array(fits), axis=0, ddof=1).sum()
    assert 0.4 < jackknife / between < 2.5
