"""Covers: a projection and a net, one of whose candidates is good.

Some candidate is wrong on at most ``exceptions`` of a population with the promised margin, except
with probability ``failure`` over seeds. The failure counts against ``failure_prob`` and, wherever
a proof needs the good candidate, against ``max_disagreement``. Proofs are in docs/net.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from replearn.codes.basis import check_basis
from replearn.codes.nets import (
    MAX_LATTICE_COMPONENTS,
    MAX_SQUARED_LENGTH,
    decimal_down,
    decimal_up,
    lattice_size,
    log_cap,
    log_lattice_size,
    log_projected_tail,
    log_random_size,
    squared_length,
)
from replearn.errors import ReplearnError
from replearn.plans.sizes import Guarantee, NetSizes, Sizes, decimal
from replearn.plans.space_sizes import components

#: Candidates that can be searched: one after the other until one passes, and all of them.
MAX_LAZY = 1 << 32
MAX_FULL = 1 << 24

#: The net reaches within this share of the margin: what is left is far above rounding errors.
_RADIUS_SHARE = 0.99

#: With a projection, the best candidate may be wrong on this share of max_error.
_EXCEPTION_SHARE = 0.05

#: Practical mode: candidates at the least, and failure of a net that is not larger than need be.
_FEWEST_CANDIDATES = 1000
_PRACTICAL_FAILURE = 0.01


@dataclass(frozen=True)
class Cover:
    """A projection and a net with a good candidate; projection, net and radius are as in a plan."""

    projection: str
    n_components: int
    net: str
    radius: str
    log_size: float  # logarithm of the number of candidates, which may be too many for a number
    exceptions: float  # some candidate is wrong on at most this share, in three digits;
    failure: float  # except with this probability, likewise
    count: int | None = None  # candidates, if their number was set

    @property
    def n_candidates(self) -> int:
        """Size of the net: of a random one in three digits, so that everybody has the same."""
        if self.count is not None:
            return self.count
        if self.net == "lattice":
            return lattice_size(self.n_components, self.radius)
        return math.ceil(float(decimal_up(math.exp(self.log_size))))

    @property
    def log_candidates(self) -> float:
        """Logarithm of the size."""
        return math.log(self.n_candidates) if self.log_size < 40 else self.log_size

    def sizes(self, **choice: str | bool) -> NetSizes:
        """The net's part of a plan, together with a choice."""
        return NetSizes(
            net=self.net,
            n_candidates=self.n_candidates,
            radius=self.radius,
            exceptions=decimal(self.exceptions),
            net_failure=decimal(self.failure),
            **{"rule": "first_below", **choice},  # type: ignore[arg-type]
        )


def certified_covers(
    guarantee: Guarantee, n_inputs: int, net: str | None, projection: str | None
) -> Iterator[Cover]:
    """Covers with proved exceptions and failure, for several ways to spend the failure."""
    if projection not in (None, "none", "gaussian"):
        raise ReplearnError(
            'certified mode proves its cover for the projections "none" and "gaussian", got '
            f'{projection!r}. Leave it "auto", or use mode="practical".'
        )
    if net == "lattice" and projection == "gaussian":
        raise ReplearnError(
            'certified mode has a lattice net without projection only, got projection="gaussian". '
            'Leave it "auto", or use net="random".'
        )
    radius = decimal_down(_RADIUS_SHARE * guarantee.margin)
    smaller = min(guarantee.max_disagreement, guarantee.failure_prob)
    if projection != "gaussian" and net != "lattice":
        for share in (0.02, 0.05, 0.1, 0.2):
            failure = float(decimal_down(share * smaller))
            log_size = log_random_size(n_inputs, float(radius), failure)
            yield Cover("none", n_inputs, "random", radius, log_size, 0.0, failure)
    if projection != "gaussian" and net != "random":
        log_size = log_lattice_size(n_inputs, radius)
        yield Cover("none", n_inputs, "lattice", radius, log_size, 0.0, 0.0)
    if projection != "none" and net != "lattice":
        most = n_inputs if projection is None else 1 << 40
        projected = _projected_cover(guarantee, float(decimal_down(smaller / 10)), most)
        if projected is not None:
            yield projected


def _projected_cover(guarantee: Guarantee, failure: float, most: int) -> Cover | None:
    """The smallest random net after a Gaussian projection to at most ``most`` components.

    Half of the failure for each of the two. Markov: if a point's cosine stays above the radius
    but with probability ``exceptions * failure / 2``, then with probability 1 - failure / 2 all
    points but a share of ``exceptions`` do.
    """
    exceptions = float(decimal_down(_EXCEPTION_SHARE * guarantee.max_error))
    log_tail = math.log(exceptions * failure / 2)
    best: Cover | None = None
    for share in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        radius = decimal_down(share * guarantee.margin)
        if most < 4 or log_projected_tail(most, guarantee.margin, float(radius)) > log_tail:
            break  # the larger radii need still more components
        k = _fewest_components(guarantee.margin, float(radius), log_tail)
        log_size = log_random_size(k, float(radius), failure / 2)
        if best is None or log_size < best.log_size:
            best = Cover("gaussian", k, "random", radius, log_size, exceptions, failure)
    return best


