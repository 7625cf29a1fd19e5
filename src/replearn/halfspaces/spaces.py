"""Where the mean of Algorithms 1 and 2 is rounded: projection, components and cells of each mode.

Paper mode has a Gaussian map and AKround, practical mode what flips least at a noise that the error
allows. Certified mode asks that the sign of a margin m survives but with probability p.

*Theorem (Gaussian map).* Let z have length at most 1, x length 1, ``<z, x> >= m > 0``. Let A have k
rows, and let the rounding error e of A z have the variance proxy ``1/k`` for each component. Then
``P[<A z + e, A x> <= 0]`` is at most ``(1 - m^2/2)^(k/2)``, and at most `sign_lost`, which for
``m <= 1/2`` and ``k m^2 >= 12`` is

    ``(1 - m^2/2)^((k-1)/2) (2 - m^2) / (m sqrt(pi (1 - m^2) (2 k - 3)))``.

*Proof.* Let ``g = sqrt(k) A x`` and ``q = |z|^2 - <z, x>^2``, which is at most ``1 - m^2``. Then k
times the score is at least a sum of k independent ``X = (m g + sqrt(q) h + e) g``: g and h normal,
e with proxy 1. The modulus of a mean is at most the mean of the modulus. So, given g,
``|E exp((-t + i u) X)|`` is at most ``exp(g^2 (-t m + (t^2 - u^2) q/2 + t^2/2))``, and without that
at most ``(D + q u^2)^(-1/2)`` with ``D = 1 + 2 t m - t^2 (1 + q)``. Let ``t = m / (1 + q)``.
Chernoff's bound is ``D^(-k/2) = (1 + m^2/(1 + q))^(-k/2)``. Better: by Fourier inversion the
density f of the sum has ``exp(-t s) f(s) <= integral (D + q u^2)^(-k/2) du / (2 pi)``, and the
probability of s < 0 is at most ``sup exp(-t s) f(s) / t``. The integral is
``D^(-(k-1)/2) sqrt(pi / q)`` times ``Gamma((k-1)/2) / Gamma(k/2) <= 2 / sqrt(2 k - 3)`` [Watson59].
We do not know q. Chernoff's bound grows with q. The other one first falls and then grows: its
logarithmic derivative changes its sign once below 1. So for every q0 their minimum is at most the
largest of Chernoff's at q0 and of the other one at q0 and at ``1 - m^2``. The result is Student's
tail but for a factor of 1.4 to 3: the projection makes the density smooth, and the rounding does
not take part in that.

*Theorem (rotation).* With a Haar rotation R of n inputs there is only the rounding error w r, r
uniform in the cells. Its part along R x is ``w |r|`` times a coordinate of a random unit vector,
which exceeds c with probability at most ``(1 - c^2)_+^((n-1)/2) / (c sqrt(2 pi (n-1)))``. As a
function of ``|r|^2`` this is convex while ``(w |r| / m)^2 <= sqrt(2 N (N + 1)) - N``, N = n - 2.
The ``|r|^2`` of a block is at most the squared covering radius, and its mean is known: the worst
law has the two points 0 and the largest.

Tested in tests/theory/test_projection.py.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from statistics import NormalDist
from typing import Any

import numpy as np

from replearn.codes import (
    CELLS,
    CUBES,
    FULL,
    Bound,
    Promise,
    Sizes,
    check_components,
    check_rounding,
    common,
    isotropic_flips,
    rows_for,
    runs,
    second_moment,
)
from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.halfspaces.rounded import BatchPlan, variance_allowed
from replearn.types import Vector

#: Sizes of both algorithms that can be set by hand.
BY_HAND = {
    "n_batches": "batches of all rows",
    "batch_size": "rows of a batch",
    "n_components": "components of the projection",
    "grid_width": "side of a cell",
    "projection": "none, hadamard, rotation or gaussian",
    "rounding": "ak, centre, e8, leech, or several joined by +",
    "regularization": "weight of |u|^2 / 2",
}

#: Fewest components of a projection that is not set by hand: its noise must average out.
_FEWEST = 48

#: With a sketch all inputs are kept up to this number: the file has bits for each.
_MAX_SKETCHED = 4096


def only_in_paper_mode(mode: str, given: Sizes, names: tuple[str, ...]) -> None:
    """Refuse sizes that other modes do not have."""
    for name in names:
        if mode != "paper" and given.get(name) is not None:
            raise ReplearnError(
                f'{name} belongs to mode="paper", got mode={mode!r}. Leave it out, or choose paper '
                "mode."
            )


def with_rows(plan: BatchPlan, stability: Callable[[BatchPlan, int, None], Bound]) -> BatchPlan:
    """A plan with its rows; batches that are not planned are those that the bound needs."""
    n_batches = plan.n_batches or rows_for(stability, plan, plan.batch_size) // plan.batch_size
    n_rows = n_batches * plan.batch_size + plan.n_held_out
    return replace(plan, n_batches=n_batches, n_rows=n_rows)


def by_hand_text(sizes: Sizes, name: str, planned: float) -> str:
    """A real as text: the user's number in six digits, a planned one in three."""
    given = sizes.get(name)
    return decimal_text(planned) if given is None else decimal_text(float(given), 6)


