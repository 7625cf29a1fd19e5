"""Samples per lab that each variant of Algorithm 1 needs for error .05 and disagreement .1.

    python benchmarks/sample_cost.py [--quick] [--figure docs/figures/sample-cost.svg] [--data DIR]

From the paper's structure (unit normals of hard-margin SVMs on batches of 300, Gaussian projection,
AKround; k and beta tuned by hand to the margins of the population) each improvement in turn.

Method, for the variants: labs of `rows` fresh rows each give mean vectors; the noise is set so
that the error on fresh rows is .05; the difference of two real labs is scaled by sqrt(rows/m),
rounded with many seeds by the real code, and m is found where a tenth of the pairs differ. The
last lines are measured: pairs of fresh samples of just that size. "Promise only" is the default
plan, from margin .1 alone, without a hint and with 2 and 4 hint bits: the rows of a lab are drawn
and added up in chunks, each pair of labs is compared under many seeds. "Pilot" is `plan_from_pilot`
on 1,000 other rows, a fresh seed a pair.

With --data, a folder with covtype.npz and mnist70k.npz, the variants are compared on real rows
too: labs are halves of random splits, and the noise is set so that the error is .02 above that of
the mean vector. (Sets that no halfspace separates leave the paper's structure without a vector.)
"""

import argparse
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from real_data import covtype, mnist
from scipy.optimize import brentq
from scipy.stats import binomtest, norm

import replearn as rl
from replearn.codes.cells import CELLS
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import CodeSpace, unit
from replearn.datasets import make_margin
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import Guarantee, Sizes
from replearn.stages.batches import Rows, max_margin, sum_batches
from replearn.stages.hints import safest_hint
from replearn.stages.recipes import code_space

ERROR, DISAGREEMENT, MARGIN = 0.05, 0.1, 0.1
N_TEST = 20_000


@dataclass(frozen=True)
class Population:
    name: str
    n_features: int
    rows: int
    options: dict
    promise_rows: int  # a size for the measured line "promise only"
    pilot_rows: int  # and for "pilot"

    def draw(self, n, state):
        return make_margin(n, self.n_features, MARGIN, random_state=state, **self.options)


