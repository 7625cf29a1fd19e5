"""``replearn export``: files, printing, JSON, and one line for what cannot be exported."""

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from replearn import save, to_csv, to_onnx, to_sql
from replearn.cli import main
from replearn.codes.boost_space import BoostSpace
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.codes.model import Model
from replearn.codes.space import CodeSpace

MODEL = Model(
    recipe="svm",
    n_features=3,
    fit_intercept=True,
    space=CodeSpace(4, "none", 4, "centre", "0.25"),
    seed="2024",
    classes=("healthy", "ill"),
    codes=np.array([3, -1, -5, 2]),
    feature_names=("age", 'say "x"', "größe"),
)
ENCODING = Encoding((NumberColumn("age", "50", "12"), CategoryColumn("site", ("north", "west"))))
ENCODED = replace(MODEL, encoding=ENCODING, feature_names=ENCODING.output_names)
NOTHING = replace(
    MODEL, space=BoostSpace(4, "box", "0.3", 0, "majority"), codes=np.array([], dtype=np.int64)
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, model in (("plain", MODEL), ("encoded", ENCODED), ("nothing", NOTHING)):
        save(model, tmp_path / f"{name}.json")
    return tmp_path


@pytest.fixture
def run(run: Any) -> Any:
    return partial(run, "export")


def test_onnx_file(files: Path, run: Any) -> None:
    out = files / "a.onnx"
    code, text, err = run(files / "plain.json", "--to", "onnx", "--out", out)
    assert (code, err) == (0, "")
    assert text == f"model {MODEL.fingerprint[:16]}..., written to {out}\n"
    assert out.read_bytes() == to_onnx(MODEL)
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert session.run(["label"], {"X": X})[0].tolist() == MODEL.predict(X).tolist()


def test_options_of_onnx(files: Path, run: Any) -> None:
    for options, keywords in (
        ([], {}),
        (["--encoded"], {"encoded": True}),
        (["--float32"], {"single_precision": True}),
    ):
        run(files / "encoded.json", "--to", "onnx", "--out", files / "a.onnx", *options)
        assert (files / "a.onnx").read_bytes() == to_onnx(ENCODED, **keywords)


def test_csv_is_printed_or_written(files: Path, run: Any) -> None:
    for name, model in (("plain", MODEL), ("encoded", ENCODED)):
        assert run(files / f"{name}.json", "--to", "csv") == (0, to_csv(model), "")
        assert run(files / f"{name}.json", "--to", "csv", "--out", files / "a.csv")[0] == 0
        assert (files / "a.csv").read_bytes() == to_csv(model).encode()
    assert [row[0] for row in csv.reader(io.StringIO(to_csv(MODEL)))][1:] == [
        "age", 'say "x"', "größe", "(intercept)",
    ]  # fmt: skip


def test_sql_runs_as_printed(files: Path, run: Any) -> None:
    code, query, err = run(files / "encoded.json", "--to", "sql", "--table", "my patients")
    assert (code, query, err) == (0, to_sql(ENCODED, "my patients").query, "")
    rows = {"age": np.array([33.0, 71.5]), "site": np.array(["west", "moon"], dtype=object)}
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE "my patients" (age REAL, site TEXT)')
    database.executemany(
        'INSERT INTO "my patients" VALUES (?, ?)', zip(*rows.values(), strict=True)
    )
    found = database.execute(query).fetchall()
    assert [row[-1] for row in found] == ENCODED.predict(rows).tolist()
    assert run(files / "plain.json", "--to", "sql")[1] == to_sql(MODEL).query


def test_json(files: Path, run: Any) -> None:
    data = json.loads(run(files / "plain.json", "--to", "sql", "--json")[1])
    sql = to_sql(MODEL)
    assert data == {
        "fingerprint": MODEL.fingerprint,
        "to": "sql",
        "out": None,
        "content": sql.query,
        "score": sql.score,
        "label": sql.label,
        "probability": None,
        "warnings": [],
    }
    out = str(files / "a.onnx")
    data = json.loads(run(files / "plain.json", "--to", "onnx", "--out", out, "--json")[1])
    assert (data["to"], data["out"], data["content"]) == ("onnx", out, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("plain.json --to onnx", "--to onnx makes a binary file. Name it with --out FILE."),
        ("plain.json --to csv --table t", "--table is for --to sql, got --to csv"),
        ("plain.json --to sql --float32", "--float32 is for --to onnx, got --to sql"),
        ("plain.json --to csv --encoded", "--encoded is for --to onnx, got --to csv"),
        ("nothing.json --to csv", "nothing.json: a majority of 0 halfspaces"),
        ("absent.json --to csv", "absent.json: No such file"),
        ("bad.json --to csv", "bad.json is not valid JSON"),
        ("plain.json --to csv --out no/where.csv", "no is no folder"),
    ],
)
def test_what_cannot_be_exported_gets_one_line(
    files: Path, run: Any, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(files)
    (files / "bad.json").write_text("{")
    before = sorted(os.listdir(files))
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("replearn: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(os.listdir(files)) == before


def test_a_missing_package_leaves_the_old_file(
    files: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "a.onnx").write_bytes(b"old")
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = run(files / "plain.json", "--to", "onnx", "--out", files / "a.onnx")
    assert code == 2
    assert 'pip install "replearn[onnx]"' in err
    assert (files / "a.onnx").read_bytes() == b"old"


def test_unknown_formats_are_bad_usage(files: Path) -> None:
    command = [sys.executable, "-m", "replearn", "export", files / "plain.json", "--to", "pickle"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "invalid choice: 'pickle'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_formulas_are_mentioned_and_made_harmless_on_request(tmp_path, capsys):
    model = Model(
        recipe="svm",
        n_features=1,
        fit_intercept=False,
        space=CodeSpace(1, "none", 1, "centre", "1"),
        seed="0",
        classes=("=no", "yes"),
        codes=np.array([3]),
        feature_names=("=cmd",),
    )
    path, rows = tmp_path / "a.model.json", tmp_path / "a.csv"
    save(model, path)
    rows.write_text("=cmd\n-1\n1\n")
    for command in (["export", str(path), "--to", "csv"], ["predict", str(path), str(rows)]):
        assert main(command) == 0
        shown = capsys.readouterr()
        assert "begins like a formula" in shown.err
        assert shown.err.count("\n") == 1
        assert "'=" not in shown.out
        assert main([*command, "--spreadsheet"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert "'=" in shown.out
    assert main(["export", str(path), "--to", "sql", "--spreadsheet"]) == 2
    assert "--spreadsheet is for --to csv" in capsys.readouterr().err
