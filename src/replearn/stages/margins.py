"""A replicable choice of the margin, when nobody knows it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from scipy.special import ndtr

from replearn.codes.randomness import SharedRandomness
from replearn.kernels.soft_errors import QUANTUM, sum_soft_errors
from replearn.plans.sizes import BatchPlan
from replearn.stages.batches import BatchKernel, BatchSums, Sample
from replearn.types import BlockMap, Signs, Vector


@dataclass(frozen=True)
class SoftErrors:
    """Rows that noise would turn: their number times ``QUANTUM``, and rows with a direction."""

    total: int
    n_rows: int

    def __add__(self, other: "SoftErrors") -> "SoftErrors":
        return SoftErrors(self.total + other.total, self.n_rows + other.n_rows)


def soft_errors(direction: Vector, noise: float, X: Any, signs: Signs) -> SoftErrors:
    """Those of some rows, under noise with this standard deviation on a row of length 1."""
    return SoftErrors(*sum_soft_errors(X, signs, 0, signs.size, direction, noise))


@dataclass(frozen=True)
class MarginChoice:
    """The plan that was chosen, its sums, and how sure the choice is.

    Attributes
    ----------
    plan : BatchPlan
    sums : BatchSums
    errors : tuple of (float, float)
        The margins that were tried, and the share of rows that the plan's noise would turn.
    doubt : float
        Estimated probability that another lab with as many rows chooses another margin.
    """

    plan: BatchPlan
    sums: BatchSums
    errors: tuple[tuple[float, float], ...]
    doubt: float


def choose_margin(
    plans: Iterable[tuple[BatchPlan, BatchKernel]],
    sample: Sample,
    shared: SharedRandomness,
    run: BlockMap = map,
) -> MarginChoice:
    """Take the largest margin whose noise the data bear: a random threshold decides.

    Parameters
    ----------
    plans : iterable of (BatchPlan, BatchKernel)
        One for each margin of a published grid, largest first.
    sample : Sample
    shared : SharedRandomness
        Reads the stream "margin/threshold".
    run : BlockMap

    Returns
    -------
    MarginChoice

    Notes
    -----
    The threshold is uniform between half of ``max_error`` and all of it, and shared. Two labs
    choose differently only if it falls between their error shares, which are means over
    all rows and so hardly differ: with probability ``2 |difference| / max_error`` for each
    margin tried. Tested in tests/theory/test_margin_choice.py.
    """
    tried: list[tuple[float, float]] = []
    doubt = 0.0
    uniform = float(shared.uniforms("margin/threshold", 1)[0])
    for plan, solve in plans:
        threshold = plan.guarantee.max_error * (0.5 + 0.5 * uniform)
        sums = sample.sums(solve, plan, run)
        turned = sample.add_up(partial(soft_errors, sums.mean(), plan.noise), run)
        n_rows = max(turned.n_rows, 1)
        error = turned.total / QUANTUM / n_rows
        tried.append((plan.guarantee.margin, error))
        # a mean of n numbers between 0 and 1; the other lab's is as uncertain as mine
        deviation = math.sqrt(2 * max(error * (1 - error), 1 / n_rows) / n_rows)
        doubt += float(ndtr(-abs(error - threshold) / deviation))
        if error <= threshold:
            break
    return MarginChoice(plan, sums, tuple(tried), min(doubt, 1.0))
