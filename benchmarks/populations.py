"""Every practical plan on populations with exact margins: error, and how often labs differ.

    python benchmarks/populations.py [--plans svm svm+3 ...] [--pairs 40] [--features 12]
        [--margin 0.2] [--max-error 0.05] [--max-disagreement 0.1] [--names decoy ...]
        [--rows 150000] [--write docs/results/populations.csv]
    python benchmarks/populations.py --summary docs/results/populations.csv
    python benchmarks/populations.py --samples 8 [--names plain] [--rows 52000] ...

A line for each plan and population of tests/populations.py: pairs that differ, mean error on new
rows, and pairs in which a fit warned. A line is

    kept        the error is at most max_error, and no more pairs differ than max_disagreement
                allows (but for chance: a one-sided test at 1%);
    told        more pairs differ, but most of them were warned. Where the warning names the rows
                that such a population needs, pairs of that size follow in a line of their own;
    FAILS       neither;
    outside     the population keeps no margin, so nothing is promised.

With --samples it is the share of all pairs of so many samples that differ, over 200 seeds, for
Algorithm 1: its fit needs no seed. That is what a promise is about, with little chance in it.
"""

import argparse
import csv
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pandas as pd
from scipy.stats import binom

from replearn.codes import Coins, Promise, Sizes
from replearn.errors import ReplearnError
from replearn.halfspaces.svm import SVM
from replearn.reports.table1 import LINES, _shell
from replearn.rows import MemoryRows
from tests.populations import OUTSIDE, POPULATIONS, draw

_NEW_ROWS = 4000

#: What a fit says if its population needs more rows than were planned.
_NEEDS = re.compile(r"needs about ([\d,]+) rows")


@dataclass(frozen=True)
class Line:
    """What pairs of labs of one size did on one population."""

    plan: str
    features: int
    margin: float
    max_error: float
    max_disagreement: float
    rows: int
    population: str
    pairs: int
    differ: int
    error: float
    warned: int
    needs: int  # rows that the warnings name, in their median; 0: none
    verdict: str


def count(
    plan: str,
    name: str,
    promise: Promise,
    n_features: int,
    n_rows: int,
    pairs: int,
    seed: int | None = None,
) -> Line:
    """Run pairs of labs with fresh rows each, and a fresh seed, or all under one."""
    new_rows = draw(name, _NEW_ROWS, n_features, promise.margin, 10**9)
    n_differ, n_warned, errors, needs = 0, 0, [], []

    for pair in range(pairs):
        shared = pair if seed is None else seed
        samples = (draw(name, n_rows, n_features, promise.margin, 2 * pair + lab) for lab in (0, 1))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            first = _shell(plan, promise, shared).fit(*next(samples))
            second = _shell(plan, promise, shared, getattr(first, "study_", None))
            second.fit(*next(samples))

        n_differ += first.fingerprint_ != second.fingerprint_
        n_warned += bool(said)
        found = [_NEEDS.search(str(warning.message)) for warning in said]
        needs += [int(match[1].replace(",", "")) for match in found if match]
        errors.append(1 - first.score(*new_rows))

    line = Line(
        plan, n_features, promise.margin, promise.max_error, promise.max_disagreement, n_rows,
        name, pairs, n_differ, round(float(np.mean(errors)), 4), n_warned,
        int(np.median(needs)) if needs else 0, "",
    )  # fmt: skip
    return replace(line, verdict=_verdict(line))


def over_seeds(
    name: str, promise: Promise, n_features: int, n_rows: int, n_samples: int
) -> tuple[float, float]:
    """Share of pairs of samples that differ, and its standard error over 200 seeds."""
    plan, points = SVM.sizes(promise, n_features, "practical", Sizes()), []
    for sample in range(n_samples):
        X, y = draw(name, n_rows, n_features, promise.margin, [77, sample])
        fitted = SVM.run(MemoryRows(X, y.astype(np.int8)), plan, Coins(0))
        points.append(fitted.spread.point)

    space, shares = plan.space(plan.grid_width), []
    for seed in range(200):
        coins = Coins(seed)
        components = space.project(np.array(points), coins)
        codes = [space.encode(own, coins).tobytes() for own in components]
        shares.append(np.mean([one != two for one, two in combinations(codes, 2)]))
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(len(shares)))


def _verdict(line: Line) -> str:
    """See the module."""
    if line.population in OUTSIDE:
        return "outside"
    if line.error > line.max_error:
        return "FAILS"
    if binom.sf(line.differ - 1, line.pairs, line.max_disagreement) > 0.01:
        return "kept"
    return "told" if line.warned > line.pairs / 2 else "FAILS"


