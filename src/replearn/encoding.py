"""From a table of raw columns to numbers, as published: nothing is learned from a lab's rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.types import Matrix, Vector


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column, moved and scaled by published numbers.

    Attributes
    ----------
    name : str
    centre, scale : str
        Decimal numbers: the column becomes ``(value - centre) / scale``.
    fill_missing : bool
        Missing values become 0 (the centre); otherwise they are refused.
    """

    name: str
    centre: str
    scale: str
    fill_missing: bool = False

    @property
    def n_outputs(self) -> int:
        """Numbers per row."""
        return 1

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"kind": "number", **vars(self)}

    def transform(self, values: NDArray[Any]) -> Matrix:
        """Scaled values, as one column."""
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ReplearnError(
                f"column {self.name!r} must be numeric, got values like {values[0]!r}. "
                "Check the file, or make a protocol in which it is a category."
            ) from None
        missing = np.isnan(numbers)
        if missing.any() and not self.fill_missing:
            raise ReplearnError(
                f"column {self.name!r} has {int(missing.sum()):,} missing values, and the protocol "
                "does not say what to do with them. Fill or drop them, or plan with a pilot in "
                "which the column has missing values."
            )
        scaled = (numbers - float(self.centre)) / float(self.scale)
        return np.where(missing, 0.0, scaled)[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories, one output of 0 or 1 for each published value.

    Unknown and missing values become all zeros.
    """

    name: str
    values: tuple[str, ...]

    @property
    def n_outputs(self) -> int:
        """Numbers per row."""
        return len(self.values)

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"kind": "category", "name": self.name, "values": list(self.values)}

    def transform(self, values: NDArray[Any]) -> Matrix:
        """Indicators of the published values."""
        texts = np.array([as_text(value) for value in values], dtype=object)
        return np.stack([texts == value for value in self.values], axis=1).astype(np.float64)


Column = NumberColumn | CategoryColumn


@dataclass(frozen=True)
class Encoding:
    """How every lab turns its table into numbers.

    Attributes
    ----------
    columns : tuple of NumberColumn and CategoryColumn
    """

    columns: tuple[Column, ...]

    @property
    def n_outputs(self) -> int:
        """Features after encoding."""
        return sum(column.n_outputs for column in self.columns)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the features after encoding."""
        names: list[str] = []
        for column in self.columns:
            if isinstance(column, CategoryColumn):
                names += [f"{column.name}={value}" for value in column.values]
            else:
                names.append(column.name)
        return tuple(names)

    def content(self) -> list[dict[str, Any]]:
        """As JSON types."""
        return [column.content() for column in self.columns]

    def transform(self, X: Any) -> Any:
        """Encode a table (dataframe with these columns, array or CSR with as many columns).

        Returns
        -------
        float64 array of shape (n_rows, n_outputs), or CSR if X is sparse
        """
        if sp.issparse(X):
            return self._scale_sparse(X)
        table = columns_of(X, [column.name for column in self.columns])
        return np.hstack([column.transform(table[column.name]) for column in self.columns])

    def _scale_sparse(self, X: Any) -> Any:
        if X.shape[1] != len(self.columns):
            raise ReplearnError(
                f"X must have {len(self.columns)} columns, as in the protocol, got {X.shape[1]}."
            )
        if not all(isinstance(c, NumberColumn) and float(c.centre) == 0 for c in self.columns):
            raise ReplearnError(
                "a sparse X cannot be centred or hold categories. Pass a dense table, or plan "
                "from a sparse pilot."
            )
        scales: Vector = np.array([float(c.scale) for c in self.columns if hasattr(c, "scale")])
        return sp.csr_matrix(X) @ sp.diags_array(1 / scales)


def columns_of(X: Any, names: list[str]) -> Mapping[str, NDArray[Any]]:
    """Columns of a dataframe or a mapping by name, or of an array by position."""
    if isinstance(X, Mapping):
        _check_names(list(X), names)
        return {name: np.asarray(X[name]) for name in names}
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        array = np.asarray(X)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise ReplearnError(
                f"X must have {len(names)} columns, as in the protocol, got shape {array.shape}."
            )
        return dict(zip(names, array.T, strict=True))
    frame = nw.from_native(X, eager_only=True)
    _check_names(frame.columns, names)
    return {name: frame[name].to_numpy() for name in names}


def _check_names(found: list[str], wanted: list[str]) -> None:
    absent = [name for name in wanted if name not in found]
    if absent:
        raise ReplearnError(
            f"column {absent[0]!r} is not in the table, which has "
            f"{', '.join(map(repr, found[:8]))}. Rename the columns, or use "
            "the protocol and the model of this study."
        )


def as_text(value: Any) -> str | None:
    """A category as published: 1, 1.0 and "1" are the same value; None if it is missing."""
    if value is None or value != value:  # NaN is not equal to itself
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
