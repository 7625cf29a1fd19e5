"""What the stages cost, in units of reading the data once, against their bars.

    python benchmarks/speed.py [--rounds 7] [--stages logistic,streamed,planner]

The unit ``X@w`` is one ``np.dot(X, w, out=)`` with one BLAS thread on the same array (for CSR, one
scipy product). CPU time of one thread; the contenders of a line take turns in one process and the
best of the rounds counts, so the ratios hold on a busy machine too. Data: 300,000 x 100 unit rows,
margins .1 to .2, batches of 300; "easy" is isotropic, "hard" has a decoy direction that agrees with
the label on 75 % of the rows and a power-law spectrum. Compilation is not counted.
"""

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numba import njit
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from replearn import ReplicableLogisticClassifier, fit_file, plan_from_pilot
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.kernels import max_margin as svm
from replearn.kernels.exact import add_fixed
from replearn.kernels.tally import new_tally
from replearn.plans.plan_sgd import plan_sgd
from replearn.plans.sizes import Guarantee, Sizes
from replearn.sources import open_source
from replearn.sources.common import rows_per_batch
from replearn.stages import recipes
from replearn.stages.batches import Rows
from replearn.stages.scores import score_terms

MARGIN, BATCH = 0.1, 300
POPULATIONS = {"easy": {}, "hard": {"decoy": 0.7, "decay": 0.5}}
SOFT = 1 / (BATCH * MARGIN**2)  # C of the practical plan: lambda = margin^2


@dataclass(frozen=True)
class Sample:
    name: str
    X: Any
    signs: Any
    noisy: Any  # signs with 2 % of them flipped


@dataclass(frozen=True)
class Line:
    """One line of the table; ``measured`` has one number per population."""

    stage: str
    bar: str
    measured: list[float]
    unit: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--stages", help="some of the functions at the end, by name")
    options = parser.parse_args()
    wanted = [stage for stage in STAGES if stage.__name__ in (options.stages or stage.__name__)]
    start = time.perf_counter()
    print(f"{'stage':<58}{'bar':<20}measured ({' / '.join(POPULATIONS)})")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LinearSVC warns where it stops early
        samples = [draw(name) for name in POPULATIONS]
        for stage in wanted:
            for line in stage(samples, options.rounds):
                numbers = " / ".join(f"{number:.3g}" for number in line.measured)
                print(f"{line.stage:<58}{line.bar:<20}{numbers} {line.unit}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s")


def draw(name: str, n: int = 300_000, d: int = 100) -> Sample:
    options: dict[str, Any] = POPULATIONS[name]
    X, y = make_margin(n, d, MARGIN, max_margin=2 * MARGIN, random_state=1, **options)
    signs = y.astype(np.int8)
    flipped = np.random.default_rng(2).random(n) < 0.02
    return Sample(name, X, signs, np.where(flipped, -signs, signs))


def race(rounds: int, *contenders: Callable[[], object]) -> list[float]:
    """Best CPU seconds of each, taking turns; a first round, which may compile, is not counted."""
    best = [math.inf] * len(contenders)
    for turn in range(rounds + 1):
        for k, contender in enumerate(contenders):
            start = time.thread_time()
            contender()
            if turn:
                best[k] = min(best[k], time.thread_time() - start)
    return best


def by_population(samples: list[Sample], ratio: Callable[[Sample], list[float]]) -> Iterator[Any]:
    """The ratios of each population, transposed: one list per line of the table."""
    return zip(*(ratio(sample) for sample in samples), strict=True)


# --- the batch SVM ----------------------------------------------------------------------------


def reading(X: Any) -> Callable[[], object]:
    w, out = np.ones(X.shape[1]), np.empty(X.shape[0])
    return (lambda: X @ w) if sp.issparse(X) else (lambda: np.dot(X, w, out=out))


def fit(X: Any, signs: Any, C: float = math.inf, share: float = 0.8) -> Callable[[], object]:
    """All batch vectors, added up: a fit without projection and rounding."""
    n, d = X.shape
    # a gap of 3e-4 puts the direction within one degree
    accuracy = {"floor_margin": 0.0, "abs_gap": 0.0, "rel_gap": 3e-4, "max_sweeps": 10_000}
    problem = svm.new_problem(C, share=share, intercept=False, **accuracy)
    order, output = np.arange(n), svm.new_output(True, 1.0)

    def run() -> None:
        hi, lo = np.zeros((2, 8, d), np.int64)
        svm.sum_batches(X, signs, order, 0, BATCH, problem, output, hi, lo, new_tally())

    return run


