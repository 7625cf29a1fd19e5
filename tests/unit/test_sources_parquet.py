"""Parquet files: all types of numbers and text, piece by piece, with little memory."""

import os
import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.errors import ReplearnError
from replearn.sources import open_source, parquet_files, read_columns, read_table
from replearn.sources.parquet_files import Part

N = 5_000
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(N, 3))
LABELS = np.array(["ill", "well"], dtype=object)[RNG.integers(0, 2, N)]


def parquet(folder, table=None, name="t.parquet", **options):
    path = folder / name
    if table is None:
        table = {"a": VALUES[:, 0], "b": VALUES[:, 1], "y": LABELS, "c": VALUES[:, 2]}
    pq.write_table(pa.table(table), path, **options)
    return path


@pytest.fixture
def small_batches(monkeypatch):
    """Batches of 300 rows, so that small files have many of them."""
    monkeypatch.setattr(parquet_files, "rows_per_batch", lambda n_columns: 300)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "T.PARQUET"])
def test_table(tmp_path, name):
    table = read_table(parquet(tmp_path, name=name), target="y")
    assert table.names == ("a", "b", "c")
    assert table.X.tobytes() == VALUES.tobytes()
    assert table.y.tolist() == LABELS.tolist()
    assert read_table(tmp_path / name, columns=["c", "a"]).X.tolist() == VALUES[:, [2, 0]].tolist()


TYPES = {
    "int8": (pa.array([1, -2, 127], pa.int8()), [1, -2, 127]),
    "uint64": (pa.array([0, 1, 2**64 - 1], pa.uint64()), [0, 1, 2.0**64]),
    "int64": (pa.array([0, 2**53 + 1, -1], pa.int64()), [0, 2.0**53, -1]),
    "half": (pa.array(np.array([0.5, 1, -2], np.float16)), [0.5, 1, -2]),
    "single": (pa.array(np.array([0.1, 1, -2], np.float32)), [np.float32(0.1), 1, -2]),
    "double": (pa.array([0.1, 5e-324, -0.0]), [0.1, 5e-324, -0.0]),
    "boolean": (pa.array([True, False, True]), [1, 0, 1]),
    "decimal": (
        pa.array([Decimal("0.1000"), Decimal("-12345678901234567.8901"), Decimal("0")]),
        [0.1, -12345678901234567.8901, 0],
    ),
    "wide decimal": (
        pa.array([Decimal("0.3"), Decimal(10) ** 40, Decimal("7")], pa.decimal256(60, 10)),
        [0.3, 1e40, 7],
    ),
    "dictionary": (pa.array([5, 7, 5]).dictionary_encode(), [5, 7, 5]),
}


@pytest.mark.parametrize("kind", TYPES)
def test_types_of_numbers(tmp_path, kind):
    column, expected = TYPES[kind]
    table = read_table(parquet(tmp_path, {"a": column, "b": [1.5, 2.5, 3.5]}))
    assert table.X.dtype == np.float64
    assert table.X[:, 0].tobytes() == np.array(expected, dtype=np.float64).tobytes()
    assert table.X[:, 1].tolist() == [1.5, 2.5, 3.5]


@pytest.mark.parametrize(
    ("kinds", "expected"), [("ff", "f"), ("ef", "f"), ("fd", "d"), ("fi", "d")]
)
def test_short_floats_stay_short(tmp_path, kinds, expected):
    columns = {str(i): np.array([1, 2], dtype=kind) for i, kind in enumerate(kinds)}
    source = open_source(parquet(tmp_path, columns))
    (piece,) = source.pieces()
    assert piece.X.dtype == np.dtype(expected)
    assert source.nbytes == piece.X.nbytes


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (pa.array([1, 0], pa.int8()), [1, 0]),
        (pa.array([1.5, 0]), [1.5, 0.0]),
        (pa.array([True, False]), [True, False]),
        (pa.array(["p", "q"]), ["p", "q"]),
        (pa.array(["p", "q"]).dictionary_encode(), ["p", "q"]),
        (pa.array(["p", "q"], pa.large_string()), ["p", "q"]),
        (pa.array([1, 2]).dictionary_encode(), [1, 2]),
    ],
    ids=str,
)
def test_labels(tmp_path, labels, expected):
    source = open_source(parquet(tmp_path, {"a": [1.0, 2.0], "y": labels}), target="y")
    (piece,) = source.pieces()
    assert piece.y.tolist() == expected
    assert [type(label) for label in piece.y.tolist()] == [type(label) for label in expected]


# ---------------------------------------------------------------- piece by piece


