"""No option is ignored: on every road of every command, an option changes something or is refused.

What a call prints and writes is compared with what it does under one option more. Whoever adds an
option gets this test for it, and names a value that must matter in `VALUES`.
"""

import io
import re
import shlex
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from replearn.cli import COMMANDS, _parser, main
from replearn.datasets import load_readmission, make_margin

#: What `main` itself does with the outcome of every road; test_commands.py and test_outputs.py.
OF_MAIN = {"--json", "--details", "--page"}

PROMISE = "--margin --max-error --max-disagreement --failure-prob --mode --bits --no-intercept"
ORIGINALS = (
    "--keep --sealed --basis --interactions --bits --centres --between --evidence --ridge "
    "--missing --class-weight --numeric --weights --offset --groups"
)
CSV = "--delimiter --decimal --thousands"
#: A call of each road, and the options that it refuses in the words of `refuse_unused`.
ROADS = [
    ("publish a.csv --target died --out s.json --keep k.json --between 0", "--scores"),
    ("publish p.csv --target died --out s.json --registered --rows 9000",
     f"{ORIGINALS} --local-constant"),
    ("publish b.parquet --target died --out s.json --between 0", f"--scores {CSV}"),
    ("publish b.csv --time los --event died --out s.json",
     "--scores --registered --target --weights --offset --class-weight --kind"),
    ("replicate study.json swapped.csv", ""),
    ("replicate h.study.json rows2.csv", "--opened"),
    ("check study.json odd.csv", ""),
    ("evaluate a.model.json b.csv", "--horizon"),
    ("evaluate t.model.json b.csv --horizon 6", "--target --by --weights"),
    ("update a.model.json b.csv --constant", ""),
    ("update t.model.json b.csv --constant", ""),
    ("predict a.model.json b.csv", "--horizon"),
    ("predict t.model.json b.csv --horizon 6", ""),
    ("export a.model.json --out a.sql", ""),
    ("export a.model.json --out a.coefficients.csv", "--table --dialect"),
    ("audit b.csv --study study.json --pairs 9 --rows 150", f"--algorithm --drop {PROMISE}"),
    ("audit rows2.csv --study h.study.json --pairs 9 --rows 150", f"--algorithm --drop {PROMISE}"),
    ("audit labs.csv --target died --by lab", f"--pairs --rows {PROMISE}"),
    ("audit labs.csv --study study.json --by lab",
     f"--pairs --rows --seed --algorithm --drop {PROMISE}"),
    ("audit a.csv --target died --pairs 2", PROMISE),
    ("audit noisy.csv --target y --algorithm sklearn --pairs 2", PROMISE),
    ("audit noisy.csv --target y --algorithm sgd --pairs 2", "--failure-prob"),
    ("fit noisy.csv --target y", "--failure-prob"),
    ("fit noisy.csv --target y --algorithm net", "--bits --failure-prob"),
    ("sums study.json b.csv --out b.sums.json", "--kind --categories --drop --counted"),
    ("sums a.csv --target died --out d.columns.json", "--state --shares --counted"),
    ("sums study.json b.csv --lab a --shares a,b,c --out s.json",
     "--kind --categories --drop --counted"),
    ("combine study.json a.for-a.json b.for-a.json c.for-a.json --out a.share.json",
     "--publish --rows --ridge --seed --begin --opened --page"),
    ("combine study.json --begin --out s0.json", "--state --publish --rows --page --ridge --seed"),
    ("combine seal.json c.sums.json --state o.json --out s1.json", "--rows --ridge --seed"),
    ("combine draft.json 1.json 2.json 3.json --state last.json --publish --out s2.json",
     "--opened --ridge --seed"),
    ("combine a.columns.json b.columns.json --out draft2.json",
     "--state --begin --opened --publish --rows --page"),
    ("demo --tables new --rows 200", "--labs"),
    ("demo --rows 300 --labs 2", ""),
    ("plan --features 5 --margin 0.3", "--failure-prob"),
    ("plan --features 5 --margin 0.3 --mode certified", ""),
    ("plan --features 5 --margin 0.3 --algorithm dp", "--bits"),
    ("table --features 2 --margin 0.45 --max-error 0.2", "--certified"),
    ("table --features 2 --margin 0.45 --max-error 0.2 --run 1", ""),
    ("shuffle a.csv --out shuffled.csv", ""),
    ("compare a.model.json a.model.json", ""),
    ("show study.json", ""),
    ("bundle study.json --out folder", ""),
]  # fmt: skip
#: Beginnings of calls that take seconds for each option.
SLOW = ("demo --rows", "table", "audit")

