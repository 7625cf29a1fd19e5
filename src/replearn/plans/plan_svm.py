"""Sizes of Algorithm 1, in the three modes."""

import math
from dataclasses import replace
from statistics import NormalDist

from replearn.codes.cells import provable_flip_constant
from replearn.errors import ReplearnError
from replearn.plans.sizes import MODES, Accuracy, BatchPlan, Guarantee, Sizes, decimal
from replearn.plans.space_sizes import (
    allowed_spread,
    best_space,
    check_components,
    check_constants,
    components,
    paper_rounding,
    provable_rounding,
    provable_space,
    refuse_hints,
    refuse_pilot_choices,
    weight_text,
    width_text,
)


def plan_svm(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str = "practical",
    sizes: Sizes | None = None,
    constants: dict[str, float] | None = None,
) -> BatchPlan:
    """Sizes of Algorithm 1.

    Parameters
    ----------
    guarantee : Guarantee
    n_inputs : int
        Features, and one more if an intercept is fitted.
    mode : {"practical", "certified", "paper"}
    sizes : Sizes, optional
        What the user fixes by hand.
    constants : dict, optional
        Paper mode only: ``C1`` to ``C4`` of Algorithm 1's lines 1 to 4, default 1.

    Returns
    -------
    BatchPlan
    """
    sizes = sizes or Sizes()
    check_components(sizes, n_inputs)
    if mode != "practical":
        refuse_pilot_choices(sizes, mode)
    if mode == "paper":
        return _paper_svm(guarantee, n_inputs, sizes, constants or {})
    if constants:
        raise ReplearnError(
            f'constants belong to mode="paper", got mode={mode!r}. '
            "Leave constants out, or choose paper mode."
        )
    if mode == "certified":
        return _certified_svm(guarantee, n_inputs, sizes)
    if mode == "practical":
        return _practical_svm(guarantee, n_inputs, sizes)
    raise ReplearnError(f"mode must be one of {', '.join(MODES)}, got {mode!r}.")


# --- paper mode -----------------------------------------------------------------------------

_CONSTANTS = {"C1": "components", "C2": "batches", "C3": "batch size", "C4": "grid width"}


def _paper_svm(
    guarantee: Guarantee, n_inputs: int, sizes: Sizes, constants: dict[str, float]
) -> BatchPlan:
    """Lines 1 to 4 of Algorithm 1 [KKLVZ24, Sec. 3]."""
    refuse_hints(sizes)
    check_constants(constants, "Algorithm 1", _CONSTANTS)
    c1, c2, c3, c4 = (constants.get(name, 1.0) for name in ("C1", "C2", "C3", "C4"))
    tau, eps = guarantee.margin, guarantee.max_error
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob
    log = math.log(1 / (eps * tau * rho * delta))
    projection = sizes.projection or "gaussian"
    n_components = sizes.n_components or math.ceil(c1 * log / tau**2)
    return BatchPlan(
        algorithm="svm",
        mode="paper",
        guarantee=guarantee,
        n_inputs=n_inputs,
        batch_size=sizes.batch_size or math.ceil(c3 * log / (eps * tau**3)),
        n_batches=sizes.n_batches or math.ceil(c2 * log / (tau**4 * rho**2)),
        regularization=weight_text(sizes, 0.0),
        unit_vectors=True,
        length_cap=1.0,
        projection=projection,
        n_components=components(projection, n_components, n_inputs),
        rounding=paper_rounding(sizes),
        grid_width=width_text(sizes, c4 * tau / log),
        # SVM(S, tau/2): half of the largest margin is at least tau/2 if the promise holds
        accuracy=Accuracy(margin_share=0.5, margin_floor=tau / 2, rel_gap=1e-3),
        basis="sizes as printed, with constants " + ", ".join(f"{c:g}" for c in (c1, c2, c3, c4)),
        by_hand=tuple(sizes.given()),
    )


# --- certified mode -------------------------------------------------------------------------

#: Share of the hinge budget that is reserved for the solver's duality gap.
_GAP_SHARE = 0.05


