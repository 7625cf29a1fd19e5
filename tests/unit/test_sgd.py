"""ReplicableSGDClassifier and its plan: sizes, streams, saved streams, refusals."""

import io
import json
import math
import pickle
import warnings
import zipfile
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from replearn import (
    InvalidFile,
    NotEnoughSamples,
    Published,
    ReplearnError,
    ReplicabilityWarning,
    ReplicableSGDClassifier,
)
from replearn.codes.cells import provable_flip_constant
from replearn.datasets import make_margin
from replearn.plans.plan_sgd import plan_sgd, variance_bound
from replearn.plans.sizes import Guarantee, Sizes

PROMISE = Guarantee(margin=0.1, max_error=0.05, max_disagreement=0.1, failure_prob=0.05)

X, Y = make_margin(6000, 5, margin=0.4, random_state=0)


def classifier(**parameters):
    # so lax that no seed is a reason for a warning
    return ReplicableSGDClassifier(**{"margin": 0.4, "max_disagreement": 0.99} | parameters)


def stream(cuts=(), X=X, y=Y, classes=(-1, 1), **parameters):
    fitted = classifier(**parameters)
    edges = [0, *sorted(set(cuts) - {0, len(y)}), len(y)]
    for start, stop in pairwise(edges):
        fitted.partial_fit(X[start:stop], y[start:stop], classes=classes)
    return fitted


def assert_same_fit(one, other):
    assert one.fingerprint_ == other.fingerprint_
    assert one.certificate_ == other.certificate_
    assert one.plan_.spent == other.plan_.spent


# --- plans ------------------------------------------------------------------------------------


def test_the_practical_plan_depends_on_the_arguments_alone():
    plan = plan_sgd(PROMISE, 101)
    assert (plan.algorithm, plan.mode, plan.regularization) == ("sgd", "practical", "0.01")
    assert (plan.batch_size, plan.n_repetitions, plan.n_validation) == (1000, 1, 0)
    assert (plan.projection, plan.rounding, plan.length_cap) == ("none", "leech", 1.0)
    assert 0.5e6 < plan.n_samples < 2e6
    small = plan_sgd(Guarantee(0.01, 0.05, 0.1, 0.05), 101)
    large = plan_sgd(Guarantee(0.6, 0.05, 0.1, 0.05), 101)
    assert (small.batch_size, large.batch_size) == (5000, 100)


def test_practical_sizes_can_be_set_by_hand():
    sizes = Sizes(batch_size=77, n_batches=9, regularization=0.5, grid_width=0.3, rounding="e8")
    plan = plan_sgd(PROMISE, 101, sizes=sizes)
    assert (plan.batch_size, plan.n_batches, plan.regularization) == (77, 9, "0.5")
    assert (plan.grid_width, plan.rounding) == ("0.3", "e8")
    assert set(plan.by_hand) == {
        "batch_size",
        "n_batches",
        "regularization",
        "grid_width",
        "rounding",
    }


def test_the_paper_plan_is_lines_1_to_4():
    plan = plan_sgd(PROMISE, 101, "paper")
    log = np.log(1 / (0.05 * 0.1 * 0.1 * 0.05))
    assert plan.batch_size == np.ceil(log / (0.05 * 0.1) ** 2)
    assert plan.n_batches == np.ceil(log / (0.1**4 * 0.1**2))
    assert plan.n_components == np.ceil(log / 0.1**2)
    assert float(plan.grid_width) == pytest.approx(0.1 / log, rel=5e-3)
    assert (plan.projection, plan.rounding) == ("gaussian", "ak")
    # f = E h + eps/10 |w|^2 with h = 2 hinge: half of it is hinge + eps/20 |w|^2
    assert float(plan.regularization) / (2 * 0.1**2) == pytest.approx(0.05 / 20)
    assert plan.n_repetitions == np.ceil(np.log2(10 * plan.n_batches / 0.05))
    n_steps = (plan.batch_size - plan.n_validation) // plan.n_repetitions
    assert plan.n_repetitions * n_steps + plan.n_validation == plan.batch_size
    assert abs(plan.n_validation - plan.batch_size / 2) <= plan.n_repetitions
    assert "not scaled to length 1" in plan.basis


