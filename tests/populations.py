"""Named populations that tests share: unit vectors with a margin, and a direction that misleads."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger

Rows = NDArray[np.float64]

#: Options of `draw`, by name: what makes each population hard.
POPULATIONS: dict[str, dict[str, Any]] = {
    "plain": {},  # margins between one and four times the promise
    "tight": {"max_margin": 1.1},  # all margins near the promise
    "decoy": {"decoy": 0.6},  # a second direction agrees with most labels
    "skewed": {"decoy": 0.7, "decay": 0.5},  # and the directions have a spectrum
    "noisy": {"label_noise": 0.15},  # no halfspace is right everywhere
}


def draw(
    name: str, n_rows: int, n_features: int, margin: float, seed: Any
) -> tuple[Rows, NDArray[np.int64]]:
    """Rows and labels (-1 and +1) of a named population; ``seed`` says which sample."""
    options = dict(POPULATIONS[name])
    top = min(options.get("max_margin", 4.0) * margin, 0.95)
    rng = np.random.default_rng(seed)
    normal = np.random.default_rng(7_919).standard_normal(n_features)
    normal /= np.linalg.norm(normal)
    labels = rng.choice(np.array([-1, 1]), size=n_rows)
    heights = rng.uniform(margin, top, size=n_rows)
    side = rng.standard_normal((n_rows, n_features))
    side *= np.arange(1, n_features + 1) ** -options.get("decay", 0.0)
    _add(side, -(side @ normal), normal)
    if "decoy" in options:
        axis = np.zeros(n_features)
        axis[np.argmin(np.abs(normal))] = 1.0
        axis -= (axis @ normal) * normal
        axis /= np.linalg.norm(axis)
        agrees = np.where(rng.random(n_rows) < 0.75, labels, -labels)
        share = options["decoy"] / np.sqrt(1 - options["decoy"] ** 2)
        _add(side, share * agrees * _lengths(side), axis)
    side *= (np.sqrt(1 - heights**2) / _lengths(side))[:, None]
    _add(side, labels * heights, normal)
    flipped = rng.random(n_rows) < options.get("label_noise", 0.0)
    return side, np.where(flipped, -labels, labels)


def _lengths(rows: Rows) -> NDArray[np.float64]:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _add(rows: Rows, factors: NDArray[np.float64], vector: NDArray[np.float64]) -> None:
    """Add a multiple of one vector to each row, in place: samples are drawn thousands of times."""
    dger(1.0, vector, factors, a=rows.T, overwrite_a=True)
