"""`replearn bundle` and `replearn check`: what a site gets, and what it does with it."""

import csv
import json
import re
import shlex
import warnings

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn import cli


def pilot(n_rows=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 10, n_rows), "dose": rng.normal(size=n_rows)})
    frame["sex"] = rng.choice(["female", "male"], n_rows)
    frame["unit"] = rng.choice(["a", "b", *"uvwxyz"], n_rows, p=[0.47, 0.47, *[0.01] * 6])
    frame["label"] = np.where(frame["age"] / 10 + frame["dose"] > 5, "ill", "well")
    frame.loc[rng.random(n_rows) < 0.1, "dose"] = np.nan
    return frame


@pytest.fixture(scope="module", params=["svm", "logistic"])
def study(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    table = pilot()
    protocol = rl.plan_from_pilot(
        table.drop(columns="label"),
        table["label"].to_numpy(),
        samples_per_site=5000,
        algorithm=request.param,
        target="label",
    ).protocol
    protocol.save(folder / "plan.json")
    assert cli.main(["bundle", str(folder / "plan.json"), "--out", str(folder / "sites")]) == 0
    return folder


@pytest.fixture
def run(capsys, monkeypatch, study):
    def call(*arguments, code=0):
        monkeypatch.chdir(study / "sites")
        capsys.readouterr()
        assert cli.main([str(argument) for argument in arguments]) == code
        return capsys.readouterr()

    return call


def test_the_folder_has_everything(study):
    names = {path.name for path in (study / "sites").iterdir()}
    assert names == {
        *("study.json", "rehearsal.csv", "rehearsal.json", "columns.csv"),
        *("INSTRUCTIONS.md", "CHECKLIST.md"),
    }
    assert (study / "sites/study.json").read_bytes() == (study / "plan.json").read_bytes()
    rows = list(csv.DictReader((study / "sites/columns.csv").read_text().splitlines()))
    assert [row["column"] for row in rows] == ["age", "dose", "sex", "unit", "label"]
    assert rows[2]["values"] == "female | male"
    assert rows[3]["values"] == "a | b | any other"
    assert [row["may be empty"] for row in rows] == ["no", "yes", "yes", "yes", "no"]


def test_commands_of_the_instructions_do_what_they_say(study, run):
    text = (study / "sites/INSTRUCTIONS.md").read_text()
    commands = re.findall(r"^    (replearn .*)$", text, flags=re.MULTILINE)
    assert len(commands) == 3
    assert "{" not in text + (study / "sites/CHECKLIST.md").read_text()
    rehearse, check, fit = (shlex.split(command)[1:] for command in commands)
    assert "yes, the same model" in run(*rehearse).out
    site = study / "sites/rehearsal.csv"
    assert "a fit would start" in run(*[site if word == "site.csv" else word for word in check]).out
    run(*[site if word == "site.csv" else word for word in fit])
    sent = json.loads((study / "sites/our-site.model.json").read_text())
    (study / "sites/our-site.model.json").unlink()
    expected = json.loads((study / "sites/rehearsal.json").read_text())
    assert sent["fingerprint"] == expected["expected_fingerprint"]


def test_other_rows_do_not_give_the_expected_fingerprint(study, run, tmp_path):
    turned = pd.read_csv(study / "sites/rehearsal.csv")
    turned["label"] = turned["label"].map({"ill": "well", "well": "ill"})
    turned.to_csv(tmp_path / "turned.csv", index=False)
    expected = json.loads((study / "sites/rehearsal.json").read_text())["expected_fingerprint"]
    fit = ["fit", tmp_path / "turned.csv", "--protocol", "study.json", "--target", "label"]
    assert "NO" in run(*fit, "--expect", expected, code=1).out


def test_the_rehearsal_is_the_same_everywhere(study, tmp_path):
    assert cli.main(["bundle", str(study / "plan.json"), "--out", str(tmp_path / "again")]) == 0
    for path in (study / "sites").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_folders_with_something_in_them_are_refused(study, run):
    assert "new or empty folder" in run("bundle", "study.json", "--out", ".", code=2).err
    assert "is no folder" in run("bundle", "study.json", "--out", "a/b/c", code=2).err


def test_check_says_what_stops_a_fit(study, run, tmp_path):
    table = pilot()
    table.assign(sex=table["sex"].str.upper()).to_csv(tmp_path / "site.csv", index=False)
    arguments = ("check", tmp_path / "site.csv", "--protocol", "study.json")
    out = run(*arguments, code=1).out
    assert "stops  column 'sex': 100.0% of its values are not published: 'MALE'" in out or (
        "'FEMALE'" in out
    )
    assert "--allow-unknown" in out
    data = json.loads(run(*arguments, "--json", code=1).out)
    assert data["ok"] is False
    assert data["columns"]["sex"]["unknown"] == 400


def test_a_study_of_three_classes_has_a_bundle_whose_rehearsal_runs(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    y = np.digitize(X["a"] + rng.logistic(size=400), [-0.5, 0.5])
    plan = rl.plan_from_pilot(X, y, samples_per_site=2000, target="y")
    plan.protocol.save(tmp_path / "study.json")
    out = tmp_path / "sites"
    assert cli.main(["bundle", str(tmp_path / "study.json"), "--out", str(out), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["expected_fingerprint"]
    fit = ["fit", str(out / "rehearsal.csv"), "--protocol", str(out / "study.json")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        warnings.simplefilter("ignore", rl.UselessModelWarning)
        assert cli.main([*fit, "--expect", expected]) == 0
