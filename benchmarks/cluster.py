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

    python benchmarks/cluster.py --logistic 50000000 [--workers 1 2]

fits the logistic classifier (one step, ten features in float32) on so many rows, which the workers
draw: no file, no shuffle. "drawing" is the CPU time of that, measured apart and taken off.
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
    parser.add_argument("--logistic", type=int, metavar="ROWS")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    if options.logistic:
        logistic(options.logistic, options.workers)
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


FEATURES, CHUNK = 10, 250_000


def logistic(n_rows: int, workers: list[int]) -> None:
    """Logistic fits of rows that the workers draw."""
    warnings.simplefilter("ignore")
    n_chunks = -(-n_rows // CHUNK)
    times = alone()
    print(
        f"{n_chunks * CHUNK:,} rows x {FEATURES} features, {n_chunks} partitions, one core alone: "
        f"drawing {times['draw']:.0f} ns/row, sums {times['sums']:.0f} ns/row "
        f"({1e9 / times['sums']:,.0f} rows/s)\n"
    )
    print(f"{'workers':>8}{'s':>8}{'CPU s':>8}{'not drawing':>13}{'rows/s and core':>17}", end="")
    print(f"{'bytes':>10}{'B/part':>8}{'ms/part':>9}  fingerprint")
    for n in workers:
        found = logistic_on(n, n_chunks)
        draw = times["draw"] * 1e-9 * n_chunks * CHUNK * 2  # for the labels, and for the step
        rest = found["cpu"] - draw
        print(
            f"{n:>8}{found['seconds']:>8.1f}{found['cpu']:>8.1f}{rest:>13.1f}"
            f"{n_chunks * CHUNK / rest:>17,.0f}{found['bytes']:>10,}"
            f"{found['bytes'] // n_chunks:>8,}{1000 * found['empty']:>9.2f}"
            f"  {found['fingerprint'][:16]}",
            flush=True,
        )


def one_step():
    """The classifier, with a design of one step."""
    from dataclasses import replace

    import replearn as rl

    plain = rl.ReplicableLogisticClassifier(samples_per_site=10**7, n_components=4)
    X, y = drawn(0)
    design = replace(plain.fit(X[:1000], y[:1000]).plan_.design, n_steps=1)
    return plain.set_params(published=rl.Published(design=design, classes=(0, 1)))


def drawn(number: int):
    """One partition: features and labels."""
    import numpy as np

    rng = np.random.default_rng(number)
    X = rng.standard_normal((CHUNK, FEATURES), dtype=np.float32)
    return X, (rng.random(CHUNK, dtype=np.float32) < 1 / (1 + np.exp(-X[:, 0]))).astype(np.int8)


def alone() -> dict[str, float]:
    """Nanoseconds of CPU per row, of drawing and of adding up, in this process."""
    from functools import partial

    from replearn.stages.batches import add_blocks
    from replearn.stages.scores import score_terms

    estimator = one_step()
    design = estimator.published.design
    terms = partial(score_terms, design, design.space.start_numbers)
    X, y = drawn(0)
    targets = estimator.labels().targets(y)
    add_blocks(terms, X, targets)  # compiles
    found = {}
    for name, work in (("draw", lambda: drawn(1)), ("sums", lambda: add_blocks(terms, X, targets))):
        best = min(cpu_of(work) for _ in range(8))
        found[name] = best / CHUNK * 1e9
    return found


def cpu_of(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def logistic_on(workers: int, n_chunks: int) -> dict[str, float]:
    import dask
    import dask.array as da
    import numpy as np
    import psutil
    from distributed import Client, LocalCluster

    from replearn.fits import clusters
    from replearn.fits.clusters import samples
    from replearn.fits.clusters.tasks import completed, guarded

    n_bytes, plain = 0, samples.completed

    def weighed(*arguments):
        nonlocal n_bytes
        for number, result in plain(*arguments):
            n_bytes += len(pickle.dumps(result))
            yield number, result

    def arrays(n):
        pairs = [dask.delayed(drawn, nout=2)(number) for number in range(n)]
        X = [da.from_delayed(pair[0], (CHUNK, FEATURES), np.float32) for pair in pairs]
        return da.concatenate(X), da.concatenate(
            [da.from_delayed(pair[1], (CHUNK,), np.int8) for pair in pairs]
        )

    with (
        warnings.catch_warnings(),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as local,
        Client(local) as client,
    ):
        warnings.simplefilter("ignore")
        clusters.fit(one_step(), *arrays(2 * workers), client=client)  # all workers compile
        processes = [psutil.Process(pid) for pid in (os.getpid(), *client.run(os.getpid).values())]
        samples.completed = weighed
        before, start = sum(map(cpu_time, processes)), time.perf_counter()
        done = clusters.fit(one_step(), *arrays(n_chunks), client=client)
        seconds, cpu = time.perf_counter() - start, sum(map(cpu_time, processes)) - before
        samples.completed = plain
        start = time.perf_counter()
        nothing = guarded(abs)
        for _ in completed(client, [nothing(number) for number in range(EMPTY_TASKS)]):
            pass
        empty = (time.perf_counter() - start) / EMPTY_TASKS
    return {
        "seconds": seconds,
        "cpu": cpu,
        "bytes": n_bytes,
        "empty": empty,
        "fingerprint": done.fingerprint_,
    }


def killer(pid: int):
    done = []

    def watch(share: float) -> None:
        if not done:
            done.append(share)
            os.kill(pid, signal.SIGKILL)

    return watch


if __name__ == "__main__":
    main()
