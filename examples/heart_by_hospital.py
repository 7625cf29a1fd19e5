r"""Heart disease at four hospitals: what to do with too few patients, before and after a fit.

    python examples/heart_by_hospital.py DATA [--figure heart.svg] [--write STUDY]

920 patients of four hospitals, with categories and missing values. A pilot of 300 patients of all
hospitals decides the protocol; 85 to 200 are left at each. The planner says beforehand that this is
too few, the certificate says it afterwards, and certified mode refuses.

The same study by hand, with the files that --write makes:

    replearn plan --features 22 --samples 201
    replearn plan --features 22 --mode certified
    replearn plan --algorithm svm \
        --pilot STUDY/pilot.csv --target heart --categories cp,restecg,slope,thal \
        --samples-per-site 155 --seed heart --out STUDY/study.json
    replearn fit STUDY/cleveland.csv --target heart --protocol STUDY/study.json --out c.model.json
    replearn fit STUDY/hungarian.csv --target heart --protocol STUDY/study.json --out h.model.json
    replearn compare c.model.json h.model.json
"""

import warnings
from itertools import combinations

import numpy as np
import real_data

import replearn as rl

N_PILOT = 300


def print_encoding(encoding):
    """What the protocol does with each column, at every hospital."""
    for column in encoding.columns:
        if column.content()["kind"] == "category":
            print(f"  {column.name}: one of {', '.join(column.values)}; missing: none of them")
        elif column.fill_missing:
            print(
                f"  {column.name}: minus {column.centre}, divided by {column.scale}; "
                f"missing: like {column.centre}"
            )


def plan_for(n_patients, X, y):
    """Some columns hold numbers that are names, which only people can know."""
    return rl.plan_from_pilot(
        X,
        y,
        algorithm="svm",
        samples_per_site=n_patients,
        shared_seed="heart",
        categories=real_data.HEART_CATEGORIES,
    )


def ask_planner(n_features, n_rows):
    """What can be promised from the numbers of columns and rows alone."""
    for mode in ("practical", "certified"):
        needed = rl.plan(n_features=n_features, mode=mode).n_samples
        print(f"  {mode} mode: {needed:,} patients per hospital")
    try:
        rl.plan(n_features=n_features, n_samples=n_rows)
    except rl.NotEnoughSamples as problem:
        print(f"  with {n_rows}: {problem}")


def fit_and_listen(estimator, X, y):
    """The fitted estimator, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", rl.ReplicabilityWarning)
        estimator.fit(X, y)
    return estimator, [str(warning.message) for warning in caught]


def many_seeds(protocol, X, y, sites, n_seeds):
    """How often all hospitals agree, and how often labels make no difference to their models."""
    make = real_data.reseeded(protocol)
    all_agree, unmoved = 0, 0
    for number in range(n_seeds):
        models = {}
        for name, rows in sites.items():
            fits = [
                fit_and_listen(make(f"study {number}"), X.iloc[rows], labels)[0]
                for labels in (y[rows], real_data.shuffled(y[rows], number))
            ]
            models[name] = fits[0].fingerprint_
            unmoved += fits[0].fingerprint_ == fits[1].fingerprint_
        all_agree += len(set(models.values())) == 1
    print(f"  all hospitals agree: {real_data.rate(all_agree, n_seeds)}")
    print(f"  shuffled labels give the same model: {unmoved / (n_seeds * len(sites)):.0%} of fits")


def draw(path, plan, sizes, guess):
    figure = real_data.new_figure(6.5, 3.8)
    axes = figure.subplots()
    points = plan.samples
    axes.plot([p.samples_per_site for p in points], [p.accuracy for p in points], "o-")
    axes.axhline(guess, linestyle=":", color="grey")
    axes.text(points[-1].samples_per_site, guess, "always the same answer", ha="right", va="bottom")
    for size in sizes:
        axes.axvline(size, color="tab:red", linewidth=1)
    place = axes.get_xaxis_transform()
    axes.text(max(sizes) * 1.1, 0.93, "the four hospitals", color="tab:red", transform=place)
    axes.set(
        xscale="log",
        xlabel="patients per hospital",
        ylabel="expected accuracy",
        title=f"planned for agreement with probability {1 - plan.chosen.disagreement:.2f}",
    )
    real_data.save_figure(figure, path)


def main():
    options = real_data.arguments(__doc__)
    X, y, hospital = real_data.heart(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, rest = order[:N_PILOT], order[N_PILOT:]
    sites = {name: rest[hospital[rest] == name] for name in np.unique(hospital)}
    print("hospital      patients  disease  values missing")
    for name, rows in sites.items():
        missing = X.iloc[rows].isna().to_numpy().mean()
        print(f"{name:14}{len(rows):8}{np.mean(y[rows] == 'disease'):9.0%}{missing:16.0%}")

    plan = plan_for(len(rest) // len(sites), X.iloc[pilot], y[pilot])
    encoding = plan.protocol.encoding
    print(f"\nThe protocol's columns ({encoding.n_outputs} numbers per patient)")
    print_encoding(encoding)
    if options.write:
        files = sites | {"pilot": pilot}
        samples = {name: (X.iloc[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "heart", samples)

    print("\nWhat the planner says from the promise alone (margin 0.1, error 0.05)")
    ask_planner(encoding.n_outputs, max(len(rows) for rows in sites.values()))
    print("\nWhat it says from the pilot")
    print(plan)
    more = plan_for(10_000, X.iloc[pilot], y[pilot])
    print("  patients per hospital   expected accuracy")
    for point in more.samples:
        print(f"  {point.samples_per_site:21,}{point.accuracy:20.3f}")

    print("\nWhat the fits say")
    fits = {}
    for name, rows in sites.items():
        others = np.setdiff1d(rest, rows)
        fits[name], said = fit_and_listen(plan.protocol.estimator(), X.iloc[rows], y[rows])
        score = fits[name].score(X.iloc[others], y[others])
        print(f"  {name}: {fits[name].fingerprint_[:8]}, accuracy at the others {score:.2f}")
        print("    " + "\n    ".join(said))
    for first, second in combinations(fits, 2):
        found = real_data.describe(rl.compare(fits[first].model_, fits[second].model_))
        print(f"  {first} and {second}: {found}")

    n_seeds = 3 if options.quick else 40
    print(f"\nThe same patients under {n_seeds} other seeds [95% interval]")
    many_seeds(plan.protocol, X, y, sites, n_seeds)

    print("\nWhat certified mode says")
    first, rows = next(iter(sites.items()))
    certified = rl.ReplicableSVMClassifier(mode="certified", published=rl.Published(encoding))
    try:
        certified.fit(X.iloc[rows], y[rows])
    except rl.NotEnoughSamples as problem:
        print(f"  {first}: {problem}")
    if options.figure:
        guess = max(np.mean(y[pilot] == "disease"), np.mean(y[pilot] == "healthy"))
        draw(options.figure, more, [len(rows) for rows in sites.values()], guess)


if __name__ == "__main__":
    main()
