"""The command line on real files: every command that users are promised, as they would type it."""

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from replearn import cli
from replearn.datasets import make_margin
from replearn.files.modelfile import load

N, D = 12_000, 6
OPTIONS = "--target label --margin .2 --seed 2024"


def table(random_state: int, n: int = N) -> pa.Table:
    X, y = make_margin(n, D, margin=0.2, random_state=random_state)
    names = [f"c{i}" for i in range(D)]
    labels = np.where(y > 0, "ill", "well")
    return pa.table({**dict(zip(names, X.T, strict=True)), "label": labels})


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("study")
    for name, lab in (("site_a", 1), ("site_b", 2), ("big", 3)):
        pq.write_table(table(lab), place / f"{name}.parquet", row_group_size=1500)
    pq.write_table(table(4, 1000), place / "pilot.parquet")
    pa.csv.write_csv(table(5, 50).drop_columns(["label"]), place / "new.csv")
    (place / "parts").mkdir()
    for i in range(4):
        rows = table(3).slice(i * N // 4, N // 4)
        pa.csv.write_csv(rows, place / "parts" / f"{i}.csv")
    return place


@pytest.fixture
def replearn(files, monkeypatch, capsys, tmp_path):
    """Run a line as it is typed, in the folder with the files; what it printed."""
    monkeypatch.chdir(files)

    def run(line: str, code: int = 0) -> str:
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TMPDIR", str(tmp_path))
            assert cli.main(shlex.split(line.replace("TMP", str(tmp_path)))) == code
        out, err = capsys.readouterr()
        return out if code in (0, 1, 3) else err

    return run


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_a_study_from_the_plan_to_the_audit(replearn, files):
    replearn("plan --margin .2 --max-error .05 --max-disagreement .1 --features 50")
    replearn("plan --pilot pilot.parquet --target label --samples-per-site 12000 --out study.json")
    for site in "ab":
        replearn(
            f"fit site_{site}.parquet --target label --protocol study.json --out {site}.model.json"
        )
    assert load(files / "a.model.json") == load(files / "b.model.json")
    replearn("compare a.model.json b.model.json")
    replearn("predict a.model.json new.csv --out pred.csv")
    with (files / "pred.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["prediction"] for row in rows} == {"ill", "well"}
    assert len(rows) == 50
    audit = "audit site_a.parquet --target label --protocol study.json --pairs 4"
    replearn(f"{audit} --report audit.html", code=3)  # four pairs decide nothing
    assert "<html" in (files / "audit.html").read_text()
    assert "fingerprint" in replearn("show a.model.json")
    replearn("table --margin .5 --max-error .1 --max-disagreement .1 --features 50")


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_a_shuffled_file_read_as_a_stream_gives_the_same_model(replearn, files):
    expected = json.loads(replearn(f"fit big.parquet {OPTIONS} --json"))
    done = json.loads(replearn("shuffle big.parquet --out shuffled.parquet --seed 2024 --json"))
    assert done == {"rows": N, "out": "shuffled.parquet", "warnings": []}
    streamed = json.loads(replearn(f"fit shuffled.parquet {OPTIONS} --assume-shuffled --json"))
    assert streamed == expected
    for options in (
        "--memory 1K",
        "--memory 1K --scratch TMP",
        "--checkpoint TMP/state",
        "--jobs 1",
    ):
        found = json.loads(replearn(f"fit big.parquet {OPTIONS} {options} --json"))
        assert found == expected
    assert json.loads(replearn(f"fit parts {OPTIONS} --json")) == expected
    line = f"fit big.parquet {OPTIONS} --expect {expected['fingerprint']}"
    assert "yes, the same model" in replearn(line)
    other = json.loads(replearn(f"fit big.parquet {OPTIONS} --random-state 5 --json"))
    assert other["rows"] == N


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_sparse_files_and_their_number_of_columns(replearn, tmp_path):
    X, y = make_margin(3000, D, margin=0.2, random_state=1)
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    narrow = json.loads(replearn("fit TMP/a.svm --margin .2 --json"))
    wide = json.loads(replearn("fit TMP/a.svm --margin .2 --features 9 --out TMP/m.json --json"))
    assert narrow["fingerprint"] != wide["fingerprint"]
    assert load(tmp_path / "m.json").n_features == 9
    found = json.loads(replearn("predict TMP/m.json TMP/a.svm --json"))
    assert found["rows"] == 3000
    assert "got column '4'" in replearn("fit TMP/a.svm --features 3", code=2)


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_predictions_of_a_large_file_are_those_of_memory(replearn, files, tmp_path):
    replearn(f"fit big.parquet {OPTIONS} --out TMP/m.json")
    text = replearn("predict TMP/m.json site_b.parquet --out TMP/p.csv")
    assert f"{N:,} rows" in text
    with (tmp_path / "p.csv").open() as file:
        labels = [row["prediction"] for row in csv.DictReader(file)]
    X = np.column_stack([column.to_numpy() for column in table(2).drop_columns(["label"])])
    assert labels == load(tmp_path / "m.json").predict(X).tolist()
    printed = list(csv.DictReader(replearn("predict TMP/m.json site_b.parquet").splitlines()))
    assert [row["prediction"] for row in printed] == labels


def test_a_cluster_on_this_machine_writes_the_same_file(files, tmp_path):
    """In processes of their own, as for a user."""
    fit = f"fit big.parquet {OPTIONS} --assume-shuffled --out"
    for line in (f"{fit} {tmp_path}/here.json", f"{fit} {tmp_path}/there.json --cluster local"):
        command = [sys.executable, "-m", "replearn", *shlex.split(line)]
        done = subprocess.run(command, cwd=files, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    here, there = (load(tmp_path / f"{name}.json") for name in ("here", "there"))
    assert here == there
    assert here.feature_names == there.feature_names


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit big.parquet", "Name the label column (--target)"),
        ("fit parts", "labels are needed"),
        ("fit big.parquet --target nobody", "has no column 'nobody'; its columns are 'c0'"),
        ("fit nowhere.parquet --target label", "nowhere.parquet cannot be read"),
        ("fit big.parquet --target label --checkpoint TMP --scratch TMP", "Leave one out"),
        ("fit big.parquet --target label --algorithm net --checkpoint TMP", "a checkpoint needs"),
        ("fit big.parquet --target label --cluster local", "needs --assume-shuffled"),
        (
            "fit big.parquet --target label --assume-shuffled --cluster local --checkpoint TMP",
            "got --checkpoint too",
        ),
        (
            "fit big.parquet --target label --assume-shuffled --cluster nowhere",
            "no Dask scheduler answers",
        ),
        ("shuffle big.parquet --out TMP/x.csv", "must have the format"),
        ("shuffle nowhere.csv --out TMP/x.csv", "nowhere.csv cannot be read"),
        ("predict study.json new.csv", "study.json"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(replearn, line, words):
    err = replearn(line, code=2)
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("size", ["much", "-1", "1e9", "4X"])
def test_sizes_are_explained(replearn, capsys, size):
    with pytest.raises(SystemExit, match="2"):
        replearn(f"fit big.parquet --target label --memory={size}")
    assert "such as 500M or 4G" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_text_and_holes_without_a_protocol_name_the_remedy(replearn, tmp_path):
    rows = table(1, 300)
    words = rows.append_column("town", pa.array(["Oslo", "Rome", None] * 100))
    pq.write_table(words, tmp_path / "words.parquet")
    pa.csv.write_csv(words, tmp_path / "words.csv")
    for name in ("words.parquet", "words.csv"):
        err = replearn(f"fit TMP/{name} {OPTIONS}", code=2)
        assert "'town'" in err
        assert "plan --pilot" in err
