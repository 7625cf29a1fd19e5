"""Questions about columns that nobody should be asked: random samples of one real table.

    python benchmarks/questions.py DATA [--pairs 40]

Each pair is an original and a lab with other rows of the same table, drawn at random, patients
with several rows in one of the two. A line prints the pairs, those in which the lab is asked
anything about a column, and how often the lab is stopped because it codes a column differently.
Codes such as 99999 and columns that are mostly missing, of which an original with all rows would
be told, too, are no false questions: they are counted apart.
"""

import argparse
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tasks import Task, tasks

from replearn.tables import (
    EncodingCounts,
    compare_profiles,
    learn_classes,
    learn_encoding,
    make_profile,
)

NAMES = [
    "census",
    "forest 2 v rest",
    "skin",
    "flights, late",
    "hospital, again",
    "hospital, days (Poisson)",
    "pulsars",
    "occupancy",
    "banknotes",
    "heart",
]
#: Rows of the original and of the lab, one after the other; at most half of the table each.
SIZES = ((4000, 4000), (4000, 300), (1000, 8000), (20_000, 20_000))
LEAST_LEVEL = 20


def odd_columns(task: Task) -> set[str]:
    """Columns whose codes and gaps are told to whoever has all rows."""
    remarks = learn_encoding(task.table(np.arange(task.n_rows)), None).remarks
    return {remark.column for remark in remarks if remark.kind in ("code", "gaps")}


def asked(
    task: Task, odd: set[str], here: np.ndarray, there: np.ndarray
) -> tuple[list[str], list[str], bool]:
    """False questions, those about odd columns, and whether a lab is stopped."""
    original, lab = (task.table(rows) for rows in (here, there))
    labels, classes = task.target[here].astype(float), None
    if task.kind == "logistic":
        classes, labels = learn_classes(original.whole("target"))
    shrink = max(1.0, len(here) / len(there))
    least_rows = int(np.ceil(LEAST_LEVEL * shrink))
    learned = learn_encoding(original, labels, categories=task.categories, least_rows=least_rows)
    profile = make_profile(learned, labels)

    seen = EncodingCounts(learned.encoding)
    for batch in lab.batches():
        learned.encoding.encode(batch, seen)
    counts = None
    if classes is not None:
        counts = [int(np.count_nonzero(task.target[there] == one)) for one in classes]
    sizes = len(here), len(there)
    found = compare_profiles(learned.encoding, profile, seen, counts, sizes)
    false, true = list[str](), list[str]()
    for finding in found:
        questions = true if finding.column in odd else false
        questions.append(f"{finding.column or '(outcome)'}: {finding.sentence}")
    return false, true, bool(seen.troubles())


def pair_of(task: Task, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an original and of a lab."""
    rng = np.random.default_rng([2031, number])
    groups = np.arange(task.n_rows) if task.groups is None else task.groups
    names, places = np.unique(groups, return_inverse=True)
    order = np.argsort(rng.permutation(len(names))[places], kind="stable")
    n_here, n_there = (min(n, task.n_rows // 2) for n in SIZES[number % len(SIZES)])
    return order[:n_here], order[-n_there:]


def main() -> None:
    """Print a line for each table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=40)
    options = parser.parse_args()

    totals = np.zeros(4, dtype=int)
    print("pairs  asked  stopped  odd columns")
    for task in tasks(options.data, NAMES):
        begun, odd = time.process_time(), odd_columns(task)
        questions, counts = Counter[str](), np.zeros(4, dtype=int)
        for number in range(options.pairs):
            false, true, is_stopped = asked(task, odd, *pair_of(task, number))
            questions.update(false)
            counts += 1, bool(false), is_stopped, bool(true)
        seconds = time.process_time() - begun
        print("{:5} {:6} {:8} {:11}".format(*counts), f" {task.name} ({seconds:.0f} s)", flush=True)
        for words, times in questions.most_common(5):
            print(f"        {times} x {words[:140]}")
        totals += counts
    print("{:5} {:6} {:8} {:11}".format(*totals), " all", flush=True)


if __name__ == "__main__":
    main()
