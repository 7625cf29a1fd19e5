"""A synthetic population with levels, skewed numbers and rare events, and an original of its rows.

Encoded rows are drawn directly, so that one fit of a lab serves every original: all have the same
encoding and the same ridge, and only coordinates, cells and coins differ.
"""

from dataclasses import dataclass

import numpy as np

from replearn.codes import Cells, Coins
from replearn.glm import GLM, Bernoulli, Between, Coordinates, GlmPlan, OwnSpread, newton
from replearn.glm import sketched as glm
from replearn.rows import Block, MemoryBlocks

LOSS = Bernoulli()
RIDGE = "0.001"
#: Numbers that are correlated, and shares of three levels.
N_NUMBERS, LEVELS = 12, (0.2, 0.05, 0.01)


def coefficients() -> np.ndarray:
    """Of the numbers and the levels."""
    return np.array([0.6, -0.4, 0.3, 0.2, -0.2, 0.1, *[0.0] * 6, 0.5, -0.7, 1.0])


def rows(
    n_rows: int, rng: np.random.Generator, theta: np.ndarray, constant: float = -2.2
) -> MemoryBlocks:
    """Rows of a lab; about one in eight has the event."""
    common = rng.normal(size=(n_rows, 1))
    numbers = 0.6 * common + 0.8 * rng.normal(size=(n_rows, N_NUMBERS))
    numbers[:, ::4] = np.exp(numbers[:, ::4] / 2) - 1.1  # skewed
    numbers = np.clip(numbers, -4, 4)
    place = rng.random(n_rows)
    ends = np.cumsum(LEVELS)
    levels = np.column_stack(
        [(place < high) & (place >= high - share) for high, share in zip(ends, LEVELS, strict=True)]
    )
    terms = np.hstack([numbers, levels])
    score = terms @ theta + constant
    events = (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(np.float64)
    return MemoryBlocks(Block(np.floor(terms * 4096 + 0.5).astype(np.int16), events))


def fitted(lab: MemoryBlocks) -> np.ndarray:
    """A lab's fit."""
    return newton.fit(lab, LOSS, RIDGE, newton.Summary.of(lab, LOSS).check(LOSS))


@dataclass(frozen=True)
class Published:
    """An original: coordinates, cells, codes, and how much labs differ."""

    coordinates: Coordinates
    spread: glm.NumberSpread
    cells: Cells
    z: np.ndarray
    codes: np.ndarray
    sketch: np.ndarray
    n_rows: int

    @classmethod
    def of(cls, lab: MemoryBlocks, promise: glm.GlmPromise, seed: str) -> "Published":
        """As `replearn.study.original.publish` makes it, with a ridge that is given."""
        summary = newton.Summary.of(lab, LOSS)
        theta = fitted(lab)
        moments = glm.second_moments(lab)
        coordinates = Coordinates.of(LOSS.information(summary.shares), moments, float(RIDGE))
        influence = glm.spread_of(lab, LOSS, RIDGE, theta, coordinates, summary)
        guide = newton.Guide(theta)
        checked = glm.inflation_of(lab, LOSS, RIDGE, coordinates, influence, promise.n_there, guide)
        spread = glm.NumberSpread(influence, Between.none(theta.size), checked)
        widths = np.array([float(width) for width in glm.widths_of(spread, promise)])
        cells = Cells.drawn(widths, promise.bits, Coins(seed))
        z = coordinates.of_theta(theta)
        return cls(coordinates, spread, cells, z, *cells.publish(z), summary.n_rows)

    def same(self, theta: np.ndarray) -> bool:
        """Whether a lab's fit gives this model."""
        found = self.cells.replicate(self.coordinates.of_theta(theta), self.sketch)
        return bool((found == self.codes).all())

    def expected(self, n_there: int) -> float:
        """The certificate's estimate for this original."""
        residual = self.z - self.cells.decode(self.codes, self.sketch)
        promise = glm.GlmPromise(1.0, self.cells.bits, self.n_rows, n_there)
        own = OwnSpread(self.spread.central(self.n_rows, n_there), residual)
        plan = GlmPlan(promise, own.sampling, self.spread.between, self.cells.widths)
        found = GLM.stability(plan, n_there, own).expected
        assert found is not None
        return found
