"""One regularised logistic fit on all rows: what its certificate and its plan rely on.

Inequalities about one data set are certain. Those about means or rates have a false-alarm
probability of 1e-6 or less; what they would catch is said beside them.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import replearn as rl
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.kernels.slopes import slope_sums
from replearn.plans.plan_rows import plan_rows
from replearn.plans.sizes import Guarantee, Sizes
from replearn.stages.batches import Rows
from replearn.stages.row_certificate import SLOPE_SHARE, certify_rows
from replearn.stages.row_fit import fit_all_rows, minimize
from tests.error_budget import assert_rate_at_most

NEAR = 1e-9


def solved(V, weight, n=None):
    """Minimum of the sum of losses over n, plus the ridge; its slopes."""
    signs, n = np.ones(len(V), dtype=np.int8), n or len(V)
    # losses over n in place of len(V): all of it times n / len(V) has the same minimum
    found = minimize(
        lambda u: slope_sums(V, signs, u), V.shape[1], weight * n / len(V), NEAR, False
    )
    return found.vector, 1 / (1 + np.exp(V @ found.vector)), found.value


def unit_rows(rng, n, d, shift):
    V = rng.standard_normal((n, d))
    V[:, 0] += shift
    return V / np.linalg.norm(V, axis=1, keepdims=True)


@pytest.mark.parametrize("weight", [0.3, 0.003, 1e-4])
@pytest.mark.parametrize("shift", [0.5, 4.0])
def test_without_a_row_the_minimum_moves_by_at_most_its_slope(weight, shift):
    V = unit_rows(np.random.default_rng(0), 25, 6, shift)
    u, slopes, _ = solved(V, weight)
    for i in range(25):
        without, _, _ = solved(np.delete(V, i, axis=0), weight, n=25)
        assert np.linalg.norm(u - without) <= slopes[i] / (25 * weight) + 2 * NEAR


def test_a_squared_slope_is_at_most_a_share_of_its_loss():
    losses = np.geomspace(1e-9, 700, 100_000)
    shares = np.expm1(-losses) ** 2 / losses
    assert shares.max() <= SLOPE_SHARE <= 1.0002 * shares.max()


@pytest.mark.parametrize("weight", [0.1, 0.003])
def test_efron_stein_bounds_the_variance(weight):
    rng, n, n_sets = np.random.default_rng(1), 60, 300
    found = [solved(unit_rows(rng, n, 8, 1.0), weight) for _ in range(n_sets)]
    vectors = np.array([u for u, _, _ in found])
    distances = ((vectors - vectors.mean(axis=0)) ** 2).sum(axis=1) * n_sets / (n_sets - 1)
    bounds = np.array([(slopes**2).mean() / (n * weight**2) for _, slopes, _ in found])
    # both are means over sets: five standard errors, a false alarm of 1e-6. With weight .1 the
    # variance is a fifth of the bound, so a bound that is five times too small would be caught
    error = (distances - bounds).std() / math.sqrt(n_sets)
    assert (distances - bounds).mean() <= 5 * error
    assert all((slopes**2).mean() <= SLOPE_SHARE * value for _, slopes, value in found)


def test_the_least_value_concentrates_as_the_bound_says():
    rng, weight, n = np.random.default_rng(2), 0.03, 80
    values = np.array([solved(unit_rows(rng, n, 6, 1.0), weight)[2] for _ in range(400)])
    longest = math.sqrt(2 * math.log(2) / weight)
    largest = math.log1p(math.exp(-longest)) + longest
    step = largest / n
    # McDiarmid: values that move by at most `step` with a row have a variance of at most this
    assert values.var() <= n * step**2 / 4
    failure = 0.05
    swing = largest * math.sqrt(math.log(1 / failure) / (2 * n))
    low = int((values < values.mean() - swing).sum())
    assert_rate_at_most(low, 400, failure)  # would catch .15 with probability .99


GUARANTEE = Guarantee(0.2, 0.05, 0.1, 0.05)


def lab(n, state, d=10, **options):
    X, y = make_margin(n, d, 0.2, random_state=state, **options)
    return Rows(X, y.astype(np.int8), np.arange(n))


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"label_noise": 0.1, "decay": 0.7}], ids=["plain", "noise"]
)
def test_the_estimate_matches_what_pairs_of_labs_do(unit, options):
    n_pairs, n_seeds, n = 25, 8, 2000
    sizes = Sizes(unit_mean=True, grid_width=0.8) if unit else Sizes(grid_width=0.7)
    plan = plan_rows(GUARANTEE, 10, sizes=sizes)
    differ, estimates, bounds = 0, [], []
    for pair in range(n_pairs):
        one, other = (lab(n, [pair, side], **options) for side in (0, 1))
        ours, theirs = (fit_all_rows(lab, plan, SharedRandomness("0")) for lab in (one, other))
        for seed in range(n_seeds):  # which decides where a point is rounded, and nothing before
            shared = SharedRandomness(f"{pair}/{seed}")
            codes, residual = ours.space.round(ours.space.project(ours.mean, shared), shared)
            fitted = replace(ours, codes=codes, residual=residual)
            differ += not np.array_equal(codes, fitted.space.encode(theirs.mean, shared))
            certificate = certify_rows(fitted, plan, shared)
            estimates.append(certificate.estimated_disagreement)
            bounds.append(certificate.disagreement_bound)
    # 200 rates of .1 to .3, of 25 independent differences: 15 % is a standard error
    rate = differ / (n_pairs * n_seeds)
    assert 0.5 < np.mean(estimates) / rate < 2
    assert rate <= np.mean(bounds)


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")  # of unlucky seeds
@pytest.mark.parametrize("bits", [0, 3])
def test_a_plan_keeps_its_promise_on_the_population_that_it_is_for(bits):
    promise = {"margin": 0.2, "hint_bits": bits, "fit_intercept": False, "estimate": "rows"}
    needed = rl.ReplicableSVMClassifier(**promise)._row_plan(15).n_samples
    X_test, y_test = make_margin(4000, 15, 0.2, random_state=99)
    differ, errors, n_pairs = 0, [], 40
    for pair in range(n_pairs):
        hint = None
        prints = []
        for side in (0, 1):
            X, y = make_margin(needed, 15, 0.2, random_state=[pair, side])
            clf = rl.ReplicableSVMClassifier(**promise, shared_seed=pair, hint=hint)
            clf.fit(X, y)
            hint = clf.hint_ if bits else None
            prints.append(clf.fingerprint_)
        errors.append(1 - clf.score(X_test, y_test))
        differ += prints[0] != prints[1]
    assert_rate_at_most(differ, n_pairs, 0.12)  # would catch .6 with probability .98
    assert np.mean(errors) < 0.05
