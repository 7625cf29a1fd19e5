"""Pairs of labs at the sizes of their plans: disagreement and error for ever fewer rows.

    python benchmarks/planned_pairs.py RESULTS.jsonl --only d=100 --line promise --bits 0 2 4

Lines: "promise" (`estimate="rows"`, from margin .1, error .05, disagreement .1 alone, as many rows
as its plan says), "svm" (Algorithm 1, planned from a pilot of 1,000 rows with labels), "updating"
and "discovery" (logistic studies, the second without the pilot's labels). A pilot's line has
the rows that --rows says. Each pair of fresh samples has a seed of its own, and is written to
RESULTS at once, so that a run that was stopped goes on where it was. Without --line the results
are summed up: pairs, disagreement with its interval, error, and how many times fewer rows than the
paper's tuned structure (1.9e7 at 100 features and 7.1e7 at 1,000 by
`benchmarks/sample_cost.py --quick`; 1.7e7 and 3.6e7 by its long run).
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import replearn as rl
from replearn.datasets import make_margin

MARGIN = 0.1
POPULATIONS = {
    "d=20": (20, {}),
    "d=100": (100, {}),
    "decoy": (100, {"decoy": 0.7, "decay": 0.5}),
    "d=1000": (1000, {}),
}
PAPER = {"d=20": 7.1e5, "d=100": 1.7e7, "decoy": 5.4e6, "d=1000": 3.6e7}
N_TEST = 10_000
CHUNK = 20_000


def draw(name, n_rows, state, dtype=np.float64):
    """Rows in chunks, in single precision where there are many."""
    d, options = POPULATIONS[name]
    X, y = np.empty((n_rows, d), dtype), np.empty(n_rows, np.int64)
    for start in range(0, n_rows, CHUNK):
        part = slice(start, min(start + CHUNK, n_rows))
        X[part], y[part] = make_margin(
            part.stop - start, d, MARGIN, random_state=[*state, start], **options
        )
    return X, y


def estimator_of(name, line, bits, n_rows):
    """What a lab fits, as a function of seed and hint; and the rows that it needs."""
    if line == "promise":
        common = {"margin": MARGIN, "fit_intercept": False, "hint_bits": bits}
        needed = rl.plan(
            n_features=POPULATIONS[name][0],
            margin=MARGIN,
            fit_intercept=False,
            hint_bits=bits,
            estimate="rows",
        ).n_samples
        return needed, lambda seed, hint: rl.ReplicableSVMClassifier(
            **common, estimate="rows", shared_seed=seed, hint=hint
        )
    X, y = draw(name, 1000, [4])
    settings = {"samples_per_site": n_rows, "hint_bits": bits}
    if (
        line == "svm"
    ):  # it aims at 60 % of the disagreement that is asked for, logistic ones at 80 %
        plan = rl.plan_from_pilot(
            X, y, algorithm="svm", fit_intercept=False, max_disagreement=0.15, **settings
        )
    elif line == "updating":
        plan = rl.plan_from_pilot(X, y, max_disagreement=0.12, **settings)
    else:
        plan = rl.plan_from_pilot(
            X, classes=(-1, 1), share=0.5, max_disagreement=0.12, study="discovery", **settings
        )

    def make(seed, hint):
        known = {} if hint is None else {"hint": hint}
        return plan.protocol.estimator(**known).set_params(shared_seed=str(seed))

    return n_rows, make


def measure(path, name, line, bits, n_rows, n_pairs, seconds):
    """Pairs that are not in the file yet, until time is over."""
    started = time.perf_counter()
    n_rows, make = estimator_of(name, line, bits, n_rows)
    done = {
        r["pair"]
        for r in read(path)
        if (r["population"], r["line"], r["bits"], r["rows"]) == (name, line, bits, n_rows)
    }
    X_test, y_test = draw(name, N_TEST, [3])
    dtype = np.float64 if n_rows * POPULATIONS[name][0] < 5e8 else np.float32
    for pair in range(n_pairs):
        if pair in done or time.perf_counter() - started > seconds:
            continue
        hint, prints, errors, estimates = None, [], [], []
        for lab in (0, 1):
            X, y = draw(name, n_rows, [2, pair, lab], dtype)
            model = make(pair, hint).fit(X, y)
            hint = model.hint_ if bits else None
            prints.append(model.fingerprint_)
            errors.append(float(1 - model.score(X_test, y_test)))
            estimates.append(model.certificate_.estimated_disagreement)
        result = {
            "population": name,
            "line": line,
            "bits": bits,
            "rows": n_rows,
            "pair": pair,
            "differ": prints[0] != prints[1],
            "errors": errors,
            "estimates": estimates,
        }
        with path.open("a") as file:
            file.write(json.dumps(result) + "\n")


def read(path):
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def summary(path):
    groups = defaultdict(list)
    for r in read(path):
        groups[r["population"], r["line"], r["bits"], r["rows"]].append(r)
    print("population  line       bits       rows  fewer  pairs  disagreement            error")
    for (name, line, bits, rows), found in sorted(groups.items()):
        differ, n = sum(r["differ"] for r in found), len(found)
        low, high = binomtest(differ, n).proportion_ci(0.95)
        error = np.mean([e for r in found for e in r["errors"]])
        print(
            f"{name:11} {line:10} {bits:4} {rows:10,} {PAPER[name] / rows:6,.0f} {n:6}  "
            f"{differ / n:.3f} [{low:.3f}, {high:.3f}]    {error:.4f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", nargs="+", default=list(POPULATIONS), choices=list(POPULATIONS))
    parser.add_argument("--line", choices=["promise", "svm", "updating", "discovery"])
    parser.add_argument("--bits", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=int, help="rows per lab, for the lines of a pilot")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=800.0, help="of each line, at most")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.line is None:
        summary(arguments.results)
        return
    for name in arguments.only:
        for bits in arguments.bits:
            measure(
                arguments.results,
                name,
                arguments.line,
                bits,
                arguments.rows,
                arguments.pairs,
                arguments.seconds,
            )


if __name__ == "__main__":
    main()
