"""
Table 1, redrawn with numbers
=============================

The paper's Table 1 lists six algorithms by rates such as ``1 / (margin^4 error^2 rho^2)``. How many
rows is that, with the constants?
"""

# %%
# ``table1`` computes them for one promise, in three modes: the paper's formulas, proved constants,
# and calibrated ones. Where an algorithm refuses, the table says why.

import matplotlib.pyplot as plt
import numpy as np

import replearn as rl

table = rl.table1(margin=0.5, max_error=0.1, max_disagreement=0.1, n_features=10)
print(table)

# %%
# A dot for each number. The lines join the modes of one algorithm.

figure, axes = plt.subplots(figsize=(7.5, 3.8))
styles = {"practical": ("o", "C0"), "certified": ("s", "C1"), "paper": ("^", "C2")}
for place, row in enumerate(table.rows):
    numbers = {mode: n for mode, n in row.n_samples.items() if n is not None}
    if numbers:
        axes.hlines(-place, min(numbers.values()), max(numbers.values()), color="0.8", zorder=0)
    for mode, n in numbers.items():
        mark, colour = styles[mode]
        axes.plot(n, -place, marker=mark, color=colour, linestyle="", markersize=8)
for mode, (mark, colour) in styles.items():
    axes.plot([], [], marker=mark, color=colour, linestyle="", label=mode)
axes.set_yticks([-i for i in range(len(table.rows))], [row.title for row in table.rows])
axes.set(xscale="log", xlabel="rows per lab")
axes.set_title("Rows per lab: margin .5, error .1, disagreement .1, ten columns")
axes.legend(fontsize="small", loc="lower right")

# %%
# How the rows of Algorithm 1 grow as the promise gets stricter.

promises = np.array([0.3, 0.2, 0.1, 0.05, 0.02])
figure, axes = plt.subplots(figsize=(6, 3.4))
for mode in ("practical", "certified"):
    rows = [
        rl.plan("svm", margin=0.5, max_error=0.1, max_disagreement=rho, n_features=10, mode=mode)
        for rho in promises
    ]
    axes.plot(promises, [one.n_samples for one in rows], label=mode)
axes.set(xscale="log", yscale="log", xlabel="disagreement", ylabel="rows per lab")
axes.set_xticks(promises, [str(rho) for rho in promises])
axes.minorticks_off()
axes.set_title("Algorithm 1, by its promise")
axes.legend(fontsize="small")
