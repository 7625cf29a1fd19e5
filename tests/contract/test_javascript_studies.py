"""The second implementation replicates a study from a raw CSV file: model files are equal."""

from typing import Any

import pytest

from replearn.errors import ReplearnError
from tests.contract.replications import CASES, Case, make_study, replicate, write_table
from tests.contract.test_javascript import answers, needs_node


def call(study: Any, path: Any, case: Case) -> tuple[str, dict[str, Any]]:
    signs = {"decimal": case.csv.decimal, "thousands": case.csv.thousands}
    return "replicate", {"study": study.content(), "path": str(path), "options": signs}


@needs_node
def test_model_files_are_equal(tmp_path):
    calls, expected, n_same = [], [], 0
    for number, (name, case) in enumerate(CASES.items()):
        study, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        n_rows = case.n_rows if number % 2 else 90  # too few rows: a different model
        path = write_table(tmp_path / f"{number}.csv", case, seed=100 + number, n_rows=n_rows)
        model = replicate(study, path, case)
        model.save(tmp_path / "model.json")
        expected.append((name, (tmp_path / "model.json").read_text(), model.fingerprint))
        calls.append(call(study, path, case))
        n_same += model == original
    for (name, file, fingerprint), found in zip(expected, answers(calls), strict=True):
        assert found["model"] == file, name
        assert found["fingerprint"] == fingerprint
        assert max(map(abs, found["places"])) <= 0.5
    assert 0 < n_same < len(CASES)


BAD_ROWS = {
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
        with pytest.raises(ReplearnError) as caught:
            replicate(study, path, case)
        expected.append((name, str(caught.value).replace(str(path), "table.csv"), words))
        calls.append(call(study, path, case))
    for (name, message, words), found in zip(expected, answers(calls), strict=True):
        assert words in message, name
        assert found == {"refused": message}, name
