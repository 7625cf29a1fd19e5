"""A seed is an int or a text, whoever takes it: 1.0 and True are none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import replearn as rl
from replearn.codes.randomness import seed_text

X, Y = rl.datasets.make_margin(120, 2, margin=0.3, random_state=0)


def audited(seed: Any) -> Any:
    return rl.audit(rl.ReplicableSVMClassifier(), X, Y, n_pairs=1, audit_seed=seed)


TAKERS: dict[str, Callable[[Any], Any]] = {
    "replicable_mean": lambda seed: rl.replicable_mean([0.5] * 10**5, 0.1, shared_seed=seed),
    "correlated_choice": lambda seed: rl.correlated_choice([0.0, 1.0], seed),
    "first_below": lambda seed: rl.first_below([0.1, 0.2], shared=seed, low=0.2, high=0.3),
    "scaler": lambda seed: rl.ReplicableScaler(shared_seed=seed).fit(X),
    "svm": lambda seed: rl.ReplicableSVMClassifier(shared_seed=seed).fit(X, Y),
    "net": lambda seed: rl.ReplicableNetClassifier(shared_seed=seed).fit(X, Y),
    "boosting": lambda seed: rl.ReplicableBoostingClassifier(shared_seed=seed).fit(X, Y),
    "pilot": lambda seed: rl.plan_from_pilot(X, Y, samples_per_site=100, shared_seed=seed),
    "audit": audited,
}


@pytest.mark.parametrize("seed", [1.0, True, None, b"1", np.float64(1), [1]], ids=repr)
@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_seed_is_refused(taker: str, seed: Any) -> None:
    with pytest.raises(rl.ReplearnError, match=r"must be an int or a string, got .* Publish one"):
        TAKERS[taker](seed)


@pytest.mark.parametrize("seed", ["\ud800", "x" * 5000])
@pytest.mark.parametrize("taker", TAKERS)
def test_a_seed_that_no_file_can_hold_is_refused(taker: str, seed: str) -> None:
    with pytest.raises(rl.ReplearnError, match="must be a string of at most 4096 Unicode"):
        TAKERS[taker](seed)


@pytest.mark.parametrize("seed", [7, "7", np.int64(7), np.uint8(7), np.str_("7")], ids=repr)
def test_numbers_and_their_text_are_one_seed(seed: Any) -> None:
    assert seed_text(seed, "seed") == "7"
    assert type(seed_text(seed, "seed")) is str
