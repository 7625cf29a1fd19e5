"""Tables in files and folders: as arrays in memory, or piece by piece."""

from replearn.sources.common import Part, Piece, Source, Table, Watch
from replearn.sources.in_memory import read_all, read_columns, read_table, read_within
from replearn.sources.opening import FORMATS, open_source

__all__ = [
    "FORMATS",
    "Part",
    "Piece",
    "Source",
    "Table",
    "Watch",
    "open_source",
    "read_all",
    "read_within",
    "read_columns",
    "read_table",
]
