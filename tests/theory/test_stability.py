"""Every recipe's `stability` in three directions: it is inverted, it holds, and audits agree.

The bound of studies, `replearn.glm.recipe`, comes last; test_glm.py counts studies.
"""

import warnings
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from replearn.cli.command import ALGORITHMS
from replearn.codes import (
    Coins,
    Promise,
    Sizes,
    chance_of_any,
    chance_of_each,
    chance_of_leaving,
    rows_for,
    width_for,
)
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.estimators.glm import ReplicableLogisticClassifier
from replearn.glm import GLM, Between, GlmPlan, GlmPromise, OwnSpread
from replearn.halfspaces import TABLE1
from replearn.reports.audit import audit
from replearn.reports.plans import RECIPES
from replearn.reports.plans import plan as plan_of
from replearn.reports.table1 import _shell
from replearn.study import certificate, evidence, study
from tests.error_budget import assert_rate_at_most, assert_rate_close
from tests.populations import draw
from tests.samples import Whole

#: Sizes that run: 300 to 1,200 rows in practical mode.
PROMISE, D = Promise(0.5, 0.2, 0.3, 0.2), 4

every = pytest.mark.parametrize("name", list(TABLE1))


def estimator(name, seed):
    """The estimator of a recipe."""
    return _shell(name, PROMISE, seed)


def rows(n_rows, seed):
    """Rows and labels of the plain population."""
    return draw("plain", n_rows, D, 0.5, seed)


@pytest.fixture(autouse=True)
def _few_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        yield


@every
@pytest.mark.parametrize("mode", ["practical", "certified"])
def test_plans_invert_it(name, mode):
    recipe, promise = RECIPES[name], PROMISE
    plan = recipe.sizes(promise, D, mode, Sizes())
    step = getattr(plan, "batch_size", 1)
    least = rows_for(recipe.stability, plan, step)
    assert least <= plan.n_rows  # the error may need more rows than the codes

    def bound(n_rows):
        return recipe.stability(plan, n_rows, None).in_mode(mode)

    assert bound(plan.n_rows) <= bound(least) <= promise.max_disagreement
    assert bound(least - step) > promise.max_disagreement
    found = [bound(max(1, int(plan.n_rows * times))) for times in (0.1, 0.5, 1, 2, 10)]
    assert found == sorted(found, reverse=True)


@every
@pytest.mark.parametrize("promise", [Promise(0.9, 0.5, 0.9, 0.5), Promise(0.5, 0.3, 0.5)], ids=str)
def test_practical_plans_show_their_own_spread(name, promise):
    """However little is promised, rows as planned have an estimate."""
    recipe = RECIPES[name]
    plan = recipe.sizes(promise, D, "practical", Sizes())
    fitted = recipe.run(Whole(*rows(plan.n_rows, 1)), plan, Coins(1), map)
    assert recipe.stability(plan, plan.n_rows, fitted.spread).expected is not None
    few = recipe.stability(plan, 30, recipe.run(Whole(*rows(30, 1)), plan, Coins(1), map).spread)
    assert few.expected is not None or "too few" in str(few)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The model is wrong on")  # under some seeds
@every
def test_counts_are_within_it(name, seeds):
    n_rows = RECIPES[name].sizes(PROMISE, D, "practical", Sizes()).n_rows
    trials, n_differ, estimates, proved = 60, 0, [], []
    for seed in seeds(trials):
        first, second = (estimator(name, seed).fit(*rows(n_rows, [seed, lab])) for lab in (0, 1))
        n_differ += first.fingerprint_ != second.fingerprint_
        estimates.append(first.certificate_.expected)
        proved.append(first.certificate_.proved)
    assert_rate_at_most(n_differ, trials, PROMISE.max_disagreement)
    assert_rate_at_most(n_differ, trials, min(0.99, 1.3 * float(np.mean(estimates)) + 0.05))
    assert n_differ <= trials * np.mean(proved) + 4.8 * np.sqrt(trials) / 2
    # would catch a disagreement of 0.63 with probability 0.9


@every
def test_audits_agree_with_it(name):
    n_rows = RECIPES[name].sizes(PROMISE, D, "practical", Sizes()).n_rows
    X, y = rows(6 * n_rows, 11)
    shell = estimator(name, 5)
    found = audit(shell, X, y, n_pairs=12, n_rows=n_rows)
    estimate = shell.fit(X[:n_rows], y[:n_rows]).certificate_.expected
    assert found.compared == "fingerprints"
    assert found.interval[0] <= max(estimate, PROMISE.max_disagreement)


@every
def test_without_it_there_is_no_plan_no_certificate_and_no_audit(name, monkeypatch):
    recipe, shell = RECIPES[name], estimator(name, 0)
    sample = rows(700, 0)
    with monkeypatch.context() as context:
        context.delattr(import_module(recipe.run.__module__), "stability")
        with pytest.raises(NameError, match="stability"):
            recipe.sizes(PROMISE, D, "practical", Sizes())
    deleted = replace(recipe, stability=None)
    monkeypatch.setattr(type(shell), "_recipe", deleted)
    for call in (lambda: shell.fit(*sample), lambda: audit(shell, *sample, n_pairs=2)):
        with pytest.raises(TypeError, match="not callable"):
            call()


