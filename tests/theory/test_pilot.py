"""What a pilot predicts, against what labs later get."""

import warnings
from typing import Any

import numpy as np
import pytest

from replearn import ReplicabilityWarning, plan_from_pilot
from replearn.datasets import make_margin
from replearn.study.pilot.shapes import expected_flips, moments, shaped_widths
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


DECOY = {"decoy": 0.6, "decay": 0.5}


@pytest.mark.parametrize(
    ("options", "estimate"),
    [({}, "batches"), (DECOY, "batches"), (DECOY, "rows")],
    ids=["plain", "decoy", "rows"],
)
def test_a_pilot_predicts_disagreement_within_a_factor_of_two(options: Any, estimate: str) -> None:
    # predicted .3 (for power); would catch a true rate of .95 with probability .97
    def draw(n: int, state: Any) -> Any:
        return make_margin(n, 30, 0.1, random_state=state, **options)

    n_rows = 10_000 if estimate == "batches" else 3000  # fits on all rows take longer
    plan = plan_from_pilot(
        *draw(1000, [9]),
        samples_per_site=n_rows,
        max_disagreement=0.5,
        algorithm="svm",
        estimates=[estimate],
    )
    predicted = plan.chosen.disagreement
    differ = disagreements(plan, draw, n_rows, 60)
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
        *pilot,
        samples_per_site=10_000,
        projections=[projection],
        algorithm="svm",
        estimates=["batches"],
    )
    assert_rate_at_most(disagreements(plan, draw, 10_000, 60), 60, 0.3)
    assert plan.protocol.estimator().fit(*draw(10_000, [7])).score(*draw(5000, [8])) > 0.93


@pytest.mark.parametrize("rounding", ["centre", "a2", "e8", "e8+centre"])
def test_shaped_widths_cross_fewest_walls_at_equal_noise(rounding: str) -> None:
    # certain: of all widths in these blocks none has a smaller product of squared crossings and
    # noise, which is the rows that a given error and disagreement need
    rng = np.random.default_rng(0)
    components, extents = (
        rng.normal(size=(40, 10)) * rng.uniform(0.3, 3, 10),
        rng.uniform(0.2, 2, 10),
    )
    order, widths = shaped_widths(components, extents, rounding)
    moment = moments(rounding, 10)

    def rows_needed(some: Any) -> float:
        noise = float((moment * extents[order] * some**2).sum())
        return expected_flips(components[:, order] / some, rounding) ** 2 * noise

    least = rows_needed(widths)
    for size in (1e-3, 0.03, 0.3):
        for _ in range(200):
            assert rows_needed(widths * np.exp(size * rng.normal(size=10))) >= least * (1 - 1e-12)
    assert rows_needed(np.ones(10)) > 1.02 * least
