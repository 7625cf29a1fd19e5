"""Cases of the kinds that public suites of JSON, CSV and Parquet have, written by ourselves.

JSON after RFC 8259, as suites of parsers sort them: must be taken, must be refused, may be either
(here: refused, since two programs might read two things). CSV after RFC 4180 and what spreadsheets
write. Parquet: codecs, encodings, versions of pages, nulls, row groups, types.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replearn.errors import ReplearnError
from replearn.files.jsonfile import parse_json
from replearn.sources import read_columns, read_table

# --- JSON ---------------------------------------------------------------------------------------

TAKEN: dict[bytes, Any] = {
    b"0": 0,
    b"-0": 0,
    b"-0.0": 0.0,
    b"123": 123,
    b"-1": -1,
    b"1E22": 1e22,
    b"1e-2": 0.01,
    b"1e+2": 100.0,
    b"123.456e78": 123.456e78,
    b"1.5e-400": 0.0,  # too small: 0, as every reader of doubles has it
    b"9007199254740993": 9007199254740993,
    b"true": True,
    b"null": None,
    b'""': "",
    b" \t\r\n[ 1 , 2 ] \n": [1, 2],
    b"[]": [],
    b"{}": {},
    b'{"": 0}': {"": 0},
    b'{"a": {"a": 1}}': {"a": {"a": 1}},
    b'"\\u0041\\n\\t\\"\\\\\\/\\b\\f\\r"': 'A\n\t"\\/\b\f\r',
    b'"\\u0000"': "\0",
    b'"\\ud83d\\ude00"': "\N{GRINNING FACE}",
    b'"\xf0\x9f\x98\x80"': "\N{GRINNING FACE}",
    b'"\xc3\xa9\xe2\x80\xa8\x7f"': "é\u2028\x7f",
    b'"\\uFFFF"': "\uffff",
    b"[" * 31 + b"]" * 31: eval("[" * 31 + "]" * 31),
}

REFUSED = [
    # numbers
    b"01", b"+1", b"1.", b".5", b"-", b"1e", b"1e+", b"0x10", b"1_000", b"- 1", b"-01", b"1 000",
    b"NaN", b"-NaN", b"Infinity", b"-Infinity", b"[nan]", b"inf", b"1e400", b"-1e400",
    b"1" * 5000, "１".encode(), b"0.1.2", b"1eE2", b"2.e3",
    # structure
    b"", b" ", b"[", b"]", b"[1", b"[1,]", b"[,1]", b"[1,,2]", b"[1 2]", b"[1:2]", b"{", b"{]",
    b'{"a"}', b'{"a":}', b'{"a":1,}', b'{"a" 1}', b"{a: 1}", b"{'a': 1}", b"{1: 1}",
    b'{"a":1 "b":2}',
    b'{"a":1}}', b"[1]]", b"1 2", b"[1]x", b"[1]#", b"// c\n1", b"/* c */ 1", b"<.>", b"*",
    # literals
    b"True", b"nul", b"truee", b"undefined", b"None", b"NULL",
    # strings
    b"'a'", b'"a', b'"\\"', b'"\\x41"', b'"\\u00"', b'"\\u00g0"', b'"\\U0041"', b'"\n"', b'"\t"',
    b'"\x00"', b'"\x1f"', b'"\\a"', b"\\u0022", b'"a"b',
    # half of a character, in a value, a key, and twice the same half
    b'"\\ud800"', b'["\\udc00"]', b'{"\\ud800": 1}', b'"\\ud800\\ud800"', b'"\\ude00\\ud83d"',
    # bytes that are not UTF-8: a lone byte, overlong, a surrogate, beyond Unicode, cut off
    b'"\xff"', b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82', b"\x80",
    # marks of an encoding, and other encodings
    b"\xef\xbb\xbf1", "[1]".encode("utf-16"), "[1]".encode("utf-16-le"), "[1]".encode("utf-32"),
    # white space that JSON has not
    b"\x0c1", b"\x0b1", "\u00a01".encode(), "\u20601".encode(), b"[1]\x00",
    # a key that stands twice, also if it is written in two ways
    b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}',
    # too deep
    b"[" * 40 + b"]" * 40, b"[" * 100_000, b'{"a":' * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("text", TAKEN, ids=lambda text: repr(text)[:40])
def test_json_that_must_be_taken(text: bytes) -> None:
    found = parse_json(text)
    assert found == TAKEN[text]
    assert type(found) is type(TAKEN[text])


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text)[:40])
def test_json_that_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)


# --- CSV ----------------------------------------------------------------------------------------

#: Text of a file, and its columns; None if it must be refused.
CSV: dict[str, tuple[str, dict[str, list[Any]] | None]] = {
    "plain": ("a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
    "no end of the last line": ("a,b\n1,x\n2,y", {"a": [1, 2], "b": ["x", "y"]}),
    "CRLF": ("a,b\r\n1,x\r\n2,y\r\n", {"a": [1, 2], "b": ["x", "y"]}),
    "mark": ("\ufeffa,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
    "mark and quotes": ('\ufeff"a",b\n1,x\n', {"a": [1], "b": ["x"]}),
    "quoted": ('"a","b"\n"1","x"\n', {"a": [1], "b": ["x"]}),
    "comma in quotes": ('a,b\n1,"x,y"\n', {"a": [1], "b": ["x,y"]}),
    "quotes in quotes": ('a,b\n1,"say ""hi"""\n', {"a": [1], "b": ['say "hi"']}),
    "only quotes": ('a,b\n1,""""\n2,x\n', {"a": [1, 2], "b": ['"', "x"]}),
    "line in quotes": ('a,b\n1,"x\ny"\n2,z\n', {"a": [1, 2], "b": ["x\ny", "z"]}),
    "CRLF in quotes": ('a,b\r\n1,"x\r\ny"\r\n', {"a": [1], "b": ["x\r\ny"]}),
    "name of two lines": ('"a\nc",b\n1,x\n', {"a\nc": [1], "b": ["x"]}),
    "empty in the middle": ("a,b,c\n1,,x\n2,3,y\n", {"a": [1, 2], "b": [None, 3], "c": ["x", "y"]}),
    "empty at the end": ("a,b\n1,\n2,3\n", {"a": [1, 2], "b": [None, 3]}),
    "empty and quoted": ('a,b\n1,""\n2,3\n', {"a": [1, 2], "b": [None, 3]}),
    "UTF-8": ("größe,b\n1,日本\n", {"größe": [1], "b": ["日本"]}),
    "spaces in texts": ("a,b\n1, x \n", {"a": [1], "b": [" x "]}),
    "numbers": ("a,b\n1e3,x\n-.5,y\n", {"a": [1000, -0.5], "b": ["x", "y"]}),
    "row too short": ("a,b\n1,x\n2\n", None),
    "row too long": ("a,b\n1,x\n2,y,z\n", None),
    "name twice": ("a,a\n1,2\n", None),
    "no name": ("a,\n1,2\n", None),
    "nothing": ("", None),
    "quote without end": ('a,b\n1,"x\n2,y\n', None),
    "NUL": ("a,b\n1,x\0\n", {"a": [1], "b": ["x\0"]}),
}


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path: Path, name: str) -> None:
    text, expected = CSV[name]
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    if expected is None:
        with pytest.raises(ReplearnError):
            read_columns(path)
        return
    assert columns(path) == expected