@pytest.mark.parametrize("group", [64, 1000, N])
@pytest.mark.parametrize("start", [0, 1, 999, 1000, 3456, N - 1, N, N + 5])
def test_pieces_from_a_row_on(tmp_path, group, start, small_batches):
    source = open_source(parquet(tmp_path, row_group_size=group), target="y")
    source = pickle.loads(pickle.dumps(source))
    shares: list[float] = []
    pieces = list(source.pieces(start, shares.append))
    assert all(0 < len(piece.y) <= 300 for piece in pieces)
    places = start + np.cumsum([0, *(len(piece.y) for piece in pieces)])
    assert [piece.first_row for piece in pieces] == places[:-1].tolist()
    assert np.array_equal(
        np.concatenate([np.empty((0, 3)), *(piece.X for piece in pieces)]), VALUES[start:]
    )
    assert [label for piece in pieces for label in piece.y] == LABELS[start:].tolist()
    assert shares == sorted(shares)
    assert shares[-1:] == [1.0][: start < N]


def test_rows_before_the_start_are_not_read(tmp_path):
    """Damage to the first row groups does not matter to who reads the last one."""
    path = parquet(tmp_path, row_group_size=1000, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    end = pq.ParquetFile(path).metadata.row_group(3).column(0).data_page_offset
    content[4:end] = b"\xff" * (end - 4)
    path.write_bytes(content)
    source = open_source(path, columns=["a"])
    (piece,) = source.pieces(start=4000)
    assert np.array_equal(piece.X[:, 0], VALUES[4000:, 0])
    with pytest.raises(ReplearnError, match="cannot be read"):
        list(source.pieces())


def test_what_is_known_before_reading(tmp_path):
    source = open_source(parquet(tmp_path, row_group_size=2000), target="y")
    assert (source.names, source.n_features, source.n_rows) == (("a", "b", "c"), 3, N)
    assert (source.sparse, source.nbytes, source.in_memory_only) == (False, N * 3 * 8, False)
    path = str(tmp_path / "t.parquet")
    assert source.parts() == (Part(path, 0, 2000), Part(path, 1, 2000), Part(path, 2, 1000))
    assert source.place == path
    (identity,) = source.identity()
    assert identity["name"] == "t.parquet"
    assert identity["size"] == os.stat(path).st_size
    assert len(identity["sha256"]) == 64


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (10, 250), (299, 301), (0, 2000)])
def test_parts(tmp_path, start, stop, small_batches):
    source = open_source(parquet(tmp_path, row_group_size=2000), target="y")
    part = pickle.loads(pickle.dumps(source.parts()[1]))
    rows = list(range(start, stop))
    for labels_only in (False, True):
        found = list(source.part_pieces(part, start, stop, labels_only))
        assert [row for piece in found for row in places(piece)] == rows
        y = [label for piece in found for label in piece.y]
        assert y == LABELS[2000 + start : 2000 + stop].tolist()
        if labels_only:
            assert all(piece.X is None for piece in found)
        elif rows:
            X = np.concatenate([piece.X for piece in found])
            assert np.array_equal(X, VALUES[2000 + start : 2000 + stop])


def places(piece):
    return range(piece.first_row, piece.first_row + len(piece.y))


def test_parts_that_are_not_there(tmp_path):
    source = open_source(parquet(tmp_path), columns=["a"])
    (part,) = source.parts()
    with pytest.raises(ReplearnError, match="within 0 and 5000, got 4999 to 5001"):
        next(source.part_pieces(part, 4999, 5001))
    with pytest.raises(ReplearnError, match="labels are asked for without a target"):
        next(source.part_pieces(part, 0, 1, labels_only=True))


def test_batches_can_be_put_in_any_order(tmp_path):
    source = open_source(parquet(tmp_path), target="y")
    (batch,) = source.batches()
    order = RNG.permutation(N)
    piece = source.parse(batch.take(pa.array(order)), 0)
    assert np.array_equal(piece.X, VALUES[order])
    assert piece.y.tolist() == LABELS[order].tolist()


def test_raw_batches_are_as_in_the_file(tmp_path, small_batches):
    table = pa.table(
        {
            "s": pa.array(["a", None, "b"] * 400),
            "l": pa.array([[1, 2], [], None] * 400),
            "t": pa.array(np.arange(1200).astype("datetime64[s]")),
            "d": pa.array(["u", "v", None] * 400).dictionary_encode(),
            "b": pa.array([b"\xff", b"", None] * 400),
            "n": pa.array([1.5, None, float("nan")] * 400),
        }
    )
    source = open_source(parquet(tmp_path, table, row_group_size=500), target="no matter", raw=True)
    batches = list(source.batches())
    assert max(batch.num_rows for batch in batches) <= 300
    read = pa.Table.from_batches(batches)
    assert read.schema.equals(pq.read_table(tmp_path / "t.parquet").schema)
    assert str(read.to_pylist()) == str(table.to_pylist())


