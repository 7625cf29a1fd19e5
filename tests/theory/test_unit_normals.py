"""Algorithm 1 as printed has the rate tau^-6: docs/theory/proofs.md, 5a."""

import numpy as np
import pytest
from sklearn.svm import SVC

from replearn.codes import Coins, Promise, Sizes
from replearn.halfspaces.svm import SVM
from tests.theory.labs import sample


def hard_margin(rows):
    """The shortest u with ``<u, v> >= 1`` on all rows, and its duals."""
    both = np.vstack([rows, -rows])  # without an intercept: each row and its mirror image
    signs = np.repeat([1, -1], len(rows))
    machine = SVC(kernel="linear", C=1e8, tol=1e-9).fit(both, signs)
    duals = np.zeros(2 * len(rows))
    duals[machine.support_] = np.abs(machine.dual_coef_[0])
    return machine.coef_[0], duals[: len(rows)] + duals[len(rows) :]


def directions(name, n_rows, d, margin, seed):
    rows = sample(name, n_rows, d, margin, seed)
    return rows.signs[:, None] * rows.X / np.linalg.norm(rows.X, axis=1)[:, None]


@pytest.mark.parametrize("name", ["plain", "adversary", "decoy", "clusters"])
def test_leaving_a_row_out_turns_the_unit_normal_little(name, seed_block):
    """Each step of the proof, on 13 rows: exact inequalities, no chance."""
    rows = directions(name, 13, 4, 0.3, [seed_block, 5])
    u, duals = hard_margin(rows)
    length = np.linalg.norm(u)
    assert duals.sum() == pytest.approx(length**2, rel=1e-4)

    losses = []
    for i, row in enumerate(rows):
        other, _ = hard_margin(np.delete(rows, i, axis=0))
        assert np.linalg.norm(u - other) <= duals[i] + 1e-4
        assert other @ other >= length**2 - duals[i] ** 2 - 1e-3
        losses.append(max(0.0, 1 - other @ row) / np.linalg.norm(other))
        assert losses[-1] <= np.sqrt(5) * duals[i] / length + 1e-4
    assert sum(losses) <= np.sqrt(5) * length + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "adversary", "decoy"])
def test_the_mean_of_unit_normals_keeps_the_margin(name, seed_block):
    """The statement, with the solver of paper mode at a share near 1."""
    n, tau, share = 120, 0.3, 0.5
    by_hand = {"batch_size": n, "n_batches": 200, "margin_share": 0.99}
    plan = SVM.sizes(Promise(tau, 0.1, 0.1), 6, "paper", Sizes(by_hand))
    fitted = SVM.run(sample(name, 200 * n, 6, tau, [seed_block, 6]), plan, Coins(0))
    scores = directions(name, 4000, 6, tau, [seed_block, 7]) @ fitted.spread.point
    allowed = np.sqrt(5) / (share * tau**2 * (n + 1))
    assert (scores < 0.97 * (1 - share) * tau).mean() <= allowed < 0.5
