"""One meaning of a cell, wherever it comes from: missing, a number, or a text.

A column is either numbers (float64, NaN where a cell is missing) or `Texts`. Which of the two a
source hands over never matters: a text that is a decimal number counts as that number, and a number
has one canonical text. `docs/format.md` is the specification.
"""

import datetime
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.types import Array, Ints32, Mask, Vector, unmasked

#: Numbers of a column that are sorted at once.
_MOST_SORTED = 1 << 20
#: Texts that say "no value", after white space is trimmed. "none" and "-" are answers.
MISSING_WORDS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", ".", "?")

#: What is trimmed from both ends of a text.
WHITE_SPACE = " \t\n\r\v\f"

#: Texts with more characters are refused: no level is that long.
MAX_TEXT = 4096

#: Columns that a message names.
_MOST_LISTED = 8

_HALF = re.compile("[\ud800-\udfff]")  # of a character
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITY = ("-Infinity", "Infinity")  # by whether it is positive
_INFINITE = frozenset(("inf", "-inf", *_INFINITY))  # as programs write them

#: How booleans may be spelled.
BOOLEANS = {"true": ("true", "True", "TRUE"), "false": ("false", "False", "FALSE")}
_BOOLS = {spelled: text for text, spellings in BOOLEANS.items() for spelled in spellings}
_BOOL_NUMBERS = {spelled: float(text == "true") for spelled, text in _BOOLS.items()}

#: What a column may not hold, and the remedy.
_REMEDIES = {
    "dates or times": "Turn them into numbers, such as days since admission, or drop them.",
    "complex numbers": "Keep their real parts or absolute values, or drop them.",
    "infinite numbers": "Leave such cells empty, or drop the column.",
    "lists": "Make a column of each part, or drop it.",
    "bytes": "Turn them into text, or drop them.",
    "texts of more than 4,096 characters": "Shorten them, or drop the column.",
    "texts with a NUL or half of a character": "Save the table as UTF-8, or drop the column.",
    "numbers with a point where the decimal sign is a comma": (
        "Write all numbers alike, or give the signs of this file (--decimal, --thousands)."
    ),
}


class OddCells(Exception):
    """A column that holds what is neither a number nor a text; ``what`` says what it is."""

    @property
    def what(self) -> str:
        """One of the keys of _REMEDIES, or a type."""
        return str(self)


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts, each distinct one stored once."""

    # for each row the place of its text in ``values``; -1 where the cell is missing
    codes: Ints32
    values: tuple[str, ...]  # trimmed texts, none of them a word for "missing"

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "Texts":
        return Texts(self.codes[rows], self.values)


#: Numbers with NaN where a cell is missing, or texts.
Column = Vector | Texts


def number_text(number: float) -> str:
    """The one text of a finite number: its shortest digits, as ECMAScript writes them.

    Examples
    --------
    >>> number_text(1.0), number_text(-0.0), number_text(0.1), number_text(1e-7)
    ('1', '0', '0.1', '1e-7')
    """
    if -(2**53) < number < 2**53 and number == int(number):
        return str(int(number))
    return decimal_text(number, 17)  # 17 digits are the number itself


def text_number(text: str) -> float | None:
    """The number that a trimmed text is, or None; true is 1, false is 0."""
    if _NUMBER.fullmatch(text):
        return float(text)
    return _BOOL_NUMBERS.get(text)


def is_number_text(text: str) -> bool:
    """Whether a trimmed text is a decimal number; true and false are not."""
    return _NUMBER.fullmatch(text) is not None


def level_text(text: str) -> str:
    """The level that a trimmed text is: "1.0" and "01" are "1", "TRUE" is "true"."""
    if not _NUMBER.fullmatch(text):
        return _BOOLS.get(text, text)

    number = float(text)
    if math.isinf(number):
        return _INFINITY[number > 0]
    return number_text(number)


def numbers_of(column: Column) -> tuple[Vector, Mask | None]:
    """A column as numbers, and which of its texts are none (None if all are numbers).

    What is missing, and what is no number, is NaN.
    """
    if not isinstance(column, Texts):
        return column, None

    # the last entry is that of missing cells, whose code is -1
    parsed = [*map(text_number, column.values), np.nan]
    values = np.array(parsed, dtype=np.float64)[column.codes]  # None becomes NaN
    if None not in parsed:
        return values, None

    is_odd = np.array([number is None for number in parsed])
    return values, is_odd[column.codes]


def levels_of(column: Column) -> tuple[Ints32, tuple[str, ...]]:
    """A column as levels: for each row the place of its level (-1: missing), and the levels."""
    if isinstance(column, Texts):
        texts = [level_text(text) for text in column.values]
        codes: Array = column.codes
    else:
        distinct, codes = _distinct(column)
        texts = [number_text(number) for number in distinct.tolist()]

    # several texts may be one level, such as "1" and "1.0"
    known: dict[str, int] = {}
    return _places_among(known, texts)[codes], tuple(known)


def _places_among(known: dict[str, int], texts: Iterable[str | None]) -> Ints32:
    """The place of each text among those that are known, which new ones join; -1 for None.

    One more -1 stands behind them: what the code of a missing cell, -1 too, finds there.
    """
    places = [-1 if text is None else known.setdefault(text, len(known)) for text in texts]
    return np.array([*places, -1], dtype=np.int32)


def _distinct(column: Vector) -> tuple[Vector, Ints32]:
    """Different numbers in order, and the place of each row's among them; -1 for NaN.

    Some rows at a time: to sort the places of all would take six times their memory.
    """
    parts = [column[start : start + _MOST_SORTED] for start in range(0, column.size, _MOST_SORTED)]
    distinct = np.unique(np.concatenate([column[:0], *map(np.unique, parts)]))
    if distinct.size and np.isnan(distinct[-1]):  # NaN is sorted to the end
        distinct = distinct[:-1]

    codes = np.empty(column.size, dtype=np.int32)
    for number, part in enumerate(parts):
        places = np.searchsorted(distinct, part).astype(np.int32)
        places[np.isnan(part)] = -1
        codes[number * _MOST_SORTED : number * _MOST_SORTED + part.size] = places
    return distinct, codes


def join_columns(parts: list[Column]) -> Column:
    """Consecutive parts of one column as a whole."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)  # type: ignore[arg-type]

    # one list of texts for all parts, in which each part's codes are looked up
    known: dict[str, int] = {}
    columns = [texts_of(part) for part in parts]
    codes = [_places_among(known, texts.values)[texts.codes] for texts in columns]
    return Texts(np.concatenate(codes), tuple(known))


