"""Replications on a Dask cluster: rows are encoded once, stay where they are, and sums travel."""

import glob
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from replearn import __version__
from replearn.engines import replication
from replearn.engines.replication import columns_of, one_line, other_version, part
from replearn.errors import ReplearnError
from replearn.exact.rows import Block
from replearn.recipes.design import Design
from replearn.recipes.model import Model
from replearn.study.passes import State, blocks_of, sums_of, table_of
from replearn.study.replication import Replication
from replearn.study.study import Study
from replearn.tables import Seen
from replearn.tables.files import ParquetFile

#: Seconds in which a scheduler must answer, and a worker must do something.
PATIENCE = 8.0
#: Rows that one task reads from a Parquet file, about.
TASK_ROWS = 1 << 20
_ATTEMPTS = 5
_RETRIES = 2


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
    descriptors = _descriptors(study.design, source)
    kept: list[Any] = []  # encoded rows, two bytes a number, in the memory of the workers

    def pass_over(state: State) -> Sequence[Any]:
        for attempt in range(_ATTEMPTS):
            try:
                return client.gather(_submitted(client, study.design, state, descriptors, kept))
            except Exception as problem:
                kept.clear()
                if attempt + 1 == _ATTEMPTS or not _was_lost(problem):
                    raise _in_words(client, problem) from problem
        raise AssertionError

    return replication.replicate(study, pass_over, opened, nonce)


def _submitted(
    client: Any, design: Design, state: State, descriptors: Sequence[Any], kept: list[Any]
) -> list[Any]:
    """Tasks of one pass; the first that needs encoded rows makes them."""
    options = {"pure": False, "retries": _RETRIES}
    if not kept and not isinstance(descriptors[0], tuple):  # partitions of a dataframe
        descriptors = client.compute(descriptors, retries=_RETRIES)
    if state.scale is None:
        weigh = partial(_part, design, state)
        return client.map(weigh, descriptors, key="replearn-weigh", **options)
    if not kept:
        encode = partial(_encoded, design, state.scale, __version__)
        kept += client.map(encode, descriptors, key="replearn-encode", **options)
    return client.map(partial(_sums, design, state), kept, key="replearn-sums", **options)


def _part(design: Design, state: State, descriptor: Any) -> Any:
    return part(design, state, __version__, _batches(design, descriptor))


def _encoded(design: Design, scale: int, version: str, descriptor: Any) -> Any:
    """Encoded rows, and what was seen; an error is a result, so that nobody tries again."""
    try:
        if version != __version__:
            raise other_version(version, __version__)
        seen = Seen(design.encoding)
        return list(blocks_of(design, scale, _batches(design, descriptor), seen)), seen
    except ReplearnError as problem:
        return ReplearnError(str(problem))


def _sums(design: Design, state: State, encoded: tuple[list[Block], Seen]) -> Any:
    if isinstance(encoded, ReplearnError):
        return encoded
    blocks, seen = encoded
    return sums_of(design, state, blocks, seen), replication.counted_once(state, seen)


# --- where rows are ------------------------------------------------------------------------------


def _descriptors(design: Design, source: Any) -> list[Any]:
    """What tells a worker where its rows are: a file and row groups, or a partition."""
    if hasattr(source, "to_delayed"):
        return list(source[columns_of(design, source.columns)].to_delayed())
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths: list[str] = []
    for one in given:
        paths += sorted(glob.glob(os.fspath(one))) or [os.fspath(one)]
    found: list[Any] = []
    for path in paths:
        table_of(design, path)  # what is wrong with its columns is told at once
        if not path.lower().endswith((".parquet", ".pq")):
            found.append((path, None))
            continue
        from pyarrow import parquet

        metadata = parquet.read_metadata(path)
        groups: list[int] = []
        size = 0
        for number in range(metadata.num_row_groups):
            groups.append(number)
            size += metadata.row_group(number).num_rows
            if size >= TASK_ROWS or number + 1 == metadata.num_row_groups:
                found.append((path, groups))
                groups, size = [], 0
    return found


def _batches(design: Design, descriptor: Any) -> Iterable[Any]:
    """The rows of a descriptor, on a worker."""
    if not isinstance(descriptor, tuple):
        return [descriptor]
    path, groups = descriptor
    table = table_of(design, path)
    if groups is None:
        return [table]
    return [replace(table, source=ParquetFile(path, groups).source(), n_rows=None)]


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
    if client.status != "running":
        return ReplearnError(
            "the scheduler is gone. Start it, connect anew, and fit again: only time is lost."
        )
    if _was_lost(problem):
        return ReplearnError(
            "tasks were lost again and again: their workers died. Give workers more memory, or "
            "make the partitions smaller."
        )
    return ReplearnError(
        f"a task failed on the cluster: {type(problem).__name__}: {one_line(problem)}. Check that "
        "the partitions can be computed, and that all workers have the same packages."
    )
