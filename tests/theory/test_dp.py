"""The exponential mechanism with common noise: its lemmas by enumeration, and the promise."""

import itertools
import math

import numpy as np
import pytest

from replearn.codes import Coins, Promise, Sizes, candidates
from replearn.halfspaces.dp import DP, arrivals, run, stability
from tests.error_budget import (
    FALSE_ALARM,
    assert_mean_close,
    assert_rate_at_most,
    assert_rate_close,
    power,
)
from tests.populations import draw
from tests.samples import Whole

pytestmark = pytest.mark.slow

STRONG = Promise(0.3, 0.1, 0.1, 0.05)
WEAK = Promise(0.5, 0.2, 0.3, 0.1)


# ---------------------------------------------------------------- correlated sampling


def agreement(p, q):
    """Gumbel-max [DMS24]: sum_i 1 / sum_j max(p_j / p_i, q_j / q_i)."""
    ratios = np.maximum(p[None, :] / p[:, None], q[None, :] / q[:, None])
    return float((1 / ratios.sum(axis=1)).sum())


def test_common_noise_agrees_at_least_as_often_as_bounded(seed_block):
    """No sampling error here: the law itself, on random pairs."""
    rng = np.random.default_rng([seed_block, 1])
    for _ in range(3000):
        n, concentration = int(rng.integers(2, 12)), 10 ** rng.uniform(-1, 1.5)
        p, q = rng.dirichlet(np.full(n, concentration), size=2) + 1e-12
        p, q = p / p.sum(), q / q.sum()
        tv = float(np.abs(p - q).sum() / 2)
        assert agreement(p, q) >= (1 - tv) / (1 + tv) - 1e-12


def test_agreement_follows_its_law(seeds):
    trials = 4000
    p, q = np.array([0.7, 0.1, 0.1, 0.05, 0.05]), np.array([0.1, 0.1, 0.2, 0.3, 0.3])
    n_same = 0
    for seed in seeds(trials):
        clocks = Coins(seed).exponentials("net/gumbel", 5)
        n_same += np.argmax(p / clocks) == np.argmax(q / clocks)
    assert_rate_close(n_same, trials, agreement(p, q))
    # would catch a law that is wrong by 0.06 with probability above 0.95
    assert power(trials, agreement(p, q), agreement(p, q) - 0.06, FALSE_ALARM / 2) > 0.95


# ---------------------------------------------------------------- lemmas, by enumeration


def gibbs(rng, realizable):
    """A random finite population, class and rate; weights of every sample."""
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


def test_the_mechanism_generalises(seed_block):
    """E err_D <= e^l E err_S, for every population."""
    rng = np.random.default_rng([seed_block, 6])
    largest = 0.0
    for _ in range(1000):
        rate, _, chances, weights, on_sample, in_truth = gibbs(rng, realizable=False)
        sample_error = float(chances @ (weights * on_sample).sum(axis=1))
        true_error = float(chances @ (weights @ in_truth))
        bound = math.exp(rate) * sample_error
        assert true_error <= bound + 1e-12
        largest = max(largest, true_error / bound if bound > 0 else 0.0)
    assert largest > 0.9  # nothing is given away


def test_the_mechanism_is_replicable_and_accurate_with_the_margin(seed_block):
    """Jeffreys' divergence <= 2 (e^l - 1) ln|H|, and P[h] <= (1 - (1 - e^-l) err)^m."""
    rng = np.random.default_rng([seed_block, 7])
    for _ in range(1000):
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
        bound = 2 * math.expm1(rate) * math.log(weights.shape[1])
        assert divergence <= bound + 1e-12
        distance = np.abs(weights[:, None, :] - weights[None, :, :]).sum(axis=2) / 2
        total = float(chances @ (2 * distance / (1 + distance)) @ chances)
        spread = math.sqrt(max(divergence, 0.0))
        assert total <= spread / (1 + spread / 2) + 1e-9
        chosen = chances @ weights
        assert (chosen <= (1 + math.expm1(-rate) * in_truth) ** m + 1e-12).all()


def test_the_mechanism_is_replicable_for_all_populations(seed_block):
    """2 E TV <= sqrt(2) kappa / sqrt(1 - kappa^2), kappa = sqrt(m) (e^(2l) - 1) / 2."""
    rng = np.random.default_rng([seed_block, 8])
    n_checked = 0
    for _ in range(1000):
        rate, m, chances, weights, _, _ = gibbs(rng, realizable=False)
        kappa = math.sqrt(m) * math.expm1(2 * rate) / 2
        if kappa < 1:
            n_checked += 1
            distance = np.abs(weights[:, None, :] - weights[None, :, :]).sum(axis=2)
            total = float(chances @ distance @ chances)
            assert total <= math.sqrt(2) * kappa / math.sqrt(1 - kappa**2) + 1e-12
    assert n_checked > 300


# ---------------------------------------------------------------- stability, in three directions


@pytest.mark.parametrize("populations", ["margin", "all"])
@pytest.mark.parametrize("d", [3, 5, 40])
def test_certified_plans_invert_both_bounds(d, populations):
    plan = DP.sizes(STRONG, d, "certified", Sizes({"populations": populations}))
    assert stability(plan, plan.n_rows, None).proved <= 0.1
    assert stability(plan, plan.n_rows - 1, None).proved > 0.1
    # the error: |H| exp(-n (1 - e^-l) (eps - eta e^l)) <= delta
    step, cover = float(plan.inverse_temperature) / plan.n_rows, plan.cover
    room = 0.1 - cover.exceptions * math.exp(step)
    log_failure = cover.log_size - plan.n_rows * -math.expm1(-step) * room
    assert cover.failure + math.exp(log_failure) <= 0.05


