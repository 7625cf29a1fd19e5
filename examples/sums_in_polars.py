"""Exact sums inside another engine: Arrow batches in, whole numbers out.

Polars (or DuckDB, where it is installed) reads the rows and hands them on as Arrow batches. The
sums are those of any other engine, to the bit. Run: python examples/sums_in_polars.py
"""

import importlib.util
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import replearn as rl


def batches(path):
    """Batches of 1,000 rows of a Parquet file, by the first engine that is installed."""
    if importlib.util.find_spec("duckdb"):
        import duckdb

        return duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table().to_batches(1000)
    if importlib.util.find_spec("polars"):
        import polars

        frames = polars.scan_parquet(path).collect().iter_slices(1000)
        return (frame.to_arrow() for frame in frames)
    raise SystemExit("skipped: neither duckdb nor polars is installed")


def draw(n_rows, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(50, 9, n_rows), "dose": rng.normal(2, 1, n_rows)})
    odds = np.exp(0.1 * (table["age"] - 50) + table["dose"] - 3)
    return table.assign(ill=(rng.random(n_rows) < odds / (1 + odds)).astype(int))


pilot, rows = draw(1000, seed=1), draw(20_000, seed=2)
protocol = rl.plan_from_pilot(
    pilot[["age", "dose"]], pilot["ill"], samples_per_site=20_000
).protocol
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "site.parquet"
    rows.to_parquet(path)
    there = rl.arrow_sums(protocol, batches(path), "ill")
    here = rl.site_sums(protocol, path, "ill")
print("the engine's sums:", there.fingerprint)
print("those of the file:", here.fingerprint)
assert there.fingerprint == here.fingerprint
