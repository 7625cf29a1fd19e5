"""Measure what a seed, rounded coefficients and differential privacy do for two labs.

Two labs draw different samples of one population and share a seed. How often do they end up with
exactly the same coefficients? Prints the table of docs/why-not.md:

    python benchmarks/why_not.py

The row of diffprivlib is left out where it cannot be imported; ``--only diffprivlib`` prints
that row alone, for an environment with an older scikit-learn.
"""

import argparse
import math
import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import binomtest

N_ROWS, MARGINS = 20_000, (0.1, 0.4)

#: Unit normals. At the lucky one every coordinate is in the middle of a rounding cell, at one
#: decimal and at two; at the unlucky ones every coordinate is on a wall between two cells.
LUCKY = np.array([0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.2, 0.0])
UNLUCKY = {
    1: np.array([0.45, 0.25, 0.35, 0.35, 0.35, 0.35, 0.35, 0.35]),
    2: np.array([0.375, 0.365, 0.355, 0.355, 0.355, 0.345, 0.345, 0.330]),
}
UNLUCKY[2][-1] = math.sqrt(1 - (UNLUCKY[2][:-1] ** 2).sum())  # seven of eight on a wall

Fit = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def draw(normal: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length 1 with margins between .1 and .4 to the plane across ``normal``."""
    labels = rng.choice(np.array([-1, 1]), size=n)
    heights = rng.uniform(*MARGINS, size=n)
    side = rng.standard_normal((n, normal.size))
    side -= np.outer(side @ normal, normal)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    return side * np.sqrt(1 - heights**2)[:, None] + np.outer(labels * heights, normal), labels


# --- methods: rows, labels and a shared seed to a unit normal ------------------------------------


def linear_svc(X, y, seed):
    from sklearn.svm import LinearSVC

    return unit(LinearSVC(fit_intercept=False, random_state=seed).fit(X, y).coef_[0])


def logistic(X, y, seed):
    from sklearn.linear_model import LogisticRegression

    return unit(LogisticRegression(fit_intercept=False, random_state=seed).fit(X, y).coef_[0])


def sgd(X, y, seed):
    from sklearn.linear_model import SGDClassifier

    return unit(SGDClassifier(fit_intercept=False, random_state=seed).fit(X, y).coef_[0])


def rounded(decimals: int) -> Fit:
    def fit(X, y, seed):
        return np.round(linear_svc(X, y, seed), decimals) + 0.0  # -0 is 0

    return fit


def output_perturbation(X, y, seed, epsilon=1.0, weight=1e-3):
    """Logistic regression plus noise of length Gamma(d, 2 / (n weight epsilon)) [CMS11]."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (len(y) * weight), fit_intercept=False, tol=1e-8)
    coefficients = model.fit(X, y).coef_[0]
    rng = np.random.default_rng(seed)  # the shared seed: both labs add the same noise
    noise = unit(rng.standard_normal(coefficients.size))
    return coefficients + noise * rng.gamma(noise.size, 2 / (len(y) * weight * epsilon))


def diffprivlib(X, y, seed):
    from diffprivlib.models import LogisticRegression

    model = LogisticRegression(epsilon=1.0, data_norm=1.0, fit_intercept=False, random_state=seed)
    return model.fit(X, y).coef_[0]


def ours(max_error: float) -> Fit:
    def fit(X, y, seed):
        from replearn import ReplicableSVMClassifier

        parameters = {"margin": 0.1, "max_error": max_error, "fit_intercept": False}
        return ReplicableSVMClassifier(**parameters, shared_seed=seed).fit(X, y).coef_[0]

    return fit


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


#: Name, method, and which unlucky target it meets.
METHODS: list[tuple[str, Fit, int]] = [
    ("LinearSVC, shared seed", linear_svc, 1),
    ("LogisticRegression, shared seed", logistic, 1),
    ("SGDClassifier, shared seed", sgd, 1),
    ("LinearSVC, np.round to 1 decimal", rounded(1), 1),
    ("LinearSVC, np.round to 2 decimals", rounded(2), 2),
    ("private logistic regression, epsilon 1, shared seed", output_perturbation, 1),
    ("diffprivlib LogisticRegression, epsilon 1, shared seed", diffprivlib, 1),
    ("**replearn**, max_error .05, 1 decimal's unlucky target", ours(0.05), 1),
    ("**replearn**, max_error .05, 2 decimals' unlucky target", ours(0.05), 2),
    ("**replearn**, max_error .01, 1 decimal's unlucky target", ours(0.01), 1),
]


def measure(fit: Fit, normal: np.ndarray, n_pairs: int) -> tuple[int, float]:
    """Pairs of labs with exactly the same coefficients, and the mean test error."""
    X_test, y_test = draw(normal, 20_000, np.random.default_rng(0))
    same, errors = 0, []
    for pair in range(n_pairs):
        labs = [
            fit(*draw(normal, N_ROWS, np.random.default_rng([1, pair, lab])), pair)
            for lab in (0, 1)
        ]
        same += labs[0].tobytes() == labs[1].tobytes()
        errors.append(np.mean((X_test @ labs[0] > 0) != (y_test > 0)))
    return same, float(np.mean(errors))


def cell(same: int, n_pairs: int) -> str:
    low, high = binomtest(same, n_pairs).proportion_ci(0.95, method="exact")
    return f"{same} of {n_pairs} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--only", metavar="TEXT", default="", help="methods with this in the name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{N_ROWS:,} rows at each lab, 8 features, {options.pairs} pairs of labs\n")
    print("| method | same model, lucky target | same model, unlucky target | test error |")
    print("|---|---|---|---|")
    for name, fit, target in METHODS:
        if options.only not in name:
            continue
        try:
            lucky, _ = measure(fit, LUCKY, options.pairs)
            unlucky, error = measure(fit, UNLUCKY[target], options.pairs)
        except ImportError:
            continue
        print(
            f"| {name} | {cell(lucky, options.pairs)} | {cell(unlucky, options.pairs)} "
            f"| {error:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
