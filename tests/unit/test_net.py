"""Nets, error counts and searches: against their definitions, for every blocking."""

import itertools
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc
from sklearn.base import clone

import replearn as rl
from replearn.codes.net_space import NetSpace
from replearn.codes.nets import (
    decimal_down,
    decimal_up,
    lattice_size,
    lattice_volumes,
    log_cap,
    log_lattice_size,
    log_random_size,
    squared_length,
)
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.errors import InvalidFile, NotEnoughSamples, ReplearnError, ReplicabilityWarning
from replearn.kernels import error_counts as kernel
from replearn.plans.choice_sizes import proved_disagreement
from replearn.plans.plan_net import plan_dp, plan_net
from replearn.plans.sizes import Guarantee, NetSizes, Sizes
from replearn.stages import recipes
from replearn.stages.batches import Rows
from replearn.stages.net_search import (
    Net,
    choose_below,
    choose_noisy,
    fewest_errors,
    first_passing,
    largest_score,
    net_in_order,
    pack_points,
)
from replearn.stages.selection import ThresholdLaw, correlated_choice, draw_threshold, first_of

SHARED = SharedRandomness(3)
RANDOM = NetSpace(4, "none", 4, "random", 3000)
LATTICE = NetSpace(3, "none", 3, "lattice", lattice_size(3, "0.27"), "0.27")


def rows_of(n, d, seed=0, noise=0.05):
    X, y = make_margin(n, d, 0.2, label_noise=noise, random_state=seed)
    return Rows(X, y.astype(np.int8), np.arange(n))


def points_of(rows, space, shared=SHARED):
    return pack_points(rows, rows.order, space, shared)


def counts_by_numpy(rows, candidates):
    """Single precision, component after component; 0 is wrong."""
    signed = (rows.X * rows.signs[:, None]).astype(np.float32)
    # the kernel scales each row by a power of two, which changes no sign
    scores = np.zeros((candidates.shape[0], signed.shape[0]), dtype=np.float32)
    for c in range(signed.shape[1]):
        scores = scores + candidates[:, c : c + 1] * signed[:, c][None, :]
    return np.count_nonzero(scores <= 0, axis=1)


def all_counts(points, space, shared=SHARED):
    net = Net(space, shared, range(space.n_candidates))
    everything = np.arange(space.n_candidates)
    return net.counts(points, everything, np.full(everything.size, points.n_points))


# ---------------------------------------------------------------- error counts


@given(st.integers(1, 70), st.integers(1, 9), st.integers(1, 23), st.integers(0, 10**6))
@settings(max_examples=40)
def test_counts_are_the_definition(n, d, n_candidates, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.exp2(rng.integers(-20, 20, size=(n, 1)))
    X[rng.random((n, d)) < 0.3] = 0.0
    rows = Rows(X, rng.choice(np.array([-1, 1], dtype=np.int8), n), rng.permutation(n))
    candidates = rng.normal(size=(n_candidates, d)).astype(np.float32)
    candidates[rng.random(candidates.shape) < 0.2] = 0.0
    kept = np.flatnonzero(np.abs(X).sum(axis=1))
    if kept.size == 0:
        return
    points = points_of(rows, NetSpace(d, "none", d, "random", 1))
    assert points.n_points == kept.size
    expected = counts_by_numpy(Rows(X[kept], rows.signs[kept], kept), candidates)
    counts = np.empty(n_candidates, dtype=np.int64)
    limits = np.full(n_candidates, n)
    kernel.count_errors(points.packs, candidates, limits, counts)
    assert (counts == expected).all()
    limits = rng.integers(-1, n + 1, n_candidates)
    kernel.count_errors(points.packs, candidates, limits, counts)
    assert (counts == np.minimum(expected, limits + 1)).all()


def test_a_point_on_the_boundary_is_wrong():
    rows = Rows(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, -1], dtype=np.int8), np.arange(2))
    points = points_of(rows, NetSpace(2, "none", 2, "random", 1))
    counts = np.empty(2, dtype=np.int64)
    candidates = np.array([[1.0, 0.0], [1.0, -1.0]], dtype=np.float32)
    kernel.count_errors(points.packs, candidates, np.array([9, 9]), counts)
    assert counts.tolist() == [1, 0]