def test_rows_scale_as_printed_and_one_power_better():
    base = {"max_error": 0.01, "margin": 0.05, "max_disagreement": 0.01}
    for mode, populations, expected in (
        ("paper", None, (2, 4, 2)),
        ("certified", "all", (2, None, 2)),
        ("certified", "margin", (1, None, 2)),
    ):
        given = Sizes({} if populations is None else {"populations": populations})

        def rows(mode=mode, given=given, **promise):
            return DP.sizes(Promise(**promise), 20, mode, given).n_rows

        for name, exponent in zip(base, expected, strict=True):
            if exponent is not None:
                found = math.log2(rows(**base | {name: base[name] / 2}) / rows(**base))
                assert found == pytest.approx(exponent, abs=0.2)  # the rest is a logarithm


def test_the_paper_runs_as_hot_as_its_reduction_allows():
    plan = DP.sizes(STRONG, 30, "paper", Sizes())
    assert plan.populations == "all"
    assert stability(plan, plan.n_rows, None).proved == pytest.approx(0.1, rel=0.01)


# ---------------------------------------------------------------- end to end


def pairs_of(plan, name, d, margin, n_rows, seeds):
    X, y = draw(name, 20_000, d, margin, 2**31)  # a finite population: its error is exact
    for seed in seeds:
        coins, fits = Coins(seed), []
        for lab in (0, 1):
            rows = np.random.default_rng([seed, lab]).integers(20_000, size=n_rows, dtype=np.int32)
            fits.append(run(Whole(X[rows], y[rows]), plan, coins))
        normals = [candidates(fitted.codes, d, coins)[0] for fitted in fits]
        worst = max(float((y * (X @ normal) <= 0).mean()) for normal in normals)
        yield np.array_equal(fits[0].codes, fits[1].codes), worst, fits


@pytest.mark.parametrize("populations", ["margin", "all"])
@pytest.mark.parametrize("name", ["plain", "tight", "decoy"])
def test_the_certified_promise_holds_on_many_pairs(name, populations, seeds):
    pairs = 50
    plan = DP.sizes(WEAK, 3, "certified", Sizes({"populations": populations}))
    results = list(pairs_of(plan, name, 3, 0.5, plan.n_rows, seeds(pairs)))
    assert_rate_at_most(sum(not agree for agree, _, _ in results), pairs, 0.3)
    # the larger of two errors: twice the failure probability
    assert_rate_at_most(sum(worst > 0.2 for _, worst, _ in results), pairs, 2 * 0.1)
    # would catch a disagreement of 0.78 with probability above 0.95, a failure of 0.7 likewise
    assert power(pairs, 0.3, 0.78) > 0.95
    assert power(pairs, 0.2, 0.7) > 0.95


def test_the_practical_promise_holds(seeds):
    pairs = 40
    plan = DP.sizes(Promise(0.3, 0.1, 0.3, 0.05), 5, "practical", Sizes())
    results = list(pairs_of(plan, "plain", 5, 0.3, plan.n_rows, seeds(pairs)))
    assert_rate_at_most(sum(not agree for agree, _, _ in results), pairs, 0.3)
    assert_rate_at_most(sum(worst > 0.1 for _, worst, _ in results), pairs, 2 * 0.05)


def test_the_estimate_is_what_is_seen(seeds):
    """Few rows, so that labs disagree in one case of five or so; estimates match on average."""
    pairs = 150
    promise = Promise(0.2, 0.15, 0.1, 0.05)
    plan = DP.sizes(promise, 6, "practical", Sizes({"n_candidates": 4000}))
    gaps, seen = [], 0
    for agree, _, fits in pairs_of(plan, "plain", 6, 0.2, 1000, seeds(pairs)):
        estimates = [stability(plan, 1000, fitted.spread).expected for fitted in fits]
        gaps.append((not agree) - sum(estimates) / 2)
        seen += not agree
    assert 0.08 < seen / pairs < 0.5
    assert_mean_close(gaps, 0.0, tolerance=0.06)
    # standard error 0.03: would catch estimates that are 0.25 off with probability above 0.95


def test_the_search_finds_what_a_full_enumeration_finds(seeds):
    X, y = draw("noisy", 600, 4, 0.3, 1)
    plan = DP.sizes(Promise(0.3, 0.3, 0.1), 4, "practical", Sizes({"n_candidates": 2000}))
    for seed in seeds(20):
        coins = Coins(seed)
        fitted = run(Whole(X, y), plan, coins)
        scores = y[:, None] * (X @ candidates(np.arange(2000), 4, coins).T)
        rates = (scores <= 0).mean(axis=0)
        noise = np.concatenate([block for _, block in arrivals(coins, 2000)])
        assert fitted.codes[0] == np.argmax(noise - float(plan.inverse_temperature) * rates)


def test_a_poisson_process_draws_from_the_gibbs_law(seeds):
    """On the circle, with one row: directions on its side have the weight 1, others e^-L."""
    trials, heat, n_wrong, n_late = 3000, 1.5, 0, 0
    for seed in seeds(trials):
        coins = Coins(seed)
        indices, noise = next(arrivals(coins, 64))
        assert (np.diff(noise) < 0).all()
        wrong = candidates(indices, 2, coins)[:, 0] <= 0
        chosen = int(np.argmax(noise - heat * wrong))
        n_wrong += bool(wrong[chosen])
        n_late += chosen > 0
    expected = math.exp(-heat) / (1 + math.exp(-heat))
    assert_rate_close(n_wrong, trials, expected)
    # the second one or a later one wins only if the first is wrong
    assert n_late / trials < 0.5


def test_certified_rows_are_those_of_the_page():
    """The share of good directions in place of a net: 503,074 rows before."""
    assert DP.sizes(Promise(0.3, 0.1, 0.1, 0.05), 10, "certified", Sizes()).n_rows <= 370_000
