"""Algorithm 2: replicable large-margin halfspaces from batches of gradient descent.

As the paper prints it [KKLVZ24, Sec. 4], with ``l = log(1 / (eps tau rho delta))``:

1.  ``n = C1 eps^-2 tau^-2 l`` rows of a batch, ``B = C2 tau^-4 rho^-2 l`` batches,
    ``k = C3 tau^-2 l`` components, grid width ``beta = C4 tau / l``.
2.  For each batch, with rows scaled to length 1, ``w_i = boostSGD(S_i, eps/10, tau, delta/B)``: of
    several runs of projected gradient descent on ``f(w) = E (2 - 2 <w, y x>/tau)_+ + eps/10 |w|^2``
    in the unit ball the one with the lowest f on rows of its own. A run of T steps has step sizes
    ``2 / (mu (t + 1))`` and gives the average of its iterates with weights t.
3.  Mean, Gaussian projection, AKround and the way back as in Algorithm 1.

**Theorem** (there). The algorithm is rho-replicable, and its error is at most eps with probability
1 - delta; it needs ``eps^-2 tau^-6 rho^-2`` rows, without logarithms.

Here ``regularization`` is lambda of ``lambda/2 |u|^2 + E (1 - <u, v>)_+``, ``w = margin u``, as for
Algorithm 1. In the paper's units this is ``f = E h + r |w|^2`` divided by ``1/s``, with
``h = (1 - <w, v>/margin)_+ / s`` (there s = 1/2) and ``lambda = 2 s r margin^2``; steps relative to
the strong convexity do not see the factor.

**Our constants** (certified mode). One run per batch. Notation: slack s, shift t, error e1 before
and e2 after rounding. f has ``f* <= r`` (the promised halfspace has no loss), strong convexity 2 r,
and subgradients of length ``G = 1/(s tau) + 2 r`` at most.

1.  [Bubeck15, Thm. 6.2]: a batch has ``E f(w) <= r + g`` with ``g = G^2 / (r (T + 1))``.
2.  The expected result m of a batch has ``f(m) <= r + g = e1`` (Jensen). A margin below
    ``(1-s) tau`` costs more than 1 in f, so m has one on at most e1 of the population: with
    certainty, so there is nothing to boost.
3.  Strong convexity: the variance of a batch is at most ``g/r``, for *every* population. As g is
    proportional to 1/T, the number of rows T B is what counts: one long pass needs as many.
4.  Bernstein: the mean of B batches is within t of m on each row. Projection and rounding keep
    the sign of a margin ``(1-s) tau - t``. Both hold but with probability e2 delta.

As in Algorithm 1, Markov's inequality may take the place of Bernstein's: then e1 + e2 is
``eps delta``.

**Departures of mode="paper"** from what is printed: none but these.

===================  =============================================================================
printed              here
===================  =============================================================================
``O(.)``, constants  ``constants={"C1": ...}``, 1 unless given
division of a batch  not stated; half of its rows go to ``log2(10 B/delta)`` runs of equal length,
                     half to the choice among them, which all runs share; both can be set by hand
winner scaled to     left out, unless ``normalize=True``. The paper argues that this cannot raise
length 1             the loss; it can, by up to 1/|w| on a row with a negative margin, and no later
                     step needs it
boostSGD(eps/10, )   r = eps/10 as in the text of f, or ``regularization`` by hand (r tau^2); the
                     accuracy of boostSGD follows from n
x of any length      rows are scaled to length 1, as the paper's margin is; rows of zeros count as
                     rows and change nothing
no intercept         ``fit_intercept=True`` appends a constant to x/|x|; sizes are then those of
                     margin tau / sqrt(2)
real numbers         A z in float64, in one fixed order; beta in three digits
===================  =============================================================================

**Practical mode**: one run per batch of ``10 / lambda`` steps, ``lambda = eps tau^2``, with the
noise budget of `replearn.halfspaces.spaces.noise_of`; calibrated, not proved. The promised
halfspace w/tau costs ``lambda / (2 tau^2) = eps / 2``, so max_error holds wherever the margin does.

Shorter batches take their steps in several passes: fewer steps would stay near their start. With
sketch bits, where all that rows must do is to learn, batches have ``1 / (2 lambda)`` rows, and a
batch is Pegasos [SSSC11]: an SVM by gradient descent.
"""

import math
from typing import Any

import numpy as np

from replearn.codes import Bound, Coins, Fitted, Mode, Promise, Recipe, Sizes, common, log_terms
from replearn.documents import decimal_text
from replearn.errors import ReplearnError, short
from replearn.halfspaces import spaces
from replearn.halfspaces.batches import AddBatches, round_mean, sum_batches
from replearn.halfspaces.certified import Proof, Split, certified_plan
from replearn.halfspaces.rounded import BatchPlan, BatchSpread, rounded_bound
from replearn.halfspaces.spaces import (
    by_hand_text,
    noise_of,
    paper_space,
    practical_space,
    with_rows,
)
from replearn.rows import Sample
from replearn.types import BlockMap, Ints

