"""What centres have in common, and what to expect of a new one: a random-effects summary.

Each centre has a value of its own, known up to an error. The variance between centres is that of
Paule and Mandel, as in `replearn.glm.between`; the interval of the mean is that of Hartung and
Knapp; the prediction interval is where the value of one more centre lies, which is what somebody
who thinks of using a model elsewhere wants to know (Higgins, Thompson and Spiegelhalter 2009).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from replearn.glm import excess_variance
from replearn.study import Measure

#: Centres that a prediction interval takes: it has two degrees of freedom less.
LEAST_CENTRES = 3
_LEVEL = 0.975


@dataclass(frozen=True)
class RandomEffects:
    """Mean over centres, and what a new centre may have.

    Attributes
    ----------
    mean : Measure
        With its 95% confidence interval.
    new_centre : (float, float)
        95% prediction interval of the value of a new centre.
    between : float
        Standard deviation between centres, on the scale that was pooled.
    n_centres : int
    """

    mean: Measure
    new_centre: tuple[float, float]
    between: float
    n_centres: int


class Scale(NamedTuple):
    """Where values of centres are about normal: the way there, and back to what people read."""

    to: Callable[[float], float]
    back: Callable[[float], float]


def _log_odds(share: float) -> float:
    share = min(max(share, 1e-6), 1 - 1e-6)
    return math.log(share / (1 - share))


AS_IS = Scale(float, float)
#: Of ratios, and of shares such as the AUC.
LOG = Scale(math.log, lambda value: math.exp(min(value, 700.0)))
LOGIT = Scale(_log_odds, lambda value: 1 / (1 + math.exp(min(-value, 700.0))))


def pooled(measures: Sequence[Measure], scale: Scale) -> RandomEffects | None:
    """Summarise the values of centres; None if fewer than three have one with an error.

    Standard errors are read off the 95% intervals, on the scale that is pooled.
    """
    known = [one for one in measures if _is_usable(one, scale)]
    if len(known) < LEAST_CENTRES:
        return None
    values = np.array([scale.to(one.value) for one in known])
    ends = [(scale.to(one.high) - scale.to(one.low)) / (2 * 1.96) for one in known]
    sampling = np.array(ends) ** 2

    # 1 the mean, each centre weighed by all that makes its value uncertain
    between = excess_variance(values, sampling)
    weights = 1.0 / (sampling + between)
    mean = float(weights @ values) / float(weights.sum())

    # 2 Hartung and Knapp; never narrower than without the correction
    freedom = len(values) - 1
    excess = float(weights @ (values - mean) ** 2) / freedom
    variance = max(1.0, excess) / float(weights.sum())
    reach = _quantile(freedom) * math.sqrt(variance)

    # 3 a new centre has its own value, too
    ahead = _quantile(freedom - 1) * math.sqrt(between + variance)
    low, high, first, last = (scale.back(mean + move) for move in (-reach, reach, -ahead, ahead))
    measure = Measure(scale.back(mean), low, high)
    return RandomEffects(measure, (first, last), math.sqrt(between), len(values))


def _is_usable(one: Measure, scale: Scale) -> bool:
    """A ratio of 0, say, has no logarithm, and no event shows no AUC."""
    if not all(math.isfinite(end) for end in (one.value, one.low, one.high)):
        return False
    if scale is LOG and one.low <= 0:
        return False
    return one.high > one.low


def _quantile(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, _LEVEL))
