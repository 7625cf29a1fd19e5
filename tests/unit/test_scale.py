"""Rows of the paper's algorithms are directions: no unit of the columns counts."""

import numpy as np
import pytest
import scipy.sparse as sp

import replearn as rl
from tests.populations import draw

PROMISE = {"margin": 0.3, "max_error": 0.1, "max_disagreement": 0.2, "shared_seed": 4}
SMALL = [
    (rl.ReplicableSVMClassifier, {"sketch_bits": 3}),
    (rl.ReplicableSGDClassifier, {"batch_size": 300}),
    (rl.ReplicableNetClassifier, {}),
    (rl.ReplicableDPClassifier, {}),
    (rl.ReplicableBoostingClassifier, {}),
]


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")
@pytest.mark.parametrize(("estimator", "sizes"), SMALL, ids=lambda value: str(value)[-40:])
def test_a_unit_of_the_columns_changes_nothing(estimator, sizes):
    X, y = draw("lengths", 3000, 4, 0.3, 0)
    fits = [estimator(**PROMISE, **sizes).fit(X * unit, y) for unit in (1.0, 2.0**-6, 2.0**9)]
    assert len({fit.fingerprint_ for fit in fits}) == 1
    np.testing.assert_array_equal(fits[0].predict(X), fits[0].predict(X * 1e-3))

    # a factor that is no power of two may move last digits of rows, and no prediction
    other = estimator(**PROMISE, **sizes).fit(X * 0.02, y)
    assert np.mean(other.predict(X * 0.02) == fits[0].predict(X)) > 0.99


def test_an_intercept_is_learned_at_any_scale():
    """All rows point to one side, and the constant tells the classes apart."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.2, 0.2, size=(3000, 3))
    y = np.arange(3000) % 2
    X[:, 0] += 1.0
    X[:, 1] += np.where(y, 1.5, 0.0)
    for unit in (1.0, 0.02, 50.0):
        fitted = rl.ReplicableSVMClassifier(margin=0.05, max_error=0.1, sketch_bits=4).fit(
            X * unit, y
        )
        assert fitted.score(X * unit, y) > 0.98


def test_certified_sizes_hold_at_any_scale():
    promise = {"margin": 0.5, "max_error": 0.2, "max_disagreement": 0.2, "failure_prob": 0.2}
    fit = rl.ReplicableSVMClassifier(mode="certified", sketch_bits=3, **promise)
    n_rows = rl.plan("svm", mode="certified", sketch_bits=3, n_features=4, **promise).plan.n_rows
    X, y = draw("lengths", n_rows, 4, 0.5, 1)
    fit.fit(X * 0.01, y)
    assert fit.score(X * 0.01, y) > 0.8


def test_lengths_of_sparse_and_extreme_rows():
    from replearn.exact import lengths

    rows = np.array([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0], [1e-300, 0.0, 0.0], [1e300, 1e300, 0.0]])
    expected = [5.0, 0.0, 1e-300, np.sqrt(2) * 1e300]
    np.testing.assert_allclose(lengths(rows), expected, rtol=1e-15)
    np.testing.assert_array_equal(lengths(sp.csr_matrix(rows)), lengths(rows))
