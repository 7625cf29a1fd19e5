"""All recipes that a pilot can plan, on the same tasks: rounding against nets.

python benchmarks/recipes.py DATA [--pairs N] [--tasks NAME ...] [--raw FILE]

DATA is the folder with the data sets (examples/README.md). A pilot of 1,000 rows plans a study with
each recipe for a disagreement of .1; pairs of labs, each with half of the other rows less the test
rows, fit under fresh seeds. Accuracy and balanced accuracy are those of the first lab, on new rows.
"""

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import replearn as rl

N_PILOT = 1000
RECIPES = ("logistic", "svm", "sgd", "net")


def last_column(name):
    def read(folder):
        table = pd.read_csv(folder / name).select_dtypes("number")
        return table.iloc[:, :-1].to_numpy(float), table.iloc[:, -1].to_numpy()

    return read


def skin(folder):
    arrays = np.load(folder / "skin.npz")
    return arrays["X"].astype(float), arrays["y"]


def covtype(folder):
    arrays = np.load(folder / "covtype.npz")
    areas = np.eye(4)[arrays["area"]]
    return np.hstack([arrays["X"].astype(float), areas]), (arrays["cover_type"] == 2).astype(int)


def mnist(folder):
    arrays = np.load(folder / "mnist70k.npz")
    kept = np.isin(arrays["label"], (4, 9))
    pixels = arrays["X"][kept].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return pixels, (arrays["label"][kept] == 9).astype(int)


TASKS = {
    "htru2": last_column("htru2.csv.gz"),
    "occupancy": last_column("occupancy.csv.gz"),
    "skin": skin,
    "mnist 4 v 9": mnist,
    "covtype 2 v rest": covtype,
}


def measure(name, folder, n_pairs, raw):
    X, y = TASKS[name](folder)
    order = np.random.default_rng(0).permutation(len(y))
    n_test = len(y) // 5
    pilot, test, rest = np.split(order, [N_PILOT, N_PILOT + n_test])
    n = len(rest) // 2
    full = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    full.fit(X[rest[: min(n, 50_000)]], y[rest[: min(n, 50_000)]])
    note(
        raw,
        task=name,
        recipe="LogisticRegression, not replicable",
        rows=n,
        **worth(full, X, y, test),
    )
    for recipe in RECIPES:
        try:
            plan = rl.plan_from_pilot(X[pilot], y[pilot], samples_per_site=n, algorithm=recipe)
        except rl.ReplearnError as problem:
            note(raw, task=name, recipe=recipe, rows=n, refused=str(problem))
            continue
        differ, found, spent = 0, [], 0.0
        for pair in range(n_pairs):
            labs = np.array_split(np.random.default_rng(pair).permutation(rest), 2)
            protocol = replace(plan.protocol, seed=str(pair))
            start = time.process_time()
            one, other = (protocol.estimator().fit(X[lab], y[lab]) for lab in labs)
            spent += (time.process_time() - start) / 2
            differ += one.fingerprint_ != other.fingerprint_
            found.append(worth(one, X, y, test))
        means = {key: float(np.mean([row[key] for row in found])) for key in found[0]}
        least = float(np.min([row["balanced"] for row in found]))
        note(
            raw, task=name, recipe=recipe, rows=n, **means, least_balanced=least,
            differ=int(differ), pairs=n_pairs, seconds=spent / n_pairs,
            directions=plan.protocol.parameters.get("n_components"),
        )  # fmt: skip


def worth(fitted, X, y, test):
    predicted = fitted.predict(X[test])
    return {
        "accuracy": float((predicted == y[test]).mean()),
        "balanced": float(balanced_accuracy_score(y[test], predicted)),
    }


def note(raw, **facts):
    """Print the facts of one measurement, and append them to a file."""
    if raw is not None:
        with raw.open("a") as file:
            file.write(json.dumps(facts) + "\n")
    shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in facts.items()}
    print(" ".join(f"{name}={value}" for name, value in shown.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--raw", type=Path, help="append every figure to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.tasks:
        measure(name, options.data, options.pairs, options.raw)


if __name__ == "__main__":
    main()
