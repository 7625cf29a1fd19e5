"""How long users wait, beside scikit-learn: CPU seconds of one thread, interleaved.

    OPENBLAS_NUM_THREADS=1 python benchmarks/speed.py [--data FOLDER] [--only NAME ...]
        [--write docs/results] [--against released.csv]

A call starts from what a user has: an array, a sparse matrix, a dataframe with text and gaps, a
CSV or Parquet file. An original stands beside ``LogisticRegressionCV``, a replication beside
``LogisticRegression``. Both of scikit-learn get levels as sparse indicators and numbers as standard
ones, and these steps count. Files are those of a fresh process, imports included. Real tables need
the folder that `tasks.py` describes. With glum installed (`pip install glum`; it is no dependency)
its binomial regression stands beside those of two classes. Algorithms 1 and 2 stand beside
``LinearSVC`` and ``SGDClassifier`` (`of_halfspaces`). With ``--against`` the ratios are compared
with those of a release (``git show TAG:docs/results/speed.csv``), whatever machine made them.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from tasks import TASKS
from threadpoolctl import threadpool_limits

from replearn import ReplicableLogisticClassifier, ReplicableSGDClassifier, ReplicableSVMClassifier
from replearn.datasets import make_margin
from replearn.exact import COUNTS
from replearn.glm import Bernoulli, Summary, fit
from replearn.kernels.descent import Descent, add_descents
from replearn.kernels.int32_directions import RawRows
from replearn.kernels.max_margin import Problem, add_batches
from replearn.rows import Block, MemoryBlocks

#: A larger factor to the last release is told.
_MOST_SLOWER = 1.1


def rows(n_rows: int, n_columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal numbers, and labels."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n_columns) / np.sqrt(n_columns)
    X = rng.normal(size=(n_rows, n_columns))
    return X, (rng.logistic(size=n_rows) < X @ theta).astype(np.int64)


@dataclass(frozen=True)
class Call:
    """Rows as a user has them, and what is asked of them."""

    X: Any
    y: Any
    options: dict[str, Any] = field(default_factory=dict)  # of our estimator
    steps: tuple[Any, ...] = ()  # of scikit-learn's pipeline, for the same terms
    with_cv: bool = True  # whether LogisticRegressionCV is waited for


def gaussian(n_rows: int, n_columns: int) -> Call:
    """Standard normal columns in an array."""
    return Call(*rows(n_rows, n_columns))


def real(name: str, folder: Path, n_rows: int | None = None, **options: Any) -> Call:
    """A task of the folder; with ``n_rows`` its rows are repeated, or some are taken."""
    task = TASKS[name](folder, name)
    X, y = task.columns, task.target
    if n_rows is not None:
        places = np.random.default_rng(0).permutation(max(n_rows, task.n_rows))[:n_rows]
        X, y = task.rows(places % task.n_rows), y[places % task.n_rows]
    if task.categories:
        options["categories"] = [column for column in task.categories if column in X.columns]
        X = X.astype(dict.fromkeys(options["categories"], str))
    return Call(X, y, options, () if sp.issparse(X) else (_columns(),))


def _columns() -> Any:
    number = make_pipeline(SimpleImputer(), StandardScaler())
    level = OneHotEncoder(handle_unknown="ignore", min_frequency=20)
    return make_column_transformer(
        (number, make_column_selector(dtype_include="number")),
        (level, make_column_selector(dtype_exclude="number")),
    )


def destinations(folder: Path) -> Call:
    """Flights with their 105 destinations."""
    table = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["arr_delay", "dep_delay"])
    table = table.sample(130_938, random_state=0)
    names = ["dep_delay", "distance", "hour", "month", "air_time", "carrier", "origin", "dest"]
    late = (table["arr_delay"].to_numpy(float) >= 15).astype(int)
    return Call(table[names].reset_index(drop=True), late, {}, (_columns(),))


def all_levels(folder: Path) -> Call:
    """The census three times over, with pairs of columns as levels: several hundred of them."""
    task = TASKS["census"](folder, "census")
    places = np.random.default_rng(0).integers(0, task.n_rows, 150_000)
    X = task.columns.iloc[places].reset_index(drop=True)
    X["work"] = X["occupation"].astype(str) + ", " + X["workclass"].astype(str)
    X["home"] = X["relationship"].astype(str) + ", " + X["education"].astype(str)
    return Call(X, task.target[places], {}, (_columns(),))


def products(folder: Path) -> Call:
    """Pulsars with all products."""
    call = real("pulsars", folder, interactions="all")
    poly = PolynomialFeatures(2, interaction_only=True, include_bias=False)
    return replace(call, steps=(*call.steps, poly, StandardScaler()))


def splines(name: str, folder: Path, n_rows: int) -> Call:
    """Many classes with splines."""
    call = real(name, folder, n_rows, basis="splines")
    hats = SplineTransformer(n_knots=5, degree=1, knots="quantile")
    return replace(call, steps=(*call.steps, hats, StandardScaler()), with_cv=False)


def kinds_of_digits(folder: Path, n_rows: int, basis: str = "linear") -> Call:
    """26 classes of 16 numbers: digits in means of 7 x 7 pixels, with few or many bright pixels."""
    arrays = np.load(folder / "mnist70k.npz")
    images, labels = arrays["X"][:n_rows], arrays["label"][:n_rows]
    means = images.reshape(-1, 4, 7, 4, 7).mean(axis=(2, 4)).reshape(-1, 16)
    bright = (images > 127).sum(axis=1)

    # six digits in three parts each, four in two
    kinds = np.empty(len(labels), dtype=object)
    for digit in range(10):
        here = np.flatnonzero(labels == digit)
        n_parts = 3 if digit < 6 else 2
        cuts = np.quantile(bright[here], np.arange(1, n_parts) / n_parts)
        parts = np.searchsorted(cuts, bright[here])
        kinds[here] = [f"{digit}, part {part}" for part in parts]

    X = pd.DataFrame(means, columns=[f"x{i}" for i in range(16)])
    if basis == "linear":
        return Call(X, kinds.astype(str), {}, (StandardScaler(),))
    hats = SplineTransformer(n_knots=5, degree=1, knots="quantile")
    steps = (StandardScaler(), hats, StandardScaler())
    return Call(X, kinds.astype(str), {"basis": basis}, steps)


def every_product(n_rows: int, n_columns: int) -> Call:
    """Standard normal columns with all their products."""
    poly = PolynomialFeatures(2, interaction_only=True, include_bias=False)
    call = gaussian(n_rows, n_columns)
    return replace(call, options={"interactions": "all"}, steps=(poly, StandardScaler()))


def words(folder: Path) -> Call:
    """Messages as sparse rows of 5,494 words."""
    from sklearn.feature_extraction.text import TfidfTransformer

    arrays = np.load(folder / "newsgroups20.npz")
    shape = tuple(arrays["shape"])
    counts = sp.csr_matrix((arrays["data"] * 1.0, arrays["indices"], arrays["indptr"]), shape)
    often = np.argsort(-np.asarray((counts > 0).sum(axis=0)).ravel(), kind="stable")[:5494]
    X = TfidfTransformer(sublinear_tf=True).fit_transform(counts[:18_000, np.sort(often)])
    y = np.char.startswith(arrays["label_names"][arrays["label"]], "comp.")[:18_000].astype(int)
    return Call(X, y, {}, (MaxAbsScaler(),), with_cv=False)


CALLS: dict[str, Callable[[], Call]] = {
    "200,000 x 50": partial(gaussian, 200_000, 50),
    "400,000 x 20": partial(gaussian, 400_000, 20),
    "50,000 x 50": partial(gaussian, 50_000, 50),
    "100,000 x 21, all products": partial(every_product, 100_000, 21),
}
REAL: dict[str, Callable[[Path], Call]] = {
    "flights, 105 destinations": destinations,
    "diabetes": partial(real, "hospital, again", n_rows=40_706),
    "census, many levels": all_levels,
    "forest 2 v rest": partial(real, "forest 2 v rest", n_rows=150_000),
    "pulsars, products": products,
    "digits": partial(real, "digits, 10 classes", n_rows=8_000),
    "digits, splines": partial(splines, "digits, 10 classes", n_rows=8_000),
    "26 classes": partial(kinds_of_digits, n_rows=8_000),
    "26 classes, splines": partial(kinds_of_digits, n_rows=8_000, basis="splines"),
    "news, splines": partial(splines, "news, 20 classes", n_rows=8_000),
    "sentences": partial(real, "sentences"),
    "text, 18,000 x 5,494": words,
}


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, and what it gives."""
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def waits(call: Call, n_repeats: int) -> dict[str, Any]:
    """Seconds of the five calls, the fastest of some."""
    ours = ReplicableLogisticClassifier(**call.options)
    theirs = make_pipeline(*call.steps, LogisticRegression(max_iter=1000))
    seconds: dict[str, list[float]] = {}

    def add(name: str, fit: Callable[[], Any]) -> Any:
        spent, found = cpu(fit)
        seconds.setdefault(name, []).append(spent)
        return found

    first = add("original", lambda: clone(ours).fit(call.X, call.y))
    if call.with_cv:
        searched = make_pipeline(*call.steps, LogisticRegressionCV(Cs=10, cv=5, max_iter=1000))
        add("LRCV", lambda: searched.fit(call.X, call.y))
    for _ in range(n_repeats):
        again, plain = ReplicableLogisticClassifier(study=first.study_), clone(theirs)
        add("replication", partial(again.fit, call.X, call.y))
        add("LR", partial(plain.fit, call.X, call.y))
        if find_spec("glum") and len(np.unique(call.y)) == 2:
            regression = import_module("glum").GeneralizedLinearRegressor
            theirs_too = make_pipeline(*call.steps, regression(family="binomial", alpha=1e-4))
            add("glum", partial(theirs_too.fit, call.X, call.y))
    best = {name: min(found) for name, found in seconds.items()}
    return {
        "coefficients": first.model_.codes.size,
        "ridge": first.study_.design.ridge,
        "log-loss": first.performance_.loss.value,
        "fingerprint": first.fingerprint_[:8],
        **{name: best.get(name) for name in ("original", "LRCV", "replication", "LR", "glum")},
        "ratio": best["replication"] / best["LR"],
    }