def test_every_size_of_the_paper_plan_can_be_set():
    constants = {"C1": 0.01, "C2": 0.001, "C3": 0.5, "C4": 2.0}
    plan, whole = (plan_sgd(PROMISE, 101, "paper", constants=c) for c in (constants, None))
    assert plan.batch_size == pytest.approx(whole.batch_size / 100, rel=1e-3)
    assert plan.n_batches == pytest.approx(whole.n_batches / 1000, rel=1e-3)
    assert plan.n_components == pytest.approx(whole.n_components / 2, abs=1)
    assert float(plan.grid_width) == pytest.approx(2 * float(whole.grid_width), rel=1e-2)
    sizes = Sizes(
        n_batches=3, batch_size=100, n_components=7, grid_width=0.2, projection="signs",
        rounding="centre", regularization=0.1, n_repetitions=3, n_validation=20,
    )  # fmt: skip
    plan = plan_sgd(PROMISE, 101, "paper", sizes)
    assert (plan.n_batches, plan.batch_size, plan.n_components) == (3, 100, 7)
    assert (plan.projection, plan.rounding, plan.regularization) == ("signs", "centre", "0.1")
    # three runs of 26 rows; the two rows that are left over are for validation too
    assert (plan.n_repetitions, plan.n_validation) == (3, 22)


def test_the_certified_plan_keeps_its_own_inequalities():
    for tau, n_inputs in ((0.5, 10), (0.5, 10_000), (0.2, 50)):
        promise = Guarantee(tau, 0.1, 0.1, 0.05)
        plan = plan_sgd(promise, n_inputs, "certified")
        weight = float(plan.regularization)
        # for some slack s: r + gap <= e1 < eps, and the variance allows the disagreement
        variance = variance_bound(tau, weight, plan.batch_size)  # the gap over r
        slacks = np.linspace(0.1, 0.6, 26)
        errors = weight / (2 * slacks * tau**2) * (1 + variance)
        assert (errors <= 0.9 * 0.1).any()
        assert variance < 0.3
        more = plan_sgd(Guarantee(tau, 0.1, 0.05, 0.05), n_inputs, "certified")
        # one over rho squared, but for what Bernstein needs in any case
        assert 3 < more.n_samples / plan.n_samples < 4.5
    assert plan_sgd(Guarantee(0.5, 0.1, 0.1, 0.05), 10**6, "certified").n_samples < 1e10


