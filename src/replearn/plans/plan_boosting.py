"""Sizes of smooth boosting with rounded means [ILPS22], in the three modes."""

import math
from dataclasses import dataclass

from replearn.errors import ReplearnError
from replearn.kernels.philox import natural_log
from replearn.plans.sizes import BoostPlan, BoostSizes, Guarantee, Sizes, check_mode, decimal
from replearn.plans.space_sizes import read_constants, width_text

ROUNDINGS = ("box", "foam")
OUTPUTS = ("halfspace", "majority")

#: Inputs that foam rounding takes: 2^24 proposals are about a second for each round.
MAX_FOAM_INPUTS = 24


#: What foam rounding does to a point, in units of the grid width (tests/theory/test_foam.py).
#: Variance of each coordinate's error: that of the density ``2 sin^2(pi x)`` around the centre of
#: its interval.
FOAM_VARIANCE = 1 / 12 - 1 / (2 * math.pi**2)

#: P[other code] per unit of distance: at most, in any direction [KORW12]; and for small isotropic
#: differences of many coordinates. Along an axis it is 4.
FOAM_FLIPS = 2 * math.pi
TYPICAL_FOAM_FLIPS = 2 * math.pi * math.sqrt(2 / math.pi)


def worst_flips(rounding: str, n_inputs: int) -> float:
    """P[other codes] per (distance / grid width), at most, in any direction."""
    return FOAM_FLIPS if rounding == "foam" else math.sqrt(n_inputs)


def plan_boosting(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str = "practical",
    sizes: Sizes | None = None,
    constants: dict[str, float] | None = None,
    *,
    rounding: str = "box",
    output: str = "halfspace",
    n_rounds: int | None = None,
    fresh_rows: bool | None = None,
) -> BoostPlan:
    """Sizes of boosting; ``sizes`` may fix ``grid_width`` and ``batch_size``, the rows of a round.

    Parameters
    ----------
    rounding : {"box", "foam"}
    output : {"halfspace", "majority"}
    n_rounds : int, optional
        Most rounds, by hand.
    fresh_rows : bool, optional
        Rows of its own for each round; default in all modes but practical.
    """
    sizes = sizes or Sizes()
    check_mode(mode, constants)
    if fresh_rows is False and mode != "practical":
        raise ReplearnError(
            f"{mode} mode takes fresh rows for each round, got fresh_rows=False. "
            'Leave it "auto", or use mode="practical".'
        )
    if sizes.batch_size is not None and mode == "practical" and not fresh_rows:
        raise ReplearnError(
            f"batch_size is the number of fresh rows of a round, got {sizes.batch_size} without "
            "fresh_rows=True. Leave it out: each round takes all rows."
        )
    check_dimension(rounding, n_inputs)
    asked = _Asked(guarantee, n_inputs, sizes, rounding, output, n_rounds, constants or {})
    if mode == "paper":
        return _paper(asked)
    if mode == "certified":
        return _certified(asked)
    return _practical(asked, bool(fresh_rows))


def check_dimension(rounding: str, n_inputs: int) -> None:
    """Refuse foam rounding in dimensions where it would not end."""
    if rounding == "foam" and n_inputs > MAX_FOAM_INPUTS:
        seconds = 60e-9 * 2.0**n_inputs
        raise ReplearnError(
            f"foam rounding takes about 2^d proposals in each round, so at most {MAX_FOAM_INPUTS} "
            f"inputs, got {n_inputs} (2^{n_inputs} is {2.0**n_inputs:.1e}, about {seconds:.1e} "
            'seconds a round). Use rounding="box", fewer features, or another classifier.'
        )


@dataclass(frozen=True)
class _Asked:
    guarantee: Guarantee
    n_inputs: int
    sizes: Sizes
    rounding: str
    output: str
    n_rounds: int | None
    constants: dict[str, float]

    def by_hand(self) -> tuple[str, ...]:
        names = tuple(self.sizes.given())
        return names if self.n_rounds is None else (*names, "n_rounds")

    def plan(
        self, mode: str, basis: str, width: float, boost: BoostSizes, round_rows: int
    ) -> BoostPlan:
        return BoostPlan(
            algorithm="boost",
            mode=mode,
            guarantee=self.guarantee,
            n_inputs=self.n_inputs,
            round_rows=round_rows,
            rounding=self.rounding,
            grid_width=width_text(self.sizes, width),
            basis=basis,
            by_hand=self.by_hand(),
            boost=boost,
        )


