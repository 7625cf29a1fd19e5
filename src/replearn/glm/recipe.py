"""A generalised linear model as a recipe: how labs differ, cells of it, codes, and the bound.

An original looks at its own rows, and states for each coded number how much one row moves it, and
how much centres differ. From there on all is arithmetic, as for the recipes of Table 1:

1.  Two labs of n and m rows differ in a number by ``Delta`` of variance
    ``spread^2 (1/n + 1/m)``, and what centres differ by on top.
2.  ``sizes``: cells so wide that all ``Delta`` stay within their cells with probability 1 - rho.
3.  ``run``: each lab fits the model; the codes are the cells in which its numbers lie.
4.  ``stability``: the probability that some ``Delta`` leaves its cell. Before the fit it is a mean
    over the coins; an original knows where in its cells it lies.

Estimated, not proved: numbers are asymptotically normal, and spreads are those of one sample.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from replearn.codes import Bound, Fitted, Mode, Recipe, chance_of_each, least_number, width_for
from replearn.glm.between import Between
from replearn.glm.design import GlmDesign
from replearn.glm.newton import Summary, fit
from replearn.rows import Rows
from replearn.types import Mask, Matrix, Vector


@dataclass(frozen=True)
class GlmPromise:
    """What an original promises its replications."""

    max_disagreement: float  # probability that a replication gets a different model
    bits: int  # published about each number
    # rows of the original, and of the smallest replication
    n_here: int
    n_there: int
    # standard deviations between centres: of the mean score, and of each slope
    between: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class GlmPlan:
    """What an original plans for its replications, without its codes."""

    promise: GlmPromise
    # standard deviation of one row's influence on each number, as the original states it
    spreads: Vector
    between: Between  # what a new centre differs by; nothing in one population
    widths: Vector  # of the cells
    mode: Mode = "practical"  # estimated, not proved

    def sampling(self, n_rows: int) -> Vector:
        """Standard deviations of what the original's rows and so many others make differ."""
        return self.spreads * math.sqrt(1 / self.promise.n_here + 1 / n_rows)

    def of(self, numbers: Mask) -> "GlmPlan":
        """The same of some of the numbers: those that labs agree on."""
        chosen = self.spreads[numbers], self.between.of(numbers), self.widths[numbers]
        return GlmPlan(self.promise, *chosen)


@dataclass(frozen=True)
class OwnSpread:
    """What an original saw of its own numbers."""

    sampling: Vector  # standard deviations of what its rows and those of the other lab make differ
    residual: Vector  # where it lies in its cells, from their centres


@dataclass(frozen=True, kw_only=True)
class GlmFitted(Fitted):
    """Codes of a lab, and the coefficients that were rounded."""

    theta: Matrix
    summary: Summary


def sizes(promise: GlmPromise, spreads: Vector, between: Between) -> GlmPlan:
    """Cells for what labs of the promise's sizes differ by: `stability`, inverted."""
    factor, size = planned_cells(promise, spreads, between)
    plan = GlmPlan(promise, spreads, between, np.ones(len(spreads)))
    deviations = between.with_sampling(plan.sampling(promise.n_there), size)
    return replace(plan, widths=factor * deviations)


def planned_cells(promise: GlmPromise, spreads: Vector, between: Between) -> tuple[float, float]:
    """Width in standard deviations at centres of one size, and this size.

    With cells of such widths centres of all sizes together differ as often as promised.
    """
    factor = width_for(chance_of_each(promise.max_disagreement, len(spreads)), promise.bits)
    if len(between.sizes()) == 1:
        return factor, 1.0

    plan = GlmPlan(promise, spreads, between, np.ones(len(spreads)))
    sampling = plan.sampling(promise.n_there)

    def suffices(size: float) -> bool:
        cells = replace(plan, widths=factor * between.with_sampling(sampling, size))
        differ = stability(cells, promise.n_there).in_mode(plan.mode)
        return differ <= promise.max_disagreement * (1 + 1e-9)  # the largest size suffices

    return factor, least_number(suffices)


def run(rows: Rows, design: GlmDesign, tolerance_units: int | None = None) -> GlmFitted:
    """Rows to codes: a fit in exact sums, its coordinates, their cells; see `fit` for the limit."""
    summary = Summary.of(rows, design.loss).check(design.loss)
    theta = fit(rows, design.loss, design.ridge, summary, tolerance_units)
    return GlmFitted(design.codes(theta), None, summary.n_rows, theta=theta, summary=summary)


def stability(plan: GlmPlan, n_rows: int, spread: OwnSpread | None = None) -> Bound:
    """How likely a lab with so many rows gets different codes.

    Without a ``spread`` of an original the mean over the coins; else for where this one lies.
    """
    sampling, residual = plan.sampling(n_rows), None
    if spread is not None:
        sampling, residual = spread.sampling, spread.residual

    bits = plan.promise.bits
    expected = plan.between.chance_of_leaving(plan.widths, bits, sampling, residual)
    return Bound(proved=1.0, expected=expected)


#: Its error has no bound like Table 1's: an original says what its model is worth on held-out rows.
GLM = Recipe("glm", "Rounded GLM", "spread^2 (1/n + 1/m)", sizes, run, stability)
