"""The seventh row: a sketch makes Algorithms 1 and 2 replicable at the rate of plain learning."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from replearn.codes import CodeSpace, Coins, Promise, Sizes, width_for
from replearn.halfspaces.rounded import component_tail, far_distance
from replearn.halfspaces.sgd import SGD
from replearn.halfspaces.svm import SVM, stability
from tests.error_budget import assert_rate_at_most
from tests.theory.labs import differ, error, pair

# ---------------------------------------------------------------- the steps of the proof


@pytest.mark.parametrize("n_batches", [4, 30])
def test_distances_of_two_means(n_batches, seed_block):
    # unit vectors sqrt(1-s^2) e_0 + s u, u one of 6 signed axes: variance s^2, length 1
    rng, s, trials, q = np.random.default_rng([seed_block, n_batches]), 0.5, 4000, 0.1
    axes = np.concatenate([np.eye(3), -np.eye(3)]) * s
    means = axes[rng.integers(6, size=(trials, 2, n_batches))].mean(axis=2)
    distances = np.linalg.norm(means[:, 0] - means[:, 1], axis=1)
    n_far = int((distances > far_distance(s**2, 1.0, n_batches, q)).sum())
    assert_rate_at_most(n_far, trials, q)
    assert far_distance(s**2, 1.0, n_batches, q) < 6 * np.sqrt((distances**2).mean())


@pytest.mark.parametrize(("projection", "k"), [("gaussian", 20), ("rotation", 9)])
def test_tails_of_components(projection, k, seed_block):
    rng = np.random.default_rng([seed_block, k])
    rows = rng.normal(size=(200_000, k))
    if projection == "gaussian":
        component = rows[:, 0] / math.sqrt(k)  # of a unit difference
    else:
        component = rows[:, 0] / np.linalg.norm(rows, axis=1)
    for x in (0.2, 0.5, 0.8):
        n_far = int((np.abs(component) > x).sum())
        assert_rate_at_most(n_far, len(component), min(0.999, component_tail(projection, k, x)))
    assert component_tail("rotation", k, 1.0) == 0.0


# ---------------------------------------------------------------- the theorem


@pytest.mark.slow
@pytest.mark.parametrize(
    ("projection", "bits"), [("gaussian", 1), ("gaussian", 3), ("rotation", 2)]
)
def test_the_bound_holds_for_means_of_batches(projection, bits, seeds):
    """Codes differ less often than the theorem says, in the width where it says 0.2."""
    d, s, n_batches, trials, n_differ = 6, 0.6, 20, 300, 0
    promise = Promise(0.7, 0.4, 0.2, 0.4)
    plan = SVM.sizes(promise, d, "certified", Sizes({"projection": projection}, sketch_bits=bits))
    k = plan.n_components
    plan = replace(plan, batch_size=1, n_batches=0, regularization=repr(1 / s**2))
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        bound = stability(replace(plan, grid_width=repr(middle)), n_batches, None).proved
        low, high = (middle, high) if bound > 0.2 else (low, middle)
    cells = CodeSpace("rounded", d, projection, k, "centre", repr(high), bits)
    axes = np.concatenate([np.eye(d), -np.eye(d)]) * s
    rng = np.random.default_rng(5)
    for seed in seeds(trials):
        labs = axes[rng.integers(2 * d, size=(2, n_batches))].mean(axis=1)
        coins = Coins(seed)
        one, two = cells.project(labs, coins)
        codes = cells.encode(one, coins)
        n_differ += bool((cells.encode(two, coins, cells.sketch(codes)) != codes).any())
    assert_rate_at_most(n_differ, trials, 0.2)
    # the union over batches, components and both tails gives much away: hardly any pair differs


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [SVM, SGD], ids=["svm", "sgd"])
def test_certified_rows_grow_like_a_logarithm(recipe):
    def rows(rho, bits=3):
        promise = Promise(0.3, 0.1, rho, 0.1)
        return recipe.sizes(promise, 50, "certified", Sizes(sketch_bits=bits)).n_rows

    assert rows(1e-5) < 6 * rows(0.1)  # without a sketch: 1e8 times as many
    # 1 / rho^2 is 1e6; a certified sketch pays for the union over batches and components
    assert rows(1e-3) < rows(1e-3, bits=0) / 4e4


@pytest.mark.slow
def test_a_certified_sketch_end_to_end(seeds):
    promise = Promise(0.5, 0.2, 0.05, 0.2)
    plan = SVM.sizes(promise, 20, "certified", Sizes(sketch_bits=3))
    assert plan.n_rows < 5000  # 6 batches or so: sizes that run
    assert stability(plan, plan.n_rows, None).proved <= 0.05
    trials, n_differ, n_wrong = 60, 0, 0
    for seed in seeds(trials):
        fits = pair(SVM, plan, "tight", plan.n_rows, 20, 0.5, seed)
        n_differ += differ(fits)
        n_wrong += error(fits[0], seed, "tight", 20, 0.5) > 0.2
    assert_rate_at_most(n_differ, trials, 0.05)
    assert_rate_at_most(n_wrong, trials, 0.2)


# ---------------------------------------------------------------- practical mode


def test_cells_of_few_groups_have_the_tails_of_student():
    for bits, degrees in ((1, 4), (3, 9), (3, 60)):
        factor = width_for(0.01 / 50, bits, degrees)
        rng = np.random.default_rng(bits)
        residual = rng.uniform(-1, 1, 400_000) * factor / 2 ** (bits + 1)
        missed = 2 * 50 * stats.t.sf(factor / 2 + residual, degrees).mean()
        assert missed == pytest.approx(0.01, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [SVM, SGD], ids=["svm", "sgd"])
@pytest.mark.parametrize("name", ["plain", "decoy", "skewed"])
def test_practical_sketches_keep_their_promise(recipe, name, seeds):
    plan = recipe.sizes(Promise(0.2, 0.05, 0.01, 0.05), 20, "practical", Sizes(sketch_bits=3))
    assert plan.n_rows <= 2500  # without bits: hundreds of times as many
    trials, n_differ, errors = 40, 0, []
    for seed in seeds(trials):
        fits = pair(recipe, plan, name, plan.n_rows, 20, 0.2, seed)
        n_differ += differ(fits)
        errors.append(error(fits[0], seed, name, 20, 0.2))
    assert_rate_at_most(n_differ, trials, 0.01)
    assert np.mean(errors) < 0.01
    # would catch a disagreement of 0.25 with probability 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_rows", "d"), [("plain", 500, 100), ("decoy", 500, 100), ("plain", 1000, 1000)]
)
def test_few_rows_in_many_dimensions(name, n_rows, d, seeds):
    """Shorter batches show their spread, so cells are fine and the model is right."""
    plan = SVM.sizes(Promise(0.1, 0.05, 0.01, 0.05), d, "practical", Sizes(sketch_bits=3))
    trials, n_differ, errors = 15, 0, []
    for seed in seeds(trials):
        fits = pair(SVM, plan, name, n_rows, d, 0.1, seed)
        n_differ += differ(fits)
        errors.append(error(fits[0], seed, name, d, 0.1))
    assert_rate_at_most(n_differ, trials, 0.01)
    assert np.mean(errors) < 0.02
    # would catch a disagreement of 0.5 with probability 0.9


def test_a_covariance_of_rank_one_is_covered(seeds):
    """Batches that differ in one direction only: components are unequal, and move together."""
    from replearn.halfspaces.rounded import sketched_width

    d, n_batches, trials, n_differ = 40, 20, 300, 0
    plan = SVM.sizes(Promise(0.2, 0.05, 0.05, 0.05), d, "practical", Sizes(sketch_bits=3))
    rng = np.random.default_rng(8)
    direction = rng.normal(size=d)
    for seed in seeds(trials):
        coins = Coins(seed)
        batches = rng.normal(size=(2, n_batches, 1)) * direction
        loose = plan.space("1")
        groups = batches[0].reshape(n_batches // 2, 2, d).mean(axis=1)
        deviations = math.sqrt(2) * (groups - groups.mean(axis=0))
        width = sketched_width(plan, loose.project(deviations, coins), n_batches)
        space = plan.space(width)
        one, two = space.project(batches.mean(axis=1), coins)
        codes = space.encode(one, coins)
        n_differ += bool((space.encode(two, coins, space.sketch(codes)) != codes).any())
    assert_rate_at_most(n_differ, trials, 0.05)


def test_cells_are_never_finer_than_the_error_asks(seeds):
    """A few different rows pin the margin: groups hardly differ, and a missing row moves it far."""
    plan = SVM.sizes(Promise(0.2, 0.05, 0.1), 12, "practical", Sizes(sketch_bits=3))
    trials, n_differ, widths = 12, 0, []
    for seed in seeds(trials):
        one, two = pair(SVM, plan, "atoms", plan.n_rows, 12, 0.2, seed)
        n_differ += differ((one, two))
        widths.append(float(one.space.grid_width))

    allowed = math.sqrt(12) * plan.noise * 2**plan.sketch_bits
    assert min(widths) >= 0.995 * allowed / 64
    assert max(widths) < allowed / 8  # coarse cells would say nothing about a model
    assert n_differ <= 1  # 10 of 40 with cells as fine as the groups show
