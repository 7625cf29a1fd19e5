"""The linear regressor is a scikit-learn regressor."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import replearn as rl


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
@parametrize_with_checks(
    [rl.ReplicableLinearRegressor(y_range=(-10, 10), samples_per_site=1_000_000)]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


def quiet(function, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **keywords)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 12, 3000), "dose": rng.gamma(2.0, 3.0, 3000)})
    return frame, (frame.age - 50) / 12 - frame.dose / 6 + rng.normal(size=3000)


def test_in_a_pipeline(table):
    frame, y = table
    model = make_pipeline(StandardScaler(), rl.ReplicableLinearRegressor((-8, 8), hint_bits=4))
    assert is_regressor(model)
    assert quiet(cross_val_score, model, frame, y, cv=3).min() > 0.3
    fitted = quiet(model.fit, frame, y)
    assert fitted[-1].n_features_in_ == 2
    assert (
        pickle.loads(pickle.dumps(fitted)).predict(frame).tolist() == fitted.predict(frame).tolist()
    )
    assert not hasattr(clone(fitted[-1]), "model_")
    with pytest.raises(AttributeError):
        fitted.decision_function(frame)


def test_rows_of_all_kinds_give_one_model(table):
    frame, y = table
    X = StandardScaler().fit_transform(frame)
    make = rl.ReplicableLinearRegressor(y_range=(-8, 8), samples_per_site=3000)
    whole = quiet(clone(make).fit, X, y)
    order = np.random.default_rng(1).permutation(3000)
    for rows, numbers in (
        (X[order], y[order]),
        (sp.csr_array(X), y.to_numpy()),
        (np.asfortranarray(X), y.to_list()),
    ):
        again = quiet(clone(make).set_params(n_jobs=2).fit, rows, numbers)
        assert again.fingerprint_ == whole.fingerprint_
        assert again.certificate_ == whole.certificate_


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "y_range must be two numbers"),
        ({"y_range": (3, 1)}, "the smaller first"),
        ({"y_range": (0, np.nan)}, "y_range must be two numbers"),
        ({"y_range": (0, 1), "residual_sd": -1}, "residual_sd must be"),
        ({"y_range": (0, 1), "hint": 1}, "hint needs hint bits"),
    ],
)
def test_odd_parameters_are_refused(parameters, words):
    with pytest.raises(rl.ReplearnError, match=words):
        rl.ReplicableLinearRegressor(**parameters).fit(np.zeros((5, 2)), np.zeros(5))


def test_odd_numbers_are_refused_and_many_beyond_the_range_are_told():
    X = np.random.default_rng(0).normal(size=(200, 2))
    lax = {"max_disagreement": 0.9, "samples_per_site": 50}
    model = rl.ReplicableLinearRegressor(y_range=(-1, 1), **lax)
    with pytest.raises(ValueError, match="y contains infinity"):
        model.fit(X, np.where(np.arange(200) == 3, np.inf, 0.0))
    with pytest.raises(rl.ReplearnError, match="Labels need a classifier"):
        model.fit(X, np.array(["a", "b"] * 100, dtype=object))
    with pytest.warns(rl.ReplicabilityWarning, match="numbers are beyond the published range"):
        model.fit(X, 5 * X[:, 0])
