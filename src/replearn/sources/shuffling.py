"""Rows of a file in random order, with little memory: by way of a scratch folder.

The order is that of ``SharedRandomness.row_order``: rows sorted by keys that depend on their
numbers alone. The rows are distributed to files by the leading bits of their keys (`scatter`);
each file is then small enough to be sorted in memory, and one after the other they are
the whole in order. A file that is still too large is distributed once more.
"""

import os
import shutil
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replearn.codes.randomness import SharedRandomness
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.statefile import read_state, write_state
from replearn.sources.arrow_columns import decoded
from replearn.types import Words

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from replearn.sources import Piece, Source, Watch

_BITS = 6  # of a key, for one distribution
_N_BUCKETS = 1 << _BITS
_MAX_BUCKET = 1 << 25  # bytes that are sorted in memory
_MAX_BATCH = 1 << 23  # bytes in one batch that comes out
_LENGTH_BYTES, _CHECK_BYTES = 8, 4  # before each batch in a file
_KEYS = "key"  # the last column; told by its place, since a file may have a column of this name
_KIND, _MARK = "shuffle", "scattered.state"


@dataclass
class _Buckets:
    """Files of one distribution: raw batches with their keys, one after the other."""

    folder: Path
    sizes: list[int] = field(default_factory=lambda: [0] * _N_BUCKETS)
    n_rows: list[int] = field(default_factory=lambda: [0] * _N_BUCKETS)

    def path(self, bucket: int) -> Path:
        return self.folder / f"bucket-{bucket:02d}.rows"

    def open(self) -> list[Any]:
        """The files, cut to what is known to be whole, to write on."""
        files: list[Any] = []
        for bucket, size in enumerate(self.sizes):
            self.path(bucket).touch()
            files.append(self.path(bucket).open("r+b"))
            files[-1].truncate(size)
            files[-1].seek(size)
        return files

    def add(self, files: list[Any], batch: "pa.RecordBatch", keys: Words, shift: int) -> None:
        """Distribute rows by ``_BITS`` bits of their keys, ``shift`` bits from the right."""
        bucket_of = (keys >> np.uint64(shift)) & np.uint64(_N_BUCKETS - 1)
        order = np.argsort(bucket_of, kind="stable")  # rows of equal keys stay in order
        ends = np.cumsum(np.bincount(bucket_of.astype(np.int64), minlength=_N_BUCKETS))
        sorted_batch = batch.take(order)
        start = 0
        for bucket, end in enumerate(ends.tolist()):
            if end > start:
                content = sorted_batch.slice(start, end - start).serialize()
                files[bucket].write(content.size.to_bytes(_LENGTH_BYTES, "little"))
                files[bucket].write(zlib.crc32(content).to_bytes(_CHECK_BYTES, "little"))
                files[bucket].write(content)
                self.sizes[bucket] += _LENGTH_BYTES + _CHECK_BYTES + content.size
                self.n_rows[bucket] += end - start
            start = end


