"""A fit on a local Dask cluster against one machine: rows per second, memory, bytes, overhead.

    python benchmarks/cluster.py [--numbers 40000000] [--columns 20 200] [--workers 1 2]
                                 [--rounds 1] [--kill]

For each number of columns, a folder of Parquet files with ``numbers`` values in all (float64, row
groups of about 16 MiB) is written to a temporary place. Every measurement is a process of its own
with its own cluster; the contenders of a round take turns and the best of the rounds counts. Time
is wall time of the fit; imports, compilation and the start of the cluster are not counted, memory
is what came on top of them (peak of the resident set, of this process and of the largest worker).
One thread everywhere: one machine has ``n_jobs=1``, a worker has one thread. "CPU s" is that of
all processes together, and hardly minds what else the machine is doing; the scheduler runs in the
process of the client. "ns/number" is CPU time over rows times columns.

"files" are read by the workers; "partitions" are those of a Dask dataframe in their memory. "bytes"
is what the results of all tasks weigh, pickled: all that travels to the client. "overhead" is the
time of a task that gives such a result without reading or adding a row: Dask's, and that of the
sums themselves. All fits must give one fingerprint. ``--kill`` also kills the first of several
workers when the first task of a fit is done.
"""

import argparse
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

MARGIN, FILES, EMPTY_TASKS = 0.1, 8, 1000
WAYS = ["memory", "streamed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", type=int, default=40_000_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    cores, memory = os.cpu_count(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    print(f"{cores} cores, {memory / 2**30:.0f} GiB, {options.numbers:,} numbers, {FILES} files\n")
    ways = WAYS + [f"{kind}-{n}" for n in options.workers for kind in ("files", "partitions")]
    ways += [f"empty-{n}" for n in options.workers]
    if options.kill:
        ways += [f"kill-{n}" for n in options.workers if n > 1]
    for columns in options.columns:
        with tempfile.TemporaryDirectory() as folder:
            n_rows = options.numbers // columns
            write(Path(folder), n_rows, columns)
            found = [
                {way: child(way, folder, columns) for way in ways} for _ in range(options.rounds)
            ]
        best = {way: min((r[way] for r in found), key=lambda one: one["seconds"]) for way in ways}
        show(n_rows, columns, best)


def write(folder: Path, n_rows: int, columns: int) -> None:
    import pandas as pd

    from replearn.datasets import make_margin

    for number in range(FILES):
        rows = n_rows // FILES
        X, y = make_margin(rows, columns, margin=MARGIN, random_state=number)
        table = pd.DataFrame(X, columns=[f"x{i}" for i in range(columns)]).assign(label=y)
        table.to_parquet(folder / f"{number:03}.parquet", row_group_size=2**21 // columns)


def child(way: str, folder: str, columns: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", way, folder, str(columns)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def show(n_rows: int, columns: int, best: dict[str, dict[str, float]]) -> None:
    fits = {way: one for way, one in best.items() if "fingerprint" in one}
    assert len({one["fingerprint"] for one in fits.values()}) == 1, "the models differ"
    n_batches = best["streamed"]["batches"]
    print(f"{n_rows:,} rows x {columns} columns, {n_batches:,} batches")
    titles = (
        "s",
        "rows/s",
        "CPU s",
        "ns/number",
        "client MB",
        "worker MB",
        "tasks",
        "bytes",
        "B/task",
    )
    print(f"{'':14}" + "".join(f"{title:>11}" for title in titles))
    for way, one in fits.items():
        seconds, n_tasks = one["seconds"], one.get("tasks", 0)
        cells = [f"{seconds:.2f}", f"{n_rows / seconds:,.0f}"]
        cells += [f"{one['cpu']:.2f}", f"{one['cpu'] / (n_rows * columns) * 1e9:.1f}"]
        cells += [f"{one['client']:.0f}"]
        if n_tasks:
            cells += [f"{one['worker']:.0f}", f"{n_tasks:,}"]
            cells += [f"{one['bytes']:,}", f"{one['bytes'] / n_tasks:,.0f}"]
        print(f"{way:14}" + "".join(f"{cell:>11}" for cell in cells))
    for way in [way for way in best if way.startswith("empty")]:
        each, few = best[way]["seconds"] / EMPTY_TASKS, best[way.replace("empty", "files")]
        per_batch = each * few["tasks"] / n_batches
        print(
            f"{way}: overhead {each * 1e3:.2f} ms per task, {per_batch * 1e6:.2f} us per batch, "
            f"{each * few['tasks'] / few['seconds']:.1%} of the fit of files"
        )
    print(flush=True)


# --- one measurement, in a process of its own ---------------------------------------------------


class Usage:
    """What some processes use from here on: peaks of resident sets in MB, and CPU time."""

    def __init__(self, pids: list[int]) -> None:
        import psutil

        self._processes = [psutil.Process(pid) for pid in pids]
        self._before = [process.memory_info().rss for process in self._processes]
        self._peaks, self._done = list(self._before), False
        self._cpu_before = [cpu_time(process) for process in self._processes]
        self._cpu = list(self._cpu_before)
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Usage":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._thread.join()

    def above(self, number: int) -> float:
        return (self._peaks[number] - self._before[number]) / 1e6

    @property
    def cpu(self) -> float:
        return sum(self._cpu) - sum(self._cpu_before)

    def _watch(self) -> None:
        import psutil

        while not self._done:
            for i, process in enumerate(self._processes):
                try:
                    self._peaks[i] = max(self._peaks[i], process.memory_info().rss)
                    self._cpu[i] = cpu_time(process)
                except psutil.NoSuchProcess:  # killed
                    continue
            time.sleep(0.01)


def cpu_time(process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def estimator():
    import replearn as rl

    return rl.ReplicableSVMClassifier(margin=MARGIN, shuffle=False, n_jobs=1)


def warm(path: Path) -> None:
    """Import and compile what a fit needs."""
    from replearn.fits.file_fit import fit_file

    fit_file(estimator(), path, "label")


def measure(way: str, folder: str, columns: str) -> dict[str, float]:
    warnings.simplefilter("ignore")
    kind, _, workers = way.partition("-")
    if workers:
        return on_cluster(kind, int(workers), folder, int(columns))
    from replearn.fits.file_fit import fit_file

    source, rows = Path(folder), None
    warm(next(source.iterdir()))
    if kind == "memory":
        import numpy as np
        import pandas as pd

        table = pd.read_parquet(source)
        X = np.ascontiguousarray(table.drop(columns="label").to_numpy())
        rows = X, table["label"].to_numpy()
        del table
    with Usage([os.getpid()]) as usage:
        start = time.perf_counter()
        done = estimator().fit(*rows) if rows else fit_file(estimator(), source, "label")
        seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "cpu": usage.cpu,
        "client": usage.above(0),
        "batches": done.plan_.spent.n_batches,
        "fingerprint": done.fingerprint_,
    }


def on_cluster(kind: str, workers: int, folder: str, columns: int) -> dict[str, float]:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster, wait

    from replearn.fits import clusters
    from replearn.fits.clusters import samples

    n_tasks = n_bytes = 0
    plain = samples.completed

    def weighed(*arguments):
        nonlocal n_tasks, n_bytes
        for number, result in plain(*arguments):
            n_tasks, n_bytes = n_tasks + 1, n_bytes + len(pickle.dumps(result))
            yield number, result

    quiet = {"dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, **quiet) as local,
        Client(local) as client,
    ):
        one_file = next(Path(folder).iterdir())
        client.run(warm, one_file)  # all workers compile
        clusters.fit(estimator(), one_file, target="label")
        if kind == "empty":
            return {"seconds": empty_tasks(client, columns)}
        X, options = folder, {}
        if kind == "partitions":
            X = dd.read_parquet(folder, split_row_groups=True).persist()
            wait(X)
        pids = list(client.run(os.getpid).values())
        if kind == "kill":
            options["watch"] = killer(pids[0])
        samples.completed = weighed  # takes a millisecond in all
        with Usage([os.getpid(), *pids]) as usage:
            start = time.perf_counter()
            done = clusters.fit(estimator(), X, target="label", **options)
            seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "cpu": usage.cpu,
            "client": usage.above(0),
            "worker": max(usage.above(1 + i) for i in range(workers)),
            "tasks": n_tasks,
            "bytes": n_bytes,
            "fingerprint": done.fingerprint_,
        }


def empty_tasks(client, columns: int) -> float:
    from functools import reduce

    from replearn.fits.clusters.tasks import completed, guarded
    from replearn.stages.batches import BatchSums, no_sums

    start = time.perf_counter()
    task = guarded(no_sums)
    tasks = [task(columns + 1, 100) for _ in range(EMPTY_TASKS)]
    reduce(BatchSums.merge, (result for _, result in completed(client, tasks)))
    return time.perf_counter() - start


def killer(pid: int):
    done = []

    def watch(share: float) -> None:
        if not done:
            done.append(share)
            os.kill(pid, signal.SIGKILL)

    return watch


if __name__ == "__main__":
    main()
