"""What happened in the batches: counts and sums that can be merged in any order."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import njit
from replearn.kernels.exact import fixed_mean, split_fixed


class TallyArrays(NamedTuple):
    """What the kernels count, in arrays: merged by ``merge_tallies``, read by ``read_tally``."""

    counts: NDArray[np.int64]
    extremes: NDArray[np.float64]


# places in `counts`; the last three are pairs of limbs
BATCHES, UNCONVERGED, INFEASIBLE_BATCHES, SHORTENED, ZERO_ROWS, VISITS, PAIRS = range(7)
_NORM, _PAIR, _PAIR_SQUARE, _N_COUNTS = 7, 9, 11, 13
# these bring the summands below 4, given vectors no longer than 8
_NORM_UNIT, _PAIR_UNIT, _PAIR_SQUARE_UNIT = 2.0**4, 2.0**6, 2.0**14
# places in `extremes`
WORST_GAP, WORST_RELATIVE_GAP, MARGIN_BOUND = range(3)


@dataclass(frozen=True)
class Tally:
    """What happened in the batches, by name.

    Attributes
    ----------
    n_batches, n_unconverged, n_infeasible, n_shortened : int
        Batches in all; stopped by ``max_sweeps``; proved to have no margin ``floor_margin``;
        with a vector shortened to the length cap.
    n_zero_rows : int
        All-zero rows, which have no direction and were skipped.
    n_row_visits : int
        Dot products with a row: the cost.
    n_pairs : int
        Disjoint pairs of neighbouring batches (2k, 2k + 1).
    worst_gap, worst_relative_gap : float
        Soft: largest duality gap, and largest ratio of it to ``||u||^2 / 2``. Hard: largest
        distance of a margin from its upper bound, and largest ``1 - certified share``.
        Infeasible batches are left out. 0 if there were none.
    margin_bound : float
        Smallest proved upper bound of a batch's margin; inf if there were none.
    squared_norm_sum : float
        Sum of ``||w||^2`` over the batches.
    pair_sum, pair_square_sum : float
        Sums of ``||w - w'||^2`` and of its square over the pairs.
    """

    n_batches: int
    n_unconverged: int
    n_infeasible: int
    n_shortened: int
    n_zero_rows: int
    n_row_visits: int
    n_pairs: int
    worst_gap: float
    worst_relative_gap: float
    margin_bound: float
    squared_norm_sum: float
    pair_sum: float
    pair_square_sum: float


def new_tally() -> TallyArrays:
    """A tally of nothing."""
    return TallyArrays(np.zeros(_N_COUNTS, np.int64), np.array([0.0, 0.0, math.inf]))


def merge_tallies(one: TallyArrays, other: TallyArrays) -> TallyArrays:
    """The tally of both runs; order and grouping do not matter."""
    worst = np.maximum(one.extremes, other.extremes)
    worst[MARGIN_BOUND] = min(one.extremes[MARGIN_BOUND], other.extremes[MARGIN_BOUND])
    return TallyArrays(one.counts + other.counts, worst)


def is_possible(arrays: TallyArrays) -> bool:
    """Whether this can be counted of fewer than 2^30 batches: squares are never negative."""
    counts, extremes = arrays
    n_batches, n_pairs, limbs = counts[BATCHES], counts[PAIRS], counts[_NORM:]
    if not 0 <= 2 * n_pairs <= n_batches < 1 << 30 or (counts[:PAIRS] < 0).any():
        return False
    if not (extremes >= 0).all() or not np.isfinite(extremes[:MARGIN_BOUND]).all():
        return False
    most = n_batches << 32  # summands are below 4
    if not ((-most <= limbs) & (limbs <= most)).all():
        return False
    tally = read_tally(arrays)
    return (
        0 <= tally.squared_norm_sum <= n_batches * 64 * (1 + 1e-9)
        and 0 <= tally.pair_sum <= n_pairs * 256 * (1 + 1e-9)
        and 0 <= tally.pair_square_sum <= n_pairs * 256**2 * (1 + 1e-9)
    )


def read_tally(arrays: TallyArrays) -> Tally:
    """The tally by name."""
    counts, extremes = arrays
    sums = [
        float(fixed_mean(counts[place : place + 1], counts[place + 1 : place + 2], 1)[0]) * unit
        for place, unit in (
            (_NORM, _NORM_UNIT),
            (_PAIR, _PAIR_UNIT),
            (_PAIR_SQUARE, _PAIR_SQUARE_UNIT),
        )
    ]
    return Tally(*map(int, counts[: PAIRS + 1]), *map(float, extremes), *sums)


@njit(cache=True, nogil=True)
def count_norm(square, counts):
    """Count the squared length of a batch vector, at most 64."""
    _count_exactly(counts, _NORM, square / _NORM_UNIT)


@njit(cache=True, nogil=True)
def count_pair(distance, counts):
    """Count the squared distance of a pair of batch vectors, at most 256."""
    counts[PAIRS] += 1
    _count_exactly(counts, _PAIR, distance / _PAIR_UNIT)
    _count_exactly(counts, _PAIR_SQUARE, distance * distance / _PAIR_SQUARE_UNIT)


@njit(cache=True, nogil=True)
def _count_exactly(counts, place, value):
    hi, lo = split_fixed(value)
    counts[place] += np.int64(hi)
    counts[place + 1] += np.int64(lo)
