"""A Dask cluster: connections, and its troubles in one line, soon."""

import socket
from asyncio import wait_for
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from replearn import __version__
from replearn.engines.replication import one_line, other_version
from replearn.errors import ReplearnError

#: Seconds in which a scheduler must answer, and a worker must do something.
PATIENCE = 8.0
#: How often tasks are made, and how often nobody is there to do them, before that is told.
_ATTEMPTS, _WAITS = 5, 3


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to a cluster, and close the connection afterwards.

    Parameters
    ----------
    address : str
        Of the scheduler, like ``tcp://10.0.0.1:8786``.

    Yields
    ------
    client : distributed.Client
    """
    from distributed import Client

    try:
        _knock(address)
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as problem:
        raise ReplearnError(
            f"no Dask scheduler answers at {address!r} ({one_line(problem)}). Pass the address "
            "that the scheduler printed, like tcp://10.0.0.1:8786."
        ) from None
    with client:
        yield client


def _knock(address: str) -> None:
    """Fail soon if no scheduler is there: it speaks first, and a client waits for any server."""
    if "://" not in address:
        address = f"tcp://{address}"
    parts = urlsplit(address)
    if not parts.hostname or parts.port is None:
        raise ValueError("an address has a host and a port")
    with socket.create_connection((parts.hostname, parts.port), PATIENCE / 2) as door:
        door.settimeout(PATIENCE / 2)
        if parts.scheme == "tcp" and not door.recv(1):
            raise ValueError("what is there is not Dask")


def usable(client: Any) -> Any:
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
    versions = client.run(eval, "__import__('replearn').__version__", on_error="return")
    for version in versions.values():
        if not isinstance(version, str):
            version = "none"
        if version != __version__:
            raise other_version(__version__, version)
    return client


def gathered(
    client: Any, tasks: Callable[[], list[Any]], forget: Callable[[], None] = lambda: None
) -> Any:
    """What tasks give; all are made again if workers die, and nobody waits for a dead cluster."""
    from distributed import KilledWorker, wait
    from distributed.comm.core import CommClosedError

    made, n_lost, n_idle = tasks(), 0, 0
    while n_lost < _ATTEMPTS:
        workers = _workers(client)
        if workers is None:
            raise ReplearnError(
                "the scheduler is gone. Start it, connect anew, and fit again: only time is lost."
            )
        n_idle = 0 if workers else n_idle + 1
        if n_idle > _WAITS:
            raise ReplearnError(
                "no worker is left. Start workers (dask worker ADDRESS), and fit again."
            )

        try:
            with client.as_current(), suppress(TimeoutError):
                wait(made, timeout=PATIENCE / 2)
                return client.sync(_results, client, made)
        except (KilledWorker, CommClosedError, CancelledError):
            forget()
            made, n_lost = tasks(), n_lost + 1
        except Exception as problem:
            raise ReplearnError(
                f"a task failed on the cluster: {type(problem).__name__}: {one_line(problem)}. "
                "Check that the partitions can be computed, and that all workers have the same "
                "packages."
            ) from problem

    raise ReplearnError(
        "tasks were lost again and again: their workers died. Give workers more memory, or make "
        "the partitions smaller."
    )


def _workers(client: Any) -> Any:
    """The workers of a cluster; None if its scheduler no longer answers."""
    try:
        return client.nthreads() if client.status == "running" else None
    except OSError:
        return None


async def _results(client: Any, made: list[Any]) -> Any:
    """What finished tasks gave; Dask may wait for ever for those that are lost on the way."""
    try:
        return await wait_for(client.gather(made, asynchronous=True), PATIENCE + len(made) / 100)
    except TimeoutError:
        raise CancelledError from None
