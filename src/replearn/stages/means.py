"""A replicable mean: two samples of one population give the same number."""

import math

import numpy as np
from numpy.typing import ArrayLike

from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import NotEnoughSamples, ReplearnError
from replearn.plans.plan_boosting import mean_sample_size, mean_width


def replicable_mean(
    values: ArrayLike,
    tolerance: float,
    max_disagreement: float = 0.1,
    failure_prob: float | None = None,
    *,
    shared_seed: int | str = 0,
    name: str = "",
) -> float:
    """Mean of numbers between 0 and 1, the same number at every lab: rSTAT of [ILPS22].

    The sample mean is rounded to the middle of its cell, in a grid whose offset is shared.

    Parameters
    ----------
    values : array of numbers in [0, 1]
        Independent draws.
    tolerance : float
        The result is that close to the true mean, except with ``failure_prob``.
    max_disagreement : float, default=0.1
        Probability that two labs may get different numbers.
    failure_prob : float, optional
        Less than half of ``max_disagreement``; default a quarter of it.
    shared_seed : int or str, default=0
        Published; the same at every lab. Reads the stream "mean/{name}".
    name : str, default=""
        Give each mean of a study a name of its own, or their grids have the same offset.

    Returns
    -------
    mean : float
        The middle of a cell: the same number at every lab, most of the time.

    Raises
    ------
    NotEnoughSamples
        If the promise needs more values than these; see `mean_sample_size`.

    Notes
    -----
    Proof. Except with probability ``failure_prob`` each, both sample means are within
    ``t = tolerance (r - 2f) / (r + 1 - 2f)`` of the true one (Hoeffding), r and f the two
    probabilities. Then a wall falls between them with probability at most ``2t / width``, which
    is ``r - 2f``, and the middle of the cell is within ``width/2 + t = tolerance``. Tested in
    tests/theory/test_boosting.py.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> labs = [rng.random(100_000) < 0.3 for _ in range(2)]
    >>> first, second = (replicable_mean(lab, 0.1, shared_seed=2024) for lab in labs)
    >>> first == second
    True
    """
    seed = seed_text(shared_seed, "shared_seed")
    failure = max_disagreement / 4 if failure_prob is None else failure_prob
    _check(tolerance, max_disagreement, failure)
    needed = mean_sample_size(tolerance, max_disagreement, failure)
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if numbers.size == 0 or not ((numbers >= 0) & (numbers <= 1)).all():
        raise ReplearnError(
            "values must be numbers from 0 to 1, at least one. Scale them by published bounds."
        )
    if numbers.size < needed:
        raise NotEnoughSamples(
            f"a mean within {tolerance:g} with disagreement {max_disagreement:g} needs "
            f"{needed:,} values, got {numbers.size:,}. Get more, or allow a larger tolerance or "
            "max_disagreement.",
            available=numbers.size,
            needed=needed,
        )
    offset = float(SharedRandomness(seed).uniforms(f"mean/{name}", 1)[0])
    # fsum rounds once, whatever the order of the values
    mean = math.fsum(numbers.tolist()) / numbers.size
    return rounded_mean(mean, mean_width(tolerance, max_disagreement, failure), offset)


def _check(tolerance: float, max_disagreement: float, failure_prob: float) -> None:
    for name, value in (("tolerance", tolerance), ("max_disagreement", max_disagreement)):
        if not 0 < value < 1:
            raise ReplearnError(f"{name} must be a number in (0, 1), got {value!r}.")
    if not 0 < 2 * failure_prob < max_disagreement:
        raise ReplearnError(
            f"failure_prob must be positive and less than half of max_disagreement "
            f"({max_disagreement:g}), got {failure_prob!r}. A quarter of it is a good choice."
        )


def rounded_mean(mean: float, width: float, offset: float) -> float:
    """Middle of the mean's cell in the grid shifted by ``offset`` cells, between 0 and 1."""
    cell = math.floor(mean / width - offset)
    return min(max((cell + (offset + 0.5)) * width, 0.0), 1.0)


def deciding_wall(limit: float, width: float, offset: float) -> float:
    """Where ``rounded_mean(mean) <= limit`` turns from true to false, as the mean grows.

    Uniform on ``limit +- width/2`` over offsets: a random threshold.
    """
    cell = math.floor(limit / width - offset - 0.5)  # the last cell with its middle <= limit
    return (cell + 1 + offset) * width
