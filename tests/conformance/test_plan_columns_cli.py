"""`replearn plan --pilot`: columns that must not be published, and options that say which may."""

import json

import numpy as np
import pandas as pd
import pytest

from replearn import Protocol, cli
from replearn.study.pilot.unlucky_seeds import unlucky_without_pilot

N = 300


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(size=N), "dose": rng.normal(size=N)})
    frame["label"] = np.where(frame["age"] + frame["dose"] > 0, "ill", "well")
    frame["patient_id"] = rng.permutation(N)
    frame["city"] = rng.choice(["x", "y"], N)
    frame.loc[:4, "city"] = [f"village {i}" for i in range(5)]
    frame["visit"] = [f"2024-0{1 + i % 9}-17" for i in range(N)]
    path = tmp_path_factory.mktemp("pilot") / "pilot.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def plan(pilot, capsys):
    def call(*arguments, code=0):
        fixed = ["plan", "--pilot", str(pilot), "--target", "label", "--samples-per-site", "9000"]
        assert cli.main([*fixed, *arguments]) == code
        return capsys.readouterr()

    return call


def test_identifiers_and_dates_are_refused_in_one_line(plan):
    err = plan(code=2).err
    assert err.count("\n") == 1
    assert "'patient_id' looks like an identifier" in err
    assert "--drop patient_id,visit" in err


def test_nothing_of_a_few_people_is_in_the_protocol(plan, tmp_path):
    path = tmp_path / "study.json"
    out = plan("--drop", "patient_id,visit", "--out", str(path)).out
    assert "'city' (5 values, 1.7% of its rows)" in out
    text = path.read_text()
    for word in ("village", "patient_id", "2024-", "visit"):
        assert word not in text


def test_columns_can_be_chosen_and_typed(plan, tmp_path):
    path = tmp_path / "study.json"
    data = json.loads(
        plan("--columns", "visit,dose,patient_id", "--categories", "visit", "--numeric",
             "patient_id", "--rare", "20", "--out", str(path), "--json").out
    )  # fmt: skip
    assert data["remarks"] == []
    encoding = json.loads(path.read_text())["encoding"]
    assert [(c["name"], c["kind"]) for c in encoding] == [
        ("visit", "category"),
        ("dose", "number"),
        ("patient_id", "number"),
    ]
    assert "no column 'weight'" in plan("--drop", "weight", code=2).err


@pytest.mark.parametrize(
    "option",
    [
        *(["--target", "y"], ["--columns", "a"], ["--drop", "a"], ["--categories", "a"]),
        *(["--numeric", "a"], ["--rare", "5"], ["--samples-per-site", "9"], ["--seed", "1"]),
        *(["--public-value", "x"], ["--out", "x.json"], ["--register", "x"]),
        *(["--draw-date", "2099-01-01"],),
    ],
)
def test_what_is_for_pilots_is_not_ignored_without_one(option, capsys):
    assert cli.main(["plan", "--features", "5", *option]) == 2
    assert f"{option[0]} is for a plan from a pilot" in capsys.readouterr().err


def test_a_protocol_is_registered_and_completed(plan, tmp_path, capsys):
    draft, study = tmp_path / "draft.json", tmp_path / "study.json"
    out = plan(
        "--drop", "patient_id,visit", "--out", str(draft), "--register", "lottery", "--draw-date",
        "2099-05-06",
    ).out  # fmt: skip
    document = json.loads(draft.read_text())
    assert document["seed"] == ""
    registered = Protocol.load(draft).registered_hash
    assert f"publish this before 2099-05-06: {registered}" in out
    complete = ["plan", "--registered", str(draft), "--out", str(study), "--public-value", "3 17"]
    assert cli.main(complete) == 2
    assert "has not come yet" in capsys.readouterr().err
    assert not study.exists()
    document["notes"]["registration"] |= {"drawn_on": "2026-01-02", "registered_on": "2026-01-01"}
    draft.write_text(json.dumps(document))
    assert cli.main([*complete, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    protocol = Protocol.load(study, data["registered"])
    assert protocol.fingerprint == data["protocol"]
    assert data["cautions"] == unlucky_without_pilot(protocol.design, protocol.seed)
    assert cli.main([*complete, "--margin", ".2"]) == 2
    assert "got --margin too" in capsys.readouterr().err
    assert cli.main(["plan", "--registered", str(study), *complete[3:]]) == 2
    assert "must be a registered protocol without a seed" in capsys.readouterr().err
    assert (
        "got --seed and --register"
        in plan("--seed", "1", "--register", "x", "--draw-date", "2099-01-01", code=2).err
    )
    assert "go together" in plan("--register", "x", code=2).err
