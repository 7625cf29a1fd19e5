"""Net, DP and boosting as estimators: same rows, same bytes; refusals and warnings in words."""

import numpy as np
import pytest
from scipy import sparse

from replearn.codes import HalfspaceModel
from replearn.errors import NotEnoughSamples, ReplearnError, ReplicabilityWarning
from replearn.estimators.boosting import ReplicableBoostingClassifier
from replearn.estimators.dp import ReplicableDPClassifier
from replearn.estimators.net import ReplicableNetClassifier
from tests.populations import draw

PROMISE = {"margin": 0.3, "max_error": 0.15, "max_disagreement": 0.5}

ESTIMATORS = {
    "net": (ReplicableNetClassifier, {"n_candidates": 3000}),
    "dp": (ReplicableDPClassifier, {"n_candidates": 3000}),
    "box": (ReplicableBoostingClassifier, {}),
    "foam": (ReplicableBoostingClassifier, {"rounding": "foam"}),
}


def made(name, **changes):
    kind, options = ESTIMATORS[name]
    return kind(**PROMISE | options | changes)


@pytest.fixture(scope="module")
def rows():
    return draw("plain", 6000, 4, 0.5, 5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_same_rows_same_bytes(name, rows, tmp_path):
    X, y = rows
    first = made(name).fit(X, y)
    assert first.score(X, y) > 0.8
    order = np.random.default_rng(0).permutation(len(y))
    same = [
        made(name).fit(X[order], y[order]),
        made(name, shuffle=False).fit(X, y),
        made(name, random_state=7).fit(X, y),
        made(name, n_jobs=2).fit(X, y),
        made(name).fit(sparse.csr_matrix(X), y),
        made(name).fit(X * 2.0**30, y) if not first.fit_intercept else first,
        made(name).fit(np.asfortranarray(X), y),
    ]
    assert {other.fingerprint_ for other in same} == {first.fingerprint_}
    assert made(name, shared_seed=1).fit(X, y).fingerprint_ != first.fingerprint_
    first.model_.save(tmp_path / "m.json")
    read = HalfspaceModel.load(tmp_path / "m.json")
    np.testing.assert_array_equal(read.predict(X), first.predict(X))
    assert read.design.recipe == name


@pytest.mark.parametrize("name", ESTIMATORS)
def test_directions_have_no_length(name, rows):
    X, y = rows
    scale = 2.0 ** np.random.default_rng(0).integers(-40, 40, size=(len(y), 1))
    plain = made(name, fit_intercept=False).fit(X, y)
    scaled = made(name, fit_intercept=False).fit(X * scale, y)
    assert plain.fingerprint_ == scaled.fingerprint_


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_certificate_speaks_of_two_labs(name, rows):
    found = made(name).fit(*rows).certificate_
    assert 0 <= found.expected <= 1
    assert 0 <= found.proved <= 1
    assert found.n_labs == 2
    assert "margin" in found.assumes


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_that_occur_again_are_counted(name, rows):
    X, y = rows
    assert "occur again" not in made(name).fit(X, y).certificate_.assumes
    twice = made(name).fit(np.vstack([X, X[:100]]), np.append(y, y[:100]))
    assert "100 rows occur again" in twice.certificate_.assumes


def test_privacy_with_secret_noise(rows):
    fitted = made("dp").fit(*rows)
    heat = float(fitted.plan_.inverse_temperature)
    assert fitted.privacy_epsilon_ == 2 * heat / 6000


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("net", {"mode": "best"}, "mode must be one of practical, certified, paper"),
        ("net", {"n_candidates": -1}, "n_candidates must be an integer of at least 1, got -1"),
        ("net", {"n_candidates": 0}, "n_candidates must be an integer of at least 1, got 0"),
        ("dp", {"n_components": 2.5}, "n_components must be an integer of at least 1, got 2.5"),
        ("foam", {"n_rounds": 0}, "n_rounds must be an integer of at least 1, got 0"),
        ("box", {"grid_width": 0.0}, "grid_width must be a number of at least 1e-30, got 0"),
        ("net", {"projection": "moon", "n_components": 2}, "projection must be one of"),
        ("net", {"mode": "certified"}, "certified mode derives n_candidates"),
        ("net", {"constants": {"C1": 2.0}}, 'constants belong to mode="paper"'),
        ("net", {"mode": "paper", "constants": {"C9": 1.0}}, "constants has no 'C9'"),
        ("dp", {"populations": "some"}, 'populations must be "margin" or "all"'),
        ("dp", {"mode": "paper", "populations": "all"}, "sizes has no 'populations'"),
        ("box", {"rounding": "cube"}, 'rounding must be "box" or "foam"'),
        ("box", {"mode": "certified", "n_rounds": 3}, "certified mode derives n_rounds"),
        ("box", {"n_rounds": 1 << 20}, "boosting runs at most"),
        ("box", {"margin": 2}, "margin must be a number in"),
    ],
)
def test_refusals(name, change, words, rows):
    with pytest.raises(ReplearnError, match=words):
        made(name, **change).fit(*rows)


