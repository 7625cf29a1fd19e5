# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "pandas"]
# ///
"""Which of three finished models? Ten hospitals choose alone, and then with shared coins.

Two candidates are nearly tied, so hospitals that take the best on their own patients disagree.
With shared coins every hospital adds the same noise to its scores::

    1  s <- eps / (1/2 + 1/3 + ... + 1/M)
    2  S_i <- mean score of model i on this hospital's patients, each between 0 and 1
    3  E_i <- exponential noise                                          (shared)
    4  return the i with the largest S_i + s E_i

What is given up is at most eps on average over seeds: the largest of M exponentials is
``1 + 1/2 + ... + 1/M`` on average. The gap of the two largest sums is at least exponential with
scale s, so hospitals whose score differences are within D choose differently with probability at
most D / s. With n patients each that is at most ``2 sqrt(ln M / n) / s``, by Hoeffding.
"""

import math

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from replearn.codes import Coins
from replearn.datasets import load_readmission

COLUMNS = ["age", "length_of_stay", "prior_admissions", "systolic"]
MAX_ERROR = 0.02  # eps: score that is given up for agreement, at most and on average
N_PATIENTS = 2000


def patients(name, n_rows, seed=0):
    table = load_readmission(name, n_rows, seed=seed)
    return table[COLUMNS].to_numpy(dtype=float), table["readmitted"].to_numpy()


def score(model, rows, outcome):
    """Mean log-probability of what happened, moved to [0, 1]: .001 and less is worth 0."""
    columns = np.searchsorted(model.classes_, outcome)
    probabilities = model.predict_proba(rows)[np.arange(len(rows)), columns]
    return float(np.mean(1 - np.log(np.clip(probabilities, 0.001, 1)) / math.log(0.001)))


def choose(scores, coins):
    """The name with the largest noisy score; the noise is the same at every lab."""
    noise = coins.exponentials("choice", len(scores))
    scale = MAX_ERROR / sum(1 / k for k in range(2, len(scores) + 1))
    noisy = np.array(list(scores.values())) + scale * noise
    return list(scores)[int(np.argmax(noisy))]


X, y = patients("Ashford", 4000)
candidates = {
    "logistic, 2024": LogisticRegression(max_iter=1000).fit(X[:1000], y[:1000]),
    "logistic, 2025": LogisticRegression(max_iter=1000).fit(X[1000:2000], y[1000:2000]),
    "trees": HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(X, y),
}
alone, shared, given_up = [], [], []
for seed in range(10):
    rows, outcome = patients("Dunmore", N_PATIENTS, seed)
    scores = {name: score(model, rows, outcome) for name, model in candidates.items()}
    alone.append(max(scores, key=scores.get))
    shared.append(choose(scores, Coins("2026")))
    given_up.append(scores[alone[-1]] - scores[shared[-1]])
for kind, votes in (("alone", alone), ("shared", shared)):
    print(f"{kind:<7}", {name: votes.count(name) for name in candidates})
print(f"Agreement cost {np.mean(given_up):.4f} of the score, {MAX_ERROR} is the most on average.")
assert len(set(shared)) == 1 < len(set(alone))