@pytest.mark.parametrize(
    ("mode", "sizes", "constants", "words"),
    [
        ("practical", Sizes(regularization=0.0), None, "regularization must be positive"),
        ("practical", Sizes(n_repetitions=3), None, 'n_repetitions belongs to mode="paper"'),
        ("certified", Sizes(n_validation=3), None, 'n_validation belongs to mode="paper"'),
        ("practical", Sizes(), {"C1": 1.0}, 'constants belong to mode="paper"'),
        ("certified", Sizes(grid_width=0.1), None, "derives grid_width"),
        ("certified", Sizes(projection="signs"), None, "rotation-invariant"),
        ("certified", Sizes(unit_mean=True), None, "nothing is proved with unit_mean"),
        ("certified", Sizes(batch_size=10), None, "needs batch_size of at least"),
        ("certified", Sizes(n_batches=10), None, "needs n_batches of at least"),
        ("paper", Sizes(), {"C5": 1.0}, "unknown key 'C5'"),
        ("paper", Sizes(), {"C1": -1.0}, "must be a positive number"),
        ("paper", Sizes(batch_size=5, n_repetitions=6), None, "batch_size must be at least"),
        ("fast", Sizes(), None, "mode must be one of"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(mode, sizes, constants, words):
    with pytest.raises(ReplearnError, match=words):
        plan_sgd(PROMISE, 101, mode, sizes, constants)


def test_plans_are_printed_in_words():
    assert "gradient descent regularization 0.01, 1,000 steps" in str(plan_sgd(PROMISE, 101))
    assert "best of 31 runs of" in str(plan_sgd(PROMISE, 101, "paper"))


# --- fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
def test_the_model_depends_on_rows_and_seed_alone(intercept):
    expected = classifier(fit_intercept=intercept).fit(X, Y)
    for rows in (X, sp.csr_matrix(X), sp.csc_array(X), pd.DataFrame(X, columns=list("abcde"))):
        for n_jobs in (1, 3):
            fitted = classifier(fit_intercept=intercept, n_jobs=n_jobs).fit(rows, Y)
            assert_same_fit(fitted, expected)
    X32 = X.astype(np.float32)
    assert (
        classifier(fit_intercept=intercept).fit(X32, Y).fingerprint_
        == classifier(fit_intercept=intercept).fit(X32.astype(np.float64), Y).fingerprint_
    )
    assert expected.model_.recipe == "sgd"
    assert expected.score(X, Y) > 0.8


def test_fewer_rows_than_one_block_make_one_block():
    with pytest.warns(ReplicabilityWarning, match="cannot be estimated"):
        fitted = classifier(shuffle=False).fit(X[:30], Y[:30])
    assert (fitted.plan_.spent.n_batches, fitted.plan_.spent.n_dropped) == (1, 0)
    assert fitted.fingerprint_ == stream((7, 20), X[:30], Y[:30]).fingerprint_


def test_paper_mode_runs_as_printed():
    sizes = {"n_batches": 12, "batch_size": 300, "n_components": 40, "grid_width": 0.5}
    fitted = classifier(mode="paper", shuffle=False, **sizes).fit(X, Y)
    spent = fitted.plan_.spent
    assert (spent.n_batches, spent.n_dropped) == (12, 6000 - 3600)
    assert (fitted.plan_.n_repetitions, fitted.plan_.n_validation) == (12, 156)
    assert spent.n_row_visits == 12 * (144 + 12 * 156)
    # rows after the last batch are not looked at, in a stream either
    assert_same_fit(stream((100, 2222, 3599, 5000), mode="paper", **sizes), fitted)
    assert fitted.score(X, Y) > 0.8


@pytest.mark.parametrize("mode", ["certified", "paper"])
def test_too_few_rows_are_refused(mode):
    with pytest.raises(NotEnoughSamples, match=f"{mode} mode needs"):
        classifier(mode=mode).fit(X, Y)
    short = stream(mode=mode)
    with pytest.raises(NotEnoughSamples, match=f"{mode} mode needs"):
        short.predict(X)


def test_certified_mode_fits_when_there_are_enough_rows():
    promise = {"margin": 0.95, "max_error": 0.45, "max_disagreement": 0.9, "failure_prob": 0.5}
    needed = plan_sgd(Guarantee(**promise), 2, "certified").n_samples
    rows, labels = make_margin(needed + 3, 2, margin=0.95, max_margin=0.99, random_state=0)
    fitted = ReplicableSGDClassifier(**promise, mode="certified", fit_intercept=False)
    fitted.fit(rows, labels)
    assert fitted.certificate_.disagreement_bound <= 0.9
    assert fitted.score(rows, labels) == 1.0


def test_the_certificate_knows_the_variance_bound():
    sizes = {"regularization": 1.0, "batch_size": 2000, "grid_width": 5.0, "rounding": "centre"}
    per_spread = provable_flip_constant("none", "centre", 6, 6) / 5
    holes = np.insert(X[:-1], 17, 0.0, axis=0)  # a zero row makes a run shorter than the bound says
    for rows, intercept, variance in (
        (X, True, variance_bound(0.4, 1.0, 2000)),
        (holes, True, variance_bound(0.4, 1.0, 2000)),  # with an intercept no row is zero
        (holes, False, 1.0),
    ):
        fitted = classifier(projection="none", fit_intercept=intercept, **sizes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplicabilityWarning)
            fitted.fit(rows, Y)
        if not intercept:
            per_spread = provable_flip_constant("none", "centre", 5, 5) / 5
        bound = per_spread * math.sqrt(2 * variance / 3)
        assert fitted.certificate_.disagreement_bound == pytest.approx(bound)
        assert fitted.certificate_.confidence == 1


# --- streams ----------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(1, 5999), max_size=12), intercept=st.booleans())
@settings(max_examples=15)
def test_any_pieces_give_the_model_of_the_whole(cuts, intercept):
    whole = classifier(shuffle=False, fit_intercept=intercept).fit(X, Y)
    assert_same_fit(stream(cuts, fit_intercept=intercept), whole)


def test_pieces_may_be_of_any_kind():
    whole = classifier(shuffle=False).fit(X, Y)
    kinds = [np.asarray, sp.csr_matrix, sp.coo_array, np.asfortranarray]
    fitted = classifier()
    for number, start in enumerate(range(0, 6000, 250)):
        piece = slice(start, start + 250)
        fitted.partial_fit(kinds[number % 4](X[piece]), Y[piece])
    assert_same_fit(fitted, whole)


def test_a_stream_may_begin_with_one_class_if_both_are_named():
    labels = np.where(Y > 0, "ill", "healthy")
    first = np.flatnonzero(Y > 0)[:9]
    fitted = classifier().partial_fit(X[first], labels[first], classes=["ill", "healthy"])
    assert fitted.classes_.tolist() == ["healthy", "ill"]
    fitted.partial_fit(X, labels)
    assert set(fitted.predict(X)) == {"healthy", "ill"}
    with pytest.raises(ReplearnError, match="must have two classes"):
        classifier().partial_fit(X[first], labels[first])


def test_what_is_made_of_a_stream_is_made_on_demand():
    fitted = stream()
    assert "model_" not in vars(fitted)
    before = fitted.fingerprint_
    assert "model_" in vars(fitted)
    fitted.partial_fit(X[::-1].copy(), -Y[::-1])
    assert "model_" not in vars(fitted)
    assert fitted.fingerprint_ != before
    fresh = classifier()
    for name in ("model_", "plan_", "certificate_", "coef_", "fingerprint_", "anything"):
        assert not hasattr(fresh, name)
    with pytest.raises(AttributeError, match="Call fit or partial_fit first"):
        _ = fresh.model_


def test_fit_forgets_a_stream_and_a_new_one_forgets_the_fit():
    whole = classifier(shuffle=False).fit(X, Y)
    fitted = stream()
    fitted.fit(X[:3000], Y[:3000])
    assert fitted.plan_.spent.n_rows == 3000
    with pytest.raises(ReplearnError, match="no stream to save"):
        fitted.save_state("nowhere.npz")
    fitted.partial_fit(X, Y)
    assert_same_fit(fitted, whole)


def test_streams_can_be_pickled_and_cloned():
    half = stream(X=X[:2950], y=Y[:2950])
    assert not hasattr(clone(half), "model_")
    for copy in (pickle.loads(pickle.dumps(half)), half):
        copy.partial_fit(X[2950:], Y[2950:])
        assert_same_fit(copy, classifier(shuffle=False).fit(X, Y))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X[:, :4], Y), "features"),
        ((X, np.where(Y > 0, 1, 2)), "y must hold the labels"),
        ((X, Y, [0, 1]), "classes must stay the same"),
        ((np.full((5, 5), np.nan), Y[:5]), "X must be finite"),
        ((X, Y + 0.5 * X[:, 0]), "y must hold the labels"),
        ((X[np.argsort(Y, kind="stable")], np.sort(Y)), "looks sorted"),
    ],
)
def test_bad_pieces_are_refused_and_not_taken(arguments, words):
    fitted = stream(X=X[:500], y=Y[:500])
    before = fitted.fingerprint_
    with pytest.raises(ValueError, match=words):
        fitted.partial_fit(*arguments)
    assert fitted.fingerprint_ == before
    fitted.partial_fit(X[500:], Y[500:])
    assert_same_fit(fitted, classifier(shuffle=False).fit(X, Y))


