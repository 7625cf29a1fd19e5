"""The private learner of [LNUZ20] made replicable by [BGH23]: [KKLVZ24, Prop. 1.5].

The paper composes two results, and prints neither algorithm::

    A private learner [LNUZ20, Thm. 6]: project to k = O~(tau^-2) components, take a net H of R^k,
    and draw b in H with probability proportional to exp(-alpha/2 * score), where the score counts
    rows whose projected margin is too small. It is (alpha, 0)-private, with error at most eps
    from O~(alpha^-1 eps^-1 tau^-2) rows.

    A reduction [BGH23, Cor. 3.18]: an n-row private algorithm with finitely many outputs becomes a
    rho-replicable one with O(rho^-2 n^2) rows: run it with a privacy parameter of about
    rho / sqrt(rows), and let both labs draw from their own law with *common* noise.

*Proposition 1.5 there.* ``O~(eps^-2 tau^-4 rho^-2)`` rows, in doubly exponential time.

Here the private learner is the exponential mechanism with weights ``exp(-L * error rate)``, L the
*inverse temperature*, on the whole sphere: no net. Candidates are an endless published stream of
uniform directions, the i-th with the noise ``G_i = -ln T_i``, T_i the i-th point of a Poisson
process. A lab takes the largest ``G_i - L * error rate``. Error rates are not negative and the G_i
fall, so it may stop as soon as G_i is below the best score: the choice has exactly the Gibbs law
with a uniform prior [MTM14]. Two labs with laws P and Q agree with probability at least
``(1 - TV) / (1 + TV)`` [DMS24]. **The published seed makes the choice replicable, not private**:
who knows the seed knows the noise.

What is proved here, with explicit constants
--------------------------------------------
One of n rows moves a log-weight by at most ``l = L / n``. Let K be ``ln(1 / share)``, with the
share of directions that are wrong on at most eta of the population: without a projection those
within the angle arcsin(tau) of the promised normal, and eta = 0.

*All populations.* By Efron and Stein each probability P(h) has a variance of at most
``kappa^2 E P(h)^2`` over samples, ``kappa = sqrt(n) (e^(2l) - 1) / 2``. So ``2 E TV <= s = sqrt(2)
kappa / sqrt(1 - kappa^2)``, and the disagreement is at most ``s / (1 + s/2)``: about ``L sqrt(2 /
n)``, whatever the net. This is the reduction of [BGH23] without hidden terms: rows ``about 2 L^2 /
rho^2`` with ``L = (K + ln(1/delta)) / eps``, the printed eps^-2 tau^-4 rho^-2.

*Populations with the margin.* Jeffreys' divergence of two labs' laws is at most
``s^2 = 2 (e^l - 1) (K + L eta)`` on average, since ``E J = 2 L (E err_D - E err_S)``,
``E err_D <= e^l E err_S`` (docs/theory/proofs.md, 7), and ``L E err_S <= K + L eta``: the Gibbs law
minimises ``L E err_S + KL`` to the prior. The disagreement is at most ``s / (1 + s/2)`` plus the
failure of the projection: rows ``about 2 K (K + ln(1/delta)) / (rho^2 eps)``, one power of eps
better than printed, and with K in place of the logarithm of a net.

*Error.* Directions with an error above eps have an expected weight of at most
``exp(-n (1 - e^-l) (eps - eta e^l))``, relative to those of the share: so ``K + ln(1/delta)`` must
be at most the exponent.

Departures in mode="paper"
--------------------------
=================================== ==============================================================
as printed                          here
=================================== ==============================================================
``O~`` and logarithms               C1 tau^-2 l components, m = C2 eps^-1 tau^-2 l rows of the
                                    private learner, C3 m^2 / rho^2 rows in all,
                                    l = log(1 / (eps tau rho delta))
net and score of [LNUZ20]           the first directions of the stream, as many as the net of
                                    Algorithm 3 has (radius C4 tau/20); the score counts wrong rows
subsampling to amplify privacy      the mechanism runs on all rows with the privacy that the
                                    reduction needs: the largest L that keeps rho for all
                                    populations
correlated sampling by rejection,   a common Poisson process: never a smaller agreement [DMS24], one
doubly exponential time             pass
"any alpha, beta > 0"               alpha about rho / sqrt(n): the printed statement needs it
x of any length, no intercept       rows have length 1; a constant may be appended, and sizes are
                                    then those of margin tau / sqrt(2)
=================================== ==============================================================

Practical mode takes the best of the first 2^18 directions at most, and few inputs: in more than 16
hardly any of them is good, and a plan is refused. Shares of less than 2^-24 are planned, and their
numbers stand in the table; they are not searched for.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist
from typing import Literal

import numpy as np

from replearn.codes import (
    MAX_CANDIDATES,
    Bound,
    Coins,
    Fitted,
    Mode,
    Plan,
    Promise,
    Recipe,
    Sizes,
    common,
    decimal_down,
    decimal_up,
    least_number,
    log_cap,
    log_terms,
    rows_for,
)
from replearn.documents import decimal_text
from replearn.errors import ReplearnError, short
from replearn.exact import minus_logs
from replearn.halfspaces.estimates import Rivals
from replearn.halfspaces.net import (
    BY_HAND,
    MAX_RIVALS,
    Choice,
    Cover,
    Net,
    certified_covers,
    fit_net,
    net_bound,
    paper_cover,
    practical_cover,
)
from replearn.rows import Sample
from replearn.types import BlockMap, Ints, Vector

#: Candidates that can be searched: about one over the share of good ones.
MAX_FULL = 1 << 24

#: Candidates of one row of the stream "net/arrivals".
_ARRIVALS = 4096

#: Directions within this share of the margin are good; what is left is far above rounding.
_RADIUS_SHARE = 0.999

#: Practical: candidates and components that are looked at when the user sets no number.
_BUDGET, _COMPONENTS = 1 << 18, 16

CONSTANTS = {
    "C1": "components",
    "C2": "rows of the private learner",
    "C3": "rows of the reduction",
    "C4": "radius of the net",
}


# --- sizes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DPPlan(Plan):
    """Sizes of the mechanism; ``populations`` says for which the disagreement is bounded."""

    cover: Cover  # its ``log_size`` is K in certified mode, where there is no net
    inverse_temperature: str
    populations: Literal["margin", "all"] = "margin"

    @property
    def n_candidates(self) -> int:
        """Of the stream; certified mode has no end but that of a model file."""
        return MAX_CANDIDATES if self.mode == "certified" else self.cover.n_candidates


def sizes(promise: Promise, n_inputs: int, mode: Mode, given: Sizes) -> DPPlan:
    """Components, net, inverse temperature and rows."""
    # the reduction of paper mode is about all populations
    more = {} if mode == "paper" else {"populations": '"margin" or "all"'}
    given.check(mode, BY_HAND | more, CONSTANTS)
    populations = given.get("populations", "all" if mode == "paper" else "margin")
    if populations not in ("margin", "all"):
        raise ReplearnError(
            f'populations must be "margin" or "all", got {short(populations)}. "margin" needs '
            "fewer rows."
        )

    base = DPPlan(
        **common("dp", promise, n_inputs, mode, given),
        cover=Cover("none", n_inputs, "1", 0.0),
        inverse_temperature="1",
        populations=populations,
    )
    if mode == "certified":
        return min(_certified(base, given), key=lambda plan: plan.n_rows)

    if mode == "practical":
        cover = practical_cover(promise, n_inputs, given, _BUDGET, _COMPONENTS)
        plan = replace(base, cover=cover, inverse_temperature=_practical_heat(promise, cover))
        return replace(plan, n_rows=int(given.get("n_rows", rows_for(stability, plan))))

    private = given.constant("C2") * log_terms(promise) / (promise.max_error * promise.margin**2)
    n_rows = math.ceil(given.constant("C3") * private**2 / promise.max_disagreement**2)
    plan = replace(
        base, cover=paper_cover(promise, n_inputs, given), n_rows=int(given.get("n_rows", n_rows))
    )

    return replace(plan, inverse_temperature=_hottest(plan))


def _certified(base: DPPlan, given: Sizes) -> Iterator[DPPlan]:
    """For each cover: L from the error, rows from the disagreement, and once more for ``l > 0``."""
    promise = base.promise
    by_hand = {name: value for name, value in given.by_hand.items() if name != "populations"}
    if base.populations == "all":
        base = replace(base, origin=f"{base.origin}, the disagreement for all populations")

    for net in certified_covers(promise, base.n_inputs, Sizes(by_hand)):
        cover = _on_the_sphere(net, promise)
        log = cover.log_size + math.log(1 / (promise.failure_prob - cover.failure))
        plan = replace(base, cover=cover)
        step = 1e-9
        for _ in range(4):  # settles at once: l is far below 1
            # n (1 - e^-l) (eps - eta e^l) >= log, with n = L / l
            room = promise.max_error - cover.exceptions * math.exp(step)
            heat = decimal_up(log * step / (-math.expm1(-step) * room))
            plan = replace(plan, inverse_temperature=heat)
            plan = replace(plan, n_rows=rows_for(stability, plan))
            step = float(heat) / plan.n_rows

        yield plan


def _on_the_sphere(net: Cover, promise: Promise) -> Cover:
    """The same projection without a net: K, and no failure but that of the projection."""
    if net.projection == "none":
        radius = decimal_down(_RADIUS_SHARE * promise.margin)
        log_share = log_cap(net.n_components, float(radius))
        return Cover("none", net.n_components, radius, -log_share, exceptions=0.0, failure=0.0)

    log_share = log_cap(net.n_components, float(net.radius))
    return replace(net, log_size=-log_share, failure=net.failure / 2)


def _practical_heat(promise: Promise, cover: Cover) -> str:
    """An inverse temperature for which the error is small enough on a population at its worst.

    The share of candidates with an error below p grows like ``p^(k-1)`` at the most, and then the
    error of the choice has a Gamma law of k - 1 degrees over the inverse temperature; its quantile
    is that of Wilson and Hilferty.
    """
    degrees = max(1, cover.n_components - 1)
    normal = NormalDist().inv_cdf(1 - promise.failure_prob)
    quantile = degrees * (1 - 1 / (9 * degrees) + normal / (3 * math.sqrt(degrees))) ** 3
    return decimal_text(quantile / promise.max_error)


def _hottest(plan: DPPlan) -> str:
    """The largest inverse temperature that keeps the disagreement with the plan's rows."""

    def keeps(heat: float) -> bool:
        tried = replace(plan, inverse_temperature=repr(heat))
        return stability(tried, plan.n_rows, None).proved <= plan.promise.max_disagreement

    # the colder, the less stable
    return decimal_down(least_number(lambda heat: not keeps(heat), start=plan.n_rows))


