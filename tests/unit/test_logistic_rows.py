"""Logistic fits from files, streams and clusters of rows: the same bytes wherever rows are."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

import replearn as rl
from replearn.estimators.logistic import ReplicableLogisticClassifier

N, NAMES = 3000, ["a", "b", "c"]


def draw(n_rows=N, seed=1):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n_rows, 3)) * [1, 5, 0.2] + [0, 2, 1]).astype(np.float32)
    scores = X[:, 0] - 0.3 * X[:, 1]
    return X.astype(np.float64), (rng.random(n_rows) < 1 / (1 + np.exp(-scores))).astype(int)


X, Y = draw()


def promised(**parameters):
    """Six steps, from the promise alone."""
    lax = {"max_disagreement": 0.9, "samples_per_site": N, "shared_seed": "rows"}
    return ReplicableLogisticClassifier(**lax | parameters)


@pytest.fixture(scope="module")
def protocol():
    plan = rl.plan_from_pilot(
        pd.DataFrame(draw(600, seed=2)[0], columns=NAMES), draw(600, seed=2)[1],
        samples_per_site=N, hint_bits=2,
    )  # fmt: skip
    assert plan.protocol.design.n_steps == 1
    return plan.protocol


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows in all formats, some of them sorted by label, some in several files."""
    folder = tmp_path_factory.mktemp("files")
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y)
    by_label, backwards = frame.sort_values("y"), frame.iloc[::-1]
    frame.to_csv(folder / "rows.csv", index=False)
    by_label.to_parquet(folder / "rows.parquet", index=False, row_group_size=101)
    (folder / "parts").mkdir()
    for number, start in enumerate(range(0, N, 700)):
        part = backwards.iloc[start : start + 700]
        part.to_parquet(folder / "parts" / f"{9 - number}.parquet", index=False)
    np.savez(folder / "rows.npz", X=by_label[NAMES].to_numpy(), y=by_label.y.to_numpy())
    dump_svmlight_file(X[::-1], Y[::-1], str(folder / "rows.svm"), zero_based=False)
    return folder


def quiet(function, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **keywords)


FORMATS = ["rows.csv", "rows.parquet", "parts", "rows.npz", "rows.svm"]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_format_and_order_gives_the_bytes_of_memory(files, name, n_jobs):
    expected = quiet(promised().fit, X, Y)
    target = None if name in ("rows.npz", "rows.svm") else "y"
    more = {"n_features": 3} if name == "rows.svm" else {}
    found = quiet(rl.fit_file, promised(n_jobs=n_jobs), files / name, target, memory=0, **more)
    assert found.fingerprint_ == expected.fingerprint_
    assert found.certificate_ == expected.certificate_
    assert found.plan_.spent == expected.plan_.spent


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "parts"])
def test_a_protocol_gives_the_same_from_files(files, protocol, name):
    frame = pd.DataFrame(X, columns=NAMES)
    lead = quiet(protocol.estimator().fit, frame, Y)
    found = quiet(rl.fit_file, protocol.estimator(), files / name, "y")
    assert (found.fingerprint_, found.hint_) == (lead.fingerprint_, lead.hint_)
    told = quiet(rl.fit_file, protocol.estimator(hint=1), files / name, "y")
    assert told.hint_ == 1


def test_sparse_files_give_the_bytes_of_dense_rows(tmp_path):
    sparse = sp.random(800, 40, density=0.2, format="csr", random_state=0, dtype=np.float32)
    y = (np.asarray(sparse.sum(axis=1)).ravel() > 4).astype(int)
    dump_svmlight_file(sparse, y, str(tmp_path / "rows.svm"), zero_based=False)
    read = quiet(rl.fit_file, promised(), tmp_path / "rows.svm", n_features=40)
    dense = sparse.toarray().astype(np.float64)
    # the text of a file holds its numbers exactly
    assert read.fingerprint_ == quiet(promised().fit, dense, y).fingerprint_