def paper_space(n_inputs: int, sizes: Sizes, n_components: int, width: float) -> dict[str, Any]:
    """Gaussian projection and AKround, as printed; each may be set by hand."""
    if sizes.sketch_bits:
        raise ReplearnError(
            f'sketch_bits must be 0 in mode="paper", got {sizes.sketch_bits}. Leave them out, or '
            'use mode="practical" or "certified".'
        )

    check_rounding(sizes.get("rounding", "centre"))
    projection = sizes.get("projection", "gaussian")
    k = _components_of(projection, int(sizes.get("n_components", n_components)), n_inputs)
    check_components(projection, k, n_inputs)

    return {
        "projection": projection,
        "n_components": k,
        "rounding": sizes.get("rounding", "ak"),
        "grid_width": by_hand_text(sizes, "grid_width", width),
    }


def _components_of(projection: str, n_components: int, n_inputs: int) -> int:
    """Components of a map: all inputs of a full one, and no more of orthonormal rows."""
    if projection in FULL:
        return n_inputs
    if projection == "hadamard":
        return min(n_components, n_inputs)
    return n_components


# --- practical ------------------------------------------------------------------------------------


#: How often a seed may turn the sign of a row at the margin.
_RARELY = 0.02


def noise_of(margin: float, max_error: float, share: float) -> float:
    """Practical mode: noise in units of ``margin * u`` that costs a share of ``max_error``.

    Regularisation of the order ``max_error margin^2`` makes the functional margin 1 at least on
    nearly all rows of a population with that margin. So noise of standard deviation ``1/z`` costs
    ``share max_error`` at most, with z the normal quantile of ``1 - share max_error``.

    That is a mean over seeds. Under one seed the errors of rows go together, above all in few
    dimensions, and those by the coefficient of a constant, which all rows share. So the quantile is
    at least that of 2%: seeds that spoil a model are rare, even if max_error is large.
    """
    return margin / NormalDist().inv_cdf(1 - min(share * max_error, _RARELY))


def practical_space(n_inputs: int, noise: float, sizes: Sizes, squared: float) -> dict[str, Any]:
    """The code space with the fewest flips at the given noise.

    ``squared`` is the squared length of the mean vector that is expected; it is proved to be at
    most 1.
    """
    if sizes.sketch_bits:
        return _sketched_space(n_inputs, noise, sizes, squared)

    k = int(sizes.get("n_components", n_inputs))
    names = ["none", "hadamard"]
    if k < n_inputs:
        names = ["hadamard"]
    if k > n_inputs:
        names = ["gaussian"]
    if sizes.get("projection"):
        names = [sizes.get("projection")]

    check_rounding(sizes.get("rounding", "centre"))
    cells = ["leech", "e8", "centre"]
    if sizes.get("rounding"):
        cells = [sizes.get("rounding")]

    # the fewest flips of all
    options = []
    for projection in names:
        for rounding in cells:
            k, left = _noise_split(projection, rounding, n_inputs, noise, sizes, squared)
            width = float(sizes.get("grid_width", left / math.sqrt(second_moment(rounding, k))))
            options.append((isotropic_flips(rounding, k) / width, projection, rounding, k, width))

    _, projection, rounding, k, width = min(options)
    return {
        "projection": projection,
        "n_components": k,
        "rounding": rounding,
        "grid_width": by_hand_text(sizes, "grid_width", width),
    }


