"""The third implementation: R gives the same bits, codes and files as Python, or refuses too."""

import json
import os
import random
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import vectors
from replearn import cli
from replearn.datasets import load_readmission
from replearn.errors import ReplearnError
from replearn.glm import GlmModel, Summary, fit, survival_at
from replearn.reports.update import update
from replearn.rows import Block, MemoryBlocks, row_marks
from replearn.study import (
    Evidence,
    GlmReplication,
    GlmStudy,
    Request,
    RowEncoder,
    TableRows,
    publish,
    read_rows,
    replicate,
    table_of,
)
from replearn.study.placebo import placebo_matches
from replearn.tables import Table, open_table, profile
from tests.contract.replications import (
    CASES,
    LOCAL_CASES,
    Case,
    bait,
    items,
    large_table,
    little_spread,
    make_study,
    open_case,
    opening_of,
    replicated,
    replications_of_all_verdicts,
    strange_columns,
    write_table,
)
from tests.contract.test_javascript import strange_tables, targets_alone
from tests.contract.test_javascript_studies import BAD_ROWS
from tests.contract.test_javascript_tables import (
    ENCODING,
    FILES,
    NARROW,
    by_python,
    hostile_files,
    strange_file,
)
from tests.unit.test_coefficients import schooling
from tests.unit.test_survival import trial

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "inst" / "replicate.R"

#: A table of each kind of fit: R takes a second for each.
KINDS = {
    name: CASES[name] for name in ("weights", "many classes", "numbers", "counts", "directions")
}


@pytest.fixture(scope="module", autouse=True)
def needs_r():
    if shutil.which("Rscript") is None:
        pytest.skip("Rscript is not installed")
    if subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True).returncode:
        pytest.skip("the R package jsonlite is not installed")


