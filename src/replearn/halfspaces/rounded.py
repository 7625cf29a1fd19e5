"""What is proved, and what is expected, when two labs round the means of their batches.

Both labs average B batch vectors, independent and of one law, none longer than R, with variance
``s^2 = E|w - E w|^2``. They project the mean z to k components and round these in cells of width w.

**Without a sketch** codes differ with probability at most ``c E|z - z'| / w``, as a mean over
seeds, with the constant c of `replearn.codes.cells.proved_flips`; and
``E|z - z'| <= sqrt(2 s^2 / B)``. So B grows like ``k / (w rho)^2``.

**Certified mode looks at its rows** (`seen_disagreement`). No better s^2 than the recipe's own
can be known beforehand, but a lab can see one: half of the squared distance of two batches has the
mean s^2 and is at most ``2 R^2``. Let U be the upper Chernoff bound of s^2 at the level
``f = min(rho, delta)``, from the B/2 pairs, and let a lab give a model only if
``c sqrt(2 U / B) / w <= rho``; else it says how many rows it needs.

*Theorem.* For every population, the probability that two labs both give a model, and different
ones, is at most rho.

*Proof.* Let s0 be the largest s with ``c sqrt(2 s^2 / B) / w <= rho``. If the population's s is at
most s0, labs that round their means differ with probability rho at most, whether they look or not.
If it is larger, a lab gives a model only if U is below s^2, which has probability f at most.

This is weaker than Definition 1.1, for which a refusal is a result like any other: one lab may
refuse where the other gives a model. For calm populations it is Definition 1.1 in full
(`results_differ`): if the variance is so small that both refusals together and the rounding have
probability rho at most. A plan asks for the rows with which that holds up to `CALM_VARIANCE`.
Above, the promise is that no two models differ.

So no rows are spent on looking, and nothing is lost for two chances to be misled. Where all batches
are alike, U is ``4 R^2 ln(1/f) / B``, so B grows like 1/rho and not like 1/rho^2. For the same
reason the proof of the error may use s0 in Bernstein's inequality: where s is larger, a lab gives a
model, good or bad, with probability delta at most.

**With a sketch of b >= 1 bits** (lines with bits) codes differ only if some component of
``A (z - z')`` is larger than ``a = w (1/2 - 2^-(b+1))``: the original's residual is at most
``w / 2^(b+1)``.

*Theorem.* Let A be Gaussian with k rows, or a Haar rotation (k = d). For every ``0 < q < 1``, with
``L = ln(2/q)``,

    ``P[the codes differ] <= q + k t(a / D)``,
    ``D = min( sqrt(4 s^2 L / B) + 4 R L / B,  sqrt(2 s^2 / B) + 2 R sqrt(L / B) )``,

where ``t(x) = 2 Q(x sqrt(k))`` for the Gaussian map, Q the normal tail, and
``t(x) = (1 - x^2)_+^((k-1)/2)`` for the rotation.

*Proof.* The vectors ``w_i - w'_i`` of B pairs of batches are independent, have mean 0, length at
most 2 R and mean square ``2 s^2``. Bernstein's inequality in Hilbert space [PS85; SZ07, Lemma 2]
bounds the length of their mean by the first number D, but with probability q. So does McDiarmid's
inequality by the second one: one batch moves ``|z - z'|`` by at most ``2 R / B``, and the mean of
it is at most ``sqrt(2 s^2 / B)``. A and the offsets are independent of all rows. Given the rows, a
component of ``A (z - z')`` is normal with standard deviation ``|z - z'| / sqrt(k)``, or is
``|z - z'|`` times a coordinate of a random unit vector, whose two tails are together at most
``(1 - x^2)^((k-1)/2)``. A union over the k components ends the proof.

An original that tests its model may refuse it, with probability `MAX_REFUSED` at most. So of models
that were published a replication differs with probability at most this bound over the rest.

So B = O(log^2(k / rho)) batches are enough, in place of O(k / (w rho)^2); with O(log log(k / rho))
bits, which allow wider cells at the same accuracy, O(log(k / rho)). The sketch makes the algorithm
replicable at the rate of plain learning. It is a secure sketch [DORS08]: one-way advice of ``b k``
bits about the first sample. It is not certificate replicability [DPVV23], whose certificate is
drawn before any sample. What is weaker than Definition 1.1 of the paper: somebody is first, and the
second lab's model depends on these bits.
Tested in tests/theory/test_sketched.py.
"""

import math
from dataclasses import dataclass, field

