"""Sizes of Algorithm 2, in the three modes.

One block of rows gives one vector: the average of a run of projected stochastic gradient descent,
or the best of several. ``regularization`` is lambda of

    ``lambda/2 |u|^2 + E (1 - <u, v>)_+``,    ``w = margin * u``,    ``|w| <= 1``,

as for the batch SVM. In the paper's units this is ``f = E h + r |w|^2`` divided by ``1/s``, with
``h = (1 - <w, v>/margin)_+ / s`` (there s = 1/2) and ``lambda = 2 s r margin^2``; steps relative
to the strong convexity do not see the factor.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

from replearn.errors import ReplearnError
from replearn.plans.sizes import BatchPlan, Guarantee, Sizes, check_mode, decimal
from replearn.plans.space_sizes import (
    paper_space,
    practical_space,
    provable_roundings,
    provable_space,
    provable_variance,
    read_constants,
    require_at_least,
    weight_text,
)


def plan_sgd(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str = "practical",
    sizes: Sizes | None = None,
    constants: dict[str, float] | None = None,
) -> BatchPlan:
    """Sizes of Algorithm 2; ``constants`` are ``C1`` to ``C4`` of its lines 1 to 4."""
    sizes = sizes or Sizes()
    check_mode(mode, constants)
    if sizes.regularization == 0:
        raise ReplearnError(
            "regularization must be positive for gradient descent, got 0. Its steps are 1 over "
            'it; leave it "auto", or use ReplicableSVMClassifier for a hard margin.'
        )
    if mode == "paper":
        return _paper_sgd(guarantee, n_inputs, sizes, constants)
    for name in ("n_repetitions", "n_validation"):
        if getattr(sizes, name) is not None:
            raise ReplearnError(
                f'{name} belongs to mode="paper", got mode={mode!r}. Other modes use one run for '
                "each block. Leave it out, or choose paper mode."
            )
    if mode == "certified":
        return _certified_sgd(guarantee, n_inputs, sizes)
    return _practical_sgd(guarantee, n_inputs, sizes)


def variance_bound(margin: float, weight: float, n_steps: int) -> float:
    """Bound of ``E |w - w*|^2`` for the average w of a run, whatever the population.

    ``G^2 / (r^2 (T + 1))`` with ``r = weight / (2 margin^2)`` and subgradients no longer than
    ``G = 1/margin + 2 r``: twice the bound of [Bubeck15, Thm. 6.2] over the strong convexity 2 r.
    Tested in tests/theory/test_sgd.py.
    """
    r = weight / (2 * margin**2)
    return (1 / margin + 2 * r) ** 2 / (r**2 * (n_steps + 1))


# --- paper mode -----------------------------------------------------------------------------

_CONSTANTS = {"C1": "batch size", "C2": "batches", "C3": "components", "C4": "grid width"}


def _paper_sgd(
    guarantee: Guarantee, n_inputs: int, sizes: Sizes, constants: dict[str, float] | None
) -> BatchPlan:
    """Lines 1 to 4 of Algorithm 2 [KKLVZ24, Sec. 4], and boostSGD with failure probability delta/B.

    The paper does not say how the rows of a batch are divided: here a half goes to the runs, of
    which ``log2(10 B/delta)`` make a good one likely enough, and a half to the choice among them.
    It scales the winner to length 1, and argues that this cannot raise its loss. It can, by up to
    1/|w| on a point with a negative margin, and no later step needs it, so it is left out.
    """
    c1, c2, c3, c4 = read_constants(constants, "Algorithm 2", _CONSTANTS)
    tau, eps = guarantee.margin, guarantee.max_error
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob
    log = math.log(1 / (eps * tau * rho * delta))
    batch_size = sizes.batch_size or math.ceil(c1 * log / (eps * tau) ** 2)
    n_batches = sizes.n_batches or math.ceil(c2 * log / (tau**4 * rho**2))
    n_repetitions, n_validation = _division(batch_size, n_batches, delta, sizes)
    return BatchPlan(
        algorithm="sgd",
        batch_size=batch_size,
        n_batches=n_batches,
        # r = eps/10 and s = 1/2
        regularization=weight_text(sizes, eps * tau**2 / 10),
        basis="sizes as printed, with constants "
        + ", ".join(f"{c:g}" for c in (c1, c2, c3, c4))
        + ", but the best run of a batch is not scaled to length 1, which could raise its loss",
        n_repetitions=n_repetitions,
        n_validation=n_validation,
        **paper_space(guarantee, n_inputs, sizes, math.ceil(c3 * log / tau**2), c4 * tau / log),
    )


def _division(batch_size: int, n_batches: int, delta: float, sizes: Sizes) -> tuple[int, int]:
    """Runs of a batch, and rows to choose among them; the runs are of equal length."""
    enough = math.ceil(math.log2(10 * n_batches / delta))
    n_repetitions = sizes.n_repetitions or max(1, min(enough, batch_size // 2))
    n_validation = sizes.n_validation
    if n_validation is None:
        n_validation = batch_size - batch_size // 2 if n_repetitions > 1 else 0
    n_steps = (batch_size - n_validation) // n_repetitions
    if n_steps < 1 or (n_repetitions > 1 and n_validation == 0):
        raise ReplearnError(
            f"batch_size must be at least n_repetitions + n_validation, with rows to choose "
            f"among several runs, got {batch_size} for {n_repetitions} and {n_validation}. "
            "Raise batch_size, or lower n_repetitions."
        )
    return n_repetitions, batch_size - n_repetitions * n_steps


# --- certified mode -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Proved:
    """Sizes for which the promise is proved."""

    batch_size: int
    n_batches: int
    weight: str
    projection: str
    n_components: int
    width: str

    @property
    def n_samples(self) -> int:
        return self.batch_size * self.n_batches


def _certified_sgd(guarantee: Guarantee, n_inputs: int, sizes: Sizes) -> BatchPlan:
    """Sizes for which error and disagreement are proved, for every distribution with the margin.

    Averages the results of B blocks of T steps. Notation: ``slack`` s, ``shift`` t, error e1
    before and e2 after rounding. f with this s and some r has ``f* <= r`` (the promised
    halfspace has no loss), strong convexity 2 r, and subgradients of length
    ``G = 1/(s tau) + 2 r`` at most.

    1. [Bubeck15, Thm. 6.2]: a block has ``E f(w) <= r + g`` with ``g = G^2 / (r (T + 1))``.
    2. The expected result of a block is one fixed vector m, the same for all labs, however many
       blocks they have, and ``f(m) <= r + g = e1`` (Jensen). A margin below ``(1-s) tau`` costs
       more than 1 in f, so m has one on at most e1 of the population: with certainty, so
       nothing is to be boosted.
    3. Strong convexity: the variance of a block is at most ``g/r``, for *every* distribution. So
       ``B >= (g/r) / V`` blocks make the codes agree with probability 1 - rho, V from the flip
       constant of the rounding. As g is proportional to 1/T, the number of rows T B is what
       counts: one long pass needs as many.
    4. Bernstein: the average of B blocks is within t of m on each point, but with probability
       .1 e2 delta. Projection and rounding keep the sign of a margin ``(1-s) tau - t``, but with
       probability .9 e2 delta (tests/theory/test_margin.py).

    So the block length follows from the promise alone. A longer block allows an r closer to e1
    and fewer rows in all, ``T B ~ 1/r^2``, until Bernstein needs more blocks than the rounding.
    Each step is tested in tests/theory/test_sgd.py.
    """
    rounding = provable_roundings(sizes, n_inputs)[0]
    for name in {"basis", "unit_mean"} & set(sizes.given()):
        raise ReplearnError(
            f'nothing is proved with {name}. Leave it out, or use mode="practical".'
        )
    best = min(_proved(guarantee, n_inputs, rounding, sizes), key=lambda option: option.n_samples)
    require_at_least(sizes, n_batches=best.n_batches, batch_size=best.batch_size)
    return BatchPlan(
        algorithm="sgd",
        mode="certified",
        guarantee=guarantee,
        n_inputs=n_inputs,
        batch_size=sizes.batch_size or best.batch_size,
        n_batches=sizes.n_batches or best.n_batches,
        regularization=best.weight,
        length_cap=1.0,
        projection=best.projection,
        n_components=best.n_components,
        rounding=rounding,
        grid_width=best.width,
        basis="proved for every distribution with this margin",
        by_hand=tuple(sizes.given()),
        hint_bits=sizes.hint_bits or 0,
    )


def _proved(guarantee: Guarantee, n_inputs: int, rounding: str, sizes: Sizes) -> Iterator[_Proved]:
    """Sizes that keep the promise, for many ways to divide it among the steps of the proof."""
    tau, eps = guarantee.margin, guarantee.max_error
    # with hint bits only the rotation, whose law has one number of components
    projections = ["rotation"] if sizes.hint_bits else ["gaussian", "rotation"]
    if sizes.projection:
        projections = [sizes.projection]
    for share, slack, shift, projection in product(
        (0.5, 0.6, 0.7, 0.8, 0.9),
        (i / 100 for i in range(10, 60, 2)),
        (tau * i / 100 for i in (1, 2, 4, 8, 16, 28, 40)),
        projections,
    ):
        failure = (1 - share) * eps * guarantee.failure_prob
        margin = (1 - slack) * tau - shift
        n_components, width = provable_space(projection, rounding, margin, 0.9 * failure, n_inputs)
        rho, bits = guarantee.max_disagreement, sizes.hint_bits or 0
        allowed = provable_variance(projection, rounding, n_inputs, n_components, width, rho, bits)
        for_bernstein = math.log(1 / (0.1 * failure)) / shift**2
        for part in (0.8, 0.9, 0.95, 0.98, 0.99, 0.995):
            weight = decimal(0.995 * part * 2 * slack * share * eps * tau**2)
            r = float(weight) / (2 * slack * tau**2)  # in three digits, and below part * e1
            gap = share * eps - r
            batch_size = math.ceil((1 / (slack * tau) + 2 * r) ** 2 / (r * gap))
            variance = min(1.0, variance_bound(tau, float(weight), batch_size))
            for_flips = variance / allowed
            n_batches = math.ceil(max(for_flips, for_bernstein * (2 * variance + 4 * shift / 3)))
            yield _Proved(batch_size, n_batches, weight, projection, n_components, decimal(width))


# --- practical mode -------------------------------------------------------------------------

#: Steps of a block are this many over the regularisation, within limits. After these the average
#: has nearly forgotten its start at zero: shorter blocks are biased (at 3/lambda the error of
#: the hardest population below rises from .05 to .07), longer ones leave fewer blocks.
_BLOCK_STEPS = 10.0
_BLOCK_LIMITS = (100, 5000)


def _practical_sgd(guarantee: Guarantee, n_inputs: int, sizes: Sizes) -> BatchPlan:
    """Sizes from the noise budget: max_error sets the noise, all samples go into stability.

    Regularisation margin^2, and noise of standard deviation ``margin / z`` with z the normal
    quantile of 1 - .4 max_error: calibrated such that the error stays below max_error on
    populations with margins from tau to 4 tau, all near tau, with a decoy direction, with a
    power-law spectrum, for 5 to 1000 features and tau from .05 to .4. Less regularisation has
    more variance; more (3 margin^2) needs less noise when all margins are near tau.
    benchmarks/svm_vs_sgd.py measures both error and disagreement.
    """
    tau = guarantee.margin
    noise = tau / NormalDist().inv_cdf(1 - 0.4 * guarantee.max_error)
    weight = weight_text(sizes, tau**2)
    low, high = _BLOCK_LIMITS
    batch_size = sizes.batch_size or min(max(math.ceil(_BLOCK_STEPS / float(weight)), low), high)
    common, spread = practical_space(guarantee, n_inputs, noise, sizes)
    variance = _calibrated_variance(tau, n_inputs, float(weight))
    n_batches = sizes.n_batches or max(1, math.ceil(2 * variance / (spread**2 * batch_size)))
    return BatchPlan(
        algorithm="sgd",
        batch_size=batch_size,
        n_batches=n_batches,
        regularization=weight,
        length_cap=1.0,
        **common,
    )


def _calibrated_variance(tau: float, n_inputs: int, weight: float) -> float:
    """Block length times the variance of a block's vector.

    Measured for margins uniform on [tau, 4 tau] and isotropic features: met within 10 % for
    d tau^2 from .5 to 160, too much by up to 4 below that. The hardest population, all margins
    near tau, had up to twice as much, one with a power-law spectrum a quarter.
    """
    signal = n_inputs * tau**2
    return 0.4 * signal / (2 + signal) / max(weight, tau**2 / 10)
