"""Algorithm 1: what is proved, what plans promise, and that they are one bound read two ways."""

import math
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

import replearn as rl
from replearn.codes import Coins, Promise, Sizes, after_constant
from replearn.errors import NotEnoughSamples, ReplearnError, ReplicabilityWarning
from replearn.exact import COUNTS, PAIR_UNIT, fixed_mean
from replearn.halfspaces.rounded import largest_variance, rows_that_agree
from replearn.halfspaces.svm import SVM, stability
from replearn.kernels.int32_directions import RawRows
from replearn.kernels.max_margin import Problem, add_batches
from tests.error_budget import assert_rate_at_most, power
from tests.populations import draw
from tests.theory.labs import differ, error, pair, sample

PROMISE = Promise(0.3, 0.05, 0.1, 0.05)


def plan_of(mode="practical", promise=PROMISE, d=10, **options):
    return SVM.sizes(promise, d, mode, Sizes(**options))


# ---------------------------------------------------------------- one bound, read two ways


@pytest.mark.parametrize("mode", ["practical", "certified"])
@pytest.mark.parametrize("bits", [0, 3])
@pytest.mark.parametrize(("margin", "d"), [(0.3, 10), (0.1, 100)])
def test_plans_invert_the_bound(mode, bits, margin, d):
    promise = replace(PROMISE, margin=margin, max_disagreement=0.05)
    plan = plan_of(mode, promise, d, sketch_bits=bits)
    assert stability(plan, plan.n_rows, None).in_mode(mode) <= 0.05
    fewer = stability(plan, plan.n_rows - plan.batch_size, None).in_mode(mode)
    # a certified plan may need more batches for the error than for the codes
    assert fewer > 0.05 or mode == "certified"
    if mode == "certified" and not bits:
        assert stability(plan, plan.n_rows // 2, None).proved > 0.05


@pytest.mark.slow
def test_more_of_anything_promised_needs_more_rows():
    for mode in ("practical", "certified", "paper"):
        base = plan_of(mode).n_rows
        for name, value in (("margin", 0.2), ("max_error", 0.02), ("max_disagreement", 0.03)):
            assert plan_of(mode, replace(PROMISE, **{name: value})).n_rows > base


def test_exponents_of_the_paper():
    """As printed: eps^-1 tau^-7 rho^-2, up to logarithms."""
    n = {}
    for name, value in (("margin", 0.003), ("max_error", 5e-4), ("max_disagreement", 1e-3)):
        n[name] = (
            plan_of("paper", replace(PROMISE, **{name: value})).n_rows / plan_of("paper").n_rows
        )
    assert math.log(n["margin"], 100) == pytest.approx(7, abs=0.4)
    assert math.log(n["max_error"], 100) == pytest.approx(1, abs=0.4)
    assert math.log(n["max_disagreement"], 100) == pytest.approx(2, abs=0.4)


def test_paper_mode_is_what_is_printed():
    log = math.log(1 / (0.05 * 0.3 * 0.1 * 0.05))
    plan = plan_of("paper", constants={"C2": 3.0})
    assert plan.n_components == math.ceil(log / 0.3**2)
    assert plan.n_batches == math.ceil(3 * log / (0.3**4 * 0.1**2))
    assert plan.batch_size == math.ceil(log / (0.05 * 0.3**3))
    assert float(plan.grid_width) == pytest.approx(0.3 / log, rel=5e-3)
    assert (plan.projection, plan.rounding, plan.unit_vectors) == ("gaussian", "ak", True)
    with pytest.raises(NotEnoughSamples, match="paper mode needs"):
        plan.require(1000)


def test_practical_plans_have_rows_that_show_their_spread():
    easy = Promise(0.8, 0.3, 0.5, 0.05)
    plan = plan_of("practical", easy)
    assert plan.one_fit
    assert plan.n_rows == 300
    fitted = SVM.run(sample("plain", plan.n_rows, 10, 0.8, 1), plan, Coins(1), map)
    assert stability(plan, plan.n_rows, fitted.spread).expected is not None


def test_the_constant_takes_part_of_the_margin():
    assert after_constant(PROMISE).margin == pytest.approx(0.3 / math.sqrt(2))


# ---------------------------------------------------------------- what batches do


def batch_vectors(n_batches, n, weight, margin, seed):
    rows = sample("tight", n_batches * n, 8, margin, seed)
    problem = Problem(weight, 1e-6, 0.0, 0.5, margin / 2, 1e5, margin, 1.0)
    found = []
    for i in range(n_batches):
        hi, lo = np.zeros((2, 1, 8), np.int64)
        part = RawRows.of(rows.X, rows.signs, rows.places[i * n : (i + 1) * n])
        add_batches(problem, part, 0, n, 0, hi, lo, np.zeros(len(COUNTS), np.int64))
        found.append(fixed_mean(hi[0], lo[0], 1))
    return np.array(found)


@pytest.mark.parametrize("n_batches", [7, 24, 95, 300])
def test_groups_and_pairs_of_batches_show_one_variance(n_batches):
    plan = replace(plan_of(), one_fit=False, batch_size=30, regularization="0.09")
    spread = SVM.run(sample("plain", 30 * n_batches, 10, 0.3, 5), plan, Coins(0), map).spread
    by_groups = (spread.deviations**2).sum() / (len(spread.deviations) - 1)
    by_pairs = spread.counts["pair_sum"] * PAIR_UNIT / 2 / spread.counts["pairs"]
    assert by_groups == pytest.approx(by_pairs, rel=2.5 / math.sqrt(n_batches))


@pytest.mark.parametrize("box", [0.1, 1.0])
def test_leave_one_out_bounds_loss_and_variance(box, seed_block):
    margin, n = 0.3, 60
    vectors = batch_vectors(150, n, 1 / (box * n), margin, [seed_block, 9])
    new = sample("tight", 2000, 8, margin, [seed_block, 10])
    hinge = np.maximum(0, 1 - (new.signs[:, None] * new.X) @ (vectors / margin).T).mean()
    assert hinge <= max(1, (1 + box) / (2 * box)) / (margin**2 * (n + 1))
    variance = ((vectors - vectors.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert variance <= min(1, box)
    # both bounds hold for every population with the margin; this one is near its margin


def test_the_variance_that_pairs_show_is_bounded(seed_block):
    n_low, trials = 0, 300
    rng = np.random.default_rng([seed_block, 3])
    for _ in range(trials):
        # vectors on the unit sphere with variance 0.19: half a squared distance is 0.19 on average
        halves = np.where(rng.random(40) < 0.19, 1.0, 0.0)
        counts = {"pairs": 40, "pair_sum": int(2 * halves.sum() * 2**24)}
        n_low += largest_variance(counts, 1.0, 0.05) < 0.19
    assert_rate_at_most(n_low, trials, 0.05)


# ---------------------------------------------------------------- two labs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "tight", "decoy"])
def test_practical_promise_is_kept(name, seeds):
    plan = plan_of("practical", replace(PROMISE, max_disagreement=0.15))
    trials, n_differ, estimates, errors = 80, 0, [], []
    for seed in seeds(trials):
        fits = pair(SVM, plan, name, plan.n_rows, 10, 0.3, seed)
        n_differ += differ(fits)
        estimates.append(stability(plan, plan.n_rows, fits[0].spread).expected)
        errors.append(error(fits[0], seed, name, 10, 0.3))
    assert_rate_at_most(n_differ, trials, 0.15)
    assert_rate_at_most(n_differ, trials, min(0.9, 1.3 * float(np.mean(estimates)) + 0.02))
    assert np.mean(errors) < 0.05
    # would catch a disagreement of 0.42 with probability 0.9


def counted(name, d, margin, seeds):
    """Pairs of the planned size that differ, and the mean of what first labs expect."""
    plan = plan_of("practical", replace(PROMISE, margin=margin), d)
    n_differ, estimates = 0, []
    for seed in seeds:
        fits = pair(SVM, plan, name, plan.n_rows, d, margin, seed)
        n_differ += differ(fits)
        estimates.append(stability(plan, plan.n_rows, fits[0].spread).expected)
    return n_differ, float(np.mean(estimates))


@pytest.mark.slow
def test_practical_plans_are_large_enough(seeds):
    """Counted pairs and the mean of estimates are within the plan."""
    trials = 150
    n_differ, expected = counted("plain", 20, 0.3, seeds(trials))
    assert_rate_at_most(n_differ, trials, 0.1, false_alarm=1e-3)
    assert expected < 0.13
    # would catch a disagreement of 0.22 with probability 0.8
    assert power(trials, 0.1, 0.22, 1e-3) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("margin", [0.3, 0.5])
def test_wrong_labels_are_outside_the_plan_and_labs_are_told(margin, seeds):
    """A nearly hard margin is the worst estimate under noise: the expected number says so."""
    trials = 60
    n_differ, expected = counted("noisy", 20, margin, seeds(trials))
    assert expected > 0.2  # for a promise of 0.1
    assert_rate_at_most(n_differ, trials, 1.3 * expected + 0.02)
    # would catch a disagreement of 0.95 with probability above 0.95
    assert power(trials, 1.3 * expected + 0.02, 0.95) > 0.95


@pytest.mark.slow
def test_the_proved_bound_holds_with_the_spread_that_was_seen(seeds):
    # sizes that run, and cells in which the theorem says something: evaluated, not planned
    plan = replace(
        plan_of("certified", replace(PROMISE, max_error=0.4)),
        batch_size=60,
        n_batches=60,
        by_hand=("n_batches",),
        regularization="0.05",
        grid_width="0.8",
    )
    trials, n_differ, bounds = 60, 0, []
    for seed in seeds(trials):
        fits = pair(SVM, plan, "plain", 3600, 10, 0.3, seed)
        n_differ += differ(fits)
        bounds.append(stability(plan, 3600, fits[0].spread).proved)
    assert max(bounds) < 0.95
    assert_rate_at_most(n_differ, trials, float(np.mean(bounds)))


def test_repeated_rows_are_counted_and_said():
    plan = plan_of()
    rows = sample("plain", 1500, 10, 0.3, 4)
    twice = replace(rows, order=np.tile(rows.places, 2))
    bound = stability(plan, 3000, SVM.run(twice, plan, Coins(0), map).spread)
    assert "1,500 rows occur again" in bound.assumes
    alone = stability(plan, 1500, SVM.run(rows, plan, Coins(0), map).spread)
    assert "again" not in alone.assumes
    assert alone.n_labs == 2


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        ("practical", {"constants": {"C1": 2}}, "constants belong to mode"),
        ("paper", {"constants": {"C9": 2}}, "constants has no 'C9'"),
        ("practical", {"by_hand": {"n_rounds": 3}}, "sizes has no 'n_rounds'"),
        ("practical", {"sketch_bits": 5}, "sketch_bits must be"),
        ("paper", {"sketch_bits": 1}, "sketch_bits must be 0"),
        ("certified", {"by_hand": {"grid_width": 0.1}}, "grid_width must be left out"),
        ("certified", {"by_hand": {"projection": "hadamard"}}, "rotation"),
        ("certified", {"by_hand": {"n_batches": 3}}, "n_batches must be at least"),
        ("practical", {"by_hand": {"projection": "none", "n_components": 3}}, "n_components must"),
        ("exact", {}, "mode must be one of"),
    ],
)
def test_refusals(mode, options, words):
    with pytest.raises(ReplearnError, match=words):
        plan_of(mode, **options)


def test_rows_that_a_population_needs_are_named():
    """Margins that begin without a jump need more rows than are planned; see benchmarks/."""
    promise = asdict(Promise(0.2, 0.05, 0.1))
    fitted = rl.ReplicableSVMClassifier(**promise, fit_intercept=False)
    n_planned = rl.plan("svm", n_features=12, **promise, fit_intercept=False).plan.n_rows
    with pytest.warns(ReplicabilityWarning, match="needs about") as said:
        fitted.fit(*draw("smooth", n_planned, 12, 0.2, 1))
    needed = int(re.search(r"about ([\d,]+) rows", str(said[0].message))[1].replace(",", ""))
    assert 10 * n_planned < needed < 100 * n_planned


def test_named_rows_are_those_at_which_walls_are_crossed_as_often_as_promised():
    plan = SVM.sizes(Promise(0.2, 0.05, 0.1), 24, "practical", Sizes())
    rng = np.random.default_rng(5)
    deviations = 0.02 * rng.normal(size=(400, 24))  # of fits of so many rows
    spread = SVM.run(sample("plain", 900, 24, 0.2, 1), plan, Coins("any"), map).spread
    needed = rows_that_agree(plan, replace(spread, deviations=deviations))

    # two labs of that size under many shifts of the cells
    scale, n_differ = 0.02 * math.sqrt(900 / needed), 0
    space = plan.space(plan.grid_width)
    for seed in range(400):
        one, two = space.project(scale * rng.normal(size=(2, 24)), Coins(seed))
        n_differ += bool((space.encode(one, Coins(seed)) != space.encode(two, Coins(seed))).any())
    assert 0.06 < n_differ / 400 < 0.14
