"""Comma-separated text: Arrow and the standard library read the same, in blocks of any size."""

import contextlib
import csv
import gzip
import io
import pickle
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.errors import ReplearnError
from replearn.sources import csv_parsing, open_source, read_columns, read_table
from replearn.sources import text as text_files
from replearn.sources.csv_parsing import (
    CsvFile,
    read_by_arrow,
    read_by_reader,
    records_of,
)
from replearn.sources.text import blocks

CSV = """age,dose,label
63,0.5,ill
41,-1e-3,well
"50", 2 ,ill
"""
X = np.array([[63, 0.5], [41, -1e-3], [50, 2]])


def csv_file(folder, text=CSV, name="t.csv"):
    path = folder / name
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.fixture
def without_arrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV"])
def test_csv(tmp_path, name):
    table = read_table(csv_file(tmp_path, name=name), target="label")
    assert (table.X == X).all()
    assert table.X.dtype == np.float64
    assert table.y.tolist() == ["ill", "well", "ill"]
    assert table.names == ("age", "dose")


@pytest.mark.parametrize("change", [lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t])
def test_line_endings_and_byte_order_marks(tmp_path, change):
    table = read_table(csv_file(tmp_path, change(CSV) + "\n\n"), target="label")
    assert (table.X == X).all()
    assert table.names == ("age", "dose")


def test_csv_without_labels(tmp_path):
    table = read_table(csv_file(tmp_path, "a,b\n1,2\n"))
    assert table.y is None
    assert table.X.tolist() == [[1, 2]]


def test_one_column(tmp_path):
    assert read_table(csv_file(tmp_path, "a\n1\n2\n")).X.tolist() == [[1], [2]]


def test_columns_are_taken_by_name_in_the_given_order(tmp_path):
    table = read_table(csv_file(tmp_path), columns=["dose", "age"])
    assert table.names == ("dose", "age")
    assert np.array_equal(table.X, X[:, ::-1])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "0", "1"], [1, 0, 1]),
        (["-1", "+1", "1"], [-1, 1, 1]),
        (["1.0", "0", "1"], [1.0, 0.0, 1.0]),
        (["1", "x", "1"], ["1", "x", "1"]),
        (["True", "False", "True"], ["True", "False", "True"]),
    ],
)
def test_labels_are_integers_if_all_of_them_are(tmp_path, labels, expected):
    text = "a,y\n" + "".join(f"0,{label}\n" for label in labels)
    y = read_table(csv_file(tmp_path, text), target="y").y
    assert y.tolist() == expected
    assert {type(label) for label in y.tolist()} == {type(label) for label in expected}


@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        min_size=1,
    )
)
def test_numbers_come_back_bit_for_bit(tmp_path_factory, rows):
    text = "a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)
    table = read_table(csv_file(tmp_path_factory.mktemp("csv"), text))
    assert table.X.tobytes() == np.array(rows).tobytes()


def test_a_watch_sees_the_file_go_by(tmp_path):
    text = "a,b\n" + "1,2\n" * 20_000
    shares = []
    read_table(csv_file(tmp_path, text), watch=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] == 1


