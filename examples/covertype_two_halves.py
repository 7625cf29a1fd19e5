r"""Forest cover: two labs with half of the plots each, on real data with a wide margin.

    python examples/covertype_two_halves.py DATA [--figure forest.svg] [--write STUDY]

Spruce (cover type 1) against ponderosa pine (type 3), 247,594 plots. A pilot of 1,000 plots decides
the protocol; then half of the rest each. How often the halves get the same model is counted over
new splits and new seeds, and put beside what the pilot and the certificates expected.

The same study by hand, with the files that --write makes:

    replearn plan --algorithm svm \
        --pilot STUDY/pilot.csv --target cover --samples-per-site 122297 \
        --seed forest --out STUDY/study.json
    replearn fit STUDY/lab_a.csv --target cover --protocol STUDY/study.json --out a.model.json
    replearn fit STUDY/lab_b.csv --target cover --protocol STUDY/study.json --out b.model.json
    replearn compare a.model.json b.model.json
"""

import warnings

import numpy as np
import real_data
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import replearn as rl


def linear_svc(plan, X, y, labs, test):
    """Accuracy of the usual classifier, and the angle between two labs' normals, in degrees."""
    encode = plan.protocol.encoding.transform
    fits = [
        make_pipeline(StandardScaler(), LinearSVC(random_state=0, dual=False)).fit(
            encode(X.iloc[lab]), y[lab]
        )
        for lab in labs
    ]
    first, second = (fit[-1].coef_[0] / np.linalg.norm(fit[-1].coef_) for fit in fits)
    return fits[0].score(encode(X.iloc[test]), y[test]), np.degrees(np.arccos(first @ second))


def draw(path, plan, pairs):
    figure = real_data.new_figure(9, 4)
    left, _ = plan.plot(figure.subplots(1, 2, sharey=True))
    n_pairs, n_differ = len(pairs.same), len(pairs.same) - sum(pairs.same)
    low, high = real_data.interval(n_differ, n_pairs)
    share = n_differ / n_pairs
    # a logarithmic axis has no place for 0
    left.errorbar(
        max(share, low, 0.005),
        pairs.accuracy,
        xerr=[[max(0, share - max(low, 0.005))], [high - share]],
        fmt="D",
        color="tab:red",
        capsize=3,
        label=f"measured, {n_pairs} pairs",
    )
    left.legend(loc="lower right")
    real_data.save_figure(figure, path)


def main():
    options = real_data.arguments(__doc__)
    n_pilot, n_test, n_splits = (500, 300, 3) if options.quick else (1000, 2000, 40)
    X, y = real_data.forest(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, rest = order[:n_pilot], order[n_pilot:]
    test, labs = rest[:n_test], np.array_split(rest[n_test:], 2)
    print(
        f"{len(y):,} plots, {np.mean(y == 'spruce'):.1%} spruce; a pilot of {n_pilot:,} decides:\n"
    )
    plan = rl.plan_from_pilot(
        X.iloc[pilot],
        y[pilot],
        algorithm="svm",
        samples_per_site=len(labs[0]),
        shared_seed="forest",
    )
    print(plan)
    if options.write:
        files = {"pilot": pilot, "lab_a": labs[0], "lab_b": labs[1]}
        samples = {name: (X.iloc[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "cover", samples)

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    print(f"\nOne study: two halves of {len(labs[0]):,} plots, the published seed")
    fits = [plan.protocol.estimator().fit(X.iloc[lab], y[lab]) for lab in labs]
    for name, fit in zip("AB", fits, strict=True):
        print(
            f"  lab {name}: fingerprint {fit.fingerprint_[:16]}, accuracy "
            f"{fit.score(X.iloc[test], y[test]):.3f}, estimated disagreement "
            f"{fit.certificate_.estimated_disagreement:.3f}"
        )
    print(f"  {real_data.describe(rl.compare(fits[0].model_, fits[1].model_))}")

    pairs = real_data.many_pairs(real_data.reseeded(plan.protocol), X, y, rest, n_test, n_splits)
    accuracy, angle = linear_svc(plan, X, y, labs, test)
    print(f"\n{n_splits} new splits, a new seed each")
    print("               same model [95% interval]  expected  certificates  accuracy")
    print(
        f"  replearn     {pairs.rate:25}{1 - plan.chosen.disagreement:10.2f}"
        f"{pairs.estimated_rate:>14}{pairs.accuracy:10.3f}"
    )
    apart = f"one pair: {angle:.1f} degrees apart"
    print(f"  LinearSVC    {apart:49}{accuracy:10.3f}")
    print(f"  spruce always{np.mean(y[test] == 'spruce'):59.3f}")
    if options.figure:
        draw(options.figure, plan, pairs)


if __name__ == "__main__":
    main()
