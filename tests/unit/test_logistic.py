"""ReplicableLogisticClassifier: exact sums, hints, files, bad input."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss

import replearn as rl
from replearn.cli import main
from replearn.codes.hints import hinted, moves
from replearn.codes.randomness import SharedRandomness
from replearn.kernels.portable import sigmoid
from replearn.study.pilot.unlucky_seeds import unlucky_without_pilot

N_ROWS = 3000


def draw(n_rows=N_ROWS, seed=1, n_columns=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)) * np.arange(1, n_columns + 1) + 2
    scores = (X[:, 0] - 2) - 0.4 * (X[:, 1] - 2) - 1
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-scores))).astype(int)


@pytest.fixture(scope="module")
def plan():
    return rl.plan_from_pilot(*draw(800, seed=9), samples_per_site=N_ROWS, hint_bits=3)


def fitted(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        warnings.simplefilter("ignore", rl.UselessModelWarning)  # some seeds are unlucky
        return estimator.fit(X, y)


def test_no_order_chunk_thread_or_format_changes_a_byte(plan):
    X, y = draw()
    protocol = plan.protocol
    expected = fitted(protocol.estimator(), X, y)
    order = np.random.default_rng(0).permutation(N_ROWS)
    again = fitted(protocol.estimator(n_jobs=2), X[order], y[order])
    frame = pd.DataFrame(X[::-1], columns=[f"x{i}" for i in range(5)])
    framed = fitted(protocol.estimator(), frame, y[::-1])
    assert again.fingerprint_ == framed.fingerprint_ == expected.fingerprint_


@pytest.mark.parametrize("steps", [1, 4])
def test_dense_and_sparse_rows_of_both_precisions_agree(steps):
    X, y = draw()
    X = np.where(np.abs(X) > 1.5, X, 0).astype(np.float32)
    clf = rl.ReplicableLogisticClassifier(samples_per_site=N_ROWS, shared_seed="s")
    if steps == 1:
        published = rl.plan_from_pilot(
            sp.csr_matrix(X[:500].astype(np.float64)), y[:500], samples_per_site=N_ROWS
        ).protocol.estimator()
        clf = published
    prints = {
        fitted(clf, rows, y).fingerprint_
        for rows in (X, X.astype(np.float64), sp.csr_matrix(X))
        if steps == 4 or sp.issparse(rows)
    }
    assert len(prints) == 1


def test_probabilities_classes_and_scores_say_the_same(plan):
    X, y = draw(seed=4)
    clf = fitted(plan.protocol.estimator(), X, y)
    probability = clf.predict_proba(X)
    threshold = float(sigmoid(np.array([float(clf.model_.space.threshold)]))[0])
    assert np.allclose(probability.sum(axis=1), 1)
    assert ((probability[:, 1] > threshold) == (clf.decision_function(X) > 0)).all()
    assert (clf.predict(X) == clf.classes_[(clf.decision_function(X) > 0).astype(int)]).all()
    assert abs(threshold - draw(800, seed=9)[1].mean()) < 0.01


def test_long_rows_are_shortened_at_prediction_too(plan):
    X, y = draw()
    clf = fitted(plan.protocol.estimator(), X, y)
    far = clf.published.encoding.transform(X[:1])
    cap = float(clf.model_.space.cap)
    direction = far / np.linalg.norm(far)
    near, distant = (clf.model_.scores(direction * size) for size in (cap, 1e6 * cap))
    assert near == pytest.approx(distant, rel=1e-12)


def test_the_first_lab_sets_the_hint_and_others_take_it(plan):
    (X, y), (X2, y2) = draw(seed=1), draw(seed=2)
    lead = fitted(plan.protocol.estimator(), X, y)
    assert 0 <= lead.hint_ < 8
    other = fitted(plan.protocol.estimator(hint=lead.hint_), X2, y2)
    assert other.hint_ == lead.hint_
    repeated = fitted(plan.protocol.estimator(hint=lead.hint_), X, y)
    assert repeated.fingerprint_ == lead.fingerprint_


@pytest.mark.parametrize("hint", [8, -1, True, 1.0, "1"])
def test_a_hint_that_is_none_is_refused(plan, hint):
    with pytest.raises(rl.ReplearnError, match="hint must be an integer from 0 to 7"):
        plan.protocol.estimator(hint=hint).fit(*draw())


def test_a_hint_without_bits_is_refused():
    with pytest.raises(rl.ReplearnError, match="hint needs hint bits"):
        rl.ReplicableLogisticClassifier(hint=0).fit(*draw())


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_moves_spread_evenly_and_move_offsets_exactly(bits):
    table = moves(bits, 6)
    assert (np.sort(table, axis=0) == (np.arange(1 << bits) / (1 << bits))[:, None]).all()
    shared = SharedRandomness("moves")
    plain = shared.uniforms("rounding/offset", 6)
    for hint in range(1 << bits):
        moved = hinted(shared, bits, hint).uniforms("rounding/offset", 6)
        whole = (plain * 2**53).astype(int) + (table[hint] * 2**53).astype(int)
        assert (moved * 2**53 == whole % 2**53).all()
        assert (
            hinted(shared, bits, hint).uniforms("other", 4) == shared.uniforms("other", 4)
        ).all()


def test_model_and_protocol_files_round_trip(plan, tmp_path):
    X, y = draw()
    clf = fitted(plan.protocol.estimator(), X, y)
    rl.save(clf.model_, tmp_path / "a.json")
    loaded = rl.load(tmp_path / "a.json")
    assert loaded == clf.model_
    assert (loaded.predict_proba(X) == clf.predict_proba(X)).all()
    plan.protocol.save(tmp_path / "p.json")
    again = rl.Protocol.load(tmp_path / "p.json")
    assert again == plan.protocol
    assert fitted(again.estimator(), X, y).fingerprint_ == clf.fingerprint_


def test_rows_of_one_class_and_of_nothing_are_refused(plan):
    X, y = draw()
    with pytest.raises(rl.ReplearnError, match="two"):
        plan.protocol.estimator().fit(X, np.zeros_like(y))
    with pytest.raises(rl.ReplearnError, match=r"finite|missing"):
        plan.protocol.estimator().fit(np.where(X > 9, np.nan, X), y)


def test_separable_rows_give_bounded_weights():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    y = (X[:, 0] > 0).astype(int)
    clf = fitted(rl.ReplicableLogisticClassifier(samples_per_site=2000), X, y)
    assert np.isfinite(clf.coef_).all()
    assert clf.score(X, y) > 0.9
    plan = rl.plan_from_pilot(X[:400], y[:400], samples_per_site=2000, hint_bits=4)
    planned = fitted(plan.protocol.estimator(), X, y)
    assert np.isfinite(planned.coef_).all()
    assert planned.score(X, y) > 0.9


def test_rows_of_zeros_only_move_the_intercept():
    X, y = draw()
    X = X / np.abs(X).max()
    zeros = np.vstack([X, np.zeros((10, 5))])
    labels = np.concatenate([y, np.ones(10, dtype=int)])
    clf = fitted(rl.ReplicableLogisticClassifier(samples_per_site=3000), zeros, labels)
    assert clf.plan_.spent.n_zero_rows == 10


def test_another_number_of_columns_is_refused(plan):
    X, y = draw()
    published = replace(plan.protocol.estimator().published, encoding=None)
    clf = rl.ReplicableLogisticClassifier(published=published)
    with pytest.raises(rl.ReplearnError, match="must have 5 features"):
        clf.fit(X[:, :3], y)


def test_a_plan_prints_what_a_sceptic_asks_for(plan):
    text = str(plan)
    for words in ("base rate", "pilot's own model", "this protocol", "one site's rows", "bits"):
        assert words in text
    base, own, planned, single = plan.table
    assert base.auc == 0.5
    assert single.log_loss <= planned.log_loss < base.log_loss
    assert planned.auc >= own.auc - 0.01
    assert [bits for bits, _, _ in plan.by_bits] == [0, 2, 4, 8]


def test_a_pilot_without_labels_is_enough_for_a_discovery():
    X, y = draw(seed=5)
    plan = rl.plan_from_pilot(
        X[:500], samples_per_site=N_ROWS, study="discovery", hint_bits=8, classes=(0, 1), share=0.3
    )
    clf = fitted(plan.protocol.estimator(), X, y)
    assert clf.score(X, y) > max(y.mean(), 1 - y.mean())


def test_a_pilot_of_noise_is_called_useless():
    X, _ = draw(600, seed=7)
    y = np.random.default_rng(0).integers(0, 2, 600)
    plan = rl.plan_from_pilot(X, y, samples_per_site=1000)
    assert any(
        "add next to nothing" in text or "knows nothing" in text or "know nothing" in text
        for text in plan.cautions
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"study": "guess"}, "study must be"),
        ({"hint_bits": 9}, "hint_bits must be from 0 to 8"),
        ({"sites": 1}, "sites must be from 2"),
        ({"algorithm": "magic"}, "algorithm must be"),
        ({"threshold": "low"}, "threshold must be"),
        ({"threshold": 1.5}, "threshold must be a probability"),
        ({"scores": [{"nobody": 1.0}]}, "weigh columns of the pilot"),
        ({"margin": 0.2}, "belongs to"),
    ],
)
def test_a_plan_refuses_odd_options(options, message):
    with pytest.raises(rl.ReplearnError, match=message):
        rl.plan_from_pilot(*draw(300), samples_per_site=1000, **options)


def test_published_scores_come_first():
    X, y = draw(600, seed=3)
    names = [f"x{i}" for i in range(5)]
    score = {"x0": 1.0, "x1": -0.4}
    plan = rl.plan_from_pilot(
        pd.DataFrame(X, columns=names), y, samples_per_site=5000, hint_bits=4, scores=[score]
    )
    design = plan.protocol.design
    first = design.direction_rows[0] / [float(c.scale) for c in plan.protocol.encoding.columns]
    assert first[1] / first[0] == pytest.approx(-0.4, rel=0.01)
    assert np.abs(first[2:]).max() < 1e-3 * abs(first[0])


@pytest.mark.slow
def test_an_unlucky_seed_is_named_and_few_seeds_are():
    plan = rl.plan_from_pilot(*draw(400, seed=9), samples_per_site=2000)
    judged = {seed: plan.seed_cautions(seed) for seed in map(str, range(100))}
    unlucky = [seed for seed, said in judged.items() if said and "unlucky" in said[0]]
    # one in ten; 25 or more have probability 3e-5
    assert 0 < len(unlucky) < 25
    replanned = plan.replan(shared_seed=unlucky[0])
    assert "This seed is unlucky" in str(replanned)
    assert replanned.other_seed is not None
    assert plan.seed_cautions(replanned.other_seed) == []
    assert repr(replanned.other_seed) in str(replanned)
    assert plan.replan(shared_seed=replanned.other_seed).other_seed is None
    public = replanned.protocol.with_public_value("3 17 22")
    assert replanned.under(public).other_seed is None  # nobody may choose another one
    lucky = next(seed for seed in judged if seed not in unlucky)
    assert "unlucky" not in str(plan.replan(shared_seed=lucky))
    protocol = replace(plan.protocol, seed=unlucky[0])
    assert judged[unlucky[0]][0] in plan.under(protocol).cautions
    assert "unlucky" not in str(plan.under(protocol).under(replace(protocol, seed=lucky)))
    # the same by what is published alone: the curvature stands for the pilot's rows
    by_protocol = [s for s in judged if unlucky_without_pilot(plan.protocol.design, s)]
    assert 0 < len(by_protocol) < 25
    # where the start is right
    design, encoding = plan.protocol.design, plan.protocol.encoding

    def confirmed(seed, n_rows):
        X, _ = draw(n_rows, seed=seed)
        products = encoding.transform(X) @ design.direction_rows.T
        start = design.space.start_numbers
        chances = sigmoid(start[0] + products @ start[1:])
        return X, (np.random.default_rng(seed).random(n_rows) < chances).astype(int)

    assert_worse(plan.protocol, by_protocol, judged, confirmed(1, 2000), confirmed(2, 20_000))


def assert_worse(protocol, unlucky, seeds, site, new):
    """On new rows, fits under unlucky seeds are worse than under most of the others."""
    X, y = site
    new, truth = new

    def loss(seed):
        clf = fitted(replace(protocol, seed=seed).estimator(), X, y)
        return log_loss(truth, clf.predict_proba(new)[:, 1])

    others = [seed for seed in seeds if seed not in unlucky][:20]
    assert np.median([*map(loss, unlucky[:5])]) > np.median([*map(loss, others)])


def test_unlucky_seeds_of_discovery_are_named():
    """There the start knows no label: sites are expected where the pilot's own rows are."""
    X, y = draw(400, seed=9)
    plan = rl.plan_from_pilot(X, y, samples_per_site=2000, study="discovery")
    judged = {seed: plan.seed_cautions(seed) for seed in map(str, range(100))}
    unlucky = [seed for seed, said in judged.items() if said and "unlucky" in said[0]]
    assert 0 < len(unlucky) < 25
    assert unlucky_without_pilot(plan.protocol.design, "1") is None
    assert_worse(plan.protocol, unlucky, judged, draw(2000, seed=1), draw(20_000, seed=2))
    blind = rl.plan_from_pilot(
        X, None, samples_per_site=2000, study="discovery", classes=(0, 1), share=0.3
    )
    assert blind.seed_cautions(unlucky[0]) == []


