"""How often 95% intervals of a lab's own estimates cover the truth.

    python benchmarks/intervals.py [--samples 400] [TABLE.csv TARGET ...]

Simulated populations: the truth is known. Real tables: the population is the table, the truth is
what all of its rows give without a ridge, and samples are drawn from it with replacement. A line
prints the share over all coefficients but the constant, the lowest and the highest of one
coefficient, and the same share for the intervals that one would put around the ridge's own
coefficients with the same standard errors.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from replearn.glm import Estimates, GlmModel, Summary, estimates_of, fit
from replearn.glm.sandwich import Z95
from replearn.study import Request, RowEncoder, TableRows, publish, read_rows
from replearn.tables import open_table

Draw = Callable[[np.random.Generator], tuple[dict[str, Any], Any, Any]]


def columns(rng: np.random.Generator, n_rows: int) -> dict[str, Any]:
    """Correlated numbers, a rare 0/1 column and three levels."""
    a, b = rng.normal(size=(2, n_rows))
    return {
        "age": 60 + 10 * a,
        "weight": 80 + 15 * (0.6 * a + 0.8 * b),
        "rare": (rng.random(n_rows) < 0.05).astype(float),
        "ward": rng.choice(["A", "B", "C"], n_rows, p=[0.6, 0.25, 0.15]),
    }


def score_of(X: dict[str, Any]) -> Any:
    """Of the simulated populations, without its constant."""
    score = 0.06 * (X["age"] - 60) - 0.01 * (X["weight"] - 80) + 0.8 * X["rare"]
    return score + 0.5 * (X["ward"] == "B") - 0.4 * (X["ward"] == "C")


def simulated(kind: str, n_rows: int, constant: float) -> Draw:
    """A population of one kind of target."""

    def draw(rng: np.random.Generator) -> tuple[dict[str, Any], Any, Any]:
        X = columns(rng, n_rows)
        score, groups = constant + score_of(X), None
        if kind == "linear":  # residuals spread more where age is larger
            return X, score + rng.normal(size=n_rows) * np.exp(0.04 * (X["age"] - 60)), None
        if kind == "groups":  # rows of one ward share luck and a column
            groups = np.arange(n_rows) // 10
            luck = rng.normal(size=groups[-1] + 1)[groups]
            X["age"] = 60 + 10 * rng.normal(size=groups[-1] + 1)[groups]
            y = constant + score_of(X) + luck + rng.normal(size=n_rows)
            return X, y, groups
        if kind == "poisson":
            return X, rng.poisson(np.exp(np.minimum(score, 6)) * rng.gamma(2, 0.5, n_rows)), None
        return X, (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(int), None

    return draw


def resampled(frame: pd.DataFrame, target: str, n_rows: int) -> Draw:
    """Samples of a table's rows."""

    def draw(rng: np.random.Generator) -> tuple[dict[str, Any], Any, Any]:
        part = frame.iloc[rng.integers(0, len(frame), n_rows)].reset_index(drop=True)
        X = {name: part[name].to_numpy() for name in frame if name != target}
        return X, part[target].to_numpy(), None

    return draw


def estimated(model: GlmModel, X: Any, y: Any, groups: Any = None) -> tuple[Estimates, Any]:
    """Estimates of some rows in a model's encoding, and the ridge's own coefficients."""
    design = model.design
    table = open_table(X, target=y, groups=groups, columns=design.encoding.names)
    rows = read_rows(TableRows(table, RowEncoder.of(design)))
    summary = Summary.of(rows, design.loss)
    theta = fit(rows, design.loss, design.ridge, summary)
    found = estimates_of(rows, design.encoding, design.loss, theta, summary)
    assert found is not None
    shrunk = design.encoding.per_unit(theta * 2.0**-26) * design.loss.scale[0]
    return found, shrunk


def counted(kind: Any, draw: Draw, truth: Draw | None, n_samples: int) -> tuple[Any, Any, str]:
    """Shares of intervals that cover, by coefficient, of both kinds; and the ridge."""
    rng = np.random.default_rng(0)
    X, y, groups = draw(rng)
    table = open_table(X, target=y, groups=groups)
    model = publish(table, Request(kind="linear" if kind == "groups" else kind)).model
    # the truth of this encoding: what very many rows give without a ridge
    X, y, _ = (truth or draw)(np.random.default_rng(1))
    target = estimated(model, X, y)[0].estimate
    hits = np.zeros(target.shape)
    shrunk_hits = np.zeros(target.shape)
    for _ in range(n_samples):
        X, y, groups = draw(rng)
        own, shrunk = estimated(model, X, y, groups)
        low, high = own.interval
        hits += (low <= target) & (target <= high)
        shrunk_hits += np.abs(shrunk - target) <= Z95 * own.standard_error
    return hits[:, 1:] / n_samples, shrunk_hits[:, 1:] / n_samples, model.design.ridge


def main() -> None:
    """Print a line for each population."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("tables", nargs="*", help="pairs of a CSV file and its target")
    options = parser.parse_args()
    plan: list[tuple[str, Any, Draw, Draw | None]] = []
    for kind, n_rows, constant in [
        ("logistic", 300, 0.0),
        ("logistic", 1000, -3.0),
        ("logistic", 4000, -1.0),
        ("linear", 500, 0.0),
        ("groups", 2000, 0.0),
        ("poisson", 1000, -1.0),
    ]:
        name = f"{kind}, {n_rows:,} rows, constant {constant:g}"
        truth = simulated(kind, 400_000, constant)
        plan.append((name, kind, simulated(kind, n_rows, constant), truth))
    for path, target in zip(options.tables[::2], options.tables[1::2], strict=True):
        frame = pd.read_csv(path).dropna()
        y = frame[target].to_numpy()

        def whole(_: Any, frame: pd.DataFrame = frame, target: str = target) -> Any:
            return {n: frame[n].to_numpy() for n in frame if n != target}, frame[target], None

        kind = "logistic" if len(set(y.tolist())) <= 10 else "linear"
        draw = resampled(frame, target, min(2000, len(frame)))
        plan.append((f"{path}: {target}", kind, draw, whole))
    print("covered  lowest  highest  around the ridge's  ridge")
    for name, kind, draw, truth in plan:
        begun = time.process_time()
        hits, shrunk, ridge = counted(kind, draw, truth, options.samples)
        line = f"{hits.mean():7.3f} {hits.min():7.3f} {hits.max():8.3f} {shrunk.mean():19.3f}"
        print(f"{line}  {ridge:5}  {name} ({time.process_time() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