BY_HAND = spaces.BY_HAND | {
    "n_repetitions": "runs of a batch, paper mode",
    "n_validation": "rows to choose among them, paper mode",
    "normalize": "scale the best of them to length 1, paper mode",
}
CONSTANTS = {"C1": "batch size", "C2": "batches", "C3": "components", "C4": "grid width"}


def run(sample: Sample, plan: BatchPlan, coins: Coins, work: BlockMap = map) -> Fitted:
    """Rows to codes: an average of gradient descent per batch, then mean, project, round."""
    sums, batch_size = sum_batches(sample, plan, adder(plan), work)
    return round_mean(sums, batch_size, plan, coins, sample.n_rows)


def adder(plan: BatchPlan) -> AddBatches:
    """What adds the vectors of batches to sums: line 2."""
    from replearn.kernels import Descent, RawRows, add_descents

    descent = Descent(
        margin=plan.promise.margin,
        weight=float(plan.regularization),
        radius=plan.length_cap,
        n_runs=plan.n_repetitions,
        n_validation=plan.n_validation,
        normalize=float(plan.normalize),
    )

    def add(rows: RawRows, first: int, batch_size: int, *rest: Any) -> Ints:
        how = descent._replace(n_passes=_n_passes(plan, batch_size))
        if batch_size < plan.batch_size:  # fewer rows than a batch: one run of all of them
            how = how._replace(n_runs=1, n_validation=0)
        return add_descents(how, rows, first, batch_size, *rest)

    return add


def _n_passes(plan: BatchPlan, batch_size: int) -> int:
    """Passes of a run over its rows: one, but for short batches of practical mode."""
    if plan.mode != "practical":
        return 1

    return math.ceil(_BATCH_STEPS / float(plan.regularization) / batch_size)


def stability(plan: BatchPlan, n_rows: int, spread: BatchSpread | None = None) -> Bound:
    """How likely two labs are to get different codes; see `replearn.halfspaces.rounded`."""
    return rounded_bound(plan, n_rows, spread, _variance(plan, spread))


def _variance(plan: BatchPlan, spread: BatchSpread | None = None) -> float:
    """Variance of one batch vector, at most, whatever the population."""
    if plan.n_repetitions > 1 or (spread is not None and spread.counts["zero_rows"]):
        return math.inf  # nothing is known of the best of several runs, nor of shorter ones

    n_steps = plan.batch_size
    if spread is not None:
        n_steps = spread.batch_size
    if _n_passes(plan, n_steps) > 1:
        return math.inf  # the theorem is about rows that are seen once

    return variance_bound(plan.promise.margin, float(plan.regularization), n_steps)


def variance_bound(margin: float, weight: float, n_steps: int) -> float:
    """Bound of ``E |w - w*|^2`` for the average w of a run, whatever the population.

    ``G^2 / (r^2 (T + 1))`` with ``r = weight / (2 margin^2)`` and subgradients no longer than
    ``G = 1/margin + 2 r``: twice the bound of [Bubeck15, Thm. 6.2] over the strong convexity 2 r.
    Tested in tests/theory/test_sgd.py.
    """
    r = weight / (2 * margin**2)
    return (1 / margin + 2 * r) ** 2 / (r**2 * (n_steps + 1))


def sizes(promise: Promise, n_inputs: int, mode: Mode, given: Sizes) -> BatchPlan:
    """Sizes of Algorithm 2 in one of the three modes: arithmetic, no rows."""
    given.check(mode, BY_HAND, CONSTANTS)
    if given.get("regularization") == 0:
        raise ReplearnError(
            "regularization must be positive for gradient descent, got 0. Its steps are 1 over "
            "it; leave it out, or use Algorithm 1 for a hard margin."
        )

    spaces.only_in_paper_mode(mode, given, ("n_repetitions", "n_validation", "normalize"))
    if not isinstance(given.get("normalize", False), bool | np.bool_):
        raise ReplearnError(
            f"normalize must be True or False, got {short(given.get('normalize'))}. True is what "
            "the paper prints."
        )

    make = {"practical": _practical, "certified": _certified, "paper": _paper}[mode]
    return with_rows(make(promise, n_inputs, given), stability)


# --- as printed -----------------------------------------------------------------------------------


