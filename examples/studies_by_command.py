r"""Two whole studies on the command line, with everything that it prints.

    python examples/studies_by_command.py DATA
    python examples/studies_by_command.py DATA heart

`flights`: three airports, a hundred thousand flights each. A pilot plans a logistic study with four
hint bits; EWR is the first site; then the models are compared and evaluated. The same with three
labs that draw from all flights at random: the promise is about them, not about airports.

`heart`: 85 to 200 patients at each hospital, far too few for a new model. What they can do is to
recalibrate a published score, here one that Cleveland made of its own patients: two numbers, an
intercept and a slope. The script writes that score, as a table of columns and weights.

The files of the study go to a folder of their own (`--folder`, by default a temporary one), from
which the commands can be typed again.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import real_data
from sklearn.linear_model import LogisticRegression

#: Columns of the heart file that all hospitals measure.
SCORED = ["age", "sex", "thalach", "exang", "oldpeak"]


def run(folder, *words):
    """Type a command in the folder, and show what it says; its exit code."""
    print(f"\n$ replearn {shlex.join(words)}", flush=True)
    command = [sys.executable, "-m", "replearn", *words]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout.decode().rstrip())
    print(f"(exit code {done.returncode})", flush=True)
    return done.returncode


def write(folder, target, X, y, samples):
    """One CSV file for each sample."""
    for name, rows in samples.items():
        X.iloc[rows].assign(**{target: y[rows]}).to_csv(folder / f"{name}.csv", index=False)
    print(", ".join(f"{name}.csv: {len(rows):,} rows" for name, rows in samples.items()))


def fit_all(folder, sites):
    """The first site leads, the others take its hint; then all models side by side."""
    study = ("--protocol", "study.json")
    first, *others = sites
    run(folder, "fit", f"{first}.csv", *study, "--lead", "--out", f"{first}.model.json")
    for site in others:
        hint = ("--hint", f"{first}.hint.json")
        run(folder, "fit", f"{site}.csv", *study, *hint, "--out", f"{site}.model.json")
    run(folder, "compare", *(f"{site}.model.json" for site in sites), "--rows", "new.csv")
    run(folder, "evaluate", f"{first}.model.json", "new.csv")


def flights(data, folder):
    X, y, origin = real_data.flights(data)
    order = real_data.shuffled(np.arange(len(y)), 0)
    pilot, new, rest = order[:2000], order[2000:7000], order[7000:]
    airports = {name: rest[origin[rest] == name] for name in ("EWR", "JFK", "LGA")}
    labs = dict(zip(("A", "B", "C"), np.array_split(rest, 3), strict=True))
    write(folder, "arrival", X, y, {"pilot": pilot, "new": new, **airports, **labs})
    run(
        folder, "plan", "--pilot", "pilot.csv", "--target", "arrival", "--hint-bits", "4",
        "--samples-per-site", "100000", "--seed", "flights 2013", "--out", "study.json",
    )  # fmt: skip
    fit_all(folder, airports)
    print("\nthe same flights, dealt out at random")
    fit_all(folder, labs)


def heart(data, folder):
    X, y, site = real_data.heart(data)
    known = X[SCORED].notna().all(axis=1).to_numpy()
    X, y, site = X.loc[known, SCORED], y[known], site[known]
    cleveland = np.flatnonzero(site == "cleveland")
    score = LogisticRegression(C=1e6, max_iter=10_000).fit(X.iloc[cleveland], y[cleveland])
    signs = 1 if score.classes_[1] == "healthy" else -1
    weights = [f"{name},{signs * w:.3g}" for name, w in zip(SCORED, score.coef_[0], strict=True)]
    (folder / "score.csv").write_text("\n".join(["column,weight", *weights]) + "\n")
    print("score.csv:", "; ".join(weights))
    others = real_data.shuffled(np.flatnonzero(site != "cleveland"), 0)
    pilot, new, rest = others[:150], others[150:250], others[250:]
    labs = dict(zip(("A", "B"), np.array_split(rest, 2), strict=True))
    hospitals = {name: rest[site[rest] == name] for name in ("hungarian", "va")}
    write(folder, "heart", X, y, {"pilot": pilot, "new": new, **hospitals, **labs})
    plan = ("plan", "--pilot", "pilot.csv", "--target", "heart", "--samples-per-site", "150")
    run(folder, *plan, "--seed", "heart", "--out", "free.json")
    run(
        folder, *plan, "--scores", "score.csv", "--hint-bits", "4", "--seed", "heart", "--out",
        "study.json",
    )  # fmt: skip
    fit_all(folder, hospitals)
    print("\nthe same patients, dealt out at random")
    fit_all(folder, labs)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="folder with the data sets")
    parser.add_argument("study", nargs="?", choices=("flights", "heart"), help="default both")
    parser.add_argument("--folder", type=Path, help="where the files of the study go")
    options = parser.parse_args()
    studies = {"flights": flights, "heart": heart}
    with tempfile.TemporaryDirectory() as temporary:
        for name in studies if options.study is None else [options.study]:
            folder = (options.folder or Path(temporary)) / name
            folder.mkdir(parents=True, exist_ok=True)
            print(f"\n# {name}\n")
            studies[name](options.data.resolve(), folder)


if __name__ == "__main__":
    main()
