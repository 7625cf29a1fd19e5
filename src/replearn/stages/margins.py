"""A replicable choice of the margin, when nobody knows it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from scipy.special import ndtr

from replearn.codes.randomness import SharedRandomness
from replearn.kernels.soft_errors import QUANTUM, sum_soft_errors
from replearn.plans.sizes import BatchPlan
from replearn.stages.batches import BatchKernel, BatchSums, Sample, against_rest
from replearn.types import BlockMap, Signs, Vector


@dataclass(frozen=True)
class SoftErrors:
    """Rows that noise would turn: their number times ``QUANTUM``, and rows with a direction."""

    total: int
    n_rows: int

    def __add__(self, other: "SoftErrors") -> "SoftErrors":
        return SoftErrors(self.total + other.total, self.n_rows + other.n_rows)


def soft_errors(
    direction: Vector, noise: float, output: int | None, X: Any, signs: Signs
) -> SoftErrors:
    """Those of some rows, under noise with this standard deviation on a row of length 1.

    ``output`` is the class that is told from the rest, if rows come with numbers of classes.
    """
    if output is not None:
        signs = against_rest(signs, output)
    return SoftErrors(*sum_soft_errors(X, signs, direction, noise))


def choose_margin(
    plans: Iterable[tuple[BatchPlan, Sequence[BatchKernel]]],
    sample: Sample,
    shared: SharedRandomness,
    run: BlockMap = map,
) -> tuple[BatchPlan, tuple[BatchSums, ...], float]:
    """Take the largest margin whose noise the data bear: a random threshold decides.

    There is a plan for each margin of a published grid, largest first, with a kernel for each
    halfspace. Returned are the chosen plan, with the margins that were tried and the share of rows
    that their noise would turn; the sums of each halfspace; and the doubt, an estimated probability
    that another lab with as many rows chooses another margin. Reads the stream "margin/threshold".

    Notes
    -----
    The threshold is uniform between half of ``max_error`` and all of it, and shared. Two labs
    choose differently only if it falls between their error shares, which are means over
    all rows and so hardly differ: with probability ``2 |difference| / max_error`` for each
    margin tried. Of several halfspaces their mean error share counts. Tested in
    tests/theory/test_margin_choice.py.
    """
    tried: list[tuple[float, float]] = []
    doubt = 0.0
    uniform = float(shared.uniforms("margin/threshold", 1)[0])
    for plan, kernels in plans:
        threshold = plan.guarantee.max_error * (0.5 + 0.5 * uniform)
        sums = tuple(sample.sums(solve, plan, run) for solve in kernels)
        outputs = [None] if len(sums) == 1 else range(len(sums))
        total = SoftErrors(0, 0)
        for output, part in zip(outputs, sums, strict=True):
            terms = partial(soft_errors, part.mean(), plan.noise, output)
            total += sample.add_up(terms, run)
        n_rows = max(total.n_rows // len(sums), 1)
        error = total.total / QUANTUM / (n_rows * len(sums))
        tried.append((plan.guarantee.margin, error))
        # a mean of n numbers between 0 and 1; the other lab's is as uncertain as mine
        deviation = math.sqrt(2 * max(error * (1 - error), 1 / n_rows) / n_rows)
        doubt += float(ndtr(-abs(error - threshold) / deviation))
        if error <= threshold:
            break
    return replace(plan, margins_tried=tuple(tried)), sums, min(doubt, 1.0)
