"""One fit on all rows: sums against their twin, the same bits in any order, a good solver."""

from functools import reduce
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize as scipy_minimize

import replearn as rl
from replearn.datasets import make_margin
from replearn.errors import ReplearnError
from replearn.kernels.slopes import row_scores, slope_sums
from replearn.plans.plan_rows import plan_rows
from replearn.plans.sizes import Guarantee, Sizes
from replearn.stages.row_fit import KeptRows, minimize
from tests.reference import slope_integers

PROMISE = {"margin": 0.2, "max_disagreement": 0.5, "estimate": "rows"}


def population(n=300, d=19, seed=0):
    """Half of the entries are zeros, one row is empty, one enormous."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    X[n // 2] = 0
    X[n // 3] *= 1e180
    signs = np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)
    return X, signs, rng.standard_normal(d + 1)


def cut(X, signs, places):
    return zip(np.split(X, places), np.split(signs, places), strict=True)


# --- sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("class_weights", [(1.0, 1.0), (0.25, 1.0)])
def test_sums_are_those_of_the_definition(intercept, class_weights):
    X, signs, direction = population(60)
    X[20] /= 1e180  # the twin knows no other lengths
    direction = direction[: 19 + intercept]
    found = slope_sums(X, signs, direction, class_weights).integers()
    expected = slope_integers(X, signs, direction, class_weights)
    assert found[:-1] == expected[:-1]
    assert abs(found[-1] - expected[-1]) <= 60 * 2**4  # the logarithm is not libm's


def test_sums_know_no_order_and_no_chunks_and_no_zeros():
    X, signs, direction = population()
    direction = direction[:-1]  # without an intercept a row of zeros has no direction
    whole = slope_sums(X, signs, direction)
    assert (whole.n_rows, whole.n_zero) == (299, 1)
    order = np.random.default_rng(1).permutation(300)
    parts = (slope_sums(*part, direction) for part in cut(X[order], signs[order], [7, 100, 101]))
    sparse = slope_sums(sp.csr_matrix(X), signs, direction)
    for other in (reduce(add, parts), sparse):
        assert other.integers() == whole.integers()
        assert (other.n_rows, other.n_zero) == (299, 1)


def test_kept_rows_know_no_order_and_count_equal_rows():
    X, signs, direction = population()
    X, signs = np.tile(X, (3, 1)), np.tile(signs, 3)
    whole = KeptRows.of(direction, 50, X, signs)
    order = np.random.default_rng(1).permutation(900)
    parts = (KeptRows.of(direction, 50, *part) for part in cut(X[order], signs[order], [7, 400]))
    merged = reduce(add, parts)
    for name in ("keys", "counts", "rows", "scores", "positive"):
        assert np.array_equal(getattr(whole, name), getattr(merged, name)), name
    assert len(whole.keys) == 50
    assert (whole.counts == 3).all()
    assert np.allclose(np.linalg.norm(whole.rows, axis=1), 1)
    assert np.allclose(whole.rows @ direction, whole.scores)


# --- the solver -------------------------------------------------------------------------------


def objective(X, signs, weight):
    V = X / np.linalg.norm(X, axis=1, keepdims=True) * signs[:, None]

    def value(u):
        s = V @ u
        slopes = 1 / (1 + np.exp(s))
        return np.logaddexp(0, -s).mean() + weight / 2 * u @ u, weight * u - slopes @ V / len(V)

    return value


@pytest.mark.parametrize("weight", [0.3, 3e-3, 1e-5])
@pytest.mark.parametrize("separable", [True, False])
def test_the_solver_gets_as_near_to_the_minimum_as_it_says(weight, separable):
    X, y = make_margin(2000, 12, margin=0.1, decay=1.0, label_noise=0 if separable else 0.2)
    signs, near = y.astype(np.int8), 1e-4
    found = minimize(lambda u: slope_sums(X, signs, u), 12, weight, near, unit=False)
    assert found.distance <= near
    assert found.n_passes < 150
    value = objective(X, signs, weight)
    exact = scipy_minimize(
        value, found.vector, jac=True, method="BFGS", options={"gtol": 1e-9 * weight}
    )
    slack = np.linalg.norm(exact.jac) / weight  # scipy stops too
    assert np.linalg.norm(found.vector - exact.x) <= near + slack
    assert found.value == pytest.approx(value(found.vector)[0], rel=1e-9)


def test_labels_without_signal_end_too():
    X, _ = make_margin(500, 5, margin=0.1, random_state=0)
    signs = np.tile([1, -1], 500).astype(np.int8)
    found = minimize(lambda u: slope_sums(np.repeat(X, 2, axis=0), signs, u), 5, 0.01, 1e-3, True)
    assert np.linalg.norm(found.vector) < 1e-9


# --- the estimator ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    X, y = make_margin(6000, 8, margin=0.2, random_state=3)
    return X, y


@pytest.fixture(scope="module")
def fitted(rows):
    return rl.ReplicableSVMClassifier(**PROMISE).fit(*rows)


def test_a_fit_says_what_it_did(rows, fitted):
    X, y = rows
    assert fitted.score(X, y) > 0.9
    assert fitted.plan_.spent.n_dropped == 0
    assert "passes over them" in str(fitted.plan_)
    assert 0 <= fitted.certificate_.estimated_disagreement <= 1
    assert 0 < fitted.certificate_.disagreement_bound <= 1


@pytest.mark.parametrize("other", ["order", "sparse", "threads", "file"])
def test_the_same_rows_give_the_same_bytes(rows, fitted, other, tmp_path):
    X, y = rows
    again = rl.ReplicableSVMClassifier(**PROMISE)
    if other == "order":
        order = np.argsort(X[:, 0])
        again.fit(X[order], y[order])
    elif other == "sparse":
        again.fit(sp.csr_matrix(X), y)
    elif other == "threads":
        again.set_params(n_jobs=2, shuffle=False).fit(X, y)
    else:
        order = np.argsort(y)  # sorted labels are no trouble
        np.savez(tmp_path / "rows.npz", X=X[order], y=y[order])
        rl.fit_file(again, tmp_path / "rows.npz", memory=0)
    assert again.fingerprint_ == fitted.fingerprint_
    assert again.certificate_ == fitted.certificate_


def test_hints_are_followed(rows):
    lead = rl.ReplicableSVMClassifier(**PROMISE, hint_bits=3).fit(*rows)
    follower = rl.ReplicableSVMClassifier(**PROMISE, hint_bits=3, hint=lead.hint_).fit(*rows)
    assert follower.fingerprint_ == lead.fingerprint_


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")  # of so fine a grid
def test_weights_of_classes_move_the_boundary(rows):
    X, y = rows
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.15, -y, y)
    plain, weighted = (
        rl.ReplicableSVMClassifier(**PROMISE, grid_width=1e-3, class_weight=weights).fit(X, y)
        for weights in (None, {-1: 0.1, 1: 1.0})
    )
    assert (weighted.predict(X) == 1).mean() > (plain.predict(X) == 1).mean() + 0.05


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"estimate": "all"}, "estimate must be one of"),
        ({"margin": "auto"}, "needs a margin"),
        ({"mode": "certified"}, 'needs mode="practical"'),
        ({"batch_size": 50}, "batch_size belongs to"),
        ({"constants": {"C1": 1.0}}, "constants belong to"),
        ({"regularization": 1e-7}, "at least 1e-05"),
    ],
)
def test_what_does_not_go_together_is_refused(rows, parameters, rule):
    with pytest.raises(ReplearnError, match=rule):
        rl.ReplicableSVMClassifier(**(PROMISE | parameters)).fit(*rows)


def test_sums_of_batches_are_refused():
    with pytest.raises(ReplearnError, match="takes several rounds"):
        rl.ReplicableSVMClassifier(**PROMISE).batch_plan(5)


def test_scores_are_those_of_the_rows():
    X, signs, direction = population()
    scores, sizes = row_scores(X, signs, direction)
    assert sizes[150] == 1  # the constant
    assert sizes[100] > 1e80
    X[100] /= 1e180
    ones = np.hstack([X, np.ones((300, 1))])
    lengths = np.linalg.norm(ones, axis=1)
    expected = signs * (ones @ direction) / lengths
    expected[100] = signs[100] * (X[100] @ direction[:-1]) / np.linalg.norm(X[100])
    assert np.allclose(scores, expected)


def test_more_rows_are_asked_for_where_more_is_promised():
    def needed(d=100, sizes=None, **promise):
        promise = {"margin": 0.1, "max_error": 0.05, "max_disagreement": 0.1} | promise
        return plan_rows(Guarantee(**promise, failure_prob=0.05), d, sizes=sizes).n_samples

    assert needed(d=1000) > needed() > needed(d=20)
    assert needed(max_disagreement=0.05) > 3 * needed()
    assert needed(max_error=0.01) > needed()
    assert needed(margin=0.05) > needed()
    assert needed(sizes=Sizes(hint_bits=2)) < needed() / 10


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_a_protocol_keeps_the_estimate(rows, tmp_path):
    X, y = rows
    settings = {"samples_per_site": 3000, "algorithm": "svm", "estimates": ["rows"]}
    plan = rl.plan_from_pilot(X[:400], y[:400], **settings)
    assert plan.chosen.estimate == "rows"
    plan.protocol.save(tmp_path / "study.json")
    again = rl.Protocol.load(tmp_path / "study.json")
    assert again.fingerprint == plan.protocol.fingerprint
    fitted = again.estimator().fit(X[400:], y[400:])
    assert fitted.plan_.regularization == again.parameters["regularization"]
    assert fitted.score(X[:400], y[:400]) > 0.9
    with pytest.raises(ReplearnError, match="takes several rounds"):
        fitted.batch_plan(9)
    text = (tmp_path / "study.json").read_text().replace('"rows","failure', '"halves","failure')
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(ReplearnError, match="estimate must be"):
        rl.Protocol.load(tmp_path / "odd.json")
