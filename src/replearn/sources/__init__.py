"""Tables in files and folders: as arrays in memory, or piece by piece."""

from replearn.sources.common import Piece, Source, Watch
from replearn.sources.in_memory import read_columns, read_table, read_within
from replearn.sources.opening import FORMATS, open_source

__all__ = [
    "FORMATS",
    "Piece",
    "Source",
    "Watch",
    "open_source",
    "read_within",
    "read_columns",
    "read_table",
]
