"""Nets of candidates that are made on the fly, and the search for one of them.

A candidate is addressed by its index and never stored:

======= ================================================= =================================
net     candidate i                                       order in which it is searched
======= ================================================= =================================
random  the normals of row i of stream "net/candidates",  by index: the candidates are
        in single precision                               independent, so this is a random order
lattice integer vector number i of a ball, the origin     permutation of stream "net/order"
        left out, in lexicographic order
======= ================================================= =================================

Only the direction of a candidate matters. Error counts are integers and the searches below find
what a full enumeration would find, so nothing depends on blocks or threads.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from replearn.codes.net_space import NetSpace
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.kernels import error_counts as kernel
from replearn.plans.sizes import NetSizes
from replearn.stages.batches import Rows
from replearn.stages.selection import ThresholdLaw, amplified, correlated_choice, draw_threshold
from replearn.types import BlockMap, IntegerArray, Matrix, Order, Vector

_ROWS_PER_BLOCK = 1 << 14
_CANDIDATES_PER_BLOCK = 256
_FIRST_SEARCH, _LARGEST_SEARCH = 256, 8192  # candidates between two looks at what was found

_MAX_GROUPS = 64  # of rows, whose errors are counted apart to see their spread
_MIN_GROUPS = 4
_REACH = 4.0  # rivals further away than this many standard deviations are left out
_MAX_RIVALS = 256


class PointSet(Protocol):
    """Training rows as points, wherever they are: the searches ask for exact counts only."""

    @property
    def n_points(self) -> int:
        """Rows with a direction."""

    @property
    def n_zero_rows(self) -> int:
        """Rows without one."""

    @property
    def n_packs(self) -> int:
        """Packs of sixteen rows each, in canonical order."""

    def counts(
        self,
        space: NetSpace,
        shared: SharedRandomness,
        indices: IntegerArray,
        limits: IntegerArray,
        run: BlockMap = map,
    ) -> IntegerArray:
        """Errors of these candidates, each counted up to ``limit + 1``."""

    def group_counts(
        self, space: NetSpace, shared: SharedRandomness, indices: IntegerArray, edges: IntegerArray
    ) -> tuple[IntegerArray, IntegerArray]:
        """Points in groups of packs, and how many of them each candidate gets wrong.

        A group lies between two edges. Shapes (n_groups,) and (n_groups, n_candidates).
        """


@runtime_checkable
class PointSource(Protocol):
    """Training rows that are not in memory here and can be made points where they are."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def points(self, space: NetSpace, shared: SharedRandomness, n_used: int) -> PointSet:
        """The first ``n_used`` rows, projected."""


@dataclass(frozen=True)
class Points:
    """Training rows as the kernels want them: projected, signed, sixteen in a pack."""

    packs: NDArray[np.float32]
    n_points: int
    n_zero_rows: int = 0

    @property
    def n_packs(self) -> int:
        """Number of packs."""
        return int(self.packs.shape[0])

    def part(self, first: int, last: int) -> "Points":
        """The points of some packs."""
        packs = self.packs[first:last]
        return Points(packs, int(np.count_nonzero(~np.isnan(packs[:, 0, :]))))

    def counts(
        self,
        space: NetSpace,
        shared: SharedRandomness,
        indices: IntegerArray,
        limits: IntegerArray,
        run: BlockMap = map,
    ) -> IntegerArray:
        """Errors of these candidates, each counted up to ``limit + 1``."""
        counts = np.empty(indices.size, dtype=np.int64)

        def work(first: int) -> None:
            part = slice(first, first + _CANDIDATES_PER_BLOCK)
            candidates = space.candidates(indices[part], shared)
            kernel.count_errors(self.packs, candidates, limits[part], counts[part])

        for _ in run(work, range(0, indices.size, _CANDIDATES_PER_BLOCK)):
            pass
        return counts

    def group_counts(
        self, space: NetSpace, shared: SharedRandomness, indices: IntegerArray, edges: IntegerArray
    ) -> tuple[IntegerArray, IntegerArray]:
        """Points in groups of packs, and how many of them each candidate gets wrong."""
        groups = [self.part(int(a), int(b)) for a, b in pairwise(edges)]
        candidates = space.candidates(indices, shared)
        unlimited = np.full(indices.size, self.n_points)
        counts = np.empty((len(groups), indices.size), dtype=np.int64)
        for group, row in zip(groups, counts, strict=True):
            kernel.count_errors(group.packs, candidates, unlimited, row)
        return np.array([group.n_points for group in groups], dtype=np.int64), counts


