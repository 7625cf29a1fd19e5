"""Size and power of the test whether a lab's rows support a model.

    python benchmarks/support.py [--repetitions 2000] [--write docs/results]

Labels are drawn from the model itself, so that a p-value below .05 is a false alarm; then from a
model that differs. Beside it stands a likelihood ratio test whose limit was found by simulation,
since that of chi-square is wrong where events are few.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from replearn.codes import least_number
from replearn.glm import Bernoulli, Between, Coordinates, Reference, assumed, score_test
from replearn.rows import ROW_BITS, THETA_BITS, Block, MemoryBlocks, on_grid
from replearn.types import Matrix, Vector

N_ROWS, EVENTS = (300, 1000, 5000, 20_000), (0.01, 0.1, 0.5)
#: Columns of each kind; "centres": plain rows whose truth differs as that of typical centres;
#: "fitted": the model is the fit, with a ridge, of an original of as many rows.
KINDS = ("plain", "rare levels", "nearly separable", "centres", "fitted")
RIDGE = 1e-3
#: Of an original. With fewer, more than 5 of 1,000 labs as large would have no event and no model:
#: then it is not published.
LEAST_EVENTS = 6


@dataclass(frozen=True)
class Null:
    """A lab's rows without labels, and the model that is tested."""

    X: Matrix  # with the constant
    theta: Vector
    truth: Vector
    coordinates: Coordinates
    between: Between
    n_original: float = 1e12
    ridge: float = 0.0

    @classmethod
    def draw(cls, kind: str, n_rows: int, events: float, rng: np.random.Generator) -> "Null":
        """Rows of one kind, with a constant that gives this share of events."""
        if kind == "fitted":
            return cls._fitted(cls.draw("rare levels", 2 * n_rows, events, rng), rng)
        columns = [rng.normal(size=n_rows) for _ in range(5)]
        slopes = [0.5, -0.3, 0.2, 0.0, 0.1]
        if kind == "rare levels":  # of which most have no event at small labs
            level = rng.choice(6, n_rows, p=(0.8, 0.1, 0.04, 0.03, 0.02, 0.01))
            columns += [(level == one) * 1.0 for one in range(1, 6)]
            slopes += [0.3, -0.5, 0.0, -1.0, 0.5]
        if kind == "nearly separable":
            columns += [rng.normal(size=n_rows), (rng.random(n_rows) < 0.1) * 1.0]
            slopes += [3.0, 4.0]

        terms = np.clip(on_grid(np.column_stack(columns), ROW_BITS), -(1 << 14), 1 << 14)
        X = np.column_stack([np.ones(n_rows), terms * 2.0**-ROW_BITS])
        constant = least_number(
            lambda shift: float(_risks(X[:, 1:] @ slopes + shift - 20).mean()) >= events
        )
        theta = on_grid(np.array([constant - 20, *slopes]), THETA_BITS) * 2.0**-THETA_BITS

        variance = np.array([[events * (1 - events)]])
        coordinates = Coordinates.of(variance, X.T @ X / n_rows, RIDGE)
        between = Between.none(len(theta))
        if kind == "centres":
            between = assumed(coordinates)
        return cls(X, theta, theta, coordinates, between)

    @classmethod
    def _fitted(cls, both: "Null", rng: np.random.Generator) -> "Null":
        """Half of the rows are the original's, whose fit is tested by the other half."""
        half = len(both.X) // 2
        y = both.labels(both.theta, rng)
        while y[:half].sum() < LEAST_EVENTS:
            y = both.labels(both.theta, rng)
        X = both.X[:half]
        ridges = half * RIDGE * (np.arange(X.shape[1]) > 0)
        theta = _fit(X, y[:half], both.theta, ridges)
        theta = on_grid(theta, THETA_BITS) * 2.0**-THETA_BITS
        variance = np.array([[y[:half].mean() * (1 - y[:half].mean()) + 1e-4]])
        coordinates = Coordinates.of(variance, X.T @ X / half, RIDGE)
        return cls(both.X[half:], theta, both.theta, coordinates, both.between, half, RIDGE)

    def labels(self, theta: Vector, rng: np.random.Generator) -> Vector:
        """Of patients who follow some coefficients, if they are from one population."""
        if self.between.n_centres:
            shifts = self.between.deviations * rng.normal(size=len(theta))
            theta = theta + self.coordinates.to_theta(shifts)[0]
        return (rng.random(len(self.X)) < _risks(self.X @ theta)) * 1.0

    def p_value(self, y: Vector) -> float:
        """Of the test, with that of single columns."""
        terms = on_grid(self.X[:, 1:], ROW_BITS).astype(np.int16)
        theta = on_grid(self.theta[None], THETA_BITS)
        reference = Reference(theta, self.ridge, self.coordinates, self.between, self.n_original)
        test = score_test(MemoryBlocks(Block(terms, y)), Bernoulli(), len(y), reference)
        return test.p_all

    def ratio(self, y: Vector) -> float:
        """Twice the log-likelihood ratio of the best coefficients and those of the model."""
        theta = _fit(self.X, y, self.theta, np.full(len(self.theta), 1e-4))
        return 2 * float((_losses(self.X @ self.theta, y) - _losses(self.X @ theta, y)).sum())

    def other(self, size: float, rng: np.random.Generator) -> Vector:
        """Coefficients so far away that the test's statistic has this non-centrality."""
        risks = _risks(self.X @ self.theta)
        information = (self.X * (risks * (1 - risks))[:, None]).T @ self.X
        covariance = np.linalg.inv(information + 1e-3 * np.eye(len(self.theta)))
        if self.between.n_centres:
            back = np.array([
                self.coordinates.to_theta(one)[0] for one in np.diag(self.between.deviations)
            ])  # fmt: skip
            covariance = covariance + back.T @ back
        direction = np.linalg.cholesky(covariance) @ rng.normal(size=len(self.theta))
        direction *= np.sqrt(size / (direction @ np.linalg.solve(covariance, direction)))
        return self.truth + direction


