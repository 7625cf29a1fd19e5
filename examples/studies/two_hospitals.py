# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""Two hospitals, one model: the shortest study.

Ashford fits a model and publishes a study file. Birchwood has different patients, reads the study,
and gets exactly the same model.
"""

from replearn import ReplicableLogisticClassifier
from replearn.datasets import load_readmission

ashford, birchwood = load_readmission("Ashford", 4000), load_readmission("Birchwood", 4000)

first = ReplicableLogisticClassifier(shared_seed="2026-11 draw")
first.fit(ashford.drop(columns="readmitted"), ashford["readmitted"])

second = ReplicableLogisticClassifier(study=first.study_)
second.fit(birchwood.drop(columns="readmitted"), birchwood["readmitted"])

print("the same model:", second.fingerprint_ == first.fingerprint_)
print("patients in common: 0 of", len(ashford))
print("coefficients:", len(second.coef_.ravel()))
print(second.replication_)
assert second.fingerprint_ == first.fingerprint_
