"""One meaning of a cell: the same strange table from any source is the same, or is refused."""

import contextlib
import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replearn.errors import ReplearnError
from replearn.reports.files import load
from replearn.study import Request, publish
from replearn.tables import (
    Encoding,
    EncodingCounts,
    LevelColumn,
    NumberColumn,
    Product,
    learn_encoding,
    level_text,
    open_table,
)
from replearn.tables.cells import OddCells, column_from

FOLDER = Path(tempfile.mkdtemp(prefix="one-table-"))

WORDS = [
    *("", " ", "NA", " NA\t", "N/A", "NaN", "nan", "null", "NULL", ".", "?", "<NA>", "NAN", "none"),
    *("1", "1.0", "01", " 1 ", "+1", "1e0", "-0", "0.1", ".5", "5.", "1e-7", "1e22", "1_000"),
    "0x1",
    *("true", "TRUE", "True", "False", "tRUE", "inf", "-inf", "Infinity", "INF", "1e999", "1e-999"),
    *("a", "A", " a", "ä", "a\u0308", '"q"', "a,b"),
    *("a;b", "l1\nl2", "it's", "1,5", "50,000", "日本"),
    *("9007199254740993", "123456789012345678901234567890", "-", "--", "\u00a0", "a\u00a0"),
    "nan(1)",
]
ODD_WORDS = ["a\0b", "x" * 4097, "(other)", "(missing)", "\ufeff"]

whole = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
real = st.floats(allow_infinity=False) | st.sampled_from([0.1, 1.0, -0.0, 1e22, 5e-324])
text = (
    st.sampled_from(WORDS)
    | st.sampled_from(ODD_WORDS[2:])
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), max_size=3)
)
anything = st.one_of(whole, real, st.booleans(), text, st.just(10**400), st.just(float("inf")))
KINDS = {
    "whole": (whole, pl.Int64, pa.int64()),
    "real": (real | st.just(float("inf")), pl.Float64, pa.float64()),
    "bool": (st.booleans(), pl.Boolean, pa.bool_()),
    "text": (text | st.sampled_from(ODD_WORDS), pl.String, pa.string()),
    "mixed": (anything, None, None),
}
NULLABLE = {
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype("python"),
}


@st.composite
def tables(draw):
    """Columns by name, and the kind of each."""
    n_rows = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    columns = {
        f"c{i}": draw(st.lists(st.none() | KINDS[kind][0], min_size=n_rows, max_size=n_rows))
        for i, kind in enumerate(kinds)
    }
    return columns, dict(zip(columns, kinds, strict=True))


def written(cell):
    """A cell as programs write it into a CSV file."""
    return "" if cell is None else str(cell)


def csv_file(columns, delimiter=","):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    writer.writerows(zip(*(map(written, cells) for cells in columns.values()), strict=True))
    path = FOLDER / "table.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return path


def sources(columns, kinds):
    """The table in every form that can hold it."""
    yield columns
    yield {name: np.array([*cells, 0], dtype=object)[:-1] for name, cells in columns.items()}
    yield pd.DataFrame({n: pd.Series(cells, dtype=object) for n, cells in columns.items()})
    yield csv_file(columns)
    yield csv_file(columns, delimiter=";")
    if "mixed" in kinds.values():
        return
    yield pl.DataFrame({n: pl.Series(c, dtype=KINDS[kinds[n]][1]) for n, c in columns.items()})
    arrow = pa.table({n: pa.array(c, KINDS[kinds[n]][2]) for n, c in columns.items()})
    yield arrow
    coded = {n: arrow[n].dictionary_encode() for n in columns}
    yield pa.table(coded)
    yield pd.DataFrame({n: arrow[n].to_pandas() for n in columns})
    yield arrow.to_pandas(types_mapper=pd.ArrowDtype)
    yield arrow.to_pandas(types_mapper=NULLABLE.get)
    if "text" in kinds.values():
        yield arrow.to_pandas().astype({n: "category" for n in columns if kinds[n] == "text"})
        texts = [pl.col(n).cast(pl.Categorical) for n in columns if kinds[n] == "text"]
        yield pl.from_arrow(arrow).with_columns(texts)
    for name, table in (("plain", arrow), ("coded", pa.table(coded))):
        path = FOLDER / f"{name}.parquet"
        pq.write_table(table, path, use_dictionary=name == "coded")
        yield path


