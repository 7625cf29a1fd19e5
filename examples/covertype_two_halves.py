r"""Forest cover, spruce or pine: two halves of one data set, as two labs.

    python examples/covertype_two_halves.py DATA [--figure forest.svg] [--write STUDY]

A pilot of 1,000 plots decides the protocol: logistic regression in a few published directions, and
four bits that the first lab publishes. Then two labs have half of the rest each, about 122,000
plots. Counted over new splits, beside the pilot's own model and the usual fit.

The same study by hand, with the files that --write makes:

    replearn plan --pilot STUDY/pilot.csv --target cover --samples-per-site 122297 --hint-bits 4 \
        --seed forest --out STUDY/study.json
    replearn fit STUDY/lab_a.csv --protocol STUDY/study.json --lead --out a.model.json
    replearn fit STUDY/lab_b.csv --protocol STUDY/study.json --hint a.hint.json --out b.model.json
    replearn compare a.model.json b.model.json
"""

import warnings

import numpy as np
import real_data

import replearn as rl


def main():
    options = real_data.arguments(__doc__)
    n_pilot, n_test, n_splits = (500, 300, 3) if options.quick else (1000, 2000, 10)
    X, y = real_data.forest(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, rest = order[:n_pilot], order[n_pilot:]
    test, labs = rest[:n_test], np.array_split(rest[n_test:], 2)
    plan = rl.plan_from_pilot(
        X.iloc[pilot],
        y[pilot],
        samples_per_site=len(labs[0]),
        hint_bits=4,
        target="cover",
        shared_seed="forest",
    )
    print(plan)
    if options.write:
        files = {"pilot": pilot, "lab_a": labs[0], "lab_b": labs[1]}
        samples = {name: (X.iloc[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "cover", samples)

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    print(f"\nOne study: two halves of {len(labs[0]):,} plots, the published seed")
    fits = real_data.fit_all(plan.protocol, X, y, labs)
    real_data.print_fits(("lab A", "lab B"), fits, X.iloc[test], y[test])
    print(f"  {real_data.describe(rl.compare(fits[0].model_, fits[1].model_))}")

    print(f"\n{n_splits} new splits, a new seed each")
    pairs = real_data.many_pairs(plan.protocol, X, y, rest, n_test, n_splits)
    encode = plan.protocol.encoding.transform
    real_data.print_table({"replearn, 4 hint bits": pairs}, encode, X, y, pilot, labs, test)
    if options.figure:
        figure = real_data.new_figure(9, 4)
        plan.plot(figure.subplots(1, 2))
        real_data.save_figure(figure, options.figure)


if __name__ == "__main__":
    main()