def linear_svc_loop(X: Any, signs: Any, tol: float, n_batches: int) -> Callable[[], object]:
    def run() -> None:
        for start in range(0, n_batches * BATCH, BATCH):
            model = LinearSVC(loss="hinge", C=10, tol=tol, fit_intercept=False, random_state=0)
            model.fit(X[start : start + BATCH], signs[start : start + BATCH])

    return run


def fits(samples: list[Sample], rounds: int) -> Iterator[Line]:
    def ratios(sample: Sample) -> list[float]:
        unit, *times = race(
            rounds,
            reading(sample.X),
            fit(sample.X, sample.signs, share=0.8),
            fit(sample.X, sample.signs, share=0.5),
            fit(sample.X, sample.noisy, C=SOFT),
        )
        return [seconds / unit for seconds in times]

    stages = [
        ("one fit, margin certified >= .8 of the largest", "<= 7 (stretch 5)"),
        ("one fit, margin certified >= .5 of the largest", "<= 4"),
        ("soft margin, 2 % label noise, 1 degree from exact", "<= 12"),
    ]
    for (stage, bar), measured in zip(stages, by_population(samples, ratios), strict=True):
        yield Line(stage, bar, measured, "X@w")


def float32(samples: list[Sample], rounds: int) -> Iterator[Line]:
    def ratios(sample: Sample) -> list[float]:
        X = sample.X.astype(np.float32)
        wide, narrow, wide_soft, narrow_soft = race(
            rounds,
            fit(sample.X, sample.signs),
            fit(X, sample.signs),
            fit(sample.X, sample.noisy, C=SOFT),
            fit(X, sample.noisy, C=SOFT),
        )
        return [narrow / wide, narrow_soft / wide_soft]

    stages = ["float32 against float64, one fit at .8", "float32 against float64, soft margin"]
    for stage, measured in zip(stages, by_population(samples, ratios), strict=True):
        yield Line(stage, "<= .95", measured)


def against_linear_svc(samples: list[Sample], rounds: int) -> Iterator[Line]:
    n_batches = 40

    def ratios(sample: Sample) -> list[float]:
        X, signs = sample.X[: n_batches * BATCH], sample.signs[: n_batches * BATCH]
        loops = [linear_svc_loop(X, signs, tol, n_batches) for tol in (1e-3, 0.5)]
        ours, *theirs = race(min(rounds, 3), fit(X, signs), *loops)
        return [seconds / ours for seconds in theirs]

    stages = [
        ("loop of LinearSVC(hinge, C=10, tol=1e-3) against ours", ">= 30"),
        ("the same with tol=.5, which has the margins of ours", ">= 10"),
    ]
    for (stage, bar), measured in zip(stages, by_population(samples, ratios), strict=True):
        yield Line(stage, bar, measured, "times ours")


@njit
def add_all(vectors, hi, lo):
    for w in vectors:
        for j in range(w.size):
            add_fixed(w[j], hi, lo, j)


