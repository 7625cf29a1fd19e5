"""Messages of the library in the words of the command line."""

import pytest

from replearn.cli.text import chance, counted, in_options, missing_words

SPOKEN = {
    "above max_disagreement=0.1. Get more rows": "above --max-disagreement 0.1. Get more rows",
    'or use mode="practical", which fits': "or use --mode practical, which fits",
    "allow a larger max_error or margin, or": "allow a larger --max-error or margin, or",
    'or pass copies="allow" if different': "or pass --allow-copies if different",
    "n_pairs must be a positive integer, got 0": "--pairs must be a positive integer, got 0",
    "Use shuffle=True, or shuffle the rows": "Leave --assume-shuffled out, or shuffle the rows",
    'margin="auto" needs mode="practical"': "--margin auto needs --mode practical",
    "Name the label column (target, on the command line --target).": (
        "Name the label column (--target)."
    ),
    "--drop a,b (in Python: drop). If": "--drop a,b. If",
    # names that stand in files are not ours
    "column 'max_error' is not there": "column 'max_error' is not there",
    "/data/max_error.csv cannot be read": "/data/max_error.csv cannot be read",
    "the margin of a row": "the margin of a row",
    "my_max_error": "my_max_error",
}


@pytest.mark.parametrize("message", SPOKEN)
def test_messages_speak_of_options(message):
    assert in_options(message) == SPOKEN[message]


def test_one_is_singular():
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(1200, "batch", "batches") == "1,200 batches"


def test_many_columns_make_one_line():
    columns = {f"c{i}": {"missing": i, "unknown": 0} for i in range(1, 12)}
    text = missing_words(columns, 5000)
    assert text.startswith("of 5,000 rows: c1 1 missing, c2 2 missing")
    assert text.endswith("and 3 more columns")


def test_a_small_chance_is_not_called_impossible():
    assert [chance(p) for p in (0.0, 0.0004, 0.0006, 0.25)] == [
        "below 0.001",
        "below 0.001",
        "0.001",
        "0.250",
    ]


def test_unknown_values_are_explained_where_they_are_counted():
    said = missing_words({"ward": {"missing": 0, "unknown": 3}}, 50)
    assert said == "of 50 rows: ward 3 unknown (unknown: in no published category)"
    assert "published" not in missing_words({"ward": {"missing": 3, "unknown": 0}}, 50)
