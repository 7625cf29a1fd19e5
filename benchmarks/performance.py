"""Performance of replicated models on real tables, and how often labs get them.

    python benchmarks/performance.py DATA [--quick] [--tasks A;B] [--pairs 60] [--results FILE]

DATA is a folder of public tables (benchmarks/tasks.py names them). Each task is split into an
original, a replication of the same size and rows to test on, again and again. The original's
table is fitted with defaults once; cells for other bits and probabilities follow from the same
fit, since only their widths differ. After two splits the ridge that most of them chose is kept.
Splits below 4,000 were looked at while rules were chosen: 0 to 29 for the spread, 1000 to 1105
for the clipping of columns, 2000 to 2215 for ridge, levels and cells, pairs that differed on
3000 to 3029 for groups, dispersion and few expected events, and what rounding cost on 3030 to 3059
for the fourth bit. Those from 4,000 on chose
no size or threshold, but what products cost there (4000 to 4011) led to their shrinkage, whose
size was chosen on 2000 to 2007.

*differ* counts pairs under the study's own seed. *over coins* is the same probability given both
fits, averaged over all seeds: independent shifts make it a product over the numbers. Results are
JSON lines, one for each pair, and a second run goes on where the first one ended; ``--before``
goes on from the table of a run whose lines are gone.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from tasks import TASKS, Task, tasks

from replearn.codes import Cells, Coins, chance_of_each, width_for
from replearn.errors import ReplearnError
from replearn.glm import Fold, newton
from replearn.rows import MemoryBlocks
from replearn.study import (
    GlmStudy,
    Original,
    Request,
    RowEncoder,
    TableRows,
    publish,
    read_rows,
    replicate,
)
from replearn.study.original import worth_of
from replearn.tables import Table

FIRST = 4000
#: Task, basis and share of rows.
Key = tuple[str, str, float]
#: Bits (by default 3, or 4 where rounding would cost too much) and probability.
PLANS: dict[str, tuple[int | None, float]] = {
    "default": (None, 0.01),
    "3 bits": (3, 0.01),
    "2 bits": (2, 0.01),
    "1 bit": (1, 0.01),
    "3 bits, 0.1": (3, 0.1),
    "3 bits, 0.001": (3, 0.001),
}
SMALL_LABS = (300, 1000, 3000)
BASES = {"linear": ("linear", None), "splines": ("splines", None), "products": ("splines", "all")}
#: Splits that choose a ridge of their own.
N_CHOOSE = 2
QUICK = ("census", "census, 2 % positive", "pulsars", "occupancy", "banknotes", "heart", "skin")


def bases(task: Task) -> list[str]:
    """Bases that suit a task: products only where there are few columns."""
    if task.is_sparse:
        return ["linear"]
    few = task.columns.shape[1] <= 16 and task.n_classes == 2
    return ["linear", "splines", "products"] if few else ["linear", "splines"]


class Pair:
    """An original with defaults, and labs that fit its study."""

    def __init__(
        self, task: Task, basis: str, seed: int, share: float = 1.0, ridge: Any = "auto"
    ) -> None:
        here, there, self.test = task.split(seed)
        self.here, self.there = here, there[: max(50, int(share * len(there)))]
        self.task, self.seed = task, seed
        name, interactions = BASES[basis]
        self.original: Original = publish(
            task.table(here),
            Request(
                kind=task.kind,  # type: ignore[arg-type]
                basis=name,  # type: ignore[arg-type]
                interactions=interactions,  # type: ignore[arg-type]
                ridge=ridge,
                categories=task.categories,
                shared_seed=f"worth {seed}",
                replication_rows=len(self.there),
            ),
        )
        self.study = self.original.study
        self.design = self.study.design
        self.n_here, self.theta = self.fit(here)
        self.z = self.design.coordinates.of_theta(self.theta)

    def rows(self, places: np.ndarray) -> MemoryBlocks:
        """Encoded rows."""
        found = read_rows(TableRows(self.task.table(places), RowEncoder.of(self.design)))
        assert isinstance(found, MemoryBlocks)
        return found

    def fit(self, places: np.ndarray) -> tuple[int, np.ndarray]:
        """A lab's own fit."""
        rows = self.rows(places)
        summary = newton.Summary.of(rows, self.design.loss).check(self.design.loss)
        return summary.n_rows, newton.fit(rows, self.design.loss, self.design.ridge, summary)

    def cells(self, plan: str = "default") -> Cells:
        """Cells of a study with other bits and a different promise, from the same fit."""
        bits, rho = PLANS[plan]
        bits = bits or self.design.bits
        rate = float(self.study.max_disagreement)
        planned = width_for(chance_of_each(rate, self.z.size), self.design.bits)
        widths = self.study.widths * width_for(chance_of_each(rho, self.z.size), bits) / planned
        return Cells.drawn(widths, bits, Coins(self.design.seed))

    def performance(self, rows: MemoryBlocks, theta: np.ndarray) -> dict[str, float | None]:
        """Log-loss and AUC (or balanced accuracy) of coefficients on rows to test on."""
        whole = np.floor(theta * 2.0**26 + 0.5)
        found = worth_of(self.design.loss, (Fold(rows, rows.block, None, whole),))  # type: ignore[arg-type]
        best = found.auc or found.balanced_accuracy
        return {
            "base": found.base,
            "loss": found.loss.value,
            "auc": None if best is None else best.value,
        }


