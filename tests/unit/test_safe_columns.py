"""Columns of a pilot: what must not be published is refused, what is odd is named."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replearn as rl
from replearn.errors import ReplearnError
from replearn.study.pilot.safe_columns import in_words, published_categories, safe_columns

N = 400
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, N)
AGE = RNG.normal(50, 10, N)
DAYS = [datetime.date(2024, 1, 1) + datetime.timedelta(int(d)) for d in RNG.integers(0, 300, N)]
WORDS = ["pain", "none", "left", "knee", "since", "Monday", "better", "worse", "fever", "cough"]

#: Columns that must not be published.
REFUSED = {
    "identifier": {
        "text": [f"P{i:05d}" for i in RNG.permutation(N)],
        "mostly different": [f"P{i:05d}" for i in (*range(N - 20), *range(20))],
        "counted": (RNG.permutation(N) + 1000).astype(float),
        "patient_id": RNG.choice(10**9, N, replace=False),
        "PatientID": RNG.choice(10**9, N, replace=False),
        "with missing": [None if i % 3 else f"case {i}" for i in range(N)],
    },
    "date": {
        "python": DAYS,
        "iso": [day.isoformat() for day in DAYS],
        "iso with time": [f"{day.isoformat()}T12:30:00" for day in DAYS],
        "german": [f"{day:%d.%m.%Y}" for day in DAYS],
        "american": [f"{day.month}/{day.day}/{day:%y}" for day in DAYS],
        "words": [f"{day:%d %b %Y}" for day in DAYS],
        "numpy": np.array(DAYS, dtype="datetime64[ns]"),
        "number": [int(f"{day:%Y%m%d}") for day in DAYS],
        "some missing": [None if i % 5 == 0 else day.isoformat() for i, day in enumerate(DAYS)],
    },
    "text": {"notes": [" ".join(RNG.choice(WORDS, 6)) for _ in range(N)]},
    "rare": {"street": [f"street {i % 80}" for i in range(N)]},
    "empty": {"nothing": [None] * N},
    "copy": {
        "same": LABELS,
        "other words": np.where(LABELS, "dead", "alive"),
        "turned": 1 - LABELS,
    },
}

#: Columns that are fine.
KEPT = {
    "age": AGE,
    "whole age": AGE.round(),
    "income": RNG.choice(10**9, N, replace=False),  # no name of an identifier, far apart
    "year": RNG.integers(1990, 2024, N),
    "sex": RNG.choice(["f", "m"], N),
    "flag": RNG.random(N) < 0.3,
    "long answers": RNG.choice(["I agree very much indeed", "I do not agree at all"], N),
    "version": RNG.choice(["1.2.3", "1.2.4"], N),
    "rare number": (np.arange(N) == 7).astype(int),
}


CASES = [(kind, name) for kind, columns in REFUSED.items() for name in columns]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_what_must_not_be_published_is_refused(kind, name):
    frame = pd.DataFrame({"age": AGE, name: REFUSED[kind][name]})
    words = {
        "identifier": "looks like an identifier",
        "date": "holds dates",
        "text": "free text",
        "rare": "at least 10 rows",
        "empty": "no value in any row",
        "copy": "copy of the label",
    }
    with pytest.raises(ReplearnError, match=words[kind]) as caught:
        safe_columns(frame, LABELS)
    assert f"--drop {name}" in str(caught.value)
    assert "\n" not in str(caught.value)
    table, remarks = safe_columns(frame, LABELS, drop=[name])
    assert list(table) == ["age"]
    assert remarks == ()


@pytest.mark.parametrize("name", KEPT)
def test_what_may_be_published_is_kept(name):
    table, remarks = safe_columns(pd.DataFrame({name: KEPT[name]}), LABELS)
    assert (list(table), remarks) == ([name], ())


def test_a_pilot_without_labels_is_looked_at():
    assert safe_columns({"age": AGE, "same": LABELS}, None)[1] == ()
    with pytest.raises(ReplearnError, match="holds dates"):
        safe_columns({"age": AGE, "day": np.array(DAYS, dtype="datetime64[D]")}, None)


def test_all_bad_columns_are_named_at_once():
    frame = pd.DataFrame({"age": AGE, "id": REFUSED["identifier"]["text"], "day": DAYS})
    with pytest.raises(ReplearnError, match=r"2 columns .* 'id' .*; 'day' .* --drop id,day"):
        safe_columns(frame, LABELS)


def test_tables_of_any_kind_are_looked_at():
    frame = pd.DataFrame({"age": AGE, "day": np.array(DAYS, dtype="datetime64[ns]")})
    mapping = {"age": AGE, "day": np.array(DAYS, dtype="datetime64[D]")}
    for table in (frame, pa.Table.from_pandas(frame), mapping):
        with pytest.raises(ReplearnError, match="'day' holds dates"):
            safe_columns(table, LABELS)


def test_a_column_that_is_meant_is_taken():
    frame = pd.DataFrame({"nr": np.arange(N), "day": [day.isoformat()[:7] + "-01" for day in DAYS]})
    table, remarks = safe_columns(frame, LABELS, numeric=["nr"], categories=["day"])
    assert list(table) == ["nr", "day"]
    assert {remark.kind for remark in remarks} <= {"folded"}
    with pytest.raises(ReplearnError, match="identifier"):  # categories of one person each
        safe_columns(frame, LABELS, categories=["nr", "day"])


def test_text_can_be_numbers():
    frame = pd.DataFrame({"x": [str(value) for value in AGE.round(1)]}, dtype=object)
    frame.loc[3, "x"] = None
    numbers = safe_columns(frame, LABELS, numeric=["x"])[0]["x"]
    assert numbers.dtype == np.float64
    assert np.isnan(numbers[3])
    frame.loc[4, "x"] = "12,5"
    with pytest.raises(ReplearnError, match=r"got .12,5.\. Leave such cells empty"):
        safe_columns(frame, LABELS, numeric=["x"])


def test_what_is_odd_is_named():
    frame = pd.DataFrame(
        {
            "always": ["yes"] * N,
            "zero": np.zeros(N),
            "city": ["x"] * 200 + ["y"] * 195 + ["z"] * 5,
            "stage": np.where(LABELS, RNG.choice(["c", "d"], N), RNG.choice(["a", "b"], N)),
        }
    )
    remarks = safe_columns(frame, LABELS)[1]
    assert [remark.kind for remark in remarks] == ["constant", "constant", "folded", "tells"]
    assert str(remarks[0]) == "'always' is always 'yes'"
    assert in_words(remarks)[:2] == [
        "values in fewer than 10 rows, published as (other): 'city' (1 value, 1.2% of its rows)",
        "the same in all rows of the pilot, so they cannot help: 'always' is always 'yes', 'zero' "
        "is always 0",
    ]
    assert "'stage' tells the label in all 400 rows" in in_words(remarks)[2]
    many = [remarks[2]] * 20
    assert in_words(many)[0].endswith(" and 8 more")


def test_columns_can_be_chosen():
    frame = pd.DataFrame({"a": AGE, "b": AGE + 1, "c": AGE + 2})
    assert list(safe_columns(frame, LABELS, columns=["c", "a"])[0]) == ["c", "a"]
    assert list(safe_columns(frame, LABELS, columns=["c", "a"], drop=["c"])[0]) == ["a"]
    with pytest.raises(ReplearnError, match=r"no column 'd'; its columns are 'a', 'b', 'c'"):
        safe_columns(frame, LABELS, drop=["d"])
    with pytest.raises(ReplearnError, match="keep a column"):
        safe_columns(frame, LABELS, drop=["a", "b", "c"])
    with pytest.raises(ReplearnError, match="left out and given a type"):
        safe_columns(frame, LABELS, drop=["a"], numeric=["a"])


@given(
    st.lists(st.sampled_from([None, "a", "b", 1, 1.0, "1", float("nan"), "c"]), max_size=40),
    st.integers(1, 8),
)
def test_no_category_of_a_few_rows_is_published(values, rare):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    kept, n_folded, share = published_categories(array, rare)
    texts = ["1" if value in (1, "1") else value for value in values if value == value]
    texts = [text for text in texts if text is not None]
    assert all(texts.count(text) >= rare for text in kept)
    assert n_folded == len(set(texts)) - len(kept)
    assert share * len(texts) == pytest.approx(sum(text not in kept for text in texts))


@pytest.fixture(scope="module")
def pilot():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(size=300), "dose": rng.normal(size=300)})
    frame["city"] = rng.choice(["x", "y"], 300)
    frame.loc[:4, "city"] = [f"village {i}" for i in range(5)]
    y = (frame["age"] + frame["dose"] > 0).astype(int).to_numpy()
    return frame, y


def test_a_plan_publishes_no_rare_category(pilot):
    plan = rl.plan_from_pilot(*pilot, samples_per_site=50_000)
    text = json.dumps(plan.protocol.content())
    assert "village" not in text
    assert '"other": "0.017"' in text
    assert "published as (other)" in str(plan)
    # villages that no pilot knew are read like those that it knew
    new = pd.DataFrame({"age": [0.0], "dose": [0.0], "city": ["village 77"]})
    known = new.assign(city="village 1")
    transform = plan.protocol.encoding.transform
    assert transform(new).tolist() == transform(known).tolist()
    assert transform(new)[0, -1] > 0
    everything = rl.plan_from_pilot(*pilot, samples_per_site=50_000, rare=1).protocol
    assert "village 3" in json.dumps(everything.content())


def test_a_protocol_with_others_is_read_back(pilot, tmp_path):
    protocol = rl.plan_from_pilot(*pilot, samples_per_site=50_000).protocol
    protocol.save(tmp_path / "study.json")
    again = rl.Protocol.load(tmp_path / "study.json")
    assert again.fingerprint == protocol.fingerprint
    assert again.encoding == protocol.encoding


def test_a_plan_refuses_identifiers(pilot):
    frame, y = pilot
    frame = frame.assign(patient_id=[f"p{i}" for i in range(len(y))])
    with pytest.raises(ReplearnError, match="'patient_id' looks like an identifier"):
        rl.plan_from_pilot(frame, y, samples_per_site=50_000)
    plan = rl.plan_from_pilot(frame, y, samples_per_site=50_000, drop=["patient_id"])
    assert [column.name for column in plan.protocol.encoding.columns] == ["age", "dose", "city"]


def test_an_array_has_nothing_to_choose_from(pilot):
    frame, y = pilot
    X = frame[["age", "dose"]].to_numpy()
    with pytest.raises(ReplearnError, match="drop needs columns with names"):
        rl.plan_from_pilot(X, y, samples_per_site=50_000, drop=["x0"])
    with pytest.raises(ReplearnError, match="rare must be a whole number"):
        rl.plan_from_pilot(X, y, samples_per_site=50_000, rare=0)


def test_without_labels_no_column_is_a_copy_of_them() -> None:
    rng = np.random.default_rng(0)
    pairs = {"dose": rng.normal(size=200), "twin": np.arange(200) % 2}
    plan = rl.plan_from_pilot(
        pairs, samples_per_site=5000, study="discovery", classes=("no", "yes"), share=0.3
    )
    assert [column.name for column in plan.protocol.encoding.columns] == ["dose", "twin"]