def _certified_svm(guarantee: Guarantee, n_inputs: int, sizes: Sizes) -> BatchPlan:
    """Sizes for which error and disagreement are proved, for every distribution with the margin.

    Averages ``tau u_i`` of soft-margin SVMs with C = 1. Notation: ``slack`` s, ``shift`` t.

    1. Leave-one-out: ``E hinge <= 1/(tau^2 (n+1))``, so with n = 1/(.95 s e1 tau^2) the mean
       vector has margin below ``(1-s) tau`` on at most e1 of the population (Jensen, Markov;
       5 % of the budget pay for the duality gap, ``|u - u*| <= sqrt(2 gap)``).
    2. Bernstein: the average of B batches is within t of it on each point.
    3. Projection and rounding keep the sign of a margin ``m0 = (1-s) tau - t`` except with
       probability p (tests/theory/test_margin.py), grid and components chosen for that.
    4. ``B >= 1/V`` batches make the codes agree with probability 1 - rho, for *every*
       distribution, because each vector is at most 1 long.
    """
    rounding = provable_rounding(sizes)
    tau, eps = guarantee.margin, guarantee.max_error
    delta, rho = guarantee.failure_prob, guarantee.max_disagreement
    error_before = error_after = eps / 2
    best: tuple[int, BatchPlan] | None = None
    for slack in (i / 100 for i in range(5, 60)):
        batch_size = math.ceil(1 / ((1 - _GAP_SHARE) * slack * error_before * tau**2))
        for shift in (j / 100 * tau for j in (1, 2, 3, 4, 6, 8, 10)):
            margin = (1 - slack) * tau - shift
            for projection in [sizes.projection] if sizes.projection else ["gaussian", "rotation"]:
                n_components, width = provable_space(
                    projection, rounding, margin, 0.9 * error_after * delta, n_inputs
                )
                constant = provable_flip_constant(projection, rounding, n_inputs, n_components)
                variance = (width * rho / constant) ** 2 / 2
                for_bernstein = math.log(1 / (0.1 * error_after * delta)) / shift**2
                n_batches = math.ceil(max(1 / variance, for_bernstein * (2 + 4 * shift / 3)))
                total = n_batches * batch_size
                if best and total >= best[0]:
                    continue
                plan = BatchPlan(
                    algorithm="svm",
                    mode="certified",
                    guarantee=guarantee,
                    n_inputs=n_inputs,
                    batch_size=batch_size,
                    n_batches=n_batches,
                    regularization=repr(1 / batch_size),
                    length_cap=1.0,
                    projection=projection,
                    n_components=n_components,
                    rounding=rounding,
                    grid_width=decimal(width),
                    accuracy=Accuracy(
                        abs_gap=(_GAP_SHARE * slack * error_before) ** 2 / 2,
                        rel_gap=0.0,
                        max_sweeps=100_000,
                    ),
                    basis="proved for every distribution with this margin",
                    by_hand=tuple(sizes.given()),
                )
                best = total, plan
    assert best is not None
    plan = best[1]
    for name in ("n_batches", "batch_size"):
        by_hand = getattr(sizes, name)
        if by_hand is not None and by_hand < getattr(plan, name):
            raise ReplearnError(
                f"certified mode needs {name} of at least {getattr(plan, name):,}, got "
                f'{by_hand:,}. Leave it "auto", relax the promise, or use mode="practical".'
            )
    batch_size = sizes.batch_size or plan.batch_size
    return replace(
        plan,
        batch_size=batch_size,
        n_batches=sizes.n_batches or plan.n_batches,
        regularization=repr(1 / batch_size),
    )


# --- practical mode -------------------------------------------------------------------------

#: Rows per batch are this many over margin^2, within limits: with regularisation margin^2 the
#: box constraint is 1. Longer batches give longer vectors that vary more, most of all in many
#: dimensions (twice the variance per row at 200 rows instead of 100, 1,000 features, margin .1).
_BATCH_ROWS = 1.0
_BATCH_LIMITS = (100, 2000)

#: Calibrated: batch_size times the variance of margin * u, in units of 1 (see
#: benchmarks/sample_cost.py); the proved bound for regularisation margin^2 is 1 / margin^2.
_CALIBRATED_VARIANCE = 0.1


def expected_squared_length(margin: float) -> float:
    """Squared length of the mean of margin * u, calibrated; it is proved to be at most 1.

    That of a vector with functional margin 1 where margins are spread from ``margin`` to four times
    as much, and .2 at least: .12 to .17 were found there, and up to .4 if all margins are
    close to ``margin`` = .1.
    """
    return max(0.2, (2 * margin / (margin + min(4 * margin, 1.0))) ** 2)


#: The published grid for ``margin="auto"``.
MARGIN_GRID = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)


def _practical_svm(guarantee: Guarantee, n_inputs: int, sizes: Sizes) -> BatchPlan:
    """Sizes from the noise budget: max_error sets the noise, all samples go into stability.

    Regularisation margin^2 makes the functional margin <u, y x> about 1 on most points of a
    population with that margin, so noise of standard deviation ``1/z``, with ``z`` the normal
    quantile of 1 - .28 max_error, costs about max_error (measured on several populations,
    benchmarks/sample_cost.py). In units of margin * u the noise is margin / z. Populations
    whose margins are all close to ``margin`` lose more: .06 at 100 features and .12 at 1,000
    for max_error .05.
    """
    tau = guarantee.margin
    noise = tau / NormalDist().inv_cdf(1 - 0.28 * guarantee.max_error)
    low, high = _BATCH_LIMITS
    batch_size = sizes.batch_size or min(max(math.ceil(_BATCH_ROWS / tau**2), low), high)
    weight = weight_text(sizes, tau**2)
    rho, bits = guarantee.max_disagreement, sizes.hint_bits or 0
    projection, rounding, n_components, width = best_space(
        n_inputs, noise, rho, sizes, expected_squared_length(tau)
    )
    spread = allowed_spread(rounding, n_components, width, rho, bits)
    variance = _CALIBRATED_VARIANCE / max(float(weight), tau**2 / 10)
    n_batches = sizes.n_batches or max(1, math.ceil(2 * variance / (spread**2 * batch_size)))
    return BatchPlan(
        algorithm="svm",
        mode="practical",
        guarantee=guarantee,
        n_inputs=n_inputs,
        batch_size=batch_size,
        n_batches=n_batches,
        regularization=weight,
        length_cap=math.inf if float(weight) == 0 else max(1.0, tau / math.sqrt(float(weight))),
        projection=projection,
        n_components=n_components,
        rounding=rounding,
        grid_width=width_text(sizes, width),
        basis="calibrated on synthetic populations, not proved",
        by_hand=tuple(sizes.given()),
        unit_mean=bool(sizes.unit_mean),
        noise=noise,
        basis_map=sizes.basis,
        hint_bits=bits,
    )
