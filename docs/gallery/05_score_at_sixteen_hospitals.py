"""
Updating a score at sixteen hospitals
=====================================

A risk score was published years ago, and one of its weights has aged. Sixteen hospitals want one
updated score, without sending patients anywhere.
"""

# %%
# The old score is a table of weights. The truth has moved: lesions count more than they did.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import replearn as rl

NAMES = ["age", "creatinine", "pressure", "sodium", "lesions"]
OLD = {"age": 0.9, "creatinine": 0.7, "pressure": -0.5, "lesions": 0.1}
TRUE = np.array([0.9, 0.7, -0.5, 0.0, 0.6])


def patients(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    died = rng.random(n_rows) < 1 / (1 + np.exp(2.0 - X @ TRUE))
    return pd.DataFrame(X, columns=NAMES), died.astype(int)


# %%
# A plan for sixteen sites: all sixteen shall agree with probability .8. Sixteen are harder than
# two, since the hospital that is farthest off decides. Six hint bits make up for that. The seed is
# our second: the plan called the first one unlucky, which it can tell before any site fits.

plan = rl.plan_from_pilot(
    *patients(800, seed=0),
    samples_per_site=8000,
    sites=16,
    hint_bits=6,
    max_disagreement=0.2,
    scores=[OLD],
    shared_seed="score 3",
)
print(plan)

hospitals = [patients(8000, seed=1 + i) for i in range(16)]
first = plan.protocol.estimator().fit(*hospitals[0])
others = [plan.protocol.estimator(hint=first.hint_).fit(*rows) for rows in hospitals[1:]]
n_same = 1 + sum(one.fingerprint_ == first.fingerprint_ for one in others)
print(f"{n_same} of 16 hospitals have the same model")

# %%
# What each hospital would have published alone, and what they agreed on. In the units of the
# columns; ``to_sklearn`` undoes the protocol's scaling.

alone = np.array([LogisticRegression().fit(*rows).coef_[0] for rows in hospitals])
unit = np.vstack([np.zeros(5), np.eye(5)])
logits = rl.to_sklearn(first.model_).decision_function(pd.DataFrame(unit, columns=NAMES))
agreed = logits[1:] - logits[0]

figure, axes = plt.subplots()
places = np.arange(5)
for i, weights in enumerate(alone):
    label = "each hospital alone" if i == 0 else None
    axes.plot(places, weights, linestyle="", color="0.6", marker="o", markersize=4, label=label)
axes.plot(
    places - 0.15,
    [OLD.get(n, 0) for n in NAMES],
    linestyle="",
    marker="s",
    label="old score",
    color="C1",
)
axes.plot(places + 0.15, agreed, linestyle="", marker="D", label="agreed", color="C0")
axes.set(ylabel="weight", xticks=places, xticklabels=NAMES)
axes.set_title("Sixteen scores, or one")
axes.legend(fontsize="small")
