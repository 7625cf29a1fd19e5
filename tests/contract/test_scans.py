"""A file is read through once, whatever is asked of it: to parse it takes longer than most fits."""

import builtins
import gzip
import io
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from replearn.cli import main
from replearn.datasets import load_readmission
from replearn.tables import files, open_table, scratch

N_ROWS = 1500

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
    table = load_readmission("Ashford", N_ROWS)[columns].rename(columns={"readmitted": "died"})
    place = np.arange(len(table))
    table["ward"] = place // 3
    table["month"] = place % 12
    table["mass"] = 1.0 + place % 3
    table["los"] = 1.0 + table["age"] % 13
    table.to_csv(made / "a.csv", index=False)
    table.to_parquet(made / "a.parquet", index=False)
    return made


class Scans:
    """Counts who opens a text to read it through, and how often each column of Parquet is read.

    The head of a text, from which names come, is none, nor is a row of Parquet.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
        self.n_texts = 0
        self.rows_of_columns: Counter[str] = Counter()
        head, batches = files._head, files.ParquetFile._batches

        def look_at_head(of: str) -> Any:
            before = self.n_texts
            found = head(of)
            self.n_texts = before
            return found

        def watched(file: files.ParquetFile, *args: Any) -> Iterator[Any]:
            for batch in batches(file, *args):
                if Path(file.path).name == path:
                    self.rows_of_columns.update(dict.fromkeys(batch.schema.names, batch.num_rows))
                yield batch

        monkeypatch.setattr(files, "_head", look_at_head)
        monkeypatch.setattr(files.ParquetFile, "_batches", watched)
        for module, name in ((builtins, "open"), (gzip, "open"), (pa, "input_stream")):
            monkeypatch.setattr(module, name, self._counting(getattr(module, name), path))

    def _counting(self, opener: Any, path: str) -> Any:
        is_text = path.endswith(".csv")

        def counted(source: Any, *args: Any, **kwargs: Any) -> Any:
            self.n_texts += is_text and isinstance(source, str) and Path(source).name == path
            return opener(source, *args, **kwargs)

        return counted

    def taken(self) -> int:
        """How many since the last time."""
        n_scans = self.n_texts + max(self.rows_of_columns.values(), default=0) // N_ROWS
        self.n_texts = 0
        self.rows_of_columns.clear()
        return n_scans


def run(call: str) -> None:
    with redirect_stdout(io.StringIO()):
        assert main(shlex.split(call)) in (0, 1), call


KINDS = pytest.mark.parametrize("kind", ["csv", "parquet"])


def copied(folder: Path, name: str) -> None:
    """The table, here, under this name."""
    Path(name).write_bytes((folder / f"a{Path(name).suffix}").read_bytes())


@KINDS
@pytest.mark.parametrize("call", ORIGINALS)
def test_an_original_reads_a_file_once(
    call: str, kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chdir(tmp_path):
        copied(folder, f"a.{kind}")
        scans = Scans(monkeypatch, f"a.{kind}")
        run(call.replace("a.csv", f"a.{kind}"))
    assert scans.taken() == 1


@KINDS
@pytest.mark.parametrize("original", [DIED, f"{DIED} --weights mass", ORIGINALS[-2]])
def test_a_replication_reads_a_file_once(
    original: str, kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chdir(tmp_path):
        copied(folder, "a.csv")
        run(original)
        copied(folder, f"b.{kind}")
        scans = Scans(monkeypatch, f"b.{kind}")
        for options in REPLICATIONS:
            run(f"replicate s.json b.{kind} {options}")
            assert scans.taken() == 1, options


@KINDS
@pytest.mark.parametrize(
    "call",
    ["check s.json b.csv", "evaluate a.model.json b.csv --by month", "sums s.json b.csv --out b.s"],
)
def test_a_lab_reads_a_file_once(
    call: str, kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chdir(tmp_path):
        copied(folder, "a.csv")
        run(DIED)
        copied(folder, f"b.{kind}")
        scans = Scans(monkeypatch, f"b.{kind}")
        run(call.replace("b.csv", f"b.{kind}"))
    assert scans.taken() == 1


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
