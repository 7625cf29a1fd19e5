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
*inverse temperature*, and the common noise is Gumbel's: take the largest ``G_h - L * error rate``.
Two labs with laws P and Q then agree with probability at least ``(1 - TV) / (1 + TV)`` [DMS24]. No
law needs a normaliser, so the time is |H| times the rows. **The published seed makes the choice
replicable, not private**: who knows the seed knows the noise.

What is proved here, with explicit constants
--------------------------------------------
One of n rows moves a log-weight by at most ``l = L / n``.

*All populations.* By Efron and Stein each probability P(h) has a variance of at most
``kappa^2 E P(h)^2`` over samples, ``kappa = sqrt(n) (e^(2l) - 1) / 2``. So ``2 E TV <= s = sqrt(2)
kappa / sqrt(1 - kappa^2)``, and the disagreement is at most ``s / (1 + s/2)``: about ``L sqrt(2 /
n)``, whatever the net. This is the reduction of [BGH23] without hidden terms: rows ``about 2 L^2 /
rho^2`` with ``L = ln(|H|/delta) / eps``, the printed eps^-2 tau^-4 rho^-2.

*Populations with the margin.* If some candidate is wrong on at most eta, Jeffreys' divergence of
two labs' laws is at most ``s^2 = 2 e^l (e^l - 1) (ln|H| + L eta)`` on average, since ``E J = 2 L
(E err_D - E err_S)``, ``E err_D <= (e^l + (e^l - 1)^2) E err_S``, ``L E err_S <= ln|H| + L eta``.
The disagreement is at most ``s / (1 + s/2)`` plus the failure of the cover: rows ``about 2 ln|H|
ln(|H|/delta) / (rho^2 eps)``, one power of eps better than printed.

*Error.* A candidate with error above eps is drawn with probability at most
``exp(-n (1 - e^-l) (eps - eta e^l))``; union over H.

Departures in mode="paper"
--------------------------
=================================== ==============================================================
as printed                          here
=================================== ==============================================================
``O~`` and logarithms               C1 tau^-2 l components, m = C2 eps^-1 tau^-2 l rows of the
                                    private learner, C3 m^2 / rho^2 rows in all,
                                    l = log(1 / (eps tau rho delta))
net and score of [LNUZ20]           the net of Algorithm 3 (radius C4 tau/20); the score counts
                                    wrong rows, which is enough for a finite class
subsampling to amplify privacy      the mechanism runs on all rows with the privacy that the
                                    reduction needs: the largest L that keeps rho for all
                                    populations
correlated sampling by rejection,   common Gumbel noise: never a smaller agreement [DMS24], one pass
doubly exponential time
"any alpha, beta > 0"               alpha about rho / sqrt(n): the printed statement needs it
x of any length, no intercept       rows have length 1; a constant may be appended, and sizes are
                                    then those of margin tau / sqrt(2)
=================================== ==============================================================

A net of more than 2^24 candidates is planned, and its numbers stand in the table; it is not
searched.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np

from replearn.codes.coins import Coins
from replearn.codes.nets import decimal_down, decimal_up
from replearn.documents import decimal_text
from replearn.errors import ReplearnError, short
from replearn.recipes.estimates import Rivals
from replearn.recipes.net import (
    BY_HAND,
    MAX_RIVALS,
    Counts,
    Cover,
    Found,
    Net,
    certified_covers,
    net_bound,
    paper_cover,
    practical_cover,
    project,
)
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
    log_terms,
    rows_for,
)
from replearn.types import BlockMap, Vector

#: Candidates that can be searched: the noise of all of them is drawn.
MAX_FULL = 1 << 24

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

    cover: Cover
    inverse_temperature: str
    populations: Literal["margin", "all"] = "margin"


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
    for cover in certified_covers(promise, base.n_inputs, Sizes(by_hand)):
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

    low, high = 0.0, float(plan.n_rows)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return decimal_down(low)


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
        distance = math.sqrt(2) * kappa / math.sqrt(1 - kappa**2) if kappa < 1 else math.inf
        failure = 0.0
    else:
        growth = math.exp(step)
        squared = 2 * growth * (growth - 1) * (cover.log_size + heat * cover.exceptions)
        distance, failure = math.sqrt(squared), cover.failure
    # 2 TV <= distance, and correlated sampling differs with 2 TV / (1 + TV)
    proved = 1.0 if distance == math.inf else min(1.0, distance / (1 + distance / 2) + failure)
    margin = None if plan.populations == "all" else plan.promise.margin
    return net_bound(plan, n_rows, spread, proved, cover.n_components, margin)


