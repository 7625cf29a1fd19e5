"""Every recipe's `stability` in three directions: it is inverted, it holds, and audits agree.

The bound of studies, `replearn.recipes.glm.stability`, is counted in test_glm.py.
"""

import warnings
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from replearn.codes.sketch import width_factor
from replearn.errors import ReplicabilityWarning
from replearn.recipes import RECIPES, TABLE1, glm
from replearn.recipes.recipe import Promise, Sizes, rows_for
from replearn.reports.audit import audit
from replearn.reports.table1 import _shell
from tests.error_budget import assert_rate_at_most
from tests.populations import draw

#: Sizes that run: 300 to 1,200 rows in practical mode.
PROMISE, D = Promise(0.5, 0.2, 0.3, 0.2), 4

every = pytest.mark.parametrize("name", list(RECIPES))
paper = pytest.mark.parametrize("name", list(TABLE1))


@pytest.fixture(autouse=True)
def _few_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        yield


@every
@pytest.mark.parametrize("mode", ["practical", "certified"])
def test_plans_invert_it(name, mode):
    recipe = RECIPES[name]
    plan = recipe.sizes(PROMISE, D, mode, Sizes())
    step = getattr(plan, "batch_size", 1)
    least = rows_for(recipe.stability, plan, step)
    assert least <= plan.n_rows  # the error may need more rows than the codes

    def bound(n_rows):
        return recipe.stability(plan, n_rows, None).in_mode(mode)

    assert bound(plan.n_rows) <= bound(least) <= PROMISE.max_disagreement
    assert bound(least - step) > PROMISE.max_disagreement
    found = [bound(max(1, int(plan.n_rows * times))) for times in (0.1, 0.5, 1, 2, 10)]
    assert found == sorted(found, reverse=True)


@paper
def test_counts_are_within_it(name, seeds):
    n_rows = TABLE1[name].sizes(PROMISE, D, "practical", Sizes()).n_rows
    trials, n_differ, estimates, proved = 60, 0, [], []
    for seed in seeds(trials):
        first, second = (
            _shell(name, PROMISE, seed).fit(*draw("plain", n_rows, D, 0.5, [seed, lab]))
            for lab in (0, 1)
        )
        n_differ += first.fingerprint_ != second.fingerprint_
        estimates.append(first.certificate_.expected)
        proved.append(first.certificate_.proved)
    assert_rate_at_most(n_differ, trials, PROMISE.max_disagreement)
    assert_rate_at_most(n_differ, trials, min(0.99, 1.3 * float(np.mean(estimates)) + 0.05))
    assert n_differ <= trials * np.mean(proved) + 4.8 * np.sqrt(trials) / 2
    # would catch a disagreement of 0.63 with probability 0.9


@paper
def test_audits_agree_with_it(name):
    n_rows = TABLE1[name].sizes(PROMISE, D, "practical", Sizes()).n_rows
    rows = draw("plain", 6 * n_rows, D, 0.5, 11)
    shell = _shell(name, PROMISE, 5)
    found = audit(shell, *rows, n_pairs=12, n_rows=n_rows)
    estimate = shell.fit(rows[0][:n_rows], rows[1][:n_rows]).certificate_.expected
    assert found.compared == "fingerprints"
    assert found.interval[0] <= max(estimate, PROMISE.max_disagreement)


@paper
def test_without_it_there_is_no_plan_no_certificate_and_no_audit(name, monkeypatch):
    recipe, shell = TABLE1[name], _shell(name, PROMISE, 0)
    rows = draw("plain", 700, D, 0.5, 0)
    with monkeypatch.context() as context:
        context.delattr(import_module(recipe.run.__module__), "stability")
        with pytest.raises(NameError, match="stability"):
            recipe.sizes(PROMISE, D, "practical", Sizes())
    deleted = replace(recipe, stability=None)
    monkeypatch.setattr(type(shell), "_recipe", lambda self: deleted)
    for call in (lambda: shell.fit(*rows), lambda: audit(shell, *rows, n_pairs=2)):
        with pytest.raises(TypeError, match="not callable"):
            call()


@pytest.mark.parametrize("bits", [1, 3])
def test_widths_of_studies_invert_theirs(bits):
    deviations = np.array([0.1, 2.0, 0.03])
    factor = width_factor(3, 0.05, bits)

    def bound(times):
        found = glm.stability(times * factor * deviations, deviations, bits).expected
        assert found is not None
        return found

    assert bound(1.0) == pytest.approx(0.05, rel=0.02)
    assert bound(0.9) > 0.06