def _paper(promise: Promise, n_inputs: int, given: Sizes) -> BatchPlan:
    """Lines 1 to 4, and boostSGD with failure probability delta/B."""
    tau, eps, rho = promise.margin, promise.max_error, promise.max_disagreement
    log = log_terms(promise)
    n = int(given.get("batch_size", math.ceil(given.constant("C1") * log / (eps * tau) ** 2)))
    planned = math.ceil(given.constant("C2") * log / (tau**4 * rho**2))
    n_batches = int(given.get("n_batches", planned))
    k = math.ceil(given.constant("C3") * log / tau**2)
    width = given.constant("C4") * tau / log
    n_repetitions, n_validation = _division(n, n_batches, promise.failure_prob, given)

    return BatchPlan(
        **common("sgd", promise, n_inputs, "paper", given),
        batch_size=n,
        n_batches=n_batches,
        regularization=by_hand_text(given, "regularization", eps * tau**2 / 10),  # s = 1/2
        n_repetitions=n_repetitions,
        n_validation=n_validation,
        normalize=bool(given.get("normalize", False)),
        **paper_space(n_inputs, given, k, width),
    )


def _division(batch_size: int, n_batches: int, delta: float, given: Sizes) -> tuple[int, int]:
    """Runs of a batch, and rows to choose among them."""
    enough = math.ceil(math.log2(10 * n_batches / delta))
    n_repetitions = int(given.get("n_repetitions", max(1, min(enough, batch_size // 2))))
    half = 0
    if n_repetitions > 1:
        half = batch_size - batch_size // 2
    n_validation = int(given.get("n_validation", half))
    n_steps = (batch_size - n_validation) // max(n_repetitions, 1)
    if n_repetitions < 1 or n_steps < 1 or (n_repetitions > 1 and n_validation == 0):
        raise ReplearnError(
            "batch_size must be at least n_repetitions + n_validation, with rows to choose among "
            f"several runs, got {batch_size} for {n_repetitions} and {n_validation}. Raise "
            "batch_size, or lower n_repetitions."
        )

    return n_repetitions, n_validation


# --- calibrated -----------------------------------------------------------------------------------

#: Share of max_error that the noise of the rounding may cost a row at the margin.
_NOISE_SHARE = 0.5

#: Steps of a batch are this many over the regularisation, and rows within limits. After these the
#: average has nearly forgotten its start at zero. With a sketch they are made in several passes.
_BATCH_STEPS, _SKETCHED_ROWS = 10.0, 0.5
_BATCH_LIMITS = (100, 100_000)


def _practical(promise: Promise, n_inputs: int, given: Sizes) -> BatchPlan:
    """Sizes from the noise budget: max_error sets the noise, all rows go into stability."""
    tau = promise.margin
    noise = noise_of(tau, promise.max_error, _NOISE_SHARE)
    weight = by_hand_text(given, "regularization", promise.max_error * tau**2)
    low, high = _BATCH_LIMITS
    rows = _SKETCHED_ROWS if given.sketch_bits else _BATCH_STEPS
    planned = min(max(math.ceil(rows / float(weight)), low), high)
    batch_size = int(given.get("batch_size", planned))

    return BatchPlan(
        **common("sgd", promise, n_inputs, "practical", given),
        batch_size=batch_size,
        n_batches=int(given.get("n_batches", 0)),
        shortest_batch=math.ceil(tau**-2),  # fewer steps are far from any minimum
        regularization=weight,
        noise=noise,
        calibrated=_calibrated(tau, n_inputs) / batch_size,
        sketch_bits=given.sketch_bits,
        **practical_space(n_inputs, noise, given),
    )


def _calibrated(tau: float, n_inputs: int) -> float:
    """Rows of a batch times the variance of its vector.

    It is 1.1 to 3 times what populations with margins from tau on had for 12 to 100 features. Rare
    rows in any direction may have ten times as much; a fit of such rows tells.
    """
    return min(0.8 * n_inputs, 10 / tau**2)


# --- proved ---------------------------------------------------------------------------------------


def _certified(promise: Promise, n_inputs: int, given: Sizes) -> BatchPlan:
    """Sizes for which error and disagreement are proved: points 1 to 4, divided as is best.

    "part" is the share of e1 that r takes. A longer batch allows an r closer to e1 and fewer rows
    in all, until Bernstein needs more batches than the rounding.
    """
    tau = promise.margin

    def batch(before: float, slack: float, split: Split) -> dict[str, object]:
        weight = decimal_text(0.995 * split["part"] / 100 * 2 * slack * before * tau**2)
        r = float(weight) / (2 * slack * tau**2)  # in three digits, and below its part of e1
        n = math.ceil((1 / (slack * tau) + 2 * r) ** 2 / (r * (before - r)))
        return {"batch_size": n, "regularization": weight}

    proof = Proof(batch, _variance, stability, own={"part": (50, 99, 80)})
    return certified_plan("sgd", promise, n_inputs, given, proof)


SGD = Recipe(
    "sgd",
    "Algorithm 2",
    "eps^-2 tau^-6 rho^-2",
    sizes,
    run,
    stability,
    certified_rate="eps^-2 tau^-6 rho^-2",
    source="Theorem 1.4",
)
