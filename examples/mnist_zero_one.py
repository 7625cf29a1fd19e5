r"""Handwritten digits, 0 or 1: two labs, one picture of 784 coefficients.

    python examples/mnist_zero_one.py DATA [--figure digits.svg] [--write STUDY]

A pilot of 1,000 pictures decides the protocol: logistic regression in a few published directions,
and four bits that the first lab publishes. Then two labs have half of the rest each, about 5,900
pictures. Counted over new splits, and by `rl.audit`, which needs one call. With --figure, the
coefficients of both labs are drawn, and those of LogisticRegression.

The same study by hand, with the files that --write makes:

    replearn plan --pilot STUDY/pilot.npz --samples-per-site 5890 --hint-bits 4 --seed digits \
        --out STUDY/study.json
    replearn fit STUDY/lab_a.npz --protocol STUDY/study.json --lead --out a.model.json
    replearn fit STUDY/lab_b.npz --protocol STUDY/study.json --hint a.hint.json --out b.model.json
    replearn compare a.model.json b.model.json
    replearn audit STUDY/lab_a.npz --protocol STUDY/study.json --pairs 20 --report audit.html
"""

import warnings

import numpy as np
import real_data

import replearn as rl


def draw(path, ours, usual):
    """Coefficients as pictures: two labs beside each other, and their difference."""
    figure = real_data.new_figure(8, 5.2)
    rows = figure.subplots(2, 3)
    for axes, (name, coefficients) in zip(
        rows, {"replearn": ours, "LogisticRegression": usual}.items(), strict=True
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
    n_pilot, n_test, n_splits = (300, 200, 3) if options.quick else (1000, 2000, 20)
    X, y = real_data.digits(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, rest = order[:n_pilot], order[n_pilot:]
    test, labs = rest[:n_test], np.array_split(rest[n_test:], 2)
    plan = rl.plan_from_pilot(
        X[pilot], y[pilot], samples_per_site=len(labs[0]), hint_bits=4, shared_seed="digits"
    )
    print(plan)
    if options.write:
        files = {"pilot": pilot, "lab_a": labs[0], "lab_b": labs[1]}
        samples = {name: (X[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "y", samples)

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    print(f"\nOne study: two halves of {len(labs[0]):,} pictures, the published seed")
    fits = real_data.fit_all(plan.protocol, X, y, labs)
    real_data.print_fits(("lab A", "lab B"), fits, X[test], y[test])
    print(f"  {real_data.describe(rl.compare(fits[0].model_, fits[1].model_))}")

    print(f"\n{n_splits} new splits, a new seed each")
    pairs = real_data.many_pairs(plan.protocol, X, y, rest, n_test, n_splits)
    encode = plan.protocol.encoding.transform
    real_data.print_table({"replearn, 4 hint bits": pairs}, encode, X, y, pilot, labs, test)

    print("\nOne split, many seeds: what rl.audit says")
    n_pairs = 5 if options.quick else 20
    print(rl.audit(plan.protocol.estimator(), X[rest], y[rest], n_pairs=n_pairs, question="halves"))
    if options.figure:
        usual = [real_data.logistic_regression(X[lab], y[lab])[-1] for lab in labs]
        draw(options.figure, [fit.coef_ for fit in fits], [fit.coef_ for fit in usual])


if __name__ == "__main__":
    main()
