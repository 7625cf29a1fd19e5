# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn"]
# ///
"""Change a constant of the paper's formulas, or set a size by hand, and see what a plan asks for.

Paper mode takes the printed formulas with all constants 1. `constants` sets them by symbol.
"""

import replearn as rl

given = {"n_features": 20, "margin": 0.5, "max_error": 0.2, "max_disagreement": 0.2}
for constants in ({}, {"C1": 0.5}, {"C2": 0.1}, {"C1": 0.5, "C2": 0.1, "C3": 0.1, "C4": 2.0}):
    plan = rl.plan("svm", mode="paper", constants=constants, fit_intercept=False, **given).plan
    print(f"{constants!s:<48} k = {plan.n_components:>3}, B = {plan.n_batches:>6,},", end=" ")
    print(f"n = {plan.batch_size:>4}, beta = {plan.grid_width}, rows {plan.n_rows:>9,}")

X, y = rl.datasets.make_margin(2500, 20, margin=0.5, max_margin=0.9, random_state=1)
sizes = {"n_batches": 50, "batch_size": 50, "n_components": 60, "grid_width": 0.4}
fitted = rl.ReplicableSVMClassifier(mode="paper", margin=0.5, fit_intercept=False, **sizes).fit(
    X, y
)
print(f"by hand: error {1 - fitted.score(X, y):.3f}, proved disagreement", end=" ")
print(f"{fitted.certificate_.proved:.2f}")
assert fitted.plan_.n_rows == 2500
