"""Smooth boosting of rounded means [ILPS22, Servedio03]: rounds, weights, tests, and the vote.

Each round rounds the weighted mean of ``y x`` to an integer code in the original space; the
classifier is the list of all rounds' codes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr

from replearn.kernels import boosting as kernel
from replearn.kernels import foam
from replearn.kernels.exact import fixed_mean
from replearn.kernels.lanes import DenseRows, SparseRows
from replearn.plan import BoostSizes, Plan
from replearn.randomness import SharedRandomness
from replearn.stages.batches import Rows
from replearn.stages.means import deciding_wall
from replearn.stages.space import unit
from replearn.types import BlockMap, Codes, Matrix, Order, Vector

_BLOCK_ROWS = 1 << 15

#: Groups of a round's rows whose means are kept apart, so that their spread can be seen.
_GROUPS = 32

#: Rounds that share the data at hand get at least so many rows.
_MIN_ROUND_ROWS = 8

#: Shares of rows are added up in these units, so that order cannot matter.
_QUANTUM = 2.0**30


# --- the code space -------------------------------------------------------------------------


@dataclass(frozen=True)
class BoostSpace:
    """A shared map from the vectors of the rounds to integer codes.

    Attributes
    ----------
    n_inputs : int
        Length of a vector (features, and one more for the intercept).
    rounding : {"box", "foam"}
    grid_width : str
        A decimal number: side of a box, or of the cube of a droplet.
    n_rounds : int
        Rounds that were done.
    output : {"halfspace", "majority"}
        The sign of the sum of the rounds' products, or the majority of their signs.

    Notes
    -----
    Round t (from 0) of a box reads the uniforms of the stream "boost/{t}/offset", of foam the
    rows of "boost/{t}/foam"; no draw depends on data. Box: as the rounding "centre" of
    `replearn.stages.rounding`. Foam: two points at distance D get other codes with probability
    at most ``2 pi D / grid_width``, and the error has independent coordinates with mean 0
    and variance ``.03267 grid_width^2``, whatever the point. Tested in tests/theory/test_foam.py.
    """

    n_inputs: int
    rounding: str
    grid_width: str
    n_rounds: int
    output: str

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "boosting": self.rounding,
            "grid_width": self.grid_width,
            "n_rounds": self.n_rounds,
            "output": self.output,
        }

    @property
    def codes_per_round(self) -> int:
        """Integers of one round: the box, or the proposal and the translate of its droplet."""
        return self.n_inputs + (self.rounding == "foam")

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a classifier."""
        return self.n_rounds * self.codes_per_round

    def encode_round(self, t: int, point: Vector, shared: SharedRandomness) -> Codes:
        """Codes of the vector of round t."""
        scaled = point / float(self.grid_width)
        if self.rounding == "box":
            return np.floor(scaled - self._offsets(t, shared)).astype(np.int64)
        proposal = foam.first_droplet(scaled, *shared.key(f"boost/{t}/foam"))
        corner = self._corner(t, proposal, shared)
        return np.array([proposal, *np.floor(scaled - corner).astype(np.int64)])

    def decode_round(self, t: int, codes: Codes, shared: SharedRandomness) -> Vector:
        """The vector that stands for the codes of round t."""
        if self.rounding == "box":
            corner, cell = self._offsets(t, shared), codes
        else:
            corner, cell = self._corner(t, int(codes[0]), shared), codes[1:]
        return (cell + (corner + 0.5)) * float(self.grid_width)

    def voters(self, codes: Codes, shared: SharedRandomness) -> Matrix:
        """Weak hypotheses of all rounds: unit vectors, one in each row."""
        rounds = codes.reshape(self.n_rounds, self.codes_per_round)
        vectors = [unit(self.decode_round(t, own, shared)) for t, own in enumerate(rounds)]
        return np.array(vectors).reshape(self.n_rounds, self.n_inputs)

    def decode(self, codes: Codes, shared: SharedRandomness) -> Vector:
        """Sum of the weak hypotheses, in the order of the rounds."""
        return _total(self.voters(codes, shared))

    def leaving(
        self, t: int, point: Vector, codes: Codes, moved: Matrix, shared: SharedRandomness
    ) -> float:
        """Share of ``point + moved[i]`` whose codes are not those of the point."""
        width = float(self.grid_width)
        if self.rounding == "box":
            offset = point / width - (codes + (self._offsets(t, shared) + 0.5))
            return float((np.abs(offset + moved / width) >= 0.5).any(axis=1).mean())
        own, key = int(codes[0]), shared.key(f"boost/{t}/foam")
        reach = np.abs(moved).max(axis=0) / width
        others = np.empty(_MAX_NEIGHBOURS, dtype=np.int64)
        n_others = foam.near_proposals(point / width, reach, *key, own, others)
        if n_others < 0:  # so many neighbours that most of the points leave
            return 1.0
        corner = self._corner(t, own, shared)
        points = np.ascontiguousarray((point + moved) / width)
        n_left = foam.count_leaving(points, corner, codes[1:], own, others[:n_others], *key)
        return float(n_left / moved.shape[0])

    def _offsets(self, t: int, shared: SharedRandomness) -> Vector:
        return shared.uniforms(f"boost/{t}/offset", self.n_inputs)

    def _corner(self, t: int, proposal: int, shared: SharedRandomness) -> Vector:
        return shared.uniforms(f"boost/{t}/foam", self.n_inputs + 1, proposal)[1:]


