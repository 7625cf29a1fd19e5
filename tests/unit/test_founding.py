"""Labs that publish together: a draft from their columns, a fit, and a study that others match."""

import numpy as np
import pandas as pd
import pytest

from replearn.cli import main
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.study import (
    Founded,
    GlmStudy,
    LabColumns,
    Request,
    State,
    combine,
    draft_study,
    lab_columns,
    lab_sums,
    publish,
    replicate,
)
from replearn.tables import open_table

from .test_coalition import hospital, rounds

KINDS = ("logistic", "classes", "linear", "poisson")


def columns(labs, kind="logistic", least_count=10):
    return [
        lab_columns(open_table(rows, target="y"), kind, lab=lab, least_count=least_count)
        for lab, rows in labs.items()
    ]


def four_labs(kind="logistic", seed=1):
    rows = hospital(4000, seed, kind)
    return {name: rows[i::4] for i, name in enumerate(("Bern", "Lund", "Oslo", "Rome"))}


def together(labs, kind="logistic", **more):
    """All rounds, through files."""
    glm = kind if kind in ("linear", "poisson") else "logistic"
    sent = [LabColumns.from_content(one.content()) for one in columns(labs, glm)]
    draft = GlmStudy.from_content(draft_study(*sent).content())
    return draft, rounds(draft, labs, through_files=True, publish=True, **more)[0]


