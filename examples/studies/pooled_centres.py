# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""Eight small centres replicate together: they send exact sums, and no patient leaves.

Each has 500 patients, too few to replicate alone. The joint model is the fit on all 4,000.
"""

import replearn as rl

ashford = rl.datasets.load_readmission("Ashford", 4000)
first = rl.ReplicableLogisticClassifier()
first.fit(ashford.drop(columns="readmitted"), ashford["readmitted"])
centres = {f"centre {i}": rl.datasets.load_readmission("Dunmore", 500, seed=i) for i in range(8)}

found, rounds = first.study_.begin(), 0
while not hasattr(found, "model"):
    sums = [rl.lab_sums(first.study_, table, found, lab=name) for name, table in centres.items()]
    found, rounds = rl.combine(first.study_, *sums, state=found), rounds + 1
print(
    f"{rounds} rounds of sums;",
    "same model as Ashford:",
    found.model.fingerprint == first.fingerprint_,
)
print(found)
assert found.model.fingerprint == first.fingerprint_
