"""Real data, two labs: everything is chosen from a pilot of 1,000 rows, then half of the rest each.

    python benchmarks/real_data.py DATA [--splits 30] [--seeds 4] [--tasks skin,covtype,mnist]

DATA is a folder with skin.npz, covtype.npz and mnist70k.npz. Prints, for each task, the accuracy
of scikit-learn's LinearSVC and of ours on rows that neither lab has seen, the disagreement that
the pilot predicted and the one that was measured, over new splits and new seeds. A fixed data
set answers for its own two halves only: the splits of one set are not independent.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import replearn as rl

N_PILOT = 1000
N_TEST = 2000


def skin(folder):
    z = np.load(folder / "skin.npz")
    return z["X"].astype(np.float64), z["y"]


def covtype(folder):
    """Types 1 and 3; the wilderness area and the soil as indicator columns."""
    z = np.load(folder / "covtype.npz")
    rows = np.isin(z["cover_type"], (1, 3))
    indicators = [
        (z[name][rows][:, None] == np.unique(z[name][rows])).astype(np.float64)
        for name in ("area", "soil")
    ]
    X = np.hstack([z["X"][rows].astype(np.float64), *indicators])
    return X, np.where(z["cover_type"][rows] == 1, 1, -1)


def mnist(folder):
    z = np.load(folder / "mnist70k.npz")
    rows = z["label"] <= 1
    return z["X"][rows].astype(np.float64), z["label"][rows].astype(int)


TASKS = {"skin": skin, "covtype": covtype, "mnist": mnist}
TARGETS = {"skin": 0.1, "covtype": 0.1, "mnist": 0.15}


def measure(name, folder, first, n_splits, n_seeds):
    X, y = TASKS[name](folder)
    order = np.random.default_rng(0).permutation(len(y))
    pilot, rest = order[:N_PILOT], order[N_PILOT:]
    n_lab = (len(rest) - N_TEST) // 2
    started = time.perf_counter()
    plan = rl.plan_from_pilot(
        X[pilot], y[pilot], algorithm="svm", samples_per_site=n_lab, max_disagreement=TARGETS[name]
    )
    pilot_seconds = time.perf_counter() - started
    differ, ours, theirs, estimates = 0, [], [], []
    for split in range(first, first + n_splits):
        rows = np.random.default_rng(1000 + split).permutation(rest)
        labs, test = (rows[:n_lab], rows[n_lab : 2 * n_lab]), rows[2 * n_lab :]
        if split < first + 3:
            svc = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
            theirs.append(svc.fit(X[labs[0]], y[labs[0]]).score(X[test], y[test]))
        for seed in range(n_seeds):
            fitted = [
                plan.protocol.estimator(n_jobs=2)
                .set_params(shared_seed=f"split {split} seed {seed}")
                .fit(X[lab], y[lab])
                for lab in labs
            ]
            differ += fitted[0].fingerprint_ != fitted[1].fingerprint_
            ours += [model.score(X[test], y[test]) for model in fitted]
            estimates += [model.certificate_.estimated_disagreement for model in fitted]
    pairs = n_splits * n_seeds
    low, high = binomtest(differ, pairs).proportion_ci(0.95)
    print(
        f"{name:8} {n_lab:>7,} rows/lab  {plan.chosen.projection:12} {plan.chosen.scaling:8} "
        f"lambda {plan.chosen.regularization:<5g} accuracy: LinearSVC {np.mean(theirs):.3f}, "
        f"ours {np.mean(ours):.3f} (predicted {plan.chosen.accuracy:.3f}); disagreement: "
        f"predicted {plan.chosen.disagreement:.3f}, measured {differ / pairs:.3f} "
        f"[{low:.3f}, {high:.3f}] over {pairs} pairs, certificates' mean {np.mean(estimates):.3f}; "
        f"pilot {pilot_seconds:.0f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--splits", type=int, default=30)
    # splits 0 to 29 were seen while the plan's safety factor and the targets were chosen
    parser.add_argument("--first", type=int, default=500, help="number of the first split")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tasks", default=",".join(TASKS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", rl.ReplicabilityWarning)
    for name in arguments.tasks.split(","):
        measure(name, arguments.data, arguments.first, arguments.splits, arguments.seeds)


if __name__ == "__main__":
    main()