def test_a_useless_model_is_named_by_the_fit_itself():
    X, y = draw(800, seed=9)
    protocol = rl.plan_from_pilot(X, y, samples_per_site=N_ROWS, hint_bits=3).protocol
    X, y = draw()
    noise = np.random.default_rng(0).permutation(y)
    weak = np.where(np.random.default_rng(1).random(N_ROWS) < 0.6, noise, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        protocol.estimator().fit(X, y)  # a warning would be an error
        with pytest.warns(
            rl.UselessModelWarning, match="do not show that the model knows any|show no signal"
        ):
            protocol.estimator().fit(X, noise)
        with pytest.warns(rl.UselessModelWarning, match="keeps less than half of the pilot's sig"):
            protocol.estimator().fit(X, weak)
        # an audit says it once, in its verdict
        rl.audit(protocol.estimator(), X, noise, n_pairs=2, question="halves")


def words(n_rows, n_topics=2, n_words=600, seed=0):
    """Documents of some topics: common words tell the topics apart, rare ones nothing."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, n_topics, n_rows)
    rate = 0.3 / np.arange(1, n_words + 1)
    rates = rate * np.where(np.arange(n_words) % n_topics == topic[:, None], 3.0, 1.0)
    return sp.csr_matrix(rng.poisson(3 * rates).astype(float)), topic


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [True, False])
def test_a_discovery_in_words_lets_common_words_speak(labelled):
    # every rare word as a direction of its own would rest on one row
    X, y = words(700)
    labels = {} if labelled else {"classes": [0, 1], "share": 0.5}
    plan = rl.plan_from_pilot(
        X, y if labelled else None, samples_per_site=3000, study="discovery", hint_bits=4, **labels
    )
    Xa, ya = words(3000, seed=1)
    Xt, yt = words(3000, seed=2)
    model = plan.protocol.estimator().fit(Xa, ya)
    assert model.score(Xt, yt) > 0.8


@pytest.mark.slow
def test_no_discovery_is_planned_to_be_worse_than_the_base_rate():
    # rounding loses a share of what the sites' rows would explain, never more
    rng = np.random.default_rng(4)
    X = rng.normal(size=(600, 30))
    y = (X[:, :10].sum(axis=1) + rng.normal(size=600) > 0).astype(int)
    plan = rl.plan_from_pilot(X, y, samples_per_site=600, study="discovery")
    base, _, planned, single = plan.table
    assert single.log_loss <= planned.log_loss <= base.log_loss
    assert all(row.log_loss <= base.log_loss for _, row in plan.by_rows)


@pytest.mark.slow
def test_sites_without_a_first_find_a_common_hint(plan):
    protocol = plan.replan(hint_bits=6, sites=3).protocol
    sites = [draw(seed=seed) for seed in (11, 12, 13)]
    fits = [fitted(protocol.estimator(), X, y) for X, y in sites]
    unsafe = [fit.unsafe_hints(n_sites=3) for fit in fits]
    assert 0 < len(unsafe[0]) < 64
    hint = rl.common_hint(unsafe, hint_bits=6)
    assert all(hint not in some for some in unsafe)
    again = [fitted(protocol.estimator(hint=hint), X, y) for X, y in sites]
    assert len({fit.fingerprint_ for fit in again}) == 1


@pytest.mark.slow
def test_unsafe_hints_on_the_command_line(tmp_path, capsys):
    def table(seed):
        X, y = draw(seed=seed)
        return pd.DataFrame(X, columns=list("abcde")).assign(y=y)

    pilot = table(9)
    rl.plan_from_pilot(
        pilot.drop(columns="y"), pilot["y"], samples_per_site=N_ROWS, hint_bits=6, target="y"
    ).protocol.save(tmp_path / "study.json")
    study = ["--protocol", str(tmp_path / "study.json")]
    rows = [str(tmp_path / f"{site}.csv") for site in "ab"]
    unsafe = [str(tmp_path / f"{site}.unsafe.json") for site in "ab"]
    models = [str(tmp_path / f"{site}.model.json") for site in "ab"]
    for site in range(2):
        table(20 + site).to_csv(rows[site], index=False)
        assert main(["fit", rows[site], *study, "--unsafe", unsafe[site]]) == 0
    assert "hints are unsafe for these rows" in capsys.readouterr().out
    for site in range(2):
        assert main(["fit", rows[site], *study, "--hint", *unsafe, "--out", models[site]]) == 0
    assert main(["compare", *models]) == 0
    (tmp_path / "other.json").write_text('{"format": "replearn-unsafe-hints"}')
    capsys.readouterr()
    assert main(["fit", rows[0], *study, "--hint", unsafe[0], str(tmp_path / "other.json")]) == 2
    assert "not a valid file of unsafe hints" in capsys.readouterr().err
    assert main(["fit", rows[0], *study, "--unsafe", unsafe[0], "--out", models[0]]) == 2
    assert "--unsafe writes no model" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_of_sites_are_as_long_as_those_of_a_pilot_of_words():
    # a rare word, scaled by its own spread, weighs most where the pilot missed it by chance
    pilot, y = words(400, n_words=5000, seed=3)
    plan = rl.plan_from_pilot(pilot, y, samples_per_site=3000)
    fresh, _ = words(2000, n_words=5000, seed=4)
    encoding = plan.protocol.encoding
    lengths = [encoding.transform(X).power(2).sum(axis=1).mean() for X in (pilot, fresh)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.15)


def test_a_seed_under_which_a_small_discovery_may_be_inverted_is_named():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(6000, 3)) * [3, 1, 1]
    y = (rng.random(6000) < 1 / (1 + np.exp(3 - 0.4 * X[:, 0]))).astype(int)
    plan = rl.plan_from_pilot(X[:1000], y[:1000], samples_per_site=1500, study="discovery")
    Xa, ya = X[1000:2500], y[1000:2500]
    inverted, named = [], []
    for seed in map(str, range(40)):
        clf = fitted(replace(plan.protocol, seed=seed).estimator(), Xa, ya)
        weight = clf.coef_[0, 0]
        inverted.append(weight < 0)
        named.append(bool(plan.seed_cautions(seed)))
    assert 0 < sum(inverted) < 20
    assert all(name for name, wrong in zip(named, inverted, strict=True) if wrong)
    assert sum(named) < 30
    # a protocol passes over a seed that may invert the model, and says so
    for seed in np.flatnonzero(inverted).tolist():
        upright = plan.replan(shared_seed=seed)
        assert upright.protocol.seed.startswith(f"{seed}/")
        assert f"Under the seed '{seed}' the model may rank the wrong way round" in str(upright)
        assert fitted(upright.protocol.estimator(), Xa, ya).coef_[0, 0] > 0
    assert plan.replan(shared_seed=named.index(False)).protocol.seed == str(named.index(False))
    # the plan itself says that cells are too wide
    assert "which way round the model ranks" in str(plan)
    assert "which way round" not in str(plan.replan(hint_bits=4))


@pytest.mark.parametrize("kind", [rl.ReplicableLogisticClassifier, rl.ReplicableLinearRegressor])
@pytest.mark.parametrize(("n_features", "n_components", "most"), [(3, 4, 3), (300, 2**63, 255)])
def test_more_directions_than_features_are_refused(kind, n_features, n_components, most):
    rows = np.random.default_rng(0).normal(size=(20, n_features))
    ranged = {"y_range": (0, 1)} if kind is rl.ReplicableLinearRegressor else {}
    with pytest.raises(rl.ReplearnError, match=f"n_components must be at most {most} for"):
        kind(n_components=n_components, **ranged).fit(rows, np.arange(20) % 2)
