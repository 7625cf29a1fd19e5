"""Rows past memory, and past one process: what a pass costs, beside reading the file with Arrow.

    python benchmarks/engines.py [ROWS] [--ways scratch,reread] [--dask] [--columns 10] [--paper]

Rows have 20 columns of float32 and a label, or ``--columns``. Seconds of CPU are those of this
process, with one thread of BLAS and of Arrow; wall time only means something on an idle machine.
The three ways to keep encoded rows give one model; the fit in a fresh process shows its peak
memory. ``--dask`` compares one worker with two; ``--ways none`` leaves out all else. ``--paper``
measures little, and extrapolates to 1e10 rows and to 1,000 centres.
"""

import argparse
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replearn.engines import dask
from replearn.engines import replication as engine
from replearn.engines.replication import work
from replearn.glm import newton
from replearn.study import GlmStudy, Request, State, combine, encode, lab_sums, publish, replicate
from replearn.study import encoder as rows
from replearn.study.participants import near_copies
from replearn.tables import open_table

GROUP_ROWS = 500_000
WAYS = ("memory", "scratch", "reread")


def write(path: Path, n_rows: int, n_columns: int) -> None:
    """Rows of one population, some at a time."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=n_columns) / 3
    writer = None
    for start in range(0, n_rows, GROUP_ROWS):
        size = min(GROUP_ROWS, n_rows - start)
        X = rng.normal(size=(size, n_columns)).astype(np.float32)
        y = (X @ slopes + rng.logistic(size=size) > 0.5).astype(np.int8)
        table = pa.table({**{f"x{i}": X[:, i] for i in range(n_columns)}, "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=["y"])
        writer.write_table(table)
    assert writer is not None
    writer.close()


def read(path: Path) -> None:
    """What Arrow alone needs."""
    cpu, wall = time.process_time(), time.monotonic()
    for _ in pq.ParquetFile(path, pre_buffer=False).iter_batches(1 << 16, use_threads=False):
        pass
    print(
        f"reading with Arrow      {time.process_time() - cpu:7.2f} s of CPU "
        f"{time.monotonic() - wall:7.2f} s"
    )


def full_disk(*_: Any) -> None:
    """A disk without room for a scratch file: then the table is read anew."""
    raise OSError


def fit(way: str, path: str, study: GlmStudy) -> None:
    """A replication in this process; prints its passes and its peak memory."""
    rows.MOST_KEPT = 1 << 60 if way == "memory" else 0
    if way == "reread":
        rows.ScratchBlocks.add = full_disk
    passes: list[float] = []
    plain = newton.NewtonState.sums

    def timed(*arguments: Any) -> Any:
        start = time.process_time()
        found = plain(*arguments)
        if found.count("rows") == table.n_rows:  # not a sample of them
            passes.append(time.process_time() - start)
        return found

    newton.NewtonState.sums = timed
    cpu, wall = time.process_time(), time.monotonic()
    table = open_table(path, target="y", columns=study.design.encoding.names)
    model, _ = replicate(study, table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{way:8} {len(passes)} passes of {min(passes):.2f} to {max(passes):.2f} s; whole fit "
        f"{time.process_time() - cpu:.1f} s of CPU, {time.monotonic() - wall:.1f} s; peak "
        f"{peak:,} MB; {model.fingerprint[:12]}",
        flush=True,
    )


def speed(rows: int, n_passes: int, seconds: float) -> str:
    """Rows times passes in a second, of one core."""
    return f"{rows * n_passes / seconds / 1e6:.1f} million rows a second and pass"


def in_process(path: Path, study: GlmStudy, n_rows: int) -> int:
    """The tasks of a cluster, one after the other in this process; how many passes they make."""
    kept: list[Any] = []
    seconds = []

    def pass_over(state: State) -> list[Any]:
        if not kept:
            encode_some = work(study, state, keep=True)
            parts = dask._parts(study.design, path)
            kept.extend(dask._task(study.design, encode_some, part) for part in parts)
        start = time.process_time()
        found = [dask._task(study.design, work(study, state), one) for one in kept]
        seconds.append(time.process_time() - start)
        return found

    cpu = time.process_time()
    model, _ = engine.replicate(study, pass_over)
    cpu = time.process_time() - cpu
    steps = seconds[1:-1]  # the first pass counts, and the last looks at single rows
    print(
        f"the sums themselves: {speed(n_rows, len(steps), sum(steps))}\n"
        f"the tasks of Dask in one process: {cpu:.1f} s of CPU, "
        f"{speed(n_rows, len(seconds), cpu)}; {model.fingerprint[:12]}",
        flush=True,
    )
    return len(seconds)


def on_dask(path: Path, study: GlmStudy, n_rows: int, n_passes: int) -> None:
    """The same on a cluster of processes: one worker, then two."""
    from distributed import Client, LocalCluster

    walls = []
    for n_workers in (1, 2):
        options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            # imports, and the file in the system's memory
            dask.replicate(study, path, client)
            wall, cpu = time.monotonic(), sum(client.run(time.process_time).values())
            model, _ = dask.replicate(study, path, client)
            walls.append(time.monotonic() - wall)
            cpu = sum(client.run(time.process_time).values()) - cpu
        print(
            f"Dask, workers: {n_workers}; {walls[-1]:.1f} s, {cpu:.1f} s of CPU of the workers, "
            f"{speed(n_rows, n_passes, cpu)}; {model.fingerprint[:12]}",
            flush=True,
        )
    print(f"two workers are {walls[0] / walls[1]:.2f} times as fast as one")


def on_paper(path: Path, study: GlmStudy) -> None:
    """What 1e10 rows and 1,000 centres would cost, from one row group and from 20 centres."""
    rows_of = pq.ParquetFile(path).read_row_group(0)
    cpu = time.process_time()
    state = study.begin()
    encoded = encode(study.design, state, [rows_of])
    encoding = (time.process_time() - cpu) / rows_of.num_rows
    seconds, sizes = [], []
    while isinstance(state, State):
        cpu = time.process_time()
        sums = study.sums([encoded], state)
        seconds.append((time.process_time() - cpu) / rows_of.num_rows)
        sizes.append(len(pickle.dumps(sums)))
        state = study.step(sums, state)  # type: ignore[assignment]
    print(
        f"measured on {rows_of.num_rows:,} rows: encoding {1e9 * encoding:.0f} ns a row, a pass "
        f"{1e9 * max(seconds):.0f} ns, {len(seconds)} passes, {max(sizes):,} bytes from a partition"
    )
    core = 1e10 * (encoding + sum(seconds))
    kept = 10 * (2 * study.design.encoding.n_terms + 8)
    print(
        f"extrapolated to 1e10 rows: {core / 3600:.1f} hours of one core, {core / 6000:.0f} min "
        f"of 100; {kept:,.0f} GB of encoded rows; with 10,000 "
        f"partitions {1e4 * max(sizes) / 1e6:,.0f} MB reach the client in a pass at most"
    )
    labs = {f"centre{i}": rows_of.slice(1000 * i, 1000) for i in range(20)}
    found: Any = study.begin()
    n_rounds = n_bytes = 0
    cpu = 0.0
    while isinstance(found, State):
        sums_of = [lab_sums(study, table, found, lab=lab) for lab, table in labs.items()]
        n_bytes += max(len(one.canonical_bytes()) for one in sums_of)
        n_rounds += 1
        start = time.process_time()
        found = combine(study, *sums_of, state=found)
        cpu += time.process_time() - start
    print(
        f"measured with 20 centres: {n_rounds} rounds, {n_bytes:,} bytes from a centre in all, "
        f"{cpu:.2f} s of CPU to combine"
    )
    numbers = np.random.default_rng(0).normal(size=(1000, study.design.n_numbers))
    start = time.process_time()
    near_copies([str(i) for i in range(1000)], numbers, np.full(1000, 1000.0))
    pairs = time.process_time() - start
    print(
        f"extrapolated to 1,000 centres: {n_rounds} rounds (1 from an opened model), "
        f"{n_bytes / 1e3:,.0f} MB in all, {50 * cpu:.0f} s to combine; all pairs of near copies "
        f"take {pairs:.2f} s, measured"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rows", nargs="?", type=float, default=1e6)
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--ways", default=",".join(WAYS), help="to keep rows, or none")
    parser.add_argument("--paper", action="store_true", help="only extrapolate")
    parser.add_argument("--folder", help="where the file is kept")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    if options.one:
        fit(options.one[0], options.one[1], GlmStudy.load(options.one[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        here = Path(options.folder or folder)
        path, study = here / f"{options.rows:.0f}x{options.columns}.parquet", here / "study.json"
        if not path.exists():
            write(path, int(options.rows), options.columns)
        first = pq.ParquetFile(path).read_row_group(0).slice(0, 20_000)
        found = publish(open_table(first, target="y"), Request(ridge=0.001)).study
        found.save(study)
        if options.paper:
            on_paper(path, found)
            return
        print(f"{options.rows:,.0f} rows, {path.stat().st_size >> 20:,} MB")
        read(path)
        for way in () if options.ways == "none" else options.ways.split(","):
            arguments = [sys.executable, __file__, "--one", way, str(path), str(study)]
            subprocess.run(arguments, check=True)
        if options.dask:
            on_dask(path, found, int(options.rows), in_process(path, found, int(options.rows)))


if __name__ == "__main__":
    main()