# --- stability ------------------------------------------------------------------------------------


def stability(plan: DPPlan, n_rows: int, spread: Rivals | None) -> Bound:
    """Bound of the disagreement: how far two labs' weights are from each other.

    Expected, before any row: calibrated. With a spread: a second lab's errors are normal around
    mine, jointly; counted is how often a rival's noisy score gets the largest. Tested in
    tests/theory/test_dp.py.
    """
    heat, cover = float(plan.inverse_temperature), plan.cover
    step = min(25.0, heat / max(1, n_rows))
    if plan.populations == "all":
        kappa = math.sqrt(n_rows) * math.expm1(2 * step) / 2
        distance, failure = math.inf, 0.0
        if kappa < 1:
            distance = math.sqrt(2) * kappa / math.sqrt(1 - kappa**2)
    else:
        squared = 2 * math.expm1(step) * (cover.log_size + heat * cover.exceptions)
        distance, failure = math.sqrt(squared), cover.failure

    # 2 TV <= distance, and correlated sampling differs with 2 TV / (1 + TV)
    proved = 1.0 if distance == math.inf else min(1.0, distance / (1 + distance / 2) + failure)
    margin = None if plan.populations == "all" else plan.promise.margin

    return net_bound(plan, n_rows, spread, proved, cover.n_components, margin)