@pytest.mark.parametrize("projection", ["none", "gaussian", "hadamard", "rotation"])
@pytest.mark.parametrize("intercept", [False, True])
def test_dense_sparse_single_and_double_make_equal_points(projection, intercept):
    X = make_margin(300, 6, 0.2, random_state=1)[0].astype(np.float32)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    X[7] = 0.0
    signs, order = np.ones(300, dtype=np.int8), np.arange(300)
    full = projection in ("none", "rotation")
    space = NetSpace(6 + intercept, projection, 6 + intercept if full else 4, "random", 10)
    packs = [
        points_of(Rows(data, signs, order), space)
        for data in (X, X.astype(np.float64), sp.csr_matrix(X))
    ]
    n_zero = 0 if intercept else int((np.abs(X).sum(axis=1) == 0).sum())
    for other in packs[1:]:
        assert packs[0].n_points == other.n_points == 300 - n_zero
        np.testing.assert_array_equal(packs[0].packs, other.packs)


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 1.7e308])
def test_rows_of_any_size_are_directions(size):
    direction = np.array([[0.5, -0.25, 0.125]])
    space = NetSpace(3, "none", 3, "random", 1)
    rows = Rows(direction * size, np.array([1], dtype=np.int8), np.arange(1))
    lane = points_of(rows, space).packs[0, :, 0]
    np.testing.assert_allclose(lane / lane[0], direction[0] / direction[0, 0], rtol=1e-2)


def test_points_are_projected_and_signed():
    rows = rows_of(50, 6)
    space = NetSpace(6, "gaussian", 3, "random", 10)
    packs = points_of(rows, space).packs
    got = packs.transpose(0, 2, 1).reshape(-1, 3)[:50]
    expected = (rows.X @ space.matrix(SHARED)) * rows.signs[:, None]
    np.testing.assert_allclose(
        got / np.linalg.norm(got, axis=1, keepdims=True),
        expected / np.linalg.norm(expected, axis=1, keepdims=True),
        atol=1e-6,
    )


# ---------------------------------------------------------------- nets


def test_random_candidates_are_rows_of_their_stream():
    indices = np.array([5, 0, 2**40])
    for row, index in zip(RANDOM.candidates(indices, SHARED), indices, strict=True):
        expected = SHARED.normals("net/candidates", 4, row=int(index)).astype(np.float32)
        assert (row == expected).all()


def test_candidate_bits_never_change():
    space = NetSpace(3, "none", 3, "random", 1 << 40)
    candidate = space.candidates(np.array([123456789]), SharedRandomness(2024))[0]
    assert [float(x).hex() for x in candidate] == [
        "-0x1.e28b3c0000000p-2",
        "-0x1.8e1ee20000000p-1",
        "-0x1.b8db8e0000000p-1",
    ]


@pytest.mark.parametrize(("k", "radius"), [(1, "0.3"), (2, "0.2"), (3, "0.27"), (4, "0.5")])
def test_lattice_net_is_the_ball_without_its_origin(k, radius):
    space = NetSpace(k, "none", k, "lattice", lattice_size(k, radius), radius)
    net = space.candidates(np.arange(space.n_candidates), SHARED).astype(int)
    widest = squared_length(k, radius)
    side = range(-math.isqrt(widest), math.isqrt(widest) + 1)
    ball = [v for v in itertools.product(side, repeat=k) if 0 < sum(x * x for x in v) <= widest]
    assert [tuple(v) for v in net.tolist()] == ball


@given(st.integers(1, 12), st.floats(0.2, 0.95))
def test_lattice_size_is_at_most_its_bound(k, radius):
    text = decimal_up(radius)
    if log_lattice_size(k, text) < 30:
        assert math.log(lattice_size(k, text) + 1) <= log_lattice_size(k, text)


