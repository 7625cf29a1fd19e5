"""Choices from the command line, from published files to what the chosen model is worth."""

import json

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.cli import main
from tests.unit import onnx_files

WEIGHTS = np.array([2.0, -1, 0.5, 0, 0, 1, 0, -0.3])
NAMES = [f"x{i}" for i in range(8)]


def rows(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    y = (X @ WEIGHTS + rng.logistic(size=n) > 0).astype(int)
    return pd.DataFrame(X, columns=NAMES).assign(label=y)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Files of a study: candidates, a pilot, two sites, new rows and the protocol."""
    folder = tmp_path_factory.mktemp("study")
    models = folder / "models"
    models.mkdir()
    rng = np.random.default_rng(1)
    for name in ("a", "b", "c"):
        proto = onnx_files.linear(WEIGHTS + rng.normal(0, 0.3, 8))
        (models / f"{name}.onnx").write_bytes(proto.SerializeToString())
    train = rows(2, 2000)
    svm = rl.ReplicableSVMClassifier(max_disagreement=0.99, batch_size=50)
    rl.save(svm.fit(train[NAMES], train["label"]).model_, models / "svm.model.json")
    for seed, (name, n) in enumerate([("pilot", 1000), ("here", 3000), ("there", 3000)]):
        rows(10 + seed, n).to_csv(folder / f"{name}.csv", index=False)
    rows(20, 50)[NAMES].to_csv(folder / "new.csv", index=False)
    command = [
        *("choose", str(folder / "pilot.csv"), "--target", "label", "--candidates"),
        *map(str, sorted(models.iterdir())),
        *("--samples-per-site", "3000", "--seed", "5", "--publish", str(models / "choice.json")),
    ]
    assert main(command) == 0
    for site in ("here", "there"):
        assert main(choose(folder, site)) == 0
    return folder


def choose(folder, site, *more):
    protocol = str(folder / "models" / "choice.json")
    out = str(folder / f"{site}.choice.json")
    return ["choose", str(folder / f"{site}.csv"), "--protocol", protocol, "--out", out, *more]


@pytest.fixture
def run_json(run):
    """``run_json(*arguments)``: exit code, and the object that was printed."""

    def call(*arguments):
        code, out, _ = run(*arguments, "--json")
        return code, json.loads(out)

    return call


def test_a_protocol_names_its_candidates_and_their_hashes(study):
    protocol = rl.ChoiceProtocol.load(study / "models" / "choice.json")
    assert [one.name for one in protocol.candidates] == ["a", "b", "c", "svm"]
    assert all(len(one.sha256) == 64 for one in protocol.candidates)
    assert protocol.features == tuple(NAMES)
    assert protocol.target == "label"
    assert protocol.rows_per_site == (3000, 3000)
    assert protocol.notes["pilot_rows"] == 1000
    again = study / "again.json"
    protocol.save(again)
    assert rl.ChoiceProtocol.load(again, protocol.fingerprint) == protocol


def test_two_sites_choose_and_compare(study, run_json, capsys):
    code, found = run_json(*choose(study, "here"))
    assert code == 0
    assert set(found["scores"]) == {"a", "b", "c", "svm"}
    assert found["chosen"] in found["scores"]
    assert 0 < found["disagreement_bound"] <= 1
    assert found["expected_disagreement"] < 0.12
    assert found["rows"] == 3000
    files = study / "here.choice.json", study / "there.choice.json"
    code, compared = run_json("compare", *files)
    fingerprints = [rl.load_choice(file).fingerprint for file in files]
    assert compared["fingerprints"] == fingerprints
    assert (code == 0) == compared["same"] == (len(set(fingerprints)) == 1)
    assert compared["same"]
    code = main(["compare", str(study)])
    assert code == 0
    assert "same choice" in capsys.readouterr().out


def test_another_choice_is_told_apart(study, run_json, tmp_path):
    choice = rl.load_choice(study / "here.choice.json")
    other = rl.Choice(
        choice.candidates, (choice.index + 1) % 4, choice.scoring, choice.classes, choice.seed,
        choice.features,
    )  # fmt: skip
    rl.save_choice(other, tmp_path / "other.choice.json")
    code, found = run_json("compare", study / "here.choice.json", tmp_path / "other.choice.json")
    assert code == 1
    assert "were chosen" in found["against_first"][0]["differences"][0]
    expect = ["--expect", other.fingerprint]
    code, found = run_json(*choose(study, "here", *expect))
    assert (code, found["as_expected"]) == (1, False)


def test_choices_predict_show_and_are_evaluated(study, run_json, capsys, tmp_path):
    file, new = study / "here.choice.json", study / "new.csv"
    models = ["--models", str(study / "models")]
    code, found = run_json("predict", file, new, *models)
    assert code == 0
    assert len(found["predictions"]) == 50
    out = tmp_path / "out.csv"
    assert main(["predict", str(file), str(new), "--out", str(out), *models]) == 0
    assert pd.read_csv(out)["prediction"].tolist() == found["predictions"]
    capsys.readouterr()
    code, worth = run_json("evaluate", file, study / "there.csv", *models)
    assert code == 0
    assert worth["accuracy"]["value"] > 0.7
    assert worth["fingerprint"] == found["fingerprint"]
    code, shown = run_json("show", file)
    assert shown["choice"]["index"] == rl.load_choice(file).index
    assert main(["show", str(file)]) == 0
    assert "number" in capsys.readouterr().out


def test_a_choice_is_audited(study, run_json):
    code, found = run_json(
        "audit", study / "here.csv", "--protocol", study / "models" / "choice.json",
        "--pairs", "20",
    )  # fmt: skip
    assert code in (0, 3)
    assert found["algorithm"] == "choice"
    assert found["disagreement"] <= 0.35
    assert any("noise" in note for note in found["notes"])


def test_changed_candidates_are_refused_by_name(study, refused, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for file in (study / "models").iterdir():
        (models / file.name).write_bytes(file.read_bytes())
    content = (models / "b.onnx").read_bytes()
    (models / "b.onnx").write_bytes(content.replace(b"probabilities", b"Probabilities"))
    line = refused(*choose(study, "here", "--models", str(models)))
    assert "candidate 'b'" in line
    assert "SHA-256" in line
    (models / "b.onnx").write_bytes(content)
    svm = json.loads((models / "svm.model.json").read_text())
    (models / "svm.model.json").write_text(json.dumps(svm | {"fingerprint": "0" * 64}))
    line = refused(*choose(study, "here", "--models", str(models)))
    assert "candidate 'svm'" in line
    (models / "a.onnx").unlink()
    assert "does not exist" in refused(*choose(study, "here", "--models", str(models)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "replearn-protocol"}, "format"),
        ({"version": 2}, "version"),
        ({"extra": 1}, "keys"),
        ({"noise_scale": "0"}, "noise_scale"),
        ({"noise_scale": 0.1}, "noise_scale"),
        ({"max_disagreement": "2"}, "less than 1"),
        ({"rows_per_site": [10]}, "rows_per_site"),
        ({"rows_per_site": [10, -1]}, "rows_per_site"),
        ({"classes": [1]}, "classes"),
        ({"classes": [0, 1, "2"]}, "one type"),
        ({"features": []}, "features"),
        ({"scoring": {"name": "f1"}}, "scoring must be one of"),
        ({"scoring": {"name": "accuracy", "prevalence": ["1"]}}, "prevalence"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [{"name": "a", "file": "../a.onnx", "sha256": "0" * 64}]}, "folder"),
        ({"candidates": [{"name": "a", "file": "a.onnx", "sha256": "xyz"}]}, "sha256"),
        ({"candidates": [{"name": "a", "file": "a.onnx", "sha256": None}]}, "sha256"),
        ({"candidates": [{"name": "a", "file": None, "sha256": None}]}, "must have a file"),
        ({"notes": []}, "notes"),
        ({"notes": {"public_value": "7"}}, "seed"),
    ],
)
def test_forged_protocols_are_refused(study, tmp_path, change, words):
    content = json.loads((study / "models" / "choice.json").read_text()) | change
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(content))
    with pytest.raises(rl.InvalidFile, match=words):
        rl.ChoiceProtocol.load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"index": 4}, "index"),
        ({"index": 1}, "altered"),
        ({"seed": 5}, "seed"),
        ({"classes": "01"}, "classes"),
        ({"candidates": 3}, "candidates"),
        ({"more": 1}, "keys"),
    ],
)
def test_forged_choices_are_refused(study, tmp_path, change, words):
    content = json.loads((study / "here.choice.json").read_text())
    index = content["choice"]["index"]
    if change == {"index": 1}:
        change = {"index": (index + 1) % 4}
    content["choice"] |= change
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(content))
    with pytest.raises(rl.InvalidFile, match=words):
        rl.load_choice(path)


def test_bad_usage_ends_in_one_line(study, refused, tmp_path):
    here, protocol = study / "here.csv", study / "models" / "choice.json"
    assert "--protocol FILE" in refused("choose", here)
    line = refused("choose", here, "--protocol", protocol, "--seed", "1")
    assert "--seed is fixed by the protocol" in line
    line = refused("choose", here, "--publish", tmp_path / "p.json")
    assert "--candidates" in line
    line = refused("choose", here, "--protocol", protocol, "--lock", "0" * 64)
    assert "must be the protocol" in line
    line = refused("compare", study / "here.choice.json", study / "models/svm.model.json")
    assert "not a valid choice file" in line


def test_seeds_that_nobody_could_choose(study, run_json, refused, tmp_path):
    models = sorted((study / "models").glob("*.onnx"))
    publish = [
        "choose", study / "pilot.csv", "--target", "label", "--candidates", *models,
        "--samples-per-site", "3000", "--publish",
    ]  # fmt: skip
    draft, final = tmp_path / "draft.json", tmp_path / "final.json"
    register = ["--register", "a lottery", "--draw-date", "2999-01-01"]
    code, found = run_json(*publish, draft, *register)
    assert code == 0
    assert rl.ChoiceProtocol.load(draft).seed == ""
    assert found["registered"] == rl.ChoiceProtocol.load(draft).registered_hash
    assert rl.ChoiceProtocol.load(draft, found["registered"]).seed == ""  # as `--lock` does
    line = refused("choose", study / "here.csv", "--protocol", draft, "--models", study / "models")
    assert "no seed" in line
    line = refused("plan", "--registered", draft, "--public-value", "4 8 15", "--out", final)
    assert "has not come yet" in line
    assert main([str(part) for part in [*publish, final, "--public-value", "4 8 15"]]) == 0
    protocol = rl.ChoiceProtocol.load(final)
    assert len(protocol.seed) == 64
    assert "4 8 15" in protocol.seed_policy
