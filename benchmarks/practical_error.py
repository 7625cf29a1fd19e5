"""What max_error of practical mode means, on populations that chose none of its constants.

    python benchmarks/practical_error.py [--populations 24] [--rows 20000] [--seeds 4]

The constants of practical mode were chosen on populations whose margins are spread from the
promised one to four times as much. The family here is drawn at random, by its number alone: 5 to
200 features (evenly in the logarithm), a smallest margin of .1 to .4, which is what is promised, a
largest one of 1.05 to 4 times as much (at most .95), and rows whose j-th axis across the normal has
the standard deviation j^-decay, decay from 0 to 1. ``--case`` takes the population of the page
docs/promises.md: 60 features, margins from .3 to .7, decay .5.

Printed are errors on fresh rows, averaged over shared seeds, and where they come from:

- *before*: the error of the vector that is rounded: that of the batches.
- *aligned*: what normal noise of the planned size would cost if that vector were the normal, as
  long as the soft SVM of the whole population makes it: what is due to the margins alone.
- *after*: the error of models without an intercept, for which the promised margin holds.
- *intercept*: the same with the default ``fit_intercept=True`` and the margin of the rows as they
  are. A constant 1 is appended to each row, so the margin of these longer rows is smaller by a
  factor of 1.41, and the promise does not hold.
- *kept*: with the intercept and the margin of the longer rows, for which the promise holds again.
"""

import argparse
import warnings
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

import replearn as rl
from replearn.datasets import make_margin

N_TEST = 20_000
FIRST_POPULATION = 5000  # of normals that nothing was calibrated on


@dataclass(frozen=True)
class Population:
    number: int
    n_features: int
    margin: float
    max_margin: float
    decay: float

    def draw(self, n_rows, state):
        return make_margin(
            n_rows,
            self.n_features,
            self.margin,
            max_margin=self.max_margin,
            decay=self.decay,
            population=self.number,
            random_state=np.random.default_rng([self.number, state]),
        )


def drawn(number):
    rng = np.random.default_rng([2027, number])
    n_features = round(np.exp(rng.uniform(np.log(5), np.log(200))))
    margin = round(rng.uniform(0.1, 0.4), 3)
    most = round(min(rng.uniform(1.05, 4) * margin, 0.95), 3)
    return Population(FIRST_POPULATION + number, n_features, margin, most, round(rng.random(), 2))


def aligned_length(population):
    """Length of the soft SVM's vector if all rows were known: its first-order condition."""
    margins = np.linspace(population.margin, population.max_margin, 10_001)
    low, high = 0.0, 1 / population.margin
    for _ in range(60):
        length = (low + high) / 2
        pull = np.mean(np.where(length * margins < 1, margins, 0))
        low, high = (length, high) if pull > population.margin**2 * length else (low, length)
    return length


def classifier(population, max_error, seed, intercept, share=1.0, **settings):
    return rl.ReplicableSVMClassifier(
        margin=share * population.margin,
        max_error=max_error,
        shared_seed=seed,
        fit_intercept=intercept,
        **settings,
    )


def error_before(population, max_error, X, y, X_test, y_test):
    """Error of the vector that is rounded."""
    fitted = classifier(population, max_error, 0, False, projection="none").fit(X, y)
    model = fitted.model_
    place = fitted.residual_[: model.space.n_components] * float(model.space.grid_width)
    mean = model.space.rounded(model.codes, model.shared) + place
    return np.mean(y_test * (X_test @ mean) <= 0)


def error_aligned(population, max_error):
    """What normal noise costs a vector that has the right direction."""
    sharpness = NormalDist().inv_cdf(1 - 0.28 * max_error) * aligned_length(population)
    margins = np.linspace(population.margin, population.max_margin, 2001)
    return np.mean([NormalDist().cdf(-sharpness * margin) for margin in margins])


def measured(population, max_error, n_rows, n_seeds):
    """Errors: before, aligned, after, with an intercept, with an intercept and its margin."""
    X, y = population.draw(n_rows, 0)
    X_test, y_test = population.draw(N_TEST, 1)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for intercept, share in ((False, 1.0), (True, 1.0), (True, 0.5**0.5)):
            made = (
                classifier(population, max_error, seed, intercept, share) for seed in range(n_seeds)
            )
            found.append(np.mean([np.mean(m.fit(X, y).predict(X_test) != y_test) for m in made]))
        before = error_before(population, max_error, X, y, X_test, y_test)
    return before, error_aligned(population, max_error), *found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", type=int, default=24)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--max-error", type=float, default=0.05)
    parser.add_argument("--case", action="store_true", help="60 features, margins .3 to .7 alone")
    options = parser.parse_args()
    case = Population(FIRST_POPULATION, 60, 0.3, 0.7, 0.5)
    chosen = [case] if options.case else [drawn(n) for n in range(options.populations)]
    names = ("before", "aligned", "after", "intercept", "kept")
    print(f"{'features':>8}{'margins':>16}{'decay':>7}" + "".join(f"{n:>11}" for n in names))
    found = []
    for one in chosen:
        found.append(measured(one, options.max_error, options.rows, options.seeds))
        margins = f"{one.margin:g} to {one.max_margin:g}"
        numbers = "".join(f"{error:>11.4f}" for error in found[-1])
        print(f"{one.n_features:>8}{margins:>16}{one.decay:>7g}{numbers}", flush=True)
    for name, errors in zip(names, np.array(found).T, strict=True):
        deviation = errors.std(ddof=1) / len(errors) ** 0.5 if len(errors) > 1 else np.nan
        print(f"{name:<10} mean {errors.mean():.4f} (standard error {deviation:.4f})", end="")
        print(f", above max_error {np.mean(errors > options.max_error):.0%}", end="")
        print(f", worst {errors.max():.4f}")


if __name__ == "__main__":
    main()