from replearn.codes import (
    Bound,
    CodeSpace,
    Plan,
    Spread,
    isotropic_flips,
    least_number,
    proved_flips,
    walls,
    width_for,
)
from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.exact import PAIR_UNIT
from replearn.halfspaces.estimates import MIN_GROUPS, MIN_ROWS, assumptions, share_beyond
from replearn.types import Codes, Matrix, Vector

#: A practical plan has this many batches at least: fewer show nothing of their own spread.
MIN_BATCHES = 10

#: One fit of all rows is made again without each of so many groups of rows: a jackknife.
N_GROUPS = 16

#: Certified plans without bits keep Definition 1.1 in full up to this variance of a batch vector.
#: `benchmarks/one_fit.py --batches` prints 0.0001 to 0.011 for 5 to 20 columns, of populations that
#: judge nothing. Labs look at theirs.
CALM_VARIANCE = 0.006

#: Certified, with bits: how often an original may refuse its own model. Promises are about models
#: that were published, so they pay for it.
MAX_REFUSED = 0.25

#: With a sketch, few rows are cut into this many batches, whose spread sets the widths.
ENOUGH_BATCHES = 32

#: An original's cells add at least this share of the noise that max_error allows: finer ones would
#: cost agreement, and gain nothing.
_FINEST = 1 / 64