def smooth_boost_rounds(advantage: float, density: float) -> int:
    """Rounds after which SmoothBoost's mean weight is below ``density`` [Servedio03].

    ``2 / (density advantage^2 sqrt(1 - advantage))``, if each weak hypothesis has
    ``E[y h] >= 2 advantage`` on the re-weighted rows. Tested in tests/theory/test_boosting.py.
    """
    return math.ceil(2 / (density * advantage**2 * math.sqrt(1 - advantage)))


def servedio(advantage: float) -> tuple[str, str]:
    """Threshold and decay of SmoothBoost: weights ``(1 - advantage)^(N/2)``."""
    # natural_log: the same bits with every libm
    return repr(advantage / (2 + advantage)), repr(-0.5 * float(natural_log(1 - advantage)))


# --- certified mode -------------------------------------------------------------------------


def _certified(asked: _Asked) -> BoostPlan:
    """Sizes for which error and disagreement are proved.

    1. Weak learner. ``v = E[y x] >= margin`` in length on every re-weighted population. Cells of
       side ``1.2 margin / sqrt(d)`` move it by at most .6 margin, sampling by .2 margin, so
       ``E[y h] >= margin / 2``: advantage margin / 4.
    2. SmoothBoost then ends after T rounds with a mean weight below ``max_error / 3``.
    3. Disagreement, by union: .45 rho for the T roundings, ``c sqrt(2/m) / side`` each, with c =
       2 pi (foam) or sqrt(d) (box); .5 rho for the T tests (`replicable_mean`, tolerance
       max_error / 3); .05 rho for samplers that come back with too few rows (Chernoff).
    4. Failure, by union: a third of delta each for tests, samplers and sampling errors.
    """
    if asked.output != "halfspace":
        raise ReplearnError(
            'certified mode proves nothing about output="majority": the weak learner has an '
            'advantage for products, not for signs. Use output="halfspace", or mode="practical".'
        )
    if asked.by_hand():
        raise ReplearnError(
            f"certified mode derives {asked.by_hand()[0]}; it cannot be set by hand. "
            'Leave it "auto", or use mode="practical".'
        )
    tau, eps = asked.guarantee.margin, asked.guarantee.max_error
    rho, delta = asked.guarantee.max_disagreement, asked.guarantee.failure_prob
    density = eps / 3
    n_rounds = smooth_boost_rounds(tau / 4, density)
    width = float(decimal(1.2 * tau / math.sqrt(asked.n_inputs) * 0.995))  # on the safe side
    flips = worst_flips(asked.rounding, asked.n_inputs)
    failure = delta / (3 * n_rounds)
    # |mean - v| <= 1/sqrt(m) + t, except with probability exp(-m t^2 / 2)
    for_sampling = ((1 + math.sqrt(2 * math.log(1 / failure))) / (0.2 * tau)) ** 2
    n_kept = math.ceil(max(2 * (flips * n_rounds / (width * 0.45 * rho)) ** 2, for_sampling))
    too_few = min(failure, 0.025 * rho / n_rounds)
    n_training = math.ceil(max(2 * n_kept, 8 * math.log(1 / too_few)) / density)
    test_rho = 0.5 * rho / n_rounds
    test_failure = min(test_rho / 4, failure)
    threshold, decay = servedio(tau / 4)
    boost = BoostSizes(
        output=asked.output,
        n_rounds=n_rounds,
        threshold=threshold,
        decay=decay,
        fresh_rows=True,
        n_training=n_training,
        n_testing=mean_sample_size(eps / 3, test_rho, test_failure),
        n_kept=n_kept,
        statistic="density",
        test_width=repr(mean_width(eps / 3, test_rho, test_failure)),
    )
    basis = "proved for every distribution with this margin"
    rows = boost.n_training + boost.n_testing
    return asked.plan("certified", basis, width, boost, rows)


# --- a replicable mean ----------------------------------------------------------------------


def mean_sample_size(tolerance: float, max_disagreement: float, failure_prob: float) -> int:
    """Values that `replearn.replicable_mean` needs, by Hoeffding's inequality."""
    excess = max_disagreement - 2 * failure_prob
    return math.ceil(math.log(2 / failure_prob) * ((1 + excess) / (tolerance * excess)) ** 2 / 2)


def mean_width(tolerance: float, max_disagreement: float, failure_prob: float) -> float:
    """Width of the grid that the mean is rounded to."""
    return 2 * tolerance / (max_disagreement + 1 - 2 * failure_prob)


# --- paper mode -----------------------------------------------------------------------------

