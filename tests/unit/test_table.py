"""Tables: what is read of memory and files, in which batches, and what is refused."""

import gzip
import json
import os
import time
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import replearn as rl
from replearn.errors import ReplearnError
from replearn.tables import Texts, join_columns, level_text, numbers_of, open_table
from replearn.tables.cells import from_arrow


def whole(table, name, n_rows=1 << 16):
    return join_columns([batch.column(name) for batch in table.batches(n_rows)])


def test_roles_by_name_and_by_value():
    columns = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"], "y": [0, 1, 1], "w": [1, 2, 3]}
    by_name = open_table(columns, target="y", weights="w", groups="b")
    assert by_name.names == ("a",)
    by_value = open_table(
        {n: columns[n] for n in "ab"}, target=[0, 1, 1], weights=np.array([1, 2, 3])
    ).without(["b"])
    assert by_value.names == ("a",)
    for table in (by_name, by_value):
        batches = list(table.batches(2))
        assert [batch.n_rows for batch in batches] == [2, 1]
        assert join_columns([batch.y for batch in batches]).tolist() == [0, 1, 1]
        assert join_columns([batch.weights for batch in batches]).tolist() == [1, 2, 3]
        assert batches[0].offset is None
    assert isinstance(next(by_name.batches()).groups, Texts)


def test_roles_in_arrays():
    X = np.arange(12.0).reshape(4, 3)
    for source in (X, sp.csr_array(X), X.astype(np.float32), np.asfortranarray(X)):
        table = open_table(source, names=["a", "b", "c"], target="b")
        batch = next(table.batches())
        assert batch.names == ("a", "c")
        assert batch.matrix.shape == (4, 2)
        assert numbers_of(batch.y)[0].tolist() == [1, 4, 7, 10]
        assert whole(table, "c", 3).tolist() == [2, 5, 8, 11]


def test_only_what_is_asked_for_is_looked_at(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "when": pd.to_datetime(["2024-01-01"] * 2), "b": [3, 4]})
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    for source in (frame, pl.from_pandas(frame), path):
        assert whole(open_table(source, columns=["b", "a"]), "b").tolist() == [3, 4]
        assert open_table(source).without(["when"]).names == ("a", "b")
        with pytest.raises(ReplearnError, match=r"'when' must hold numbers or text, got dates"):
            list(open_table(source).batches())


def test_equal_complaints_are_one_line():
    frame = {f"d{i}": np.array(["2024-01-01"], dtype="datetime64[D]") for i in range(13)}
    with pytest.raises(ReplearnError) as caught:
        list(open_table(frame).batches())
    assert str(caught.value).count("dates") == 1
    assert "'d0', 'd1'" in str(caught.value)
    assert "and 5 more" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "z"}, r"has no column 'z'; it has columns 'a', 'b'"),
        ({"columns": ["a", "q"]}, r"has no column 'q'"),
        ({"target": "a", "weights": "b"}, "must have a feature column"),
        ({"target": "a", "columns": ["a"]}, "a different part"),
        ({"target": [1, 2, 3]}, "a value for each of the 2 rows, got 3"),
        ({"target": [[1], [2]]}, "target must hold numbers or text"),
    ],
)
def test_what_is_asked_for_must_be_there(options, words):
    with pytest.raises(ReplearnError, match=words):
        list(open_table({"a": [1, 2], "b": [1, 2]}, **options).batches())
    with pytest.raises(ReplearnError, match="must have a feature column"):
        open_table({"a": [1, 2], "b": [1, 2]}).without(["a", "b"])
    with pytest.raises(ReplearnError, match="must name 2 columns, got 3"):
        open_table(np.zeros((2, 2)), names=["a", "b", "c"])


def test_infinite_numbers_are_named():
    X = np.zeros((3, 3))
    X[1, 2] = -np.inf
    with pytest.raises(ReplearnError, match=r"column 'x2' .* infin"):
        list(open_table(X).batches())
    with pytest.raises(ReplearnError, match="infinite"):
        list(open_table(sp.csr_array(X)).batches())
    huge = np.full((4, 1), 1e308)  # their sum is infinite, they are not
    assert whole(open_table(huge), "x0").tolist() == [1e308] * 4


