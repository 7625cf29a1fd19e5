# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn"]
# ///
"""A recipe that is not in the package, in 60 lines: pointwise replicability by a vote.

Hopkins, Impagliazzo and Ye (arXiv 2510.20200) ask for less than one common model: at each *point*
two labs shall give the same label with probability 1 - rho. Train T = O(1/rho^2) learners on a
batch each, and predict +1 where the share p of votes for +1 is above a *shared* threshold, uniform
between 1/4 and 3/4. Two labs differ at a point only if the threshold falls between their shares:
with probability at most 2 E|p - p'| <= sqrt(2 / T). A perceptron that stops at a random one of n
rows errs on 1 / (tau^2 n) of new rows on average. There is no projection and no rounding.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from replearn.codes import Bound, Coins, Fitted, Plan, Promise, Recipe, Sizes, rows_for
from replearn.datasets import make_margin


@dataclass(frozen=True, kw_only=True)
class VotePlan(Plan):
    batch_size: int


def stability(plan, n_rows, spread=None):
    n_votes = max(1, n_rows // plan.batch_size)
    return Bound(proved=min(1.0, math.sqrt(2 / n_votes)), assumes="one fixed point")


def sizes(promise, n_inputs, mode, given):
    """Batches with which a vote errs on eps/4 on average; a quarter of all votes decides."""
    batch_size = math.ceil(4 / (promise.max_error * promise.margin**2))
    plan = VotePlan(recipe="vote", mode=mode, promise=promise, n_inputs=n_inputs,
                    origin="arXiv 2510.20200", batch_size=batch_size)  # fmt: skip
    return replace(plan, n_rows=rows_for(stability, plan, batch_size))


def run(sample, plan, coins, work=map):
    X, y = sample
    n_votes = plan.n_rows // plan.batch_size
    normals = np.zeros((n_votes, plan.n_inputs))
    stops = np.random.default_rng(0).integers(plan.batch_size, size=n_votes)
    for vote, w in enumerate(normals):
        first = vote * plan.batch_size
        for i in range(first, first + stops[vote]):  # a perceptron that stops at a random row
            if y[i] * (X[i] @ w) <= 0:
                w += y[i] * X[i]
    return Fitted(normals, None, plan.n_rows)


def predict(normals, X, coins):
    threshold = 0.25 + 0.5 * coins.uniforms("vote", 1)[0]
    return np.where((X @ normals.T > 0).mean(axis=1) > threshold, 1, -1)


VOTE = Recipe("vote", "Pointwise vote", "eps^-1 tau^-2 rho^-2", sizes, run, stability)

promise = Promise(margin=0.3, max_error=0.1, max_disagreement=0.2)
plan = VOTE.sizes(promise, 20, "certified", Sizes())
points, labels = make_margin(2000, 20, margin=0.3, random_state=99)
differ, wrong = [], []
for seed in range(10):
    labs = [make_margin(plan.n_rows, 20, margin=0.3, random_state=2 * seed + lab) for lab in (0, 1)]
    one, two = (
        predict(VOTE.run(lab, plan, Coins(seed)).codes, points, Coins(seed)) for lab in labs
    )
    differ.append((one != two).mean())
    wrong.append((one != labels).mean())
bound = VOTE.stability(plan, plan.n_rows).proved
print(f"{plan.n_rows:,} rows, error {np.mean(wrong):.4f}")
print(f"points that differ {np.mean(differ):.4f}, proved {bound:.2f}")
assert np.mean(differ) <= bound
assert np.mean(wrong) <= promise.max_error
