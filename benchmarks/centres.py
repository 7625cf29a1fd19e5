"""Real centres: how many get the original's model, what their patients say, what it is worth.

    python benchmarks/centres.py DATA [--tables "flights, months" ...] [--write docs/results]

K centres make the original, every other centre replicates alone; beside them random halves of the
same table. ``between`` is none (one population), typical, or learned from the K centres.

Which tables choose rules was fixed before any of the judges was looked at. `CHOOSE`: their centres
chose typical values, the freedom of learned ones and the share by which strong slopes differ.
`SEEN`: looked at once, when the degrees of freedom were lowered; they chose nothing since. `JUDGE`:
nothing was ever chosen by them, but how many agreed was known when the law of unlike centres was
chosen, by simulation. `FRESH`: nobody had looked at them then.

The second table: centres whose rows were spoiled must contradict the model that they match.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tasks import Task, tasks

from replearn.errors import ReplearnError
from replearn.study import GlmReplication, Original, Request, publish, replicate
from replearn.tables import open_table

CHOOSE = ("flights, months", "flights, airports", "diabetes, payers")
SEEN = ("diabetes, specialties", "heart, sites", "forest, areas")
JUDGE = (
    "flights, both",
    "flights, airlines",
    "flights, delay by month",
    "diabetes, days by payer",
    "census, occupations",
)
FRESH = (
    "flights, weeks",
    "flights, destinations",
    "diabetes, admissions",
    "diabetes, discharges",
    "diabetes, ages",
    "census, educations",
    "census, countries",
    "occupancy, days",
    "forest, soils",
)
#: Rows of a centre at most, so that all tables take fifteen minutes; and at least.
MOST_ROWS, LEAST_ROWS = 10_000, 100
#: Centres of the original, and what its study takes for granted about the others.
KINDS = ((1, "none"), (1, "typical"), (2, "learned"), (4, "none"), (4, "learned"), (8, "learned"))
#: Originals of each line, and new centres of each original, at most.
N_ORIGINALS, N_NEW = 5, 8


@dataclass(frozen=True)
class Centres:
    """A task and the centre of each row."""

    name: str
    task: Task
    centre: np.ndarray
    most: int = MOST_ROWS

    @property
    def role(self) -> str:
        """What the table may do."""
        roles = {"chooses": CHOOSE, "seen": SEEN, "judges": JUDGE, "fresh judges": FRESH}
        return next(role for role, names in roles.items() if self.name in names)

    @property
    def names(self) -> list[Any]:
        """Centres that have enough rows, in order."""
        found, counts = np.unique(self.centre, return_counts=True)
        return [
            name
            for name, count in zip(found, counts, strict=True)
            if count >= LEAST_ROWS and name != ""
        ]

    def rows(self, name: Any) -> np.ndarray:
        """Of one centre: a random sample if there are many."""
        places = np.flatnonzero(self.centre == name)
        order = np.random.default_rng([2029, self.names.index(name)]).permutation(places)
        return np.sort(order[: self.most])

    def original(self, places: np.ndarray, between: Any, by_centre: bool, n_there: int) -> Original:
        """From some rows, whose centres it may know."""
        table = open_table(
            self.task.rows(places),
            target=self.task.target[places],
            groups=None if self.task.groups is None else self.task.groups[places],
            centres=self.centre[places] if by_centre else None,
        )
        request = Request(
            kind=self.task.kind,  # type: ignore[arg-type]
            categories=self.task.categories,
            between=between,
            replication_rows=n_there,
        )
        return publish(table, request)


def tables(folder: Path, chosen: list[str] | None) -> Iterator[Centres]:
    """The tables whose rows name a place or a time."""
    for name, make in TABLES.items():
        if not chosen or name in chosen:
            yield make(folder, name)


def _flights(folder: Path, name: str) -> Centres:
    is_linear = name == "flights, delay by month"
    task = next(tasks(folder, ["flights, delay (linear)" if is_linear else "flights, late"]))
    month, airport = task.columns["month"].to_numpy(), task.columns["origin"].to_numpy(str)
    rows = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["arr_delay", "dep_delay"])
    if name == "flights, airports":
        centre, left_out = airport, ["origin"]
    elif name == "flights, both":
        centre, left_out = np.char.add(airport, np.char.mod(" %02d", month)), ["month", "origin"]
    elif name == "flights, airlines":
        centre, left_out = task.columns["carrier"].to_numpy(str), ["carrier"]
    elif name == "flights, destinations":
        centre, left_out = rows["dest"].to_numpy(str), ["distance"]
    elif name == "flights, weeks":
        days = pd.to_datetime(rows[["month", "day"]].assign(year=2013)).dt.dayofyear
        centre, left_out = (days.to_numpy() - 1) // 7, ["month"]
    else:
        centre, left_out = month, ["month"]
    columns = task.columns.drop(columns=left_out)
    return Centres(name, Task(name, columns, task.target, task.kind), centre)


def _hospital(folder: Path, name: str) -> Centres:
    is_count = name == "diabetes, days by payer"
    task = next(tasks(folder, ["hospital, days (Poisson)" if is_count else "hospital, again"]))
    column = "medical_specialty" if name == "diabetes, specialties" else "payer_code"
    table = pd.read_csv(folder / "diabetes130.csv.gz", usecols=[column], dtype=str)
    centre = table[column].fillna("").to_numpy(str)
    names, counts = np.unique(centre, return_counts=True)
    small = np.isin(centre, names[counts < 2000]) | (centre == "")
    return Centres(name, task, np.where(small, "", centre))


def _by_column(folder: Path, name: str, task: str, column: str, also: tuple[str, ...]) -> Centres:
    """A column that is no longer a predictor names the centre; others that follow from it go."""
    found = next(tasks(folder, [task]))
    centre = found.columns[column].fillna("").astype(str).to_numpy(str)
    columns = found.columns.drop(columns=[column, *also])
    codes = tuple(code for code in found.categories if code != column)
    return Centres(name, replace(found, columns=columns, categories=codes), centre)


def _days(folder: Path, name: str) -> Centres:
    task = next(tasks(folder, ["occupancy"]))
    day = pd.read_csv(folder / "occupancy.csv.gz", usecols=["date"])["date"].str[:10]
    return Centres(name, task, day.to_numpy(str))


def _heart(folder: Path, name: str) -> Centres:
    site = pd.read_csv(folder / "heart_disease_4site.csv.gz", usecols=["site"])["site"]
    task = next(tasks(folder, ["heart"]))
    # a consortium agrees on columns that every site records; codes are numbers, since single sites
    # have no patient with some of them
    gaps = task.columns.isna().groupby(site.to_numpy()).mean().max()
    columns = task.columns.loc[:, gaps < 0.1]
    return Centres(name, Task(name, columns, task.target), site.to_numpy(str))


def _forest(folder: Path, name: str) -> Centres:
    task = next(tasks(folder, ["forest 2 v rest"]))
    area = task.columns["area"].to_numpy(str)
    return Centres(name, Task(name, task.columns.drop(columns=["area", "soil"]), task.target), area)


TABLES = {
    "flights, months": _flights,
    "flights, airports": _flights,
    "flights, both": _flights,
    "diabetes, payers": _hospital,
    "diabetes, specialties": _hospital,
    "heart, sites": _heart,
    "forest, areas": _forest,
    "flights, airlines": _flights,
    "flights, delay by month": _flights,
    "diabetes, days by payer": _hospital,
    # occupations differ more than hospitals do
    "census, occupations": partial(_by_column, task="census", column="occupation", also=()),
    "flights, weeks": _flights,
    "flights, destinations": _flights,
    "diabetes, admissions": partial(
        _by_column, task="hospital, again", column="admission_source_id", also=()
    ),
    "diabetes, discharges": partial(
        _by_column, task="hospital, again", column="discharge_disposition_id", also=()
    ),
    "diabetes, ages": partial(_by_column, task="hospital, again", column="age", also=()),
    "census, educations": partial(
        _by_column, task="census", column="education", also=("educational-num",)
    ),
    "census, countries": partial(
        _by_column, task="census", column="native-country", also=("race",)
    ),
    "occupancy, days": _days,
    "forest, soils": partial(_by_column, task="forest 2 v rest", column="soil", also=("area",)),
}


@dataclass
class Line:
    """Counts of one table, one K and one kind of difference between centres."""

    key: dict[str, Any]
    replications: list[GlmReplication] = field(default_factory=list)
    stated: list[float] = field(default_factory=list)
    match_rows: list[int] = field(default_factory=list)
    trees: list[float] = field(default_factory=list)
    n_refused: int = 0

    def add(self, one: GlmReplication) -> None:
        """A new centre."""
        self.replications.append(one)
        self.stated.append(1 - one.at_new_centre)

    def values(self) -> dict[str, Any]:
        """As a line of the table."""
        n_same = sum(bool(one.same) for one in self.replications)
        return {
            **self.key,
            "centres": len(self.replications),
            "refused": self.n_refused,
            "agree": n_same,
            "same": n_same / max(1, len(self.replications)),
            "same slopes": _mean([bool(one.same_slopes) for one in self.replications]),
            "stated": _mean(self.stated),
            **self._support(),
            "trees": _mean(self.trees),
            "rows": int(np.median([one.n_rows for one in self.replications] or [0])),
            "rows to match": int(np.median(self.match_rows or [0])),
        }

    def _support(self) -> dict[str, Any]:
        """What patients say, and the mean loss at the new centre of each model."""
        if self.key["between"] == "none":  # cells of one population: agreement alone is counted
            return {}
        supports = [one.support for one in self.replications if one.support is not None]
        verdicts = [one.verdict for one in self.replications]
        return {
            "contradicted": _mean([one.contradicts for one in supports]),
            **{f"verdict: {word}": verdicts.count(word) for word in VERDICTS},
            "base rate": _mean([one.model.base for one in supports]),
            "own fit": _mean([one.own.loss.value for one in supports]),
            "model": _mean([one.model.loss.value for one in supports]),
            "own constant": _mean([one.model.base - one.gain.value for one in supports]),
        }


def _mean(values: list[Any]) -> float:
    return float(np.mean(values)) if values else float("nan")


VERDICTS = (
    "confirmed",
    "undecided",
    "unsupported",
    "questioned",
    "contradicted",
    "same slopes",
    "different",
)


def chosen(names: list[Any], n_centres: int) -> list[list[Any]]:
    """Originals: the first K centres (months are in order), then random ones."""
    rng = np.random.default_rng([2029, n_centres])
    originals = [names[:n_centres]]
    while len(originals) < N_ORIGINALS:
        one = sorted(rng.choice(len(names), n_centres, replace=False).tolist())
        originals.append([names[place] for place in one])
    return originals


def count(centres: Centres, kinds: list[str]) -> list[dict[str, Any]]:
    """All lines of one table, or those of some kinds."""
    lines = []
    names = centres.names
    for n_centres, kind in KINDS:
        if n_centres >= len(names) or (kinds and kind not in kinds):
            continue
        line = Line({"table": centres.name, "role": centres.role, "K": n_centres, "between": kind})
        for first in chosen(names, n_centres):
            _replicated(centres, first, kind, line)
        lines.append(line.values())
        show(lines[-1:])
    if not kinds:
        lines.append(_halves(centres))
        show(lines[-1:])
    return lines


def _replicated(centres: Centres, first: list[Any], kind: str, line: Line) -> None:
    """Every other centre alone: all of them, or as many random ones as are counted at most."""
    places = np.concatenate([centres.rows(name) for name in first])
    others = [name for name in centres.names if name not in first]
    rng = np.random.default_rng([2032, len(first)])
    others = [others[place] for place in sorted(rng.permutation(len(others))[:N_NEW].tolist())]
    smallest = min(len(centres.rows(name)) for name in others)
    between = 0 if kind == "none" else "typical"
    original = centres.original(places, between, kind == "learned", smallest)
    line.match_rows.append(original.study.evidence(original.model).rows)

    trees = None
    if kind != "none" and centres.task.kind == "logistic":
        trees = Trees(centres.task, places)
    for name in others:
        here = centres.rows(name)
        try:
            found = replicate(original.study, centres.task.table(here), opened=original.model)[1]
        except ReplearnError as error:
            print(f"  {centres.name}, {name}: {error}")
            line.n_refused += 1
            continue
        line.add(found)
        if trees is not None:
            line.trees.append(trees.loss(here))


class Trees:
    """Boosted trees of the original's rows: what a model that is not linear is worth elsewhere."""

    def __init__(self, task: Task, places: np.ndarray) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        self.task = task
        self.columns = task.columns.copy(deep=False)
        for name in self.columns:
            if not pd.api.types.is_numeric_dtype(self.columns[name]):
                codes, levels = pd.factorize(self.columns[name])
                rare = pd.Series(codes).map(pd.Series(codes).value_counts()).to_numpy() < 50
                self.columns[name] = np.where(rare | (len(levels) > 200), -1, codes)
        self.trees = HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=15)
        self.trees.fit(self.columns.iloc[places].to_numpy(float), task.target[places])

    def loss(self, places: np.ndarray) -> float:
        """Mean log-loss on some rows."""
        risks = self.trees.predict_proba(self.columns.iloc[places].to_numpy(float))[:, 1]
        risks = np.clip(risks, 1e-6, 1 - 1e-6)
        y = self.task.target[places]
        return float(-np.mean(np.where(y == 1, np.log(risks), np.log1p(-risks))))


