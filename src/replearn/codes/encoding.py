"""From a table of raw columns to numbers, as published: nothing is learned from a lab's rows."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.kernels.columns import ScaledColumns
from replearn.types import IntegerArray, Matrix, Vector, is_sparse

#: A number as text that has only one meaning; 007 is a code, not a number.
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")

#: Name of the output for values that are not published.
OTHER = "(other)"

_UNKNOWN, _MISSING = -1, -2  # places of values that are not published

#: A site whose share of unknown values is larger codes a column differently.
MOST_UNKNOWN = 0.05

_FEWEST_ROWS = 20  # of which a share says anything


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

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return (self.name,)

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"kind": "number", **vars(self)}

    def transform(self, values: NDArray[Any]) -> Matrix:
        """Scaled values, as one column."""
        return _alone(self, values)

    def numbers(self, values: NDArray[Any]) -> Vector:
        """Values as they are, in float64; None and NaN are missing values, NaN."""
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):  # text, or a missing value that NumPy does not know
            return np.array([self._number(value) for value in values], dtype=np.float64)

    def refuse_missing(self, n_missing: int) -> None:
        """Refuse missing values that the protocol does not fill."""
        if n_missing and not self.fill_missing:
            raise ReplearnError(
                f"column {self.name!r} has {n_missing:,} missing values, and the protocol does not "
                "say what to do with them. Fill or drop them, or plan with a pilot in which the "
                "column has missing values."
            )

    def _number(self, value: Any) -> float:
        try:
            return np.nan if _is_missing(value) else float(value)
        except (TypeError, ValueError):
            raise ReplearnError(
                f"column {self.name!r} must be numeric, got values like {str(value)[:40]!r}. "
                "Check the file, or make a protocol in which it is a category."
            ) from None


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories, one output for each published value: 0, or 1 over its scale.

    Attributes
    ----------
    name : str
    values : tuple of str
        The published values.
    other : str or None
        With it, a decimal number: a last output, 1 for every value that is not published, because
        it was too rare or is unknown; about this share of known values is to be expected there.
        Without it they become all zeros, as missing values always do.
    scales : tuple of str
        Decimal numbers, one for each output; none: all 1.
    """

    name: str
    values: tuple[str, ...]
    other: str | None = None
    scales: tuple[str, ...] = ()

    @property
    def n_outputs(self) -> int:
        """Numbers per row."""
        return len(self.values) + (self.other is not None)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs."""
        values = (*self.values, OTHER) if self.other else self.values
        return tuple(f"{self.name}={value}" for value in values)

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        content: dict[str, Any] = {
            "kind": "category",
            "name": self.name,
            "values": list(self.values),
        }
        if self.other:
            content["other"] = self.other
        return content | {"scales": list(self.scales)} if self.scales else content

    def transform(self, values: NDArray[Any]) -> Matrix:
        """Indicators of the published values, one column for each."""
        return _alone(self, values)

    def write(self, values: NDArray[Any], out: Matrix) -> tuple[int, int]:
        """Put the indicators of each published value into a column of ``out``.

        Returns how many values are missing, and how many unknown.
        """
        places = self._places(values)
        unknown = places == _UNKNOWN
        n_unknown = int(np.count_nonzero(unknown))
        n_missing = int(np.count_nonzero(places == _MISSING))
        if self.other:
            places[unknown] = len(self.values)
        known = np.flatnonzero(places >= 0)
        out[:] = 0.0
        out[known, places[known]] = self.heights[places[known]]
        return n_missing, n_unknown

    @property
    def heights(self) -> Vector:
        """What each output is written as, where it is not 0."""
        if not self.scales:
            return np.ones(self.n_outputs)
        return 1 / np.array([float(scale) for scale in self.scales])

    def _places(self, values: NDArray[Any]) -> IntegerArray:
        """Where among the published values each value is, or that it is unknown or missing."""
        published = self._published()
        if values.dtype.kind in "biuf":
            distinct, inverse = np.unique(values, return_inverse=True)
            of_distinct = [published.get(as_text(value), _UNKNOWN) for value in distinct]
            return np.array(of_distinct, dtype=np.int64)[inverse]
        found = _Places(published)
        items = values.tolist() if values.dtype.kind in "OU" else list(values)
        if {bool, np.bool_} & set(map(type, items)):  # True and 1 are equal, but not as text
            items = [as_text(item) for item in items]
        try:
            return np.fromiter(map(found.__getitem__, items), np.int64, len(items))
        except TypeError:  # lists, say, cannot be looked up
            items = [as_text(item) for item in items]
            return np.fromiter(map(found.__getitem__, items), np.int64, len(items))

    def _published(self) -> dict[str | None, int]:
        """Place of each published value."""
        places: dict[str | None, int] = {None: _MISSING}
        for place, value in enumerate(self.values):
            text = as_text(value)
            if text in places:
                raise ReplearnError(
                    f"column {self.name!r} of the protocol must have different categories, got "
                    f"{self.values[places[text]]!r} and {value!r}, which are the same."
                )
            places[text] = place
        return places


class _Places(dict[Any, int]):
    """Places of values by their text, worked out once for each value."""

    def __init__(self, published: Mapping[str | None, int]) -> None:
        super().__init__()
        self._published = published

    def __missing__(self, value: Any) -> int:
        place = self._published.get(as_text(value), _UNKNOWN)
        if value == value:  # a NaN would not be found again
            self[value] = place
        return place


Column = NumberColumn | CategoryColumn


def _alone(column: Column, values: NDArray[Any]) -> Matrix:
    return Encoding((column,)).encoded({column.name: values}).X


@dataclass(frozen=True)
class Seen:
    """How much of each column of an encoding was missing, or not published.

    Numbers of rows, for each column.
    """

    n_rows: int
    missing: tuple[int, ...]
    unknown: tuple[int, ...]

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(
            self.n_rows + other.n_rows,
            tuple(map(add, self.missing, other.missing)),
            tuple(map(add, self.unknown, other.unknown)),
        )


class Encoded(NamedTuple):
    """Rows of an encoding.

    ``finite`` says whether all numbers of X are.
    """

    X: Matrix
    seen: Seen
    finite: bool


class _Layout(NamedTuple):
    """Where the columns of an encoding go, and the numbers of those that are scaled."""

    starts: IntegerArray
    numeric: IntegerArray  # places among the columns
    categories: list[int]
    numbers: list[NumberColumn]
    centres: Vector
    scales: Vector


@dataclass(frozen=True)
class Encoding:
    """How every lab turns its table into numbers."""

    columns: tuple[Column, ...]

    @property
    def n_outputs(self) -> int:
        """Features after encoding."""
        return sum(column.n_outputs for column in self.columns)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the features after encoding."""
        return tuple(name for column in self.columns for name in column.output_names)

    def content(self) -> list[dict[str, Any]]:
        """As JSON types."""
        return [column.content() for column in self.columns]

    def transform(self, X: Any) -> Any:
        """Encode a table (dataframe with these columns, array or CSR with as many columns).

        Returns
        -------
        float64 array of shape (n_rows, n_outputs), or CSR if X is sparse
        """
        return self.counted(X)[0]

    def counted(self, X: Any) -> tuple[Any, Seen]:
        """Encode a table, and count what was missing or unknown in it."""
        if is_sparse(X):
            nothing = (0,) * len(self.columns)
            return self._scale_sparse(X), Seen(X.shape[0], nothing, nothing)
        table = columns_of(X, [column.name for column in self.columns])
        return self.encoded(table)[:2]

    @cached_property
    def _layout(self) -> _Layout:
        numeric = [i for i, c in enumerate(self.columns) if isinstance(c, NumberColumn)]
        numbers = [column for column in self.columns if isinstance(column, NumberColumn)]
        return _Layout(
            np.cumsum([0, *(column.n_outputs for column in self.columns)]),
            np.array(numeric, dtype=np.int64),
            [i for i, c in enumerate(self.columns) if isinstance(c, CategoryColumn)],
            numbers,
            np.array([float(column.centre) for column in numbers]),
            np.array([float(column.scale) for column in numbers]),
        )

    def encoded(self, table: Mapping[str, NDArray[Any]]) -> "Encoded":
        """Encode columns by name, count what is missing or unknown, look for what is infinite."""
        columns = EncodedColumns(self, table)
        return columns.rows(0, columns.n_rows)

    def troubles(self, seen: Seen) -> list[str]:
        """What a site codes differently, one sentence per column; empty if nothing.

        Columns without any value, and columns in which more than 5 % of the values are not
        published, beyond the share that is to be expected, and chance.
        """
        if seen.n_rows < _FEWEST_ROWS:
            return []
        found = []
        for column, missing, unknown in zip(self.columns, seen.missing, seen.unknown, strict=True):
            n_known = seen.n_rows - missing
            expected = float(getattr(column, "other", None) or 0)
            limit = expected + MOST_UNKNOWN
            if n_known == 0:
                found.append(f"column {column.name!r} has no value in any of {missing:,} rows")
            elif unknown > limit * n_known + 3 * math.sqrt(expected * (1 - expected) * n_known):
                usual = f", where {expected:.1%} are usual" if expected else ""
                values = ", ".join(repr(value[:40]) for value in getattr(column, "values", ())[:4])
                found.append(
                    f"column {column.name!r} has values that the protocol does not know in "
                    f"{unknown:,} of {n_known:,} rows ({unknown / n_known:.1%}{usual}); it knows "
                    f"{values}{', ...' if len(getattr(column, 'values', ())) > 4 else ''}"
                )
        return found

    def counts(self, seen: Seen) -> dict[str, dict[str, int]]:
        """What was missing or unknown, by column, as JSON types; columns without it left out."""
        return {
            column.name: {"missing": missing, "unknown": unknown}
            for column, missing, unknown in zip(
                self.columns, seen.missing, seen.unknown, strict=True
            )
            if missing or unknown
        }

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
        import scipy.sparse as sp

        rows = sp.csr_matrix(X, dtype=np.float64, copy=True)
        # as dense rows are: a product with 1/scale has other bits
        rows.data /= scales[rows.indices]
        return rows


