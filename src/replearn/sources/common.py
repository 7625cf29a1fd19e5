"""What all formats share: the description of a table, pieces of it, and errors in one line."""

import hashlib
import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, TypeVar

from numpy.typing import NDArray

from replearn.codes.encoding import Encoding, Seen, coded_differently
from replearn.errors import ReplearnError, ReplicabilityWarning, short
from replearn.warn import warn

T = TypeVar("T")

_END: Any = object()

#: Told from time to time which share of a table has been read.
Watch = Callable[[float], None]

#: Numbers of a batch (16 MiB in float64), and its rows.
BATCH_NUMBERS, MAX_BATCH_ROWS = 2**21, 2**17

#: What is looked at of a file to know it again: 4 MiB.
_N_SAMPLES, _SAMPLE_BYTES = 2**6, 2**16

PROTOCOL_REMEDY = "make a protocol that says what to do with it (replearn plan --pilot)"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a file: finite numbers (a CSR array if they are sparse), labels, column names.

    Labels are integers, if all of them are; else floats or text; None if none were asked for.
    """

    X: Any
    y: NDArray[Any] | None
    names: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive rows of a table.

    X is an array or a CSR array of finite numbers, after encoding; None if only labels were read.
    Labels are as they stand: the cells' text in a CSV file, else numbers, booleans or text; None if
    no label column was asked for.
    """

    X: Any
    y: NDArray[Any] | None
    first_row: int  # place of the first row in the table, or in the part that was read
    seen: Seen | None = None  # what was missing or unknown before encoding; None without one


def total_seen(parts: Iterable[Seen | None]) -> Seen | None:
    """What was missing or unknown in all pieces; None without an encoding."""
    found = [seen for seen in parts if seen is not None]
    return reduce(add, found) if found else None


def warn_if_coded_differently(place: str, encoding: Encoding | None, seen: Seen | None) -> str:
    """Warn of columns that a site codes differently; the same words as `coded_differently`."""
    trouble = coded_differently(encoding, seen)
    if trouble:
        warn(f"{place} is coded differently: {trouble}.", ReplicabilityWarning)
    return trouble


@dataclass(frozen=True)
class Request:
    """What is asked of the files at a place; see `replearn.sources.open_source`."""

    place: str
    paths: tuple[str, ...]
    target: str | None
    columns: Sequence[str] | None
    encoding: Encoding | None
    n_features: int | None
    raw: bool


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A table in a file or a folder: what to read of it, nothing of what is in it.

    Small, frozen and picklable; files are open only while they are read.
    """

    place: str  # the path as given, for messages
    paths: tuple[str, ...]  # the files, in the order in which they are read
    target: str | None  # the label column
    encoding: Encoding | None  # how columns become numbers
    raw: bool  # batches carry all columns as they are
    names: tuple[str, ...] | None  # of the features that come out
    n_features: int  # columns of X as it comes out
    n_rows: int | None = None  # None if this is known only after reading
    sparse: bool = False  # X is a CSR array
    itemsize: int = 8  # bytes of a number of X
    in_memory_only: ClassVar[bool] = False  # all of it must be held to read it in pieces
    has_own_labels: ClassVar[bool] = False  # the format says which they are

    @property
    def labelled(self) -> bool:
        """Whether labels come with the rows."""
        return self.has_own_labels or self.target is not None

    @property
    def nbytes(self) -> int | None:
        """Bytes of X in memory, if they are known before reading."""
        if self.n_rows is None or self.sparse:
            return None
        return self.n_rows * self.n_features * self.itemsize

    def identity(self) -> list[dict[str, Any]]:
        """What tells each of the files from any other, as JSON types.

        Name, size and digest of the content; of a large file the digest of evenly spaced samples,
        and its absolute path and times, since the samples do not show all of it.
        """
        return [_file_identity(path) for path in self.paths]

    def batches(self, start: int = 0, watch: Watch | None = None) -> Generator[Any, None, None]:
        """Consecutive rows from row ``start`` on as record batches of Arrow.

        One batch is read ahead in a background thread. A batch has at most 2^17 rows and about
        16 MiB of numbers, whatever the size of the table. ``watch`` is told the share read.
        """
        return watched(self._batches(_checked_start(start)), watch)

    def pieces(self, start: int = 0, watch: Watch | None = None) -> Iterator[Piece]:
        """Consecutive rows from row ``start`` on as numbers; else like ``batches``."""
        return watched(self._pieces(_checked_start(start)), watch)

    def row_pieces(self, watch: Watch | None = None) -> Iterator[Piece]:
        """Like ``pieces``, for who looks at rows once, some at a time.

        X may be a `ColumnRows`, which writes rows when they are asked for, and counts then what
        was missing in them.
        """
        return self.pieces(watch=watch)

    def _pieces(self, start: int) -> Iterator[tuple[float, Piece]]:
        """Share read and piece, one after the other; batches are read while one is parsed."""
        first_row = start
        with closing(ahead(self._batches(start))) as batches:
            for share, batch in batches:
                yield share, self.parse(batch, first_row)
                first_row += batch.num_rows

    @abstractmethod
    def _batches(self, start: int) -> Iterator[tuple[float, Any]]:
        """Share read and record batch, one after the other."""

    @abstractmethod
    def parse(self, batch: Any, first_row: int) -> Piece:
        """Numbers and labels of a batch (or of any rows of it); ``first_row`` is its place."""


def _file_identity(path: str) -> dict[str, Any]:
    with reading(path), open(path, "rb") as file:
        found = os.fstat(file.fileno())
        size, digest = found.st_size, hashlib.sha256()
        last = max(0, size - _SAMPLE_BYTES)
        whole = size <= _N_SAMPLES * _SAMPLE_BYTES
        step = _SAMPLE_BYTES if whole else last / (_N_SAMPLES - 1)
        for number in range(_N_SAMPLES):
            file.seek(int(number * step))
            digest.update(file.read(_SAMPLE_BYTES))
    identity = {"name": os.path.basename(path), "size": size, "sha256": digest.hexdigest()}
    if whole:
        return identity
    return identity | {
        "path": os.path.realpath(path),
        "changed_ns": found.st_ctime_ns,
        "written_ns": found.st_mtime_ns,
    }


def _checked_start(start: int) -> int:
    if start < 0:
        raise ReplearnError(f"start must be a row, counted from 0, got {start}.")
    return start


def ahead(items: Iterator[T], n_ahead: int = 1) -> Generator[T, None, None]:
    """Yield the items in order, each made while those before are in use.

    ``n_ahead`` items wait at most: more than one where the time that items take varies. An error in
    the making comes out where its item would have come. Closing this generator waits for the
    item under way, closes ``items`` and lets the thread end.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replearn-read-ahead")
    waiting = deque(pool.submit(next, items, _END) for _ in range(n_ahead))
    try:
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(pool.submit(next, items, _END))
            yield item
            del item  # not held while the next one is waited for
    finally:
        # The thread is not joined: as garbage this is closed wherever the collector happens to run,
        # perhaps in a thread that is just starting, with a lock that a join would wait for.
        wait([pending for pending in waiting if not pending.cancel()])
        pool.shutdown(wait=False)
        if isinstance(items, Generator):
            items.close()