def encodings(columns):
    """Every column as numbers, and every column as levels."""
    yield Encoding(
        tuple(NumberColumn(name, "0.1", "1.7", ("0.3", "2"), indicator=True) for name in columns)
    )
    levels = []
    for name, cells in columns.items():
        texts = ["true" if c is True else "false" if c is False else written(c) for c in cells]
        known = set()
        for written_text in texts:
            with contextlib.suppress(OddCells):  # a cell that all sources refuse
                known |= set(map(level_text, column_from([written_text]).values))
        named = tuple(sorted(known - {"(reference)"})[:2])
        levels.append(LevelColumn(name, tuple(dict.fromkeys((*named, "(missing)"))), "(reference)"))
    yield Encoding(tuple(levels), (Product(0, 0),) if levels[0].levels[0] != "(missing)" else ())


def outcome(source, encoding):
    """All that labs compare; or that the table was refused."""
    seen = EncodingCounts(encoding)
    try:
        table = open_table(source)
        blocks = [(encoding.encode(b, seen), encoding.values(b)) for b in table.batches(5)]
    except ReplearnError:
        return "refused"
    grid, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    counts = [seen.missing, seen.unknown, seen.unreadable, seen.clipped]
    return grid.dtype, grid.tobytes(), values.tobytes(), np.array(counts).tolist()


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_one_table_is_one_table(drawn):
    columns, kinds = drawn
    for encoding in encodings(columns):
        expected = None
        for source in sources(columns, kinds):
            found = outcome(source, encoding)
            expected = found if expected is None else expected
            assert found == expected, (type(source), source if isinstance(source, Path) else "")


@pytest.mark.parametrize("seed", range(6))
def test_one_table_is_learned_once(seed):
    """Numbers with gaps, texts that are numbers, booleans and levels: one encoding."""
    rng = np.random.default_rng(seed)
    n_rows = 400
    gaps, ages = rng.random(n_rows) < 0.1, rng.normal(60, 9, n_rows)
    columns = {
        "age": [None if gap else float(v) for gap, v in zip(gaps, ages, strict=True)],
        "count": rng.poisson(0.03 * 10 ** rng.integers(0, 3), n_rows).tolist(),
        "ward": rng.choice(["A", "B", " B", "NA", "c,d"], n_rows).tolist(),
        "grade": rng.choice(["1", "1.0", "2", "03", "x"], n_rows).tolist(),
        "digits": rng.choice(["0.5", "1.5", " 2", "-1e1", "?"], n_rows).tolist(),
        "smoker": (rng.random(n_rows) < 0.3).tolist(),
    }
    kinds = dict(zip(columns, ("real", "whole", "text", "text", "text", "bool"), strict=True))
    labels = (rng.random(n_rows) < 0.3).astype(np.int64)
    found = []
    for source in sources(columns, kinds):
        learned = learn_encoding(
            open_table(source), labels, basis="splines", interactions="all", least_rows=15
        )
        found.append((learned.encoding, learned.remarks))
    assert all(other == found[0] for other in found)
    terms = found[0][0].term_names
    assert {"age", "age missing", "ward = A", "ward missing", "grade = 2"} <= set(terms)
    assert {"smoker = true", "digits", "age x ward = A"} <= set(terms)
    order = rng.permutation(n_rows)
    mixed = {name: [cells[i] for i in order] for name, cells in columns.items()}
    again = learn_encoding(
        open_table(mixed), labels[order], basis="splines", interactions="all", least_rows=15
    )
    assert again.encoding == found[0][0]


NAMES = ["1", "a,b", 'say "ah"', "two\nlines", "NA", "日本 ä", "(other)", "=1+1", "x" * 4096]


