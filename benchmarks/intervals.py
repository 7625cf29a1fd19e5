"""How often 95% intervals of a lab's own estimates cover the truth.

    python benchmarks/intervals.py [DATA] [--samples 400] [--write docs/results]

Simulated populations: the truth is known. Real tables of DATA: the population is the table, the
truth is what all of its rows give without a ridge, and samples are drawn from it with replacement.
A line prints the share over all coefficients but the constant, the lowest and the highest of one
coefficient, and the same share for the intervals that one would put around the ridge's own
coefficients with the same standard errors.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import replearn as rl
from replearn.glm import Estimates, GlmModel, Summary, fit
from replearn.glm.sandwich import Z95
from replearn.study import Request, RowEncoder, TableRows, publish, read_rows
from replearn.study.own_estimates import own_estimates
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


def resampled(task: Any, n_rows: int | None) -> Draw:
    """Samples of a table's rows, or all of them."""

    def draw(rng: np.random.Generator) -> tuple[Any, Any, Any]:
        places = np.arange(task.n_rows)
        if n_rows is not None:
            places = rng.integers(0, task.n_rows, n_rows)
        return task.rows(places).reset_index(drop=True), task.target[places], None

    return draw


def estimated(model: GlmModel, X: Any, y: Any, groups: Any = None) -> tuple[Estimates, Any]:
    """Estimates of some rows in a model's encoding, and the ridge's own coefficients."""
    design = model.design
    table = open_table(X, target=y, groups=groups, columns=design.encoding.names)
    source = TableRows(table, RowEncoder.of(design))
    rows = read_rows(source)
    theta = fit(rows, design.loss, design.ridge, Summary.of(rows, design.loss))
    found = own_estimates(source, rows, theta)
    assert found is not None
    shrunk = design.encoding.per_unit(theta * 2.0**-26) * design.loss.scale[0]
    return found, shrunk


def counted(kind: Any, draw: Draw, truth: Draw, n_samples: int) -> tuple[Any, Any, str]:
    """Shares of intervals that cover, by coefficient, of both kinds; and the ridge."""
    rng = np.random.default_rng(0)
    X, y, groups = draw(rng)
    table = open_table(X, target=y, groups=groups)
    model = publish(table, Request(kind="linear" if kind == "groups" else kind)).model
    # the truth of this encoding: what very many rows give without a ridge
    X, y, _ = truth(np.random.default_rng(1))
    target = estimated(model, X, y)[0].estimate
    hits, shrunk_hits, stated = np.zeros((3, *target.shape))
    for _ in range(n_samples):
        X, y, groups = draw(rng)
        own, shrunk = estimated(model, X, y, groups)
        low, high = own.interval
        hits += (low <= target) & (target <= high)
        shrunk_hits += np.abs(shrunk - target) <= Z95 * own.standard_error
        stated += ~np.isnan(own.estimate)
    # of coefficients that have a truth: one that follows from others has none
    known = ~np.isnan(target)
    known[:, 0] = False
    return hits[known] / stated[known], shrunk_hits[known] / stated[known], model.design.ridge


def of_hazards(n_patients: int, n_samples: int) -> tuple[Any, Any, str]:
    """The same of hazard ratios: half of the patients leave before their event."""
    truth = {"age": 0.06, "weight": -0.01, "rare": 0.8, "ward = B": 0.5, "ward = C": -0.4}
    rng, hits, shrunk_hits, ridge = np.random.default_rng(0), [], [], ""
    for _ in range(n_samples):
        X = columns(rng, n_patients)
        death = rng.exponential(np.exp(-score_of(X)))
        end = rng.exponential(1.0, n_patients)
        y = np.empty(n_patients, dtype=[("died", "?"), ("years", "f8")])
        y["died"], y["years"] = death <= end, np.minimum(death, end)

        fitted = rl.ReplicableSurvivalAnalysis(between=0).fit(pd.DataFrame(X), y)
        found, ridge = fitted.coefficients_, fitted.model_.design.ridge
        low, high = found.own.interval
        for name, value in truth.items():
            place = found.terms.index(name)
            reach = Z95 * found.own.standard_error[0, place]
            hits.append(low[0, place] <= value <= high[0, place])
            shrunk_hits.append(abs(found.model[0, place] - value) <= reach)
    shape = n_samples, len(truth)
    return np.reshape(hits, shape).mean(axis=0), np.reshape(shrunk_hits, shape).mean(axis=0), ridge


#: Simulated populations: kind, rows of a lab and constant. Real tables: task and rows of a lab.
SIMULATED = [
    ("logistic", 300, 0.0),
    ("logistic", 1000, -3.0),
    ("logistic", 4000, -1.0),
    ("linear", 500, 0.0),
    ("groups", 2000, 0.0),
    ("poisson", 1000, -1.0),
]
REAL = {
    "census": 4000,
    "hospital, within 30 days": 8000,
    "flights, late": 4000,
    "flights, delay (linear)": 4000,
    "heart": 740,
}


#: Columns that others give: of collinear ones no row says which has the effect. Census: education
#: in years stays, and the gaps of workclass are those of occupation.
_REPEATED = ["education", "workclass"]


def populations(folder: Path | None) -> Iterator[tuple[str, Any, Draw, Draw]]:
    """Name, kind, samples and truth."""
    for kind, n_rows, constant in SIMULATED:
        name = f"{kind}, {n_rows:,} rows, constant {constant:g}"
        yield name, kind, simulated(kind, n_rows, constant), simulated(kind, 400_000, constant)
    if folder is None:
        return

    from tasks import tasks  # beside this script: the tests import it from elsewhere

    for task in tasks(folder, list(REAL)):
        n_rows = REAL[task.name]
        task = replace(task, columns=task.columns.drop(columns=_REPEATED, errors="ignore"))
        name = f"{task.name}, {n_rows:,} rows"
        yield name, task.kind, resampled(task, n_rows), resampled(task, None)


def main() -> None:
    """Print a line for each population."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, nargs="?", help="the folder of real tables")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--write", type=Path, help="the folder of results")
    options = parser.parse_args()
    print("covered  lowest  highest  around the ridge's  ridge")
    lines = []
    work = [("survival, 800 patients", lambda: of_hazards(800, options.samples))]
    for name, *population in populations(options.data):
        work.append((name, lambda given=population: counted(*given, options.samples)))
    for name, count in work:
        begun = time.process_time()
        hits, shrunk, ridge = count()
        shares = [float(part) for part in (hits.mean(), hits.min(), hits.max(), shrunk.mean())]
        line = "{:7.3f} {:7.3f} {:8.3f} {:19.3f}".format(*shares)
        print(f"{line}  {ridge:5}  {name} ({time.process_time() - begun:.0f} s)", flush=True)
        lines.append([name, hits.size, options.samples, *(f"{share:.4f}" for share in shares)])
    if options.write:
        header = ["population", "coefficients", "samples", "covered", "lowest", "highest", "ridge"]
        frame = pd.DataFrame(lines, columns=header)
        frame.to_csv(options.write / "intervals.csv", index=False)


if __name__ == "__main__":
    main()
