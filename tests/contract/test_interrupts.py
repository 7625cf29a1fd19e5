"""Commands that are stopped, whose output is closed or full, or takes no such text."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.commands import SUMS, a_round, lab, replearn


def _started(*words: str, **settings: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "replearn", *words],
        stderr=subprocess.PIPE,
        **settings,  # type: ignore[call-overload]
    )


#: Work that takes a while, and what it writes.
LONG = [
    "demo --labs 9",
    "publish a.csv --target died --out {tmp}/s.json",
    "replicate study.json b.csv --out {tmp}/m.json --page {tmp}/p.html",
    "check study.json b.csv",
    "bundle study.json --out {tmp}/bundle",
    "predict a.model.json new.csv --out {tmp}/p.csv",
    "audit b.csv --study study.json --pairs 2 --rows 1200",
    "sums study.json lab.parquet --out {tmp}/lab.sums.json",
    "combine study.json a.sums.json b.sums.json third.sums.json --out {tmp}/next.json",
    "fit data.csv --target y --margin 0.4",
]
AFTER = """
import os, signal, sys, threading
from replearn import cli
from replearn.__main__ import run
threading.Timer(float(sys.argv.pop(1)), os.kill, (os.getpid(), signal.SIGINT)).start()
run()
"""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            call, id=call.split()[0], marks=() if call.startswith("replicate") else pytest.mark.slow
        )
        for call in LONG
    ],
)
def test_an_interrupt_says_so(inside: Path, tmp_path: Path, call: str) -> None:
    """At any time: while modules are imported, files are read, rows are fitted, files written."""
    if SUMS in call:
        a_round(with_state=False)
    codes = set()
    often = call.startswith(("publish", "fit"))
    for seconds in (0.02, 0.1, 0.4, 0.8, 1.6) if often else (0.1, 0.8):
        process = subprocess.run(
            [sys.executable, "-c", AFTER, str(seconds), *call.format(tmp=tmp_path).split()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        codes.add(process.returncode)
        if process.returncode == 130:
            assert process.stderr == "replearn: interrupted\n"
            assert not list(tmp_path.rglob(".*"))
        else:
            assert process.returncode == 0, process.stderr
        for path in tmp_path.iterdir():  # whole files, of a call that ended or nearly did
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert 130 in codes


def test_a_closed_output(inside: Path) -> None:
    closed = _started("show", "study.json", preexec_fn=lambda: os.close(1))
    _, errors = closed.communicate(timeout=600)
    assert closed.returncode == 2
    assert errors.decode().count("\n") == 1
    reader, writer = os.pipe()
    os.close(reader)
    piped = _started("predict", "a.model.json", "new.csv", stdout=writer)
    os.close(writer)
    _, errors = piped.communicate(timeout=600)
    assert piped.returncode == 141
    assert errors == b""


def test_a_full_disk(inside: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        process = _started("show", "study.json", stdout=full)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 2
    assert errors.decode().count("\n") == 1


@pytest.mark.slow
def test_a_path_that_is_no_utf8(inside: Path) -> None:
    odd = os.fsdecode(b"\xff.csv")
    (inside / odd).write_bytes((inside / "b.csv").read_bytes())
    for words in (["show", odd], ["replicate", "study.json", odd]):
        process = _started(*words, stdout=subprocess.PIPE)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 2
        assert errors.decode().count("\n") == 1


def test_an_output_without_unicode(inside: Path, tmp_path: Path) -> None:
    table = lab("Ashford").rename(columns={"ward": "Größe"})
    path, out = tmp_path / "u.csv", tmp_path / "s.json"
    table.to_csv(path, index=False)
    assert replearn("publish", path, "--target", "died", "--out", out)[0] == 0
    process = _started(
        "show",
        str(out),
        "--details",
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    text, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert b"Gr\\xf6\\xdfe" in text


READ_AHEAD = """
import sys, time
from replearn.tables import files, open_table

files._BLOCK_BYTES = 1 << 13
as_it_is = files._Watched.read
def slow(self, size=-1):
    if self.n_breaks:  # what is read ahead
        time.sleep(0.3)
    return as_it_is(self, size)
files._Watched.read = slow

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(1)  # Python is ending

late = Late()
for batch in open_table(sys.argv[1], target="died").batches(100):
    sys.exit(2)
"""


def test_a_process_ends_with_its_exit_code_while_arrow_reads_ahead(inside: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", READ_AHEAD, "a.csv"], capture_output=True, cwd=inside
    )
    assert (ended.returncode, ended.stderr) == (2, b"")