def columns(path: Path) -> dict[str, list[Any]]:
    """What a file holds, None for what is missing."""
    found, _ = read_columns(path)
    return {
        name: [None if value is None or value != value else value for value in values.tolist()]
        for name, values in found.items()
    }


# --- Parquet ------------------------------------------------------------------------------------

TABLE = pa.table(
    {
        "a": np.arange(500) / 7,
        "n": np.arange(500) % 5,
        "town": ["Oslo", "Rome", "Łódź", "a\nb", "NaN"] * 100,
    }
)

#: Settings of a writer that change the bytes and must not change the rows.
SETTINGS: dict[str, dict[str, Any]] = {
    **{f"codec {name}": {"compression": name} for name in
       ("none", "snappy", "gzip", "brotli", "zstd", "lz4")},
    "pages of version 1": {"data_page_version": "1.0"},
    "pages of version 2": {"data_page_version": "2.0", "compression": "zstd"},
    "format 1.0": {"version": "1.0"},
    "format 2.6": {"version": "2.6"},
    "no dictionary": {"use_dictionary": False},
    "dictionary too large": {"dictionary_pagesize_limit": 16},
    "many pages": {"data_page_size": 64, "write_batch_size": 8},
    "row groups": {"row_group_size": 7},
    "statistics": {"write_statistics": False, "write_page_index": False},
    "checksums": {"write_page_checksum": True},
    "delta": {"use_dictionary": False, "column_encoding": {
        "a": "PLAIN", "n": "DELTA_BINARY_PACKED", "town": "DELTA_BYTE_ARRAY"}},
    "split": {"use_dictionary": False, "column_encoding": {
        "a": "BYTE_STREAM_SPLIT", "n": "PLAIN", "town": "DELTA_LENGTH_BYTE_ARRAY"}},
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_parquet_of_any_writer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, **SETTINGS[name])
    assert columns(path) == TABLE.to_pydict()
    table = read_table(path, "town", columns=["a", "n"])
    assert (np.column_stack([TABLE["a"], TABLE["n"]]) == table.X).all()
    assert table.y is not None
    assert table.y.tolist() == TABLE["town"].to_pylist()


#: Columns, and what is read of them; None if they must be refused.
PARQUET: dict[str, tuple[Any, list[Any] | None]] = {
    "nulls": (pa.array([None, 1.5, None]), [None, 1.5, None]),
    "nulls in text": (pa.array(["x", None, "y"]), ["x", None, "y"]),
    "dictionary": (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
    "NaN": (pa.array([float("nan"), 1.0]), [None, 1.0]),
    "booleans": (pa.array([True, False]), [1, 0]),
    "small integers": (pa.array([-128, 127], pa.int8()), [-128, 127]),
    "half floats": (pa.array(np.array([0.5, -2], "f2")), [0.5, -2]),
    "decimals": (pa.array([1, 2], pa.decimal128(5, 2)), [1, 2]),
    "large text": (pa.array(["x", "y"], pa.large_string()), ["x", "y"]),
    "no rows": (pa.array([], pa.float64()), None),
    "lists": (pa.array([[1.0], [2.0, 3.0]]), None),
    "structures": (pa.array([{"b": 1}, {"b": 2}]), None),
    "maps": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), None),
}


@pytest.mark.parametrize("name", PARQUET)
def test_columns_of_parquet(tmp_path: Path, name: str) -> None:
    column, expected = PARQUET[name]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": column}), path)
    if expected is None:
        with pytest.raises(ReplearnError, match="must"):
            read_columns(path)
    else:
        assert columns(path) == {"a": expected}
