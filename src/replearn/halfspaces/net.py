"""Algorithm 3 of [KKLVZ24, Sec. 5]: a net of candidates, and the first one below a threshold.

As printed, with tau the margin, eps the error, rho the disagreement, delta the failure::

    1  k <- C tau^-2 log(1 / (eps tau rho delta))
    2  n <- C' eps^-1 tau^-4 rho^-2 log(1 / (eps rho tau delta))
    3  S <- n rows
    4  draw A in R^(k x d) with entries N(0, 1/k)                         (shared)
    5  S_A <- (A x_1, y_1), ..., (A x_n, y_n)
    6  H <- a (tau/20)-net of the vectors of length at most 1 in R^k
    7  b <- rLearnerFinite(S_A, H) with (eps/10, rho/10, delta/10)        (shared)
    8  return A'b / |A'b|

rLearnerFinite [BGH23, Thm. 5.13] draws a threshold v and an order of H, both shared, and takes the
first candidate of H whose error on the sample is at most v.

*Theorem 1.6 there.* Rho-replicable, error at most eps with probability 1 - delta, from
``O~(eps^-1 tau^-4 rho^-2 log(1/delta))`` rows, in time ``poly(d) (1 / (eps rho tau delta))^(O(1 /
tau^2))``.

What is proved here, with explicit constants
--------------------------------------------
Let some candidate be wrong on at most eta of the population, except with probability f over seeds
(`Cover`). On the scale of square roots: a true error rate t above r shows as r or less on n rows
with probability at most ``exp(-(2 - t/(r + t)) n t^2)``, and one t below r as r or more with less
(Chernoff; docs/theory/proofs.md, 7). But for that two labs' sets of candidates below v are nested
between those at ``v -+ t``; the choice is a min-wise hash of such a set; and v is uniform over a
width W of roots. So they differ with probability at most ``2 t ln|H| / W`` on average over v.
Together (`stability`):

    min over t of  2 t ln|H| / W + 2 |H| exp(-(2 - t/(low + t)) n t^2) + f.

The covers: uniform directions, of which N miss a cap of radius sin(theta) with ``(1 - cap)^N``;
without a projection a candidate within 0.99 tau of the best normal is right everywhere (eta = 0);
with one, the cosine of projected vectors is a correlation of k normal pairs, and Markov's
inequality over A gives eta = eps/20. Rows: ``about 2 ln^2|H| ln(|H|/rho) / (eps rho^2)`` times a
constant near 4; one logarithm of |H| more than [BGH23], with nothing hidden.

Departures in mode="paper"
--------------------------
==== ====================================== ====================================================
line as printed                             here
==== ====================================== ====================================================
1, 2 C, C' not given                        constants C1, C2; both 1 unless set
3    n rows                                 the first n of the sample; rows of zeros are left out
4    as printed                             as printed; any projection may be set by hand
5    A x                                    x has length 1 first; A x in float32, in a fixed order
6    a net of the ball                      uniform directions of the sphere, as many as reach
                                            within C4 tau/20 of any but with probability 0.01;
                                            only directions matter, and b = 0 is no classifier
6    size depends on k, k (by delta_JL) on  the printed k is used; the circle is cut by C1, C2
     n, n on the size
7    (eps/10, rho/10, delta/10), thresholds uniform between C3 eps/40 and 3 C3 eps/40: the range of
     v on a grid                            rLearnerFinite for eps/10 and a best error near 0
7    repeated and amplified, for rho^-2     run once on the n rows: amplification costs rows at
                                            every size that can run
7    no candidate below v: not treated      the one with the fewest errors, and a warning
8    as printed                             as printed
all  no intercept                           ``fit_intercept=True`` appends a constant to x, and
                                            sizes are those of margin tau / sqrt(2)
==== ====================================== ====================================================

A net of more than 2^32 candidates is planned, and its numbers stand in the table; it is not
searched.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from replearn.codes import (
    FULL,
    MAX_ROWS,
    Bound,
    Coins,
    Fitted,
    Mode,
    NetSpace,
    Plan,
    Promise,
    Recipe,
    Sizes,
    candidates,
    check_components,
    common,
    decimal_down,
    decimal_up,
    fewest_components,
    log_cap,
    log_net_size,
    log_projected_tail,
    log_terms,
    projection_matrix,
    rows_for,
)
from replearn.documents import decimal_text
from replearn.errors import NotSearchable, ReplearnError
from replearn.exact import Points, project_rows
from replearn.halfspaces.batches import all_directions, refuse_zeros
from replearn.halfspaces.estimates import Rivals, assumptions, calibrated
from replearn.rows import Sample
from replearn.types import BlockMap, Ints, Matrix

#: Candidates that can be searched: one after the other until one passes.
MAX_LAZY = 1 << 32

#: Certified: the net reaches within this share of the margin; what is left is far above rounding.
_RADIUS_SHARE = 0.99
#: Certified, with a projection: the best candidate may be wrong on this share of max_error.
_EXCEPTION_SHARE = 0.05
#: Certified: share of max_disagreement and of failure_prob that the cover may fail with.
_COVER_SHARE = 0.05
#: Certified: share of the disagreement for error rates that are further off than the proof allows.
_DEVIATION_SHARE = 0.05
#: Deviations t on the scale of roots among which a bound chooses: any is right.
_DEVIATIONS = 10 ** (np.arange(-1200, 0) / 100)
#: Certified: the lowest threshold is this many deviations above the best candidate's error.
_CLEARANCE = 4

#: Practical: candidates, components, and failure of a net that is not larger than need be.
_FEWEST, _BUDGET, _COMPONENTS, _PRACTICAL_FAILURE = 1000, 1 << 19, 24, 0.01
#: Practical: the threshold lies between these shares of max_error.
_PRACTICAL_ENDS = 1 / 16, 0.9
#: Practical, calibrated: rows are this many times ``components^2 / (rho^2 eps)``. On eighteen
#: populations of 3, 6 and 10 features the constant was 0.1 on average and 0.31 at the most.
CALIBRATED_ROWS = 0.35

#: Names of sizes that can be set by hand, and constants of the paper's formulas.
BY_HAND = {
    "n_components": "components of a candidate",
    "projection": "name of a projection",
    "n_candidates": "size of the net",
    "n_rows": "rows of a lab",
}
CONSTANTS = {
    "C1": "components, line 1",
    "C2": "rows, line 2",
    "C3": "threshold, line 7",
    "C4": "radius of the net, line 6",
}


# --- sizes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cover:
    """A projection and a net, one of whose candidates is good."""

    projection: str
    n_components: int
    radius: str  # sine of an angle within which some candidate is of any direction
    log_size: float  # logarithm of the number of candidates, which may be too many for a number
    exceptions: float = 0.0  # some candidate is wrong on at most this share of the population,
    failure: float = 1.0  # except with this probability over seeds; 1: nothing is known

    @property
    def n_candidates(self) -> int:
        """Size of the net, in three digits so that everybody has the same."""
        return math.ceil(float(decimal_up(math.exp(self.log_size))))

    def require(self, most: int) -> None:
        """Refuse to search a net that is too large, saying how large it is."""
        if self.log_size > math.log(most):
            raise NotSearchable(
                f"The net must have at most {most:,} candidates, got about "
                f"10^{self.log_size / math.log(10):.1f} ({self.n_components:,} components, radius "
                f'{self.radius}). Raise margin, lower n_components, use mode="practical", or use '
                "ReplicableSVMClassifier, which searches nothing."
            )


@dataclass(frozen=True, kw_only=True)
class NetPlan(Plan):
    """Sizes of Algorithm 3; the threshold lies between ``low`` and ``high``.

    ``root``: uniform on the scale of square roots, on which an error rate of n rows is off by
    ``1 / sqrt(4 n)`` everywhere; else uniform, as the paper has it.
    """

    cover: Cover
    low: str
    high: str
    root: bool = True

    @property
    def n_candidates(self) -> int:
        """Size of the net."""
        return self.cover.n_candidates


def sizes(promise: Promise, n_inputs: int, mode: Mode, given: Sizes) -> NetPlan:
    """Lines 1, 2 and 6: components, rows, net; and where the threshold of line 7 may lie."""
    given.check(mode, BY_HAND, CONSTANTS)
    fixed = common("net", promise, n_inputs, mode, given)
    if mode == "certified":
        return min(_certified(fixed, given), key=lambda plan: plan.n_rows)

    eps = promise.max_error
    if mode == "practical":
        cover = practical_cover(promise, n_inputs, given, _BUDGET, _COMPONENTS)
        low, high = (decimal_text(share * eps) for share in _PRACTICAL_ENDS)
        plan = NetPlan(**fixed, cover=cover, low=low, high=high)
        n_rows = rows_for(stability, plan)
    else:
        cover = paper_cover(promise, n_inputs, given)
        low, high = (decimal_text(given.constant("C3") * share * eps / 40) for share in (1, 3))
        plan = NetPlan(**fixed, cover=cover, low=low, high=high, root=False)
        scale = eps * promise.margin**4 * promise.max_disagreement**2
        n_rows = math.ceil(given.constant("C2") * log_terms(promise) / scale)

    return replace(plan, n_rows=int(given.get("n_rows", n_rows)))


def _certified(fixed: dict[str, Any], given: Sizes) -> Iterator[NetPlan]:
    """Threshold and rows for each cover: the deviation t that the disagreement allows sets both."""
    promise = fixed["promise"]
    for cover in certified_covers(promise, fixed["n_inputs"], given):
        allowed = (1 - _DEVIATION_SHARE) * (promise.max_disagreement - cover.failure)
        best, most = math.sqrt(cover.exceptions), math.sqrt(promise.max_error)
        t = allowed * (most - best) / (2 * cover.log_size + (_CLEARANCE + 1) * allowed)
        low = decimal_up((best + _CLEARANCE * t) ** 2)
        high = decimal_down((most - t) ** 2)
        plan = NetPlan(**fixed, cover=cover, low=low, high=high)
        # half of the failure: some candidate whose true error is above max_error passes; the other
        # half, by far enough: the best one does not, though 4 deviations below the threshold
        log = cover.log_size + math.log(2 / (promise.failure_prob - cover.failure))
        to_high = most - math.sqrt(float(high))
        for_error = math.ceil(log / ((2 - to_high / most) * to_high**2))
        yield replace(plan, n_rows=max(rows_for(stability, plan), for_error))


# --- covers ---------------------------------------------------------------------------------------


def certified_covers(promise: Promise, n_inputs: int, given: Sizes) -> Iterator[Cover]:
    """Covers with proved exceptions and failure: without a projection, and with one."""
    given.refuse_by_hand()
    share = _COVER_SHARE * min(promise.max_disagreement, promise.failure_prob)
    failure = float(decimal_down(share))
    radius = decimal_down(_RADIUS_SHARE * promise.margin)
    size = log_net_size(n_inputs, float(radius), failure)
    yield Cover("none", n_inputs, radius, size, 0.0, failure)
    yield from _projected_covers(promise, n_inputs, failure)


def _projected_covers(promise: Promise, n_inputs: int, failure: float) -> Iterator[Cover]:
    """Random nets after a Gaussian projection: half of the failure for each of the two.

    Markov: if a point's cosine stays above the radius but with probability ``exceptions * failure
    / 2``, then with probability 1 - failure / 2 all points but a share of ``exceptions`` do.
    """
    exceptions = float(decimal_down(_EXCEPTION_SHARE * promise.max_error))
    log_tail = math.log(exceptions * failure / 2)
    for share in (0.4, 0.6, 0.8):
        radius = decimal_down(share * promise.margin)
        if log_projected_tail(max(n_inputs, 4), promise.margin, float(radius)) > log_tail:
            return  # as many components as inputs do not suffice, and larger radii need more

        k = fewest_components(promise.margin, float(radius), log_tail)
        size = log_net_size(k, float(radius), failure / 2)
        yield Cover("gaussian", k, radius, size, exceptions, failure)


def practical_cover(
    promise: Promise, n_inputs: int, given: Sizes, budget: int, most_components: int
) -> Cover:
    """As many candidates as the promise needs, within a budget; few components."""
    if n_inputs > most_components and given.get("n_components") is None:
        raise ReplearnError(
            f"n_features must be at most {most_components} with the constant, got {n_inputs:,}: "
            "hardly any candidate is good in more dimensions. Use ReplicableSVMClassifier, or set "
            "n_components by hand and count the errors."
        )

    k = int(given.get("n_components", n_inputs))
    projection = given.get("projection", "none" if k >= n_inputs else "hadamard")
    # as the radius asks, but as many as a choice needs, and what a lab can search
    ends = math.log(_FEWEST), math.log(budget)
    cover = _cover(projection, k, n_inputs, 0.9 * promise.margin, given, *ends)
    if projection != "none":
        return cover  # what a projection does to this margin is not known

    missed = math.exp(-math.exp(cover.log_size + log_cap(cover.n_components, float(cover.radius))))
    return replace(cover, failure=float(decimal_up(missed)) if missed > 0 else 0.0)


def paper_cover(promise: Promise, n_inputs: int, given: Sizes) -> Cover:
    """Lines 1, 4 and 6: a Gaussian projection, and a net of radius C4 tau/20."""
    tau = promise.margin
    planned = math.ceil(given.constant("C1") * log_terms(promise) / tau**2)
    k = int(given.get("n_components", planned))
    projection = given.get("projection", "gaussian")
    return _cover(projection, k, n_inputs, given.constant("C4") * tau / 20, given)


def _cover(
    projection: str,
    n_components: int,
    n_inputs: int,
    radius: float,
    given: Sizes,
    least: float = -math.inf,
    most: float = math.inf,
) -> Cover:
    """A net of some radius, its logarithm between two numbers, or of the size set by hand."""
    if projection in FULL:
        n_components = n_inputs
    check_components(projection, n_components, n_inputs)
    published = decimal_text(radius)
    size = log_net_size(n_components, float(published), _PRACTICAL_FAILURE)
    size = min(max(size, least), most)
    if "n_candidates" in given.by_hand:
        size = math.log(given.by_hand["n_candidates"])
    return Cover(projection, n_components, published, size)


# --- stability ------------------------------------------------------------------------------------


def stability(plan: NetPlan, n_rows: int, spread: Rivals | None) -> Bound:
    """Bound of the disagreement: random threshold, uniform deviations of all error rates.

    Expected, before any row: calibrated. With a spread: a second lab's errors are normal around
    mine, jointly; counted is how often an earlier candidate gets below the threshold, or the chosen
    one above it. Tested in tests/theory/test_net.py.
    """
    cover = plan.cover
    best, low, high = (math.sqrt(x) for x in (cover.exceptions, float(plan.low), float(plan.high)))
    t = _DEVIATIONS if cover.failure < 1 else _DEVIATIONS[:0]
    t = t[t <= low - best]
    exponents = cover.log_size - (2 - t / (low + t)) * n_rows * t * t
    # uniform on the scale of roots, or a step of t there is one of at most 2 t root(high) + t^2
    steps = t / (high - low) if plan.root else (2 * t * high + t * t) / (high**2 - low**2)
    bounds = 2 * steps * cover.log_size + 2 * np.exp(np.minimum(0.0, exponents)) + cover.failure
    proved = float(bounds.min(initial=1.0))
    margin = plan.promise.margin

    return net_bound(plan, n_rows, spread, proved, cover.n_components, margin)


def net_bound(
    plan: Plan,
    n_rows: int,
    spread: Rivals | None,
    proved: float,
    n_components: int,
    margin: float | None,
) -> Bound:
    """A proved bound with what is expected beside it: of both choices from a net."""
    expected = None
    if spread is not None:
        expected = spread.expected()
    elif plan.mode == "practical":
        rows = max(1, n_rows) * plan.promise.max_error
        expected = calibrated(n_components * math.sqrt(CALIBRATED_ROWS / rows), n_rows)

    return Bound(proved=proved, expected=expected, assumes=assumptions(margin, spread))


# --- run ------------------------------------------------------------------------------------------


def run(sample: Sample, plan: NetPlan, coins: Coins, work: BlockMap = map) -> Fitted:
    """Lines 3 to 7: the first candidate, in the shared order, with few enough errors."""
    threshold = draw_threshold(plan, coins)
    return fit_net(sample, plan, coins, work, MAX_LAZY, lambda net: first_below(net, threshold))


def fit_net(
    sample: Sample,
    plan: Any,
    coins: Coins,
    work: BlockMap,
    most: int,
    choose: "Callable[[Net], Choice]",
) -> Fitted:
    """Points of a net's space, and the candidate that is chosen for them."""
    cover = plan.cover
    cover.require(most)
    points, n_zero, n_again = project(sample, plan, coins)
    net = Net(points, cover, coins, work)
    choice = choose(net)

    n_points, codes = net.n_points, np.array([choice.candidate])
    counts = {"points": n_points, "zero_rows": n_zero, "tested": choice.n_tested}
    counts["below"] = int(choice.is_good)
    spread = replace(choice.spread, n_repeated=n_again)
    space = NetSpace("net", plan.n_inputs, cover.projection, cover.n_components, plan.n_candidates)
    return Fitted(codes, spread, n_points, counts, space=space)


