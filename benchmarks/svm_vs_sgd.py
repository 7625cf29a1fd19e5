"""Algorithm 1 (batch SVMs) against Algorithm 2 (gradient descent): samples and time.

    python benchmarks/svm_vs_sgd.py [--figure docs/figures/svm-vs-sgd.svg]

Formulas: samples over (margin, max_error) at disagreement .1, failure .05, dimension-free (a
Gaussian projection). "As printed" is paper mode with all constants 1. "Proved, as printed" has the
smallest constants known to us for Algorithm 1 with unit normals (`printed_svm`). "Proved" is
certified mode of both.

Measured: practical mode, 100 features, three populations. One fit of each algorithm gives the
variance V of its batch vectors, and samples = 2 V (flip constant / (grid width * .1))^2. The error
is that of the rounded model on fresh rows, a mean over seeds. "Equal error" has for each algorithm
the grid at which that error is max_error. Time is CPU time of one thread for so many rows; for
certified mode, that of a few batches, scaled. Some predictions are checked: pairs of labs with
fresh samples of that size.
"""

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from replearn.codes.cells import flip_constant, provable_flip_constant
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.plans.plan_sgd import plan_sgd
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import Guarantee, Sizes
from replearn.plans.space_sizes import best_space, provable_space
from replearn.stages import recipes
from replearn.stages.batches import Rows, best_of_sgd, max_margin, sum_batches

RHO, DELTA = 0.1, 0.05
MANY = 10**6  # features, more than any projection keeps

ALGORITHMS = {
    "1": (plan_svm, max_margin, recipes.svm),
    "2": (plan_sgd, best_of_sgd, recipes.sgd),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=Path, help="SVG or PNG file to write")
    arguments = parser.parse_args()
    start = time.perf_counter()
    formulas = formula_panels()
    with threadpool_limits(1):
        cells = measure()
        check(cells)
        certified_times()
    if arguments.figure:
        draw(arguments.figure, formulas, cells)
    print(f"{time.perf_counter() - start:.0f} s")


# --- formulas ---------------------------------------------------------------------------------


def printed_svm(guarantee):
    """Samples for which Algorithm 1 with unit normals is proved (docs/svm-vs-sgd.md).

    A normal of n rows has margin below ``theta = (1-s) tau`` on a point with probability
    ``1 / (s tau^2 (n+1))`` on average. Points on which that is likelier than c/2, with
    ``c = (theta - m0) / (1 + theta)``, have mass e1 if ``n = 2 / (s c e1 tau^2)``; on the others
    the mean normal has margin m0 but with probability ``exp(-c B / 6)``.
    """
    tau, error = guarantee.margin, guarantee.max_error / 2
    best = math.inf
    for slack in np.arange(0.05, 0.6, 0.05):
        theta = (1 - slack) * tau
        for m0 in theta * np.arange(0.1, 0.99, 0.05):
            c = (theta - m0) / (1 + theta)
            n_components, width = provable_space(
                "gaussian", "ak", m0, 0.9 * error * guarantee.failure_prob, MANY
            )
            constant = provable_flip_constant("gaussian", "ak", MANY, n_components)
            n_batches = 2 * (constant / (width * guarantee.max_disagreement)) ** 2
            n_batches = max(n_batches, 6 / c * math.log(10 / (error * guarantee.failure_prob)))
            best = min(best, n_batches * 2 / (slack * c * error * tau**2))
    return best


def formula_panels():
    """For each panel a title and the ratio of samples, Algorithm 2 over Algorithm 1."""
    margins, errors = np.geomspace(0.02, 0.5, 14), np.geomspace(0.005, 0.3, 14)
    grids = {name: np.empty((14, 14)) for name in ("printed", "printed, proved", "proved")}
    print("samples of Algorithm 1 / Algorithm 2, any number of features")
    print(f"{'margin':>8}{'error':>8}{'as printed':>24}{'proved, as printed':>24}{'proved':>24}")
    for i, tau in enumerate(margins):
        for j, eps in enumerate(errors):
            promise = Guarantee(float(tau), float(eps), RHO, DELTA)
            sgd = plan_sgd(promise, MANY, "certified").n_samples
            pairs = [
                tuple(plan(promise, MANY, "paper").n_samples for plan in (plan_svm, plan_sgd)),
                (printed_svm(promise), sgd),
                (plan_svm(promise, MANY, "certified").n_samples, sgd),
            ]
            for grid, (one, two) in zip(grids.values(), pairs, strict=True):
                grid[i, j] = two / one
            if i % 4 == 1 and j % 4 == 1:
                numbers = "".join(f"{f'{one:.1e} / {two:.1e}':>24}" for one, two in pairs)
                print(f"{tau:>8.3f}{eps:>8.3f}{numbers}")
    titles = [
        "as printed, all constants 1",
        "proved, Algorithm 1 as printed",
        "proved, Algorithm 1 of certified mode",
    ]
    return margins, errors, dict(zip(titles, grids.values(), strict=True))


