"""Every intermediate of Algorithms 1 and 2, against the printed steps."""

import numpy as np
import pytest

import replearn as rl
from replearn.codes import Coins
from replearn.errors import ReplearnError
from tests.populations import draw
from tests.reference import akround

SIZES = {"n_batches": 6, "batch_size": 50, "n_components": 8, "grid_width": 0.3}


@pytest.mark.parametrize("estimator", [rl.ReplicableSVMClassifier, rl.ReplicableSGDClassifier])
def test_a_trace_is_the_paper_line_by_line(estimator):
    X, y = draw("plain", 300, 5, 0.3, 0)
    fitted = estimator(mode="paper", margin=0.3, trace=True, **SIZES).fit(X, y)
    trace = fitted.trace_
    assert trace.directions.shape == (6, 5)  # paper mode has no intercept unless asked
    np.testing.assert_allclose(trace.mean_direction, trace.directions.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(trace.components, trace.projection @ trace.mean_direction)
    coins = zip(trace.components, 0.3 * trace.offsets, trace.thresholds, strict=True)
    expected = [akround(z, 0.3, o, u) for z, o, u in coins]
    np.testing.assert_allclose(trace.rounded, expected, atol=1e-9)
    np.testing.assert_allclose(trace.direction, trace.projection.T @ trace.rounded, atol=1e-9)
    unit = trace.direction / np.linalg.norm(trace.direction)
    np.testing.assert_allclose(unit, fitted.coef_[0], atol=1e-12)
    np.testing.assert_array_equal(trace.codes, fitted.model_.codes)


def test_unit_normals_have_the_margin_of_their_batch():
    X, y = draw("plain", 300, 5, 0.3, 0)
    how = {"mode": "paper", "margin": 0.3, "shuffle": False, "trace": True}
    trace = rl.ReplicableSVMClassifier(**how, **SIZES).fit(X, y).trace_
    np.testing.assert_allclose(np.linalg.norm(trace.directions, axis=1), 1.0)
    rows = (y / np.linalg.norm(X, axis=1))[:, None] * X
    for i, direction in enumerate(trace.directions):
        assert (rows[50 * i : 50 * (i + 1)] @ direction).min() >= 0.15


def test_one_fit_has_one_vector():
    X, y = draw("plain", 400, 4, 0.3, 0)
    fitted = rl.ReplicableSVMClassifier(margin=0.3, sketch_bits=3, trace=True).fit(X, y)
    assert fitted.trace_.directions.shape == (1, 5)
    assert repr(fitted.trace_).startswith("<Trace: directions (1, 5), mean_direction (5,), ")
    space, coins = fitted.model_.design.space, Coins(0)
    np.testing.assert_array_equal(
        space.encode(fitted.trace_.components, coins), fitted.trace_.codes
    )


def test_files_that_are_streamed_have_no_trace(tmp_path):
    X, y = draw("plain", 300, 3, 0.3, 0)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    lab = rl.ReplicableSVMClassifier(mode="paper", shuffle=False, trace=True, **SIZES)
    with pytest.raises(ReplearnError, match="trace needs rows in memory"):
        lab.fit_file(tmp_path / "rows.npz")
