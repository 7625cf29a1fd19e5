"""Values that are made when they are read."""

import pickle

import numpy as np
import pytest

from replearn import ReplicableLogisticClassifier
from replearn.study import agreement
from replearn.types import Later


def test_a_value_is_made_once():
    calls = []
    later = Later(lambda: calls.append(1) or len(calls))
    assert [later(), later()] == [1, 1]


def test_a_copy_in_a_file_has_the_value():
    assert pickle.loads(pickle.dumps(Later(lambda: 7)))() == 7


def test_a_replication_looks_at_its_rows_again_only_if_somebody_reads(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (rng.logistic(size=400) < X[:, 0]).astype(int)
    study = ReplicableLogisticClassifier(ridge=0.01).fit(X, y).study_
    asked, support_of = [], agreement.support_of
    monkeypatch.setattr(
        agreement, "support_of", lambda *given: asked.append(1) or support_of(*given)
    )

    lab = ReplicableLogisticClassifier(study=study).fit(X, y)
    assert not asked

    copy = pickle.loads(pickle.dumps(lab))
    assert len(asked) == 1
    assert copy.replication_.findings == lab.replication_.findings
    assert len(asked) == 1
    assert copy.performance_.loss.value == pytest.approx(lab.performance_.loss.value)
