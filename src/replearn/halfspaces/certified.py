"""Certified plans of Algorithms 1 and 2: a promise is divided among the steps of their proofs.

Each division makes a plan, and the search takes the one with the fewest rows. What a step costs is
in `replearn.halfspaces.turned_signs` (projection and rounding), in `replearn.halfspaces.rounded`
(agreement), and in each algorithm's own file (a batch).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from replearn.codes import Bound, Promise, Sizes, common, least_whole, rows_for
from replearn.errors import ReplearnError
from replearn.halfspaces.rounded import MAX_REFUSED, BatchPlan, variance_allowed
from replearn.halfspaces.turned_signs import Turned, proved_space, proved_spaces

#: With a sketch: what is left of the margin for the rounding, at least. Less would save rows and
#: take ever more components, each of which has bits in the study.
_LEAST_SKETCHED = 0.5

#: How a promise is divided among the steps of a proof: each share in hundredths, by name. "before"
#: is the share of the error that a mean may have before it is rounded, "slack" and "shift" what
#: the expected vector and a lab's mean may lose of the margin (s and t), "tail" the share of the
#: failure probability that goes to the rounding. Without a shift Markov's inequality takes the
#: place of Bernstein's. An algorithm may add a share of its own.
Split = dict[str, int]
_RANGES = {"before": (5, 98), "slack": (2, 95), "shift": (1, 90), "tail": (5, 99)}
_MARKOV = {"shift": (0, 0), "tail": (100, 100)}
#: Where searches start: the number of rows has several valleys.
_STARTS: tuple[Split, ...] = (
    {"before": 88, "slack": 32, "shift": 6, "tail": 98},
    {"before": 40, "slack": 20, "shift": 30, "tail": 50},
    {"before": 80, "slack": 40, "shift": 0, "tail": 100},
)


@dataclass(frozen=True)
class Proof:
    """What an algorithm proves about its batches."""

    # ``batch(before, slack, split)``: fields of a plan whose expected batch vector has a margin
    # below ``(1 - slack) margin`` on at most ``before`` of the population
    batch: Callable[[float, float, Split], dict[str, Any]]
    variance: Callable[[BatchPlan], float]  # of a batch vector of a plan, at most
    stability: Callable[[BatchPlan, int, None], Bound]  # of the recipe
    # least, largest and first value of a share that only this algorithm has
    own: Mapping[str, tuple[int, int, int]]


def certified_plan(
    recipe: str, promise: Promise, n_inputs: int, given: Sizes, proof: Proof
) -> BatchPlan:
    """The plan with the fewest rows that is found, over code spaces and splits of the promise.

    With bits an original may test its model on rows of its own before it publishes; then the model
    need be good in most cases only.
    """
    plain = _least_plan(recipe, promise, n_inputs, given, proof)
    if not given.sketch_bits:
        return plain

    held_out, easier = _held_out(promise, plain.n_rows)
    tested = _least_plan(recipe, easier, n_inputs, given, proof)
    tested = replace(tested, promise=promise, n_rows=tested.n_rows + held_out["n_held_out"])

    return min(plain, replace(tested, **held_out), key=lambda plan: plan.n_rows)


#: Refusals of a good model by bad luck with the test, as a share of all; the others are of models
#: that are worse than they should be. So few need the fewest rows, nearly.
_UNLUCKY = 0.1


def _held_out(promise: Promise, n_plain: int) -> tuple[dict[str, Any], Promise]:
    """Rows of the test and errors that pass; and the promise for the model before the test.

    A model with an error of max_error passes with probability ``failure_prob (1 - MAX_REFUSED)`` at
    most, whatever the population: a binomial tail. So one that was published is bad with
    probability ``failure_prob`` at most. A model with the error of the easier promise passes but
    for the share of `MAX_REFUSED` that is bad luck.
    """
    from scipy.special import bdtri

    unlucky = _UNLUCKY * MAX_REFUSED
    worse = MAX_REFUSED - unlucky
    options = []
    n = 64
    while n < n_plain:
        allowed = _most_errors(n, promise)
        if allowed >= 0:
            good = float(bdtri(allowed, n, 1 - unlucky))  # passes with that probability
            ratio = promise.max_error * promise.failure_prob / (good * worse)
            options.append((n_plain * ratio + n, n, allowed, good))

        n = math.ceil(1.1 * n)

    if not options:
        return {"n_held_out": 0, "n_allowed": 0}, promise

    _, n, allowed, good = min(options)
    easier = replace(promise, max_error=good, failure_prob=worse)

    return {"n_held_out": n, "n_allowed": allowed}, easier


def _most_errors(n_rows: int, promise: Promise) -> int:
    """The most errors on rows held out that are unlikely for a bad model; -1 if there are none."""
    from scipy.special import bdtr

    passing = promise.failure_prob * (1 - MAX_REFUSED)

    def is_likely(n_errors: int) -> bool:
        is_usual = n_errors >= n_rows * promise.max_error
        return is_usual or bdtr(n_errors, n_rows, promise.max_error) > passing

    return least_whole(is_likely, least=0) - 1


def _least_plan(
    recipe: str, promise: Promise, n_inputs: int, given: Sizes, proof: Proof
) -> BatchPlan:
    fixed = common(recipe, promise, n_inputs, "certified", given)
    ranges = _RANGES | {name: limits[:2] for name, limits in proof.own.items()}
    first, plans = {name: limits[2] for name, limits in proof.own.items()}, []
    for space in proved_spaces(given, n_inputs):
        plan_of = partial(_split_plan, fixed, given, space, proof)
        # each valley is searched from a start of its own
        for start in _STARTS:
            limits = ranges if start["shift"] else ranges | _MARKOV
            plans.append(best_split(plan_of, start | first, limits))

    best = min(plans, key=lambda plan: plan.n_rows)
    for name in ("n_batches", "batch_size"):
        by_hand, least = given.get(name), getattr(best, name)
        if by_hand is not None and by_hand < least:
            raise ReplearnError(
                f"{name} must be at least {least:,} in certified mode, got {by_hand:,}. Leave it "
                'out, relax the promise, or use mode="practical".'
            )

    return replace(
        best,
        batch_size=int(given.get("batch_size", best.batch_size)),
        n_batches=int(given.get("n_batches", best.n_batches)),
    )


def _split_plan(
    fixed: dict[str, Any],
    given: Sizes,
    space: tuple[str, str],
    proof: Proof,
    split: Split,
    most: int = 0,
) -> BatchPlan:
    """The plan of one split of the proof; with more rows than ``most`` it is any such plan."""
    promise, bits = fixed["promise"], given.sketch_bits
    margin, n_inputs = promise.margin, fixed["n_inputs"]
    share, slack, shift, tail = (split[name] / 100 for name in _RANGES)
    before, after = share * promise.max_error, (1 - share) * promise.max_error
    after *= promise.failure_prob
    left, needed = 1 - slack - shift, _LEAST_SKETCHED if bits else 0.01
    if left < needed:  # a plan that nobody would take
        slack, shift, left = 1e-3, min(shift, 1e-3), needed

    if shift:  # a row keeps the sign of its mean margin, but for ``shift`` and for rare seeds
        hinge = slack * before
        k, width = _cake_space(
            space, margin, left, slack, shift, tail * after, hinge, n_inputs, bits
        )
        batch = proof.batch(before, slack, split)
    else:  # both parts of the error are small in expectation, and Markov pays
        k, width = proved_space(*space, left * margin, after, n_inputs, bits)
        turned = Turned.of(space, n_inputs, k, width, bits)
        _, price = turned.cake(margin, 0.0, slack, 1.0)
        batch = proof.batch(before * promise.failure_prob / max(1.0, price), 1.0, split)

    plan = BatchPlan(
        **fixed,
        **batch,
        projection=space[0],
        n_components=k,
        rounding=space[1],
        grid_width=width,
        sketch_bits=bits,
    )
    least = 1
    if shift:
        variance = min(1.0, proof.variance(plan))
        least = _batches_within(plan, shift * margin, variance, (1 - tail) * after)

    free = replace(plan, by_hand=())  # the number of batches is what is searched
    n_rows = rows_for(proof.stability, free, plan.batch_size, least, most)

    return replace(plan, n_batches=n_rows // plan.batch_size, n_rows=n_rows)


def _batches_within(plan: BatchPlan, t: float, variance: float, failure: float) -> int:
    """Batches whose mean is within t of the expected vector on each row: Bernstein."""
    log = math.log(1 / failure)
    least = math.ceil(log / t**2 * (2 * variance + 4 * t / 3))
    if not plan.looks:
        return least

    # what a lab that gives a model has seen
    used = log * 2 * variance_allowed(plan, 1) / t**2
    if used >= 1:
        return least
    return min(least, math.ceil(log * 4 / (3 * t) / (1 - used)))


def _cake_space(
    space: tuple[str, str],
    margin: float,
    left: float,
    slack: float,
    shift: float,
    allowed: float,
    hinge: float,
    n_inputs: int,
    bits: int,
) -> tuple[int, str]:
    """Components and width for which rows with hinge losses up to the slack are rarely turned.

    The expected vector has a mean hinge loss of ``hinge``, so few rows are near the slack: these
    may be turned more often than ``allowed``, up to 64 times.
    """

    def space_for(half_doublings: int) -> tuple[int, str]:
        chance = min(0.4, allowed * 2 ** (half_doublings / 2))
        return proved_space(*space, left * margin, chance, n_inputs, bits)

    # 0 is proved without a cake, and each of the others by its own
    best, low, high = space_for(0), 0, 13
    while high - low > 1:
        middle = (low + high) // 2
        k, width = space_for(middle)
        turned = Turned.of(space, n_inputs, k, width, bits)
        first, price = turned.cake(margin, shift * margin, slack / 8, slack)
        if first + price * hinge <= allowed:
            best, low = (k, width), middle
        else:
            high = middle

    return best


def best_split(
    plan_of: Callable[..., BatchPlan], start: Split, ranges: dict[str, tuple[int, int]]
) -> BatchPlan:
    """The plan with the fewest rows among neighbours of a split, and theirs, until none is better.

    In a neighbour one share is different, or what "slack" gives up "shift" takes.
    """
    split, best = start, plan_of(start)
    tried = {tuple(start.items())}  # none of them had fewer rows than the best, which only falls
    # a coarse step first: plans take long
    for step in (16, 8, 4, 2, 1):
        better = True
        while better:
            better = False
            moves = [{name: sign * step} for name in ranges for sign in (-1, 1)]
            moves += [{"slack": sign * step, "shift": -sign * step} for sign in (-1, 1)]
            for move in moves:
                other = split | {name: split[name] + change for name, change in move.items()}
                is_allowed = all(low <= other[name] <= high for name, (low, high) in ranges.items())
                if not is_allowed or tuple(other.items()) in tried:
                    continue

                tried.add(tuple(other.items()))
                plan = plan_of(other, best.n_rows)
                if plan.n_rows < best.n_rows:
                    split, best, better = other, plan, True
                    break

    return best
