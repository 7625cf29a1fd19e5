"""Sparse rows as text: scikit-learn and the plain reader take the same lines."""

import gzip
import io
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from replearn.codes.encoding import Encoding, NumberColumn
from replearn.errors import ReplearnError
from replearn.sources import open_source, read_columns, read_table, svmlight_files
from replearn.sources.svmlight_files import BadLine, parsed_by_lines, parsed_by_sklearn
from replearn.sources.text import blocks

LINES = b"""# made by hand
+1 1:0.5 3:-2 # a comment with 9:9

-1 2:1e-3
   # nothing here
0.5
1 3:4 1:7
"""
ROWS = [[0.5, 0, -2], [0, 1e-3, 0], [0, 0, 0], [7, 0, 4]]
LABELS = [1, -1, 0.5, 1]


def svm_file(folder, content=LINES, name="t.svm"):
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(svmlight_files, "blocks", lambda path: blocks(path, 2**12))


@pytest.mark.parametrize(
    "name", ["t.svm", "t.svmlight", "t.libsvm", "t.svm.gz", "t.svmlight.gz", "t.libsvm.gz"]
)
def test_table(tmp_path, name):
    table = read_table(svm_file(tmp_path, name=name))
    assert table.names is None
    assert table.X.toarray().tolist() == ROWS
    assert table.y.tolist() == LABELS
    assert table.X.has_canonical_format
    assert table.X.indices.dtype == np.int32


def test_line_endings(tmp_path):
    assert read_table(svm_file(tmp_path, LINES.replace(b"\n", b"\r\n"))).y.tolist() == LABELS
    table = read_table(svm_file(tmp_path, b"\xef\xbb\xbf" + LINES.rstrip()))
    assert table.X.toarray().tolist() == ROWS


def rows_in_a_file(folder, n_rows=3_000, n_columns=40):
    rng = np.random.default_rng(0)
    X = sp.random_array((n_rows, n_columns), density=0.1, rng=rng, format="csr")
    X.data = X.data.round(6)
    y = rng.integers(0, 2, n_rows)
    content = io.BytesIO()
    dump_svmlight_file(X, y, content, zero_based=False, comment="made by a program")
    return svm_file(folder, content.getvalue()), X, y


def test_pieces(tmp_path, small_blocks):
    path, X, y = rows_in_a_file(tmp_path)
    source = pickle.loads(pickle.dumps(open_source(path, n_features=50)))
    assert (source.names, source.n_features, source.n_rows, source.sparse) == (None, 50, None, True)
    assert (source.nbytes, source.header) == (None, b"")
    pieces = list(source.pieces(start=1234))
    assert len(pieces) > 3
    places = 1234 + np.cumsum([0, *(piece.X.shape[0] for piece in pieces)])
    assert [piece.first_row for piece in pieces] == places[:-1].tolist()
    found = sp.vstack([piece.X for piece in pieces])
    assert found.shape == (3_000 - 1234, 50)
    np.testing.assert_array_equal(found.toarray()[:, :40], X.toarray()[1234:])
    assert np.concatenate([piece.y for piece in pieces]).tolist() == y[1234:].tolist()


def test_batches_can_be_put_in_any_order(tmp_path):
    import pyarrow as pa

    path, X, y = rows_in_a_file(tmp_path)
    source = open_source(path)
    (batch,) = source.batches()
    assert batch.num_rows == 3_000  # comments are no rows
    order = np.random.default_rng(1).permutation(3_000)
    piece = source.parse(batch.take(pa.array(order)), 0)
    assert (piece.X.toarray() == X.toarray()[order]).all()
    assert piece.y.tolist() == y[order].tolist()


def test_records_make_a_file_in_any_order(tmp_path):
    source = open_source(svm_file(tmp_path, LINES.rstrip()), raw=True)
    records = [record for batch in source.batches() for record in batch.column(0).to_pylist()]
    assert len(records) == 4
    shuffled = svm_file(tmp_path, source.header + b"".join(records[::-1]))
    assert read_table(shuffled).X.toarray().tolist() == ROWS[::-1]


def test_number_of_columns(tmp_path):
    path = svm_file(tmp_path)
    assert open_source(path).n_features == 3  # not 9, which is in a comment
    assert open_source(path, n_features=7).n_features == 7
    assert open_source(path, columns=["a"] * 5).n_features == 5
    assert read_table(path, n_features=4).X.shape == (4, 4)
    with pytest.raises(ReplearnError, match=r"line 2 must have columns up to 2, .* got column '3'"):
        read_table(path, n_features=2)
    for n_columns in (0, 2**24 + 1):
        with pytest.raises(ReplearnError, match=r"must have 1 to 16,777,216 columns, got"):
            open_source(path, n_features=n_columns)
    with pytest.raises(ReplearnError, match=r"must have 1 to 16,777,216 columns, got 16,777,217"):
        open_source(svm_file(tmp_path, b"1 99999999999999999999999:1\n"))
    with pytest.raises(ReplearnError, match=r"must have 1 to 16,777,216 columns, got 0"):
        open_source(svm_file(tmp_path, b"1\n-1\n"))


def test_labels_have_no_name(tmp_path):
    with pytest.raises(ReplearnError, match=r"labels at the start of each line, got the label col"):
        open_source(svm_file(tmp_path), target="y")


