"""What chose the constants of Algorithm 1's plans: populations that judge nothing.

    python benchmarks/one_fit.py [--ridges 1e-3 1e-4 1e-5] [--only 12 100] [--repeats 8]
    python benchmarks/one_fit.py --batches    # variance of a batch of certified plans

The populations of tests/populations.py judge the plans, so these are others. Margins begin with a
jump at tau, with a density of at least 1/(3 tau); sides of the plane are alike.

    wide   margins tau (1 + 2.4 |N|), the sides' spectrum falls
    cap    rows of the sphere outside of the band: margins of a normal law above tau
    tails  half of the margins within 20% of tau, sides with Student's tails

Printed is ``V n^2 tau^2 / d`` for each ridge, in units of max_error tau^2: V is the variance of
``tau u``. Two rules follow. The ridge is the largest power of ten that costs no more than a factor
of two in V where n is planned. `one_fit_variance` is at least the largest V, and at most four times
as large where n is planned; the last column is its own value.
"""

import argparse
from dataclasses import replace

import numpy as np
from scipy.stats import truncnorm

from replearn.codes import Coins, Promise, Sizes
from replearn.exact import PAIR_UNIT, squared_hinge, unit_rows
from replearn.halfspaces.rounded import one_fit_variance
from replearn.halfspaces.svm import SVM
from replearn.rows import MemoryRows

#: Columns, margin, error; and rows in multiples of the plan.
CASES = (
    (5, 0.3, 0.1, 1), (5, 0.6, 0.05, 1), (12, 0.2, 0.05, 1), (12, 0.2, 0.05, 8),
    (12, 0.2, 0.3, 1), (40, 0.1, 0.05, 0.5), (40, 0.3, 0.01, 0.5), (100, 0.1, 0.05, 0.5),
    (100, 0.3, 0.05, 0.1),
)  # fmt: skip
KINDS = ("wide", "cap", "tails")


def draw(kind, n, d, tau, rng):
    """Directions ``y x / |x|``."""
    if kind == "wide":
        margins = tau * (1 + 2.4 * np.abs(rng.standard_normal(n)))
        side = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.25
    elif kind == "cap":
        margins = truncnorm.rvs(np.sqrt(d) * tau, np.inf, size=n, random_state=rng) / np.sqrt(d)
        side = rng.standard_normal((n, d))
    else:
        near = rng.random(n) < 0.5
        margins = tau * (1 + np.where(near, 0.2, 3.0) * rng.random(n))
        side = rng.standard_t(3, size=(n, d))

    normal = np.random.default_rng(11).standard_normal(d)
    normal /= np.linalg.norm(normal)
    margins = np.minimum(margins, 0.95)
    side -= np.outer(side @ normal, normal)
    side *= (np.sqrt(1 - margins**2) / np.linalg.norm(side, axis=1))[:, None]

    return side + np.outer(margins, normal)


def variance(kind, n, d, promise, ridge, repeats):
    """Of ``tau u`` over samples."""
    found = []
    for repeat in range(repeats):
        rows = draw(kind, n, d, promise.margin, np.random.default_rng([n, d, repeat]))
        units = unit_rows(rows, np.ones(n), d).astype(np.float32)
        weight = ridge * promise.max_error * promise.margin**2
        found.append(promise.margin * squared_hinge.fit([units], weight, np.zeros(d)))

    return float(np.array(found).var(axis=0, ddof=1).sum())


def batches():
    """Print the variance of the vector of a batch of certified plans."""
    print("columns margin  rows of a batch  population  variance")
    for d, promise in ((10, Promise(0.3, 0.1, 0.1)), (20, Promise(0.2, 0.1, 0.1)),
                       (5, Promise(0.5, 0.2, 0.2, 0.2)), (40, Promise(0.3, 0.2, 0.2))):  # fmt: skip
        plan = SVM.sizes(promise, d, "certified", Sizes())
        for kind in KINDS:
            n_rows = 200 * plan.batch_size
            rows = draw(kind, n_rows, d, promise.margin, np.random.default_rng(3))
            sample = MemoryRows(rows, np.ones(n_rows, np.int8))
            counts = SVM.run(sample, plan, Coins("batches")).spread.counts
            found = counts["pair_sum"] * PAIR_UNIT / 2 / counts["pairs"]
            print(f"{d:>7} {promise.margin:>6} {plan.batch_size:>16}  {kind:10} {found:9.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ridges", nargs="+", type=float, default=[1e-3, 1e-4, 1e-5])
    parser.add_argument("--only", nargs="+", type=int, help="columns")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--batches", action="store_true", help="of certified plans, in place")
    given = parser.parse_args()
    if given.batches:
        batches()
        return

    print(
        "columns margin error    rows  population", *(f"{r:>9.0e}" for r in given.ridges), "  plan"
    )

    for d, tau, eps, times in CASES:
        if given.only and d not in given.only:
            continue

        promise = Promise(tau, eps, 0.1)
        plan = SVM.sizes(promise, d, "practical", Sizes())
        n = round(times * plan.n_rows)
        unit = n**2 * tau**2 / d
        for kind in KINDS:
            found = [variance(kind, n, d, promise, r, given.repeats) * unit for r in given.ridges]
            own = one_fit_variance(replace(plan, promise=promise), n) * unit
            print(
                f"{d:>7} {tau:>6} {eps:>5} {n:>7}  {kind:10}",
                *(f"{value:9.3g}" for value in found),
                f"{own:9.3g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
