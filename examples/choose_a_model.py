"""Twelve finished models, two labs: the same pick, and what it costs.

    python examples/choose_a_model.py DATA [--quick]

A vendor has twelve models (logistic, SVMs, forests, boosted trees, neighbours), fitted on 3,000
rows that no lab has. Two labs ask which one to use, each on its own rows. The best score answers
differently at each lab, because good models differ by less than the noise of a score. With noise
that both labs share, planned from a pilot of 1,000 rows, they pick the same model nine times in
ten, and then publish one accuracy for it. On census incomes (adult.csv.gz) and on forests
(covtype.npz).
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

N_TRAIN, N_PILOT, MOST_ROWS = 3000, 1000, 60_000


def incomes(folder):
    table = pd.read_csv(folder / "adult.csv.gz")
    return table.drop(columns=["income", "fnlwgt"]), table["income"].to_numpy()


def forests(folder):
    arrays = np.load(folder / "covtype.npz")
    table = pd.DataFrame(arrays["X"].astype(float), columns=arrays["feature_names"])
    kinds = np.where(arrays["cover_type"] == 2, "lodgepole pine", "another tree")
    return table.assign(area=arrays["area"].astype(str)), kinds


def vendor(X, y, trees):
    """Finished models, by name."""
    numbers = [column for column in X if pd.api.types.is_numeric_dtype(X[column])]
    encoder = make_column_transformer(
        (StandardScaler(), numbers),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            [column for column in X if column not in numbers],
        ),
    )
    settings = {"n_estimators": trees, "random_state": 0}
    boosted = {"max_iter": trees, "random_state": 0}
    models = {
        "logistic, C .02": LogisticRegression(C=0.02, max_iter=300),
        "logistic, C 1": LogisticRegression(max_iter=300),
        "svm, C 1": SVC(),
        "svm, C 10": SVC(C=10),
        "forest": RandomForestClassifier(**settings),
        "forest, leaves of 5": RandomForestClassifier(min_samples_leaf=5, **settings),
        "extra trees": ExtraTreesClassifier(**settings),
        "boosted": HistGradientBoostingClassifier(**boosted),
        "boosted slowly": HistGradientBoostingClassifier(learning_rate=0.05, **boosted),
        "boosted, small trees": GradientBoostingClassifier(max_depth=2, **settings),
        "neighbours, 5": KNeighborsClassifier(5),
        "neighbours, 25": KNeighborsClassifier(25),
    }
    return {name: make_pipeline(encoder, model).fit(X, y) for name, model in models.items()}


def study(title, X, y, quick):
    n_train, most = (600, 6000) if quick else (N_TRAIN, MOST_ROWS)
    order = np.random.default_rng(0).permutation(len(y))[: n_train + N_PILOT + most]
    train, pilot, rest = np.split(order, [n_train, n_train + N_PILOT])
    models = vendor(X.iloc[train], y[train], trees=20 if quick else 100)
    n = len(rest) // 2
    # every model says its labels once; a column of labels is a candidate like any other
    said = pd.DataFrame({name: model.predict(X.iloc[order]) for name, model in models.items()})
    said.index = order
    right = (said.loc[pilot].to_numpy() == y[pilot, None]).astype(float)
    plan = rl.plan_choice(row_scores=right, samples_per_site=n)
    truth = (said.loc[rest].to_numpy() == y[rest, None]).mean(axis=0)
    print(f"\n{title}: {len(models)} models, two labs with {n:,} rows each")
    print(
        f"planned from {N_PILOT:,} rows: noise {plan.noise_scale}, to give up {plan.given_up:.4f}"
    )

    pairs = 5 if quick else 40
    best, ours, lost, first = 0, 0, [], None
    for pair in range(pairs):
        rows = np.random.default_rng(100 + pair).permutation(rest)
        labs = rows[:n], rows[n : 2 * n]
        chosen = [
            rl.ReplicableChoiceClassifier(
                list(models),
                noise_scale=float(plan.noise_scale),
                samples_per_site=n,
                shared_seed=f"study {pair}",
            ).fit(said.loc[lab], y[lab])
            for lab in labs
        ]
        best += chosen[0].scores_.argmax() == chosen[1].scores_.argmax()
        ours += chosen[0].fingerprint_ == chosen[1].fingerprint_
        lost += [truth.max() - truth[one.choice_.index] for one in chosen]
        first = (labs, chosen) if first is None else first
    show_one_study(models, said, y, *first)
    for words, count in (("by the best score", best), ("with shared noise", ours)):
        low, high = binomtest(int(count), pairs).proportion_ci(0.95)
        print(f"  same pick {words}: {count} of {pairs} [{low:.2f}, {high:.2f}]")
    print(f"  accuracy given up: {np.median(lost):.4f} (median), {np.mean(lost):.4f} (mean)")


def show_one_study(models, said, y, labs, chosen):
    print("one study: accuracy at the two labs")
    for place, name in enumerate(models):
        marks = "".join(
            f"{one.scores_[place]:9.4f}{'*' if one.choice_.index == place else ' '}"
            for one in chosen
        )
        print(f"  {name:22}{marks}")
    print(f"  (* chosen)  {chosen[0].certificate_}")
    ledger = rl.StudyLedger(0.2)
    ledger.spend("choice of the model", 0.1)
    for lab, one in zip(labs, chosen, strict=True):
        number = rl.replicable_score(
            one.choice_.name,
            said.loc[lab],
            y[lab],
            samples_per_site=len(lab),
            spread=0.4,
            max_disagreement=0.1,
            shared_seed="study 0",
            ledger=ledger if one is chosen[0] else None,
        )
        print(f"  published: {one.choice_.name!r}, {number}")
    print(ledger)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--quick", action="store_true", help="small models, few repetitions")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", rl.ReplicabilityWarning)
    started = time.perf_counter()
    study("Incomes above 50,000", *incomes(options.data), options.quick)
    study("Lodgepole pine", *forests(options.data), options.quick)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