def _sketched_space(n_inputs: int, noise: float, sizes: Sizes, squared: float) -> dict[str, Any]:
    """Cubes behind a mixing map; their width is chosen by the rows of the original."""
    if sizes.get("rounding", "centre") != "centre" or sizes.get("grid_width"):
        raise ReplearnError(
            "sketch_bits need cubes whose width is planned, got rounding or grid_width by hand. "
            "Leave them out."
        )

    projection = sizes.get("projection", "hadamard")
    k = n_inputs
    if projection not in FULL and (n_inputs > _MAX_SKETCHED or sizes.get("n_components")):
        k, _ = _noise_split(projection, "centre", n_inputs, noise, sizes, squared)

    check_components(projection, k, n_inputs)
    return {"projection": projection, "n_components": k, "rounding": "centre", "grid_width": ""}


def _noise_split(
    projection: str, rounding: str, n_inputs: int, noise: float, sizes: Sizes, squared: float
) -> tuple[int, float]:
    """Components, and the noise left for the rounding.

    A projection to k components adds variance |z|^2/k (independent entries) or |z|^2 (1/k - 1/d)
    (orthonormal rows). Flips grow like sqrt(k) over the rounding noise; they are fewest when
    |z|^2/k takes half of noise^2, plus |z|^2/d for orthonormal rows.
    """
    orthonormal = projection != "gaussian"
    budget = noise**2
    if orthonormal:
        budget += squared / n_inputs
    given = sizes.get("n_components")
    k = int(given) if given else max(_FEWEST, math.ceil(2 * squared / budget))
    if not given:
        block = CELLS[rounding.split("+")[-1]].block
        k = -(-k // block) * block
        k = _components_of(projection, k, n_inputs)

    check_components(projection, k, n_inputs)
    left = budget - squared / k
    if not (orthonormal and k == n_inputs):
        left = max(left, budget / 2)  # too few, set by hand, leave nothing: half, and more error

    return k, math.sqrt(left)


# --- certified ------------------------------------------------------------------------------------

#: Squared covering radius of the unit cell, and mean squared length of a place in it (Leech: our
#: measurement plus five standard errors).
_LATTICES = {
    "leech": (2.0, 24 * 0.06576),
    "e8": (1.0, 8 * 929 / 12960),
    "centre": (1 / 4, 1 / 12),
    "ak": (1.0, 1 / 6),
}
_MAX_ROTATED = 1024  # beyond that a rotation takes long, and so does its plan
_ROUNDINGS = ("centre", "leech", "e8", "leech+centre", "e8+centre", "leech+e8+centre")

#: With a sketch: what is left of the margin for the rounding, at least. Less would save rows and
#: take ever more components, each of which has bits in the study.
_LEAST_SKETCHED = 0.5


def proved_spaces(sizes: Sizes, n_inputs: int) -> list[tuple[str, str]]:
    """Projections and roundings of a certified plan; refuses sizes that break its proof."""
    for name in ("n_components", "grid_width", "regularization"):
        if sizes.get(name) is not None:
            raise ReplearnError(
                f"{name} must be left out in certified mode, got {sizes.get(name)!r}: the proof "
                'derives it. Or use mode="practical".'
            )

    check_rounding(sizes.get("rounding", "centre"))
    given, rounding = sizes.get("projection"), sizes.get("rounding")
    if given not in (None, "gaussian", "rotation"):
        raise ReplearnError(
            f'projection must be "gaussian" or "rotation" in certified mode, got {given!r}. Leave '
            'it out, or use mode="practical".'
        )

    names = [given] if given else ["gaussian", "rotation"]
    if n_inputs > _MAX_ROTATED and not given:
        names = ["gaussian"]

    lattices: dict[Any, str] = {}
    if rounding is None and not sizes.sketch_bits:
        lattices = {runs(name, n_inputs): name for name in reversed(_ROUNDINGS)}

    wanted = [rounding] if rounding else sorted({"centre", *lattices.values()})
    pairs = [
        (projection, cells)
        for projection in names
        for cells in wanted
        if cells in CUBES
        or (projection == "rotation" and all(part in _LATTICES for part in cells.split("+")))
    ]
    if not pairs or (sizes.sketch_bits and rounding not in (None, "centre")):
        raise ReplearnError(
            f'rounding must be "centre" or "ak" in certified mode, or without a sketch and behind '
            f'a rotation of "leech", "e8" and "centre", got {rounding!r}. Leave it out.'
        )

    return pairs


def proved_space(
    projection: str, rounding: str, margin: float, failure: float, n_inputs: int, bits: int
) -> tuple[int, str]:
    """Components and grid width that keep the sign of a margin, but with this probability.

    Of a Gaussian map the rounding gets the proxy 1/k: that split needs the fewest batches.
    """
    if projection == "gaussian":
        n_components = _enough_components(margin, failure)
        width = 1 / math.sqrt(CELLS[rounding].second_moment * n_components)
    else:
        n_components, width = n_inputs, margin * _rotated_width(rounding, n_inputs, failure)

    return n_components, decimal_text(0.995 * 2**bits * width)  # what is used is on the safe side


def sign_lost(margin: float, n_components: int) -> float:
    """The first theorem: how often a Gaussian map and rounding turn a sign, at most."""
    square, k = margin**2, n_components

    def chernoff(q: float) -> float:
        return math.exp(-k / 2 * math.log1p(square / (1 + q)))

    def density(q: float) -> float:
        factor = (1 + q) / (margin * math.sqrt(math.pi * q * (2 * k - 3)))
        return factor * math.exp(-(k - 1) / 2 * math.log1p(square / (1 + q)))

    # one bound grows with q, the other has its largest values at the ends
    worst = 1 - square
    return min(chernoff(worst), max(chernoff(worst / 4), density(worst / 4), density(worst)))


def _enough_components(margin: float, failure: float) -> int:
    """The fewest for which `sign_lost` is small enough; 2 at least."""
    low, high = 1, max(2, math.ceil(-2 * math.log(1 / failure) / math.log1p(-(margin**2) / 2)))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sign_lost(margin, middle) <= failure else (middle, high)

    return high


#: Widths, in margins, for which the second theorem is computed: each is 1% wider than the last.
_WIDTHS = 0.02 * 1.01 ** np.arange(1024)
_WIDTH_LIST = _WIDTHS.tolist()  # a search for one number is ten times as fast in a list


def _rotated_width(rounding: str, n_inputs: int, failure: float) -> float:
    """Width in margins at which a rotation and rounding turn a sign rarely enough."""
    tails = _rotated_tails(rounding, n_inputs)
    return float(_WIDTHS[max(0, int(np.searchsorted(tails, failure, side="right")) - 1)])


def rotated_sign_lost(rounding: str, n_inputs: int, width: float) -> float:
    """The second theorem, for a width in margins: that of the next wider one of the list."""
    place = bisect_left(_WIDTH_LIST, width * (1 - 1e-12))
    if place >= _WIDTHS.size:
        return 0.5
    return float(_rotated_tails(rounding, n_inputs)[place])


@lru_cache(maxsize=256)
def _rotated_tails(rounding: str, n_inputs: int) -> Vector:
    """How often a sign is lost, at most, for each width; for cubes sub-Gaussian may be better.

    At most 1/2: the noise is symmetric, and the margin positive.
    """
    squares, chances = _squared_lengths(rounding, n_inputs)
    n = n_inputs
    convex = math.sqrt(2 * (n - 2) * (n - 1)) - (n - 2) if n > 2 else 0.0
    tails = np.full(_WIDTHS.size, 0.5)
    # wider cells are beyond what is proved
    for place in np.flatnonzero(_WIDTHS**2 * squares[-1] <= max(1.0, convex)):
        ratios = np.maximum(_WIDTHS[place] ** 2 * squares, 1.0)  # at 1 the sign is never lost
        lost = (1 - 1 / ratios) ** ((n - 1) / 2) * np.sqrt(ratios / (2 * math.pi * max(1, n - 1)))
        tails[place] = min(0.5, float(chances @ lost))

    if rounding in CUBES:
        proxy = CELLS[rounding].second_moment
        tails = np.minimum(tails, np.exp(-1 / (2 * proxy * _WIDTHS**2)))

    return np.maximum.accumulate(tails)


@dataclass(frozen=True)
class Turned:
    """How often the sign of a row is turned, at most, by a map and its rounding."""

    projection: str
    rounding: str
    n_inputs: int
    size: float  # components of a Gaussian map, or the width after a rotation

    @classmethod
    def of(
        cls, space: tuple[str, str], n_inputs: int, n_components: int, width: str, bits: int
    ) -> "Turned":
        """Of a map and cells of a plan; with bits a cell counts as its part."""
        if space[0] == "gaussian":
            return cls(*space, n_inputs, n_components)
        return cls(*space, n_inputs, float(width) / 2**bits)

    def at(self, margin: float) -> float:
        """Of a row with this margin."""
        # no margin is left, so nothing is known
        if margin <= 0:
            return 1.0

        if self.projection == "gaussian":
            return min(0.5, sign_lost(margin, int(self.size)))

        return rotated_sign_lost(self.rounding, self.n_inputs, self.size / margin)

    def cake(
        self, margin: float, lost: float, low: float, high: float, steps: int = 16
    ) -> tuple[float, float]:
        """A line above the probability of a turned sign: the layer cake.

        Let p(h) be that of a row with hinge loss h: its margin is ``(1 - h) margin - lost``. The
        two numbers are ``p(low)`` and the smallest price found with
        ``p(h) <= p(low) + price * h`` for all h up to ``high``. So rows with such losses, of mean
        H, have a mean error of at most ``p(low) + price * H``. Between two steps the larger
        probability counts.
        """
        losses = [low + (high - low) * step / steps for step in range(steps + 1)]
        chances = [self.at((1 - loss) * margin - lost) for loss in losses]
        prices = [
            (chance - chances[0]) / loss
            for loss, chance in zip(losses[:-1], chances[1:], strict=True)
            if loss > 0
        ]
        return chances[0], max(prices, default=0.0)


@lru_cache(maxsize=64)
def _squared_lengths(rounding: str, n_inputs: int) -> tuple[Vector, Vector]:
    """Squared lengths of a place in all cells, by the law that is worst, and their chances."""
    unit, chances = 0.25, np.ones(1)  # all squared covering radii are multiples of the unit
    for run in runs(rounding, n_inputs):
        largest, mean = _LATTICES[run.name]
        jump = np.zeros(round(largest / unit) + 1)
        jump[0], jump[-1] = 1 - mean / largest, mean / largest
        for _ in range(run.n_blocks):
            chances = np.convolve(chances, jump)

    return unit * np.arange(1.0, chances.size), chances[1:]


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


#: How often an original may refuse its own model: half by bad luck with the test, half by a model
#: that is worse than it should be.
_REFUSED = 0.25


def _held_out(promise: Promise, n_plain: int) -> tuple[dict[str, Any], Promise]:
    """Rows of the test and errors that pass; and the promise for the model before the test.

    A model with an error of max_error passes with probability ``failure_prob`` at most, whatever
    the population: a binomial tail. One with the error of the easier promise passes but for half of
    `_REFUSED`.
    """
    from scipy.special import bdtr, bdtri

    options = []
    n = 64
    while n < n_plain:
        # the most errors that are unlikely for a bad model
        low, high = -1, math.ceil(n * promise.max_error)
        while high - low > 1:
            middle = (low + high) // 2
            unlikely = bdtr(middle, n, promise.max_error) <= promise.failure_prob
            low, high = (middle, high) if unlikely else (low, middle)

        if low >= 0:
            good = float(bdtri(low, n, 1 - _REFUSED / 2))  # passes with that probability
            ratio = promise.max_error * promise.failure_prob / (good * _REFUSED / 2)
            options.append((n_plain * ratio + n, n, low, good))

        n = math.ceil(1.1 * n)

    if not options:
        return {"n_held_out": 0, "n_allowed": 0}, promise

    _, n, allowed, good = min(options)
    easier = replace(promise, max_error=good, failure_prob=_REFUSED / 2)

    return {"n_held_out": n, "n_allowed": allowed}, easier


def _least_plan(
    recipe: str, promise: Promise, n_inputs: int, given: Sizes, proof: Proof
) -> BatchPlan:
    fixed = common(recipe, promise, n_inputs, "certified", given)
    ranges = _RANGES | {name: limits[:2] for name, limits in proof.own.items()}
    first, found = {name: limits[2] for name, limits in proof.own.items()}, []
    for space in proved_spaces(given, n_inputs):
        plan_of = partial(_split_plan, fixed, given, space, proof)
        # each valley is searched from a start of its own
        for start in _STARTS:
            limits = ranges if start["shift"] else ranges | _MARKOV
            found.append(best_split(plan_of, start | first, limits))

    best = min(found, key=lambda plan: plan.n_rows)
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
    if shift:  # the mean is within t of the expected vector on each row: Bernstein
        t = shift * promise.margin
        log = math.log(1 / ((1 - tail) * after))
        least = math.ceil(log / t**2 * (2 * min(1.0, proof.variance(plan)) + 4 * t / 3))
        if plan.looks:  # what a lab that gives a model has seen
            used = log * 2 * variance_allowed(plan, 1) / t**2
            if used < 1:
                least = min(least, math.ceil(log * 4 / (3 * t) / (1 - used)))

    free = replace(plan, by_hand=())  # the number of batches is what is searched
    n_rows = rows_for(proof.stability, free, plan.batch_size, least, most)

    return replace(plan, n_batches=n_rows // plan.batch_size, n_rows=n_rows)


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