@given(st.integers(2, 300), st.floats(0.01, 0.99))
def test_cap_is_the_incomplete_beta_function(k, radius):
    share = 0.5 * betainc((k - 1) / 2, 0.5, radius**2)
    if share > 1e-280:
        assert math.exp(log_cap(k, radius)) == pytest.approx(share, rel=1e-9)


def test_sizes_of_random_nets():
    # tau = .3, sine .9 tau, failure .05, as in the tables of the theory
    sizes = [math.ceil(math.exp(log_random_size(d, 0.27, 0.05))) for d in (3, 5, 6)]
    assert sizes == [162, 2933, 11973]


@given(st.floats(1e-12, 1e12))
def test_decimals_round_to_the_safe_side(value):
    assert float(decimal_down(value)) <= value <= float(decimal_up(value))
    assert float(decimal_up(value)) <= float(decimal_down(value)) * 1.011


def test_a_lattice_that_is_too_fine_is_refused():
    with pytest.raises(ReplearnError, match="at most 64 components"):
        lattice_volumes(3, "0.0001")
    with pytest.raises(ReplearnError, match=r"fewer than 2\^60"):
        lattice_volumes(40, "0.1")


def test_decode_lifts_the_candidate():
    space = NetSpace(6, "gaussian", 3, "random", 10)
    candidate = space.candidates(np.array([4]), SHARED)[0].astype(np.float64)
    np.testing.assert_allclose(
        space.decode(np.array([4]), SHARED), space.matrix(SHARED) @ candidate
    )


# ---------------------------------------------------------------- searches


def threaded(function, blocks):
    with ThreadPoolExecutor(3) as pool:
        yield from pool.map(function, blocks)


@pytest.mark.parametrize("space", [RANDOM, LATTICE], ids=lambda space: space.net)
@pytest.mark.parametrize("run", [map, threaded], ids=["map", "threads"])
def test_lazy_search_finds_what_full_enumeration_finds(space, run):
    rows = rows_of(700, space.n_inputs)
    for seed in range(40):
        shared = SharedRandomness(seed)
        points = points_of(rows, space, shared)
        net = net_in_order(space, space.n_candidates, shared, run)
        counts = all_counts(points, space, shared)
        limit = int(shared.uniforms("limit", 1)[0] * 250)
        found = first_passing(points, net, limit, limit + 40)
        order = np.asarray(net.order)
        if counts.min() > limit:
            assert found.candidate == -1
            seen = order
        else:
            assert found.candidate == first_of(counts, limit, order)
            assert found.n_errors == counts[found.candidate]
            seen = order[: np.flatnonzero(order == found.candidate)[0]]
        near = [i for i in seen if limit < counts[i] <= limit + 40]
        assert found.near.tolist() == near
        assert found.near_counts.tolist() == counts[near].tolist()
        best = fewest_errors(points, net)
        assert best.candidate == first_of(counts, -1, order)
        assert best.n_errors == counts.min()


@pytest.mark.parametrize("space", [RANDOM, LATTICE], ids=lambda space: space.net)
def test_pruned_mechanism_is_the_full_one(space):
    rows = rows_of(700, space.n_inputs)
    for seed in range(40):
        shared = SharedRandomness(seed)
        points = points_of(rows, space, shared)
        counts = all_counts(points, space, shared)
        for heat in (5.0, 60.0, 700.0):
            full = correlated_choice(-heat * (counts / points.n_points), shared, purpose="net")
            sizes = NetSizes(space.net, space.n_candidates, "0", "gumbel", inverse_temperature=heat)
            assert choose_noisy(points, space, sizes, shared).candidate == full
            noise = shared.gumbels("net/gumbel", space.n_candidates)
            net = Net(space, shared, range(space.n_candidates), threaded)
            found = largest_score(points, net, heat, noise, reach=0.5)
            assert found.candidate == full
            scores = noise - heat * (counts / points.n_points)
            near = set(np.flatnonzero(scores >= scores[full] - 0.5)) - {full}
            assert set(found.near) == near


