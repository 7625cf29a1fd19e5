"""Hint files: what the first site of a study publishes, or every site if there is no first."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from replearn.codes.hints import MAX_HINT_BITS
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.jsonfile import (
    Unfit,
    read_format,
    read_hash,
    read_integer,
    read_json,
    read_object,
    read_text,
    write_json,
)
from replearn.stages.hints import common_hint
from replearn.study.protocol import Protocol

FORMAT = "replearn-hint"
UNSAFE_FORMAT = "replearn-unsafe-hints"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class _OfStudy:
    """What a site publishes about the grid, bound to its study."""

    protocol: str  # its hash
    seed: str
    hint_bits: int
    kind: ClassVar[str]

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"format": self.kind, "version": FORMAT_VERSION, **vars(self)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        write_json(path, self.content())

    def refuse_others(self, protocol: Protocol) -> None:
        """Refuse another protocol, seed or number of bits."""
        for name, mine, other in (
            ("protocol", self.protocol, protocol.fingerprint),
            ("seed", self.seed, protocol.seed),
            ("number of hint bits", self.hint_bits, protocol.hint_bits),
        ):
            if mine != other:
                raise ReplearnError(
                    f"a hint must come from a fit under the same protocol, but its {name} is "
                    f"{mine}, and here it is {other}. Ask the site that wrote it for the right one."
                )


@dataclass(frozen=True)
class Hint(_OfStudy):
    """The move of the grid that the first site chose: from 0 to ``2**hint_bits - 1``."""

    hint: int
    kind = FORMAT

    @classmethod
    def of(cls, hint: int, protocol: Protocol) -> "Hint":
        """The hint of a fit under a protocol."""
        return cls(protocol.fingerprint, protocol.seed, protocol.hint_bits, hint)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Hint":
        """Read and check a hint file."""
        try:
            return _hint(read_json(path))
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid hint file: {problem}.") from None

    def checked(self, protocol: Protocol) -> int:
        """The hint, refused if it belongs to another protocol or seed."""
        self.refuse_others(protocol)
        return self.hint


@dataclass(frozen=True)
class UnsafeHints(_OfStudy):
    """The moves of the grid that a site asks not to take, in a study without a first site."""

    unsafe: tuple[int, ...]
    kind = UNSAFE_FORMAT

    @classmethod
    def of(cls, unsafe: tuple[int, ...], protocol: Protocol) -> "UnsafeHints":
        """What a fit under a protocol asks for."""
        return cls(protocol.fingerprint, protocol.seed, protocol.hint_bits, unsafe)

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return super().content() | {"unsafe": list(self.unsafe)}


def read_hints(paths: Sequence[str | os.PathLike[str]], protocol: Protocol) -> int:
    """The hint to fit with: of the first site's file, or common to what all sites call unsafe."""
    if len(paths) == 1:
        return Hint.load(paths[0]).checked(protocol)
    unsafe = []
    for path in paths:
        try:
            found = _unsafe(read_json(path))
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid file of unsafe hints: {problem}.") from None
        found.refuse_others(protocol)
        unsafe.append(found.unsafe)
    return common_hint(unsafe, protocol.hint_bits)


def _hint(content: dict[str, Any]) -> Hint:
    protocol, seed, bits = _study_of(content, FORMAT, "hint")
    return Hint(protocol, seed, bits, read_integer(content["hint"], "hint", 0, (1 << bits) - 1))


def _unsafe(content: dict[str, Any]) -> UnsafeHints:
    protocol, seed, bits = _study_of(content, UNSAFE_FORMAT, "unsafe")
    numbers = content["unsafe"]
    if not isinstance(numbers, list) or len(numbers) > 1 << bits:
        raise Unfit(f"unsafe must be a list of at most {1 << bits} numbers")
    unsafe = tuple(read_integer(hint, "unsafe", 0, (1 << bits) - 1) for hint in numbers)
    return UnsafeHints(protocol, seed, bits, unsafe)


def _study_of(content: dict[str, Any], format_name: str, key: str) -> tuple[str, str, int]:
    """Hash of the protocol, its seed and its hint bits."""
    read_format(content, format_name, FORMAT_VERSION)
    read_object(content, "the file", {"format", "version", "protocol", "seed", "hint_bits", key})
    return (
        read_hash(content["protocol"], "protocol"),
        read_text(content["seed"], "seed"),
        read_integer(content["hint_bits"], "hint_bits", 1, MAX_HINT_BITS),
    )