_MAX_NEIGHBOURS = 20_000


def _total(voters: Matrix) -> Vector:
    """Sum of rows, one after the other: NumPy's own order depends on its version."""
    total = np.zeros(voters.shape[1])
    for voter in voters:
        total += voter
    return total


# --- the sums of one round ------------------------------------------------------------------


@dataclass(frozen=True)
class RoundSums:
    """Exact sums of a round's weighted ``y x`` by group; the last column sums the weights."""

    hi: np.ndarray[Any, np.dtype[np.int64]]
    lo: np.ndarray[Any, np.dtype[np.int64]]

    def mean(self) -> Vector:
        """Weighted mean of all rows."""
        total = fixed_mean(self.hi.sum(axis=0), self.lo.sum(axis=0), 1)
        return np.asarray(total[:-1] / total[-1])

    def mass(self) -> float:
        """Sum of the weights."""
        return float(fixed_mean(self.hi[:, -1:].sum(axis=0), self.lo[:, -1:].sum(axis=0), 1)[0])

    def spread(self) -> Matrix:
        """Rows whose standard normal combination has the law of another lab's mean minus mine.

        Sums of ``weight (y x - mean)`` by group; the other lab's mean is as uncertain as mine.
        """
        sums = fixed_mean(self.hi, self.lo, 1)
        n_groups = sums.shape[0]
        residuals = sums[:, :-1] - np.outer(sums[:, -1], self.mean())
        # a single row shows no spread
        return residuals * (math.sqrt(2 * n_groups / max(1, n_groups - 1)) / self.mass())


def round_sums(
    rows: Rows, members: Order, weights: Vector, n_inputs: int, run: BlockMap = map
) -> RoundSums:
    """Weighted sums of ``y x / |x|`` over these rows; the same bits for every ``run``."""
    bias = float(n_inputs > rows.X.shape[1])
    n_groups = max(1, min(_GROUPS, members.size))

    def work(block: slice) -> RoundSums:
        hi, lo = np.zeros((2, n_groups, n_inputs + 1), dtype=np.int64)
        part = _part(rows, members[block])
        kernel.add_signed(part, rows.signs, weights[block], block.start, bias, hi, lo)
        return RoundSums(hi, lo)

    hi, lo = np.zeros((2, n_groups, n_inputs + 1), dtype=np.int64)
    for sums in run(work, _blocks(members.size)):
        hi += sums.hi
        lo += sums.lo
    return RoundSums(hi, lo)


def margins(rows: Rows, members: Order, voters: Matrix, output: str, run: BlockMap = map) -> Vector:
    """What the voters say about these rows, for the rows' own labels; NaN for rows of zeros."""
    bias = float(voters.shape[1] > rows.X.shape[1])
    as_signs = output == "majority"
    # products add up: one vector says what all of them say
    heard = voters if as_signs else _total(voters)[None, :]

    def work(block: slice) -> Vector:
        out = np.empty(members[block].size)
        part = _part(rows, members[block])
        kernel.fill_margins(part, rows.signs, heard, as_signs, bias, out)
        return out

    return np.concatenate([np.empty(0), *run(work, _blocks(members.size))])


