"""Sizes of Algorithm 3 and of the DP reduction, in the three modes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import NormalDist

from replearn.codes.nets import NETS
from replearn.errors import ReplearnError
from replearn.plans.choice_sizes import (
    BASE_DISAGREEMENT,
    Sized,
    certified_agnostic,
    certified_mechanism,
    certified_threshold,
    generic_heat,
    generic_mechanism,
    n_strings,
    require_repeats,
)
from replearn.plans.net_cover import (
    MAX_FULL,
    MAX_LAZY,
    Cover,
    certified_covers,
    paper_cover,
    practical_cover,
    refuse,
    require_searchable,
    searchable,
)
from replearn.plans.sizes import Guarantee, NetPlan, NetSizes, Sizes, check_mode, decimal
from replearn.plans.space_sizes import read_constants, refuse_pilot_choices, require_at_least

CALIBRATIONS = ("margin", "generic")
SAMPLINGS = ("gumbel", "holenstein")

_PROVED = "proved for every distribution with this margin"
_PROVED_AGNOSTIC = (
    "proved: error at most max_error above the net's best, wherever that is at most 1/2"
)
_CALIBRATED = "calibrated on synthetic populations, not proved"

#: Practical mode: candidates and components that are looked at when the user sets no number.
_LAZY_BUDGET, _LAZY_COMPONENTS = 1 << 20, 24
_FULL_BUDGET, _FULL_COMPONENTS = 1 << 18, 16

#: Calibrated: rows are this many times ``components^2 / (rho^2 eps)``. On eighteen populations of
#: 3, 6 and 10 features the constant was .1 on average and .31 at the most
#: (benchmarks/net_search.py).
_CALIBRATED_ROWS = 0.35

#: Times as many if the smallest error is not known to be about 0.
_AGNOSTIC_ROWS = 4

_CONSTANTS = {"C1": "components", "C2": "samples"}
_DP_CONSTANTS = {"C1": "components", "C2": "samples of the private learner", "C3": "reduction"}


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
) -> NetPlan:
    """Sizes of Algorithm 3: the first candidate of a net below a random threshold.

    ``constants`` are ``C1`` and ``C2`` of its lines 1 and 2, and ``sizes`` may fix
    ``n_components``, ``projection`` and ``batch_size`` (rows).

    Parameters
    ----------
    net : {"random", "lattice"}, optional
        Default: whichever needs fewer samples.
    n_candidates : int, optional
        Size of a random net, by hand.
    agnostic : bool
        Learn the smallest error of the net, replicably, instead of assuming that it is about 0.
    n_repeats : int
        Amplification: this many repetitions of the choice for each shared string.
    """
    sizes = sizes or Sizes()
    _check(mode, constants, net)
    if mode != "practical":
        refuse_pilot_choices(sizes, mode)
    most = MAX_FULL if agnostic else MAX_LAZY  # the smallest error is that of all candidates
    if mode == "paper":
        c1, c2 = read_constants(constants, "Algorithm 3", _CONSTANTS)
        cover = paper_cover(guarantee, n_inputs, sizes, net, n_candidates, c1)
        require_searchable(cover, most)
        n_rows, choice = _paper_threshold(guarantee, cover, agnostic, c2)
        basis = f"sizes as printed, with constants {c1:g}, {c2:g}; see docs/theory.md"
    elif mode == "practical":
        cover = practical_cover(
            guarantee, n_inputs, sizes, net, n_candidates, _LAZY_BUDGET, _LAZY_COMPONENTS
        )
        require_searchable(cover, most)
        (n_rows, choice), basis = _practical_threshold(guarantee, cover, agnostic), _CALIBRATED
    else:
        _refuse_by_hand(sizes, n_candidates)
        promise = guarantee
        if n_repeats > 1:
            require_repeats(guarantee, n_repeats)
            promise = replace(guarantee, max_disagreement=BASE_DISAGREEMENT)
        rule = certified_agnostic if agnostic else certified_threshold
        cover, (n_rows, choice) = _certified(promise, n_inputs, sizes, net, rule, most)
        basis = _PROVED_AGNOSTIC if agnostic else _PROVED
    strings = n_strings(guarantee, n_repeats)
    choice = replace(choice, n_repeats=n_repeats, n_strings=strings)
    n_rows *= n_repeats * strings
    asked = {"net": net, "n_candidates": n_candidates}
    return _plan("net", mode, guarantee, n_inputs, sizes, cover, n_rows, choice, basis, asked)


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
) -> NetPlan:
    """Sizes of the DP reduction: the exponential mechanism over a net, with common noise.

    ``constants`` are ``C1`` (components), ``C2`` (samples of the private learner) and ``C3``
    (samples of the reduction); ``sizes``, ``net`` and ``n_candidates`` are as for `plan_net`.

    Parameters
    ----------
    calibration : {"margin", "generic"}
        The disagreement is proved for populations with the margin, or for all populations.
    sampling : {"gumbel", "holenstein"}
    """
    sizes = sizes or Sizes()
    _check(mode, constants, net)
    _check_name("calibration", calibration, CALIBRATIONS)
    _check_name("sampling", sampling, SAMPLINGS)
    if mode == "paper":
        c1, c2, c3 = read_constants(constants, "The DP reduction", _DP_CONSTANTS)
        cover = paper_cover(guarantee, n_inputs, sizes, net, n_candidates, c1)
        require_searchable(cover, MAX_FULL)
        n_rows, choice = _paper_mechanism(guarantee, cover, sizes.batch_size, c2, c3)
        basis = f"rates as printed, with constants {c1:g}, {c2:g}, {c3:g}; see docs/theory.md"
    elif mode == "practical":
        cover = practical_cover(
            guarantee, n_inputs, sizes, net, n_candidates, _FULL_BUDGET, _FULL_COMPONENTS
        )
        require_searchable(cover, MAX_FULL)
        (n_rows, choice), basis = _practical_mechanism(guarantee, cover, calibration), _CALIBRATED
    else:
        _refuse_by_hand(sizes, n_candidates)
        rule = certified_mechanism if calibration == "margin" else generic_mechanism
        cover, (n_rows, choice) = _certified(guarantee, n_inputs, sizes, net, rule, MAX_FULL)
        basis = _PROVED
        if calibration == "generic":
            basis += ", the disagreement for every distribution"
    choice = replace(choice, rule=sampling)
    asked = {"net": net, "n_candidates": n_candidates}
    return _plan("dp", mode, guarantee, n_inputs, sizes, cover, n_rows, choice, basis, asked)


def _certified(
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    net: str | None,
    rule: Callable[[Guarantee, Cover], Sized],
    most: int,
) -> tuple[Cover, Sized]:
    """The cover that needs the fewest rows, of those that can be searched."""
    covers = list(certified_covers(guarantee, n_inputs, net, sizes.projection))
    options = [(cover, rule(guarantee, cover)) for cover in covers if searchable(cover, most)]
    if not options:
        refuse(covers, most, guarantee, n_inputs)
    return min(options, key=lambda option: option[1][0])


# --- practical mode -----------------------------------------------------------------------------


def affordable_error(n_components: int, max_disagreement: float, n_rows: int) -> float:
    """What a choice that learns the smallest error of a net may lose, given the rows of a lab.

    The inverse of the rows that a practical plan asks for, with ``agnostic``.

    Examples
    --------
    >>> round(affordable_error(3, 0.1, 50_000), 4)
    0.0252
    """
    return _AGNOSTIC_ROWS * _CALIBRATED_ROWS * n_components**2 / (max_disagreement**2 * n_rows)


def _practical_rows(guarantee: Guarantee, cover: Cover) -> int:
    eps, rho = guarantee.max_error, guarantee.max_disagreement
    return math.ceil(_CALIBRATED_ROWS * cover.n_components**2 / (rho**2 * eps))


def _practical_threshold(guarantee: Guarantee, cover: Cover, agnostic: bool) -> Sized:
    """A threshold between a sixteenth and nine tenths of max_error."""
    eps = guarantee.max_error
    n_rows = _practical_rows(guarantee, cover)
    if not agnostic:
        return n_rows, cover.sizes(low=decimal(eps / 16), high=decimal(0.9 * eps))
    # error rates vary more, and their smallest must be learned
    ends = {"low": decimal(0.3 * eps), "high": decimal(0.9 * eps), "cell": decimal(eps / 5)}
    return _AGNOSTIC_ROWS * n_rows, cover.sizes(**ends)


def _practical_mechanism(guarantee: Guarantee, cover: Cover, calibration: str) -> Sized:
    """An inverse temperature for which the error is small enough on a population at its worst.

    The share of candidates with an error below p grows like ``p^(k-1)`` at the most, and then the
    error of the choice has a Gamma law of k - 1 degrees over the inverse temperature; its quantile
    is that of Wilson and Hilferty.
    """
    degrees = max(1, cover.n_components - 1)
    normal = NormalDist().inv_cdf(1 - guarantee.failure_prob)
    quantile = degrees * (1 - 1 / (9 * degrees) + normal / (3 * math.sqrt(degrees))) ** 3
    heat = decimal(quantile / guarantee.max_error)
    n_rows = _practical_rows(guarantee, cover)
    return n_rows, cover.sizes(inverse_temperature=heat, calibration=calibration)


# --- paper mode -----------------------------------------------------------------------------------


def _paper_threshold(guarantee: Guarantee, cover: Cover, agnostic: bool, c2: float) -> Sized:
    """Line 2 of Algorithm 3 [KKLVZ24, Sec. 5], with rLearnerFinite of [BGH23, Thm. 5.13].

    As printed, the number of samples depends on the size of the net, the net on the components,
    and these, through the failure of the projection, on the number of samples. Lines 1 and 2
    cut the circle with constants that are not given: here they are ``C1`` and ``C2``.
    """
    eps = guarantee.max_error
    ends = {"low": decimal(eps / 4), "high": decimal(0.75 * eps)}
    if agnostic:
        ends = {"low": decimal(eps / 2), "high": decimal(0.75 * eps), "cell": decimal(eps / 4)}
    rows = c2 * _log(guarantee) / (eps * guarantee.margin**4 * guarantee.max_disagreement**2)
    return math.ceil(rows), cover.sizes(root=False, **ends)


def _paper_mechanism(
    guarantee: Guarantee, cover: Cover, by_hand: int | None, c2: float, c3: float
) -> Sized:
    """[LNUZ20, Thm. 6] with ``C2 log / (eps tau^2)`` rows, squared by [BGH23, Cor. 3.18].

    The private learner is run with a privacy parameter of about ``rho / sqrt(n)``: what the
    reduction needs, made explicit in docs/net.md.
    """
    rho = guarantee.max_disagreement
    private = c2 * _log(guarantee) / (guarantee.max_error * guarantee.margin**2)
    n_rows = math.ceil(c3 * private**2 / rho**2)
    heat = decimal(generic_heat(rho, by_hand or n_rows))
    return n_rows, cover.sizes(inverse_temperature=heat, calibration="generic")


def _log(guarantee: Guarantee) -> float:
    """``log(1 / (eps tau rho delta))``."""
    rates = guarantee.max_error * guarantee.max_disagreement * guarantee.failure_prob
    return math.log(1 / (rates * guarantee.margin))


# --- common ---------------------------------------------------------------------------------------


def _plan(
    algorithm: str,
    mode: str,
    guarantee: Guarantee,
    n_inputs: int,
    sizes: Sizes,
    cover: Cover,
    n_rows: int,
    choice: NetSizes,
    basis: str,
    asked: Mapping[str, object],
) -> NetPlan:
    if mode == "certified":
        require_at_least(sizes, batch_size=n_rows)
    return NetPlan(
        algorithm=algorithm,
        mode=mode,
        guarantee=guarantee,
        n_inputs=n_inputs,
        n_rows=sizes.batch_size or n_rows,
        projection=cover.projection,
        n_components=cover.n_components,
        basis=basis,
        by_hand=(*sizes.given(), *(name for name, value in asked.items() if value is not None)),
        net=choice,
        basis_map=sizes.basis,
    )


def _check(mode: str, constants: dict[str, float] | None, net: str | None) -> None:
    check_mode(mode, constants)
    if net is not None:
        _check_name("net", net, NETS)


def _check_name(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ReplearnError(f"{name} must be one of {', '.join(known)}, got {value!r}.")


def _refuse_by_hand(sizes: Sizes, n_candidates: int | None) -> None:
    for name, value in (("n_components", sizes.n_components), ("n_candidates", n_candidates)):
        if value is not None:
            raise ReplearnError(
                f"certified mode derives {name}; it cannot be set by hand. "
                'Leave it "auto", or use mode="practical".'
            )
