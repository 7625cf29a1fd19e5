"""The replicable scaler, and the ledger of a pipeline."""

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import replearn as rl
from tests.error_budget import assert_rate_at_most


def sample(seed, n=4000):
    rng = np.random.default_rng(seed)
    return rng.normal([0, 5, -2000], [1, 0.01, 300], size=(n, 3))


def quiet_scaler(**parameters):
    return rl.ReplicableScaler(max_disagreement=0.99, **parameters)


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([rl.ReplicableScaler()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_two_labs_get_the_same_numbers():
    first, second = (quiet_scaler(shared_seed=4).fit(sample(lab)) for lab in (1, 2))
    assert first.fingerprint_ == second.fingerprint_
    assert np.array_equal(first.centre_, second.centre_)
    assert np.array_equal(first.scale_, second.scale_)


def test_columns_come_out_about_centred_and_of_about_unit_size():
    for seed in range(20):
        made = quiet_scaler(shared_seed=seed, cell=1.0).fit_transform(sample(0))
        assert (np.abs(made.mean(axis=0)) < 1.05).all()  # half a cell, of a scale off by exp(.5)
        assert ((made.std(axis=0) > 0.55) & (made.std(axis=0) < 1.8)).all()


def test_disagreement_is_as_estimated(seeds):
    """Walls between two labs' means: at most the estimate on average. 600 pairs of labs.

    A true rate of .30 against the bound would be caught with probability .99.
    """
    differ, estimates = 0, []
    for seed in seeds(600):
        labs = [quiet_scaler(shared_seed=seed).fit(sample([seed, lab], 200)) for lab in (0, 1)]
        differ += labs[0].fingerprint_ != labs[1].fingerprint_
        estimates.append(labs[0].estimated_disagreement_)
    assert 0.05 < np.mean(estimates) < 0.6
    assert_rate_at_most(differ, 600, float(np.mean(estimates)))


def test_same_rows_in_any_order_give_the_same_centres():
    X = sample(0)
    shuffled = X[np.random.default_rng(1).permutation(len(X))]
    first, second = quiet_scaler().fit(X), quiet_scaler().fit(shuffled)
    assert np.array_equal(first.codes_[3:], second.codes_[3:])


def test_a_constant_column_keeps_its_size():
    X = np.column_stack([sample(0), np.full(4000, 3.0)])
    scaler = quiet_scaler().fit(X)
    assert scaler.scale_[3] == 1.0
    assert np.isfinite(scaler.transform(X)).all()


def test_scales_have_three_digits():
    scaler = quiet_scaler().fit(sample(0))
    assert all(float(f"{scale:.3g}") == scale for scale in scaler.scale_)


def test_the_encoding_scales_alike():
    X = sample(0)
    scaler = quiet_scaler().fit(X)
    assert np.allclose(scaler.encoding().transform(X), scaler.transform(X), rtol=1e-4, atol=1e-2)


def test_too_few_rows_warn_and_name_the_remedy():
    with pytest.warns(rl.ReplicabilityWarning, match="widen cell, or fix the scaling"):
        rl.ReplicableScaler().fit(sample(0, 30))


@pytest.mark.parametrize("cell", [0, -1, "wide", float("inf")])
def test_bad_cells_are_refused(cell):
    with pytest.raises(rl.ReplearnError, match="cell must be a positive number"):
        rl.ReplicableScaler(cell=cell).fit(sample(0))


def test_not_fitted_means_no_fingerprint():
    assert not hasattr(rl.ReplicableScaler(), "fingerprint_")


def test_a_pipeline_of_replicable_steps_replicates():
    def lab(seed):
        X, y = rl.datasets.make_margin(20_000, 4, margin=0.3, random_state=seed)
        return X * [1, 10, 0.1, 3], y

    labs = []
    for seed in (1, 2):
        pipeline = make_pipeline(
            quiet_scaler(shared_seed=5), rl.ReplicableSVMClassifier(margin=0.1)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rl.ReplicabilityWarning)
            labs.append(pipeline.fit(*lab(seed)))
    assert labs[0][0].fingerprint_ == labs[1][0].fingerprint_
    X, y = lab(3)
    assert labs[0].score(X, y) > 0.85


# --- published bounds ---------------------------------------------------------------------------


def test_bounds_give_a_proved_scaler():
    def lab(seed):
        return np.random.default_rng(seed).uniform([0, 10], [1, 30], size=(60_000, 2))

    scalers = [
        rl.ReplicableScaler(max_disagreement=0.5, tolerance=0.2, bounds=[(0, 1), (0, 40)]).fit(
            lab(seed)
        )
        for seed in (1, 2)
    ]
    assert scalers[0].fingerprint_ == scalers[1].fingerprint_
    assert scalers[0].estimated_disagreement_ == 0.5
    assert abs(scalers[0].centre_[0] - 0.5) <= 0.2
    assert abs(scalers[0].centre_[1] - 20) <= 0.2 * 40
    assert (scalers[0].scale_ > 0).all()


def test_bounds_need_enough_rows():
    with pytest.raises(rl.NotEnoughSamples, match="needs"):
        rl.ReplicableScaler(bounds=(-5000, 5000)).fit(sample(0))


@pytest.mark.parametrize("bounds", [(1, 0), [(0, 1), (0, 1)], "wide", (0, float("inf"))])
def test_bad_bounds_are_refused(bounds):
    with pytest.raises(rl.ReplearnError, match="bounds must be a pair"):
        rl.ReplicableScaler(bounds=bounds).fit(sample(0))


# --- the ledger -------------------------------------------------------------------------------


def test_a_standard_scaler_upstream_is_named_with_its_fix():
    pipeline = make_pipeline(StandardScaler(), rl.ReplicableSVMClassifier())
    with pytest.warns(rl.ReplicabilityWarning, match=r"'standardscaler'.*Use ReplicableScaler"):
        ledger = rl.check_pipeline(pipeline)
    assert ledger.max_disagreement == 1
    assert "FROM ITS ROWS" in str(ledger)


def test_replicable_steps_add_up_and_stateless_ones_are_free():
    pipeline = make_pipeline(
        Normalizer(),
        FunctionTransformer(),
        rl.ReplicableScaler(max_disagreement=0.03),
        rl.ReplicableSVMClassifier(max_disagreement=0.1),
    )
    ledger = rl.check_pipeline(pipeline)
    statuses = [entry.status for entry in ledger.entries]
    assert statuses == ["stateless", "stateless", "replicable", "replicable"]
    assert ledger.max_disagreement == pytest.approx(0.13)


def test_nested_steps_are_found():
    columns = ColumnTransformer([("a", StandardScaler(), [0]), ("b", "passthrough", [1])])
    union = FeatureUnion([("pca", PCA())])
    pipeline = make_pipeline(columns, union, rl.ReplicableSVMClassifier())
    with pytest.warns(rl.ReplicabilityWarning):
        ledger = rl.check_pipeline(pipeline)
    names = {entry.name: entry.status for entry in ledger.entries}
    assert names["columntransformer/a"] == "learns"
    assert names["columntransformer/b"] == "stateless"
    assert names["featureunion/pca"] == "learns"
    for line, entry in zip(str(ledger).splitlines()[1:], ledger.entries, strict=False):
        assert line.split()[:2] == [entry.name, entry.kind]  # no column runs into the next


def test_a_single_classifier_is_a_pipeline_of_one():
    assert rl.check_pipeline(rl.ReplicableSVMClassifier()).max_disagreement == 0.1
