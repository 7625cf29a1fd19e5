"""Size and power of the test whether a lab's rows support a model.

    python benchmarks/support.py [--repetitions 2000] [--power 1000] [--rows 300 ...]
        [--write docs/results]

Labels are drawn from the model itself, so that a p-value below .05 is a false alarm; then from a
model that differs. The column that differs most, which is a part of the test, is counted by itself,
too.

Beside the power stands that of a likelihood ratio test of the same hypothesis, which is named: of
the *model* itself; of the model and *centres* that differ by as much as the test assumes; or of the
original's labels and this lab's, *both* rows. Its limit was found by simulation, since that of
chi-square is wrong where events are few.

Seeds and designs are others than those on which rules were chosen; "correlated" columns chose none.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from replearn.codes import least_number
from replearn.glm import Bernoulli, Between, Coordinates, Reference, ScoreTest, assumed, score_test
from replearn.rows import ROW_BITS, THETA_BITS, Block, MemoryBlocks, on_grid
from replearn.types import Matrix, Vector

N_ROWS, EVENTS = (300, 1000, 5000, 20_000), (0.01, 0.1, 0.5)
#: Columns of each kind; "centres": plain rows whose truth differs as that of typical centres;
#: "fitted": the model is the fit, with a ridge, of an original of as many rows; "correlated":
#: twenty columns, skewed, each correlated with the next by a half.
KINDS = ("plain", "rare levels", "nearly separable", "correlated", "centres", "fitted")
#: The likelihood ratio that the test is compared with.
RATIOS = {"centres": "centres", "fitted": "both"}
RIDGE = 1e-3
#: Of an original. With fewer, more than 5 of 1,000 labs as large would have no event and no model:
#: then it is not published.
LEAST_EVENTS = 6
#: Of the original of a fitted model, on average: one with fewer would not be published.
USUAL_EVENTS = 12
SEED = 2043


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
    original: tuple[Matrix, Vector] | None = None  # rows and labels of a fitted model

    @classmethod
    def draw(cls, kind: str, n_rows: int, events: float, rng: np.random.Generator) -> "Null":
        """Rows of one kind, with a constant that gives this share of events."""
        if kind == "fitted":
            n_original = max(n_rows, int(USUAL_EVENTS / events))
            both = cls.draw("rare levels", n_original + n_rows, events, rng)
            return cls._fitted(both, n_original, rng)
        columns = [rng.normal(size=n_rows) for _ in range(5)]
        slopes = [0.5, -0.3, 0.2, 0.0, 0.1]
        if kind == "rare levels":  # of which most have no event at small labs
            level = rng.choice(6, n_rows, p=(0.8, 0.1, 0.04, 0.03, 0.02, 0.01))
            columns += [(level == one) * 1.0 for one in range(1, 6)]
            slopes += [0.3, -0.5, 0.0, -1.0, 0.5]
        if kind == "correlated":
            steps = rng.normal(size=(n_rows, 20))
            for j in range(1, 20):
                steps[:, j] = 0.5 * steps[:, j - 1] + 0.75**0.5 * steps[:, j]
            columns = [np.exp(0.5 * steps[:, j]) - 1.13 for j in range(20)]
            slopes = [0.6, -0.4, *([0.2, 0.0, -0.1] * 6)]
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
    def _fitted(cls, both: "Null", n_original: int, rng: np.random.Generator) -> "Null":
        """Some rows are the original's, whose fit is tested by the others."""
        y = both.labels(both.theta, rng)
        while y[:n_original].sum() < LEAST_EVENTS:
            y = both.labels(both.theta, rng)
        X, y = both.X[:n_original], y[:n_original]

        ridges = n_original * RIDGE * (np.arange(X.shape[1]) > 0)
        theta = _fit(X, y, both.theta, np.diag(ridges))
        theta = on_grid(theta, THETA_BITS) * 2.0**-THETA_BITS
        variance = np.array([[y.mean() * (1 - y.mean())]])
        return cls(
            both.X[n_original:],
            theta,
            both.theta,
            Coordinates.of(variance, X.T @ X / n_original, RIDGE),
            both.between,
            n_original,
            RIDGE,
            (X, y),
        )

    def labels(self, theta: Vector, rng: np.random.Generator) -> Vector:
        """Of patients who follow some coefficients, if they are from one population."""
        if self.between.n_centres:
            shifts = self.between.deviations * rng.normal(size=len(theta))
            theta = theta + self.coordinates.to_theta(shifts)[0]
        return (rng.random(len(self.X)) < _risks(self.X @ theta)) * 1.0

    def test(self, y: Vector) -> ScoreTest:
        """The test, as a lab makes it."""
        terms = on_grid(self.X[:, 1:], ROW_BITS).astype(np.int16)
        theta = on_grid(self.theta[None], THETA_BITS)
        known = self.ridge, self.coordinates, self.between, self.n_original
        reference = Reference(Bernoulli(), theta, *known)
        return score_test(MemoryBlocks(Block(terms, y)), reference)

    def p_value(self, y: Vector) -> float:
        """Of the test, with that of single directions."""
        return self.test(y).p_all

    def ratio(self, y: Vector) -> float:
        """Twice the log-likelihood ratio of any coefficients and those that the model allows."""
        little = 1e-4 * np.eye(len(self.theta))
        free = _fit(self.X, y, self.theta, little)
        loss = _losses(self.X @ free, y).sum()
        if self.original is not None:  # one fit of all rows, or two
            X, labels = self.original
            alone = _fit(X, labels, self.theta, little)
            both, all_labels = np.vstack([self.X, X]), np.concatenate([y, labels])
            common = _fit(both, all_labels, self.theta, little)
            loss += _losses(X @ alone, labels).sum()
            return 2 * float(_losses(both @ common, all_labels).sum() - loss)

        allowed, price = self.theta, 0.0
        if self.between.n_centres:  # the likeliest coefficients of a centre
            precision = np.linalg.inv(self._back().T @ self._back())
            allowed = _fit(self.X, y, self.theta, precision, self.theta)
            price = 0.5 * float((allowed - self.theta) @ precision @ (allowed - self.theta))
        return 2 * float(_losses(self.X @ allowed, y).sum() + price - loss)

    def _back(self) -> Matrix:
        """Coefficients of one standard deviation between centres, in each coordinate."""
        return np.array([
            self.coordinates.to_theta(one)[0] for one in np.diag(self.between.deviations)
        ])  # fmt: skip

    def other(self, size: float, rng: np.random.Generator) -> Vector:
        """Coefficients so far away that the test's statistic has this non-centrality."""
        risks = _risks(self.X @ self.theta)
        information = (self.X * (risks * (1 - risks))[:, None]).T @ self.X
        covariance = np.linalg.inv(information + 1e-3 * np.eye(len(self.theta)))
        if self.between.n_centres:
            covariance = covariance + self._back().T @ self._back()
        direction = np.linalg.cholesky(covariance) @ rng.normal(size=len(self.theta))
        direction *= np.sqrt(size / (direction @ np.linalg.solve(covariance, direction)))
        return self.truth + direction