def test_parameters_may_not_change_in_the_middle():
    fitted = stream(X=X[:500], y=Y[:500]).set_params(margin=0.3)
    with pytest.raises(ReplearnError, match="changed in the middle of a stream"):
        fitted.partial_fit(X, Y)


def test_labels_of_a_protocol_are_kept():
    with pytest.raises(ReplearnError, match="labels of the protocol, 0 and 1, got -1"):
        classifier(published=Published(classes=(0, 1))).partial_fit(X, Y)
    with pytest.raises(ReplearnError, match="classes must hold the labels of the protocol"):
        classifier(published=Published(classes=(0, 1))).partial_fit(X, Y, classes=[-1, 1])
    one_class = Y > 0
    fitted = classifier(published=Published(classes=(-1, 1))).partial_fit(
        X[one_class][:5], Y[one_class][:5]
    )
    assert fitted.classes_.tolist() == [-1, 1]


# --- saved streams ----------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 62, 63, 1900])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {
            "mode": "paper",
            "n_batches": 12,
            "batch_size": 300,
            "n_components": 40,
            "grid_width": 0.5,
        },
    ],
    ids=["practical", "paper"],
)
def test_a_saved_stream_goes_on(tmp_path, stop, parameters):
    path = tmp_path / "stream.npz"
    labels = np.where(Y > 0, "ill", "healthy")
    names = pd.DataFrame(X, columns=list("abcde"))
    classes = ("ill", "healthy")
    stream((), names[:stop], labels[:stop], classes, **parameters).save_state(path)
    fitted = classifier(**parameters).load_state(path)
    assert fitted.n_features_in_ == 5
    assert fitted.feature_names_in_.tolist() == list("abcde")
    assert fitted.classes_.tolist() == ["healthy", "ill"]
    fitted.partial_fit(names[stop:], labels[stop:])
    assert_same_fit(fitted, classifier(shuffle=False, **parameters).fit(names, labels))
    assert [p.name for p in tmp_path.iterdir()] == ["stream.npz"]


