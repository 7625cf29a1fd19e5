"""Directions that a protocol may publish: with and without the help of labels.

======== =========================================================================== ======
family   directions, in this order                                                   labels
======== =========================================================================== ======
pca      principal directions                                                        no
score    published scores, the pilot's own fit, then principal directions             yes
pls      published scores, the pilot's own fit, then partial least squares            yes
ridges   published scores, the pilot's own fit, fits with other ridge weights, then
         principal directions                                                        yes
======== =========================================================================== ======
"""

import numpy as np

from replearn.study.pilot.ridge import Truth, ridge_fit
from replearn.types import Matrix, Vector

#: Families that know labels.
SUPERVISED = ("score", "pls", "ridges")

_RIDGE_FACTORS = (10.0, 0.1, 100.0, 0.01)


def most_directions(rows: Matrix, most: int) -> int:
    """How many directions a pilot may have: one for every 40 rows, and not more than columns."""
    n_rows, n_columns = rows.shape
    return min(most, n_columns, max(1, n_rows // 40))


def supervised_directions(
    family: str,
    rows: Matrix,
    truth: Truth,
    own_fit: Vector,
    weight: float,
    n_directions: int,
    scores: Matrix,
    axes: Matrix,
) -> Matrix:
    """Directions of a family, one in each row, at most ``n_directions``.

    ``own_fit`` is the pilot's ridge fit with this ``weight``; ``scores`` are published ones,
    ``axes`` the principal directions.
    """
    found = [*scores, own_fit[1:]]
    if family == "ridges":
        found += [ridge_fit(rows, truth, weight * f, own_fit)[1:] for f in _RIDGE_FACTORS]
    left = n_directions - len(found)
    if left > 0:
        found += list(krylov(rows, truth, left) if family == "pls" else axes)
    return np.array(found[:n_directions])


def principal(rows: Matrix, n_directions: int) -> Matrix:
    """Principal directions of centred rows, largest first."""
    centred = rows - rows.mean(axis=0)
    if rows.shape[1] <= rows.shape[0]:
        vectors = np.linalg.eigh(centred.T @ centred)[1]
        return vectors[:, ::-1].T[:n_directions]
    inner = np.linalg.eigh(centred @ centred.T)[1][:, ::-1][:, :n_directions]
    directions = centred.T @ inner
    return np.asarray((directions / np.linalg.norm(directions, axis=0)).T)


def krylov(rows: Matrix, truth: Truth | Vector, n_directions: int) -> Matrix:
    """Partial least squares: covariance with labels or numbers, its images, made orthogonal."""
    centred = rows - rows.mean(axis=0)
    direction = centred.T @ (truth - truth.mean()) / truth.size
    found: list[Vector] = []
    for _ in range(n_directions):
        for earlier in found:
            direction = direction - earlier * (earlier @ direction)
        length = float(np.linalg.norm(direction))
        if length < 1e-12:
            break
        found.append(direction / length)
        direction = centred.T @ (centred @ found[-1]) / truth.size
    return np.array(found).reshape(-1, rows.shape[1])