def draw_threshold(plan: NetPlan, coins: Coins) -> float:
    """The shared threshold of line 7; reads the stream "net/threshold"."""
    share = float(coins.uniforms("net/threshold", 1)[0])
    low, high = float(plan.low), float(plan.high)
    if not plan.root:
        return low + share * (high - low)

    root = math.sqrt(low) + share * (math.sqrt(high) - math.sqrt(low))
    return root * root


def first_below(net: "Net", threshold: float) -> "Choice":
    """The first candidate with an error rate of at most the threshold.

    Candidates are tested block by block until one passes, so the cost is one over the share of
    candidates that pass, and not their number. If none does: the one with the fewest errors, the
    first of them in the shared order.
    """
    n = net.n_points
    limit = math.floor(threshold * n)
    deviation = math.sqrt(2 * max(threshold, 1 / n) / n)  # of the difference of two labs, at most
    missed_limit = limit + math.ceil(_REACH * deviation * n)
    missed: list[Ints] = []  # those that were looked at before, and missed narrowly; their errors
    missed_errors: list[Ints] = []
    best, fewest = -1, n + 1
    for indices in net.blocks(range(net.cover.n_candidates)):
        counts = net.counts(indices, np.full(indices.size, max(missed_limit, fewest - 1)))
        passing = np.flatnonzero(counts <= limit)
        first = int(passing[0]) if passing.size else int(np.argmin(counts))
        if passing.size or counts[first] < fewest:
            best, fewest = int(indices[first]), int(counts[first])

        earlier = slice(first if passing.size else None)
        narrow = np.flatnonzero(counts[earlier] <= missed_limit)
        missed.append(indices[narrow])
        missed_errors.append(counts[narrow])
        if passing.size:
            rivals, errors = np.concatenate(missed), np.concatenate(missed_errors)
            spread = _threshold_spread(net, threshold, best, fewest, rivals, errors)
            return Choice(best, best + 1, True, spread)

    unknown = Rivals(n_parts=0, slacks=np.empty(0), moves=np.empty((0, 0)))
    return Choice(best, net.cover.n_candidates, False, unknown)


