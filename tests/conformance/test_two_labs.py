"""The promise: two labs with *different* samples get exactly the same model, as often as said.

Every pair has its own population, its own two samples and its own published seed. At 60 pairs the
check of a promise of .1 gives a false alarm with probability at most 1e-6 and catches a true rate
of .4 with probability .88, of .5 with .99; a promise of .3 is caught at .7 with .94.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from replearn import ReplicabilityWarning, ReplicableSVMClassifier, compare
from replearn.datasets import make_margin
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import Guarantee
from tests.error_budget import assert_rate_at_most, power

N_PAIRS = 60
PROMISE = {"margin": 0.2, "max_error": 0.05, "max_disagreement": 0.1, "failure_prob": 0.05}
CERTIFIED = {"margin": 0.8, "max_error": 0.3, "max_disagreement": 0.3, "failure_prob": 0.3}


def lab(seed, number, n_rows, n_features, margin):
    """The sample of one lab: same population as the other's, other rows."""
    rng = np.random.default_rng([seed, number])
    return make_margin(n_rows, n_features, margin, population=seed, random_state=rng)


def fit_pairs(seeds, fit, n_rows, n_features, margin):
    """What ``fit(X, y, seed)`` gives to both labs, for each seed; ``n_rows`` of each lab."""

    def pair(seed):
        samples = [lab(seed, i, n, n_features, margin) for i, n in enumerate(n_rows)]
        assert not np.isin(samples[0][0][:, 0], samples[1][0][:, 0]).any()  # no row in common
        return [fit(X, y, seed) for X, y in samples]

    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore", ReplicabilityWarning)  # some seeds are unlucky, and say so
        return list(pool.map(pair, seeds(N_PAIRS)))


def replicable(**parameters):
    return lambda X, y, seed: ReplicableSVMClassifier(**parameters, shared_seed=seed).fit(X, y)


def n_different(pairs):
    return sum(first.fingerprint_ != second.fingerprint_ for first, second in pairs)


def mean_error(pairs, n_features, margin):
    """Mean error on new rows, over all labs."""
    errors = []
    for first, second in pairs:
        seed = int(first.model_.seed)
        X, y = lab(seed, 2, 2000, n_features, margin)
        errors += [1 - first.score(X, y), 1 - second.score(X, y)]
    return float(np.mean(errors))


def test_the_stated_power():
    assert power(N_PAIRS, 0.1, 0.4) == pytest.approx(0.88, abs=0.01)
    assert power(N_PAIRS, 0.1, 0.5) > 0.99
    assert power(N_PAIRS, 0.3, 0.7) == pytest.approx(0.94, abs=0.01)


# ---------------------------------------------------------------- the promise


@pytest.mark.parametrize("larger", [1.0, 1.25], ids=["same size", "one lab has more rows"])
def test_practical_mode(seeds, larger):
    n_features = 10
    plan = plan_svm(Guarantee(**PROMISE), n_features + 1)
    sizes = (plan.n_samples, int(larger * plan.n_samples))
    pairs = fit_pairs(seeds, replicable(**PROMISE), sizes, n_features, PROMISE["margin"])
    assert_rate_at_most(n_different(pairs), N_PAIRS, PROMISE["max_disagreement"])
    assert mean_error(pairs, n_features, PROMISE["margin"]) < 2 * PROMISE["max_error"]
    assert len({model.fingerprint_ for pair in pairs for model in pair}) >= N_PAIRS  # no constant


def test_certified_mode(seeds):
    n_features = 3
    plan = plan_svm(Guarantee(**CERTIFIED), n_features, "certified")
    fit = replicable(**CERTIFIED, mode="certified", fit_intercept=False)
    pairs = fit_pairs(seeds, fit, (plan.n_samples,) * 2, n_features, CERTIFIED["margin"])
    assert_rate_at_most(n_different(pairs), N_PAIRS, CERTIFIED["max_disagreement"])
    bounds = [model.certificate_.disagreement_bound for pair in pairs for model in pair]
    assert max(bounds) <= CERTIFIED["max_disagreement"]
    n_bad = sum(
        mean_error([pair], n_features, CERTIFIED["margin"]) > CERTIFIED["max_error"]
        for pair in pairs
    )
    assert_rate_at_most(n_bad, N_PAIRS, CERTIFIED["failure_prob"])


def test_paper_mode_with_sizes_by_hand(seeds):
    n_features, margin = 5, 0.5
    sizes = {"n_batches": 800, "batch_size": 20, "n_components": 12, "grid_width": 0.4}
    fit = replicable(mode="paper", margin=margin, fit_intercept=False, **sizes)
    pairs = fit_pairs(seeds, fit, (16_000, 16_000), n_features, margin)
    # whatever the population, unit vectors have a variance of at most 1
    bound = 0.8 * np.sqrt(12) / 0.4 * np.sqrt(2 / 800)
    assert bound == pytest.approx(0.35, abs=0.01)
    assert_rate_at_most(n_different(pairs), N_PAIRS, bound)
    assert all(max(m.certificate_.disagreement_bound for m in pair) <= bound for pair in pairs)
    assert mean_error(pairs, n_features, margin) < 0.3


def test_different_models_are_told_apart_by_their_codes_alone(seeds):
    fit = replicable(margin=0.3, grid_width=0.05)
    pairs = fit_pairs(seeds, fit, (1000, 1200), 6, 0.3)
    different = [compare(a.model_, b.model_) for a, b in pairs if a.fingerprint_ != b.fingerprint_]
    assert different  # so small samples and so fine a grid disagree now and then
    for result in different:
        assert result.differences == (
            f"{result.n_codes_differing} of {result.n_codes} codes differ",
        )


# ---------------------------------------------------------------- and what does not keep it


def test_a_learner_without_rounding_never_agrees(seeds):
    def coefficients(X, y, seed):
        learner = LinearSVC(dual=False, random_state=seed).fit(X, y)
        return np.append(learner.coef_, learner.intercept_).tobytes()

    pairs = fit_pairs(seeds, coefficients, (4000, 4000), 10, PROMISE["margin"])
    n_same = sum(first == second for first, second in pairs)
    assert n_same == 0
    with pytest.raises(AssertionError, match="is promised"):
        assert_rate_at_most(N_PAIRS - n_same, N_PAIRS, PROMISE["max_disagreement"])


def test_too_fine_a_grid_never_agrees_and_the_certificates_say_so(seeds):
    fit = replicable(**PROMISE, grid_width=1e-4, rounding="centre")
    pairs = fit_pairs(seeds, fit, (4000, 4000), 10, PROMISE["margin"])
    assert n_different(pairs) == N_PAIRS
    with pytest.raises(AssertionError, match="is promised"):
        assert_rate_at_most(n_different(pairs), N_PAIRS, PROMISE["max_disagreement"])
    certificates = [model.certificate_ for pair in pairs for model in pair]
    assert all(certificate.estimated_disagreement > 0.99 for certificate in certificates)
    assert all(certificate.disagreement_bound == 1 for certificate in certificates)


def test_seeds_that_differ_give_models_that_differ(seeds):
    X, y = lab(0, 0, 4000, 10, PROMISE["margin"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        models = [replicable(**PROMISE)(X, y, seed).fingerprint_ for seed in seeds(5)]
    assert len(set(models)) == 5
