"""Files and folders of any format: one way to open them, and one way to say what is wrong."""

import gc
import gzip
import os
import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from replearn.codes.encoding import Encoding, NumberColumn
from replearn.errors import ReplearnError
from replearn.sources import FORMATS, common, open_source, read_columns, read_table, read_within
from replearn.sources.common import ahead

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3)).round(3)
Y = RNG.integers(0, 2, 400)
SUFFIXES = list(FORMATS)


def write(path, start=0, stop=400):
    """Some of the rows in the format of that name."""
    rows, labels, name = X[start:stop], Y[start:stop], path.name
    table = pa.table({"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2], "y": labels})
    if name.endswith((".parquet", ".pq")):
        pq.write_table(table, path)
    elif name.endswith(".npz"):
        np.savez(path, X=rows, y=labels)
    else:
        plain = path.with_name("plain")
        if ".csv" in name:
            pa.csv.write_csv(table, plain)
        else:
            dump_svmlight_file(rows, labels, str(plain), zero_based=False)
        content = plain.read_bytes()
        plain.unlink()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def label(suffix):
    return "y" if suffix in (".csv", ".csv.gz", ".parquet", ".pq", ".npz") else None


def dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else rows


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_rows(tmp_path, suffix):
    path = write(tmp_path / f"t{suffix}")
    table = read_table(path, label(suffix))
    assert np.array_equal(dense(table.X), X)
    assert table.y.tolist() == Y.tolist()
    encoding = Encoding(tuple(NumberColumn(name, "0", "2") for name in "abc"))
    whole = read_within(open_source(path, label(suffix), encoding=encoding), limit=None)
    assert np.array_equal(dense(whole.X), X / 2)
    columns, y = read_columns(path, label(suffix))
    found = (
        columns.toarray() if hasattr(columns, "toarray") else np.stack(list(columns.values()), 1)
    )
    assert np.array_equal(found, X)
    assert y.tolist() == Y.tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("whole", [True, False])
def test_identity(tmp_path, suffix, whole, monkeypatch):
    path = write(tmp_path / f"t{suffix}")
    if not whole:
        monkeypatch.setattr(common, "_N_SAMPLES", 16)
        monkeypatch.setattr(common, "_SAMPLE_BYTES", 8)
    source = open_source(path, label(suffix))
    before = source.identity()
    assert before == open_source(path).identity()
    os.utime(path, ns=(0, 12_345))
    assert (source.identity() == before) is whole
    before = source.identity()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(0, 12_345))
    assert source.identity()[0]["sha256"] != before[0]["sha256"]
    path.unlink()
    with pytest.raises(ReplearnError, match="cannot be read: No such file"):
        source.identity()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_are_not_there(tmp_path, suffix):
    with pytest.raises(ReplearnError, match=r"cannot be read: No such file or directory\. Check"):
        read_table(tmp_path / f"t{suffix}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_may_not_be_read(tmp_path, suffix):
    path = write(tmp_path / f"t{suffix}")
    path.chmod(0)
    with pytest.raises(ReplearnError, match="cannot be read: Permission denied"):
        open_source(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_vanish_before_they_are_read(tmp_path, suffix):
    path = write(tmp_path / f"t{suffix}")
    source = open_source(path, label(suffix))
    path.unlink()
    with pytest.raises(ReplearnError, match="cannot be read: No such file"):
        list(source.pieces())


def test_unknown_format(tmp_path):
    with pytest.raises(ReplearnError, match=r"must end in one of \.npz, \.csv.* Convert it"):
        read_table(tmp_path / "t.xlsx")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(
        ReplearnError, match=r"must be a file or a folder\. Copy it to a file first"
    ):
        open_source(tmp_path / "t.csv")


def test_rows_are_counted_from_0(tmp_path):
    source = open_source(write(tmp_path / "t.csv"))
    with pytest.raises(ReplearnError, match=r"start must be a row, counted from 0, got -1"):
        next(source.pieces(start=-1))


def test_number_of_features(tmp_path):
    path = write(tmp_path / "t.parquet")
    assert open_source(path, "y", n_features=3).n_features == 3
    with pytest.raises(ReplearnError, match=r"must have 2 feature columns, .* got 3"):
        open_source(path, "y", n_features=2)


# ---------------------------------------------------------------- folders


@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if suffix != ".npz"])
def test_folders_are_read_in_the_order_of_their_names(tmp_path, suffix):
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    for name, start in (("b", 100), ("a", 0), ("c", 300)):
        write(folder / f"{name}{suffix}", start, {0: 100, 100: 300, 300: 400}[start])
    for name in (".hidden", "_SUCCESS", "_metadata.txt"):
        (folder / name).write_text("?")
    source = open_source(folder, label(suffix))
    assert [os.path.basename(path)[0] for path in source.paths] == ["a", "b", "c"]
    pieces = list(source.pieces())
    assert [piece.first_row for piece in pieces] == [0, 100, 300]
    assert np.array_equal(np.concatenate([dense(piece.X) for piece in pieces]), X)
    assert np.concatenate([piece.y for piece in pieces]).astype(int).tolist() == Y.tolist()
    later = list(source.pieces(start=250))
    assert [piece.first_row for piece in later] == [250, 300]
    assert np.array_equal(np.concatenate([dense(piece.X) for piece in later]), X[250:])
    assert [file["name"][0] for file in source.identity()] == ["a", "b", "c"]


def test_compressed_and_plain_files_in_one_folder(tmp_path):
    write(tmp_path / "a.csv", 0, 100)
    write(tmp_path / "b.csv.gz", 100, 400)
    assert np.array_equal(read_table(tmp_path, "y").X, X)


def test_bad_cells_in_folders(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,p\n2,q\n")
    (tmp_path / "b.csv").write_text('"a",y\n3,p\nx,q\n')
    with pytest.raises(ReplearnError, match=r"b\.csv, line 3, column 'a' must be a finite number"):
        read_table(tmp_path, "y")


def test_folders_without_rows(tmp_path):
    with pytest.raises(ReplearnError, match=r"must hold files with rows, got an empty folder"):
        open_source(tmp_path)
    (tmp_path / ".hidden").write_text("")
    with pytest.raises(ReplearnError, match=r"must hold files with rows, got an empty folder"):
        open_source(tmp_path)


@pytest.mark.parametrize("other", ["b.parquet", "b.txt", "a.txt", "b.svm"])
def test_folders_of_mixed_formats(tmp_path, other):
    write(tmp_path / "aa.csv")
    (tmp_path / other).write_text("")
    with pytest.raises(ReplearnError, match=r"must hold files of one format, got 'aa?\..*' and"):
        open_source(tmp_path)


def test_nested_folders(tmp_path):
    write(tmp_path / "a.csv")
    (tmp_path / "year=2020").mkdir()
    with pytest.raises(ReplearnError, match=r"must hold files only, got the folder 'year=2020'"):
        open_source(tmp_path)


def test_folders_of_archives(tmp_path):
    write(tmp_path / "a.npz")
    assert np.array_equal(read_table(tmp_path).X, X)
    write(tmp_path / "b.npz")
    with pytest.raises(
        ReplearnError, match=r"must hold one \.npz file, since it is read as a whole"
    ):
        open_source(tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_with_other_columns(tmp_path, suffix):
    write(tmp_path / f"a{suffix}")
    if suffix == ".csv":
        (tmp_path / "b.csv").write_text("b,a,c,y\n1,2,3,4\n")
    else:
        pq.write_table(
            pa.table({"b": [1.0], "a": [1.0], "c": [1.0], "y": [1]}), tmp_path / "b.parquet"
        )
    message = r"b\.(csv|parquet) must have the columns of .*a\.(csv|parquet) in the same order, 'a'"
    with pytest.raises(ReplearnError, match=message):
        open_source(tmp_path, "y")


# ---------------------------------------------------------------- reading ahead


def test_items_are_made_ahead_one_at_a_time():
    made: list[int] = []
    wait = threading.Event()

    def items():
        for i in range(5):
            made.append(i)
            if i == 2:
                wait.set()
            yield i

    reader = ahead(items())
    assert next(reader) == 0
    assert next(reader) == 1
    assert wait.wait(10)  # 2 is being made, though nobody has asked for it
    assert made == [0, 1, 2]
    assert list(reader) == [2, 3, 4]


def test_errors_come_out_in_their_place():
    def items():
        yield 1
        yield 2
        raise ReplearnError("broken")

    reader = ahead(items())
    assert next(reader) == 1
    assert next(reader) == 2
    with pytest.raises(ReplearnError, match="broken"):
        next(reader)
    assert list(reader) == []


def hundred(closed):
    """Items that say when they are closed."""
    try:
        yield from range(100)
    finally:
        closed.set()


@pytest.mark.parametrize("n_ahead", [1, 3])
@pytest.mark.parametrize("n_taken", [0, 1, 3])
def test_closing_ends_the_thread_and_the_items(n_taken, n_ahead, no_thread_left):
    closed = threading.Event()
    reader = ahead(hundred(closed), n_ahead)
    for expected in range(n_taken):
        assert next(reader) == expected
    reader.close()
    assert closed.is_set() == (n_taken > 0)


def test_a_reader_that_is_garbage_waits_for_no_thread(monkeypatch):
    """The collector may run in a thread that is just starting, which a join would wait for."""
    joined = []
    monkeypatch.setattr(threading.Thread, "join", lambda *arguments: joined.append(arguments))
    closed = threading.Event()
    reader = ahead(hundred(closed))
    assert next(reader) == 0
    cycle = [reader]
    cycle.append(cycle)
    del reader, cycle
    gc.collect()
    assert closed.is_set()
    assert not joined
