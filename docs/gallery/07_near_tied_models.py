"""
Choosing among near-tied models
===============================

Twelve finished models, nearly as good as each other, and two sites that shall pick the same one.
The best score on one site's rows is rarely the best at the other.
"""

# %%
# Handwritten digits of scikit-learn: even or odd? The candidates differ in how strongly they are
# regularised and in which pixels they see. They are fitted once, and never again.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

import replearn as rl

X, digit = load_digits(return_X_y=True)
y = digit % 2
order = np.random.default_rng(0).permutation(len(y))
train, pilot, rest = order[:500], order[500:797], order[797:]
candidates = [
    RidgeClassifier(alpha=alpha, random_state=0).fit(X[train[:n]], y[train[:n]])
    for alpha in (1, 10, 100, 1000)
    for n in (300, 400, 500)
]
accuracies = np.array([model.score(X[rest], y[rest]) for model in candidates])
print(accuracies.round(3))

# %%
# A pilot of 297 rows plans the noise. Forty times, the thousand rows that are left are split into
# two sites at random. Do both sites choose the same candidate? Once each takes its best score,
# once with shared noise under a published seed.


def is_right(rows):
    return np.column_stack([model.predict(X[rows]) == y[rows] for model in candidates])


plan = rl.plan_choice(row_scores=is_right(pilot), samples_per_site=500, max_disagreement=0.2)
rows_right = is_right(rest)
print(plan)

same = {"best score": 0, "shared noise": 0}
picks = {"best score": [], "shared noise": []}
for split in range(40):
    mixed = np.random.default_rng(split).permutation(len(rest))
    halves = [mixed[:500], mixed[500:]]
    best = [int(rows_right[half].mean(axis=0).argmax()) for half in halves]
    chosen = [
        rl.ReplicableChoiceClassifier(
            candidates,
            noise_scale=float(plan.noise_scale),
            samples_per_site=500,
            max_disagreement=0.2,
            shared_seed=split,
        )
        .fit(X[rest[half]], y[rest[half]])
        .choice_.index
        for half in halves
    ]
    for name, pair in (("best score", best), ("shared noise", chosen)):
        same[name] += pair[0] == pair[1]
        picks[name] += pair
print(same, "of 40 pairs")

# %%
# The price is a little accuracy, on average over seeds.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4))
left.bar(list(same), [n / 40 for n in same.values()], width=0.5)
left.set(ylabel="share of pairs that choose the same", ylim=(0, 1))
left.set_title("Agreement")
means = [accuracies[pick].mean() for pick in picks.values()]
right.plot(list(picks), means, linestyle="", marker="D", color="C1", markersize=9)
right.axhline(accuracies.max(), color="0.4", linestyle=":", label="best candidate")
right.set(
    ylabel="mean accuracy of the choice",
    xlim=(-0.5, 1.5),
    ylim=(accuracies.min() - 0.01, accuracies.max() + 0.01),
)
right.set_title("Price")
right.legend(fontsize="small")

# %%
# Halves of one table lean against each other: what one has too much of, the other lacks. So the
# best score does worse here than with sites that draw independently, for which the plan above
# expects about every second pair to differ.