def test_batches_are_as_long_as_what_is_read_of_their_rows_allows(tmp_path):
    columns = {f"c{i}": np.zeros(600) for i in range(1000)}
    text = {"long": [f"{i:0200000d}" for i in range(600)]}
    path = parquet(tmp_path, {**columns, **text}, use_dictionary=False)

    def batch_rows(**options):
        return max(batch.num_rows for batch in open_source(path, **options).batches())

    assert batch_rows(columns=["c1", "c2"]) == 600
    assert 100 < batch_rows(columns=["c1"], target="long") < 350  # of 200 kB each
    assert 100 < batch_rows(raw=True) < 350


def test_early_end_of_reading(tmp_path, small_batches, no_thread_left):
    pieces = open_source(parquet(tmp_path), target="y").pieces()
    next(pieces)
    pieces.close()


# ---------------------------------------------------------------- memory

_PEAK = """
import resource, sys
import pyarrow.parquet
from replearn.sources import open_source
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
options = {"raw": True} if sys.argv[2] == "raw" else {"columns": sys.argv[2].split(",")}
source = open_source(sys.argv[1], **options)
n_rows = sum(batch.num_rows for batch in source.batches())
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, n_rows)
"""


def peak(path, columns):
    """Mebibytes that reading takes in a process of its own, and rows that were read."""
    run = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path), columns],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    return [int(number) for number in run.stdout.split()]


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory of a process")
def test_memory_does_not_grow_with_the_rows_of_a_row_group(tmp_path):
    n_rows = 2_000_000  # 122 MiB as numbers, in one row group
    names = [f"c{i}" for i in range(8)]
    numbers = RNG.normal(size=n_rows)
    path = parquet(tmp_path, dict.fromkeys(names, numbers), row_group_size=n_rows)
    used, n_read = peak(path, ",".join(names))
    assert n_read == n_rows
    assert used < 100


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="peak memory of a process")
def test_a_long_text_in_many_rows_takes_little_memory(tmp_path):
    n_rows = 20_000  # 2 GB if written out
    places = pa.array(np.zeros(n_rows, np.int32))
    long = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 100_000]))
    path = parquet(tmp_path, {"a": np.zeros(n_rows), "s": long}, store_schema=False)
    assert path.stat().st_size < 1_000_000
    used, n_read = peak(path, "raw")
    assert n_read == n_rows
    assert used < 600


# ---------------------------------------------------------------- encodings and raw columns

ENCODING = Encoding(
    (
        CategoryColumn("site", ("1", "north", "True")),
        NumberColumn("age", "50", "10", fill_missing=True),
        NumberColumn("dose", "0", "2"),
    )
)
SITES = {
    "text": (pa.array(["1.0", "north", None, "true", " "]), [0, 1, None, 2, None]),
    "dictionary": (
        pa.array(["1", "north", None, "x", ""]).dictionary_encode(),
        [0, 1] + [None] * 3,
    ),
    "integers": (pa.array([1, 2, None, 1, 1]), [0, None, None, 0, 0]),
    "floats": (pa.array([1, 1.5, None, float("nan"), 1]), [0, None, None, None, 0]),
    "booleans": (pa.array([True, False, None, True, True]), [2, None, None, 2, 2]),
    "nothing": (pa.nulls(5), [None] * 5),
}


@pytest.mark.parametrize("kind", SITES)
def test_encoding(tmp_path, kind):
    site, places = SITES[kind]
    age = pa.array([60, None, 40, float("nan"), 50])
    path = parquet(tmp_path, {"age": age, "site": site, "dose": [2, 4, 6, 8, 10], "y": [0] * 5})
    source = open_source(path, target="y", encoding=ENCODING)
    assert source.names == ENCODING.output_names
    (piece,) = source.pieces()
    assert piece.X.flags.c_contiguous
    assert piece.X[:, 3:].tolist() == [[1, 1], [0, 2], [-1, 3], [0, 4], [0, 5]]
    assert piece.X[:, :3].tolist() == [[float(i == place) for i in range(3)] for place in places]
    columns, _ = read_columns(path, "y")
    assert np.array_equal(ENCODING.transform(columns), piece.X)


