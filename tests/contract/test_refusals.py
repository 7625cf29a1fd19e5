"""Bad input: one line that says what is wrong, and no file."""

from pathlib import Path

import pytest

from tests.contract.commands import replearn

REFUSALS = [
    ("frobnicate", "there is no command 'frobnicate'. See replearn --help."),
    ("replicat", "there is no command 'replicat', but there is 'replicate'."),
    ("publish a.csv --kind ordinal --out {tmp}/s.json", "--kind must be one of"),
    ("publish a.csv", "required: --out"),
    ("publish a.csv --out {tmp}/s.json", "Name it: --target NAME"),
    ("publish a.csv --target nope --out {tmp}/s.json", "has no column 'nope'"),
    ("publish a.csv --target died --out {tmp}/no/s.json", "is no folder"),
    ("publish a.csv --target died --out {tmp}", "must be a file"),
    ("publish a.csv --target died --out {tmp}/s.json --max-disagreement 5", "--max-disagreement"),
    ("publish a.csv --target died --out {tmp}/s.json --interactions age", "pairs like"),
    ("publish a.csv --target died --out study.json", "is a study already"),
    ("publish a.csv --target died --rows 3 --out {tmp}/s.json", "no row of some class"),
    ("publish a.csv --target died --registered --out {tmp}/s.json", "needs --rows"),
    ("publish a.csv --target age --out {tmp}/s.json", "--kind linear"),
    ("replicate a.model.json b.csv", "This is a model: the study is the file"),
    ("predict study.json b.csv", "This is a study: replearn replicate STUDY TABLE --out MODEL"),
    ("replicate nofile.json b.csv", "No such file"),
    ("replicate study.json nofile.csv", "nofile.csv cannot be read"),
    ("replicate a.csv b.csv", "must be one JSON object"),
    ("replicate study.json b.csv --decimal x", "decimal"),
    ("show a.csv", "must be one JSON object"),
    ("compare a.model.json", "at least two"),
    ("evaluate a.model.json new.csv --by age2", "age2"),
    ("update a.model.json b.csv", "either --constant or --slope"),
    ("update a.model.json b.csv --constant --slope", "either --constant or --slope"),
    ("update study.json b.csv --constant", "takes the original's model"),
    ("export a.model.json --out {tmp}/x.doc", "must end in"),
    ("demo --rows -3 --tables {tmp}/new", "rows must be one or more"),
    ("replicate study.json b.csv --page a.csv", "is no page"),
    ("replicate study.json b.csv --out a.csv", "is no replearn/model"),
    ("fit data.csv --target y --algorithm net --bits 2", "--algorithm net does not use --bits"),
    ("fit a.csv --target died", "must hold a number in every row"),
    ("plan --features 0", "--features"),
    ("shuffle a.csv --out {tmp}/a.parquet", "two .csv or two .parquet"),
    ("audit a.csv --study study.json --rows 5000", "cannot be cut"),
    ("audit labs.csv --target died --by hospital --pairs 3", "--by does not use --pairs"),
    ("audit data.csv --target y --by a --algorithm svm", "--by needs --algorithm glm"),
    ("audit labs.csv --target died --by nowhere", "by must be a column"),
    ("combine study.json --out {tmp}/x.json", "at least one lab"),
    ("sums study.json --out {tmp}/x.json", "a study and a table, got study.json alone"),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[call for call, _ in REFUSALS])
def test_refusals(inside: Path, tmp_path: Path, call: str, words: str) -> None:
    code, text, errors = replearn(*call.format(tmp=tmp_path).split())
    assert code == 2
    assert text == ""
    assert words in errors
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


def test_names_with_spaces_between_them_are_told_of_commas(inside: Path) -> None:
    call = "publish data.csv --target y --out new.json --drop a b --details"
    code, _, errors = replearn(*call.split())
    assert code == 2
    assert "unrecognized arguments: b. Several names have commas between them: --drop a,b" in errors
    code, _, errors = replearn(*["plan", "--features", "50", "--margin", "0.2", "plan"])
    assert code == 2
    assert "unrecognized arguments: plan. See" in errors
