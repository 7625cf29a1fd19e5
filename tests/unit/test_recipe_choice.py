"""Plans that choose between logistic regression and Algorithm 1."""

from dataclasses import replace

import numpy as np
import pytest

import replearn as rl
from replearn.study.pilot.entry import better_recipe
from replearn.study.pilot.request import Request

pytestmark = pytest.mark.slow  # whole studies, planned and fitted


@pytest.fixture(scope="module")
def pilot():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    return X, (X[:, 0] + rng.logistic(size=400) > 0).astype(int)


@pytest.fixture(scope="module")
def logistic(pilot):
    return rl.plan_from_pilot(*pilot, samples_per_site=5000)


def test_the_better_recipe_is_taken_and_the_other_named(pilot, logistic):
    plan = rl.plan_from_pilot(*pilot, samples_per_site=5000, algorithm="auto")
    assert plan.protocol == logistic.protocol
    assert "other recipe: Algorithm 1 (" in str(plan)
    assert plan.data()["other"] == plan.other
    X, y = pilot
    worst = replace(logistic.table[2], balanced_accuracy=0.5)
    poor = replace(logistic, table=(*logistic.table[:2], worst, logistic.table[3]))
    request = Request(samples_per_site=5000)
    signs = np.where(y > 0, 1, -1).astype(np.int8)
    taken = better_recipe(poor, X, signs, (0, 1), ("1", "1"), (), request)
    assert taken.protocol.algorithm == "svm"
    assert taken.chosen.accuracy > 0.6
    assert "a logistic study would have balanced accuracy 0.500" in str(taken)


def test_what_algorithm_1_cannot_do_is_not_tried(pilot):
    plan = rl.plan_from_pilot(*pilot, samples_per_site=5000, algorithm="auto", sites=3)
    assert plan.protocol.algorithm == "logistic"
    assert "Algorithm 1 was not tried" in plan.other
    with pytest.raises(rl.ReplearnError, match='margin belongs to algorithm="svm"'):
        rl.plan_from_pilot(*pilot, samples_per_site=5000, algorithm="auto", margin=0.2)
