"""Mutated files and command lines: refused in words or harmless, never a foreign error or a crash.

As many as one likes, in processes of their own: ``python tests/fuzzing/test_fuzzing.py 40000``.
"""

import io
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.cli import main
from replearn.codes import HalfspaceDesign, HalfspaceModel, NetSpace, VoteSpace
from replearn.datasets import load_readmission, make_margin
from replearn.errors import ReplearnError
from replearn.exports.sql import to_sql
from replearn.reports.bundle import rehearsal
from replearn.reports.methods import with_methods
from replearn.reports.policy import Policy
from replearn.study import Opening, Request, draft_study, lab_columns, publish, replicate
from replearn.tables import open_table

TARGET = "readmitted"
SECONDS = 30  # of work for one file, however it was made

NASTY = [
    *(None, True, 0, -1, 1 << 53, -(1 << 60), 0.5, -0.0, 1e308, "", "0", "-1", "1e+90", "1e-90"),
    *("1e999", "nan", "0.50", "x" * 5000, "\u202e", "a\0b", "\x1b[2J", "<script>", "0" * 64, "é"),
    *([], {}, [[]], [0] * 3000, {"kind": "number"}, [None], ["a", "a"], "(other)", "9" * 400),
]
JUNK = [b"\0", b"\xff\xfe", b'"', b",", b"\n", b"\r", b"1e999", b"-", b";", b"nan", b"[" * 50, b"{"]


def _design(recipe: str, space: Any) -> HalfspaceDesign:
    return HalfspaceDesign(recipe, "y", (0, 1), False, space, "0")


@cache
def workshop() -> tuple[Path, pd.DataFrame, dict[str, Any]]:
    """A folder with a file of every kind, a lab's rows, and the documents."""
    folder = Path(tempfile.mkdtemp(prefix="fuzzing-"))
    lab = load_readmission("Birchwood", 400)
    request = Request(target=TARGET, ridge=0.01, sealed=True, replication_rows=400)
    first = publish(open_table(load_readmission("Ashford", 600), target=TARGET), request)
    X, y = make_margin(800, 3, 0.4, random_state=0)
    paper = rl.ReplicableSVMClassifier(margin=0.4, sketch_bits=2).fit(X, y)
    # sums of few rows are refused, since they would show single patients
    many = load_readmission("Birchwood", 6000)
    sums = rl.lab_sums(first.study, many, lab="b")
    made = {"study": first.study, "model": first.model, "sums": sums}
    made |= {"state": rl.combine(first.study, sums), "paper": paper.study_, "svm": paper.model_}
    made["share"] = rl.lab_shares(first.study, lab, lab="a", labs=["a", "b", "c"])["a"]
    rows = open_table(load_readmission("Ashford", 3000), target=TARGET)
    made["columns"] = lab_columns(rows, "logistic", "a")
    made["opening"] = Opening(first.study.fingerprint, first.model.fingerprint, first.nonce or "")
    made["policy"] = Policy(500, 20, "0.05", ("study", "sums"))
    net, vote = NetSpace("net", 3, "none", 3, 99), VoteSpace("vote", 3, "foam", "0.1")
    made["net"] = HalfspaceModel(_design("net", net), np.array([7]))
    made["vote"] = HalfspaceModel(_design("foam", vote), np.arange(8))
    for name, document in made.items():
        document.save(folder / f"{name}.json")
    lab.to_csv(folder / "lab.csv", index=False)
    lab.to_parquet(folder / "lab.parquet", row_group_size=150)
    pd.DataFrame(X, columns=list("abc")).assign(y=y).to_csv(folder / "margin.csv", index=False)
    np.savez(folder / "rows.npz", X=X[:50], y=y[:50])
    return folder, lab, made


def bytes_changed(content: bytes, dice: random.Random) -> bytes:
    """Some bytes flipped, removed, put in, repeated or cut off."""
    data = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 5, 40))):
        place = dice.randrange(len(data) + 1)
        end = place + dice.choice((1, 2, 8, 300))
        new = dice.choice((b"", dice.choice(JUNK), dice.randbytes(1), 2 * data[place:end]))
        data[place : place if dice.random() < 0.2 else end] = new
    return bytes(data[: dice.choice((len(data), len(data), dice.randrange(len(data) + 1)))])


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Containers in a document, each with the keys of its items."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def content_changed(content: Any, dice: random.Random) -> Any:
    """Valid JSON that says something else, and is hashed anew."""
    found = deepcopy(content)
    if dice.random() < 0.9:
        found.pop("fingerprint", None)
    for _ in range(dice.choice((1, 1, 2, 4))):
        parent, key = dice.choice([*places(found)] or [(found, "format")])
        old, what = parent.get(key) if isinstance(parent, dict) else parent[key], dice.randrange(5)
        if what == 0:
            del parent[key]
        elif what == 1 and isinstance(parent, list):
            parent.insert(dice.randrange(len(parent) + 1), deepcopy(old))
        elif what == 2 and isinstance(old, int) and not isinstance(old, bool):
            parent[key] = old + dice.choice((-1, 1, 7, 1 << 20, -old, -2 * old))
        elif what == 3 and isinstance(old, str):
            with suppress(ValueError):
                parent[key] = f"{float(old) * dice.choice((-1, 0.01, 3, 1e30)):.3g}"
        else:
            parent[key] = deepcopy(dice.choice(NASTY))
    return found


