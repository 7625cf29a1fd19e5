"""Algorithm 3 and the DP reduction: covers, the lemmas behind the sizes, and both end to end."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import stats

from replearn.codes.net_space import NetSpace
from replearn.codes.nets import lattice_size, log_projected_tail, log_random_size
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.errors import ReplicabilityWarning
from replearn.estimators import ReplicableDPClassifier, ReplicableNetClassifier
from tests.error_budget import (
    FALSE_ALARM,
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_between,
    power,
)

# ---------------------------------------------------------------- covers


def cosines(candidates, direction):
    return candidates @ direction / np.linalg.norm(candidates, axis=1)


def test_random_net_misses_a_direction_as_rarely_as_planned(seeds):
    """d = 4, radius .5, failure .1: (1 - cap)^N is just below .1."""
    trials, failure = 3000, 0.1
    size = math.ceil(math.exp(log_random_size(4, 0.5, failure)))
    space = NetSpace(4, "none", 4, "random", size)
    direction = np.array([0.5, -0.5, 0.1, 0.7])
    direction /= np.linalg.norm(direction)
    n_missed = 0
    for seed in seeds(trials):
        net = space.candidates(np.arange(size), SharedRandomness(seed))
        n_missed += cosines(net, direction).max() < math.sqrt(1 - 0.25)
    assert_rate_between(n_missed, trials, 0.085, failure)
    # would catch a rate of .15 with probability above .99
    assert power(trials, failure, 0.15, FALSE_ALARM / 2) > 0.99


@pytest.mark.parametrize(("k", "radius"), [(2, "0.1"), (3, "0.27"), (4, "0.4")])
def test_lattice_net_is_near_every_direction(k, radius, seed_block):
    space = NetSpace(k, "none", k, "lattice", lattice_size(k, radius), radius)
    net = space.candidates(np.arange(space.n_candidates), SharedRandomness(0))
    rng = np.random.default_rng([seed_block, k])
    for direction in rng.normal(size=(500, k)):
        best = cosines(net, direction / np.linalg.norm(direction)).max()
        assert math.sqrt(max(0.0, 1 - best**2)) <= float(radius) + 1e-6


def test_a_candidate_within_the_radius_classifies_every_point_beyond_it(seed_block):
    """sin(angle) < margin, so angle + arccos(margin) is below a right angle."""
    rng = np.random.default_rng([seed_block, 5])
    normal = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    for _ in range(2000):
        margin = rng.uniform(0.05, 0.9)
        side = rng.normal(size=(2, 5))
        side[:, 0] = 0.0
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        radius = 0.99 * margin
        candidate = math.sqrt(1 - radius**2) * normal + radius * side[0]
        for other in (side[1], -side[0]):
            point = margin * normal + math.sqrt(1 - margin**2) * other
            assert candidate @ point > 0


@pytest.mark.parametrize(
    ("k", "margin", "cosine"), [(6, 0.5, 0.1), (20, 0.3, 0.05), (30, 0.7, 0.5)]
)
def test_projected_cosines_fall_as_rarely_as_bounded(k, margin, cosine, seed_block):
    trials = 200_000
    rng = np.random.default_rng([seed_block, k])
    left = rng.standard_normal((trials, k))
    right = margin * left + math.sqrt(1 - margin**2) * rng.standard_normal((trials, k))
    lengths = np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
    n_below = int(((left * right).sum(axis=1) < cosine * lengths).sum())
    bound = math.exp(log_projected_tail(k, margin, cosine))
    assert_rate_between(n_below, trials, 0.93 * bound, bound)
    # would catch a bound that is 15 % too small, or 25 % too large, with probability above .99
    assert power(trials, bound, 1.15 * bound, FALSE_ALARM / 2) > 0.99
    assert power(trials, 0.93 * bound, 0.8 * bound, FALSE_ALARM / 2) > 0.99


# ---------------------------------------------------------------- lemmas, without sampling error


def test_error_rates_on_the_scale_of_roots():
    """P[root p^ >= root p + t] <= e^(-2nt^2), P[root p^ <= root p - t] <= e^(-(2-t/root p)nt^2)."""
    for n, p in itertools.product((5, 30, 300, 3000), (0.001, 0.01, 0.05, 0.2, 0.5, 0.9)):
        root = math.sqrt(p)
        for t in np.geomspace(1e-3, 0.7, 40):
            above = stats.binom.sf(math.ceil(n * (root + t) ** 2 - 1e-9) - 1, n, p)
            assert above <= math.exp(-2 * n * t * t) + 1e-300
            if t < root:
                below = stats.binom.cdf(math.floor(n * (root - t) ** 2 + 1e-9), n, p)
                assert below <= math.exp(-(2 - t / root) * n * t * t) + 1e-300


def gibbs(rng, realizable):
    """A random finite population, class and rate; weights of every sample, by enumeration."""
    n_points, n_candidates, m = rng.integers(2, 4), rng.integers(2, 6), int(rng.integers(1, 6))
    law = rng.dirichlet(np.ones(n_points))
    wrong = rng.integers(0, 2, size=(n_candidates, n_points))
    if realizable:
        wrong[0] = 0
    rate = float(10 ** rng.uniform(-2, 0.7))
    samples = np.array(list(itertools.product(range(n_points), repeat=m)))
    chances = law[samples].prod(axis=1)
    counts = wrong[:, samples].sum(axis=2).T
    weights = np.exp(-rate * (counts - counts.min(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    return rate, m, chances, weights, counts / m, wrong @ law


def test_exponential_mechanism_generalises(seed_block):
    """E err_D <= (e^l + (e^l - 1)^2) E err_S, for every population: half of what privacy gives."""
    rng = np.random.default_rng([seed_block, 6])
    largest = 0.0
    for _ in range(1500):
        rate, _, chances, weights, on_sample, in_truth = gibbs(rng, realizable=False)
        sample_error = float(chances @ (weights * on_sample).sum(axis=1))
        true_error = float(chances @ (weights @ in_truth))
        bound = (math.exp(rate) + math.expm1(rate) ** 2) * sample_error
        assert true_error <= bound + 1e-12
        largest = max(largest, true_error / bound if bound > 0 else 0.0)
    assert largest > 0.9  # nothing is given away


def test_exponential_mechanism_is_replicable_and_accurate_with_the_margin(seed_block):
    """Jeffreys' divergence <= 2 e^l (e^l - 1) ln|H|, and P[h] <= (1 - (1 - e^-l) err)^m."""
    rng = np.random.default_rng([seed_block, 7])
    for _ in range(1500):
        rate, m, chances, weights, on_sample, in_truth = gibbs(rng, realizable=True)
        sample_error = float(chances @ (weights * on_sample).sum(axis=1))
        true_error = float(chances @ (weights @ in_truth))
        divergence = 2 * rate * m * (true_error - sample_error)
        # the same from the definition, on pairs of samples
        logs = np.log(weights)
        pairs = np.einsum("sh,th->st", weights, logs)
        own = np.einsum("sh,sh->s", weights, logs)
        expected = chances @ (own[:, None] + own[None, :] - pairs - pairs.T) @ chances
        assert divergence == pytest.approx(expected, abs=1e-9)
        bound = 2 * math.exp(rate) * math.expm1(rate) * math.log(weights.shape[1])
        assert divergence <= bound + 1e-12
        distance = np.abs(weights[:, None, :] - weights[None, :, :]).sum(axis=2) / 2
        total = float(chances @ (2 * distance / (1 + distance)) @ chances)
        spread = math.sqrt(max(divergence, 0.0))
        assert total <= spread / (1 + spread / 2) + 1e-9
        chosen = chances @ weights
        assert (chosen <= (1 + math.expm1(-rate) * in_truth) ** m + 1e-12).all()