# --- measurements -----------------------------------------------------------------------------

MARGINS, ERRORS = (0.05, 0.1, 0.2, 0.4), (0.02, 0.05, 0.1)
N_FEATURES, N_ROWS, N_NEW, N_SEEDS = 100, 60_000, 4_000, 25
POPULATIONS = {
    "usual": lambda tau: {},
    "all margins near tau": lambda tau: {"max_margin": 1.2 * tau},
    "decoy, power law": lambda tau: {"decoy": 0.5, "decay": 1.0},
}


@dataclass(frozen=True)
class Cell:
    """What one algorithm needs at one point; ``equal`` are samples at equal error."""

    population: str
    margin: float
    max_error: float
    algorithm: str
    samples: float
    equal: float
    error: float
    seconds: float

    @property
    def equal_seconds(self):
        return self.seconds * self.equal / self.samples


def draw_rows(population, tau, n, state, n_features=N_FEATURES):
    X, y = make_margin(n, n_features, tau, random_state=state, **POPULATIONS[population](tau))
    return Rows(X, y.astype(np.int8), np.arange(n))


def measure():
    print(
        "\nmeasured: samples, error of the model, CPU seconds per fit; and samples at equal error"
    )
    print(
        f"{'population':<22}{'margin':>7}{'error':>6}"
        + "".join(f"{f'Algorithm {a}':>30}" for a in ALGORITHMS)
        + f"{'equal error':>20}"
    )
    cells = []
    for population in POPULATIONS:
        for tau in MARGINS:
            rows = draw_rows(population, tau, N_ROWS, 1)
            new = draw_rows(population, tau, N_NEW, 2)
            found = {
                name: list(measure_one(name, population, tau, rows, new)) for name in ALGORITHMS
            }
            for one, two in zip(*found.values(), strict=True):
                print(
                    f"{population:<22}{tau:>7}{one.max_error:>6}"
                    + "".join(
                        f"{f'{c.samples:.1e}  {c.error:.3f}  {c.seconds:.2g} s':>30}"
                        for c in (one, two)
                    )
                    + f"{f'{one.equal:.1e} / {two.equal:.1e}':>20}"
                )
                cells += [one, two]
    return cells


def measure_one(name, population, tau, rows, new):
    plan_of, kernel_of, _ = ALGORITHMS[name]
    plan = plan_of(Guarantee(tau, 0.05, RHO, DELTA), N_FEATURES)
    seconds = math.inf
    for _ in range(3):
        start = time.thread_time()
        sums = sum_batches(kernel_of(plan), rows, plan)
        seconds = min(seconds, time.thread_time() - start)
    tally = sums.tally
    variance = plan.batch_size * tally.pair_sum / (2 * tally.n_pairs)
    margins = new.signs * (new.X @ sums.mean())
    for eps in ERRORS:
        plan = plan_of(Guarantee(tau, eps, RHO, DELTA), N_FEATURES)
        samples = samples_for(variance, plan.rounding, plan.n_components, float(plan.grid_width))
        equal = math.nan
        if (margins <= 0).mean() < eps:
            noise = brentq(lambda s, eps=eps: error_of(margins, s) - eps, 1e-6, 10)
            space = best_space(N_FEATURES, noise, Sizes())
            equal = samples_for(variance, *space[1:])
        error = np.mean([error_under(seed, sums, plan, new) for seed in range(N_SEEDS)])
        yield Cell(
            population, tau, eps, name, samples, equal, float(error), seconds * samples / N_ROWS
        )


def samples_for(variance, rounding, n_components, width):
    return 2 * variance * (flip_constant(rounding, n_components) / (width * RHO)) ** 2


def error_of(margins, noise):
    return float(np.mean([NormalDist().cdf(-m / noise) for m in margins[:1000]]))


def error_under(seed, sums, plan, new):
    shared = SharedRandomness(seed)
    fitted = recipes.round_means([sums], N_ROWS, plan, shared)
    scores = new.X @ fitted.space.decode(fitted.codes, shared)
    return float(np.mean(new.signs * scores <= 0))


def check(cells, n_pairs=300):
    """Pairs of labs with just so many fresh rows, a fresh seed each."""
    print("\nmeasured disagreement at so many samples, predicted .1 (95 % interval)")
    for cell in cells:
        if cell.population != "usual" or cell.margin != 0.4 or cell.max_error == 0.02:
            continue
        plan_of, _, recipe = ALGORITHMS[cell.algorithm]
        plan = plan_of(Guarantee(cell.margin, cell.max_error, RHO, DELTA), N_FEATURES)
        n = max(1, round(cell.samples / plan.batch_size)) * plan.batch_size
        differ = 0
        for pair in range(n_pairs):
            labs = [draw_rows(cell.population, cell.margin, n, [3, pair, lab]) for lab in (0, 1)]
            codes = [recipe(rows, plan, SharedRandomness(pair)).codes for rows in labs]
            differ += not np.array_equal(*codes)
        low, high = binomtest(differ, n_pairs).proportion_ci()
        where = f"Algorithm {cell.algorithm}, margin {cell.margin}, error {cell.max_error}"
        print(f"{where}, {n:,} rows: {differ / n_pairs:.3f} ({low:.3f} to {high:.3f})")


