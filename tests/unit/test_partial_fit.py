"""Algorithm 2 on rows that come some at a time: the model of `fit` on all of them, to the bit."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import replearn as rl
from replearn.errors import ReplearnError, ReplicabilityWarning

PROMISE = {"margin": 0.3, "max_error": 0.1, "max_disagreement": 0.3, "batch_size": 150}
X, y = rl.datasets.make_margin(3000, 4, margin=0.3, random_state=1)


def classifier(**more):
    return rl.ReplicableSGDClassifier(**PROMISE | more)


def in_pieces(estimator, cuts, rows=X, **more):
    for part, labels in zip(np.split(rows, cuts), np.split(y, cuts), strict=True):
        estimator.partial_fit(part, labels, classes=[-1, 1], **more)
    return estimator


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.parametrize("n_rows", [90, 150, 299, 300, 460, 3000])
def test_any_pieces_give_the_bytes_of_fit(n_rows):
    whole = classifier(shuffle=False).fit(X[:n_rows], y[:n_rows])
    for cuts in ([], [1], [40, 80], [149, 150, 151], [300, 450], list(range(64, 3000, 64))):
        cuts = [cut for cut in cuts if cut < n_rows]
        streamed = classifier()
        parts = zip(np.split(X[:n_rows], cuts), np.split(y[:n_rows], cuts), strict=True)
        for part, labels in parts:
            streamed.partial_fit(part, labels, classes=[-1, 1])
        assert streamed.fingerprint_ == whole.fingerprint_
        assert streamed.certificate_ == whole.certificate_
        assert streamed.n_rows_ == n_rows
        for name in ("batches", "left_over", "zero_rows"):
            assert streamed.counts_[name] == whole.counts_[name]


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
def test_every_call_leaves_a_model_of_all_rows_so_far():
    streamed = classifier()
    for stop in (400, 1000, 1700):
        start = streamed.n_rows_ if stop > 400 else 0
        streamed.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
        whole = classifier(shuffle=False).fit(X[:stop], y[:stop])
        assert streamed.fingerprint_ == whole.fingerprint_
    assert streamed.score(X[1700:], y[1700:]) > 0.9


def test_sparse_rows_and_a_pickle_in_between():
    streamed = classifier().partial_fit(sparse.csr_array(X[:700]), y[:700], classes=[-1, 1])
    streamed = pickle.loads(pickle.dumps(streamed))
    streamed.partial_fit(sparse.csr_array(X[700:]), y[700:])
    assert streamed.fingerprint_ == in_pieces(classifier(), [1000, 1001]).fingerprint_


def test_a_replication_takes_rows_as_they_come():
    first = rl.ReplicableSGDClassifier(margin=0.3, max_error=0.1, sketch_bits=3).fit(X, y)
    X2, y2 = rl.datasets.make_margin(3000, 4, margin=0.3, random_state=2)
    whole = rl.ReplicableSGDClassifier(study=first.study_, shuffle=False).fit(X2, y2)
    second = rl.ReplicableSGDClassifier(study=first.study_)
    for start in range(0, 3000, 500):
        second.partial_fit(X2[start : start + 500], y2[start : start + 500])
    assert second.fingerprint_ == whole.fingerprint_
    assert second.replication_ == whole.replication_


@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")
def test_it_warns_from_the_planned_rows_on_and_not_before():
    """Labels are noise, so labs would differ: no plan promises that."""
    promise = {"margin": 0.45, "max_error": 0.2, "max_disagreement": 0.3}
    n_planned = rl.plan("sgd", n_features=4, **promise).plan.n_rows
    rows = np.random.default_rng(3).normal(size=(n_planned, 4))
    noise = np.random.default_rng(4).choice([-1, 1], n_planned)
    estimator = rl.ReplicableSGDClassifier(**promise)
    estimator.partial_fit(rows[:-1], noise[:-1], classes=[-1, 1])  # warnings are errors here
    with pytest.warns(ReplicabilityWarning, match="estimated probability"):
        estimator.partial_fit(rows[-1:], noise[-1:])


def test_fit_after_partial_fit_starts_anew():
    estimator = classifier(shuffle=False).partial_fit(X[:500], y[:500], classes=[-1, 1])
    estimator.fit(X, y)
    assert estimator.fingerprint_ == classifier(shuffle=False).fit(X, y).fingerprint_


@pytest.mark.parametrize(
    ("change", "call", "words"),
    [
        ({}, {"classes": None}, "classes must be passed on the first call"),
        ({}, {"classes": [0, 1]}, r"y must have the classes \[0, 1\], got -1"),
        ({}, {"classes": [-1, 0, 1]}, "classes must be two labels"),
        ({"mode": "certified"}, {}, 'partial_fit needs mode="practical"'),
        ({"mode": "paper"}, {}, "fit_file with shuffle=False"),
        ({"sketch_bits": 3}, {}, "sketch_bits must be left out"),
        ({"trace": True}, {}, "trace must be left out"),
    ],
)
def test_refusals(change, call, words):
    estimator = classifier(**change)
    with pytest.raises(ReplearnError, match=words):
        estimator.partial_fit(X[:50], y[:50], **{"classes": [-1, 1]} | call)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


def test_later_calls_must_go_on_with_the_same_columns_and_classes():
    estimator = classifier().partial_fit(X[:100], y[:100], classes=[-1, 1])
    before = estimator.fingerprint_
    with pytest.raises(ValueError, match="features"):
        estimator.partial_fit(X[:50, :3], y[:50])
    with pytest.raises(ReplearnError, match="classes must be"):
        estimator.partial_fit(X[:50], y[:50], classes=[0, 1])
    with pytest.raises(ReplearnError, match="must not be sorted"):
        estimator.partial_fit(X[np.argsort(y)], np.sort(y))
    assert estimator.n_rows_ == 100
    assert estimator.fingerprint_ == before


def test_after_fit_it_begins_anew_and_says_so():
    estimator = classifier().fit(X, y)
    with pytest.warns(ReplicabilityWarning, match="3,000 rows of fit were not kept"):
        estimator.partial_fit(X[:600], y[:600])
    anew = clone(estimator).partial_fit(X[:600], y[:600], classes=[-1, 1])
    assert estimator.fingerprint_ == anew.fingerprint_
