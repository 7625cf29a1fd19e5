"""
Many classes
============

Two labs, three outcomes: home, ward or intensive care. Can they agree on one model of more than two
classes? They can; it costs more, since every class adds numbers that must be agreed on.
"""

# %%
# A population that this script makes. Each outcome has its own weights.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import replearn as rl

NAMES = np.array(["home", "intensive", "ward"])
WEIGHTS = np.array([[0.0, 0.0, 0.0, 0.0], [1.2, -0.8, 0.5, 0.2], [0.6, 0.3, -0.4, 0.0]])
START = np.array([0.0, -2.0, -0.5])


def patients(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    scores = X @ WEIGHTS.T + START + rng.gumbel(size=(n_rows, 3))
    return X, NAMES[scores.argmax(axis=1)]


# %%
# Plan, fit and compare as with two classes. One model, one fingerprint, and a column of
# probabilities for each class.

plan = rl.plan_from_pilot(
    *patients(1500, seed=0), samples_per_site=30_000, hint_bits=4, shared_seed="many classes"
)
print(plan)
lab_a, lab_b = patients(30_000, seed=1), patients(30_000, seed=2)
first = plan.protocol.estimator().fit(*lab_a)
second = plan.protocol.estimator(hint=first.hint_).fit(*lab_b)
print(rl.compare(first.model_, second.model_))

# %%
# One pair is an anecdote: when we tried this very seed with 50,000 rows per lab, one code of ten
# differed. So twelve pairs of labs, each with fresh rows and a fresh seed, and a count.

n_differ = 0
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # each fit speaks about its own seed; here they are counted
    for pair in range(12):
        protocol = plan.replan(shared_seed=f"pair {pair}").protocol
        one = protocol.estimator().fit(*patients(30_000, seed=100 + 2 * pair))
        other = protocol.estimator(hint=one.hint_).fit(*patients(30_000, seed=101 + 2 * pair))
        n_differ += one.fingerprint_ != other.fingerprint_
print(f"{n_differ} of 12 pairs differ; planned: {plan.table[2].disagreement:.2f} of them")

# %%
# What the model of the first lab is worth on new rows.

new_X, new_y = patients(20_000, seed=3)
print(rl.evaluate(first.model_, new_X, new_y))

# %%
# Do the probabilities mean what they say? Predicted and observed shares of each class, in ten
# groups.

chances = first.predict_proba(new_X)
figure, axes = plt.subplots(figsize=(5, 4))
for column, name in enumerate(first.classes_):
    order = np.argsort(chances[:, column], kind="stable")
    groups = np.array_split(order, 10)
    predicted = [chances[group, column].mean() for group in groups]
    observed = [(new_y[group] == name).mean() for group in groups]
    axes.plot(predicted, observed, label=name)
axes.plot([0, 1], [0, 1], color="0.4", linestyle=":", marker="")
axes.set(xlabel="predicted share", ylabel="observed share")
axes.set_title("Three classes, one agreed model")
axes.legend(fontsize="small")

# %%
# Next to the model of one lab alone, which no other lab gets:

alone = LogisticRegression().fit(*lab_a)
print(f"right: {first.score(new_X, new_y):.3f} agreed, {alone.score(new_X, new_y):.3f} alone")
