"""JSON files that are safe to open: strict reading, checked values."""

import json
import math
import os
import re
import stat
from collections.abc import Set
from typing import Any

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.canonical import canonical_json
from replearn.codes.encoding import CategoryColumn, Column, Encoding, NumberColumn
from replearn.codes.model import Label
from replearn.codes.randomness import MAX_TEXT, has_surrogates
from replearn.errors import InvalidFile, short
from replearn.files.atomic import write_atomically

MAX_FILE_BYTES = 1 << 28
MAX_ENTRIES = 1 << 24
MAX_DEPTH = 32

#: Widths of cells, relative ones too: codes of 53 bits times two of them stay finite when squared.
MIN_WIDTH, MAX_WIDTH = 1e-60, 1e60

_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,20})?(e[+-][0-9]{1,3})?")

SHA256 = re.compile(r"[0-9a-f]{64}")


class Unfit(Exception):
    """A value that does not fit the format."""


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read one JSON object strictly.

    Limited size and nesting, no duplicate keys, no NaN, no number that is infinite as a double,
    no half of a character: what is read can be written again.
    """
    content = limited_bytes(path, MAX_FILE_BYTES)
    try:
        document = parse_json(content)
    except ValueError as problem:
        raise InvalidFile(
            f"{path} is not valid JSON: {str(problem)[:200]}. Is it the right file?"
        ) from None
    if not isinstance(document, dict):
        raise InvalidFile(f"{path} must hold one JSON object. Is it the right file?")
    return document


def write_json(path: str | os.PathLike[str], content: Any, private: bool = False) -> None:
    """Write canonical JSON, whole or not at all; a private file only its owner may read."""
    write_atomically(path, canonical_json(content) + b"\n", private)


def parse_json(content: bytes) -> Any:
    """Parse JSON as strictly as `read_json` does.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    try:
        document = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constants,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep") from None
    _check_nesting(document, _HALF_CHARACTER.search(content) is not None)
    return document


#: An escape that may stand for half of a character; UTF-8 itself has none.
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


def limited_bytes(path: str | os.PathLike[str], most: int, what: str = "") -> bytes:
    """The content of a regular file of at most ``most`` bytes."""
    require_regular(path)
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        size = os.path.getsize(path)
        raise InvalidFile(f"{path} has {size:,} bytes; {what}at most {most:,} are read.")
    return content


def require_regular(path: str | os.PathLike[str]) -> None:
    """Refuse what is no regular file: a device has no end, and a pipe may never begin."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise InvalidFile(f"{path} must be a file, got a folder. Name a file in it.")
    if not stat.S_ISREG(mode):
        raise InvalidFile(f"{path} must be a regular file. Copy it to one first.")


def _check_nesting(document: Any, look_at_text: bool) -> None:
    """Refuse what is nested too deeply, or has text that cannot be written."""
    level = [document]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += [*value, *value.values()] if look_at_text else value.values()
            elif isinstance(value, list):
                inner += value
            elif look_at_text and isinstance(value, str) and has_surrogates(value):
                raise ValueError("a text has half of a character")
        if not inner:
            return
        level = inner
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return result


def _no_constants(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def read_integer(value: Any, name: str, low: int, high: int) -> int:
    """An integer in a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Unfit(f"{name} must be an integer from {low:,} to {high:,}")
    return value


def read_text(value: Any, name: str) -> str:
    """A string of limited length."""
    if not isinstance(value, str) or len(value) > MAX_TEXT or has_surrogates(value):
        raise Unfit(f"{name} must be a string of at most {MAX_TEXT} Unicode characters")
    return value


def read_hash(value: Any, name: str) -> str:
    """A SHA-256 in hex."""
    if not isinstance(value, str) or SHA256.fullmatch(value) is None:
        raise Unfit(f"{name} must be 64 hexadecimal digits")
    return value


#: Classes of a model, at the most.
MAX_CLASSES = 100


def read_classes(value: Any, most: int = MAX_CLASSES) -> tuple[Label, ...]:
    """Two labels, or more."""
    if (
        not isinstance(value, list)
        or not 2 <= len(value) <= most
        or len({type(label) for label in value}) != 1
        or not isinstance(value[0], bool | int | str)
        or len(set(value)) != len(value)
    ):
        number = "two" if most == 2 else f"2 to {most}"
        raise Unfit(
            f"classes must be {number} different labels of one type (string, integer, boolean)"
        )
    for label in value:
        if isinstance(label, str):
            read_text(label, "a label")
        else:
            read_integer(int(label), "a label", -(2**53), 2**53)
    return tuple(value)


