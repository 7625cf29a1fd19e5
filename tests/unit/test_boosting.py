"""Boosting in parts: kernels against plain NumPy, codes, model files, plans, refusals."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from replearn import (
    InvalidFile,
    NotEnoughSamples,
    ReplearnError,
    ReplicabilityWarning,
    ReplicableBoostingClassifier,
    compare,
    load,
    replicable_mean,
    save,
)
from replearn.codes.boost_space import BoostSpace
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.kernels import foam
from replearn.plans.plan_boosting import MAX_FOAM_INPUTS, plan_boosting, servedio
from replearn.plans.sizes import Guarantee, Sizes
from replearn.stages.batches import Rows
from replearn.stages.boost_rounds import margins, round_sums, smooth_weights

X, Y = make_margin(4000, 4, margin=0.4, random_state=0)
SIGNS = Y.astype(np.int8)
PROMISE = Guarantee(0.5, 0.1, 0.1, 0.05)


def classifier(**parameters):
    # so lax that whatever seed a test takes is no reason for a warning
    return ReplicableBoostingClassifier(**{"margin": 0.4, "max_disagreement": 0.99} | parameters)


def normalised(rows, intercept):
    if intercept:
        rows = np.hstack([rows, np.ones((len(rows), 1))])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# ---------------------------------------------------------------- foam


def test_sin_squared():
    x = np.concatenate([np.linspace(-1, 2, 3001), [0.25, 0.5, 0.75, 1e-9, -1e-9, 123.4]])
    values = np.array([foam.sin_squared(v) for v in x])
    np.testing.assert_allclose(values, np.sin(np.pi * (x - np.round(x))) ** 2, rtol=0, atol=1e-15)
    assert ((values >= 0) & (values <= 1)).all()
    assert [foam.sin_squared(v) for v in (0.0, 1.0, -3.0, 0.5, 7.5)] == [0, 0, 0, 1, 1]
    assert foam.sin_squared(1e-9) == pytest.approx(np.pi**2 * 1e-18, rel=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6, 8])
def test_first_droplet_is_the_definition(d):
    rng = np.random.default_rng(d)
    for seed in range(20 if d < 6 else 3):
        shared, point = SharedRandomness(seed), rng.normal(size=d)
        found = foam.first_droplet(point, *shared.key("boost/0/foam"))
        for t in range(found + 1):
            height, *corner = shared.uniforms("boost/0/foam", d + 1, t)
            inside = (
                np.prod([foam.sin_squared(a - z) for a, z in zip(point, corner, strict=True)])
                > height
            )
            assert inside == (t == found)


def test_foam_codes_name_the_droplet():
    space = BoostSpace(3, "foam", "0.5", 1, "halfspace")
    shared, rng = SharedRandomness(4), np.random.default_rng(2)
    for _ in range(50):
        point = rng.normal(size=3)
        codes = space.encode_round(2, point, shared)
        centre = space.decode_round(2, codes, shared)
        assert (abs(point - centre) < 0.25).all()
        assert codes.size == space.codes_per_round == 4
        np.testing.assert_array_equal(space.encode_round(2, centre, shared)[1:].size, 3)


@pytest.mark.parametrize("rounding", ["box", "foam"])
def test_leaving_counts_the_points_with_other_codes(rounding):
    space = BoostSpace(3, rounding, "0.5", 1, "halfspace")
    rng = np.random.default_rng(3)
    for seed in range(20):
        shared = SharedRandomness(seed)
        point = rng.normal(size=3)
        codes = space.encode_round(1, point, shared)
        moved = rng.normal(scale=0.05, size=(200, 3))
        others = [space.encode_round(1, point + step, shared) for step in moved]
        expected = np.mean([not np.array_equal(other, codes) for other in others])
        assert space.leaving(1, point, codes, moved, shared) == expected


def test_golden_codes():
    point = np.array([0.31, -0.2, 0.77])
    shared = SharedRandomness("golden")
    box = BoostSpace(3, "box", "0.25", 1, "halfspace").encode_round(1, point, shared)
    drop = BoostSpace(3, "foam", "0.25", 1, "halfspace").encode_round(1, point, shared)
    assert box.tolist() == GOLDEN_BOX
    assert drop.tolist() == GOLDEN_FOAM


GOLDEN_BOX = [0, -2, 2]
GOLDEN_FOAM = [10, 0, -2, 2]


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
def test_sums_and_margins_are_those_of_numpy(make, intercept):
    rng = np.random.default_rng(0)
    raw = X[:500] * rng.lognormal(size=(500, 1))
    raw[7] = 0
    order = rng.permutation(500)
    rows = Rows(make(raw), SIGNS[:500], order)
    with np.errstate(invalid="ignore"):
        V = normalised(raw, intercept) * SIGNS[:500, None]
    voters = rng.normal(size=(3, V.shape[1]))
    for output in ("halfspace", "majority"):
        products = V @ voters.T
        if output == "majority":
            plain = products * SIGNS[:500, None]
            products = np.where(plain > 0, 1.0, -1.0) * SIGNS[:500, None]
            products[np.isnan(plain)] = np.nan
        said = margins(rows, order, voters, output)
        np.testing.assert_allclose(said, products.sum(axis=1)[order], atol=1e-12)
    said = margins(rows, order, voters, "halfspace")
    assert np.isnan(said[order == 7]).all() != intercept
    weights = smooth_weights(said, 2, 0.1, 1.5)
    excess = said - 0.2
    expected = np.where(excess <= 0, 1.0, np.exp(-1.5 * excess))
    np.testing.assert_allclose(weights, np.nan_to_num(expected), atol=1e-15)
    sums = round_sums(rows, order, weights, V.shape[1])
    kept = weights > 0
    mean = (weights[kept, None] * V[order][kept]).sum(axis=0) / weights.sum()
    np.testing.assert_allclose(sums.mean(), mean, atol=1e-14)
    assert sums.mass() == pytest.approx(weights.sum(), abs=1e-9)


def test_spread_is_the_error_of_the_mean():
    # weighted rows: the standard deviation of the mean, times sqrt(2) for the other lab
    rng = np.random.default_rng(8)
    weights = rng.random(4000)
    rows = Rows(X, SIGNS, np.arange(4000))
    sums = round_sums(rows, rows.order, weights, 4)
    V = X * SIGNS[:, None]
    exact = 2 * (weights[:, None] ** 2 * (V - sums.mean()) ** 2).sum(axis=0) / weights.sum() ** 2
    np.testing.assert_allclose((sums.spread() ** 2).sum(axis=0), exact, rtol=0.75)


# ---------------------------------------------------------------- estimator and model


@pytest.mark.parametrize("rounding", ["box", "foam"])
@pytest.mark.parametrize("output", ["halfspace", "majority"])
@pytest.mark.parametrize("fresh_rows", [True, False])
def test_fit_predict_save_load(rounding, output, fresh_rows, tmp_path):
    fitted = classifier(
        rounding=rounding, output=output, fresh_rows=fresh_rows, max_error=0.2, n_rounds=8
    ).fit(X, np.where(Y > 0, "ill", "healthy"))
    assert fitted.score(X, np.where(Y > 0, "ill", "healthy")) > 0.75
    assert 1 <= fitted.n_rounds_ <= 8
    model = fitted.model_
    assert model.codes.size == fitted.n_rounds_ * (5 + (rounding == "foam"))
    save(model, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    assert again == model
    assert (again.predict(X) == fitted.predict(X)).all()
    assert (again.predict(sp.csr_array(X)) == fitted.predict(X)).all()
    assert "rounds" in str(fitted.plan_)
    voters = model.space.voters(model.codes, model.shared)
    np.testing.assert_allclose(np.linalg.norm(voters, axis=1), 1, rtol=1e-12)
    inputs = np.hstack([X, np.ones((len(X), 1))])
    if output == "halfspace":
        total = voters.sum(axis=0)
        expected = inputs @ total / np.linalg.norm(total)
        assert fitted.coef_.shape == (1, 4)
    else:
        expected = np.where(inputs @ voters.T > 0, 1, -1).mean(axis=1)
        assert not hasattr(fitted, "coef_")
        assert not hasattr(model, "coef")
        assert compare(model, model).same
    np.testing.assert_allclose(fitted.decision_function(X), expected, atol=1e-12)


def test_comparison_of_majorities():
    first, second = (classifier(output="majority", shared_seed=s).fit(X, Y).model_ for s in (1, 2))
    found = compare(first, second)
    assert not found.same
    assert found.angle_degrees is None


def test_a_decoy_takes_more_than_one_round():
    rows, labels = make_margin(20_000, 6, 0.2, decoy=0.7, decay=0.5, random_state=1)
    fitted = classifier(margin=0.2).fit(rows, labels)
    assert fitted.n_rounds_ > 1
    assert fitted.score(rows, labels) > 0.95


def test_rows_without_direction_are_counted():
    zeros = X.copy()
    zeros[:50] = 0
    for fresh_rows in (True, False):
        sizes = {"fit_intercept": False, "fresh_rows": fresh_rows, "shuffle": False}
        fitted = classifier(**sizes, n_rounds=4, batch_size=1000 if fresh_rows else "auto")
        assert fitted.fit(zeros, Y).plan_.spent.n_zero_rows == 50


def test_all_rows_serve_all_rounds_however_few():
    rows, labels = make_margin(12, 6, 0.1, decoy=0.9, random_state=1)
    with pytest.warns(ReplicabilityWarning):
        fitted = classifier(max_error=0.01, grid_width=0.01, margin=0.1).fit(rows, labels)
    assert fitted.n_rounds_ > 1
    assert fitted.plan_.spent.n_dropped == 0


def test_nothing_but_rows_without_direction():
    with pytest.warns(ReplicabilityWarning):
        fitted = classifier(fit_intercept=False).fit(np.zeros((20, 3)), np.arange(20) % 2)
    assert fitted.n_rounds_ == 0
    assert (fitted.predict(X[:, :3]) == 0).all()


def test_private_coins_are_private():
    sizes = {"fresh_rows": True, "batch_size": 500}
    first, again, other = (
        classifier(**sizes, grid_width=1e-3, random_state=state) for state in (1, 1, 2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        prints = [c.fit(X, Y).fingerprint_ for c in (first, again, other)]
    assert prints[0] == prints[1] != prints[2]


def test_a_round_cap_is_a_warning():
    rows, labels = make_margin(5000, 6, 0.1, decoy=0.9, random_state=1)
    with pytest.warns(ReplicabilityWarning, match=r"test was not passed within 1 rounds.* Lower"):
        fitted = classifier(margin=0.1, n_rounds=1).fit(rows, labels)
    assert "test not passed" in str(fitted.plan_)


def test_too_few_rows_for_an_estimate():
    with pytest.warns(ReplicabilityWarning, match="cannot be estimated"):
        classifier(max_error=0.9).fit(X[:3], Y[:3] * [1, 1, -1] if abs(Y[:3].sum()) == 3 else Y[:3])
    with pytest.warns(ReplicabilityWarning, match=r"estimated probability of .* Get more rows"):
        classifier(max_disagreement=0.01, grid_width=0.01).fit(X, Y)


@pytest.mark.parametrize("mode", ["certified", "paper"])
@pytest.mark.parametrize("rounding", ["box", "foam"])
def test_promises_are_out_of_reach(mode, rounding):
    with pytest.raises(NotEnoughSamples) as caught:
        classifier(mode=mode, rounding=rounding).fit(X, Y)
    assert caught.value.needed > 10**9
    assert 'mode="practical"' in str(caught.value)


def test_paper_mode_by_hand():
    fitted = classifier(mode="paper", n_rounds=4, batch_size=1000, grid_width=0.2, max_error=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)  # four rounds are too few
        fitted.fit(X, Y)
    assert fitted.n_rounds_ == 4
    assert fitted.plan_.boost.statistic == "density"
    assert fitted.certificate_.disagreement_bound == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rounding": "leech"}, r"rounding must be one of box, foam, got 'leech'"),
        ({"output": "sum"}, r"output must be one of halfspace, majority, got 'sum'"),
        ({"fresh_rows": 3}, r'fresh_rows must be True, False or "auto", got 3'),
        ({"n_rounds": 0}, r'n_rounds must be "auto" or a positive integer, got 0'),
        ({"grid_width": -1}, r'grid_width must be "auto" or a positive number, got -1'),
        ({"batch_size": 100}, r"batch_size is the number of fresh rows .* Leave it out"),
        ({"mode": "fast"}, r"mode must be one of practical, certified, paper"),
        ({"constants": {"C1": 2}}, r'constants belong to mode="paper"'),
        ({"mode": "paper", "constants": {"C9": 2}}, r"unknown key 'C9'\. Boosting has C1"),
        ({"mode": "paper", "fresh_rows": False}, r"paper mode takes fresh rows"),
        ({"mode": "certified", "output": "majority"}, r"proves nothing about output=\"majority\""),
        ({"mode": "certified", "n_rounds": 3}, r"certified mode derives n_rounds"),
    ],
    ids=str,
)
def test_parameters(parameters, message):
    with pytest.raises(ReplearnError, match=message):
        classifier(**parameters).fit(X, Y)


def test_sorted_rows_matter_only_for_fresh_rows():
    order = np.argsort(Y, kind="stable")
    assert classifier(shuffle=False).fit(X[order], Y[order]).fingerprint_
    with pytest.raises(ReplearnError, match="looks sorted"):
        classifier(shuffle=False, fresh_rows=True).fit(X[order], Y[order])


def test_foam_says_what_it_would_cost():
    wide = np.random.default_rng(0).normal(size=(50, 40))
    message = rf"at most {MAX_FOAM_INPUTS} inputs, got 41 \(2\^41 is 2\.2e\+12, about .* seconds"
    with pytest.raises(ReplearnError, match=message):
        classifier(rounding="foam").fit(wide, np.arange(50) % 2)


# ---------------------------------------------------------------- plans


def test_certified_plans_are_the_totals_of_the_theory():
    box, drop = (plan_boosting(PROMISE, 10, "certified", rounding=r) for r in ("box", "foam"))
    assert box.boost.n_rounds == drop.boost.n_rounds == 4106
    assert 1e18 < box.n_samples < 3e18
    assert 3e18 < drop.n_samples < 8e18
    # rates: d^2 and d in the part of the weak learner
    for rounding, power in (("box", 2), ("foam", 1)):
        kept = [
            plan_boosting(PROMISE, d, "certified", rounding=rounding).boost.n_kept for d in (4, 16)
        ]
        assert kept[1] / kept[0] == pytest.approx(4**power, rel=0.02)


def test_a_plan_depends_on_the_arguments_alone():
    plans = [plan_boosting(PROMISE, 10, sizes=Sizes(grid_width=0.3)) for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0].grid_width == "0.3"
    assert replace(plans[0], by_hand=()) != plan_boosting(PROMISE, 10)


def test_servedio_has_the_weights_of_the_paper():
    threshold, decay = (float(text) for text in servedio(0.25))
    assert threshold == 0.25 / 2.25
    N = np.array([0.5, 3.0])
    np.testing.assert_allclose(smooth_weights(N, 0, threshold, decay), 0.75 ** (N / 2), rtol=1e-14)


# ---------------------------------------------------------------- replicable_mean


def test_replicable_mean_refuses():
    for arguments, message in (
        (([0.5] * 9, 0.1), r"needs [\d,]+ values, got 9\. Get more"),
        (([0.5, 2.0], 0.1), "values must be numbers from 0 to 1"),
        (([], 0.1), "values must be numbers from 0 to 1, at least one"),
        (([np.nan], 0.1), "values must be numbers from 0 to 1"),
        (([0.5], 0.0), r"tolerance must be a number in \(0, 1\), got 0\.0"),
        (([0.5], 0.1, 2), r"max_disagreement must be a number in \(0, 1\), got 2"),
        (([0.5], 0.1, 0.1, 0.05), "less than half of max_disagreement"),
    ):
        with pytest.raises(ReplearnError, match=message):
            replicable_mean(*arguments)


def test_replicable_mean_does_not_mind_the_order():
    rng = np.random.default_rng(0)
    values = rng.random(100_000)
    results = {
        replicable_mean(rng.permutation(values), 0.1, shared_seed=3, name="height")
        for _ in range(5)
    }
    assert len(results) == 1
    assert abs(results.pop() - 0.5) < 0.1


# ---------------------------------------------------------------- hostile files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boosting": "cone"}, "boosting must be one of box, foam"),
        ({"output": "sum"}, "output must be one of"),
        ({"n_rounds": 2**30}, "n_rounds must be an integer"),
        ({"n_rounds": 3}, "codes must be a list of"),
        ({"grid_width": "-1"}, "grid_width must be a positive decimal"),
        ({"extra": 1}, "must be an object with the keys"),
    ],
    ids=str,
)
def test_hostile_model_files(change, message, tmp_path):
    path = tmp_path / "m.json"
    save(classifier(rounding="foam", n_rounds=1, max_error=0.4).fit(X, Y).model_, path)
    document = json.loads(path.read_text("utf-8"))
    document["model"]["space"] |= change
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(InvalidFile, match=message):
        load(path)


def test_a_negative_proposal_is_refused(tmp_path):
    path = tmp_path / "m.json"
    save(classifier(rounding="foam", n_rounds=1, max_error=0.4).fit(X, Y).model_, path)
    document = json.loads(path.read_text("utf-8"))
    document["model"]["codes"][0] = -1
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(InvalidFile, match="must be the number of a proposal"):
        load(path)
