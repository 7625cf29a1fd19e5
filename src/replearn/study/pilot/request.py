"""What a study asks for, checked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.randomness import seed_text
from replearn.errors import ReplearnError
from replearn.plans.plan_logistic import log_odds
from replearn.plans.sizes import Guarantee
from replearn.study.pilot.allotment import Agreement
from replearn.study.pilot.safe_columns import RARE
from replearn.study.pilot.scores import PublishedScore

STUDIES = ("updating", "discovery")

#: The share of the disagreement that a plan aims at.
_SAFETY = 0.8

#: What a plan can be made again with: what a pilot says does not depend on these.
_CHANGEABLE = ("samples_per_site", "max_disagreement", "hint_bits", "sites", "shared_seed")

#: Cost of a missed positive, and of a false alarm.
_COSTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?):([0-9]{1,9}(?:\.[0-9]{1,9})?)")


@dataclass(frozen=True)
class Request:
    """What a study asks for; see `replearn.plan_from_pilot` for the meanings."""

    samples_per_site: int
    max_disagreement: float = 0.1
    failure_prob: float = 0.05
    shared_seed: int | str = 0
    study: str = "updating"
    hint_bits: int = 0
    sites: int = 2
    scores: Sequence[PublishedScore] = ()
    categories: Sequence[str] = ()
    rare: int = RARE
    threshold: float | str = "share"
    target: str | None = None
    share: float | None = None

    @property
    def agreement(self) -> Agreement:
        """What the plan aims at: below what was asked for, since a pilot errs too."""
        rho = _SAFETY * self.max_disagreement
        return Agreement(self.samples_per_site, rho, self.hint_bits, self.sites)

    @property
    def needs_logistic(self) -> bool:
        """Whether only a logistic study has what it asks for."""
        asked = self.study, self.sites, self.threshold
        return bool(self.scores) or asked != ("updating", 2, "share")

    def changed(self, has_labels: bool, **changes: Any) -> "Request":
        """The request of the same pilot's plan, made again."""
        for name in changes:
            if name not in _CHANGEABLE:
                raise ReplearnError(
                    f"a plan can be made again with another {', '.join(_CHANGEABLE)}, got {name}. "
                    "Plan from the pilot for that."
                )
        made = replace(self, **changes)
        made.check(has_labels)
        return made

    def check(self, has_labels: bool) -> None:
        """Refuse what makes no sense."""
        if self.study not in STUDIES:
            raise ReplearnError(f"study must be one of {', '.join(STUDIES)}, got {self.study!r}.")
        if not has_labels and self.study != "discovery":
            raise ReplearnError(
                'a pilot without labels needs study="discovery", got "updating": its directions '
                "know labels."
            )
        for name, low, high in (
            ("hint_bits", 0, MAX_HINT_BITS),
            ("sites", 2, 10_000),
            ("samples_per_site", 10, 1 << 50),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise ReplearnError(f"{name} must be an integer, got {value!r}.")
            if not low <= value <= high:
                raise ReplearnError(f"{name} must be from {low} to {high:,}, got {value!r}.")
        Guarantee(0.1, 0.1, self.max_disagreement, self.failure_prob)
        if self.scores and self.study == "discovery":
            raise ReplearnError(
                'published scores need study="updating", got "discovery": they know labels. Leave '
                "them out, or plan an updating study."
            )
        seed_text(self.shared_seed, "shared_seed")


def threshold_of(threshold: float | str, share: float) -> str:
    """Published log-odds of a threshold as it was asked for."""
    if threshold == "share":
        return log_odds(float(f"{share:.3g}"))
    if threshold == "half":
        return log_odds(0.5)
    if isinstance(threshold, str):
        return log_odds(_least_cost(threshold))
    return log_odds(threshold)


def _least_cost(ratio: str) -> float:
    """The threshold that costs least; the ratio is of missed positives to false alarms."""
    costs = _COSTS.fullmatch(ratio)
    missed, alarm = (float(costs[1]), float(costs[2])) if costs else (0.0, 0.0)
    if min(missed, alarm) <= 0:
        raise ReplearnError(
            'threshold must be a probability, "share", "half" or a ratio of costs such as "5:1", '
            f'got {ratio!r}. "share", the pilot\'s share of positives, aims at balanced accuracy.'
        )
    return alarm / (missed + alarm)
