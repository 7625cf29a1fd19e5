"""Shared coins: one published seed, one named stream for each purpose.

Two labs that publish one seed draw the same coins, on any machine and any version of any
library. A draw is addressed by (seed, stream name, row, position), so it never matters how
much was drawn before. docs/format.md specifies the bits.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.errors import ReplearnError, short
from replearn.exact import draws
from replearn.types import Order, Vector, Words

STREAM_FORMAT = b"replearn/streams/1\n"

#: Characters of a seed, and of any text in a file.
MAX_TEXT = 1 << 12


def seed_text(seed: Any, name: str = "shared_seed") -> str:
    """A seed as text that a file can hold: 7 and "7" are one seed, 7.0 and True are none.

    Examples
    --------
    >>> seed_text(2024)
    '2024'
    """
    if isinstance(seed, bool) or not isinstance(seed, int | str | np.integer):
        raise ReplearnError(
            f"{name} must be an int or a string, got {short(seed)}. Publish one and pass it at "
            "every lab."
        )

    text = str(seed)
    # half of a character cannot be written to a file
    if len(text) > MAX_TEXT or any("\ud800" <= character <= "\udfff" for character in text):
        raise ReplearnError(
            f"{name} must be a string of at most {MAX_TEXT} Unicode characters, got {short(text)}. "
            "Choose a shorter one."
        )
    return text


@dataclass(frozen=True)
class Coins:
    """The published coins of one study.

    Examples
    --------
    >>> bool((Coins(2024).uniforms("example", 3) == Coins("2024").uniforms("example", 3)).all())
    True
    """

    seed: int | str  # published. ``2024`` and ``"2024"`` are the same seed.

    def key(self, stream: str) -> Words:
        """Philox key of a named stream: the first 16 bytes of a SHA-256, little-endian."""
        seed = str(self.seed).encode()
        size = len(seed).to_bytes(8, "little")  # so that no seed runs into a name
        digest = hashlib.sha256(STREAM_FORMAT + size + seed + stream.encode()).digest()
        return np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)

    def words(self, stream: str, n: int, row: int = 0) -> Words:
        """``n`` raw 64-bit words: NumPy's Philox with the counter ``(0, row, 0, 0)``."""
        counter = np.array([0, row, 0, 0], dtype=np.uint64)
        return np.random.Philox(counter=counter, key=self.key(stream)).random_raw(n)

    def words_of_rows(self, stream: str, n: int, rows: range) -> Words:
        """``n`` words of each of several rows, one after the other, by one generator."""
        generator = np.random.Philox(key=self.key(stream))
        state = generator.state
        state["buffer_pos"] = 4  # of four words: nothing is left over

        parts = []
        for row in rows:
            state["state"]["counter"] = np.array([0, row, 0, 0], dtype=np.uint64)
            generator.state = state
            parts.append(generator.random_raw(n))
        return np.concatenate(parts)

    def uniforms(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` uniforms on ``[0, 1)``, multiples of 2^-53."""
        return draws.uniforms(self.words(stream, n, row))

    def signs(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` fair signs: bit ``j % 64`` of word ``j // 64`` is 1 for +1, 0 for -1."""
        words = self.words(stream, -(-n // 64), row).astype("<u8")
        bits = np.unpackbits(words.view(np.uint8), count=n, bitorder="little")
        return np.asarray(2.0 * bits - 1.0)

    def normals(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` standard normals."""
        return draws.normals(self.words(stream, n, row))

    def exponentials(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` standard exponential draws, ``-ln u``."""
        return draws.exponentials(self.words(stream, n, row))

    def sample(self, stream: str, n: int, size: int) -> Order:
        """``size`` different indices below ``n``, in random order.

        Fisher-Yates from the front: step ``i`` swaps item ``i`` with item
        ``i + floor(word_i (n - i) / 2^64)``; one word a step, whatever happens.
        """
        items = list(range(n))
        for i, word in enumerate(self.words(stream, size).tolist()):
            j = i + (word * (n - i) >> 64)
            items[i], items[j] = items[j], items[i]
        return np.array(items[:size], dtype=np.int64)

    def row_order(self, stream: str, n: int) -> Order:
        """A uniformly random order of ``n`` rows: sorted by their keys, the words of row 0."""
        keys = self.words(stream, n)
        order = np.argsort(keys)

        # of equal keys the first row comes first; they are rare, and a stable sort is slow
        sorted_keys = keys[order]
        if (sorted_keys[1:] == sorted_keys[:-1]).any():
            order = np.argsort(keys, kind="stable")
        return order