def certified_times():
    """Samples of certified mode for 100 features, and the time to read them all."""
    print("\ncertified mode, 100 features: samples, CPU hours")
    for tau in (0.2, 0.4):
        rows = draw_rows("usual", tau, N_ROWS, 1)
        for eps in (0.05, 0.1, 0.2):
            words = []
            for plan_of, kernel_of, _ in ALGORITHMS.values():
                plan = plan_of(Guarantee(tau, eps, RHO, DELTA), N_FEATURES, "certified")
                start = time.thread_time()
                used = sum_batches(kernel_of(plan), rows, plan)
                per_row = (time.thread_time() - start) / (used.n_batches * used.batch_size)
                hours = per_row * plan.n_samples / 3600
                words.append(f"{plan.n_samples:.1e}, {hours:.2g} h")
            print(f"margin {tau}, error {eps}: Algorithm 1 {words[0]}; Algorithm 2 {words[1]}")


# --- the figure -------------------------------------------------------------------------------

COLOURS = {"usual": "#1f5fa8", "all margins near tau": "#c2410c", "decoy, power law": "#4d7c0f"}
STYLES = {"equal": ("o-", "samples"), "equal_seconds": ("s--", "CPU time")}
WIDEST = 300.0


def draw(path, formulas, cells):
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {"svg.hashsalt": "replearn", "svg.fonttype": "none", "font.size": 10}
    with mpl.rc_context(style):
        figure = Figure(figsize=(9.5, 8.4), layout="constrained")
        axes = figure.subplots(2, 2)
        for panel, (title, grid) in zip(axes.flat, formulas[2].items(), strict=False):
            image = draw_formula(panel, *formulas[:2], grid, title)
        draw_measured(axes.flat[3], cells)
        bar = figure.colorbar(image, ax=axes.ravel().tolist(), location="bottom", shrink=0.6)
        bar.set_ticks([0.01, 0.1, 1, 10, 100], labels=["1/100", "1/10", "1", "10", "100"])
        bar.set_label("samples of Algorithm 2 over samples of Algorithm 1")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


def draw_formula(panel, margins, errors, grid, title):
    from matplotlib.colors import LogNorm

    image = panel.pcolormesh(
        *(errors, margins, grid),
        norm=LogNorm(1 / WIDEST, WIDEST),
        cmap="RdBu_r",
        shading="gouraud",
        rasterized=True,  # thousands of triangles otherwise
    )
    if grid.min() < 1 < grid.max():
        panel.contour(errors, margins, grid, levels=[1.0], colors="black")
    for name, sign in (("Algorithm 1", 1), ("Algorithm 2", -1)):
        lead = np.maximum(0, sign * np.log(grid))
        if lead.any():  # the words go to the middle of where it wins
            x = np.exp(np.average(np.log(errors), weights=lead.sum(axis=0)))
            y = np.exp(np.average(np.log(margins), weights=lead.sum(axis=1)))
            place = {"ha": "center", "va": "center", "size": 9}
            colour = "white" if lead.mean() > 3 else "black"
            panel.text(max(x, 0.0085), y, f"{name}\nneeds fewer", color=colour, **place)
    panel.set(xscale="log", yscale="log", title=title, xlabel="max_error", ylabel="margin")
    panel.set_xticks([0.01, 0.03, 0.1, 0.3], ["1 %", "3 %", "10 %", "30 %"])
    panel.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], [".02", ".05", ".1", ".2", ".5"])
    panel.minorticks_off()
    return image


def draw_measured(panel, cells):
    for population, colour in COLOURS.items():
        here = [c for c in cells if c.population == population and c.max_error == 0.05]
        one, two = ([c for c in here if c.algorithm == name] for name in ALGORITHMS)
        for what, (style, _) in STYLES.items():
            ratios = [getattr(b, what) / getattr(a, what) for a, b in zip(one, two, strict=True)]
            panel.plot(MARGINS, ratios, style, color=colour)
        panel.plot([], [], color=colour, linewidth=3, label=population)
    for style, name in STYLES.values():
        panel.plot([], [], style, color="#444444", label=name)
    panel.axhline(1, color="black", linewidth=1)
    panel.set(
        xscale="log",
        yscale="log",
        title="measured, practical mode, error 5 % of both",
        xlabel="margin",
        ylabel="Algorithm 2 over Algorithm 1",
        ylim=(0.06, 9),
    )
    panel.set_xticks(MARGINS, [f"{tau:g}".lstrip("0") for tau in MARGINS])
    panel.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["1/10", "1/5", "1/2", "1", "2", "5"])
    panel.minorticks_off()
    panel.legend(fontsize=8, ncols=2, loc="lower right")


if __name__ == "__main__":
    main()
