"""A scratch file: what a process reads again, and columns of a file that is read through once."""

import os
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from replearn.tables.cells import Column

#: Rows and cells of a file that are stored as one part, at most.
_MOST_ROWS, _MOST_CELLS = 1 << 16, 1 << 23
#: Bytes of a scratch file, at most.
MOST_STORED = 1 << 36


@dataclass(eq=False)
class Scratch:
    """Arrays, and what holds some, in a temporary file that only this process ever sees.

    It is gone when nobody uses it any more.
    """

    _file: Any = field(default_factory=tempfile.TemporaryFile)

    def __post_init__(self) -> None:
        weakref.finalize(self, self._file.close)

    def put(self, thing: Any) -> int:
        """Write it, and say where it begins; a full disk is an `OSError`."""
        start: int = self._file.seek(0, os.SEEK_END)
        pickle.dump(thing, self._file, protocol=5)
        if self._file.tell() > MOST_STORED:
            raise OSError(f"a scratch file has at most {MOST_STORED:,} bytes")
        return start

    def get(self, start: int) -> Any:
        """Read what begins there."""
        self._file.seek(start)
        return pickle.load(self._file)


class ScratchColumns:
    """Columns of a file that is read through at the first pass; later passes read a scratch file.

    Numbers take eight bytes there and texts four, and nobody has to make numbers of digits again.
    """

    def __init__(
        self, read: Callable[[Sequence[str], int], Iterator[Any]], names: Sequence[str]
    ) -> None:
        self._read = read
        self._names = tuple(names)
        # where each column of a part stands; None before the first pass
        self._parts: list[dict[str, int]] | None = None
        self._has_room = True

    def read(self, names: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        """Some columns, some rows at a time."""
        if self._parts is None and self._has_room:
            try:
                self._parts = self._stored()
            except OSError:
                self._has_room = False

        if self._parts is None:  # each pass reads the file
            yield from self._read(names, n_rows)
            return
        for part in self._parts:
            columns = {name: self._scratch.get(part[name]) for name in names}
            for start in range(0, len(columns[names[0]]), n_rows):
                rows = slice(start, start + n_rows)
                yield {name: column[rows] for name, column in columns.items()}

    def _stored(self) -> list[dict[str, int]]:
        self._scratch = Scratch()
        n_rows = max(1, min(_MOST_ROWS, _MOST_CELLS // len(self._names)))
        return [
            {name: self._scratch.put(column) for name, column in columns.items()}
            for columns in self._read(self._names, n_rows)
        ]
