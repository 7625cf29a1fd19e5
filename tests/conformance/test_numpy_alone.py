"""Who checks models needs NumPy alone: no numba, SciPy or scikit-learn, and no other package."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replearn as rl
from replearn.codes.choice import Candidate, Choice
from tests.golden.test_files import RECORD, recorded

ROOT = Path(__file__).parents[2]

#: Nothing but the standard library, NumPy and replearn can be imported after these lines.
ALONE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ("numpy", "replearn", "tests") and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""

#: Reads all recorded models and prints what it finds.
READ = """
import json, pathlib
import numpy as np
import replearn as rl

def hexed(value):
    return [hexed(part) for part in value] if isinstance(value, list) else value.hex()


record, folder = map(pathlib.Path, sys.argv[1:])
found = []
for case in json.loads(record.read_text(encoding="utf-8")):
    path = folder / "one.model.json"
    path.write_text(json.dumps(case["file"]), encoding="utf-8")
    model, X = rl.load(path), case["rows"]
    if isinstance(X[0], dict):
        X = {name: [row[name] for row in X] for name in X[0]}
    else:
        X = np.array(X)
    probabilities = None
    if model.has_probabilities:
        chances = model.predict_proba(X)
        probabilities = hexed((chances if model.n_classes > 2 else chances[:, 1]).tolist())
    found.append({
        "name": case["name"],
        "same": bool(rl.compare(model, model, X)),
        "fingerprint": model.fingerprint,
        "scores": hexed(model.decision_function(X).tolist()),
        "labels": model.predict(X).tolist(),
        "probabilities": probabilities,
    })
print(json.dumps(found))
"""

#: Runs commands, of a JSON list, and prints the exit code, output and complaints of each.
TYPE = """
import contextlib, io, json, sys
from replearn.cli import main

found = []
for arguments in json.loads(sys.argv[1]):
    out, problems = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(problems):
        code = main(arguments)
    found.append([code, out.getvalue(), problems.getvalue()])
print(json.dumps(found))
"""

COMMANDS = [
    "show {a}",
    "show {d} --json",
    "show {choice}",
    "compare {a} {b} --rows {table}",
    "compare {a} {c}",
    "compare {choice} {choice2}",
    "predict {a} {table}",
    "predict {c} {matrix} --json",
    "plan --features 50 --margin .2",
    "plan --features 3 --algorithm net --json",
    "plan --features 9 --samples 90000 --solve max-error",
    "plan --features 4 --algorithm sgd",
]


def run(script: str, *arguments: str | Path, alone: bool = True) -> Any:
    """What a program prints, as JSON, where nothing else can be imported, or all can."""
    done = subprocess.run(
        [sys.executable, "-c", (ALONE if alone else "") + script, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_recorded_model_is_read_and_predicts_the_same_bits(tmp_path: Path) -> None:
    wanted = [
        {
            "name": case["name"],
            "same": True,
            "fingerprint": case["file"]["fingerprint"],
            "scores": case["scores"],
            "labels": case["labels"],
            "probabilities": case["probabilities"],
        }
        for case in recorded()
    ]
    assert run(READ, RECORD, tmp_path) == wanted


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two logistic models that know how to read a table, other models, tables and choices."""
    cases = {case["name"]: case for case in recorded()}
    found = {}
    for name, case in {
        "a": cases["logistic table"],
        "b": cases["logistic table"],
        "c": cases["published basis"],
        "d": cases["boost, majority"],
    }.items():
        found[name] = tmp_path / f"{name}.model.json"
        found[name].write_text(json.dumps(case["file"]), encoding="utf-8")
    lines = ["age,dose,group"]
    for row in cases["logistic table"]["rows"]:
        lines.append(",".join("" if cell is None else str(cell) for cell in row.values()))
    found["table"] = tmp_path / "table.csv"
    found["table"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    found["matrix"] = tmp_path / "matrix.npz"
    np.savez(found["matrix"], X=np.array(cases["published basis"]["rows"]))
    candidates = (Candidate("first"), Candidate("second"))
    for name, index in (("choice", 0), ("choice2", 1)):
        choice = Choice(candidates, index, {"name": "accuracy"}, ("no", "yes"), "golden")
        found[name] = tmp_path / f"{name}.choice.json"
        rl.save_choice(choice, found[name])
    return found


def test_commands_say_the_same(files: dict[str, Path]) -> None:
    typed = json.dumps([command.format(**files).split() for command in COMMANDS])
    alone, usual = run(TYPE, typed), run(TYPE, typed, alone=False)
    assert [code for code, _, _ in usual] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    for command, one, other in zip(COMMANDS, alone, usual, strict=True):
        assert one == other, command


def test_a_command_that_needs_more_says_what(files: dict[str, Path]) -> None:
    ((code, out, problems),) = run(TYPE, json.dumps([["fit", str(files["table"]), "--json"]]))
    assert (code, out) == (2, "")
    assert problems.startswith("replearn: error: this command needs scipy, which is not installed")
    assert problems.count("\n") == 1