#: A value of each option that must change what any call does.
VALUES = {
    # columns: another one than the call has, or one of which something must be said
    "--target": "sex", "--weights": "prior_admissions", "--offset": "prior_admissions",
    "--groups": "sex", "--centres": "sex", "--by": "sex", "--time": "age", "--event": "sex",
    "--scores": "age", "--categories": "prior_admissions", "--numeric": "sex", "--drop": "age",
    "--interactions": "all",
    # how a table is written
    "--delimiter": ";", "--decimal": ",", "--thousands": ".",
    # words
    "--kind": "linear", "--basis": "splines", "--missing": "refuse", "--class-weight": "balanced",
    "--mode": "paper", "--algorithm": "box", "--dialect": "duckdb", "--table": "patients",
    "--lab": "north", "--shares": "a,b,d", "--seed": "11",
    # numbers
    "--between": "0.3", "--evidence": "1e9", "--max-disagreement": "0.3", "--max-error": "0.15",
    "--margin": "0.35", "--failure-prob": "0.2", "--bits": "3", "--rows": "700", "--ridge": "0.3",
    "--pairs": "1", "--horizon": "5", "--features": "3", "--run": "2", "--labs": "1",
    # files
    "--out": "new.json", "--keep": "new.model.json", "--study-out": "new.study.json",
    "--study": "t.json", "--state": "study.json", "--opened": "a.model.json",
    "--counted": "a.share.json",
    "--tables": "practice",
}  # fmt: skip


def marks_of(call: str) -> Any:
    return [pytest.mark.slow] if call.startswith(SLOW) else []


