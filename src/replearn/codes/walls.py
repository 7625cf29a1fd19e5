"""The walls of a cell: which are near, and how likely a displacement is to cross one.

For estimates. No code depends on anything here.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from replearn.codes import lattices
from replearn.codes.box_lattices import BOX_LATTICES, facets
from replearn.codes.cells import Run, runs
from replearn.codes.randomness import SharedRandomness
from replearn.types import Matrix, Vector

_REACH = 6.0  # walls further away than this many standard deviations are left out
_MAX_WALLS = 1000  # of a block: the nearest, in standard deviations, take nearly all crossings
_DIRECTIONS = 512  # and their opposites


def near_facets(name: str, residual: Vector, reach: float) -> tuple[Vector, Matrix]:
    """The walls of one cell that are close to a point of it.

    ``residual`` is measured from the centre of the cell ``name``. Slacks are distances to the
    walls, normals their outer unit normals. Walls at the distance ``reach`` or further are left
    out; ``inf`` keeps all.

    Notes
    -----
    ``residual + step`` stays in the cell if ``normals @ step < slacks``, for steps shorter than
    ``reach``. Exact, but for "leech": see `replearn.codes.lattices.near_facets`.
    """
    if name in ("e8", "leech"):
        return lattices.near_facets(residual, reach)
    if name in BOX_LATTICES:
        heights, normals = facets(BOX_LATTICES[name])
    else:
        heights, normals = np.full(2, 0.5), np.array([[1.0], [-1.0]])
    slacks = heights - np.einsum("ij,j->i", normals, residual)
    near = np.flatnonzero(slacks < reach)
    return slacks[near], normals[near]


def near_walls(offset: Vector, spread: Matrix, rounding: str) -> tuple[Vector, Matrix]:
    """Distances to the near walls of the cell, and the spread across each of them.

    ``offset`` is the point, measured from its cell's centre, in grid widths, and ``spread`` has
    rows whose standard normal combination has the law of the displacement. Shapes (n_walls,) and
    (n_groups, n_walls).
    """
    padded = np.zeros((spread.shape[0], offset.size))
    padded[:, : spread.shape[1]] = spread
    walls = [
        part
        for run in runs(rounding, spread.shape[1])
        for part in _run_walls(run, offset[run.start : run.stop], padded[:, run.start : run.stop])
    ]
    slacks = np.concatenate([slacks for slacks, _ in walls])
    return slacks, np.concatenate([reaches for _, reaches in walls], axis=1)


def _run_walls(run: Run, offset: Vector, spread: Matrix) -> list[tuple[Vector, Matrix]]:
    """Near walls of the cells of one run, and the spread across them."""
    block = run.cell.block
    if block == 1:
        slacks = np.concatenate([0.5 - offset, 0.5 + offset])
        return [_nearest(slacks, np.concatenate([spread, -spread], axis=1))]
    return [
        _block_walls(run.name, offset[start : start + block], spread[:, start : start + block])
        for start in range(0, offset.size, block)
    ]


def _block_walls(name: str, offset: Vector, spread: Matrix) -> tuple[Vector, Matrix]:
    """Near facets of one lattice cell, and the spread across them."""
    covariance = spread.T @ spread
    largest = math.sqrt(float(np.linalg.norm(covariance, 2)))
    slacks, normals = near_facets(name, np.ascontiguousarray(offset), _REACH * largest)
    # never negative but for rounding, where a normal is orthogonal to all rows of the spread
    variances = np.maximum(np.einsum("ij,ij->i", normals @ covariance, normals), 0.0)
    deviations = np.sqrt(variances)
    near = _order_by_ratio(slacks, deviations)
    return slacks[near], spread @ normals[near].T


def _nearest(slacks: Vector, reaches: Matrix) -> tuple[Vector, Matrix]:
    near = _order_by_ratio(slacks, np.sqrt((reaches**2).sum(axis=0)))
    return slacks[near], reaches[:, near]


def _order_by_ratio(slacks: Vector, deviations: Vector) -> NDArray[np.int64]:
    """The walls that matter: nearest first, in standard deviations, and not too many."""
    ratios = slacks / np.maximum(deviations, 1e-300)
    near = np.flatnonzero(ratios < _REACH)
    return near[np.argsort(ratios[near])[:_MAX_WALLS]]


def chance_to_leave(offset: Vector, spread: Matrix, rounding: str) -> float:
    """The chance that a normal displacement leaves the cell.

    ``offset`` is the point, measured from the centre of its cell, in grid widths; ``spread`` is any
    root of the covariance of the displacement: its rows, combined with standard normals, have that
    law.

    Notes
    -----
    A normal vector is a direction times a length, independent of each other. Along each of 1,024
    directions (of a published stream, the same for every fit, and in pairs of opposites) the
    cell is left at a known length, and the chance that the length is greater is a chi-square
    tail: so a chance of 1e-6 is found as well as one of .1. In 5 to 24 dimensions the standard
    error is 1 % of a chance of .5, 5 % of .05 and a quarter of .001. Tested in
    tests/theory/test_walls.py.
    """
    root = _root(spread)
    rank = root.shape[0]
    if rank == 0:
        return 0.0
    return float(chdtrc(rank, _exits(offset, root, rounding) ** 2).mean())


def _root(spread: Matrix) -> Matrix:
    """Orthogonal rows with the covariance of ``spread``, as many as its rank."""
    values, vectors = np.linalg.eigh(spread.T @ spread)
    kept = values > 1e-14 * max(float(values[-1]), 1e-300)
    return np.ascontiguousarray((vectors[:, kept] * np.sqrt(values[kept])).T)


@cache
def _directions(rank: int) -> Matrix:
    """Directions of a published stream; their opposites belong to them too."""
    draws = SharedRandomness("walls").normals("directions", _DIRECTIONS * rank)
    directions = draws.reshape(_DIRECTIONS, rank)
    return directions / np.sqrt((directions**2).sum(axis=1))[:, None]


def _exits(offset: Vector, root: Matrix, rounding: str) -> Vector:
    """How far one can go in each direction, and in its opposite, before the cell ends."""
    slacks, reaches = near_walls(offset, root, rounding)
    if slacks.size == 0:
        return np.full(2 * _DIRECTIONS, np.inf)
    speeds = _directions(root.shape[0]) @ (reaches / np.maximum(slacks, 1e-300))
    fastest = np.concatenate([speeds.max(axis=1), -speeds.min(axis=1)])
    with np.errstate(divide="ignore"):
        return 1 / np.maximum(fastest, 0.0)