def test_the_one_table_has_all_recipes():
    assert set(RECIPES) == {*TABLE1, "glm"}
    assert set(ALGORITHMS) == set(TABLE1)  # the command line names them without their imports
    with pytest.raises(ReplearnError, match="follow from an original's rows"):
        plan_of("glm", n_features=3)


@pytest.mark.parametrize("bits", [1, 3])
def test_cells_of_studies_invert_theirs(bits):
    promise = GlmPromise(0.05, bits, 4000, 1500)
    plan = GLM.sizes(promise, np.array([1.0, 0.3, 5.0]), Between.none(3))

    def bound(times):
        return GLM.stability(replace(plan, widths=times * plan.widths), 1500, None).expected

    assert bound(1.0) == pytest.approx(0.05, rel=0.02)
    assert bound(1.0) <= 0.05 < bound(0.99)
    # bisection over rows, as for Table 1, finds the lab that was promised
    assert 1400 < rows_for(GLM.stability, plan) <= 1500


def test_without_theirs_there_is_no_certificate_no_stated_rate_and_no_audit(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.logistic(size=200) > 0
    fitted = ReplicableLogisticClassifier(ridge=0.1)
    found, model = fitted.fit(X, y).study_, fitted.model_
    deleted = replace(GLM, stability=None)
    for module in (certificate, study, evidence):
        monkeypatch.setattr(module, "GLM", deleted)
    calls = [
        lambda: fitted.fit(X, y),
        lambda: found.disagreement(200),
        lambda: found.evidence(model),
        lambda: audit(fitted, X, y, n_pairs=2),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="not callable"):
            call()
    # nor are there cells for centres that differ as those of a table
    monkeypatch.delattr(import_module(GLM.run.__module__), "stability")
    with pytest.raises(NameError, match="stability"):
        GLM.sizes(found.promise, found.stated_spreads, Between(found.centres.deviations, 5))


@pytest.mark.parametrize(("n_numbers", "correlation"), [(1, 0.0), (5, 0.0), (5, 0.7), (40, 0.9)])
def test_studies_differ_as_theirs_says_at_most(n_numbers, correlation, seeds):
    """Normal differences of any correlation leave their cells; with residuals, and over coins."""
    rng = np.random.default_rng(seeds(1)[0])
    trials, widths = 20_000, np.linspace(4.0, 7.0, n_numbers)
    common, own = rng.normal(size=(trials, 1)), rng.normal(size=(trials, n_numbers))
    moves = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    residual = (rng.random(n_numbers) - 0.5) * widths / 4
    for off in (residual, (rng.random((trials, n_numbers)) - 0.5) * widths / 4):
        place = off if off is residual else None
        ones, own = np.ones(n_numbers), None
        if place is not None:
            own = OwnSpread(ones, place)
        half = ones / np.sqrt(2)  # one row at each of two labs: a variance of 1
        plan = GlmPlan(GlmPromise(0.05, 2, 1, 1), half, Between.none(n_numbers), widths)
        found = GLM.stability(plan, 1, own).expected
        n_differ = int((np.abs(moves - off) > widths / 2).any(axis=1).sum())
        assert_rate_at_most(n_differ, trials, found)
        if not correlation:  # then it is the rate itself; chance moves it by 5%
            assert n_differ / trials > 0.8 * found


@pytest.mark.parametrize("bits", [0, 3, 8])
def test_numbers_leave_cells_as_often_as_it_says(bits, seeds):
    rng = np.random.default_rng(seeds(1)[0])
    trials, width = 200_000, 4.0
    moves = rng.normal(size=trials)
    residual = (rng.random(trials) - 0.5) * width / 2**bits
    n_left = int((np.abs(moves + residual) > width / 2).sum())
    assert_rate_close(n_left, trials, chance_of_leaving(width, bits))


@pytest.mark.parametrize("n_centres", [0, 1, 2, 8])
@pytest.mark.parametrize("rho", [0.2, 0.01, 1e-4])
def test_planned_widths_invert_stability(rho, n_centres, seeds):
    """Of numbers that centres move much, little and not at all."""
    rng = np.random.default_rng(seeds(1)[0])
    sampling = rng.uniform(0.3, 3.0, size=6)
    between = Between(np.array([0.0, 0.001, 0.01, 0.1, 0.1, 1.0]) * bool(n_centres), n_centres)
    plan = GLM.sizes(GlmPromise(rho, 8, 1000, 500), sampling, between)
    assert GLM.stability(plan, 500).expected == pytest.approx(rho, rel=1e-6)
    narrow = replace(plan, widths=0.99 * plan.widths)
    assert GLM.stability(narrow, 500).expected > rho


@pytest.mark.parametrize("bits", [0, 3, 8])
@pytest.mark.parametrize("chance", [0.2, 0.01, 1e-4])
def test_width_for_inverts_the_chance_of_leaving(chance, bits):
    width = width_for(chance, bits)
    assert chance_of_leaving(width, bits) == pytest.approx(chance, rel=1e-6)
    assert chance_of_leaving(0.99 * width, bits) > chance


@pytest.mark.parametrize("n_numbers", [1, 7, 500])
def test_chance_of_each_inverts_that_of_any(n_numbers):
    each = chance_of_each(0.01, n_numbers)
    assert chance_of_any(np.full(n_numbers, each)) == pytest.approx(0.01, rel=1e-9)
