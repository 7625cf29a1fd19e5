"""Vectors and matrices as decimal strings, so that everybody reads the same numbers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from replearn.types import Matrix, Vector

Decimals = tuple[str, ...]
DecimalTable = tuple[Decimals, ...]

#: Significant digits of a published matrix: far more than the rounding leaves of it.
_DIGITS = 10


def decimals(values: ArrayLike) -> Decimals:
    """Numbers as published.

    Examples
    --------
    >>> decimals([0.5, 1 / 3, 0.0])
    ('0.5', '0.3333333333', '0')
    """
    return tuple(f"{value + 0.0:.{_DIGITS}g}" for value in np.asarray(values, dtype=float).tolist())


def decimal_table(values: ArrayLike) -> DecimalTable:
    """A matrix as published, row by row."""
    return tuple(decimals(row) for row in np.asarray(values, dtype=float))


def numbers(published: Sequence[str]) -> Vector:
    """Published numbers as floats."""
    return np.array([float(text) for text in published])


def number_table(published: Sequence[Sequence[str]]) -> Matrix:
    """A published matrix as floats."""
    return np.array([[float(text) for text in row] for row in published])
