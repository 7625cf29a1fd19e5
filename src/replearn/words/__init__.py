"""What results say: facts as text, JSON and HTML, and pictures."""

from replearn.words.facts import MAX_LINES, Facts, Spoken
from replearn.words.items import Figure, Row, Table
from replearn.words.meter import PATIENCE, followed, progress, threads, tracked, warn, warned_once
from replearn.words.pictures import (
    MOST_DRAWN,
    Landed,
    Mark,
    Rung,
    by_rows,
    forest,
    ladder,
    round_numbers,
    where_we_landed,
)
from replearn.words.terminal import wrapped
from replearn.words.values import AS_PUBLISHED, counted, in_words, p_value, percent, ratio_in_words
