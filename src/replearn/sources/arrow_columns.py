"""Columns of Arrow as NumPy arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_number(kind: Any) -> bool:
    """Whether the values of this type can be taken as numbers; nulls can."""
    from pyarrow import types

    kind = _value_type(kind)
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def is_text(kind: Any) -> bool:
    """Whether the values of this type are text."""
    return str(_value_type(kind)) in ("string", "large_string", "string_view")


def is_single(kind: Any) -> bool:
    """Whether the values of this type are 32-bit floats, or 16-bit ones."""
    from pyarrow import types

    return bool(types.is_float32(kind) or types.is_float16(kind))


def is_bytes(kind: Any) -> bool:
    """Whether the values of this type are text or bytes of any length."""
    return is_text(kind) or str(_value_type(kind)) in ("binary", "large_binary", "binary_view")


def _value_type(kind: Any) -> Any:
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def read_type(kind: Any, raw: bool) -> Any:
    """The type in which a column is read: text as dictionaries, unless it is wanted as it is."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), kind.value_type)
    return pa.dictionary(pa.int32(), pa.string()) if is_text(kind) and not raw else kind


def joint_type(first: Any, second: Any) -> Any:
    """A type for the values of two files, or None if they have no type in common."""
    import pyarrow as pa

    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if is_text(first) and is_text(second):
        return pa.dictionary(pa.int32(), pa.string())
    both = {_value_type(first), _value_type(second)}
    return pa.float64() if all(map(is_number, both)) and pa.bool_() not in both else None


def with_schema(batch: Any, schema: Any) -> Any:
    """Columns of a batch by name, with the types of a schema."""
    import pyarrow as pa

    columns = [_with_type(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_type(column: Any, kind: Any) -> Any:
    import pyarrow as pa

    if column.type == kind:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_dictionary(kind):
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            column.indices.cast(kind.index_type), column.dictionary.cast(kind.value_type)
        )
    if pa.types.is_float64(kind):
        return pa.array(numbers(column).astype(np.float64), from_pandas=True)
    return column.cast(kind)


def check_dictionaries(batch: Any) -> None:
    """Refuse places outside of dictionaries, which Arrow takes from a damaged file as they are."""
    import pyarrow as pa

    for place, kind in enumerate(batch.schema.types):
        if pa.types.is_dictionary(kind):
            batch.column(place).validate(full=True)


def rows_within(batch: Any, n_bytes: int) -> Iterator[Any]:
    """Slices of a batch whose text has at most ``n_bytes`` bytes, written out."""
    import pyarrow as pa
    from pyarrow.compute import binary_length

    lengths = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and is_bytes(column.type):
            sizes = binary_length(column.dictionary).fill_null(0)
            of_value = sizes.to_numpy(zero_copy_only=False)
            if of_value.size and int(of_value.max()) * len(column) > n_bytes // batch.num_columns:
                lengths += np.append(of_value, 0)[_places(column)]
    total = np.cumsum(lengths)
    if not total.size or total[-1] <= n_bytes:
        yield batch
        return
    start = 0
    while start < batch.num_rows:
        before = total[start - 1] if start else 0
        stop = int(np.searchsorted(total, before + n_bytes, side="right"))
        stop = max(stop, start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def width(kind: Any) -> int | None:
    """Bytes of a value, or None if that differs from value to value."""
    from pyarrow import types

    if types.is_null(kind):
        return 0
    if types.is_primitive(kind) or types.is_fixed_size_binary(kind) or types.is_decimal(kind):
        return -(-int(kind.bit_width) // 8)
    return None


def numbers(column: Any) -> NDArray[Any]:
    """Numbers, with NaN for null: floats, or integers if there is no null.

    Decimals become floats through their text, which gives the nearest float in every version
    of Arrow, like in a text file.
    """
    import pyarrow as pa

    column = decoded(column)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.string()).cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def objects(column: Any) -> NDArray[Any]:
    """Values as they stand; None for null and for blank text."""
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return np.full(len(column), None)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    distinct = np.empty(len(column.dictionary) + 1, dtype=object)
    for place, value in enumerate(column.dictionary.to_pylist()):
        distinct[place] = None if isinstance(value, str) and not value.strip() else value
    return distinct[_places(column)]


def values(column: Any) -> NDArray[Any]:
    """Numbers with NaN for null; booleans and text with None for null, as objects."""
    import pyarrow as pa

    if is_text(column.type):
        return objects(column)
    column = decoded(column)
    if not pa.types.is_boolean(column.type):
        return numbers(column)
    return objects(column) if column.null_count else column.to_numpy(zero_copy_only=False)


def _places(column: Any) -> NDArray[np.int64]:
    """Where in its dictionary each value is; -1 for null."""
    import pyarrow as pa

    places: NDArray[np.int64] = (
        column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    )
    return places


def decoded(column: Any) -> Any:
    """The values of a column, without a dictionary."""
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
