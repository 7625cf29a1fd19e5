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

import duckdb

import replearn as rl

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

names = [f"small {i}" for i in range(len(small))]
state, counted = study.begin(), []
while not hasattr(state, "model"):
    # each centre splits its sums: one share for each of the others, and one to keep
    sent = []
    for name, table in zip(names, small, strict=True):
        rows = duckdb.from_df(table).to_arrow_table()
        sent.append(rl.lab_shares(study, rows, state, lab=name, labs=names, counted=counted))
    # each adds up what it got, and sends the result to whoever combines; in the first round to
    # all others, too: they look at the counts before they answer again
    added = [rl.combine(study, *(shares[name] for shares in sent), state=state) for name in names]
    state, counted = rl.combine(study, *added, state=state), counted or added
same = state.model.fingerprint == first.fingerprint_
print(f"8 small centres with secret shares; same model as Ashford: {same}")
assert same
