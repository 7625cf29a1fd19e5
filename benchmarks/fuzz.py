"""Hostile input, for long: at least 100,000 cases, and what became of each.

    python benchmarks/fuzz.py [--scale 1.0] [--only TARGET] [--first N] [--cases N] [--seconds S]

Every case ends in a result or in a documented error; anything else (a traceback from inside, a
hang, more memory than the input deserves, a crash) is printed with its number and makes the exit
code 1. ``--only TARGET --first N --cases 1`` runs one case again. With ``--seconds`` no case of a
target is started after that time, without what it takes to compile.

Targets that start with "drawn" take their input from hypothesis, the others mutate valid input.
The cases of a target run in processes of their own, one after the other, so that a crash is
counted and told like everything else. Limits of a case: 10 s of processors, and 64 MiB above the
start (256 MiB where it says how many columns there are); of a process: 8 GiB of address space.
"""

import argparse
import contextlib
import faulthandler
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

#: Cases of each target in a whole run.
CASES = {
    "model file": 36_000,
    "protocol file": 15_000,
    "commitments": 8_000,
    "hints": 6_000,
    "sums": 8_000,
    "choice protocol": 6_000,
    "choice file": 8_000,
    "onnx": 300,
    "stream state": 8_000,
    "score stream state": 8_000,
    "fit checkpoint": 2_500,
    "audit checkpoint": 2_000,
    "csv twins": 10_000,
    "csv": 3_000,
    "svmlight": 2_500,
    "npz": 6_000,
    "parquet": 2_500,
    "weights column": 2_500,
    "paths": 1_500,
    "estimators": 6_000,
    "command line": 3_000,
    "drawn model file": 4_000,
    "drawn protocol file": 2_000,
    "drawn sums": 2_000,
    "drawn choice protocol": 2_000,
    "drawn choice file": 2_000,
    "drawn csv": 2_000,
    "drawn svmlight": 2_000,
    "drawn estimators": 2_500,
}
PER_PROCESS = 3_000
PER_DRAW = 100  # examples of one run of hypothesis
ADDRESS_SPACE = 8 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the cases")
    parser.add_argument("--only", action="append", choices=tuple(CASES))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--cases", type=int, help="cases of each target")
    parser.add_argument("--seconds", type=float, default=1e9, help="of each target, at most")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, first, n_cases, report, seconds = options.child
        run(name, int(first), int(n_cases), Path(report), float(seconds))
        return 0
    start, total, n_other = time.perf_counter(), Counter(), 0
    print(f"{'target':<22}{'cases':>9}{'results':>10}{'errors':>9}{'other':>7}{'seconds':>9}")
    for name in options.only or CASES:
        n_cases = options.cases or max(1, round(CASES[name] * options.scale))
        begun = time.perf_counter()
        counts, findings = run_target(name, options.first, n_cases, options.seconds)
        seconds = time.perf_counter() - begun
        print(line(name, counts, seconds), flush=True)
        for number, detail in findings[:20]:
            print(f"  case {number}: {detail}", flush=True)
        total += counts
        n_other += counts["other"]
    print(line("all", total, time.perf_counter() - start))
    return 1 if n_other else 0


def line(name: str, counts: Counter[str], seconds: float) -> str:
    kinds = "".join(
        f"{counts[kind]:>{width},}" for kind, width in (("result", 10), ("error", 9), ("other", 7))
    )
    return f"{name:<22}{counts.total():>9,}{kinds}{seconds:>9.0f}"


def run_target(
    name: str, first: int, n_cases: int, seconds: float
) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Run cases in processes that may die."""
    counts: Counter[str] = Counter()
    findings: list[tuple[int, str]] = []
    last, used = first + n_cases, 0.0
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report")
        while first < last and used < seconds:
            begun = time.monotonic()
            report.unlink(missing_ok=True)
            size = min(PER_PROCESS, last - first)
            command = [
                sys.executable,
                __file__,
                "--child",
                name,
                str(first),
                str(size),
                str(report),
                str(seconds - used),
            ]
            one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # threads that wait are busy
            done = subprocess.run(command, capture_output=True, text=True, env=one_thread)
            used += time.monotonic() - begun
            for entry in report.read_text("utf-8").splitlines() if report.exists() else []:
                number, kind, detail = json.loads(entry)
                counts[kind] += 1
                if kind == "other":
                    findings.append((number, detail))
                first = number + 1
            if done.returncode:  # the case after the last one that was told
                counts["other"] += 1
                findings.append(
                    (first, f"the process died ({done.returncode}): {done.stderr[:2000]}")
                )
                first += 1
    return counts, findings


def run(name: str, first: int, n_cases: int, report: Path, seconds: float) -> None:
    """Run cases here, and tell about each as soon as it is done."""
    from tests.fuzzing.drawn import DRAWN
    from tests.fuzzing.judging import SECONDS, judge
    from tests.fuzzing.targets import MEMORY, TARGETS

    faulthandler.enable()
    case = TARGETS.get(name)
    limit = MEMORY.get(name, 64.0)
    # in memory where that can be: files are written safely, and a disk would take its time
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    base = Path(tempfile.mkdtemp(prefix="replearn-fuzz-", dir=memory))
    folder = base / "case"

    def one(number: int, use: Callable[[], object], about: object = "") -> list[object]:
        folder.mkdir()
        patience = 1.0 if number >= 0 else 60.0  # what is compiled must not be interrupted
        faulthandler.dump_traceback_later(120 * patience, exit=True)  # for what no signal can end
        verdict = judge(use, seconds=SECONDS * patience, megabytes=limit)
        faulthandler.cancel_dump_traceback_later()
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
        return [
            number,
            verdict.kind,
            f"{verdict.detail} {about!r:.1500}"[: 9000 * (verdict.kind == "other")],
        ]

    def mutated(numbers: range) -> Iterator[list[object]]:
        for number in numbers:
            yield one(number, lambda n=number: case(random.Random(f"{name}/{n}"), folder))

    try:
        cases = mutated if case is not None else partial(drawn, DRAWN[name], folder, one)
        for _ in cases(range(-30, 0)):  # compiles, and fills caches
            pass
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        end = time.monotonic() + seconds
        with report.open("w", encoding="utf-8", buffering=1) as out:
            for found in cases(range(first, first + n_cases)):
                print(json.dumps(found), file=out)
                if time.monotonic() > end:
                    break
    finally:
        shutil.rmtree(base, ignore_errors=True)


def drawn(
    target: Any, folder: Path, one: Callable[..., list[object]], numbers: range
) -> Iterator[list[object]]:
    """Cases that hypothesis draws, a hundred at a time: its choice follows from their numbers."""
    from tests.fuzzing.judging import draws

    strategy, use = target
    for start in range(numbers.start, numbers.stop, PER_DRAW):
        values = draws(strategy(), start, min(PER_DRAW, numbers.stop - start))
        for number, value in enumerate(values, start):
            yield one(number, partial(use, value, folder), value)


if __name__ == "__main__":
    sys.exit(main())