class EncodedColumns:
    """Columns by name, ready to be encoded, some rows at a time."""

    def __init__(self, encoding: Encoding, table: Mapping[str, NDArray[Any]]) -> None:
        self._encoding, self._table = encoding, table
        self.n_rows = len(table[encoding.columns[0].name])
        layout = encoding._layout
        self._scaled = ScaledColumns(
            [column.numbers(table[column.name]) for column in layout.numbers],
            layout.centres,
            layout.scales,
            layout.starts[layout.numeric],
        )

    def rows(self, start: int, stop: int) -> Encoded:
        """Encode the rows from ``start`` to ``stop``."""
        columns, layout = self._encoding.columns, self._encoding._layout
        X: Matrix = np.empty((stop - start, int(layout.starts[-1])))
        missing, unknown = np.zeros((2, len(columns)), np.int64)
        missing[layout.numeric], finite = self._scaled.write(X, start)
        if missing.any():
            for number, n_missing in zip(layout.numbers, missing[layout.numeric], strict=True):
                number.refuse_missing(int(n_missing))
        for i in layout.categories:
            column = columns[i]
            assert isinstance(column, CategoryColumn)
            out = X[:, layout.starts[i] : layout.starts[i + 1]]
            missing[i], unknown[i] = column.write(self._table[column.name][start:stop], out)
        return Encoded(
            X, Seen(X.shape[0], tuple(missing.tolist()), tuple(unknown.tolist())), finite
        )


