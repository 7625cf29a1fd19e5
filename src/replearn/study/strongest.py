"""The strongest column of a model and all the others: what each part is worth to some rows.

Differences between centres may excuse coefficients, but not that a part of the model makes its
predictions worse. So the second leg of support, better than the base rate, is asked of two parts,
too: the column that matters most, and all the others together. Which one that is depends on the
model and on published moments alone, not on the labels of the lab that asks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from replearn.glm import Coordinates
from replearn.rows import THETA_BITS
from replearn.study.performance import Measure
from replearn.study.study import GlmStudy
from replearn.tables import INTERVAL, Encoding
from replearn.types import Matrix, Vector
from replearn.words import Row

#: One of 100 lies beyond it, on one side.
_NORMAL_99 = 2.3263478740408408
#: Of what the whole model seemed worth, a loss that matters to nobody.
_NEGLIGIBLE = 0.05


@dataclass(frozen=True)
class ModelPart:
    """A column of a model, or all columns but one.

    Attributes
    ----------
    name : str
    alternative : str
        The model without this part, in words.
    without : array of shape (n_scores, n_columns)
        Its coefficients.
    excused : float
        A loss that contradicts nothing: a twentieth of what the whole model seemed worth at the
        original, since a part that is worth next to nothing is harmful at honest centres, too; or
        what chance at the original may cost labs of the same population. Let k coefficients seem
        worth E there, with an error of variance v in each. Elsewhere they are worth about
        ``E - k v``, with a standard deviation of ``sqrt(2 E v + k v^2)``: 1 of 100 is worth less.
    """

    name: str
    alternative: str
    without: Matrix
    excused: float


@dataclass(frozen=True)
class PartGain:
    """What a part adds to the rest of a model at some rows, in mean loss."""

    part: ModelPart
    gain: Measure

    @property
    def is_harmful(self) -> bool:
        """Predictions are worse with it, by more than is excused."""
        return self.gain.high < -self.part.excused

    def row(self) -> Row:
        """As a fact."""
        row = self.gain.row(f"gain of {self.part.name}", "beside the rest")
        return replace(row, in_json=False)  # a column's name is no key


def parts_of(study: GlmStudy, theta: Matrix) -> Iterator[ModelPart]:
    """The strongest column, and all others; of a single column nothing."""
    design = study.design
    names, owned = design.encoding.names, _terms_of(design.encoding)
    # intervals of time are the baseline, and belong to no part
    asked = {name: terms for name, terms in owned.items() if name != INTERVAL}
    if design.directions is not None or len(asked) < 2:
        return

    strength = _Strength.of(design.coordinates, theta)
    name = max(asked, key=lambda one: strength.of_terms(asked[one]))
    place = names.index(name)
    effects = [
        (number, set(term.columns))
        for number, term in enumerate(design.encoding.terms, 1)
        if number not in owned.get(INTERVAL, ())
    ]
    others = [number for number, columns in effects if columns != {place}]

    pairs = ((name, f"without {name}", asked[name]), ("the other columns", f"{name} alone", others))
    negligible = _NEGLIGIBLE * strength.seeming_gain([number for number, _ in effects])
    variance = float(np.mean(study.stated_spreads**2)) / study.n_original
    for words, alternative, gone in pairs:
        without = theta.copy()
        without[:, gone] = 0
        seeming, chance = strength.seeming_gain(gone), len(theta) * len(gone) * variance
        reach = _NORMAL_99 * math.sqrt(2.0 * seeming * variance + chance * variance)
        excused = max(chance + reach - seeming, negligible)
        yield ModelPart(words, alternative, without, excused)


def _terms_of(encoding: Encoding) -> dict[str, list[int]]:
    """Places of the terms that each column is part of, behind the constant."""
    owned: dict[str, list[int]] = {name: [] for name in encoding.names}
    for number, term in enumerate(encoding.terms, 1):
        for place in dict.fromkeys(term.columns):
            owned[encoding.names[place]].append(number)
    return owned


@dataclass(frozen=True)
class _Strength:
    """Variance that terms add to scores and that no other term explains, times the information."""

    theta: Matrix  # of scores whose information is 1
    precision: Matrix | Vector  # inverse second moments of a row, or of each term alone

    @classmethod
    def of(cls, coordinates: Coordinates, theta: Matrix) -> "_Strength":
        """From published moments."""
        theta = coordinates.scores_factor.T @ theta * 2.0**-THETA_BITS
        if coordinates.scales is not None:  # too many terms for a triangle
            return cls(theta, coordinates.scales.astype(np.float64) ** -2.0)
        inverse = np.linalg.inv(coordinates.factors()[1])
        return cls(theta, np.asarray(inverse.T @ inverse, dtype=np.float64))

    def of_terms(self, terms: list[int]) -> float:
        """The conditional variance, from a block of the precision."""
        part = self.theta[:, terms]
        if self.precision.ndim == 1:
            return float((part**2 / self.precision[terms]).sum())
        alone = np.linalg.solve(self.precision[np.ix_(terms, terms)], part.T)
        return float((part.T * alone).sum())

    def seeming_gain(self, terms: list[int]) -> float:
        """In nats a row; 0 where it is not known how much other terms explain."""
        if self.precision.ndim == 1:
            return 0.0
        return self.of_terms(terms) / 2
