"""Weights of a model for people: per unit of a column, per standard deviation, as odds ratios."""

import math
from dataclasses import dataclass

import numpy as np

from replearn.codes.encoding import CategoryColumn
from replearn.codes.model import Model
from replearn.exports.coefficients import output_heights
from replearn.types import Vector


@dataclass(frozen=True)
class Weight:
    """What one feature adds to the score."""

    name: str  # of the column, or of column and category
    step: str  # "10 more" of a number, a power of ten of the size of its spread; or "having it"
    per_step: float  # added by that
    per_spread: float | None  # added by one standard deviation in the rows at hand
    is_odds: bool  # the score is the log-odds, so that exponentials are odds ratios

    @property
    def size(self) -> float:
        """How much it matters, for an order of weights."""
        return abs(self.per_step if self.per_spread is None else self.per_spread)

    def odds_ratio(self, spread: bool) -> float | None:
        """Factor of the odds per standard deviation, or per step; None if there are no odds."""
        added = self.per_spread if spread else self.per_step
        if not self.is_odds or added is None:
            return None
        return math.exp(min(added, 700.0))


def weights_of(model: Model, spreads: Vector | None = None) -> list[Weight]:
    """Weights of a halfspace or a logistic model, the most important first.

    ``spreads`` are standard deviations of the encoded features.
    """
    heights = output_heights(model)
    per_spread = None if spreads is None else model.coef * spreads
    raw_spreads = (np.ones(model.n_features) if spreads is None else spreads) / heights
    found = []
    for place, (name, is_number) in enumerate(_features(model)):
        step = _round_step(float(raw_spreads[place])) if is_number else 1.0
        found.append(
            Weight(
                name,
                f"{step:,.10g} more" if is_number else "having it",
                float(model.coef[place] * heights[place]) * step,
                None if per_spread is None else float(per_spread[place]),
                model.has_probabilities,
            )
        )
    return sorted(found, key=lambda weight: -weight.size)


def _features(model: Model) -> list[tuple[str, bool]]:
    """Name of each feature, and whether it is a number."""
    if model.encoding is None:
        names = model.feature_names or tuple(f"x{i}" for i in range(model.n_features))
        return [(name, True) for name in names]
    features = []
    for column in model.encoding.columns:
        if isinstance(column, CategoryColumn):
            features += [(name, False) for name in column.output_names]
        else:
            features.append((column.name, True))
    return features


def _round_step(spread: float) -> float:
    """The largest power of ten that is no more than a spread; 1 without one."""
    return 10.0 ** math.floor(math.log10(spread)) if 0 < spread < math.inf else 1.0