def use(document: Any, folder: Path, dice: random.Random) -> None:
    """Whatever a lab would do with a file that was read."""
    study, lab = workshop()[2]["study"], workshop()[1]
    facts, path = document.facts(), folder / "again.json"
    assert "\x1b" not in facts.text(78, True)
    assert "<script>" not in facts.html("title")
    document.save(path)
    assert rl.load(path) == document
    match document.FORMAT.removeprefix("replearn/"):
        case "study" if dice.random() < 0.3:
            rl.check(document, lab)  # refuses studies of halfspaces, which have no page either
            with_methods(facts, document).html("title")
            rehearsal(document)
            str(replicate(document, open_table(lab, target=TARGET))[1])
        case "model":
            rl.evaluate(document, lab)
            to_sql(document, "rows")
        case "halfspace":
            document.predict(np.zeros((2, len(document.feature_names))))
        case "sums":
            rl.combine(study, document)
        case "share":
            alike = [replace(document, lab=lab) for lab in document.labs]
            rl.combine(study, *alike)
            rl.combine(study, *(replace(one, to=one.lab, lab=None) for one in alike))
        case "columns":
            draft_study(document, replace(document, lab=document.lab + "2"), ridge=0.01)
        case "state":
            sums = study.sums([load_readmission("Birchwood", 6000)], document)
            if document.asks != "spread":
                study.step(sums, document)


def a_document(dice: random.Random, folder: Path) -> None:
    path = folder / "file.json"
    source = workshop()[0] / f"{dice.choice(sorted(workshop()[2]))}.json"
    if dice.random() < 0.3:
        path.write_bytes(bytes_changed(source.read_bytes(), dice))
    else:
        path.write_text(json.dumps(content_changed(json.loads(source.read_bytes()), dice)))
    use(rl.load(path), folder, dice)


def a_table(dice: random.Random, folder: Path) -> None:
    name, study = dice.choice(("lab.csv", "lab.parquet", "rows.npz")), workshop()[2]["study"]
    path = folder / name
    path.write_bytes(bytes_changed((workshop()[0] / name).read_bytes(), dice))
    if name == "rows.npz":
        list(open_table(path).batches())
    else:
        rl.check(study, path)
        str(replicate(study, open_table(path, target=TARGET))[1])


CALLS = """\
publish lab.csv --target readmitted --out s.json --rows 400 --ridge 0.01
replicate study.json lab.parquet --out m.json --page p.html --opened opening.json
check study.json lab.csv --details
bundle study.json --out folder
show state.json --json
compare model.json model.json --study study.json
evaluate model.json lab.csv --by sex
predict model.json lab.parquet --out p.csv
export model.json --out m.sql --table rows --dialect duckdb
sums study.json lab.csv --out a.sums.json --lab north
combine study.json sums.json --out next.json
sums study.json lab.csv --lab a --shares a,b,c --out s.json
combine study.json share.json --out shares.json
fit margin.csv --target y --margin 0.4 --bits 2 --study-out s.json
plan --features 50 --margin 0.2 --algorithm sgd
shuffle margin.csv --out shuffled.csv --seed 7
--decimal --sealed --registered --drop --basis --kind --help --version
"""
VALUES = "-1 0 1 1e9 0.5 nan x all age,sex y / . no.csv \udcff.csv"
WORDS = [*CALLS.split(), *VALUES.split(), ""]


def a_command(dice: random.Random, folder: Path) -> None:
    shutil.copytree(workshop()[0], folder, dirs_exist_ok=True)
    words = dice.choice(CALLS.splitlines()).split()
    for _ in range(dice.randrange(4)):
        place = dice.randrange(1, len(words) + 1)
        words[place : place + dice.randrange(2)] = dice.choices(WORDS, k=dice.randrange(2))
    err = io.StringIO()
    with chdir(folder), redirect_stdout(io.StringIO()), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    assert code in (0, 1, 2), (words, err.getvalue())
    if code == 2:
        raise ReplearnError(err.getvalue())


KINDS = {"document": a_document, "table": a_table, "command": a_command}


def tried(kind: str, seed: int) -> str:
    """What became of one mutation: refused, or harmless. Anything else is raised."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            KINDS[kind](random.Random(f"{kind} {seed}"), Path(folder))
        except ReplearnError:
            return "refused"
    return "harmless"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n_files"), [("document", 300), ("table", 60), ("command", 60)])
def test_mutations(kind: str, n_files: int) -> None:
    found = Counter(tried(kind, seed) for seed in range(n_files))
    assert n_files / 4 < found["refused"] < n_files


def long_run(n_files: int) -> bool:
    """Mutations in processes of their own; whether one went wrong."""
    codes = []
    for start in range(0, n_files, 5000):
        for kind, share in (("document", 3800), ("table", 800), ("command", 400)):
            call = [sys.executable, __file__, kind, str(start), str(start + share)]
            codes.append(subprocess.run(call).returncode)
    return any(codes)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(long_run(int(sys.argv[1])))
    outcomes: Counter[str] = Counter()
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        try:
            workshop()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # nobody catches the signal
            outcomes[tried(sys.argv[1], number)] += 1
        except Exception as problem:
            print(number, type(problem).__name__, " ".join(str(problem).split())[:500])
            outcomes["wrong"] += 1
    print(*sys.argv[1:], dict(outcomes))
    sys.exit(bool(outcomes["wrong"]))