def texts_of(column: Column) -> Texts:
    """A column as texts; numbers as their canonical ones."""
    if isinstance(column, Texts):
        return column
    return Texts(*levels_of(column))


# --- from what a source holds ---------------------------------------------------------------


def column_from(values: Any) -> Column:
    """A column of any kind: array, masked array, Arrow array, series of a frame, or sequence."""
    if isinstance(values, Texts):
        return values
    if isinstance(values, np.ndarray):
        return _from_array(values)
    if type(values).__module__.startswith("pyarrow"):
        return from_arrow(values)
    if isinstance(values, list | tuple):
        return _from_objects(list(values))

    # whatever is left: a series of a frame that narwhals knows, or what NumPy makes of it
    import narwhals.stable.v1 as nw

    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return from_series(series)
    return _from_array(np.asarray(values))


def from_series(series: Any) -> Column:
    """A column of a series of narwhals."""
    import narwhals.stable.v1 as nw

    kind = series.dtype
    if kind in (nw.Int128, nw.UInt128):  # NumPy has none: whole numbers are beyond float64 anyway
        series = series.cast(nw.Float64)
        kind = series.dtype
    if kind.is_integer() or kind.is_float():
        absent = series.is_null().to_numpy()
        if not absent.any():
            return _from_array(series.to_numpy())
        return _from_array(np.ma.MaskedArray(series.fill_null(0).to_numpy(), absent))

    if kind.is_temporal() and not series.is_null().all():
        raise OddCells("dates or times")

    if kind in (nw.String, nw.Categorical, nw.Enum):
        try:
            return from_arrow(series.to_arrow())
        except (ValueError, TypeError):
            pass  # levels of several types (1 and "a"): the same, slower
    return _from_objects(series.to_list())


def _from_array(array: Array) -> Column:
    if array.ndim != 1:
        raise OddCells("lists")
    array = unmasked(array)
    if array.dtype.kind in "iuf":
        return finite(array.astype(np.float64, copy=False))
    if array.dtype.kind == "b":
        return Texts(array.astype(np.int32), ("false", "true"))

    kinds = {"M": "dates or times", "m": "dates or times", "c": "complex numbers", "S": "bytes"}
    if array.dtype.kind in kinds:
        raise OddCells(kinds[array.dtype.kind])
    if array.dtype.kind not in "OUT":
        raise OddCells(f"values of the type {array.dtype}")
    return _from_objects(array.tolist())


def finite(values: Vector) -> Vector:
    """These numbers, if none is infinite."""
    # a sum tells of any infinite number at a fraction of the cost
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if not np.isfinite(total) and np.isinf(values).any():
        raise OddCells("infinite numbers")
    return values


