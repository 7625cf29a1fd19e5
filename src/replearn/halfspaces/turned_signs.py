"""How often a projection and its rounding turn the sign of a margin: two theorems.

Certified mode asks that the sign of a margin m survives but with probability p.

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
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from replearn.codes import CELLS, CUBES, Sizes, check_rounding, least_whole, runs
from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.types import Vector

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
        n_components = least_whole(lambda k: sign_lost(margin, k) <= failure, least=2)
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


#: Of a cake: hinge losses at which the probability of a turned sign is computed.
_LAYERS = 16


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

    def cake(self, margin: float, lost: float, low: float, high: float) -> tuple[float, float]:
        """A line above the probability of a turned sign: the layer cake.

        Let p(h) be that of a row with hinge loss h: its margin is ``(1 - h) margin - lost``. The
        two numbers are ``p(low)`` and the smallest price found with
        ``p(h) <= p(low) + price * h`` for all h up to ``high``. So rows with such losses, of mean
        H, have a mean error of at most ``p(low) + price * H``. Between two steps the larger
        probability counts.
        """
        losses = [low + (high - low) * step / _LAYERS for step in range(_LAYERS + 1)]
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
