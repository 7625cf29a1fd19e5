# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""How many patients does a replication need? Count how often labs of several sizes agree.

The study was planned for 4,000 patients. Smaller labs match less often, and are told so beforehand.
"""

import warnings

from replearn import ReplicableLogisticClassifier
from replearn.datasets import load_readmission


def patients(n_rows, seed):
    table = load_readmission("Birchwood", n_rows, seed=seed)
    return table.drop(columns="readmitted"), table["readmitted"]


first = ReplicableLogisticClassifier().fit(*patients(4000, "original"))
warnings.simplefilter("ignore")  # small labs are warned
print("patients   agreement rate   labs that match, of 10")
matches = {}
for n_rows in (250, 500, 1000, 2000, 4000):
    found = [
        ReplicableLogisticClassifier(study=first.study_).fit(*patients(n_rows, seed)).replication_
        for seed in range(10)
    ]
    matches[n_rows] = sum(one.same for one in found)
    print(f"{n_rows:8,} {1 - found[0].disagreement:16.1%} {matches[n_rows]:12}")
assert matches[250] < 9 <= matches[4000]
