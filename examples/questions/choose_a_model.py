# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""Which of three finished models? Ten hospitals choose alone, and then with shared coins.

Two candidates are nearly tied, so hospitals that take the best on their own patients disagree.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from replearn import ReplicableChoiceClassifier
from replearn.datasets import load_readmission

COLUMNS = ["age", "length_of_stay", "prior_admissions", "systolic"]


def patients(name, n_rows, seed=0):
    table = load_readmission(name, n_rows, seed=seed)
    return table[COLUMNS].to_numpy(dtype=float), table["readmitted"].to_numpy()


X, y = patients("Ashford", 4000)
candidates = {
    "logistic, 2024": LogisticRegression(max_iter=1000).fit(X[:1000], y[:1000]),
    "logistic, 2025": LogisticRegression(max_iter=1000).fit(X[1000:2000], y[1000:2000]),
    "trees": HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(X, y),
}
alone, shared = [], []
for seed in range(10):
    rows, outcome = patients("Dunmore", 2000, seed)
    scores = {
        name: -log_loss(outcome, model.predict_proba(rows)) for name, model in candidates.items()
    }
    alone.append(max(scores, key=scores.get))
    choice = ReplicableChoiceClassifier(candidates, scoring="neg_log_loss", max_error=0.02)
    choice.fit(rows, outcome)
    shared.append(
        list(candidates)[int(np.argmax([m is choice.chosen_ for m in candidates.values()]))]
    )
for kind, votes in (("alone", alone), ("shared", shared)):
    print(f"{kind:<7}", {name: votes.count(name) for name in candidates})
assert len(set(shared)) == 1 < len(set(alone))
