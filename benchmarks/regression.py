"""What linear regressions are worth on real tables, and how often two labs agree.

    python benchmarks/regression.py DATA [--pairs 20] [--only TASK]

DATA is a folder with ``nycflights13.csv.gz``, ``diabetes130.csv.gz`` and ``covtype.npz``; what is
not there is left out. ``load_diabetes`` of scikit-learn needs none. Each pair has another
split (pilot, two labs with half of the rest each, up to 50,000 rows, and test rows) and another
seed. R2 on the test rows: of the pilot's cross-validated ridge regression, of the first lab's
regression under the protocol, and of scikit-learn's LinearRegression on the first lab's rows.
"""

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics import r2_score

import replearn as rl


def tasks(folder: Path) -> dict[str, tuple[pd.DataFrame, np.ndarray, int]]:
    """Rows, numbers and rows of a pilot of each task."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    found: dict[str, Any] = {"diabetes (442 rows)": (X, y.to_numpy(), 120)}
    if (folder / "nycflights13.csv.gz").exists():
        flights = pd.read_csv(folder / "nycflights13.csv.gz").dropna()
        names = ["dep_delay", "distance", "air_time", "hour", "month"]
        names = [name for name in names if name in flights]
        found["flights: delay at arrival"] = (
            flights[names].astype(float), flights.arr_delay.to_numpy(float), 1000,
        )  # fmt: skip
    if (folder / "diabetes130.csv.gz").exists():
        stays = pd.read_csv(folder / "diabetes130.csv.gz", low_memory=False)
        names = ["num_lab_procedures", "num_procedures", "num_medications", "number_diagnoses",
                 "number_inpatient", "number_outpatient", "number_emergency"]  # fmt: skip
        found["hospital: days of a stay"] = (
            stays[names].astype(float), stays.time_in_hospital.to_numpy(float), 1000,
        )  # fmt: skip
    if (folder / "covtype.npz").exists():
        with np.load(folder / "covtype.npz") as forest:
            rows = pd.DataFrame(forest["X"].astype(float), columns=forest["feature_names"])
            kinds = pd.get_dummies(pd.Series(forest["cover_type"]), prefix="type").astype(float)
        elevation = rows.pop(rows.columns[0]).to_numpy()
        found["forest: elevation"] = (pd.concat([rows, kinds], axis=1), elevation, 1000)
    return found


def measured(X: pd.DataFrame, y: np.ndarray, n_pilot: int, bits: int, n_pairs: int) -> list[Any]:
    """Rows per lab, coded numbers, R2 of pilot, ours and LinearRegression, pairs that differ."""
    n_differ, found = 0, []
    for pair in range(n_pairs):
        order = np.random.default_rng(pair).permutation(len(y))
        n_test = len(y) // 5
        n_lab = min(50_000, (len(y) - n_pilot - n_test) // 2)
        pilot, test, one, two = np.split(
            order[: n_pilot + n_test + 2 * n_lab],
            np.cumsum([n_pilot, n_test, n_lab]),
        )
        plan = rl.plan_regression(
            X.iloc[pilot], y[pilot], samples_per_site=n_lab, hint_bits=bits, numeric=list(X)
        )
        protocol = replace(plan.protocol, seed=str(pair))
        first = protocol.estimator().fit(X.iloc[one], y[one])
        hint = {"hint": first.hint_} if bits else {}
        second = protocol.estimator(**hint).fit(X.iloc[two], y[two])
        n_differ += first.fingerprint_ != second.fingerprint_
        rows, numbers = X.iloc[test], y[test]
        ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(X.iloc[pilot], y[pilot])
        full = LinearRegression().fit(X.iloc[one], y[one])
        scores = [r2_score(numbers, m.predict(rows)) for m in (ridge, first, full)]
        found.append([*scores, plan.n_codes, first.certificate_.disagreement_bound])
    pilot_r2, ours, full_r2, n_codes, bound = np.median(found, axis=0)
    worst = min(row[1] for row in found)
    return [n_lab, int(n_codes), pilot_r2, ours, worst, full_r2, n_differ, bound]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--only", default="", help="tasks whose names begin so")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ["rows per lab", "bits", "numbers", "pilot's model", "ours (worst)"]
    print(f"| task | {' | '.join(columns)} | LinearRegression | differ | proved |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, (X, y, n_pilot) in tasks(options.data).items():
        if not name.startswith(options.only):
            continue
        for bits in (0, 4):
            n_lab, q, pilot, ours, worst, full, n_differ, bound = measured(
                X, y, n_pilot, bits, options.pairs
            )
            print(
                f"| {name} | {n_lab:,} | {bits} | {q} | {pilot:.3f} | {ours:.3f} ({worst:.3f}) | "
                f"{full:.3f} | {n_differ} of {options.pairs} | {bound:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