def over_coins(cells: Cells, apart: np.ndarray) -> float:
    """Probability of different codes over the coins, given the difference of two labs' numbers."""
    reach = cells.widths / 2 ** (cells.bits + 1)
    low = np.maximum(-cells.widths / 2, apart - reach)
    high = np.minimum(cells.widths / 2, apart + reach)
    return float(1 - np.prod(np.clip((high - low) / (2 * reach), 0, 1)))


def measure(
    task: Task, basis: str, seed: int, share: float, rivals: bool, ridge: Any
) -> dict[str, Any]:
    """One pair with all its plans."""
    started = time.process_time()
    pair = Pair(task, basis, seed, share, ridge)
    seconds = time.process_time() - started
    study, certificate = pair.study, pair.original.certificate
    n_there, theta = pair.fit(pair.there)
    z = pair.design.coordinates.of_theta(theta)
    test = pair.rows(pair.test)
    evidence = study.evidence(pair.original.model)
    plan = study.plan(study.stated_spreads, study.centres)
    deviations = study.centres.with_sampling(plan.sampling(n_there))
    line: dict[str, Any] = {
        "rows": pair.n_here,
        "rows_there": n_there,
        "numbers": pair.z.size,
        "ridge": pair.design.ridge,
        "bits": pair.design.bits,
        "seconds": round(seconds, 2),
        "expected": certificate.expected,
        "expected_mean": study.disagreement(n_there),
        "inflation": certificate.inflation,
        "problems": list(certificate.problems),
        "square": float(np.mean(((z - pair.z) / deviations) ** 2)),
        "own": pair.performance(test, pair.theta * 2.0**-26),
        "match_rows": evidence.rows,
        "match_bits": evidence.bits,
        "plans": {},
        "small": {},
    }
    for plan in PLANS:
        cells = pair.cells(plan)
        codes, sketch = cells.publish(pair.z)
        rounded = pair.design.coordinates.to_theta(cells.decode(codes, sketch))
        line["plans"][plan] = {
            "differ": bool((cells.replicate(z, sketch) != codes).any()),
            "coins": over_coins(cells, z - pair.z),
            **pair.performance(test, rounded),
        }
    if share == 1:
        codes, sketch = pair.cells().publish(pair.z)
        for n_rows in SMALL_LABS:
            if 2 * n_rows > len(pair.there):
                continue
            places = np.random.default_rng(seed).permutation(pair.there)[:n_rows]
            try:
                small = pair.design.coordinates.of_theta(pair.fit(places)[1])
                same = (pair.cells().replicate(small, sketch) == codes).all()
            except ReplearnError:  # no model at all, so no match
                same = False
            line["small"][str(n_rows)] = bool(same)
    if rivals:
        line["rivals"] = rival_performance(task, pair)
    return line