def test_exponential_mechanism_is_replicable_for_every_population(seed_block):
    """2 E TV <= sqrt(2) kappa / sqrt(1 - kappa^2), kappa = sqrt(m) (e^(2l) - 1) / 2."""
    rng = np.random.default_rng([seed_block, 8])
    n_checked = 0
    for _ in range(1500):
        rate, m, chances, weights, _, _ = gibbs(rng, realizable=False)
        kappa = math.sqrt(m) * math.expm1(2 * rate) / 2
        if kappa < 1:
            n_checked += 1
            distance = np.abs(weights[:, None, :] - weights[None, :, :]).sum(axis=2)
            total = float(chances @ distance @ chances)
            assert total <= math.sqrt(2) * kappa / math.sqrt(1 - kappa**2) + 1e-12
    assert n_checked > 500


# ---------------------------------------------------------------- end to end


class Population:
    """Rows of a finite population: drawn by number, which is fast, and its error is exact."""

    def __init__(self, d, margin, seed, **shape):
        self.X, self.y = make_margin(20_000, d, margin, random_state=seed, **shape)

    def sample(self, n, rng):
        rows = rng.integers(self.y.size, size=n, dtype=np.int32)
        return self.X[rows], self.y[rows]

    def error(self, estimator):
        return 1 - estimator.score(self.X, self.y)


