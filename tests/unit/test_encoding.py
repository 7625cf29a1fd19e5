"""Tables of any kind become the same numbers."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn, as_text, columns_of
from replearn.errors import ReplearnError
from replearn.files.jsonfile import Unfit, read_encoding

SAME = {
    "1": [1, 1.0, "1", "1.0", "1.00", np.int8(1), np.float32(1), Decimal("1.0"), np.str_("1")],
    "-2": [-2, -2.0, "-2", "-2.000"],
    "0": [0, -0.0, "0", "-0", "-0.0", "0.0"],
    "1.5": [1.5, "1.5", "1.50", np.float32(1.5), Decimal("1.50")],
    "0.1": [0.1, "0.1", np.float32(0.1), "0.10"],
    "0.00001": [1e-5, "0.00001", "0.000010"],
    "10000000000000000000000": [1e22, "10000000000000000000000", 10**22],
    "9007199254740993": [9007199254740993, "9007199254740993"],
    "True": [True, np.bool_(True), "True", "true", "TRUE"],
    "False": [False, np.bool_(False), "False", "false", "FALSE"],
    "00701": ["00701"],
    "-01": ["-01"],
    "1e3": ["1e3"],
    "+1": ["+1"],
    ".5": [".5"],
    "5.": ["5."],
    " 1": [" 1"],
    "1,5": ["1,5"],
    "\u0663": ["\u0663"],
    "": [""],
    "T": ["T"],
    "north": ["north"],
}


@pytest.mark.parametrize("text", SAME)
def test_categories_that_mean_the_same(text):
    assert [as_text(value) for value in SAME[text]] == [text] * len(SAME[text])


@pytest.mark.parametrize("value", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_missing_categories(value):
    assert as_text(value) is None


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none()))
def test_a_published_category_means_itself(value):
    text = as_text(value)
    if text is not None:
        assert as_text(text) == text


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_short_and_long_floats_and_their_text(value):
    assert float(as_text(value)) == value
    assert as_text(str(Decimal(str(value)).normalize())) is not None


VALUES = st.one_of(
    st.sampled_from(["1", "1.0", "a", "b", "true", " ", ""]),
    st.integers(0, 3),
    st.sampled_from([0.5, 1.0, np.nan]),
    st.booleans(),
    st.none(),
)


@given(st.lists(VALUES, max_size=8))
def test_indicators_are_what_a_plain_loop_gives(values):
    column = CategoryColumn("c", ("1", "a", "True", "0.5", ""))
    array = np.empty(len(values), dtype=object)
    array[:] = values
    expected = [[float(as_text(value) == known) for known in column.values] for value in values]
    assert column.transform(array).tolist() == expected


@given(st.lists(VALUES, max_size=8))
def test_others_have_an_output_and_missing_values_none(values):
    column = CategoryColumn("c", ("1", "a", "True", "0.5", ""), other="0.01")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    found = column.transform(array)
    plain = CategoryColumn("c", column.values).transform(array)
    assert (found[:, :-1] == plain).all()
    missing = np.array([as_text(value) is None for value in values], dtype=bool)
    assert found.sum(axis=1).tolist() == (~missing).astype(float).tolist()


def test_others_are_named_and_written_only_if_they_are_there():
    column = CategoryColumn("c", ("a",))
    assert column.content() == {"kind": "category", "name": "c", "values": ["a"]}
    column = CategoryColumn("c", ("a",), other="0.01")
    assert column.content() == {"kind": "category", "name": "c", "values": ["a"], "other": "0.01"}
    assert Encoding((column,)).output_names == ("c=a", "c=(other)")
    assert read_encoding([column.content()]) == Encoding((column,))
    for odd in (True, 0.1, None, "x", "-0.1", "1.1"):
        with pytest.raises(Unfit, match="other must be"):
            read_encoding([column.content() | {"other": odd}])


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "float32", "float64", "bool", "U3"])
def test_arrays_of_any_type(kind):
    column = CategoryColumn("c", ("1", "True", "0"))
    found = column.transform(np.array([1, 0, 1], dtype=kind))
    row = {"bool": [0, 1, 0]}.get(kind, [1, 0, 0])
    other = {"bool": [0, 0, 0]}.get(kind, [0, 0, 1])
    assert found.tolist() == [row, other, row]


def test_values_that_cannot_be_looked_up():
    values = np.empty(3, dtype=object)
    values[:] = [[1, 2], "a", pd.NA]
    assert CategoryColumn("c", ("[1, 2]", "a")).transform(values).tolist() == [
        [1, 0],
        [0, 1],
        [0, 0],
    ]
    dates = np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")
    assert CategoryColumn("c", ("2020-01-01",)).transform(dates).tolist() == [[1], [0]]


def test_categories_of_a_protocol_must_differ():
    with pytest.raises(
        ReplearnError, match=r"'c' of the protocol .* got '1' and '1\.0', which are"
    ):
        CategoryColumn("c", ("1", "a", "1.0")).transform(np.array(["a"]))


def test_numbers():
    column = NumberColumn("n", "1", "2", fill_missing=True)
    for values in ([3, None, 5], [3, np.nan, 5], [3, pd.NA, 5], [Decimal(3), None, 5.0]):
        array = np.array(values, dtype=object)
        assert column.transform(array).tolist() == [[1], [0], [2]]
    with pytest.raises(ReplearnError, match=r"'n' must be numeric, got values like 'x'\. Check"):
        column.transform(np.array([1, None, "x"], dtype=object))
    strict = NumberColumn("n", "1", "2")
    with pytest.raises(ReplearnError, match=r"'n' has 2 missing values, and the protocol does not"):
        strict.transform(np.array([None, 1, pd.NA], dtype=object))


# ---------------------------------------------------------------- dataframes

ENCODING = Encoding(
    (
        NumberColumn("i", "0", "1", True),
        NumberColumn("f", "0", "1", True),
        NumberColumn("b", "0", "1", True),
        NumberColumn("d", "0", "1", True),
        CategoryColumn("s", ("x", "y")),
        CategoryColumn("c", ("u", "v")),
        CategoryColumn("k", ("1", "2")),
        CategoryColumn("t", ("True",)),
    )
)
INTEGERS, FLOATS, BOOLEANS = (
    [1, 2, None, 4],
    [0.5, None, float("nan"), 2.0],
    [True, None, False, True],
)
TEXTS, GROUPS, CODES = ["x", None, "y", "z"], ["v", "u", None, "v"], [2, None, 1, 2]
DECIMALS = [Decimal("1.50"), None, Decimal("2"), Decimal("0.1")]
ROWS = [
    [1, 0.5, 1, 1.5, 1, 0, 0, 1, 0, 1, 1],
    [2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
    [0, 0, 0, 2, 0, 1, 0, 0, 1, 0, 0],
    [4, 2, 1, 0.1, 0, 0, 0, 1, 0, 1, 1],
]
COLUMNS = {
    "i": INTEGERS,
    "f": FLOATS,
    "b": BOOLEANS,
    "d": DECIMALS,
    "s": TEXTS,
    "c": GROUPS,
    "k": CODES,
    "t": BOOLEANS,
}


def pandas_frame():
    """What a reader without much care makes of it: floats and objects."""
    return pd.DataFrame({name: pd.Series(values) for name, values in COLUMNS.items()})


def nullable_frame():
    frame = pd.DataFrame(index=range(4))
    kinds = {
        "i": "Int64",
        "f": "Float64",
        "b": "boolean",
        "s": "string",
        "k": "Int8",
        "t": "boolean",
    }
    for name, kind in kinds.items():
        values = [None if value != value else value for value in COLUMNS[name]]
        frame[name] = pd.array(values, dtype=kind)
    frame["c"] = pd.Categorical(GROUPS)
    frame["d"] = pd.Series(DECIMALS, dtype=object)
    return frame


def categorical_frame():
    return pandas_frame().assign(k=pd.Categorical(CODES), s=pd.Categorical(TEXTS))


def arrow_backed_frame():
    return arrow_table().to_pandas(types_mapper=pd.ArrowDtype)


def polars_frame():
    return pl.DataFrame({**COLUMNS, "c": pl.Series(GROUPS, dtype=pl.Categorical)}, strict=False)


def arrow_table():
    return pa.table({**COLUMNS, "c": pa.array(GROUPS).dictionary_encode()})


TABLES = {
    "pandas": pandas_frame,
    "pandas, nullable": nullable_frame,
    "pandas, categorical": categorical_frame,
    "pandas, Arrow": arrow_backed_frame,
    "polars": polars_frame,
    "Arrow": arrow_table,
    "lists": lambda: COLUMNS,
    "series": lambda: dict(nullable_frame().items()),
    "chunks": lambda: dict(zip(COLUMNS, arrow_table().columns, strict=True)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_any_kind_give_the_same_numbers(kind):
    X = ENCODING.transform(TABLES[kind]())
    assert X.flags.c_contiguous
    assert X.dtype == np.float64
    assert X.tolist() == ROWS


@pytest.mark.parametrize("kind", ["pandas", "pandas, nullable", "polars", "Arrow"])
def test_what_is_missing_is_missing_in_every_column(kind):
    table = TABLES[kind]()
    for name, values in columns_of(table, list(COLUMNS)).items():
        missing = [as_text(value) is None for value in values]
        assert missing == [value is None or value != value for value in COLUMNS[name]], name


def test_sparse_and_dense_rows_are_encoded_to_the_same_bits():
    scales = ("3", "0.7", "1.3", "49")
    encoding = Encoding(tuple(NumberColumn(f"x{i}", "0", scale) for i, scale in enumerate(scales)))
    X = np.random.default_rng(0).normal(size=(200, 4)) * (np.arange(800).reshape(200, 4) % 3 > 0)
    assert (encoding.transform(sp.csr_matrix(X)).toarray() == encoding.transform(X)).all()