def test_a_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    table = open_table(path)
    assert whole(table, "a").tolist() == [1]
    path.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(ReplearnError, match="has changed"):
        list(table.batches())
    path.write_text("a,b\n1,2\n")
    os.utime(path, (1, 1))
    with pytest.raises(ReplearnError, match="has changed"):
        list(table.batches())


def test_batches_are_small_and_all_there(tmp_path):
    n_rows = 1000
    frame = pd.DataFrame({"a": np.arange(n_rows), "t": np.arange(n_rows).astype(str)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=300)
    for source in (frame, tmp_path / "a.csv", tmp_path / "a.parquet", frame[["a"]].to_numpy()):
        table = open_table(source)
        sizes = [batch.n_rows for batch in table.batches(128)]
        assert max(sizes) <= 128
        assert table.n_rows == sum(sizes) == n_rows
        assert numbers_of(whole(table, table.names[-1], 77))[0].tolist() == list(range(n_rows))


def test_the_index_of_pandas_is_skipped(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index(["p1", "p2"], name="patient"))
    plain = pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 7])
    for number, table in enumerate((frame, plain)):
        path = tmp_path / f"{number}.parquet"
        table.to_parquet(path)
        assert len(pq.read_schema(path).names) == 2
        assert open_table(path).names == ("a",)
        assert open_table(pa.Table.from_pandas(table)).names == ("a",)


def test_what_pandas_notes_is_read_once_whatever_the_columns(tmp_path, monkeypatch):
    """Read for each column, its notes on all columns took minutes for ten thousand."""
    read, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text: read.append(1) or loads(text))
    table = pa.Table.from_pandas(pd.DataFrame(np.ones((2, 50))).rename(columns=str))
    pq.write_table(table, tmp_path / "wide.parquet")
    for source in (table, tmp_path / "wide.parquet"):
        read.clear()
        assert len(open_table(source).names) == 50
        assert len(read) <= 4


def test_npz_and_svmlight(tmp_path):
    X, y = np.array([[1.0, 0, 2], [0, 3, 0]]), np.array([0, 1])
    np.savez(tmp_path / "a.npz", X=X, y=y, names=["a", "b", "c"])
    table = open_table(tmp_path / "a.npz")
    batch = next(table.batches())
    assert batch.names == ("a", "b", "c")
    assert batch.matrix.tolist() == X.tolist()
    assert batch.y.tolist() == [0, 1]
    dump_svmlight_file(X[:, :2], y, str(tmp_path / "a.svm"))
    table = open_table(tmp_path / "a.svm", columns=["x0", "x1", "x2"])
    assert table.is_sparse
    assert next(table.batches()).matrix.toarray().tolist() == [[1, 0, 0], [0, 3, 0]]
    np.savez(tmp_path / "b.npz", Z=X)
    np.savez_compressed(tmp_path / "h.npz", X=np.zeros((1, 70_000)))
    np.savez(tmp_path / "c.npz", X=np.array([[object()]]))
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 nothing")
    (tmp_path / "e.svm").write_text("what is this\n")
    (tmp_path / "f.svm").write_text("1 2000000000:1\n")
    (tmp_path / "g.csv").write_text(",".join(f"column {i}" for i in range(99_999)) + "\n")
    for name, words in (
        ("b.npz", "array X"),
        ("c.npz", "read"),
        ("d.npz", "read"),
        ("e.svm", "read"),
        ("f.svm", "at most 65,536 columns, got 2,000,000,000"),
        ("h.npz", "at most 65,536 columns, got 70,000"),
        ("g.csv", "a line of column names, of at most 1,048,576 bytes"),
    ):
        with pytest.raises(ReplearnError, match=words):
            list(open_table(tmp_path / name).batches())


def test_an_array_of_texts():
    table = open_table([["a", 1], ["b", 2.5]])
    assert whole(table, "x0").values == ("a", "b")
    assert whole(table, "x1").tolist() == [1, 2.5]
    assert whole(open_table(np.array([[True], [False]])), "x0").values == ("false", "true")


def bomb(path, n_rows, text, **options):
    column = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(n_rows, dtype=np.int32)), pa.array([text])
    )
    pq.write_table(pa.table({"t": column, "a": pa.array(np.zeros(n_rows))}), path, **options)