# --- run ------------------------------------------------------------------------------------------


def run(sample: Sample, plan: DPPlan, coins: Coins, work: BlockMap = map) -> Fitted:
    """The largest score after common noise; reads the stream "net/arrivals"."""
    heat = float(plan.inverse_temperature)
    return fit_net(sample, plan, coins, work, MAX_FULL, partial(largest_score, plan, heat))


def arrivals(coins: Coins, n_candidates: int) -> Iterator[tuple[Ints, Vector]]:
    """Candidates and their noise ``-ln T_i``, block by block; T_i are points of a Poisson process.

    The points are sums of exponential draws, one after the other, so that a block has the same bits
    however many are read.
    """
    time = 0.0
    for row in range(-(-n_candidates // _ARRIVALS)):
        gaps = coins.exponentials("net/arrivals", _ARRIVALS, row)
        gaps[0] += time
        times = np.add.accumulate(gaps)
        time = float(times[-1])
        indices = np.arange(row * _ARRIVALS, min((row + 1) * _ARRIVALS, n_candidates))
        yield indices, minus_logs(times[: indices.size])


def largest_score(plan: DPPlan, heat: float, net: Net) -> Choice:
    """The candidate with the largest ``noise - heat * error rate``.

    An error rate is not negative and noise falls, so what comes after noise below the best score
    could not win. Errors are counted only as far as a candidate may still matter.
    """
    n, best, n_tested = net.n_points, -math.inf, 0
    # rivals: scores that move by four deviations, for errors that differ on a tenth of the rows
    reach = 4.0 * heat * math.sqrt(2 * 0.1 / n)
    seen, seen_scores = [], []
    for indices, noise in arrivals(net.coins, plan.n_candidates):
        if noise[0] < best - reach:
            break

        room = (noise - (best - reach)) * (n / heat) + 2
        limits = np.clip(room, -1, n).astype(np.int64)
        counts = net.counts(indices, limits)
        n_tested += indices.size

        # others were given up on the way: they cannot win
        inside = counts <= limits
        scores = noise[inside] - heat * (counts[inside] / n)
        seen.append(indices[inside])
        seen_scores.append(scores)
        best = max(best, float(scores.max(initial=-math.inf)))

    every, scores = np.concatenate(seen), np.concatenate(seen_scores)
    chosen = every[int(np.argmax(scores))]
    near = np.flatnonzero((scores >= best - reach) & (every != chosen))
    nearest = near[np.argsort(-scores[near], kind="stable")[:MAX_RIVALS]]

    # rivals whose score may get above the chosen one's
    moves = net.moves(np.append(every[nearest], chosen))
    moves = heat * (moves[:, -1:] - moves[:, :-1])
    spread = Rivals(n_parts=len(moves), slacks=best - scores[nearest], moves=moves)
    return Choice(int(chosen), n_tested, True, spread)


_TITLE = "LNUZ20 by DP reduction BGH+23"
DP = Recipe(
    "dp",
    _TITLE,
    "eps^-2 tau^-4 rho^-2",
    sizes,
    run,
    stability,
    certified_rate="eps^-1 tau^-4 rho^-2",
    source="Proposition 1.5",
)
