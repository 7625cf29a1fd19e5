"""Grid searches that sites share."""

import numpy as np
import pytest
from joblib import parallel_backend
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import replearn as rl

X, Y = make_classification(3000, n_features=8, n_informative=5, random_state=0)
GRID = {"max_depth": [1, 3, 5, None]}
HALVES = slice(1500), slice(1500, 3000)


def search(**parameters):
    tree = DecisionTreeClassifier(random_state=0)
    return rl.ReplicableSearchCV(tree, GRID, **{"shared_seed": 3} | parameters)


def test_settings_are_scored_by_their_predictions_out_of_fold():
    folds = KFold(4, shuffle=True, random_state=1)
    found = search(cv=folds).fit(X, Y)
    for setting, score in zip(
        found.cv_results_["params"], found.cv_results_["mean_test_score"], strict=True
    ):
        tree = DecisionTreeClassifier(random_state=0, **setting)
        assert score == pytest.approx((cross_val_predict(tree, X, Y, cv=folds) == Y).mean())
    assert found.best_params_ == found.cv_results_["params"][found.best_index_]
    assert found.best_score_ == found.cv_results_["mean_test_score"][found.best_index_]
    assert found.cv_results_["rank_test_score"].min() == 1
    assert found.cv_results_["param_max_depth"].tolist() == [1, 3, 5, None]


def test_what_follows_is_the_chosen_setting():
    found = search(scoring="neg_log_loss").fit(X, Y)
    direct = DecisionTreeClassifier(random_state=0, **found.best_params_).fit(X, Y)
    assert (found.predict(X) == direct.predict(X)).all()
    np.testing.assert_array_equal(found.predict_proba(X), direct.predict_proba(X))
    assert not hasattr(found, "decision_function")
    assert found.n_features_in_ == 8


def test_parameters_replicate_and_trees_do_not_pretend_to():
    sites = [search().fit(X[half], Y[half]) for half in HALVES]
    assert sites[0].choice_.fingerprint == sites[1].choice_.fingerprint
    assert sites[0].best_params_ == sites[1].best_params_
    assert not hasattr(sites[0], "fingerprint_")
    settings = [search(refit=False).fit(X[half], Y[half]) for half in HALVES]
    assert settings[0].fingerprint_ == settings[1].fingerprint_
    with pytest.raises(AttributeError, match="refit"):
        settings[0].predict(X)


def test_the_whole_replicates_with_a_replicable_classifier():
    Xm, ym = rl.datasets.make_margin(24_000, 3, margin=0.4, random_state=0)
    classifier = rl.ReplicableSVMClassifier(margin=0.4, max_disagreement=0.5, shared_seed=5)
    grid = {"regularization": [0.1, 1.0]}
    sites = [
        rl.ReplicableSearchCV(classifier, grid, cv=3, shared_seed=5).fit(Xm[half], ym[half])
        for half in (slice(12_000), slice(12_000, 24_000))
    ]
    assert sites[0].fingerprint_ == sites[1].fingerprint_
    assert sites[0].fingerprint_ != sites[0].choice_.fingerprint


def test_jobs_and_order_of_the_grid_do_not_matter_or_do():
    first = search().fit(X, Y)
    with parallel_backend("threading"):
        second = search(n_jobs=2).fit(X, Y)
    assert first.choice_ == second.choice_
    assert first.noise_scale_ == second.noise_scale_
    other = rl.ReplicableSearchCV(first.estimator, {"max_depth": [3, 1, 5, None]}, shared_seed=3)
    assert other.fit(X, Y).choice_ != first.choice_


def test_noise_is_wider_than_for_finished_models():
    found = search(cv=5).fit(X, Y)
    tables = [
        cross_val_predict(DecisionTreeClassifier(random_state=0, **setting), X, Y, cv=5) == Y
        for setting in found.cv_results_["params"]
    ]
    plain = rl.plan_choice(row_scores=np.column_stack(tables).astype(float), samples_per_site=3000)
    ratio = float(found.noise_scale_) / float(plain.noise_scale)
    assert ratio == pytest.approx(1.5, rel=0.1)  # the root of 1 + 5/4
    assert found.certificate_.disagreement_bound == 1
    assert "cross-validation" in found.certificate_.assumes


def test_odd_searches_are_refused():
    with pytest.raises(rl.ReplearnError, match="each of 3,000 rows once"):
        search(cv=ShuffleSplit(3)).fit(X, Y)
    with pytest.raises(rl.ReplearnError, match="param_grid"):
        rl.ReplicableSearchCV(DecisionTreeClassifier(), 3).fit(X, Y)
    with pytest.raises(rl.ReplearnError, match="two classes"):
        search().fit(X, np.zeros(3000))
    with pytest.raises(rl.ReplearnError, match="noise_scale"):
        search(noise_scale=0).fit(X, Y)
    with pytest.warns(rl.ReplicabilityWarning, match="other parameters is about"):
        search(noise_scale=0.02, max_disagreement=0.01).fit(X, Y)


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@parametrize_with_checks(
    [
        rl.ReplicableSearchCV(
            make_pipeline(StandardScaler(), LogisticRegression()),
            {"logisticregression__C": [0.1, 1.0]},
            cv=2,
        )
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