_CONSTANTS = {
    "C1": "rounds C1 / (max_error margin^2)",
    "C2": "rows kept, C2 d / (margin r)^2 foam, C2 d^3 / (margin^2 r)^2 box, r = rho / (6 rounds)",
    "C3": "grid width, C3 margin / sqrt(d) foam, C3 margin^2 / d box",
}


def _paper(asked: _Asked) -> BoostPlan:
    """Sizes as in the rows of [KKLVZ24, Table 1], with the constants left open.

    [ILPS22] has the structure: rho / (6 T) for a rounding, rho / (3 T) for a test, advantage
    margin / 4. Rows kept in a round are read off the exponents of Table 1 (sharpest form); for
    the box, width and rows belong together: ``sqrt(d / rows) / width = r``.
    """
    c1, c2, c3 = read_constants(asked.constants, "Boosting", _CONSTANTS)
    tau, eps, d = asked.guarantee.margin, asked.guarantee.max_error, asked.n_inputs
    rho = asked.guarantee.max_disagreement
    n_rounds = asked.n_rounds or math.ceil(c1 / (eps * tau**2))
    flips, test_rho = rho / (6 * n_rounds), rho / (3 * n_rounds)
    if asked.rounding == "foam":
        n_kept, width = math.ceil(c2 * d / (tau * flips) ** 2), c3 * tau / math.sqrt(d)
    else:
        n_kept, width = math.ceil(c2 * d**3 / (tau**2 * flips) ** 2), c3 * tau**2 / d
    n_training = math.ceil(2 * n_kept / (eps / 3))
    n_testing = mean_sample_size(eps / 3, test_rho, test_rho / 4)
    if asked.sizes.batch_size is not None:
        n_training = max(1, asked.sizes.batch_size * 3 // 4)
        n_testing = asked.sizes.batch_size - n_training
        n_kept = 0
    threshold, decay = servedio(tau / 4)
    boost = BoostSizes(
        output=asked.output,
        n_rounds=n_rounds,
        threshold=threshold,
        decay=decay,
        fresh_rows=True,
        n_training=n_training,
        n_testing=n_testing,
        n_kept=n_kept,
        statistic="density",
        test_width=repr(mean_width(eps / 3, test_rho, test_rho / 4)),
    )
    basis = f"as in Table 1, with constants {c1:g}, {c2:g}, {c3:g}"
    return asked.plan("paper", basis, width, boost, n_training + n_testing)


# --- practical mode -------------------------------------------------------------------------

#: Rounds at the most. Populations with and without decoy directions took 1 to 6.
_MAX_ROUNDS = 16

#: Length of the rounding error (root mean square), in margins. The mean of y x is at least one
#: margin long, so the weak hypothesis keeps an advantage of about .7 of it.
_ERROR_LENGTH = 1.0

#: Rounds to plan for when rows are counted.
_TYPICAL_ROUNDS = 2


def _practical(asked: _Asked, fresh_rows: bool) -> BoostPlan:
    """Few rounds: faster weights, and a test of the error itself.

    Weights ``exp(-N / margin)`` and threshold margin / 2 instead of Servedio's pair, which
    would take hundreds of rounds (measured on populations with a decoy: 2 to 6 rounds). The error
    after a passed test does not depend on the weights; that a test is ever passed is not proved,
    so the rounds are limited.
    """
    tau, eps = asked.guarantee.margin, asked.guarantee.max_error
    d, rho = asked.n_inputs, asked.guarantee.max_disagreement
    foam = asked.rounding == "foam"
    width = _ERROR_LENGTH * tau / math.sqrt(d * (FOAM_VARIANCE if foam else 1 / 12))
    n_rounds = asked.n_rounds or _MAX_ROUNDS
    scale = tau if asked.output == "halfspace" else 1.0  # of one round's y h
    batch_size = asked.sizes.batch_size or 0
    n_training = max(1, batch_size * 3 // 4) if batch_size else 0
    boost = BoostSizes(
        output=asked.output,
        n_rounds=n_rounds,
        threshold=decimal(tau / 2),
        decay=decimal(1 / scale),
        fresh_rows=fresh_rows,
        n_training=n_training,
        n_testing=batch_size - n_training,
        n_kept=0,
        statistic="error",
        test_width=decimal(2 * eps / 3),
    )
    flips = TYPICAL_FOAM_FLIPS if foam else math.sqrt(2 * d / math.pi)
    constant = flips / float(width_text(asked.sizes, width))
    needed = math.ceil(2 * (_TYPICAL_ROUNDS * constant / rho) ** 2)
    basis = "calibrated on synthetic populations, not proved"
    return asked.plan("practical", basis, width, boost, batch_size or needed)
