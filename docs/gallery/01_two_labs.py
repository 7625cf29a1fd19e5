"""
Two labs, one model
===================

Two labs draw different rows from one population. Each fits on its own rows; do they get the same
model? With scikit-learn's logistic regression never, with a published protocol nearly always.
"""

# %%
# A population: ten numbers about a person, and whether they fell ill. Nobody but this script knows
# the true weights. A small pilot, which belongs to neither lab, plans the study.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import replearn as rl

WEIGHTS = np.array([1.2, -0.8, 0.6, 0.5, -0.4, 0.3, 0.2, 0.0, 0.0, 0.0])


def people(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 10))
    chance = 1 / (1 + np.exp(1.5 - X @ WEIGHTS))
    return X, np.where(rng.random(n_rows) < chance, "ill", "healthy")


plan = rl.plan_from_pilot(
    *people(1000, seed=0), samples_per_site=50_000, hint_bits=4, shared_seed="gallery"
)
print(plan)

# %%
# Each lab fits under the plan's protocol. The first one publishes four bits about where its
# estimate lies (``hint_``), and the second one uses them. The two models are compared by their
# fingerprints: no row leaves a lab.

lab_a, lab_b = people(50_000, seed=1), people(60_000, seed=2)
first = plan.protocol.estimator().fit(*lab_a)
second = plan.protocol.estimator(hint=first.hint_).fit(*lab_b)
print("lab A", first.fingerprint_)
print("lab B", second.fingerprint_)
print(rl.compare(first.model_, second.model_))

# %%
# The same two samples, fitted by ``LogisticRegression``: good models, and not the same one. The
# picture shows by how much the weights of the two labs differ.

plain = [LogisticRegression().fit(*lab).coef_[0] for lab in (lab_a, lab_b)]
ours = [lab.model_.coef for lab in (first, second)]

figure, axes = plt.subplots(figsize=(7, 3.2))
places = np.arange(10)
axes.bar(places - 0.2, np.abs(plain[0] - plain[1]), 0.4, label="LogisticRegression")
axes.bar(places + 0.2, np.abs(ours[0] - ours[1]), 0.4, label="replearn", hatch="//")
axes.set(xlabel="column", ylabel="difference of the weights", xticks=places)
axes.set_title("What two labs disagree about")
axes.legend()

# %%
# What that costs, on new rows: a little of the quality of the full fit.

new_X, new_y = people(20_000, seed=3)
print(rl.evaluate(first.model_, new_X, new_y))
