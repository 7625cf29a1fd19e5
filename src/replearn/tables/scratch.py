"""A scratch file: arrays that are read again, and columns of a text that is read through once."""

import json
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from replearn.tables.cells import Column, Texts
from replearn.types import Array

#: Rows of a scratch file that are read at once, at most.
_MOST_ROWS = 1 << 16
#: Bytes of a scratch file, at most.
MOST_STORED = 1 << 36


class Stored(NamedTuple):
    """Where an array stands in a scratch file."""

    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(eq=False)
class Scratch:
    """Arrays in a temporary file, which is gone when nobody uses it any more."""

    _file: Any = field(default_factory=tempfile.TemporaryFile)
    _size: int = 0

    def __post_init__(self) -> None:
        weakref.finalize(self, self._file.close)

    def put(self, array: Array) -> Stored:
        """Write an array; a full disk is an `OSError`."""
        stored = Stored(self._size, array.dtype, array.shape)
        if self._size + array.nbytes > MOST_STORED:
            raise OSError(f"a scratch file has at most {MOST_STORED:,} bytes")
        self._file.seek(self._size)
        self._file.write(np.ascontiguousarray(array).data)
        self._size += array.nbytes
        return stored

    def get(self, stored: Stored) -> Array:
        """Read it again."""
        self._file.seek(stored.start)
        n_cells = int(np.prod(stored.shape))
        data = self._file.read(n_cells * stored.dtype.itemsize)
        return np.frombuffer(data, stored.dtype).reshape(stored.shape)


#: Numbers of a column, or codes of its texts with these as JSON.
_StoredColumn = tuple[Stored, Stored | None]


class ScratchColumns:
    """Columns of a text that is read through at the first pass; later passes read a scratch file.

    Numbers take eight bytes there and texts four, which is less than they take in the text, and
    nobody has to make numbers of digits again.
    """

    def __init__(
        self, read: Callable[[Sequence[str], int], Iterator[Any]], names: Sequence[str]
    ) -> None:
        self._read = read
        self._names = tuple(names)
        self._batches: list[dict[str, _StoredColumn]] | None = None  # before the first pass
        self._has_room = True

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        """Some columns, some rows at a time."""
        if self._batches is None and self._has_room:
            try:
                self._batches = self._stored()
            except OSError:
                self._has_room = False

        if self._batches is None:  # each pass reads the text
            yield from self._read(names, n_rows)
            return
        for batch in self._batches:
            columns = {name: self._column(batch[name]) for name in names}
            n_here = len(columns[names[0]])
            for start in range(0, n_here, n_rows):
                part = slice(start, start + n_rows)
                yield {name: column[part] for name, column in columns.items()}

    def _stored(self) -> list[dict[str, _StoredColumn]]:
        self._scratch = Scratch()
        batches = []
        for columns in self._read(self._names, _MOST_ROWS):
            batches.append({name: self._put(column) for name, column in columns.items()})
        return batches

    def _put(self, column: Column) -> _StoredColumn:
        if not isinstance(column, Texts):
            return self._scratch.put(column), None
        texts = json.dumps(column.values).encode()
        return self._scratch.put(column.codes), self._scratch.put(np.frombuffer(texts, np.uint8))

    def _column(self, stored: _StoredColumn) -> Column:
        cells, texts = stored
        if texts is None:
            return self._scratch.get(cells)
        values = json.loads(self._scratch.get(texts).tobytes())
        return Texts(self._scratch.get(cells), tuple(values))
