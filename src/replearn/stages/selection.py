"""Choosing one of a finite list so that another lab, with slightly other numbers, chooses the same.

=================== ============================================ =================================
choice              rule, with shared coins                      chance of the same choice
=================== ============================================ =================================
`first_below`       random threshold, random order, the first    Jaccard index of the two sets of
                    candidate at or below the threshold          candidates below the threshold
`correlated_choice` sample from each lab's own weights, with     at least (1 - TV) / (1 + TV), TV
                    common noise                                 the total variation distance
`noisy_best`        the best score after common exponential      about 1 - |D| / (2 scale), D by how
                    noise                                        much the leaders' difference moved
=================== ============================================ =================================

All take numbers that differ from lab to lab (errors, scores) and coins that do not.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError
from replearn.kernels import weighted_choice as kernels
from replearn.types import Order, Vector

METHODS = ("gumbel", "holenstein")


def correlated_choice(
    log_weights: ArrayLike,
    shared: SharedRandomness | int | str,
    *,
    method: str = "gumbel",
    purpose: str = "choice",
) -> int:
    """Sample an index with the given weights, the same index at every lab if the weights are near.

    Parameters
    ----------
    log_weights : array of shape (n_candidates,)
        Logarithms of the weights, up to a common constant; ``-inf`` for weight 0. For instance
        ``scores / temperature``, or ``-n_errors * rate``.
    shared : SharedRandomness, int or str
        The published seed.
    method : {"gumbel", "holenstein"}, default="gumbel"
        Gumbel-max: the largest log-weight plus noise. Holenstein: common proposals, the first
        one that is accepted.
    purpose : str, default="choice"
        Names the coins. Two choices of one study are independent only if they have two names.

    Returns
    -------
    index : int
        Index ``i`` with probability proportional to ``exp(log_weights[i])``, over seeds.

    Notes
    -----
    Labs with weights P and Q choose the same index with probability at least
    ``(1 - TV) / (1 + TV)``, and no method can do better for all pairs [Holenstein07; BGHKRS16].
    Gumbel-max has exactly ``sum_i 1 / sum_j max(p_j / p_i, q_j / q_i)``, never less than
    Holenstein's rejection [DMS24], and needs no normalisation. The noise of candidate i is draw
    i of stream "<purpose>/gumbel", whatever the other candidates. Tested in
    tests/theory/test_selection.py.

    Examples
    --------
    >>> here = np.array([0.912, 0.931, 0.930, 0.874])  # accuracies of four models, at one lab
    >>> there = np.array([0.910, 0.929, 0.933, 0.871])  # and at another, where another is best
    >>> [correlated_choice(accuracy / 0.01, shared=2024) for accuracy in (here, there)]
    [2, 2]
    """
    weights = _log_weights(log_weights)
    coins = _coins(shared)
    if method == "gumbel":
        # ties, which have probability 0 unless both are -inf, go to the lower index
        return int(np.argmax(weights + coins.gumbels(f"{purpose}/gumbel", weights.size)))
    if method == "holenstein":
        probabilities = np.empty(weights.size)
        total = kernels.fill_weights(weights - weights.max(), probabilities)
        return int(
            kernels.first_accepted(probabilities, total, *coins.key(f"{purpose}/holenstein"))
        )
    raise ReplearnError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")


def noisy_best(
    scores: ArrayLike,
    noise_scale: float,
    shared: SharedRandomness | int | str,
    *,
    purpose: str = "choice",
) -> int:
    """Choose the candidate with the best score after shared exponential noise.

    Parameters
    ----------
    scores : array of shape (n_candidates,)
        Larger is better; means over this lab's rows.
    noise_scale : float
        Published, the same at every lab: `replearn.plan_choice`. Wider noise agrees more often
        and gives up more.
    shared : SharedRandomness, int or str
        The published seed.
    purpose : str, default="choice"
        Names the coins. Two choices of one study are independent only if they have two names.

    Returns
    -------
    index : int
        Of the chosen candidate.

    Notes
    -----
    The noise of candidate i is draw i of stream "<purpose>/exponential", whatever the other
    candidates. By the lack of memory the gap of the two largest noisy scores is at least
    exponential, so labs whose score differences are within D of each other choose differently
    with probability about ``D / (2 noise_scale)`` at most, whatever the number of candidates;
    the score given up is at most ``noise_scale ln(n_candidates)`` on average. The law of the
    choice is that of permute-and-flip [MS20; DK21], which never gives up more than weights
    ``exp(score / noise_scale)`` do. Tested in tests/theory/test_model_choice.py.

    Examples
    --------
    >>> here = np.array([0.912, 0.931, 0.930, 0.874])  # accuracies of four models, at one lab
    >>> there = np.array([0.910, 0.929, 0.933, 0.871])  # and at another, where another is best
    >>> [noisy_best(accuracy, 0.01, shared=2024) for accuracy in (here, there)]
    [2, 2]
    """
    values = _list(scores, "scores")
    if not np.isfinite(values).all():
        raise ReplearnError(
            f"scores must be finite, got {values[~np.isfinite(values)][0]}. Drop the candidates "
            "that could not be scored."
        )
    if not (isinstance(noise_scale, int | float | np.number) and 0 < noise_scale < math.inf):
        raise ReplearnError(f"noise_scale must be a positive number, got {noise_scale!r}.")
    # ties go to the lower index
    return int(np.argmax(noisy_scores(values, float(noise_scale), _coins(shared), purpose)))


def noisy_scores(
    scores: Vector, noise_scale: float, shared: SharedRandomness, purpose: str
) -> Vector:
    """The scores with their shared noise; `noisy_best` takes the largest."""
    return np.asarray(
        scores + noise_scale * shared.exponentials(f"{purpose}/exponential", scores.size)
    )


def first_below(
    errors: ArrayLike,
    shared: SharedRandomness | int | str,
    *,
    low: float = 0.0,
    high: float,
    cell: float = 0.0,
    purpose: str = "choice",
) -> int:
    """Choose the first candidate, in a shared random order, with an error below a shared threshold.

    Parameters
    ----------
    errors : array of shape (n_candidates,)
        Error rates of the candidates on this lab's data, in [0, 1].
    shared : SharedRandomness, int or str
        The published seed.
    low, high : float
        The threshold lies between them; both are added to the start that ``cell`` sets. The wider
        apart, the more often labs agree.
    cell : float, default=0
        0: the start is 0, for candidates some of which have an error below ``low``. Positive: the
        start is the smallest error, rounded down to a shared random grid of this width; take
        ``low`` at least as large as ``cell``, and ``high`` as what the choice may lose.
    purpose : str, default="choice"
        Names the coins. Two choices of one study are independent only if they have two names.

    Returns
    -------
    index : int
        If no error is below the threshold, the smallest error, the first in the shared order.

    Notes
    -----
    rLearnerFinite of [BGH23, Thm. 5.13]. The output is a min-wise hash of the set of candidates
    below the threshold, so two labs choose differently with probability one minus the Jaccard
    index of their sets. If their errors are within ``t`` of the truth, on the scale of square
    roots, the average over the threshold is at most
    ``2 t ln(n_candidates) / (sqrt(high) - sqrt(low))``. Tested in tests/theory/test_selection.py.

    Examples
    --------
    >>> here, there = [0.30, 0.052, 0.048, 0.21, 0.049], [0.29, 0.047, 0.051, 0.22, 0.050]
    >>> [first_below(errors, shared=3, low=0.02, high=0.1, cell=0.02) for errors in (here, there)]
    [1, 1]
    """
    rates = _rates(errors)
    coins = _coins(shared)
    law = ThresholdLaw(_number(low, "low"), _number(high, "high"), _number(cell, "cell"))
    if not low <= high:
        raise ReplearnError(f"low must be at most high, got {low} and {high}.")
    limit = draw_threshold(law, float(rates.min()), coins, purpose)
    order = coins.permutation(f"{purpose}/order", rates.size)
    return first_of(rates, limit, order)


def first_of(values: NDArray[Any], limit: float, order: Order) -> int:
    """The first index in the order whose value is at most the limit, or else the smallest value."""
    ordered = values[order]
    below = np.flatnonzero(ordered <= limit)
    return int(order[below[0]] if below.size else order[np.argmin(ordered)])


class ThresholdLaw(NamedTuple):
    """Where a threshold may lie.

    Attributes
    ----------
    low, high : float
        Ends, measured from the start.
    cell : float
        Grid width of the start; 0: the start is 0.
    root : bool
        Uniform on the scale of square roots, on which the error of an error rate is the same
        everywhere, ``1 / sqrt(4 n)``; else uniform.
    """

    low: float
    high: float
    cell: float = 0.0
    root: bool = True


def draw_threshold(
    law: ThresholdLaw, smallest: float, shared: SharedRandomness, purpose: str, number: int = 0
) -> float:
    """The threshold of a study, and the start below it.

    ``smallest`` is this lab's smallest error; it matters if ``law.cell`` is positive. ``number``
    says which of the independent thresholds of the study. Reads the streams "<purpose>/threshold"
    and "<purpose>/start".
    """
    start = 0.0
    if law.cell > 0:
        offset = float(shared.uniforms(f"{purpose}/start", 1, row=number)[0])
        start = law.cell * (math.floor(smallest / law.cell - offset) + offset)
    share = float(shared.uniforms(f"{purpose}/threshold", 1, row=number)[0])
    low, high = max(start + law.low, 0.0), max(start + law.high, 0.0)
    if not law.root:
        return low + share * (high - low)
    root = math.sqrt(low) + share * (math.sqrt(high) - math.sqrt(low))
    return root * root


def amplified(
    choose: Callable[[int, int], int],
    n_repeats: int,
    n_strings: int,
    shared: SharedRandomness,
    purpose: str,
) -> tuple[int, list[float], list[float]]:
    """Repeat a choice on fresh samples, and take what most repetitions choose.

    ``choose(string, repeat)`` is one choice, with the coins of a shared string, on a sample of its
    own. The result is that of the first string whose most frequent choice is frequent enough, or of
    the last one; and for each string that was looked at, the share of its most frequent choice and
    the level that was asked for. Reads the stream "<purpose>/frequency".

    Notes
    -----
    As in [ILPS22] and [BGH23]. A choice that disagrees with probability .01 has a most frequent
    value of probability .9 for nine strings in ten; a shared level, uniform on [2/3, 5/6], keeps
    the rest apart. Two labs with frequencies f and f' take different decisions with probability
    ``6 |f - f'|`` at most. Tested in tests/theory/test_selection.py.
    """
    shares, levels = [], []
    for string in range(n_strings):
        chosen = [choose(string, repeat) for repeat in range(n_repeats)]
        indices, counts = np.unique(chosen, return_counts=True)
        candidate = int(indices[np.argmax(counts)])
        shares.append(float(counts.max()) / n_repeats)
        levels.append(2 / 3 + float(shared.uniforms(f"{purpose}/frequency", 1, row=string)[0]) / 6)
        if shares[-1] >= levels[-1]:
            break
    return candidate, shares, levels


# --- checks ---------------------------------------------------------------------------------


def _coins(shared: SharedRandomness | int | str) -> SharedRandomness:
    if isinstance(shared, SharedRandomness):
        return shared
    return SharedRandomness(seed_text(shared, "shared"))


def _list(values: ArrayLike, name: str) -> Vector:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ReplearnError(
            f"{name} must be a list of at least one number, got shape {array.shape}."
        )
    return array


def _log_weights(values: ArrayLike) -> Vector:
    weights = _list(values, "log_weights")
    if np.isnan(weights).any() or weights.max() == math.inf or weights.max() == -math.inf:
        raise ReplearnError(
            "log_weights must be finite or -inf, one of them finite, got "
            f"{weights[~np.isfinite(weights)][0]}. Drop the candidates that could not be scored."
        )
    return weights


def _rates(values: ArrayLike) -> Vector:
    rates = _list(values, "errors")
    if not ((rates >= 0) & (rates <= 1)).all():
        worst = rates[~((rates >= 0) & (rates <= 1))][0]
        raise ReplearnError(
            f"errors must be rates in [0, 1], got {worst}. Divide counts by the number of rows, "
            "and pass 1 - accuracy for an accuracy."
        )
    return rates


def _number(value: float, name: str) -> float:
    if not (isinstance(value, int | float | np.number) and 0 <= value <= 1):
        raise ReplearnError(f"{name} must be a number in [0, 1], got {value!r}.")
    return float(value)
