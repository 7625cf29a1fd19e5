"""Table 1, measured: samples that each of the six rows needs, and how they grow.

    python benchmarks/table1.py [--quick] [--jobs 2] [--figure docs/figures/table1.svg]

All rows see the same seeded populations (margins uniform on [tau, 2 tau]) and go through one and
the same procedure, public interface only, practical mode:

1. Tune. The nominal ``max_error`` that the classifier is given is raised, from epsilon in steps of
   a factor 2, as long as the error on fresh points, averaged over seeds, stays at most epsilon.
2. Search. Labs of m fresh rows fit, each with another seed; the disagreement p is the mean of
   the probabilities that their certificates give (0 or 1 for a pair of fits would need ten times
   as many). m moves until p is near rho. m(rho) then comes from all sizes where
   -log(1 - p) is within a factor 3 of its target, each carried over by the law
   1/sqrt(m), which is right for small steps; the sweep over rho tests it for large ones.
3. Check, in the base setting: pairs of labs with m(rho) rows, different fingerprints counted.

A row is left out where it cannot run: foam above 16 inputs, and whatever exceeds the limit of
rows or of time; the reason is printed.
"""

import argparse
import math
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import replearn as rl
from replearn.datasets import make_margin


@dataclass(frozen=True)
class Row:
    name: str
    classifier: str
    options: dict
    paper: dict  # exponents of d, 1/tau, 1/epsilon, 1/rho


ROWS = [
    Row("ILPS22 foam", "Boosting", {"rounding": "foam"}, {"d": 1, "tau": 8, "eps": 3, "rho": 2}),
    Row("ILPS22 box", "Boosting", {"rounding": "box"}, {"d": 3, "tau": 10, "eps": 4, "rho": 2}),
    Row("Algorithm 1", "SVM", {}, {"d": 0, "tau": 7, "eps": 1, "rho": 2}),
    Row("Algorithm 2", "SGD", {}, {"d": 0, "tau": 6, "eps": 2, "rho": 2}),
    Row("DP reduction", "DP", {}, {"d": 0, "tau": 4, "eps": 2, "rho": 2}),
    Row("Algorithm 3", "Net", {}, {"d": 0, "tau": 4, "eps": 1, "rho": 2}),
]


@dataclass(frozen=True)
class Setting:
    d: int = 8
    tau: float = 0.2
    eps: float = 0.05
    rho: float = 0.2


SWEEPS = {
    "d": (4, 8, 16, 64, 256),
    "tau": (0.1, 0.14, 0.2, 0.28, 0.4),
    "eps": (0.025, 0.05, 0.1, 0.2),
    "rho": (0.1, 0.2, 0.4),
}
QUICK = {
    "d": (4, 8, 16, 64, 256),
    "tau": (0.1, 0.2, 0.4),
    "eps": (0.05, 0.1, 0.2),
    "rho": (0.1, 0.2, 0.4),
}


@dataclass(frozen=True)
class Effort:
    n_seeds: int
    n_pairs: int  # of the check
    max_entries: int  # of one lab's table
    seconds: float  # of processor time, for one row and one setting


FULL_EFFORT = Effort(n_seeds=120, n_pairs=100, max_entries=8_000_000, seconds=10)
QUICK_EFFORT = Effort(n_seeds=40, n_pairs=30, max_entries=2_000_000, seconds=3)
MIN_SEEDS = 8  # that a size needs to count, when time is up in the middle
N_LABS = 10  # whose samples serve in turn
TUNING_ROWS = 10_000
MIN_ROWS = 200


class GiveUp(Exception):
    """Why a row was left out."""