@pytest.mark.slow
def test_what_is_written_is_read_back(tmp_path):
    """Odd names, levels and labels: one study, one model and one prediction from every source."""
    rng = np.random.default_rng(0)
    levels = ["true", "1e3", "(missing)", "it's", "a;b", "l1\nl2", "é", "x" * 4096]
    columns = {
        name: [None if cell == "NA" else cell for cell in rng.choice([*levels, "NA"], 900).tolist()]
        if place % 2
        else rng.normal(size=900).round(2).tolist()
        for place, name in enumerate(NAMES)
    }
    kinds = {name: "text" if place % 2 else "real" for place, name in enumerate(NAMES)}
    labels = np.where(rng.random(900) < 0.4, 'il"l,', "well\n")
    seen = set()
    for source in sources(columns, kinds):
        first = publish(open_table(source, target=labels), Request(ridge=0.1))
        for name, document in (("study", first.study), ("model", first.model)):
            document.save(tmp_path / f"{name}.json")
            assert load(tmp_path / f"{name}.json") == document
        chances = load(tmp_path / "model.json").predict_proba(source)
        seen.add((first.study.fingerprint, first.model.fingerprint, chances.tobytes()))
    assert len(seen) == 1


NO_TABLES = {
    "dates": pd.DataFrame({"a": pd.to_datetime(["2024-01-01"])}),
    "dates of polars": pl.DataFrame({"a": [pd.Timestamp("2024-01-01")]}),
    "dates of Arrow": pa.table({"a": pa.array([1], pa.date32())}),
    "dates of NumPy": {"a": np.array(["2024-01-01"], dtype="datetime64[D]")},
    "dates as objects": {"a": [pd.Timestamp("2024-01-01")]},
    "durations": {"a": np.array([3], dtype="timedelta64[s]")},
    "complex numbers": np.array([[1 + 2j]]),
    "complex objects": {"a": [1 + 0j, None]},
    "bytes": {"a": [b"x"]},
    "bytes of NumPy": {"a": np.array([b"x"])},
    "lists": {"a": [[1]]},
    "lists of Arrow": pa.table({"a": [[1]]}),
    "2-d columns": {"a": np.zeros((3, 2))},
    "surrogates": {"a": ["\ud800"]},
    "long texts": {"a": ["x" * 4097]},
    "infinity": np.array([[np.inf]]),
    "infinite objects": {"a": [10**400]},
    "tuples as names": pd.DataFrame({("a", "b"): [1]}),
    "None as a name": pd.DataFrame({None: [1]}),
    "a name twice": pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "a name twice, trimmed": {"a": [1], "a ": [2]},
    "no name": {" ": [1]},
    "columns of different lengths": {"a": [1], "b": [1, 2]},
    "no rows": pd.DataFrame({"a": []}),
    "1-d": np.zeros(3),
    "a ragged list": [[1], [1, 2]],
    "sparse complex numbers": sp.csr_array(np.array([[1j]])),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_no_table(name):
    with pytest.raises(ReplearnError) as caught:
        list(open_table(NO_TABLES[name]).batches())
    assert len(str(caught.value)) > 30


def test_masked_cells_are_missing():
    masked = np.ma.MaskedArray([[1.0, np.inf], [2.0, 3.0]], mask=[[False, True], [True, False]])
    batch = next(open_table(masked).batches())
    assert np.array_equal(batch.column("x0"), [1, np.nan], equal_nan=True)
    assert np.array_equal(batch.column("x1"), [np.nan, 3], equal_nan=True)
    texts = np.ma.MaskedArray(["a", "b"], mask=[True, False])
    assert next(open_table({"t": texts}).batches()).column("t").codes.tolist() == [-1, 0]


def test_names_that_are_numbers():
    frame = pd.DataFrame(np.eye(3))
    assert open_table(frame).names == ("0", "1", "2")
    assert next(open_table(frame).batches()).column("1").tolist() == [0, 1, 0]
