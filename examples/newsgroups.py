r"""Newsgroups: sparse text, two labs with 3,500 messages each.

    python examples/newsgroups.py DATA [--figure news.svg] [--write STUDY]

Computer or recreation, 9,000 messages as word counts. A pilot of 1,000 messages chooses 200 words
and a protocol: logistic regression in a few published directions, and four bits that the first lab
publishes. Beside it stands Algorithm 1, for which so few messages are far too few.

A count becomes 1 + log(count), a function of the message alone. The usual next step, weights by
inverse document frequency, is learned from rows: each lab would get its own weights, so that
equal codes would no longer be equal classifiers. Whatever is learned must come from the pilot and
be published, as the list of words is here.

The same study by hand, with the files that --write makes:

    replearn plan --pilot STUDY/pilot.npz --samples-per-site 3500 --hint-bits 4 --seed news \
        --out STUDY/study.json
    replearn fit STUDY/lab_a.npz --protocol STUDY/study.json --lead --out a.model.json
    replearn fit STUDY/lab_b.npz --protocol STUDY/study.json --hint a.hint.json --out b.model.json
    replearn compare a.model.json b.model.json
"""

import warnings

import numpy as np
import real_data
from sklearn.feature_selection import chi2

import replearn as rl

N_WORDS = 200


def telling_words(counts, y):
    """The words whose presence depends most on the section, among those of the pilot."""
    present = (counts > 0).astype(float)
    used = np.flatnonzero(present.sum(axis=0) >= 5)
    scores, _ = chi2(present[:, used], y)
    return used[np.argsort(-scores)[:N_WORDS]]


def draw(path, measured):
    """AUC against agreement, as counted."""
    figure = real_data.new_figure(6.5, 4)
    axes = figure.subplots()
    for name, pairs in measured.items():
        share = np.mean(pairs.same)
        low, high = real_data.interval(sum(pairs.same), len(pairs.same))
        reach = [[share - low], [high - share]]
        auc = np.mean(pairs.worths, axis=0)[0]
        axes.errorbar(share, auc, xerr=reach, fmt="D", capsize=3, label=name)
    axes.set(xlabel="share of pairs with the same model", ylabel="AUC on new messages")
    axes.legend(fontsize="small")
    real_data.save_figure(figure, path)


def main():
    options = real_data.arguments(__doc__)
    n_pilot, n_test, n_splits = (300, 100, 3) if options.quick else (1000, 1000, 20)
    counts, y, words = real_data.news(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, rest = order[:n_pilot], order[n_pilot:]
    test, labs = rest[:n_test], np.array_split(rest[n_test:], 2)
    chosen = telling_words(counts[pilot], y[pilot])
    X = counts[:, chosen]
    X.data = 1 + np.log(X.data)
    print(f"{len(chosen)} words of the pilot: {', '.join(words[chosen[:10]])}, ...\n")
    common = {"samples_per_site": len(labs[0]), "shared_seed": "news"}
    plan = rl.plan_from_pilot(X[pilot], y[pilot], hint_bits=4, **common)
    print(plan)
    if options.write:
        files = {"pilot": pilot, "lab_a": labs[0], "lab_b": labs[1]}
        samples = {name: (X[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "y", samples)

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    warnings.simplefilter("ignore", rl.UselessModelWarning)  # so is what the models are worth
    print(f"\nOne study: two labs of {len(labs[0]):,} messages, the published seed")
    fits = real_data.fit_all(plan.protocol, X, y, labs)
    real_data.print_fits(("lab A", "lab B"), fits, X[test], y[test])
    print(f"  {real_data.describe(rl.compare(fits[0].model_, fits[1].model_))}")

    print(f"\n{n_splits} new splits, a new seed each")
    without = plan.replan(hint_bits=0)
    algorithm_1 = rl.plan_from_pilot(X[pilot], y[pilot], algorithm="svm", **common)
    plans = {
        "replearn, 4 hint bits": plan,
        "replearn, no hint": without,
        "Algorithm 1, no hint": algorithm_1,
    }
    measured = {
        name: real_data.many_pairs(found.protocol, X, y, rest, n_test, n_splits)
        for name, found in plans.items()
    }
    real_data.print_table(measured, lambda rows: rows, X, y, pilot, labs, test)
    if options.figure:
        draw(options.figure, measured)


if __name__ == "__main__":
    main()
