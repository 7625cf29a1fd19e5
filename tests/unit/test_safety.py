"""Columns that must not be published, or cannot help, are named; others are left alone."""

import numpy as np
import pytest

from replearn.errors import ReplearnError
from replearn.tables import learn_encoding, make_profile, open_table, refuse_unsafe
from replearn.tables.profile import quantiles_of

N_ROWS = 600
RNG = np.random.default_rng(0)
LABELS = (RNG.random(N_ROWS) < 0.3).astype(np.int64)
AGE = RNG.normal(60, 10, N_ROWS)


def remarks(columns, labels=LABELS, **options):
    learned = learn_encoding(open_table({"age": AGE, **columns}), labels, **options)
    return {remark.column: remark for remark in learned.remarks}, learned


NAMED = {
    "identifier": [
        np.arange(N_ROWS),
        np.arange(N_ROWS)[::-1] * 1.0,
        [f"P{i:05d}" for i in range(N_ROWS)],
        [f"{i}-x" for i in range(N_ROWS)],
    ],
    "date": [
        [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(N_ROWS)],
        [f"{1 + i % 28}.{1 + i % 12}.2024" for i in range(N_ROWS)],
        [f"{1 + i % 28} May 2024" for i in range(N_ROWS)],
        [20240100 + 1 + i % 28 for i in range(N_ROWS)],
    ],
    "text": [[f"patient came with {i} and left soon" for i in range(N_ROWS)]],
    "copy": [
        *(LABELS, LABELS * 3 + 1, np.where(LABELS == 1, "dead", "alive")),
        np.where(LABELS == 1, RNG.integers(1, 4, N_ROWS), 0.0),
        # the cause of each death, and the day of it
        [("heart", "lung")[i % 2] if died else None for i, died in enumerate(LABELS)],
        np.where(LABELS == 1, RNG.normal(100, 10, N_ROWS), np.nan),
    ],
    "tells": [
        np.where(LABELS == 1, 1.0, RNG.choice([0, 2, 3], N_ROWS)),
        # the cause of some deaths
        [("heart", "lung")[i % 2] if died and i % 3 else None for i, died in enumerate(LABELS)],
    ],
    "constant": [np.ones(N_ROWS), ["x"] * N_ROWS],
    "empty": [[None] * N_ROWS, [""] * N_ROWS],
    "folded": [[("rare", "rarer")[i % 2] if i < 60 else ("a", "b")[i % 2] for i in range(N_ROWS)]],
    "absorbed": [np.where(np.arange(N_ROWS) < 12, "rare", RNG.choice(["a", "b"], N_ROWS))],
    "rare": [[f"w{i % 100}" for i in range(N_ROWS)]],
}


@pytest.mark.parametrize(
    ("kind", "column"), [(kind, column) for kind, found in NAMED.items() for column in found]
)
def test_odd_columns_are_named(kind, column):
    found, learned = remarks({"odd": column})
    assert found["odd"].kind == kind
    refused = kind in ("identifier", "date", "text", "copy")
    assert found["odd"].refused == refused
    if refused:
        with pytest.raises(ReplearnError, match=r"must not publish column 'odd'.*drop=odd"):
            refuse_unsafe(learned.remarks)
    else:
        refuse_unsafe(learned.remarks)


@pytest.mark.parametrize(
    "column",
    [
        AGE + 1,
        RNG.integers(0, 5, N_ROWS),
        RNG.integers(0, 400, N_ROWS),
        RNG.integers(10_000, 90_000, N_ROWS),  # incomes: different, but neither counted nor named
        RNG.choice(["a", "b", "c"], N_ROWS),
        RNG.choice(["1,2,3", "4,5,6", "may be 12"], N_ROWS),
    ],
)
def test_other_columns_are_left_alone(column):
    assert remarks({"fine": column})[0] == {}


@pytest.mark.parametrize("name", ["patient_id", "PatientID", "case no", "MRN"])
def test_names_give_identifiers_away(name):
    numbers = RNG.choice(10**8, N_ROWS, replace=False)
    assert remarks({name: numbers})[0][name].kind == "identifier"
    assert remarks({"income": numbers})[0] == {}


@pytest.mark.parametrize("name", ["centre", "Site", "hospital_code", "clinicId"])
def test_a_column_that_numbers_the_centres_is_asked_about(name):
    for column in (RNG.integers(1, 9, N_ROWS), RNG.choice(["n", "s", "w"], N_ROWS)):
        found = remarks({name: column})[0][name]
        assert found.kind == "centre"
        assert not found.refused
        assert "cannot replicate" in str(found)


