"""Labels become signs in one place: from pieces as from the whole, known ones however spelled."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replearn as rl
from replearn.errors import ReplearnError
from replearn.sources.labels import Labels


def taken(*pieces, **settings):
    labels = Labels("a.csv", **settings)
    for piece in pieces:
        labels.take(np.array(piece, dtype=object) if isinstance(piece, list) else piece)
    return labels


@given(st.lists(st.sampled_from(["no", "yes"]), min_size=1), st.integers(0, 20))
def test_pieces_and_the_whole_agree(values, cut):
    if len(set(values)) < 2:
        values = [*values, "no", "yes"]
    y = np.array(values, dtype=object)
    labels = Labels()
    numbers = np.concatenate([labels.take(y[:cut]), labels.take(y[cut:])])
    assert labels.classes.tolist() == ["no", "yes"]
    expected = [1 if value == "yes" else -1 for value in values]
    assert labels.targets_of(numbers).tolist() == expected
    assert labels.targets(y).tolist() == expected
    assert pickle.loads(pickle.dumps(labels)).targets(y).tolist() == expected


@pytest.mark.parametrize(
    ("pieces", "classes"),
    [
        ([["1", "0"]], [0, 1]),
        ([["1"], ["0", "1.0"]], [0.0, 1.0]),
        ([["10", "9"]], [9, 10]),  # numbers, not text
        ([["1"], ["a"]], ["1", "a"]),
        ([np.array([3, 2, 3])], [2, 3]),
        ([np.array([True]), np.array([False])], [False, True]),
        ([np.array([1.0]), np.array([-1.0])], [-1.0, 1.0]),
        ([["-1", "+1"]], [-1, 1]),
    ],
)
def test_labels_of_files_have_the_type_that_all_of_them_allow(pieces, classes):
    labels = taken(*pieces, from_text=True)
    assert labels.complete
    assert labels.classes.tolist() == classes
    assert type(labels.classes.tolist()[0]) is type(classes[0])


@pytest.mark.parametrize("kind", [bool, "i1", "u8", "f4", "f8", "U3", object])
def test_labels_of_arrays_keep_their_type(kind):
    y = np.array([1, 0, 0, 1]).astype(kind)
    labels = Labels()
    assert labels.targets(y).tolist() == [1, -1, -1, 1]
    if kind is not object:  # numbers are not worth a box each
        assert labels.classes.dtype == y.dtype
    assert labels.classes.tolist() == sorted(set(y.tolist()))


def test_spellings_of_one_number_are_one_label_in_files():
    labels = taken(["1", "0", "1.0"], from_text=True)
    y = np.array(["1.0", "1", "0", "0.0"], dtype=object)
    assert labels.targets(y).tolist() == [1, 1, -1, -1]


KNOWN = [
    ((0, 1), [[0, 1], [0.0, 1.0], [False, True], ["0", "1"], ["0.0", "1e0"], ["FALSE", "true"]]),
    ((False, True), [[False, True], [0, 1], ["0", "1"], ["false", "TRUE"], [0.0, 1.0]]),
    (("0", "1"), [["0", "1"], [0, 1], [0.0, 1.0], [False, True], ["0.0", "1"]]),
    ((7, 8), [[7, 8], ["007", "8"], ["7.0", "8"]]),
    (("no", "yes"), [["no", "yes"]]),
    (("007", "8"), [["007", 8]]),
]


@pytest.mark.parametrize(
    ("known", "spelled"), [(known, pair) for known, pairs in KNOWN for pair in pairs]
)
def test_known_labels_win_over_their_spelling(known, spelled):
    for y in (np.array(spelled), np.array(spelled, dtype=object), pd.Series(spelled)):
        labels = Labels(known=known)
        assert labels.targets(y).tolist() == [-1, 1]
        assert labels.values(y).tolist() == list(known)
        assert type(labels.values(y).tolist()[0]) is type(known[0])


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ((0, 1), [0, 2]),
        ((1, 2), [True, 2]),  # True is 1 only where the other one is 0
        ((1, 2), ["one", "2"]),
        (("007", "8"), [7, 8]),  # a code is not a number
        (("7", "8"), ["007", "8"]),
        (("no", "yes"), [False, True]),
        (("no", "yes"), ["No", "yes"]),
    ],
)
def test_labels_that_are_not_certainly_known_ones_are_refused(known, found):
    with pytest.raises(ReplearnError, match=r"must hold the labels of the protocol, .* Recode"):
        Labels(known=known).take(np.array(found, dtype=object))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([["a", "b"], ["c"]], "a.csv must hold two classes, got more: 'a', 'b', 'c'"),
        ([np.array([0, 1]), np.array([2])], "got more: 0, 1, 2. Only binary"),
        ([np.arange(9)], "got more: 0, 1, 2"),
        ([["0.5", "1.5"]], r"got 0.5 \(Unknown label type: continuous"),
        ([np.array([0.5, 1.5])], r"got 0.5 \(Unknown label type: continuous"),
        ([np.array([0, np.inf])], "Unknown label type: continuous"),
        ([np.array([1, np.nan])], r"a missing label in row 1 \(counted from 0\)"),
        ([[1, None, 0]], "a missing label in row 1"),
        ([[1, 0, pd.NA]], "a missing label in row 2"),
        ([["a", np.nan, np.nan]], "a missing label in row 1"),
        ([[[1], [2]]], "Unknown label type: list"),
        ([[b"a", b"b"]], "Unknown label type: bytes"),
        ([np.array(["2020-01-01"], dtype="M8[D]")], "Unknown label type: datetime64"),
        ([np.array([1j, 2])], "Unknown label type: complex128"),
    ],
)
def test_other_labels_are_refused_at_once(pieces, words):
    with pytest.raises(ReplearnError, match=words):
        taken(*pieces, from_text=True)


@pytest.mark.parametrize("known", [None, ("a", "b")])
def test_one_label_is_refused_when_both_are_needed(known):
    labels = taken(["a", "a"], known=known)
    with pytest.raises(ReplearnError, match=r"must hold two classes, got one class: 'a'\. Check"):
        labels.require_both()
    assert labels.complete == (known is not None)


def test_one_protocol_gives_one_model_however_a_lab_spells_its_labels(tmp_path):
    X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    parameters = {"margin": 0.3, "max_disagreement": 0.9}
    published = rl.Published(classes=(0, 1))
    spellings = {
        "whole": np.where(y > 0, 1, 0),
        "real": np.where(y > 0, 1.0, 0.0),
        "flags": y > 0,
        "text": np.where(y > 0, "1", "0"),
        "words": np.where(y > 0, "True", "False"),
    }
    found = set()
    for name, labels in spellings.items():
        fitted = rl.ReplicableSVMClassifier(**parameters, published=published).fit(X, labels)
        assert fitted.classes_.tolist() == [0, 1]
        assert set(fitted.predict(X[:50]).tolist()) == {0, 1}
        found.add(fitted.fingerprint_)
        for path in (tmp_path / f"{name}.csv", tmp_path / f"{name}.parquet"):
            rows = table.assign(label=labels)
            rows.to_csv(path, index=False) if path.suffix == ".csv" else rows.to_parquet(path)
            for memory in (0, 1 << 30):
                clf = rl.ReplicableSVMClassifier(**parameters, published=published)
                found.add(rl.fit_file(clf, path, "label", memory=memory).fingerprint_)
    assert len(found) == 1


def test_an_audit_counts_no_errors_that_are_spellings():
    X, y = rl.datasets.make_margin(3000, 3, margin=0.3, random_state=0)
    clf = rl.ReplicableSVMClassifier(margin=0.3, published=rl.Published(classes=(0, 1)))
    text = np.where(y > 0, "1", "0")
    result = rl.audit(clf, X, text, n_pairs=2, question="halves")
    assert result.main.data()["test_error"] < 0.2