def exact_sums(samples: list[Sample], rounds: int) -> Iterator[Line]:
    def ratios(sample: Sample) -> list[float]:
        n, d = sample.X.shape
        hi, lo = np.zeros((2, d), np.int64)
        vectors = sample.X[: n // BATCH]
        whole, sums = race(rounds, fit(sample.X, sample.signs), lambda: add_all(vectors, hi, lo))
        return [100 * sums / whole]

    (measured,) = by_population(samples, ratios)
    yield Line("exact accumulation, share of a fit", "<= 2", measured, "%")


def sparse_sample() -> tuple[Any, Any]:
    n, d, n_entries = 100_000, 100_000, 100
    rng = np.random.default_rng(3)
    columns = np.sort(rng.integers(0, d, (n, n_entries), dtype=np.int32), axis=1)
    ends = np.arange(0, n * n_entries + 1, n_entries)
    X = sp.csr_matrix((rng.standard_normal(n * n_entries), columns.ravel(), ends), (n, d))
    X.sum_duplicates()
    return X, np.where(X @ rng.standard_normal(d) > 0, 1, -1).astype(np.int8)


def csr(samples: list[Sample], rounds: int) -> Iterator[Line]:
    n_batches = 10
    X, signs = sparse_sample()
    ours, unit = race(rounds, fit(X, signs), reading(X))
    yield Line("CSR 1e5 x 1e5, 100 entries per row, one fit at .8", "<= 10", [ours / unit], "X@w")
    part = X[: n_batches * BATCH]
    theirs, mine = race(
        min(rounds, 3), linear_svc_loop(part, signs, 1e-3, n_batches), fit(part, signs)
    )
    yield Line("loop of LinearSVC on it against ours", ">= 5", [theirs / mine], "times ours")


# --- gradient descent -------------------------------------------------------------------------


def descent(X: Any, signs: Any, order: Any = None, **sizes: Any) -> Callable[[], object]:
    """One fit of Algorithm 2, from rows to codes."""
    sizes = {"projection": "signs", "n_components": 1000, "rounding": "centre"} | sizes
    promise = Guarantee(MARGIN, max_error=0.05, max_disagreement=0.1, failure_prob=0.05)
    plan = plan_sgd(promise, X.shape[1], sizes=Sizes(**sizes))
    rows = Rows(X, signs, np.arange(X.shape[0]) if order is None else order)
    shared = SharedRandomness(0)
    return lambda: recipes.sgd(rows, plan, shared)


def gradient_descent(samples: list[Sample], rounds: int) -> Iterator[Line]:
    def ratios(sample: Sample) -> list[float]:
        X, signs = sample.X, sample.signs
        order = np.random.default_rng(4).permutation(len(signs))
        epoch = SGDClassifier(alpha=MARGIN**2, fit_intercept=False, max_iter=1, tol=None)
        unit, plain, short, shuffled, narrow, theirs = race(
            rounds,
            reading(X),
            descent(X, signs),
            descent(X, signs, batch_size=BATCH),
            descent(X, signs, order),
            descent(X.astype(np.float32), signs),
            lambda: epoch.fit(X, signs),
        )
        own = [seconds / unit for seconds in (plain, short, shuffled)]
        return [*own, narrow / plain, theirs / plain]

    stages = [
        ("one fit, Algorithm 2, k = 1000", "<= 1.7", "X@w"),
        ("the same, blocks of 300 rows", "<= 1.7", "X@w"),
        ("the same, rows taken in a random order", "", "X@w"),
        ("float32 against float64, Algorithm 2", "<= .95", ""),
        ("one epoch of SGDClassifier against ours", ">= 1", "times ours"),
    ]
    for (stage, bar, unit), measured in zip(stages, by_population(samples, ratios), strict=True):
        yield Line(stage, bar, measured, unit)
    X, signs = sparse_sample()
    ours, unit = race(rounds, descent(X, signs, projection="hadamard"), reading(X))
    yield Line("CSR 1e5 x 1e5, 100 entries per row, Algorithm 2", "<= 10", [ours / unit], "X@w")


# --- logistic regression in published directions ------------------------------------------------


def published(X: Any, y: Any, **options: Any) -> Any:
    """The shell of a study that was planned from the first 1,000 rows; scaling left out."""
    plan = plan_from_pilot(X[:1000], y[:1000], samples_per_site=len(y), **options)
    agreed = replace(plan.protocol.estimator().published, encoding=None)
    return ReplicableLogisticClassifier(published=agreed, n_jobs=1), plan.n_codes - 1


def logistic(samples: list[Sample], rounds: int) -> Iterator[Line]:
    """Whole fits, checks of the rows and certificate included; compare with scikit-learn's."""
    theirs = LogisticRegression(solver="newton-cholesky")

    def ratios(sample: Sample) -> list[float]:
        X, y = sample.X, sample.noisy
        one, k = published(X, y, hint_bits=4)
        many, _ = published(X, y, hint_bits=4, study="discovery")
        unit, once, steps, other = race(
            rounds,
            reading(X),
            lambda: one.fit(X, y),
            lambda: many.fit(X, y),
            lambda: theirs.fit(X, y),
        )
        return [once / unit, once / unit / (k + 2), steps / unit, once / other, steps / other]

    stages = [
        ("one logistic fit, one step, of a pilot's plan", "", "X@w"),
        ("the same for each of its k + 2 numbers", "<= 1.3", "X@w"),
        ("one logistic fit, eight steps (discovery)", "", "X@w"),
        ("one step against LogisticRegression(newton-cholesky)", "<= 1", "of theirs"),
        ("eight steps against the same", "<= 1", "of theirs"),
    ]
    for (stage, bar, unit), measured in zip(stages, by_population(samples, ratios), strict=True):
        yield Line(stage, bar, measured, unit)


def streamed(samples: list[Sample], rounds: int) -> Iterator[Line]:
    """A logistic fit from a Parquet file in flat memory, against reading the file, and its parts.

    CPU time of all threads: the fit overlaps reading with sums, and pays for both. To read is to
    get Arrow's batches of columns with pyarrow in one thread; a user who needs rows lays these out
    as NumPy matrices, too. Wall time is beside it, against reads in one thread and on all cores.
    """
    X, y = samples[0].X, samples[0].noisy
    names = [f"x{i}" for i in range(X.shape[1])]
    plan = plan_from_pilot(
        pd.DataFrame(X[:1000], columns=names), y[:1000], samples_per_site=len(y), hint_bits=4
    )
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.parquet"
        table = pa.table([*X.T, y.astype(np.int64)], names=[*names, "label"])
        pq.write_table(pa.concat_tables([table] * 4), path, row_group_size=len(y))
        fit_once = partial(fit_file, plan.protocol.estimator(), path, "label", memory=0)
        design = fit_once().plan_.design
        source = open_source(path, "label", encoding=plan.protocol.encoding)
        batches = list(source.batches())
        pieces = [source.parse(batch, 0) for batch in batches]
        terms = partial(score_terms, design, design.space.start_numbers)
        contenders: dict[str, Callable[[], object]] = {
            "rows": lambda: [as_rows(batch) for batch in record_batches(path, threads=False)],
            "columns": lambda: [None for _ in record_batches(path, threads=False)],
            "default": lambda: [None for _ in pq.ParquetFile(path).iter_batches(use_threads=False)],
            "threaded": lambda: [None for _ in record_batches(path, threads=True)],
            "frame": lambda: pd.read_parquet(path, columns=names).to_numpy(),
            "fit": fit_once,
            "convert": lambda: [source.parse(batch, 0) and None for batch in batches],
            "sum": lambda: [terms(piece.X, (piece.y > 0).astype(np.uint8)) for piece in pieces],
        }
        cpu, wall = dict.fromkeys(contenders, math.inf), dict.fromkeys(contenders, math.inf)
        for _ in range(rounds):
            for name, run in contenders.items():
                start, cpu_start = time.perf_counter(), time.process_time()
                run()
                wall[name] = min(wall[name], time.perf_counter() - start)
                cpu[name] = min(cpu[name], time.process_time() - cpu_start)
    unit = cpu["columns"]
    yield from (
        Line("logistic fit streamed from Parquet, CPU", "<= 1.3", [cpu["fit"] / unit], "reads"),
        Line("... reading with pyarrow's default batches", "", [cpu["default"] / unit], "reads"),
        Line(
            "... reading, and laying out the batches as matrices", "", [cpu["rows"] / unit], "reads"
        ),
        Line("... columns to scaled rows", "", [cpu["convert"] / unit], "reads"),
        Line("... exact sums", "", [cpu["sum"] / unit], "reads"),
        Line("the same, wall time", "<= 1.3", [wall["fit"] / wall["columns"]], "reads"),
        Line("... of reads on all cores", "", [wall["fit"] / wall["threaded"]], "reads"),
        Line("against pandas.read_parquet().to_numpy()", "", [cpu["fit"] / cpu["frame"]], "CPU"),
    )


def record_batches(path: str, threads: bool) -> Iterator[Any]:
    return pq.ParquetFile(path).iter_batches(rows_per_batch(100), use_threads=threads)


def as_rows(batch: Any) -> None:
    """The features as a matrix of rows, which is then dropped."""
    np.column_stack([column.to_numpy() for column in batch.columns[:-1]])


def planner(samples: list[Sample], rounds: int) -> Iterator[Line]:
    """Seconds of a plan from 1,000 rows: 800 dense columns, and 25,000 sparse ones."""
    rng = np.random.default_rng(5)
    topics = rng.integers(0, 2, 1000)
    dense = rng.normal(size=(1000, 800)) * rng.gamma(1.0, size=800) + topics[:, None] * 0.1
    rates = 30 / np.arange(10, 25_010)
    words = rng.poisson(rates * np.where(np.arange(25_000) % 2 == topics[:, None], 1.5, 1.0))
    for name, X, bar in (
        ("800 dense columns", dense, "<= 15"),
        ("25,000 sparse columns", sp.csr_matrix(words.astype(float)), "<= 60"),
    ):
        start = time.perf_counter()
        plan_from_pilot(X, topics, samples_per_site=10_000, hint_bits=4)
        yield Line(f"plan_from_pilot, 1,000 rows, {name}", bar, [time.perf_counter() - start], "s")


#: One function per group of lines; add a stage by adding its function.
STAGES = [
    fits,
    float32,
    against_linear_svc,
    exact_sums,
    csr,
    gradient_descent,
    logistic,
    streamed,
    planner,
]

if __name__ == "__main__":
    main()
