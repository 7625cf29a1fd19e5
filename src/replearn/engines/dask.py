"""Fits on a Dask cluster: rows are encoded once, stay where they are, and sums travel."""

import glob
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from replearn import __version__
from replearn.engines import replication
from replearn.engines.replication import Work, columns_of, one_line, other_version, work
from replearn.errors import ReplearnError
from replearn.recipes.design import Design
from replearn.recipes.model import Model
from replearn.study.passes import State, table_of
from replearn.study.replication import Replication
from replearn.study.study import Study
from replearn.tables.files import ParquetFile

#: Seconds in which a scheduler must answer, and a worker must do something.
PATIENCE = 8.0
#: Rows that one task reads from a Parquet file, about.
TASK_ROWS = 1 << 20
_ATTEMPTS, _RETRIES = 5, 2


def replicate(
    study: Study,
    source: Any,
    client: Any = None,
    opened: Model | None = None,
    nonce: str | None = None,
) -> tuple[Model, Replication]:
    """Fit a study on rows that the workers of a cluster can read, or have.

    Parameters
    ----------
    study : Study
    source : path, sequence of paths, or Dask dataframe
        Paths may hold ``*``. Parquet files are read by row groups, others whole; every worker must
        be able to read them. A dataframe is taken by its partitions.
    client : distributed.Client, optional
        The current one by default; see `connect`. A cluster is never started here.
    opened, nonce
        As in `replearn.study.replication.replicate`.

    Returns
    -------
    model, replication
        Those of the same rows in memory, to the bit.
    """
    client = _usable(client)
    parts = _parts(study.design, source)
    kept: list[Any] = []  # encoded rows, two bytes a number, in the memory of the workers

    def tasks(state: State) -> list[Any]:
        def mapped(keep: bool) -> list[Any]:
            rows = kept
            if not kept:
                rows = parts if isinstance(parts[0], tuple) else client.compute(parts)
            task = partial(_task, study.design, work(study, state, keep))
            return list(client.map(task, rows, pure=False, retries=_RETRIES))

        if state.scale is not None and not kept:
            kept.extend(mapped(keep=True))
        return mapped(keep=False)

    def pass_over(state: State) -> Sequence[Any]:
        return _gathered(client, partial(tasks, state), kept.clear)

    return replication.replicate(study, pass_over, opened, nonce)


def _gathered(client: Any, tasks: Callable[[], list[Any]], forget: Callable[[], Any]) -> Any:
    """What tasks give; all are made again if workers die."""
    for attempt in range(_ATTEMPTS):
        try:
            return client.gather(tasks())
        except Exception as problem:
            forget()
            if attempt + 1 == _ATTEMPTS or not _was_lost(problem):
                raise _in_words(client, problem) from problem
    raise AssertionError


def _task(design: Design, work: Work, given: Any) -> Any:
    """What a worker does with its part: a file and row groups, a dataframe, or encoded rows."""
    if not isinstance(given, tuple):
        return work([given])
    path, groups = given
    table = table_of(design, path)
    if groups is not None:
        table = replace(table, read=ParquetFile(path, groups).read, n_rows=None)
    return work([table])


def _parts(design: Design, source: Any) -> list[Any]:
    """What tells a worker where its rows are."""
    if hasattr(source, "to_delayed"):
        return list(source[columns_of(design, source.columns)].to_delayed())
    found: list[Any] = []
    for path in _paths(source):
        table_of(design, path)  # what is wrong with its columns is told at once
        found += _groups(path) if path.lower().endswith((".parquet", ".pq")) else [(path, None)]
    return found


def _paths(source: Any) -> list[str]:
    given = [source] if isinstance(source, str | os.PathLike) else source
    return [path for one in given for path in sorted(glob.glob(os.fspath(one))) or [os.fspath(one)]]


def _groups(path: str) -> Iterable[tuple[str, list[int]]]:
    from pyarrow import parquet

    metadata = parquet.read_metadata(path)
    groups: list[int] = []
    size = 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        size += metadata.row_group(number).num_rows
        if size >= TASK_ROWS or number + 1 == metadata.num_row_groups:
            yield path, groups
            groups, size = [], 0


# --- connections ---------------------------------------------------------------------------------


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to a cluster, and close the connection afterwards.

    Parameters
    ----------
    address : str
        Of the scheduler, like ``tcp://10.0.0.1:8786``; or "local" for a cluster on this machine,
        one process for each core, which ends with the connection.

    Yields
    ------
    client : distributed.Client
    """
    from distributed import Client, LocalCluster

    if address == "local":
        with (
            LocalCluster(threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        _knock(address)
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as problem:
        raise ReplearnError(
            f"no Dask scheduler answers at {address!r} ({one_line(problem)}). Pass the address "
            'that the scheduler printed, like tcp://10.0.0.1:8786, or "local".'
        ) from None
    with client:
        yield client


def _knock(address: str) -> None:
    """Fail soon if no scheduler is there: it speaks first, and a client waits for any server."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if not parts.hostname or parts.port is None:
        raise ValueError("an address has a host and a port")
    with socket.create_connection((parts.hostname, parts.port), PATIENCE / 2) as door:
        door.settimeout(PATIENCE / 2)
        if parts.scheme == "tcp" and not door.recv(1):
            raise ValueError("what is there is not Dask")


def _usable(client: Any) -> Any:
    """The given client or the current one, with workers that have this version."""
    try:
        from distributed import default_client
    except ImportError:
        raise ReplearnError(
            'a cluster needs Dask, which is not installed. pip install "replearn[dask]".'
        ) from None
    if client is None:
        try:
            client = default_client()
        except ValueError:
            raise ReplearnError(
                "a cluster needs a Dask client, got none. Start one: client = Client(address)."
            ) from None
    asked = client.submit(int, pure=False)  # clusters that grow with their work start a worker
    try:
        asked.result(timeout=PATIENCE)
    except Exception as problem:
        raise ReplearnError(
            f"the cluster must have a worker, and none did anything within {PATIENCE:.0f} s "
            f"({type(problem).__name__}). Start workers: dask worker ADDRESS."
        ) from None
    # a builtin, since a worker may not be able to import anything of ours
    found = client.run(eval, "__import__('replearn').__version__", on_error="return")
    for version in found.values():
        if version != __version__:
            raise other_version(__version__, version if isinstance(version, str) else "none")
    return client


def _was_lost(problem: BaseException) -> bool:
    """Whether a pass failed because workers died: then it is made again."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    return isinstance(problem, KilledWorker | CommClosedError | CancelledError)


def _in_words(client: Any, problem: BaseException) -> ReplearnError:
    what = (
        f"a task failed on the cluster: {type(problem).__name__}: {one_line(problem)}. Check that "
        "the partitions can be computed, and that all workers have the same packages."
    )
    if client.status != "running":
        what = "the scheduler is gone. Start it, connect anew, and fit again: only time is lost."
    elif _was_lost(problem):
        what = (
            "tasks were lost again and again: their workers died. Give workers more memory, or "
            "make the partitions smaller."
        )
    return ReplearnError(what)