@pytest.mark.parametrize(
    ("place", "key", "change", "words"),
    [
        ("columns", "counts", lambda old: old[1:], "a count for each value"),
        ("columns", "counts", lambda old: [10**9, *old[1:]], "must count at most"),
        ("columns", "values", lambda old: ["NaN", *old[1:]], "must be numbers"),
        ("columns", "values", lambda old: ["1e999", *old[1:]], "must be numbers"),
        ("target", "counts", lambda old: [0] * len(old), "must have values"),
    ],
)
def test_columns_that_contradict_themselves_are_refused(place, key, change, words):
    content = columns(four_labs())[0].content()
    part = content[place] if place == "target" else content[place][0]
    part[key] = change(part[key])
    with pytest.raises(ReplearnError, match=words):
        LabColumns.from_content(content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_coalition_is_an_original_and_others_replicate_it(kind):
    labs = four_labs(kind)
    draft, found = together(labs, kind)
    assert isinstance(found, Founded)
    study = GlmStudy.from_content(found.study.content())
    assert study.commits_to(found.model.fingerprint)
    assert study.n_original == 4000
    assert study.design.encoding == draft.design.encoding
    alone, replication = replicate(study, open_table(hospital(4000, 2, kind), target="y"))
    assert replication.same
    assert alone.fingerprint == found.model.fingerprint
    others, _, _ = rounds(study, four_labs(kind, seed=3))
    assert others.replication.same
    assert others.model.fingerprint == found.model.fingerprint


@pytest.mark.slow
def test_it_is_worth_as_much_as_an_original_of_all_rows():
    rows = hospital(4000, 1)
    _, found = together(four_labs())
    own = publish(open_table(rows, target="y"), Request(target="y"))
    new = hospital(20_000, 9)
    from replearn.reports.evaluate import evaluate

    ours, theirs = (evaluate(model, new, "y").performance for model in (found.model, own.model))
    assert ours.auc.value == pytest.approx(theirs.auc.value, abs=0.003)


def test_what_a_lab_sends_is_of_ten_rows_or_more():
    rows = hospital(1000, 1)
    rows.loc[:3, "ward"] = "rare"
    rows.loc[5, "age"] = 1234.0
    (sent,) = columns({"Bern": rows})
    by_name = {column.name: column for column in sent.columns}
    assert "rare" not in by_name["ward"].values
    assert "1234" not in "".join(map(str, by_name["age"].values))
    assert all(min(column.counts) >= 10 for column in sent.columns)
    assert "each of many rows" in sent.facts().verdict
    with pytest.raises(ReplearnError, match="at least 100 rows, got 99"):
        columns({"Bern": rows[:99]})


def test_labs_that_cannot_publish_together():
    labs = four_labs()
    sent = columns(labs)
    other = columns({"Paris": labs["Oslo"].assign(ward=1.0 * (labs["Oslo"].ward == "A"))})
    for given, words in [
        ([], "at least one lab"),
        ([*sent, sent[0]], "two of 'Bern'"),
        ([*sent, *other], "'Paris' and 'Bern' differ"),
    ]:
        with pytest.raises(ReplearnError, match=words):
            draft_study(*given)
    wrong = labs["Rome"].assign(y=1 - labs["Rome"].y)
    _, found = together(labs | {"Rome": wrong})
    with pytest.raises(ReplearnError, match=r"Labs differ .* times as much as"):
        found.study.save("never.json")


def test_impossible_spreads_are_refused():
    labs = four_labs()
    draft = draft_study(*columns(labs))
    state = draft.begin()
    while not state.then:
        sums = [lab_sums(draft, rows, state, lab=lab) for lab, rows in labs.items()]
        state = combine(draft, *sums, state=state, publish=True)
        assert isinstance(state, State)
    sums = [lab_sums(draft, rows, state, lab=lab) for lab, rows in labs.items()]
    from dataclasses import replace

    for spread in (sums[0].spread * -1, np.array([sums[0].spread[0], sums[0].spread[1] * 0])):
        forged = replace(sums[0], spread=spread)
        with pytest.raises(ReplearnError, match="'Bern' cannot be of rows: the sums of squared"):
            combine(draft, forged, *sums[1:], state=state)


@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for lab, rows in four_labs().items():
        rows.to_csv(f"{lab}.csv", index=False)
        assert main(["sums", f"{lab}.csv", "--target", "y", "--out", f"{lab}.columns.json"]) == 0
    names = ("Bern", "Lund", "Oslo", "Rome")
    assert main(["combine", *(f"{n}.columns.json" for n in names), "--out", "draft.json"]) == 0
    asked = []
    for number in range(20):
        out = f"round{number}.json"  # no command writes over a file that it reads
        for n in names:
            assert main(["sums", "draft.json", f"{n}.csv", *asked, "--out", f"{n}.s.json"]) == 0
        capsys.readouterr()
        made = [f"{n}.s.json" for n in names]
        call = ["combine", "draft.json", *made, *asked, "--publish", "--rows", "900"]
        assert main([*call[:-1], "0", "--out", out]) == 2
        assert main([*call, "--out", out]) == 0
        said = capsys.readouterr().out
        if "4 labs publish one study" in said:
            break
        assert "--rows 900 counts in the last round: give it again then." in said
        asked = ["--state", out]
    hospital(4000, 2).to_csv("Paris.csv", index=False)
    assert main(["replicate", out, "Paris.csv"]) == 0
    assert (tmp_path / f"round{number}.model.json").exists()
    assert GlmStudy.load(out).n_replication == 900


def test_labs_promise_nothing_to_labs_that_may_have_no_event():
    labs = {
        name: rows.assign(y=rows.y * (np.arange(len(rows)) % 15 == 0)).astype({"y": int})
        for name, rows in four_labs().items()
    }
    draft = draft_study(*columns(labs, least_count=0))
    found = draft.begin()
    while isinstance(found, State):
        sums = [lab_sums(draft, rows, found, lab=lab, least_count=0) for lab, rows in labs.items()]
        found = combine(draft, *sums, state=found, publish=True, replication_rows=100)
    with pytest.raises(ReplearnError, match=r"100 rows .* have no row of some class"):
        found.study.save("never.json")


def test_a_draft_tells_what_the_last_round_would_refuse():
    labs = {
        name: rows.assign(y=(np.arange(len(rows)) % 250 == 0).astype(int))
        for name, rows in four_labs().items()
    }
    with pytest.warns(ReplicabilityWarning, match=r"no study. Of labs with 1,000 rows .* no row"):
        draft_study(*columns(labs, least_count=0))


@pytest.mark.parametrize("how", ["gaps of both", "gaps of a level", "two names of one level"])
def test_an_honest_lab_is_never_accused_because_a_column_follows_from_others(how):
    """Single rows hardly move such a coefficient: less than the grid on which squares add up."""
    labs = {name: _with_a_column_that_follows(2000, seed, how) for seed, name in enumerate("abc")}
    _, found = together(labs)
    assert isinstance(found, Founded)
    assert not found.remarks
    assert not found.study.problems


def _with_a_column_that_follows(n_rows, seed, how):
    rng = np.random.default_rng(seed)
    a, gap, level = rng.normal(size=n_rows), rng.random(n_rows) < 0.2, rng.integers(0, 3, n_rows)
    columns = {"a": a, "ward": np.array(["A", "B", "C"])[level]}
    if how == "gaps of both":
        columns |= {"a": np.where(gap, np.nan, a), "b": np.where(gap, np.nan, 2 * a + 3)}
    elif how == "gaps of a level":
        columns["b"] = np.where(level == 1, np.nan, rng.normal(size=n_rows))
    else:
        columns |= {"room": np.array(["x", "y", "z"])[level], "b": np.where(level == 0, np.nan, a)}
    columns["y"] = (rng.random(n_rows) < 1 / (1 + np.exp(0.5 - a))).astype(int)
    return pd.DataFrame(columns)


def test_a_column_of_many_levels_is_counted_like_any_other():
    """Rows of many levels are kept in a form of their own."""
    labs = four_labs()
    wards = np.array([f"ward {i:02d}" for i in range(12)])
    for rows in labs.values():
        rows["ward"] = wards[np.arange(len(rows)) % 12]
    _, found = together(labs)
    assert isinstance(found, Founded)


def test_a_draft_asks_for_sums_that_all_labs_may_send():
    """Rare levels, pairs with an event, a rare 0 or 1 and few gaps: no lab refuses its sums."""
    rng = np.random.default_rng(4)
    labs = {}
    for number, lab in enumerate(("Bern", "Lund", "Oslo")):
        n_rows = 6000 + 100 * number
        ward = rng.choice(["A", "B", "C", "D"], n_rows, p=[0.6, 0.35, 0.045, 0.005])
        age = rng.normal(60, 10, n_rows).round(1)
        age[:4] = np.nan
        labs[lab] = pd.DataFrame({
            "ward": ward,
            "age": age,
            "dialysis": (np.arange(n_rows) < (5, 400, 400)[number]) * 1.0,
            "visits": rng.poisson(0.05, n_rows) * 1.0,
            "y": (rng.random(n_rows) < 0.04).astype(int),
        })  # fmt: skip
    draft = draft_study(*columns(labs))
    (ward,) = [column for column in draft.design.encoding.columns if column.name == "ward"]
    assert {ward.reference, *ward.levels} >= {"A", "B"}
    assert "D" not in ward.levels
    assert "dialysis" not in draft.design.encoding.names

    found = draft.begin()
    while isinstance(found, State):
        sums = [lab_sums(draft, rows, found, lab=lab) for lab, rows in labs.items()]
        found = combine(draft, *sums, state=found, publish=True)
    assert found.study.n_replication == 6100


def test_a_column_whose_gaps_have_no_term_is_left_out_where_a_lab_has_many():
    """As of four hospitals: one leaves a cell empty, another every fourth."""
    labs = four_labs()
    shares = dict(zip(labs, (0.002, 0.0, 0.25, 0.0), strict=True))
    for lab, share in shares.items():
        rows = labs[lab].copy()
        is_gap = np.arange(len(rows)) < share * len(rows)
        labs[lab] = rows.assign(pressure=np.where(is_gap, np.nan, rows["age"] / 2 + 90))

    draft = draft_study(*columns(labs))
    assert "pressure" not in draft.design.encoding.names
    assert "age" in draft.design.encoding.names
    for lab, rows in labs.items():
        assert lab_sums(draft, rows, lab=lab).rows == 1000
