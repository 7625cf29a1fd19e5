"""How often labs agree on invented populations that are hard on purpose.

    OPENBLAS_NUM_THREADS=1 python benchmarks/hard.py [--pairs 300] [--only "rare columns"]

Each pair is an original, fitted with cells of one population (`between=0`: those of centres are
wider) and what its line says, and a replication of fresh rows. *differ* counts replications that
get a different model, or none; *refused* are originals that must not be published, *certificates*
their mean estimate. 1% is planned.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

import replearn as rl

LOGISTIC, LINEAR = rl.ReplicableLogisticClassifier, rl.ReplicableLinearRegressor
POISSON = rl.ReplicablePoissonRegressor
Rng = np.random.Generator
Draw = Callable[[Rng, int], tuple[Any, ...]]


def event(rng: Rng, score: Any) -> Any:
    """Classes with these log-odds."""
    return (rng.logistic(size=len(score)) < score).astype(int)


def plain(rng, n, n_columns=8, constant=-1.0):
    X = rng.normal(size=(n, n_columns))
    return X, event(rng, X[:, 0] - 0.5 * X[:, 1] + constant)


def lognormal(rng, n):
    X = np.exp(2.5 * rng.normal(size=(n, 6)))
    return X, event(rng, 0.3 * np.log(X[:, 0]) + 0.2 * np.log(X[:, 1]))


def cauchy(rng, n):
    X = rng.standard_cauchy(size=(n, 5))
    return X, event(rng, np.tanh(X[:, 0]))


def rare_columns(rng, n):
    X = np.hstack([rng.normal(size=(n, 4)), rng.random((n, 4)) < [0.01, 0.02, 0.03, 0.05]])
    return X, event(rng, X[:, 0] + 2 * X[:, 4] - 1.5 * X[:, 5] - 1)


def collinear(rng, n):
    X = np.hstack(
        [rng.normal(size=(n, 1)) + 0.02 * rng.normal(size=(n, 3)), rng.normal(size=(n, 3))]
    )
    return X, event(rng, X[:, 0])


def separable(rng, n):
    X = rng.normal(size=(n, 5))
    return X, event(rng, 10 * (3 * X[:, 0] + X[:, 1]))


def nearly_pure(rng, n):
    X, y = plain(rng, n, 4)
    column = rng.random(n) < 0.05
    return np.column_stack([X, column]), np.where(column & (rng.random(n) < 0.97), 1, y)


def levels(rng, n):
    wards = np.array([f"ward {i}" for i in range(30)])
    table = pd.DataFrame({"a": rng.normal(size=n)})
    table["ward"] = rng.choice(wards, n, p=np.arange(30, 0, -1) / 465)
    table["gaps"] = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n))
    return table, event(rng, table.a + (table.ward == "ward 3") - (table.ward == "ward 20"))


def gaps(rng, n):
    X = rng.normal(size=(n, 5))
    y = event(rng, X[:, 0] + X[:, 1])
    X[rng.random((n, 5)) < [0.3, 0.02, 0.015, 0.01, 0.5]] = np.nan
    return X, y


def mostly_zero(rng, n):
    shares = [0.5, 0.2, 0.1, 0.05, 0.03, 0.02, 0.015, 0.012]
    X = rng.exponential(size=(n, 8)) * (rng.random((n, 8)) < shares)
    return X, event(rng, X[:, 0] + X[:, 3] - X[:, 5])


def words(rng, n):
    X = rng.exponential(size=(n, 40)) * (rng.random((n, 40)) < 0.03)
    return sparse.csr_matrix(X), event(rng, 2 * X[:, :5].sum(axis=1) - 0.5)


def curved(rng, n):
    X = rng.uniform(-2, 2, size=(n, 4))
    return X, event(rng, X[:, 0] ** 2 + X[:, 1] * X[:, 2] - 1)


def rare_class(rng, n):
    X = rng.normal(size=(n, 4))
    scores = np.column_stack([0 * X[:, 0], X[:, 0], X[:, 1] - 1, X[:, 2] - 3])
    return X, (scores + rng.gumbel(size=(n, 4))).argmax(axis=1)


def ten_classes(rng, n):
    X, slopes = rng.normal(size=(n, 5)), np.random.default_rng(5).normal(size=(5, 10))
    return X, (X @ slopes + rng.gumbel(size=(n, 10))).argmax(axis=1)


def heavy_errors(rng, n):
    X = rng.normal(size=(n, 6))
    return X, X[:, 0] + rng.standard_t(2.2, size=n)


def unequal_errors(rng, n):
    X = rng.normal(size=(n, 5))
    return X, X[:, 0] + np.exp(X[:, 1]) * rng.normal(size=n)


def overdispersed(rng, n):
    X = rng.normal(size=(n, 5))
    return X, rng.poisson(np.exp(0.5 * X[:, 0]) * rng.gamma(0.5, 2, size=n))


def rare_counts(rng, n):
    X = rng.normal(size=(n, 3))
    return X, rng.poisson(np.exp(0.5 * X[:, 0] - 4))


def weighted(rng, n):
    return *plain(rng, n), {"sample_weight": np.exp(1.2 * rng.normal(size=n))}


def families(rng, n):
    shared, X = np.repeat(rng.normal(size=(n // 6, 2)), 6, axis=0), rng.normal(size=(n, 4))
    X[:, 1] = shared[:, 0]
    return X, event(rng, X[:, 0] + shared[:, 1]), {"groups": np.arange(n) // 6}


class Line(NamedTuple):
    """A population, rows of the original, options, and the kind of model."""

    draw: Draw
    n_rows: int
    options: dict[str, Any] = {}  # noqa: RUF012
    model: Any = LOGISTIC


LINES = {
    "plain": Line(plain, 1500),
    "labs of a quarter of the rows": Line(plain, 4000, {"replication_rows": 1000}),
    "120 rows": Line(plain, 120),
    "20 columns, 300 rows": Line(lambda rng, n: plain(rng, n, 20), 300),
    "60 columns, 600 rows": Line(lambda rng, n: plain(rng, n, 60), 600),
    "lognormal columns": Line(lognormal, 1500),
    "Cauchy columns": Line(cauchy, 1500),
    "rare columns": Line(rare_columns, 3000),
    "rare columns, labs of a quarter": Line(rare_columns, 8000, {"replication_rows": 2000}),
    "2% events": Line(lambda rng, n: plain(rng, n, 8, -4.3), 4000),
    "2% events, balanced": Line(
        lambda rng, n: plain(rng, n, 8, -4.3), 4000, {"class_weight": "balanced"}
    ),
    "2% events, labs of 200": Line(
        lambda rng, n: plain(rng, n, 3, -4.5), 4000, {"replication_rows": 200}
    ),
    "collinear": Line(collinear, 1500),
    "nearly separable": Line(separable, 1500),
    "nearly separable, labs of 300": Line(separable, 4000, {"replication_rows": 300}),
    "a nearly pure column": Line(nearly_pure, 2000),
    "30 levels": Line(levels, 3000),
    "missing values": Line(gaps, 2000),
    "mostly zero": Line(mostly_zero, 2000),
    "mostly zero, splines": Line(mostly_zero, 2000, {"basis": "splines"}),
    "sparse": Line(words, 1500),
    "splines and products": Line(curved, 3000, {"basis": "splines", "interactions": "all"}),
    "splines, 400 rows": Line(curved, 400, {"basis": "splines"}),
    "a rare class": Line(rare_class, 2000),
    "a rare class, labs of 300": Line(rare_class, 4000, {"replication_rows": 300}),
    "ten classes": Line(ten_classes, 1500),
    "errors with heavy tails": Line(heavy_errors, 1500, model=LINEAR),
    "errors of unequal variance": Line(unequal_errors, 1500, model=LINEAR),
    "overdispersed counts": Line(overdispersed, 2000, model=POISSON),
    "rare counts, labs of 300": Line(rare_counts, 6000, {"replication_rows": 300}, POISSON),
    "lognormal weights": Line(weighted, 2000),
    "families of six": Line(families, 3000),
    "one bit": Line(plain, 1500, {"sketch_bits": 1}),
}


def count(name: str, n_pairs: int) -> tuple[int, int, list[float], int]:
    """Replications that differ, originals that are refused, certificates, and coefficients."""
    line, n_differ, n_refused, certificates, n_numbers = LINES[name], 0, 0, [], 0
    for seed in range(n_pairs):
        rng = np.random.default_rng([11, seed])
        X, y, *roles = line.draw(rng, line.n_rows)
        original = line.model(shared_seed=seed, between=0, **line.options)
        first = original.fit(X, y, **(roles or [{}])[0])
        if first.study_.problems:
            n_refused += 1
            continue
        certificates.append(first.certificate_.expected)
        n_numbers = first.study_.design.n_numbers
        X, y, *roles = line.draw(rng, line.options.get("replication_rows", line.n_rows))
        try:
            second = line.model(study=first.study_).fit(X, y, **(roles or [{}])[0])
            n_differ += not second.replication_.same
        except rl.ReplearnError:  # a lab without a model
            n_differ += 1
    return n_differ, n_refused, certificates, n_numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--only", help="one line")
    parser.add_argument("--write", type=Path, help="folder for hard.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':<34}{'numbers':>8}{'differ':>14}{'refused':>9}{'certificates':>14}{'seconds':>9}")
    found = []
    for name in [options.only] if options.only else LINES:
        started = time.monotonic()
        n_differ, n_refused, certificates, n_numbers = count(name, options.pairs)
        mean = float(np.mean(certificates)) if certificates else np.nan
        found.append((name, n_numbers, n_differ, len(certificates), n_refused, mean))
        print(
            f"{name:<34}{n_numbers:>8}{f'{n_differ} of {len(certificates)}':>14}{n_refused:>9}"
            f"{mean:>14.2%}{time.monotonic() - started:>9.0f}",
            flush=True,
        )
    columns = ["population", "numbers", "differ", "pairs", "refused", "certificates"]
    table = pd.DataFrame(found, columns=columns)
    share = table["differ"].sum() / max(1, table["pairs"].sum())
    print(f"{table['differ'].sum()} of {table['pairs'].sum()} differ ({share:.2%}).")
    if options.write is not None:
        table.to_csv(options.write / "hard.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