# --- run ------------------------------------------------------------------------------------------


def run(sample: Sample, plan: DPPlan, coins: Coins, work: BlockMap = map) -> Fitted:
    """The largest score after common noise; reads the stream "net/gumbel"."""
    plan.cover.require(MAX_FULL)
    points, n_zero, n_again = project(sample, plan, plan.cover, coins)
    net = Net(points, plan.cover, coins, work).with_table()
    heat = float(plan.inverse_temperature)
    noise = coins.gumbels("net/gumbel", plan.cover.n_candidates)
    # rivals: scores that move by four deviations, for errors that differ on a tenth of the rows
    reach = 4.0 * heat * math.sqrt(2 * 0.1 / net.n_points)
    found, n_tested = largest_score(net, heat, noise, reach)
    counts = {"points": net.n_points, "zero_rows": n_zero, "tested": n_tested, "below": 1}
    spread = replace(_noisy_spread(net, found, heat, noise), n_repeated=n_again)
    codes = np.array([found.candidate])
    return Fitted(codes, spread, net.n_points, counts, space=plan.cover.space(plan.n_inputs))


def largest_score(net: Net, heat: float, noise: Vector, reach: float) -> tuple[Found, int]:
    """The candidate with the largest ``noise - heat * error rate``, and how many were tested.

    An error rate is not negative, so candidates are looked at from the largest noise down, and only
    while their noise is above the best score. Rounding is monotone, so what is skipped could not
    have won. Candidates within ``reach`` of the best score are reported as near.
    """
    n = net.n_points
    best = -math.inf
    n_tested = 0
    seen: list[Counts] = []
    seen_counts: list[Counts] = []
    for block in net.blocks(np.argsort(-noise, kind="stable")):
        indices = block[noise[block] >= best - reach]
        if indices.size == 0:
            break
        room = (noise[indices] - (best - reach)) * (n / heat) + 2
        limits = np.clip(room, -1, n).astype(np.int64)
        counts = net.counts(indices, limits)
        n_tested += indices.size
        inside = counts <= limits
        seen.append(indices[inside])
        seen_counts.append(counts[inside])
        scores = _scores(noise, seen[-1], seen_counts[-1], n, heat)
        best = max(best, float(scores.max(initial=-math.inf)))
    every, counts = np.concatenate(seen), np.concatenate(seen_counts)
    scores = _scores(noise, every, counts, n, heat)
    top = int(np.argmax(scores))
    near = np.flatnonzero((scores >= best - reach) & (every != every[top]))
    found = Found(int(every[top]), int(counts[top]), every[near], counts[near])
    return found, n_tested


def _scores(noise: Vector, indices: Counts, counts: Counts, n: int, heat: float) -> Vector:
    """``noise - heat * error rate``: three roundings, in this order."""
    return np.asarray(noise[indices] - heat * (counts / n))


def _noisy_spread(net: Net, found: Found, heat: float, noise: Vector) -> Rivals:
    """Rivals whose score may get above the chosen one's."""
    scores = _scores(noise, found.near, found.near_counts, net.n_points, heat)
    nearest = np.argsort(-scores, kind="stable")[:MAX_RIVALS]
    best = float(noise[found.candidate] - heat * (found.n_errors / net.n_points))
    moves = net.moves(np.append(found.near[nearest], found.candidate))
    moves = heat * (moves[:, -1:] - moves[:, :-1])
    return Rivals(n_parts=len(moves), slacks=best - scores[nearest], moves=moves)


_TITLE = "LNUZ20 via DP-to-Replicability reduction BGH+23"
DP = Recipe("dp", _TITLE, "eps^-2 tau^-4 rho^-2", sizes, run, stability)