def _from_objects(items: list[Any]) -> Column:
    if set(map(type, items)) <= {int, float, type(None)}:
        try:
            return finite(np.array(items, dtype=np.float64))
        except OverflowError:
            raise OddCells("infinite numbers") from None

    places: dict[Any, int] = {}
    try:  # the type too: True equals 1, but is not the same cell
        codes = [places.setdefault((type(item), item), len(places)) for item in items]
    except TypeError:  # a masked cell has no hash, nor has a list
        if any(item is np.ma.masked for item in items):
            return _from_objects([None if item is np.ma.masked else item for item in items])
        raise OddCells("lists") from None
    return _coded(np.array(codes, dtype=np.int32), [item for _, item in places])


def _coded(codes: Ints32, items: list[Any]) -> Texts:
    """Texts of coded objects, whatever these are; negative codes are missing cells."""
    known: dict[str, int] = {}
    places = _places_among(known, map(_cell_text, items))
    return Texts(places[codes], tuple(known))


def _cell_text(value: Any) -> str | None:
    """A text with the meaning of one cell; None if it is missing."""
    if isinstance(value, str):
        return _trimmed_text(str(value))
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if value is None:
        return None
    if isinstance(value, numbers.Real | Decimal):
        return _real_text(value)

    # nothing else is a cell: the reason depends on what it is
    if isinstance(value, complex | np.complexfloating):
        raise OddCells("complex numbers")
    if isinstance(value, bytes | bytearray | memoryview):
        raise OddCells("bytes")
    if isinstance(value, list | tuple | dict | set | frozenset | np.ndarray):
        raise OddCells("lists")
    if type(value).__name__ in ("NAType", "NaTType"):  # of pandas, which need not be there
        return None
    moments = datetime.date, datetime.time, datetime.timedelta
    if isinstance(value, (*moments, np.datetime64, np.timedelta64)):
        raise OddCells("dates or times")
    raise OddCells(f"values of the type {type(value).__name__}")


def _trimmed_text(cell: str) -> str | None:
    text = check_text(cell.strip(WHITE_SPACE))
    if text in MISSING_WORDS:
        return None
    if text in _INFINITE or (_NUMBER.fullmatch(text) and np.isinf(float(text))):
        raise OddCells("infinite numbers")
    return text


def _real_text(cell: Any) -> str | None:
    try:
        number = float(cell)
    except (OverflowError, ValueError):  # too large; a signalling NaN
        number = np.inf

    if np.isnan(number):
        return None
    if np.isinf(number):
        raise OddCells("infinite numbers")
    return number_text(number)


def check_text(text: str) -> str:
    """The same text, if its length and its characters can be published."""
    if len(text) > MAX_TEXT:
        raise OddCells("texts of more than 4,096 characters")
    if "\0" in text or not (text.isascii() or _HALF.search(text) is None):
        raise OddCells("texts with a NUL or half of a character")
    return text


def from_arrow(array: Any, rewrite: Callable[[str], str] | None = None) -> Column:
    """A column of an Arrow array; ``rewrite`` is applied to its texts, as they stand."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind, types = array.type, pa.types
    check_arrow_type(kind)
    if types.is_null(kind):
        return np.full(len(array), np.nan)
    if types.is_integer(kind) or types.is_floating(kind):
        return finite(arrow_numbers(array).astype(np.float64, copy=False))

    # the rest are texts, each distinct one looked at once
    if types.is_decimal(kind) or str(kind) == "string_view":
        array = array.cast(pa.large_string())
    if not types.is_dictionary(kind):
        array = array.dictionary_encode()

    codes = arrow_numbers(array.indices.cast(pa.int32()), -1)
    used = np.unique(codes[codes >= 0])  # a dictionary may hold what no row has
    try:
        places = pa.Array.from_buffers(pa.int32(), used.size, [None, pa.py_buffer(used)])
        items = array.dictionary.take(places).to_pylist()
    except UnicodeDecodeError:
        raise OddCells("texts with a NUL or half of a character") from None
    if rewrite is not None:
        items = [rewrite(item) if isinstance(item, str) else item for item in items]

    renumbered = np.searchsorted(used, codes)
    return _coded(np.where(codes < 0, -1, renumbered).astype(np.int32), items)


def arrow_numbers(array: Any, missing: float = np.nan) -> Array:
    """Numbers of an Arrow array, in its own memory if none is missing.

    Arrow's ``to_numpy`` imports pandas, which takes a second.
    """
    valid, data = array.buffers()
    place = slice(array.offset, array.offset + len(array))
    values = np.frombuffer(data or b"", dtype=array.type.to_pandas_dtype())[place]
    if not array.null_count:
        return values

    known = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")[place]
    return np.where(known, values, missing)


def check_arrow_type(kind: Any) -> Any:
    """Refuse types of Arrow that are neither numbers nor texts."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_temporal(kind):
        raise OddCells("dates or times")
    if types.is_nested(kind):
        raise OddCells("lists")
    if "binary" in str(kind):
        raise OddCells("bytes")

    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if not (is_number or str(kind) in ("string", "large_string", "string_view", "bool", "null")):
        raise OddCells(f"values of the type {kind}")


