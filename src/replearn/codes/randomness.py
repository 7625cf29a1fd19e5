"""Shared randomness: one published seed, one named stream for each purpose.

Two labs that publish one seed draw the same coins, on any machine and any version of any
library. A draw is addressed by (seed, stream name, row, position), so it never matters how
much was drawn before. The bits are specified in docs/shared-randomness.md.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.kernels import philox
from replearn.types import Order, Vector, Words

STREAM_FORMAT = b"replearn/streams/1\n"

#: Characters of a seed, and of any text in a file.
MAX_TEXT = 1 << 12


def seed_text(seed: Any, name: str) -> str:
    """A seed as text that a file can hold: 7 and "7" are one seed, 7.0 and True are none.

    ``name`` is that of the parameter, for messages.

    Examples
    --------
    >>> seed_text(2024, "shared_seed")
    '2024'
    """
    if isinstance(seed, bool) or not isinstance(seed, int | str | np.integer):
        raise ReplearnError(
            f"{name} must be an int or a string, got {seed!r:.80}. Publish one and pass it at "
            "every site."
        )
    text = str(seed)
    if len(text) > MAX_TEXT or has_surrogates(text):
        raise ReplearnError(
            f"{name} must be a string of at most {MAX_TEXT} Unicode characters, got {text!r:.80}."
        )
    return text


def has_surrogates(text: str) -> bool:
    """Whether half a character stands alone: Python can say so, UTF-8 cannot."""
    return any("\ud800" <= character <= "\udfff" for character in text)


@dataclass(frozen=True)
class SharedRandomness:
    """The published coins of one study.

    Parameters
    ----------
    seed : int or str
        Published. ``2024`` and ``"2024"`` are the same seed.

    Examples
    --------
    >>> shared = SharedRandomness(2024)
    >>> shared.signs("example", 4)
    array([-1.,  1., -1., -1.])
    >>> bool(
    ...     (shared.uniforms("example", 3) == SharedRandomness("2024").uniforms("example", 3)).all()
    ... )
    True
    """

    seed: int | str

    def key(self, stream: str) -> tuple[np.uint64, np.uint64]:
        """Philox key of a named stream: the first 16 bytes of a SHA-256, little-endian."""
        seed = str(self.seed).encode()
        digest = hashlib.sha256(
            STREAM_FORMAT + len(seed).to_bytes(8, "little") + seed + stream.encode()
        ).digest()
        key0, key1 = np.frombuffer(digest[:16], dtype="<u8")
        return np.uint64(key0), np.uint64(key1)

    def words(self, stream: str, n: int, row: int = 0) -> Words:
        """``n`` raw 64-bit words."""
        out = np.empty(n, dtype=np.uint64)
        philox.fill_words(np.uint64(row), *self.key(stream), out)
        return out

    def uniforms(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` uniforms on ``[0, 1)``, multiples of 2^-53."""
        return self._drawn(philox.uniforms_from_words, stream, n, row)

    def signs(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` fair signs, +1 or -1."""
        out = np.empty(n)
        philox.fill_signs(np.uint64(row), *self.key(stream), out)
        return out

    def normals(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` standard normals."""
        return self._drawn(philox.normals_from_words, stream, n, row)

    def gumbels(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` standard Gumbel draws: maxima of exponential clocks, ``-ln(-ln u)``."""
        return self._drawn(philox.gumbels_from_words, stream, n, row)

    def exponentials(self, stream: str, n: int, row: int = 0) -> Vector:
        """``n`` standard exponential draws, ``-ln u``."""
        return self._drawn(philox.exponentials_from_words, stream, n, row)

    def sample(self, stream: str, n: int, size: int, row: int = 0) -> Order:
        """``size`` different indices below ``n``, in random order."""
        items = np.arange(n, dtype=np.int64)
        philox.shuffle_front(np.uint64(row), *self.key(stream), size, items)
        return items[:size]

    def permutation(self, stream: str, n: int) -> Order:
        """A uniformly random order of ``n`` rows."""
        return self.sample(stream, n, n)

    def row_keys(self, stream: str, n: int, first: int = 0) -> Words:
        """Words ``first`` to ``first + n`` of row 0: the keys by which `row_order` sorts rows."""
        out = np.empty(n, dtype=np.uint64)
        philox.fill_keys(first, *self.key(stream), out)
        return out

    def row_order(self, stream: str, n: int) -> Order:
        """A uniformly random order of ``n`` rows: sorted by their keys.

        Unlike `permutation` it can be applied to rows in pieces, in little memory and anywhere,
        since the key of a row depends on its number alone.
        """
        return philox.order_by_keys(self.row_keys(stream, n))

    def _drawn(self, from_words: Callable[..., None], stream: str, n: int, row: int) -> Vector:
        out = np.empty(n)
        from_words(self.words(stream, n, row), out)
        return out