BAD_CSV = {
    "empty file": ("", r"must have a header row, got an empty file\. Check the path"),
    "header only": ("a,y\n", r"must have rows below its header, got none\. Check"),
    "text": (
        "a,y\n1,p\nx,q\n",
        r"line 3, column 'a' must be a finite number, got 'x'\. Correct it, leave out .* protocol",
    ),
    "missing": ("a,b,y\n1,,p\n", r"line 2, column 'b' must be a finite number, got an empty cell"),
    "blank": ("a,b,y\n1, ,p\n", r"line 2, column 'b' must be a finite number, got an empty cell"),
    "nan": ("a,y\n1,p\nNaN,q\n", r"line 3, column 'a' must be a finite number, got 'NaN'"),
    "inf": ("a,y\n-inf,p\n", r"line 2, column 'a' must be a finite number, got '-inf'"),
    "too large": ("a,y\n1e999,p\n", r"line 2, column 'a' must be a finite number, got '1e999'"),
    "no label": ("a,y\n1,p\n2,\n", r"line 3, column 'y' must hold a label, got an empty cell"),
    "short row": ("a,y\n1,p\n2\n", r"line 3 must have 2 cells like the header, got 1\. Repair"),
    "long row": ("a,y\n1,2,p\n", r"line 2 must have 2 cells like the header, got 3\. Repair"),
    "gap": ("a,y\n1,p\n\n2,q\n", r"line 3 must not be empty, since rows follow it\. Remove it"),
    "line break in a cell": ('a,y\n1,"p\nq"\nx,p\n', r"line 4, column 'a' must be a finite"),
    "no target": ("a,b\n1,2\n", r"has no column 'y'; its columns are 'a', 'b'\. Name one of these"),
    "row numbers": (",a,y\n0,1,p\n", r"column 1 has no name\. Name it, or leave it out if it"),
    "same name": ("a,a,y\n1,2,p\n", r"must have different column names, got 'a' twice\. Rename"),
    "only labels": ("y\np\n", r"must have a feature column besides 'y', got none"),
    "not text": (b"a,y\n\xff\xfe,p\n", r"line 2 must be UTF-8 text, got the byte 0xff\. Save"),
    "half a header": (
        '"a,y\n1,2\n',
        r"line 1 opens a quote that is not closed before the file ends",
    ),
    "open quote": ('a,y\n1,p\n2,"q\n', r"line 3 opens a quote .* Close it, or double a quote"),
    "underscore": ("a,y\n1_000,p\n", r"line 2, column 'a' must be a finite number, got '1_000'"),
    "other digits": ("a,y\n\u0663,p\n", r"line 2, column 'a' must be a finite number"),
    "hexadecimal": ("a,y\n0x10,p\n", r"line 2, column 'a' must be a finite number, got '0x10'"),
    "boolean": ("a,y\n1,p\ntrue,p\n", r"line 3, column 'a' must be a finite number, got 'true'"),
    "first line empty": ("\na,y\n1,p\n", r"line 1 must name the columns, got an empty line"),
    "label as a feature": ("y\np\n", r"must have a feature column besides 'y', got none"),
    "huge cell": ("a,y\n" + "1" * 200_000 + ",p\n", r"must be comma-separated text: field larger"),
}


@pytest.mark.parametrize("problem", BAD_CSV)
def test_bad_csv(tmp_path, problem):
    text, message = BAD_CSV[problem]
    path = csv_file(tmp_path, text)
    with pytest.raises(ReplearnError, match=message) as caught:
        read_table(path, target="y")
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_finite_numbers_with_an_infinite_sum(tmp_path):
    assert read_table(csv_file(tmp_path, "a,b\n1e308,1e308\n")).X.tolist() == [[1e308, 1e308]]


def test_a_column_of_the_model_that_is_not_there(tmp_path):
    with pytest.raises(ReplearnError, match="has no column 'size'; its columns are 'age'"):
        read_table(csv_file(tmp_path), columns=["age", "size"])


def test_cut_off_gzip(tmp_path):
    path = csv_file(tmp_path, name="t.csv.gz")
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ReplearnError, match=r"cannot be read: .* that the file is complete"):
        read_table(path, target="label")


# ---------------------------------------------------------------- two readers, one language


def cut(path, n_bytes=2**20):
    """All lines of a file."""
    return [line for _, lines in blocks(str(path), n_bytes) for line in lines]


def read(reader, file, numeric, text, *more):
    """Columns as far as a reader reads them."""
    found = {name: [] for name in (*numeric, *text)}
    with contextlib.suppress(ReplearnError, csv_parsing._Odd):
        for _, columns in reader(file, numeric, text, *more):
            for name, values in columns.items():
                found[name] += values.tolist()
    return found


