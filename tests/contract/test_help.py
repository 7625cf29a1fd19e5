"""What --help says: it is there at once, it fits, and its examples run."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from replearn.cli import COMMANDS
from tests.contract.commands import a_draft, a_round, replearn

pd = pytest.importorskip("pandas")


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help(command: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, text, _ = replearn(*([command] if command else []), "--help")
    assert code == 0
    assert max(map(len, text.split("\n"))) <= 78
    if command:
        assert "example" in text
        assert "--json" in text


def test_no_command_prints_the_commands() -> None:
    code, text, errors = replearn()
    assert (code, errors) == (0, "")
    assert "publish" in text


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from replearn.cli import main\n"
        "try: main(['publish', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'numba', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr


def examples() -> list[str]:
    """All examples of all helps."""
    found = []
    for command in COMMANDS:
        epilog = import_module(f"replearn.cli.{command}").EPILOG
        found += re.findall(r"^  (replearn .*)$", epilog, flags=re.M)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("example", examples())
def test_examples_of_help(inside: Path, example: str, tmp_path: Path) -> None:
    for file in inside.iterdir():
        if file.is_file() and not file.name.endswith(".sums.json"):  # of a round that is over
            (tmp_path / file.name).write_bytes(file.read_bytes())
    os.chdir(tmp_path)  # the fixture goes back
    words = shlex.split(example.partition(" | ")[0])[1:]
    for option, name in pairwise(words):  # whoever tries an example has no such file yet
        if option in ("--out", "--study-out") and words[0] in ("publish", "fit"):
            (tmp_path / name).unlink(missing_ok=True)
    if words[0] == "publish":
        (tmp_path / "study.json").unlink(missing_ok=True)
    if words[0] == "combine" and ("--publish" in words or "columns" in example):
        a_draft()
        if "--publish" not in words:
            (tmp_path / "draft.json").unlink()
    elif "--state" in words or words[0] == "combine":
        a_round(with_state="--state" in words)
    if "north.csv" in words:
        Path("north.csv").write_bytes(Path("a.csv").read_bytes())
    if "for-north" in example or "share.json" in example:
        _shares(added="share.json" in words[2])
    if words == ["replicate", "study.json", "other.csv"]:
        (tmp_path / "study.json").unlink()
        replearn(*shlex.split("fit data.csv --target y --bits 3 --study-out study.json"))
    words = [
        name
        for w in words
        for name in (sorted(map(str, Path().glob(w))) or [w] if "*" in w else [w])
    ]
    if words[0] == "demo" and "--tables" not in words:
        words += ["--labs", "2"]
    if words[0] == "table":  # pairs take long; a plan takes none of their options
        words = [word for word in words if word != "--certified"] + ["--run", "0"]
    if "--horizon" in words:
        _a_survival_model(tmp_path)
    if words[0] == "audit" and "--by" not in words:
        words += ["--rows", "500", "--pairs", "2"]
    code, _, errors = replearn(*words)
    assert code in (0, 1), errors


def _shares(added: bool) -> None:
    """What three labs split at random; ``added``: and what each made of its shares."""
    names = {"north": "a", "east": "b", "west": "third"}
    for lab, table in names.items():
        call = (
            f"sums study.json {table}.csv --lab {lab} --shares {','.join(names)} --out {lab}.json"
        )
        assert replearn(*call.split())[0] == 0
    for lab in names if added else ():
        shares = sorted(map(str, Path().glob(f"*.for-{lab}.json")))
        assert replearn("combine", "study.json", *shares, "--out", f"{lab}.share.json")[0] == 0


def _a_survival_model(folder: Path) -> None:
    """A trial with times until death, and its model."""
    rng = np.random.default_rng(5)
    age = rng.normal(60, 10, 1500)
    days = np.ceil(rng.exponential(400 * np.exp(-(age - 60) / 30))) + 1
    died = (days < 900).astype(int)
    table = pd.DataFrame({"age": age.round(1), "days": np.minimum(days, 900), "died": died})
    for name in ("trial.csv", "new.csv"):
        table.to_csv(folder / name, index=False)
    call = "publish trial.csv --time days --event died --out trial.json --keep trial.model.json"
    assert replearn(*call.split())[0] == 0
    (folder / "trial.model.json").replace(folder / "a.model.json")
