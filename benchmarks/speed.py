"""How long fits take, beside scikit-learn; CPU seconds, interleaved.

    OPENBLAS_NUM_THREADS=1 python benchmarks/speed.py [--repeats 5] [--quick]

A fit is that of a replication: encoded rows, Newton's method, codes. ``LogisticRegression`` gets
the same encoded numbers with the same ridge. Memory is the peak of a fresh process beyond its
imports, beside two bytes for each number.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from replearn.glm import Bernoulli, Summary, fit
from replearn.rows import Block, MemoryBlocks
from replearn.study import Request, publish, replicate
from replearn.tables import open_table

RIDGE = "0.0001"
SHAPES = {
    "200,000 x 50": (200_000, 50, 0),
    "400,000 x 20": (400_000, 20, 0),
    "100,000 x 1,000, 30 a row": (100_000, 1_000, 30),
}


def rows(n_rows: int, n_columns: int, n_filled: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Standardised numbers, or sparse ones between 0 and 2, and labels."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n_columns) / np.sqrt(n_filled or n_columns)
    if n_filled:
        places = rng.integers(0, n_columns, (n_rows, n_filled)).ravel()
        starts = np.arange(0, n_rows * n_filled + 1, n_filled)
        X = sp.csr_matrix((rng.random(places.size) * 2, places, starts), (n_rows, n_columns))
        X.sum_duplicates()
    else:
        X = rng.normal(size=(n_rows, n_columns))
    return X, (rng.logistic(size=n_rows) < X @ theta).astype(np.int64)


def cpu(call: Callable[[], Any]) -> float:
    """CPU seconds of a call, all threads."""
    started = time.process_time()
    call()
    return time.process_time() - started


def compare(name: str, n_repeats: int) -> dict[str, Any]:
    """A whole fit from encoded rows, and from raw ones, beside lbfgs."""
    from sklearn.linear_model import LogisticRegression

    n_rows, n_columns, n_filled = SHAPES[name]
    X, y = rows(n_rows, n_columns, n_filled)
    scaled = X * 4096
    if n_filled:
        grid = scaled.astype(np.int16)
    else:
        grid = np.clip(np.floor(scaled + 0.5), -16384, 16384).astype(np.int16)
    lab, loss = MemoryBlocks(Block(grid, y.astype(np.float64))), Bernoulli()
    plain = LogisticRegression(C=1 / (float(RIDGE) * n_rows), tol=1e-4, max_iter=1000)
    times: dict[str, list[float]] = {"ours": [], "lbfgs": []}
    for _ in range(n_repeats):
        times["ours"].append(cpu(lambda: fit(lab, loss, RIDGE, Summary.of(lab, loss))))
        times["lbfgs"].append(cpu(lambda: plain.fit(X, y)))
    ours, theirs = (float(np.median(times[who])) for who in ("ours", "lbfgs"))
    return {"what": f"fit, {name}", "ours": ours, "scikit-learn": theirs, "ratio": ours / theirs}


def studies(n_rows: int, basis: str, interactions: Any) -> list[dict[str, Any]]:
    """An original with all defaults and a replication of its study."""
    X, y = rows(2 * n_rows, 12, 0)
    here, there = (
        open_table(X[part], target=y[part]) for part in (slice(n_rows), slice(n_rows, None))
    )
    found: list[Any] = []
    request = Request(basis=basis, interactions=interactions)  # type: ignore[arg-type]
    original = cpu(lambda: found.append(publish(here, request)))
    replication = cpu(lambda: replicate(found[0].study, there))
    words = f"{n_rows:,} x 12, {basis}{' and products' if interactions else ''}"
    return [
        {"what": f"original, {words}", "ours": original},
        {"what": f"replication, {words}", "ours": replication},
    ]


def fresh(name: str) -> dict[str, Any]:
    """Peak memory of a fit in a process of its own, in MB beyond imports."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", name], capture_output=True, text=True, check=True
    )
    peak, allowed = map(float, done.stdout.split())
    return {"what": f"memory in MB, {name}", "ours": peak, "allowed": allowed}


def memory(name: str) -> None:
    """Print the peak of a fit, and two bytes for each number and 64 MB."""
    n_rows, n_columns, _ = SHAPES[name]
    rng = np.random.default_rng(0)
    grid = np.empty((n_rows, n_columns), dtype=np.int16)
    for start in range(0, n_rows, 1000):
        grid[start : start + 1000] = rng.integers(-9000, 9000, (1000, n_columns))
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-grid[:, 0] / 9000.0))).astype(np.float64)
    lab, loss = MemoryBlocks(Block(grid, y)), Bernoulli()
    size = grid.nbytes / 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    fit(lab, loss, RIDGE, Summary.of(lab, loss))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(after - before + size, size + 64)


FIRST = """
import time; t = time.perf_counter()
import numpy as np
from replearn import ReplicableLogisticClassifier
X = np.random.default_rng(0).normal(size=(1000, 10)); y = (X[:, 0] > X[:, 1]) * 1
y[:100] = 1 - y[:100]
ReplicableLogisticClassifier().fit(X, y)
print(time.perf_counter() - t, time.process_time())
"""


def first_fit() -> dict[str, Any]:
    """An original of 1,000 rows in a fresh process, with all imports."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    seconds = float(done.stdout.split()[1])
    return {"what": "first fit of 1,000 x 10 with imports", "ours": seconds, "allowed": 2.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help="folder for speed.csv")
    options = parser.parse_args()
    if options.memory:
        memory(options.memory)
        return
    lines = [compare(name, options.repeats) for name in SHAPES]
    lines += [fresh(name) for name in list(SHAPES)[:2]]
    lines.append(first_fit())
    for basis, interactions in (("linear", None), ("splines", None), ("splines", "all")):
        lines += studies(20_000, basis, interactions)
    table = pd.DataFrame(lines)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))
    if options.write is not None:
        table.round(4).to_csv(options.write / "speed.csv", index=False)


if __name__ == "__main__":
    main()