def test_equal_scores_go_to_the_lower_index():
    rows = rows_of(64, 4)
    points = points_of(rows, RANDOM)
    noise = np.zeros(RANDOM.n_candidates)
    net = Net(RANDOM, SHARED, range(RANDOM.n_candidates))
    found = largest_score(points, net, 1.0, noise, 0.0)
    assert found.candidate == np.argmin(all_counts(points, RANDOM))


@pytest.mark.parametrize("cell", ["0", "0.02"])
def test_choice_below_is_the_definition(cell):
    rows = rows_of(2000, 4, noise=0.02)
    sizes = NetSizes("random", 3000, "0.1", "first_below", low="0.03", high="0.2", cell=cell)
    law = ThresholdLaw(0.03, 0.2, float(cell))
    for seed in range(30):
        shared = SharedRandomness(seed)
        points = points_of(rows, RANDOM, shared)
        rates = all_counts(points, RANDOM, shared) / points.n_points
        limit = draw_threshold(law, float(rates.min()), shared, "net")
        choice = choose_below(points, RANDOM, sizes, shared)
        assert choice.candidate == first_of(rates, limit, np.arange(3000))
        assert choice.below == bool(rates.min() <= limit)


def test_lazy_search_stops_early():
    rows = rows_of(1000, 4, noise=0.0)
    sizes = NetSizes("random", 10**9, "0.1", "first_below", low="0.1", high="0.2")
    space = replace(RANDOM, n_candidates=10**9)
    choice = choose_below(points_of(rows, space), space, sizes, SHARED)
    assert choice.below
    assert choice.n_tested < 10_000


def test_rejection_is_the_reference():
    rows = rows_of(500, 4)
    points = points_of(rows, RANDOM)
    counts = all_counts(points, RANDOM)
    sizes = NetSizes("random", 3000, "0.1", "holenstein", inverse_temperature="40")
    expected = correlated_choice(-40 * (counts / 500), SHARED, method="holenstein", purpose="net")
    assert choose_noisy(points, RANDOM, sizes, SHARED).candidate == expected


# ---------------------------------------------------------------- plans

PROMISE = Guarantee(0.3, 0.1, 0.1, 0.05)


def test_certified_sizes():
    """The sizes of docs/net.md: rows, candidates."""
    table = {
        d: [
            (plan.n_samples, plan.net.n_candidates)
            for plan in (
                plan_net(PROMISE, d, "certified"),
                plan_dp(PROMISE, d, "certified"),
                plan_dp(PROMISE, d, "certified", calibration="generic"),
            )
        ]
        for d in (3, 4, 5, 6)
    }
    assert table == {
        3: [(940799, 250), (85140, 250), (1318221, 250)],
        4: [(1742454, 1060), (133944, 1230), (1790695, 815)],
        5: [(2703098, 4040), (179255, 4660), (2318212, 3110)],
        6: [(3936087, 15100), (230608, 17400), (2883158, 11600)],
    }


@given(
    st.integers(1, 6),
    st.floats(0.2, 0.8),
    st.floats(0.02, 0.4),
    st.floats(0.02, 0.4),
    st.floats(0.01, 0.4),
)
@settings(max_examples=30)
def test_certified_sizes_keep_their_own_promise(d, margin, eps, rho, delta):
    promise = Guarantee(margin, eps, rho, delta)
    for plan in (
        plan_net(promise, d, "certified"),
        plan_net(promise, d, "certified", agnostic=True),
        plan_net(promise, d, "certified", net="lattice"),
        plan_dp(promise, d, "certified"),
        plan_dp(promise, d, "certified", calibration="generic"),
    ):
        net = plan.net
        if net.net_failure != "0":
            assert float(net.net_failure) < 0.25 * min(rho, delta)
        if net.net == "random":
            missed = math.exp(-net.n_candidates * math.exp(log_cap(d, float(net.radius))))
            assert missed <= float(net.net_failure) * (1 + 1e-9)
        assert proved_disagreement(plan, plan.n_samples) <= rho * 1.01
        assert proved_disagreement(plan, 4 * plan.n_samples) < rho
        if plan.algorithm == "dp":
            heat, log = float(net.inverse_temperature), math.log(net.n_candidates)
            n = plan.n_samples
            failure = math.exp(log - n * -math.expm1(-heat / n) * eps) + float(net.net_failure)
            assert failure <= delta * (1 + 1e-9)
        elif not float(net.cell):
            assert float(net.high) < eps