def _halves(centres: Centres) -> dict[str, Any]:
    """Random samples of the whole table, as many rows as a centre has: one population."""
    line = Line({"table": centres.name, "role": centres.role, "K": 0, "between": "none"})
    rows = np.concatenate([centres.rows(name) for name in centres.names])
    size = min(int(np.median([len(centres.rows(name)) for name in centres.names])), len(rows) // 2)
    groups = np.arange(len(rows)) if centres.task.groups is None else centres.task.groups[rows]
    kinds, places = np.unique(groups, return_inverse=True)
    for number in range(N_ORIGINALS):
        rng = np.random.default_rng([2030, number])
        order = rows[np.argsort(rng.permutation(len(kinds))[places], kind="stable")]
        original = centres.original(order[:size], 0, False, size)
        for start in range(size, min(5 * size, len(order) - size + 1), size):
            table = centres.task.table(order[start : start + size])
            line.add(replicate(original.study, table, opened=original.model)[1])
    return line.values()


# --- centres whose rows were spoiled --------------------------------------------------------------


def spoiled(task: Task, places: np.ndarray, how: str, strongest: str) -> Any:
    """A centre's rows: every other column permuted, or an effect reversed or doubled."""
    rng = np.random.default_rng(2031)
    columns = task.rows(places).copy()
    y = task.target[places].copy()
    if how == "permuted":  # each column by itself, but the strongest
        for name in columns:
            if name != strongest:
                columns[name] = columns[name].to_numpy()[rng.permutation(len(columns))]
    if how == "all permuted":
        y = y[rng.permutation(len(y))]
    if how == "reversed":
        values = columns[strongest]
        columns[strongest] = values.max() + values.min() - values
    if how == "doubled":
        values = columns[strongest]
        columns[strongest] = values.mean() + (values - values.mean()) / 2
    return open_table(columns, target=y)


SPOILED = ("as it is", "permuted", "all permuted", "reversed", "doubled")
#: Columns that carry most of the model.
STRONGEST = {
    "flights, months": "dep_delay",
    "diabetes, payers": "number_inpatient",
    "heart, sites": "cp",
    "forest, areas": "Elevation",
}


def contradictions(centres: Centres) -> list[dict[str, Any]]:
    """What is told to the last centre, whole and spoiled."""
    names = centres.names
    places = np.concatenate([centres.rows(name) for name in names[:-1]])
    here = centres.rows(names[-1])
    original = centres.original(places, "typical", True, min(1200, len(here)))
    strongest = STRONGEST[centres.name]
    lines = []
    for how in SPOILED:
        table = spoiled(centres.task, here, how, strongest)
        _, found = replicate(original.study, table, opened=original.model)
        support = found.support
        assert support is not None
        lines.append({
            "table": centres.name,
            "rows": how,
            "verdict": found.verdict,
            "contradicted": support.contradicts,
            "p": support.test.p_value,
            "p slopes": support.test.p_slopes,
            "gain": support.gain.value,
        })  # fmt: skip
    return lines


def show(lines: list[dict[str, Any]]) -> None:
    """Line by line."""
    for line in lines:
        words = (f"{v:.4f}" if isinstance(v, float) else str(v) for v in line.values())
        print("  ".join(words), flush=True)


def write(path: Path, lines: list[dict[str, Any]], key: list[str]) -> None:
    """New lines take the place of older ones with the same key; the others stand."""
    table = pd.DataFrame(lines)
    if path.exists():
        table = pd.concat([pd.read_csv(path), table], ignore_index=True)
        table = table.drop_duplicates(key, keep="last")
    order = table["table"].map(list(TABLES).index)
    table.loc[order.sort_values(kind="stable").index].to_csv(path, index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--between", nargs="*", default=[], help="none, typical, learned")
    parser.add_argument("--write", type=Path, help="folder whose centres.csv gets these lines")
    options = parser.parse_args()
    lines, bad = [], []
    for centres in tables(options.data, options.tables):
        start = time.process_time()
        if centres.name in STRONGEST:
            bad += contradictions(centres)
            show(bad[-len(SPOILED) :])
        lines += count(centres, options.between)
        print(f"# {centres.name}: {time.process_time() - start:.0f} s", flush=True)
        if options.write is not None:
            write(options.write / "centres.csv", lines, ["table", "K", "between"])
        if options.write is not None and bad:
            write(options.write / "contradicted.csv", bad, ["table", "rows"])
    for role in (CHOOSE, SEEN, JUDGE, FRESH):
        print("#", role)
    print(pd.DataFrame(lines).to_string(index=False))


if __name__ == "__main__":
    main()
