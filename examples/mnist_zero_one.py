r"""Handwritten digits, 0 or 1: two labs, one picture of 784 coefficients.

    python examples/mnist_zero_one.py DATA [--figure digits.svg] [--write STUDY]

A pilot of 1,000 pictures decides the protocol; two labs have half of the rest each, about 5,900
pictures, which is few: the promise is one disagreement in seven. Counted over new splits, and by
`rl.audit`, which needs one call and answers for one split. With --figure, the coefficients of
both labs are drawn, and those of LinearSVC.

The same study by hand, with the files that --write makes:

    replearn plan --algorithm svm \
        --pilot STUDY/pilot.npz --max-disagreement .15 --samples-per-site 5890 \
        --seed digits --out STUDY/study.json
    replearn fit STUDY/lab_a.npz --protocol STUDY/study.json --out a.model.json
    replearn fit STUDY/lab_b.npz --protocol STUDY/study.json --out b.model.json
    replearn compare a.model.json b.model.json
    replearn audit STUDY/lab_a.npz --protocol STUDY/study.json --pairs 20 --report audit.html
"""

import warnings

import numpy as np
import real_data
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import replearn as rl

PROMISE = 0.15


def draw(path, ours, usual):
    """Coefficients as pictures: two labs above each other, and their difference."""
    figure = real_data.new_figure(8, 5.2)
    rows = figure.subplots(2, 3)
    for axes, (name, coefficients) in zip(
        rows, {"replearn": ours, "LinearSVC": usual}.items(), strict=True
    ):
        pictures = [c / np.linalg.norm(c) for c in coefficients]
        pictures.append(pictures[0] - pictures[1])
        reach = max(np.abs(picture).max() for picture in pictures)
        titles = f"{name}, lab A", f"{name}, lab B", "A - B"
        for panel, picture, title in zip(axes, pictures, titles, strict=True):
            image = panel.imshow(picture.reshape(28, 28), cmap="RdBu_r", vmin=-reach, vmax=reach)
            panel.set(title=title, xticks=[], yticks=[])
        figure.colorbar(image, ax=axes, shrink=0.8, label="red: 1, blue: 0")
    real_data.save_figure(figure, path)


def main():
    options = real_data.arguments(__doc__)
    n_pilot, n_test, n_splits = (300, 200, 3) if options.quick else (1000, 2000, 40)
    X, y = real_data.digits(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, rest = order[:n_pilot], order[n_pilot:]
    test, labs = rest[:n_test], np.array_split(rest[n_test:], 2)
    print(f"{len(y):,} pictures of 0 and 1; a pilot of {n_pilot:,} decides:\n")
    plan = rl.plan_from_pilot(
        X[pilot],
        y[pilot],
        algorithm="svm",
        samples_per_site=len(labs[0]),
        max_disagreement=PROMISE,
        shared_seed="digits",
    )
    print(plan)
    if options.write:
        files = {"pilot": pilot, "lab_a": labs[0], "lab_b": labs[1]}
        samples = {name: (X[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "y", samples)

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    print(f"\nOne study: two halves of {len(labs[0]):,} pictures, the published seed")
    fits = [plan.protocol.estimator().fit(X[lab], y[lab]) for lab in labs]
    for name, fit in zip("AB", fits, strict=True):
        print(f"  lab {name}: fingerprint {fit.fingerprint_[:16]}")
        print("    " + str(fit.certificate_).replace("\n", "\n    "))
    print(f"  {real_data.describe(rl.compare(fits[0].model_, fits[1].model_))}")

    pairs = real_data.many_pairs(real_data.reseeded(plan.protocol), X, y, rest, n_test, n_splits)
    usual = [
        make_pipeline(StandardScaler(), LinearSVC(random_state=0)).fit(X[lab], y[lab])
        for lab in labs
    ]
    print(
        f"\n{n_splits} new splits, a new seed each\n"
        f"  same model: {pairs.rate}; expected {1 - plan.chosen.disagreement:.2f}, by the "
        f"certificates {pairs.estimated_rate}\n"
        f"  accuracy: {pairs.accuracy:.3f}, LinearSVC {usual[0].score(X[test], y[test]):.3f}"
    )

    print("\nOne split, many seeds: what rl.audit says")
    result = rl.audit(
        plan.protocol.estimator(),
        X[rest],
        y[rest],
        n_pairs=5 if options.quick else 40,
        max_disagreement=PROMISE,
        question="halves",
    )
    print(result)
    if options.figure:
        draw(options.figure, [fit.coef_ for fit in fits], [fit[-1].coef_ for fit in usual])


if __name__ == "__main__":
    main()
