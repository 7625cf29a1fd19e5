"""Files to arrays: what is in them comes out, and what cannot be read is named."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from replearn.errors import ReplearnError
from replearn.sources import FORMATS, read_table

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


def npz_file(folder, **arrays):
    path = folder / "t.npz"
    np.savez(path, **arrays)
    return path


# ---------------------------------------------------------------- comma-separated text


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
    assert len(shares) == 4
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] <= 1


BAD_CSV = {
    "empty file": ("", r"must have a header row, got an empty file\. Check the path"),
    "header only": ("a,y\n", r"must have rows below its header, got none\. Check"),
    "text": (
        "a,y\n1,p\nx,q\n",
        r"line 3, column 'a' must be a finite number, got 'x'\. Correct it, or leave out",
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
    "not text": (b"a,y\n\xff\xfe,p\n", r"must be UTF-8 text, got the byte 0xff near line 1"),
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


# ---------------------------------------------------------------- NumPy archives


def test_npz(tmp_path):
    names = np.array(["a", "b"])
    path = npz_file(tmp_path, X=X.astype(np.float32), y=[1, 0, 1], feature_names=names)
    table = read_table(path)
    assert np.array_equal(table.X, X.astype(np.float32))
    assert table.X.dtype == np.float32
    assert table.y.tolist() == [1, 0, 1]
    assert table.names == ("a", "b")
    assert read_table(path, columns=["b"]).X.tolist() == X.astype(np.float32)[:, [1]].tolist()


def test_npz_with_another_label_array(tmp_path):
    path = npz_file(tmp_path, X=X, digit=[3, 8, 3])
    assert read_table(path, target="digit").y.tolist() == [3, 8, 3]
    assert read_table(path).y is None


@pytest.mark.parametrize("index", [np.uint16, np.int32, np.int64])
def test_csr(tmp_path, index):
    S = sp.csr_array(X * (X > 0))
    parts = {"data": S.data, "indices": S.indices.astype(index), "indptr": S.indptr}
    table = read_table(npz_file(tmp_path, **parts, shape=S.shape, y=[1, 0, 1]))
    assert sp.issparse(table.X)
    assert (table.X.toarray() == S.toarray()).all()


def test_what_scipy_saves(tmp_path):
    path = tmp_path / "t.npz"
    sp.save_npz(path, sp.csr_array(X))
    assert (read_table(path).X.toarray() == X).all()
    sp.save_npz(path, sp.csc_array(X))
    with pytest.raises(ReplearnError, match=r"must hold a valid CSR matrix: the format is .*csc"):
        read_table(path)


def test_counts_become_numbers(tmp_path):
    parts = {"data": np.array([1, 255], np.uint8), "indices": [0, 1], "indptr": [0, 1, 2]}
    table = read_table(npz_file(tmp_path, **parts, shape=(2, 2)))
    assert table.X.dtype.kind == "f"
    assert table.X.toarray().tolist() == [[1, 0], [0, 255]]


CSR = {"data": np.ones(2), "indices": [0, 1], "indptr": [0, 1, 2], "shape": (2, 2)}

BAD_ARRAYS = {
    "nothing": ({"a": X}, r"must hold the array X, or those of a CSR matrix, but 'data' is not"),
    "half a matrix": ({"data": [1.0], "indptr": [0, 1]}, r"but 'indices' is not in it\. Write it"),
    "one dimension": ({"X": X[0]}, r"X must have rows and columns, got the shape \(2,\)"),
    "no rows": ({"X": X[:0]}, r"X must have rows and columns, got the shape \(0, 2\)"),
    "text": ({"X": X.astype(str)}, r"X must hold numbers, got an array of type <U"),
    "nan": ({"X": np.where(X == 41, np.nan, X)}, r"finite numbers, got nan in row 1, column 0"),
    "sparse inf": (CSR | {"data": [1, np.inf]}, r"finite numbers, got inf in row 1, column 1"),
    "labels": ({"X": X, "y": [1, 0]}, r"y must be 3 labels .*, got shape \(2,\)"),
    "names": ({"X": X, "feature_names": ["a"]}, r"feature_names must be 2 strings, .* \(1,\)"),
    "objects": ({"X": np.array([[None]])}, r"named arrays, without pickled objects: .* Write it"),
    "column out of range": (CSR | {"indices": [0, 2]}, r"must hold a valid CSR matrix: "),
    "negative column": (CSR | {"indices": [0, -1]}, r"must hold a valid CSR matrix: "),
    "pointers": (CSR | {"indptr": [0, 9, 2]}, r"must hold a valid CSR matrix: "),
    "too few pointers": (CSR | {"indptr": [0, 2]}, r"must hold a valid CSR matrix: "),
    "shape": (CSR | {"shape": (2, 2, 2)}, r"must hold a valid CSR matrix: "),
}


@pytest.mark.parametrize("problem", BAD_ARRAYS)
def test_bad_arrays(tmp_path, problem):
    arrays, message = BAD_ARRAYS[problem]
    path = npz_file(tmp_path, **arrays)
    with pytest.raises(ReplearnError, match=message) as caught:
        read_table(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_label_array_that_is_not_there(tmp_path):
    with pytest.raises(ReplearnError, match=r"has no array 'label'\. Name the array"):
        read_table(npz_file(tmp_path, X=X), target="label")


def test_a_single_array_and_other_files_called_npz(tmp_path):
    path = tmp_path / "t.npz"
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(
        ReplearnError, match="named arrays, without pickled objects: it is a single array"
    ):
        read_table(path)
    for content in (b"", b"hello", b"PK\x03\x04 cut off"):
        path.write_bytes(content)
        with pytest.raises(ReplearnError, match=r"t\.npz (must be|cannot be read)"):
            read_table(path)


# ---------------------------------------------------------------- any format


def test_unknown_format(tmp_path):
    with pytest.raises(ReplearnError, match=r"must end in one of \.npz, \.csv.* Convert it"):
        read_table(tmp_path / "t.xlsx")


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_that_are_not_there(tmp_path, suffix):
    with pytest.raises(ReplearnError, match=r"cannot be read: No such file or directory\. Check"):
        read_table(tmp_path / f"t{suffix}")


def test_a_folder_is_not_a_table(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(ReplearnError, match="cannot be read: Is a directory"):
        read_table(tmp_path / "t.csv")