def test_a_stream_can_be_resumed_with_another_seed_and_grid(tmp_path):
    stream().save_state(tmp_path / "s.npz")
    resumed = classifier(shared_seed=7, grid_width=0.4).load_state(tmp_path / "s.npz")
    whole = classifier(shared_seed=7, grid_width=0.4, shuffle=False).fit(X, Y)
    assert_same_fit(resumed, whole)


def test_a_state_file_needs_no_pickle(tmp_path):
    path = tmp_path / "s.npz"
    stream(X=X[:99], y=Y[:99]).save_state(path)
    with np.load(path, allow_pickle=False) as content:
        header = json.loads(content["header"].tobytes())
        assert header["format"] == "replearn-stream"
        assert all(content[name].dtype.kind in "uif" for name in content.files)


@pytest.mark.parametrize(
    "parameters",
    [{"margin": 0.3}, {"fit_intercept": False}, {"batch_size": 50}, {"n_batches": 9}],
    ids=lambda p: next(iter(p)),
)
def test_a_state_of_other_parameters_is_refused(tmp_path, parameters):
    stream(X=X[:99], y=Y[:99]).save_state(tmp_path / "s.npz")
    with pytest.raises(InvalidFile, match="was saved with"):
        classifier(**parameters).load_state(tmp_path / "s.npz")


def rewritten(path, change):
    """A copy of a state file with its arrays changed, header and digest as they were."""
    with np.load(path) as content:
        arrays = dict(content.items())
    change(arrays)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.write_bytes(buffer.getvalue())