def fit_pair(estimator, population, sizes, seed):
    """Two labs; whether they agree, and the larger of their errors."""
    fits = []
    for lab, n in enumerate(sizes):
        rng = np.random.default_rng([seed, lab])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplicabilityWarning)
            fits.append(estimator(seed).fit(*population.sample(n, rng)))
    first, second = fits
    agree = first.fingerprint_ == second.fingerprint_
    return agree, max(population.error(first), population.error(second)), fits


def certified(kind, promise, **more):
    def make(seed):
        return kind(**promise, shared_seed=seed, mode="certified", fit_intercept=False, **more)

    return make


def rows_needed(estimator, d):
    return estimator(0)._plan(d).n_samples


STRONG = {"margin": 0.3, "max_error": 0.1, "max_disagreement": 0.1, "failure_prob": 0.05}


@pytest.mark.parametrize(
    ("kind", "d", "pairs"),
    [
        (ReplicableDPClassifier, 3, 10),
        (ReplicableDPClassifier, 4, 8),
        (ReplicableDPClassifier, 5, 8),
        (ReplicableNetClassifier, 3, 3),
        (ReplicableNetClassifier, 4, 2),
        (ReplicableNetClassifier, 5, 2),
    ],
)
def test_certified_sizes_hold_end_to_end(kind, d, pairs, seeds):
    """Both promises at the sizes of docs/net.md; the disagreement is far below its bound."""
    population = Population(d, 0.3, d, max_margin=0.5)
    estimator = certified(kind, STRONG)
    n = rows_needed(estimator, d)
    results = [fit_pair(estimator, population, (n, n), seed) for seed in seeds(pairs)]
    n_differ = sum(not agree for agree, _, _ in results)
    n_wrong = sum(error > 0.1 for _, error, _ in results)
    assert_rate_at_most(n_differ, pairs, 0.1, false_alarm=1e-2)
    assert_rate_at_most(n_wrong, pairs, 2 * 0.05, false_alarm=1e-2)
    # few pairs: the level is .01 here, and the next test has the numbers


WEAK = {"margin": 0.5, "max_error": 0.2, "max_disagreement": 0.3, "failure_prob": 0.1}


@pytest.mark.parametrize("shape", [{}, {"max_margin": 0.55}, {"decoy": 0.6}], ids=str)
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (ReplicableNetClassifier, {}),
        (ReplicableDPClassifier, {}),
        (ReplicableDPClassifier, {"calibration": "generic"}),
        (ReplicableDPClassifier, {"sampling": "holenstein"}),
    ],
)
def test_a_weaker_promise_holds_on_many_pairs(kind, more, shape, seeds):
    pairs = 60
    population = Population(3, 0.5, 1, **shape)
    estimator = certified(kind, WEAK, **more)
    n = rows_needed(estimator, 3)
    results = [fit_pair(estimator, population, (n, n), seed) for seed in seeds(pairs)]
    assert_rate_at_most(sum(not agree for agree, _, _ in results), pairs, 0.3)
    # the larger of two errors: twice the failure probability
    assert_rate_at_most(sum(error > 0.2 for _, error, _ in results), pairs, 2 * 0.1)
    # would catch a disagreement of .75 with probability above .99, a failure of .65 likewise
    assert power(pairs, 0.3, 0.75) > 0.99
    assert power(pairs, 0.2, 0.65) > 0.99


