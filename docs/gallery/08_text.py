"""
Text: which words may a model see?
==================================

Sentences from the documentation of two libraries, scikit-learn and SciPy, as they are installed
here. Which library is a sentence from? Two labs with different sentences shall get one model.
"""

# %%
# Sentences are lines of docstrings, each once.

import inspect

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.special
import scipy.stats
import sklearn.linear_model
import sklearn.metrics
import sklearn.model_selection
import sklearn.preprocessing
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

import replearn as rl

LIBRARIES = {
    "scipy": [scipy.linalg, scipy.optimize, scipy.sparse, scipy.special, scipy.stats],
    "sklearn": [
        sklearn.linear_model,
        sklearn.metrics,
        sklearn.model_selection,
        sklearn.preprocessing,
    ],
}


def sentences(modules):
    found = set()
    for module in modules:
        for name in sorted(vars(module)):
            text = getattr(vars(module)[name], "__doc__", None) or ""
            found |= {line.strip() for line in inspect.cleandoc(text).splitlines()}
    return sorted(line for line in found if len(line.split()) >= 6)


texts = {name: sentences(modules) for name, modules in LIBRARIES.items()}
X = np.array([line for lines in texts.values() for line in lines])
y = np.repeat(list(texts), [len(lines) for lines in texts.values()])
order = np.random.default_rng(0).permutation(len(y))
X, y = X[order], y[order]
print({name: len(lines) for name, lines in texts.items()})

# %%
# The list of words is learned from rows, so it must come from the pilot and be published: a
# vectorizer fitted at each lab would give each lab other columns. The same holds for weights by
# document frequency. Here: the 60 most frequent words of the pilot, present or not.

n_pilot = 1500
words = CountVectorizer(max_features=60, binary=True).fit(X[:n_pilot])
published = CountVectorizer(vocabulary=words.get_feature_names_out(), binary=True)
columns = published.transform(X).toarray().astype(float)

n_lab = (len(y) - n_pilot - 1500) // 2
labs = [slice(n_pilot, n_pilot + n_lab), slice(n_pilot + n_lab, n_pilot + 2 * n_lab)]
new = slice(n_pilot + 2 * n_lab, None)
plan = rl.plan_from_pilot(
    columns[:n_pilot],
    y[:n_pilot],
    samples_per_site=n_lab,
    hint_bits=4,
    shared_seed="text",
)
first = plan.protocol.estimator().fit(columns[labs[0]], y[labs[0]])
second = plan.protocol.estimator(hint=first.hint_).fit(columns[labs[1]], y[labs[1]])
print(f"{n_lab:,} sentences per lab;", rl.compare(first.model_, second.model_))
full = LogisticRegression().fit(columns[labs[0]], y[labs[0]])

# %%
# The agreed model next to that of one lab alone, on sentences that nobody has seen.

figure, axes = plt.subplots(figsize=(5, 4))
for name, model in (("both labs", first.model_), ("one lab alone", full)):
    found = rl.evaluate(model, columns[new], y[new])
    axes.plot(*found.roc.T, marker="", label=f"{name}: AUC {found.worth.auc.value:.3f}")
axes.plot([0, 1], [0, 1], color="0.4", linestyle=":", marker="")
axes.set(xlabel="SciPy taken for scikit-learn", ylabel="scikit-learn recognised")
axes.set_title("What agreement costs on text")
axes.legend(fontsize="small")
