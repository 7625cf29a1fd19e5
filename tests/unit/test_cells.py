"""Cells: what is missing, a number, or a text; and CSV files that mean what their texts say."""

import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replearn.errors import ReplearnError
from replearn.tables import (
    MISSING_WORDS,
    CsvOptions,
    Texts,
    files,
    is_number_text,
    join_columns,
    level_text,
    levels_of,
    numbers_of,
    open_table,
)
from replearn.tables.cells import column_from, number_text, sign_reader, signs_meant, text_number


def levels(values):
    codes, texts = levels_of(column_from(values))
    return [None if code < 0 else texts[code] for code in codes]


def numbers(values):
    found, odd = numbers_of(column_from(values))
    return [None if np.isnan(v) else v for v in found.tolist()], odd


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-17.0, "-17"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (2.0**60, "1152921504606847000"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (-1.7976931348623157e308, "-1.7976931348623157e+308"),
        (123456.789, "123456.789"),
    ],
)
def test_number_text_is_that_of_ecmascript(number, text):
    assert number_text(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_text_is_the_number(number):
    assert float(number_text(number)) == number
    assert is_number_text(number_text(number))


def test_one_level_however_it_is_written():
    assert levels(["1", 1, 1.0, "1.0", "01", " 1\t", "+1", "1e0", np.int8(1)]) == ["1"] * 9
    assert levels(["TRUE", True, "true", "True", np.True_]) == ["true"] * 5
    assert levels(["tRUE", "yes", " a b "]) == ["tRUE", "yes", "a b"]
    assert levels([0.5, "0.50", ".5", "5e-1"]) == ["0.5"] * 4
    assert levels(np.array([True, False])) == ["true", "false"]


def test_one_number_however_it_is_written():
    assert numbers(["1", "1.0", True, "TRUE", " 1 "]) == ([1.0] * 5, None)
    found, odd = numbers(["1", "x", None, "false"])
    assert found == [1.0, None, None, 0.0]
    assert odd.tolist() == [False, True, False, False]


def test_missing():
    words = [*MISSING_WORDS, " NA ", "\t", None, np.nan, float("nan"), np.ma.masked]
    assert levels([*words, "none", "-", "NAN", "None"]) == [None] * len(words) + [
        "none", "-", "NAN", "None"
    ]  # fmt: skip
    assert numbers([*words, "1"])[0] == [None] * len(words) + [1.0]


def test_no_underscores_or_foreign_digits_are_numbers():
    for text in ("1_000", "0x10", "١", "1e", ".", "e5", "--1", "1.2.3", "1 2", "½"):
        assert text_number(text) is None
        assert level_text(text) == text


def test_large_whole_numbers_are_those_of_float64():
    assert numbers([2**53 + 1, "9007199254740993"])[0] == [2.0**53] * 2
    assert levels([2**53 + 1, "9007199254740993"]) == ["9007199254740992"] * 2


def test_parts_join():
    parts = [column_from([1.5, None]), column_from(["x", "1.5"]), column_from([2.0])]
    joined = join_columns(parts)
    assert isinstance(joined, Texts)
    codes, texts = levels_of(joined)
    assert [None if c < 0 else texts[c] for c in codes] == ["1.5", None, "x", "1.5", "2"]
    assert join_columns([column_from([1.0]), column_from([2.0])]).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("texts", "signs"),
    [
        (["1,5", "2,25"], '--decimal=","'),
        (["50,000", "1,250,000"], '--thousands=","'),
        (["50,000", "1,234.5"], '--thousands=","'),
        (["50,000", "0,5"], '--decimal=","'),
        (["1.234,5", "999,25"], '--decimal="," and --thousands="."'),
        (["1.234.567"], '--thousands="."'),
        (["1 000", "25 000"], '--thousands=" "'),
        (["1'000"], '--thousands="\'"'),
        (["a", "1,5"], ""),
        (["n.d.", "<5"], ""),
        ([], ""),
    ],
)
def test_signs_that_a_file_means(texts, signs):
    assert signs_meant(texts) == signs


def test_signs_are_read():
    comma = sign_reader(",", "")
    assert [comma(t) for t in ("1,5", " -,5", "7", "1e3", "x,5")] == [
        "1.5", "-.5", "7", "1e3", "x,5"
    ]  # fmt: skip
    both = sign_reader(",", ".")
    assert [both(t) for t in ("1.234,5", "1.000", "12", "1.2.3")] == [
        "1234.5",
        "1000",
        "12",
        "1.2.3",
    ]


# --- CSV --------------------------------------------------------------------------------------


def read_by_text(text, delimiter=","):
    """Every cell as its text, by the standard library."""
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    names = [name.strip(" \t\n\r\v\f") for name in rows[0]]
    return {n: column_from([row[i] for row in rows[1:]]) for i, n in enumerate(names)}


def assert_same_columns(found, expected):
    for name, column in expected.items():
        assert levels_of_rows(found[name]) == levels_of_rows(column)


def levels_of_rows(column):
    codes, texts = levels_of(column)
    return [None if code < 0 else texts[code] for code in codes]


def read(path, n_rows=1 << 16, **options):
    table = open_table(path, csv=CsvOptions(**options))
    batches = list(table.batches(n_rows))
    return {n: join_columns([batch.column(n) for batch in batches]) for n in table.names}


