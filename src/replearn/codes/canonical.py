"""Canonical JSON: one document, one sequence of bytes, so that hashes can be compared."""

import hashlib
import json
import math
from decimal import Decimal
from functools import cached_property
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


def fingerprint_of(content: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(content)).hexdigest()


class Fingerprinted:
    """What is equal if and only if its canonical bytes are: a `Model` or a `Choice`."""

    def content(self) -> dict[str, Any]:
        """What defines it, as JSON types."""
        raise NotImplementedError

    def canonical_bytes(self) -> bytes:
        """Canonical JSON (RFC 8785) of the content; the fingerprint is its SHA-256."""
        return canonical_json(self.content())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical bytes, in hex: equal if and only if the contents are."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.canonical_bytes() == other.canonical_bytes()

    def __hash__(self) -> int:
        return hash(self.fingerprint)


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
