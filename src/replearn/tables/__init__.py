"""Frames and files to blocks of whole numbers."""

from replearn.tables.cells import Column, Texts, join_columns, levels_of, numbers_of
from replearn.tables.encoding import (
    MISSING,
    OTHER,
    Encoding,
    LevelColumn,
    NumberColumn,
    Product,
    per_unit,
)
from replearn.tables.files import CsvOptions
from replearn.tables.labels import class_numbers, classes_like, learn_classes, target_numbers
from replearn.tables.learning import Learned, learn_encoding
from replearn.tables.profile import Finding, Profile, compare_profiles, in_sentences, make_profile
from replearn.tables.safety import Remark, refuse_unsafe
from replearn.tables.seen import Seen
from replearn.tables.table import Batch, Table, open_table, refuse_lazy

__all__ = [
    "open_table",
    "refuse_lazy",
    "Table",
    "Batch",
    "CsvOptions",
    "Column",
    "join_columns",
    "Texts",
    "numbers_of",
    "levels_of",
    "Encoding",
    "NumberColumn",
    "LevelColumn",
    "Product",
    "per_unit",
    "OTHER",
    "MISSING",
    "Seen",
    "learn_encoding",
    "Learned",
    "Remark",
    "refuse_unsafe",
    "learn_classes",
    "class_numbers",
    "classes_like",
    "target_numbers",
    "Profile",
    "make_profile",
    "compare_profiles",
    "in_sentences",
    "Finding",
]
