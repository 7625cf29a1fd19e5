"""Every option of a command changes what comes out, or is refused; none is ignored.

A table: ways to call a command, and for each option what to add. With the option the run must be
refused, or give something else: another exit code, other output, other files. Options that may
change nothing that one sees (threads, memory, ...) are named in ``SILENT``; they must at least be
looked at.
"""

import argparse
import hashlib
import json

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn import cli
from replearn.cli import parser as cli_parser
from replearn.study.hints import Hint

pytestmark = [
    pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning"),
    pytest.mark.filterwarnings("ignore::replearn.UselessModelWarning"),
]

NAMES = ["x0", "x1", "x2"]


def rows(seed, n_rows, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)) + shift
    scores = 1.5 * X[:, 0] - X[:, 1] + rng.logistic(size=n_rows)
    kinds = np.where(rng.random(n_rows) < 0.5, "a", "b")
    return pd.DataFrame(X, columns=NAMES).assign(kind=kinds, y=(scores > 0).astype(int))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Everything that the command lines below name."""
    folder = tmp_path_factory.mktemp("files")
    pilot, site = rows(0, 300), rows(1, 400)
    pilot.to_csv(folder / "pilot.csv", index=False)
    pilot.drop(columns="y").to_csv(folder / "blind.csv", index=False)
    site.to_csv(folder / "site.csv", index=False)
    site[[*NAMES, "y"]].to_csv(folder / "plain.csv", index=False)
    site.assign(kind="c").to_csv(folder / "strange.csv", index=False)
    pd.concat([site] * 2).to_csv(folder / "copies.csv", index=False)
    (folder / "score.csv").write_text("column,weight\nx0,1\nx2,.5\n")
    settings = {"samples_per_site": 400, "target": "y"}
    X, y = pilot.drop(columns="y"), pilot["y"]
    plan = rl.plan_from_pilot(X, y, **settings)
    plan.protocol.save(folder / "study.json")
    hinted = plan.replan(hint_bits=3).protocol
    hinted.save(folder / "hints.json")
    first = hinted.estimator().fit(site.drop(columns="y"), site["y"])
    Hint.of(first.hint_, hinted).save(folder / "a.hint.json")
    rl.save(first.model_, folder / "first.model.json")
    draft = plan.protocol.register("lottery", "2099-01-01").content()
    draft["notes"]["registration"] |= {"drawn_on": "2026-01-02", "registered_on": "2026-01-01"}
    (folder / "draft.json").write_text(json.dumps(draft))
    for seed in (1, 2):
        sites = rows(seed, 400)
        fitted = plan.protocol.estimator().fit(sites.drop(columns="y"), sites["y"])
        rl.save(fitted.model_, folder / f"{seed}.model.json", {}, plan.protocol.content())
        sums = rl.row_sums(plan.protocol, sites.drop(columns="y"), sites["y"])
        sums.save(folder / f"{seed}.sums.json")
    for file in ("first.model.json", "1.model.json", "2.model.json"):
        (folder / "candidates").mkdir(exist_ok=True)
        (folder / "candidates" / file).write_bytes((folder / file).read_bytes())
    return folder


#: Ways to call each command: words with a slash are files.
WAYS = {
    "fit": ["/plain.csv --target y --margin .3", "/site.csv --protocol /study.json"],
    "plan": ["--features 3 --margin .3"],
    "audit": ["/site.csv --protocol /study.json --pairs 2 --question halves"],
    "bundle": ["/study.json --out sites"],
    "check": ["/site.csv --protocol /study.json"],
    "compare": ["/1.model.json /2.model.json"],
    "replicate": ["/1.model.json /site.csv"],
    "sums": ["/site.csv --protocol /study.json --out a.sums.json"],
    "combine": ["/1.sums.json /2.sums.json --protocol /study.json --out m.json"],
    "predict": ["/1.model.json /site.csv --out p.csv"],
    "evaluate": ["/1.model.json /site.csv --target y"],
    "show": ["/1.model.json"],
    "shuffle": ["/plain.csv --out s.csv"],
    "export": ["/1.model.json --to sql", "/1.model.json --to csv"],
    "table": ["--margin .3 --features 3"],
    "completion": ["bash"],
}

#: Not in the table: each of their runs takes too long for so many.
LATER = {"demo", "choose"}

#: What to add for an option; by command where that matters.
ADDED = {
    "--target": "--target x0",
    "--margin": "--margin .31",
    "--max-error": "--max-error .07",
    "--max-disagreement": "--max-disagreement .3",
    "--failure-prob": "--failure-prob .2",
    "--mode": "--mode certified",
    "--algorithm": "--algorithm sgd",
    "--samples": "--samples 10",
    "--solve": "--samples 100000 --solve max-error",
    "--sites": "--sites 5",
    "--pilot": "--pilot /pilot.csv",
    "--study": "--study discovery",
    "--hint-bits": "--hint-bits 3",
    "--scores": "--scores /score.csv",
    "--threshold": "--threshold 5:1",
    "--class-weight": "--class-weight balanced",
    "--classes": "--classes no,yes",
    "--share": "--share .3",
    "--columns": "--columns x0,x1",
    "--drop": "--drop x2",
    "--categories": "--categories x0",
    "--numeric": "--numeric x0",
    "--rare": "--rare 200",
    "--samples-per-site": "--samples-per-site 900",
    "--seed": "--seed 77",
    "--public-value": "--public-value 12",
    "--register": "--register lottery --draw-date 2099-01-01",
    "--draw-date": "--draw-date 2099-01-01",
    "--registered": "--registered /draft.json",
    "--out": "--out new.json",
    "--lock": f"--lock {'0' * 64}",
    "--lead": "--lead",
    "--unsafe": "--unsafe u.json",
    "--hint": "--hint /a.hint.json",
    "--no-shuffle": "--no-shuffle",
    "--assume-shuffled": "--assume-shuffled",
    "--random-state": "--random-state 5",
    "--features": "--features 4",
    "--memory": "--memory 1K",
    "--scratch": "--scratch /nowhere",
    "--checkpoint": "--checkpoint state",
    "--checkpoint-every": "--checkpoint-every 5",
    "--cluster": "--cluster tcp://127.0.0.1:9",
    "--jobs": "--jobs 1",
    "--allow-unknown": "--allow-unknown",
    "--weights": "--weights x0",
    "--expect": f"--expect {'0' * 64}",
    "--rows": "--rows /site.csv",
    "--picture": "--picture p.svg",
    "--commit": "--commit --site A --out c.json",
    "--reveal": "--reveal /1.model.json /2.model.json",
    "--site": "--site A",
    "--protocol": "--protocol /1.model.json",
    "--round": "--round 2",
    "--after": "--after /study.json",
    "--few-rows": "--few-rows",
    "--report": "--report page.html",
    "--spreadsheet": "--spreadsheet",
    "--models": "--models /candidates",
    "--model-seconds": "--model-seconds 5",
    "--by": "--by kind",
    "--confidence": "--confidence .8",
    "--large": "--large",
    "--pairs": "--pairs 3",
    "--question": "--question parts",
    "--allow-copies": "--allow-copies",
    "--audit-seed": "--audit-seed 3",
    "--to": "--to onnx",
    "--table": "--table people",
    "--encoded": "--encoded",
    "--float32": "--float32",
    "--no-intercept": "--no-intercept",
}

#: Options that may leave all output as it is, and why; they must be looked at.
SILENT = {
    "--jobs": "threads change no number",
    "--memory": "nor does where rows are held",
    "--scratch": "rows that fit in memory need none",
    "--random-state": "another order of these rows gives the same codes",
    "--failure-prob": "no bound below 1 is proved for so few rows",
    "--allow-unknown": "without unknown values there is nothing to allow",
    "--allow-copies": "without copies there is nothing to allow",
    "--large": "small models need no permission",
    "--few-rows": "sums of many rows need no permission",
    "--spreadsheet": "no name here is a formula",
    "--no-shuffle": "an audit shuffles by its own split",
    "--checkpoint": "it is cleared when the model is written",
    "--model-seconds": "nothing takes so long",
    "--assume-shuffled": "sums know no order",
}


class Watched(argparse.Namespace):
    """Options that remember which of them were looked at."""

    def __getattribute__(self, name):
        if not name.startswith("_"):
            object.__getattribute__(self, "__dict__").setdefault("_read", set()).add(name)
        return object.__getattribute__(self, name)


def words(text, files):
    return [str(files / word[1:]) if word.startswith("/") else word for word in text.split()]


def outcome(arguments, folder, capsys, monkeypatch):
    """Exit code, output and files of a run in a folder of its own; and what was looked at."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    seen = []
    make = cli_parser.make_parser

    def watching():
        made = make()
        parse = made.parse_args

        def parse_args(given=None):
            seen.append(parse(given, Watched()))
            seen[-1].__dict__["_read"] = set()
            return seen[-1]

        made.parse_args = parse_args
        return made

    monkeypatch.setattr(cli, "make_parser", watching)
    try:
        code = cli.main(arguments)
    except SystemExit as stop:  # options that exclude each other
        code = stop.code
    captured = capsys.readouterr()
    text = captured.out
    if "--json" in arguments and code != 2:
        content = json.loads(text)
        for name in ("command", "method"):  # they repeat what was typed
            content.pop(name, None)
        text = json.dumps(content, sort_keys=True)
    made = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    read = seen[0].__dict__["_read"] if seen else set()
    return (code, text, made), read, captured.err


