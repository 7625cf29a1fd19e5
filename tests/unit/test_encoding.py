"""Encodings: every term as specified, the same from every kind of rows; learned from rows alone."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from replearn.documents import Unfit
from replearn.errors import ReplearnError
from replearn.tables import (
    Encoding,
    EncodingCounts,
    LevelColumn,
    NumberColumn,
    Product,
    Profile,
    compare_profiles,
    learn_encoding,
    make_profile,
    open_table,
)
from replearn.tables import scan as look_module


def encode(encoding, source, seen=None, n_rows=1 << 16):
    blocks = [encoding.encode(batch, seen) for batch in open_table(source).batches(n_rows)]
    return sp.vstack(blocks).tocsr() if sp.issparse(blocks[0]) else np.vstack(blocks)


def values(encoding, source):
    return np.vstack([encoding.values(batch) for batch in open_table(source).batches()])


# --- the specification, cell by cell ------------------------------------------------------------


def number_terms(column, value):
    """z, hats and indicator of one number, in units of 2^-12."""
    centre, spread = float(column.centre), float(column.spread)
    low, high = centre - 4 * spread, centre + 4 * spread
    v = centre if value is None else value
    x = min(max(v, low), high)
    terms = [math.floor((x - centre) / spread * 4096 + 0.5)]
    t = [low, *map(float, column.knots), high]
    for j in range(1, len(t) - 1):
        hat = 0.0
        if t[j - 1] <= x <= t[j]:
            hat = (x - t[j - 1]) / (t[j] - t[j - 1])
        elif t[j] < x <= t[j + 1]:
            hat = (t[j + 1] - x) / (t[j + 1] - t[j])
        terms.append(math.floor(4096 * hat + 0.5))
    return terms + [4096 * (value is None)] * column.indicator


def level_terms(column, text):
    level = "(missing)" if text is None else text
    if level not in (*column.levels, column.reference):
        level = "(other)"
    return [4096 * (level == named) for named in column.levels]


AGE = NumberColumn("age", "60.5", "9.87", ("50", "60", "75.5"), indicator=True)
DOSE = NumberColumn("dose", "0", "0.3")
WARD = LevelColumn("ward", ("B", "(other)", "(missing)"), "A")
SEX = LevelColumn("sex", ("f",), "m")
ENCODING = Encoding((AGE, WARD, DOSE, SEX), (Product(0, 5), Product(0, 8), Product(5, 8)))
ENCODING.check()

rows = st.tuples(
    st.none() | st.floats(-1e6, 1e6) | st.sampled_from([50.0, 60.0, 75.5, 21.02, 60.5 + 4 * 9.87]),
    st.sampled_from(["A", "B", "C", None]),
    st.none() | st.floats(-2, 2),
    st.sampled_from(["m", "f", "x", None]),
)


@given(st.lists(rows, min_size=1, max_size=20), st.integers(0, 3))
def test_every_term_is_as_specified(drawn, halved):
    encoding = replace(ENCODING, products_halved=halved)
    table = dict(
        zip(("age", "ward", "dose", "sex"), map(list, zip(*drawn, strict=True)), strict=True)
    )
    found = encode(encoding, table)
    assert found.dtype == np.int16
    for row, (age, ward, dose, sex) in zip(found.tolist(), drawn, strict=True):
        terms = [
            *number_terms(AGE, age),
            *level_terms(WARD, ward),
            *number_terms(DOSE, dose),
            *level_terms(SEX, sex),
        ]
        for product in encoding.products:
            a, b = terms[product.first], terms[product.second]
            unit = (
                4096 * (4 if {product.first, product.second} <= {0, 8} else 1)
                << encoding.products_halved
            )
            terms.append((a * b + unit // 2) // unit)
        assert row == terms


ENCODING_NAMES = (
    "age", "age ~ 50", "age ~ 60", "age ~ 75.5", "age missing",
    "ward = B", "ward = (other)", "ward missing", "dose", "sex = f",
)  # fmt: skip


def test_terms_have_names():
    assert ENCODING.term_names[:10] == ENCODING_NAMES
    assert ENCODING.term_names[10:] == ("age x ward = B", "age x dose", "ward = B x dose")
    assert [term.kind for term in ENCODING.terms[:6]] == [
        "z",
        "hat",
        "hat",
        "hat",
        "missing",
        "level",
    ]


def test_values_are_the_terms_before_rounding():
    rng = np.random.default_rng(0)
    encoding = Encoding(ENCODING.columns, (Product(0, 8), Product(0, 9), Product(5, 9)))
    table = {
        "age": rng.normal(60, 30, 500),
        "ward": rng.choice(["A", "B", "C"], 500),
        "dose": rng.normal(0, 1, 500),
        "sex": rng.choice(["m", "f"], 500),
    }
    exact, grid = values(encoding, table), encode(encoding, table)
    assert np.abs(exact[:, :10] - grid[:, :10] / 4096).max() <= 0.5 / 4096 + 1e-15
    assert np.abs(exact[:, 10:] - grid[:, 10:] / 4096).max() < 2 / 4096
    assert np.allclose(exact[:, 10], exact[:, 0] * exact[:, 8] / 4, rtol=1e-15)
    assert np.abs(exact[:, 0]).max() == pytest.approx(4)


def test_z_and_hats_span_piecewise_linear_functions():
    x = np.linspace(AGE.nodes[0], AGE.nodes[-1], 1001)
    terms = values(Encoding((AGE,)), {"age": x})[:, :4]
    basis = np.column_stack([np.ones_like(x), terms])
    for knot in (50, 60, 75.5):
        kink = np.maximum(x - knot, 0)
        fitted = basis @ np.linalg.lstsq(basis, kink, rcond=None)[0]
        assert np.abs(fitted - kink).max() < 1e-9
    assert np.linalg.matrix_rank(basis) == 5


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_arrays_columns_and_sparse_rows_are_one(dtype, order):
    rng = np.random.default_rng(1)
    X = (rng.normal(0, 3, (400, 7)) * (rng.random((400, 7)) < 0.4)).astype(dtype, order=order)
    columns = tuple(NumberColumn(f"x{i}", "0", f"0.{i + 1}") for i in range(7))
    encoding = Encoding(columns)
    dense, seen = (
        encode(encoding, X, EncodingCounts(encoding)),
        [EncodingCounts(encoding) for _ in range(3)],
    )
    named = {f"x{i}": X[:, i] for i in range(7)}
    assert (encode(encoding, named, seen[0], 33) == dense).all()
    sparse = encode(encoding, sp.csr_array(X), seen[1], 50)
    assert sp.issparse(sparse)
    assert sparse.dtype == np.int16
    assert (sparse.toarray() == dense).all()
    assert (encode(encoding, X, seen[2], 77) == dense).all()
    assert all((other.clipped == seen[0].clipped).all() for other in seen)
    shuffled = encode(encoding, {name: named[name] for name in reversed(named)})
    assert (shuffled == dense).all()
    centred = Encoding((NumberColumn("x0", "1", "2"), *columns[1:]))
    assert (encode(centred, sp.csr_array(X)) == encode(centred, X)).all()


def test_missing_numbers_of_arrays():
    X = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, 4.0]])
    encoding = Encoding((NumberColumn("x0", "2", "1"), NumberColumn("x1", "3", "1")))
    seen = EncodingCounts(encoding)
    assert encode(encoding, X, seen).tolist() == [[-4096, 0], [0, -4096], [4096, 4096]]
    assert seen.missing.tolist() == [1, 1]
    with_indicator = Encoding((encoding.columns[0], NumberColumn("x1", "3", "1", indicator=True)))
    assert encode(with_indicator, X)[:, 2].tolist() == [4096, 0, 0]
    sparse = sp.csr_array(np.array([[np.nan, 1.0]]))
    around_0 = Encoding((NumberColumn("x0", "0", "1"), NumberColumn("x1", "0", "1")))
    assert encode(around_0, sparse).toarray().tolist() == [[0, 4096]]
    for source in (X, {"x0": X[:, 0], "x1": X[:, 1]}, sparse):
        strict = Encoding(around_0.columns, missing="refuse")
        with pytest.raises(ReplearnError, match="'x0' must have a value in every row, got 1"):
            encode(strict, source)
    levels = Encoding((LevelColumn("a", ("x",), "y"),), missing="refuse")
    with pytest.raises(ReplearnError, match="must have a value in every row"):
        encode(levels, {"a": ["x", None]})


@pytest.mark.parametrize(
    "broken",
    [
        Encoding((NumberColumn("a", "0", "1", ("1", "1")),)),
        Encoding((NumberColumn("a", "0", "1", ("5",)),)),
        Encoding((NumberColumn("a", "1e30", "1e-30"),)),
        Encoding((NumberColumn("a", "0", "1"), NumberColumn("a", "0", "1"))),
        Encoding((LevelColumn("a", ("x", "x"), "y"),)),
        Encoding((LevelColumn("a", ("x",), "x"),)),
        Encoding((AGE,), (Product(0, 9),)),
        Encoding((AGE, DOSE), (Product(0, 5), Product(0, 6), Product(0, 99))),
        Encoding((AGE, DOSE), (Product(1, 5),)),
        Encoding((AGE, DOSE), (Product(4, 5),)),
        Encoding((NumberColumn("a", "0.10", "1"),)),
        Encoding((NumberColumn("a", "0", "0"),)),
        Encoding(()),
    ],
)
def test_encodings_that_are_refused(broken):
    with pytest.raises(Unfit):
        Encoding._read(broken.content())


def test_encodings_are_read_back():
    encoding = Encoding(ENCODING.columns, (Product(0, 8),), missing="refuse")
    assert Encoding._read(encoding.content()) == encoding


def test_columns_must_be_there():
    with pytest.raises(ReplearnError, match=r"must have columns 'ward', 'dose'"):
        encode(ENCODING, {"age": [1], "sex": ["m"]})


# --- what is seen -------------------------------------------------------------------------------


def test_other_codings_stop():
    encoding = Encoding((NumberColumn("age", "60", "10"), LevelColumn("sex", ("f",), "m")))
    seen = EncodingCounts(encoding)
    table = {"age": ["61", "x"] * 50, "sex": ["F"] * 10 + ["m"] * 90}
    encode(encoding, table, seen, 7)
    assert (seen.n_rows, seen.unreadable.tolist(), seen.unknown.tolist()) == (100, [50, 0], [0, 10])
    with pytest.raises(ReplearnError) as caught:
        seen.refuse()
    text = str(caught.value)
    assert "in 'age' 50 of 100 cells (50.0%) are no numbers" in text
    assert "in 'sex' 10 of 100 cells (10.0%) have levels that the study does not know" in text
    assert "'F'" not in text
    assert any("such as 'F'" in what for _, what in seen.troubles(show_values=True))
    few = EncodingCounts(encoding)
    encode(encoding, {"age": [61] * 100, "sex": ["F"] * 4 + ["m"] * 96}, few)
    few.refuse()
    usual = Encoding((LevelColumn("sex", ("f", "(other)"), "m", folded="0.1"),))
    seen = EncodingCounts(usual)
    encode(usual, {"sex": ["F"] * 10 + ["m"] * 90}, seen)
    seen.refuse()


def test_unannounced_signs_are_named():
    encoding = Encoding((NumberColumn("age", "60", "10"),))
    for cell, signs in (("61,5", '--decimal=","'), ("50,000", '--thousands=","')):
        seen = EncodingCounts(encoding)
        encode(encoding, {"age": [cell] * 50}, seen)
        with pytest.raises(ReplearnError, match=f"give {signs}"):
            seen.refuse()


def test_what_was_seen_adds_up():
    rng = np.random.default_rng(0)
    table = {"age": rng.normal(60, 30, 999), "sex": rng.choice(["m", "f", "x"], 999)}
    encoding = Encoding((NumberColumn("age", "60", "10"), LevelColumn("sex", ("f",), "m")))
    whole, first, second = (
        EncodingCounts(encoding),
        EncodingCounts(encoding),
        EncodingCounts(encoding),
    )
    encode(encoding, table, whole)
    encode(encoding, {n: c[:300] for n, c in table.items()}, first)
    encode(encoding, {n: c[300:] for n, c in table.items()}, second)
    first.add(second)
    assert first.n_rows == whole.n_rows
    for name in ("missing", "unknown", "unreadable", "clipped"):
        assert (getattr(first, name) == getattr(whole, name)).all()
    assert first.levels == whole.levels
    assert (first.values(0) == whole.values(0)).all()


# --- learning -------------------------------------------------------------------------------------


def original(rng, n_rows=5000):
    return {
        "age": rng.normal(63.2, 11, n_rows).round(1),
        "year": rng.integers(2010, 2021, n_rows).astype(float),
        "visits": rng.poisson(0.02, n_rows) * rng.integers(1, 9, n_rows).astype(float),
        "always": np.full(n_rows, 7.0),
        "once": np.r_[1.0, np.zeros(n_rows - 1)],
        "bmi": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(27, 4, n_rows)),
        "killip": rng.choice(["I", "II", "III", "IV"], n_rows, p=[0.7, 0.25, 0.047, 0.003]),
        "sex": rng.choice(["m", "f"], n_rows, p=[0.6, 0.4]),
    }


def test_what_is_learned():
    table = original(np.random.default_rng(5))
    labels = (np.random.default_rng(6).random(5000) < 0.1).astype(np.int64)
    learned = learn_encoding(open_table(table), labels, least_rows=50)
    columns = {column.name: column for column in learned.encoding.columns}
    assert list(columns) == ["age", "year", "visits", "bmi", "killip", "sex"]
    assert float(columns["age"].centre) == pytest.approx(np.median(table["age"]), abs=0.051)
    assert float(columns["age"].spread) == pytest.approx(11, abs=0.5)
    assert columns["year"].centre == "2015"  # not 2020, which three digits would give
    assert columns["visits"].centre == "0"
    assert 1 < float(columns["visits"].spread) < 4
    assert [c.indicator for c in (columns["age"], columns["bmi"])] == [False, True]
    assert columns["sex"] == LevelColumn("sex", ("f",), "m")
    killip = columns["killip"]
    assert (killip.levels, killip.reference) == (("II", "III"), "I")
    assert 0 < float(killip.folded) < 0.01
    remarks = {remark.column: remark.kind for remark in learned.remarks}
    assert remarks == {"always": "constant", "once": "hardly", "killip": "absorbed"}
    said = next(remark.reason for remark in learned.remarks if remark.column == "killip")
    assert said.endswith("counted as the reference, 'I'")  # there is no (other)
    assert columns["bmi"].spread == columns["bmi"].spread[:4]


def test_a_level_without_events_stays():
    rng = np.random.default_rng(0)
    ward = rng.choice(["A", "B", "C"], 3000, p=[0.6, 0.3, 0.1])
    labels = ((rng.random(3000) < 0.2) & (ward != "C")).astype(np.int64)
    learned = learn_encoding(open_table({"ward": ward}), labels)
    assert learned.encoding.columns[0].levels == ("B", "C")


def test_knots_lie_between_enough_rows():
    rng = np.random.default_rng(2)
    table = {
        "wide": rng.normal(0, 1, 3000),
        "binary": rng.integers(0, 2, 3000),
        "four": rng.integers(0, 4, 3000),
        "skewed": np.exp(rng.normal(0, 2, 3000)),
    }
    encoding = learn_encoding(open_table(table), basis="splines").encoding
    encoding.check()
    knots = {column.name: [float(k) for k in column.knots] for column in encoding.columns}
    assert len(knots["wide"]) == 5
    assert np.abs(np.array(knots["wide"]) - [-1.645, -0.598, 0, 0.598, 1.645]).max() < 0.15
    assert knots["binary"] == []
    assert set(knots["four"]) <= {1, 2}
    small = learn_encoding(open_table({"a": rng.normal(0, 1, 200)}), basis="splines").encoding
    assert len(small.columns[0].knots) <= 3


@pytest.mark.parametrize("n_rows", [3000, 60_000])
def test_order_batches_and_kind_of_rows_do_not_matter(n_rows, monkeypatch):
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [rng.normal(0, 1, n_rows), rng.poisson(1, n_rows), rng.exponential(1, n_rows)]
    )
    X[rng.random(X.shape) < 0.05] = np.nan
    labels = (rng.random(n_rows) < 0.3).astype(np.int64)
    options = {"basis": "splines", "interactions": "all"}
    first = learn_encoding(open_table(X), labels, **options)
    order = rng.permutation(n_rows)
    named = {f"x{i}": [None if np.isnan(v) else v for v in X[order, i].tolist()] for i in range(3)}
    for source in (np.asfortranarray(X[order]), named):
        table = open_table(source)
        small = functools.partial(table.batches, 7777)
        monkeypatch.setattr(table, "batches", small)
        again = learn_encoding(table, labels[order], **options)
        assert again.encoding == first.encoding
        assert make_profile(again, labels) == make_profile(first, labels)
        assert again.remarks == first.remarks
    assert first.look.n_sampled <= look_module.SAMPLE_ROWS


def test_sparse_and_dense_samples_are_the_same_rows():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.random((40_000, 5)) * (rng.random((40_000, 5)) < 0.3))
    sparse, dense = learn_encoding(open_table(X)), learn_encoding(open_table(X.toarray()))
    for name in sparse.encoding.names:
        assert (sparse.look.numbers(name) == dense.look.numbers(name)).all()
        assert (sparse.look.cells(name) == dense.look.cells(name)).all()
    assert all(column.centre == "0" for column in sparse.encoding.columns)
    with pytest.raises(ReplearnError, match="sparse table must be encoded with a linear basis"):
        learn_encoding(open_table(X), basis="splines")


def test_a_column_with_hardly_any_value():
    X = np.random.default_rng(0).normal(size=(60_000, 2))
    X[:, 1] = np.nan
    X[7, 1] = 3.0
    learned = learn_encoding(open_table(X))
    assert learned.encoding.names == ("x0",)
    assert [remark.kind for remark in learned.remarks] == ["gaps", "hardly"]


@pytest.mark.parametrize(("n_ones", "is_kept"), [(45, True), (15, False)])
def test_a_rare_0_or_1_needs_as_many_rows_as_a_level(n_ones, is_kept):
    """An exposure of 45 among 303 patients has a coefficient, as its text 'yes' would have."""
    X = np.random.default_rng(3).normal(size=(303, 2))
    X[:, 1] = np.arange(303) < n_ones
    learned = learn_encoding(open_table(X), least_rows=20)
    assert ("x1" in learned.encoding.names) == is_kept

    X[:n_ones, 1] = np.arange(n_ones)  # of several values quantiles are published
    assert "x1" not in learn_encoding(open_table(X), least_rows=20).encoding.names


def test_many_rows_of_few_kinds_are_all_looked_at():
    """A share of the rows that their content chooses must not lose the kinds themselves."""
    rng = np.random.default_rng(9)
    X = rng.integers(0, 2, (100_000, 3)).astype(float)
    X[:, 2] = rng.integers(0, 9, 100_000)
    labels = rng.integers(0, 2, 100_000)
    learned = learn_encoding(open_table(X), labels, basis="splines")
    assert learned.encoding.names == ("x0", "x1", "x2")
    assert learned.encoding.columns[2].centre == "4"
    assert abs(learned.look.n_sampled - look_module.SAMPLE_ROWS) < 100
    shares = np.bincount(learned.look.cells("x2").astype(int)) / learned.look.n_sampled
    assert np.abs(shares - 1 / 9).max() < 0.01
    order = rng.permutation(100_000)
    again = learn_encoding(open_table(X[order]), labels[order], basis="splines")
    assert again.encoding == learned.encoding


@pytest.mark.slow
def test_different_rows_have_different_hashes():
    """The bits of small whole numbers are few, and all at one end."""
    X = np.random.default_rng(1).integers(0, 5, (50_000, 30)).astype(float)
    for source in (
        X,
        sp.csr_array(X),
        {f"x{i}": X[:, i].astype(int).astype(str) for i in range(30)},
    ):
        (batch,) = open_table(source).batches()
        hashes = look_module.row_hashes(batch, batch.names, np.zeros(50_000, np.int64))
        assert np.unique(hashes).size == 50_000
        assert abs(np.mean(hashes < np.uint64(1 << 63)) - 0.5) < 0.01


def test_a_rare_column_of_many_rows_is_counted_exactly():
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (100_000, 2))
    X[:, 1] = 0
    X[rng.choice(100_000, 60, replace=False), 1] = 5
    encoding = learn_encoding(open_table(X), least_rows=50).encoding
    assert encoding.columns[1] == NumberColumn("x1", "0", "2.5")
    assert learn_encoding(open_table(X), least_rows=70).encoding.names == ("x0",)


def test_products():
    rng = np.random.default_rng(4)
    n_rows = 2000
    sex = rng.choice(["m", "f"], n_rows)
    table = {
        "age": rng.normal(0, 1, n_rows),
        "bmi": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(0, 1, n_rows)),
        "sex": sex,
        "ward": np.where(
            (sex == "f") & (rng.random(n_rows) < 0.98), "A", rng.choice(["A", "B"], n_rows)
        ),
    }
    all_pairs = learn_encoding(open_table(table), interactions="all", least_rows=50).encoding
    all_pairs.check()
    assert set(all_pairs.term_names[-len(all_pairs.products) :]) == {
        "age x bmi", "age x sex = m", "age x ward = B", "bmi x sex = m", "bmi x ward = B",
        "sex = m x ward = B",
    }  # fmt: skip
    table["bmi"] = np.where(table["ward"] == "B", np.nan, table["bmi"])  # no number in ward B
    few = learn_encoding(open_table(table), interactions="all").encoding
    assert "bmi x ward = B" not in few.term_names
    assert "bmi x sex = m" in few.term_names
    one = learn_encoding(open_table(table), interactions=[("ward", "age")]).encoding
    assert one.term_names[-1:] == ("age x ward = B",)
    for pairs, words in (([("age", "age")], "different columns"), ([("age", "q")], "column 'q'")):
        with pytest.raises(ReplearnError, match=words):
            learn_encoding(open_table(table), interactions=pairs)


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ({"a": [1.0, 1.0]}, {}, "a column that varies"),
        ({"a": [1.0, np.nan] * 50}, {"missing": "refuse"}, "got 50 missing"),
        ({"a": [1.0, 2.0]}, {"categories": ["b"]}, "categories must name columns.*'b'"),
        (
            {"a": [1.0, 2.0]},
            {"categories": ["a"], "numeric": ["a"]},
            "cannot be levels and numbers",
        ),
        ({"a": ["1,5", "2,25"] * 30}, {}, 'decimal=","'),
        ({"a": ["50,000", "2,250"] * 30}, {}, 'thousands=","'),
        ({"a": [*map(str, range(60)), "<5"]}, {}, "got 1 texts among 60 numbers"),
        ({"a": np.array([1e95, -1e95] * 50)}, {}, "Change its unit"),
        ({"a": ["x", "1"] * 50}, {"numeric": ["a"]}, "got 50 texts among 50 numbers"),
    ],
)
def test_what_cannot_be_learned(table, options, words):
    with pytest.raises(ReplearnError, match=words):
        learn_encoding(open_table(table), **options)


# --- profiles -------------------------------------------------------------------------------------


def findings(change, labels=None):
    rng = np.random.default_rng(7)
    study = original(rng)
    died = (rng.random(5000) < 0.2).astype(np.int64)
    table = {name: study[name] for name in ("age", "year", "bmi", "sex")}
    table["smokes"] = rng.integers(0, 2, 5000).astype(float)
    table["weight"], table["height"] = rng.normal(80, 12, 5000), rng.normal(1.7, 0.1, 5000)
    table["ward"] = rng.choice(["A", "B"], 5000, p=[0.8, 0.2])
    table["fever"] = rng.normal(37.5, 0.8, 5000)
    table["stays"] = np.maximum(0.0, rng.normal(-0.5, 2, 5000).round(1))  # most have none
    learned = learn_encoding(open_table(table), died)
    profile = make_profile(learned, died)
    assert Profile._read(profile.content()) == profile
    lab = {
        name: np.random.default_rng(8).permutation(column)[:900] for name, column in table.items()
    }
    lab |= {name: np.asarray(function(lab[name])) for name, function in change.items()}
    seen = EncodingCounts(learned.encoding)
    for batch in open_table(lab).batches():
        learned.encoding.encode(batch, seen)
    asked = compare_profiles(learned.encoding, profile, seen, labels, (5000, 900))
    return {finding.column: finding.sentence for finding in asked}


@pytest.mark.parametrize(
    ("column", "change", "words"),
    [
        ("height", lambda v: v * 100, "100 times as large"),
        ("height", lambda v: v * 39.37, "inches and metres"),
        ("weight", lambda v: v * 2.205, "pounds and kilograms"),
        ("weight", lambda v: v / 1000, "1000 times smaller"),
        ("fever", lambda v: v * 1.8 + 32, "Fahrenheit"),
        ("smokes", lambda v: v + 1, "1 larger throughout"),
        ("bmi", lambda v: v * 0 + 25, "the same in all rows"),
        ("bmi", lambda v: v * np.nan, "has no value in any row"),
        ("bmi", lambda v: np.where(np.arange(900) % 2, v, np.nan), "is missing in 5"),
        ("year", lambda v: v - 40, "smaller throughout"),
        ("age", lambda v: v**2, "very different values: half of the rows are above"),
        ("stays", lambda v: v * 30, "values: a quarter of the rows are above"),
        ("sex", lambda v: np.where(v == "m", "m", "m"), "the same in all rows"),
    ],
)
def test_what_a_profile_notices(column, change, words):
    found = findings({column: change})
    assert list(found) == [column]
    assert words in found[column]


def test_what_a_profile_does_not_mind():
    assert findings({}, labels=[730, 170]) == {}
    assert findings({"age": lambda v: v + 3, "weight": lambda v: v * 1.05}) == {}


def test_other_patients_are_no_other_unit():
    """A hospital of veterans: old, and hardly a woman; the values are those of the study."""
    rng = np.random.default_rng(3)
    older = findings({"age": lambda v: 42 + v / 2})
    assert older == {}
    men = findings({"smokes": lambda v: (rng.random(len(v)) < 0.97) * 1.0})
    assert men == {}


def test_exchanged_labels_and_levels():
    assert "may be exchanged" in findings({}, labels=[180, 720])[""]
    assert "class 0 has 40.0%" in findings({}, labels=[360, 540])[""]
    swapped = findings({"ward": lambda v: np.where(v == "A", "B", "A")})
    assert list(swapped) == ["ward"]
    assert "may have its levels 'A' and 'B' exchanged" in swapped["ward"]


def test_younger_patients_are_no_exchanged_levels():
    """Bands of age at two payers: the old ones are fewer and the young ones more, each by some."""
    bands = ["[30-40)", "[40-50)", "[50-60)", "[60-70)", "[70-80)", "[80-90)"]
    study, here = (0.04, 0.07, 0.14, 0.25, 0.31, 0.19), (0.22, 0.24, 0.22, 0.16, 0.08, 0.08)
    rng = np.random.default_rng(6)
    table = {"age": rng.choice(bands, 20_000, p=study), "dose": rng.normal(size=20_000)}
    died = (rng.random(20_000) < 0.2).astype(np.int64)
    learned = learn_encoding(open_table(table), died)
    profile = make_profile(learned, died)

    lab = {"age": rng.choice(bands, 2000, p=here), "dose": rng.normal(size=2000)}
    seen = EncodingCounts(learned.encoding)
    learned.encoding.encode(next(open_table(lab).batches()), seen)
    assert not compare_profiles(learned.encoding, profile, seen, None, (20_000, 2000))
