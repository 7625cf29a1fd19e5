"""Every practical plan on populations with exact margins: error, and how often labs differ.

    python benchmarks/populations.py [--plans svm svm+3 ...] [--pairs 20] [--features 12]
        [--margin 0.2] [--max-error 0.05] [--max-disagreement 0.1] [--names decoy ...]

A line for each plan and population of tests/populations.py: pairs that differ, mean error on new
rows, and fits that warned. A plan passes where the error is at most max_error, and where at most
max_disagreement of the pairs differ (but for chance: a one-sided test at 1%) or the fits warned.
"""

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy.stats import binom

from replearn.codes import Promise, Sizes
from replearn.errors import ReplearnError
from replearn.reports.table1 import LINES, _shell
from tests.populations import OUTSIDE, POPULATIONS, draw

_NEW_ROWS = 4000


def count(plan: str, name: str, promise: Promise, n_features: int, n_rows: int, pairs: int) -> Any:
    """Pairs that differ, the mean error on new rows, and pairs in which a fit warned."""
    new_rows = draw(name, _NEW_ROWS, n_features, promise.margin, 10**9)
    n_differ, n_warned, errors = 0, 0, []
    for pair in range(pairs):
        samples = (draw(name, n_rows, n_features, promise.margin, 2 * pair + lab) for lab in (0, 1))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            first = _shell(plan, promise, pair).fit(*next(samples))
            second = _shell(plan, promise, pair, getattr(first, "study_", None))
            second.fit(*next(samples))
        n_differ += first.fingerprint_ != second.fingerprint_
        n_warned += bool(said)
        errors.append(1 - first.score(*new_rows))
    return n_differ, float(np.mean(errors)), n_warned


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plans", nargs="+", default=list(LINES), choices=list(LINES))
    parser.add_argument("--names", nargs="+", default=list(POPULATIONS))
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--margin", type=float, default=0.2)
    parser.add_argument("--max-error", type=float, default=0.05)
    parser.add_argument("--max-disagreement", type=float, default=0.1)
    given = parser.parse_args()
    promise = Promise(given.margin, given.max_error, given.max_disagreement)

    print(f"{'plan':8}{'rows':>10}  {'population':12}{'differ':>8}{'error':>8}{'warned':>8}")
    for plan in given.plans:
        recipe, bits = LINES[plan]
        try:
            made = recipe.sizes(promise, given.features, "practical", Sizes(sketch_bits=bits))
        except ReplearnError as problem:
            print(f"{plan:8}{'':>10}  {problem}")
            continue
        for name in given.names:
            found = count(plan, name, promise, given.features, made.n_rows, given.pairs)
            n_differ, error, n_warned = found
            by_chance = binom.sf(n_differ - 1, given.pairs, promise.max_disagreement) > 0.01
            kept = error <= promise.max_error and (by_chance or n_warned > given.pairs / 2)
            verdict = "outside" if name in OUTSIDE else "" if kept else "FAILS"
            print(
                f"{plan:8}{made.n_rows:>10,}  {name:12}{n_differ:>4} /{given.pairs:>2}"
                f"{error:>8.3f}{n_warned:>8}  {verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