@dataclass(frozen=True, kw_only=True)
class BatchPlan(Plan):
    """Sizes of Algorithms 1 and 2. Reals that define the code space are decimal text."""

    # ``n_batches`` is what the promise needs; a fit uses what its rows allow
    batch_size: int
    n_batches: int = 0
    # an original with few rows cuts them into batches of this many rows at least
    shortest_batch: int = 16
    # Algorithm 1, practical mode: one fit of all rows in place of batches, whose size is then 1
    one_fit: bool = False
    # weight lambda of ``lambda/2 |u|^2`` beside the mean hinge loss; "0" is the hard margin
    regularization: str
    length_cap: float = 1.0  # longer batch vectors are shortened to this length
    # the code space. An empty width is chosen from the spread of an original.
    projection: str
    n_components: int
    rounding: str
    grid_width: str
    # practical mode: standard deviation of what projection and rounding add to the score of a row
    # of length 1
    noise: float = 0.0
    calibrated: float = 1.0  # practical mode: expected variance of a batch vector
    # Algorithm 1: duality gap at which a solver may stop, absolute and relative
    abs_gap: float = 0.0
    rel_gap: float = 3e-4
    # Algorithm 1: average unit normals, as printed, instead of ``margin * u``
    unit_vectors: bool = False
    # and the share of the largest margin that a hard margin is certified to have
    margin_share: float = 0.5
    # Algorithm 2: runs of a batch, rows on which the best of them is found, and whether that one is
    # scaled to length 1
    n_repetitions: int = 1
    n_validation: int = 0
    normalize: bool = False
    sketch_bits: int = 0
    # certified, with bits: an original's last rows, on which its model is tested, and how many of
    # them it may get wrong
    n_held_out: int = 0
    n_allowed: int = 0
    # of a replication: what the original published
    sketch: Codes | None = field(default=None, compare=False)

    @property
    def exact_batches(self) -> bool:
        """Use ``n_batches`` and no more: as printed in the paper, or as set by hand."""
        return self.mode == "paper" or "n_batches" in self.by_hand

    @property
    def looks(self) -> bool:
        """Certified mode without bits bounds the variance by what its own batches show."""
        return self.mode == "certified" and not self.sketch_bits

    def space(self, width: str) -> CodeSpace:
        """The code space with cells of this width."""
        return CodeSpace(
            "rounded", self.n_inputs, self.projection, self.n_components, self.rounding, width,
            self.sketch_bits,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BatchSpread(Spread):
    """What the batches of one lab showed."""

    n_batches: int
    batch_size: int
    grid_width: str  # of the cells that were used
    place: Vector  # where the mean lies in its cell, in widths
    point: Vector  # the mean before it is projected
    # projected deviations of group means; their second moments over ``n_groups - 1`` estimate the
    # covariance of one batch vector; shape (n_groups, n_components)
    deviations: Matrix
    counts: dict[str, int]  # of pairs of batches, and of trouble


# --- the bound ----------------------------------------------------------------------------------


def rounded_bound(plan: BatchPlan, n_rows: int, spread: BatchSpread | None, prior: float) -> Bound:
    """How likely two labs of ``n_rows`` rows are to differ: the one place of this bound.

    ``prior`` is the recipe's own proved bound of the variance of a batch vector, whatever the
    population that keeps the promise. With a spread the variance may be bounded by what pairs of
    batches showed, at confidence ``1 - failure_prob / 2``. The expected number is then an estimate
    under this seed: given my mean, a second lab's is normal around it with twice the variance of a
    mean, which groups of batches show.
    """
    size, width = plan.batch_size, plan.grid_width
    if spread is not None:
        size, width = spread.batch_size, spread.grid_width
    n_batches = max(1, n_rows // size)
    if plan.exact_batches and plan.n_batches:
        n_batches = min(n_batches, plan.n_batches)

    variance, confidence = min(prior, plan.length_cap**2), 1.0
    if spread is not None and not plan.looks:
        failure = plan.promise.failure_prob / 2
        seen = largest_variance(spread.counts, plan.length_cap, failure)
        if seen < variance:
            variance, confidence = seen, 1 - failure

    proved = _proved(plan, variance, n_batches, width)
    if plan.looks and proved > plan.promise.max_disagreement:
        if spread is None:
            tested = results_differ(plan, CALM_VARIANCE, n_batches)
        else:
            tested = seen_disagreement(plan, spread.counts, n_batches)
        # a lab that passes has the promise, neither more nor less
        proved = min(proved, max(tested, plan.promise.max_disagreement))

    return Bound(
        proved=proved,
        confidence=confidence,
        expected=_calibrated(plan, n_batches)
        if spread is None
        else _estimated(plan, spread, n_batches),
        assumes=assumptions(plan.promise.margin if plan.mode == "certified" else None, spread),
    )


def _proved(plan: BatchPlan, variance: float, n_batches: int, width: str) -> float:
    """Upper bound over seeds; 1 says nothing."""
    if not width or plan.one_fit:  # the rows will choose it; nothing is proved of one fit
        return 1.0

    if not plan.sketch_bits:
        flips = proved_flips(plan.projection, plan.rounding, plan.n_components)
        return min(1.0, flips * math.sqrt(2 * variance / n_batches) / float(width))

    if plan.projection not in ("gaussian", "rotation") or plan.mode == "practical":
        return 1.0  # a width that the rows chose is not independent of them

    reach = float(width) * (0.5 - 2.0 ** -(plan.sketch_bits + 1))
    best = 1.0
    for exponent in range(1, 60):  # of q, on a grid: any is right
        q = plan.promise.max_disagreement * 2.0 ** (1 - exponent / 2)
        if q < 1:
            distance = far_distance(variance, plan.length_cap, n_batches, q)
            tail = component_tail(plan.projection, plan.n_components, reach / distance)
            best = min(best, q + plan.n_components * tail)

    # of models that were published: an original may refuse its own
    return min(1.0, best / (1 - MAX_REFUSED))


def seen_disagreement(plan: BatchPlan, counts: dict[str, int], n_batches: int) -> float:
    """What a certified lab compares with max_disagreement, from the pairs that it saw."""
    level = min(plan.promise.max_disagreement, plan.promise.failure_prob)
    seen = largest_variance(counts, plan.length_cap, level)
    if not math.isfinite(seen):
        return 1.0

    return _proved(plan, seen, n_batches, plan.grid_width)


def rows_that_pass(plan: BatchPlan, spread: BatchSpread) -> int:
    """Rows with which labs of this population would seldom be refused, if batches go on as here."""
    mean = spread.counts["pair_sum"] * PAIR_UNIT / 2 / max(1, spread.counts["pairs"])
    n_batches = max(4, spread.n_batches)

    # in steps of a sixteenth: it is advice, not a promise
    while results_differ(plan, mean, n_batches) > plan.promise.max_disagreement:
        n_batches += max(1, n_batches // 16)

    return n_batches * spread.batch_size


def rows_that_agree(plan: BatchPlan, spread: BatchSpread) -> int:
    """Rows with which labs of this population would keep max_disagreement: estimated, over seeds.

    Distances of means fall like one over the root of the rows, or faster. 0: groups are too few, or
    a width that an original published decides.
    """
    n_groups = len(spread.deviations)
    if n_groups < MIN_GROUPS or plan.sketch_bits:
        return 0

    variance = float((spread.deviations**2).sum()) / (n_groups - 1) / spread.n_batches
    flips = isotropic_flips(plan.rounding, plan.n_components)
    differ = flips * math.sqrt(2 * variance) / float(spread.grid_width)
    times = (differ / plan.promise.max_disagreement) ** 2

    return math.ceil(times * spread.n_batches * spread.batch_size)


def variance_allowed(plan: BatchPlan, n_batches: int) -> float:
    """The variance ``s0^2`` up to which labs that round their means keep the promise."""
    flips = proved_flips(plan.projection, plan.rounding, plan.n_components)
    return n_batches / 2 * (plan.promise.max_disagreement * float(plan.grid_width) / flips) ** 2


def far_distance(variance: float, longest: float, n_batches: int, q: float) -> float:
    """``|z - z'|`` of two labs is larger with probability q at most; see the module."""
    # both hold, so the smaller one counts
    log = math.log(2 / q)
    bernstein = math.sqrt(4 * variance * log / n_batches) + 4 * longest * log / n_batches
    mcdiarmid = math.sqrt(2 * variance / n_batches) + 2 * longest * math.sqrt(log / n_batches)
    return min(bernstein, mcdiarmid)


def component_tail(projection: str, n_components: int, x: float) -> float:
    """``P[|component| > x |difference|]``, at most, after a Gaussian map or a Haar rotation."""
    if projection == "gaussian":
        return math.erfc(x * math.sqrt(n_components / 2))

    # no component is longer than its vector
    if x >= 1:
        return 0.0

    return math.exp((n_components - 1) / 2 * math.log1p(-x * x))


def _calibrated(plan: BatchPlan, n_batches: int) -> float:
    """What calibration expects, over seeds, before any row is seen."""
    if plan.one_fit:
        if n_batches < one_fit_rows(plan):
            return 1.0

        variance, degrees = one_fit_variance(plan, n_batches), N_GROUPS - 1
    else:
        if n_batches < MIN_BATCHES and plan.mode == "practical" and not plan.exact_batches:
            return 1.0

        variance = plan.calibrated / n_batches
        degrees = max(1, min((n_batches + 1) // 2, 64) - 1)  # pairs of batches, 64 at most

    distance = math.sqrt(2 * variance)
    if not plan.sketch_bits:
        flips = isotropic_flips(plan.rounding, plan.n_components)
        return min(1.0, flips * distance / float(plan.grid_width))

    # an original's width keeps the promise; the question is whether its cells are fine enough
    needed = distance / math.sqrt(plan.n_components) * _student_width(plan, degrees)
    fine = needed / 2**plan.sketch_bits <= math.sqrt(12) * plan.noise

    return plan.promise.max_disagreement if fine else 1.0


def one_fit_rows(plan: BatchPlan) -> int:
    """Rows that one fit needs to learn at all: by the margin or by the inputs, what is less."""
    inputs = min(plan.n_inputs, plan.promise.margin**-2)
    return max(3 * MIN_ROWS, math.ceil(inputs / (2 * plan.promise.max_error)))


def one_fit_variance(plan: BatchPlan, n_rows: int) -> float:
    """Calibrated variance of ``margin * u`` of one fit of all rows, at most.

    For margins that begin with a jump at tau, with a density of at least ``1/(3 tau)``, and two
    sides of the plane that are alike. A nearly hard margin is pinned by the rows next to it: the
    variance falls like ``1 / n^2``, until the ridge smooths and it falls like ``1 / n``.
    `benchmarks/one_fit.py` has the populations that chose the constants; others judge them.
    """
    tau, d, n = plan.promise.margin, plan.n_inputs, n_rows
    ridge = float(plan.regularization) / tau**2
    # inputs matter as far as rows near the margin outweigh the ridge
    signal = d * tau**2 / (1 + d * tau**2 * math.sqrt(1.5 * ridge))

    pinned = 16 * signal**2 * (1 + 3 / d) * (1 - tau**2)
    sparse = 2.6 * signal / (1 + signal) ** 2  # margins spread far beyond a small promise
    smoothed = 1 + n * math.sqrt(ridge / 5e-6) / (3000 * d)

    return min(1.0, max(pinned, sparse) * smoothed * d / (n * tau) ** 2)


def _estimated(plan: BatchPlan, spread: BatchSpread, n_batches: int) -> float | None:
    """Share of draws under which a second lab leaves the cell, under this seed."""
    n_groups = len(spread.deviations)
    if n_groups < MIN_GROUPS:
        return None

    scale = math.sqrt(2 / (n_batches * (n_groups - 1))) / float(spread.grid_width)
    slacks, moves = walls(plan.rounding, spread.place, spread.deviations * scale)

    return share_beyond(slacks, moves) if slacks.size else 0.0


def largest_variance(counts: dict[str, int], length_cap: float, failure: float) -> float:
    """Upper confidence bound of the variance of a batch vector, from disjoint pairs of batches.

    Half of a squared distance has the variance as its mean and is between 0 and ``m``, twice the
    squared cap. Chernoff [Hoeffding63, Thm. 1]: n of them have a mean of at most ``m p`` with
    probability at most ``exp(-n kl(p, q))`` if their expectation is ``m q > m p``, kl the
    divergence of two coins. So q is below the number at which that is the failure. inf: nothing is
    known.
    """
    from scipy.optimize import brentq

    n = counts["pairs"]
    if n < 2 or not math.isfinite(length_cap):
        return math.inf

    most = 2 * length_cap**2
    p = min(1.0, counts["pair_sum"] * PAIR_UNIT / 2 / n / most)
    allowed = math.log(1 / failure) / n

    def excess(q: float) -> float:
        return _divergence(p, q) - allowed

    highest = 1 - 1e-12
    if p >= highest or excess(highest) <= 0:
        return most

    return most * float(brentq(excess, max(p, 1e-300), highest, xtol=1e-15))


def _divergence(p: float, q: float) -> float:
    """Of two coins that fall heads with these probabilities."""
    heads = tails = 0.0
    if p > 0:
        heads = p * math.log(p / q)
    if p < 1:
        tails = (1 - p) * (math.log1p(-p) - math.log1p(-q))
    return heads + tails


def results_differ(plan: BatchPlan, variance: float, n_batches: int) -> float:
    """Definition 1.1 of labs that look, at most, for populations up to this variance.

    Two labs have different results if they round to different codes, or if one of them gives a
    model and the other none. The first has probability ``c sqrt(2 s^2 / B) / w`` at most, the
    second twice that of a refusal: by Chernoff's inequality ``exp(-n kl(t, s^2 / m))``, where a
    mean of ``m t`` of the n pairs is the largest that passes.
    """
    n, most = n_batches // 2, 2 * plan.length_cap**2
    passes, share = _passing_share(plan, n_batches), variance / most
    if share >= passes:
        return 1.0

    refusals = 2 * math.exp(-n * _divergence(passes, share))
    return min(1.0, _proved(plan, variance, n_batches, plan.grid_width) + refusals)


def _passing_share(plan: BatchPlan, n_batches: int) -> float:
    """The largest mean of pairs, in its largest values, that passes `seen_disagreement`."""
    from scipy.optimize import brentq

    n, most = n_batches // 2, 2 * plan.length_cap**2
    largest = min(1 - 1e-12, variance_allowed(plan, n_batches) / most)
    level = min(plan.promise.max_disagreement, plan.promise.failure_prob)
    allowed = math.log(1 / level) / max(n, 1)
    if n < 2 or _divergence(0.0, largest) <= allowed:
        return 0.0  # not even equal batches pass

    return float(brentq(lambda p: _divergence(p, largest) - allowed, 0.0, largest))


def calm_variance(plan: BatchPlan, n_batches: int) -> float:
    """Variance up to which labs that look keep Definition 1.1 in full."""
    rho = plan.promise.max_disagreement
    return least_number(lambda variance: results_differ(plan, variance, n_batches) > rho)


# --- widths of an original ------------------------------------------------------------------------


def sketched_width(plan: BatchPlan, deviations: Matrix, n_batches: int) -> str:
    """Width of an original's cells in practical mode, from its own spread.

    The largest standard deviation of a component, times what Student's law needs: groups are few,
    and a covariance of low rank leaves components unequal and dependent, which a union covers.
    Wide cells are nearly free with three bits, so there is a least width: where few different rows
    pin the margin, groups hardly differ, and a row that is missing moves a mean by far more than
    they show.
    """
    n_groups = len(deviations)
    if n_groups < 2:
        raise ReplearnError(
            "a sketch needs rows that show their spread: 32, or 3 batches. Here are fewer. Give "
            "more rows."
        )

    # of the distance of two labs, which has twice the variance of a mean
    variances = (deviations**2).sum(axis=0) * (2 / (n_batches * (n_groups - 1)))
    width = 1.005 * _student_width(plan, n_groups - 1) * math.sqrt(float(variances.max()))
    least = _FINEST * math.sqrt(12) * plan.noise * 2**plan.sketch_bits

    return decimal_text(max(width, least))


def _student_width(plan: BatchPlan, degrees: int) -> float:
    """Width over standard deviation at which all components agree, by a union of tails."""
    chance = plan.promise.max_disagreement / plan.n_components
    return width_for(chance, plan.sketch_bits, degrees)
