"""The classifiers over nets are scikit-learn classifiers, and their bytes depend on data alone."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from replearn import ReplicableDPClassifier, ReplicableNetClassifier
from replearn.datasets import make_margin
from replearn.errors import ReplicabilityWarning

pytestmark = pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")


@parametrize_with_checks([ReplicableNetClassifier(), ReplicableDPClassifier()])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        check(estimator)


ESTIMATORS = [
    ReplicableNetClassifier(margin=0.3, max_error=0.1),
    ReplicableNetClassifier(margin=0.3, max_error=0.1, net="lattice"),
    ReplicableNetClassifier(margin=0.3, max_error=0.1, agnostic=True),
    ReplicableNetClassifier(margin=0.3, max_error=0.1, n_repeats=5),
    ReplicableDPClassifier(margin=0.3, max_error=0.1),
    ReplicableDPClassifier(margin=0.3, max_error=0.1, n_components=3),
]


@pytest.fixture(scope="module")
def data():
    X, y = make_margin(6000, 4, 0.3, random_state=0)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = 0.0
    return X.astype(np.float32), y


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_same_data_same_bytes(estimator, data, monkeypatch):
    X, y = data
    expected = clone(estimator).fit(X, y).fingerprint_
    for same in (X.astype(np.float64), np.asfortranarray(X), sp.csr_matrix(X)):
        assert clone(estimator).fit(same, y).fingerprint_ == expected
    assert clone(estimator).set_params(n_jobs=3).fit(X, y).fingerprint_ == expected
    for name in ("_ROWS_PER_BLOCK", "_CANDIDATES_PER_BLOCK", "_FIRST_SEARCH", "_LARGEST_SEARCH"):
        monkeypatch.setattr(f"replearn.stages.net_search.{name}", 48)
    assert clone(estimator).fit(X, y).fingerprint_ == expected


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_any_two_labels_and_any_container(estimator, data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    words = np.where(y > 0, "yes", "no")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    fitted = clone(estimator).fit(frame, words)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert fitted.model_.feature_names == ("a", "b", "c", "d")
    plain = clone(estimator).fit(X, y)
    assert (fitted.model_.codes == plain.model_.codes).all()
    assert ((fitted.predict(frame) == "yes") == (plain.predict(X) == 1)).all()


def test_order_of_rows_does_not_matter(data):
    X, y = data
    order = np.random.default_rng(1).permutation(y.size)
    for estimator in (ESTIMATORS[0], ESTIMATORS[2], ESTIMATORS[4]):
        first, second = (clone(estimator).fit(X[o], y[o]) for o in (np.arange(y.size), order))
        assert first.fingerprint_ == second.fingerprint_
    sorted_rows = np.argsort(y, kind="stable")
    unshuffled = clone(ESTIMATORS[0]).set_params(shuffle=False)
    assert (
        unshuffled.fit(X[sorted_rows], y[sorted_rows]).fingerprint_
        == clone(ESTIMATORS[0]).fit(X, y).fingerprint_
    )


def test_pipeline_and_cross_validation(data):
    X, y = data
    for estimator in (ESTIMATORS[0], ESTIMATORS[4]):
        scores = cross_val_score(make_pipeline(MaxAbsScaler(), estimator), X, y, cv=3)
        assert scores.min() > 0.75