def test_nets_that_nobody_can_search_are_planned_and_refused():
    X, y = draw("plain", 200, 30, 0.3, 1)
    options = {"mode": "paper", "n_rows": 100, "n_candidates": None}
    for name in ("net", "dp"):
        with pytest.raises(ReplearnError, match="The net must have at most"):
            made(name, **options).fit(X, y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_too_few_rows_are_counted(name, rows):
    kind, options = ESTIMATORS[name]
    rounding = {key: value for key, value in options.items() if key == "rounding"}
    promise = PROMISE | {"max_disagreement": 0.1}
    with pytest.raises(NotEnoughSamples, match="certified mode needs") as caught:
        kind(**promise, **rounding, mode="certified").fit(*rows)
    assert caught.value.available == 6000
    assert caught.value.needed > 6000


def test_the_proved_promise_of_the_mechanism_is_within_reach(rows):
    fitted = ReplicableDPClassifier(**PROMISE, mode="certified").fit(*rows)
    assert fitted.certificate_.proved <= 0.5
    assert fitted.plan_.n_rows <= 6000


def test_tiny_cells_have_a_file(rows, tmp_path):
    fitted = made("box", grid_width=1e-7, max_disagreement=0.99, n_rounds=1)
    with pytest.warns(ReplicabilityWarning):
        fitted.fit(*rows)
    fitted.model_.save(tmp_path / "m.json")
    assert HalfspaceModel.load(tmp_path / "m.json") == fitted.model_


def test_foam_has_few_dimensions():
    X, y = draw("plain", 100, 30, 0.3, 1)
    with pytest.raises(ReplearnError, match="at most 24 inputs, got 31"):
        made("foam").fit(X, y)


@pytest.mark.filterwarnings("ignore:A second lab")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_zero_rows_are_left_out_or_refused(name):
    X, y = draw("plain", 300, 4, 0.5, 5)
    X[::2] = 0.0
    fitted = made(name, fit_intercept=False, max_error=0.3).fit(X, y)
    assert fitted.counts_["zero_rows"] == 150
    alone = made(name, fit_intercept=False, max_error=0.3).fit(X[1::2], y[1::2])
    assert fitted.fingerprint_ == alone.fingerprint_
    with pytest.raises(ReplearnError, match="not all zero"):
        made(name, fit_intercept=False).fit(np.zeros((10, 4)), y[:10])


@pytest.mark.filterwarnings("ignore:The model is wrong on")  # of these rows in any case
def test_what_it_warns_of():
    X, y = draw("noisy", 2000, 4, 0.3, 5)
    with pytest.warns(ReplicabilityWarning, match="candidates is below the threshold"):
        made("net", max_error=0.01).fit(X, y)
    with pytest.warns(ReplicabilityWarning, match="The test was not passed within"):
        made("box", max_error=0.01, max_disagreement=0.99).fit(X, y)
    with pytest.warns(ReplicabilityWarning, match="second lab would get a different model"):
        made("dp", max_disagreement=0.001).fit(X[:200], y[:200])
    with pytest.warns(ReplicabilityWarning, match="cannot be estimated from 20 rows"):
        made("dp").fit(X[:20], y[:20])


@pytest.mark.filterwarnings("ignore:The test was not passed")
def test_paper_mode_with_sizes_by_hand(rows):
    X, y = rows
    net = made("net", mode="paper", n_components=3, n_rows=2000).fit(X, y)
    assert net.plan_.cover.projection == "gaussian"
    assert net.counts_["points"] == 2000
    dp = made("dp", mode="paper", n_components=3, n_rows=2000).fit(X, y)
    assert dp.plan_.populations == "all"
    for name in ("box", "foam"):
        fitted = made(name, mode="paper", n_rounds=3, grid_width=0.5, n_rows=6000).fit(X, y)
        assert 1 <= fitted.counts_["rounds"] <= 3
        assert fitted.score(X, y) > 0.8
