"""The estimators keep scikit-learn's contract, and take the tables that people have."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from replearn import ReplicableSVMClassifier
from replearn.datasets import make_margin

# scikit-learn's data sets are far too small to say anything about another lab
TINY = pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")

#: Fifty noisy rows with weights of 1,000 and .0001: what is left of them is rounded away.
HOPELESS = {"check_class_weight_classifiers": "the check fits fifty rows of noise"}

X, Y = make_margin(6000, 5, margin=0.4, random_state=0)
NAMES = ["age", "dose", "pulse", "size", "length"]


def classifier(**parameters):
    # so lax that no seed is a reason for a warning
    return ReplicableSVMClassifier(**{"margin": 0.4, "max_disagreement": 0.99} | parameters)


@TINY
@parametrize_with_checks(
    [
        ReplicableSVMClassifier(),
        ReplicableSVMClassifier(
            fit_intercept=False,
            batch_size=20,
            n_components=10,
            projection="gaussian",
            rounding="centre",
            n_jobs=2,
        ),
    ],
    expected_failed_checks=lambda _: HOPELESS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_attributes_have_the_shapes_of_a_linear_classifier():
    fitted = classifier().fit(X, np.where(Y > 0, "ill", "healthy"))
    assert fitted.coef_.shape == (1, 5)
    assert fitted.intercept_.shape == (1,)
    assert fitted.classes_.tolist() == ["healthy", "ill"]
    assert fitted.n_features_in_ == 5
    assert not hasattr(fitted, "feature_names_in_")
    scores = fitted.decision_function(X)
    np.testing.assert_allclose(scores, X @ fitted.coef_[0] + fitted.intercept_[0], rtol=1e-12)
    assert ((fitted.predict(X) == "ill") == (scores > 0)).all()
    assert fitted.score(X, np.where(Y > 0, "ill", "healthy")) > 0.8


def test_nothing_of_the_model_is_there_before_fit():
    fresh = classifier()
    for name in ("coef_", "intercept_", "fingerprint_", "model_", "plan_", "certificate_"):
        assert not hasattr(fresh, name)


def test_clone_and_refit_give_the_same_model():
    first = classifier(max_error=0.1).fit(X, Y)
    again = clone(first).fit(X, Y)
    assert not hasattr(clone(first), "model_")
    assert again.get_params() == first.get_params()
    assert again.fingerprint_ == first.fingerprint_ == first.fit(X, Y).fingerprint_


def test_a_pickled_classifier_is_the_same_classifier():
    fitted = classifier().fit(X, Y)
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.fingerprint_ == fitted.fingerprint_
    assert (copy.predict(X) == fitted.predict(X)).all()


def test_pipeline_with_a_stateless_normalizer_changes_nothing_but_the_lengths():
    long_rows = X * np.linspace(0.1, 10, len(X))[:, None]
    alone = classifier(fit_intercept=False).fit(X, Y)
    pipeline = make_pipeline(Normalizer(), classifier(fit_intercept=False)).fit(long_rows, Y)
    assert pipeline[-1].fingerprint_ == alone.fingerprint_
    assert pipeline.score(long_rows, Y) == alone.score(X, Y)


def test_cross_validation():
    scores = cross_val_score(classifier(), X, Y, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.8


def test_grid_search_over_the_margin():
    search = GridSearchCV(classifier(), {"margin": [0.3, 0.4, 0.5]}, cv=2).fit(X, Y)
    assert search.best_params_["margin"] in (0.3, 0.4, 0.5)
    assert (
        search.best_estimator_.fingerprint_
        == classifier(**search.best_params_).fit(X, Y).fingerprint_
    )


@pytest.mark.parametrize(
    "make_table",
    [
        lambda values: pd.DataFrame(values, columns=NAMES),
        lambda values: pl.DataFrame(values, schema=NAMES),
        lambda values: pa.table(dict(zip(NAMES, values.T, strict=True))),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_tables_keep_their_column_names(make_table):
    fitted = classifier().fit(make_table(X), Y)
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.model_.feature_names == tuple(NAMES)
    assert fitted.fingerprint_ == classifier().fit(X, Y).fingerprint_
    assert (fitted.predict(make_table(X)) == fitted.predict(pd.DataFrame(X, columns=NAMES))).all()


def test_columns_in_another_order_are_refused():
    fitted = classifier().fit(pd.DataFrame(X, columns=NAMES), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(pd.DataFrame(X[:, ::-1], columns=NAMES[::-1]))


@pytest.mark.parametrize("make_sparse", [sp.csr_matrix, sp.csr_array, sp.csc_array])
def test_sparse_rows_at_fit_and_predict(make_sparse):
    fitted = classifier().fit(make_sparse(X), Y)
    assert fitted.fingerprint_ == classifier().fit(X, Y).fingerprint_
    assert (fitted.predict(make_sparse(X)) == fitted.predict(X)).all()


def test_the_callers_sparse_matrix_is_not_touched():
    unsorted = sp.csr_array(X)
    for row in range(unsorted.shape[0]):
        part = slice(unsorted.indptr[row], unsorted.indptr[row + 1])
        unsorted.indices[part] = unsorted.indices[part][::-1]
        unsorted.data[part] = unsorted.data[part][::-1]
    unsorted.has_sorted_indices = unsorted.has_canonical_format = False
    before = unsorted.indices.copy()
    fitted = classifier().fit(unsorted, Y)
    assert (unsorted.indices == before).all()
    assert fitted.fingerprint_ == classifier().fit(X, Y).fingerprint_


def test_float32_rows():
    fitted = classifier().fit(X.astype(np.float32), Y)
    assert fitted.decision_function(X.astype(np.float32)).shape == (len(X),)
    assert fitted.score(X.astype(np.float32), Y) > 0.8


@pytest.mark.parametrize(
    "labels", [(0, 1), (-1.0, 1.0), (False, True), ("no", "yes"), (7, 9)], ids=str
)
def test_any_two_labels(labels):
    y = np.array(labels)[(Y > 0).astype(int)]
    fitted = classifier().fit(X, y)
    assert set(fitted.predict(X)) <= set(labels)
    assert fitted.predict(X).dtype == y.dtype
    assert (fitted.model_.codes == classifier().fit(X, Y).model_.codes).all()
    assert fitted.model_.predict(X).tolist() == fitted.predict(X).tolist()


def test_verbose_says_how_far_it_is(capsys):
    classifier(verbose=1).fit(X, Y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == "fitting: 100 %"
    classifier().fit(X, Y)
    assert capsys.readouterr().err == ""