def _gets(study: GlmStudy, table: Table) -> bool:
    """Whether a lab gets the original's model; one whose rows have no model does not."""
    try:
        return replicate(study, table)[0].fingerprint == study.commitment
    except ReplearnError:
        return False


def many(task: Task, n_labs: int, seeds: range) -> dict[str, Any]:
    """One original and many replications at once: how often all labs get its model, as planned."""
    promised, got, n_here = 0.01, [], 0
    for seed in seeds:
        here, there, _ = task.split(seed)
        parts = np.array_split(there, n_labs)
        request = Request(
            max_disagreement=promised / n_labs,
            categories=task.categories,
            shared_seed=f"worth {seed}",
            replication_rows=len(parts[-1]),
        )
        study, n_here = publish(task.table(here), request).study, len(here)
        got.append([_gets(study, task.table(part)) for part in parts])
    return {
        "task": task.name,
        "rows": n_here,
        "labs": n_labs,
        "rows of a lab": n_here // n_labs,
        "originals": len(got),
        "all got the model": sum(map(all, got)),
        "labs that did not": sum(not one for labs in got for one in labs),
    }


# --- rivals ---------------------------------------------------------------------------------------


def rival_performance(task: Task, pair: Pair) -> dict[str, Any]:
    """Scikit-learn on one lab's rows, on the same rows to test on."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

    if task.kind != "logistic" or task.weights is not None:
        return {}
    encode = _encoder(task, pair.here)
    X, test, y = encode(pair.here), encode(pair.test), task.target[pair.test]
    few = np.random.default_rng(pair.seed).permutation(pair.here)[:1000]
    found = {}
    tuned = {"Cs": np.logspace(-3, 2, 6), "max_iter": 2000, "cv": 5, "scoring": "neg_log_loss"}
    trees = HistGradientBoostingClassifier(random_state=0)
    for name, model, rows, places in (
        ("logistic 1,000", LogisticRegressionCV(**tuned), encode(few), few),
        ("logistic", LogisticRegressionCV(**tuned), X, pair.here),
        ("trees", trees, X, pair.here),
    ):
        if len(np.unique(task.target[places])) < task.n_classes:
            continue
        if name == "trees":
            rows, here = (a.toarray() if sp.issparse(a) else a for a in (rows, test))
        else:
            here = test
        model.fit(rows, task.target[places])
        p = model.predict_proba(here)
        auc = (
            roc_auc_score(y, p[:, 1])
            if task.n_classes == 2
            else balanced_accuracy_score(y, model.classes_[p.argmax(axis=1)])
        )
        found[name] = {"loss": log_loss(y, p, labels=model.classes_), "auc": auc}
    return found


def _encoder(task: Task, here: np.ndarray) -> Any:
    """Standardised numbers and one column for each level, learned from one lab."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

    if task.is_sparse:
        scaler = MaxAbsScaler().fit(task.columns[here])
        return lambda places: scaler.transform(task.columns[places])
    columns = task.columns.copy()
    for name in task.categories:
        columns[name] = columns[name].astype(str)
    texts = [name for name in columns if not pd.api.types.is_numeric_dtype(columns[name])]
    columns[texts] = columns[texts].fillna("missing").astype(str)
    levels = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=10, sparse_output=False
    )
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encoder = make_column_transformer(
        (levels, texts), (numbers, make_column_selector(dtype_include=np.number))
    ).fit(columns.iloc[here])
    return lambda places: encoder.transform(columns.iloc[places])


