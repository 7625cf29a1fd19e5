"""No option is ignored: on every road of every command, an option is used or refused.

A recording namespace says which options a run asks for; whoever adds an option gets this test.
"""

import argparse
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest

from replearn.cli import COMMANDS, _parser, main
from replearn.datasets import load_readmission, make_margin

#: What `main` itself does with the outcome of every road.
OF_MAIN = {"help", "json", "details", "page"}

PROMISE = "--margin --max-error --max-disagreement --failure-prob --mode --bits --no-intercept"
ORIGINALS = (
    "--keep --sealed --basis --interactions --bits --centres --between --evidence --ridge "
    "--missing --class-weight --numeric --weights --offset --groups"
)
CSV = "--delimiter --decimal --thousands"
#: A call of each road, what else it asks for only in the presence of other options, and what it
#: refuses. Options of survival are refused by the registered road in words of their own.
ROADS = [
    ("publish a.csv --target died --out s.json --keep k.json --between 0", "", "--scores"),
    ("publish a.csv --target died --out s.json --registered --rows 9000", "", ORIGINALS),
    ("publish b.parquet --target died --out s.json --between 0", "", f"--scores {CSV}"),
    ("publish b.csv --time los --event died --out s.json --between 0", "",
     "--scores --registered --target --weights --offset --class-weight --kind"),
    ("replicate study.json b.csv", "", ""),
    ("replicate h.study.json rows2.csv", "", "--opened"),
    ("check study.json b.csv", "", ""),
    ("evaluate a.model.json b.csv", "", ""),
    ("update a.model.json b.csv --constant", "", ""),
    ("predict a.model.json b.csv", "", ""),
    ("export a.model.json --out a.sql", "", ""),
    ("export a.model.json --out a.coefficients.csv", "", "--table --dialect"),
    ("audit b.csv --study study.json --pairs 2 --rows 400", "", f"--algorithm {PROMISE}"),
    ("audit rows2.csv --study h.study.json --pairs 2 --rows 400", "", f"--algorithm {PROMISE}"),
    ("audit a.csv --target died --pairs 2", "", PROMISE),
    ("audit rows.csv --target y --algorithm sklearn --pairs 2", "", PROMISE),
    ("audit rows.csv --target y --algorithm svm --margin 0.4 --pairs 2", "", ""),
    ("fit rows.csv --target y --margin 0.4", "", ""),
    ("sums study.json b.csv --out b.sums.json", "", "--kind --categories --drop"),
    ("sums a.csv --target died --out a.columns.json", "", "--state --shares"),
    ("sums study.json b.csv --lab b --shares a,b,c --out b.json", "", "--kind --categories --drop"),
    ("combine study.json a.for-a.json b.for-a.json c.for-a.json --out a.share.json", "",
     "--publish --rows --ridge --seed --begin --opened --page"),
    ("combine study.json --begin --out s0.json", "",
     "--state --publish --rows --page --ridge --seed"),
    ("combine study.json b.sums.json --out s1.json", "", "--rows --ridge --seed"),
    ("combine study.json b.sums.json --publish --out s2.json", "", "--opened --ridge --seed"),
    ("combine columns.json more.columns.json --out draft.json", "--begin",
     "--state --begin --opened --publish --rows --page"),
    ("demo --tables new --rows 200", "", "--labs"),
    ("plan --features 50 --margin 0.2", "", ""),
    ("table", "", ""),
    ("shuffle a.csv --out shuffled.csv", "", ""),
    ("compare a.model.json a.model.json", "", ""),
    ("show study.json", "", ""),
    ("bundle study.json --out folder", "", ""),
]  # fmt: skip
#: Values for options that take one, where a number would not do.
VALUES = {
    "--basis": "splines", "--missing": "refuse", "--class-weight": "balanced", "--mode": "paper",
    "--algorithm": "svm", "--kind": "linear", "--dialect": "duckdb", "--delimiter": ";",
}  # fmt: skip


class Recorded(argparse.Namespace):
    """Remembers which options were asked for since the run began."""

    asked: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        if name == "run":
            Recorded.asked.clear()
        Recorded.asked.add(name)
        return super().__getattribute__(name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    with chdir(folder):
        columns = ["age", "sex", "prior_admissions", "readmitted"]
        for name, lab in (("a", "Ashford"), ("b", "Birchwood")):
            table = load_readmission(lab, 1500)[columns].rename(columns={"readmitted": "died"})
            table["los"] = 1.0 + table["age"] % 13
            table.to_csv(f"{name}.csv", index=False)
            table.to_parquet(f"{name}.parquet", index=False)
        for name, seed in (("rows", 0), ("rows2", 1)):
            X, y = make_margin(3000, 3, 0.4, random_state=seed)
            pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv(f"{name}.csv", index=False)
        for call in (
            "publish a.csv --target died --out study.json --drop los --between 0",
            "fit rows.csv --target y --margin 0.4 --bits 3 --study-out h.study.json",
            "sums study.json b.csv --out b.sums.json",
            "sums a.csv --target died --lab a --out columns.json",
            "sums b.csv --target died --lab b --out more.columns.json",
            *(f"sums study.json b.csv --lab {lab} --shares a,b,c --out {lab}.json" for lab in "abc"),
        ):
            assert main(shlex.split(call)) == 0, call
    return folder


@pytest.fixture
def inside(made: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "lab"
    shutil.copytree(made, folder)
    with chdir(folder):
        yield folder


@pytest.mark.parametrize(("call", "only_with", "refused"), ROADS, ids=[road[0] for road in ROADS])
def test_an_option_is_used_or_refused(
    inside: Path, call: str, only_with: str, refused: str, monkeypatch: Any, capsys: Any
) -> None:
    words = shlex.split(call)
    for name in ("b.sums.json", "columns.json"):  # what a call writes itself
        if f"--out {name}" in call:
            (inside / name).unlink()
    parser = _parser(words[0]).parse_known_args(words)[0].command
    for option in refused.split():
        action = parser._option_string_actions[option]
        value = [] if action.nargs == 0 else [VALUES.get(option, "1")]
        capsys.readouterr()
        assert main([*words, option, *value]) == 2, option
        said = " ".join(capsys.readouterr().err.split())
        assert f" {option}" in said, said
        assert "not use" in said or "not go with" in said, said
    monkeypatch.setattr(argparse, "Namespace", Recorded)
    assert main(words) in (0, 1), capsys.readouterr().err
    unasked = {
        option for dest, option in parser.options.items() if dest not in Recorded.asked | OF_MAIN
    }
    assert unasked <= {*refused.split(), *only_with.split()}


def test_every_command_has_a_road() -> None:
    assert {call.split()[0] for call, _, _ in ROADS} == set(COMMANDS)