class Task:
    """One row in one setting."""

    def __init__(self, row, setting, effort):
        self.row, self.setting, self.effort = row, setting, effort
        self.stop = time.process_time() + effort.seconds
        self.max_rows = effort.max_entries // setting.d
        self.fit_seconds = {}

    def draw(self, n, lab):
        # the lab's number alone decides: all rows of the table see the same samples
        tau = self.setting.tau
        return make_margin(n, self.setting.d, tau, max_margin=2 * tau, random_state=[n, lab])

    def fit(self, nominal, seed, X, y):
        if time.process_time() > self.stop:
            raise GiveUp(f"more than {self.effort.seconds:g} s")
        classifier = getattr(rl, f"Replicable{self.row.classifier}Classifier")(
            margin=self.setting.tau,
            max_error=nominal,
            max_disagreement=self.setting.rho,
            fit_intercept=False,
            shared_seed=seed,
            **self.row.options,
        )
        start = time.perf_counter()
        classifier.fit(X, y)
        self.fit_seconds.setdefault(len(y), []).append(time.perf_counter() - start)
        return classifier

    def tune(self):
        """The largest nominal error whose measured error is at most epsilon."""
        eps = self.setting.eps
        X, y = self.draw(min(TUNING_ROWS, self.max_rows), 1_000)
        X_test, y_test = self.draw(5_000, 1_001)
        best = None
        for nominal in (eps, 2 * eps, 4 * eps, 8 * eps):
            if nominal >= 0.9:
                break
            errors = [1 - self.fit(nominal, s, X, y).score(X_test, y_test) for s in range(4)]
            if np.mean(errors) > eps:
                break
            best = nominal, float(np.mean(errors))
        if best is None:
            raise GiveUp(f"error {np.mean(errors):.2f} above {eps:g}")
        return best

    def disagreement(self, nominal, m):
        """Mean estimate over seeds; never quite 0 or 1."""
        labs, estimates = {}, []
        for seed in range(self.effort.n_seeds):
            lab = seed % N_LABS
            if lab not in labs:
                labs[lab] = self.draw(m, lab)
            try:
                fitted = self.fit(nominal, f"table1/{seed}", *labs[lab])
            except GiveUp:
                if seed < MIN_SEEDS:
                    raise
                break
            estimate = fitted.certificate_.estimated_disagreement
            estimates.append(1.0 if estimate is None else estimate)
        return (sum(estimates) + 0.2) / (len(estimates) + 0.4)

    def check(self, nominal, m):
        """Pairs of fresh labs with different fingerprints, as "differ/pairs"."""
        self.stop += 4 * self.effort.seconds
        differ = 0
        for pair in range(self.effort.n_pairs):
            labs = [self.draw(m, 3_000 + 2 * pair + i) for i in (0, 1)]
            first, second = (self.fit(nominal, f"check/{pair}", *lab).fingerprint_ for lab in labs)
            differ += first != second
        return f"{differ}/{self.effort.n_pairs}"

    def samples(self, nominal):
        """Rows at which the disagreement is rho, and how they were found."""
        target = hazard(self.setting.rho)
        m, known = float(min(5_000, self.max_rows)), {}
        for _ in range(6):
            m = int(min(max(m, MIN_ROWS), self.max_rows))
            if m in known:
                break
            try:
                known[m] = hazard(self.disagreement(nominal, m))
            except GiveUp:
                if not known:
                    raise
                break
            ratio = known[m] / target
            if 0.8 < ratio < 1.25:
                break
            m *= min(max(ratio, 1 / 4), 4) ** 2
        m_rho = pooled(known, target)
        inside = min(known) / 1.5 <= m_rho <= 1.5 * max(known)
        if m_rho > 50 * max(known):
            raise GiveUp(f"far more than {max(known):,} rows")
        return m_rho, inside

    def run(self):
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        try:
            X, y = self.draw(400, 2_000)  # compiles, before the clock starts
            self.fit(self.setting.eps, 0, X, y)
            self.stop = time.process_time() + self.effort.seconds
            nominal, error = self.tune()
            m, inside = self.samples(nominal)
        except (GiveUp, rl.ReplearnError) as reason:
            return {"reason": str(reason)}
        checked = "-"
        if self.setting == Setting() and m <= self.max_rows:
            try:
                checked = self.check(nominal, max(int(m), MIN_ROWS))
            except GiveUp as reason:
                checked = str(reason)
        largest = max(self.fit_seconds)
        seconds = float(np.median(self.fit_seconds[largest])) * m / largest
        return {
            "m": m,
            "inside": inside,
            "nominal": nominal,
            "error": error,
            "seconds": seconds,
            "checked": checked,
        }


def hazard(p):
    return -math.log1p(-p)


def pooled(known, target):
    """Rows at the target: each size with a hazard near it says so, by the law 1/sqrt(m)."""
    near = [m for m in known if target / 3 < known[m] < 3 * target]
    if not near:
        near = [min(known, key=lambda m: abs(math.log(known[m] / target)))]
    logs = [math.log(m) + 2 * math.log(known[m] / target) for m in near]
    return math.exp(float(np.mean(logs)))


def run_task(arguments):
    return Task(*arguments).run()


