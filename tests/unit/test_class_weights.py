"""Published weights of classes: what they do to each algorithm, and what labs share of them."""

import warnings

import numpy as np
import pytest

import replearn as rl
from replearn.kernels import gradient_descent as sgd
from replearn.kernels import max_margin as svm
from replearn.kernels.exact import fixed_mean
from replearn.kernels.lanes import DenseRows
from replearn.kernels.tally import new_tally
from tests.reference import best_soft, directions, duality_gap, sgd_average

N = 4000


def draw(n_rows=N, seed=1, share=0.1):
    """One tenth positive, and no column tells them apart for certain."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < share).astype(int)
    X = rng.normal(size=(n_rows, 3)) + 0.8 * y[:, None] * [1, 0, 1]
    return X, y


X, Y = draw()


def quiet(function, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **keywords)


def recall(model, X=X, y=Y):
    return float((model.predict(X) == y)[y == 1].mean())


# narrow cells: what is tested is the weights, not the rounding
FINE = {"grid_width": 1e-4, "regularization": 0.1}
MAKERS = {
    "logistic": lambda **more: rl.ReplicableLogisticClassifier(samples_per_site=10**9, **more),
    "svm": lambda **more: rl.ReplicableSVMClassifier(**FINE, **more),
    "sgd": lambda **more: rl.ReplicableSGDClassifier(**FINE, **more),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_heavy_class_is_found_more_often(name):
    make = MAKERS[name]
    plain = quiet(make().fit, X, Y)
    heavy = quiet(make(class_weight={1: 9}).fit, X, Y)
    assert recall(heavy) > recall(plain) + 0.3
    # only ratios matter, and equal weights are none
    assert quiet(make(class_weight={0: 0.5, 1: 4.5}).fit, X, Y).fingerprint_ == heavy.fingerprint_
    assert quiet(make(class_weight={0: 2, 1: 2}).fit, X, Y).fingerprint_ == plain.fingerprint_


def test_a_logistic_fit_is_that_of_the_weighted_likelihood():
    from sklearn.linear_model import LogisticRegression

    found = quiet(MAKERS["logistic"](class_weight={0: 1, 1: 9}).fit, X, Y)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)  # directions, without a protocol
    full = LogisticRegression(C=1e4, class_weight={0: 1, 1: 9}).fit(rows, Y)
    apart = found.predict_proba(X)[:, 1] - full.predict_proba(rows)[:, 1]
    assert np.abs(apart).mean() < 0.05
    assert found.certificate_.estimated_disagreement is not None


@pytest.mark.parametrize("boxes", [(0.3, 0.3), (0.05, 0.5), (2.0, 0.1)])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_batch_solver_reaches_the_optimum_of_two_boxes(boxes, intercept):
    rng = np.random.default_rng(3)
    signs = rng.choice(np.array([-1, 1], np.int8), 40)
    rows = rng.normal(size=(40, 4)) + 0.5 * signs[:, None]
    accuracy = {"share": 0.9, "floor_margin": 0.0, "abs_gap": 1e-8, "rel_gap": 0.0}
    problem = svm.new_problem(boxes, **accuracy, max_sweeps=10_000, intercept=intercept)
    work = svm.Work(np.zeros(5), np.zeros(40), np.zeros(40), np.zeros(40, np.int64))
    svm.solve(DenseRows(rows, np.arange(40)), signs, problem, work)
    V, C = directions(rows, signs, intercept), np.where(signs > 0, boxes[1], boxes[0])
    u = work.u[: 4 + intercept]
    assert (work.alpha <= C).all()
    assert duality_gap(V, u, work.alpha, C) <= 1.1e-8
    np.testing.assert_allclose(u, best_soft(V, C)[0], atol=1e-3)


def test_descent_is_that_of_its_twin():
    rng = np.random.default_rng(4)
    signs = rng.choice(np.array([-1, 1], np.int8), 300)
    rows = rng.normal(size=(300, 4)) + 0.5 * signs[:, None]
    run = sgd.new_run(0.2, 0.04, 1.0, False, 300, class_weights=(0.2, 1.0))
    hi, lo = np.zeros((2, 1, 4), np.int64)
    state = sgd.new_state(4, run)
    sgd.advance(rows, signs, np.arange(300), run, state, hi, lo, new_tally())
    counts = np.where(signs > 0, 1.0, 0.2)
    twin = sgd_average(directions(rows, signs), 0.2, 0.04, 1.0, counts)
    np.testing.assert_allclose(fixed_mean(hi[0], lo[0], 1), twin, atol=1e-9)


def test_a_stream_knows_them():
    make = MAKERS["sgd"]
    whole = quiet(make(class_weight={1: 9}, shuffle=False).fit, X, Y)
    stream = make(class_weight={1: 9})
    for part in np.array_split(np.arange(N), 7):
        stream.partial_fit(X[part], Y[part], classes=[0, 1])
    assert stream.fingerprint_ == whole.fingerprint_


def test_a_protocol_publishes_balanced_weights(tmp_path):
    pilot = draw(1000, seed=2)
    plan = rl.plan_from_pilot(
        *pilot, samples_per_site=N, algorithm="svm", class_weight="balanced", shared_seed=3
    )
    share = pilot[1].mean()
    published = [float(weight) for weight in plan.protocol.parameters["class_weights"]]
    assert published == pytest.approx([share / (1 - share), 1], rel=2e-3)
    plan.protocol.save(tmp_path / "study.json")
    protocol = rl.Protocol.load(tmp_path / "study.json")
    assert protocol == plan.protocol
    model = quiet(protocol.estimator().fit, X, Y)
    plain = rl.plan_from_pilot(*pilot, samples_per_site=N, algorithm="svm", shared_seed=3).protocol
    assert "class_weights" not in plain.parameters
    assert recall(model) > recall(quiet(plain.estimator().fit, X, Y)) + 0.3
    with pytest.raises(rl.ReplearnError, match="fixed by the protocol"):
        protocol.estimator(class_weight={0: 1})


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("balanced", "another lab would weigh differently"),
        ("heavy", "None or a dict"),
        ({0: 1, 7: 2}, "got 7"),
        ({0: 1, 1: -1}, "positive number"),
        ({0: 1, 1: float("inf")}, "positive number"),
        ({0: 1, 1: 1e15}, "ratios"),
    ],
)
def test_odd_weights_are_refused(name, odd, message):
    with pytest.raises(rl.ReplearnError, match=message):
        MAKERS[name](class_weight=odd).fit(X, Y)


def test_modes_with_proofs_take_none():
    with pytest.raises(rl.ReplearnError, match="practical"):
        rl.ReplicableSVMClassifier(mode="certified", class_weight={1: 9}).fit(X, Y)
