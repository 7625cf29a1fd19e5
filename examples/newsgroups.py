r"""Newsgroups: sparse text, and too few messages to be both replicable and right.

    python examples/newsgroups.py DATA [--figure news.svg] [--write STUDY]

Computer or recreation, 9,000 messages as word counts. A pilot of 1,000 messages chooses 200 words,
then two labs have 3,500 messages each.

A count becomes 1 + log(count), a function of the message alone. The usual next step, weights by
inverse document frequency, is learned from rows: each lab would get its own weights, so that
equal codes would no longer be equal classifiers. Whatever is learned must come from the pilot and
be published, as the list of words is here.

The same study by hand, with the files that --write makes:

    replearn plan --algorithm svm \
        --pilot STUDY/pilot.npz --no-intercept --samples-per-site 3500 --seed news \
        --out STUDY/study.json
    replearn fit STUDY/lab_a.npz --protocol STUDY/study.json --out a.model.json
    replearn fit STUDY/lab_b.npz --protocol STUDY/study.json --out b.model.json
    replearn compare a.model.json b.model.json
"""

import warnings

import numpy as np
import real_data
from sklearn.feature_selection import chi2
from sklearn.svm import LinearSVC

import replearn as rl

N_WORDS = 200


def telling_words(counts, y):
    """The words whose presence depends most on the section, among those of the pilot."""
    present = (counts > 0).astype(float)
    used = np.flatnonzero(present.sum(axis=0) >= 5)
    scores, _ = chi2(present[:, used], y)
    return used[np.argsort(-scores)[:N_WORDS]]


def plan_for(promise, X, y, n_lab):
    """Without an intercept: the sections are of about the same size, and margins stay wider."""
    return rl.plan_from_pilot(
        X,
        y,
        algorithm="svm",
        samples_per_site=n_lab,
        max_disagreement=promise,
        shared_seed="news",
        fit_intercept=False,
    )


def draw(path, plan, measured, usual):
    """Accuracy against agreement: what the pilot expected, and what was counted."""
    figure = real_data.new_figure(6.5, 4)
    axes = figure.subplots()
    axes.plot(
        [1 - point.disagreement for point in plan.frontier],
        [point.accuracy for point in plan.frontier],
        "o-",
        label="expected by the pilot",
    )
    for (name, pairs), colour in zip(measured.items(), ("C1", "C2", "C3", "C4"), strict=True):
        share = np.mean(pairs.same)
        low, high = real_data.interval(sum(pairs.same), len(pairs.same))
        reach = [[share - low], [high - share]]
        axes.errorbar(
            share, pairs.accuracy, xerr=reach, fmt="D", color=colour, capsize=3, label=name
        )
    axes.axhline(usual, linestyle=":", color="grey", label="LinearSVC, not the same")
    axes.set(xlabel="share of pairs with the same model", ylabel="accuracy on new messages")
    axes.legend(fontsize="small")
    real_data.save_figure(figure, path)


def main():
    options = real_data.arguments(__doc__)
    n_pilot, n_test, n_splits = (300, 100, 3) if options.quick else (1000, 1000, 40)
    counts, y, words = real_data.news(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, rest = order[:n_pilot], order[n_pilot:]
    test, labs = rest[:n_test], np.array_split(rest[n_test:], 2)
    chosen = telling_words(counts[pilot], y[pilot])
    X = counts[:, chosen]
    X.data = 1 + np.log(X.data)
    print(
        f"{len(y):,} messages, {np.mean(y == 'comp'):.1%} about computers; a pilot of "
        f"{n_pilot:,} chooses {len(chosen)} words\n({', '.join(words[chosen[:10]])}, ...) and "
        "decides:\n"
    )
    plans = {promise: plan_for(promise, X[pilot], y[pilot], len(labs[0])) for promise in (0.1, 0.3)}
    print(plans[0.1])
    more = plan_for(0.1, X[pilot], y[pilot], 100 * len(labs[0])).samples[2:]
    print("  with more messages per lab: accuracy ", end="")
    print(", ".join(f"{point.accuracy:.2f} at {point.samples_per_site:,}" for point in more))
    if options.write:
        files = {"pilot": pilot, "lab_a": labs[0], "lab_b": labs[1]}
        samples = {name: (X[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "y", samples)

    print(f"\nOne lab's fit without a pilot, {len(labs[0]):,} messages: what it says")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", rl.ReplicabilityWarning)
        rl.ReplicableSVMClassifier(fit_intercept=False).fit(X[labs[0]], y[labs[0]])
    for warning in caught:
        print(f"  {warning.message}")

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    methods = {
        "pilot, promise 0.1": real_data.reseeded(plans[0.1].protocol),
        "pilot, promise 0.3": real_data.reseeded(plans[0.3].protocol),
        "no pilot, Algorithm 1": lambda seed: rl.ReplicableSVMClassifier(
            shared_seed=seed, fit_intercept=False
        ),
        "no pilot, Algorithm 2": lambda seed: rl.ReplicableSGDClassifier(
            shared_seed=seed, fit_intercept=False
        ),
    }
    print(f"\n{n_splits} new splits, a new seed each")
    print("                           same model [95% interval]  certificates  accuracy")
    measured = {}
    for name, make in methods.items():
        pairs = measured[name] = real_data.many_pairs(make, X, y, rest, n_test, n_splits)
        print(f"  {name:25}{pairs.rate:25}{pairs.estimated_rate:>14}{pairs.accuracy:10.3f}")
    first, second = (LinearSVC(random_state=0).fit(X[lab], y[lab]) for lab in labs)
    n_equal = np.array_equal(first.coef_, second.coef_)
    usual = first.score(X[test], y[test])
    print(f"  {'LinearSVC':25}{n_equal:2d} of 1{usual:42.3f}")
    if options.figure:
        draw(options.figure, plans[0.1], measured, usual)


if __name__ == "__main__":
    main()
