"""Fits of this tree and of another one, side by side: seconds, and whether the models are equal.

    python benchmarks/against.py OTHER/src [--rounds 5] [--fits svm,sgd]

Two processes take turns, one for each tree; CPU time of all threads, the best of the rounds counts,
and a first round, which may compile, does not. Only what version 0.1 had is compared.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
SEED = {"shared_seed": "side by side"}


def fits(folder: str) -> dict[str, Callable[[], Any]]:
    """What is compared, by name; the same calls in both trees."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import scipy.sparse as sp

    import replearn as rl

    X, y = rl.datasets.make_margin(300_000, 100, margin=0.1, random_state=1)
    noisy = np.where(np.random.default_rng(2).random(y.size) < 0.02, -y, y)
    small = rl.datasets.make_margin(300_000, 5, margin=0.3, random_state=1)
    mask = np.random.default_rng(3).random(X.shape) < 0.1
    sparse = sp.csr_matrix(X * mask)
    one = {**SEED, "n_jobs": 1}
    path = f"{folder}/rows.parquet"
    names = [f"x{i}" for i in range(X.shape[1])]
    pq.write_table(pa.table([*X.T, noisy], names=[*names, "label"]), path)
    svm, sgd = rl.ReplicableSVMClassifier, rl.ReplicableSGDClassifier
    return {
        "svm": lambda: svm(margin=0.1, **one).fit(X, y),
        "svm, noisy": lambda: svm(margin=0.1, **one).fit(X, noisy),
        "svm, sparse": lambda: svm(margin=0.1, **one).fit(sparse, y),
        "svm, Parquet": lambda: rl.fit_file(svm(margin=0.1, **one), path, "label"),
        "svm, streamed": lambda: rl.fit_file(svm(margin=0.1, **one), path, "label", memory=0),
        "sgd": lambda: sgd(margin=0.1, **one).fit(X, noisy),
        "net": lambda: rl.ReplicableNetClassifier(margin=0.3, **one).fit(*small),
        "dp": lambda: rl.ReplicableDPClassifier(margin=0.3, **one).fit(*small),
        "boosting": lambda: rl.ReplicableBoostingClassifier(margin=0.3, **one).fit(*small),
    }


def work(wanted: str) -> None:
    """Take names from standard input, fit, and say the seconds and the fingerprint."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = fits(folder)
        print(
            ";".join(
                name for name in known if name.split(",")[0] in wanted.split(",") or not wanted
            )
        )
        sys.stdout.flush()
        for line in sys.stdin:
            start = time.process_time()
            fitted = known[line.strip()]()
            print(f"{time.process_time() - start:.6f};{fitted.fingerprint_}", flush=True)


class Tree:
    """A process that fits with the package of one tree."""

    def __init__(self, source: Path, wanted: str) -> None:
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE), str(source), "--work", "--fits", wanted],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads | {"PYTHONPATH": str(source)},
        )
        self.names = self._line().split(";")

    def fit(self, name: str) -> tuple[float, str]:
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        seconds, fingerprint = self._line().split(";")
        return float(seconds), fingerprint

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"a process ended with {self._process.wait()}")
        return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="folder that holds the package of the other tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fits", default="")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.fits)
        return
    trees = [
        Tree(path.resolve(), options.fits) for path in (options.other, HERE.parents[1] / "src")
    ]
    print(f"{'':<18}{'other, s':>10}{'this, s':>10}{'ratio':>8}  same model")
    ratios = []
    for name in trees[0].names:
        best, models = [math.inf, math.inf], ["", ""]
        for turn in range(options.rounds + 1):
            for k, tree in enumerate(trees):
                seconds, models[k] = tree.fit(name)
                best[k] = min(best[k], seconds if turn else math.inf)
        ratios.append(best[1] / best[0])
        same = "yes" if models[0] == models[1] else "no"
        print(f"{name:<18}{best[0]:>10.3f}{best[1]:>10.3f}{ratios[-1]:>8.2f}  {same}", flush=True)
    print(f"{'geometric mean':<38}{math.prod(ratios) ** (1 / len(ratios)):>8.2f}")


if __name__ == "__main__":
    main()
