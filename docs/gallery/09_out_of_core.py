"""
Rows that do not fit in memory
==============================

A Parquet file that grows, and a computer that does not. A fit from the file must give the model
of a fit of all rows in memory, to the bit.
"""

# %%
# Files of a hundred to four hundred thousand rows with twenty numbers each: up to 64 MB.

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import replearn as rl

SIZES = (100_000, 200_000, 400_000)
NAMES = [f"x{i}" for i in range(20)]


def table(n_rows):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 20))
    y = (X[:, 0] - 0.5 * X[:, 1] + rng.logistic(size=n_rows) > 0).astype(int)
    return pa.table({name: X[:, i] for i, name in enumerate(NAMES)} | {"label": y})


folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.parquet"
pilot = table(800).to_pandas()
plan = rl.plan_from_pilot(
    pilot[NAMES], pilot["label"], samples_per_site=100_000, hint_bits=4, shared_seed="big"
)

# %%
# What feeds a logistic fit is a sum over rows, exact in whole numbers. So ``fit_file`` adds up
# piece by piece, in the order of the file, and needs no shuffle. For algorithms that work on
# batches its option ``memory`` says how many bytes of rows may be held before they are shuffled
# on disk.


def from_memory():
    rows = pq.read_table(path).to_pandas()
    return plan.protocol.estimator().fit(rows[NAMES], rows["label"])


def from_file():
    return rl.fit_file(plan.protocol.estimator(), path, "label")


def measured(fit):
    tracemalloc.start()
    model = fit().model_
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return model, peak


peaks = {"all rows in memory": [], "from the file": []}
for n_rows in SIZES:
    pq.write_table(table(n_rows), path, row_group_size=20_000, compression="none")
    (whole, high), (streamed, low) = measured(from_memory), measured(from_file)
    peaks["all rows in memory"].append(high)
    peaks["from the file"].append(low)
    same = whole.fingerprint == streamed.fingerprint
    print(f"{n_rows:,} rows: {high:.0f} MiB and {low:.0f} MiB, same model: {same}")

# %%
# The peaks are those of Python and NumPy; Arrow's reader holds a few pieces more. From the file,
# the memory stays where it is once the file is longer than a few pieces of 16 MiB.

figure, axes = plt.subplots(figsize=(6, 3.6))
for name, values in peaks.items():
    axes.plot(SIZES, values, label=name)
axes.set(xlabel="rows of twenty numbers", ylabel="peak, MiB", ylim=(0, None))
axes.set_title("Memory does not grow with the file")
axes.legend(fontsize="small")
folder.cleanup()
