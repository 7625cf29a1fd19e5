"""The walk of a row: through which functions of the package a block of rows goes in a fit.

    python benchmarks/walks.py             # counts
    python benchmarks/walks.py --walk      # and the functions, in the order rows reach them

A hop is a call from one function of the package to another in which rows, their labels or their
order are handed over: as an argument, as a part of one, or as the result. It is counted once,
however often it is made. Compiled kernels are the end of a walk. Three fits: rows in memory, a
Parquet file under a protocol, and a Dask dataframe. Beside the hops: how often a fit makes its
plan and the mean that is rounded, and how often it looks at blocks of labels and numbers; and the
hops of the test for signal, which looks at the rows after the fit and changes no model.
"""

import argparse
import os
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import replearn as rl
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn

PACKAGE = os.path.dirname(os.path.abspath(rl.__file__)) + os.sep

#: Small, but unlike any other number of rows or columns in a fit.
N_ROWS, N_COLUMNS = 1203, 10
LEAST_ROWS = 65  # of a block: more than the groups of sums
BLOCKS = (N_ROWS, N_ROWS // 100 * 100, 400, 401, 402, 403)  # in files and partitions
WIDTHS = (N_COLUMNS, N_COLUMNS + 1, N_COLUMNS + 2)

KERNELS = "/kernels/"

#: What should happen once in a fit, by the names of the functions that do it.
WORK = {
    "plans made": ("plan_svm",),
    "means": ("BatchSums._mean",),
    "looks at labels": ("Labels.take",),
    "looks for NaN": ("refuse_not_finite", "Encoding.encoded"),
}

#: Who tests whether rows hold any signal: beside the walk to the model, and counted apart.
TEST = ("stages/signal.py:", "estimators/base.py:Replicable._test")


def carries_rows(value: Any, depth: int = 2) -> bool:
    """Whether a value is a block of rows, or has one as a part."""
    if isinstance(value, np.ndarray):
        if value.ndim == 1:
            return value.size in BLOCKS
        if value.ndim != 2:
            return False
        n_rows, width = value.shape if value.shape[1] in WIDTHS else value.shape[::-1]
        return n_rows >= LEAST_ROWS and width in WIDTHS
    if isinstance(value, pd.DataFrame) or type(value).__name__ in ("RecordBatch", "Records"):
        return len(value) >= LEAST_ROWS
    if depth == 0 or isinstance(value, str | bytes | type):
        return False
    if isinstance(value, Mapping):
        sizes = [np.shape(column) for column in value.values() if isinstance(column, np.ndarray)]
        return len(sizes) >= N_COLUMNS and min(sizes) >= (LEAST_ROWS,)
    if isinstance(value, tuple | list):
        return any(carries_rows(part, depth - 1) for part in value[:4])
    if type(value).__module__.startswith("replearn") and hasattr(value, "__dict__"):
        return any(carries_rows(part, depth - 1) for part in vars(value).values())
    return False


class Walk:
    """What a profile function sees of a fit."""

    def __init__(self) -> None:
        self.hops: dict[tuple[str, str], None] = {}  # in the order in which they are made
        self.test_hops: dict[tuple[str, str], None] = {}
        self.calls: Counter[str] = Counter()
        self.lock = threading.Lock()

    def look(self, frame: Any, event: str, result: Any) -> None:
        """What `sys.setprofile` calls."""
        name = place(frame)
        if name is None or event not in ("call", "return"):
            return
        if event == "call":
            self.calls[name.split(":")[1]] += 1
        carried = list(frame.f_locals.values()) if event == "call" else [result]
        if not any(map(carries_rows, carried)):
            return
        caller = frame.f_back
        while caller is not None and place(caller) is None:
            if KERNELS in caller.f_code.co_filename:  # the walk has ended
                return
            caller = caller.f_back
        before = "the caller" if caller is None else place(caller)
        tests = str(before).startswith(TEST) or name.startswith(TEST)
        with self.lock:
            (self.test_hops if tests else self.hops)[str(before), name] = None

    @property
    def functions(self) -> list[str]:
        """Those that rows reach, in that order."""
        return list(dict.fromkeys(callee for _, callee in self.hops))

    @property
    def files(self) -> set[str]:
        """Where they are."""
        return {name.split(":")[0] for name in self.functions}


def place(frame: Any) -> str | None:
    """File and function, if it is one of the package."""
    code = frame.f_code
    if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
        return None
    if KERNELS in code.co_filename:
        return None
    return f"{code.co_filename[len(PACKAGE) :]}:{code.co_qualname}"


def walk_of(fit: Callable[[], Any]) -> Walk:
    """The walk of one fit; it is made once before, so that nothing is compiled or loaded in it."""
    walk = Walk()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
        threading.setprofile(walk.look)
        sys.setprofile(walk.look)
        try:
            fit()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]  # as documented
    return walk


