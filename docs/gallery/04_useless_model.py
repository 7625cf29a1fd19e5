"""
A useless model, and how you see it
===================================

Two labs got the same model, bit for bit, and it is right about 93 % of all rows. Should they be
happy? Not if 93 % of the rows have the same label.
"""

# %%
# Two studies with 7 % positives. In one the columns say something about the label, in the other
# they are noise. Both replicate: a model that knows nothing is easy to agree on.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import replearn as rl


def rows(n_rows, signal, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    score = signal * (X @ [1.0, -0.8, 0.5, 0.0, 0.0]) - 2.6 - 0.6 * signal
    return X, np.where(rng.random(n_rows) < 1 / (1 + np.exp(-score)), "ill", "healthy")


def study(signal):
    plan = rl.plan_from_pilot(
        *rows(1000, signal, 10),
        samples_per_site=20_000,
        hint_bits=4,
        threshold=0.5,
        shared_seed="useless",
    )
    first = plan.protocol.estimator().fit(*rows(20_000, signal, 1))
    second = plan.protocol.estimator(hint=first.hint_).fit(*rows(20_000, signal, 2))
    print("same model:", first.fingerprint_ == second.fingerprint_)
    return rl.evaluate(first.model_, *rows(20_000, signal, 3))


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    noise = study(signal=0.0)
for message in {str(warning.message) for warning in caught}:
    print("warning:", message)
useful = study(signal=1.0)

# %%
# The fits warned. On new rows, ``evaluate`` puts every number next to what guessing would give.

print(noise)

# %%
# One p-value is no verdict. This is the fourth setting of pilot and bits that we tried for this
# page; on new rows the noise gave AUCs of .500, .502, .517 and .516, with p = .97, .78, .04, .05.
# An AUC of .52 is worth nothing, whatever its p-value.
#
# Accuracy does not tell the two models apart. The ROC curve does.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6))
found = {"columns are noise": noise, "columns know something": useful}
left.bar(list(found), [one.worth.accuracy.value for one in found.values()], width=0.5)
left.set(ylabel="accuracy", ylim=(0, 1))
left.set_title("Accuracy: no difference")
for name, one in found.items():
    right.plot(*one.roc.T, marker="", label=f"{name}: AUC {one.worth.auc.value:.2f}")
right.plot([0, 1], [0, 1], color="0.4", linestyle=":", marker="", label="guessing")
right.set(xlabel="false alarms", ylabel="cases found")
right.set_title("ROC: all the difference")
right.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.2))
