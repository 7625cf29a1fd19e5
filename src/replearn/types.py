"""Array aliases used in every signature."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]
Grid = NDArray[np.int16]
Words = NDArray[np.uint64]
Words32 = NDArray[np.uint32]
Order = NDArray[np.int64]
Signs = NDArray[np.int8]
#: Whole numbers, marks of rows, and arrays of any kind.
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Mask = NDArray[np.bool_]
Array = NDArray[Any]

#: A backend: applies a function to block descriptors, in any order, anywhere.
BlockMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

Value = TypeVar("Value")


class Later(Generic[Value]):
    """A value that is made when somebody reads it, once; copies in files have it made.

    Examples
    --------
    >>> answer = Later(lambda: 6 * 7)
    >>> answer()
    42
    """

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make: Callable[[], Value] | None = make

    @classmethod
    def known(cls, value: Value) -> "Later[Value]":
        """A value that is there already."""
        return cls(lambda: value)

    def __call__(self) -> Value:
        """The value."""
        if self._make is not None:
            self._value = self._make()
            self._make = None  # with the rows that it held
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return Later.known, (self(),)


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy; it is not loaded for the answer."""
    if isinstance(X, np.ndarray):  # which is asked very often
        return False
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__)


def unmasked(values: Any) -> Any:
    """What NumPy misreads: masked cells as NaN, and whole numbers of 128 bits as they are."""
    if "int128" in str(getattr(values, "dtype", "")).lower():
        return np.array(values.to_list())
    if not isinstance(values, np.ma.MaskedArray):
        return values
    kind = np.float64 if values.dtype.kind in "iuf" else object
    return np.ma.filled(values.astype(kind), np.nan)


def stacked(parts: Sequence[Any]) -> Any:
    """Rows of several arrays, or of several sparse ones, as one."""
    if len(parts) == 1:
        return parts[0]
    if not is_sparse(parts[0]):
        return np.concatenate(parts)
    from scipy import sparse

    return sparse.vstack(parts, format="csr")
