"""The logistic classifier is a scikit-learn classifier, without a protocol and with one."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import replearn as rl


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
@parametrize_with_checks([rl.ReplicableLogisticClassifier(samples_per_site=1_000_000)])
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 12, 4000), "dose": rng.gamma(2.0, 3.0, 4000)})
    log_odds = (frame.age - 50) / 12 - frame.dose / 6
    return frame, np.where(rng.random(4000) < 1 / (1 + np.exp(-log_odds)), "ill", "well")


def quiet(function, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **keywords)


def make(table, planned):
    frame, y = table
    if planned:
        return rl.plan_from_pilot(frame[:600], y[:600], samples_per_site=4000).protocol.estimator()
    return rl.ReplicableLogisticClassifier(samples_per_site=4000)


@pytest.mark.parametrize("planned", [False, True])
def test_all_tables_give_one_model(table, planned):
    frame, y = table
    clf = make(table, planned)
    tables = [frame, pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)]
    prints = {quiet(clone(clf).fit, rows, y).fingerprint_ for rows in tables}
    prints.add(quiet(clone(clf).fit, frame.to_numpy(), y).fingerprint_)
    assert len(prints) == 1


@pytest.mark.parametrize("planned", [False, True])
def test_pickles_and_clones(table, planned):
    frame, y = table
    clf = quiet(make(table, planned).fit, frame, y)
    again = pickle.loads(pickle.dumps(clf))
    assert again.fingerprint_ == clf.fingerprint_
    assert (again.predict_proba(frame) == clf.predict_proba(frame)).all()
    assert quiet(clone(clf).fit, frame, y).fingerprint_ == clf.fingerprint_


def test_pipelines_and_cross_validation(table):
    frame, y = table
    clf = rl.ReplicableLogisticClassifier(samples_per_site=4000)
    scores = quiet(
        cross_val_score, make_pipeline(StandardScaler(), clf), frame, y, scoring="roc_auc"
    )
    assert scores.min() > 0.7
