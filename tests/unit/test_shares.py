"""Secret shares: labs get the model of all rows, and nobody sees the sums of one lab."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.cli import main
from replearn.datasets import load_readmission
from replearn.errors import ReplearnError
from replearn.study import draft_study, lab_columns
from replearn.study.shares import MODULUS
from replearn.tables import open_table

LABS = {f"centre{i}": load_readmission("Dunmore", 800, seed=i) for i in range(4)}
ALL = pd.concat(LABS.values(), ignore_index=True)


@pytest.fixture(scope="module")
def first():
    table = load_readmission("Ashford", 3000)
    return rl.ReplicableLogisticClassifier().fit(table, table.pop("readmitted"))


def added_up(study, labs, state=None, counted=()):
    """The shares that labs send to each other, and what each of them makes of its own."""
    sent = [
        rl.lab_shares(study, labs[lab], state, lab=lab, labs=[*labs], counted=counted)
        for lab in labs
    ]
    return sent, [rl.combine(study, *(one[lab] for one in sent), state=state) for lab in labs]


def joint(study, labs, state=None):
    """All rounds: the first counts rows, and the others ask for these counts."""
    counted = added_up(study, labs)[1]
    if state is None:
        state = rl.combine(study, *counted)
    while not hasattr(state, "model"):
        state = rl.combine(study, *added_up(study, labs, state, counted)[1], state=state)
    return state


def test_the_model_is_that_of_one_table(first):
    coalition = joint(first.study_, LABS)
    together = rl.ReplicableLogisticClassifier(study=first)
    together.fit(ALL.drop(columns="readmitted"), ALL["readmitted"])
    assert coalition.model.codes.tolist() == together.model_.codes.tolist()
    assert coalition.replication.n_rows == len(ALL)
    assert "4 labs with 3,200 rows" in str(coalition)
    # though none of them has rows enough for sums of its own
    for table in LABS.values():
        with pytest.raises(ReplearnError, match="at least 10 rows"):
            rl.lab_sums(first.study_, table)


def test_one_round_from_an_opened_model(first):
    coalition = joint(first.study_, LABS, first.study_.begin(first.model_))
    assert coalition.model.fingerprint == first.fingerprint_


def test_an_original_of_labs_whose_sums_nobody_sees():
    """The study of one joint fit, for typical centres: labs do not show how they differ."""
    labs = {f"centre{i}": load_readmission("Dunmore", 2500, seed=i) for i in range(3)}
    tables = {lab: open_table(rows, target="readmitted") for lab, rows in labs.items()}
    draft = draft_study(*(lab_columns(table, lab=lab) for lab, table in tables.items()))

    counted = added_up(draft, labs)[1]
    found = rl.combine(draft, *counted, publish=True)
    while not hasattr(found, "model"):
        added = added_up(draft, labs, found, counted)[1]
        found = rl.combine(draft, *added, state=found, publish=True)
    seen = None
    while not hasattr(seen, "model"):
        sums = [rl.lab_sums(draft, rows, seen, lab=lab) for lab, rows in labs.items()]
        seen = rl.combine(draft, *sums, state=seen, publish=True)

    study, beside = found.study, seen.study
    assert (study.n_original, study.n_replication) == (beside.n_original, beside.n_replication)
    assert study.spreads == beside.spreads
    numbers, others = (one.study.design.decode(one.model.codes) for one in (found, seen))
    assert np.abs(numbers - others).max() < 0.02
    assert (study.n_centres, beside.n_centres) == (1, 3)
    assert "3 labs publish one study" in str(found)
    assert "differs as is typical" in " ".join(str(found).split())
    assert study.commits_to(found.model.fingerprint)


def test_all_shares_but_one_are_random(first):
    """Whoever has all shares of a lab but one has numbers that are as random as coins."""
    study, table = first.study_, LABS["centre0"]
    runs = [rl.lab_shares(study, table, lab="centre0", labs=[*LABS]) for _ in range(40)]
    sums = {sum(one.numbers for one in run.values())[0] % MODULUS for run in runs}
    assert len(sums) == 1  # which they add up to
    for left_out in LABS:
        seen = [sum(run[lab].numbers for lab in LABS if lab != left_out) for run in runs]
        top = np.array([int(number % MODULUS >> 124) for numbers in seen for number in numbers])
        expected = top.size / 16
        distance = ((np.bincount(top, minlength=16) - expected) ** 2 / expected).sum()
        assert distance < 57  # chi-square, 15 degrees of freedom: beyond with probability 1e-6


def test_totals_of_few_rows_are_refused(first):
    """A level that one patient of each lab has may be added up if these are ten or more."""
    rare = {lab: table.copy() for lab, table in LABS.items()}
    level = first.study_.design.encoding.columns[2].levels[-1]
    name = first.study_.design.encoding.columns[2].name
    for lab, table in rare.items():
        rows = table.index[table[name].astype(str) == level]
        table.loc[rows[3 if lab == "centre0" else 2 :], name] = "other"
    with pytest.raises(ReplearnError, match=f"'{name} = {level}"):
        rl.combine(first.study_, *added_up(first.study_, rare)[1])


def test_labs_themselves_refuse_totals_of_few_rows(first):
    """Whoever combines may look at totals without a check of them, and may have made the study."""
    study, state = first.study_, first.study_.begin(first.model_)
    narrow = study.design.encoding.columns[0]
    assert narrow.name == "age"
    aged = {lab: table.assign(age=round(float(narrow.centre))) for lab, table in LABS.items()}
    aged["centre2"].loc[7, "age"] += 40
    crafted = replace(narrow, centre=str(round(float(narrow.centre))), spread="0.1")
    columns = (crafted, *study.design.encoding.columns[1:])
    encoding = replace(study.design.encoding, columns=columns)
    odd = replace(study, design=replace(study.design, encoding=encoding))

    # nobody has counted: the rule holds for the rows of each lab
    with pytest.raises(ReplearnError, match="Count the rows of all labs in a first round"):
        added_up(study, LABS, state)
    # one patient of all labs is not at the centre of a spread that clips everybody else
    counted = added_up(odd, aged)[1]
    with pytest.raises(ReplearnError, match="'age, not at the centre'"):
        added_up(odd, aged, replace(state, study=odd.fingerprint), counted)

    # counts of different labs, of a different study, of too few rows, or not added up
    sent, counted = added_up(study, LABS)
    few = {lab: table[:150] for lab, table in LABS.items()}
    cases = [
        (added_up(study, dict(list(LABS.items())[:3]))[1], "what these labs added up"),
        (added_up(odd, LABS)[1], "what these labs added up"),
        ([one["centre1"] for one in sent], "what each lab added up, got shares"),
        (counted[:-1], "what was added up at each lab, got none of centre3"),
        (added_up(study, few)[1], "at least the rows that this lab has"),
    ]
    for given, words in cases:
        with pytest.raises(ReplearnError, match=words):
            rl.lab_shares(study, LABS["centre0"], state, lab="centre0", labs=[*LABS], counted=given)


def test_shares_are_of_all_rows(first):
    """A sample may have few rows of a term, and no count tells: the marks are in no file."""
    state = first.study_.begin(first.model_)
    sampled = replace(state, newton=replace(state.newton, sample_threshold=1 << 24))
    with pytest.raises(ReplearnError, match="a round of shares must take all rows"):
        rl.lab_shares(first.study_, LABS["centre0"], sampled, lab="centre0", labs=[*LABS])


def test_shares_that_do_not_belong_together_are_refused(first):
    study = first.study_
    sent, added = added_up(study, LABS)
    mine = [one["centre1"] for one in sent]
    cases = [
        (mine[:-1], "one share from each lab, got none of centre3"),
        ([*mine, mine[0]], "got two of centre0"),
        ([*mine[:-1], sent[3]["centre2"]], "adds up the shares that are for itself"),
        ([*mine, added[0]], "got both"),
        (added[:-1], "what was added up at each lab, got none of centre3"),
        ([replace(mine[0], state="0" * 64), *mine[1:]], "must be of this round"),
        ([replace(mine[0], study="0" * 64), *mine[1:]], "must be of the study"),
        ([replace(mine[0], numbers=mine[0].numbers[1:]), *mine[1:]], "as many numbers"),
        ([replace(one, numbers=one.numbers[1:]) for one in added], "that the round asks for"),
        ([replace(added[0], numbers=mine[0].numbers), *added[1:]], "cannot be of rows"),
    ]
    for shares, words in cases:
        with pytest.raises(ReplearnError, match=words):
            rl.combine(study, *shares)
    with pytest.raises(ReplearnError, match="shares are added up with shares"):
        rl.combine(study, *added, rl.lab_sums(study, load_readmission("Ashford", 6000)))
    for labs in (["a", "b"], ["a", "b", "b"], "abc"):
        with pytest.raises(ReplearnError, match="labs"):
            rl.lab_shares(study, LABS["centre0"], lab="a", labs=labs)
    with pytest.raises(ReplearnError, match="lab must be one of the labs"):
        rl.lab_shares(study, LABS["centre0"], lab="x", labs=["a", "b", "c"])


def test_shares_from_the_command_line(first, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first.study_.save("study.json")
    first.model_.save("first.model.json")
    labs = list(LABS)[:3]
    begin = "combine study.json --begin --opened first.model.json --out s.json"
    assert main(begin.split()) == 0
    for lab in labs:
        load_readmission("Dunmore", 900, seed=int(lab[-1])).to_csv(f"{lab}.csv", index=False)
    counted = ",".join(f"{lab}.counted.json" for lab in labs)
    for state, kind in (("", "counted"), (f"--state s.json --counted {counted}", "share")):
        for lab in labs:
            call = f"sums study.json {lab}.csv {state} --shares {','.join(labs)} --out {lab}.json"
            assert main(call.split()) == 0
        state = state.partition(" --counted")[0]
        for lab in labs:
            got = " ".join(f"{sender}.for-{lab}.json" for sender in labs)
            assert main(f"combine study.json {got} {state} --out {lab}.{kind}.json".split()) == 0
            assert (tmp_path / f"centre0.for-{lab}.json").stat().st_mode & 0o077 == 0
    call = f"sums study.json centre0.csv --state s.json --shares {','.join(labs)} --out x.json"
    assert main(call.split()) == 2
    assert "--counted" in capsys.readouterr().err
    got = " ".join(f"{lab}.share.json" for lab in labs)
    call = f"combine study.json {got} --state s.json --opened first.model.json --out m.json"
    assert main(call.split()) == 0
    assert rl.load("m.json").fingerprint == first.fingerprint_
    assert "3 labs with 2,700 rows have one model: the original's." in capsys.readouterr().out

    # totals of different labs, or of a row more, would differ by what nobody may see
    load_readmission("Ashford", 6000).to_csv("north.csv", index=False)
    call = "sums study.json north.csv --state s.json --out north.json --shares north,west"
    assert main(f"{call},east".split()) == 0
    for others in (",east,south", ",south"):
        assert main((call + others).split()) == 2
        assert "the difference of two totals" in capsys.readouterr().err

    load_readmission("Dunmore", 900, seed=0)[1:].to_csv("centre0.csv", index=False)
    capsys.readouterr()
    call = f"sums study.json centre0.csv --out centre0.json --shares {','.join(labs)}"
    assert main(call.split()) == 0  # of a different round
    load_readmission("Dunmore", 900, seed=0).to_csv("centre0.csv", index=False)
    assert main(call.split()) == 2
    assert "the difference of both shows single rows" in capsys.readouterr().err

    # nothing is written over, and nothing is ignored
    for call in (
        "sums study.json centre0.csv --shares centre0,b --out centre0.csv",
        "sums centre0.csv --target readmitted --shares a,b,centre0 --out x.json",
        "combine study.json centre0.for-centre0.json --state s.json --out study.json",
        "combine study.json centre0.for-centre0.json --state s.json --out m.json",
    ):
        assert main(call.split()) == 2
