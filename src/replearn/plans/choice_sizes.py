"""How many rows make a choice from a net replicable: the proved sizes, and the bounds behind them.

Notation: ``log_size`` ln|H|, ``heat`` the inverse temperature L. A weight is exp(-L error rate),
so one row moves a log-weight by at most l = L / n. The proofs are in docs/net.md; the tests in
tests/theory/test_selection.py and test_net.py.
"""

import math

from replearn.codes.nets import decimal_down, decimal_up
from replearn.errors import ReplearnError
from replearn.plans.net_cover import Cover
from replearn.plans.sizes import Guarantee, NetPlan, NetSizes

#: Rows, and the sizes of the choice.
Sized = tuple[int, NetSizes]

#: Share of the disagreement for errors that are further from the truth than the proof allows.
_DEVIATION_SHARE = 0.05

#: The lowest threshold is this many deviations above the best candidate's error.
_CLEARANCE = 4

#: Disagreement that each repetition of an amplified choice must keep.
BASE_DISAGREEMENT = 0.01


def proved_disagreement(plan: NetPlan, n_rows: int) -> float:
    """Bound of the disagreement of two fits with ``n_rows`` rows each, over seeds; 1: nothing.

    For populations with the promised margin; for all populations with the generic calibration.
    """
    net = plan.net
    if n_rows < 1:
        return 1.0
    log_size = math.log(net.n_candidates)
    if net.rule == "first_below":
        if net.n_repeats == 1:
            return _threshold_disagreement(net, n_rows, log_size)
        n_groups = net.n_strings * net.n_repeats
        base = _threshold_disagreement(net, n_rows // n_groups, log_size)
        return amplified_disagreement(base, net.n_repeats, net.n_strings)
    heat = float(net.inverse_temperature)
    if net.calibration == "generic":
        return _generic_disagreement(heat, n_rows)
    bound = _margin_disagreement(heat, n_rows, log_size, float(net.exceptions))
    return min(1.0, bound + float(net.net_failure))


# --- first below a threshold --------------------------------------------------------------------


def certified_threshold(guarantee: Guarantee, cover: Cover) -> Sized:
    """Rows and threshold of rLearnerFinite, some candidate wrong on ``exceptions`` at most.

    On the scale of square roots an error rate of n rows is further than ``t`` from the truth with
    probability at most ``exp(-(2 - t/(root + t)) n t^2)`` (Hellinger). A threshold uniform over a
    width W of that scale then separates two labs with ``2 t ln|H| / W`` at most.
    """
    rho = guarantee.max_disagreement - cover.failure
    delta = guarantee.failure_prob - cover.failure
    log_size = cover.log_candidates
    for_flips = (1 - _DEVIATION_SHARE) * rho
    log = log_size + math.log(max(2 / (_DEVIATION_SHARE * rho), 1 / delta))
    best, most = math.sqrt(cover.exceptions), math.sqrt(guarantee.max_error)
    deviation = for_flips * (most - best) / (2 * log_size + (_CLEARANCE + 1) * for_flips)
    low = decimal_up((best + _CLEARANCE * deviation) ** 2)
    high = decimal_down((most - deviation) ** 2)
    width = math.sqrt(float(high)) - math.sqrt(float(low))
    deviation = min(deviation, for_flips * width / (2 * log_size))
    n_rows = math.ceil(log / ((2 - 1 / (_CLEARANCE + 1)) * deviation**2))
    return n_rows, cover.sizes(low=low, high=high)


def certified_agnostic(guarantee: Guarantee, cover: Cover) -> Sized:
    """Rows, threshold and start of the agnostic learner, the net's best error at most 1/2.

    With all errors within ``t`` of the truth, also on the scale of roots: the start flips with
    ``2 t / cell``, the choice with ``2 t ln|H| / W``, W the width in roots where it is smallest.
    """
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob - cover.failure
    log = cover.log_candidates + math.log(max(4 / (_DEVIATION_SHARE * rho), 2 / delta))
    options = []
    for share in (0.05, 0.1, 0.15, 0.2, 0.3, 0.4):
        cell = decimal_up(share * guarantee.max_error)
        fitting = _agnostic_range(guarantee, cell, cover.log_candidates)
        if fitting is not None:
            t, low, high = fitting
            choice = cover.sizes(low=low, high=high, cell=cell)
            options.append((math.ceil(log / (1.9 * t * t)), choice))
    return min(options, key=lambda option: option[0])


def _agnostic_range(
    guarantee: Guarantee, cell: str, log_size: float
) -> tuple[float, str, str] | None:
    """The largest deviation t that the disagreement allows, and the ends of the threshold."""
    eps = guarantee.max_error
    allowed = (1 - _DEVIATION_SHARE) * guarantee.max_disagreement
    t = eps / 10
    for _ in range(500):
        low = decimal_up(float(cell) + (1 + math.sqrt(2)) * t + t * t)
        high = decimal_down(eps - t - 2 * t * math.sqrt(0.5 + eps) - t * t)
        width = math.sqrt(0.5 + float(high)) - math.sqrt(0.5 + float(low))
        if width > 0 and 2 * t / float(cell) + 2 * t * log_size / width <= allowed:
            return t, low, high
        t *= 0.97
    return None


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


# --- amplification --------------------------------------------------------------------------------


def n_strings(guarantee: Guarantee, n_repeats: int) -> int:
    """Shared strings: one in ten is bad, and all of them with rho/4 at most."""
    return 1 if n_repeats == 1 else math.ceil(math.log10(4 / guarantee.max_disagreement))


def require_repeats(guarantee: Guarantee, n_repeats: int) -> None:
    """Refuse an amplification with too few repetitions for the promise."""
    strings = n_strings(guarantee, n_repeats)
    needed = 2
    while amplified_disagreement(0.0, needed, strings) > guarantee.max_disagreement:
        needed = math.ceil(needed * 1.1)
    if n_repeats < needed:
        raise ReplearnError(
            f"certified mode needs n_repeats of at least {needed:,} for max_disagreement "
            f"{guarantee.max_disagreement:g}, got {n_repeats:,}. Leave n_repeats at 1, which "
            'needs fewer rows here, or use mode="practical".'
        )


def amplified_disagreement(base: float, n_repeats: int, strings: int) -> float:
    """Disagreement after amplification of a choice that disagrees with ``base``.

    Frequencies are within ``a`` of the truth but with ``4 K exp(-2 q a^2)``; a shared threshold,
    uniform on [2/3, 5/6], falls between two labs with 12 a; at most 10/9 strings are looked at on
    average; all of them are bad with ``10^-K``.
    """
    if base > BASE_DISAGREEMENT:
        return 1.0
    bounds = (
        40 / 3 * a + 4 * strings * math.exp(-2 * n_repeats * a * a) + 10.0**-strings
        for a in (i / 2000 for i in range(1, 120))
    )
    return min(1.0, *bounds)


# --- exponential mechanism --------------------------------------------------------------------


def _stretched(rho: float) -> float:
    """The ``s`` with ``s / (1 + s/2) = rho``: 2 TV may be as large for a disagreement of rho."""
    return rho / (1 - rho / 2)


def certified_mechanism(guarantee: Guarantee, cover: Cover) -> Sized:
    """Rows and inverse temperature, disagreement proved for populations with the margin.

    Jeffreys' divergence of two labs' weights is at most ``2 e^l (e^l - 1) (ln|H| + L eta)`` on
    average, eta the exceptions; an error above max_error has probability
    ``|H| exp(-n (1 - e^-l) (eps - eta e^l))``.
    """
    eps, eta = guarantee.max_error, cover.exceptions
    target = _stretched(guarantee.max_disagreement - cover.failure) ** 2
    log_size = cover.log_candidates
    log = log_size + math.log(1 / (guarantee.failure_prob - cover.failure))
    heat = log / eps
    for _ in range(100):  # settles: eta is a small share of eps
        growth = (1 + math.sqrt(1 + 2 * target / (log_size + heat * eta))) / 2
        n_rows = log / ((1 - 1 / growth) * (eps - eta * growth))
        rounded = decimal_up(math.log(growth) * n_rows)
        heat = float(rounded)
    n_needed = math.ceil(heat / math.log(growth))
    return n_needed, cover.sizes(inverse_temperature=rounded, calibration="margin")


def _margin_disagreement(heat: float, n_rows: int, log_size: float, exceptions: float) -> float:
    growth = math.exp(min(50.0, heat / n_rows))
    spread = math.sqrt(2 * growth * (growth - 1) * (log_size + heat * exceptions))
    return spread / (1 + spread / 2)


def generic_mechanism(guarantee: Guarantee, cover: Cover) -> Sized:
    """Rows and inverse temperature, disagreement proved for every population.

    Efron-Stein: one row moves a probability by a factor of ``e^(+-l)`` at most.
    """
    log = cover.log_candidates + math.log(1 / (guarantee.failure_prob - cover.failure))

    def enough(n_rows: float) -> bool:
        growth = math.exp(generic_heat(guarantee.max_disagreement, n_rows) / n_rows)
        room = guarantee.max_error - cover.exceptions * growth
        return n_rows * (1 - 1 / growth) * room >= log

    low = high = 1.0
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    heat = decimal_up(generic_heat(guarantee.max_disagreement, high))
    n_rows = math.ceil(high)
    while _generic_disagreement(float(heat), n_rows) > guarantee.max_disagreement:
        n_rows = math.ceil(n_rows * 1.001)
    return n_rows, cover.sizes(inverse_temperature=heat, calibration="generic")


def generic_heat(rho: float, n_rows: float) -> float:
    """The largest inverse temperature whose disagreement is at most rho for every population."""
    spread = _stretched(rho)
    kappa = spread / math.sqrt(2 + spread**2)
    return n_rows / 2 * math.log1p(2 * kappa / math.sqrt(n_rows))


def _generic_disagreement(heat: float, n_rows: int) -> float:
    growth = math.exp(min(50.0, 2 * heat / n_rows))
    kappa = math.sqrt(n_rows) * (growth - 1) / 2
    if kappa >= 1:
        return 1.0
    spread = math.sqrt(2) * kappa / math.sqrt(1 - kappa**2)
    return min(1.0, spread / (1 + spread / 2))