def test_labs_of_different_size_agree(seeds):
    pairs = 60
    population = Population(3, 0.5, 2)
    for kind in (ReplicableNetClassifier, ReplicableDPClassifier):
        estimator = certified(kind, WEAK)
        n = rows_needed(estimator, 3)
        results = [fit_pair(estimator, population, (n, 2 * n), seed) for seed in seeds(pairs)]
        assert_rate_at_most(sum(not agree for agree, _, _ in results), pairs, 0.3)
        # would catch a disagreement of .75 with probability above .99
        assert power(pairs, 0.3, 0.75) > 0.99


def test_agnostic_learner_finds_nearly_the_best_of_its_net(seeds):
    """15 % of the labels are wrong: practical sizes, error at most max_error above the best."""
    pairs = 30
    population = Population(3, 0.4, 3, label_noise=0.15)

    def make(seed):
        return ReplicableNetClassifier(
            margin=0.4, max_error=0.1, shared_seed=seed, fit_intercept=False, agnostic=True
        )

    results = [fit_pair(make, population, (30_000, 30_000), seed) for seed in seeds(pairs)]
    assert_rate_at_most(sum(error > 0.15 + 0.1 for _, error, _ in results), pairs, 2 * 0.05)
    assert_rate_at_most(sum(not agree for agree, _, _ in results), pairs, 0.2)
    # would catch a disagreement of .8 with probability above .98
    assert power(pairs, 0.2, 0.8) > 0.98


@pytest.mark.parametrize(
    ("kind", "size"), [(ReplicableNetClassifier, 50_000), (ReplicableDPClassifier, 4000)]
)
def test_estimated_disagreement_is_what_is_seen(kind, size, seeds):
    """Few rows, so that labs disagree in one case of five or so; estimates match on average."""
    pairs = 150
    population = Population(6, 0.2, 4)

    def make(seed):
        return kind(
            margin=0.2, max_error=0.15, shared_seed=seed, fit_intercept=False, n_candidates=size
        )

    gaps, seen = [], 0
    for seed in seeds(pairs):
        agree, _, fits = fit_pair(make, population, (1000, 1000), seed)
        estimates = [fitted.certificate_.estimated_disagreement for fitted in fits]
        gaps.append((not agree) - sum(estimates) / 2)
        seen += not agree
    assert 0.08 < seen / pairs < 0.5
    assert_mean_close(gaps, 0.0, tolerance=0.06)
    # standard error .03: would catch estimates that are .25 off with probability above .99


def test_a_start_in_another_cell_is_counted_only_if_the_model_changes(seeds):
    """Agnostic: the threshold starts in a cell that labs leave often, mostly without a change."""
    pairs = 250
    population = Population(3, 0.4, 3, label_noise=0.15)

    def make(seed):
        return ReplicableNetClassifier(
            margin=0.4, max_error=0.15, shared_seed=seed, fit_intercept=False, agnostic=True
        )

    gaps, seen = [], 0
    for seed in seeds(pairs):
        agree, _, fits = fit_pair(make, population, (1500, 1500), seed)
        estimates = [fitted.certificate_.estimated_disagreement for fitted in fits]
        gaps.append((not agree) - sum(estimates) / 2)
        seen += not agree
    assert 0.05 < seen / pairs < 0.25
    assert_mean_close(gaps, 0.0, tolerance=0.06)
    # standard error .02: would catch estimates that are .2 off with probability above .95;
    # if every change of the cell counted as one of the model, they would be .28 too high