def test_memory_does_not_grow_with_the_rows(tmp_path, protocol):
    peaks = []
    for copies in (100, 300):  # readers take 2^17 rows at a time
        frame = pd.concat([pd.DataFrame(X, columns=NAMES).assign(y=Y)] * copies)
        path = tmp_path / f"{copies}.parquet"
        frame.to_parquet(path, index=False, row_group_size=3000)
        del frame
        quiet(rl.fit_file, protocol.estimator(), path, "y")  # what is imported for it stays
        tracemalloc.start()
        found = quiet(rl.fit_file, protocol.estimator(), path, "y")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.plan_.spent.n_rows == copies * N
    assert peaks[1] < 1.6 * peaks[0]  # three times the rows


def test_a_checkpoint_is_refused_with_the_reason(files, tmp_path):
    with pytest.raises(rl.ReplearnError, match="shuffles nothing"):
        rl.fit_file(promised(), files / "rows.csv", "y", checkpoint=tmp_path / "state")


def test_files_of_one_class_are_refused(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES).assign(y=1)
    frame.to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(rl.ReplearnError, match="two"):
        rl.fit_file(promised(), tmp_path / "one.csv", "y")


# ---------------------------------------------------------------- streams


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, N - 1), max_size=5, unique=True), st.integers(0, 2**32 - 1))
def test_a_stream_in_any_pieces_and_order_is_the_fit(protocol, cuts, seed):
    frame, order = pd.DataFrame(X, columns=NAMES), np.random.default_rng(seed).permutation(N)
    expected = quiet(protocol.estimator().fit, frame, Y)
    clf = protocol.estimator()
    for rows in np.split(order, sorted(cuts)):
        clf.partial_fit(frame.iloc[rows], Y[rows], classes=[0, 1])
    assert clf.fingerprint_ == expected.fingerprint_
    assert clf.hint_ == expected.hint_
    assert clf.certificate_ == expected.certificate_
    assert (clf.predict_proba(frame) == expected.predict_proba(frame)).all()


def test_a_stream_has_a_fingerprint_at_any_time(protocol):
    frame = pd.DataFrame(X, columns=NAMES)
    clf = protocol.estimator()
    assert not hasattr(clf, "fingerprint_")
    by_label = np.argsort(Y, kind="stable")  # rows need not be shuffled
    frame, y = frame.iloc[by_label], Y[by_label]
    clf.partial_fit(frame[:1000], y[:1000], classes=[0, 1])
    assert not hasattr(clf, "fingerprint_")  # one class so far
    with pytest.raises(rl.ReplearnError, match="one class"):
        clf.predict(frame)
    for end in (2500, 3000):
        clf.partial_fit(
            frame[(1000 if end == 2500 else 2500) : end], y[(1000 if end == 2500 else 2500) : end]
        )
        assert (
            clf.fingerprint_ == quiet(protocol.estimator().fit, frame[:end], y[:end]).fingerprint_
        )
    again = pickle.loads(pickle.dumps(clf))
    assert again.fingerprint_ == clf.fingerprint_
    assert not hasattr(clone(clf), "fingerprint_")
    assert quiet(clf.fit, frame[:2000], y[:2000]).plan_.spent.n_rows == 2000
    clf.partial_fit(frame, y)
    assert clf.plan_.spent.n_rows == 3000  # a fit ends the stream


def test_streams_of_several_steps_or_changed_plans_are_refused(protocol):
    with pytest.raises(rl.ReplearnError, match=r"rows once, got a design of several steps"):
        promised().partial_fit(X, Y)
    assert not hasattr(promised(), "partial_fit")
    frame = pd.DataFrame(X, columns=NAMES)
    clf = protocol.estimator().partial_fit(frame, Y)
    clf.set_params(
        published=rl.plan_from_pilot(frame[:500], Y[:500], samples_per_site=99)
        .protocol.estimator()
        .published
    )
    with pytest.raises(rl.ReplearnError, match="changed in the middle"):
        clf.partial_fit(frame, Y)
