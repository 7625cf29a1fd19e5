"""The second implementation replicates a study from a raw CSV file: model files are equal."""

import re
import time
from typing import Any

import numpy as np
import pytest

from replearn.errors import ReplearnError
from replearn.study.replication import Replication
from replearn.study.study import Study
from tests.contract.replications import CASES, Case, make_study, replicated, write_table
from tests.contract.test_javascript import answers, needs_node


def call(study: Study, path: Any, case: Case, opened: Any = None) -> tuple[str, dict[str, Any]]:
    given = {"study": study.content(), "path": str(path), "opened": opened and opened.content()}
    signs = {"decimal": case.csv.decimal, "thousands": case.csv.thousands}
    return "replicate", given | {"options": signs}


@needs_node
def test_model_files_are_equal(tmp_path):
    calls, expected = [], []
    for number, (name, case) in enumerate(CASES.items()):
        study, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        n_rows = case.n_rows if number % 2 else 90  # too few rows: a different model
        path = write_table(tmp_path / f"{number}.csv", case, seed=100 + number, n_rows=n_rows)
        opened = original if number % 3 == 0 else None
        model, replication = replicated(study, path, case, opened)
        model.save(tmp_path / "model.json")
        expected.append((name, (tmp_path / "model.json").read_text(), replication))
        calls.append(call(study, path, case, opened))
    for (name, file, replication), found in zip(expected, answers(calls), strict=True):
        assert found["model"] == file, name
        assert_same_words(replication, found)
    verdicts = {replication.same for _, _, replication in expected}
    assert verdicts == {True, False}


def assert_same_words(python: Replication, found: dict[str, Any]) -> None:
    """What is not a code is the same to six digits, and in the same words."""
    assert found["verdict"] == python.facts().verdict
    assert (found["same"], found["fingerprint"]) == (python.same, python.fingerprint)
    assert found["positions"] == pytest.approx(python.positions.tolist(), abs=1e-12)
    assert found["nearest"] == list(python.nearest)
    assert found["findings"] == [list(finding) for finding in python.findings]
    ours = [(d.name, d.cells, pytest.approx(d.standardised)) for d in python.differences]
    assert [tuple(difference.values()) for difference in found["differences"]] == ours
    assert found["disagreement"] == pytest.approx(python.disagreement, rel=1e-4)
    p_value = python.same_population
    assert found["samePopulation"] == (p_value and pytest.approx(p_value, rel=1e-5))
    assert found["evidence"]["rows"] == pytest.approx(python.evidence.rows, abs=1)
    assert found["evidence"]["rowsSearch"] == pytest.approx(python.evidence.rows_search, abs=1)
    assert found["evidence"]["bits"] == pytest.approx(python.evidence.bits, rel=1e-5)


BAD_ROWS = {
    "one class": ("", "some class has no row"),
    "a label that is missing": ("60,25,A,true,1,0,1,,x", "missing labels"),
    "a label that is unknown": ("60,25,A,true,1,0,1,2,x\n" * 10, "in 10 of 810 rows: '2'"),
    "a level that is unknown": ("60,25,Z,true,1,0,1,1,x\n" * 60, "60 of 860 cells (7.0%)"),
    "numbers with commas": ('60,"25,5",A,true,1,0,1,1,x\n' * 60, 'decimal=","'),
    "infinity": ("60,inf,A,true,1,0,1,1,x", "infinite numbers"),
}  # fmt: skip


@needs_node
def test_refusals_are_the_same(tmp_path):
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    calls, expected = [], []
    for number, (name, (rows, words)) in enumerate(BAD_ROWS.items()):
        path = write_table(tmp_path / f"{number}.csv", case, seed=1)
        path.write_text(path.read_text() + rows)
        if name == "one class":
            path.write_text(re.sub(",1,x$", ",0,x", path.read_text(), flags=re.M))
        with pytest.raises(ReplearnError) as caught:
            replicated(study, path, case)
        expected.append((name, str(caught.value).replace(str(path), "table.csv"), words))
        calls.append(call(study, path, case))
    for (name, message, words), found in zip(expected, answers(calls), strict=True):
        assert words in message, name
        assert found == {"refused": message}, name


CHANGES = {
    "a different unit": lambda row: row | {"age": f"{float(row['age']) * 12:.1f}"},
    "larger throughout": lambda row: row | {"age": f"{float(row['age']) + 50:.1f}"},
    "very different": lambda row: row | {"age": f"{float(row['age']) ** 2:.0f}"},
    "constant": lambda row: row | {"age": "60", "ward": "A"},
    "missing": lambda row: row | ({"age": ""} if row["ward"] == "A" else {}),
    "nowhere": lambda row: row | {"age": "", "smoker": "NA"},
    "exchanged levels": lambda row: row | {"ward": {"A": "É", "É": "A"}.get(row["ward"], "B")},
    "other labels": lambda row: row | {"died": "1" if float(row["age"]) > 40 else "0"},
}


@needs_node
def test_the_same_columns_look_strange(tmp_path):
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    calls, expected = [], []
    for name, change in CHANGES.items():
        path = write_table(tmp_path / f"{name}.csv", case, seed=1)
        head, *lines = path.read_text().splitlines()
        rows = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
        texts = [",".join(change(row).values()) for row in rows]
        path.write_text("\n".join([head, *texts]))
        expected.append(replicated(study, path, case)[1])
        calls.append(call(study, path, case))
    for name, replication, found in zip(CHANGES, expected, answers(calls), strict=True):
        assert replication.findings, name
        assert_same_words(replication, found)


@needs_node
@pytest.mark.slow
def test_a_large_table(tmp_path):
    rng = np.random.default_rng(40)
    X = rng.normal(size=(100_000, 40))
    y = rng.logistic(size=len(X)) < X[:, :5].sum(axis=1)
    names = tuple(f"x{i}" for i in range(40))
    path, head = tmp_path / "table.csv", ",".join([*names, "died"])
    np.savetxt(path, np.column_stack([X, y]), "%.4f", ",", header=head, comments="")
    case = Case(features=names)
    study, _ = make_study(path, case)
    started = time.perf_counter()
    model, _ = replicated(study, path, case)
    seconds = time.perf_counter() - started
    (found,) = answers([call(study, path, case)])
    assert found["fingerprint"] == model.fingerprint
    assert found["seconds"] < 10 * seconds  # five times as long on a quiet machine
