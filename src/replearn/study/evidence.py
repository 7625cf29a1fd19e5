"""What a match proves, computed from a study's own numbers by whoever prints it.

*In guesses*: how many models somebody without any patient tries, the likeliest first, until the
study's own commitment tells them that they found it. *In rows*: how many rows of the same
population somebody needs to get the model half of the time by fitting it.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np

from replearn.codes import least_whole
from replearn.glm import GLM, GlmPlan, OwnSpread
from replearn.types import Vector
from replearn.words import Facts, Spoken

#: Below so many guesses, as a power of two, agreement is no evidence.
LEAST_BITS = 20.0
#: Guesses that are run one by one; more of them are counted.
_MOST_RUN = 1 << 14
#: Numbers that the count looks at; a guesser who knew all others would need as many guesses.
_MOST_COUNTED = 256
_MOST_BITS = 1000.0


def rows_to_match(plan: GlmPlan) -> int:
    """Rows at which a lab gets the model half of the time, if it lies in the middle of its cells.

    The original, with its own rows, is uncertain too.
    """
    middle = np.zeros(plan.widths.size)

    def matches_half(n_rows: int) -> bool:
        spread = OwnSpread(plan.sampling(n_rows), middle)
        return GLM.stability(plan, n_rows, spread).in_mode(plan.mode) <= 0.5

    return least_whole(matches_half)


def guess_bits(widths: Vector, offsets: Vector, numbers: Vector) -> float:
    """Guesses that find a model from its study alone, as a power of two.

    Parameters
    ----------
    widths : array
        Of the cells.
    offsets : array
        Where 0 lies, in cells: a code k stands for the number ``(k - offset) * width``.
    numbers : array
        The model's own, decoded.

    Notes
    -----
    The guesser knows cells and sketch, and how strong the model is as a whole: numbers are normal
    around 0 with the mean square that the model's have. Unknown is which columns matter, and in
    which direction. They try code vectors in the order of their probability.
    """
    if not numbers.size or not (scale := math.sqrt(float(np.mean(numbers**2)))):
        return 0.0

    # of many numbers those with the narrowest cells, which are the hardest to guess
    order = np.argsort(widths, kind="stable")[:_MOST_COUNTED]
    ladders, places = [], []
    for i in order.tolist():
        costs, place = _cell_costs(float(widths[i]) / scale, float(offsets[i]), numbers[i] / scale)
        ladders.append(costs)
        places.append(place)

    # few guesses are run one by one, many counted
    counted = _count_cheaper(ladders, places)
    if counted <= _MOST_RUN:
        return math.log2(_search(ladders, places))
    return min(math.log2(counted), _MOST_BITS)


def _cell_costs(width: float, offset: float, number: float) -> tuple[Vector, int]:
    """What cells cost, in nats beyond the likeliest one, cheapest first; and the true one's place.

    ``width`` and ``number`` are in units of the prior's standard deviation.
    """
    # centres of cells on a line on which the prior is standard normal
    nearest = round(offset)
    true_code = round(number / width + offset)
    reach = max(abs(true_code - nearest) + 2, math.ceil(6.0 / width) + 1)
    codes = np.arange(nearest - min(reach, 4096), nearest + min(reach, 4096) + 1)
    centres = (codes - offset) * width

    # minus logarithms of their probabilities
    ends = np.abs(centres)
    costs = -_log_mass(ends - width / 2, ends + width / 2)
    by_cost = np.argsort(costs, kind="stable")
    place = int(np.flatnonzero(codes[by_cost] == true_code)[0])
    return costs[by_cost] - costs[by_cost[0]], place


def _log_mass(low: Vector, high: Vector) -> Vector:
    """Logarithm of the standard normal mass between two ends."""
    from scipy.special import log_ndtr

    upper, lower = log_ndtr(-low), log_ndtr(-high)
    return upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-16)))


def _count_cheaper(ladders: list[Vector], places: list[int]) -> float:
    """How many code vectors are at least as likely as the true one, from a histogram of costs."""
    budget = sum(float(costs[place]) for costs, place in zip(ladders, places, strict=True))

    # a histogram of sums of costs: one convolution for each ladder
    step = max(budget / 2048, 1e-6)
    n_bins = int(budget / step) + 1

    counts = np.zeros(n_bins)
    counts[0] = 1.0
    log_scale = 0.0
    for costs in ladders:
        bins = np.bincount((costs[costs <= budget] / step).astype(np.int64), minlength=1)
        counts = np.convolve(counts, bins)[:n_bins]
        top = float(counts.max())
        counts, log_scale = counts / top, log_scale + math.log(top)
    log_count = log_scale + math.log(float(counts.sum()))
    return math.exp(min(log_count, _MOST_BITS * math.log(2)))


def _search(ladders: list[Vector], places: list[int]) -> int:
    """Guesses until the true code vector, by best-first search over the cells.

    Ladders are in the order of their first step. A state is a set of raised ladders; each vector is
    reached once: raise the last one further, raise the next one too, or move on from a first step.
    """
    is_long = [costs.size > 1 for costs in ladders]

    # ladders of one step have nothing to raise
    chosen = sorted(
        (i for i, long in enumerate(is_long) if long), key=lambda i: float(ladders[i][1])
    )
    steps = [ladders[i] for i in chosen]
    true = {k: places[i] for k, i in enumerate(chosen) if places[i]}
    heap: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
    n_guesses = 0
    while heap:
        cost, raised = heapq.heappop(heap)
        n_guesses += 1
        if dict(raised) == true or n_guesses >= 4 * _MOST_RUN:
            return n_guesses

        # raise the last ladder further, or raise the next one as well
        last, rank = raised[-1] if raised else (-1, 0)
        before = raised[:-1]
        if raised and rank + 1 < steps[last].size:
            further = cost - float(steps[last][rank]) + float(steps[last][rank + 1])
            heapq.heappush(heap, (further, (*before, (last, rank + 1))))
        if last + 1 < len(steps):
            first = float(steps[last + 1][1])
            heapq.heappush(heap, (cost + first, (*raised, (last + 1, 1))))
            if rank == 1:
                moved = cost - float(steps[last][1]) + first
                heapq.heappush(heap, (moved, (*before, (last + 1, 1))))
    return n_guesses


@dataclass(frozen=True)
class Evidence(Spoken):
    """What a match proves.

    Attributes
    ----------
    rows : int
        That an honest lab needs, to get the model half of the time.
    bits : float
        Guesses that find the model from the study file alone, as a power of two.
    is_open : bool
        Whether the study tells a guesser when they have found it; a sealed one does not.
    placebo : bool
        Whether the lab's own rows give the model with permuted labels, too.

    See Also
    --------
    replearn.study.GlmReplication : its ``evidence`` is one.
    compare : states it for models of several labs.

    Notes
    -----
    A guesser who has the study and no rows tries models in the order of their likelihood. Few
    guesses are counted one by one, by best-first search; many are estimated from a histogram.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> other = rl.datasets.load_readmission("Birchwood", 1000)
    >>> target = other.pop("readmitted")
    >>> second = rl.ReplicableLogisticClassifier(study=first.study_).fit(other, target)
    >>> found = second.replication_.evidence
    >>> found.is_weak, found.is_open, found.placebo
    (True, True, False)
    >>> print(found)
    A match is no evidence: the study gives the model away ...
    """

    rows: int
    bits: float
    is_open: bool = True
    placebo: bool = False

    @property
    def is_weak(self) -> bool:
        """Whether agreement alone is no evidence."""
        return self.placebo or self.bits < LEAST_BITS

    @property
    def guesses(self) -> str:
        """How many, in words."""
        return f"{_two_digits(2**self.bits)}" if self.bits < 30 else f"2^{self.bits:.0f}"

    def facts(self) -> Facts:
        """In a sentence."""
        return Facts(self.words())

    def words(self) -> str:
        """In a sentence."""
        if self.placebo:
            return (
                "A match is no evidence: your rows give this model with permuted labels, too. "
                "Whatever the outcomes are, a lab matches."
            )
        if self.is_weak:
            tries = f"in about {self.guesses} guesses"
            if self.guesses == "1":
                tries = "at the first guess"
            return f"A match is no evidence: the study gives the model away {tries}."
        return (
            f"Guessing this model from the study file takes about {self.guesses} tries; fitting "
            f"it takes about {_two_digits(self.rows)} patients."
        )


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.1e}'):,.0f}"
