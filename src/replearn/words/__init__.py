"""What results say: facts as text, JSON and HTML, and pictures."""

from replearn.words.facts import (
    Facts,
    Figure,
    Row,
    Spoken,
    Table,
    counted,
    in_words,
    p_value,
    percent,
    wrapped,
)
from replearn.words.meter import followed, progress, threads, tracked, warn, warned_once
from replearn.words.pictures import (
    MOST_DRAWN,
    Landed,
    Mark,
    Rung,
    by_rows,
    forest,
    ladder,
    where_we_landed,
)