def test_a_stronger_promise_needs_more_rows():
    base = {"margin": 0.4, "max_error": 0.1, "max_disagreement": 0.1, "failure_prob": 0.05}
    harder = {"margin": 0.3, "max_error": 0.05, "max_disagreement": 0.05, "failure_prob": 0.01}
    for make in (plan_net, plan_dp):
        rows = make(Guarantee(**base), 4, "certified").n_samples
        for name, value in harder.items():
            assert make(Guarantee(**base | {name: value}), 4, "certified").n_samples > rows


def test_projection_is_certified_when_it_pays():
    plan = plan_net(Guarantee(0.9, 0.1, 0.1, 0.05), 500, "certified")
    assert (plan.projection, plan.n_components) == ("gaussian", 27)
    assert plan.net.exceptions == "0.005"
    assert proved_disagreement(plan, plan.n_samples) <= 0.1


def test_sizes_by_hand_and_paper_mode():
    sizes = Sizes(n_components=2, batch_size=500)
    paper = plan_net(Guarantee(0.5, 0.1, 0.1, 0.05), 10, "paper", sizes)
    assert (paper.net.net, paper.net.radius, paper.projection) == ("lattice", "0.025", "gaussian")
    assert paper.net.n_candidates == lattice_size(2, "0.025")
    assert (paper.n_samples, paper.net.low, paper.net.high) == (500, "0.025", "0.075")
    assert "batch_size" in paper.by_hand
    constants = {"C1": 0.1, "C2": 2.0}
    auto = plan_net(Guarantee(0.5, 0.1, 0.1, 0.05), 10, "paper", constants=constants)
    log = math.log(1 / (0.1 * 0.5 * 0.1 * 0.05))
    assert auto.n_components == math.ceil(0.1 * log / 0.25)
    assert auto.n_samples == math.ceil(2 * log / (0.1 * 0.5**4 * 0.01))
    reduction = plan_dp(Guarantee(0.5, 0.1, 0.1, 0.05), 10, "paper", Sizes(n_components=2))
    assert reduction.n_samples == math.ceil((log / (0.1 * 0.25)) ** 2 / 0.01)
    assert proved_disagreement(reduction, reduction.n_samples) <= 0.101
    by_hand = plan_net(PROMISE, 30, net="random", n_candidates=77)
    assert (by_hand.net.n_candidates, by_hand.n_components) == (77, 24)
    assert "n_candidates" in by_hand.by_hand