def smooth_weights(margins: Vector, n_rounds: int, threshold: float, decay: float) -> Vector:
    """SmoothBoost's measure after so many rounds: small on rows with a large margin.

    ``mu = min(1, exp(-decay N))`` with ``N = margin - n_rounds threshold``; at most 1, which makes
    the distribution that it is proportional to smooth: no row weighs more than 1 over the
    sum. [Servedio03] has ``decay = -ln(1 - advantage) / 2``.
    """
    out = np.empty(margins.size)
    kernel.fill_weights(margins, n_rounds * threshold, decay, out)
    return out


def keep_some(weights: Vector, coins: Vector, target: int) -> Vector:
    """Rejection sampler: keep a row with its weight as probability, the first ``target`` of them.

    A target of 0 keeps all that are accepted. Returns 1.0 for rows that are kept, else 0.0.
    """
    kept = coins < weights
    if target:
        kept &= np.cumsum(kept) <= target
    return kept.astype(np.float64)


def _part(rows: Rows, members: Order) -> Any:
    if sp.issparse(rows.X):
        return SparseRows(rows.X.data, rows.X.indices, rows.X.indptr, members)
    return DenseRows(rows.X, members)


def _blocks(n_rows: int) -> Iterator[slice]:
    for first in range(0, n_rows, _BLOCK_ROWS):
        yield slice(first, min(first + _BLOCK_ROWS, n_rows))