class ShuffledSource:
    """The rows of another source, in random order: words of a stream of the coins are their keys.

    The scratch ``folder`` takes as much space as the rows, uncompressed; the work of a killed
    process on the same rows that it holds is used, and each time that ``every`` seconds have passed
    the work done is made safe. Needs memory for two batches of ``source`` while distributing, and
    for about four times ``_MAX_BUCKET`` (32 MiB) while sorting, whatever the number of rows.
    """

    def __init__(
        self,
        source: "Source",
        coins: SharedRandomness,
        stream: str,
        folder: str | os.PathLike[str],
        every: float = 30.0,
    ) -> None:
        self._source, self._coins, self._stream = source, coins, stream
        self._every, self.place = every, source.place
        self._buckets = _Buckets(Path(folder))
        self._schema: pa.Schema | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows; 0 before `scatter`."""
        return sum(self._buckets.n_rows)

    def scatter(self, watch: "Watch | None" = None) -> None:
        """Distribute the rows to files; goes on where a killed process was."""
        buckets = self._buckets
        done = self._read_mark()
        if done:
            return
        files, saved_at = buckets.open(), time.monotonic()
        try:
            for batch in self._source.batches(start=self.n_rows, watch=watch):
                keys = self._coins.row_keys(self._stream, batch.num_rows, self.n_rows)
                buckets.add(files, _with_keys(batch, keys), keys, 64 - _BITS)
                if time.monotonic() - saved_at >= self._every:
                    self._write_mark(files, done=False)
                    saved_at = time.monotonic()
            self._write_mark(files, done=True)
        finally:
            for file in files:
                file.close()

    def batches(self, start: int = 0, watch: "Watch | None" = None) -> "Iterator[pa.RecordBatch]":
        """Raw rows from row ``start`` of the new order."""
        n_rows, done = self.n_rows, start
        before = 0
        for bucket, n_here in enumerate(self._buckets.n_rows):
            skipped = max(0, start - before)
            before += n_here
            if skipped >= n_here:
                continue
            for batch in self._sorted(self._buckets, bucket, 64 - 2 * _BITS, skipped):
                yield batch
                done += batch.num_rows
                if watch is not None:
                    watch(done / n_rows)

    def pieces(self, start: int = 0, watch: "Watch | None" = None) -> "Iterator[Piece]":
        """Parsed rows from row ``start`` of the new order."""
        first_row = start
        for batch in self.batches(start, watch):
            try:
                piece = self._source.parse(batch, first_row)
            except ReplearnError:
                for _ in self._source.pieces():  # names the bad row's place in the file
                    pass
                raise
            yield piece
            first_row += batch.num_rows

    def row_pieces(self, watch: "Watch | None" = None) -> "Iterator[Piece]":
        """All of them: see `Source.row_pieces`."""
        return self.pieces(watch=watch)

    def _sorted(
        self, buckets: _Buckets, bucket: int, shift: int, skipped: int
    ) -> "Iterator[pa.RecordBatch]":
        """Rows of a bucket in the order of their keys, without the first ``skipped``."""
        if buckets.sizes[bucket] > _MAX_BUCKET and shift >= 0:
            yield from self._split(buckets, bucket, shift, skipped)
            return
        import pyarrow as pa

        found = list(self._messages(buckets, bucket))
        table = pa.Table.from_batches(found).combine_chunks()
        order = np.argsort(_keys_of(table), kind="stable")[skipped:]
        n_batches = -(-buckets.sizes[bucket] // _MAX_BATCH)
        for part in np.array_split(order, n_batches):
            if part.size:
                chosen = table.take(part).combine_chunks()
                yield from chosen.remove_column(chosen.num_columns - 1).to_batches()  # the keys

    def _split(
        self, buckets: _Buckets, bucket: int, shift: int, skipped: int
    ) -> "Iterator[pa.RecordBatch]":
        """The same for a bucket that is too large to be sorted in memory."""
        smaller = _Buckets(buckets.folder / f"split-{bucket:02d}")
        shutil.rmtree(smaller.folder, ignore_errors=True)
        smaller.folder.mkdir()
        files = smaller.open()
        try:
            for batch in self._messages(buckets, bucket):
                smaller.add(files, batch, _keys_of(batch), shift)
        finally:
            for file in files:
                file.close()
        for part, n_here in enumerate(smaller.n_rows):
            if skipped < n_here:
                yield from self._sorted(smaller, part, shift - _BITS, skipped)
            skipped = max(0, skipped - n_here)
        shutil.rmtree(smaller.folder)

    def _messages(self, buckets: _Buckets, bucket: int) -> "Iterator[pa.RecordBatch]":
        """The batches in a file of a bucket, all of which must be there and whole."""
        import pyarrow as pa

        schema, path, n_rows = self._bucket_schema(), buckets.path(bucket), 0
        with path.open("rb") as file:
            left = os.fstat(file.fileno()).st_size
            if left != buckets.sizes[bucket]:
                raise _damaged(path, "it has another size than it had")
            while left > 0:
                size = int.from_bytes(file.read(_LENGTH_BYTES), "little")
                check = int.from_bytes(file.read(_CHECK_BYTES), "little")
                left -= _LENGTH_BYTES + _CHECK_BYTES + size
                content = file.read(size) if left >= 0 else b""
                if left < 0 or zlib.crc32(content) != check:
                    raise _damaged(path, "its checksum is another")
                try:
                    batch = pa.ipc.read_record_batch(pa.py_buffer(content), schema)
                    batch.validate(full=True)  # offsets that lie would crash Arrow
                except (pa.ArrowException, OSError, EOFError, ValueError) as problem:
                    raise _damaged(path, str(problem)) from None
                n_rows += batch.num_rows
                yield batch
        if n_rows != buckets.n_rows[bucket]:
            raise _damaged(path, "rows are missing")

    def _bucket_schema(self) -> "pa.Schema":
        """Of the files; from the first rows, since a run that goes on has not seen them yet."""
        if self._schema is None:
            batches = self._source.batches()
            self._schema = _with_keys(next(batches).slice(0, 0), np.empty(0, np.uint64)).schema
            batches.close()
        return self._schema

    def _read_mark(self) -> bool:
        """Take over what a killed process had made safe; whether that is everything."""
        path = self._buckets.folder / _MARK
        if not path.exists():
            return False
        state = read_state(path, _KIND)
        if state.about not in ({"done": False}, {"done": True}):
            raise state.unfit("it does not say how far it is")
        sizes, n_rows = state.arrays(like=self._counts()).values()
        if min(sizes.min(), n_rows.min()) < 0:
            raise state.unfit("it has negative counts")
        self._buckets.sizes, self._buckets.n_rows = sizes.tolist(), n_rows.tolist()
        for bucket, size in enumerate(self._buckets.sizes):
            file = self._buckets.path(bucket)
            if size > (file.stat().st_size if file.exists() else 0):
                raise _damaged(file, "it is shorter than it was")
        return bool(state.about["done"])

    def _write_mark(self, files: Sequence[Any], done: bool) -> None:
        for file in files:
            file.flush()
            os.fsync(file.fileno())
        write_state(self._buckets.folder / _MARK, _KIND, {"done": done}, self._counts())

    def _counts(self) -> "dict[str, NDArray[np.int64]]":
        """Bytes and rows in each file, as a state."""
        return {
            "sizes": np.array(self._buckets.sizes, dtype=np.int64),
            "rows": np.array(self._buckets.n_rows, dtype=np.int64),
        }


def _damaged(path: Path, problem: str) -> InvalidFile:
    reason = " ".join(problem.split())[:200]
    return InvalidFile(
        f"{path} was altered or damaged: {reason}. Delete its folder and start the work anew."
    )


def _with_keys(batch: "pa.RecordBatch", keys: Words) -> "pa.RecordBatch":
    """The batch with its keys as the last column; dictionaries do not fit into single messages."""
    import pyarrow as pa

    columns = [*map(decoded, batch.columns), pa.array(keys)]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, _KEYS])


def _keys_of(table: "pa.Table | pa.RecordBatch") -> Words:
    keys: Words = table.column(table.num_columns - 1).to_numpy()
    return keys
