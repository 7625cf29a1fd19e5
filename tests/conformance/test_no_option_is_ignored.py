"""Every option of a command changes what comes out, or is refused; none is ignored.

``WAYS`` has ways to call each command, ``ADDED`` what to add for each option. With the option the
run must be refused in one line, or give something else: another exit code, other output, other
files. The parser says which commands and options there are, so a new one without an entry fails. A
few may be quiet (``QUIET``), each with a case where it does show.
"""

import argparse
import functools
import hashlib
import json
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn import cli
from replearn.cli import parser as cli_parser
from replearn.cli import simulation
from replearn.codes.model import EASY_FEATURES
from replearn.fits import file_fit
from replearn.sources import shuffled_files
from replearn.study.choice_protocol import publish_choice
from replearn.study.hints import Hint
from tests.unit import onnx_files
from tests.unit.test_small_files import declared, projected

pytestmark = [
    pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning"),
    pytest.mark.filterwarnings("ignore::replearn.UselessModelWarning"),
]

NAMES = ["x0", "x1", "x2"]


def rows(seed, n_rows):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    scores = 1.5 * X[:, 0] - X[:, 1] + rng.logistic(size=n_rows)
    kinds = np.where(rng.random(n_rows) < 0.5, "a", "b")
    table = pd.DataFrame(X, columns=NAMES).assign(kind=kinds, code=rng.integers(0, 5, n_rows))
    return table.assign(y=(scores > 0).astype(int))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Everything that the command lines below name."""
    folder = tmp_path_factory.mktemp("files")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables(folder)
        studies(folder)
        choices(folder)
    return folder


def tables(folder):
    pilot, site = rows(0, 300), rows(1, 400)
    pilot.to_csv(folder / "pilot.csv", index=False)
    pilot.drop(columns="y").to_csv(folder / "blind.csv", index=False)
    plain = site[[*NAMES, "y"]]
    kept = {
        "site": site,
        "plain": plain,
        "other": rows(5, 300)[[*NAMES, "y"]],
        "sorted": plain.sort_values("y"),
        "strange": site.assign(kind="c"),
        "few": site.head(60),
        "noise": plain.assign(y=np.random.default_rng(3).integers(0, 2, len(plain))),
        "copies": pd.concat([site, site.iloc[::-1]]),
        "formulas": plain.assign(y=np.where(plain["y"] == 1, "=1+1", "no")),
        "named": plain.rename(columns={"x0": "=x0"}),
    }
    for name, table in kept.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    plain.to_parquet(folder / "plain.parquet")
    site.to_parquet(folder / "site.parquet")
    np.savez(folder / "plain.npz", X=plain[NAMES].to_numpy(), y=plain["y"].to_numpy())
    lines = [f"{int(r.y)} 1:{r.x0:.3f} 2:{r.x1:.3f} 3:{r.x2:.3f}\n" for r in plain.itertuples()]
    (folder / "plain.svm").write_text("".join(lines))
    (folder / "score.csv").write_text("column,weight\nx0,1\nx2,.5\n")
    (folder / "away").mkdir()


def studies(folder):
    pilot, site = rows(0, 300), rows(1, 400)
    X, y = pilot.drop(columns="y"), pilot["y"]
    plan = rl.plan_from_pilot(X, y, samples_per_site=400, target="y")
    plan.protocol.save(folder / "study.json")
    first = rl.plan_from_pilot(X, y, samples_per_site=400, target="y", algorithm="svm")
    first.protocol.save(folder / "svm.json")
    hinted = plan.replan(hint_bits=3).protocol
    hinted.save(folder / "hints.json")
    lead = hinted.estimator().fit(site.drop(columns="y"), site["y"])
    Hint.of(lead.hint_, hinted).save(folder / "a.hint.json")
    rl.save(lead.model_, folder / "lead.model.json", {}, hinted.content())
    draft = plan.protocol.register("lottery", "2099-01-01").content()
    draft["notes"]["registration"] |= {"drawn_on": "2026-01-02", "registered_on": "2026-01-01"}
    (folder / "draft.json").write_text(json.dumps(draft))
    for seed in (1, 2):
        sites = rows(seed, 400)
        fitted = plan.protocol.estimator().fit(sites.drop(columns="y"), sites["y"])
        rl.save(fitted.model_, folder / f"{seed}.model.json", {}, plan.protocol.content())
        sums = rl.row_sums(plan.protocol, sites.drop(columns="y"), sites["y"])
        sums.save(folder / f"{seed}.sums.json")
    svm = rl.ReplicableSVMClassifier(margin=0.3)
    rl.fit_file(svm, folder / "other.csv", "y", checkpoint=folder / "stale", memory=1000)
    formulas = pd.read_csv(folder / "formulas.csv")
    rl.save(svm.fit(formulas[NAMES], formulas["y"]).model_, folder / "formulas.model.json")
    named = pd.read_csv(folder / "named.csv")
    rl.save(svm.fit(named[["=x0", "x1", "x2"]], named["y"]).model_, folder / "named.model.json")
    wide = declared(projected("hadamard", 1), [1], EASY_FEATURES + 1, "svm")
    (folder / "wide.model.json").write_bytes(wide)


def choices(folder):
    """Candidates, protocols of a choice among them, and what two sites chose; also in ONNX."""
    plain = rows(7, 200)[[*NAMES, "y"]]
    plain.to_csv(folder / "choosing.csv", index=False)
    models = folder / "candidates"
    models.mkdir()
    for name, margin in {"one": 0.3, "two": 0.1}.items():
        svm = rl.ReplicableSVMClassifier(margin=margin).fit(plain[NAMES], plain["y"])
        rl.save(svm.model_, models / f"{name}.model.json")
    slow = folder / "slow"
    slow.mkdir()
    for name, weights in {"one": [1.5, -1, 0], "two": [1.5, 0, 1]}.items():
        proto = onnx_files.linear(weights)
        (slow / f"{name}.onnx").write_bytes(proto.SerializeToString())
    for place in (models, slow):
        protocol, _ = publish_choice(
            sorted(place.iterdir()), plain[NAMES], plain["y"], samples_per_site=400, target="y"
        )
        protocol.save(place / "choice.json")
        for site, table in {"a": rows(1, 400), "b": rows(2, 400)}.items():
            chosen = protocol.estimator(place).fit(table[NAMES], table["y"])
            rl.save_choice(chosen.choice_, place / f"{site}.choice.json", {"target": "y"})


@pytest.fixture(scope="module")
def cluster():
    """A cluster in this process, which costs little."""
    distributed = pytest.importorskip("distributed")
    settings = {"dashboard_address": None, "silence_logs": "CRITICAL"}
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", **settings
    ) as made:
        yield made.scheduler_address


#: Ways to call each command: words with a slash are files.
WAYS = {
    "demo": ["--repetitions 1"],
    "plan": [
        "--features 3 --margin .3",
        "--pilot /pilot.csv --target y --samples-per-site 400",
        "--pilot /pilot.csv --target y --samples-per-site 400 --algorithm svm",
        "--pilot /blind.csv --study discovery --samples-per-site 400 --classes 0,1 --share .4",
        "--registered /draft.json --public-value 12 --out study.json",
    ],
    "bundle": ["/study.json --out sites"],
    "check": ["/site.csv --protocol /study.json"],
    "fit": [
        "/plain.csv --target y --margin .3",
        "/plain.csv --target y --algorithm sgd --max-disagreement .9",
        "/plain.csv --target y --algorithm boost-box --max-disagreement .9",
        "/site.csv --protocol /study.json",
        "/site.csv --protocol /svm.json",
        "/site.csv --protocol /hints.json --lead --out a.model.json",
        "/site.csv --protocol /hints.json --hint /a.hint.json",
        "/site.csv --protocol /hints.json --unsafe a.unsafe.json",
        "/plain.parquet --target y --margin .3 --assume-shuffled --cluster CLUSTER",
        "/site.parquet --protocol /study.json --cluster CLUSTER",
    ],
    "choose": [
        "/choosing.csv --target y --candidates /candidates/one.model.json "
        "/candidates/two.model.json --samples-per-site 400 --publish p.json",
        "/plain.csv --protocol /candidates/choice.json --out a.choice.json",
    ],
    "compare": [
        "/1.model.json /2.model.json",
        "--commit /1.model.json --site A --out a",
        "/candidates/a.choice.json /candidates/b.choice.json",
    ],
    "replicate": ["/1.model.json /site.csv", "/lead.model.json /site.csv"],
    "sums": ["/site.csv --protocol /study.json --out a.sums.json"],
    "combine": ["/1.sums.json /2.sums.json --protocol /study.json --out m.json"],
    "predict": ["/1.model.json /site.csv --out p.csv", "/candidates/a.choice.json /plain.csv"],
    "evaluate": ["/1.model.json /site.csv --target y", "/candidates/a.choice.json /plain.csv"],
    "show": ["/1.model.json", "/candidates/a.choice.json"],
    "audit": [
        "/site.csv --protocol /study.json --pairs 2 --question halves",
        "/plain.csv --protocol /candidates/choice.json --pairs 2",
        "/plain.csv --target y --pairs 1 --question halves --cluster CLUSTER",
    ],
    "shuffle": ["/plain.csv --out s.csv"],
    "export": [
        "/1.model.json --to sql",
        "/1.model.json --to csv",
        "/1.model.json --to onnx --out m.onnx",
    ],
    "table": ["--margin .3 --features 3"],
    "completion": ["bash"],
}

#: What to add for an option; a pair of command and option where the command matters.
ADDED = {
    "--target": "--target x0",
    "--margin": "--margin .31",
    "--max-error": "--max-error .07",
    "--max-disagreement": "--max-disagreement .3",
    "--failure-prob": "--failure-prob .2",
    "--mode": "--mode certified",
    "--algorithm": "--algorithm dp",
    ("plan", "--algorithm"): "--algorithm net",
    "--samples": "--samples 10",
    "--solve": "--samples 100000 --solve max-error",
    "--sites": "--sites 5",
    "--pilot": "--pilot /site.csv",
    "--study": "--study discovery",
    "--hint-bits": "--hint-bits 3",
    "--scores": "--scores /score.csv --hint-bits 4",
    "--threshold": "--threshold 5:1",
    "--classes": "--classes no,yes",
    "--share": "--share .3",
    "--columns": "--columns x0,x1",
    "--drop": "--drop x2",
    "--categories": "--categories code",
    "--numeric": "--numeric kind",
    "--rare": "--rare 200",
    "--samples-per-site": "--samples-per-site 900",
    "--seed": "--seed 77",
    "--public-value": "--public-value 13",
    "--register": "--register lottery --draw-date 2099-01-01",
    "--draw-date": "--draw-date 2099-01-01",
    "--registered": "--registered /study.json",
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
    "--scratch": "--scratch /away",
    "--checkpoint": "--checkpoint state",
    "--checkpoint-every": "--checkpoint-every 5",
    "--cluster": "--cluster tcp://127.0.0.1:9",
    "--jobs": "--jobs 7",
    "--allow-unknown": "--allow-unknown",
    "--weights": "--weights x0",
    "--expect": f"--expect {'0' * 64}",
    "--rows": "--rows /site.csv",
    "--picture": "--picture p.svg",
    "--commit": "--commit --site A --out c.json",
    "--reveal": "--reveal /1.model.json /2.model.json",
    "--site": "--site B",
    "--protocol": "--protocol /1.model.json",
    "--round": "--round 2",
    "--after": "--after /study.json",
    "--few-rows": "--few-rows",
    "--report": "--report page.html",
    "--spreadsheet": "--spreadsheet",
    "--models": "--models /away",
    "--model-seconds": "--model-seconds 50",
    "--candidates": "--candidates /candidates/two.model.json /named.model.json",
    "--scoring": "--scoring roc_auc",
    "--publish": "--publish q.json",
    "--by": "--by x1",
    ("evaluate", "--by"): "--by kind",
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
    "--repetitions": "--repetitions 2",
}

#: Options that may leave all as it is: they allow what is not there, or say how the work is done.
#: For each a way in which it shows, and what to add then.
QUIET = {
    # threads change no number, and nor does where rows are held
    ("fit", "--jobs"): ("/plain.csv --target y --margin .3", "--jobs 7"),
    ("audit", "--jobs"): ("/site.csv --protocol /study.json --pairs 1", "--jobs 7"),
    ("replicate", "--jobs"): ("/1.model.json /site.csv", "--jobs 7"),
    ("fit", "--memory"): ("/plain.csv --target y --margin .3", "--memory 1K"),
    ("fit", "--scratch"): ("/plain.csv --target y --margin .3 --memory 1K", "--scratch /away"),
    ("shuffle", "--scratch"): ("/plain.csv --out s.csv", "--scratch /away"),
    # it is cleared when the model is written
    ("fit", "--checkpoint"): ("/plain.csv --target y --margin .3", "--checkpoint /stale"),
    # another order of few rows may give the same codes
    ("fit", "--random-state"): ("/noise.csv --target y --max-disagreement .9", "--random-state 4"),
    ("fit", "--no-shuffle"): ("/sorted.csv --target y --margin .3", "--no-shuffle"),
    # no bound is proved for so few rows
    ("fit", "--failure-prob"): ("/plain.csv --target y --mode certified", "--failure-prob .2"),
    ("audit", "--failure-prob"): (
        "/plain.csv --target y --mode certified --pairs 1 --question halves",
        "--failure-prob .2",
    ),
    # leave that is not needed
    ("fit", "--allow-unknown"): ("/strange.csv --protocol /study.json", "--allow-unknown"),
    ("audit", "--allow-unknown"): (
        "/strange.csv --protocol /study.json --pairs 1 --question halves",
        "--allow-unknown",
    ),
    ("replicate", "--allow-unknown"): ("/1.model.json /strange.csv", "--allow-unknown"),
    ("sums", "--allow-unknown"): (
        "/strange.csv --protocol /study.json --out a.sums.json",
        "--allow-unknown",
    ),
    ("sums", "--few-rows"): ("/few.csv --protocol /study.json --out a.sums.json", "--few-rows"),
    ("audit", "--allow-copies"): (
        "/copies.csv --protocol /study.json --pairs 1 --question halves",
        "--allow-copies",
    ),
    ("show", "--large"): ("/wide.model.json", "--large"),
    ("export", "--large"): ("/wide.model.json --to csv", "--large"),
    # no text here is a formula
    ("predict", "--spreadsheet"): ("/formulas.model.json /plain.csv --out p.csv", "--spreadsheet"),
    ("export", "--spreadsheet"): ("/named.model.json --to csv", "--spreadsheet"),
    # nothing takes so long
    ("predict", "--model-seconds"): ("/slow/a.choice.json /plain.csv", "--model-seconds 0"),
    ("evaluate", "--model-seconds"): ("/slow/a.choice.json /plain.csv", "--model-seconds 0"),
    ("audit", "--model-seconds"): (
        "/plain.csv --protocol /slow/choice.json --pairs 1",
        "--model-seconds 0",
    ),
    ("choose", "--model-seconds"): (
        "/plain.csv --protocol /slow/choice.json",
        "--model-seconds 0",
    ),
}


class Watched(argparse.Namespace):
    """Options that remember which of them were looked at."""

    def __getattribute__(self, name):
        if not name.startswith("_"):
            object.__getattribute__(self, "__dict__").setdefault("_read", set()).add(name)
        return object.__getattribute__(self, name)


class Line:
    """Runs command lines, each in a folder of its own."""

    def __init__(self, files, cluster, folder, capsys, monkeypatch):
        self.files, self.cluster, self.folder = files, cluster, folder
        self.capsys, self.monkeypatch = capsys, monkeypatch
        self.seen, self.used, self.n_runs = [], set(), 0
        make = cli_parser.make_parser

        def watching():
            made = make()
            parse = made.parse_args

            def parse_args(given=None):
                self.seen.append(parse(given, Watched()))
                self.seen[-1].__dict__["_read"] = set()
                return self.seen[-1]

            made.parse_args = parse_args
            return made

        monkeypatch.setattr(cli, "make_parser", watching)
        for pool in (ThreadPoolExecutor, ThreadPool):
            self.watch(pool, "__init__", lambda pool, size=None, *more, **named: size)
        for module in (file_fit, shuffled_files):
            self.watch(module, "scratch_folder", lambda place=None: f"rows in {place}")
        small = {"rows": (300, 400), "n_pilot": 100, "n_new": 100, "n_features": 2}
        setting = functools.partial(simulation.Setting, **small)
        monkeypatch.setattr(simulation, "Setting", setting)

    def watch(self, owner, name, noted):
        """Note something of each call: threads of a pool, or where rows are put."""
        called = getattr(owner, name)

        def noting(*args, **settings):
            self.used.add(noted(*args, **settings))
            return called(*args, **settings)

        self.monkeypatch.setattr(owner, name, noting)

    def words(self, text):
        """Arguments; a word with a slash is a file."""
        found = [str(self.files / word[1:]) if word[0] == "/" else word for word in text.split()]
        return [self.cluster if word == "CLUSTER" else word for word in found]

    def run(self, arguments):
        """What becomes of it, which options were looked at, and what was said against it."""
        self.n_runs += 1
        folder = self.folder / str(self.n_runs)
        folder.mkdir()
        self.monkeypatch.chdir(folder)
        self.seen.clear()
        self.used.clear()
        try:
            code = cli.main(arguments)
        except SystemExit as stop:  # options that exclude each other
            code = stop.code
        said = self.capsys.readouterr()
        made = {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")
            if path.is_file()
        }
        read = self.seen[0].__dict__["_read"] if self.seen else set()
        used = {str(what).replace(str(folder), "here") for what in self.used}
        used -= {"None", "1", "2", str(os.cpu_count())}  # threads that nobody asked for
        said_no = said.err if code == 2 else ""
        return (code, self.plain(said.out), made, used, said_no), read, said.err

    def plain(self, text):
        """Output without what only repeats the command, or the clock."""
        if not text.startswith("{"):
            return text
        content = json.loads(text)
        for name in ("command", "method", "seconds"):
            content.pop(name, None)
        return json.dumps(content, sort_keys=True)


@pytest.fixture
def line(files, cluster, tmp_path, capsys, monkeypatch):
    return Line(files, cluster, tmp_path, capsys, monkeypatch)


def commands():
    (found,) = (
        action
        for action in cli_parser.make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return found.choices


def options_of(command):
    """Options of a command as the parser knows them: their last spelling and attribute."""
    return {
        action.option_strings[-1]: action.dest
        for action in commands()[command]._actions
        if action.option_strings and action.dest != "help"
    }


def test_the_tables_know_every_command_and_option():
    assert set(WAYS) == set(commands())
    for command in WAYS:
        assert set(options_of(command)) <= {*ADDED, "--json"}, command
    assert all(option in options_of(command) for command, option in QUIET)


@pytest.mark.parametrize(
    ("command", "way"), [(command, way) for command, ways in WAYS.items() for way in ways]
)
def test_every_option_changes_something_or_is_refused(command, way, line):
    base = [command, *line.words(way), "--json"]
    plain, _, err = line.run(base)
    assert plain[0] != 2, err
    ignored = []
    for option, dest in options_of(command).items():
        added = ADDED.get((command, option), ADDED.get(option))
        if option != "--json" and f" {added} " in f" {way} ":  # it is there already
            continue
        more = base[:-1] if option == "--json" else [*base, *line.words(added)]
        found, read, err = line.run(more)
        assert found[0] != 70, err
        if found[0] == 2:
            assert len(err.splitlines()) == 1, err
        elif found == plain and ((command, option) not in QUIET or dest not in read):
            ignored.append(option)
    assert ignored == []


@pytest.mark.parametrize(("command", "option"), QUIET)
def test_what_may_be_quiet_does_show(command, option, line):
    way, added = QUIET[command, option]
    plain, _, _ = line.run([command, *line.words(way), "--json"])
    found, read, err = line.run([command, *line.words(f"{way} {added}"), "--json"])
    assert found != plain
    assert options_of(command)[option] in read, err
