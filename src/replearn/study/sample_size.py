"""How many rows a prediction model needs, by Riley et al. (BMJ 2020; 368: m441).

Ten events for each variable were never derived from anything. These criteria are: coefficients
shrink by at most a tenth, the apparent fit is at most 0.05 better than the true one, and the
overall risk is known to 0.05.
"""

import math

import numpy as np

from replearn.glm import Loss
from replearn.study.performance import Performance
from replearn.words import Row

#: What is asked for: shrinkage, optimism of the fit, and error of the overall risk.
_SHRINKAGE, _OPTIMISM, _MARGIN = 0.9, 0.05, 0.05
#: Rows beyond the coefficients that the residual spread of numbers needs, for an error of a tenth.
_FOR_SPREAD = 234


def rows_needed(
    loss: Loss, worth: Performance, n_coefficients: int, share: float | None
) -> int | None:
    """Rows for a model with so many coefficients, from what its held-out fit explains.

    ``share`` is the event's, for two classes. None where the model explains nothing.

    Examples
    --------
    The example of the paper: 24 coefficients, R2 of Cox and Snell 0.288.

    >>> _for_shrinkage(24, 0.288, 0.9)
    623
    """
    explained = cox_snell(loss, worth)
    if not explained > 0:
        return None
    needed = [_for_shrinkage(n_coefficients, explained, _SHRINKAGE)]
    if share is not None and 0 < share < 1:
        most = 1.0 - (share**share * (1 - share) ** (1 - share)) ** 2
        shrinkage = explained / (explained + _OPTIMISM * most)
        needed.append(_for_shrinkage(n_coefficients, explained, shrinkage))
        needed.append(math.ceil((1.96 / _MARGIN) ** 2 * share * (1 - share)))
    elif loss.link == "identity":
        needed.append(_FOR_SPREAD + n_coefficients)
    return max(needed)


def cox_snell(loss: Loss, worth: Performance) -> float:
    """R2 of Cox and Snell, of rows that the fits have not seen."""
    gained = worth.base - worth.loss.value
    if loss.link == "identity":  # half of a squared error in units of the spread: plain R2
        return min(worth.explained, 0.999)
    return float(-np.expm1(-2.0 * gained))


def sample_size_row(needed: int | None, n_rows: int, counted: str) -> list[Row]:
    """As a fact; nothing where the criteria say nothing."""
    if needed is None:
        return []
    said = "here are enough" if n_rows >= needed else f"here are {n_rows:,}"
    return [Row(f"{counted} by Riley et al.", needed, note=said, key="rows_by_riley")]


def _for_shrinkage(n_coefficients: int, explained: float, shrinkage: float) -> int:
    """Rows with which coefficients shrink by so much: Riley et al., criterion 1 and 2."""
    inner = 1.0 - min(explained / shrinkage, 0.999)
    return math.ceil(n_coefficients / ((shrinkage - 1.0) * math.log(inner)))
