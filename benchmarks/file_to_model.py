"""From a file to a model: time against reading the file, and memory against its rows.

    python benchmarks/file_to_model.py [--rows 1000000] [--columns 100] [--rounds 3]

Every measurement is a process of its own, so that the peak of its memory is its own; the
contenders of a round take turns and the best of the rounds counts. Time is wall time with all
cores, which is what a user waits for; imports and compilation are not counted, memory is what
came on top of them. "read" is ``pyarrow.parquet.read_table`` alone, "fit" is a fit of the same
rows that are in memory already; the bar is "streamed <= 2 (read + fit)".
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = r"""
import json, resource, sys, threading, time, warnings
import numpy as np, psutil
import pyarrow.parquet as pq, pyarrow.csv
import replearn as rl
from replearn.fits.file_fit import fit_file

what, path = sys.argv[1:3]
warnings.simplefilter("ignore")
small = np.random.default_rng(0).normal(size=(400, 3))
rl.ReplicableSVMClassifier(n_jobs=-1).fit(small, small[:, 0] > 0)  # compiles
estimator = rl.ReplicableSVMClassifier(n_jobs=-1, shuffle=what in ("shuffled", "memory"))
X = y = None
if what == "fit":
    table = pq.read_table(path)
    y = table.column("label").to_numpy()
    X = np.empty((table.num_rows, table.num_columns - 1))
    for i in range(X.shape[1]):
        X[:, i] = table.column(i).to_numpy()
    del table

process, peak, done = psutil.Process(), 0, False
before = process.memory_info().rss
def watch():
    global peak
    while not done:
        peak = max(peak, process.memory_info().rss)
        time.sleep(0.005)
thread = threading.Thread(target=watch, daemon=True)
thread.start()
start = time.perf_counter()
fingerprint = None
if what == "read":
    pq.read_table(path)
elif what == "read csv":
    pyarrow.csv.read_csv(path)
elif what == "fit":
    fingerprint = estimator.fit(X, y).fingerprint_
else:
    memory = 1 << 40 if what == "memory" else 0
    fingerprint = fit_file(estimator, path, "label", memory=memory).fingerprint_
seconds = time.perf_counter() - start
done = True
thread.join()
print(json.dumps([seconds, (peak - before) / 2**20, fingerprint]))
"""

WRITE = r"""
import sys
import numpy as np, pyarrow as pa, pyarrow.csv, pyarrow.parquet as pq
from replearn.datasets import make_margin

folder, n_rows, n_columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
schema = pa.schema([*((f"c{i}", pa.float64()) for i in range(n_columns)), ("label", pa.int64())])
def rows(block, n):
    X, y = make_margin(n, n_columns, 0.1, max_margin=0.2, random_state=block)
    return pa.table([*X.T, y.astype(np.int64)], schema=schema)
for name, share in (("quarter", 4), ("whole", 1)):
    tables = [rows(0, n_rows // share)]
    pq.write_table(pa.concat_tables(tables), f"{folder}/{name}.parquet")
pa.csv.write_csv(rows(0, n_rows // 10), f"{folder}/tenth.csv")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = (str(options.rows), str(options.columns))
        subprocess.run([sys.executable, "-c", WRITE, folder, *sizes], check=True)
        compare(Path(folder), options.rounds, options.rows)


def compare(folder: Path, rounds: int, n_rows: int) -> None:
    whole, quarter, csv = (
        folder / name for name in ("whole.parquet", "quarter.parquet", "tenth.csv")
    )
    lines = {
        "read the file with pyarrow": ("read", whole),
        "fit, rows in memory, as they come": ("fit", whole),
        "file to model, streamed": ("streamed", whole),
        "the same, a quarter of the rows": ("streamed", quarter),
        "file to model, in memory, shuffled": ("memory", whole),
        "file to model, shuffled by way of scratch": ("shuffled", whole),
        "the same, a quarter of the rows ": ("shuffled", quarter),
        "read the CSV with pyarrow, a tenth of the rows": ("read csv", csv),
        "CSV to model, streamed, a tenth of the rows": ("streamed", csv),
    }
    best: dict[str, list] = {}
    for _ in range(rounds):
        for name, (what, path) in lines.items():
            found = measure(what, path)
            if name not in best or found[0] < best[name][0]:
                best[name] = found
    print(f"{n_rows:,} rows, {whole.stat().st_size / 2**20:,.0f} MiB of Parquet")
    print(f"{'':<50}{'seconds':>9}{'MiB':>8}")
    for name, (seconds, memory, _) in best.items():
        print(f"{name:<50}{seconds:>9.2f}{memory:>8.0f}")
    names = list(lines)
    read, fit, streamed = (best[name][0] for name in names[:3])
    print(f"streamed / (read + fit) = {streamed / (read + fit):.2f}   (bar: 2)")
    csv_read, csv_fit = (best[name][0] for name in names[-2:])
    print(f"CSV streamed / read = {csv_fit / csv_read:.2f}")
    same = {best[names[i]][2] for i in (1, 2)}
    shuffled = {best[names[i]][2] for i in (4, 5)}
    print(f"same model: as they come {len(same) == 1}, shuffled {len(shuffled) == 1}")


def measure(what: str, path: Path) -> list:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, what, str(path)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
