"""Real data, finished models, two labs: who picks the same one, what it costs, what is proved.

    python benchmarks/choice.py DATA [--rows 5000] [--pairs 40] [--tasks adult,skin] [--cache DIR]

DATA is the folder with the data sets. For each task: 12 to 36 models are fitted on 3,000 rows, the
noise is planned from a pilot of 1,000 others, and pairs of labs with ROWS rows each, disjoint and
new for each pair, choose under a seed of their own. Printed: how often the two labs pick the same
model, by the best score and by ours; the score that the choice gives up, on all rows, next to the
best model; what the certificates estimated and proved. Then, at equal disagreement, what the
rules (exponential noise, Gumbel noise, a random threshold) give up. The pairs of one set are not
independent: they share its rows.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import replearn as rl
from replearn.codes.randomness import SharedRandomness

N_TRAIN, N_PILOT, MOST_ROWS = 3000, 1000, 60_000
PLANNED = 0.1


# --- tasks --------------------------------------------------------------------------------------


def adult(folder):
    table = pd.read_csv(folder / "adult.csv.gz")
    return table.drop(columns=["income", "fnlwgt"]), (table["income"] == ">50K").to_numpy()


def forest(folder):
    arrays = np.load(folder / "covtype.npz")
    table = pd.DataFrame(arrays["X"].astype(float), columns=arrays["feature_names"])
    return table.assign(area=arrays["area"].astype(str)), arrays["cover_type"]


def spruce(folder):
    table, kinds = forest(folder)
    return table, kinds == 2


def flights(folder):
    table = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["dep_delay", "arr_delay"])
    columns = table[["dep_delay", "distance", "hour", "month", "carrier", "origin"]]
    return columns.reset_index(drop=True), (table["arr_delay"] >= 15).to_numpy()


def diabetes(folder):
    table = pd.read_csv(folder / "diabetes130.csv.gz", keep_default_na=False, low_memory=False)
    table = table.drop_duplicates("patient_nbr")
    numbers = ["time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"]
    numbers += ["number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses"]
    texts = ["age", "gender", "race", "insulin", "change", "A1Cresult"]
    columns = table[numbers].astype(float).assign(**{name: table[name] for name in texts})
    return columns.reset_index(drop=True), (table["readmitted"] != "NO").to_numpy()


def skin(folder):
    arrays = np.load(folder / "skin.npz")
    return pd.DataFrame(arrays["X"].astype(float), columns=list("bgr")), arrays["y"] > 0


def digits(folder):
    arrays = np.load(folder / "mnist70k.npz")
    blocks = arrays["X"].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return pd.DataFrame(blocks, columns=[f"p{i}" for i in range(196)]), arrays["label"] % 2 == 0


def pulsars(folder):
    table = pd.read_csv(folder / "htru2.csv.gz")
    return table.iloc[:, :-1], (table.iloc[:, -1] == 1).to_numpy()


def rooms(folder):
    table = pd.read_csv(folder / "occupancy.csv.gz")
    return table.drop(columns=["date", "Occupancy"]), (table["Occupancy"] == 1).to_numpy()


#: Loader, and whether every kind of model comes in three sizes.
TASKS = {
    "adult": (adult, True),
    "forest 2 v rest": (spruce, False),
    "forest, 7 kinds": (forest, False),
    "flights": (flights, True),
    "diabetes": (diabetes, False),
    "digits even v odd": (digits, False),
    "skin": (skin, True),
    "pulsars": (pulsars, True),
    "rooms": (rooms, False),
}


def candidates(many):
    """Twelve kinds of models, or three sizes of each."""
    for size in (1.0, 0.3, 3.0) if many else (1.0,):
        trees, word = int(100 * size), "" if size == 1 else f" x{size:g}"
        settings = {"n_estimators": trees, "random_state": 0}
        boosts = {"random_state": 0, "max_iter": trees}
        yield f"logistic .02{word}", LogisticRegression(C=0.02 * size, max_iter=300)
        yield f"logistic 1{word}", LogisticRegression(C=size, max_iter=300)
        yield f"svm 1{word}", SVC(C=size)
        yield f"svm 10{word}", SVC(C=10 * size)
        yield f"forest{word}", RandomForestClassifier(**settings)
        yield f"forest, leaves of 5{word}", RandomForestClassifier(min_samples_leaf=5, **settings)
        yield f"extra trees{word}", ExtraTreesClassifier(**settings)
        yield f"boosted{word}", HistGradientBoostingClassifier(**boosts)
        yield f"boosted slowly{word}", HistGradientBoostingClassifier(learning_rate=0.05, **boosts)
        yield f"boosted, small{word}", GradientBoostingClassifier(max_depth=2, **settings)
        yield f"neighbours 5{word}", KNeighborsClassifier(max(1, int(5 * size)))
        yield f"neighbours 25{word}", KNeighborsClassifier(max(1, int(25 * size)))


def right_or_wrong(name, folder, cache):
    """Which candidates are right on which rows: rows that none of them has seen."""
    place = None if cache is None else cache / f"choice {name}.npz"
    if place is not None and place.exists():
        return np.load(place)["right"]
    load, many = TASKS[name]
    X, y = load(folder)
    order = np.random.default_rng(0).permutation(len(y))[: N_TRAIN + MOST_ROWS]
    train, rest = order[:N_TRAIN], order[N_TRAIN:]
    numbers = [column for column in X if pd.api.types.is_numeric_dtype(X[column])]
    texts = [column for column in X if column not in numbers]
    encoder = make_column_transformer(
        (StandardScaler(), numbers),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
    )
    right = []
    for _, model in candidates(many):
        fitted = make_pipeline(encoder, model).fit(X.iloc[train], y[train])
        right.append(fitted.predict(X.iloc[rest]) == y[rest])
    right = np.column_stack(right)
    if place is not None:
        np.savez_compressed(place, right=right)
    return right


# --- choices ------------------------------------------------------------------------------------


def measure(name, right, n_rows, n_pairs):
    """Pairs of labs, as they would do it."""
    pilot, rest = right[:N_PILOT].astype(float), right[N_PILOT:]
    n = min(n_rows, len(rest) // 2)
    truth = rest.mean(axis=0)
    plan = rl.plan_choice(row_scores=pilot, samples_per_site=n, max_disagreement=PLANNED)
    columns = list(range(right.shape[1]))
    rng = np.random.default_rng(1)
    labs, best, ours, lost, lost_best, estimates, expected, bounds = [], 0, 0, [], [], [], [], []
    for pair in range(n_pairs):
        order = rng.permutation(len(rest))
        halves = rest[order[:n]], rest[order[n : 2 * n]]
        chosen = [
            rl.ReplicableChoiceClassifier(
                columns,
                classes=[False, True],
                noise_scale=float(plan.noise_scale),
                samples_per_site=n,
                shared_seed=f"pair {pair}",
            ).fit(half, np.ones(n, dtype=bool))  # a candidate says whether it is right
            for half in halves
        ]
        scores = [half.mean(axis=0) for half in halves]
        labs.append(scores)
        best += scores[0].argmax() == scores[1].argmax()
        ours += chosen[0].fingerprint_ == chosen[1].fingerprint_
        lost += [truth.max() - truth[one.choice_.index] for one in chosen]
        lost_best += [truth.max() - truth[one.argmax()] for one in scores]
        for one in chosen:
            estimates.append(one.certificate_.estimated_disagreement)
            expected.append(one.certificate_.expected_disagreement)
            bounds.append(one.certificate_.disagreement_bound)
    low, high = binomtest(n_pairs - ours, n_pairs).proportion_ci(0.95)
    inside = "yes" if low <= np.mean(estimates) <= high else "NO"
    print(
        f"| {name} | {right.shape[1]} | {n:,} | {plan.noise_scale} | {best / n_pairs:.2f} | "
        f"{ours / n_pairs:.2f} | {np.median(lost):.4f} | {np.mean(lost):.4f} | "
        f"{np.mean(lost_best):.4f} | {np.mean(estimates):.3f} {inside} | {np.mean(expected):.3f} | "
        f"{np.mean(bounds):.3f} | {np.mean(np.array(bounds) / np.array(expected)):.2f} |",
        flush=True,
    )
    return labs, truth


# --- rules --------------------------------------------------------------------------------------

N_SEEDS = 300


def draws(kind, n):
    shared = SharedRandomness("rules")
    fill = {"exponential": shared.exponentials, "gumbel": shared.gumbels}.get(kind, shared.uniforms)
    return np.array([fill(kind, n, row=seed) for seed in range(N_SEEDS)])


def threshold(scores, scale, coins, limits):
    """Within a random distance of the best; the first in a random order."""
    near = scores >= scores.max() - scale * limits
    return np.where(near, coins, 2.0).argmin(axis=1)


def rules(n):
    coins = {kind: draws(kind, n) for kind in ("exponential", "gumbel", "order")}
    limits = draws("limit", 1)
    return {
        "exponential": lambda s, scale: (s + scale * coins["exponential"]).argmax(axis=1),
        "Gumbel": lambda s, scale: (s + scale * coins["gumbel"]).argmax(axis=1),
        "threshold": lambda s, scale: threshold(s, scale, coins["order"], limits),
    }


def compare_rules(name, labs, truth):
    """At the scale at which these pairs disagree as often as planned, over many seeds."""
    words = []
    for pick in rules(truth.size).values():

        def disagreement(scale, pick=pick):
            return np.mean([(pick(a, scale) != pick(b, scale)).mean() for a, b in labs])

        low, high = 1e-5, 1.0
        for _ in range(25):  # the widest scale that is not enough
            middle = np.sqrt(low * high)
            low, high = (middle, high) if disagreement(middle) > PLANNED else (low, middle)
        lost = np.mean([(truth.max() - truth[pick(a, high)]).mean() for a, _ in labs])
        words.append(f"{lost:.4f} ({high:.3g})" if high > 1e-4 else "no noise needed")
    print(f"| {name} | " + " | ".join(words) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=5000, help="rows of each lab, at most")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--tasks", default=",".join(TASKS).replace(", ", "; "))
    parser.add_argument("--cache", type=Path, help="folder for what candidates said")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    print(
        "| task | models | rows per lab | noise | same pick: best score | same pick: ours | "
        "given up: median | mean | best score | estimate under the seed, in the interval? | "
        "over seeds | proved | proved / estimate |\n" + "|---" * 13 + "|"
    )
    names = [name.replace("; ", ", ") for name in arguments.tasks.split(",")]
    found = {}
    for name in names:
        right = right_or_wrong(name, arguments.data, arguments.cache)
        found[name] = measure(name, right, arguments.rows, arguments.pairs)
    print("\ngiven up at equal disagreement (scale)\n")
    print("| task | exponential | Gumbel | threshold |\n|---|---|---|---|")
    for name, (labs, truth) in found.items():
        compare_rules(name, labs, truth)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