def test_raw_columns(tmp_path):
    columns = {
        "i": pa.array([1, 2, 3]),
        "n": pa.array([1, None, 3]),
        "b": pa.array([True, False, True]),
        "m": pa.array([True, None, False]),
        "s": pa.array(["p", None, " "]),
        "y": pa.array(["u", "v", "u"]),
    }
    found, y = read_columns(parquet(tmp_path, columns), target="y")
    assert found["i"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(found["n"], [1, np.nan, 3])
    assert found["b"].dtype == bool
    assert found["m"].tolist() == [True, None, False]
    assert found["s"].tolist() == ["p", None, None]
    assert y.tolist() == ["u", "v", "u"]
    assert read_columns(tmp_path / "t.parquet", categories=["i"])[0]["i"].dtype == object


# ---------------------------------------------------------------- what is refused

FINITE = "column 'a' must be a finite number, got"
LABEL = "column 'y' must hold a label, got"
NUMBERS = "column 'a' must hold numbers, got"

BAD = {
    "null": (
        {"a": [1.0, None]},
        rf"row 1 \(counted from 0\), {FINITE} a missing value\. Correct it, .* plan --pilot\)",
    ),
    "nan": ({"a": [1.0, float("nan")]}, rf"row 1 .* {FINITE} nan"),
    "inf": ({"a": [1.0, float("-inf")]}, rf"row 1 .* {FINITE} -inf"),
    "null integer": ({"a": [None, 1]}, rf"row 0 .* {FINITE} a missing value"),
    "null boolean": ({"a": [None, True]}, rf"row 0 .* {FINITE} a missing value"),
    "only nulls": ({"a": pa.nulls(2)}, rf"row 0 .* {FINITE} a missing value"),
    "text": ({"a": ["x", "y"]}, rf"{NUMBERS} string\. Leave it out, or make a protocol"),
    "time": ({"a": np.zeros(2, "datetime64[s]")}, rf"{NUMBERS} timestamp.*\. Leave it out, or co"),
    "lists": ({"a": [[1.0], [2.0]]}, rf"{NUMBERS} list.*\. Leave it out, or convert"),
    "bytes": ({"a": [b"a", b"b"]}, rf"{NUMBERS} binary"),
    "no label": (
        {"a": [1, 2], "y": ["p", None]},
        rf"row 1 .* {LABEL} a missing value\. Fill it in",
    ),
    "no boolean": ({"a": [1, 2], "y": [True, None]}, rf"row 1 .* {LABEL} a missing value"),
    "blank label": ({"a": [1, 2], "y": [" ", "p"]}, rf"row 0 .* {LABEL} ' '"),
    "nan label": ({"a": [1, 2], "y": [1.0, float("nan")]}, rf"row 1 .* {LABEL} nan"),
    "lists of labels": (
        {"a": [1, 2], "y": [[1], [2]]},
        r"column 'y' must hold labels, numbers or text, got list",
    ),
    "no rows": ({"a": pa.array([], pa.float64())}, r"must have rows, got none"),
    "no column": ({"b": [1.0]}, r"has no column 'a'; its columns are 'b'"),
    "no name": ({"": [1.0], "a": [1.0]}, r"must name every column, but column 1 has no name"),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_tables(tmp_path, problem):
    table, message = BAD[problem]
    path = parquet(tmp_path, table)
    with pytest.raises(ReplearnError, match=message) as caught:
        read_table(path, target="y" if "y" in table else None, columns=["a"])
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_the_same_name_twice(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(ReplearnError, match="must have different column names, got 'a' twice"):
        open_source(parquet(tmp_path, table))


BAD_FOR_THE_PROTOCOL = {
    "missing": ({"dose": [1, None]}, r"row 1 .*, column 'dose' must not be missing, since the"),
    "infinite": (
        {"dose": [1, float("inf")]},
        r"row 1 .*, column 'dose' must be a finite number, as",
    ),
    "text": ({"dose": ["1", "2"]}, r"column 'dose' must hold numbers, got string\. Convert it, or"),
    "times": (
        {"site": np.zeros(2, "datetime64[s]")},
        r"'site' must hold numbers or text, got times",
    ),
}


@pytest.mark.parametrize("problem", BAD_FOR_THE_PROTOCOL)
def test_bad_for_the_protocol(tmp_path, problem):
    changed, message = BAD_FOR_THE_PROTOCOL[problem]
    table = {"age": [1.0, 2.0], "site": ["a", "b"], "dose": [1.0, 2.0]} | changed
    with pytest.raises(ReplearnError, match=message):
        list(open_source(parquet(tmp_path, table), encoding=ENCODING).pieces())


def test_bad_rows_are_named_wherever_they_are(tmp_path, small_batches):
    bad = VALUES[:, 0].copy()
    bad[4321] = np.nan
    path = parquet(tmp_path, {"a": bad}, row_group_size=1500)
    with pytest.raises(ReplearnError, match=r"row 4321 \(counted from 0\), column 'a' .* got nan"):
        list(open_source(path).pieces())
    source = open_source(path)
    with pytest.raises(ReplearnError, match=r"row 4321 \(counted from 0\), column 'a' .* got nan"):
        list(source.part_pieces(source.parts()[2], 1000, 1500))
    assert sum(len(piece.X) for piece in source.part_pieces(source.parts()[2], 0, 1000)) == 1000


def test_files_that_are_not_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    for content in (b"", b"PAR1", b"PAR1" * 5, b"a,b\n1,2\n", os.urandom(100)):
        path.write_bytes(content)
        with pytest.raises(
            ReplearnError, match=r"t\.parquet cannot be read: .*Check the path"
        ) as e:
            open_source(path)
        assert "\n" not in str(e.value)


def test_damaged_files(tmp_path):
    """Whatever is wrong with the bytes, it is said in one line."""
    table = {"a": VALUES[:50, 0], "s": LABELS[:50], "i": np.arange(50), "n": [None, True] * 25}
    path = parquet(tmp_path, table, row_group_size=20)
    content, rng = path.read_bytes(), np.random.default_rng(1)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        damaged[-rng.integers(1, len(content))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_columns(path, "s")
        except ReplearnError:  # and nothing else
            refused += 1
    assert refused > 50


def test_cut_off_files(tmp_path):
    path = parquet(tmp_path, {"a": [1.0, 2.0]})
    content = path.read_bytes()
    for size in range(0, len(content), 11):
        path.write_bytes(content[:size])
        with pytest.raises(ReplearnError, match="cannot be read"):
            open_source(path)


def test_without_arrow(tmp_path, monkeypatch):
    path = parquet(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ReplearnError, match=r'needs pyarrow, .* pip install "replearn\[data\]"'):
        open_source(path)


# ---------------------------------------------------------------- folders of files


def test_types_may_differ_between_files(tmp_path, small_batches):
    """Programs write a column in another type if a file has missing values or none but them."""
    files = [
        {"n": pa.array([1, 2]), "s": pa.array(["a", "b"]), "f": pa.array([1.5, 2])},
        {"n": pa.array([3.5, 4]), "s": pa.array(["a"] * 2).dictionary_encode(), "f": pa.nulls(2)},
        {
            "n": pa.array([5, 6], pa.int8()),
            "s": pa.nulls(2),
            "f": pa.array([1.0, 1.0], pa.float32()),
        },
    ]
    for i, table in enumerate(files):
        parquet(tmp_path, table, name=f"{i}.parquet")
    encoding = Encoding(
        (
            NumberColumn("n", "0", "1"),
            NumberColumn("f", "0", "1", True),
            CategoryColumn("s", ("a",)),
        )
    )
    source = open_source(tmp_path, encoding=encoding)
    assert len({str(batch.schema) for batch in source.batches()}) == 1
    X = np.concatenate([piece.X for piece in source.pieces()])
    assert X.tolist() == [[1, 1.5, 1], [2, 2, 0], [3.5, 0, 1], [4, 0, 1], [5, 1, 0], [6, 1, 0]]
    with pytest.raises(
        ReplearnError, match=r"1\.parquet, column 'n' must have the type int64, as in"
    ):
        open_source(tmp_path, raw=True)


def test_types_that_have_nothing_in_common(tmp_path):
    parquet(tmp_path, {"a": [1.0], "y": [True]}, name="0.parquet")
    parquet(tmp_path, {"a": [1.0], "y": [1]}, name="1.parquet")
    with pytest.raises(
        ReplearnError, match=r"1\.parquet, column 'y' must have the type bool, as in"
    ):
        open_source(tmp_path, target="y")


def test_bad_rows_of_folders_are_counted_in_their_file(tmp_path):
    parquet(tmp_path, {"a": VALUES[:100, 0]}, name="0.parquet")
    parquet(tmp_path, {"a": [1.0, None]}, name="1.parquet")
    source = open_source(tmp_path)
    with pytest.raises(ReplearnError, match=r"1\.parquet, row 1 \(counted from 0\), column 'a'"):
        list(source.pieces())
    with pytest.raises(ReplearnError, match=r"1\.parquet, row 1 \(counted from 0\), column 'a'"):
        list(source.part_pieces(source.parts()[1], 0, 2))
