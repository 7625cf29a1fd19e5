"""Nets of directions: how many candidates it takes to be near every direction, and which they are.

A candidate is addressed by its index and never stored: the normals of its place in the stream
"net/candidates". The candidates are independent, so their own order is a random order.

``radius`` is the sine of an angle: a candidate within it of the best normal classifies every point
whose cosine with that normal is larger than the radius.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Annotated, Literal

import numpy as np

from replearn.codes.coins import Coins
from replearn.codes.projection import check_decoding, lift
from replearn.codes.space import InputCount
from replearn.codes.stability import least_whole
from replearn.documents import Part, Range, Text, Unfit
from replearn.exact import normals
from replearn.types import Codes, Matrix, Order, Vector

#: Of a net in a file, at most: candidates, components, and numbers that its decoding draws. The
#: file is tiny, so its cost is bounded here: about a second.
MAX_CANDIDATES = 1 << 32
MAX_COMPONENTS = 1 << 16
MAX_DRAWS = 1 << 24

#: Candidates that share a row of the stream: one call draws them all.
_TOGETHER = 64


def candidates(indices: Order, n_components: int, coins: Coins) -> Matrix:
    """The candidates with these indices, as rows.

    Candidate ``i`` is part ``i % 64`` of the normals in row ``i // 64`` of "net/candidates". Only
    its direction matters, which is uniform on the sphere.
    """
    rows, places = np.divmod(indices, _TOGETHER)
    words = np.empty((indices.size, n_components), dtype=np.uint64)

    # indices of one row of the stream together, so that no row is drawn twice
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    for here in np.split(order, starts[1:]):
        drawn = coins.words("net/candidates", _TOGETHER * n_components, row=int(rows[here[0]]))
        words[here] = drawn.reshape(_TOGETHER, n_components)[places[here]]
    return normals(words.ravel()).reshape(words.shape)


@dataclass(frozen=True)
class NetSpace(Part):
    """A net of directions: what turns the index of a candidate into a direction."""

    kind: Literal["net"]
    # length of a direction: features, and one more for the intercept
    n_inputs: InputCount
    projection: Annotated[str, Text(20)]  # name in `replearn.codes.projection`
    n_components: Annotated[int, Range(1, MAX_COMPONENTS)]  # of a candidate
    # indices run from 0 to ``n_candidates - 1``
    n_candidates: Annotated[int, Range(1, MAX_CANDIDATES)]

    def check(self) -> None:
        """Refuse spaces that do not exist, or that nobody could decode."""
        check_decoding(self.projection, self.n_components, self.n_inputs, MAX_DRAWS)

    def check_codes(self, codes: Codes) -> None:
        """Refuse codes that the space does not have."""
        if codes.size != 1 or not 0 <= codes[0] < self.n_candidates:
            raise Unfit(f"codes must be one number below {self.n_candidates:,}, got {codes[:2]}")

    def decode(self, codes: Codes, coins: Coins) -> Vector:
        """Direction of a candidate: a function of its index and of coins alone."""
        chosen = candidates(codes, self.n_components, coins)[0]
        return lift(self.projection, chosen, self.n_inputs, coins)


def log_cap(n_components: int, radius: float) -> float:
    """Logarithm of the share of the sphere within the angle ``arcsin(radius)`` of a point.

    Half of the regularised incomplete beta function ``I_{radius^2}((k - 1)/2, 1/2)``, by its
    power series, all of whose terms are positive.

    Examples
    --------
    >>> round(math.exp(log_cap(2, 0.5)), 6)  # 30 degrees to either side, of 360
    0.166667
    """
    if n_components == 1:
        return math.log(0.5)
    x, a = radius**2, (n_components - 1) / 2

    # until a term is below the last bit of the sum
    term = series = 1.0
    n = 0
    while term > 1e-17 * series:
        term *= x * (a + 0.5 + n) / (a + 1 + n)
        series += term
        n += 1

    log_beta = math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
    return a * math.log(x) + 0.5 * math.log1p(-x) - math.log(2 * a) - log_beta + math.log(series)


def log_net_size(n_components: int, radius: float, failure: float) -> float:
    """Logarithm of the number of random directions, one of which is within the radius.

    Except with probability ``failure``: N directions miss a cap with ``(1 - cap)^N``. Tested in
    tests/theory/test_net.py.
    """
    return math.log(math.log(1 / failure)) - log_cap(n_components, radius)


def log_projected_tail(n_components: int, margin: float, cosine: float) -> float:
    """Logarithm of a bound of P[cos(Aw, Ax) < cosine], A Gaussian, if cos(w, x) >= margin.

    The cosine of two projected vectors is the correlation of ``k`` pairs of normals. In its
    density, ``(k-1)/pi (1-m^2)^{k/2} (1-r^2)^{(k-3)/2} int_0^oo (cosh w - m r)^{-k} dw``,
    ``cosh w >= 1 + w^2/2`` gives a bound in closed form, tight to a factor ``1 + O(1/k)``.
    It is integrated by the midpoint rule. Tested in tests/theory/test_net.py.
    """
    k, m = n_components, margin
    log_beta = math.lgamma(0.5) + math.lgamma(k - 0.5) - math.lgamma(k)
    constant = (
        math.log((k - 1) / math.pi) + k / 2 * math.log1p(-(m**2)) + log_beta - math.log(2) / 2
    )

    step = (1 + cosine) / 500
    logs = []
    for i in range(500):
        r = cosine - (i + 0.5) * step
        logs.append((k - 3) / 2 * math.log1p(-(r**2)) - (k - 0.5) * math.log1p(-m * r))

    largest = max(logs)  # so that no exponential is beyond a float
    return constant + largest + math.log(step * math.fsum(math.exp(x - largest) for x in logs))


def fewest_components(margin: float, radius: float, log_tail: float) -> int:
    """Components for which a cosine falls from the margin below the radius rarely enough."""
    return least_whole(lambda k: log_projected_tail(k, margin, radius) <= log_tail, least=4)


def decimal_up(value: float) -> str:
    """Three significant digits, rounded up."""
    return _three_digits(value, ROUND_CEILING)


def decimal_down(value: float) -> str:
    """Three significant digits, rounded down."""
    return _three_digits(value, ROUND_FLOOR)


def _three_digits(value: float, rounding: str) -> str:
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(value)):.3g}"
