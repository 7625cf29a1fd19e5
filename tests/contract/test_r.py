"""The third implementation: R gives the same bits, codes and files as Python, or refuses too."""

import json
import random
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import vectors
from replearn.errors import ReplearnError
from replearn.exact.rows import Kept
from replearn.recipes.glm import Summary, fit
from tests.contract.replications import CASES, make_study, open_case, replicated, write_table
from tests.contract.test_javascript import strange_tables
from tests.contract.test_javascript_studies import BAD_ROWS
from tests.contract.test_javascript_tables import ENCODING, FILES, by_python, strange_file

SCRIPT = Path(__file__).parents[2] / "inst" / "replicate.R"


@cache
def why_not() -> str:
    """What is absent here that the tests need."""
    if shutil.which("Rscript") is None:
        return "Rscript is not installed"
    found = subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True)
    return "the R package jsonlite is not installed" if found.returncode else ""


@pytest.fixture
def answers(tmp_path):
    """A function that asks R; R starts once for a list of calls."""
    if reason := why_not():
        pytest.skip(reason)

    def ask(calls: list[tuple[str, Any]]) -> list[Any]:
        (tmp_path / "calls.json").write_text(json.dumps(calls))
        command = ["Rscript", Path(__file__).parent / "calls.R", SCRIPT, tmp_path / "calls.json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def test_vectors(answers):
    stored = json.loads(vectors.PATH.read_bytes())
    canonical, words, algebra = (stored[name] for name in ("canonical", "words", "algebra"))
    bits = [f"{int(word):016x}" for word in words["words"]]
    expected = {
        "canonical": [canonical["text"], canonical["sha256"]],
        "words": [bits, words["uniforms"]],
        "algebra": [algebra["lower"], algebra["solution"]],
        "marks": stored["marks"]["marks"],
        "ties": stored["ties"]["codes"],
    }
    calls = [(name, stored[name]) for name in expected]
    for name in ("exp", "sigmoid", "log"):
        calls.append((name, stored[name][0]))
        expected[name] = stored[name][1]
    n_steps = len(calls)
    found = answers([*calls, *(("fit", vector) for vector in stored["fits"])])
    for (name, _), answer in zip(calls, found[:n_steps], strict=True):
        assert answer == expected[name], name
    for vector, answer in zip(stored["fits"], found[n_steps:], strict=True):
        assert len(answer) == 8
        for name, value in answer.items():
            assert value == vector[name], (vector["name"], name)


def test_strange_tables(answers):
    tables = list(strange_tables(np.random.default_rng(33)))
    calls, expected = [], []
    for block, loss, ridge in tables:
        given = {name: getattr(block, name) for name in ("terms", "targets", "weights", "offset")}
        given = {name: value.tolist() for name, value in given.items() if value is not None}
        calls.append(("fit", given | {"loss": loss.content(), "ridge": ridge}))
        rows = Kept(block)
        try:
            theta = fit(rows, loss, ridge, Summary.of(rows, loss).check(loss))
            expected.append({"theta": theta.tolist()})
        except ReplearnError as problem:
            expected.append({"refused": str(problem)})
    for ours, found in zip(expected, answers(calls), strict=True):
        assert {name: found[name] for name in ours} == ours


def test_csv_files(answers, tmp_path):
    coins = random.Random(34)
    files = {name: (content, options) for name, (content, options, _) in FILES.items()}
    files |= {f"strange {i}": (strange_file(coins), {}) for i in range(300)}
    calls, expected = [], []
    for number, (content, options) in enumerate(files.values()):
        content = content.encode() if isinstance(content, str) else content
        path = tmp_path / f"{number}.csv"
        expected.append(by_python(path, content, options))
        given = {"path": str(path), "encoding": ENCODING.content(), "options": options}
        calls.append(("encode", given))
    for name, ours, found in zip(files, expected, answers(calls), strict=True):
        if "refused" in ours:
            assert "refused" in found, name
        else:
            counts = [count[:2] for count in ours["counts"]]
            assert found == {"columns": ours["columns"], "counts": counts}, (name, files[name])


def test_model_files_are_equal(answers, tmp_path):
    """Of all recorded tables, from CSV files and, where R reads these, from data.frames."""
    calls, expected = [], []
    for number, (name, case) in enumerate(CASES.items()):
        study, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        n_rows = case.n_rows if number % 2 else 90  # too few rows: a different model
        path = write_table(tmp_path / f"{number}.csv", case, seed=100 + number, n_rows=n_rows)
        model, replication = replicated(study, path, case, original if number % 3 == 0 else None)
        for part, stem in ((study, "study"), (original, "original"), (model, "python")):
            part.save(tmp_path / f"{number}.{stem}.json")
        given = {
            "study": str(tmp_path / f"{number}.study.json"),
            "opened": str(tmp_path / f"{number}.original.json") if number % 3 == 0 else None,
            "path": str(path),
        }
        signs = {"decimal": case.csv.decimal, "thousands": case.csv.thousands}
        for frame in (None, number % 2 == 0) if case.csv.decimal == "." else (None,):
            extra = {"options": signs} if frame is None else {"frame": frame}
            out = tmp_path / f"{len(calls)}.out.json"
            calls.append(("replicate", given | extra | {"out": str(out)}))
            batches = open_case(path, case, study.design.encoding.names).batches()
            scores = np.concatenate([model.scores_of(batch) for batch in batches])
            file = (tmp_path / f"{number}.python.json").read_bytes()
            expected.append((name, out, file, replication, scores))
    for (name, out, file, python, scores), found in zip(expected, answers(calls), strict=True):
        assert out.read_bytes() == file, name
        assert (found["same"], found["fingerprint"]) == (python.same, python.fingerprint), name
        assert np.allclose(np.reshape(found["scores"], scores.shape), scores), name
        if python.differences:
            opened = [d.name for d in python.differences]
            assert found["differences"] in (opened, []), name


def test_refusals(answers, tmp_path):
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    study.save(tmp_path / "study.json")
    altered = (tmp_path / "study.json").read_text().replace('"n_original":800', '"n_original":801')
    (tmp_path / "altered.json").write_text(altered)
    given = {"study": str(tmp_path / "study.json"), "out": str(tmp_path / "model.json")}
    calls = [("replicate", given | {"study": str(tmp_path / "altered.json"), "path": "none.csv"})]
    for number, (rows, _) in enumerate(BAD_ROWS.values()):
        path = write_table(tmp_path / f"{number}.csv", case, seed=1)
        path.write_text(path.read_text() + (rows or "60,25,A,true,1,0,1,1,x,y"))
        calls.append(("replicate", given | {"path": str(path)}))
    words = ["altered", "must have 9 cells", "missing labels", "got others in 10 of 810 rows: '2'"]
    words += ["60 of 860 cells (7.0%)", "decimal commas", "infinite numbers"]
    for word, found in zip(words, answers(calls), strict=True):
        assert word in found["refused"]
    assert not (tmp_path / "model.json").exists()
