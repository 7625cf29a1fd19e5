"""Hints without a first site: sites that find a common one differ no more often than was said."""

import numpy as np
import pytest

import replearn as rl
from replearn.codes.randomness import SharedRandomness
from replearn.plans.plan_logistic import promised_design
from replearn.stages.hints import common_hint, safe_distance, unsafe_hints
from tests.error_budget import assert_rate_at_least, assert_rate_at_most

TRIALS = 300


def design(bits=4):
    return promised_design(
        2, SharedRandomness("hints"), max_disagreement=0.1, samples_per_site=10_000, hint_bits=bits
    )


@pytest.mark.parametrize("n_sites", [2, 3])
def test_sites_with_a_common_hint_agree(n_sites):
    published, rng = design(), np.random.default_rng(n_sites)
    n_found = n_different = 0
    for trial in range(TRIALS):
        shared = SharedRandomness(f"trial {trial}")
        truth = rng.uniform(-9, 9, 3)
        noise = rng.normal(size=(n_sites, 3)) * published.spread_numbers / np.sqrt(2)
        points = truth + noise
        said = [unsafe_hints(point, published, shared, 0.3, n_sites) for point in points]
        try:
            hint = common_hint(said, 4)
        except rl.ReplearnError:
            continue
        space = published.space.with_hint(hint)
        codes = [space.encode(point, shared).tolist() for point in points]
        n_found += 1
        n_different += any(other != codes[0] for other in codes[1:])
    # would catch a true rate of 0.5 with probability 0.95 where 100 find a hint
    assert_rate_at_most(n_different, n_found, bound=0.3)
    assert_rate_at_least(n_found, TRIALS, bound={2: 0.7, 3: 0.3}[n_sites])


def test_the_lemma_holds_row_by_row():
    """Codes of two points that are safe differ only if the points differ by twice the distance."""
    published, rng, shared = design(3), np.random.default_rng(5), SharedRandomness("lemma")
    slack = safe_distance(published, 0.3)
    n_across = 0
    for _ in range(400):
        first = rng.uniform(-3, 3, 3)
        second = first + rng.normal(size=3) * 6 * published.spread_numbers
        said = [unsafe_hints(point, published, shared, 0.3) for point in (first, second)]
        for hint in set(range(8)) - set(said[0]) - set(said[1]):
            space = published.space.with_hint(hint)
            differ = (space.encode(first, shared) != space.encode(second, shared))[:3]
            assert (np.abs(first - second)[differ] >= 2 * slack[differ]).all()
            n_across += bool(differ.any())
    assert n_across > 100  # or it would say nothing


def test_what_makes_no_sense_is_refused():
    with pytest.raises(rl.ReplearnError, match="needs hint bits"):
        unsafe_hints(np.zeros(3), design(0), SharedRandomness("x"), 0.1)
    with pytest.raises(rl.ReplearnError, match="some hint must be safe for all 2 sites"):
        common_hint([(0,), (1,)], hint_bits=1)
