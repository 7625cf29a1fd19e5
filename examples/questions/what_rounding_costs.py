# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""What does agreement cost? One model with 1 to 4 published bits beside the lab's own fit.

The log-loss is that on 20,000 new patients. A lab's own fit agrees with nobody.
"""

import numpy as np

from replearn import ReplicableLogisticClassifier
from replearn.datasets import load_readmission


def patients(name, n_rows):
    table = load_readmission(name, n_rows)
    return table.drop(columns="readmitted"), table["readmitted"].to_numpy()


def loss(model):
    p = model.predict_proba(new)[:, 1]
    return -np.mean(np.where(outcome == 1, np.log(p), np.log1p(-p)))


here, there, (new, outcome) = (
    patients("Ashford", 4000),
    patients("Birchwood", 4000),
    patients("Dunmore", 20000),
)
base = outcome.mean()
print(f"base rate: log-loss {-(base * np.log(base) + (1 - base) * np.log1p(-base)):.4f}")
losses = {}
for bits in (1, 2, 3, 4):
    first = ReplicableLogisticClassifier(sketch_bits=bits).fit(*here)
    same = ReplicableLogisticClassifier(study=first.study_).fit(*there).replication_.same
    losses[bits] = loss(first)
    print(f"{bits} bits: log-loss {losses[bits]:.4f}, the second lab has the same model: {same}")
assert losses[4] < losses[1]