def coded_differently(encoding: Encoding | None, seen: Seen | None) -> str:
    """What a site codes differently than the protocol, and the remedy; "" if nothing."""
    if encoding is None or seen is None:
        return ""
    troubles = encoding.troubles(seen)
    if not troubles:
        return ""
    more = f"; and {len(troubles) - 5} more columns" if len(troubles) > 5 else ""
    return f"{'; '.join(troubles[:5])}{more}. Recode such values as the protocol has them"


def names_of(X: Any) -> list[str] | None:
    """Names of the columns of a dataframe or a mapping; None if they have none."""
    if isinstance(X, Mapping):
        return [str(name) for name in X]
    names = getattr(X, "column_names", getattr(X, "columns", None))  # an Arrow table has both
    return None if names is None else [str(name) for name in names]


def columns_of(X: Any, names: list[str]) -> Mapping[str, NDArray[Any]]:
    """Columns of a dataframe or a mapping by name, or of an array by position."""
    if isinstance(X, Mapping):
        _check_names(list(X), names)
        found = {name: X[name] for name in names}
        return {
            name: column if isinstance(column, np.ndarray) else _values(column)
            for name, column in found.items()
        }
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        array = np.asarray(X)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise ReplearnError(
                f"X must have {len(names)} columns, as in the protocol, got shape {array.shape}."
            )
        return dict(zip(names, array.T, strict=True))
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, eager_only=True)
    except DuplicateError as problem:
        raise ReplearnError(
            f"X must have different column names: {' '.join(str(problem).split())}. Rename them."
        ) from None
    _check_names(frame.columns, names)
    return {name: _values(frame[name]) for name in names}


def _values(column: Any) -> NDArray[Any]:
    """A column as numbers with NaN for a missing value, or as objects with None."""
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, list | tuple):
        return np.asarray(column)
    import narwhals as nw

    series = nw.from_native(column, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return np.asarray(column)
    missing = series.is_null().to_numpy()
    if series.dtype.is_integer() or series.dtype.is_float() or series.dtype == nw.Boolean:
        if not missing.any():
            return series.to_numpy()
        if series.dtype != nw.Boolean:
            return series.to_numpy().astype(np.float64)
    values = np.empty(missing.size, dtype=object)
    values[:] = series.to_list()  # to_numpy mixes up what is missing in dictionaries of Arrow
    values[missing] = None
    return values


def _check_names(found: list[str], wanted: list[str]) -> None:
    absent = [name for name in wanted if name not in found]
    if absent:
        raise ReplearnError(
            f"column {absent[0]!r} is not in the table, which has "
            f"{', '.join(repr(str(name)[:80]) for name in found[:8])}. Rename the columns, or use "
            "the protocol and the model of this study."
        )


def as_text(value: Any) -> str | None:
    """A category as published; None if it is missing.

    A plain decimal number is the same category as a number and as text, so that it does not
    matter which type a column has at a lab: 1, 1.0, "1" and "1.0" are all "1". Text such as "007"
    or "1e3" stays as it is. Likewise true and false, as booleans and as text in any case, are
    "True" and "False".
    """
    if _is_missing(value):
        return None
    if isinstance(value, float | np.floating):
        return _number_text(value)
    text = str(value)
    if _PLAIN_NUMBER.fullmatch(text):
        return _number_text(float(text)) if "." in text else text.replace("-0", "0")
    return text.capitalize() if text.lower() in ("true", "false") else text


def _number_text(number: float | np.floating[Any]) -> str:
    """The shortest decimal number that is read as this one, without an exponent."""
    if float(number).is_integer():
        return str(int(number))
    return np.format_float_positional(number, trim="-")


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN is not equal to itself
    except TypeError:  # the missing value of pandas says neither yes nor no
        return True