@dataclass(frozen=True)
class Effect:
    """What a command did."""

    code: int
    answer: str
    complaint: str
    files: dict[str, bytes]

    def is_like(self, other: "Effect", made: Path) -> bool:
        """Whether both did the same; where files are written, words about them do not count."""
        if self.code == 0 and self.files.keys() != files_of(made).keys():
            return (self.code, self.files) == (other.code, other.files)
        return self == other


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def effect(words: list[str], made: Path, lab: Path) -> Effect:
    """What a command does in a copy of a folder."""
    shutil.copytree(made, lab)
    out, err = io.StringIO(), io.StringIO()
    with chdir(lab), redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([*words, "--details"])
        except SystemExit as end:
            code = int(end.code or 0)
    files = files_of(lab)
    shutil.rmtree(lab)
    return Effect(code, out.getvalue(), err.getvalue(), files)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, studies, models and sums of two labs: what the roads name."""
    folder = tmp_path_factory.mktemp("options")
    with chdir(folder):
        columns = ["age", "sex", "prior_admissions", "readmitted"]
        tables = {}
        for name, lab in (("a", "Ashford"), ("b", "Birchwood"), ("c", "Castleton")):
            table = load_readmission(lab, 1500)[columns].rename(columns={"readmitted": "died"})
            tables[name] = table.assign(los=1.0 + table["age"] % 13, age=table["age"] + 0.5)
            tables[name].to_csv(f"{name}.csv", index=False)
            tables[name].to_parquet(f"{name}.parquet", index=False)
        tables["b"].assign(died=1 - tables["b"]["died"]).to_csv("swapped.csv", index=False)
        tables["b"].replace({"sex": {"female": "secret"}}).to_csv("odd.csv", index=False)
        labs = [table.assign(lab=name) for name, table in tables.items()]
        pd.concat(labs).to_csv("labs.csv", index=False)
        gaps = tables["a"].assign(age=tables["a"]["age"].where(tables["a"].index % 9 > 0))
        gaps.to_csv("p.csv", index=False)
        for name, seed in (("rows", 0), ("rows2", 1)):
            X, y = make_margin(3000, 3, 0.4, random_state=seed)
            pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv(f"{name}.csv", index=False)
        X, y = make_margin(3000, 3, 0.1, random_state=2)
        y = np.where(np.random.default_rng(0).random(3000) < 0.2, -y, y)
        pd.DataFrame(X + 0.1, columns=list("abc")).assign(y=y).to_csv("noisy.csv", index=False)
        for call in (
            "publish a.csv --target died --out study.json --drop los --between 0",
            "publish a.csv --time los --event died --out t.json --keep t.model.json --between 0",
            "fit rows.csv --target y --margin 0.4 --bits 3 --study-out h.study.json",
            *(
                f"sums study.json b.csv --lab {name} --shares a,b,c --out {name}.json"
                for name in "abc"
            ),
            "publish a.csv --target died --out seal.json --keep k.model.json --sealed --between 0",
            "combine seal.json --begin --opened k.model.json --opened k.opening.json --out o.json",
            "sums seal.json c.csv --state o.json --out c.sums.json",
            *(
                f"sums {name}.csv --target died --lab {name} --out {name}.columns.json"
                for name in "abc"
            ),
        ):
            assert main(shlex.split(call)) == 0, call
        joint_original()
    return folder


def joint_original() -> None:
    """A draft of three labs, and the files of the round that is its last."""
    assert (
        main(shlex.split("combine a.columns.json b.columns.json c.columns.json --out draft.json"))
        == 0
    )
    state, rounds = "", 0
    while not Path("joint.json").exists():
        for number, name in enumerate("abc", start=1):
            call = f"sums draft.json {name}.csv --out {number}.json {state}"
            assert main(shlex.split(call)) == 0, call
        call = f"combine draft.json 1.json 2.json 3.json {state} --publish --out joint.json"
        assert main(shlex.split(call)) == 0, call
        if Path("joint.model.json").exists():
            return
        Path("joint.json").replace("last.json")
        state, rounds = "--state last.json", rounds + 1
        assert rounds < 40


@pytest.mark.parametrize(
    ("call", "refused"),
    [pytest.param(*road, id=road[0], marks=marks_of(road[0])) for road in ROADS],
)
def test_an_option_is_used_or_refused(
    made: Path, tmp_path: Path, call: str, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_bytes", bytes)  # shares of a lab are random
    words = shlex.split(call)
    parser = _parser(words[0]).parse_known_args(words)[0].command
    without = effect(words, made, tmp_path / "lab")
    assert without.code in (0, 1), without.complaint
    assert effect(words, made, tmp_path / "lab") == without  # else any option would seem used

    ignored = []
    for option in sorted({*parser.options.values()} - OF_MAIN):
        action = parser._option_string_actions[option]
        if action.nargs == 0 and option in words:  # a flag that makes the road
            continue
        value = [] if action.nargs == 0 else [VALUES[option]]
        found = effect([*words, option, *value], made, tmp_path / "lab")
        said = " ".join(found.complaint.split())
        is_refused = found.code == 2 and re.search(
            rf"not (use|go with) [^.]*{option}\b|{option} does not go", said
        )
        if without.is_like(found, made) or bool(is_refused) != (option in refused.split()):
            ignored.append((option, said))
    assert not ignored


def test_every_command_has_a_road() -> None:
    assert {call.split()[0] for call, _ in ROADS} == set(COMMANDS)


@pytest.mark.parametrize(
    "call", ["publish b.csv --target died", "publish b.csv --time los --event died"]
)
@pytest.mark.parametrize("role", ["--weights", "--offset", "--groups", "--centres"])
def test_a_role_does_more_than_leave_out_its_column(
    made: Path, tmp_path: Path, call: str, role: str
) -> None:
    words = shlex.split(f"{call} --out s.json --rows 1200")
    dropped = effect([*words, "--drop", "prior_admissions"], made, tmp_path / "lab")
    assert dropped.code in (0, 1), dropped.complaint
    with_role = effect([*words, role, "prior_admissions"], made, tmp_path / "lab")
    assert with_role.files.get("s.json") != dropped.files["s.json"]
