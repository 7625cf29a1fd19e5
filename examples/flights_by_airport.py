r"""Flights from New York: whether three airports that share a protocol get one model.

    python examples/flights_by_airport.py DATA [--figure flights.svg] [--write STUDY]

The label is "late": 15 minutes or more on arrival, given what is known at departure. A pilot of
2,000 flights, which belong to no site, decides the protocol: logistic regression in a few published
directions, and four bits that the first site publishes. Then each airport fits on its own flights.
For contrast the same flights are dealt out at random to three labs: these draw from one population,
as the promise assumes; the airports need not.

The same study by hand, with the files that --write makes:

    replearn plan --pilot STUDY/pilot.csv --target arrival --samples-per-site 106782 \
        --hint-bits 4 --seed "flights 2013" --out STUDY/study.json
    replearn fit STUDY/EWR.csv --protocol STUDY/study.json --lead --out EWR.model.json
    replearn fit STUDY/JFK.csv --protocol STUDY/study.json --hint EWR.hint.json --out JFK.model.json
    replearn compare EWR.model.json JFK.model.json
"""

import warnings
from itertools import combinations

import numpy as np
import real_data

import replearn as rl

AIRPORTS = ("EWR", "JFK", "LGA")
LABS = ("lab A", "lab B", "lab C")
PAIRS = tuple(combinations(range(3), 2))


def one_study(protocol, X, y, sites, names, test):
    """Fit at three sites under the published seed, and compare."""
    fits = real_data.fit_all(protocol, X, y, sites)
    print("  site      rows  late  miles  main carrier  fingerprint  certificate    AUC  bal. acc.")
    for name, site, fit in zip(names, sites, fits, strict=True):
        auc, balanced = real_data.worth(fit, X.iloc[test], y[test])
        shares = X["carrier"].iloc[site].value_counts(normalize=True)
        print(
            f"  {name:6}{len(site):8,}{np.mean(y[site] == 'late'):6.1%}"
            f"{X['distance'].iloc[site].mean():7,.0f}  {shares.index[0]}, {shares.iloc[0]:.0%}"
            f"{fit.fingerprint_[:8]:>18}{fit.certificate_.estimated_disagreement:13.3f}"
            f"{auc:7.3f}{balanced:11.3f}"
        )
    labels = [fit.predict(X.iloc[test]) for fit in fits]
    for i, j in PAIRS:
        comparison = rl.compare(fits[i].model_, fits[j].model_)
        changed = np.mean(labels[i] != labels[j])
        print(
            f"  {names[i]} and {names[j]}: {real_data.describe(comparison)}"
            + ("" if comparison.same else f"; {changed:.1%} of new flights get another label")
        )


def many_studies(protocol, X, y, deal, n_studies):
    """Under many seeds: which pairs of sites agree, and what the certificates say."""
    same, estimates = np.zeros((n_studies, 3), dtype=bool), []
    for study in range(n_studies):
        fits = real_data.fit_all(protocol, X, y, deal(study), f"study {study}")
        same[study] = [fits[i].fingerprint_ == fits[j].fingerprint_ for i, j in PAIRS]
        estimates += [fit.certificate_.estimated_disagreement for fit in fits]
    return same, np.mean(estimates)


def print_rates(names, same, estimate):
    for (i, j), agree in zip(PAIRS, same.T, strict=True):
        print(f"  {names[i]} and {names[j]}:  {real_data.rate(agree.sum(), len(agree))}")
    together = real_data.rate(same.all(axis=1).sum(), len(same))
    print(f"  all three:  {together};  certificates, mean: {estimate:.3f}")


def draw(path, rates):
    figure = real_data.new_figure(6.5, 3.2)
    axes = figure.subplots()
    ticks = []
    for names, same, colour in rates:
        for (i, j), agree in zip(PAIRS, same.T, strict=True):
            share, place = agree.mean(), -len(ticks)
            low, high = real_data.interval(agree.sum(), len(agree))
            reach = [[share - low], [high - share]]
            axes.errorbar(share, place, xerr=reach, fmt="o", color=colour, capsize=3)
            ticks.append(f"{names[i]} and {names[j]}")
    axes.axvline(0.9, linestyle=":", color="grey")
    axes.text(0.9, 0.6, "promised for one population ", ha="right", color="grey")
    axes.set(xlim=(0, 1.02), ylim=(0.5 - len(ticks), 1.1), xlabel="share of seeds: same model")
    axes.set_yticks([-place for place in range(len(ticks))], ticks)
    real_data.save_figure(figure, path)


def main():
    options = real_data.arguments(__doc__)
    n_pilot, n_test, n_studies = (500, 300, 3) if options.quick else (2000, 5000, 10)
    X, y, airport = real_data.flights(options.data)
    order = real_data.shuffled(len(y), 0)
    pilot, test, rest = np.split(order, [n_pilot, n_pilot + n_test])
    sites = [rest[airport[rest] == name] for name in AIRPORTS]
    plan = rl.plan_from_pilot(
        X.iloc[pilot],
        y[pilot],
        samples_per_site=len(rest) // 3,
        hint_bits=4,
        target="arrival",
        shared_seed="flights 2013",
    )
    print(plan)
    if options.write:
        files = dict(zip(AIRPORTS, sites, strict=True)) | {"pilot": pilot}
        samples = {name: (X.iloc[rows], y[rows]) for name, rows in files.items()}
        real_data.write_study(options.write, "arrival", samples)

    warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # the certificates are printed
    warnings.simplefilter("ignore", rl.UselessModelWarning)  # so is what the models are worth
    thirds = np.array_split(real_data.shuffled(rest, 1), 3)
    print("\nOne study, sites are airports")
    one_study(plan.protocol, X, y, sites, AIRPORTS, test)
    print("\nThe same flights, dealt out at random to three labs")
    one_study(plan.protocol, X, y, thirds, LABS, test)

    print(f"\n{n_studies} studies, a new seed each: pairs with the same model [95% interval]")
    by_airport = many_studies(plan.protocol, X, y, lambda _: sites, n_studies)
    print_rates(AIRPORTS, *by_airport)
    at_random = many_studies(
        plan.protocol,
        X,
        y,
        lambda study: np.array_split(real_data.shuffled(rest, 100 + study), 3),
        n_studies,
    )
    print_rates(LABS, *at_random)

    print("\nOn new flights")
    encode = plan.protocol.encoding.transform
    real_data.print_table({}, encode, X, y, pilot, thirds, test)
    if options.figure:
        rates = [(AIRPORTS, by_airport[0], "tab:red"), (LABS, at_random[0], "tab:blue")]
        draw(options.figure, rates)


if __name__ == "__main__":
    main()
