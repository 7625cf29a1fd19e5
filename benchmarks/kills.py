"""Real kills in every phase of fits and shuffles: none stuck, none wrong, nothing left behind.

    python benchmarks/kills.py [--kills 100] [--seed 0]

Each trial runs a command, kills it with SIGKILL, perhaps once more, and runs it again undisturbed.
Two trials of three kill at a file operation of a chosen phase, as the interpreter's audit events
tell it; the third kills at any time. A trial is *stuck* if the last run does not end well, *wrong*
if it writes other bytes than a run that nobody disturbed, and *litter* if it leaves any other file
or folder. After a kill while a checkpoint was being cleared, half of the last runs are other work
in the same folder, which must not be refused.

Commands run in forks of one process that has imported everything, so that a hundred kills take a
minute or two. Needs Linux or macOS.
"""

import argparse
import contextlib
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from replearn.cli import main as replearn
from replearn.datasets import make_margin
from replearn.sources import shuffling

N_ROWS, N_COLUMNS, N_FILES = 3000, 4, 5
FIT = ["--target", "label", "--margin", ".2", "--jobs", "1"]
KEPT = ["--checkpoint", "state", "--checkpoint-every", "0"]
COMMANDS = {
    "fit, shuffled, checkpoint": ["fit", "rows", *FIT, *KEPT, "--out", "out.json"],
    "fit, as they come, checkpoint": [
        *("fit", "rows", *FIT, "--assume-shuffled", *KEPT, "--out", "out.json"),
    ],
    "fit, shuffled, scratch": [
        *("fit", "rows", *FIT, "--memory", "1K", "--scratch", ".", "--out", "out.json"),
    ],
    "shuffle Parquet": ["shuffle", "rows", "--out", "out.parquet"],
    "shuffle CSV": ["shuffle", "rows.csv", "--out", "out.csv"],
}
_PHASE = "phase: "
REMOVING = ("os.remove", "os.rmdir", "shutil.rmtree")
#: Parts of the names of files, and the phase in which they are opened or renamed.
PHASES = {
    "replearn-done": "clearing",
    ".part": "writing",
    "job.json": "starting",
    "scattered": "marking",
    "split-": "splitting",
    "bucket-": "distributing",
    "sums-": "summing",
}


@dataclass(frozen=True)
class Kill:
    """When to kill a run: at an event of a phase, or after some seconds."""

    phase: str
    event: int = 0
    seconds: float = 0.0


@dataclass
class Trial:
    """What became of a command that was killed."""

    command: str
    phase: str
    n_kills: int
    problem: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # few files for few rows, and some that are distributed again
    shuffling._BITS, shuffling._N_BUCKETS, shuffling._MAX_BUCKET = 3, 8, 24_000
    with tempfile.TemporaryDirectory() as place:
        data = Path(place, "data")
        write_data(data)
        compile_here(data)
        trials = run_trials(data, Path(place, "trial"), options.kills, random.Random(options.seed))
    return report(trials)


