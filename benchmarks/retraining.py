"""False alarms of a model that is fitted again every month, and how soon drift is found.

    python benchmarks/retraining.py [--originals 200] [--months 60] [--rows 4000]

Every original watches the same months, so that one fit of a month serves all of them. Its own
false-alarm rate is counted over ten times as many months, beside what its certificate says.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from population import Published, coefficients, fitted, rows

from replearn.recipes.glm import Promise

PLANS = (0.1, 0.01, 0.002)
#: Change of the first coefficient, and of the constant, each month.
DRIFTS = {"none": (0.0, 0.0), "slow": (0.005, 0.0), "coefficient": (0.02, 0.0), "rate": (0.0, 0.02)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--originals", type=int, default=200)
    parser.add_argument("--months", type=int, default=60)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--write", type=Path, help="folder for retraining.csv")
    options = parser.parse_args()
    rng = np.random.default_rng(60)
    theta = coefficients()
    labs = [rows(options.rows, rng, theta) for _ in range(options.originals)]
    steady = [fitted(rows(options.rows, rng, theta)) for _ in range(10 * options.months)]
    drifting = {}
    for name, (slope, rise) in DRIFTS.items():
        there = []
        for month in range(1, options.months + 1) if name != "none" else ():
            moved = theta + slope * month * (np.arange(theta.size) == 0)
            there.append(fitted(rows(options.rows, rng, moved, -2.2 + rise * month)))
        drifting[name] = there
    lines = []
    for planned in PLANS:
        promise = Promise(planned, 3, options.rows, options.rows)
        originals = [
            Published.of(lab, promise, f"retraining {number}") for number, lab in enumerate(labs)
        ]
        own = np.array([np.mean([not one.same(month) for month in steady]) for one in originals])
        expected = np.array([one.expected(options.rows) for one in originals])
        line = {
            "planned": planned,
            "originals": len(originals),
            "months": len(steady),
            "counted": own.mean(),
            "certificates": expected.mean(),
            **{f"counted, {q}": np.quantile(own, q) for q in (0.5, 0.9, 0.97, 1.0)},
            **{f"certificate, {q}": np.quantile(expected, q) for q in (0.5, 0.9, 0.97, 1.0)},
            "at most planned": np.mean(own <= planned),
        }
        for name, months in drifting.items():
            first = [_first_alarm(one, months) for one in originals] if months else []
            if first:
                line[f"months to an alarm, {name}"] = float(np.median(first))
        lines.append(line)
    table = pd.DataFrame(lines).T
    print(table.to_string(header=False, float_format=lambda value: f"{value:.4g}"))
    if options.write is not None:
        pd.DataFrame(lines).to_csv(options.write / "retraining.csv", index=False)


def _first_alarm(one: Published, months: list[np.ndarray]) -> float:
    """The first month with a different model."""
    return next(
        (number for number, month in enumerate(months, start=1) if not one.same(month)), np.inf
    )


if __name__ == "__main__":
    main()
