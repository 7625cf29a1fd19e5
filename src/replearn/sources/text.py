"""Text files in blocks of whole lines, and tables that keep their rows as lines."""

import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from replearn.errors import ReplearnError
from replearn.sources.common import reading

BLOCK_BYTES = 2**22
MAX_LINE_BYTES = 2**26
BYTE_ORDER_MARK = "\ufeff".encode()

T = TypeVar("T")


@contextmanager
def opened(path: str) -> Iterator[tuple[Any, Any]]:
    """A file, unpacked if it is compressed, and the file as it is stored."""
    with open(path, "rb") as stored:
        if path.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=stored) as unpacked:
                yield unpacked, stored
        else:
            yield stored, stored


def blocks(path: str, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[float, list[bytes]]]:
    r"""Share read and lines of a file, some megabytes at a time.

    Lines end in ``\n``, ``\r\n`` or ``\r``, the last one too.
    """
    n_lines = 0
    with reading(path), opened(path) as (file, stored):
        size = max(1, os.fstat(stored.fileno()).st_size)
        left = file.read(len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK)
        while True:
            new = file.read(n_bytes)
            data = left + new
            cut = len(data) if not new else data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1
            lines, left = data[:cut].splitlines(keepends=True), data[cut:]
            if not new and lines and not lines[-1].endswith((b"\n", b"\r")):
                lines[-1] += b"\n"
            if lines:
                yield min(1.0, stored.tell() / size), lines
            n_lines += len(lines)
            if len(left) > MAX_LINE_BYTES:
                raise ReplearnError(
                    f"{path}, line {n_lines + 1} must be shorter than {MAX_LINE_BYTES >> 20} MiB, "
                    "got more without an end. Check the file."
                )
            if not new:
                return


def one_after_another(
    paths: Sequence[str], read: Callable[[int], Iterable[tuple[float, T]]]
) -> Iterator[tuple[float, T]]:
    """What is read of each file, by its number, with the share of all files instead of its own."""
    sizes = []
    for path in paths:
        with reading(path):
            sizes.append(max(1, os.stat(path).st_size))
    for number, size in enumerate(sizes):
        for share, item in read(number):
            yield (sum(sizes[:number]) + share * size) / sum(sizes), item


def from_row(
    items: Iterable[tuple[float, T]],
    start: int,
    most: int,
    n_rows: Callable[[T], int],
    cut: Callable[[T, int, int], T],
) -> Iterator[tuple[float, int, T]]:
    """Share read, first row and rows, from row ``start`` on, at most ``most`` at a time."""
    done = 0
    for share, item in items:
        size = n_rows(item)
        for at in range(max(0, start - done), size, most):
            yield share, done + at, cut(item, at, min(at + most, size))
        done += size


def lines_from_row(
    items: Iterable[tuple[float, list[bytes]]], start: int, most: int
) -> Iterator[tuple[float, int, list[bytes]]]:
    """The same for lines, a row each."""
    return from_row(items, start, most, len, lambda lines, first, stop: lines[first:stop])


def to_arrow(lines: list[bytes]) -> Any:
    """Lines as a batch with one column, which can be written to a file in any order."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array(lines, pa.large_binary())], ["record"])