def pack_points(
    rows: Rows, order: Order, space: NetSpace, shared: SharedRandomness, run: BlockMap = map
) -> Points:
    """Project the rows, once for all candidates."""
    matrix = space.matrix(shared)
    n_packs = -(-order.size // kernel.PACK)
    packs = np.empty((n_packs, space.n_components, kernel.PACK), dtype=np.float32)

    def work(first: int) -> int:
        where = order[first : first + _ROWS_PER_BLOCK]
        out = packs[first // kernel.PACK : -(-(first + where.size) // kernel.PACK)]
        return kernel.pack_rows(rows.X, rows.signs, where, matrix, out)

    n_points = sum(run(work, range(0, order.size, _ROWS_PER_BLOCK)))
    return Points(packs, n_points, order.size - n_points)


def refuse_zero_rows(points: PointSet) -> None:
    """Refuse rows of which none has a direction."""
    if points.n_points == 0:
        raise ReplearnError(
            f"X must have rows that are not all zero, got {points.n_zero_rows:,} zero rows. A row "
            "without direction cannot be learned from; check the columns, or use "
            "fit_intercept=True."
        )


# --- the searches -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """A net that is searched: its candidates in the shared order, and how the work is spread."""

    space: NetSpace
    shared: SharedRandomness
    order: Order | range
    run: BlockMap = map

    def blocks(self) -> Iterator[IntegerArray]:
        """Indices in order, in blocks that grow: little is wasted when the first ones pass."""
        start, size = 0, _FIRST_SEARCH
        while start < len(self.order):
            yield np.asarray(self.order[start : start + size], dtype=np.int64)
            start += size
            size = min(2 * size, _LARGEST_SEARCH)

    def counts(self, points: PointSet, indices: IntegerArray, limits: IntegerArray) -> IntegerArray:
        """Errors of these candidates, each counted up to ``limit + 1``."""
        return points.counts(self.space, self.shared, indices, limits, self.run)


def net_in_order(
    space: NetSpace, n_candidates: int, shared: SharedRandomness, run: BlockMap, string: int = 0
) -> Net:
    """The net of one shared string, in its random order."""
    if space.net == "random":
        first = string * n_candidates
        return Net(space, shared, range(first, first + n_candidates), run)
    return Net(space, shared, shared.sample("net/order", n_candidates, n_candidates, string), run)


class Found(NamedTuple):
    """What a search found.

    The candidate (-1 if there is none) and its errors, how many candidates were tested, and those
    that were looked at and missed the limit narrowly.
    """

    candidate: int
    n_errors: int
    n_tested: int
    near: IntegerArray
    near_counts: IntegerArray


def first_passing(points: PointSet, net: Net, limit: int, near_limit: int) -> Found:
    """The first candidate, in the shared order, with at most ``limit`` errors.

    Candidates are tested block by block until one passes, so the cost is one over the share of
    candidates that pass, and not their number.
    """
    near, near_counts, n_tested = [], [], 0
    for indices in net.blocks():
        counts = net.counts(points, indices, np.full(indices.size, near_limit))
        n_tested += indices.size
        passing = np.flatnonzero(counts <= limit)
        first = int(passing[0]) if passing.size else indices.size
        narrow = np.flatnonzero(counts[:first] <= near_limit)
        near.append(indices[narrow])
        near_counts.append(counts[narrow])
        if passing.size:
            missed = np.concatenate(near), np.concatenate(near_counts)
            return Found(int(indices[first]), int(counts[first]), n_tested, *missed)
    return Found(-1, -1, n_tested, np.concatenate(near), np.concatenate(near_counts))


def fewest_errors(points: PointSet, net: Net) -> Found:
    """The candidate with the fewest errors, the first of them in the shared order."""
    index, fewest, n_tested = -1, points.n_points + 1, 0
    for indices in net.blocks():
        counts = net.counts(points, indices, np.full(indices.size, fewest - 1))
        n_tested += indices.size
        best = int(np.argmin(counts))
        if counts[best] < fewest:
            index, fewest = int(indices[best]), int(counts[best])
    none = np.empty(0, dtype=np.int64)
    return Found(index, fewest, n_tested, none, none)


def largest_score(points: PointSet, net: Net, heat: float, noise: Vector, reach: float) -> Found:
    """The candidate with the largest ``noise - heat * error rate``, the lowest index of these.

    An error rate is not negative, so candidates are looked at from the largest noise down, and only
    while their noise is above the best score: again about one over the share of good ones. Rounding
    is monotone, so what is skipped could not have won. Candidates within ``reach`` of the best
    score are reported as near.
    """
    best, winner, n_tested = -math.inf, (-1, -1), 0
    near, near_counts, near_scores = [], [], []
    for members in _levels(noise):
        members = members[noise[members] >= best - reach]
        if members.size == 0:
            break
        for start in range(0, members.size, _LARGEST_SEARCH):
            indices = members[start : start + _LARGEST_SEARCH]
            room = (noise[indices] - (best - reach)) * (points.n_points / heat) + 2
            limits = np.clip(room, -1, points.n_points).astype(np.int64)
            counts = net.counts(points, indices, limits)
            n_tested += indices.size
            scores = noise_scores(noise[indices], counts, points.n_points, heat)
            scores[counts > limits] = -math.inf
            top = int(np.argmax(scores))
            found = int(indices[top]), int(counts[top])
            if scores[top] > best or (scores[top] == best and found[0] < winner[0]):
                best, winner = float(scores[top]), found
            near.append(indices)
            near_counts.append(counts)
            near_scores.append(scores)
    all_scores = np.concatenate(near_scores)
    close = np.flatnonzero(all_scores >= best - reach)
    rivals, counts = np.concatenate(near)[close], np.concatenate(near_counts)[close]
    other = rivals != winner[0]
    return Found(*winner, n_tested, rivals[other], counts[other])


def noise_scores(noise: Vector, counts: IntegerArray, n_points: int, heat: float) -> Vector:
    """``noise - heat * error rate``: three roundings, in this order."""
    return noise - heat * (counts / n_points)


def _levels(noise: Vector) -> Iterator[IntegerArray]:
    """Indices with large noise first, in levels that grow e-fold; ascending in each."""
    upper = math.inf
    lower = math.log(max(noise.size / _FIRST_SEARCH, 1.0))
    while True:
        members = np.flatnonzero((noise < upper) & (noise >= lower))
        if members.size:
            yield members
        if lower <= noise.min():
            return
        upper, lower = lower, lower - 1.0


# --- the choices -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """How near other choices are, for the certificate.

    Attributes
    ----------
    slacks : array of shape (n_rivals,)
        How far a statistic may move before another candidate is chosen.
    spreads : array of shape (n_groups, n_rivals)
        The movement from this lab to another is a standard normal combination of its rows.
    n_groups : int
        Independent groups that the spreads were estimated from; too few: no estimate.
    turns : tuple of Turn
        What else may happen, in place of which other evidence counts.
    """

    slacks: Vector
    spreads: Matrix
    n_groups: int
    turns: "tuple[Turn, ...]" = ()

    @property
    def estimable(self) -> bool:
        """Whether there were enough groups."""
        return self.n_groups >= _MIN_GROUPS

    def changed(self, draws: Matrix) -> NDArray[np.bool_]:
        """For each standard normal draw of another lab, whether it chooses another candidate."""
        found: NDArray[np.bool_] = np.any(draws @ self.spreads > self.slacks, axis=1)
        for turn in self.turns:
            there = draws @ turn.spread > turn.slack
            found[there] = turn.then is None or turn.then.changed(draws[there])
        return found


@dataclass(frozen=True)
class Turn:
    """A statistic that leaves its cell, so that the choice is made by another threshold.

    Slack and spread as in `Evidence`. ``then`` is about the choice that this lab makes there, if it
    is the same one; None if it is another.
    """

    slack: float
    spread: Vector
    then: Evidence | None


_NOTHING = Evidence(np.empty(0), np.empty((0, 0)), 0)


class Choice(NamedTuple):
    """The index of a chosen candidate, and how it came about."""

    candidate: int
    n_tested: int
    below: bool
    evidence: Evidence


def choose_below(
    points: PointSet,
    space: NetSpace,
    sizes: NetSizes,
    shared: SharedRandomness,
    run: BlockMap = map,
    string: int = 0,
    *,
    evidence: bool = True,
) -> Choice:
    """Algorithm 3's choice: the first candidate below a random threshold, in a random order.

    If there is none, the one with the fewest errors, which promises nothing.
    """
    net = net_in_order(space, sizes.n_candidates, shared, run, string)
    law = ThresholdLaw(float(sizes.low), float(sizes.high), float(sizes.cell), sizes.root)
    n = max(points.n_points, 1)  # a repetition may get zero rows only
    best = fewest_errors(points, net) if law.cell > 0 else None
    smallest = best.n_errors / n if best is not None else 0.0
    threshold = draw_threshold(law, smallest, shared, "net", string)
    found = _search_below(points, net, threshold)
    n_tested = found.n_tested + (best.n_tested if best is not None else 0)
    if found.candidate < 0:
        fallback = best if best is not None else fewest_errors(points, net)
        n_tested += 0 if best is not None else fallback.n_tested
        return Choice(fallback.candidate, n_tested, False, _NOTHING)
    if not evidence:
        return Choice(found.candidate, n_tested, True, _NOTHING)
    near = _threshold_evidence(points, net, found, threshold)
    if best is not None:
        turns = _start_turns(points, net, law, best, found.candidate, string)
        near = replace(near, turns=turns)
    return Choice(found.candidate, n_tested, True, near)


def _search_below(points: PointSet, net: Net, threshold: float) -> Found:
    """The first candidate below a threshold, and those that missed it narrowly."""
    n = max(points.n_points, 1)  # a repetition may get zero rows only
    limit = math.floor(threshold * n)
    deviation = math.sqrt(2 * max(threshold, 1 / n) / n)  # of the difference of two labs, at most
    return first_passing(points, net, limit, limit + math.ceil(_REACH * deviation * n))


def _start_turns(
    points: PointSet, net: Net, law: ThresholdLaw, best: Found, candidate: int, string: int
) -> tuple[Turn, ...]:
    """The start of another lab may fall into the next cell, down or up.

    Then the threshold is another one, but the choice need not be: it is made again, from the errors
    of this lab.
    """
    smallest = best.n_errors / max(points.n_points, 1)
    to_floor = _above_cell(smallest, law.cell, net.shared, string)
    walls = np.array([to_floor, law.cell - to_floor])
    twice = np.array([best.candidate, best.candidate])
    moves = _evidence(points, net, twice, lambda moves: moves * [-1, 1], walls)
    turns = []
    for slack, spread, step in zip(walls, moves.spreads.T, (-law.cell, law.cell), strict=True):
        # the middle of the next cell: its ends may be rounded to either side
        start = smallest - to_floor + law.cell / 2 + step
        threshold = draw_threshold(law, start, net.shared, "net", string)
        found = _search_below(points, net, threshold)
        then = None
        if found.candidate == candidate:
            then = _threshold_evidence(points, net, found, threshold)
        turns.append(Turn(float(slack), spread, then))
    return tuple(turns)


def _threshold_evidence(points: PointSet, net: Net, found: Found, threshold: float) -> Evidence:
    """Earlier candidates that may get below the threshold, and the chosen one above it."""
    nearest = np.argsort(found.near_counts, kind="stable")[:_MAX_RIVALS]
    rivals = np.append(found.near[nearest], found.candidate)
    counts = np.append(found.near_counts[nearest], found.n_errors)
    signs = np.append(np.full(nearest.size, -1.0), 1.0)
    slacks = signs * (threshold - counts / points.n_points)
    return _evidence(points, net, rivals, lambda moves: moves * signs, slacks)


def _above_cell(smallest: float, cell: float, shared: SharedRandomness, string: int) -> float:
    """How far the smallest error is above the lower end of its cell."""
    offset = float(shared.uniforms("net/start", 1, row=string)[0])
    place = smallest / cell - offset
    return cell * (place - math.floor(place))


def choose_noisy(
    points: PointSet,
    space: NetSpace,
    sizes: NetSizes,
    shared: SharedRandomness,
    run: BlockMap = map,
) -> Choice:
    """The exponential mechanism with common noise: the DP reduction's choice."""
    net = Net(space, shared, range(space.n_candidates), run)
    heat, n = float(sizes.inverse_temperature), points.n_points
    if sizes.rule == "holenstein":
        return _choose_by_rejection(points, net, heat)
    noise = shared.gumbels("net/gumbel", space.n_candidates)
    # of the difference of two scores, between two labs, for errors that differ on a tenth
    reach = _REACH * heat * math.sqrt(2 * 0.1 / n)
    found = largest_score(points, net, heat, noise, reach)
    scores = noise_scores(noise[found.near], found.near_counts, n, heat)
    nearest = np.argsort(-scores, kind="stable")[:_MAX_RIVALS]
    best = float(noise[found.candidate] - heat * (found.n_errors / n))
    evidence = _evidence(
        points,
        net,
        np.append(found.near[nearest], found.candidate),
        lambda moves: heat * (moves[:, -1:] - moves[:, :-1]),
        best - scores[nearest],
    )
    return Choice(found.candidate, found.n_tested, True, evidence)


def _choose_by_rejection(points: PointSet, net: Net, heat: float) -> Choice:
    """Holenstein's rejection: needs every candidate's probability; a reference, no estimate."""
    everything = np.arange(net.space.n_candidates)
    counts = net.counts(points, everything, np.full(everything.size, points.n_points))
    log_weights = -heat * (counts / points.n_points)
    index = correlated_choice(log_weights, net.shared, method="holenstein", purpose="net")
    return Choice(index, everything.size, True, _NOTHING)


def choose_amplified(
    points: Points, space: NetSpace, sizes: NetSizes, shared: SharedRandomness, run: BlockMap = map
) -> Choice:
    """Amplification: what `choose_below` chooses most often, on disjoint groups of rows.

    Each shared string has its own net (or order) and threshold.
    """
    n_groups = sizes.n_strings * sizes.n_repeats
    if points.n_packs < n_groups:
        raise ReplearnError(
            f"n_repeats must leave each repetition {kernel.PACK} rows, got {sizes.n_repeats:,} for "
            f"{sizes.n_strings} shared strings and {points.n_points:,} rows. Use n_repeats=1, or "
            "get more rows."
        )
    edges = np.linspace(0, points.n_packs, n_groups + 1).astype(np.int64)
    made: list[Choice] = []

    def choose(string: int, repeat: int) -> int:
        group = string * sizes.n_repeats + repeat
        part = points.part(int(edges[group]), int(edges[group + 1]))
        made.append(choose_below(part, space, sizes, shared, run, string, evidence=False))
        return made[-1].candidate

    n_repeats, n_strings = sizes.n_repeats, sizes.n_strings
    candidate, shares, levels = amplified(choose, n_repeats, n_strings, shared, "net")
    slacks = np.abs(np.array(shares) - levels)
    spreads = np.zeros((max(n_repeats, slacks.size), slacks.size))
    spreads[: slacks.size] = np.diag([_spread(share, n_repeats) for share in shares])
    return Choice(
        candidate,
        n_tested=sum(choice.n_tested for choice in made),
        below=all(choice.below for choice in made),
        evidence=Evidence(slacks, spreads, n_repeats),
    )


def _spread(share: float, n_repeats: int) -> float:
    """Standard deviation of the difference of two labs' frequencies (Laplace's rule)."""
    smooth = (share * n_repeats + 1) / (n_repeats + 2)
    return math.sqrt(2 * smooth * (1 - smooth) / n_repeats)


def _evidence(
    points: PointSet,
    net: Net,
    rivals: IntegerArray,
    to_statistics: Callable[[Matrix], Matrix],
    slacks: Vector,
) -> Evidence:
    """Spread of the statistics that decide, from groups of rows."""
    n_groups = min(_MAX_GROUPS, points.n_packs)
    if n_groups < _MIN_GROUPS:
        return Evidence(slacks, np.zeros((n_groups, slacks.size)), n_groups)
    edges = np.linspace(0, points.n_packs, n_groups + 1).astype(np.int64)
    found, counts = points.group_counts(net.space, net.shared, rivals, edges)
    filled = found > 0  # a group may have zero rows only
    sizes, counts = found[filled][:, None], counts[filled]
    moves = np.sqrt(sizes) * (counts / sizes - counts.sum(axis=0) / points.n_points)
    # one degree of freedom less than groups; twice the variance, for two labs
    moves *= math.sqrt(2 / (points.n_points * max(1, sizes.size - 1)))
    return Evidence(slacks, to_statistics(moves), sizes.size)