def _fit(X: Matrix, y: Vector, theta: Vector, ridges: Vector) -> Vector:
    """Newton's steps, none of them long: classes may be separable."""
    for _ in range(25):
        risks = _risks(X @ theta)
        information = (X * (risks * (1 - risks))[:, None]).T @ X + np.diag(ridges + 1e-9)
        step = np.linalg.solve(information, X.T @ (y - risks) - ridges * theta)
        theta = theta + step * min(1.0, 3.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-4:
            break
    return theta


def _risks(scores: Vector) -> Vector:
    return 1.0 / (1.0 + np.exp(-scores))


def _losses(scores: Vector, y: Vector) -> Vector:
    return np.logaddexp(0.0, scores) - y * scores


def p_values(
    kind: str, n_rows: int, events: float, repetitions: int, rng: np.random.Generator
) -> Vector:
    """Of labs whose patients follow the model; every tenth lab has new rows."""
    found = []
    for number in range(repetitions):
        if number % 10 == 0:
            null = Null.draw(kind, n_rows, events, rng)
        found.append(null.p_value(null.labels(null.truth, rng)))
    return np.array(found)


def powers(
    kind: str, n_rows: int, events: float, repetitions: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Of the test, and of the likelihood ratio with its simulated limit, at .05."""
    found, ratios, limits = [], [], []
    for number in range(repetitions):
        if number % 10 == 0:
            null = Null.draw(kind, n_rows, events, rng)
        limits.append(null.ratio(null.labels(null.truth, rng)))
        y = null.labels(null.other(14.0, rng), rng)
        found.append(null.p_value(y) < 0.05)
        ratios.append(null.ratio(y))
    return float(np.mean(found)), float(np.mean(ratios > np.quantile(limits, 0.95)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000, help="of labs with 300 rows")
    parser.add_argument("--write", type=Path, help="folder for support.csv")
    options = parser.parse_args()
    names = ("rows", "events", "kind", "size .05", "size .01", "power", "LR power")
    print(("{:>7} {:>6}  {:18}" + " {:>8}" * 4).format(*names))
    lines = []
    for n_rows in N_ROWS:
        repetitions = max(100, int(options.repetitions * min(1.0, 1000 / n_rows)))
        for events in EVENTS:
            for kind in KINDS:
                rng = np.random.default_rng([n_rows, int(100 * events), KINDS.index(kind)])
                found = p_values(kind, n_rows, events, repetitions, rng)
                sizes = [float((found < level).mean()) for level in (0.05, 0.01)]
                power = powers(kind, n_rows, events, repetitions // 4, rng)
                values = "".join(f" {value:8.3f}" for value in (*sizes, *power))
                print(f"{n_rows:7,} {events:6.0%}  {kind:18}{values}", flush=True)
                line = dict(zip(names, (n_rows, events, kind, *sizes, *power), strict=True))
                lines.append({**line, "labs": repetitions})
        if options.write is not None:  # large labs take longest: what there is stands
            pd.DataFrame(lines).to_csv(options.write / "support.csv", index=False)


if __name__ == "__main__":
    main()
