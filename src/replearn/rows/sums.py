"""Exact sums: whole numbers that add up in any order, with what they are sums of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.types import Vector

#: Whole numbers in an array of Python integers; of int64 as long as nothing is added to them.
WholeNumbers = NDArray[Any]


def integers(values: Any) -> WholeNumbers:
    """Whole numbers that float64 or int64 holds, as Python integers."""
    array = np.asarray(values)
    if array.dtype.kind == "f":  # else objects would be floats
        array = array.astype(np.int64)
    return array.astype(object, copy=False)


@dataclass(frozen=True)
class ExactSums:
    """Sums over rows of one lab, one file or one worker; parts add up with ``+``.

    Attributes
    ----------
    of : str
        What was summed up: parts that differ in it are not added.
    values : mapping from names to arrays of whole numbers

    Examples
    --------
    >>> part = ExactSums("a pass", {"rows": integers([3])})
    >>> (part + part).values["rows"].tolist()
    [6]
    """

    of: str
    values: Mapping[str, WholeNumbers]

    def __add__(self, other: "ExactSums") -> "ExactSums":
        if self.of != other.of or set(self.values) != set(other.values):
            raise ReplearnError(
                "sums must be of one pass over the rows, got two different ones. Make both with "
                "the same study and the same state."
            )

        total = {name: integers(value) + other.values[name] for name, value in self.values.items()}
        return ExactSums(self.of, total)

    def __sub__(self, part: "ExactSums") -> "ExactSums":
        """What is left without some of the rows."""
        values = {name: integers(value) - part.values[name] for name, value in self.values.items()}
        return ExactSums(self.of, values)

    def reals(self, name: str) -> Vector:
        """One of the sums in float64, each number rounded once."""
        return self.values[name].astype(np.float64)

    def count(self, name: str) -> int:
        """A sum that is one number."""
        return int(self.values[name].reshape(-1)[0])
