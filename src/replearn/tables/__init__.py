"""Frames and files to blocks of whole numbers."""

from replearn.tables.cells import (
    BOOLEANS,
    MISSING_WORDS,
    WHITE_SPACE,
    Column,
    Texts,
    is_number_text,
    join_columns,
    level_text,
    levels_of,
    numbers_of,
)
from replearn.tables.clusters import Clusters
from replearn.tables.counts import MOST_MISSING, EncodingCounts
from replearn.tables.encoding import (
    INTERVAL,
    MISSING,
    OTHER,
    Encoding,
    LevelColumn,
    Name,
    NumberColumn,
    Product,
    Term,
    per_unit,
)
from replearn.tables.files import BATCH_ROWS, CsvOptions, ParquetFile, checked_names, reading
from replearn.tables.labels import (
    class_numbers,
    classes_like,
    learn_classes,
    spelled,
    target_numbers,
)
from replearn.tables.learning import QUANTILE_ROWS, Learned, learn_encoding, place_text
from replearn.tables.profile import (
    Finding,
    LevelProfile,
    NumberProfile,
    Profile,
    compare_profiles,
    in_sentences,
    make_profile,
    persons_of,
    persons_seen,
)
from replearn.tables.safety import LEAST_COUNT, Remark, refuse_unsafe
from replearn.tables.samples import ParquetRows, StreamedRows, group_sizes
from replearn.tables.scan import ColumnScan, TableScan, look_at, quantile, row_hashes
from replearn.tables.scratch import Scratch
from replearn.tables.survival import (
    AT_RISK,
    LEAST_EVENTS,
    cuts_of,
    event_numbers,
    event_times,
    interval_names,
    rows_at_risk,
    time_at_risk,
)
from replearn.tables.table import Batch, Table, open_table, refuse_lazy, some_rows
