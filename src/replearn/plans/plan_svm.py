"""Sizes of Algorithm 1, in the three modes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

from replearn.errors import ReplearnError
from replearn.plans.block_hints import HintedCubes
from replearn.plans.sizes import Accuracy, BatchPlan, Guarantee, Sizes, check_mode, decimal
from replearn.plans.space_sizes import (
    check_components,
    paper_space,
    practical_space,
    provable_roundings,
    provable_space,
    provable_variance,
    read_constants,
    refuse_pilot_choices,
    require_at_least,
    weight_text,
)


def plan_svm(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str = "practical",
    sizes: Sizes | None = None,
    constants: dict[str, float] | None = None,
    n_outputs: int = 1,
) -> BatchPlan:
    """Sizes of Algorithm 1; ``constants`` are ``C1`` to ``C4`` of its lines 1 to 4.

    More than two classes have ``n_outputs`` halfspaces, one each, against the rest. They share the
    disagreement: each gets an equal part. In certified and paper mode they also share error and
    failure probability, so that the promises are kept by all together: where all halfspaces are
    right, the label is. That needs the margin for each class against the rest.
    """
    sizes = sizes or Sizes()
    if n_outputs > 1 and mode != "practical":
        return _plan_by_class(guarantee, n_inputs, mode, sizes, constants, n_outputs)
    check_mode(mode, constants)
    check_components(sizes, n_inputs)
    if mode == "practical":
        return _practical_svm(guarantee, n_inputs, sizes, n_outputs)
    refuse_pilot_choices(sizes, mode)
    if mode == "paper":
        return _paper_svm(guarantee, n_inputs, sizes, constants)
    return _certified_svm(guarantee, n_inputs, sizes)


def _plan_by_class(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str,
    sizes: Sizes,
    constants: dict[str, float] | None,
    n_outputs: int,
) -> BatchPlan:
    """Proved and printed sizes for several halfspaces: of one, with its part of the promise."""
    if sizes.hint_bits:
        raise ReplearnError(
            f"hint_bits must be 0 for {n_outputs} classes in mode={mode!r}, got {sizes.hint_bits}: "
            "a hint for all halfspaces together is not proved. Leave them out, or use "
            'mode="practical".'
        )
    part = Guarantee(
        guarantee.margin,
        guarantee.max_error / n_outputs,
        guarantee.max_disagreement / n_outputs,
        guarantee.failure_prob / n_outputs,
    )
    plan = plan_svm(part, n_inputs, mode, sizes, constants)
    return replace(plan, guarantee=guarantee, n_outputs=n_outputs)


# --- paper mode -----------------------------------------------------------------------------

_CONSTANTS = {"C1": "components", "C2": "batches", "C3": "batch size", "C4": "grid width"}


def _paper_svm(
    guarantee: Guarantee, n_inputs: int, sizes: Sizes, constants: dict[str, float] | None
) -> BatchPlan:
    """Lines 1 to 4 of Algorithm 1 [KKLVZ24, Sec. 3]."""
    c1, c2, c3, c4 = read_constants(constants, "Algorithm 1", _CONSTANTS)
    tau, eps = guarantee.margin, guarantee.max_error
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob
    log = math.log(1 / (eps * tau * rho * delta))
    return BatchPlan(
        algorithm="svm",
        batch_size=sizes.batch_size or math.ceil(c3 * log / (eps * tau**3)),
        n_batches=sizes.n_batches or math.ceil(c2 * log / (tau**4 * rho**2)),
        regularization=weight_text(sizes, 0.0),
        unit_vectors=True,
        # SVM(S, tau/2): half of the largest margin is at least tau/2 if the promise holds
        accuracy=Accuracy(margin_share=0.5, margin_floor=tau / 2, rel_gap=1e-3),
        basis="sizes as printed, with constants " + ", ".join(f"{c:g}" for c in (c1, c2, c3, c4)),
        **paper_space(guarantee, n_inputs, sizes, math.ceil(c1 * log / tau**2), c4 * tau / log),
    )


# --- certified mode -------------------------------------------------------------------------

#: Share of the hinge budget that is reserved for the solver's duality gap.
_GAP_SHARE = 0.05


@dataclass(frozen=True)
class _Split:
    """How a promise is divided among the steps of the proof; all in hundredths."""

    before: int  # share of the error that the mean vector may have before it is rounded
    slack: int  # what the mean vector may lose of the margin (s)
    shift: int  # what the mean of a lab's batches may lose of it (t)
    tail: int  # share of the failure probability after rounding that goes to the rounding
    box: int  # box constraint C of the batch SVMs

    def nearby(self, step: int) -> Iterator["_Split"]:
        """Splits in which one share is different."""
        for name, (low, high) in _RANGES.items():
            for sign in (-1, 1):
                value = getattr(self, name) + sign * step
                if low <= value <= high:
                    yield replace(self, **{name: value})
        for sign in (-step, step):  # what one step of the proof gives up, the other may lose
            slack, shift = self.slack + sign, self.shift - sign
            if _RANGES["slack"][0] <= slack and _RANGES["shift"][0] <= shift:
                yield replace(self, slack=slack, shift=shift)


#: A smaller C needs up to 9 % fewer rows, in batches so large that they take long to solve.
_RANGES = {"before": (5, 98), "slack": (2, 95), "shift": (1, 90), "tail": (5, 99), "box": (10, 200)}


#: Where searches start: few rows for many batches, or with hints.
_STARTS = (_Split(88, 32, 6, 98, 10), _Split(80, 40, 25, 90, 20))


@dataclass(frozen=True)
class _Proof:
    """What a certified plan has to prove, and where."""

    guarantee: Guarantee
    n_inputs: int
    projection: str
    rounding: str
    hint_bits: int

    def sizes(self, split: _Split) -> tuple[float, int, int, int, float]:
        """Rows, rows of a batch, batches, components and width; no end of rows without a margin."""
        promise, tau = self.guarantee, self.guarantee.margin
        left = 100 - split.slack - split.shift
        if left <= 0:
            return math.inf, 0, 0, 0, 0.0
        slack, shift, box = split.slack / 100, split.shift / 100 * tau, split.box / 100
        before = split.before / 100 * promise.max_error
        failure = (1 - split.before / 100) * promise.max_error * promise.failure_prob
        hinge = max(1.0, (1 + box) / (2 * box)) / tau**2
        batch_size = math.ceil(hinge / ((1 - _GAP_SHARE) * slack * before))
        n_components, width = provable_space(
            self.projection,
            self.rounding,
            left / 100 * tau,
            split.tail / 100 * failure,
            self.n_inputs,
        )
        variance = _certified_variance(box, tau, _GAP_SHARE * slack * before)
        log = math.log(1 / ((1 - split.tail / 100) * failure))
        for_bernstein = log / shift**2 * (2 * variance + 4 * shift / 3)
        for_flips = variance / provable_variance(
            self.projection,
            self.rounding,
            self.n_inputs,
            n_components,
            width,
            promise.max_disagreement,
            self.hint_bits,
        )
        n_batches = math.ceil(max(for_flips, for_bernstein))
        return float(n_batches) * batch_size, batch_size, n_batches, n_components, width

    def best(self) -> tuple[_Split, tuple[float, int, int, int, float]]:
        """The split with the fewest rows, of those that two searches find."""
        return min((self.found(start) for start in _STARTS), key=lambda option: option[1][0])

    def found(self, split: _Split) -> tuple[_Split, tuple[float, int, int, int, float]]:
        """The best of the neighbours of a split, and of theirs, until none is better."""
        found = self.sizes(split)
        for step in (16, 8, 4, 2, 1):
            better = True
            while better:
                better = False
                for other in split.nearby(step):
                    sizes = self.sizes(other)
                    if sizes[0] < found[0]:
                        split, found, better = other, sizes, True
                        break
        return split, found


def _certified_variance(box: float, margin: float, gap: float) -> float:
    """Variance of margin * u for a box constraint, at most, if the population has the margin.

    ``gap`` is how far a solution may be from the optimum.
    """
    return min(1.0, (math.sqrt(box) + margin * gap) ** 2)


def _certified_svm(guarantee: Guarantee, n_inputs: int, sizes: Sizes) -> BatchPlan:
    """Sizes for which error and disagreement are proved, for every distribution with the margin.

    Averages ``tau u_i`` of soft-margin SVMs with box constraint C. Notation: ``slack`` s, ``shift``
    t, error e1 before and e2 after rounding.

    1. Leave-one-out: ``E hinge <= h/(tau^2 (n+1))`` with ``h = max(1, (1 + C)/(2 C))``, so with
       n = h/(.95 s e1 tau^2) the mean vector has margin below ``(1-s) tau`` on at most e1 of the
       population (Jensen, Markov; 5 % of the budget pay for the duality gap,
       ``|u - u*| <= sqrt(2 gap)``).
    2. Efron-Stein: the variance of ``tau u`` is at most C, and at most 1.
    3. Bernstein: the average of B batches is within t of it on each point.
    4. Projection and rounding keep the sign of a margin ``m0 = (1-s) tau - t`` except with
       probability p (tests/theory/test_margin.py), grid and components chosen for that.
    5. B batches make the codes agree with probability 1 - rho (`provable_flip_constant`; with hint
       bits `HintedCubes`).

    e1, e2, s, t, C and the division of the failure probability are searched (docs/theory.md).
    """
    bits = sizes.hint_bits or 0
    projections = [sizes.projection] if sizes.projection else ["gaussian", "rotation"]
    proofs = [
        _Proof(guarantee, n_inputs, projection, rounding, 0)
        for rounding in provable_roundings(sizes, n_inputs)
        for projection in projections
        if projection == "rotation" or rounding in ("ak", "centre")
    ]
    found = []
    for proof in proofs:
        split, best = proof.best()
        if bits:
            hinted = replace(proof, hint_bits=bits)
            # the law of a rotation has one number of components: search again
            if proof.projection == "rotation":
                split, best = hinted.best()
            else:
                best = hinted.sizes(split)
        found.append((best, proof, split))
    best, proof, split = min(found, key=lambda option: option[0][0])
    _, batch_size, n_batches, n_components, width = best
    if bits:
        law = HintedCubes(proof.projection, n_components, bits)
        variance = _certified_variance(split.box / 100, guarantee.margin, _gap(guarantee, split))
        while (
            law.bound(2 * variance / n_batches / width**2, 2 / n_batches / width)
            > guarantee.max_disagreement
        ):
            n_batches = math.ceil(1.01 * n_batches)
    require_at_least(sizes, n_batches=n_batches, batch_size=batch_size)
    batch_size = sizes.batch_size or batch_size
    return BatchPlan(
        algorithm="svm",
        mode="certified",
        guarantee=guarantee,
        n_inputs=n_inputs,
        batch_size=batch_size,
        n_batches=sizes.n_batches or n_batches,
        regularization=repr(100 / (split.box * batch_size)),
        length_cap=1.0,
        projection=proof.projection,
        n_components=n_components,
        rounding=proof.rounding,
        grid_width=decimal(width),
        accuracy=Accuracy(abs_gap=_gap(guarantee, split) ** 2 / 2, rel_gap=0.0, max_sweeps=100_000),
        basis="proved for every distribution with this margin",
        by_hand=tuple(sizes.given()),
        hint_bits=bits,
    )


def _gap(guarantee: Guarantee, split: _Split) -> float:
    """How far a solution may be from the optimum."""
    return _GAP_SHARE * (split.slack / 100) * (split.before / 100) * guarantee.max_error


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


def _practical_svm(guarantee: Guarantee, n_inputs: int, sizes: Sizes, n_outputs: int) -> BatchPlan:
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
    common, spread = practical_space(
        guarantee, n_inputs, noise, sizes, expected_squared_length(tau), n_outputs
    )
    variance = _CALIBRATED_VARIANCE / max(float(weight), tau**2 / 10)
    n_batches = sizes.n_batches or max(1, math.ceil(2 * variance / (spread**2 * batch_size)))
    return BatchPlan(
        algorithm="svm",
        batch_size=batch_size,
        n_batches=n_batches,
        regularization=weight,
        length_cap=math.inf if float(weight) == 0 else max(1.0, tau / math.sqrt(float(weight))),
        **common,
    )
