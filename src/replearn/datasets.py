"""Seeded synthetic populations with a margin."""

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.types import Matrix, Vector


def make_margin(
    n_samples: int,
    n_features: int,
    margin: float,
    *,
    max_margin: float | None = None,
    decoy: float = 0.0,
    decay: float = 0.0,
    label_noise: float = 0.0,
    population: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> tuple[Matrix, NDArray[np.int64]]:
    """Draw a sample from a population of unit vectors with a margin.

    Each row is ``y t w + sqrt(1 - t^2) g`` with a fixed normal ``w``, a fair label ``y``, a
    margin ``t`` uniform on ``[margin, max_margin]`` and a direction ``g`` orthogonal to ``w``.

    Parameters
    ----------
    n_samples, n_features : int
        At least 2 features.
    margin : float in (0, 1)
        Smallest margin of the population.
    max_margin : float, optional
        Largest margin; default the smaller of ``4 * margin`` and .95.
    decoy : float in [0, 1)
        Length of a second direction, orthogonal to ``w``, that agrees with the label on 75 %
        of the rows: learners that follow the mean of ``y x`` are drawn to it.
    decay : float >= 0
        Power-law spectrum of ``g``: its j-th axis has standard deviation ``(j+1)^-decay``.
    label_noise : float in [0, .5)
        Share of labels that are flipped.
    population : int
        Which population; two labs that share it draw from the same one.
    random_state : int, Generator or None
        Which sample of it.

    Returns
    -------
    X : array of shape (n_samples, n_features)
    y : int array of -1 and +1

    Examples
    --------
    >>> X, y = make_margin(5, 3, 0.2, random_state=1)
    >>> w = margin_direction(3)
    >>> bool((y * (X @ w) >= 0.2 - 1e-12).all())
    True
    """
    top = min(4 * margin, 0.95) if max_margin is None else max_margin
    if n_features < 2:
        raise ReplearnError(f"n_features must be at least 2, got {n_features}.")
    if not 0 < margin <= top < 1:
        raise ReplearnError(
            f"margins must satisfy 0 < margin <= max_margin < 1, got {margin} and {top}."
        )
    rng = np.random.default_rng(random_state)
    normal = margin_direction(n_features, population)
    labels = rng.choice(np.array([-1, 1]), size=n_samples)
    heights = rng.uniform(margin, top, size=n_samples)
    side = rng.standard_normal((n_samples, n_features))
    if decay:
        side *= np.arange(1, n_features + 1) ** -decay
    side -= np.outer(side @ normal, normal)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    if decoy:
        agrees = np.where(rng.random(n_samples) < 0.75, labels, -labels)
        side = np.sqrt(1 - decoy**2) * side + np.outer(decoy * agrees, _decoy(n_features, normal))
        side /= np.linalg.norm(side, axis=1, keepdims=True)
    side *= np.sqrt(1 - heights**2)[:, None]
    side += np.outer(labels * heights, normal)
    flipped = rng.random(n_samples) < label_noise
    return side, np.where(flipped, -labels, labels)


def margin_direction(n_features: int, population: int = 0) -> Vector:
    """Normal of the boundary of a population: a unit vector that depends on its number alone."""
    normal = np.random.default_rng([population, 7_919]).standard_normal(n_features)
    return np.asarray(normal / np.linalg.norm(normal), dtype=np.float64)


def _decoy(n_features: int, normal: Vector) -> Vector:
    """A fixed unit vector orthogonal to the normal."""
    axis = np.zeros(n_features)
    axis[np.argmin(np.abs(normal))] = 1.0
    axis -= (axis @ normal) * normal
    return np.asarray(axis / np.linalg.norm(axis), dtype=np.float64)