cells = st.sampled_from(
    [
        *("1", "2.5", "", "NA", " 3", "nan", "NaN", "NAN", "-nan", "+4"),
        *("1e5", "x", "-0", "1e-400", ".5"),
    ]
)


@given(
    st.lists(st.tuples(*[st.one_of(st.sampled_from(["1", "0.5", ""]), cells)] * 3), min_size=1),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_csv_means_what_its_texts_say(tmp_path_factory, rows, delimiter, end, quoted):
    quote = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quote)
    writer.writerows([("a", "b ", "c"), *rows])
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    path.write_bytes(text.getvalue().encode())
    assert_same_columns(read(path, 3), read_by_text(text.getvalue(), delimiter))


@pytest.mark.slow
def test_a_late_text_in_a_column_of_numbers(tmp_path):
    """Arrow has parsed a block as numbers before; nothing is lost, and nothing read twice."""
    n_rows = 30_000
    note = "a" * 200  # long rows fill blocks sooner
    lines = [f"{i},{i % 7},{i}.5,{note}" for i in range(n_rows)]
    lines[25_000] = f"25000,x,NAN,{note}"
    path = tmp_path / "late.csv"
    path.write_text("a,b,c,d\n" + "\n".join(lines))
    assert 25_000 * len(note) > files._BLOCK_BYTES  # a block is done before
    found = read(path)
    assert numbers_of(found["a"])[0].tolist() == list(range(n_rows))
    assert levels_of_rows(found["b"])[24_999:25_002] == ["2", "x", "4"]
    values, odd = numbers_of(found["c"])
    assert np.flatnonzero(odd).tolist() == [25_000]
    assert values[-1] == n_rows - 0.5


def test_marks_ends_quotes_and_compression(tmp_path):
    text = '\ufeffage;"ward; wing";note\r\n1;"A;1";"two\nlines"\r\n2;B;"say ""x"""\r\n'
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    plain.write_bytes(text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        found = read(path)
        assert list(found) == ["age", "ward; wing", "note"]
        assert found["age"].tolist() == [1, 2]
        assert levels_of_rows(found["ward; wing"]) == ["A;1", "B"]
        assert levels_of_rows(found["note"]) == ["two\nlines", 'say "x"']


def test_decimal_commas_and_thousands(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b;c\n1,5;1.234;x\n-,25;12.345,5;y\n")
    found = read(path, decimal=",", thousands=".")
    assert numbers_of(found["a"])[0].tolist() == [1.5, -0.25]
    assert numbers_of(found["b"])[0].tolist() == [1234, 12345.5]
    path.write_text("a;b\n1,5;7\n2,5;8\n")
    assert read(path, decimal=",")["a"].tolist() == [1.5, 2.5]


#: Files that other languages must refuse, too.
NO_TABLES = [
    ("a.csv", b"", "column names"),
    ("a.csv", b"a,b\n", "must have rows"),
    ("a.csv", b"a,a\n1,2\n", "more than once"),
    ("a.csv", b"a,\n1,2\n", "column 2 has no name"),
    ("a.csv", b"a,b\n1,2\n3\n", "2 cells in every row, got 1"),
    ("a.csv", b"a,b\n1,5,2\n", "separate cells by semicolons"),
    ("a.csv", b"a,b\n1,\xff\n", "UTF-8"),
    ("a.csv", "a,b\n1,ä\n".encode("utf-16"), "CSV UTF-8"),
    ("a.csv", b"PK\x03\x04...", "CSV UTF-8"),
    ("a.xlsx", b"PK\x03\x04...", "CSV UTF-8"),
    ("a.csv", gzip.compress(b"a\n1\n", mtime=0), "ends in .gz"),
    ("a.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-12], "cannot be read"),
    ("a.doc", b"a\n1\n", "must end in"),
]


@pytest.mark.parametrize(("name", "content", "words"), NO_TABLES)
def test_files_that_are_no_tables(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ReplearnError, match=words):
        read(path)


def test_a_point_among_decimal_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1,5;1\n2.5;2\n")
    with pytest.raises(ReplearnError, match="decimal sign is a comma"):
        read(path, decimal=",")


@pytest.mark.parametrize("options", [{"delimiter": "x"}, {"decimal": ";"}, {"thousands": "_"}])
def test_options_that_are_none(options):
    with pytest.raises(ReplearnError, match="must be one of"):
        CsvOptions(**options)
    with pytest.raises(ReplearnError, match="different signs"):
        CsvOptions(decimal=",", thousands=",")


def test_without_a_file(tmp_path):
    with pytest.raises(ReplearnError, match="cannot be read"):
        open_table(tmp_path / "none.csv")


@pytest.mark.parametrize("values", [[3.0, np.nan, 1.0, 3.0, -0.0, 0.0, 7.5], [np.nan] * 5, []])
def test_levels_of_many_numbers_are_found_some_rows_at_a_time(monkeypatch, values):
    column = np.array(values)
    expected_codes, expected_texts = levels_of(column)
    monkeypatch.setattr("replearn.tables.cells._MOST_SORTED", 2)
    codes, texts = levels_of(column)
    np.testing.assert_array_equal(codes, expected_codes)
    assert texts == expected_texts
    assert [texts[code] if code >= 0 else None for code in codes] == [
        None if np.isnan(value) else f"{value + 0.0:g}" for value in values
    ]