# --- the command ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--quick", action="store_true", help="seven tasks, six pairs each")
    parser.add_argument("--tasks", help="names, with ; between them")
    parser.add_argument("--bases", default="linear,splines,products")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--share", type=float, default=1.0, help="rows of the replication")
    parser.add_argument("--labs", type=int, help="so many replications at once, and nothing else")
    parser.add_argument("--rivals", type=int, default=5, help="pairs with scikit-learn beside")
    parser.add_argument("--results", type=Path, default=Path("performance.jsonl"))
    parser.add_argument(
        "--before", type=Path, help="performance.csv of an earlier run: its pairs count"
    )
    parser.add_argument("--table", action="store_true", help="no measurement: only the table")
    parser.add_argument("--write", type=Path, help="folder for performance.csv and performance.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.labs:
        seeds = range(FIRST, FIRST + options.pairs)
        chosen = tasks(options.data, (options.tasks or "census").split(";"))
        found = pd.DataFrame([many(task, options.labs, seeds) for task in chosen])
        print(found.to_string(index=False))
        return
    known = [json.loads(line) for line in _lines(options.results)]
    done = {(line["task"], line["basis"], line["seed"], line["share"]) for line in known}
    before = {} if options.before is None else _rows(pd.read_csv(options.before))
    names = options.tasks.split(";") if options.tasks else list(QUICK if options.quick else TASKS)
    n_pairs = 6 if options.quick else options.pairs
    for task in tasks(options.data, names) if not options.table else ():
        for basis in bases(task):
            if basis not in options.bases.split(","):
                continue
            for seed in range(FIRST, FIRST + n_pairs):
                key = (task.name, basis, seed, options.share)
                if key in done or seed < _first((task.name, basis, options.share), before):
                    continue
                rivals = seed < FIRST + options.rivals and basis == "linear" and options.share == 1
                line = dict(zip(("task", "basis", "seed", "share"), key, strict=True))
                try:
                    ridge = _ridge(known, task.name, basis, options.share)
                    line |= measure(task, basis, seed, options.share, rivals, ridge)
                except ReplearnError as refusal:
                    line["refused"] = str(refusal)
                known.append(line)
                with options.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    table = summary(known, before)
    text = splits_of(known, before) + markdown(table)
    print(text)
    if options.write is not None:
        table.to_csv(options.write / "performance.csv", index=False)
        (options.write / "performance.md").write_text(text + "\n")


def _ridge(lines: list[dict[str, Any]], *key: Any) -> float | str:
    """The ridge that most splits of this kind chose, once there are two."""
    chosen = [
        line["ridge"]
        for line in lines
        if (line["task"], line["basis"], line["share"]) == key and "ridge" in line
    ]
    return float(max(chosen, key=chosen.count)) if len(chosen) >= N_CHOOSE else "auto"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _rows(table: pd.DataFrame) -> dict[Key, dict[str, Any]]:
    """Lines of a table by task, basis and share."""
    found = table.fillna({f"match {n}": "" for n in SMALL_LABS}).to_dict("records")
    return {(row["task"], row["basis"], row["share"]): row for row in found}


def _first(key: Key, before: dict[Key, dict[str, Any]]) -> int:
    """The first split that an earlier run has not seen."""
    return FIRST + before.get(key, {"pairs": 0})["pairs"]


def summary(
    lines: list[dict[str, Any]], before: dict[Key, dict[str, Any]] | None = None
) -> pd.DataFrame:
    """One line for each task, basis and share of rows."""
    before = before or {}
    rivals: dict[str, dict[int, dict[str, Any]]] = {}  # by task and split
    groups: dict[Key, list[dict[str, Any]]] = {}
    refused: dict[Key, int] = {}
    for line in lines:
        key = (line["task"], line["basis"], line["share"])
        if line.get("rivals"):
            rivals.setdefault(line["task"], {})[line["seed"]] = line["rivals"]
        if line["seed"] < _first(key, before):
            continue
        if "refused" in line:
            refused[key] = refused.get(key, 0) + 1
            continue
        groups.setdefault(key, []).append(line)
    order = {name: place for place, name in enumerate(TASKS)}
    found = []
    places = [*BASES]
    for key in sorted(
        {*groups, *before},
        key=lambda key: (key[2] != 1, order[key[0]], -key[2], places.index(key[1])),
    ):
        parts = [before[key]] if key in before else []
        if key in groups:
            parts.append(_row(key, groups[key], rivals.get(key[0], {}), refused.get(key, 0)))
        found.append(parts[0] if len(parts) == 1 else _joined(*parts))
    return pd.DataFrame(found)


def _joined(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A line of both runs; rivals are those of the earlier one."""
    share, row = new["pairs"] / (old["pairs"] + new["pairs"]), dict(old)
    for name, value in new.items():
        if name in ("pairs", "refused") or name.startswith("differ "):
            row[name] = old[name] + value
        elif name.startswith("match ") and isinstance(value, str):
            counts = [map(int, text.split(" of ")) for text in (old[name], value) if text]
            row[name] = " of ".join(str(sum(part)) for part in zip(*counts, strict=True))
        elif not isinstance(value, str) and not name.startswith(("logistic", "trees", "ahead")):
            row[name] = (1 - share) * old[name] + share * value
    gain = row["base"] - row["own loss"]
    for plan in PLANS:
        row[f"kept {plan}"] = (row["base"] - row[f"loss {plan}"]) / gain
    return row | {name: old[name] for name in ("rows", "numbers", "rival pairs", "share")}


def _row(
    key: Key, lines: list[dict[str, Any]], rivals: dict[int, dict[str, Any]], n_refused: int
) -> dict[str, Any]:
    def mean(pick: Any) -> float:
        values = [pick(line) for line in lines]
        return float("nan") if values[0] is None else float(np.mean(values))

    row: dict[str, Any] = {
        "task": key[0],
        "basis": key[1],
        "share": key[2],
        "rows": lines[0]["rows"],
        "numbers": int(np.median([line["numbers"] for line in lines])),
        "bits": mean(lambda line: line["bits"]),
        "pairs": len(lines),
        "refused": n_refused + sum(bool(line["problems"]) for line in lines),
        "seconds": mean(lambda line: line["seconds"]),
        "square": mean(lambda line: line["square"]),
        "expected": mean(lambda line: line["expected"]),
        "base": mean(lambda line: line["own"]["base"]),
        "own loss": mean(lambda line: line["own"]["loss"]),
        "own auc": mean(lambda line: line["own"]["auc"]),
        "match rows": mean(lambda line: line["match_rows"]),
        "match bits": mean(lambda line: line["match_bits"]),
    }
    gain = row["base"] - row["own loss"]
    for plan in PLANS:
        row[f"differ {plan}"] = sum(line["plans"][plan]["differ"] for line in lines)
        row[f"coins {plan}"] = mean(lambda line, p=plan: line["plans"][p]["coins"])
        loss = mean(lambda line, p=plan: line["plans"][p]["loss"])
        row[f"loss {plan}"] = loss
        row[f"kept {plan}"] = (row["base"] - loss) / gain if gain > 0 else float("nan")
        row[f"auc {plan}"] = mean(lambda line, p=plan: line["plans"][p]["auc"])
    for n_rows in SMALL_LABS:
        seen = [line["small"][str(n_rows)] for line in lines if str(n_rows) in line["small"]]
        row[f"match {n_rows}"] = f"{sum(seen)} of {len(seen)}" if seen else ""
    for name in ("logistic 1,000", "logistic", "trees"):
        for what in (
            "loss",
            "auc",
        ):  # the difference to the own fit on the same splits, added to it
            values = [
                rivals[line["seed"]][name][what] - line["own"][what]
                for line in lines
                if name in rivals.get(line["seed"], {})
            ]
            found = row[f"own {what}"] + float(np.mean(values or [np.nan]))
            row[f"{name} {what}"] = min(found, 1.0) if what == "auc" else found
    ahead = [  # on the same splits
        line["plans"]["default"]["auc"] - rivals[line["seed"]]["logistic"]["auc"]
        for line in lines
        if "logistic" in rivals.get(line["seed"], {})
    ]
    row["ahead"] = float(np.mean(ahead)) if ahead else float("nan")
    row["rival pairs"] = len(ahead)
    return row


def splits_of(lines: list[dict[str, Any]], before: dict[Key, dict[str, Any]]) -> str:
    """Which splits were used, and whether rules were chosen on some of them."""
    last = max([line["seed"] for line in lines] + [_first(key, before) - 1 for key in before])
    first = min([FIRST, *(line["seed"] for line in lines)])
    seen = sum(line["seed"] < FIRST for line in lines)
    tuned = f"pairs whose split had been used to tune the library: {seen}"
    return f"Splits {first} to {last}; {tuned}.\n\n"


def markdown(table: pd.DataFrame) -> str:
    """The summary in words and a table."""
    main_part = table[table["share"] == table["share"].max()]
    plan = "default"
    n_pairs, differ = int(main_part["pairs"].sum()), int(main_part[f"differ {plan}"].sum())
    weighted = np.average(main_part["expected"], weights=main_part["pairs"])
    coins = np.average(main_part[f"coins {plan}"], weights=main_part["pairs"])
    ahead = main_part["ahead"]
    plain, splines = (ahead[main_part["basis"] == name].dropna() for name in ("linear", "splines"))
    text = [
        f"{n_pairs:,} pairs: {differ} differ ({differ / n_pairs:.2%}; over all seeds {coins:.2%}; "
        f"certificates {weighted:.2%}; planned 1%).",
        f"Kept of the lab's own gain: median {main_part[f'kept {plan}'].median():.4f}, least "
        f"{main_part[f'kept {plan}'].min():.4f}.",
        f"AUC against tuned LogisticRegression on one lab, {int(main_part['rival pairs'].sum())} "
        f"pairs on the same splits: linear median {plain.median():+.4f}, least {plain.min():+.4f}; "
        f"splines median {splines.median():+.4f}, least {splines.min():+.4f}. Many classes: "
        "balanced accuracy in its place.",
        "",
        "| task | basis | rows | numbers | bits | differ | 3 bits (0.1, 0.01, 0.001), 2, 1 | "
        "expected | kept; 3, 2, 1 bits | log-loss: base, own, ours | AUC: own, ours | ahead of "
        "tuned; tuned, 1,000 rows, trees | patients to match, guesses (log2) | "
        "match 300, 1,000, 3,000 |",
        "|---|---|--:|--:|--:|---|---|--:|---|---|---|---|---|---|",
    ]
    for _, row in table.iterrows():
        share = "" if row["share"] == 1 else f", replication {row['share']:.3g} of the rows"
        differs = [
            row[f"differ {p}"]
            for p in ("3 bits, 0.1", "3 bits", "3 bits, 0.001", "2 bits", "1 bit")
        ]
        kept = [f"{row[f'kept {p}']:.3f}" for p in (plan, "3 bits", "2 bits", "1 bit")]
        refused = f" ({row['refused']} refused)" if row["refused"] else ""
        cells = (
            f"{row['task']}{share}",
            row["basis"],
            f"{row['rows']:,}",
            f"{row['numbers']:,}",
            f"{row['bits']:.1f}",
            f"{row[f'differ {plan}']} of {row['pairs']}{refused}",
            ", ".join(map(str, differs)),
            f"{row['expected']:.4f}",
            f"{kept[0]}; {', '.join(kept[1:])}",
            f"{row['base']:.4f}, {row['own loss']:.4f}, {row[f'loss {plan}']:.4f}",
            f"{row['own auc']:.4f}, {row[f'auc {plan}']:.4f}",
            f"{row['ahead']:+.4f}; {row['logistic auc']:.4f}, "
            f"{row['logistic 1,000 auc']:.4f}, {row['trees auc']:.4f}",
            f"{row['match rows']:,.0f}, {row['match bits']:.0f}",
            ", ".join(row[f"match {n}"] for n in SMALL_LABS if row[f"match {n}"]),
        )
        text.append("| " + " | ".join(map(str, cells)).replace("nan", "-") + " |")
    return "\n".join(text)


if __name__ == "__main__":
    main()
