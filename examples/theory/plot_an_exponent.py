# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "matplotlib"]
# ///
"""Plot an exponent: certified rows of Algorithm 1 against rho, with and without a sketch.

    python plot_an_exponent.py exponent.svg

Without a file name the script prints the slopes and draws nothing.
"""

import sys

import numpy as np

import replearn as rl

RHO = [0.1, 0.01, 0.001, 0.0001]
rows = {
    bits: [
        rl.plan(
            "svm",
            n_features=100,
            margin=0.2,
            max_disagreement=rho,
            mode="certified",
            sketch_bits=bits,
        ).plan.n_rows
        for rho in RHO
    ]
    for bits in (0, 3)
}
for bits, found in rows.items():
    slope = -np.polyfit(np.log(RHO), np.log(found), 1)[0]
    print(f"{bits} bits: rows {', '.join(f'{n:.2e}' for n in found)}; rho^-{slope:.2f}")
assert rows[3][-1] < rows[0][-1] / 1e6

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    for bits, found in rows.items():
        plt.loglog(RHO, found, "o-", label=f"{bits} published bits")
    plt.xlabel("disagreement rho")
    plt.ylabel("rows of each lab")
    plt.legend()
    plt.savefig(sys.argv[1])