def columns_from(place: str, sources: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """All columns of some rows; what is odd about any of them is said once, for all of them."""
    columns: dict[str, Any] = {}
    odd: dict[str, list[str]] = {}
    for name, read in sources.items():
        try:
            columns[name] = read()
        except OddCells as problem:
            odd.setdefault(problem.what, []).append(name)

    if odd:  # the first reason, with all columns that share it
        what, names = next(iter(odd.items()))
        remedy = _REMEDIES.get(what, "Turn them into numbers or text, or drop them.")
        raise ReplearnError(
            f"{place}: {named_columns(names)} must hold numbers or text, got {what}. {remedy}"
        )
    return columns


def named_columns(names: Iterable[str]) -> str:
    """Some columns in words: column 'age'; columns 'age', 'bmi'."""
    listed = [repr(_shortened(name)) for name in names]
    words = ", ".join(listed[:_MOST_LISTED])
    if len(listed) > _MOST_LISTED:
        words += f" and {len(listed) - _MOST_LISTED} more"
    return f"column{'s' * (len(listed) > 1)} {words}"


def _shortened(name: str) -> str:
    if len(name) <= 60:
        return name
    return name[:57] + "..."


def absent_columns(absent: Sequence[str], names: Sequence[str]) -> str:
    """Columns that are not there in words, and which ones differ in case or spaces only."""
    folded = {name.strip().casefold(): name for name in names}
    alike = []
    for name in absent:
        other = folded.get(name.strip().casefold())
        if other is not None:
            alike.append(f"{name!r} is {other!r} there")

    words = f"{named_columns(absent)}; it has {named_columns(names)}"
    if alike:
        words += f" ({', '.join(alike[:_MOST_LISTED])}: case and spaces count)"
    return words


# --- decimal commas and thousands -------------------------------------------------------------

_SIGNS = {  # what a text is in the first pattern that it fits
    "both": re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+,[0-9]+"),
    ",": re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?"),
    "decimal": re.compile(r"[+-]?[0-9]+,[0-9]+"),
    ".": re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+"),
    "'": re.compile(r"[+-]?[0-9]{1,3}('[0-9]{3})+"),
    " ": re.compile(r"[+-]?[0-9]{1,3}( [0-9]{3})+"),
}


def signs_meant(texts: Iterable[str]) -> str:
    """What to announce if most of these texts are numbers with other signs; "" if they are not.

    Texts of one column that are no numbers. A comma before three digits each time separates
    thousands; any other comma is a decimal sign.
    """
    kinds = [_signs_in(text) for text in texts]
    if 2 * kinds.count("") >= len(kinds):  # most are no numbers at all
        return ""

    if "both" in kinds or {"decimal", "."} <= set(kinds):
        return '--decimal="," and --thousands="."'
    if "decimal" in kinds:
        return '--decimal=","'
    return f'--thousands="{next(sign for sign in _SIGNS if sign in kinds)}"'


def _signs_in(text: str) -> str:
    for kind, pattern in _SIGNS.items():
        if pattern.fullmatch(text):
            return kind
    return ""


def sign_reader(decimal: str, thousands: str) -> Callable[[str], str]:
    """What turns texts that are numbers with these signs into plain numbers."""
    group, point = re.escape(thousands), re.escape(decimal)
    digits = "[0-9]+"
    if thousands:
        digits += rf"|[0-9]{{1,3}}({group}[0-9]{{3}})+"
    mantissa = rf"({digits})({point}[0-9]*)?|{point}[0-9]+"
    pattern = re.compile(rf"[+-]?({mantissa})([eE][+-]?[0-9]+)?")

    def rewrite(text: str) -> str:
        trimmed = text.strip(WHITE_SPACE)
        if pattern.fullmatch(trimmed):
            return trimmed.replace(thousands, "").replace(decimal, ".")

        if decimal == "," and _NUMBER.fullmatch(trimmed) and "." in trimmed[:-1]:
            raise OddCells("numbers with a point where the decimal sign is a comma")
        return text

    return rewrite
