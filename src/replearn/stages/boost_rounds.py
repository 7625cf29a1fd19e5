"""Smooth boosting of rounded means [ILPS22, Servedio03]: rounds, weights, tests, and the vote.

Each round rounds the weighted mean of ``y x`` to an integer code in the original space; the
classifier is the list of all rounds' codes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from replearn.codes.boost_space import BoostSpace, total_vote
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import unit
from replearn.kernels import boost_weights as kernel
from replearn.kernels.exact import fixed_mean
from replearn.kernels.rows import open_rows
from replearn.plans.sizes import BoostPlan, BoostSizes, Spent
from replearn.stages.batches import Rows
from replearn.stages.means import deciding_wall
from replearn.types import BlockMap, Codes, IntegerArray, Matrix, Order, Vector

_BLOCK_ROWS = 1 << 15

#: Groups of a round's rows whose means are kept apart, so that their spread can be used.
_GROUPS = 32

#: Rounds that share the data at hand get at least this many rows.
_MIN_ROUND_ROWS = 8

#: Shares of rows are added up in these units, so that order cannot matter.
_QUANTUM = 2.0**30


# --- the sums of one round ------------------------------------------------------------------


@dataclass(frozen=True)
class RoundSums:
    """Exact sums of a round's weighted ``y x`` by group; the last column sums the weights."""

    hi: IntegerArray
    lo: IntegerArray

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
        part = open_rows(rows.X, members[block])
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
    directions = voters if as_signs else total_vote(voters)[None, :]

    def work(block: slice) -> Vector:
        out = np.empty(members[block].size)
        part = open_rows(rows.X, members[block])
        kernel.fill_margins(part, rows.signs, directions, as_signs, bias, out)
        return out

    return np.concatenate([np.empty(0), *run(work, _blocks(members.size))])


def smooth_weights(margins: Vector, n_rounds: int, threshold: float, decay: float) -> Vector:
    """SmoothBoost's measure after ``n_rounds`` rounds: small on rows with a large margin.

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


def _blocks(n_rows: int) -> Iterator[slice]:
    for first in range(0, n_rows, _BLOCK_ROWS):
        yield slice(first, min(first + _BLOCK_ROWS, n_rows))


# --- the rounds -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """What happened in a round.

    ``mean`` was rounded, ``n_kept`` rows have a weight that is not 0. ``statistic`` is the mean
    that the test looked at: the weights after this round, or the errors of the vote; ``doubt`` the
    estimated probability that another lab's test ends otherwise. For the spread see
    `RoundSums.spread`.
    """

    mean: Vector
    spread: Matrix
    n_kept: int
    statistic: float
    doubt: float


@dataclass(frozen=True)
class Boosted:
    """What boosting hands back: the rounds that were done, and their codes."""

    codes: Codes
    space: BoostSpace
    rounds: tuple[Round, ...]
    spent: Spent
    residual: None = None


def boost(
    rows: Rows,
    plan: BoostPlan,
    shared: SharedRandomness,
    run: BlockMap = map,
    coins: SharedRandomness | None = None,
) -> Boosted:
    """ILPS22: rounds of a rounded weighted mean each, until a replicable test is passed.

    Reads the shared streams "boost/{round}/...", and "boost/test". ``coins``, of the rejection
    sampler ("boost/coins"), are part of the sample: private, or the shared ones. The same codes for
    every ``run``.

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
    sizes = plan.boost
    if sizes.fresh_rows:  # a mean of all does not mind the order
        rows.refuse_sorted(1)
    space = BoostSpace(plan.n_inputs, plan.rounding, plan.grid_width, 0, sizes.output)
    voters = np.empty((0, plan.n_inputs))
    codes: list[Codes] = []
    rounds: list[Round] = []
    used, zero = np.zeros((2, rows.signs.size), dtype=bool)
    finished = False

    def margins_of(members: Order) -> Vector:
        found = margins(rows, members, voters, sizes.output, run)
        used[members], zero[members] = True, np.isnan(found)
        return found

    row_margins: Vector | None = None  # about the rows of the next round, when all take the same
    for t, (training, testing) in enumerate(_schedule(rows, sizes)):
        if row_margins is None:
            row_margins = margins_of(training)
        weights = smooth_weights(row_margins, t, float(sizes.threshold), float(sizes.decay))
        if sizes.fresh_rows:
            tossed = (coins or shared).uniforms("boost/coins", weights.size, t)
            weights = keep_some(weights, tossed, sizes.n_kept)
        n_kept = int(np.count_nonzero(weights))
        if n_kept < max(1, sizes.n_kept):  # the sampler came back with too few rows
            break
        sums = round_sums(rows, training, weights, plan.n_inputs, run)
        codes.append(space.encode_round(t, sums.mean(), shared))
        voters = np.vstack([voters, unit(space.decode_round(t, codes[-1], shared))])
        row_margins = margins_of(testing)
        statistic, doubt, finished = _test(row_margins, t, plan, shared)
        rounds.append(Round(sums.mean(), sums.spread(), n_kept, statistic, doubt))
        if finished:
            break
        if sizes.fresh_rows:
            row_margins = None
    spent = Spent(
        n_rows=used.size,
        n_batches=len(rounds),
        n_dropped=used.size - int(used.sum()),
        n_zero_rows=int(zero.sum()),
        below=finished,
    )
    every = np.concatenate([np.empty(0, dtype=np.int64), *codes])
    return Boosted(every, replace(space, n_rounds=len(codes)), tuple(rounds), spent)


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


def _test(
    row_margins: Vector, t: int, plan: BoostPlan, shared: SharedRandomness
) -> tuple[float, float, bool]:
    """The replicable stopping test: the statistic, the doubt, and whether it was passed."""
    sizes = plan.boost
    there = row_margins[~np.isnan(row_margins)]
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