PIECES = [
    *',,,,"""\n\n\r01279.-+ea',
    "\r\n",
    '""',
    "1,2\n",
    '"x\ny",3\n',
    '"a""b",4\n',
    "\ufeff",
    "é",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@example('"a\r\nb",1\r\n"c",2\r')
@example('a"b\n"c""\n"d"e\nf"\n')
@example("\ufeff\ufeffa\n")
def test_records_end_where_the_standard_library_ends_them(tmp_path_factory, content):
    path = csv_file(tmp_path_factory.mktemp("csv"), content)
    lines = cut(path)
    for n_bytes in (1, 2, 5):
        assert cut(path, n_bytes) == lines
    content = content.removeprefix("\ufeff")
    assert b"".join(lines) in (content.encode(), content.encode() + b"\n")
    expected = list(csv.reader(io.StringIO(content, newline="")))
    records = []
    with contextlib.suppress(ReplearnError):
        for record in records_of(str(path), ","):
            records.append(record)
    if len(records) < len(
        expected
    ):  # a quote that is not closed: the standard library takes what is left
        with pytest.raises(ReplearnError, match="opens a quote"):
            list(records_of(str(path), ","))
        return
    assert [record.cells for record in records] == expected
    assert b"".join(record.text for record in records) == b"".join(lines)
    starts = np.cumsum([1, *(len(record.text.splitlines()) for record in records)])
    assert [record.line for record in records] == starts[:-1].tolist()


NUMBERS = [
    "0", "-0", "1", "+1", "1.", ".5", "1e5", "1E-5", "1e400", "-1e400", "1e-400", "4.9e-324",
    "2.5e-324", "1.7976931348623157e308", "1.7976931348623159e308", "0.1", "9007199254740993",
    "123456789012345678901234567890", "0.30000000000000004", "00701", " 1", "1 ", "\t1", "\x0b1",
    "\xa01", "", " ", "nan", "NaN", "-nan", "nan(1)", "nan(abc)", "inf", "Infinity", "-inf",
    "1_000", "1,5", '"1"', '" 1"', '""', "0x10", "1f", "1d5", "1e", "e1", "--1", "\u0663", "\uff11",
    "true", "TRUE", "null", "NA", "#N/A", "\x00", "1\x00", "1 2", "1.2.3", "\u22121",
]  # fmt: skip
TEXTS = [
    "a", " a ", "", " ", '""', '" "', '"a,b"', '"a\nb"', '"a\r\nb"', '"a""b"', 'a"b', '"a"b',
    '"a" ', ' "a"', '"a"b"c"', '""a', "é", "\ufeff", "\x00", "nan", "1", "01", "true", "\x85",
    "\u2028",
]  # fmt: skip
ROWS = st.lists(
    st.tuples(
        st.sampled_from(NUMBERS) | st.floats().map(repr), st.sampled_from(TEXTS) | st.text("ab")
    ),
    min_size=1,
    max_size=3,
)


@given(ROWS, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from([1, 1000]))
def test_arrow_takes_nothing_that_the_standard_library_takes_otherwise(
    tmp_path_factory, rows, end, wide
):
    content = "".join(f"{number},{text}{end}" for number, text in rows)
    path = csv_file(tmp_path_factory.mktemp("csv"), f"x,y{end}" + content)
    file = CsvFile(str(path), ("x", "y"), ",", f"x,y{end}".encode())
    for numeric, text in ((["x"], ["y"]), (["x"], []), ([], ["y"]), ([], ["x", "y"])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_parsing, "WIDE", wide)
            patch.setattr(csv_parsing, "_READER_CELLS", 2)  # a row at a time
            fast = read(read_by_arrow, file, numeric, text)
            slow = read(read_by_reader, file, numeric, text, None)
        assert list(fast) == list(slow)
        for name in fast:
            assert repr(fast[name]) == repr(slow[name][: len(fast[name])])


@pytest.mark.parametrize("cell", NUMBERS)
def test_numbers_are_what_they_are_without_arrow_too(tmp_path, cell):
    """Plain numbers go the fast way, so it is worth having; odd ones must not be taken."""
    path = csv_file(tmp_path, f"x,y\n{cell},b\n")
    file = CsvFile(str(path), ("x", "y"), ",", b"x,y\n")
    slow = read(read_by_reader, file, ["x"], [], None)["x"]
    fast = read(read_by_arrow, file, ["x"], [])["x"]
    if cell in ["0", "-0", "1", "1.", ".5", "1e5", "0.1", "4.9e-324", "9007199254740993", '"1"']:
        assert fast
    if cell in ["1_000", "\u0663", "\uff11", "0x10", "nan(1)", "true", "1\x00", "NA", "\xa01"]:
        assert not fast
        assert not slow
    if slow and cell.strip(' "'):
        assert slow[0] == float(cell.strip('"')) or np.isnan(slow[0])


# ---------------------------------------------------------------- piece by piece


def wide_file(folder, n_rows=30_000, end="\n", name="t.csv"):
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=(n_rows, 5)), rng.integers(0, 2, n_rows)
    rows = [
        ",".join([*map(repr, row), ("ill", '"we,ll"')[label]]) + end
        for row, label in zip(values.tolist(), labels, strict=True)
    ]
    content = "a,b,c,d,e,y" + end + "".join(rows)
    return csv_file(folder, content, name), values, np.array(["ill", "we,ll"])[labels]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 64 KiB instead of 4 MiB, so that small files have many of them."""
    monkeypatch.setattr(csv_parsing, "_ARROW_BYTES", 2**16)
    monkeypatch.setattr(csv_parsing, "_READER_CELLS", 2**12)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_pieces(tmp_path, name, end, small_blocks):
    path, values, labels = wide_file(tmp_path, end=end, name=name)
    source = pickle.loads(pickle.dumps(open_source(path, target="y", columns=["c", "a"])))
    assert (source.names, source.n_features, source.n_rows) == (("c", "a"), 2, None)
    assert (source.sparse, source.nbytes, source.in_memory_only) == (False, None, False)
    shares: list[float] = []
    pieces = list(source.pieces(watch=shares.append))
    assert len(pieces) > 10
    assert len(shares) == len(pieces)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert all(piece.X.flags.c_contiguous and piece.y.dtype == object for piece in pieces)
    assert [p.first_row for p in pieces] == np.cumsum([0, *(len(p.y) for p in pieces)])[
        :-1
    ].tolist()
    assert np.concatenate([piece.X for piece in pieces]).tobytes() == values[:, [2, 0]].tobytes()
    assert np.concatenate([piece.y for piece in pieces]).tolist() == labels.tolist()


@pytest.mark.parametrize("start", [0, 1, 4_321, 29_999, 30_000, 99_999])
def test_pieces_from_a_row_on(tmp_path, start, small_blocks):
    path, values, _ = wide_file(tmp_path)
    pieces = list(open_source(path, target="y").pieces(start))
    assert [piece.first_row for piece in pieces[:1]] == [start][: start < 30_000]
    found = np.concatenate([np.empty((0, 5)), *(piece.X for piece in pieces)])
    assert np.array_equal(found, values[start:])


def test_batches_can_be_put_in_any_order(tmp_path, small_blocks):
    path, values, labels = wide_file(tmp_path)
    source = open_source(path, target="y")
    batches = list(source.batches())
    assert all(batch.schema.names == ["numbers", "y"] for batch in batches)
    table = pa.Table.from_batches(batches).combine_chunks()
    order = np.random.default_rng(1).permutation(30_000)
    (batch,) = table.take(pa.array(order)).combine_chunks().to_batches()
    piece = source.parse(batch, 0)
    assert np.array_equal(piece.X, values[order])
    assert piece.y.tolist() == labels[order].tolist()
    part = source.parse(batch.slice(17, 5), 0)
    assert np.array_equal(part.X, values[order[17:22]])


def test_records_below_the_header_make_a_file_in_any_order(tmp_path):
    content = '\ufeff"a",y\r\n1,"p\nq"\r\n2,"r"'
    source = open_source(csv_file(tmp_path, content), raw=True)
    assert source.header == b'"a",y\r\n'
    records = [record for batch in source.batches() for record in batch.column(0).to_pylist()]
    assert records == [b'1,"p\nq"\r\n', b'2,"r"\n']
    shuffled = csv_file(tmp_path, source.header + b"".join(records[::-1]))
    table = read_table(shuffled, target="y")
    assert table.X.tolist() == [[2], [1]]
    assert table.y.tolist() == ["r", "p\nq"]


def test_batches_are_small(tmp_path):
    columns = ",".join(f"c{i}" for i in range(3000))
    row = ",".join(["0"] * 3000)
    path = csv_file(tmp_path, columns + "\n" + f"{row}\n" * 1500)
    sizes = [batch.num_rows for batch in open_source(path).batches()]
    assert max(sizes) == 2**21 // 3000
    path = csv_file(tmp_path, "a\n" + "1\n" * 300_000)
    assert max(batch.num_rows for batch in open_source(path).batches()) == 2**17


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 2**20)
    path = csv_file(tmp_path, b"a,y\n1,p\n" + b"1" * 2**23, "t.csv.gz")
    with pytest.raises(ReplearnError, match=r"line 3 must be shorter than 1 MiB, got more without"):
        list(open_source(path, target="y").pieces())
    path = csv_file(tmp_path, b"a,y\n1,p\n" + b'2,"q\n' + b"1,p\n" * 2**21)
    with pytest.raises(
        ReplearnError, match=r"line 3 must be .* field larger than .* is a quote not closed\?"
    ):
        list(open_source(path, target="y").pieces())


@pytest.mark.parametrize("row", [0, 15_000, 29_999])
def test_bad_cells_are_named_wherever_they_are(tmp_path, row, small_blocks):
    path, _, _ = wide_file(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    lines[1 + row] = '1,2,"x\ny",4,5,ill\n'
    path.write_text("".join(lines))
    message = rf"line {row + 2}, column 'c' must be a finite number, got 'x\\ny'"
    with pytest.raises(ReplearnError, match=message):
        list(open_source(path, target="y").pieces())
    source = open_source(path, target="y", columns=["a"])
    (*_, last) = source.pieces()
    assert last.first_row + len(last.y) == 30_000


def test_bad_cells_of_batches_are_named_by_their_line(tmp_path):
    encoding = Encoding((NumberColumn("a", "0", "1"),))
    source = open_source(csv_file(tmp_path, "a,y\n1,p\n2,q\n ,r\n"), "y", encoding=encoding)
    (batch,) = source.batches()
    with pytest.raises(ReplearnError, match=r"t\.csv, line 4, column 'a' must not be missing"):
        source.parse(batch, 0)
    with pytest.raises(ReplearnError, match=r"t\.csv, line 4, column 'a' must not be missing"):
        source.parse(batch.slice(2), 2)


def test_early_end_of_reading(tmp_path, small_blocks, no_thread_left):
    path, _, _ = wide_file(tmp_path)
    pieces = open_source(path, target="y").pieces()
    next(pieces)
    pieces.close()


def test_without_arrow(tmp_path, without_arrow, small_blocks):
    path, values, labels = wide_file(tmp_path, 3_000)
    source = open_source(path, target="y")
    assert np.concatenate([piece.X for piece in source.pieces()]).tobytes() == values.tobytes()
    table = read_table(path, target="y")
    assert table.X.tobytes() == values.tobytes()
    assert table.y.tolist() == labels.tolist()
    with pytest.raises(ReplearnError, match=r'needs pyarrow, .* pip install "replearn\[data\]"'):
        next(source.batches())


# ---------------------------------------------------------------- encodings and raw columns

ENCODING = Encoding(
    (
        CategoryColumn("zip", ("00701", "1", "True")),
        NumberColumn("age", "50", "10", fill_missing=True),
        NumberColumn("dose", "0", "2"),
    )
)
MIXED = """age,zip,dose,y,more
60,00701,1,p,x
,1.0,2,q,x
nan,701,3,p,x
40,,4,q,
 ,true,-0,p,x
