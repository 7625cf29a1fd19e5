"""Two labs, one grid search each, the same pick.

    python examples/replicable_grid_search.py

Cross-validated scores of near-tied models differ by less than their noise, so the best model of one
sample is rarely the best of another. A replicable choice gives up a little accuracy, stated in
advance, and picks the same model at both labs.
"""

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import replearn as rl

N_STUDIES = 12
N_SEEDS = 50
TEMPERATURE = 0.02  # a model that is worse by this has e times less weight


def grid_search(X, y):
    """Mean cross-validated accuracy of each model of the grid."""
    model = make_pipeline(StandardScaler(), RidgeClassifier())
    grid = {"ridgeclassifier__alpha": np.geomspace(0.01, 1000, 16)}
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(model, grid, cv=folds).fit(X, y)
    return search.cv_results_["mean_test_score"]


def two_labs(X, y, study):
    """Halves of the data set, as two labs of one study would have them."""
    order = np.random.default_rng(study).permutation(y.size)
    halves = order[: y.size // 2], order[y.size // 2 :]
    return [grid_search(X[half], y[half]) for half in halves]


RULES = {
    "best score": lambda scores, seed: int(np.argmax(scores)),
    "correlated choice": lambda scores, seed: rl.correlated_choice(scores / TEMPERATURE, seed),
    "first below": lambda scores, seed: rl.first_below(
        1 - scores, seed, low=0.01, high=0.05, cell=0.01
    ),
}


def main():
    warnings.simplefilter("ignore")
    X, y = load_breast_cancer(return_X_y=True)
    studies = [two_labs(X, y, study) for study in range(N_STUDIES)]

    here, there = studies[0]
    print("one study: accuracies of 16 models at two labs, and the picks with seed 2024")
    print("  lab A", np.round(here, 3).tolist())
    print("  lab B", np.round(there, 3).tolist())
    for name, pick in RULES.items():
        print(
            f"  {name:18s} lab A: model {pick(here, 2024):2d}   lab B: model {pick(there, 2024):2d}"
        )

    print(f"\n{N_STUDIES} studies of one data set, {N_SEEDS} seeds each")
    print("rule               same pick   accuracy given up, mean")
    for name, pick in RULES.items():
        same, lost = [], []
        for seed in range(N_SEEDS):
            for labs in studies:
                picks = [pick(scores, seed) for scores in labs]
                same.append(picks[0] == picks[1])
                lost.append(np.mean([s.max() - s[p] for s, p in zip(labs, picks, strict=True)]))
        print(f"{name:18s} {np.mean(same):8.0%} {np.mean(lost):14.4f}")


if __name__ == "__main__":
    main()
