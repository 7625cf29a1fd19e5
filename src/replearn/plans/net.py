"""Sizes of Algorithm 3 and of the DP reduction, in the three modes.

Both choose among the candidates of a net, so both need one thing first, a **cover**: a projection
and a net such that some candidate is wrong on at most ``exceptions`` of a population with the
promised margin, except with probability ``failure`` over seeds. The failure of the net counts
against ``failure_prob`` and, wherever the proof needs the good candidate, ``max_disagreement``.
The proofs of all sizes are in docs/net.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NoReturn

from replearn.errors import ReplearnError
from replearn.nets import (
    MAX_LATTICE_COMPONENTS,
    MAX_SQUARED_LENGTH,
    NETS,
    decimal_down,
    decimal_up,
    lattice_size,
    log_cap,
    log_lattice_size,
    log_projected_tail,
    log_random_size,
    squared_length,
)
from replearn.plan import MODES, Accuracy, Guarantee, NetSizes, Plan, Sizes, decimal

#: Candidates that can be searched: one after the other until one passes, and all of them.
MAX_LAZY = 1 << 32
MAX_FULL = 1 << 24

CALIBRATIONS = ("margin", "generic")
SAMPLINGS = ("gumbel", "holenstein")


@dataclass(frozen=True)
class _Cover:
    """A projection and a net with a good candidate.

    Attributes
    ----------
    log_size : float
        Logarithm of the number of candidates, which may be too many for a number.
    exceptions, failure : float
        Some candidate is wrong on at most this share; except with this probability.
    """

    projection: str
    n_components: int
    net: str
    radius: str
    log_size: float
    exceptions: float
    failure: float

    @property
    def n_candidates(self) -> int:
        if self.net == "lattice":
            return lattice_size(self.n_components, self.radius)
        return int(float(decimal_up(math.exp(self.log_size))))

    @property
    def log_candidates(self) -> float:
        """``log_size``, with the rounding of ``n_candidates`` if they can be counted."""
        return math.log(self.n_candidates) if self.log_size < 40 else self.log_size


def plan_net(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str = "practical",
    sizes: Sizes | None = None,
    constants: dict[str, float] | None = None,
    *,
    net: str | None = None,
    n_candidates: int | None = None,
    agnostic: bool = False,
    n_repeats: int = 1,
) -> Plan:
    """Sizes of Algorithm 3: the first candidate of a net below a random threshold.

    Parameters
    ----------
    guarantee : Guarantee
    n_inputs : int
        Features, and one more if an intercept is fitted.
    mode : {"practical", "certified", "paper"}
    sizes : Sizes, optional
        What the user fixes by hand: ``n_components``, ``projection``, ``batch_size`` (rows).
    constants : dict, optional
        Paper mode only: ``C1`` (components) and ``C2`` (samples) of Algorithm 3's lines 1 and 2.
    net : {"random", "lattice"}, optional
        Default: whichever needs fewer samples.
    n_candidates : int, optional
        Size of a random net, by hand.
    agnostic : bool
        Learn the smallest error of the net, replicably, instead of assuming that it is about 0.
    n_repeats : int
        Amplification: this many repetitions of the choice for each shared string.

    Returns
    -------
    Plan
    """
    sizes = sizes or Sizes()
    _check(mode, constants, net, {"C1", "C2"})
    if mode == "paper":
        return _paper_net(guarantee, n_inputs, sizes, constants or {}, agnostic, n_repeats)
    n_strings = _n_strings(guarantee, n_repeats)
    most = MAX_FULL if agnostic else MAX_LAZY  # the smallest error is that of all candidates
    if mode == "practical":
        cover = _practical_cover(guarantee, n_inputs, sizes, net, n_candidates, _LAZY_BUDGET, 16)
        n_rows, choice = _practical_threshold(guarantee, cover, agnostic)
        n_rows *= n_strings * n_repeats
        basis = "calibrated on synthetic populations, not proved"
    else:
        _refuse_by_hand(sizes, n_candidates)
        base = guarantee
        if n_repeats > 1:  # amplification starts from this disagreement
            base = replace(guarantee, max_disagreement=_BASE_DISAGREEMENT)
            _require_repeats(guarantee, n_repeats)
        rule = _certified_agnostic if agnostic else _certified_threshold
        covers = list(_covers(base, n_inputs, net, sizes.projection))
        cover, (n_rows, choice) = _best(
            [(cover, rule(base, cover)) for cover in covers if _searchable(cover, most)]
        ) or _refuse(covers, most, guarantee)
        n_rows *= n_strings * n_repeats
        basis = (
            "proved: error at most max_error above the net's best, wherever that is at most 1/2"
            if agnostic
            else "proved for every distribution with this margin"
        )
    _require_searchable(cover, most)
    choice = replace(choice, n_repeats=n_repeats, n_strings=n_strings)
    by_hand = _by_hand(sizes, net=net, n_candidates=n_candidates)
    return _plan("net", mode, guarantee, n_inputs, sizes, cover, n_rows, choice, basis, by_hand)


def plan_dp(
    guarantee: Guarantee,
    n_inputs: int,
    mode: str = "practical",
    sizes: Sizes | None = None,
    constants: dict[str, float] | None = None,
    *,
    net: str | None = None,
    n_candidates: int | None = None,
    calibration: str = "margin",
    sampling: str = "gumbel",
) -> Plan:
    """Sizes of the DP reduction: the exponential mechanism over a net, with common noise.

    Parameters
    ----------
    guarantee : Guarantee
    n_inputs : int
        Features, and one more if an intercept is fitted.
    mode : {"practical", "certified", "paper"}
    sizes : Sizes, optional
        What the user fixes by hand: ``n_components``, ``projection``, ``batch_size`` (rows).
    constants : dict, optional
        Paper mode only: ``C1`` (components), ``C2`` (samples of the private learner) and ``C3``
        (samples of the reduction).
    net : {"random", "lattice"}, optional
        Default: whichever needs fewer samples.
    n_candidates : int, optional
        Size of a random net, by hand.
    calibration : {"margin", "generic"}
        The disagreement is proved for populations with the margin, or for all populations.
    sampling : {"gumbel", "holenstein"}

    Returns
    -------
    Plan
    """
    sizes = sizes or Sizes()
    _check(mode, constants, net, {"C1", "C2", "C3"})
    for name, value, known in (
        ("calibration", calibration, CALIBRATIONS),
        ("sampling", sampling, SAMPLINGS),
    ):
        if value not in known:
            raise ReplearnError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
    if mode == "paper":
        return _paper_dp(guarantee, n_inputs, sizes, constants or {}, sampling)
    if mode == "practical":
        cover = _practical_cover(guarantee, n_inputs, sizes, net, n_candidates, _FULL_BUDGET, 12)
        n_rows, choice = _practical_mechanism(guarantee, cover, calibration)
        basis = "calibrated on synthetic populations, not proved"
    else:
        _refuse_by_hand(sizes, n_candidates)
        rule = _certified_mechanism if calibration == "margin" else _generic_mechanism
        covers = list(_covers(guarantee, n_inputs, net, sizes.projection))
        cover, (n_rows, choice) = _best(
            [(cover, rule(guarantee, cover)) for cover in covers if _searchable(cover, MAX_FULL)]
        ) or _refuse(covers, MAX_FULL, guarantee)
        basis = "error proved for every distribution with this margin, disagreement for " + (
            "the same" if calibration == "margin" else "every distribution"
        )
    _require_searchable(cover, MAX_FULL)
    choice = replace(choice, rule=sampling)
    by_hand = _by_hand(sizes, net=net, n_candidates=n_candidates)
    return _plan("dp", mode, guarantee, n_inputs, sizes, cover, n_rows, choice, basis, by_hand)


def proved_disagreement(plan: Plan, n_rows: int) -> float:
    """Bound of the disagreement of two fits with ``n_rows`` rows each, over seeds; 1: nothing.

    For populations with the promised margin; for all populations with the generic calibration.
    """
    net = plan.net
    assert net is not None
    if n_rows < 1:
        return 1.0
    log_size = math.log(net.n_candidates)
    if net.rule != "first_below":
        heat = float(net.inverse_temperature)
        if net.calibration == "generic":
            return _generic_disagreement(heat, n_rows)
        exceptions, failure = float(net.exceptions), float(net.net_failure)
        return min(1.0, _margin_disagreement(heat, n_rows, log_size, exceptions) + failure)
    if net.n_repeats == 1:
        return _threshold_disagreement(net, n_rows, log_size)
    n_groups = net.n_strings * net.n_repeats
    base = _threshold_disagreement(net, n_rows // n_groups, log_size)
    return _amplified_disagreement(base, net.n_repeats, net.n_strings)


# --- covers -----------------------------------------------------------------------------------

#: The net reaches within this share of the margin: what is left is far above rounding errors.
_RADIUS_SHARE = 0.99

#: With a projection, the best candidate may be wrong on this share of max_error.
_EXCEPTION_SHARE = 0.05


def _covers(
    guarantee: Guarantee, n_inputs: int, net: str | None, projection: str | None
) -> Iterator[_Cover]:
    """Covers with proved exceptions and failure, for several ways to spend the failure."""
    if projection not in (None, "none", "gaussian"):
        raise ReplearnError(
            'certified mode proves its cover for the projections "none" and "gaussian", got '
            f'{projection!r}. Leave it "auto", or use mode="practical".'
        )
    tau = guarantee.margin
    smaller = min(guarantee.max_disagreement, guarantee.failure_prob)
    radius = decimal_down(_RADIUS_SHARE * tau)
    for failure in (share * smaller for share in (0.02, 0.05, 0.1, 0.2)):
        if projection in (None, "none") and net in (None, "random"):
            log_size = log_random_size(n_inputs, float(radius), failure)
            yield _Cover("none", n_inputs, "random", radius, log_size, 0.0, failure)
    if projection in (None, "gaussian") and net in (None, "random"):
        projected = _projected_cover(guarantee, smaller / 10, n_inputs)
        if projected is not None:
            yield projected
    if projection in (None, "none") and net in (None, "lattice"):
        log_size = log_lattice_size(n_inputs, radius)
        yield _Cover("none", n_inputs, "lattice", radius, log_size, 0.0, 0.0)


def _projected_cover(guarantee: Guarantee, failure: float, n_inputs: int) -> _Cover | None:
    """The smallest random net after a Gaussian projection to fewer components than inputs.

    Half of the failure for each of the two.

    Markov: if a point's cosine stays above the radius except with probability
    ``exceptions * failure / 2``, then with probability 1 - failure / 2 all points but a share
    of ``exceptions`` do.
    """
    exceptions = _EXCEPTION_SHARE * guarantee.max_error
    log_tail = math.log(exceptions * failure / 2)
    best: _Cover | None = None
    for share in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        radius = decimal_down(share * guarantee.margin)
        if n_inputs < 4 or log_projected_tail(n_inputs, guarantee.margin, float(radius)) > log_tail:
            break  # as many components as inputs, and more for the larger radii
        n_components = _fewest_components(guarantee.margin, float(radius), log_tail)
        log_size = log_random_size(n_components, float(radius), failure / 2)
        if best is None or log_size < best.log_size:
            best = _Cover("gaussian", n_components, "random", radius, log_size, exceptions, failure)
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


def _searchable(cover: _Cover, most: int) -> bool:
    if cover.net == "lattice":  # its order is a table
        return cover.n_components <= MAX_LATTICE_COMPONENTS and (
            squared_length(cover.n_components, cover.radius) <= MAX_SQUARED_LENGTH
            and cover.log_size < 50 * math.log(2)
            and cover.n_candidates <= min(most, MAX_FULL)
        )
    return cover.log_size <= math.log(most)


def _require_searchable(cover: _Cover, most: int) -> None:
    if not _searchable(cover, most):
        raise ReplearnError(_too_large(cover, most))


def _too_large(cover: _Cover, most: int) -> str:
    most = min(most, MAX_FULL) if cover.net == "lattice" else most
    return (
        f"The net must have at most {most:,} candidates to be searched, got about "
        f"10^{cover.log_size / math.log(10):.0f} ({cover.net} net, {cover.n_components} "
        f"components, radius {cover.radius}). Raise margin, lower n_components"
        + (", use net='random'" if cover.net == "lattice" else "")
        + ", or use ReplicableSVMClassifier, which searches nothing."
    )


def _refuse(covers: list[_Cover], most: int, guarantee: Guarantee) -> NoReturn:
    smallest = min(covers, key=lambda cover: cover.log_size)
    raise ReplearnError(
        f"certified mode cannot be run for margin {guarantee.margin:g} with so many features. "
        + _too_large(smallest, most)
        + ' Fewer features or mode="practical" make it smaller too.'
    )


_Choice = tuple[int, NetSizes]


def _best(options: list[tuple[_Cover, _Choice]]) -> tuple[_Cover, _Choice] | None:
    """The option that needs the fewest rows."""
    return min(options, key=lambda option: option[1][0], default=None)


def _sizes_of(cover: _Cover, **choice: str | bool) -> NetSizes:
    return NetSizes(
        net=cover.net,
        n_candidates=cover.n_candidates,
        radius=cover.radius,
        exceptions=decimal_up(cover.exceptions) if cover.exceptions else "0",
        net_failure=decimal_up(cover.failure) if cover.failure else "0",
        **{"rule": "first_below", **choice},  # type: ignore[arg-type]
    )


# --- first below a threshold --------------------------------------------------------------------

#: Share of the disagreement for errors that are further from the truth than the proof allows.
_DEVIATION_SHARE = 0.05

#: The lowest threshold is this many deviations above the best candidate's error.
_CLEARANCE = 4


def _certified_threshold(guarantee: Guarantee, cover: _Cover) -> _Choice:
    """Rows and threshold of rLearnerFinite, some candidate wrong on ``exceptions`` at most.

    On the scale of square roots an error rate of n rows is further than ``t`` from the truth with
    probability at most ``exp(-(2 - t/(root + t)) n t^2)`` (Hellinger). A threshold uniform over a
    width W of that scale then separates two labs with ``2 t ln|H| / W`` at most.
    """
    eps = guarantee.max_error
    rho = guarantee.max_disagreement - cover.failure
    delta = guarantee.failure_prob - cover.failure
    log_size = cover.log_candidates
    for_flips = (1 - _DEVIATION_SHARE) * rho
    log = log_size + math.log(max(2 / (_DEVIATION_SHARE * rho), 1 / delta))
    best, most = math.sqrt(cover.exceptions), math.sqrt(eps)
    deviation = for_flips * (most - best) / (2 * log_size + (_CLEARANCE + 1) * for_flips)
    low = decimal_up((best + _CLEARANCE * deviation) ** 2)
    high = decimal_down((most - deviation) ** 2)
    width = math.sqrt(float(high)) - math.sqrt(float(low))
    deviation = min(deviation, for_flips * width / (2 * log_size))
    n_rows = math.ceil(log / ((2 - 1 / (_CLEARANCE + 1)) * deviation**2))
    return n_rows, _sizes_of(cover, low=low, high=high)


def _threshold_disagreement(net: NetSizes, n_rows: int, log_size: float) -> float:
    """The same the other way round: rows given, the best deviation searched."""
    if n_rows < 1:
        return 1.0
    agnostic = float(net.cell) > 0
    top = 0.5 if agnostic else 0.0  # the roots are closest where the start is highest
    low, high = math.sqrt(top + float(net.low)), math.sqrt(top + float(net.high))
    best = math.sqrt(float(net.exceptions))
    bound = 1.0
    for exponent in range(-600, 0):
        t = 10 ** (exponent / 100)
        if agnostic:
            if float(net.low) < float(net.cell) + t + math.sqrt(2) * t + t * t:
                break
            events = 4 * math.exp(log_size - 1.9 * n_rows * t * t)
            flips = 2 * t / float(net.cell)
        else:
            if low - t < best:
                break
            events = 2 * math.exp(log_size - (2 - t / (low + t)) * n_rows * t * t)
            flips = 0.0
        if net.root:
            flips += 2 * t * log_size / (high - low)
        else:  # a step of t on the scale of roots is one of at most 2 t root(high) + t^2
            step = 2 * t * high + t * t
            flips += 2 * step * log_size / (float(net.high) - float(net.low))
        bound = min(bound, flips + events)
    return min(1.0, bound + (0.0 if agnostic else float(net.net_failure)))


def _certified_agnostic(guarantee: Guarantee, cover: _Cover) -> _Choice:
    """Rows, threshold and start of the agnostic learner, the net's best error at most 1/2.

    With all errors within ``t`` of the truth, also on the scale of roots: the start flips with
    ``2 t / cell``, the choice with ``2 t ln|H| / W``, W the width in roots where it is smallest.
    """
    eps = guarantee.max_error
    log_size = cover.log_candidates
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob - cover.failure
    log = log_size + math.log(max(4 / (_DEVIATION_SHARE * rho), 2 / delta))
    best: _Choice | None = None
    for cell in (share * eps for share in (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)):
        grid = decimal_up(cell)
        t = eps / 10
        for _ in range(200):  # shrink until the flips fit
            low = decimal_up(float(grid) + (1 + math.sqrt(2)) * t + t * t)
            high = decimal_down(eps - t - 2 * t * math.sqrt(0.5 + eps) - t * t)
            width = math.sqrt(0.5 + float(high)) - math.sqrt(0.5 + float(low))
            if width > 0 and 2 * t / float(grid) + 2 * t * log_size / width <= (
                (1 - _DEVIATION_SHARE) * rho
            ):
                break
            t *= 0.97
        else:
            continue
        n_rows = math.ceil(log / (1.9 * t * t))
        if best is None or n_rows < best[0]:
            best = n_rows, _sizes_of(cover, low=low, high=high, cell=grid)
    assert best is not None
    return best


# --- amplification --------------------------------------------------------------------------------

#: Disagreement of the choice that is repeated.
_BASE_DISAGREEMENT = 0.01


def _n_strings(guarantee: Guarantee, n_repeats: int) -> int:
    """Shared strings: one in ten is bad, and all of them with rho/4 at most."""
    return 1 if n_repeats == 1 else math.ceil(math.log10(4 / guarantee.max_disagreement))


def _amplified_disagreement(base: float, n_repeats: int, n_strings: int) -> float:
    """Disagreement after amplification of a choice that disagrees with ``base``.

    Frequencies are within ``a`` of the truth but with ``4 K exp(-2 q a^2)``; a shared threshold,
    uniform on [2/3, 5/6], falls between two labs with 12 a; at most 10/9 strings are looked at on
    average; all of them are bad with ``10^-K``.
    """
    if base > _BASE_DISAGREEMENT:
        return 1.0
    bounds = (
        40 / 3 * a + 4 * n_strings * math.exp(-2 * n_repeats * a * a) + 10.0**-n_strings
        for a in (i / 2000 for i in range(1, 120))
    )
    return min(1.0, *bounds)


def _require_repeats(guarantee: Guarantee, n_repeats: int) -> None:
    n_strings = _n_strings(guarantee, n_repeats)
    needed = 2
    while _amplified_disagreement(0.0, needed, n_strings) > guarantee.max_disagreement:
        needed = math.ceil(needed * 1.1)
    if n_repeats < needed:
        raise ReplearnError(
            f"certified mode needs n_repeats of at least {needed:,} for max_disagreement "
            f"{guarantee.max_disagreement:g}, got {n_repeats:,}. Leave n_repeats at 1, which "
            "needs fewer rows here, or use mode='practical'."
        )


# --- exponential mechanism --------------------------------------------------------------------


def _stretched(rho: float) -> float:
    """The ``s`` with ``s / (1 + s/2) = rho``: 2 TV may be as large for a disagreement of rho."""
    return rho / (1 - rho / 2)


def _certified_mechanism(guarantee: Guarantee, cover: _Cover) -> _Choice:
    """Rows and inverse temperature, disagreement proved for populations with the margin.

    Jeffreys' divergence of two labs' weights is at most ``2 e^l (e^l - 1) (ln|H| + L eta)`` on
    average, l = L / n and eta the exceptions; error above max_error has probability
    ``|H| exp(-n (1 - e^-l) (eps - eta e^l))``.
    """
    eps, eta = guarantee.max_error, cover.exceptions
    target = _stretched(guarantee.max_disagreement - cover.failure) ** 2
    log_size = cover.log_candidates
    log = log_size + math.log(1 / (guarantee.failure_prob - cover.failure))
    heat = log / eps
    for _ in range(100):  # converges: eta is a small share of eps
        growth = (1 + math.sqrt(1 + 2 * target / (log_size + heat * eta))) / 2
        n_rows = log / ((1 - 1 / growth) * (eps - eta * growth))
        heat = float(decimal_up(math.log(growth) * n_rows))
    return math.ceil(heat / math.log(growth)), _sizes_of(
        cover, inverse_temperature=decimal_up(heat * (1 - 1e-12)), calibration="margin"
    )


def _margin_disagreement(
    inverse_temperature: float, n_rows: int, log_size: float, exceptions: float
) -> float:
    growth = math.exp(min(50.0, inverse_temperature / n_rows))
    total = log_size + inverse_temperature * exceptions
    spread = math.sqrt(2 * growth * (growth - 1) * total)
    return spread / (1 + spread / 2)


def _generic_mechanism(guarantee: Guarantee, cover: _Cover) -> _Choice:
    """Rows and inverse temperature, disagreement proved for every population.

    Efron-Stein: one row moves a probability by a factor of ``e^(+-l)`` at most, l = L / n.
    """
    eps, eta = guarantee.max_error, cover.exceptions
    log = cover.log_candidates + math.log(1 / (guarantee.failure_prob - cover.failure))
    n_rows = log / eps
    while True:
        heat = _generic_heat(guarantee.max_disagreement, n_rows)
        growth = math.exp(heat / n_rows)
        if n_rows * (1 - 1 / growth) * (eps - eta * growth) >= log:
            break
        n_rows *= 1.001
    rounded = decimal_up(heat)
    while _generic_disagreement(float(rounded), math.ceil(n_rows)) > guarantee.max_disagreement:
        n_rows *= 1.001
    return math.ceil(n_rows), _sizes_of(cover, inverse_temperature=rounded, calibration="generic")


def _generic_heat(rho: float, n_rows: float) -> float:
    spread = _stretched(rho)
    kappa = spread / math.sqrt(2 + spread**2)
    return n_rows / 2 * math.log1p(2 * kappa / math.sqrt(n_rows))


def _generic_disagreement(inverse_temperature: float, n_rows: int) -> float:
    growth = math.exp(min(50.0, 2 * inverse_temperature / n_rows))
    kappa = math.sqrt(n_rows) * (growth - 1) / 2
    if kappa >= 1:
        return 1.0
    spread = math.sqrt(2) * kappa / math.sqrt(1 - kappa**2)
    return min(1.0, spread / (1 + spread / 2))


# --- practical mode -----------------------------------------------------------------------------

#: Candidates that a fit may look at when the user sets no number.
_LAZY_BUDGET = 1 << 20
_FULL_BUDGET = 1 << 18
_FEWEST_CANDIDATES = 1000


def _practical_cover(
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    net: str | None,
    n_candidates: int | None,
    budget: int,
    most_components: int,
) -> _Cover:
    """As many candidates as the promise needs, within a budget; few components."""
    n_components = sizes.n_components or min(n_inputs, most_components)
    projection = sizes.projection or ("none" if n_components >= n_inputs else "hadamard")
    n_components = _components(projection, n_components, n_inputs)
    kind = net or "random"
    radius = decimal(0.9 * guarantee.margin)
    if kind == "lattice":
        log_size = log_lattice_size(n_components, radius)
        failure = 0.0 if projection == "none" else 1.0
        return _Cover(projection, n_components, kind, radius, log_size, 0.0, failure)
    if n_candidates is None:
        log_size = log_random_size(n_components, float(radius), 0.01)
        log_size = min(max(log_size, math.log(_FEWEST_CANDIDATES)), math.log(budget))
        n_candidates = int(float(decimal_up(math.exp(log_size))))
    if projection == "none":
        failure = math.exp(-n_candidates * math.exp(log_cap(n_components, float(radius))))
    else:
        failure = 1.0  # what a projection does to this margin is not known
    return _Counted(
        projection, n_components, kind, radius, math.log(n_candidates), 0.0, failure, n_candidates
    )


@dataclass(frozen=True)
class _Counted(_Cover):
    """A cover whose size was set."""

    count: int

    @property
    def n_candidates(self) -> int:
        return self.count


#: Calibrated: rows are this many times ``components^2 / (rho^2 eps)``. On nine populations of 3, 6
#: and 10 features the constant was .14 on average and .31 at the most (benchmarks/net_search.py).
_CALIBRATED_ROWS = 0.35


def _practical_threshold(guarantee: Guarantee, cover: _Cover, agnostic: bool) -> _Choice:
    """A threshold between a sixteenth and nine tenths of max_error."""
    eps, rho = guarantee.max_error, guarantee.max_disagreement
    n_rows = math.ceil(_CALIBRATED_ROWS * cover.n_components**2 / (rho**2 * eps))
    if agnostic:
        cell = decimal(eps / 5)
        sizes = _sizes_of(cover, low=decimal(0.3 * eps), high=decimal(0.9 * eps), cell=cell)
        return 4 * n_rows, sizes
    return n_rows, _sizes_of(cover, low=decimal(eps / 16), high=decimal(0.9 * eps))


def _practical_mechanism(guarantee: Guarantee, cover: _Cover, calibration: str) -> _Choice:
    """An inverse temperature for which the error is small enough on a population at its worst.

    The share of candidates with an error below p grows like ``p^(k-1)`` at the most, and then the
    error of the choice has a Gamma law of k - 1 degrees over the inverse temperature.
    """
    eps, rho = guarantee.max_error, guarantee.max_disagreement
    n_rows = math.ceil(_CALIBRATED_ROWS * cover.n_components**2 / (rho**2 * eps))
    degrees = max(1, cover.n_components - 1)
    normal = NormalDist().inv_cdf(1 - guarantee.failure_prob)
    quantile = degrees * (1 - 1 / (9 * degrees) + normal / (3 * math.sqrt(degrees))) ** 3
    heat = decimal(quantile / eps)
    return n_rows, _sizes_of(cover, inverse_temperature=heat, calibration=calibration)


# --- paper mode -----------------------------------------------------------------------------------


def _paper_net(
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    constants: dict[str, float],
    agnostic: bool,
    n_repeats: int,
) -> Plan:
    """Lines 1, 2 and 6 of Algorithm 3 [KKLVZ24, Sec. 5], with rLearnerFinite of [BGH23].

    As printed, the number of samples depends on the size of the net, the net on the components,
    and these, through the failure of the projection, on the number of samples. Lines 1 and 2
    cut the circle with constants that are not given; here they are ``C1`` and ``C2``.
    """
    tau, eps = guarantee.margin, guarantee.max_error
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob
    log = math.log(1 / (eps * tau * rho * delta))
    c1, c2 = (constants.get(name, 1.0) for name in ("C1", "C2"))
    cover = _paper_cover(guarantee, n_inputs, sizes, c1)
    _require_searchable(cover, MAX_FULL)
    choice = _sizes_of(
        cover,
        root=False,
        low=decimal(eps / 2 if agnostic else eps / 4),
        high=decimal(0.75 * eps),
        cell=decimal(eps / 4) if agnostic else "0",
    )
    n_strings = _n_strings(guarantee, n_repeats)
    choice = replace(choice, n_repeats=n_repeats, n_strings=n_strings)
    n_rows = math.ceil(c2 * log / (eps * tau**4 * rho**2)) * n_repeats * n_strings
    basis = f"as printed, with constants {c1:g}, {c2:g}"
    by_hand = _by_hand(sizes)
    return _plan("net", "paper", guarantee, n_inputs, sizes, cover, n_rows, choice, basis, by_hand)


def _paper_dp(
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    constants: dict[str, float],
    sampling: str,
) -> Plan:
    """[LNUZ20, Thm. 6] with ``C2 log / (eps tau^2)`` rows, squared over rho^2 by [BGH23, Cor. 3.18].

    The private learner is run with a privacy parameter of about ``rho / sqrt(n)``: what the
    reduction needs, made explicit in docs/net.md.
    """
    tau, eps = guarantee.margin, guarantee.max_error
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob
    log = math.log(1 / (eps * tau * rho * delta))
    c1, c2, c3 = (constants.get(name, 1.0) for name in ("C1", "C2", "C3"))
    cover = _paper_cover(guarantee, n_inputs, sizes, c1)
    _require_searchable(cover, MAX_FULL)
    n_rows = math.ceil(c3 * (c2 * log / (eps * tau**2)) ** 2 / rho**2)
    planned = sizes.batch_size or n_rows
    heat = decimal(_generic_heat(rho, planned))
    choice = _sizes_of(cover, rule=sampling, inverse_temperature=heat, calibration="generic")
    basis = f"as printed, with constants {c1:g}, {c2:g}, {c3:g}"
    by_hand = _by_hand(sizes)
    return _plan("dp", "paper", guarantee, n_inputs, sizes, cover, n_rows, choice, basis, by_hand)


def _paper_cover(guarantee: Guarantee, n_inputs: int, sizes: Sizes, c1: float) -> _Cover:
    """A Gaussian projection, and a tau/20-net of the unit ball."""
    tau = guarantee.margin
    product = guarantee.max_error * tau * guarantee.max_disagreement * guarantee.failure_prob
    projection = sizes.projection or "gaussian"
    n_components = sizes.n_components or math.ceil(c1 * math.log(1 / product) / tau**2)
    n_components = _components(projection, n_components, n_inputs)
    radius = decimal(tau / 20)
    log_size = log_lattice_size(n_components, radius)
    return _Cover(projection, n_components, "lattice", radius, log_size, 0.0, 1.0)


# --- common ---------------------------------------------------------------------------------------


def _plan(
    algorithm: str,
    mode: str,
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    cover: _Cover,
    n_rows: int,
    choice: NetSizes,
    basis: str,
    by_hand: tuple[str, ...],
) -> Plan:
    if mode == "certified" and sizes.batch_size is not None and sizes.batch_size < n_rows:
        raise ReplearnError(
            f"certified mode needs batch_size of at least {n_rows:,}, got {sizes.batch_size:,}. "
            'Leave it "auto", relax the promise, or use mode="practical".'
        )
    return Plan(
        algorithm=algorithm,
        mode=mode,
        guarantee=guarantee,
        n_inputs=n_inputs,
        batch_size=sizes.batch_size or n_rows,
        n_batches=1,
        regularization="0",
        unit_vectors=False,
        length_cap=1.0,
        projection=cover.projection,
        n_components=cover.n_components,
        rounding="net",
        grid_width=choice.radius,
        accuracy=Accuracy(),
        basis=basis,
        by_hand=by_hand,
        net=choice,
    )


def _check(mode: str, constants: dict[str, float] | None, net: str | None, known: set[str]) -> None:
    if mode not in MODES:
        raise ReplearnError(f"mode must be one of {', '.join(MODES)}, got {mode!r}.")
    if net is not None and net not in NETS:
        raise ReplearnError(f'net must be "auto" or one of {", ".join(NETS)}, got {net!r}.')
    if constants and mode != "paper":
        raise ReplearnError(
            f'constants belong to mode="paper", got mode={mode!r}. '
            "Leave constants out, or choose paper mode."
        )
    for name, value in (constants or {}).items():
        if name not in known:
            raise ReplearnError(
                f"constants has the unknown key {name!r}; known are {', '.join(sorted(known))}."
            )
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ReplearnError(
                f"constants[{name!r}] must be a positive number, got {value!r}. The default is 1."
            )


def _refuse_by_hand(sizes: Sizes, n_candidates: int | None) -> None:
    for name, value in (("n_components", sizes.n_components), ("n_candidates", n_candidates)):
        if value is not None:
            raise ReplearnError(
                f"certified mode derives {name}; it cannot be set by hand. "
                'Leave it "auto", or use mode="practical".'
            )


def _by_hand(sizes: Sizes, **more: object) -> tuple[str, ...]:
    return (*sizes.given(), *(name for name, value in more.items() if value is not None))


def _components(projection: str, n_components: int, n_inputs: int) -> int:
    """Full maps keep all inputs; a Hadamard map has no more rows than inputs."""
    if projection in ("none", "rotation"):
        return n_inputs
    return min(n_components, n_inputs) if projection == "hadamard" else n_components
