"""Secret shares: labs get the model of all rows, and nobody sees the sums of one lab."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.cli import main
from replearn.datasets import load_readmission
from replearn.errors import ReplearnError
from replearn.study.shares import MODULUS

LABS = {f"centre{i}": load_readmission("Dunmore", 800, seed=i) for i in range(4)}
ALL = pd.concat(LABS.values(), ignore_index=True)


@pytest.fixture(scope="module")
def first():
    table = load_readmission("Ashford", 3000)
    return rl.ReplicableLogisticClassifier().fit(table, table.pop("readmitted"))


def one_round(study, labs, state=None):
    """What whoever combines finds, and the shares that labs sent to each other."""
    sent = [rl.lab_shares(study, labs[lab], state, lab=lab, labs=[*labs]) for lab in labs]
    added = [rl.combine(study, *(one[lab] for one in sent), state=state) for lab in labs]
    return rl.combine(study, *added, state=state), sent, added


def joint(study, labs, state=None):
    while not hasattr(state, "model"):
        state = one_round(study, labs, state)[0]
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
        one_round(first.study_, rare)


def test_shares_that_do_not_belong_together_are_refused(first):
    study = first.study_
    _, sent, added = one_round(study, LABS)
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
        rl.combine(study, *added, publish=True)
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
        call = (
            f"sums study.json {lab}.csv --state s.json --shares {','.join(labs)} --out {lab}.json"
        )
        assert main(call.split()) == 0
    for lab in labs:
        got = " ".join(f"{sender}.for-{lab}.json" for sender in labs)
        assert main(f"combine study.json {got} --state s.json --out {lab}.share.json".split()) == 0
        assert (tmp_path / f"centre0.for-{lab}.json").stat().st_mode & 0o077 == 0
    got = " ".join(f"{lab}.share.json" for lab in labs)
    call = f"combine study.json {got} --state s.json --opened first.model.json --out m.json"
    assert main(call.split()) == 0
    assert rl.load("m.json").fingerprint == first.fingerprint_
    assert "3 labs with 2,700 rows have one model: the original's." in capsys.readouterr().out

    # nothing is written over, and nothing is ignored
    for call in (
        "sums study.json centre0.csv --shares centre0,b --out centre0.csv",
        "sums centre0.csv --target readmitted --shares a,b,centre0 --out x.json",
        "combine study.json centre0.for-centre0.json --state s.json --out study.json",
        "combine study.json centre0.for-centre0.json --state s.json --out m.json",
    ):
        assert main(call.split()) == 2
