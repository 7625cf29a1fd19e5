"""What a pilot predicts, against what labs later get."""

import warnings
from typing import Any

import numpy as np
import pytest

from replearn import ReplicabilityWarning, plan_from_pilot
from replearn.datasets import make_margin
from tests.error_budget import assert_rate_at_most, assert_rate_between


def disagreements(plan: Any, draw: Any, n_rows: int, n_pairs: int) -> int:
    differ = 0
    for pair in range(n_pairs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReplicabilityWarning)
            one, other = (
                plan.protocol.estimator()
                .set_params(shared_seed=pair)
                .fit(*draw(n_rows, [pair, lab]))
                .fingerprint_
                for lab in (0, 1)
            )
        differ += one != other
    return differ


@pytest.mark.parametrize("options", [{}, {"decoy": 0.6, "decay": 0.5}], ids=["plain", "decoy"])
def test_a_pilot_predicts_disagreement_within_a_factor_of_two(options: Any) -> None:
    # predicted .3 (for power); would catch a true rate of .95 with probability .97
    def draw(n: int, state: Any) -> Any:
        return make_margin(n, 30, 0.1, random_state=state, **options)

    plan = plan_from_pilot(
        *draw(1000, [9]), samples_per_site=10_000, max_disagreement=0.5, algorithm="svm"
    )
    predicted = plan.chosen.disagreement
    differ = disagreements(plan, draw, 10_000, 60)
    assert_rate_between(differ, 60, predicted / 2, 2 * predicted)


@pytest.mark.parametrize("projection", ["none", "shaped"])
def test_a_column_that_is_constant_in_the_pilot_ruins_nothing(projection: str) -> None:
    # bound .3; would catch a true rate of .75 with probability > .99. Without floors on
    # what the pilot shows, shaped cells have an accuracy of .61 here.
    def draw(n: int, state: Any, silent: bool = False) -> Any:
        X, y = make_margin(n, 12, 0.2, random_state=state)
        extra = np.random.default_rng([5, *state]).normal(size=(n, 2)) * (not silent)
        return np.hstack([X, 0.3 * extra]), y

    pilot = draw(1000, [9], silent=True)
    plan = plan_from_pilot(
        *pilot, samples_per_site=10_000, projections=[projection], algorithm="svm"
    )
    assert_rate_at_most(disagreements(plan, draw, 10_000, 60), 60, 0.3)
    assert plan.protocol.estimator().fit(*draw(10_000, [7])).score(*draw(5000, [8])) > 0.93
