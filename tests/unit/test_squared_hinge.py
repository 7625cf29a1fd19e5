"""One large-margin vector of all rows: against its twin, and the same bits in any order."""

import numpy as np
import pytest
import scipy.sparse as sp

from replearn.exact import squared_hinge, unit_rows
from replearn.exact.directions import products
from tests.populations import draw
from tests.reference import squared_hinge_vector


def directions(name, n, d, margin, seed=0):
    X, y = draw(name, n, d, margin, seed)
    return unit_rows(X, y, d)


@pytest.mark.parametrize("name", ["plain", "decoy", "adversary", "noise5"])
def test_it_is_the_minimiser(name):
    rows = directions(name, 3000, 8, 0.2)
    u = squared_hinge.fit(rows, 1e-5, np.zeros(8))
    np.testing.assert_allclose(u, squared_hinge_vector(rows / 2**20, 1e-5), rtol=2e-4, atol=1e-3)


def test_same_bits_in_any_order_and_form():
    rows = directions("decoy", 5000, 8, 0.2)
    expected = squared_hinge.fit(rows, 1e-5, np.zeros(8))
    order = np.random.default_rng(0).permutation(5000)
    for same in (rows[order], rows.astype(np.float32), sp.csr_matrix(rows)):
        np.testing.assert_array_equal(squared_hinge.fit(same, 1e-5, np.zeros(8)), expected)


def test_rows_that_are_not_looked_at_have_no_loss(monkeypatch):
    rows = directions("plain", 3000, 8, 0.2)
    looked_at = []
    monkeypatch.setattr(
        squared_hinge, "products", lambda rows, u: looked_at.append(len(rows)) or products(rows, u)
    )
    some = squared_hinge.fit(rows, 1e-6, np.zeros(8))
    assert min(looked_at) < 750
    monkeypatch.setattr(squared_hinge, "_SEEN_SHARE", 1 << 60)  # all rows, each time
    np.testing.assert_array_equal(squared_hinge.fit(rows, 1e-6, np.zeros(8)), some)


def test_leaving_a_group_out_is_a_fit_of_the_others():
    X = sp.random(1500, 100, density=0.1, format="csr", random_state=1)
    signs = np.where(X @ np.random.default_rng(0).normal(size=100) > 0, 1, -1).astype(np.int8)
    rows, groups = unit_rows(X, signs, 100), np.arange(1500) % 16
    u = squared_hinge.fit(rows, 1e-6, np.zeros(100))
    others = squared_hinge.without_each_group(rows, 16, 1e-6, u)
    for group in (0, 7):
        moved = squared_hinge.fit(rows[groups != group], 1e-6, u) - u
        assert np.linalg.norm(others[group] - u - moved) < 0.05 * np.linalg.norm(moved)


def test_a_group_that_has_all_rows_near_the_wall_can_be_left_out():
    X = np.tile([1.0, 0.0], (64, 1))
    X[3], X[19] = [0.2, 0.98], [0.2, -0.98]  # both in group 3 of 16
    rows = unit_rows(X, np.ones(64, dtype=np.int8), 2)
    u = squared_hinge.fit(rows, 1e-7, np.zeros(2))
    others = squared_hinge.without_each_group(rows, 16, 1e-7, u)
    np.testing.assert_allclose(others[3], [1, 0], atol=1e-5)
    np.testing.assert_allclose(others[4], u, atol=1e-3)


def test_a_jackknife_shows_how_much_labs_differ():
    ridge, groups = 1e-4, 16
    fits = []
    for seed in range(12):
        rows = directions("noise5", 4000, 6, 0.2, seed)
        fits.append(squared_hinge.fit(rows, ridge, np.zeros(6)))
    others = squared_hinge.without_each_group(rows, groups, ridge, fits[-1])
    jackknife = (groups - 1) / groups * ((others - others.mean(axis=0)) ** 2).sum()
    between = np.var(np.array(fits), axis=0, ddof=1).sum()
    assert 0.4 < jackknife / between < 2.5
