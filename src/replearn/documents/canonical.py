"""Canonical JSON: one document, one sequence of bytes, so that hashes can be compared."""

import json
import math
from decimal import Decimal
from typing import Any

#: Whole numbers up to this size are exact in every reader of JSON.
MAX_WHOLE = (1 << 53) - 1

_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Canonical(str):
    """A part of a document that is canonical JSON already."""

    __slots__ = ()


def canonical_json(content: Any) -> bytes:
    """Canonical JSON (RFC 8785): keys in the order of UTF-16, numbers as ECMAScript writes them.

    Raises
    ------
    ValueError, TypeError
        For what JSON cannot hold: NaN, whole numbers beyond 2^53, half of a character, other types.

    Examples
    --------
    >>> canonical_json({"b": [1, 1e-7], "a": "é"}).decode()
    '{"a":"é","b":[1,1e-7]}'
    """
    return _canonical(content).encode()


def decimal_text(value: float, digits: int = 3) -> str:
    """A number rounded to some significant digits, in the one form that files accept.

    Rounded to nearest, exact ties to even; then written as ECMAScript writes numbers.

    Examples
    --------
    >>> [decimal_text(value) for value in (0.00123456, -4.5, 1.2e-7, 123456, -0.0)]
    ['0.00123', '-4.5', '1.2e-7', '123000', '0']
    """
    return _real(float(f"{value:.{digits}g}"))


def _canonical(value: Any) -> str:
    if type(value) is Canonical:
        return value
    if type(value) is int:
        if not -MAX_WHOLE <= value <= MAX_WHOLE:
            raise ValueError("a whole number beyond 2^53 must be written as text")
        return str(value)
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_encoded(key)}:{_canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list | tuple):
        if value and set(map(type, value)) == {int} and max(map(abs, value)) <= MAX_WHOLE:
            return _encoded(value)  # codes are many
        return "[" + ",".join(map(_canonical, value)) + "]"
    if isinstance(value, float):
        return _real(value)
    return _encoded(value)


def _real(value: float) -> str:
    """The shortest digits that are read as this number, as ECMAScript writes them."""
    if not math.isfinite(value):
        raise ValueError(f"JSON has no {value}")
    text = repr(float(value))
    if "e" not in text:  # Python writes these as ECMAScript does, but for what is whole
        return text.removesuffix(".0") if value else "0"  # also -0

    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, point = "".join(map(str, digits)), len(digits) + exponent
    if len(text) <= point <= 21:
        text += "0" * (point - len(text))
    elif 0 < point <= 21:
        text = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{text}"
    else:
        mantissa = f"{text[0]}.{text[1:]}".rstrip(".")
        text = f"{mantissa}e{point - 1:+d}"
    return "-" * sign + text
