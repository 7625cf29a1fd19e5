# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""Four centres: one publishes a model with splines, three replicate it on their own patients."""

import replearn as rl

tables = {name: rl.datasets.load_readmission(name, 3000) for name in rl.datasets.CENTRES}
labs = {}
for name, table in tables.items():
    lab = rl.ReplicableLogisticClassifier(basis="splines")
    if labs:
        lab = rl.ReplicableLogisticClassifier(study=labs["Ashford"].study_)
    labs[name] = lab.fit(table.drop(columns="readmitted"), table["readmitted"])

print(rl.compare(*(lab.model_ for lab in labs.values())))
for name in rl.datasets.CENTRES[1:]:  # the original saw the patients of Ashford
    found = rl.evaluate(labs["Ashford"], tables[name], "readmitted").performance
    print(
        f"Ashford's model at {name:<10} AUC {found.auc.value:.3f}, log-loss {found.loss.value:.4f}"
    )
assert len({lab.fingerprint_ for lab in labs.values()}) == 1