def test_plan_does_not_depend_on_rows_and_prints():
    for make in (plan_net, plan_dp):
        plan = make(PROMISE, 5)
        assert "candidates" in str(plan)
        assert "5 inputs > none > 5 components" in str(plan)
        assert make(PROMISE, 5) == plan


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan_net(Guarantee(0.3, 0.1, 0.1, 0.05), 50, "certified"), r"about 10\^.*50 comp"),
        (lambda: plan_dp(Guarantee(0.3, 0.1, 0.1, 0.05), 12, "certified"), "use fewer features"),
        (lambda: plan_net(Guarantee(0.5, 0.1, 0.1, 0.05), 50, "paper"), r"10\^64.9 .*34 compo"),
        (lambda: plan_net(PROMISE, 9, net="lattice"), 'use net="random"'),
        (lambda: plan_dp(PROMISE, 9, n_candidates=10**9), "at most 16,777,216 candidates"),
        (lambda: plan_net(PROMISE, 3, net="lattice", n_candidates=5), "for random nets"),
        (lambda: plan_net(PROMISE, 3, "certified", n_candidates=5), "derives n_candidates"),
        (lambda: plan_net(PROMISE, 3, "certified", Sizes(n_components=2)), "derives n_components"),
        (lambda: plan_net(PROMISE, 3, "certified", Sizes(batch_size=9)), "at least 940,799, got 9"),
        (lambda: plan_net(PROMISE, 3, "certified", Sizes(projection="signs")), "none. and .gauss"),
        (
            lambda: plan_net(PROMISE, 3, "certified", Sizes(projection="gaussian"), net="lattice"),
            "lattice net without projection",
        ),
        (lambda: plan_net(PROMISE, 3, "certified", n_repeats=5), "n_repeats of at least"),
        (lambda: plan_net(PROMISE, 3, constants={"C1": 1.0}), "constants belong to"),
        (lambda: plan_net(PROMISE, 3, "paper", constants={"C9": 1.0}), "unknown key 'C9'"),
        (lambda: plan_net(PROMISE, 3, "paper", constants={"C1": -1.0}), "positive number"),
        (lambda: plan_net(PROMISE, 3, "quick"), "mode must be one of"),
        (lambda: plan_net(PROMISE, 3, net="grid"), "net must be one of"),
        (lambda: plan_dp(PROMISE, 3, calibration="x"), "calibration must be one of"),
        (lambda: plan_dp(PROMISE, 3, sampling="x"), "sampling must be one of"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_a_remedy(call, message):
    with pytest.raises(ReplearnError, match=message):
        call()


def test_a_fine_projection_is_refused_even_when_forced():
    promise = Guarantee(0.05, 0.1, 0.1, 0.05)
    with pytest.raises(ReplearnError, match="components"):
        plan_net(promise, 3, "certified", Sizes(projection="gaussian"))


# ---------------------------------------------------------------- classifiers


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        return estimator.fit(X, y)


@pytest.fixture(scope="module")
def data():
    return make_margin(20_000, 4, 0.3, random_state=1)


@pytest.fixture(scope="module", params=["net", "dp", "lattice", "holenstein"])
def model(request, data):
    estimator = {
        "net": rl.ReplicableNetClassifier(margin=0.3, max_error=0.1),
        "dp": rl.ReplicableDPClassifier(margin=0.3, max_error=0.1),
        "lattice": rl.ReplicableNetClassifier(margin=0.3, max_error=0.1, net="lattice"),
        "holenstein": rl.ReplicableDPClassifier(
            margin=0.3, max_error=0.1, sampling="holenstein", n_candidates=500
        ),
    }[request.param]
    fitted = fit(estimator, *data)
    assert fitted.score(*data) > 0.85
    return fitted.model_


def test_model_is_one_index(model, data):
    assert model.codes.shape == (1,)
    assert 0 <= model.codes[0] < model.space.n_candidates
    assert np.linalg.norm(model.direction) == pytest.approx(1)
    assert rl.compare(model, model).same


def test_model_file_round_trip(model, data, tmp_path):
    rl.save(model, tmp_path / "a.json")
    again = rl.load(tmp_path / "a.json")
    assert again == model
    assert (again.predict(data[0]) == model.predict(data[0])).all()


BAD_SPACES = {
    "index of one of": lambda m: m["codes"].__setitem__(0, m["space"]["n_candidates"]),
    "the code must be": lambda m: m["codes"].__setitem__(0, -1),
    "net must be one of": lambda m: m["space"].__setitem__("net", "grid"),
    "list of 1 integers": lambda m: m["codes"].append(1),
    "projection must be": lambda m: m["space"].__setitem__("projection", "x"),
    "n_components is 3 for 5": lambda m: m["space"].__setitem__("n_components", 3),
    "n_candidates must be an integer": lambda m: m["space"].__setitem__("n_candidates", 2**60),
    "object with the keys": lambda m: m["space"].__setitem__("more", 1),
}
BAD_LATTICES = {
    "size of this lattice": lambda m: m["space"].__setitem__("n_candidates", 7),
    "radius must be": lambda m: m["space"].__setitem__("radius", "nan"),
    "at most 64 components": lambda m: m["space"].__setitem__("radius", "0.0001"),
}


def edited(model, path, edit):
    import json

    rl.save(model, path)
    document = json.loads(path.read_text("utf-8"))
    edit(document["model"])
    path.write_text(json.dumps(document), "utf-8")
    return path


@pytest.mark.parametrize("message", BAD_SPACES)
def test_a_damaged_net_is_refused(message, data, tmp_path):
    model = fit(rl.ReplicableNetClassifier(margin=0.3, n_candidates=2000), *data).model_
    with pytest.raises(InvalidFile, match=message):
        rl.load(edited(model, tmp_path / "a.json", BAD_SPACES[message]))


@pytest.mark.parametrize("message", BAD_LATTICES)
def test_a_damaged_lattice_is_refused(message, data, tmp_path):
    model = fit(rl.ReplicableNetClassifier(margin=0.3, net="lattice"), *data).model_
    with pytest.raises(InvalidFile, match=message):
        rl.load(edited(model, tmp_path / "a.json", BAD_LATTICES[message]))


def test_models_of_two_spaces_are_compared(data):
    net = fit(rl.ReplicableNetClassifier(margin=0.3), *data).model_
    svm = fit(rl.ReplicableSVMClassifier(margin=0.3), *data).model_
    result = rl.compare(net, svm)
    assert not result.same
    assert "recipe is 'net' and 'svm'" in str(result)
    assert "net is 'random' and None" in str(result)


def test_privacy_parameter_is_reported(data):
    fitted = fit(rl.ReplicableDPClassifier(margin=0.3, max_error=0.1), *data)
    heat = float(fitted.plan_.net.inverse_temperature)
    assert fitted.privacy_epsilon_ == pytest.approx(2 * heat / 20_000)
    assert "privacy epsilon" in str(fitted.plan_)
    assert not hasattr(rl.ReplicableDPClassifier(), "privacy_epsilon_")


def test_privacy_parameter_bounds_the_weights():
    """Replacing one row changes no probability by more than a factor exp(privacy_epsilon)."""
    rng = np.random.default_rng(0)
    n, heat = 40, 30.0
    wrong = rng.random((25, n)) < 0.3
    for _ in range(200):
        other = wrong.copy()
        other[:, rng.integers(n)] = rng.random(25) < rng.random()
        logs = []
        for counts in (wrong.sum(axis=1), other.sum(axis=1)):
            weights = -heat * (counts / n)
            logs.append(weights - np.logaddexp.reduce(weights))
        assert np.abs(logs[0] - logs[1]).max() <= 2 * heat / n + 1e-12


def test_no_candidate_below_the_threshold_is_said():
    X, y = make_margin(3000, 4, 0.3, label_noise=0.2, random_state=0)
    with pytest.warns(ReplicabilityWarning, match="None of the .* set agnostic=True"):
        fitted = rl.ReplicableNetClassifier(margin=0.3, max_error=0.05).fit(X, y)
    assert not fitted.plan_.spent.below
    assert fitted.certificate_.estimated_disagreement is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        agnostic = rl.ReplicableNetClassifier(margin=0.3, max_error=0.05, agnostic=True).fit(X, y)
    assert agnostic.plan_.spent.below
    assert agnostic.score(X, y) > 0.72


def test_too_few_rows():
    X, y = make_margin(1000, 3, 0.3, random_state=0)
    for name in ("ReplicableNetClassifier", "ReplicableDPClassifier"):
        estimator = getattr(rl, name)(margin=0.3, max_error=0.1, mode="certified")
        with pytest.raises(NotEnoughSamples, match=r"certified mode needs [\d,]+ rows.*got 1,000"):
            estimator.fit(X, y)
    with pytest.warns(ReplicabilityWarning, match="cannot be estimated from 20 rows"):
        rl.ReplicableDPClassifier(margin=0.3, max_error=0.1).fit(X[:20], y[:20])
    noisy = make_margin(1000, 6, 0.1, label_noise=0.1, random_state=0)
    with pytest.warns(ReplicabilityWarning, match="above max_disagreement"):
        rl.ReplicableDPClassifier(margin=0.1, max_disagreement=0.05, shared_seed=3).fit(*noisy)
    with pytest.warns(ReplicabilityWarning, match="rejection sampling, which is a reference"):
        rl.ReplicableDPClassifier(margin=0.3, sampling="holenstein").fit(X, y)


def test_zero_rows_are_left_out():
    X, y = make_margin(5000, 3, 0.3, random_state=0)
    X[::10] = 0.0
    fitted = fit(rl.ReplicableNetClassifier(margin=0.3, fit_intercept=False), X, y)
    assert fitted.plan_.spent.n_zero_rows == 500
    kept = np.abs(X).sum(axis=1) > 0
    alone = fit(rl.ReplicableNetClassifier(margin=0.3, fit_intercept=False), X[kept], y[kept])
    assert alone.fingerprint_ == fitted.fingerprint_
    with pytest.raises(ReplearnError, match="not all zero, got 5,000"):
        rl.ReplicableNetClassifier(fit_intercept=False).fit(0 * X, y)


def test_labs_of_different_size_live_in_one_space(data):
    for name in ("ReplicableNetClassifier", "ReplicableDPClassifier"):
        plans = [
            replace(fit(getattr(rl, name)(margin=0.3), data[0][:n], data[1][:n]).plan_, spent=None)
            for n in (9_000, 11_000)
        ]
        assert plans[0] == plans[1]


def test_paper_mode_uses_its_rows_and_no_more(data):
    estimator = rl.ReplicableNetClassifier(
        margin=0.5, max_error=0.1, mode="paper", n_components=2, batch_size=4000
    )
    fitted = fit(estimator, *data)
    assert fitted.plan_.spent.n_dropped == 16_000
    assert fitted.plan_.net.net == "lattice"


def test_amplification_repeats_on_disjoint_rows(data):
    estimator = rl.ReplicableNetClassifier(margin=0.3, max_error=0.1, n_repeats=9)
    fitted = fit(estimator, *data)
    assert fitted.plan_.net.n_strings == 2
    assert fitted.model_.space.n_candidates == 2 * fitted.plan_.net.n_candidates
    assert fitted.score(*data) > 0.85
    assert fitted.certificate_.estimated_disagreement is not None
    with pytest.raises(ReplearnError, match="leave each repetition 16 rows"):
        rl.ReplicableNetClassifier(n_repeats=2000).fit(*data)
    with pytest.raises(ReplearnError, match="n_repeats must be a positive integer"):
        rl.ReplicableNetClassifier(n_repeats=0).fit(*data)
    ordered = np.argsort(data[1])
    with pytest.raises(ReplearnError, match="looks sorted"):
        rl.ReplicableNetClassifier(n_repeats=9, shuffle=False).fit(
            data[0][ordered], data[1][ordered]
        )


def test_recipes_are_what_the_classifiers_run(data):
    X, y = data
    rows = Rows(X, y.astype(np.int8), np.arange(y.size))
    shared = SharedRandomness("0")
    chosen = recipes.net(rows, plan_net(PROMISE, 4), shared)
    estimator = rl.ReplicableNetClassifier(margin=0.3, max_error=0.1, fit_intercept=False)
    assert (fit(estimator, X, y).model_.codes == chosen.codes).all()


def test_verbose_counts_blocks_and_changes_nothing(data, capsys):
    quiet = fit(rl.ReplicableNetClassifier(margin=0.3, agnostic=True, n_candidates=40_000), *data)
    assert capsys.readouterr().err == ""
    loud = fit(clone(quiet).set_params(verbose=1, n_jobs=2), *data)
    assert loud.fingerprint_ == quiet.fingerprint_
    assert "searching: 64 blocks\nsearching: 128 blocks" in capsys.readouterr().err
