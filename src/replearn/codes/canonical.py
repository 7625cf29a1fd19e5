"""Canonical JSON: one document, one sequence of bytes, so that hashes can be compared."""

import json
import math
from decimal import Decimal
from typing import Any

_quoted = json.JSONEncoder(ensure_ascii=False).encode


def canonical_json(content: Any) -> bytes:
    """Canonical JSON (RFC 8785): keys in the order of UTF-16, numbers as ECMAScript writes them.

    Examples
    --------
    >>> canonical_json({"b": [1, 1e-7], "a": "é"}).decode()
    '{"a":"é","b":[1,1e-7]}'
    """
    return _canonical(content).encode()


def _canonical(value: Any) -> str:
    if type(value) is int:  # before all others: codes are many
        return str(value)
    if isinstance(value, dict):
        texts = {key if isinstance(key, str) else json.dumps(key): key for key in value}
        keys = sorted(texts, key=lambda text: text.encode("utf-16-be", "surrogatepass"))
        return (
            "{" + ",".join(f"{_quoted(key)}:{_canonical(value[texts[key]])}" for key in keys) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _real(value) if isinstance(value, float) else _quoted(value)


def _real(value: float) -> str:
    """The shortest digits that are read as this number, as ECMAScript writes them."""
    if not math.isfinite(value):
        raise ValueError(f"JSON has no {value}")
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, point = "".join(map(str, digits)), len(digits) + exponent
    if text == "0":
        return "0"
    if len(text) <= point <= 21:
        text += "0" * (point - len(text))
    elif 0 < point <= 21:
        text = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{text}"
    else:
        text = f"{text[0]}{'.' if text[1:] else ''}{text[1:]}e{point - 1:+d}"
    return f"-{text}" if sign else text
