"""False alarms of a model that is fitted again every month, and how soon drift is found.

    python benchmarks/retraining.py [--originals 200] [--months 60] [--rows 4000]
    python benchmarks/retraining.py DATA [--write docs/results]

Every original watches the same months, so that one fit of a month serves all of them. Its own
false-alarm rate is counted over ten times as many months, beside what its certificate says.

With a folder of tables: real months of flights, in order. The original has one month (typical
differences), or learns from two, three or six how months differ; every later month replicates. An
alarm is an exit code of 1. The month after the original is also spoiled on purpose.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from population import Published, coefficients, fitted, rows

from replearn.errors import ReplearnError
from replearn.glm import GlmPromise
from replearn.study import replicate
from replearn.tables import open_table

if TYPE_CHECKING:
    from centre_tables import Centres

    from replearn.study import GlmReplication, Original

PLANS = (0.1, 0.01, 0.002)
#: Change of the first coefficient, and of the constant, each month.
DRIFTS = {"none": (0.0, 0.0), "slow": (0.005, 0.0), "coefficient": (0.02, 0.0), "rate": (0.0, 0.02)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--originals", type=int, default=200)
    parser.add_argument("--months", type=int, default=60)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("data", type=Path, nargs="?", help="folder of tables, for real months")
    parser.add_argument("--write", type=Path, help="folder for retraining.csv")
    options = parser.parse_args()
    if options.data is not None:
        real_months(options.data, options.write)
        return
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
        promise = GlmPromise(planned, 3, options.rows, options.rows)
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


# --- real months ----------------------------------------------------------------------------------

#: Months that the original learns from; one month is taken to differ as centres typically do.
N_LEARNED = (1, 2, 3, 6)


def _more_events(columns: pd.DataFrame, y: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """One on-time flight in ten is late: the base risk rises by about a third."""
    changed = np.random.default_rng(61).random(len(y)) < 0.1
    return columns, np.where(changed, 1, y)


def _weaker(columns: pd.DataFrame, y: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """The strongest column says half as much."""
    return columns.assign(dep_delay=2 * columns["dep_delay"]), y


def _other_unit(columns: pd.DataFrame, y: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """Minutes in the air became hours."""
    return columns.assign(air_time=columns["air_time"] / 60), y


def _shuffled(columns: pd.DataFrame, y: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    """Labels of other rows."""
    return columns, np.random.default_rng(62).permutation(y)


SPOILED = {
    "more events": _more_events,
    "a weaker column": _weaker,
    "a different unit": _other_unit,
    "labels shuffled": _shuffled,
}


def real_months(folder: Path, write: Path | None) -> None:
    """Alarms of later months, and whether a spoiled month is found."""
    from centre_tables import tables

    months = next(tables(folder, ["flights, months"]))
    lines = []
    for n_learned in N_LEARNED:
        line: dict[str, float] = {"learned from": n_learned, "originals": 0, "later months": 0}
        counts = dict.fromkeys(("a different model", "alarm", *SPOILED), 0)
        for start in range(0, len(months.names) - n_learned, 2):
            counts_of_start(months, start, n_learned, line, counts)
        lines.append({**line, **counts})
        print(lines[-1], flush=True)
    table = pd.DataFrame(lines)
    print(table.to_string(index=False))
    if write is not None:
        table.to_csv(write / "months.csv", index=False)


def counts_of_start(
    months: "Centres", start: int, n_learned: int, line: dict[str, float], counts: dict[str, int]
) -> None:
    """One original, all later months, and the next one spoiled in each way."""
    first = months.names[start : start + n_learned]
    later = months.names[start + n_learned :]
    places = np.concatenate([months.rows(name) for name in first])
    n_there = min(len(months.rows(name)) for name in later)
    original = months.original(places, "typical", n_learned > 1, n_there)
    line["originals"] += 1
    for name in later:
        found = _month(original, months, months.rows(name))
        line["later months"] += 1
        counts["a different model"] += found is None or not found.same
        counts["alarm"] += found is None or not found.succeeded
    for how, spoil in SPOILED.items():
        found = _month(original, months, months.rows(later[0]), spoil)
        counts[how] += found is None or not found.succeeded


def _month(
    original: "Original", months: "Centres", places: np.ndarray, spoil: Any = None
) -> "GlmReplication | None":
    """What a month is told; None: it has no model, which stops a job as well."""
    columns, y = months.task.rows(places), months.task.target[places]
    if spoil is not None:
        columns, y = spoil(columns, y)
    table = open_table(columns, target=y)
    try:
        return replicate(original.study, table, opened=original.model)[1]
    except ReplearnError:
        return None


if __name__ == "__main__":
    main()
