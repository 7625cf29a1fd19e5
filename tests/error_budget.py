"""Checks of random quantities that state how often they are wrong.

Each check is a test of the promise at level ``false_alarm``: while the promise holds, the check
fails with at most that probability, whatever the number of trials. ``power`` gives the other half
of the budget, the probability that a broken promise is caught. A theory test states both.

>>> assert_rate_at_most(180, trials=2000, bound=0.10)
>>> round(power(trials=2000, bound=0.10, truth=0.15), 2)
0.98
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

FALSE_ALARM = 1e-6


def assert_rate_at_most(
    successes: int, trials: int, bound: float, false_alarm: float = FALSE_ALARM
) -> None:
    """Fail if so many successes are too unlikely at any rate up to ``bound``.

    Exact: the tail of the binomial law at ``bound``. ``bound=0`` asks for no success at all.
    """
    _check_counts(successes, trials, false_alarm)
    _check_can_fail(0 <= bound < 1, f"rate at most {bound}")
    p_value = float(stats.binom.sf(successes - 1, trials, bound))
    _judge(p_value, false_alarm, _rate(successes, trials), f"at most {bound:.6g}")


def assert_rate_at_least(
    successes: int, trials: int, bound: float, false_alarm: float = FALSE_ALARM
) -> None:
    """Fail if so few successes are too unlikely at any rate from ``bound`` up.

    Exact: the tail of the binomial law at ``bound``. ``bound=1`` asks for no failure at all.
    """
    _check_counts(successes, trials, false_alarm)
    _check_can_fail(0 < bound <= 1, f"rate at least {bound}")
    p_value = float(stats.binom.cdf(successes, trials, bound))
    _judge(p_value, false_alarm, _rate(successes, trials), f"at least {bound:.6g}")


def assert_rate_between(
    successes: int, trials: int, low: float, high: float, false_alarm: float = FALSE_ALARM
) -> None:
    """Fail if the count is too unlikely at every rate in ``[low, high]``, to either side.

    Each side has half of ``false_alarm``, so the whole check keeps to it.
    """
    _check_can_fail(low <= high and (low > 0 or high < 1), f"rate in [{low}, {high}]")
    if high < 1:
        assert_rate_at_most(successes, trials, high, false_alarm / 2)
    if low > 0:
        assert_rate_at_least(successes, trials, low, false_alarm / 2)


def assert_rate_close(
    successes: int,
    trials: int,
    expected: float,
    tolerance: float = 0.0,
    false_alarm: float = FALSE_ALARM,
) -> None:
    """Fail unless the rate may be within ``tolerance`` of ``expected``.

    The sampling error needs no tolerance: that is for an ``expected`` known only so well.
    """
    low, high = max(0.0, expected - tolerance), min(1.0, expected + tolerance)
    assert_rate_between(successes, trials, low, high, false_alarm)


def power(trials: int, bound: float, truth: float, false_alarm: float = FALSE_ALARM) -> float:
    """Probability that a true rate beyond ``bound`` is caught.

    For a ``truth`` above the bound this is the power of ``assert_rate_at_most``, for one below it
    that of ``assert_rate_at_least``. For a side of ``assert_rate_between`` or
    ``assert_rate_close``, pass half of their ``false_alarm``.
    """
    if truth == bound:
        raise ValueError(f"truth must differ from bound to be caught, both are {bound}.")
    if truth < bound:  # few successes are many failures
        return power(trials, 1 - bound, 1 - truth, false_alarm)
    _check_counts(0, trials, false_alarm)
    largest_accepted = stats.binom.isf(false_alarm, trials, bound)
    return float(stats.binom.sf(largest_accepted, trials, truth))


def assert_mean_close(
    samples: ArrayLike, expected: float, tolerance: float = 0.0, false_alarm: float = FALSE_ALARM
) -> None:
    """Fail unless the mean of independent samples may be within ``tolerance`` of ``expected``.

    A two-sided t-test: exact for normal samples, and close for bounded ones when there are
    hundreds of them. Samples without any spread must agree to rounding error.
    """
    values = np.asarray(samples, dtype=np.float64).ravel()
    if values.size < 2 or not np.isfinite(values).all():
        raise ValueError(f"samples must be at least 2 finite numbers, got {values.size}.")
    _check_counts(0, values.size, false_alarm)
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    excess = max(0.0, abs(mean - expected) - tolerance)
    if excess <= 1e-12 * max(abs(expected), abs(mean)):  # rounding error of the mean itself
        return
    p_value = 2 * float(stats.t.sf(excess / error, values.size - 1)) if error > 0 else 0.0
    observed = f"the mean of {values.size} samples is {mean:.6g}, standard error {error:.3g}"
    promised = f"{expected:.6g}" + (f" within {tolerance:.6g}" if tolerance else "")
    _judge(p_value, false_alarm, observed, promised)


def _rate(successes: int, trials: int) -> str:
    return f"{successes} of {trials} is a rate of {successes / trials:.6g}"


def _judge(p_value: float, false_alarm: float, observed: str, promised: str) -> None:
    if p_value <= false_alarm:
        raise AssertionError(
            f"{observed}, but {promised} is promised: p-value {p_value:.3g}, "
            f"and this check gives a false alarm with probability at most {false_alarm:.3g}"
        )


def _check_counts(successes: int, trials: int, false_alarm: float) -> None:
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"successes must be in 0..trials, got {successes} of {trials}.")
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm must be in (0, 1), got {false_alarm}.")


def _check_can_fail(can_fail: bool, promise: str) -> None:
    if not can_fail:
        raise ValueError(f"A {promise} is always or never true, so checking it tells nothing.")
