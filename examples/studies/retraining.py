# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""Retraining: the same bytes each month, until the patients change.

In month 4 a programme at nursing homes begins, and most of their readmissions do not happen. Only
then does the retrained model differ. `replearn replicate --opened` names the coefficient.
"""

import warnings

from replearn import ReplicabilityWarning, ReplicableLogisticClassifier
from replearn.datasets import load_readmission

warnings.simplefilter("ignore", ReplicabilityWarning)  # the alarm below says the same


def month(number, programme=False):
    table = load_readmission("Ashford", 4000, seed=f"month {number}")
    if programme:
        table.loc[(table.discharge_to == "nursing home") & (table.index % 5 > 0), "readmitted"] = 0
    return table.drop(columns="readmitted"), table["readmitted"]


same = []
deployed = ReplicableLogisticClassifier().fit(*month(0))
for number in range(1, 6):
    rows = month(number, programme=number >= 4)
    found = ReplicableLogisticClassifier(study=deployed.study_).fit(*rows).replication_
    print(f"month {number}: {'same model' if found.same else 'ALARM'}")
    same.append(found.same)
assert same == [True, True, True, False, False]
