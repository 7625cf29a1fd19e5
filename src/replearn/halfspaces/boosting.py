"""Boosting of rounded means [ILPS22], with boxes or with foam: two lines of Table 1.

[KKLVZ24] prints the two rates and no algorithm. The algorithm, with tau the margin, eps the error,
rho the disagreement, gamma = tau/4 the advantage of a weak hypothesis, theta = gamma/(2 + gamma)::

    1  mu(x, y) <- 1 for all rows; T <- O(1 / (eps gamma^2))
    2  for t = 1, ..., T:
    3      S <- fresh rows; keep each with probability mu(x, y)        (rejection sampling)
    4      z <- mean of y x / |x| over the kept rows
    5      w_t <- z rounded to boxes, or to foam [KORW12]              (shared)
    6      h_t(x) <- <x / |x|, w_t / |w_t|>
    7      N(x, y) <- sum over s <= t of (y h_s(x) - theta)
    8      mu(x, y) <- 1 if N(x, y) <= 0, else (1 - gamma)^(N / 2)     (SmoothBoost [Servedio03])
    9      v <- replicable mean of mu over fresh rows                  (shared)
    10     if v is small: stop
    11 return sign(sum over t of h_t)

The sum of linear hypotheses is linear: the model is one halfspace, "Proper: No" notwithstanding.

*Rates of Table 1*, up to an exponent of 1.01: ``d eps^-3 tau^-8 rho^-2`` with foam, in time 2^d;
``d^3 eps^-4 tau^-10 rho^-2`` with boxes.

What is proved here, with explicit constants
--------------------------------------------
1. *Weak learner.* ``v = E[y x]`` is at least tau long on every re-weighted population. Cells of
   side ``1.2 tau / sqrt(d)`` move it by at most 0.6 tau, sampling by 0.2 tau, so ``E[y h] >=
   tau / 2``.
2. *Rounds.* SmoothBoost's mean weight is below kappa = eps/3 after at most ``T = 2 / (kappa gamma^2
   sqrt(1 - gamma))`` rounds. Rows that the vote gets wrong have weight 1, so the mean weight
   bounds the error.
3. *Test* (lines 9, 10). The mean p of m weights in [0, 1] satisfies ``E (sqrt(p^) - sqrt(p))^2 <=
   1/m``, whatever p. A shared wall, uniform between ``sqrt(low)`` and ``sqrt(high)``, therefore
   falls between two labs with probability at most ``sqrt(2/m) / (sqrt(high) - sqrt(low))``.
4. *Rounding.* Kept rows m give ``E |z - z'|^2 <= 2/m``; codes differ with probability at most ``c
   sqrt(2/m) / side``, c = 2 pi (foam, any direction) or sqrt(d) (boxes).
5. *Sampler.* While p >= kappa, half of kappa times the fresh rows are kept, but with probability
   ``exp(-kappa n / 8)``.

`stability` adds up 3 to 5 over T rounds. Rows: ``d eps^-4 tau^-8 rho^-2`` (foam) and ``d^2 eps^-4
tau^-8 rho^-2`` (boxes), and ``eps^-4 tau^-6 rho^-2`` for the tests.

Why the printed foam rate has eps^-3
------------------------------------
T roundings at rho/T each need ``d (T / (tau rho))^2`` *kept* rows a round, so ``d T^3 / (tau
rho)^2 = d eps^-3 tau^-8 rho^-2`` in all: the printed rate. But of fresh rows only a share is kept,
which may be eps/3 in every round: a further 1/eps. The printed rate of boxes, with ``d^3 / (tau^2
rho')^2`` kept rows, does contain it. And T tests at rho/T each, by Hoeffding's inequality, need
``T^3 / (eps rho)^2 = eps^-5 tau^-6 rho^-2`` rows, which dominate for eps < tau / sqrt(d). The
printed rates have room for T tests at rho each only. A formula with both terms scales between
eps^-4 and eps^-5. Mode "paper" takes the
printed accounting and scales as printed. Mode "certified" has all terms, with tests by point 3:
eps^-4 in place of eps^-5. No accounting of these rounds that we know of proves eps^-3.

Departures in mode="paper"
--------------------------
==== ====================================== ====================================================
line as in [ILPS22]                         here
==== ====================================== ====================================================
1    constants of T                         C1 / (eps tau^2)
3    rows of a round                        as the printed rates imply: C2 d / (tau r)^2 (foam), C2
                                            d^3 / (tau^2 r)^2 / eps (boxes), r = rho / (6 T)
3    the first m kept rows                  all kept rows; the coins of the sampler are shared,
                                            which changes no law: rows are independent of them
3    too few rows are kept: stop            no row is kept: stop
5    side of a cell                         C3 tau / sqrt(d) (foam), C3 tau^2 / d (boxes)
5    a droplet is labelled by an integer    by its proposal and its cube: labels differ more often,
                                            within the same bound, and are twice as accurate
8    gamma = tau/4                          C5 tau/4
9    rSTAT on fresh rows                    C4 / (eps rho)^2 rows; a wall uniform on the scale of
                                            roots (point 3) in place of a grid of midpoints
10   the mean is below 2 eps/3              below a wall between C6 eps/3 and C6 eps
11   majority of the h_t                    their sum, as above
all  no intercept                           ``fit_intercept=True`` appends a constant to x, and
                                            sizes are those of margin tau / sqrt(2)
==== ====================================== ====================================================

Practical mode takes all rows in every round, weighted, with faster weights and a test of the error
itself. If p_t is the probability that a fresh pair differs in round t after the likeliest codes so
far, one sample leaves them with probability at most p_t, so two differ with at most ``2 sum p_t``:
rows that are used again cost a factor of 2 and save a factor of T.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from replearn.codes import (
    FOAM_FLIPS,
    FOAM_VARIANCE,
    MAX_FOAM_INPUTS,
    MAX_ROUNDS,
    TYPICAL_FOAM_FLIPS,
    Bound,
    Coins,
    Fitted,
    Mode,
    Plan,
    Promise,
    Recipe,
    Sizes,
    Spread,
    VoteSpace,
    common,
    hypothesis,
    round_mean,
    rows_for,
    share_leaving,
)
from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.exact import UNIT_BITS, exp, log, products, weighted_sums
from replearn.halfspaces.batches import all_directions
from replearn.halfspaces.estimates import MIN_GROUPS, assumptions, calibrated, student_draws
from replearn.halfspaces.spaces import by_hand_text
from replearn.rows import Sample
from replearn.types import BlockMap, Codes, Ints, Matrix, Vector, stacked

Rounding = Literal["box", "foam"]
#: Fields of a plan that no mode chooses.
Fixed = dict[str, Any]

#: Practical: rounds at the most. Populations with and without decoy directions took 1 to 6.
_PRACTICAL_ROUNDS = 16
#: Practical: rounds to plan for when rows are counted. Easy populations take 1 or 2; those with a
#: loud direction that is right for most rows take 2 to 5.
_TYPICAL_ROUNDS = 5
#: Practical: length of the rounding error (root mean square), in margins. The mean of y x is at
#: least one margin long, so the weak hypothesis keeps an advantage of about 0.7 of it.
_ERROR_LENGTH = 1.0
#: The wall of a test lies between these shares of max_error.
_WALL = 1 / 3, 1.0
#: Certified: the wall stays this share of the root of max_error away from its ends.
_CLEARANCE = 0.02

#: Groups of a round's rows whose means are kept apart, so that their spread can be used.
_GROUPS = 32
#: Numbers of draws in memory at once.
_DRAWN = 1 << 21

BY_HAND = {
    "n_rounds": "rounds at the most",
    "grid_width": "side of a cell",
    "n_rows": "rows of a lab",
}
CONSTANTS = {
    "C1": "rounds",
    "C2": "rows of a round",
    "C3": "side of a cell",
    "C4": "rows of a test",
    "C5": "advantage of a weak hypothesis",
    "C6": "wall of a test",
}


# --- sizes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BoostPlan(Plan):
    """Sizes of boosting."""

    rounding: Rounding
    grid_width: str  # side of a box, or of the cube of a droplet
    n_rounds: int  # at the most
    # weights are ``min(1, exp(-decay N))``, ``N = sum of y h - rounds * threshold``
    threshold: str
    decay: str
    # a test ends the rounds when its mean is below a wall between these
    low: str
    high: str
    test_share: str  # share of a round's fresh rows for the test; "0": all rows in every round
    tests: Literal["density", "error"]  # what is tested: the mean weight, or the share of errors

    @property
    def roots(self) -> tuple[float, float]:
        """Of the ends between which the wall lies."""
        return math.sqrt(float(self.low)), math.sqrt(float(self.high))

    @property
    def fresh_rows(self) -> bool:
        """Whether each round has rows of its own."""
        return float(self.test_share) > 0

    def round_rows(self, n_rows: int) -> tuple[int, int]:
        """Rows of a round, for training and for the test."""
        if not self.fresh_rows:
            return n_rows, n_rows

        n_round = n_rows // self.n_rounds
        # at least one row is left to learn from
        n_testing = min(n_round - 1, math.ceil(float(self.test_share) * n_round))
        return n_round - n_testing, n_testing


def smooth_boost_rounds(advantage: float, density: float) -> int:
    """Rounds after which SmoothBoost's mean weight is below ``density`` [Servedio03].

    If each weak hypothesis has ``E[y h] >= 2 advantage`` on the re-weighted rows. Tested in
    tests/theory/test_boosting.py.
    """
    return math.ceil(2 / (density * advantage**2 * math.sqrt(1 - advantage)))


def servedio(advantage: float) -> tuple[str, str]:
    """Threshold and decay of SmoothBoost: weights ``(1 - advantage)^(N/2)``."""
    decay = -0.5 * float(log(np.array([1 - advantage]))[0])  # the same bits with every libm
    return repr(advantage / (2 + advantage)), repr(decay)


def sizes(
    rounding: Rounding, promise: Promise, n_inputs: int, mode: Mode, given: Sizes
) -> BoostPlan:
    """Rounds, cells, weights, tests and rows."""
    given.check(mode, BY_HAND, CONSTANTS)
    if mode == "certified":
        given.refuse_by_hand()
    fixed = common(rounding, promise, n_inputs, mode, given) | {"rounding": rounding}
    plan = {"practical": _practical, "certified": _certified, "paper": _paper}[mode](fixed, given)
    return replace(plan, n_rows=int(given.get("n_rows", plan.n_rows)))


def _plan(fixed: Fixed, given: Sizes, n_rounds: int, grid_width: float, **own: Any) -> BoostPlan:
    """Rounds and cells as they are planned, or as the user set them."""
    n_rounds = int(given.get("n_rounds", n_rounds))
    width = by_hand_text(given, "grid_width", grid_width)
    return BoostPlan(**fixed, n_rounds=n_rounds, grid_width=width, **own)


def _certified(fixed: Fixed, given: Sizes) -> BoostPlan:
    """Points 1 and 2 set rounds and cells; the disagreement, by bisection, sets the rows."""
    promise, n_inputs = fixed["promise"], fixed["n_inputs"]
    tau, eps, delta = promise.margin, promise.max_error, promise.failure_prob
    density = eps * _WALL[0]
    n_rounds = smooth_boost_rounds(tau / 4, density)
    threshold, decay = servedio(tau / 4)
    away = _CLEARANCE * math.sqrt(eps)
    plan = _plan(
        fixed,
        given,
        n_rounds=n_rounds,
        grid_width=0.995 * 1.2 * tau / math.sqrt(n_inputs),  # three digits stay below 1.2
        threshold=threshold,
        decay=decay,
        low=repr((math.sqrt(density) + away) ** 2),
        high=repr((math.sqrt(eps) - away) ** 2),
        test_share="0.5",
        tests="density",
    )
    # a / sqrt(training) + b / sqrt(testing) is least where testing : training = (b / a)^(2/3)
    kept = 2 * _flips_per_row(plan) / math.sqrt(density)
    low, high = plan.roots
    ratio = (1 / (high - low) / kept) ** (2 / 3)
    plan = replace(plan, test_share=decimal_text(ratio / (1 + ratio)))
    log_failure = math.log(3 * n_rounds / delta)
    # a third of the failure each: tests that are wrong, samplers that keep too few, and means that
    # are 0.2 tau off, |mean - v| <= 1/sqrt(m) + s but with exp(-m s^2 / 2)
    n_testing = log_failure / ((2 - _CLEARANCE) * away**2)
    n_kept = ((1 + math.sqrt(2 * log_failure)) / (0.2 * tau)) ** 2
    n_training = max(2 * n_kept, 8 * log_failure) / density
    share = float(plan.test_share)
    for_error = n_rounds * math.ceil(max(n_testing / share, n_training / (1 - share)) + 2)

    return replace(plan, n_rows=max(rows_for(stability, plan, n_rounds), for_error))


def _paper(fixed: Fixed, given: Sizes) -> BoostPlan:
    """Sizes that the printed rates imply, with their constants left open."""
    promise, d = fixed["promise"], fixed["n_inputs"]
    tau, eps = promise.margin, promise.max_error
    c1, c2, c3, c4, c5, c6 = (given.constant(symbol) for symbol in CONSTANTS)
    n_rounds = int(given.get("n_rounds", math.ceil(c1 / (eps * tau**2))))
    r = promise.max_disagreement / (6 * n_rounds)
    if fixed["rounding"] == "foam":
        n_training, width = math.ceil(c2 * d / (tau * r) ** 2), c3 * tau / math.sqrt(d)
    else:
        n_training, width = math.ceil(c2 * d**3 / (tau**2 * r) ** 2 / eps), c3 * tau**2 / d

    n_testing = math.ceil(c4 / (eps * promise.max_disagreement) ** 2)
    threshold, decay = servedio(min(c5 * tau / 4, 0.5))

    return _plan(
        fixed,
        given,
        n_rows=n_rounds * (n_training + n_testing),
        n_rounds=n_rounds,
        grid_width=width,
        threshold=threshold,
        decay=decay,
        low=repr(c6 * eps * _WALL[0]),
        high=repr(c6 * eps * _WALL[1]),
        test_share=repr(n_testing / (n_training + n_testing)),
        tests="density",
    )


def _practical(fixed: Fixed, given: Sizes) -> BoostPlan:
    """Few rounds: weights ``exp(-N / margin)`` and a test of the error itself.

    Servedio's pair would take hundreds of rounds. The error after a passed test does not depend
    on the weights; that a test is ever passed is not proved, so the rounds are limited.
    """
    tau, eps = fixed["promise"].margin, fixed["promise"].max_error
    # cells of both kinds move the mean by as much
    variance = FOAM_VARIANCE if fixed["rounding"] == "foam" else 1 / 12
    plan = _plan(
        fixed,
        given,
        n_rounds=_PRACTICAL_ROUNDS,
        grid_width=_ERROR_LENGTH * tau / math.sqrt(fixed["n_inputs"] * variance),
        threshold=decimal_text(tau / 2),
        decay=decimal_text(1 / tau),
        low=decimal_text(eps * _WALL[0]),
        high=decimal_text(eps * _WALL[1]),
        test_share="0",
        tests="error",
    )
    return replace(plan, n_rows=rows_for(stability, plan))


# --- stability ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BoostSpread(Spread):
    """For each round, how likely a second lab gets other codes, and ends its test otherwise."""

    leaving: tuple[float, ...]
    doubts: tuple[float, ...]


def _flips_per_row(plan: BoostPlan, typical: bool = False) -> float:
    """P[other codes] of a rounding times the root of its rows: ``c sqrt(2) / side``."""
    if plan.rounding == "foam":
        constant = TYPICAL_FOAM_FLIPS if typical else FOAM_FLIPS
    else:
        constant = math.sqrt((2 / math.pi if typical else 1.0) * plan.n_inputs)

    return constant * math.sqrt(2) / float(plan.grid_width)


def stability(plan: BoostPlan, n_rows: int, spread: BoostSpread | None) -> Bound:
    """Bound of the disagreement: a union over rounds, of roundings, tests and samplers.

    Expected, before any row: calibrated. With a spread: given my mean of a round, a second lab's is
    normal around it; counted is how often that leaves the cell. The rounds are taken as
    independent. Tested in tests/theory/test_boosting.py.
    """
    proved, expected = 1.0, None
    n_training, n_testing = plan.round_rows(n_rows)
    if plan.fresh_rows and n_testing > 0:
        density = plan.promise.max_error * _WALL[0]
        low, high = plan.roots
        rounding = _flips_per_row(plan) / math.sqrt(density * n_training / 2)
        test = math.sqrt(2 / n_testing) / (high - low)
        # too few rows are kept, or the rounds go on although the density is too small for that
        short = 2 * math.exp(-density * n_training / 8)
        lost = 2 * math.exp(-2 * n_testing * (low - math.sqrt(density)) ** 2)
        proved = min(1.0, plan.n_rounds * (rounding + test + short + lost))

    if spread is not None:
        same = math.prod(1 - p for p in (*spread.leaving, *spread.doubts))
        expected = 1 - same if spread.n_parts >= MIN_GROUPS else None
    elif plan.mode == "practical":
        flips = _TYPICAL_ROUNDS * _flips_per_row(plan, typical=True)
        expected = calibrated(flips / math.sqrt(max(1, n_rows)), n_rows)

    assumes = assumptions(plan.promise.margin, spread)
    return Bound(proved=proved, expected=expected, assumes=assumes)


# --- run ------------------------------------------------------------------------------------------


def run(sample: Sample, plan: BoostPlan, coins: Coins, work: BlockMap = map) -> Fitted:
    """Lines 1 to 10. Reads the streams "boost/box" or "boost/foam", "boost/coins", "boost/test"."""
    check_reach(plan)
    parts, n_zero, n_again = all_directions(sample, plan.n_inputs, lambda rows: rows.copy())
    rows = stacked(parts)
    vote = np.zeros(plan.n_inputs)
    codes: list[Codes] = []
    leaving: list[float] = []
    doubts: list[float] = []
    n_parts, passed = _GROUPS, False
    for t, (training, testing) in enumerate(_rounds(rows, plan)):
        weights = smooth_weights(products(training, vote), t, plan)
        if plan.fresh_rows:
            weights = (coins.uniforms("boost/coins", weights.size, row=t) < weights).astype(float)

        if not weights.any():  # the sampler kept nothing
            break

        mean, moves = weighted_mean(training, weights)
        width, n_parts = float(plan.grid_width), min(n_parts, len(moves))
        codes.append(round_mean(plan.rounding, mean / width, t, coins))
        leaving.append(_leaving(plan, mean / width, codes[-1], moves / width, t, coins))
        vote += hypothesis(plan.rounding, codes[-1], t, coins)
        passed, doubt = _test(products(testing, vote), t, plan, coins)
        doubts.append(doubt)
        if passed:
            break

    if not codes:
        raise ReplearnError(
            f"boosting needs rows for at least one round, got {rows.shape[0]:,} rows that are not "
            f"all zero for {plan.n_rounds:,} rounds. Get more rows, or lower n_rounds."
        )

    counts = {"zero_rows": n_zero, "rounds": len(codes), "below": int(passed)}
    spread = BoostSpread(
        n_parts=n_parts, n_repeated=n_again, leaving=tuple(leaving), doubts=tuple(doubts)
    )
    n_used = rows.shape[0]
    if plan.fresh_rows:
        n_used = len(codes) * sum(plan.round_rows(n_used))

    space = VoteSpace("vote", plan.n_inputs, plan.rounding, decimal_text(float(plan.grid_width), 6))
    return Fitted(np.concatenate(codes), spread, n_used, counts, space=space)


def check_reach(plan: BoostPlan) -> None:
    """Refuse what would not end: foam in many dimensions, and more rounds than a file holds."""
    if plan.rounding == "foam" and plan.n_inputs > MAX_FOAM_INPUTS:
        raise ReplearnError(
            f"foam takes about 2^d proposals in each round, so at most {MAX_FOAM_INPUTS} inputs, "
            f'got {plan.n_inputs:,}. Use rounding="box", or fewer features.'
        )

    if plan.n_rounds > MAX_ROUNDS:
        raise ReplearnError(
            f"boosting runs at most {MAX_ROUNDS:,} rounds, got {plan.n_rounds:,}. Raise margin or "
            'max_error, or use mode="practical".'
        )


def _rounds(rows: Any, plan: BoostPlan) -> Iterator[tuple[Any, Any]]:
    """Rows for training and for the test of each round."""
    n_training, n_testing = plan.round_rows(rows.shape[0])
    for t in range(plan.n_rounds):
        if not plan.fresh_rows:
            yield rows, rows
        elif n_training > 0 and n_testing > 0:
            start = t * (n_training + n_testing)
            middle = start + n_training
            yield rows[start:middle], rows[middle : middle + n_testing]


def smooth_weights(margins: Vector, n_rounds: int, plan: BoostPlan) -> Vector:
    """Line 8: ``min(1, exp(-decay N))`` with ``N = margin - n_rounds threshold``.

    At most 1, which makes the distribution that it is proportional to smooth: no row weighs more
    than 1 over the sum.
    """
    excess = np.maximum(margins - n_rounds * float(plan.threshold), 0.0)
    return exp(-np.minimum(float(plan.decay) * excess, 600.0))


def weighted_mean(rows: Any, weights: Vector) -> tuple[Vector, Matrix]:
    """Line 4: weighted mean of directions; and how it moves from this lab to another.

    A combination of the rows of the second by standard normals has the law of that movement.
    """
    n_groups = max(1, min(_GROUPS, weights.size))
    sums, masses = weighted_sums(rows, weights, n_groups)
    mass = float(masses.sum())
    unit = 2.0**-UNIT_BITS
    mean = sums.sum(axis=0) / mass * unit
    residuals = sums * unit - masses[:, None] * mean

    return mean, residuals * (math.sqrt(2 * n_groups / max(1, n_groups - 1)) / mass)


def _leaving(
    plan: BoostPlan, point: Vector, codes: Codes, moves: Matrix, t: int, coins: Coins
) -> float:
    """Share of draws of a second lab's mean that get other codes; 1 if there are too few groups."""
    if len(moves) < MIN_GROUPS:
        return 1.0

    draws = student_draws(len(moves))
    size = max(1, _DRAWN // point.size)
    parts = [draws[i : i + size] for i in range(0, len(draws), size)]
    shares = [
        share_leaving(plan.rounding, point, codes, part @ moves, t, coins) * len(part)
        for part in parts
    ]

    return sum(shares) / len(draws)


def _test(margins: Vector, t: int, plan: BoostPlan, coins: Coins) -> tuple[bool, float]:
    """Lines 9 and 10: whether the rounds end, and how likely a second lab's test differs."""
    if plan.tests == "density":
        values = smooth_weights(margins, t + 1, plan)
    else:
        values = (margins <= 0).astype(np.float64)

    whole: Ints = np.rint(np.ldexp(values, 30)).astype(np.int64)
    mean = int(whole.sum()) / (values.size * 2.0**30)
    # one wall for all rounds when they share their rows: the means are nearly sorted
    share = float(coins.uniforms("boost/test", 1, row=t if plan.fresh_rows else 0)[0])
    low, high = plan.roots
    wall = (low + share * (high - low)) ** 2
    variance = max(float(values.var()), 1 / values.size)  # of one value; never quite sure
    distance = abs(mean - wall) / math.sqrt(2 * variance / values.size)

    return mean < wall, 0.5 * math.erfc(distance / math.sqrt(2))


def _recipe(rounding: Rounding, title: str, printed: str, certified: str) -> Recipe:
    how = {"certified_rate": certified, "source": "ILPS22"}
    return Recipe(rounding, title, printed, partial(sizes, rounding), run, stability, **how)


BOX = _recipe(
    "box", "ILPS22 with box rounding", "d^3 eps^-4 tau^-10 rho^-2", "d^2 eps^-4 tau^-8 rho^-2"
)
FOAM = _recipe(
    "foam", "ILPS22 with foams rounding", "d eps^-3 tau^-8 rho^-2", "d eps^-4 tau^-8 rho^-2"
)
