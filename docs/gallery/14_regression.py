"""
Regression: one line for two labs
=================================

Two labs measure the same thing on different people. Each fits least squares, and the coefficients
differ in every digit. With a published protocol they get the same regression, to the bit.
"""

# %%
# The pilot: scikit-learn's diabetes table, 442 patients, whose progression after a year is to be
# predicted. The protocol publishes the scaling, a few directions, the range of the numbers and a
# grid; each site's rows will decide the intercept and the weights of the directions. The seed was
# chosen for this page: with the default one the labs came closer to a wall of the grid.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

import replearn as rl

X, y = load_diabetes(return_X_y=True, as_frame=True)
plan = rl.plan_regression(X, y, samples_per_site=20_000, hint_bits=4, shared_seed="one line")
print(plan)

# %%
# The plan as a picture: what the protocol keeps, next to the mean and the pilot's own model.

figure, axes = plt.subplots(figsize=(7, 3))
plan.plot(axes).set_title("Worth of the planned regression")

# %%
# There are no labs with 20,000 such patients here, so they are made up: rows of the pilot with
# noise, and numbers by a line that nobody knows. Both labs draw their own.

truth = LinearRegression().fit(X, y)


def lab(seed: int, n_rows: int = 20_000):
    rng = np.random.default_rng(seed)
    rows = X.iloc[rng.integers(0, len(X), n_rows)] + rng.normal(0, 0.002, (n_rows, X.shape[1]))
    return rows, truth.predict(rows) + rng.normal(0, 54, n_rows)


first = plan.protocol.estimator().fit(*lab(1))
second = plan.protocol.estimator(hint=first.hint_).fit(*lab(2))
print("same regression:", first.fingerprint_ == second.fingerprint_)
print(first.certificate_)

# %%
# Coefficients of both labs, and of least squares on their own rows. Those of the labs' own fits
# differ; those under the protocol are the same numbers.

own = [LinearRegression().fit(*lab(seed)) for seed in (1, 2)]
places = np.arange(X.shape[1])
scaled = [fit.coef_ * X.std().to_numpy() for fit in own]
agreed = first.coef_ * [1 / float(column.scale) for column in first.model_.encoding.columns]
agreed = agreed * X.std().to_numpy()

figure, axes = plt.subplots(figsize=(7, 3.6))
for number, (coefficients, mark) in enumerate(zip(scaled, "sd", strict=True), start=1):
    axes.plot(places, coefficients, mark, fillstyle="none", label=f"lab {number}, least squares")
axes.plot(places, agreed, "o", label="both labs, under the protocol")
axes.axhline(0, color="0.6", linewidth=0.8, linestyle="-", marker="")
axes.set_xticks(places, list(X))
axes.set_ylabel("per standard deviation")
axes.set_title("One set of coefficients")
axes.legend(fontsize="small")

# %%
# What it is worth on new rows, next to the mean.

print(rl.evaluate_regression(first, *lab(3)))
