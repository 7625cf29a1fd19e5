"""Log-loss of each row, without libm: the same bits everywhere."""

import numpy as np

from replearn.kernels.compiler import njit
from replearn.kernels.philox import natural_log
from replearn.types import Vector


@njit(cache=True, nogil=True)
def fill_log_losses(probabilities, floor, out):
    """``out[i] = -ln p``, p the probability of what came, at least ``floor`` and at most 1."""
    for i in range(out.size):
        out[i] = -natural_log(min(max(probabilities[i], floor), 1.0))


def log_losses(probabilities: Vector, floor: float) -> Vector:
    """Log-loss of each row from the probability that was given to its class."""
    out = np.empty(probabilities.size)
    fill_log_losses(np.ascontiguousarray(probabilities, dtype=np.float64), floor, out)
    return out
