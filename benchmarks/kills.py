"""Processes that are killed at random times: nothing is lost, and no litter stays.

    python benchmarks/kills.py 80

Each job is killed (SIGKILL) after a random part of the time that it takes, and run again. Every
file must be there as a whole or not at all; whoever finds a study finds what opens it. The second
run gives the bytes of one that nobody killed, and removes what the first one left.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import replearn as rl
from replearn.datasets import load_readmission

#: Saves two states in turn as fast as it can, as a stream does that is fitted part by part.
STREAM = """
import replearn as rl
study = rl.Study.load("study.json")
states = [study.begin(), rl.combine(study, rl.load("lab.sums.json"))]
for turn in range(100):
    states[turn % 2].save("state.json")
"""

JOBS = {
    "publish": "publish a.csv --target readmitted --out new.json",
    "sealed": "publish a.csv --target readmitted --out new.json --sealed",
    "replicate": "replicate study.json b.csv --out b.model.json --page b.html",
    "sums": "sums study.json b.csv --out b.sums.json",
    "combine": "combine study.json lab.sums.json --out next.json",
    "bundle": "bundle study.json --out bundle",
    "stream": STREAM,
}


def command(job: str) -> list[str]:
    if job == "stream":
        return [sys.executable, "-c", STREAM]
    return [sys.executable, "-m", "replearn", *JOBS[job].split()]


def prepared() -> Path:
    """A folder with tables, a study and sums."""
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    table = load_readmission("Ashford", 3000)
    table.to_csv(folder / "a.csv", index=False)
    load_readmission("Birchwood", 3000).to_csv(folder / "b.csv", index=False)
    study = rl.ReplicableLogisticClassifier().fit(table, table.pop("readmitted")).study_
    study.save(folder / "study.json")
    rl.lab_sums(study, folder / "a.csv", lab="a").save(folder / "lab.sums.json")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """All that is there, hidden or not, by its path."""
    found = filter(Path.is_file, folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def faults(folder: Path, before: dict[str, bytes], whole: dict[str, bytes], job: str) -> list[str]:
    """What is wrong after a kill."""
    found = [f"{name} is lost" for name in before if not (folder / name).exists()]
    for name, content in files(folder).items():
        if ".part" in name or content in (before.get(name), whole.get(name)):
            continue
        try:
            rl.load(folder / name)  # a different nonce, or the other state: but whole
        except rl.ReplearnError as problem:
            found.append(f"{name}: {problem}")
    if (folder / "bundle").exists() and len(list((folder / "bundle").iterdir())) != 4:
        found.append("half a bundle")
    if job == "sealed" and (folder / "new.json").exists():
        opening, study = rl.load(folder / "a.opening.json"), rl.load(folder / "new.json")
        if not study.commits_to(opening.model, opening.nonce):
            found.append("a study that nobody can open")
    return found


def main(n_kills: int) -> int:
    start, dice = prepared(), random.Random(0)
    before = files(start)
    whole, seconds, wrong, counts = {}, {}, [], Counter()
    for number in range(-len(JOBS), n_kills):  # the first of each job are not killed
        job = sorted(JOBS)[number % len(JOBS)]
        folder = Path(tempfile.mkdtemp(prefix=f"{job}-")) / "lab"
        shutil.copytree(start, folder)
        begun = time.monotonic()
        process = subprocess.Popen(command(job), cwd=folder, stdout=subprocess.DEVNULL)
        if number < 0:
            assert process.wait() == 0
            whole[job], seconds[job] = files(folder), time.monotonic() - begun
            continue
        time.sleep(dice.uniform(0.3, 0.95) * seconds[job])
        process.kill()
        is_killed = process.wait() < 0
        seconds[job] *= 1.0 if is_killed else 0.8  # the machine has become faster
        counts["killed" if is_killed else "done before"] += 1
        wrong += [f"{job}: {fault}" for fault in faults(folder, before, whole[job], job)]
        if any(folder.rglob(".*.part")):
            counts["left hidden files"] += 1
            for left in folder.rglob(".*.part"):  # a day passes, after which they are swept away
                os.utime(left, (0, 0))
        if {name for name in files(folder) if ".part" not in name} <= {*before, "state.json"}:
            counts["run again"] += 1  # it had not come to an end
            subprocess.run(command(job), cwd=folder, stdout=subprocess.DEVNULL, check=True)
            again = files(folder)
            if set(again) != set(whole[job]) or (job != "sealed" and again != whole[job]):
                wrong.append(f"{job}: other files after the second run")
        shutil.rmtree(folder.parent)
    print(*wrong, f"{n_kills} kills: {dict(counts)}; {len(wrong)} faults", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 80))
