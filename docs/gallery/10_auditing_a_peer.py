"""
Auditing a peer's claim
=======================

"Our method replicates: we round the coefficients to one decimal." Does it? ``audit`` fits any
scikit-learn classifier on many pairs of fresh samples and counts.
"""

# %%
# The peer's method, as a scikit-learn classifier. ``audit`` compares what two fits predict with: a
# pair counts as the same only if every coefficient is equal.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import replearn as rl


class RoundedLogistic(LogisticRegression):
    def fit(self, X, y):
        super().fit(X, y)
        self.coef_, self.intercept_ = self.coef_.round(1), self.intercept_.round(1)
        return self


def draw(n_rows, rng):
    X = rng.normal(size=(n_rows, 8))
    score = X @ [1.0, -0.7, 0.5, 0.3, 0.2, 0.1, 0.0, 0.0]
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(int)


# %%
# Three methods, the same claim of at most .1, thirty pairs of labs with 10,000 rows each.

plan = rl.plan_from_pilot(
    *draw(600, np.random.default_rng(0)), samples_per_site=10_000, shared_seed="audit"
)
methods = {
    "LogisticRegression": LogisticRegression(),
    "rounded to one decimal": RoundedLogistic(),
    "replearn": plan.protocol.estimator(),
}
audits = {
    name: rl.audit(method, draw=draw, n_samples=10_000, n_pairs=30)
    for name, method in methods.items()
}
for name, found in audits.items():
    low, high = found.interval
    print(f"{name}: {found.disagreement:.2f} [{low:.2f}, {high:.2f}], {found.verdict}")

# %%
# Rounding by itself does not help: with eight numbers, one of them is near an edge in nearly every
# study. A shared shift of the grid and cells of the right width do.

figure, axes = plt.subplots(figsize=(6.5, 2.8))
for place, found in enumerate(audits.values()):
    low, high = found.interval
    error = [[found.disagreement - low], [high - found.disagreement]]
    axes.errorbar(found.disagreement, -place, xerr=error, capsize=4, linestyle="")
axes.axvline(0.1, color="0.4", linestyle=":", label="the claim")
axes.set_yticks([0, -1, -2], list(audits))
axes.set(xlabel="share of pairs with different models, 95 % interval", xlim=(-0.03, 1.03))
axes.set_title("What thirty pairs say")
axes.legend(fontsize="small", loc="center")

# %%
# Thirty pairs can refute a claim of .1, and seldom prove it: ``pairs_needed`` says how many can.

print(rl.pairs_needed(0.1))