def with_header(change):
    def apply(arrays):
        header = json.loads(arrays["header"].tobytes())
        change(header)
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)

    return apply


def with_estimator(**changes):
    return with_header(lambda h: h["about"]["estimator"].update(changes))


def bomb(arrays):
    arrays["raw"] = np.zeros(10**7)


DAMAGES = {
    "altered": (lambda a: a["raw"].__setitem__(0, 5.0), "altered or damaged"),
    "not finite": (lambda a: a["raw"].__setitem__(0, np.nan), "altered or damaged"),
    "lacking": (lambda a: a.pop("hi"), "must hold the arrays"),
    "more": (lambda a: a.__setitem__("extra", a["raw"]), "must hold the arrays"),
    "shape": (bomb, r"'raw' (is not an array|has the type)"),
    "type": (
        lambda a: a.__setitem__("raw", a["raw"].astype(">f8")),
        r"'raw' (is not an array|has the type)",
    ),
    "objects": (
        lambda a: a.__setitem__("raw", np.array([{}], object)),
        r"'raw' (is not an array|has the type)",
    ),
    "no header": (lambda a: a.pop("header"), "no header"),
    "version": (with_header(lambda h: h.update(version=2)), "version 2 is unknown"),
    "format": (with_header(lambda h: h.update(format="x")), "its format is not"),
    "classes": (with_estimator(classes=[1, 1]), "two different labels"),
    "names": (with_estimator(feature_names=["a"]), "5 strings"),
    "width": (with_estimator(n_features=-1), "positive integer"),
    "blocks": (with_header(lambda h: h["about"].update(blocks=[])), "was saved with"),
    "encoding": (with_estimator(encoding=[]), "another encoding"),
    "about": (with_header(lambda h: h.update(about=3)), "'about' must have the keys"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_state_files_are_refused(tmp_path, damage):
    change, words = DAMAGES[damage]
    path = tmp_path / "s.npz"
    stream(X=X[:99], y=Y[:99]).save_state(path)
    rewritten(path, change)
    fresh = classifier()
    with pytest.raises(InvalidFile, match=words):
        fresh.load_state(path)
    assert not hasattr(fresh, "model_")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("counts", 1, 10**6),  # rows of the block: more than it has
        ("hi", (0, 0), 2**62),  # a vector longer than 8
        ("hi", (-1, 0), 1),  # a group that has no batch
        ("lo", (0, 0), -(2**63)),
        ("tally_counts", 4, -1),
        ("tally_counts", 6, 10**6),  # more pairs than batches
        ("tally_counts", 7, -(2**40)),  # limbs of sums of squares
        ("tally_counts", 9, -(2**31)),
        ("tally_counts", 11, 2**62),
        ("tally_extremes", 0, -1.0),
        ("tally_extremes", 1, np.inf),
        ("tally_extremes", 2, np.nan),
    ],
)
def test_a_forged_digest_does_not_let_nonsense_in(tmp_path, name, place, value):
    from replearn.files.statefile import _digest

    path = tmp_path / "s.npz"
    stream(X=X[:99], y=Y[:99]).save_state(path)

    def forge(arrays):
        arrays[name][place] = value
        rest = {name: array for name, array in arrays.items() if name != "header"}
        with_header(lambda h: h.update(digest=_digest(rest)))(arrays)

    rewritten(path, forge)
    with pytest.raises(InvalidFile, match="contradict each other"):
        classifier().load_state(path)


def test_files_that_are_no_state_are_refused(tmp_path):
    path = tmp_path / "s.npz"
    path.write_bytes(b"not a zip file")
    with pytest.raises(InvalidFile, match="no npz file"):
        classifier().load_state(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.npy", b"junk")
    with pytest.raises(InvalidFile, match="'header' is no array"):
        classifier().load_state(path)
    with pytest.raises(FileNotFoundError):
        classifier().load_state(tmp_path / "absent.npz")