def asked_for(folder: Path | None, only: list[str] | None) -> Iterator[tuple[str, Call]]:
    """Calls by name, made when their turn comes."""
    every: dict[str, Callable[[], Call]] = dict(CALLS)
    if folder is not None:
        every |= {name: partial(make, folder) for name, make in REAL.items()}
    for name, make in every.items():
        if not only or any(part in name for part in only):
            yield name, make()


# --- files and fresh processes --------------------------------------------------------------------

READERS = {"csv": "read_csv", "parquet": "read_parquet"}
PLAIN = """
import sys, pandas as pd
from sklearn.linear_model import LogisticRegression
table = pd.{reader}(sys.argv[1])
LogisticRegression(max_iter=1000).fit(table.drop(columns="y"), table["y"])
"""
FIRST = """
import numpy as np
from {module} import {name}
X = np.random.default_rng(0).normal(size=(1000, 10)); y = (X[:, 0] > X[:, 1]) * 1
y[:100] = 1 - y[:100]
{name}().fit(X, y)
"""


def process(*arguments: str) -> float:
    """CPU seconds of a fresh process of Python, imports included, compiled as users have them."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def of_files(n_rows: int, n_columns: int, n_repeats: int) -> Iterator[dict[str, Any]]:
    """`replearn replicate` of a file, beside reading it with pandas and LogisticRegression."""
    X, y = rows(n_rows, n_columns)
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(n_columns)]).assign(y=y)
    study = ReplicableLogisticClassifier().fit(table.drop(columns="y"), table["y"]).study_
    with tempfile.TemporaryDirectory() as folder:
        study.save(f"{folder}/study.json")
        for kind, reader in READERS.items():
            path = f"{folder}/table.{kind}"
            getattr(table, f"to_{kind}")(path, index=False)
            command = ["-m", "replearn", "replicate", f"{folder}/study.json", path]
            ours, plain = [], []
            for _ in range(n_repeats):
                ours.append(process(*command))
                plain.append(process("-c", PLAIN.format(reader=reader), path))
            yield {
                "what": f"`replearn replicate`, {kind}, {n_rows:,} x {n_columns}",
                "coefficients": n_columns + 1,
                "replication": min(ours),
                "LR": min(plain),
                "ratio": min(ours) / min(plain),
            }


def fresh(n_repeats: int) -> Iterator[dict[str, Any]]:
    """What a first fit costs, with all imports."""
    ours = FIRST.format(module="replearn", name="ReplicableLogisticClassifier")
    plain = FIRST.format(module="sklearn.linear_model", name="LogisticRegression")
    yield {
        "what": "first fit of 1,000 x 10 in a fresh process",
        "coefficients": 11,
        "original": min(process("-c", ours) for _ in range(n_repeats)),
        "LR": min(process("-c", plain) for _ in range(n_repeats)),
    }
    yield {
        "what": "`import replearn`",
        "original": min(process("-c", "import replearn") for _ in range(n_repeats))
        - min(process("-c", "pass") for _ in range(n_repeats)),
    }


# --- the paper's algorithms -----------------------------------------------------------------------


def of_halfspaces(n_rows: int, n_columns: int, n_repeats: int) -> Iterator[dict[str, Any]]:
    """Algorithms 1 and 2 in batches of 300 rows, beside scikit-learn's linear classifiers.

    "ratio" is to one ``X @ w``: what it takes to read the rows once. "vectors of batches" is the
    compiled part of a fit, which grows with the rows; each fit draws a projection of its own.
    """
    X, y = make_margin(n_rows, n_columns, margin=0.1, random_state=1)
    w, out = np.ones(n_columns), np.empty(n_rows)
    by_hand = {"margin": 0.1, "n_components": 1000, "grid_width": 0.01, "batch_size": 300}
    by_hand |= {"n_batches": n_rows // 300, "mode": "paper", "shuffle": False, "n_jobs": 1}
    alone = {"margin": 0.1, "n_jobs": 1}  # one fit of all rows, in an order of its own
    one_run = {"n_repetitions": 1, "n_validation": 0, "regularization": 5e-4}
    seeds = count()

    def own(options: dict[str, Any]) -> dict[str, Any]:
        return options | {"shared_seed": next(seeds)}

    batches = RawRows.of(X, np.sign(y).astype(np.int8)), 0, 300, 0
    sums = *np.zeros((2, 64, n_columns), np.int64), np.zeros(len(COUNTS), np.int64)
    hard = Problem(0.0, 0.0, 1e-3, share=0.5, floor=0.05, max_sweeps=1000, length=0.0, cap=1.0)
    descent = Descent(margin=0.1, weight=5e-4, radius=1.0)
    fits: dict[str, Callable[[], Any]] = {
        "one pass of np.dot": lambda: np.dot(X, w, out=out),
        "Algorithm 1": lambda: ReplicableSVMClassifier(**own(by_hand)).fit(X, y),
        "Algorithm 2": lambda: ReplicableSGDClassifier(**own(by_hand | one_run)).fit(X, y),
        "Algorithm 1, practical mode": lambda: ReplicableSVMClassifier(**own(alone)).fit(X, y),
        "vectors of batches, Algorithm 1": partial(add_batches, hard, *batches, *sums),
        "vectors of batches, Algorithm 2": partial(add_descents, descent, *batches, *sums),
        "SGDClassifier, one epoch": lambda: SGDClassifier(max_iter=1, tol=None).fit(X, y),
        "LinearSVC": lambda: LinearSVC().fit(X, y),
    }
    best: dict[str, float] = {}
    for _ in range(n_repeats):
        for name, fit_once in fits.items():
            seconds = cpu(fit_once)[0]
            best[name] = min(best.get(name, np.inf), seconds)

    for name, seconds in best.items():
        yield {
            "what": f"halfspaces, {n_rows:,} x {n_columns}: {name}",
            "original": seconds,
            "ratio": seconds / best["one pass of np.dot"],
        }


def memory(n_rows: int, n_columns: int) -> None:
    """Print the peak of a fit in MB beyond imports, and what two bytes a number and 64 MB are."""
    rng = np.random.default_rng(0)
    grid = np.empty((n_rows, n_columns), dtype=np.int16)
    for start in range(0, n_rows, 1000):
        grid[start : start + 1000] = rng.integers(-9000, 9000, (1000, n_columns))
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-grid[:, 0] / 9000.0))).astype(np.float64)
    lab, loss = MemoryBlocks(Block(grid, y)), Bernoulli()
    size = grid.nbytes / 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fit(lab, loss, "0.0001", Summary.of(lab, loss))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(after - before + size, size + 64)


def written(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """What a file holds, with these lines in place of those of the same calls."""
    table = table.drop(columns=["fingerprint", "log-loss"], errors="ignore").round(4)
    if not path.exists():
        return table
    before = pd.read_csv(path, dtype={"ridge": str})  # digits as they are
    return pd.concat([before[~before["what"].isin(table["what"])], table])


def slower(table: pd.DataFrame, released: pd.DataFrame) -> dict[str, float]:
    """Calls whose ratio to scikit-learn grew by more than a tenth, and by which factor."""
    before, now = (lines.set_index("what")["ratio"] for lines in (released, table))
    factors = (now / before).dropna()
    return dict(factors[factors > _MOST_SLOWER])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of real tables")
    parser.add_argument("--only", nargs="+", help='parts of names of calls, "files", "halfspaces"')
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", nargs=2, type=int, help="rows and columns of one fit")
    parser.add_argument("--write", type=Path, help="folder for speed.csv")
    parser.add_argument("--against", type=Path, help="speed.csv of the last release")
    options = parser.parse_args()
    if options.memory:
        memory(*options.memory)
        return

    warnings.simplefilter("ignore")  # promises that rows cannot keep, and steps of lbfgs
    lines = []
    with threadpool_limits(1):
        for name, call in asked_for(options.data, options.only):
            lines.append({"what": name, **waits(call, options.repeats)})
            print(lines[-1], flush=True)
        if not options.only or "files" in options.only:
            lines += of_files(200_000, 50, options.repeats)
            lines += of_files(1_000, 10, options.repeats)
            lines += fresh(options.repeats)
        if not options.only or "halfspaces" in options.only:
            lines += of_halfspaces(300_000, 100, options.repeats)

    table = pd.DataFrame(lines)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))
    if options.write is not None:
        written(table, options.write / "speed.csv").to_csv(options.write / "speed.csv", index=False)
    if options.against is not None and (late := slower(table, pd.read_csv(options.against))):
        sys.exit("\n".join(f"{what}: {factor:.2f} times as long" for what, factor in late.items()))


if __name__ == "__main__":
    main()
