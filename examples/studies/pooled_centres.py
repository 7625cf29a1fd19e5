# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas", "duckdb", "pyarrow"]
# ///
"""Centres replicate together: they send exact sums, and no patient leaves.

Three large centres first. Then eight with 500 patients each: so few that their sums would show
single patients, so nobody may see them. Sums are whole numbers, so each centre splits its own into
shares that look like random numbers, one for each centre. Only the total of all shares tells
something: the sums of all 4,000 patients.
"""

import secrets
from functools import reduce
from operator import add

import duckdb
import numpy as np

import replearn as rl
from replearn.rows import ExactSums

ashford = rl.datasets.load_readmission("Ashford", 4000)
first = rl.ReplicableLogisticClassifier()
study = first.fit(ashford.drop(columns="readmitted"), ashford["readmitted"]).study_
large = {f"centre {i}": rl.datasets.load_readmission("Dunmore", 2500, seed=i) for i in range(1, 4)}
small = [rl.datasets.load_readmission("Dunmore", 500, seed=i) for i in range(8)]

found, rounds = study.begin(), 0
while not hasattr(found, "model"):
    sums = [rl.lab_sums(study, table, found, lab=name) for name, table in large.items()]
    found, rounds = rl.combine(study, *sums, state=found), rounds + 1
same = found.model.fingerprint == first.fingerprint_
print(f"{rounds} rounds of sums; same model as Ashford: {same}")
print(found)
assert same

try:
    rl.lab_sums(study, small[0])
except rl.ReplearnError as refused:
    print(f"A centre with 500 patients sends no sums: {refused}")

PRIME = (1 << 127) - 1  # no sum is as large as half of it


def shared(sums, n):
    """Parts that add up to the sums modulo the prime; any n - 1 of them are random."""
    parts, rest = [], dict(sums.values)
    for _ in range(n - 1):
        draw = np.vectorize(lambda _: secrets.randbelow(PRIME), otypes=[object])
        parts.append({name: draw(value) for name, value in rest.items() if value.size})
        rest = {name: (v - parts[-1].get(name, 0)) % PRIME for name, v in rest.items()}
    empty = {name: value for name, value in rest.items() if not value.size}
    return [ExactSums(sums.of, {**part, **empty}) for part in [*parts, rest]]


def whole(total):
    """From sums modulo the prime to whole numbers, which may be negative."""
    values = {name: value % PRIME for name, value in total.values.items()}
    return ExactSums(
        total.of, {name: np.where(v > PRIME // 2, v - PRIME, v) for name, v in values.items()}
    )


state = study.begin()
while not hasattr(state, "model"):
    sent = []
    for table in small:  # each reads its rows some at a time, here with DuckDB
        rows = duckdb.from_df(table).to_arrow_reader(200)
        sent.append(shared(study.sums(rows, state), len(small)))
    received = [reduce(add, parts) for parts in zip(*sent, strict=True)]  # one share of each
    state = study.step(whole(reduce(add, received)), state)
same = state.model.fingerprint == first.fingerprint_
print(f"8 small centres with secret shares; same model as Ashford: {same}")
assert same
