"""The second implementation reads and encodes a CSV file as Python does, or refuses it too."""

import base64
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replearn.errors import ReplearnError
from replearn.tables import (
    CsvOptions,
    Encoding,
    EncodingCounts,
    LevelColumn,
    NumberColumn,
    Product,
    open_table,
)
from tests.contract.test_javascript import answers, needs_node
from tests.contract.test_one_table import ODD_WORDS, WORDS
from tests.unit.test_cells import NO_TABLES

ENCODING = Encoding(
    (
        NumberColumn("a", "1", "2", ("0.5", "2"), indicator=True),
        LevelColumn("b", ("1", "x", "(missing)", "é"), "y"),
        NumberColumn("c", "0", "0.37"),
        LevelColumn("d", ("true", "(other)"), "false"),
    ),
    (Product(0, 8), Product(0, 5), Product(4, 9)),
)

NUMBERS = (
    *("1e-3", "-0", ".5", "5.", "+7", "007", "00.10", "4.35", "1.15", "2.675", "0.3", "-1E+2"),
    *("9007199254740993", "0.1234567890123456789", "123456789012345678901234", "1e22", "1e-320"),
    *("true", "FALSE"),
)

#: Cells that may well be read in two ways.
STRANGE = (
    *NUMBERS,
    *("é", "NA", "", '"4"', '"x"', '"q""r"', '"a,b"', '"l\nm"', '""', '"', "'", "\r", " 3 "),
    "\ufeff",
    *("1,5", "1e400", 'x"y', "inf", "\0"),
)

PLAIN = "a,b,c,d\n1,x,0.1,true\n2.5,y,-0.2,false\n"

#: A file, options, and whether it is a table.
FILES: dict[str, tuple[bytes | str, dict[str, str], bool]] = {
    "plain": (PLAIN, {}, True),
    "byte order mark": ("\ufeff" + PLAIN, {}, True),
    "Windows line ends": (PLAIN.replace("\n", "\r\n"), {}, True),
    "old line ends": (PLAIN.replace("\n", "\r"), {}, True),
    "no last line end": (PLAIN[:-1], {}, True),
    "semicolons": (PLAIN.replace(",", ";"), {}, True),
    "tabs": (PLAIN.replace(",", "\t"), {}, True),
    "empty lines": (PLAIN.replace("\n", "\n\n"), {}, True),
    "quoted line ends": ('a,b,c,d,note\n1,"x",0,true,"one\ntwo"\n', {}, True),
    "quotes in quotes": ('a,b,c,d\n1,"say ""x""",0,"true"\n"2"5,y"y,0,\n', {}, True),
    "a quoted delimiter": ('a,"b",c,d\n1,"x,y",0,FALSE\n', {}, True),
    "ends within quotes": (PLAIN + '1,"x\n', {}, False),
    "ends within quotes, after quotes in quotes": ('a,b,c,d\n1,"say ""x"3",0,"tr', {}, False),
    "a huge text of several lines": (
        'n,a,b,c,d\n"one\ntwo ' + "x" * 200_000 + '",1,x,0,true\n', {}, True
    ),
    "columns in a different order": ("d,z,c,b,a\nTRUE,?,1,é,0.5\n", {}, True),
    "missing values": ("a,b,c,d\n,NA,nan,\n NA ,<NA>,NULL,.\nN/A,n/a,#N/A,?\n", {}, True),
    "one level": ("a,b,c,d\n1,01,0,1\n1,1.0,0,True\n1,1e0,0,true\n1,+1,0,new\n", {}, True),
    "numbers": (
        "a,b,c,d\n" + "".join(
            f"{v},{v},{v},{v}\n"
            for v in NUMBERS
        ),
        {},
        True,
    ),
    "far values": ("a,b,c,d\n1e300,x,-1e300,true\n9,x,-1.48,true\n-7,x,1.48,true\n", {}, True),
    "ties of rounding": (
        "a,b,c,d\n" + "".join(
            f"{1 + 2 * (k + 0.5) / 4096!r},x,{0.37 * (k + 0.5) / 4096!r},true\n"
            for k in range(-40, 40)
        ),
        {},
        True,
    ),
    "decimal commas": ("a;b;c;d\n1,5;x;-0,2;true\n,5;1,0;1e0;1\n", {"decimal": ","}, True),
    "thousands": ("a;b;c;d\n1.234,5;x;1;1.000\n", {"decimal": ",", "thousands": "."}, True),
    "points among commas": ("a;b;c;d\n1.5;x;1;1\n", {"decimal": ","}, False),
    "a delimiter that is given": ("a|b|c|d\n1|x,;,;|0|true\n", {"delimiter": "|"}, True),
    "infinity": ("a,b,c,d\n1,x,inf,true\n", {}, False),
    "a number beyond float64": ("a,b,c,d\n1e999,x,0,true\n", {}, False),
    "a long text": ("a,b,c,d\n1," + "é" * 4097 + ",0,true\n", {}, False),
    "the longest text": ("a,b,c,d\n1," + "é" * 4096 + ",0,true\n", {}, True),
    "NUL": (PLAIN * 100 + "1,x\0,0,true\n", {}, False),
    "other bytes": (PLAIN.encode() + b"1,\xff,0,true\n", {}, False),
    "UTF-16": (PLAIN.encode("utf-16"), {}, False),
    "a workbook": (b"PK\x03\x04" + bytes(99), {}, False),
    "a short row": (PLAIN + "1,x\n", {}, False),
    "a long row": (PLAIN + "1,x,0,true,5\n", {}, False),
    "no rows": ("a,b,c,d\n", {}, False),
    "nothing": ("", {}, False),
    "a column that is absent": ("a,b,c\n1,x,0\n", {}, False),
    "a column without a name": ("a,b,c,d,\n1,x,0,true,\n", {}, False),
    "a column twice": ("a,b,c,d,a\n1,x,0,true,1\n", {}, False),
}  # fmt: skip