def _threshold_spread(
    net: "Net", threshold: float, chosen: int, n_errors: int, missed: Ints, missed_errors: Ints
) -> Rivals:
    """Earlier candidates that may get below the threshold, and the chosen one above it."""
    nearest = np.argsort(missed_errors, kind="stable")[:MAX_RIVALS]
    counts = np.append(missed_errors[nearest], n_errors)
    signs = np.append(np.full(nearest.size, -1.0), 1.0)
    slacks = signs * (threshold - counts / net.n_points)
    moves = net.moves(np.append(missed[nearest], chosen)) * signs
    return Rivals(n_parts=len(moves), slacks=slacks, moves=moves)


# --- points and candidates ------------------------------------------------------------------------

_CANDIDATES_PER_BLOCK = 256
_FIRST_SEARCH, _LARGEST_SEARCH = 256, 8192  # candidates between two looks at what was found

_REACH = 4.0  # rivals further away than this many standard deviations are left out
MAX_RIVALS = 256
_GROUPS = 64  # of rows, whose errors are counted apart to see their spread
_FEWEST_POINTS = 16  # in a group


class Choice(NamedTuple):
    """A candidate that was chosen among those that were tested."""

    candidate: int
    n_tested: int
    is_good: bool  # whether it has as few errors as it must
    spread: Rivals