"""
MIXED_ROWS = [
    [1, 0, 0, 1, 0.5],
    [0, 1, 0, 0, 1],
    [0, 0, 0, 0, 1.5],
    [0, 0, 0, -1, 2],
    [0, 0, 1, 0, 0],
]


@pytest.mark.parametrize("arrow", [True, False])
def test_encoding(tmp_path, arrow, request):
    if not arrow:
        request.getfixturevalue("without_arrow")
    source = open_source(csv_file(tmp_path, MIXED), target="y", encoding=ENCODING)
    assert (
        source.names == ENCODING.output_names == ("zip=00701", "zip=1", "zip=True", "age", "dose")
    )
    (piece,) = source.pieces()
    assert piece.X.tolist() == MIXED_ROWS
    assert piece.y.tolist() == ["p", "q", "p", "q", "p"]


BAD_FOR_THE_PROTOCOL = {
    "missing": (
        "5,1,,p",
        r"line 2, column 'dose' must not be missing, since the protocol does not",
    ),
    "text": (
        "old,1,1,p",
        r"line 2, column 'age' must be a finite number, as in the protocol, .*'old'",
    ),
    "infinite": ("inf,1,1,p", r"line 2, column 'age' must be a finite number, as in the protocol"),
}


@pytest.mark.parametrize("problem", BAD_FOR_THE_PROTOCOL)
def test_bad_for_the_protocol(tmp_path, problem):
    row, message = BAD_FOR_THE_PROTOCOL[problem]
    path = csv_file(tmp_path, f"age,zip,dose,y\n{row}\n")
    with pytest.raises(ReplearnError, match=message):
        list(open_source(path, target="y", encoding=ENCODING).pieces())


def test_too_large_after_scaling(tmp_path):
    encoding = Encoding((NumberColumn("a", "0", "0.001"),))
    source = open_source(csv_file(tmp_path, "a\n1\n1e308\n"), encoding=encoding)
    with pytest.raises(ReplearnError, match=r"line 3, column 'a' must be finite after scaling"):
        list(source.pieces())


def test_the_label_is_no_feature(tmp_path):
    path = csv_file(tmp_path)
    with pytest.raises(ReplearnError, match=r"'age' holds the labels, so it cannot be a feature"):
        open_source(path, target="age", columns=["age"])
    with pytest.raises(ReplearnError, match=r"'age' holds the labels, so it cannot be a feature"):
        open_source(path, target="age", encoding=Encoding((NumberColumn("age", "0", "1"),)))
    with pytest.raises(ReplearnError, match=r"the encoding says which columns are read, got col"):
        open_source(path, columns=["age"], encoding=Encoding((NumberColumn("age", "0", "1"),)))


@pytest.mark.parametrize("arrow", [True, False])
def test_raw_columns(tmp_path, arrow, request):
    if not arrow:
        request.getfixturevalue("without_arrow")
    columns, y = read_columns(csv_file(tmp_path, MIXED), target="y")
    assert list(columns) == ["age", "zip", "dose", "more"]
    np.testing.assert_array_equal(columns["age"], [60, np.nan, np.nan, 40, np.nan])
    assert columns["zip"].tolist() == ["00701", "1.0", "701", None, "true"]
    assert columns["dose"].tolist() == [1, 2, 3, 4, 0]
    assert columns["more"].tolist() == ["x", "x", "x", None, "x"]
    assert y.tolist() == ["p", "q", "p", "q", "p"]
    encoded = ENCODING.transform(columns)
    assert encoded.tolist() == MIXED_ROWS


def test_a_column_is_text_if_one_cell_is(tmp_path, small_blocks):
    path = csv_file(tmp_path, "a,b\n" + "1,007\n" * 30_000 + "x,008\n")
    columns, _ = read_columns(path)
    assert columns["a"].dtype == object
    assert columns["a"][0] == "1"
    assert columns["a"][-1] == "x"
    assert columns["b"].tolist() == [7.0] * 30_000 + [8.0]
    columns, _ = read_columns(path, categories=["b"])
    assert columns["b"].tolist() == ["007"] * 30_000 + ["008"]


def test_raw_columns_name_what_is_wrong(tmp_path):
    with pytest.raises(ReplearnError, match=r"line 3 must have 2 cells like the header, got 3"):
        read_columns(csv_file(tmp_path, "a,y\n1,p\n1,2,3\n"), target="y")
    with pytest.raises(ReplearnError, match=r"line 3, column 'y' must hold a label, got an empty"):
        read_columns(csv_file(tmp_path, "a,y\n1,p\n1,\n"), target="y")
    with pytest.raises(ReplearnError, match=r"must have rows below its header, got none"):
        read_columns(csv_file(tmp_path, "a,y\n"))
    with pytest.raises(ReplearnError, match=r"has no column 'z'"):
        read_columns(csv_file(tmp_path, "a,y\n1,2\n"), target="z")


# ---------------------------------------------------------------- sites that write differently


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("arrow", [True, False])
def test_semicolons_and_tabs_are_what_the_header_says(tmp_path, delimiter, arrow, request):
    """Every row must have as many cells, so nothing else can be meant."""
    if not arrow:
        request.getfixturevalue("without_arrow")
    text = CSV.replace(",", delimiter).replace("label", '"la,bel"')
    table = read_table(csv_file(tmp_path, text), target="la,bel")
    assert (table.X == X).all()
    assert table.names == ("age", "dose")
    with pytest.raises(ReplearnError, match=r"line 5 must have 3 cells .* that contain (semi|tab)"):
        read_table(csv_file(tmp_path, text + f"1{delimiter}2\n"), target="la,bel")


def test_a_header_with_commas_is_comma_separated(tmp_path):
    assert read_table(csv_file(tmp_path, "a;b,c\n1,2\n")).names == ("a;b", "c")


@pytest.mark.parametrize("text", ["a;y\n1;p\n0,5;q\n", 'a,y\n1,p\n"0,5",q\n'])
def test_a_decimal_comma_is_refused_with_its_remedy(tmp_path, text):
    """1,234 may be more than a thousand, or little more than one."""
    with pytest.raises(
        ReplearnError, match=r"line 3, column 'a' must be .* got '0,5'\. Write it with a decimal p"
    ):
        read_table(csv_file(tmp_path, text), target="y")


def test_other_order_and_more_columns_make_no_difference_under_a_protocol(tmp_path):
    """Columns are taken by their names."""
    encoding = Encoding((NumberColumn("a", "1", "2"), CategoryColumn("b", ("p", "q"))))
    texts = ["a,b,y\n1,p,0\n2,q,1\n", "y,extra,b,a\n0,9,p,1\n1,9,q,2\n", "b;a;y\np;1;0\nq;2;1\n"]
    found = [
        next(open_source(csv_file(tmp_path, text), "y", encoding=encoding).pieces())
        for text in texts
    ]
    assert len({piece.X.tobytes() for piece in found}) == 1
    assert all(piece.y.tolist() == ["0", "1"] for piece in found)


def test_rows_without_any_value_are_rows(tmp_path):
    """Arrow makes the same of them as of empty lines, which are none."""
    encoding = Encoding(tuple(NumberColumn(name, "0", "1", fill_missing=True) for name in "ab"))
    source = open_source(csv_file(tmp_path, "a,b\n1,2\n,\n3,4\n\n"), encoding=encoding)
    assert np.concatenate([p.X for p in source.pieces()]).tolist() == [[1, 2], [0, 0], [3, 4]]
    source = open_source(csv_file(tmp_path, "a,b\n1,2\n\n3,4\n"), encoding=encoding)
    with pytest.raises(ReplearnError, match="line 3 must not be empty"):
        list(source.pieces())


def test_a_quote_that_swallows_the_last_rows_is_noticed(tmp_path):
    path = csv_file(tmp_path, 'a,y,more\n1,p,x\n2,q,"x\n1,p,x\n2,q,x\n')
    with pytest.raises(ReplearnError, match=r"line 3 opens a quote that is not closed"):
        read_table(path, target="y", columns=["a"])


# ---------------------------------------------------------------- very many columns


def wide_text(n_rows, n_columns, number=repr):
    values = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    header = ",".join([*(f"c{i}" for i in range(n_columns)), "y"])
    lines = [",".join([*map(number, row), "pq"[i % 2]]) for i, row in enumerate(values.tolist())]
    return "\n".join([header, *lines]) + "\n", values


def test_very_many_columns(tmp_path, monkeypatch):
    text, values = wide_text(30, 1500)
    path = csv_file(tmp_path, text)
    monkeypatch.setattr(csv_parsing, "_READER_CELLS", 0)  # it must go the fast way
    monkeypatch.setattr(csv_parsing, "read_by_reader", None)
    monkeypatch.setattr(csv_parsing, "_WIDE_BYTES", 10)
    monkeypatch.setattr(csv_parsing, "BLOCK_BYTES", 2**16)
    table = read_table(path, target="y")
    assert table.X.tobytes() == values.tobytes()
    assert table.y.tolist() == ["p", "q"] * 15
    chosen = read_table(path, target="y", columns=["c7", "c1499", "c3"])
    assert np.array_equal(chosen.X, values[:, [7, 1499, 3]])


def test_what_is_wrong_with_one_of_very_many_columns_is_named(tmp_path):
    text, values = wide_text(5, 1500)
    lines = text.splitlines()
    quoted = [lines[0], *(line.replace(",p", ',"p"') for line in lines[1:])]
    table = read_table(csv_file(tmp_path, "\n".join(quoted)), target="y")
    assert table.X.tobytes() == values.tobytes()
    cells = lines[3].split(",")
    lines[3] = ",".join([*cells[:9], "x", *cells[10:]])
    with pytest.raises(
        ReplearnError, match=r"line 4, column 'c9' must be a finite number, got 'x'"
    ):
        read_table(csv_file(tmp_path, "\n".join(lines)), target="y")
    lines[3] = ",".join(cells[1:])
    with pytest.raises(ReplearnError, match=r"line 4 must have 1501 cells like the header, got 15"):
        read_table(csv_file(tmp_path, "\n".join(lines)), target="y")


def test_fifty_thousand_columns_take_seconds(tmp_path):
    """Once they took minutes: each step looked each name up in a list of all."""
    text, values = wide_text(10, 50_000, "{:.3f}".format)
    path = csv_file(tmp_path, text)
    start = time.process_time()
    table = read_table(path, target="y")
    columns, _ = read_columns(path, target="y")
    assert time.process_time() - start < 20  # a second or two, if nothing else runs
    assert np.array_equal(table.X, values.round(3))
    assert len(columns) == 50_000