#: For tables of the columns a and b.
NARROW = Encoding(ENCODING.columns[:2])


def hostile_files() -> Iterator[tuple[bytes, dict[str, str], Encoding]]:
    """What Python's own tests call no table, and every word of theirs that is hard to read."""
    for name, content, _ in NO_TABLES:
        if name.endswith(".csv"):
            yield content, {}, NARROW
    for word in (*WORDS, *ODD_WORDS):
        cell = '"' + word.replace('"', '""') + '"'
        yield f"a,b\n{cell},{cell}\n1,x\n".encode(), {}, NARROW
        yield f"a;b\n{cell};{cell}\n1;x\n".encode(), {"decimal": ",", "thousands": "."}, NARROW


def by_python(
    path: Path, content: bytes, options: dict[str, str], encoding: Encoding = ENCODING
) -> dict[str, Any]:
    path.write_bytes(content)
    seen = EncodingCounts(encoding)
    try:
        table = open_table(path, csv=CsvOptions(**options), columns=encoding.names)
        rows = np.concatenate([encoding.encode(batch, seen) for batch in table.batches()])
    except ReplearnError:
        return {"refused": True}
    odd = (seen.unknown + seen.unreadable).tolist()
    counts = zip(seen.missing.tolist(), odd, seen.clipped.tolist(), strict=True)
    return {"columns": rows.T.tolist(), "counts": [list(count) for count in counts]}


def by_javascript(
    files: Iterable[tuple[bytes, dict[str, str]]], step: int = 1, encoding: Encoding = ENCODING
) -> list[dict[str, Any]]:
    """The same by JavaScript, which gets what follows 1 MB in pieces of ``step`` bytes."""
    given = {"encoding": encoding.content(), "step": step}
    calls = [
        ("encode", given | {"bytes": base64.b64encode(content).decode(), "options": options})
        for content, options in files
    ]
    return [{"refused": True} if "refused" in found else found for found in answers(calls)]


@needs_node
def test_hostile_files(tmp_path):
    files = [(content, options) for content, options, _ in hostile_files()]
    found = by_javascript(files, encoding=NARROW)
    expected = [by_python(tmp_path / "table.csv", *file, NARROW) for file in files]
    for file, ours, theirs in zip(files, expected, found, strict=True):
        assert theirs == ours, file
    assert {"refused" in ours for ours in expected} == {True, False}


@needs_node
def test_files(tmp_path):
    files = {
        name: (content.encode() if isinstance(content, str) else content, options)
        for name, (content, options, _) in FILES.items()
    }
    found = dict(zip(files, by_javascript(list(files.values())), strict=True))
    for name, (content, options) in files.items():
        expected = by_python(tmp_path / "table.csv", content, options)
        assert found[name] == expected, name
        assert ("columns" in expected) == FILES[name][2], name


def strange_file(coins: random.Random) -> bytes:
    sign, end = coins.choice(",,;\t|"), coins.choice(["\n", "\r\n"])
    rows = [sign.join("abcd")]
    for _ in range(coins.randint(0, 6)):
        n_cells = 4 if coins.random() < 0.97 else coins.choice([3, 5])
        usual = coins.choices(["1", "x", *STRANGE], [300, 300] + [5] * len(STRANGE), k=n_cells)
        rows.append(sign.join(usual))
    return end.join(rows).encode() + coins.choice([b"", end.encode()])


@pytest.mark.slow
@needs_node
def test_strange_files(tmp_path):
    coins = random.Random(32)
    files = [(strange_file(coins), {}) for _ in range(400)]
    expected = [by_python(tmp_path / "table.csv", content, options) for content, options in files]
    for (content, _), ours, theirs in zip(files, expected, by_javascript(files), strict=True):
        assert theirs == ours, content
    assert 100 < sum("columns" in ours for ours in expected) < 350


@pytest.mark.slow
@needs_node
def test_pieces_of_a_long_file(tmp_path):
    """Pieces end within quotes, characters and line ends."""
    coins = random.Random(7)
    cells = ("1", "-2.5", "é", '"é ""x"""', '"l\r\nm"', "", "NA", "0.125", '"y"', " 3 ")
    rows = [",".join(coins.choices(cells, k=4)) for _ in range(56_000)]
    content = "\r\n".join(["a,b,c,d", *rows]).encode()
    assert len(content) > (1 << 20) + 20_000
    expected = by_python(tmp_path / "table.csv", content, {})
    for step in (1, 5, 4096):
        assert by_javascript([(content, {})], step) == [expected], step