def test_numbers_of_persons_with_several_rows_are_no_quantity():
    visits = np.repeat(np.arange(1, 201), 3)
    for name in ("id", "patient_nbr", "Subject"):
        found = remarks({name: visits})[0][name]
        assert (found.kind, found.refused) == ("identifier", True)
        assert f"groups={name}" in found.reason
    assert remarks({"steps": visits})[0] == remarks({"n_inpatient": visits % 40})[0] == {}
    named = remarks({"id": [f"X{i:03d}" for i in visits]})[0]["id"]
    assert named.kind == "rare"
    assert "groups=id" in named.reason


def test_columns_of_numbers_with_texts_are_refused_together():
    codes = [f"{i % 300}" if i % 9 else f"V{i % 20}" for i in range(N_ROWS)]
    with pytest.raises(ReplearnError, match=r"'diag_1', 'diag_2' must .*categories=diag_1,diag_2"):
        remarks({"diag_1": codes, "diag_2": codes[::-1]})


def test_what_is_meant_is_not_asked_about():
    dates = NAMED["date"][3]
    assert remarks({"day": dates}, numeric=["day"])[0] == {}
    assert remarks({"site": RNG.integers(1, 4, N_ROWS)}, categories=["site"])[0] == {}
    told = remarks({"copy": LABELS}, categories=["copy"])[0]["copy"]
    assert (told.kind, told.refused) == ("tells", False)
    people = [f"P{i:05d}" for i in range(N_ROWS)]
    assert remarks({"who": people}, categories=["who"])[0]["who"].refused


def test_equal_refusals_are_one_error():
    columns = {f"id{i}": np.arange(N_ROWS) + i for i in range(3)}
    days = {f"d{i}": NAMED["date"][0] for i in range(13)}
    _, learned = remarks(columns | days)
    words = r"'id0', 'id1', 'id2' \(.*'d7' and 5 more \(hold.*Leave them out: drop=id0,id1,id2,d0,"
    with pytest.raises(ReplearnError, match=words) as caught:
        refuse_unsafe(learned.remarks)
    assert str(caught.value).count("date") == str(caught.value).count("identifier") == 1


def test_a_rare_copy_of_the_label_is_found():
    n_rows = 20_000
    rng = np.random.default_rng(1)
    labels = np.zeros(n_rows, dtype=np.int64)
    labels[rng.choice(n_rows, 60, replace=False)] = 1
    learned = learn_encoding(
        open_table({"age": rng.normal(size=n_rows), "dead": labels.astype(float)}), labels
    )
    assert [(r.column, r.kind) for r in learned.remarks] == [("dead", "copy")]


def test_folded_levels_are_named():
    place = np.arange(N_ROWS)
    killip = np.where(place < 30, "IV", RNG.choice(["I", "II"], N_ROWS))
    found = str(remarks({"killip": killip}, least_rows=50)[0]["killip"])
    assert "1 level ('IV') in fewer than 50 rows each, 5.0% of the rows" in found
    assert "counted as the reference, 'I" in found  # 30 rows are too few for a term

    killip = np.where((place >= 30) & (place < 60), "III", killip)
    found = str(remarks({"killip": killip}, least_rows=50)[0]["killip"])
    assert found.endswith("taken together as (other)")


def test_no_levels_of_a_few_people():
    rng = np.random.default_rng(2)
    ward = np.where(np.arange(N_ROWS) < 9, "Q", rng.choice(["a", "b"], N_ROWS))
    _, learned = remarks({"ward": ward}, least_rows=1)
    assert "Q" not in str(learned.encoding.content())
    assert not any("Q" in str(remark) for remark in learned.remarks)


@pytest.mark.parametrize("n_rare", [1, 5, 9, 10])
def test_counts_below_ten_cannot_be_solved_from_a_profile(n_rare):
    """A missing value, a class: whoever subtracts the other shares from 1 finds half a step."""
    rare = np.arange(N_ROWS) < n_rare
    ward = np.where(rare, None, RNG.choice(["a", "b"], N_ROWS))
    learned = learn_encoding(open_table({"age": AGE, "ward": ward}), rare.astype(np.int64))
    profile = make_profile(learned, rare.astype(np.int64))
    assert profile.target == (("1", "0") if n_rare < 10 else ("1", "0.05"))  # steps of 30 rows
    shares = [float(share) for share in profile.columns[1].shares]
    assert all(round(20 * share, 9) == round(20 * share) for share in shares)


@pytest.mark.parametrize("n_rows", [49, 50, 120, 400, 5000])
def test_published_quantiles_are_of_many_rows(n_rows):
    """Fifty rows stand at or beyond the outer ones, or a quarter: nobody is the largest."""
    values = np.sort(np.random.default_rng(n_rows).normal(size=n_rows))
    found = quantiles_of(values)
    assert (found == []) == (n_rows < 50)
    if found:
        few = min(50, n_rows // 4) - 1
        assert np.count_nonzero(values <= found[0]) >= few
        assert np.count_nonzero(values >= found[-1]) >= few