def measure(sweeps, effort, n_jobs):
    """Results by (row's name, setting)."""
    settings = {Setting()} | {
        replace(Setting(), **{name: value}) for name, values in sweeps.items() for value in values
    }
    tasks = [(row, s, effort) for s in settings for row in ROWS if can_run(row, s)]
    with ProcessPoolExecutor(n_jobs) as pool:
        found = list(pool.map(run_task, tasks))
    return {(row.name, s): result for (row, s, _), result in zip(tasks, found, strict=True)}


def can_run(row, setting):
    if not hasattr(rl, f"Replicable{row.classifier}Classifier"):
        print(f"{row.name} is left out: Replicable{row.classifier}Classifier is not there")
        return False
    return not (row.options.get("rounding") == "foam" and setting.d > 16)


def series(results, row, sweeps, name):
    """(value, m) along one sweep."""
    points = []
    for value in sweeps[name]:
        result = results.get((row.name, replace(Setting(), **{name: value})), {})
        if "m" in result:
            points.append((value, result["m"]))
    return points


def exponent(points, name):
    """Fitted power of d, 1/tau, 1/eps or 1/rho."""
    if len(points) < 2:
        return None
    x, m = np.log(np.array(points)).T
    slope = float(np.polyfit(x, m, 1)[0])
    return slope if name == "d" else -slope


def shown(slope):
    return "-" if slope is None else f"{slope:.1f}"


def print_tables(results, sweeps):
    for name, values in sweeps.items():
        print(f"\nrows per lab, by {name} (others as in {Setting()})\n")
        print(f"| row | {' | '.join(f'{name} {v:g}' for v in values)} |")
        print("|---|" + "--:|" * len(values))
        for row in ROWS:
            cells = []
            for value in values:
                result = results.get((row.name, replace(Setting(), **{name: value})), {})
                mark = "" if result.get("inside", True) else "*"
                cells.append(f"{result['m']:,.0f}{mark}" if "m" in result else "-")
            print(f"| {row.name} | {' | '.join(cells)} |")
    print("\nfitted exponents, in brackets those of Table 1\n")
    print("| row | d | last two d | 1/tau | 1/eps | 1/rho | seconds a fit | error | pairs differ |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for row in ROWS:
        cells = []
        for name in sweeps:
            points = series(results, row, sweeps, name)
            cells.append(f"{shown(exponent(points, name))} ({row.paper[name]})")
            if name == "d":
                cells.append(shown(exponent(points[-2:], name)))
        base = results.get((row.name, Setting()), {})
        if "m" in base:
            cells += [f"{base['seconds']:.3f}", f"{base['error']:.3f}", base["checked"]]
        else:
            cells += ["-", "-", "-"]
        print(f"| {row.name} | {' | '.join(cells)} |")
    reasons = defaultdict(list)
    for (name, setting), result in results.items():
        if "reason" in result:
            reasons[name, result["reason"]].append(setting)
    for (name, reason), settings in reasons.items():
        where = "; ".join(f"d={s.d} tau={s.tau} eps={s.eps} rho={s.rho}" for s in settings)
        print(f"\n{name} left out ({reason}): {where}")


def draw_figure(results, sweeps, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(15, 4.2), sharey=True)
    styles = ["o--", "s--", "D-", "^-", "v:", "x:"]
    labels = {"d": "features d", "tau": "margin τ", "eps": "error ε", "rho": "disagreement ρ"}
    for panel, name in zip(panels, sweeps, strict=True):
        for row, style, colour in zip(ROWS, styles, plt.cm.tab10.colors, strict=False):
            points = series(results, row, sweeps, name)
            if points:
                label = f"{row.name}"
                panel.loglog(*zip(*points, strict=True), style, color=colour, label=label, ms=5)
        panel.set_xlabel(labels[name])
        panel.set_xticks(sweeps[name], [f"{value:g}" for value in sweeps[name]])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("rows per lab")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, ncols=6, loc="upper center", frameon=False)
    base = Setting()
    figure.text(
        0.5,
        0.01,
        f"elsewhere d = {base.d}, τ = {base.tau}, ε = {base.eps}, ρ = {base.rho}",
        ha="center",
        fontsize=9,
    )
    figure.tight_layout(rect=(0, 0.03, 1, 0.93))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"\nwrote {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    sweeps = QUICK if options.quick else SWEEPS
    start = time.perf_counter()
    results = measure(sweeps, QUICK_EFFORT if options.quick else FULL_EFFORT, options.jobs)
    print_tables(results, sweeps)
    print(f"\n{time.perf_counter() - start:.0f} s")
    if options.figure:
        draw_figure(results, sweeps, options.figure)


if __name__ == "__main__":
    main()