def read_format(content: Any, name: str, newest: int = 1) -> int:
    """The version of a format, from 1 to the newest that this release knows."""
    if not isinstance(content, dict) or content.get("format") != name:
        raise Unfit(f"the format must be {name!r}")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= newest:
        known = "1" if newest == 1 else f"1 to {newest}"
        raise Unfit(f"version {short(version)} is unknown; this release reads {known}")
    return version


def check_fingerprint(document: dict[str, Any], fingerprint: str, path: object) -> None:
    """Refuse a file whose content has another fingerprint than it says."""
    if document["fingerprint"] != fingerprint:
        raise InvalidFile(
            f"{path} was altered or damaged: its content has the fingerprint {fingerprint}, "
            f"the file says {str(document['fingerprint'])[:64]!r}. Get it again from its source."
        )


def read_object(
    value: Any, name: str, keys: Set[str], optional: Set[str] = frozenset()
) -> dict[str, Any]:
    """An object with exactly these keys, and perhaps the optional ones."""
    if not isinstance(value, dict) or set(value) - optional != keys:
        raise Unfit(f"{name} must be an object with the keys {', '.join(sorted(keys))}")
    return value


def read_decimal(value: Any, name: str, low: float = -1e300) -> str:
    """A decimal number above ``low``, in a string."""
    fits = isinstance(value, str) and _DECIMAL.fullmatch(value) is not None
    if not fits or not low < float(value) < 1e300:
        what = "a positive decimal" if low == 0 else "a decimal"
        raise Unfit(f"{name} must be {what} number in a string")
    return str(value)


def read_width(value: Any, name: str) -> str:
    """Width of a cell, a decimal number in a string."""
    text = read_decimal(value, name, 0)
    if not MIN_WIDTH <= float(text) <= MAX_WIDTH:
        raise Unfit(f"{name} must be from {MIN_WIDTH:g} to {MAX_WIDTH:g}")
    return text


def read_basis(value: Any, n_inputs: int | None = None) -> Basis:
    """Published directions."""
    content = read_object(value, "basis", {"rows", "widths"})
    rows, widths = content["rows"], content["widths"]
    if (
        not isinstance(rows, list)
        or not isinstance(widths, list)
        or not 0 < len(rows) == len(widths)
    ):
        raise Unfit("basis must have as many rows as widths, at least one")
    n_columns = len(rows[0]) if n_inputs is None and isinstance(rows[0], list) else n_inputs
    for row in rows:
        if not isinstance(row, list) or len(row) != n_columns:
            raise Unfit(f"each row of the basis must be a list of {n_columns} integers")
        if not all(type(entry) is int and abs(entry) <= 1 << 15 for entry in row):
            raise Unfit("entries of the basis must be integers of at most 2^15")
    return Basis(
        np.array(rows, dtype=np.int64).reshape(len(rows), -1),
        tuple(read_width(width, "a width of the basis") for width in widths),
    )


def read_encoding(value: Any) -> Encoding:
    """Published columns."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_ENTRIES:
        raise Unfit("encoding must be a list of columns")
    columns = tuple(_column(content) for content in value)
    if len({column.name for column in columns}) != len(columns):
        raise Unfit("two columns of the encoding have the same name")
    return Encoding(columns)


def _column(content: Any) -> Column:
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind == "number":
        read_object(content, "a column", {"kind", "name", "centre", "scale", "fill_missing"})
        if not isinstance(content["fill_missing"], bool):
            raise Unfit("fill_missing must be true or false")
        return NumberColumn(
            read_text(content["name"], "a column's name"),
            read_decimal(content["centre"], "centre"),
            read_decimal(content["scale"], "scale", 0),
            content["fill_missing"],
        )
    if kind == "category":
        read_object(content, "a column", {"kind", "name", "values"}, {"other", "scales"})
        other = content.get("other")
        if "other" in content and not 0 <= float(read_decimal(other, "other")) <= 1:
            raise Unfit("other must be a share, from 0 to 1")
        values = content["values"]
        if not isinstance(values, list) or not values:
            raise Unfit("values must be a list of categories")
        texts = tuple(read_text(value, "a category") for value in values)
        if len(set(texts)) != len(texts):
            raise Unfit("a category appears twice among the values of its column")
        scales = content.get("scales", [])
        n_outputs = len(texts) + ("other" in content)
        if not isinstance(scales, list) or len(scales) not in (0, n_outputs):
            raise Unfit("scales must be a list of as many numbers as there are outputs")
        return CategoryColumn(
            read_text(content["name"], "a column's name"),
            texts,
            other,
            tuple(read_width(scale, "a scale") for scale in scales),
        )
    raise Unfit("a column must have the kind 'number' or 'category'")
