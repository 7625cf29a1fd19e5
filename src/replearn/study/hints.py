"""Hint files: what the first site of a study publishes, and the others read."""

import os
from dataclasses import dataclass
from typing import Any

from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.model import canonical_json
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.atomic import write_atomically
from replearn.files.jsonfile import (
    Unfit,
    read_hash,
    read_integer,
    read_json,
    read_object,
    read_text,
)
from replearn.study.protocol import Protocol

FORMAT = "replearn-hint"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Hint:
    """The move of the grid that the first site chose, bound to its study.

    Attributes
    ----------
    protocol : str
        Hash of the protocol.
    seed : str
        Its seed.
    hint_bits : int
    hint : int
        From 0 to ``2**hint_bits - 1``.
    """

    protocol: str
    seed: str
    hint_bits: int
    hint: int

    @classmethod
    def of(cls, hint: int, protocol: Protocol) -> "Hint":
        """The hint of a fit under a protocol."""
        return cls(protocol.fingerprint, protocol.seed, protocol.hint_bits, hint)

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "format": FORMAT,
            "hint": self.hint,
            "hint_bits": self.hint_bits,
            "protocol": self.protocol,
            "seed": self.seed,
            "version": FORMAT_VERSION,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the hint file, whole or not at all."""
        write_atomically(path, canonical_json(self.content()) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Hint":
        """Read and check a hint file."""
        try:
            return _hint(read_json(path))
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid hint file: {problem}.") from None

    def checked(self, protocol: Protocol) -> int:
        """The hint, refused if it belongs to another protocol or seed."""
        for name, mine, other in (
            ("protocol", self.protocol, protocol.fingerprint),
            ("seed", self.seed, protocol.seed),
            ("number of hint bits", self.hint_bits, protocol.hint_bits),
        ):
            if mine != other:
                raise ReplearnError(
                    f"a hint must come from a fit under the same protocol, but its {name} is "
                    f"{mine}, and here it is {other}. Ask the first site for the right one."
                )
        return self.hint


def _hint(content: dict[str, Any]) -> Hint:
    if content.get("format") != FORMAT:
        raise Unfit(f"the format must be {FORMAT!r}")
    read_integer(content.get("version"), "version", FORMAT_VERSION, FORMAT_VERSION)
    keys = {"format", "version", "protocol", "seed", "hint_bits", "hint"}
    read_object(content, "the file", keys)
    bits = read_integer(content["hint_bits"], "hint_bits", 1, MAX_HINT_BITS)
    return Hint(
        protocol=read_hash(content["protocol"], "protocol"),
        seed=read_text(content["seed"], "seed"),
        hint_bits=bits,
        hint=read_integer(content["hint"], "hint", 0, (1 << bits) - 1),
    )