def _fit(
    X: Matrix, y: Vector, theta: Vector, precision: Matrix, centre: Vector | float = 0.0
) -> Vector:
    """Newton's steps to the likeliest coefficients, none of them long: classes may be separable."""
    for _ in range(25):
        risks = _risks(X @ theta)
        information = (X * (risks * (1 - risks))[:, None]).T @ X + precision
        step = np.linalg.solve(
            information + 1e-9 * np.eye(len(theta)),
            X.T @ (y - risks) - precision @ (theta - centre),
        )
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
) -> tuple[Vector, Vector]:
    """Of labs whose patients follow the model, and of the column that differs most, if any counts.

    Every tenth lab has new rows; each fitted model is new.
    """
    found, of_columns = [], []
    for number in range(repetitions):
        if number % 10 == 0 or kind == "fitted":
            null = Null.draw(kind, n_rows, events, rng)
        test = null.test(null.labels(null.truth, rng))
        found.append(test.p_all)
        of_columns += test.of_directions[1:]
    return np.array(found), np.array(of_columns)


def powers(
    kind: str, n_rows: int, events: float, repetitions: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Of the test, and of the likelihood ratio with its simulated limit, at .05."""
    found, ratios, limits = [], [], []
    for number in range(repetitions):
        if number % 10 == 0 or kind == "fitted":
            null = Null.draw(kind, n_rows, events, rng)
        limits.append(null.ratio(null.labels(null.truth, rng)))
        y = null.labels(null.other(14.0, rng), rng)
        found.append(null.p_value(y) < 0.05)
        ratios.append(null.ratio(y))
    return float(np.mean(found)), float(np.mean(ratios > np.quantile(limits, 0.95)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000, help="labs of each line")
    parser.add_argument("--power", type=int, default=1000, help="of these for power")
    parser.add_argument("--rows", type=int, nargs="+", default=N_ROWS, help="sizes of labs")
    parser.add_argument("--write", type=Path, help="folder for support.csv; other sizes stay")
    options = parser.parse_args()

    names = ("rows", "events", "kind", "size .05", "size .01", "columns .05", "columns .01")
    names += ("power", "LR power", "LR of")
    print(("{:>7} {:>6}  {:17}" + " {:>9}" * 2 + " {:>12}" * 2 + " {:>9}" * 3).format(*names))
    for n_rows in options.rows:
        lines = []
        for events in EVENTS:
            for kind in KINDS:
                rng = np.random.default_rng([SEED, n_rows, int(100 * events), KINDS.index(kind)])
                sizes = []
                for found in p_values(kind, n_rows, events, options.repetitions, rng):
                    # columns count where they are known well enough
                    is_any = found.size >= options.repetitions / 2
                    sizes += [float((found < p).mean()) if is_any else np.nan for p in (0.05, 0.01)]
                values = (*sizes, *powers(kind, n_rows, events, options.power, rng))
                which = RATIOS.get(kind, "model")

                widths = (9, 9, 12, 12, 9, 9)
                words = (f" {v:{w}.3f}" for v, w in zip(values, widths, strict=True))
                print(
                    f"{n_rows:7,} {events:6.0%}  {kind:17}{''.join(words)} {which:>9}", flush=True
                )
                line = dict(zip(names, (n_rows, events, kind, *values, which), strict=True))
                n_labs = {"labs": options.repetitions, "labs of power": options.power}
                lines.append({**line, **n_labs})
        if options.write is not None:
            _replace(options.write / "support.csv", pd.DataFrame(lines))


def _replace(path: Path, lines: pd.DataFrame) -> None:
    """Write lines of one size in the place of older ones."""
    if path.exists():
        table = pd.read_csv(path)
        others = table[table["rows"] != lines["rows"].iloc[0]]
        lines = pd.concat([others, lines]).sort_values("rows", kind="stable")
    lines.to_csv(path, index=False)


if __name__ == "__main__":
    main()