def lines(plan: str, promise: Promise, n_rows: int, given: argparse.Namespace) -> Iterator[Line]:
    """A line for each population, and a second one where the first names more rows."""
    for name in given.names:
        line = count(plan, name, promise, given.features, n_rows, given.pairs, given.seed)
        yield line
        if line.verdict == "told" and line.needs > n_rows:
            yield count(plan, name, promise, given.features, line.needs, given.pairs, given.seed)


def summary(path: Path) -> None:
    """Print a line for each plan of a file: what its worst populations with a margin did."""
    found = pd.read_csv(path)
    found = found[found["verdict"] != "outside"].assign(share=found["differ"] / found["pairs"])
    print(
        "| plan | columns, margin, error | rho | rows | pairs that differ | most | largest error |"
    )
    print("|---|---|--:|--:|--:|--:|--:|")
    for keys, lines in found.groupby(["features", "plan"], sort=False):
        first = lines.iloc[0]
        planned = lines[lines["rows"] == first["rows"]]
        most = planned.loc[planned["share"].idxmax()]
        worst = planned.loc[planned["error"].idxmax()]
        print(
            f"| {keys[1]} | {first['features']}, {first['margin']}, {first['max_error']} | "
            f"{first['max_disagreement']} | {first['rows']:,} | {planned['differ'].sum()} of "
            f"{planned['pairs'].sum()} | {most['differ']} of {most['pairs']}, "
            f"{most['population']} | {worst['error']:.3f} |"
        )

    for _, line in found[found["verdict"] == "told"].iterrows():
        more = found[(found["plan"] == line["plan"]) & (found["rows"] == line["needs"])]
        again = "; ".join(f"{n} of {k}" for n, k in zip(more["differ"], more["pairs"], strict=True))
        print(
            f"{line['plan']}, {line['population']}: {line['warned']} of {line['pairs']} pairs were "
            f"warned and told {line['needs']:,} rows; with these {again} differ"
        )


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plans", nargs="+", default=list(LINES), choices=list(LINES))
    parser.add_argument("--names", nargs="+", default=list(POPULATIONS))
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--margin", type=float, default=0.2)
    parser.add_argument("--max-error", type=float, default=0.05)
    parser.add_argument("--max-disagreement", type=float, default=0.1)
    parser.add_argument("--rows", type=int, help="rows of a lab, in place of the plan's")
    parser.add_argument("--seed", type=int, help="one for all pairs, which a promise is not about")
    parser.add_argument("--samples", type=int, help="of Algorithm 1, over seeds")
    parser.add_argument("--write", type=Path, help="a CSV file that the lines are added to")
    parser.add_argument("--summary", type=Path, help="say in short what such a file has")
    given = parser.parse_args()
    if given.summary:
        summary(given.summary)
        return
    promise = Promise(given.margin, given.max_error, given.max_disagreement)
    if given.samples:
        n_rows = given.rows or SVM.sizes(promise, given.features, "practical", Sizes()).n_rows
        for name in given.names:
            share, error = over_seeds(name, promise, given.features, n_rows, given.samples)
            print(f"{name:12}{n_rows:>10,}  {share:.3f} differ, standard error {error:.3f}")
        return

    print(
        f"{'plan':7}{'rows':>10}  {'population':12}{'differ':>9}{'error':>8}{'warned':>8}"
        f"{'needs':>10}  verdict"
    )
    for plan in given.plans:
        recipe, bits = LINES[plan]
        try:
            made = recipe.sizes(promise, given.features, "practical", Sizes(sketch_bits=bits))
        except ReplearnError as problem:
            print(f"{plan:7}{'':>10}  {problem}")
            continue

        n_rows = given.rows or made.n_rows
        for line in lines(plan, promise, n_rows, given):
            print(
                f"{plan:7}{line.rows:>10,}  {line.population:12}{line.differ:>4} /{line.pairs:>3}"
                f"{line.error:>8.3f}{line.warned:>8}{line.needs or '':>10}  {line.verdict}",
                flush=True,
            )
            if given.write:
                _add(given.write, line)


def _add(path: Path, line: Line) -> None:
    """Add a line to a CSV file, in the place of an older one of the same pairs."""
    fields = list(asdict(line))
    key = fields[: fields.index("pairs")]
    kept = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = list(csv.DictReader(file))

    new = {name: str(value) for name, value in asdict(line).items()}
    kept = [row for row in kept if any(row[name] != new[name] for name in key)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, new])


if __name__ == "__main__":
    main()