def options_of(command):
    """Options of a command as the parser knows them: their last spelling and attribute."""
    (commands,) = (
        action
        for action in cli_parser.make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {
        action.option_strings[-1]: action.dest
        for action in commands.choices[command]._actions
        if action.option_strings and action.dest != "help"
    }


def all_commands():
    (commands,) = (
        action
        for action in cli_parser.make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return set(commands.choices)


def test_the_table_knows_every_command_and_option():
    assert set(WAYS) == all_commands() - LATER
    known = {*ADDED, "--json"}
    for command in WAYS:
        assert set(options_of(command)) <= known, command


@pytest.mark.parametrize(
    ("command", "way"), [(command, way) for command, ways in WAYS.items() for way in ways]
)
def test_every_option_changes_something_or_is_refused(
    command, way, files, tmp_path, capsys, monkeypatch
):
    base = [command, *words(way, files), "--json"]
    plain, _, err = outcome(base, tmp_path / "plain", capsys, monkeypatch)
    assert plain[0] != 2, err
    ignored = []
    for number, (option, dest) in enumerate(options_of(command).items()):
        if option == "--json":
            more = [word for word in base if word != "--json"]
        else:
            more = [*base, *words(ADDED[option], files)]
        found, read, err = outcome(more, tmp_path / str(number), capsys, monkeypatch)
        assert found[0] != 70, err
        if found[0] == 2 or found != plain:
            continue
        if option not in SILENT or dest not in read:
            ignored.append(option)
    assert ignored == []
