r"""Heart disease at four hospitals: what to do with too few patients.

    python examples/heart_by_hospital.py DATA [--figure heart.svg] [--write STUDY]

920 patients of four hospitals, with categories and missing values. A pilot of 300 patients of all
hospitals decides the protocol; 85 to 200 are left at each. The planner says beforehand that so few
add next to nothing to the pilot's own model; certified mode refuses. What so few patients can do,
recalibrating a published score, is in examples/studies_by_command.py.

The same study by hand, with the files that --write makes:

    replearn plan --features 22 --mode certified
    replearn plan --pilot STUDY/pilot.csv --target heart --categories cp,restecg,slope,thal \
        --samples-per-site 155 --hint-bits 4 --seed heart --out STUDY/study.json
    replearn fit STUDY/cleveland.csv --protocol STUDY/study.json --lead --out c.model.json
    replearn fit STUDY/hungarian.csv --protocol STUDY/study.json --hint c.hint.json \
        --out h.model.json --allow-unknown
    replearn compare c.model.json h.model.json
"""

import warnings

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


def many_seeds(protocol, X, y, sites, n_seeds):
    """How often all hospitals agree, and how often labels make no difference to their models."""
    all_agree, with_first, unmoved = 0, 0, 0
    for number in range(n_seeds):
        seed = f"study {number}"
        fits = real_data.fit_all(protocol, X, y, sites, seed)
        noise = y.copy()
        for rows in sites:
            noise[rows] = real_data.shuffled(y[rows], number)
        others = real_data.fit_all(protocol, X, noise, sites, seed)
        all_agree += len({fit.fingerprint_ for fit in fits}) == 1
        with_first += sum(fit.fingerprint_ == fits[0].fingerprint_ for fit in fits[1:])
        pairs = zip(fits, others, strict=True)
        unmoved += sum(fit.fingerprint_ == other.fingerprint_ for fit, other in pairs)
    print(f"  all hospitals agree: {real_data.rate(all_agree, n_seeds)}")
    n_others = n_seeds * (len(sites) - 1)
    print(f"  a hospital agrees with the first: {with_first} of {n_others}")
    print(f"  shuffled labels give the same model: {unmoved / (n_seeds * len(sites)):.0%} of fits")


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

    plan = rl.plan_from_pilot(
        X.iloc[pilot],
        y[pilot],
        samples_per_site=len(rest) // len(sites),
        hint_bits=4,
        target="heart",
        shared_seed="heart",
        # numbers that are names, which only people can know
        categories=real_data.HEART_CATEGORIES,
    )
    encoding = plan.protocol.encoding
    print(f"\nThe protocol's columns ({encoding.n_outputs} numbers per patient)")
    print_encoding(encoding)
    if options.write:
        files = sites | {"pilot": pilot}
        samples = {name: (X.iloc[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "heart", samples)
    print("\nWhat the pilot says")
    print(plan)

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    warnings.simplefilter("ignore", rl.UselessModelWarning)  # so is what the models are worth
    print("\nOne study: four hospitals, the published seed; on the patients of all of them")
    fits = real_data.fit_all(plan.protocol, X, y, sites.values())
    real_data.print_fits(sites, fits, X.iloc[rest], y[rest])
    n_seeds = 3 if options.quick else 40
    print(f"\nThe same patients under {n_seeds} other seeds [95% interval]")
    many_seeds(plan.protocol, X, y, list(sites.values()), n_seeds)

    print("\nWhat certified mode of Algorithm 1 says")
    first, rows = next(iter(sites.items()))
    certified = rl.ReplicableSVMClassifier(mode="certified", published=rl.Published(encoding))
    try:
        certified.fit(X.iloc[rows], y[rows])
    except rl.NotEnoughSamples as problem:
        print(f"  {first}: {problem}")
    if options.figure:
        figure = real_data.new_figure(9, 4)
        plan.plot(figure.subplots(1, 2))
        real_data.save_figure(figure, options.figure)


if __name__ == "__main__":
    main()
