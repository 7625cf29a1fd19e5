"""Shared linear maps from directions to components, and back; no matrix is stored.

Every map keeps lengths and inner products in expectation: ``E[A^T A]`` is the identity.

========== ================================================= ================= ==================
name       map                                               cost              rotation invariant
========== ================================================= ================= ==================
gaussian   independent N(0, 1/k) entries                     k d normals       yes
hadamard   k rows of a fast random orthogonal matrix,        d log d           no
           times sqrt(d/k)
rotation   Haar rotation of all d coordinates [Stewart80]    d^2/2 normals     yes
none       the coordinates as they are                       nothing           no
========== ================================================= ================= ==================

All sums run in one fixed order, so that results have the same bits on every machine.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from replearn.codes.coins import Coins
from replearn.documents import Unfit
from replearn.errors import ReplearnError
from replearn.exact import length, normals, row_products
from replearn.types import Matrix, Order, Vector

PROJECTIONS = ("none", "hadamard", "rotation", "gaussian")

#: Maps that keep all coordinates: as many components as inputs.
FULL = ("none", "rotation")

_CHUNK = 1 << 18  # normals that are held at once


def project(name: str, points: Matrix, n_components: int, coins: Coins) -> Matrix:
    """Components of points, one in each row, by a map of the table above.

    "none" and "rotation" have as many components as inputs, "hadamard" at most that. Reads the
    streams "projection/..." and no other.
    """
    n_inputs = points.shape[1]

    if name == "gaussian":
        out = np.empty((len(points), n_components))
        for start, rows in _gaussian_rows(n_inputs, n_components, coins):
            for point, own in zip(points, out, strict=True):
                own[start : start + len(rows)] = row_products(rows, point)
        return out / math.sqrt(n_components)

    if name == "hadamard":
        kept, first, second, window = _hadamard_coins(n_inputs, n_components, coins)
        mixed = points * first
        mixed[:, :window] = _transformed(mixed[:, :window])
        mixed *= second
        mixed[:, -window:] = _transformed(mixed[:, -window:])
        return mixed[:, kept] * math.sqrt(n_inputs / n_components)

    if name == "rotation":
        # reflections, whose product is a random rotation
        turned = points.copy()
        for i, normal in _mirrors(n_inputs, coins, back=False):
            _reflect(i, normal, turned, back=False)
        return turned

    return points


def lift(name: str, components: Vector, n_inputs: int, coins: Coins) -> Vector:
    """The transpose of `project`: a point from its components."""
    k = components.size

    if name == "gaussian":
        total = np.zeros(n_inputs)
        for start, rows in _gaussian_rows(n_inputs, k, coins):
            for i, row in enumerate(rows):
                total += components[start + i] * row
        return total / math.sqrt(k)

    if name == "hadamard":  # symmetric steps, from the last to the first
        kept, first, second, window = _hadamard_coins(n_inputs, k, coins)
        mixed = np.zeros(n_inputs)
        mixed[kept] = components * math.sqrt(n_inputs / k)
        mixed[-window:] = _transformed(mixed[-window:])
        mixed *= second
        mixed[:window] = _transformed(mixed[:window])
        return mixed * first

    if name == "rotation":
        turned = components[None, :].copy()
        for i, normal in _mirrors(n_inputs, coins, back=True):
            _reflect(i, normal, turned, back=True)
        return turned[0]

    return components


def projection_matrix(name: str, n_inputs: int, n_components: int, coins: Coins) -> Matrix:
    """The map as a matrix of shape (n_inputs, n_components), for many points at once."""
    if name == "gaussian":
        parts = [rows for _, rows in _gaussian_rows(n_inputs, n_components, coins)]
        return np.concatenate(parts).T / math.sqrt(n_components)
    if name == "hadamard":  # few components of many inputs
        axes = np.eye(n_components)
        return np.stack([lift(name, axis, n_inputs, coins) for axis in axes], axis=1)
    return project(name, np.eye(n_inputs), n_components, coins)


def check_components(name: str, n_components: int, n_inputs: int) -> None:
    """Refuse a number of components that a map cannot have."""
    if name not in PROJECTIONS:
        raise ReplearnError(f"projection must be one of {', '.join(PROJECTIONS)}, got {name!r}.")

    rule, fits = f"at most {n_inputs}", n_components <= n_inputs or name == "gaussian"
    if name in FULL:
        rule, fits = f"{n_inputs}", n_components == n_inputs
    if n_components < 1 or not fits:
        raise ReplearnError(
            f"n_components must be {rule} for projection {name!r}, got {n_components}. Leave it "
            'out, or use projection="gaussian".'
        )


def check_decoding(name: str, n_components: int, n_inputs: int, most: int) -> None:
    """Refuse what a file says of a map that does not exist, or draws more than ``most`` numbers."""
    try:
        check_components(name, n_components, n_inputs)
    except ReplearnError as problem:
        raise Unfit(str(problem).split(". ")[0]) from None

    # to project or lift once
    drawn = n_inputs
    if name in ("gaussian", "rotation"):
        drawn = n_inputs * n_components
    if drawn > most:
        raise Unfit(f"decoding must draw at most {most:,} numbers, got {drawn:,}")


def _gaussian_rows(n_inputs: int, n_components: int, coins: Coins) -> Iterator[tuple[int, Matrix]]:
    """Rows of the matrix in chunks, with the number of the first; row i is row i of the stream."""
    at_once = max(1, _CHUNK // n_inputs)
    for start in range(0, n_components, at_once):
        yield start, _gaussian_chunk(n_inputs, start, min(start + at_once, n_components), coins)


@lru_cache(maxsize=1)
def _gaussian_chunk(n_inputs: int, start: int, stop: int, coins: Coins) -> Matrix:
    """Some rows of the matrix. A small one is drawn once for the way there and the way back."""
    words = coins.words_of_rows("projection/gaussian", n_inputs, range(start, stop))
    chunk = normals(words).reshape(stop - start, n_inputs)
    chunk.setflags(write=False)
    return chunk


def _mirrors(n_inputs: int, coins: Coins, back: bool) -> Iterator[tuple[int, Vector]]:
    """Numbers and normals of the mirrors of a rotation, in the order in which they are applied."""
    at_once = max(1, _CHUNK // n_inputs)
    direction = 1 - 2 * back  # a step of -1 is the reverse order
    for start in range(0, n_inputs, at_once)[::direction]:
        numbers = range(start, min(start + at_once, n_inputs))
        words = [coins.words("projection/rotation", n_inputs - i, row=i) for i in numbers]
        drawn = normals(np.concatenate(words))
        # mirror i has a normal of n_inputs - i entries
        parts = np.split(drawn, np.cumsum([n_inputs - i for i in numbers])[:-1])
        yield from list(zip(numbers, parts, strict=True))[::direction]


def _reflect(i: int, normal: Vector, points: Matrix, back: bool) -> None:
    """Mirror ``i`` of a Haar rotation ``D H_{d-2} ... H_0``, in place; it acts on ``[:, i:]``."""
    # the sign of Householder's vector that cancels nothing
    size = length(normal)
    sign = -1.0
    if normal[0] >= 0:
        sign = 1.0
    normal[0] += sign * size

    if back:
        points[:, i] *= -sign
    if i < points.shape[1] - 1:
        factors = row_products(points[:, i:], normal) / (size * abs(normal[0]))
        points[:, i:] -= factors[:, None] * normal
    if not back:
        points[:, i] *= -sign


def _hadamard_coins(
    n_inputs: int, n_components: int, coins: Coins
) -> tuple[Order, Vector, Vector, int]:
    """Rows that are kept, two rows of signs, and the largest power of two that fits.

    Two overlapping windows of that length, with fresh signs before each, make an orthogonal map
    for every number of inputs, without padding.
    """
    first, second = (coins.signs("projection/hadamard/signs", n_inputs, row=i) for i in range(2))
    kept = coins.sample("projection/hadamard/rows", n_inputs, n_components)
    return kept, first, second, 1 << (n_inputs.bit_length() - 1)


def _transformed(points: Matrix) -> Matrix:
    """Orthonormal Walsh-Hadamard transform along the last axis, a power of two long."""
    shape, n, stride = points.shape, points.shape[-1], 1
    while stride < n:
        pairs = points.reshape(*shape[:-1], -1, 2, stride)
        left, right = pairs[..., 0, :], pairs[..., 1, :]
        points = np.stack([left + right, left - right], axis=-2).reshape(shape)
        stride *= 2
    return points * (1.0 / math.sqrt(n))