def test_a_long_text_in_many_rows_costs_little(tmp_path):
    path = tmp_path / "bomb.parquet"
    bomb(path, 3_000_000, "x" * 4000, compression="zstd")
    assert path.stat().st_size < 2_000_000
    before = pa.total_allocated_bytes()
    most = 0
    for batch in open_table(path).batches():
        assert batch.column("t").values == ("x" * 4000,)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 1 << 27  # written out it would be 12 GB


def test_many_long_texts_cost_little():
    texts = [f"{number:05d}{'x' * 4000}" for number in range(10_000)]
    array = pa.array(texts).dictionary_encode()
    begun = time.process_time()
    assert from_arrow(array).values == tuple(texts)
    assert time.process_time() - begun < 1  # a look at each character took three seconds


@pytest.mark.slow
def test_files_that_unpack_to_far_more(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,1\n" * 30_000))
    assert sum(batch.n_rows for batch in open_table(path).batches()) == 30_000
    monkeypatch.setattr("replearn.tables.files._CHEAP_ROWS", 20_000)
    with pytest.raises(ReplearnError, match="more than 20,000 rows"):
        list(open_table(path).batches())
    monkeypatch.undo()
    np.savez_compressed(tmp_path / "zeros.npz", X=np.zeros((18_000_000, 1)))
    with pytest.raises(ReplearnError, match="144,000,128 bytes in"):
        open_table(tmp_path / "zeros.npz")
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": np.zeros(11_000_000, np.int8)}), path, compression="zstd")
    with pytest.raises(ReplearnError, match="11,000,000 rows in"):
        open_table(path)
    texts = pa.array(["x" * 4000] * 18_000)
    pq.write_table(
        pa.table({"t": texts}), path, use_dictionary=False, compression="zstd",
        data_page_size=1 << 30,
    )  # fmt: skip
    with pytest.raises(ReplearnError, match="bytes of a row group in"):
        open_table(path)
    tails = np.random.default_rng(0).bytes(3_000_000).hex()
    prefixed = pa.array([f"{'x' * 99}{tails[i : i + 60]}" for i in range(0, len(tails), 60)])
    pq.write_table(
        pa.table({"t": prefixed}), path, use_dictionary=False, compression=None,
        column_encoding={"t": "DELTA_BYTE_ARRAY"},
    )  # fmt: skip
    with pytest.raises(ReplearnError, match="share their beginnings"):
        list(open_table(path).batches())


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_texts_in_every_encoding(tmp_path, encoding):
    path = tmp_path / "a.parquet"
    texts = [f"name {i % 5}" for i in range(2000)]
    pq.write_table(
        pa.table({"t": texts}), path, use_dictionary=False, column_encoding={"t": encoding}
    )
    column = whole(open_table(path), "t")
    assert [column.values[code] for code in column.codes] == texts


def test_damaged_files_are_refused_in_words(tmp_path):
    path = tmp_path / "a.parquet"
    frame = pd.DataFrame({"t": ["a", "b"] * 500, "v": np.arange(1000.0)})
    frame.to_parquet(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        for place in rng.integers(4, len(content), 3).tolist():
            damaged[place] = int(rng.integers(256))
        path.write_bytes(bytes(damaged[: int(rng.integers(20, len(content) + 1))]))
        try:
            list(open_table(path).batches())
        except ReplearnError:
            n_refused += 1
    assert n_refused > 250


def test_a_torn_archive(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros((10, 2)))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ReplearnError):
        open_table(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", b"no array")
    with pytest.raises(ReplearnError):
        open_table(path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_csv_that_ends_inside_quotes_is_refused(tmp_path, packed):
    path = tmp_path / ("A.CSV.GZ" if packed else "a.csv")

    def write(text):
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return open_table(path)

    assert whole(write('a,b\n1,"x ""y"""\n2,5" pipe\n'), "a").tolist() == [1, 2]
    assert whole(write('a,b\n1,"x,"\n'), "a").tolist() == [1]
    torn = ('a,b\n1,"x\n2,y\n3,z\n', 'a,b\n1,x\n2,"', 'a,b\n1,x\n2,"y""\n', 'a,b\n1,5"\n2,"y\n')
    for text in torn:
        with pytest.raises(ReplearnError, match="must close every quote"):
            list(write(text).batches())


def test_a_number_beyond_all_numbers_is_a_level():
    assert [level_text(text) for text in ("1e999", "-1e999", "1.0")] == [
        "Infinity",
        "-Infinity",
        "1",
    ]


def _quoted(rows, first, second):
    """Lines of a CSV file of four columns, with a stray quote in each of two rows."""
    lines = ["note,a,b,y", *(f"ok,{i},{i % 7},{i % 2}" for i in range(rows))]
    for line, quoted in (first, second):
        lines[line] = quoted
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        ((10, '"ok,9,2,1'), (30, '"ok,29,1,1'), 11),  # twenty rows in a cell
        ((10, '"ok,9,2,1'), (11, 'ok",10,3,0'), 11),  # two rows in one
        ((10, 'ok,9,2,"1'), (12, 'ok,11,4,1"'), 11),
    ],
)
def test_a_quote_that_swallows_rows_is_refused_with_its_line(tmp_path, first, second, line):
    path = tmp_path / "rows.csv"
    path.write_text(_quoted(60, first, second))
    table = open_table(path, columns=["a", "b"])
    with pytest.raises(ReplearnError, match=rf"line {line}, must not begin a quote"):
        list(table.batches())


@pytest.mark.parametrize("n_swallowed", [500, 20_000, 600_000])  # beyond a text, a cell, a block
def test_a_quote_that_swallows_many_rows_is_refused_with_its_line(tmp_path, n_swallowed):
    path = tmp_path / "rows.csv"
    last = (10 + n_swallowed, '"ok,29,1,1')
    path.write_text(_quoted(n_swallowed + 20, (10, '"ok,9,2,1'), last))
    with pytest.raises(ReplearnError, match="line 11, must not begin a quote"):
        list(open_table(path, columns=["note", "a"]).batches())


def test_texts_of_several_lines_are_no_stray_quotes(tmp_path):
    path = tmp_path / "rows.csv"
    note = '"slept well,\ntook 5 mg, then 10\n\nand went"'
    path.write_text(_quoted(60, (10, f"{note},9,2,1"), (20, f"ok,19,5,{note}")))
    table = open_table(path, columns=["a", "b"])
    assert sum(batch.n_rows for batch in table.batches()) == 60


def test_a_character_on_the_end_of_the_head_is_text(tmp_path):
    path = tmp_path / "a.csv"
    rows = "1,\N{GRINNING FACE}\n" * 160_000  # seven bytes each, more than the head in all
    for mark in ("", "\ufeff"):
        for n_letters in range(1, 8):
            path.write_text(f"{mark}a,{'b' * n_letters}\n{rows}", encoding="utf-8")
            assert open_table(path).names == ("a", "b" * n_letters)


def numbers_and_deaths():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    return rng, x, (rng.random(1500) < 1 / (1 + np.exp(-2 * x))).astype(int)


def test_levels_of_several_types():
    """It was an error of the libraries below."""
    _, x, died = numbers_and_deaths()
    grades = pd.Categorical([1 if i % 2 else "a" for i in range(1500)])
    frame = pd.DataFrame({"x": x, "grade": grades})
    mixed = rl.ReplicableLogisticClassifier(ridge=0.01).fit(frame, died)
    assert {*mixed.study_.design.encoding.columns[1].levels} <= {"1", "a"}


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this polars has no Int128")
def test_wide_integers():
    """They were an error of the libraries below."""
    rng, x, died = numbers_and_deaths()
    wide = pl.DataFrame({"x": x, "n": rng.integers(0, 9, 1500)})
    narrow = rl.ReplicableLogisticClassifier(ridge=0.01).fit(wide, died)
    wide = wide.with_columns(pl.col("n").cast(pl.Int128))
    wide_fit = rl.ReplicableLogisticClassifier(ridge=0.01).fit(wide, died)
    assert wide_fit.fingerprint_ == narrow.fingerprint_


def test_labels_that_float64_cannot_tell_apart():
    X = np.random.default_rng(0).normal(size=(400, 2))
    labels = np.where(X[:, 0] > 0, 2**60 + 1, 2**60 + 3)
    with pytest.raises(ReplearnError, match="at most 2\\^53"):
        rl.ReplicableLogisticClassifier().fit(X, labels)
