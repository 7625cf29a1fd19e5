"""Is the proof fair? Forgers who have a study file and no patient, or few patients.

    python benchmarks/adversary.py [DATA] [--rows 8000] [--write docs/results]

A forger reads the study file alone: cells, the byte of each number, the base rate of its target,
and the commitment. They try models from the most likely one on, as if numbers were normal, and the
commitment tells them when they have found it. Each try is made: a model, its fingerprint, a
comparison. How strong the model is as a whole they do not know, so they take turns among several
strengths. Beside their guesses stands what `publish` prints.

Studies are those that people make: planned for samples of one population (``between=0``), for
typical centres, for small labs, for sixteen centres; few columns and many. Then come forgers with
some patients of their own, who begin at their own fit. With a folder of tables: studies of real
patients and flights, planned for small labs.
"""

import argparse
import heapq
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from tasks import tasks

from replearn.glm import GlmModel
from replearn.study import GlmStudy, Original, Request, publish, replicate
from replearn.tables import open_table

#: Guesses that are made at most.
MOST_TRIED = 1 << 13
#: Strengths that forgers take for possible: root mean squares of the numbers.
STRENGTHS = (0.05, 0.1, 0.2, 0.4, 0.8)
STUDIES = {
    "one population": {"between": 0},
    "one population, labs of 1,200": {"between": 0, "replication_rows": 1200},
    "typical centres": {},
    "typical centres, labs of 1,200": {"replication_rows": 1200},
    "sixteen typical centres": {"max_disagreement": 0.0006},
}
#: Real tables, and rows of the smallest lab.
REAL = {"hospital, again": 3500, "hospital, within 30 days": 3500, "flights, late": 1200}


def patients(n_rows: int, n_columns: int, rng: np.random.Generator) -> tuple[dict, np.ndarray]:
    """Rows of one population: half of the columns matter."""
    X = rng.normal(size=(n_rows, n_columns))
    slopes = np.resize([0.8, 0.0, -0.5, 0.0, 0.3, 0.0], n_columns)
    y = (rng.random(n_rows) < 1 / (1 + np.exp(1.5 - X @ slopes))).astype(int)
    return {f"x{j}": X[:, j] for j in range(n_columns)}, y


def original_of(n_rows: int, n_columns: int, seed: int, options: dict) -> Original:
    """A study of some rows."""
    columns, y = patients(n_rows, n_columns, np.random.default_rng(seed))
    return publish(open_table(columns, target=y), Request(shared_seed=f"forged {seed}", **options))


def forged(
    study: GlmStudy, constant: int, centre: np.ndarray, deviations: list[np.ndarray]
) -> float:
    """Guesses until the commitment is met, from a centre on; infinite if there are too many."""
    searches = [
        best_first(*_ladders(study, centre, deviation), constant) for deviation in deviations
    ]
    seen: set[bytes] = set()
    for n_guesses, codes in enumerate(_in_turn(searches, seen), start=1):
        model = GlmModel(study.design, codes)
        if study.commits_to(model.fingerprint):
            return n_guesses
        if n_guesses >= MOST_TRIED:
            break
    return math.inf


def _in_turn(searches: list[Iterator[np.ndarray]], seen: set[bytes]) -> Iterator[np.ndarray]:
    """One guess of each search after the other, none of them twice."""
    for codes in itertools.chain.from_iterable(itertools.zip_longest(*searches)):
        if codes is not None and codes.tobytes() not in seen:
            seen.add(codes.tobytes())
            yield codes


