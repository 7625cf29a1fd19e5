"""One of several finished models, the same one at every lab.

The scores of good models differ by less than their noise, so the best model of one sample is
rarely the best of the next one. Every lab adds the same shared noise to its scores, and takes the
largest sum::

    1  s <- eps / (1/2 + 1/3 + ... + 1/M)
    2  S_i <- mean score of model i on this lab's rows, each between 0 and 1
    3  E_i <- exponential noise of scale 1                               (shared)
    4  return the i with the largest S_i + s E_i

*Score that is given up.* The chosen model's noise exceeds the best one's by at least the loss, and
the largest of M exponentials is ``1 + 1/2 + ... + 1/M`` on average: the loss is at most eps on
average over seeds, whatever the scores. (The law of the choice is that of permute-and-flip [MS20].)

*Disagreement.* By the lack of memory, the gap of the two largest noisy scores is at least
exponential with scale s. Two labs whose score differences are within D of each other therefore
choose differently with probability at most ``D / s``. The difference of two labs' means of n
numbers in [0, 1] is sub-Gaussian with variance 1/(2n) (Hoeffding), the range of M of them is at
most ``2 sqrt(ln M / n)`` on average, and so (`stability`)

    P[different] <= 2 sqrt(ln M / n) / s.

The estimate beside it knows how often models differ: labs with n rows, on which two leaders differ
with probability q, disagree with probability about ``sqrt(q / (pi n)) / s``.

The margin of a promise means nothing here, and neither does its failure probability. There is no
mode "paper": no paper prints this.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from replearn.codes.coins import Coins
from replearn.codes.nets import decimal_down
from replearn.errors import ReplearnError
from replearn.exact.elementary import log
from replearn.recipes.estimates import Rivals, calibrated
from replearn.recipes.recipe import (
    Bound,
    Fitted,
    Mode,
    Plan,
    Promise,
    Recipe,
    Sample,
    Sizes,
    common,
    rows_for,
)
from replearn.types import BlockMap, Vector

#: Practical, before any row: one of two leading models is right where the other is wrong.
_TYPICAL_DIFFERENCE = 0.1

#: Groups of rows whose mean scores are kept apart, so that their spread can be used.
_GROUPS = 32

#: Row scores are counted in units of 2^-20.
_SCORE_BITS = 20

#: Smaller probabilities count as this one, so that a row's score is bounded.
_LEAST_PROBABILITY = 0.001

MAX_CANDIDATES = 1000


@dataclass(frozen=True, kw_only=True)
class ChoicePlan(Plan):
    """Scale of the shared noise, in units of the score; inputs are the scores of candidates."""

    noise_scale: str


def log_scores(probabilities: Vector) -> Vector:
    """Scores of rows, between 0 and 1, from the probabilities of their classes."""
    worst = log(np.array([_LEAST_PROBABILITY]))[0]
    return np.asarray(1 - log(np.clip(probabilities, _LEAST_PROBABILITY, 1.0)) / worst)


def sizes(promise: Promise, n_inputs: int, mode: Mode, given: Sizes) -> ChoicePlan:
    """Line 1: the noise that gives up at most ``max_error`` on average, and the rows it needs."""
    given.check(mode, {"noise_scale": "scale of the shared noise"}, {})
    if mode == "paper":
        raise ReplearnError(
            'mode="paper" has no choice among finished models: no paper prints it. Use '
            'mode="practical" or mode="certified".'
        )
    if not 2 <= n_inputs <= MAX_CANDIDATES:
        raise ReplearnError(
            f"a choice needs 2 to {MAX_CANDIDATES:,} candidates, got {n_inputs:,}. Leave out "
            "those that cannot win."
        )
    harmonic = math.fsum(1 / k for k in range(2, n_inputs + 1))
    scale = given.get("noise_scale")
    scale = decimal_down(promise.max_error / harmonic) if scale is None else repr(float(scale))
    plan = ChoicePlan(**common("choice", promise, n_inputs, mode, given), noise_scale=scale)
    origins = {
        "certified": "Hoeffding's inequality",
        "practical": "calibrated for two leaders that differ on a tenth of the rows, not proved",
    }
    return replace(plan, origin=origins[mode], n_rows=rows_for(stability, plan))


def stability(plan: ChoicePlan, n_rows: int, spread: Rivals | None) -> Bound:
    """Bound of the disagreement, for scores between 0 and 1.

    Expected, before any row: for two leaders that differ on a tenth of the rows. With a spread:
    a second lab's scores are normal around mine; counted is how often a rival's noisy score gets
    the largest. Tested in tests/theory/test_choice.py.
    """
    scale, n = float(plan.noise_scale), max(1, n_rows)
    proved = min(1.0, 2 * math.sqrt(math.log(plan.n_inputs) / n) / scale)
    if spread is not None:
        expected = spread.expected()
    else:
        expected = calibrated(math.sqrt(_TYPICAL_DIFFERENCE / (math.pi * n)) / scale, n_rows)
    return Bound(proved=proved, expected=expected)


def run(sample: Sample, plan: ChoicePlan, coins: Coins, work: BlockMap = map) -> Fitted:
    """Lines 2 to 4. A row of the sample has the scores of all candidates on it.

    Reads the stream "choice/exponential".
    """
    sums = np.zeros((_GROUPS, plan.n_inputs), dtype=np.int64)
    counts = np.zeros(_GROUPS, dtype=np.int64)
    for scores, _, order in sample.blocks(_GROUPS):
        whole = np.rint(np.ldexp(scores[order], _SCORE_BITS)).astype(np.int64)
        for group in range(_GROUPS):
            part = whole[group::_GROUPS]
            sums[group] += part.sum(axis=0)
            counts[group] += len(part)
    n_rows = int(counts.sum())
    unit = 2.0**-_SCORE_BITS
    means = sums.sum(axis=0) / n_rows * unit
    noise = coins.exponentials("choice/exponential", plan.n_inputs)
    noisy = means + float(plan.noise_scale) * noise
    index = int(np.argmax(noisy))  # ties go to the lower index
    filled = counts > 0
    n_groups = int(filled.sum())
    moves = (sums[filled] * unit - counts[filled, None] * means) / n_rows
    # one degree of freedom less than groups; twice the variance, for two labs
    moves *= math.sqrt(2 * n_groups / max(1, n_groups - 1))
    others = np.arange(plan.n_inputs) != index
    spread = Rivals(
        n_parts=n_groups,
        slacks=(noisy[index] - noisy)[others],
        moves=(moves - moves[:, [index]])[:, others],
    )
    return Fitted(np.array([index]), spread, n_rows)


_TITLE = "One of several finished models"
CHOICE = Recipe("choice", _TITLE, "eps^-2 rho^-2", sizes, run, stability)