def watched(
    items: Iterator[tuple[float, Any]], watch: Watch | None, n_ahead: int = 1
) -> Generator[Any, None, None]:
    """Items without their share of the table, of which ``watch`` is told; some are made ahead."""
    with closing(ahead(items, n_ahead)) as ready:
        for share, item in ready:
            if watch is not None:
                watch(share)
            yield item


def rows_per_batch(n_columns: int) -> int:
    """Rows of a batch: 16 MiB of numbers, at least one row, at most 2^17."""
    return min(MAX_BATCH_ROWS, max(1, BATCH_NUMBERS // max(1, n_columns)))


def columns_to_read(request: Request, path: str, found: Sequence[str]) -> tuple[str, ...]:
    """Feature columns to read, in their order, after a look at what there is.

    All columns if they are asked for as they are.
    """
    if request.raw:
        return tuple(found)
    target, columns = request.target, request.columns
    if request.encoding is not None:
        if columns is not None:
            raise ReplearnError(
                f"{path}: the encoding says which columns are read, got columns too. Leave them "
                "out."
            )
        columns = [column.name for column in request.encoding.columns]
    return feature_columns(path, found, target, columns)


def feature_columns(
    path: str, found: Sequence[str], target: str | None, columns: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns that are asked for, or all but the target; they must be there."""
    known = set(found)
    for name in (*(columns or ()), *(() if target is None else (target,))):
        if name not in known:
            raise ReplearnError(
                f"{path} has no column {name!r}; its columns are {listed(found)}. Name one of "
                "these, or rename the column in the file."
            )
    if target is not None and target in (columns or ()):
        raise ReplearnError(
            f"{path}: column {target!r} holds the labels, so it cannot be a feature too. Take it "
            "out of the features."
        )
    wanted = [name for name in found if name != target] if columns is None else list(columns)
    if not wanted:
        raise ReplearnError(f"{path} must have a feature column besides {target!r}, got none.")
    return tuple(wanted)


def listed(names: Sequence[str]) -> str:
    """The first names, for a message."""
    return ", ".join(short(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")


def check_names(place: str, names: Sequence[str]) -> None:
    """Refuse columns without a name or with the same one."""
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise ReplearnError(
                f"{place} must name every column, but column {number} has no name. Name it, or "
                "leave it out if it numbers the rows (pandas: to_csv(..., index=False))."
            )
        if name in seen:
            raise ReplearnError(
                f"{place} must have different column names, got {short(name)} twice. Rename one."
            )
        seen.add(name)


def check_same_columns(
    first: str, names: Sequence[str], other: str, other_names: Sequence[str]
) -> None:
    """Refuse files of one folder with different columns."""
    if list(names) != list(other_names):
        raise ReplearnError(
            f"{other} must have the columns of {first} in the same order, {listed(names)}, got "
            f"{listed(other_names)}. Rewrite it with these columns, or move it elsewhere."
        )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what the operating system says about a file into one line."""
    try:
        yield
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, MemoryError) as problem:
        raise unreadable(path, problem) from None


def unreadable(path: str, problem: BaseException) -> ReplearnError:
    """A file that cannot be read, and why."""
    reason = getattr(problem, "strerror", None) or one_line(problem) or "it ends too early"
    if isinstance(problem, MemoryError):
        reason = "it needs more memory than there is"
    return ReplearnError(
        f"{path} cannot be read: {reason}. Check the path, and that the file is complete."
    )


def one_line(problem: BaseException) -> str:
    """The message of an error, on one line, without its last full stop."""
    text = " ".join(str(problem).split()).rstrip(".")
    return text if len(text) <= 200 else text[:197] + "..."


def arrow() -> Any:
    """The package pyarrow, or a word about how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ReplearnError(
            'reading this needs pyarrow, which is not installed. Run pip install "replearn[data]".'
        ) from None
    return pyarrow