class RealSet:
    """Halves of random splits of a fixed set: labs 2p and 2p+1 are the halves of split p."""

    def __init__(self, name, X, y):
        self.name, self.y = name, y
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
        self.X = np.hstack([X, np.ones((len(X), 1))])
        self.n_features, self.n_test = self.X.shape[1], min(N_TEST, len(y) // 5)
        self.rows = (len(y) - self.n_test) // 2

    def draw(self, n, state):
        if state[0] == 3:  # test rows are in no lab
            chosen = np.arange(self.n_test)
        else:
            n_rest = len(self.y) - self.n_test
            split = np.random.default_rng(state[1] // 2).permutation(n_rest) + self.n_test
            chosen = split[(state[1] % 2) * self.rows :][:n]
        X = self.X[chosen]
        return X / np.linalg.norm(X, axis=1, keepdims=True), self.y[chosen]


def real_sets(folder):
    order = np.random.default_rng(0).permutation
    for name, load in (("covtype 1 v 3", covtype), ("MNIST 0 v 1", mnist)):
        X, y = load(folder)
        rows = order(len(y))
        yield RealSet(name, X[rows], np.where(y == y.max(), 1, -1)[rows])


POPULATIONS = [
    Population("margins .1-.4, d=20", 20, 100_000, {}, 100_000, 30_000),
    Population("margins .1-.4, d=100", 100, 100_000, {}, 800_000, 20_000),
    Population(
        "decoy, power-law spectrum, d=100",
        100,
        100_000,
        {"decoy": 0.7, "decay": 0.5},
        500_000,
        60_000,
    ),
    Population("margins .1-.4, d=1000", 1000, 30_000, {}, 3_300_000, 20_000),
]


#: Hint bits of the line "promise only", and how many times fewer rows than without them.
HINTS = {0: 1, 2: 10, 4: 30}


@dataclass(frozen=True)
class Variant:
    name: str
    hard: bool
    projection: str
    rounding: str


VARIANTS = [
    Variant("paper structure, tuned k and beta", True, "gaussian", "ak"),
    Variant("+ centre rounding", True, "gaussian", "centre"),
    Variant("+ no JL, or Hadamard", True, "best", "centre"),
    Variant("+ soft margin", False, "best", "centre"),
    Variant("+ E8", False, "best", "e8"),
    Variant("+ Leech", False, "best", "leech"),
]
#: Tried for the soft margin; the one that needs fewest samples is reported.
WEIGHTS = (0.01, 0.03, 0.1)


def plan_of(population, hard, weight):
    guarantee = Guarantee(MARGIN, ERROR, DISAGREEMENT, 0.05)
    if hard:
        sizes = Sizes(batch_size=300, n_batches=10**9)
        return plan_svm(guarantee, population.n_features, "paper", sizes)
    sizes = Sizes(batch_size=200, regularization=weight)
    return plan_svm(guarantee, population.n_features, "practical", sizes)


def mean_vectors(population, n_labs, plans):
    """For each plan the unit mean vectors of several labs, from the same rows."""
    found = [[] for _ in plans]
    for lab in range(n_labs):
        X, y = population.draw(population.rows, [1, lab])
        rows = Rows(X, y.astype(np.int8), np.arange(len(y)))
        for vectors, plan in zip(found, plans, strict=True):
            vectors.append(unit(sum_batches(max_margin(plan), rows, plan).mean()))
    return [np.array(vectors) for vectors in found]


def noise_for_error(margins, error=ERROR):
    """Standard deviation of the noise that makes so many signs wrong; None if too many are."""
    if (margins <= 0).mean() >= error:
        return None
    return brentq(lambda s: norm.cdf(-margins / s).mean() - error, 1e-6, 10)


def spaces(variant, d, noise):
    """Code spaces with that noise: the tuned split, and no projection where that is allowed."""
    cell = CELLS[variant.rounding]

    def space(projection, k, rounding_noise):
        width = f"{rounding_noise / math.sqrt(cell.second_moment):.3g}"
        return CodeSpace(d, projection, k, variant.rounding, width)

    if variant.projection == "gaussian":
        return [space("gaussian", math.ceil(2 / noise**2), noise / math.sqrt(2))]
    budget = noise**2 + 1 / d
    k = math.ceil(2 / budget)
    options = [space("none", d, noise)]
    if k < d:
        options.append(space("hadamard", k, math.sqrt(budget / 2)))
    return options


def disagreement(space, vectors, rows, m, n_seeds):
    """Share of (pair, seed) that get different codes, labs of m rows."""
    shrink = math.sqrt(rows / m)
    differ = trials = 0
    for pair in range(len(vectors) // 2):
        one, other = vectors[2 * pair], vectors[2 * pair + 1]
        near = one + shrink * (other - one)
        for seed in range(n_seeds):
            shared = SharedRandomness(f"{pair}/{seed}")
            differ += not np.array_equal(space.encode(one, shared), space.encode(near, shared))
            trials += 1
    return differ / trials


def samples_needed(space, vectors, rows, n_seeds):
    """Rows per lab at which DISAGREEMENT of the pairs differ."""
    m = 30.0 * rows
    for _ in range(6):  # crossings are proportional to 1/sqrt(m), so this converges at once
        rate = min(max(disagreement(space, vectors, rows, m, n_seeds), 0.002), 0.9)
        step = (math.log1p(-rate) / math.log1p(-DISAGREEMENT)) ** 2
        m *= step
        if 0.85 < step < 1.18:
            break
    return m


def streamed_mean(population, plan, n_rows, lab):
    """Mean vector of a lab whose rows never are in memory at once."""
    chunk = 500 * plan.batch_size  # a whole number of pairs of batches
    total = None
    for start in range(0, n_rows, chunk):
        X, y = population.draw(min(chunk, n_rows - start), [2, lab, start])
        rows = Rows(X, y.astype(np.int8), np.arange(len(y)))
        sums = sum_batches(max_margin(plan), rows, plan)
        total = sums if total is None else total.merge(sums)
    return total.mean()


def promise_only(population, n_labs, n_seeds, n_rows, bits=0):
    """The default plan: disagreement over pairs and seeds, their number, mean error.

    With hint bits the first lab of a pair chooses the offset of the grid, and the second takes it.
    """
    guarantee = Guarantee(MARGIN, ERROR, DISAGREEMENT, 0.05)
    plan = plan_svm(guarantee, population.n_features, sizes=Sizes(hint_bits=bits or None))
    means = [streamed_mean(population, plan, n_rows, i) for i in range(n_labs)]
    X_test, y_test = population.draw(N_TEST, [3])
    differ, errors = [], []
    for pair in range(n_labs // 2):
        for seed in range(n_seeds):
            shared = SharedRandomness(f"{pair}/{seed}")
            space = code_space(plan)
            first = space.project(means[2 * pair], shared)
            space = space.with_hint(safest_hint(first, space, shared))
            one, other = (space.encode(means[2 * pair + i], shared) for i in (0, 1))
            differ.append(not np.array_equal(one, other))
            if seed < 20:
                scores = X_test @ space.decode(one, shared)
                errors.append(np.mean(y_test * scores <= 0))
    return float(np.mean(differ)), len(differ), float(np.mean(errors))


def measured(population, fit, n_rows, n_pairs):
    """Pairs of fresh samples of n_rows, fresh seeds: disagreement, interval, error."""
    differ, errors = 0, []
    X_test, y_test = population.draw(N_TEST, [3])
    for pair in range(n_pairs):
        prints = []
        for lab in (0, 1):
            X, y = population.draw(n_rows, [2, pair, lab])
            model = fit(X, y, pair)
            prints.append(model.fingerprint_)
            errors.append(1 - model.score(X_test, y_test))
        differ += prints[0] != prints[1]
    low, high = binomtest(differ, n_pairs).proportion_ci(0.95)
    return differ / n_pairs, low, high, float(np.mean(errors))


def compare_variants(population, n_labs, n_seeds, results, above=None):
    """Print what each variant needs; the error is ERROR, or so much above the mean vector's."""
    plans = [plan_of(population, True, 0)] + [plan_of(population, False, w) for w in WEIGHTS]
    vectors = mean_vectors(population, n_labs, plans)
    X_test, y_test = population.draw(N_TEST, [3])
    margins = [y_test * (X_test @ v.mean(axis=0)) for v in vectors]
    error = ERROR if above is None else min((m <= 0).mean() for m in margins) + above
    noises = [noise_for_error(m, error) for m in margins]
    print(f"\n{population.name}   ({n_labs} labs of {population.rows:,} rows, error {error:.3f})")
    first = None
    for variant in VARIANTS:
        chosen = range(1) if variant.hard else range(1, len(plans))
        options = [
            (samples_needed(space, vectors[i], population.rows, n_seeds), space)
            for i in chosen
            if noises[i] is not None
            for space in spaces(variant, population.n_features, noises[i])
        ]
        needed, space = min(options, key=lambda option: option[0])
        first = first or needed
        note = f"{space.projection}, {space.n_components} components, width {space.grid_width}"
        report(results, variant.name, needed, first, note)
    print(f"  (with the paper's factor 2 in the stability lemma: {4 * first:.2g})")
    return first


def run(population, n_labs, n_seeds, n_pairs):
    results = []
    started = time.perf_counter()
    first = compare_variants(population, n_labs, n_seeds, results)
    for bits, fewer in HINTS.items():
        n_rows = population.promise_rows // fewer
        labs = n_labs if n_rows < 2e6 else 4
        seeds = n_seeds if bits == 0 else n_seeds // 4
        rate, trials, error = promise_only(population, labs, seeds, n_rows, bits)
        note = f"disagreement {rate:.3f} over {trials} (pair, seed), error {error:.3f}"
        name = "promise only, measured" if bits == 0 else f"promise and {bits} hint bits, measured"
        report(results, name, n_rows, first, note)
    n_rows = population.pilot_rows
    rate, low, high, error = measured(population, pilot_fit(population), n_rows, n_pairs)
    note = f"disagreement {rate:.3f} [{low:.3f}, {high:.3f}], {n_pairs} pairs, error {error:.3f}"
    report(results, "pilot of 1,000 rows, measured", n_rows, first, note)
    print(f"  {time.perf_counter() - started:.0f} s")
    return results


def report(results, name, needed, first, note):
    print(f"  {name:36} {needed:9.2g}  {first / needed:7.1f}x  {note}", flush=True)
    results.append((name, needed))


def pilot_fit(population):
    X, y = population.draw(1000, [4])
    plan = rl.plan_from_pilot(
        X,
        y,
        algorithm="svm",
        samples_per_site=population.pilot_rows,
        fit_intercept=False,
        max_disagreement=0.15,
    )
    return lambda X, y, seed: (
        plan.protocol.estimator(n_jobs=2).set_params(shared_seed=seed).fit(X, y)
    )


def draw(results, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "replearn"
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    names = [name for name, _ in next(iter(results.values()))]
    height = 0.8 / len(results)
    for i, (population, rows) in enumerate(results.items()):
        places = np.arange(len(names)) + i * height
        axes.barh(places, [m for _, m in rows], height, label=population)
    axes.set_yticks(np.arange(len(names)) + 0.4 - height / 2, names)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="samples per lab for error .05 and disagreement .1")
    figure.legend(loc="outside upper center", ncols=2, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer labs, seeds and pairs")
    parser.add_argument(
        "--only", default="", help="only populations with this in their name: d=100, decoy, ..."
    )
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--data", type=Path, help="folder with covtype.npz and mnist70k.npz")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", rl.ReplicabilityWarning)

    def wanted(name):
        return arguments.only in ("", name, *name.split(", "))

    n_labs, n_seeds, n_pairs = (6, 60, 40) if arguments.quick else (16, 200, 100)
    results = {
        population.name: run(population, n_labs, n_seeds, n_pairs)
        for population in POPULATIONS
        if wanted(population.name)
    }
    for real in real_sets(arguments.data) if arguments.data else ():
        if wanted(real.name):
            compare_variants(real, min(n_labs, 8), n_seeds, [], above=0.02)
    if arguments.figure:
        draw(results, arguments.figure)


if __name__ == "__main__":
    main()