def test_encoding(tmp_path):
    encoding = Encoding(tuple(NumberColumn(f"x{i}", "0", "2") for i in range(4)))
    source = open_source(svm_file(tmp_path), encoding=encoding)
    assert (source.n_features, source.names) == (4, ("x0", "x1", "x2", "x3"))
    (piece,) = source.pieces()
    assert piece.X.toarray().tolist() == [[value / 2 for value in row] + [0] for row in ROWS]
    assert piece.X.indices.dtype == np.int32


def test_raw_columns_are_sparse_rows(tmp_path):
    columns, y = read_columns(svm_file(tmp_path), n_features=4)
    assert columns.shape == (4, 4)
    assert y.tolist() == LABELS


def test_no_rows(tmp_path):
    with pytest.raises(ReplearnError, match=r"must have rows, got none"):
        read_table(svm_file(tmp_path, b"# nothing\n\n"), n_features=3)


BAD = {
    "index 0": (b"1 0:1\n", r"count columns from 1, got column 0\. Add 1 to all columns"),
    "twice": (b"1 2:1 2:3\n", r"have each column once, got 2 twice\. Repair the line"),
    "qid": (b"1 qid:3 1:1\n", r"have no qid, which is for ranking\. Leave it out"),
    "nan": (b"1 1:nan\n", r"have finite numbers, got 'nan'\. Correct it"),
    "inf": (b"1 1:1e999\n", r"have finite numbers, got '1e999'"),
    "label": (b"yes 1:1\n", r"start with a label that is a finite number, got 'yes'"),
    "nan label": (b"nan 1:1\n", r"start with a label that is a finite number, got 'nan'"),
    "two labels": (b"1,2 1:1\n", r"start with a label that is a finite number, got '1,2'"),
    "no label": (b"1:1 2:2\n", r"start with a label that is a finite number, got '1:1'"),
    "no value": (b"1 1:\n", r"have finite numbers, got ''"),
    "no colon": (b"1 5\n", r"have cells like 3:0\.5 \(column, colon, value\) .* got '5'"),
    "no index": (b"1 :5\n", r"have cells like 3:0\.5"),
    "negative": (b"1 -1:5\n", r"have cells like 3:0\.5 .* got '-1:5'"),
    "underscore": (b"1 1:1_0\n", r"have finite numbers, got '1_0'"),
    "underscored index": (b"1 1_0:1\n", r"have cells like 3:0\.5 .* got '1_0:1'"),
    "too large": (
        b"1 11:1\n",
        r"have columns up to 10, .* got column '11'",
    ),
    "far too large": (
        b"1 9999999999999999999:1\n",
        r"have columns up to 10",
    ),
    "zero byte": (b"1 1:1\0 2:2\n", r"have finite numbers, got '1\\x00'"),
    "not text": (b"1 \xff:1\n", r"have cells like 3:0\.5"),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_lines(tmp_path, problem):
    line, message = BAD[problem]
    path = svm_file(tmp_path, b"# first\n\n1 1:1\n" + line + b"1 2:2\n")
    with pytest.raises(ReplearnError, match=rf"t\.svm, line 4 must {message}") as caught:
        list(open_source(path, n_features=10).pieces())
    assert "\n" not in str(caught.value)


def test_bad_lines_are_named_wherever_they_are(tmp_path, small_blocks):
    path, _, _ = rows_in_a_file(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2500] = b"1 1:x\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ReplearnError, match=r"line 2501 must have finite numbers, got 'x'"):
        list(open_source(path, n_features=40).pieces())


NUMBERS = ["1:2", "2:-0", "3:1e400", "3:4.9e-324", "1:nan", "3:.5", "3:5.", "1:0x1", "1:1_0"]
COLUMNS = ["0:1", "+2:1", "02:1", "1_:1", "4:1", "99999999999999999999:1", "-1:1", "\u0663:1"]
OTHERS = [
    "qid:1",
    "#",
    "# 3:3",
    ":",
    "1:",
    ":1",
    "x",
    "1:\u0663",
    "1:1:1",
    "1",
    *"\t\r\v\x1c\0\x85",
]
CELLS = st.sampled_from([*NUMBERS, *COLUMNS, *OTHERS])
LINE = st.tuples(
    st.sampled_from(["1", "-1", "+1", "0.5", " 1", "1e400", "nan", "1_0", "x", "\u0663"]),
    st.lists(CELLS, max_size=4).map(" ".join),
).map(" ".join)


@given(st.lists(LINE, min_size=1, max_size=3))
@example(["1 3:1 1:2"])
def test_scikit_learn_takes_nothing_that_is_taken_otherwise_here(lines):
    rows = [line.encode() + b"\n" for line in lines]
    fast = parsed_by_sklearn(rows, 3)
    try:
        slow = parsed_by_lines(rows, 3)
    except BadLine:
        assert fast is None
        return
    if fast is not None:
        for name in ("data", "indices", "indptr"):
            assert getattr(fast[0], name).dtype == getattr(slow[0], name).dtype
            assert getattr(fast[0], name).tobytes() == getattr(slow[0], name).tobytes()
        assert fast[1].tobytes() == slow[1].tobytes()


def test_plain_lines_go_the_fast_way():
    assert parsed_by_sklearn([b"1 1:2 3:4\n"], 3) is not None