def _ladders(
    study: GlmStudy, centre: np.ndarray, deviation: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Codes of each number and what they cost, the cheapest first."""
    cells, design = study.design.cells, study.design
    offsets = cells.offsets(centre, design.published)
    codes, costs = [], []
    for j, offset in enumerate(offsets.tolist()):
        near = round(offset) + np.arange(-4, 5)
        cost = ((near - offset) * cells.widths[j] / deviation[j]) ** 2 / 2
        order = np.argsort(cost, kind="stable")
        codes.append(near[order])
        costs.append(cost[order] - cost[order[0]])
    return codes, costs


def best_first(
    codes: list[np.ndarray], costs: list[np.ndarray], constant: int
) -> Iterator[np.ndarray]:
    """Code vectors in the order of their cost; the base rate is published, so one number is known.

    From a vector follow those with the last raised number raised further, and those with one of the
    later numbers raised for the first time.
    """
    heap: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
    while heap:
        cost, raised = heapq.heappop(heap)
        vector = np.array([one[0] for one in codes], dtype=np.int64)
        vector[0] = constant
        for number, rank in raised:
            vector[number] = codes[number][rank]
        yield vector

        last, rank = raised[-1] if raised else (0, 0)
        if raised and rank + 1 < len(costs[last]):
            more = float(costs[last][rank + 1] - costs[last][rank])
            heapq.heappush(heap, (cost + more, (*raised[:-1], (last, rank + 1))))
        for number in range(last + 1, len(codes)):
            heapq.heappush(heap, (cost + float(costs[number][1]), (*raised, (number, 1))))


def by_study(n_rows: int, n_columns: int, name: str, n_originals: int) -> dict:
    """What forgers without a patient need for one kind of study, and what the study says."""
    options = STUDIES[name]
    originals = [original_of(n_rows, n_columns, seed, options) for seed in range(n_originals)]
    return without_patients(name, n_columns, originals)


def by_table(folder: Path) -> Iterator[dict]:
    """The same for real rows, of which an original has 20,000."""
    for name, n_there in REAL.items():
        task = next(tasks(folder, [name]))
        here = task.split(0)[0]
        request = Request(categories=task.categories, replication_rows=n_there)
        original = publish(task.table(here), request)
        title = f"{name}, labs of {n_there:,}"
        yield without_patients(title, task.columns.shape[1], [original])


def without_patients(name: str, n_columns: int, originals: list[Original]) -> dict:
    """A line of forgers who have the study file alone."""
    guesses, stated, rows = [], [], []
    for original in originals:
        study, model = original.study, original.model
        evidence = study.evidence(model)
        zero = np.zeros(study.design.n_numbers)
        deviations = [np.full(zero.size, strength) for strength in STRENGTHS]
        guesses.append(forged(study, int(model.codes[0]), zero, deviations))
        stated.append(evidence.bits)
        rows.append(evidence.rows)
    return {
        "study": name,
        "columns": n_columns,
        "patients": 0,
        "matches at once": 0.0,
        "guesses": np.median(guesses),
        "stated bits": np.median(stated),
        "stated rows": np.median(rows),
        "forged": float(np.isfinite(guesses).mean()),
    }


def with_patients(n_rows: int, n_columns: int, n_here: int, n_labs: int) -> dict:
    """Forgers with some patients, whose fit they search from; the study is of one population."""
    original = original_of(n_rows, n_columns, 0, STUDIES["one population"])
    study, model = original.study, original.model
    evidence = study.evidence(model)
    direct, guesses = [], []
    for lab in range(n_labs):
        columns, y = patients(n_here, n_columns, np.random.default_rng([7, n_here, lab]))
        own, replication = replicate(study, open_table(columns, target=y))
        direct.append(bool(replication.same))
        z = study.design.cells.decode(own.codes, study.design.published)
        z = z + replication.positions * study.widths
        plan = study.plan(study.stated_spreads, study.centres)
        deviations = study.centres.with_sampling(plan.sampling(n_here))
        guesses.append(forged(study, int(model.codes[0]), z, [deviations]))
    return {
        "study": "one population",
        "columns": n_columns,
        "patients": n_here,
        "matches at once": float(np.mean(direct)),
        "guesses": np.median(guesses),
        "stated bits": evidence.bits,
        "stated rows": evidence.rows,
        "forged": float(np.isfinite(guesses).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="folder of tables, for real studies")
    parser.add_argument("--rows", type=int, default=8000, help="of the original")
    parser.add_argument("--originals", type=int, default=2)
    parser.add_argument("--write", type=Path, help="folder for adversary.csv")
    options = parser.parse_args()
    lines = []
    for n_columns in (6, 20):
        for name in STUDIES:
            lines.append(by_study(options.rows, n_columns, name, options.originals))
            print(lines[-1], flush=True)
    for n_here in (200, 1000, 3000):
        lines.append(with_patients(options.rows, 20, n_here, 2 * options.originals))
        print(lines[-1], flush=True)
    for line in by_table(options.data) if options.data is not None else ():
        lines.append(line)
        print(line, flush=True)
    table = pd.DataFrame(lines)
    print(table.to_string(index=False))
    if options.write is not None:
        table.to_csv(options.write / "adversary.csv", index=False)


if __name__ == "__main__":
    main()