class Answers:
    """What R answers: one process for all tests."""

    def __init__(self, folder: Path) -> None:
        self.said = folder / "stderr"
        command = ["Rscript", str(Path(__file__).parent / "calls.R"), str(SCRIPT)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.said.open("w") as said:
            self.process = subprocess.Popen(command, stderr=said, text=True, **pipes)

    def __call__(self, folder: Path, calls: list[tuple[str, Any]]) -> list[Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        (path := folder / "calls.json").write_text(json.dumps(calls))
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", self.said.read_text()
        return json.loads((folder / "calls.json.answers").read_bytes())

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def answers(needs_r, tmp_path_factory):
    found = Answers(tmp_path_factory.mktemp("r"))
    yield found
    found.close()


def test_vectors(tmp_path, answers):
    stored = json.loads(vectors.PATH.read_bytes())
    canonical, words, algebra = (stored[name] for name in ("canonical", "words", "algebra"))
    expected = {
        "canonical": [canonical["text"], canonical["sha256"]],
        "words": [[f"{int(word):016x}" for word in words["words"]], words["uniforms"]],
        "algebra": [algebra["lower"], algebra["solution"]],
        "marks": stored["marks"]["marks"],
        "ties": stored["ties"]["codes"],
    }
    calls = [(name, stored[name]) for name in expected]
    for name in ("exp", "sigmoid", "log"):
        calls.append((name, stored[name][0]))
        expected[name] = stored[name][1]
    for vector in stored["fits"]:
        if vector.get("n_terms", 0) > 100:  # R takes seconds for so many coins
            terms = vectors.rows_from_coins(vector["stream"], vector["n_rows"], vector["n_terms"])
            terms.astype(np.int32).tofile(tmp_path / "terms")
            vector["path"] = str(tmp_path / "terms")
    found = answers(tmp_path, [*calls, *(("fit", vector) for vector in stored["fits"])])
    for name, value in expected.items():
        assert found.pop(0) == value, name
    for vector, answer in zip(stored["fits"], found, strict=True):
        assert len(answer) == 8
        for name, value in answer.items():
            assert value == vector[name], (vector["name"], name)


def test_tables_and_a_study(tmp_path, answers):
    stored = json.loads(vectors.PATH.read_bytes())
    table, study = stored["table"], stored["study"]
    (tmp_path / "table.csv").write_text(study["csv"])
    (tmp_path / "study.json").write_text(json.dumps(study["study"]))
    paths = {"path": "table.csv", "study": "study.json", "out": "model.json"}
    given = {name: str(tmp_path / file) for name, file in paths.items()}
    alone = list(targets_alone(stored))
    calls = [("table", given) for given in (table, *(given for given, _ in alone))]
    found, *others, replicated = answers(tmp_path, [*calls, ("replicate", given)])
    kept = {name: [table[name][i] for i in table["kept"]] for name in ("terms", "targets")}
    assert found == kept | {"scaled": table["scaled"]}
    assert [other["targets"] for other in others] == [targets for _, targets in alone]
    assert replicated["fingerprint"] == study["model_fingerprint"]


def test_strange_tables(tmp_path, answers):
    calls, expected = [], []
    for block, loss, ridge in strange_tables(np.random.default_rng(33)):
        given = {name: getattr(block, name) for name in ("terms", "targets", "weights", "offset")}
        given = {name: value.tolist() for name, value in given.items() if value is not None}
        calls.append(("fit", given | {"loss": loss.content(), "ridge": ridge}))
        rows = MemoryBlocks(block)
        try:
            theta = fit(rows, loss, ridge, Summary.of(rows, loss).check(loss))
            expected.append(("theta", theta.tolist()))
        except ReplearnError as problem:
            expected.append(("refused", str(problem)))
    for (key, value), found in zip(expected, answers(tmp_path, calls), strict=True):
        assert found[key] == value


def test_csv_files(tmp_path, answers):
    coins = random.Random(34)
    files = [(content, options, ENCODING) for content, options, _ in FILES.values()]
    files += [(strange_file(coins), {}, ENCODING) for _ in range(300)]
    files += hostile_files()
    calls, expected = [], []
    for number, (content, options, encoding) in enumerate(files):
        path = tmp_path / f"{number}.csv"
        content = content.encode() if isinstance(content, str) else content
        expected.append(by_python(path, content, options, encoding))
        given = {"path": str(path), "encoding": encoding.content(), "options": options}
        calls.append(("encode", given))
    for file, ours, found in zip(files, expected, answers(tmp_path, calls), strict=True):
        assert ("refused" in found) == ("refused" in ours), file
        if "refused" not in ours:
            assert found["columns"] == ours["columns"], file
            assert found["counts"] == [count[:2] for count in ours["counts"]], file


def test_stray_quotes(tmp_path, answers):
    """A quote that swallows rows is refused with its line; texts of several lines are none."""
    lines = ["note,a,b,y", *(f"ok,{i},{i % 7},{i % 2}" for i in range(60))]
    note = '"slept well,\ntook 5 mg, then 10\n\nand went"'
    strays = (
        {10: '"ok,9,2,1', 30: '"ok,29,1,1'},
        {10: '"ok,9,2,1', 11: 'ok",10,3,0'},
        {5: f"{note},4,4,0", 10: 'ok,9,2,"1', 12: 'ok,11,4,1"'},
        {10: f"{note},9,2,1", 20: f"ok,19,5,{note}"},
    )
    calls, expected = [], []
    for number, (stray, end) in enumerate(product(strays, ("\n", "\r\n"))):
        text = "\n".join(stray.get(place, line) for place, line in enumerate(lines)) + "\n"
        (path := tmp_path / f"{number}.csv").write_bytes(text.replace("\n", end).encode())
        calls.append(("encode", {"path": str(path), "encoding": NARROW.content(), "options": {}}))
        try:
            list(open_table(path, columns=NARROW.names).batches())
            expected.append(None)
        except ReplearnError as problem:
            expected.append(str(problem))
    found = [answer.get("refused") for answer in answers(tmp_path, calls)]
    assert found == expected
    assert [message is None for message in found] == [False] * 6 + [True] * 2


def call(folder: Path, study: GlmStudy, path: Path, case: Case, **more: Any) -> tuple[str, Any]:
    """A replication; it writes its model beside the table."""
    study.save(folder / f"{study.fingerprint}.json")
    signs = {"decimal": case.csv.decimal, "thousands": case.csv.thousands}
    given = {
        "study": str(folder / f"{study.fingerprint}.json"),
        "path": str(path),
        "options": signs,
    }
    return "replicate", given | {"out": f"{path}.{len(more)}.model.json"} | more


def assert_same_words(python: GlmReplication, found: dict[str, Any], name: str) -> None:
    facts = python.facts()
    assert (found["same"], found["fingerprint"]) == (python.same, python.fingerprint), name
    assert (found["word"], found["same_slopes"]) == (python.verdict, python.same_slopes), name
    assert found["is_usable"] == (python.same is not False), name
    assert found["verdict"] == facts.verdict, name
    assert found["told"] == list(facts.told), name
    assert found["items"] == items(facts.items), name
    assert found["details"] == items(facts.details), name
    assert found["apart"] == list(python.apart), name
    if python.support is not None:
        test = python.support.test
        expected = [test.p_value, test.p_constants, test.p_slopes, test.p_factor]
        expected.append(python.support.p_one_population)
        assert np.allclose(found["p_values"], expected, rtol=1e-4, atol=1e-12), name


def test_model_files_are_equal(tmp_path, answers):
    """Of all recorded tables, from CSV files and, if these have points, from data.frames."""
    calls, expected = [], []
    cases = [*CASES.items(), *((f"local, {name}", case) for name, case in LOCAL_CASES.items())]
    for number, (name, case) in enumerate(cases):
        study, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        n_rows = case.n_rows if number % 4 else 90  # too few rows: a different model
        path = write_table(tmp_path / f"{number}.csv", case, seed=100 + number, n_rows=n_rows)
        opened = original if number % 3 == 0 else None
        original.save(tmp_path / f"{number}.opened.json")
        more = {} if opened is None else {"opened": str(tmp_path / f"{number}.opened.json")}
        frame = case.csv.decimal == "." and number % 2 == 1
        more |= {"predict": True} | ({"frame": number % 4 == 1} if frame else {})
        expected.append((name, path, case, *replicated(study, path, case, opened)))
        calls.append(call(tmp_path, study, path, case, **more))
    found = answers(tmp_path, calls)
    for (name, path, case, model, said), (_, given), one in zip(
        expected, calls, found, strict=True
    ):
        assert_same_words(said, one, name)
        assert_same_estimates(said, one, name)
        assert_same_model(model, open_case(path, case, model.feature_names), given["out"], one)
    assert {said.same for *_, said in expected} == {True, False}


def assert_same_estimates(python: GlmReplication, found: dict[str, Any], name: str) -> None:
    """R adds up in its own order, and stops a hundredth of a standard error away."""
    own = python.own
    assert (found["own"] is None) == (own is None), name
    if own is not None:
        parts = (np.array(part, dtype=np.float64) for part in found["own"])
        estimate, error = (part.reshape(own.estimate.shape) for part in parts)
        away = np.abs(estimate - own.estimate) / own.standard_error
        assert (np.isnan(away) == np.isnan(own.estimate)).all(), name
        assert np.nanmax(away) < 0.05, name
        assert np.allclose(error, own.standard_error, rtol=0.02, equal_nan=True), name


def assert_same_model(model: GlmModel, table: Table, out: str, found: dict[str, Any]) -> None:
    """The file, predictions and coefficients; after a mismatch there is none."""
    assert Path(out).exists() == (not model.is_mismatch) == found["is_usable"]
    if model.is_mismatch:
        return
    model.save(f"{out}.python")
    assert Path(out).read_bytes() == Path(f"{out}.python").read_bytes()
    scores = np.concatenate([model.scores_of(batch) for batch in table.batches()])
    mean = model.design.loss.mean(scores)
    mean = mean[:, 1] if len(model.classes or ()) == 2 else mean
    assert np.allclose(np.reshape(found["response"], mean.shape), mean)
    scale, centre = model.design.loss.scale
    assert np.allclose(np.reshape(found["scores"], scores.shape), scores * scale + centre)
    printed = np.column_stack([model.intercept, model.coef])
    assert np.allclose(np.reshape(found["coefficients"], printed.shape), printed)


def test_updated_models_are_equal(tmp_path, answers):
    """Byte for byte, of all losses; a second update keeps what the first one did."""
    calls, expected = [], []
    for number, case in enumerate((KINDS | LOCAL_CASES).values()):
        _, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        path = write_table(tmp_path / f"{number}.csv", case, seed=300 + number)
        first = update(original, path, slope=case.loss.n_scores == 1, csv=case.csv).model
        for parent, slope in ((original, number % 2 == 0), (first, True)):
            file = str(tmp_path / f"{number}.{len(calls)}.json")
            parent.save(file)
            given = {"model": file, "path": str(path), "slope": slope, "out": f"{file}.r"}
            calls.append(("update", given | {"options": {"decimal": case.csv.decimal}}))
            if slope and case.loss.n_scores > 1:
                expected.append(None)
                continue
            update(parent, path, slope=slope, csv=case.csv).model.save(f"{file}.python")
            expected.append(Path(f"{file}.python").read_bytes())
    for (_, given), file, found in zip(calls, expected, answers(tmp_path, calls), strict=True):
        if file is None:
            assert "no one factor in common" in found["refused"]
        else:
            assert found is True, found
            assert Path(given["out"]).read_bytes() == file, given["model"]
    assert None in expected


def test_the_same_columns_look_strange(tmp_path, answers):
    calls, expected = [], []
    little = little_spread(tmp_path, KINDS)
    for name, study, path, case in (*strange_columns(tmp_path), *little):
        expected.append((name, replicated(study, path, case)[1]))
        calls.append(call(tmp_path, study, path, case))
    for (name, replication), found in zip(expected, answers(tmp_path, calls), strict=True):
        assert replication.findings, name
        assert_same_words(replication, found, name)


def test_survival(tmp_path, answers):
    """Rows at risk, hazard ratios and risks within a time are Python's."""
    study, calls, expected = None, [], []
    for seed, n_rows in enumerate((1500, 1500, 60)):
        frame = trial(n_rows, seed)
        frame["arm"] = np.where(frame.pop("treated") == 1, "x y", "b")
        # an enzyme with values far from the rest: Newton's steps are halved
        frame["enzyme"] = np.random.default_rng(seed).exponential(1, n_rows) ** 2
        frame["days"] = np.ceil(frame["days"] / (1 + frame["enzyme"]))
        if seed == 1:  # followed for a shorter time: late intervals have no event
            frame["died"] = np.where(frame["days"] > 400, 0, frame["died"])
            frame["days"] = frame["days"].clip(upper=400)
        frame.to_csv(path := tmp_path / f"{seed}.csv", index=False)
        if study is None:
            request = ["publish", str(path), "--event", "died", "--time", "days"]
            assert cli.main([*request, "--out", str(tmp_path / "study.json")]) == 0
            study = GlmStudy.load(tmp_path / "study.json")
        model, replication = replicate(study, table_of(study.design, path))
        given = {"study": str(tmp_path / "study.json"), "path": str(path), "options": {}}
        given |= {"out": str(tmp_path / f"{seed}.r.json"), "horizon": 365, "predict": True}
        calls.append(("replicate", given))
        expected.append((model, replication, path))
    found = answers(tmp_path, calls)
    for seed, (model, replication, path) in enumerate(expected):
        assert_same_words(replication, found[seed], f"survival {seed}")
        assert_same_estimates(replication, found[seed], f"survival {seed}")
        if model.is_mismatch:
            continue
        model.save(tmp_path / "python.json")
        assert (tmp_path / f"{seed}.r.json").read_bytes() == (tmp_path / "python.json").read_bytes()
        risks = 1 - survival_at(model, open_table(path), [365])[:, 0]
        assert np.allclose(found[seed]["response"], risks)
        assert np.allclose(found[seed]["coefficients"][1:], model.coef[0])
    assert {replication.same for _, replication, _ in expected} == {True, False}


def test_times_in_a_different_unit(tmp_path, answers):
    """Years for days, and days for years: nobody is told to fit a base risk to that."""
    for unit in (1, 365.25):
        trial(2000, 0).assign(days=lambda t, u=unit: t.days / u).to_csv(
            path := tmp_path / f"{unit}.csv", index=False
        )
    calls, expected = [], []
    for mine, other in ((1, 365.25), (365.25, 1)):
        out = str(tmp_path / f"s{mine}.json")
        given = [str(tmp_path / f"{mine}.csv"), "--event", "died", "--time", "days"]
        assert cli.main(["publish", *given, "--out", out]) == 0
        study, path = GlmStudy.load(out), tmp_path / f"{other}.csv"
        expected.append(replicate(study, table_of(study.design, path))[1])
        given = {"study": out, "path": str(path), "options": {}, "out": f"{out}.m"}
        calls.append(("replicate", given))
    for replication, found in zip(expected, answers(tmp_path, calls), strict=True):
        said = replication.facts().text()
        assert "do the times have the study's unit" in " ".join(said.split())
        assert "--constant" not in said
        assert_same_words(replication, found, "times")


def test_columns_that_follow_from_others(tmp_path, answers):
    """They have no estimate, as in R's own models; the others have those of Python."""
    frame, y = schooling()
    frame.assign(died=y).to_csv(path := tmp_path / "a.csv", index=False)
    first = publish(open_table(path, target="died"), Request(target="died"))
    first.study.save(tmp_path / "study.json")
    _, replication = replicate(first.study, table_of(first.study.design, path))
    given = {"study": str(tmp_path / "study.json"), "path": str(path), "options": {}}
    given |= {"out": str(tmp_path / "r.json")}
    (found,) = answers(tmp_path, [("replicate", given)])
    assert np.isnan(replication.own.estimate).sum() == 1
    assert_same_estimates(replication, found, "years and school")


def test_sealed_studies_need_their_opening(tmp_path, answers):
    case, nonce = CASES["typical centres"], "0123456789abcdef" * 2
    study, model = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    path = write_table(tmp_path / "b.csv", case, seed=1)
    sealed, opening = opening_of(study, model, nonce)
    opening.save(tmp_path / "opening.json")
    replace(opening, study=study.fingerprint).save(tmp_path / "other.json")
    replace(opening, nonce=nonce[::-1]).save(tmp_path / "wrong.json")
    model.save(tmp_path / "model.json")
    own = str(tmp_path / "model.json")
    calls = [
        call(tmp_path, sealed, path, case, opened=opened)
        for opened in ([], [own], [own, str(tmp_path / "opening.json")],
                       [str(tmp_path / "opening.json")], [str(tmp_path / "other.json")],
                       [str(tmp_path / "wrong.json")])
    ]  # fmt: skip
    untold, refused, opened, by_nonce, other, wrong = answers(tmp_path, calls)
    assert "must hold the nonce and the model" in wrong["refused"]
    table = open_case(path, case, sealed.design.encoding.names)
    assert_same_words(replicate(sealed, table)[1], untold, "sealed")
    assert (untold["word"], untold["same"]) == ("untold", None)
    assert "a sealed study needs its opening" in refused["refused"]
    assert_same_words(replicate(sealed, table, [model, opening])[1], opened, "opened")
    assert_same_words(replicate(sealed, table, opening)[1], by_nonce, "by its nonce")
    assert "opens a different study" in other["refused"]


def test_a_model_replaces_models_alone(tmp_path, answers):
    """As in Python: no table, study or private model is written over."""
    case = CASES["typical centres"]
    study, model = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    path = write_table(tmp_path / "b.csv", case, seed=1)
    study.save(tmp_path / "s.json")
    model.save(tmp_path / "private.json", private=True)
    model.save(tmp_path / "m.json")
    files = ["b.csv", "s.json", "private.json", "m.json", "new.json"]
    before = {name: (tmp_path / name).read_bytes() for name in files[:3]}

    calls = [call(tmp_path, study, path, case, out=str(tmp_path / name)) for name in files]
    *refused, replaced, new = answers(tmp_path, calls)
    words = ["is no replearn/model/glm", "is no replearn/model/glm", "is private"]
    for word, found in zip(words, refused, strict=True):
        assert word in found["refused"]
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert replaced["is_usable"]
    assert (tmp_path / "new.json").read_bytes() == (tmp_path / "m.json").read_bytes()
    assert new["is_usable"]


def test_permuted_labels(tmp_path, answers):
    """Labels are permuted as Python does, and a study that any of them replicate is found out."""
    coins = np.random.default_rng(4)
    terms = coins.integers(-2, 3, (300, 2)).astype(np.int16)  # many rows are equal
    block = Block(terms, coins.integers(0, 2, 300) * 1.0, coins.integers(1, 3, 300) / 4)
    given = {name: getattr(block, name).tolist() for name in ("terms", "targets", "weights")}
    calls = [("row_marks", given | {"salt": salt}) for salt in (20, 21)]

    case = CASES["typical centres"]
    honest, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    path = write_table(tmp_path / "b.csv", case, seed=1)
    for name, study in (("honest", honest), ("bait", bait(honest))):
        study.save(tmp_path / f"{name}.json")
        calls.append(("placebo", {"study": str(tmp_path / f"{name}.json"), "path": str(path)}))
    *marks, by_honest, by_bait = answers(tmp_path, calls)
    for salt, found in zip((20, 21), marks, strict=True):
        assert found == row_marks(block, salt).tolist()
    for study, found in ((honest, by_honest), (bait(honest), by_bait)):
        table = open_case(path, case, study.design.encoding.names)
        model, replication = replicate(study, table)
        rows = read_rows(TableRows(table, RowEncoder.of(study.design)))
        assert (found["same"], found["word"]) == (True, replication.verdict)
        assert found["matches"] == placebo_matches(study, model, rows)
    assert (by_honest["matches"], by_bait["matches"]) == (False, True)
    assert by_bait["words"] == Evidence(900, 30.0, placebo=True).words()


def test_all_verdicts(tmp_path, answers):
    expected, calls = [], []
    for verdict, study, path, replication in replications_of_all_verdicts(tmp_path):
        expected.append((verdict, replication))
        calls.append(call(tmp_path, study, path, Case()))
    for (verdict, replication), found in zip(expected, answers(tmp_path, calls), strict=True):
        assert_same_words(replication, found, verdict)


def test_methods_of_r(tmp_path, answers):
    """Coefficients per unit, intervals, predictions, a plot; own estimates are those of glm."""
    for seed in (0, 1):
        coins = np.random.default_rng(seed)
        age, bmi = coins.normal(60, 10, 2000).round(), coins.normal(25, 4, 2000).round(1)
        bmi[-10:] += 30  # far beyond the study's range
        died = coins.logistic(size=2000) < (age - 60) / 10 + (bmi - 25) / 20
        lines = [f"{a:.0f},{b},{d:d}" for a, b, d in zip(age, bmi, died, strict=True)]
        (tmp_path / f"{seed}.csv").write_text("\n".join(["age,bmi,died", *lines]))
    publish = ["publish", str(tmp_path / "0.csv"), "--target", "died", "--basis", "linear"]
    assert cli.main([*publish, "--out", str(tmp_path / "study.json")]) == 0
    given = {"study": str(tmp_path / "study.json"), "path": str(tmp_path / "1.csv")}
    given |= {"picture": str(tmp_path / "plot.pdf"), "family": "binomial"}
    given |= {"formula": "died ~ age + bmi", "columns": ["age", "bmi"]}
    (found,) = answers(tmp_path, [("methods", given)])
    own, glm, error, glm_error = (
        np.array(found[name]) for name in ("own", "glm", "error", "glm_error")
    )
    assert (np.abs(own - glm) < 0.05 * glm_error).all()
    assert np.allclose(error, glm_error, rtol=0.1)  # robust ones, of a right model
    assert np.allclose(found["widths"], 2 * 1.6448536 * error)
    assert found["names"] == ["(constant)", "age", "bmi"]
    inside = slice(-10)  # multiplied and added, per unit
    assert np.allclose(found["link"][inside], found["by_hand"][inside])
    assert np.allclose(found["response"], 1 / (1 + np.exp(-np.array(found["link"]))))
    assert found["class"] == [int(link > 0) for link in found["link"]]
    assert found["frame"] == ["term", "model", "estimate", "standard_error", "low", "high"]
    assert any("This lab's own estimates (2,000 rows)" in line for line in found["printed"])
    assert "sets 10 values beyond the study's range" in " ".join(found["printed"])
    assert max(map(len, found["printed"])) <= 78
    assert (tmp_path / "plot.pdf").stat().st_size > 2000


def test_the_package(tmp_path):
    """It is built and installed, and gives the model that the script gives.

    R's own check takes half a minute: REPLEARN_R_CHECK=1 asks for it.
    """
    case = CASES["typical centres"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    study.save(tmp_path / "study.json")
    model, _ = replicated(study, write_table(tmp_path / "b.csv", case, seed=1), case)

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("R", "CMD", "build", str(ROOT / "r"))
    (built,) = tmp_path.glob("replearn_*.tar.gz")
    assert f"_{metadata.version('replearn')}." in built.name
    if os.environ.get("REPLEARN_R_CHECK"):
        assert "Status: OK" in run("R", "CMD", "check", "--no-manual", built.name)
    (tmp_path / "library").mkdir()
    run("R", "CMD", "INSTALL", "--no-docs", "--library=library", built.name)
    lines = (
        ".libPaths(c('library', .libPaths())); library(replearn)",
        "found <- replicate_study(read_study('study.json'), 'b.csv')",
        "write_model(found$model, 'r.json'); capture.output(print(summary(found))) -> shown",
        "again <- predict(read_model('r.json'), 'b.csv')",
        "stopifnot(identical(again, predict(found$model, 'b.csv')))",
        "stopifnot(identical(again, predict(found, 'b.csv')))",
        "of_model <- as.data.frame(found$model)",
        "stopifnot(identical(of_model$coefficient, unname(coef(found$model))))",
        "stopifnot(inherits(try(confint(found$model), TRUE), 'try-error'))",
        "own <- update(found$model, 'b.csv')",
        "stopifnot(identical(own, update_model('r.json', 'b.csv')))",
        "cat(found$fingerprint, own$recalibration$parent)",
    )
    assert run("Rscript", "-e", "; ".join(lines)) == f"{model.fingerprint} {model.fingerprint}"


def test_a_large_table(tmp_path, answers):
    """Of several blocks, which are shorter here: R takes a second for two thousand rows."""
    study, case = large_table(path := tmp_path / "table.csv", 4500)
    _, replication = replicated(study, path, case)
    (found,) = answers(tmp_path, [call(tmp_path, study, path, case, block=2048)])
    assert_same_words(replication, found, "large")


@pytest.mark.skipif(
    not os.environ.get("REPLEARN_R_CHECK"),
    reason="15 s of one core: REPLEARN_R_CHECK=1 asks for it",
)
def test_wide_models_have_the_same_support(tmp_path, answers):
    """Beyond 600 coefficients constants and the size of slopes are tested, less overfitting."""
    rng, paths = np.random.default_rng(5), [tmp_path / "a.csv", tmp_path / "b.csv"]
    slopes = rng.normal(size=605) / 10
    for path in paths:
        table = np.round(rng.normal(size=(700, 605)), 2)
        died = rng.random(700) < 1 / (1 + np.exp(-table @ slopes))
        frame = pd.DataFrame(table, columns=[f"x{i}" for i in range(605)])
        frame.assign(died=died.astype(int)).to_csv(path, index=False)
    request = Request(target="died", ridge=0.03, replication_rows=700)
    original = publish(open_table(paths[0], target="died"), request)
    original.model.save(tmp_path / "model.json")
    table = open_table(paths[1], target="died")
    replication = replicate(original.study, table, original.model)[1]
    opened = {"opened": str(tmp_path / "model.json")}
    (found,) = answers(tmp_path, [call(tmp_path, original.study, paths[1], Case(), **opened)])
    assert_same_words(replication, found, "wide")


def test_units_are_those_of_python(tmp_path, answers):
    listed = [[factor, words] for factor, words in profile._UNITS.items()]
    assert answers(tmp_path, [("units", {})]) == [listed]


#: Studies whose parts do not fit together, by the key that is changed.
UNFIT = {
    "n_centres": 3,
    "between": "-1",
    "spreads": "9",
    "slopes_commitment": None,
    "commitment": "0" * 63,
    "max_disagreement": "1.5",
    "n_original": 0,
}


def test_studies_that_do_not_fit_together(tmp_path, answers):
    case = CASES["text levels and missing values"]
    path = write_table(tmp_path / "a.csv", case, seed=0)
    make_study(path, case)[0].save(tmp_path / "study.json")
    calls = []
    for key, value in UNFIT.items():
        content = json.loads((tmp_path / "study.json").read_bytes())
        for name in ("fingerprint", "provenance"):
            content.pop(name, None)
        is_list = isinstance(content[key], list)
        content[key] = [value] * len(content[key]) if is_list else value
        if value is None:
            del content[key]
        (changed := tmp_path / f"{key}.json").write_text(json.dumps(content))
        with pytest.raises(ReplearnError):
            GlmStudy.load(changed)
        given = {"study": str(changed), "path": str(path), "out": str(tmp_path / "m.json")}
        calls.append(("replicate", given))
    for key, found in zip(UNFIT, answers(tmp_path, calls), strict=True):
        assert "Get the file anew" in found.get("refused", ""), key


def test_refusals(tmp_path, answers):
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    study.save(tmp_path / "study.json")
    text = (tmp_path / "study.json").read_text()
    (tmp_path / "altered.json").write_text(text.replace('"n_original":800', '"n_original":801'))
    given = {"study": str(tmp_path / "study.json"), "out": str(tmp_path / "model.json")}
    calls = [("replicate", given | {"study": str(tmp_path / "altered.json"), "path": "none.csv"})]
    for number, (rows, _) in enumerate(BAD_ROWS.values()):
        path = write_table(tmp_path / f"{number}.csv", case, seed=1)
        path.write_text(path.read_text() + (rows or "60,25,A,true,1,0,1,1,x,y"))
        calls.append(("replicate", given | {"path": str(path)}))
    words = ["altered", "must have 9 cells", "missing labels", "got others in 10 of 810 rows: '2'"]
    words += ["500 of 1,300 cells (38.5%)", "decimal commas", "infinite numbers"]
    for word, found in zip(words, answers(tmp_path, calls), strict=True):
        assert word in found["refused"]
    assert not (tmp_path / "model.json").exists()


def test_the_page(tmp_path, monkeypatch):
    """What docs/r.md shows comes out, fingerprints included, but for spaces."""
    monkeypatch.chdir(tmp_path)
    for centre in ("Ashford", "Birchwood"):
        load_readmission(centre, 4000).to_csv(f"{centre.lower()}.csv", index=False)
    publish = ["publish", "ashford.csv", "--target", "readmitted", "--out", "study.json"]
    assert cli.main(publish) == 0
    shutil.copy(SCRIPT, tmp_path)
    blocks = re.findall(r"(?ms)^```r\n(.*?)^```$", (ROOT / "docs" / "r.md").read_text())
    lines = "".join(blocks).splitlines()
    Path("page.R").write_text("\n".join(line for line in lines if not line.startswith("#>")))
    command = ["Rscript", "-e", 'source("page.R", print.eval = TRUE)']
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = " ".join(line[2:] for line in lines if line.startswith("#>"))
    assert shown.split() == printed.split()