def _fewest_components(margin: float, radius: float, log_tail: float) -> int:
    """Components for which a cosine falls from the margin below the radius rarely enough."""
    low, high = 3, 4
    while log_projected_tail(high, margin, radius) > log_tail:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if log_projected_tail(middle, margin, radius) > log_tail:
            low = middle
        else:
            high = middle
    return high


def practical_cover(
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    net: str | None,
    n_candidates: int | None,
    budget: int,
    most_components: int,
) -> Cover:
    """As many candidates as the promise needs, within a budget; few components."""
    if sizes.basis is not None:
        check_basis(sizes.basis, n_inputs)
        projection, k = "published", len(sizes.basis.widths)
    else:
        k = sizes.n_components or min(n_inputs, most_components)
        projection = sizes.projection or ("none" if k >= n_inputs else "hadamard")
        k = components(projection, k, n_inputs)
    radius = decimal(0.9 * guarantee.margin)
    if net == "lattice":
        _refuse_count(n_candidates)
        log_size = log_lattice_size(k, radius)
        return Cover(projection, k, net, radius, log_size, 0.0, float(projection != "none"))
    if n_candidates is None:
        log_size = log_random_size(k, float(radius), _PRACTICAL_FAILURE)
        log_size = min(max(log_size, math.log(_FEWEST_CANDIDATES)), math.log(budget))
        n_candidates = math.ceil(float(decimal_up(math.exp(log_size))))
    failure = 1.0  # what a projection does to this margin is not known
    if projection == "none":
        missed = math.exp(-n_candidates * math.exp(log_cap(k, float(radius))))
        failure = float(decimal_up(missed))
    log_size = math.log(n_candidates)
    return Cover(projection, k, "random", radius, log_size, 0.0, failure, n_candidates)


def paper_cover(
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    net: str | None,
    n_candidates: int | None,
    c1: float,
) -> Cover:
    """A Gaussian projection, and a tau/20-net of the unit ball, as printed; or as set by hand."""
    tau = guarantee.margin
    product = guarantee.max_error * tau * guarantee.max_disagreement * guarantee.failure_prob
    projection = sizes.projection or "gaussian"
    k = sizes.n_components or math.ceil(c1 * math.log(1 / product) / tau**2)
    k = components(projection, k, n_inputs)
    radius = decimal(tau / 20)
    if net != "random":
        _refuse_count(n_candidates)
        return Cover(projection, k, "lattice", radius, log_lattice_size(k, radius), 0.0, 1.0)
    log_size = log_random_size(k, float(radius), _PRACTICAL_FAILURE)
    if n_candidates is not None:
        log_size = math.log(n_candidates)
    return Cover(projection, k, "random", radius, log_size, 0.0, 1.0, n_candidates)


def _refuse_count(n_candidates: int | None) -> None:
    if n_candidates is not None:
        raise ReplearnError(
            f"n_candidates is for random nets, got {n_candidates:,} and a lattice net, whose size "
            'follows from its radius. Leave it "auto", or use net="random".'
        )


# --- nets that cannot be searched ---------------------------------------------------------------


def searchable(cover: Cover, most: int) -> bool:
    """Whether the net has no more candidates than this; the order of a lattice net is a table."""
    if cover.net == "random":
        return cover.log_candidates <= math.log(most)
    return (
        cover.n_components <= MAX_LATTICE_COMPONENTS
        and squared_length(cover.n_components, cover.radius) <= MAX_SQUARED_LENGTH
        and cover.log_size < 50 * math.log(2)
        and cover.n_candidates <= min(most, MAX_FULL)
    )


def require_searchable(cover: Cover, most: int) -> None:
    """Refuse a net that is too large, saying how large it is."""
    if not searchable(cover, most):
        other = ', use net="random"' if cover.net == "lattice" else ""
        raise ReplearnError(f"{_too_large(cover, most)} Lower n_components{other}, {_ELSEWHERE}")


def refuse(covers: list[Cover], most: int, guarantee: Guarantee, n_inputs: int) -> NoReturn:
    """Say that certified mode has no net that could be searched."""
    smallest = min(covers, key=lambda cover: cover.log_size)
    raise ReplearnError(
        f"certified mode has no net that can be searched for margin {guarantee.margin:g} and "
        f"{n_inputs:,} inputs. {_too_large(smallest, most)} Raise margin, use fewer features, use "
        f'mode="practical", {_ELSEWHERE}'
    )


_ELSEWHERE = "or use ReplicableSVMClassifier, which searches nothing."


def _too_large(cover: Cover, most: int) -> str:
    most = min(most, MAX_FULL) if cover.net == "lattice" else most
    return (
        f"The net must have at most {most:,} candidates, got about "
        f"10^{cover.log_size / math.log(10):.1f} ({cover.net} net, {cover.n_components:,} "
        f"components, radius {cover.radius})."
    )