def write_data(folder: Path) -> None:
    X, y = make_margin(N_ROWS, N_COLUMNS, margin=0.2, random_state=1)
    table = pa.table({**{f"c{i}": X[:, i] for i in range(N_COLUMNS)}, "label": y})
    (folder / "rows").mkdir(parents=True)
    for i in range(N_FILES):
        rows = table.slice(i * N_ROWS // N_FILES, N_ROWS // N_FILES)
        pq.write_table(rows, folder / "rows" / f"part-{i}.parquet")
    pa.csv.write_csv(table, folder / "rows.csv")


def compile_here(data: Path) -> None:
    """Load the compiled code once, not in every fork."""
    arguments = ["fit", str(data / "rows"), *FIT, "--memory", "1K", "--json"]
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(io.StringIO()):
        replearn(arguments)


# --- trials -------------------------------------------------------------------------------------


def run_trials(data: Path, place: Path, n_kills: int, rng: random.Random) -> list[Trial]:
    trials: list[Trial] = []
    quiet = place.with_name("undisturbed")
    known = cache(lambda *arguments: undisturbed(data, quiet, list(arguments)))
    while sum(trial.n_kills for trial in trials) < n_kills:
        name = rng.choice(list(COMMANDS))
        arguments = COMMANDS[name]
        expected, events, seconds = known(*arguments)
        fresh(data, place)
        n_killed, phase = 0, "any time"
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 2 / 3:
                phase = rng.choice(sorted(events))
                kill = Kill(phase, event=rng.randint(1, events[phase]))
            else:
                kill = Kill(phase := "any time", seconds=rng.uniform(0, seconds))
            n_killed += run(place, arguments, kill)[0] == -signal.SIGKILL
        if not n_killed:
            continue
        if phase == "clearing" and rng.random() < 0.5 and free(place):
            arguments = [*arguments, "--seed", "other"]
            expected, *_ = known(*arguments)
        trials.append(Trial(name, phase, n_killed, judged(data, place, arguments, expected)))
    return trials


def free(place: Path) -> bool:
    """Whether the clearing has begun: before, the folder still belongs to the killed command."""
    return not (place / "state" / "replearn-work").exists()


def judged(data: Path, place: Path, arguments: list[str], expected: bytes) -> str:
    """What is wrong after a last run, or nothing."""
    code, words = run(place, arguments)
    out = place / arguments[arguments.index("--out") + 1]
    if code != 0:
        return f"stuck: {words.strip()[:200]}"
    if out.read_bytes() != expected:
        return "wrong: other bytes"
    left = set(os.listdir(place)) - set(os.listdir(data)) - {out.name, "words"}
    return f"litter: {sorted(left)}" if left else ""


def undisturbed(data: Path, place: Path, arguments: list[str]) -> tuple[bytes, Counter[str], float]:
    """What a command writes, its events by phase, and how long it takes."""
    fresh(data, place)
    start = time.perf_counter()
    code, words = run(place, arguments)
    seconds = time.perf_counter() - start
    if code != 0:
        sys.exit(f"{arguments} failed before any kill: {words}")
    content = (place / arguments[arguments.index("--out") + 1]).read_bytes()
    fresh(data, place)
    _, listed = run(place, arguments, Kill("count"))
    found = (line.removeprefix(_PHASE) for line in listed.splitlines() if _PHASE in line[:8])
    return content, Counter(found), seconds


def fresh(data: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(data, place)


# --- one run ------------------------------------------------------------------------------------


def run(place: Path, arguments: list[str], kill: Kill | None = None) -> tuple[int, str]:
    """Run a command in a fork; its exit code (or minus its signal), and what it said."""
    words = place / "words"
    child = os.fork()
    if child == 0:
        code = 70
        with contextlib.suppress(BaseException):
            os.chdir(place)
            output = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            if kill is not None:
                sys.addaudithook(hook(kill))
            code = replearn(arguments)
        os._exit(code)
    if kill is not None and kill.seconds:
        time.sleep(kill.seconds)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, words.read_text() if words.exists() else ""


def hook(kill: Kill):  # type: ignore[no-untyped-def]
    """An audit hook that kills its process at an event, or writes down which phases it sees."""
    left = kill.event

    def look(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        phase = phase_of(event, arguments)
        if phase is not None and kill.phase == "count":
            os.write(2, f"{_PHASE}{phase}\n".encode())
        elif phase == kill.phase:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return look


def phase_of(event: str, arguments: tuple[object, ...]) -> str | None:
    if event not in ("open", "os.rename", "os.mkdir", "os.chmod", *REMOVING):
        return None
    name = " ".join(str(argument) for argument in arguments[:2])
    if event in REMOVING and ".part" not in name:
        return "clearing"
    if event == "os.rename" and "replearn-done" in name:
        return "clearing"
    found = next((phase for part, phase in PHASES.items() if part in name), None)
    return "sorting" if found == "distributing" and arguments[1] == "rb" else found


# --- report -------------------------------------------------------------------------------------


def report(trials: list[Trial]) -> int:
    kills: Counter[tuple[str, str]] = Counter()
    for trial in trials:
        kills[trial.command, trial.phase] += trial.n_kills
    phases = sorted({phase for _, phase in kills})
    print(f"{'kills by phase of the last one':<31}" + "".join(f"{phase:>13}" for phase in phases))
    for name in COMMANDS:
        row = "".join(f"{kills[name, phase]:>13}" for phase in phases)
        print(f"{name:<31}{row}")
    bad = [trial for trial in trials if trial.problem]
    for trial in bad:
        print(f"{trial.command}, killed while {trial.phase}: {trial.problem}")
    counts = Counter(trial.problem.partition(":")[0] for trial in bad)
    print(
        f"{sum(kills.values())} kills in {len(trials)} trials: "
        + ", ".join(f"{counts[kind]} {kind}" for kind in ("stuck", "wrong", "litter"))
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
