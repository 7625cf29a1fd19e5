"""
How many rows do I need?
========================

Ask before you collect them. A pilot says what a replicable model would be worth at any number of
rows per site, and where more rows stop to matter.
"""

# %%
# The pilot is scikit-learn's breast cancer table: 569 patients, and the ten columns with means.
# One plan looks at the rows; ``replan`` answers for other sizes in a moment.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import replearn as rl

X, y = load_breast_cancer(return_X_y=True)
plan = rl.plan_from_pilot(X[:, :10], y, samples_per_site=10_000, shared_seed="how many rows")
print(plan)

# %%
# The price of agreement falls like one over the rows. Hint bits, which the first site publishes
# about its own sample, buy what otherwise takes many times the rows.

sizes = [1000, 3000, 10_000, 30_000, 100_000]
losses = {
    bits: [plan.replan(samples_per_site=n, hint_bits=bits).table[2].log_loss for n in sizes]
    for bits in (0, 4)
}
base, pilot, _, full = plan.table

figure, axes = plt.subplots()
for bits, values in losses.items():
    axes.plot(sizes, values, label=f"agreed by two sites, {bits} hint bits")
axes.axhline(pilot.log_loss, color="0.4", linestyle=":", marker="", label="the pilot's own model")
axes.axhline(full.log_loss, color="0.4", linestyle="-", marker="", label="one site, not replicable")
axes.set(xscale="log", xlabel="rows per site", ylabel="expected log-loss")
axes.set_title("More rows make agreement cheap")
axes.legend(fontsize="small")
print(f"always the base rate: log-loss {base.log_loss:.3f}")

# %%
# Where a curve lies on the dotted line, the sites' rows add nothing to the pilot: publish the
# pilot's model, and save yourselves the study. These are estimates from 569 rows, not promises.
