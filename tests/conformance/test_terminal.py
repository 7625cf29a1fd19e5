"""Nothing that stands in a file steers the terminal, on any path to it."""

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import replearn as rl
from replearn import cli
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.codes.space import CodeSpace
from replearn.progress import progress
from replearn.study.commitments import commit, save_commitment
from replearn.terminal import printable, printable_lines

EVIL = "x\x1b]0;owned\x07\x9b2J\u202e\rsame model\nsame model at all sites\x0b\u2028y"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ENCODING = Encoding((NumberColumn(EVIL, "0", "1"), CategoryColumn("w" + EVIL, (EVIL, "west"))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = rl.Model(
        recipe="svm",
        n_features=3,
        fit_intercept=False,
        space=CodeSpace(3, "none", 3, "centre", "1"),
        seed=EVIL,
        classes=(EVIL, "z"),
        codes=np.array([3, 0, 1]),
        encoding=ENCODING,
        feature_names=ENCODING.output_names,
    )
    rl.save(model, tmp_path / "a.model.json", {"rows": EVIL, EVIL: 1})
    other = replace(model, codes=np.array([3, 1, 1]), seed="0" + EVIL)
    rl.save(other, tmp_path / f"b{EVIL[:20]}.model.json")
    for site in ("oslo" + EVIL, "rome" + EVIL):
        commitment, opening = commit("ab" * 32, site)
        save_commitment(commitment, tmp_path / f"{site[:4]}.commitment.json")
        save_commitment(opening, tmp_path / f"{site[:4]}.opening.json")
    table = {
        EVIL: np.array([-5.0, 1, 2, -3]),
        "w" + EVIL: np.array([EVIL, "west", "u" + EVIL, "west"]),
    }
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    pq.write_table(
        pa.table(table | {"label" + EVIL: [EVIL, "z", "z", EVIL]}), tmp_path / "a.parquet"
    )
    return tmp_path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


COMMANDS = [
    ["show", "a.model.json"],
    ["show", "a.model.json", "--json"],
    ["compare", "a.model.json", "."],
    ["compare", ".", "--rows", "a.parquet"],
    ["compare", "--reveal", "oslo.commitment.json", "oslo.opening.json", "rome.commitment.json",
     "rome.opening.json"],
    ["predict", "a.model.json", "a.parquet"],
    ["predict", "a.model.json", "a.parquet", "--json"],
    ["predict", "a.model.json", EVIL[:9] + ".csv"],
    ["export", "a.model.json", "--to", "csv"],
    ["export", "a.model.json", "--to", "sql"],
    ["export", "a.model.json", "--to", "sql", "--table", EVIL],
    ["fit", "a.parquet", "--target", "label" + EVIL],
    ["fit", "a.parquet", "--target", EVIL],
    ["fit", EVIL[:9]],
    ["audit", "a.parquet", "--target", "label" + EVIL],
    ["plan", "--pilot", "a.parquet", "--target", EVIL, "--samples-per-site", "99"],
    ["fit", "a.parquet", "--protocol", "a.model.json", "--target", "label" + EVIL],
    ["fit", "a.parquet", "--seed", EVIL, "--mode", EVIL],
    [EVIL],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(map(ascii, c))[:60])
def test_no_command_writes_what_steers(command, folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    try:
        code = cli.main(command)
    except SystemExit as done:
        code = done.code
    assert code in (0, 1, 2, 3)
    assert not STEERING.search(out.getvalue())
    shown = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]|\r", "", err.getvalue())  # of our own bar
    assert not STEERING.search(shown)
    lines = out.getvalue().split("\n")
    assert "same model at all sites" not in [line.strip() for line in lines], "a forged line"


def test_other_programs_get_the_exact_text(folder, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder)
    assert cli.main(["export", "a.model.json", "--to", "sql"]) == 0
    assert EVIL in capsys.readouterr().out
    assert cli.main(["predict", "a.model.json", "a.parquet"]) == 0
    assert "\x1b" in capsys.readouterr().out
    assert cli.main(["show", "a.model.json"]) == 0  # for people, whoever reads it
    assert not STEERING.search(capsys.readouterr().out)


def test_a_bug_is_reported_without_what_steers(monkeypatch, capsys) -> None:
    from replearn.cli import plan

    def broken(options):
        raise RuntimeError(EVIL)

    monkeypatch.setattr(plan, "run", broken)
    monkeypatch.setattr("replearn.cli.make_parser", lambda: parser_with(broken))
    assert cli.main(["plan"]) == 70
    assert not STEERING.search(capsys.readouterr().err)


def parser_with(run):
    from replearn.cli.parser import make_parser

    parser = make_parser()
    parse = parser.parse_args

    def parsed(arguments=None):
        options = parse(arguments)
        options.run = run
        return options

    parser.parse_args = parsed
    return parser


@pytest.mark.parametrize("label", [EVIL, "a[/b].csv", "[red]x"])
def test_a_bar_shows_its_label_as_it_is(label, monkeypatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    with progress(f"reading {label}", total=1) as advance:
        advance(1)
    assert "owned" not in re.findall(r"\x1b\](.*)\x07", err.getvalue())
    assert "\x1b]0" not in err.getvalue()


def test_lines_end_only_where_we_end_them() -> None:
    assert printable_lines("a\nb\x0bc\u2028d") == "a\nb?c?d"
    assert printable("größe – 日本") == "größe – 日本"
    assert json.loads(json.dumps(printable(EVIL))) == printable(EVIL)
