"""Algorithm 1: replicable large-margin halfspaces from batches of SVMs.

As the paper prints it [KKLVZ24, Sec. 3], with ``l = log(1 / (eps tau rho delta))``:

1.  ``k = C1 tau^-2 l`` components, ``B = C2 tau^-4 rho^-2 l`` batches, ``n = C3 eps^-1 tau^-3 l``
    rows each, grid width ``beta = C4 tau / l``.
2.  For each batch ``w_i = SVM(S_i, tau/2)``: a unit normal with margin tau/2 on all its rows.
3.  ``z`` is the mean of the ``w_i``.
4.  A is a Gaussian matrix, k x d, variance 1/k: shared randomness.
5.  ``b = AKround(A z, beta)``: shared randomness. The codes are the whole numbers of b.
6.  Return ``A^T b / |A^T b|``.

**Theorem** (there). The algorithm is rho-replicable, and its error is at most eps with probability
1 - delta; it needs ``eps^-1 tau^-7 rho^-2`` rows, without logarithms.

**Our constants** (certified mode). We average ``tau u_i``, u_i the soft-margin SVM with box
constraint C of a batch, shortened to length 1. Notation: slack s, shift t, error e1 before and e2
after rounding.

1.  Leave-one-out: ``E hinge <= h/(tau^2 (n+1))`` with ``h = max(1, (1 + C)/(2 C))``. So with
    ``n = h/(0.95 s e1 tau^2)`` the expected vector has a margin below ``(1-s) tau`` on at most e1
    of the population (Jensen, Markov; 5% of the budget pay for the duality gap,
    ``|u - u*| <= sqrt(2 gap)``). No power of the margin is lost, and no logarithm.
2.  Efron-Stein with leave-one-out: the variance of ``tau u`` is at most C, and at most 1.
3.  Bernstein: the mean of B batches is within t of the expected vector on each row.
4.  Projection and rounding keep the sign of a margin ``(1-s) tau - t``
    (`replearn.halfspaces.turned_signs`).
5.  B batches make the codes agree with probability 1 - rho (`replearn.halfspaces.rounded`).

In place of step 3 one may take the mean of this lab's batches itself: the hinge loss is convex, so
its expected loss is at most that of a batch, and Markov pays for the failure probability: e1 and
e2 add up to ``eps delta``. That needs more rows per batch and hardly any batches. With a sketch it
is the shorter way: ``O(eps^-1 delta^-1 tau^-2 log^2(k/rho))`` rows.

**Departures of mode="paper"** from what is printed: none but these.

===================  =============================================================================
printed              here
===================  =============================================================================
``O(.)``, constants  ``constants={"C1": ...}``, 1 unless given
SVM(S, tau/2)        certified to half of the batch's largest margin, which is tau/2 at least if the
                     population keeps its promise, or to ``margin_share`` of it: near 1 it is the
                     exact SVM, whose rate is tau^-6 (docs/theory/proofs.md, 5a); a batch that is
                     proved to have no margin tau/2 gives the zero vector, and one that takes
                     100,000 sweeps what it has by then (the paper says nothing)
x of any length      rows are scaled to length 1, as the paper's margin is; rows of zeros count as
                     rows and change nothing
no intercept         ``fit_intercept=True`` appends a constant to x/|x|; sizes are then those of
                     margin tau / sqrt(2)
real numbers         A z in float64, in one fixed order; beta in three digits
===================  =============================================================================

**Practical mode** needs no batches: it rounds one vector of all rows, the minimiser u of
``lambda/2 |u|^2 + mean (1 - <u, v>)_+^2 / 2`` (`replearn.exact.squared_hinge`). The promised
halfspace w/tau has no loss and costs ``lambda / (2 tau^2)``, and an error costs 1/2. So at most
``lambda / tau^2`` of the lab's rows are wrong before the rounding, *wherever the margin holds*:
with ``lambda = eps tau^2 / 10000`` a 10000th of max_error. Larger lambdas do not keep max_error:
lambda = tau^2 allows any error up to 1. What is left of max_error goes to the noise of the rounding
(`replearn.halfspaces.spaces.noise_of`). A nearly hard margin is most stable where margins begin
with a jump at tau, for which rows are planned; where they do not, or labels are noisy, it is less
so, and a jackknife over 16 groups of rows tells. Calibrated, not proved.

``n_batches`` or ``batch_size`` by hand bring batches back: SVMs with lambda = eps tau^2, of
``1 / lambda`` rows.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from replearn.codes import Bound, Coins, Fitted, Mode, Promise, Recipe, Sizes, common, log_terms
from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.exact import UNIT_BITS, products, squared_hinge
from replearn.halfspaces import spaces
from replearn.halfspaces.batches import (
    AddBatches,
    all_directions,
    refuse_zeros,
    round_mean,
    round_point,
    sum_batches,
)
from replearn.halfspaces.certified import Proof, Split, certified_plan
from replearn.halfspaces.rounded import N_GROUPS, BatchPlan, BatchSpread, rounded_bound
from replearn.halfspaces.spaces import (
    by_hand_text,
    noise_of,
    paper_space,
    practical_space,
    with_rows,
)
from replearn.rows import MemoryRows, Sample
from replearn.types import BlockMap, is_sparse, stacked

BY_HAND = spaces.BY_HAND | {"margin_share": "of the largest margin, paper mode"}
CONSTANTS = {"C1": "components", "C2": "batches", "C3": "batch size", "C4": "grid width"}


def run(sample: Sample, plan: BatchPlan, coins: Coins, work: BlockMap = map) -> Fitted:
    """Rows to codes: a large-margin vector per batch, then mean, project, round."""
    if plan.one_fit:
        return _run_once(sample, plan, coins)

    sums, batch_size = sum_batches(sample, plan, adder(plan), work)
    return round_mean(sums, batch_size, plan, coins, sample.n_rows)


def adder(plan: BatchPlan) -> AddBatches:
    """What adds the vectors of batches to sums: line 2."""
    from replearn.kernels import Problem, add_batches

    problem = Problem(
        weight=float(plan.regularization),
        abs_gap=plan.abs_gap,
        rel_gap=plan.rel_gap,
        share=plan.margin_share,
        floor=plan.promise.margin / 2,
        max_sweeps=_MAX_SWEEPS,
        length=0.0 if plan.unit_vectors else plan.promise.margin,
        cap=plan.length_cap,
    )
    return partial(add_batches, problem)


def _run_once(sample: Sample, plan: BatchPlan, coins: Coins) -> Fitted:
    """Rows to codes: one large-margin vector of all rows, project, round."""
    # 1. directions in whole numbers
    every, n_zero, n_again = _in_single_precision(sample, plan.n_inputs)
    refuse_zeros(every.shape[0], n_zero)

    # 2. the vector, and those without each group of rows: a jackknife
    ridge, start = float(plan.regularization), np.zeros(plan.n_inputs)
    if every.shape[0] >= _MANY_ROWS:
        # some rows go most of the way; their content chooses them, so that no order counts
        sums = np.ldexp(products(every, np.ones(plan.n_inputs)), UNIT_BITS)
        some = every[sums % N_GROUPS == 0]
        if some.shape[0] > 0:
            start = squared_hinge.fit(some, ridge, start, squared_hinge.ROUGH)

    solution = squared_hinge.fit(every, ridge, start)
    deviations = np.zeros((0, plan.n_inputs))
    if every.shape[0] >= 2 * N_GROUPS:
        others = squared_hinge.without_each_group(every, N_GROUPS, ridge, solution)
        deviations = (others - others.mean(axis=0)) * ((N_GROUPS - 1) / math.sqrt(N_GROUPS))

    # 3. project and round
    vectors = plan.promise.margin * np.vstack([solution, deviations])
    counts = {"pairs": 0, "zero_rows": n_zero}
    fitted = round_point(vectors, 1, sample.n_rows, counts, plan, coins)
    spread = replace(fitted.spread, n_repeated=n_again)  # type: ignore[type-var]

    return replace(fitted, spread=spread, counts={"zero_rows": n_zero})


def _in_single_precision(sample: Sample, n_inputs: int) -> tuple[Any, int, int]:
    """All directions, whose whole numbers it holds; rows that are all zero, and that recur."""
    if not isinstance(sample, MemoryRows) or is_sparse(sample.X):
        parts, n_zero, n_again = all_directions(
            sample, n_inputs, lambda rows: rows.astype(np.float32)
        )
        return stacked(parts), n_zero, n_again

    # where rows are known beforehand they go to their places, so that there is one copy
    every = np.empty((sample.n_rows, n_inputs), dtype=np.float32)
    n_kept = 0

    def keep(rows: Any) -> None:
        nonlocal n_kept
        every[n_kept : n_kept + len(rows)] = rows
        n_kept += len(rows)

    _, n_zero, n_again = all_directions(sample, n_inputs, keep)
    return every[:n_kept], n_zero, n_again


_MAX_SWEEPS = 100_000

#: Rows of one fit that starts from a fit of a part of them.
_MANY_ROWS = 20_000


def stability(plan: BatchPlan, n_rows: int, spread: BatchSpread | None = None) -> Bound:
    """How likely two labs are to get different codes; see `replearn.halfspaces.rounded`."""
    return rounded_bound(plan, n_rows, spread, _variance(plan, spread))


def _variance(plan: BatchPlan, spread: BatchSpread | None = None) -> float:
    """Variance of one batch vector, at most, whatever the population.

    Vectors of length at most R have variance at most R^2. For soft-margin SVMs leave-one-out and
    Efron-Stein give ``tau^2 sum a_i^2 <= tau^2 C / lambda`` for the exact solution (certified mode:
    C, under the promise of a margin), with the box constraint ``C = 1 / (n lambda)`` of the n rows
    that a batch *has*. A solver that stops at a duality gap g is within ``sqrt(2 g)`` of it, which
    adds to the standard deviation; batches that it gave up on may be anywhere.
    """
    ball, weight, margin = plan.length_cap**2, float(plan.regularization), plan.promise.margin
    if plan.one_fit or plan.unit_vectors or weight == 0:
        return ball

    if spread is not None and spread.counts["unconverged"]:
        return ball

    n = plan.batch_size
    if spread is not None:
        n = spread.batch_size
    exact = margin / (weight * math.sqrt(n))
    if plan.mode == "certified":  # the promise of a margin bounds the sum of the a_i
        exact = min(exact, math.sqrt(1 / (n * weight)))

    longest = plan.length_cap / margin  # of u: longer ones are shortened to it
    gap = max(plan.abs_gap, plan.rel_gap * longest**2 / 2)

    return min(ball, (exact + margin * math.sqrt(2 * gap)) ** 2)


def sizes(promise: Promise, n_inputs: int, mode: Mode, given: Sizes) -> BatchPlan:
    """Sizes of Algorithm 1 in one of the three modes: arithmetic, no rows."""
    given.check(mode, BY_HAND, CONSTANTS)
    spaces.only_in_paper_mode(mode, given, ("margin_share",))
    if not 0 < given.get("margin_share", 0.5) < 1:
        raise ReplearnError(
            f"margin_share must be between 0 and 1, got {given.get('margin_share')}. It is of the "
            "largest margin of a batch; for an exact SVM take 0.99."
        )

    make = {"practical": _practical, "certified": _certified, "paper": _paper}[mode]
    return with_rows(make(promise, n_inputs, given), stability)


# --- as printed -----------------------------------------------------------------------------------


def _paper(promise: Promise, n_inputs: int, given: Sizes) -> BatchPlan:
    """Lines 1 to 4."""
    tau, eps, rho = promise.margin, promise.max_error, promise.max_disagreement
    log = log_terms(promise)
    k = math.ceil(given.constant("C1") * log / tau**2)
    n_batches = math.ceil(given.constant("C2") * log / (tau**4 * rho**2))
    batch_size = math.ceil(given.constant("C3") * log / (eps * tau**3))
    width = given.constant("C4") * tau / log

    return BatchPlan(
        **common("svm", promise, n_inputs, "paper", given),
        batch_size=int(given.get("batch_size", batch_size)),
        n_batches=int(given.get("n_batches", n_batches)),
        regularization=by_hand_text(given, "regularization", 0.0),
        unit_vectors=True,
        rel_gap=1e-3,
        margin_share=float(given.get("margin_share", 0.5)),
        **paper_space(n_inputs, given, k, width),
    )


# --- calibrated -----------------------------------------------------------------------------------

#: Share of max_error that the noise of the rounding may cost a row at the margin.
_NOISE_SHARE = 0.5

#: Ridge of one fit of all rows, and lambda of batches, in units of max_error margin^2. The ridge is
#: the largest power of ten that costs at most twice the variance: benchmarks/one_fit.py.
_RIDGE, _BATCH_WEIGHT = 1 / 10000, 1.0

#: Rows of a batch are one over its lambda, within limits; the box constraint is then 1.
_BATCH_LIMITS = (200, 5000)


def _calibrated(promise: Promise, n_inputs: int, weight: float) -> float:
    """Rows of a batch times the variance of its ``margin * u``; proved is ``1 / weight``.

    Fitted to the least stable population that keeps a margin, one of rare rows in any direction.
    """
    signal = n_inputs * promise.margin**2
    return min(1 / weight, 5 * signal / promise.margin**2)


def _practical(promise: Promise, n_inputs: int, given: Sizes) -> BatchPlan:
    """One fit of all rows; max_error sets the noise, and all rows go into stability."""
    noise = noise_of(promise.margin, promise.max_error, _NOISE_SHARE)
    one_fit = given.get("batch_size") is None and given.get("n_batches") is None
    share = _RIDGE if one_fit else _BATCH_WEIGHT
    weight = by_hand_text(given, "regularization", share * promise.max_error * promise.margin**2)
    if float(weight) == 0:
        weight = decimal_text(promise.margin**2 * 1e-6)  # a hard margin, nearly

    plan = BatchPlan(
        **common("svm", promise, n_inputs, "practical", given),
        one_fit=one_fit,
        batch_size=1,
        n_batches=int(given.get("n_batches", 0)),
        regularization=weight,
        length_cap=max(1.0, promise.margin / math.sqrt(float(weight))),
        noise=noise,
        sketch_bits=given.sketch_bits,
        **practical_space(n_inputs, noise, given),
    )
    if one_fit:
        return plan

    low, high = _BATCH_LIMITS
    batch_size = int(given.get("batch_size", min(max(math.ceil(1 / float(weight)), low), high)))
    calibrated = _calibrated(promise, n_inputs, float(weight)) / batch_size

    return replace(plan, batch_size=batch_size, calibrated=calibrated)


# --- proved ---------------------------------------------------------------------------------------

#: Share of the hinge budget that is reserved for the solver's duality gap.
_GAP_SHARE = 0.05


def _certified(promise: Promise, n_inputs: int, given: Sizes) -> BatchPlan:
    """Sizes for which error and disagreement are proved: points 1 to 5, divided as is best.

    The share "box" is C. A smaller C saves up to 9% of the rows, in batches that take long to
    solve.
    """

    def batch(before: float, slack: float, split: Split) -> dict[str, object]:
        box = split["box"] / 100
        hinge = max(1.0, (1 + box) / (2 * box)) / promise.margin**2
        n = math.ceil(hinge / ((1 - _GAP_SHARE) * slack * before))
        return {
            "batch_size": n,
            "regularization": decimal_text(1 / (box * n), 12),
            "abs_gap": (_GAP_SHARE * slack * before) ** 2 / 2,
            "rel_gap": 0.0,
        }

    proof = Proof(batch, _variance, stability, own={"box": (10, 200, 100)})
    return certified_plan("svm", promise, n_inputs, given, proof)


SVM = Recipe(
    "svm",
    "Algorithm 1",
    "eps^-1 tau^-7 rho^-2",
    sizes,
    run,
    stability,
    certified_rate="eps^-1 tau^-6 rho^-2",
    source="Theorem 1.3",
)