def table() -> pd.DataFrame:
    """Rows with numbers, a category of two values, and labels."""
    X, y = rl.datasets.make_margin(N_ROWS, N_COLUMNS, margin=0.3, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(N_COLUMNS)])
    frame["x9"] = np.where(frame["x9"] > 0, "high", "low")
    return frame.assign(label=y)


def protocol() -> rl.Protocol:
    """A protocol for such rows."""
    numbers = tuple(NumberColumn(f"x{i}", "0", "1") for i in range(N_COLUMNS - 1))
    parameters = {
        "batch_size": 100, "failure_prob": "0.05", "fit_intercept": True, "grid_width": "0.8",
        "margin": "0.3", "max_disagreement": "0.5", "max_error": "0.05", "n_components": 12,
        "projection": "none", "regularization": "0.1", "rounding": "leech", "unit_mean": True,
    }  # fmt: skip
    encoding = Encoding((*numbers, CategoryColumn("x9", ("high", "low"))))
    return rl.Protocol("svm", parameters, "walks", (-1, 1), encoding, None, {})


def fits(folder: Path) -> dict[str, Callable[[], Any]]:
    """The three fits, by what they are."""
    rows = table()
    X, y = rows[[f"x{i}" for i in range(N_COLUMNS - 1)]].assign(x9=1.0).to_numpy(), rows["label"]
    rows.to_parquet(folder / "rows.parquet", row_group_size=400)

    def memory() -> Any:
        return rl.ReplicableSVMClassifier(margin=0.3).fit(X, y.to_numpy())

    def parquet() -> Any:
        return rl.fit_file(protocol().estimator(), folder / "rows.parquet", "label")

    def dask() -> Any:
        import dask.dataframe as dd
        from distributed import Client

        from replearn import clusters

        parts = dd.from_pandas(rows.drop(columns="x9").assign(x9=1.0), npartitions=3)
        with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
            clf = rl.ReplicableSVMClassifier(margin=0.3, shuffle=False)
            return clusters.fit(clf, parts, target="label")

    return {"fit(X, y)": memory, "Parquet, protocol": parquet, "Dask dataframe": dask}


def main() -> None:
    """Print the walks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--walk", action="store_true", help="print the functions too")
    options = parser.parse_args()
    head = f"{'':<20}{'hops':>6}{'functions':>11}{'files':>7}{'test':>6}"
    print(head, *(f"{name:>17}" for name in WORK))
    with tempfile.TemporaryDirectory() as folder:
        for name, fit in fits(Path(folder)).items():
            walk = walk_of(fit)
            counts = (sum(walk.calls[function] for function in work) for work in WORK.values())
            sizes = f"{len(walk.hops):>6}{len(walk.functions):>11}{len(walk.files):>7}"
            sizes += f"{len(walk.test_hops):>6}"
            print(f"{name:<20}{sizes}", *(f"{count:>17}" for count in counts))
            for function in walk.functions if options.walk else ():
                print(f"    {function}")


if __name__ == "__main__":
    main()