# --- the rounds -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """What happened in a round.

    Attributes
    ----------
    mean : array of shape (n_inputs,)
        What was rounded.
    spread : array of shape (n_groups, n_inputs)
        See `RoundSums.spread`.
    n_kept : int
        Rows with a weight that is not 0.
    statistic : float
        Mean that the test looked at: the weights after this round, or the errors of the vote.
    doubt : float
        Estimated probability that another lab's test ends otherwise.
    """

    mean: Vector
    spread: Matrix
    n_kept: int
    statistic: float
    doubt: float


@dataclass(frozen=True)
class Boosting:
    """The rounds that were done, and their codes.

    ``finished``: the test was passed; otherwise the rounds or the rows came to an end.
    """

    codes: Codes
    space: BoostSpace
    rounds: tuple[Round, ...]
    finished: bool
    n_used: int
    n_zero_rows: int


def boost(
    rows: Rows, plan: Plan, shared: SharedRandomness, coins: SharedRandomness, run: BlockMap = map
) -> Boosting:
    """Rounds of weak learning on re-weighted rows, until a replicable test says that it is enough.

    Parameters
    ----------
    rows : Rows
    plan : Plan
        With sizes of boosting.
    shared : SharedRandomness
        Reads the streams "boost/{round}/...", and "boost/test".
    coins : SharedRandomness
        Of the rejection sampler, stream "boost/coins": part of the sample, they may be private.
    run : BlockMap

    Returns
    -------
    Boosting
        The same codes for every ``run``.

    Notes
    -----
    *Error.* Whatever the weights, a row that the vote gets wrong has ``N <= 0``, so weight 1:
    the mean of the weights bounds the error, and both tests stop only when the
    statistic is below ``max_error``, up to the test's own failure.

    *Replicability.* Rounds and tests are functions of the sample, the shared coins and earlier
    codes. Fresh rows for each round: the disagreements of the rounds add up. The same rows in all
    rounds: let p_t be the probability that a fresh pair of samples gets different codes in round
    t after the most likely codes of rounds 1 to t-1. One sample leaves the most
    likely codes in round t with probability at most p_t, so two samples differ with
    probability at most ``2 sum(p_t)``: using the rows again costs at most a factor 2 and saves as
    many samples as there are rounds.
    """
    assert plan.boost is not None
    sizes = plan.boost
    space = BoostSpace(plan.n_inputs, plan.rounding, plan.grid_width, 0, sizes.output)
    voters = np.empty((0, plan.n_inputs))
    codes: list[Codes] = []
    rounds: list[Round] = []
    seen = Seen(rows.signs.size)
    finished = False
    said: Vector | None = None  # about the rows of the next round, when all take the same
    for t, (training, testing) in enumerate(_schedule(rows, sizes)):
        if said is None:
            said = margins(rows, training, voters, sizes.output, run)
        seen.mark(training, said)
        weights = smooth_weights(said, t, float(sizes.threshold), float(sizes.decay))
        if sizes.fresh_rows:
            tossed = coins.uniforms("boost/coins", weights.size, t)
            weights = keep_some(weights, tossed, sizes.n_kept)
        n_kept = int(np.count_nonzero(weights))
        if n_kept < max(1, sizes.n_kept):  # the sampler came back with too few rows
            break
        sums = round_sums(rows, training, weights, plan.n_inputs, run)
        codes.append(space.encode_round(t, sums.mean(), shared))
        voters = np.vstack([voters, unit(space.decode_round(t, codes[-1], shared))])
        said = margins(rows, testing, voters, sizes.output, run)
        seen.mark(testing, said)
        statistic, doubt, finished = _test(said, t, plan, shared)
        rounds.append(Round(sums.mean(), sums.spread(), n_kept, statistic, doubt))
        if finished:
            break
        if sizes.fresh_rows:
            said = None
    return Boosting(
        codes=np.concatenate([np.empty(0, dtype=np.int64), *codes]),
        space=replace(space, n_rounds=len(codes)),
        rounds=tuple(rounds),
        finished=finished,
        n_used=seen.n_used,
        n_zero_rows=seen.n_zero_rows,
    )


class Seen:
    """Which rows were used so far, and which of them are zero."""

    def __init__(self, n_rows: int) -> None:
        self._used = np.zeros(n_rows, dtype=bool)
        self._zero = np.zeros(n_rows, dtype=bool)

    def mark(self, members: Order, said: Vector) -> None:
        """Rows that were looked at, and what was said about them: NaN for rows of zeros."""
        self._used[members] = True
        self._zero[members] = np.isnan(said)

    @property
    def n_used(self) -> int:
        """Different rows that were used."""
        return int(self._used.sum())

    @property
    def n_zero_rows(self) -> int:
        """Different rows of zeros."""
        return int(self._zero.sum())


def _schedule(rows: Rows, sizes: BoostSizes) -> Iterator[tuple[Order, Order]]:
    """Rows for training and for testing of each round, as long as there are enough."""
    if not sizes.fresh_rows:
        yield from ((rows.order, rows.order) for _ in range(sizes.n_rounds))
        return
    n_rows, n_rounds = rows.order.size, sizes.n_rounds
    n_training, n_testing = sizes.n_training, sizes.n_testing
    if n_training == 0:  # from the data at hand
        n_rounds = max(1, min(n_rounds, n_rows // _MIN_ROUND_ROWS))
        n_training = max(1, n_rows // n_rounds * 3 // 4)
        n_testing = n_rows // n_rounds - n_training
    for t in range(n_rounds):
        start = t * (n_training + n_testing)
        middle, stop = start + n_training, start + n_training + n_testing
        if stop > n_rows:
            return
        yield rows.order[start:middle], rows.order[middle:stop]


def _test(said: Vector, t: int, plan: Plan, shared: SharedRandomness) -> tuple[float, float, bool]:
    """The replicable stopping test: the statistic, the doubt, and whether it was passed."""
    assert plan.boost is not None
    sizes = plan.boost
    there = said[~np.isnan(said)]
    if there.size == 0:
        return 1.0, 0.5, False
    if sizes.statistic == "density":
        values = smooth_weights(there, t + 1, float(sizes.threshold), float(sizes.decay))
    else:
        values = (there <= 0).astype(np.float64)
    total = int(np.rint(values * _QUANTUM).astype(np.int64).sum())
    mean = total / (_QUANTUM * there.size)
    # one threshold for all rounds when they share their rows: the statistics are nearly sorted
    row = t if sizes.fresh_rows else 0
    offset = float(shared.uniforms("boost/test", 1, row)[0])
    limit = 2 * plan.guarantee.max_error / 3
    wall = deciding_wall(limit, float(sizes.test_width), offset)
    variance = max(float(values.var()), 1 / there.size)  # of one value; never quite sure
    doubt = float(ndtr(-abs(mean - wall) / math.sqrt(2 * variance / there.size)))
    return mean, doubt, mean < wall
