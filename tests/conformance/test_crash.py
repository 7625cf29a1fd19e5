"""Nothing is lost: real kills, a real full disk, a real read-only disk."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replearn import cli
from replearn.datasets import make_margin
from replearn.files.modelfile import load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kills and mounts of Linux")

N, D = 120_000, 20
FIT = ("--target", "label", "--margin", ".2", "--seed", "7")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "replearn", *map(str, arguments)]


def replearn(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in several files, and a model of them."""
    place = tmp_path_factory.mktemp("crash")
    X, y = make_margin(N, D, margin=0.2, random_state=1)
    table = pa.table({**{f"c{i}": X[:, i] for i in range(D)}, "label": y})
    (place / "rows").mkdir()
    for part in range(8):
        rows = table.slice(part * N // 8, N // 8)
        pq.write_table(rows, place / "rows" / f"part-{part}.parquet")
    pq.write_table(table.slice(0, 2000), place / "small.parquet")
    done = replearn("fit", place / "rows", *FIT, "--out", place / "expected.json")
    assert done.returncode == 0, done.stderr
    return place


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a file is there, or the process has ended."""
    while process.poll() is None and not path.exists():
        time.sleep(0.001)


MOMENTS = {
    "start": ["state/replearn-work/job.json"],
    "rows": [f"state/replearn-work/rows/{name}" for name in ("bucket-63.rows", "scattered.state")],
    "sums": ["state/replearn-work/sums-1.state"],
}


@pytest.mark.parametrize("options", [(), ("--assume-shuffled",)], ids=["shuffle", "as they come"])
def test_kill_9_at_any_moment_and_run_again(data, tmp_path, options):
    state, out = tmp_path / "state", tmp_path / "model.json"
    out.write_text("an older model")
    fit = command(
        *("fit", data / "rows", *FIT, *options, "--out", out),
        *("--checkpoint", state, "--checkpoint-every", "0"),
    )
    n_killed = 0
    for moment in ["start", "rows", "rows", "sums", "sums", "sums"]:
        if options and moment == "rows":
            continue
        process = subprocess.Popen(fit, stdout=subprocess.DEVNULL)
        for name in MOMENTS[moment]:
            wait_for(tmp_path / name, process)
        time.sleep(0.02 * n_killed)  # into the middle of what comes next
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            n_killed += 1
            assert out.read_text() == "an older model"
    assert n_killed >= 2
    last = subprocess.run(fit, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    expected = data / "expected.json"
    if options:
        expected = tmp_path / "expected.json"
        replearn("fit", data / "rows", *FIT, *options, "--out", expected)
    assert out.read_bytes() == expected.read_bytes()
    assert not state.exists()  # it has served
    assert not list(tmp_path.glob(".*"))


def test_kills_in_every_phase_leave_nothing_stuck_wrong_or_behind():
    """A short run of benchmarks/kills.py: fits and shuffles, the clearing included."""
    script = Path(__file__).parents[2] / "benchmarks" / "kills.py"
    done = subprocess.run(
        [sys.executable, script, "--kills", "12", "--seed", "1"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 stuck, 0 wrong, 0 litter" in done.stdout


def test_an_interrupted_fit_ends_in_one_line_and_can_go_on(data, tmp_path):
    state, out = tmp_path / "state", tmp_path / "model.json"
    fit = command("fit", data / "rows", *FIT, "--out", out, "--checkpoint", state)
    process = subprocess.Popen(fit, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (state / "replearn-work" / "job.json").exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate()
    assert (process.returncode, words) == (130, "replearn: interrupted\n")
    assert not out.exists()
    assert subprocess.run(fit, capture_output=True).returncode == 0
    assert out.read_bytes() == (data / "expected.json").read_bytes()


# --- disks --------------------------------------------------------------------------------------


@pytest.fixture
def run(capsys):
    """The command line in this process: disks do not care, and a start takes seconds."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        code = cli.main([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 1024)


def old_files(disk: Path, data: Path) -> dict[str, bytes]:
    """What stands where new files are to go."""
    contents = {
        "model.json": (data / "expected.json").read_bytes(),
        "predictions.csv": b"prediction,score\n",
        "study.json": b"{}",
        "audit.html": b"<html></html>",
        "export.sql": b"select 1",
        "rows.parquet": b"PAR1",
    }
    for name, content in contents.items():
        (disk / name).write_bytes(content)
    return contents


def writers(disk: Path, data: Path) -> dict[str, tuple[object, ...]]:
    small, model = data / "small.parquet", data / "expected.json"
    return {
        "fit": ("fit", small, *FIT, "--out", disk / "model.json"),
        "predict": ("predict", model, small, "--out", disk / "predictions.csv"),
        "plan": (
            *("plan", "--pilot", small, "--target", "label", "--samples-per-site", "9999"),
            *("--out", disk / "study.json"),
        ),
        "audit": ("audit", small, *FIT, "--pairs", "2", "--report", disk / "audit.html"),
        "export": ("export", model, "--to", "sql", "--out", disk / "export.sql"),
        "shuffle": ("shuffle", small, "--out", disk / "rows.parquet", "--scratch", data),
    }


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What the command complained about, if it did so in one line and exit code 2."""
    lines = [line for line in done.stderr.splitlines() if "warning:" not in line]
    assert (done.returncode, len(lines)) == (2, 1), done
    return lines[0]


@pytest.mark.parametrize("name", ["fit", "predict", "plan", "audit", "export", "shuffle"])
def test_a_full_disk_leaves_the_old_file_whole(data, disk, run, name):
    before = old_files(disk, data)
    fill(disk)
    done = run(*writers(disk, data)[name])
    assert "No space left on device" in one_line(done)
    assert {path.name: path.read_bytes() for path in disk.iterdir() if path.name != "filler"} == (
        before
    )


@pytest.mark.parametrize("name", ["fit", "predict", "plan", "audit", "export", "shuffle"])
def test_a_read_only_disk_is_noticed_before_the_work(data, disk, run, name):
    before = old_files(disk, data)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    done = run(*writers(disk, data)[name])
    assert "Read-only" in one_line(done) or "no right to write" in one_line(done)
    assert {path.name: path.read_bytes() for path in disk.iterdir()} == before


@pytest.mark.parametrize("option", ["--checkpoint", "--scratch"])
def test_scratch_and_checkpoints_on_a_full_disk_give_one_line(data, disk, run, tmp_path, option):
    out = tmp_path / "model.json"
    place = disk / "state"
    place.mkdir()
    done = run(
        *("fit", data / "rows", *FIT, "--out", out, option, place, "--memory", "1K"),
    )
    line = one_line(done)
    assert "No space left on device" in line
    assert "another disk" in line
    assert not out.exists()
    if option == "--scratch":
        assert list(place.iterdir()) == []  # nothing is left behind


def test_a_checkpoint_that_ran_out_of_space_goes_on_when_there_is_some(data, disk, run, tmp_path):
    out, state = tmp_path / "model.json", disk / "state"
    fit = ("fit", data / "rows", *FIT, "--out", out, "--checkpoint", state)
    assert "No space left on device" in one_line(run(*fit, "--checkpoint-every", "0"))
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
    assert run(*fit).returncode == 0
    assert load(out).fingerprint == load(data / "expected.json").fingerprint