def project(sample: Sample, plan: Any, coins: Coins) -> tuple[Points, int, int]:
    """Line 5: points in the space of the net, as columns; rows of zeros, and rows that recur.

    Paper mode takes the first n rows, the others all of them.
    """
    matrix, cover = None, plan.cover
    if cover.projection != "none":
        matrix = projection_matrix(cover.projection, plan.n_inputs, cover.n_components, coins)

    most = plan.n_rows if plan.mode == "paper" else MAX_ROWS
    parts, n_zero, n_again = all_directions(
        sample, plan.n_inputs, lambda rows: project_rows(rows, matrix), most
    )
    points = np.concatenate(parts, axis=1)
    refuse_zeros(points.shape[1], n_zero)
    return points, n_zero, n_again


@dataclass(frozen=True)
class Net:
    """Points, and candidates that are made when they are looked at."""

    points: Points
    cover: Cover
    coins: Coins
    work: BlockMap = map

    @property
    def n_points(self) -> int:
        """Rows with a direction."""
        return int(self.points.shape[1])

    def blocks(self, order: range | Ints) -> Iterator[Ints]:
        """Indices in order, in blocks that grow: little is wasted when the first ones pass."""
        start, size = 0, _FIRST_SEARCH
        while start < len(order):
            yield np.asarray(order[start : start + size], dtype=np.int64)
            start += size
            size = min(2 * size, _LARGEST_SEARCH)

    def counts(self, indices: Ints, limits: Ints) -> Ints:
        """Errors of these candidates, each counted up to ``limit + 1``."""
        chosen = self._candidates(indices)

        def count(first: int) -> Ints:
            part = slice(first, first + _CANDIDATES_PER_BLOCK)
            return errors(self.points, chosen[part], limits[part])

        parts = list(self.work(count, range(0, indices.size, _CANDIDATES_PER_BLOCK)))
        return np.concatenate(parts)

    def moves(self, rivals: Ints) -> Matrix:
        """How error rates move from this lab to another, as groups of rows show it."""
        n = self.n_points
        n_groups = min(_GROUPS, n // _FEWEST_POINTS)
        edges = np.linspace(0, n, n_groups + 1).astype(np.int64)
        sizes = np.diff(edges)[:, None]
        chosen, unlimited = self._candidates(rivals), np.full(rivals.size, n)
        groups = [np.ascontiguousarray(self.points[:, a:b]) for a, b in pairwise(edges)]
        of_groups = [errors(group, chosen, unlimited) for group in groups]
        counts = np.array(of_groups).reshape(n_groups, rivals.size)
        moves = np.sqrt(sizes) * (counts / sizes - counts.sum(axis=0) / n)

        # one degree of freedom less than groups; twice the variance, for two labs
        return moves * math.sqrt(2 / (n * max(1, n_groups - 1)))

    def _candidates(self, indices: Ints) -> Points:
        return candidates(indices, self.cover.n_components, self.coins).astype(np.float32)


def errors(points: Points, chosen: Points, limits: Ints) -> Ints:
    """Errors of candidates on points, each counted up to ``limit + 1``."""
    from replearn.kernels import count_errors  # compiled: only a fit waits for it

    return np.asarray(count_errors(points, chosen, limits))


NET = Recipe(
    "net",
    "Algorithm 3",
    "eps^-1 tau^-4 rho^-2",
    sizes,
    run,
    stability,
    certified_rate="eps^-1 tau^-6 rho^-2",
    source="Theorem 1.6",
)
