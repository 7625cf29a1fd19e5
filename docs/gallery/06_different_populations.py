"""
Sites that do not share a population
====================================

Replicability is a promise about labs that draw from one population. What if one hospital's patients
are different? Sums of the sites show it, without a row leaving any of them.
"""

# %%
# Eight sites of 3,000 rows. At site H the third column means something else.

import matplotlib.pyplot as plt
import numpy as np

import replearn as rl


def rows(n_rows, seed, third=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    score = X @ [0.9, -0.6, third, 0.0] - 0.5
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(int)


plan = rl.plan_from_pilot(
    *rows(800, seed=0), samples_per_site=24_000, hint_bits=4, shared_seed="populations"
)
data = {name: rows(3000, seed=1 + i) for i, name in enumerate("ABCDEFG")}
data["H"] = rows(3000, seed=8, third=-0.4)

# %%
# Each site sends exact sums of its rows, a small file. ``combine`` adds them up to the model of all
# 24,000 rows, and asks with Cochran's Q whether the sites differ by more than chance.


def combined(names):
    return rl.combine(
        plan.protocol, [rl.row_sums(plan.protocol, *data[name], site=name) for name in names]
    )


everybody, without_h = combined("ABCDEFGH"), combined("ABCDEFG")
print(everybody)
print()
print("without H:", without_h.heterogeneity)

# %%
# A forest of the sites' own estimates, for the coded number in which they differ most.

worst = int(np.argmin(everybody.heterogeneity.by_number))
figure, axes = plt.subplots(figsize=(6, 3.6))
for place, site in enumerate(everybody.sites):
    odd = site.site == "H"
    axes.errorbar(
        site.estimate[worst],
        -place,
        xerr=1.96 * site.error[worst],
        marker="s" if odd else "o",
        color="C1" if odd else "C0",
        linestyle="",
        capsize=3,
    )
axes.axvline(0, color="0.5", linestyle=":")
axes.set_yticks([-i for i in range(8)], [site.site for site in everybody.sites])
axes.set(xlabel="estimate of a site, relative to all, in cells", ylabel="site")
axes.set_title("Site H has another population")

# %%
# What to do with H is for people to decide, not for a test. With many rows Q finds differences
# that do not matter: look at whether the model is another without the site.
