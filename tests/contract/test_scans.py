"""A text is read through once, whatever is asked of it: to parse it takes longer than most fits."""

import builtins
import gzip
import io
import shlex
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from replearn.cli import main
from replearn.datasets import load_readmission
from replearn.tables import files, open_table, scratch

pa = pytest.importorskip("pyarrow")

PUBLISH = "publish a.csv --out s.json --between 0 --ridge 0.01"
DIED = f"{PUBLISH} --target died --drop los"
ORIGINALS = [
    DIED,
    f"{PUBLISH} --target died --drop los --page s.html --details",
    f"{DIED} --centres month --groups ward",
    f"{DIED} --weights mass --class-weight balanced",
    f"{DIED} --basis splines --missing refuse --numeric age",
    f"{DIED} --basis auto --categories month",
    f"{DIED} --interactions age:sex,age:prior_admissions",
    f"{DIED} --interactions all --offset mass",
    f"{DIED} --evidence 1 --sealed --local-constant",
    f"{PUBLISH} --time los --event died --groups ward",
    f"{PUBLISH} --kind poisson --target prior_admissions --drop los",
]
REPLICATIONS = ["", "--page r.html", "--details", "--opened a.model.json", "--out r.json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a column for each part that a column can play."""
    made = tmp_path_factory.mktemp("scans")
    columns = ["age", "sex", "prior_admissions", "readmitted"]
    table = load_readmission("Ashford", 1500)[columns].rename(columns={"readmitted": "died"})
    place = np.arange(len(table))
    table["ward"] = place // 3
    table["month"] = place % 12
    table["mass"] = 1.0 + place % 3
    table["los"] = 1.0 + table["age"] % 13
    table.to_csv(made / "a.csv", index=False)
    return made


class Scans:
    """Counts who opens a file to read it through; the head, from which names come, is none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
        self.n_scans = 0
        head = files._head

        def look_at_head(of: str) -> Any:
            before = self.n_scans
            found = head(of)
            self.n_scans = before
            return found

        monkeypatch.setattr(files, "_head", look_at_head)
        for module, name in ((builtins, "open"), (gzip, "open"), (pa, "input_stream")):
            monkeypatch.setattr(module, name, self._counting(getattr(module, name), path))

    def _counting(self, opener: Any, path: str) -> Any:
        def counted(source: Any, *args: Any, **kwargs: Any) -> Any:
            self.n_scans += isinstance(source, str) and Path(source).name == path
            return opener(source, *args, **kwargs)

        return counted


def run(call: str) -> None:
    with redirect_stdout(io.StringIO()):
        assert main(shlex.split(call)) in (0, 1), call


@pytest.mark.parametrize("call", ORIGINALS)
def test_an_original_reads_a_text_once(
    call: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_bytes((folder / "a.csv").read_bytes())
    with chdir(tmp_path):
        scans = Scans(monkeypatch, "a.csv")
        run(call)
    assert scans.n_scans == 1


@pytest.mark.parametrize("original", [DIED, f"{DIED} --weights mass", ORIGINALS[-2]])
def test_a_replication_reads_a_text_once(
    original: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / "a.csv").read_bytes()
    with chdir(tmp_path):
        Path("a.csv").write_bytes(text)
        run(original)
        Path("b.csv").write_bytes(text)
        scans = Scans(monkeypatch, "b.csv")
        for options in REPLICATIONS:
            scans.n_scans = 0
            run(f"replicate s.json b.csv {options}")
            assert scans.n_scans == 1, options


@pytest.mark.parametrize(
    "call",
    ["check s.json b.csv", "evaluate a.model.json b.csv --by month", "sums s.json b.csv --out b.s"],
)
def test_a_lab_reads_a_text_once(
    call: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / "a.csv").read_bytes()
    with chdir(tmp_path):
        Path("a.csv").write_bytes(text)
        run(DIED)
        Path("b.csv").write_bytes(text)
        scans = Scans(monkeypatch, "b.csv")
        run(call)
    assert scans.n_scans == 1


# --- the scratch file -----------------------------------------------------------------------------


def columns_of(table: Any, n_rows: int) -> list[list[Any]]:
    """All cells, whatever the batches."""
    parts: dict[str, list[Any]] = {name: [] for name in table.names}
    for batch in table.batches(n_rows):
        for name in table.names:
            parts[name] += pd.Series(cells(batch.column(name))).fillna("?").tolist()
    return list(parts.values())


def cells(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column
    return np.array([*column.values, None], dtype=object)[column.codes]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_scratch_file_holds_what_the_text_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = ["1", "", "é \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "a,b"]
    table = pd.DataFrame({"number": np.arange(3000) / 7, "text": (odd * 750)})
    table.loc[2000:, "late"] = "text"  # numbers before, for all that the first rows say
    table.loc[:1999, "late"] = "5"
    path = str(tmp_path / name)
    table.to_csv(path, index=False)

    plain = open_table(path)
    expected = columns_of(plain, 500)
    kept = plain.kept()
    for n_rows in (500, 7000, 311):
        assert columns_of(kept, n_rows) == expected
    assert columns_of(kept.without(["number"]), 500) == expected[1:]

    # two passes at a time do not disturb each other
    both = zip(kept.batches(500), kept.batches(500), strict=True)
    assert all((one.column("number") == other.column("number")).all() for one, other in both)

    monkeypatch.setattr(scratch, "MOST_STORED", 1 << 10)  # no room
    assert columns_of(plain.kept(), 500) == expected


def test_tables_in_memory_need_no_scratch_file() -> None:
    table = open_table({"a": [1.0, 2.0]})
    assert table.kept() is table
