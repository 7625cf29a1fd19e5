"""NumPy archives: what is in them comes out, and what they declare is not believed."""

import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from replearn.codes.encoding import Encoding, NumberColumn
from replearn.errors import ReplearnError
from replearn.sources import open_source, read_columns, read_table

X = np.array([[63, 0.5], [41, -1e-3], [50, 2]])


def npz_file(folder, **arrays):
    path = folder / "t.npz"
    np.savez(path, **arrays)
    return path


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


def test_integers_become_floats(tmp_path):
    X = read_table(npz_file(tmp_path, X=np.array([[1, 2], [3, 250]], np.uint8))).X
    assert X.dtype == np.float64
    assert X.tolist() == [[1, 2], [3, 250]]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [">f8", "<f4", "<f2", ">i4", "|b1"])
def test_rows_are_contiguous_floats_of_this_machine(tmp_path, kind, order):
    values = np.array([[1, 0], [0, 1], [1, 1]], dtype=kind, order=order)
    X = read_table(npz_file(tmp_path, X=values)).X
    assert X.flags.c_contiguous
    assert X.dtype == (np.float32 if kind in ("<f4", "<f2") else np.float64)
    assert X.dtype.isnative
    assert X.tolist() == values.tolist()


def test_pieces_are_slices_of_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=(300_000, 2)), rng.integers(0, 2, 300_000)
    source = open_source(npz_file(tmp_path, X=values, y=labels))
    assert (source.in_memory_only, source.n_rows, source.n_features) == (True, 300_000, 2)
    assert (source.sparse, source.nbytes, source.target) == (False, values.nbytes, "y")
    shares: list[float] = []
    pieces = list(source.pieces(start=100_001, watch=shares.append))
    assert [piece.first_row for piece in pieces] == [100_001, 100_001 + 2**17]
    assert np.array_equal(np.concatenate([piece.X for piece in pieces]), values[100_001:])
    assert np.array_equal(np.concatenate([piece.y for piece in pieces]), labels[100_001:])
    assert shares[-1] == 1.0
    with pytest.raises(ReplearnError, match=r"read as a whole and has no batches\. Use its pieces"):
        next(source.batches())


def test_sparse_pieces(tmp_path):
    S = sp.random_array((50, 6), density=0.3, rng=np.random.default_rng(0), format="csr")
    parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr}
    source = open_source(npz_file(tmp_path, **parts, shape=S.shape, y=np.arange(50)))
    assert (source.sparse, source.nbytes, source.n_features) == (True, None, 6)
    (piece,) = source.pieces(start=10)
    assert (piece.X.toarray() == S.toarray()[10:]).all()
    columns, y = read_columns(tmp_path / "t.npz")
    assert sp.issparse(columns)
    assert (columns.toarray() == S.toarray()).all()
    assert y.tolist() == list(range(50))


def test_encoding_takes_columns_by_name_or_by_place(tmp_path):
    named = npz_file(tmp_path, X=X, feature_names=np.array(["age", "dose"]))
    encoding = Encoding((NumberColumn("dose", "1", "2"), NumberColumn("age", "0", "10")))
    (piece,) = open_source(named, encoding=encoding).pieces()
    assert piece.X.tolist() == [[(d - 1) / 2, a / 10] for a, d in X.tolist()]
    (piece,) = open_source(npz_file(tmp_path, X=X), encoding=encoding).pieces()
    assert piece.X.tolist() == [[(a - 1) / 2, d / 10] for a, d in X.tolist()]
    with pytest.raises(ReplearnError, match=r"X must have 1 columns, as in the protocol, got 2"):
        open_source(tmp_path / "t.npz", encoding=Encoding(encoding.columns[:1]))


def test_columns_of_a_file_without_names(tmp_path):
    columns, y = read_columns(npz_file(tmp_path, X=X, y=["p", "q", "p"]))
    assert {name: values.tolist() for name, values in columns.items()} == {
        "x0": X[:, 0].tolist(),
        "x1": X[:, 1].tolist(),
    }
    assert y.tolist() == ["p", "q", "p"]


# ---------------------------------------------------------------- what files declare


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def npy(shape, kind="<f8", data=b"", version=b"\x01\x00"):
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    size = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + text + data


def test_arrays_that_are_smaller_than_they_say(tmp_path):
    path = archive(tmp_path / "t.npz", [("X.npy", npy((2**50, 1), data=b"\0" * 8))])
    with pytest.raises(
        ReplearnError, match=r"'X' must be as large as it says, got .* bytes instead"
    ):
        open_source(path)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    from replearn.sources import npz_files

    monkeypatch.setattr(npz_files, "_machine_memory", lambda: 10_000)
    path = archive(tmp_path / "t.npz", [("X.npy", npy((10_000, 1)) + b"\0" * 80_000)])
    source = open_source(path)
    assert source.n_rows == 10_000
    with pytest.raises(ReplearnError, match=r"needs 0\.0 GiB of memory.* Write the rows as a Parq"):
        next(source.pieces())


BAD_MEMBERS = {
    "twice": ([("X.npy", npy((1, 1), data=b"\0" * 8))] * 2, "'X' is in it twice"),
    "no array": ([("X.npy", b"hello, this is no array")], "'X' is no array"),
    "new version": ([("X.npy", npy((1, 1), version=b"\x09\x00"))], "'X' is no array"),
    "long header": ([("X.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f")], "header of 2,147,483,647"),
    "words": ([("X.npy", npy("many"))], "'X' has the header"),
    "a very long shape": ([("X.npy", npy((1,) * 2000))], "header of|rows and columns"),
    "cut off": ([("X.npy", npy((1, 1))[:30])], "must be a NumPy archive"),
    "objects": ([("X.npy", npy((1, 1), kind="|O"))], r"'X' has the type '\|O'"),
    "fields": ([("X.npy", npy((1, 1), kind=[("a", "<f8")]))], "'X' has the header"),
    "complex": ([("X.npy", npy((1, 1), kind="<c16", data=b"\0" * 16))], "'X' has the type '<c16'"),
    "negative": ([("X.npy", npy((-1, 1)))], "'X' has the header"),
    "shape of floats": ([("X.npy", npy((1.5, 1)))], "'X' has the header"),
    "booleans": ([("X.npy", npy((True, 1)))], "'X' has the header"),
}


@pytest.mark.parametrize("problem", BAD_MEMBERS)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_bad_members(tmp_path, problem):
    members, message = BAD_MEMBERS[problem]
    path = archive(tmp_path / "t.npz", members)
    with pytest.raises(ReplearnError, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_unusual_compression_is_refused(tmp_path):
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("X.npy", npy((1, 1), data=b"\0" * 8))
    with pytest.raises(ReplearnError, match="'X' is compressed in an unusual way"):
        read_table(path)


def test_cut_off_archives(tmp_path):
    path = npz_file(tmp_path, X=X, y=[1, 0, 1])
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(ReplearnError, match=r"t\.npz (must be|cannot be read)"):
            read_table(path)


def test_damaged_archives(tmp_path):
    path = npz_file(tmp_path, X=X, y=[1, 0, 1])
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = content.copy()
        damaged[rng.integers(len(content))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_table(path)
        except ReplearnError:  # and nothing else
            refused += 1
    assert refused > 150
