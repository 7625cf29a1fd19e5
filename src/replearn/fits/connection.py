"""The connection to a Dask cluster: troubles of every kind in one line, soon.

What this needs is imported when it is needed, and nothing else of the library is: a cluster that is
not there is told before estimators and compilers are loaded.
"""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from replearn import __version__
from replearn.errors import ReplearnError
from replearn.fits.shared import one_line

#: What a Dask scheduler says to everybody who comes, and within how many bytes.
_GREETING, _LONGEST_GREETING = b"pickle-protocol", 4096

#: Seconds in which a cluster must show a worker, and a lost scheduler must come back.
#: With imports on a busy machine that is one line within 20 s.
_PATIENCE = 8.0


def require_dask() -> None:
    """Refuse to go on without Dask."""
    try:
        import dask  # noqa: F401
        import distributed  # noqa: F401
    except ImportError:
        raise ReplearnError(
            'a cluster needs Dask, which is not installed. pip install "replearn[dask]".'
        ) from None


@contextmanager
def connect(address: str, timeout: float = _PATIENCE, security: Any = None) -> Iterator[Any]:
    """Connect to a cluster, and close the connection afterwards.

    Parameters
    ----------
    address : str
        Of the scheduler, like ``tcp://10.0.0.1:8786``; or "local" for a cluster on this machine,
        one process per core, which ends with the connection.
    timeout : float, default=8.0
        Seconds to wait for an answer, and for a scheduler that is lost to come back.
    security : distributed.Security, optional
        Certificates, for a scheduler at ``tls://...``; default those of Dask's configuration.

    Yields
    ------
    client : distributed.Client
    """
    require_dask()
    import dask
    from distributed import Client, LocalCluster

    if address == "local":
        with (
            # by default a worker that dies twice within it may be given up
            dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}),
            LocalCluster(
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.ERROR,  # of workers that are slow to end, say
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        _knock(address, timeout / 3)
        client = Client(address, timeout=timeout, set_as_default=False, security=security)
    except (OSError, ValueError, TypeError, RuntimeError) as problem:
        raise ReplearnError(
            f"no Dask scheduler answers at {address!r} ({one_line(problem)}). Pass the address "
            'that the scheduler printed, like tcp://10.0.0.1:8786, or "local".'
        ) from None
    with _quiet("distributed.client"), client:
        yield client


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without what a logger says of a lost scheduler: our own line says it."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _knock(address: str, timeout: float) -> None:
    """Fail soon if no Dask scheduler is there: a client would wait for any other server for ever.

    A scheduler speaks first, and names what it can unpickle.
    """
    whole = address if "://" in address else f"tcp://{address}"
    parts = urlsplit(whole)
    if parts.scheme not in ("tcp", "tls", "ucx", "ws", "wss"):
        raise ValueError(f"{parts.scheme} is no protocol of Dask")
    if not parts.hostname or parts.port is None:
        raise ValueError("an address has a host and a port")
    if parts.scheme == "ucx":
        return
    with socket.create_connection((parts.hostname, parts.port), timeout) as door:
        if parts.scheme != "tcp":  # it would want more than a knock
            return
        door.settimeout(timeout)
        received = b""
        while _GREETING not in received and len(received) < _LONGEST_GREETING:
            try:
                more = door.recv(4096)
            except TimeoutError:
                raise ValueError("something is there, but it does not greet like Dask") from None
            if not more:
                break
            received += more
        if _GREETING not in received:
            raise ValueError("what is there is not Dask")


def usable_client(client: Any = None) -> Any:
    """The given client or the current one, if there is one; no cluster is ever started here."""
    require_dask()
    from distributed import Client, default_client

    if client is None:
        try:
            client = default_client()
        except ValueError:
            raise ReplearnError(
                "a fit on a cluster needs a Dask client, got none. Start one first: "
                "from distributed import Client; client = Client(address)."
            ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise ReplearnError(
            f"client must be a distributed.Client that is not asynchronous, got {client!r}."
        )
    return client


def require_workers(client: Any) -> None:
    """Refuse a cluster without workers, or with one that has no replearn or another version.

    Workers that come later are found out by the tasks that they are given.
    """
    require_scheduler(client)
    asked = client.submit(int, pure=False)  # clusters that grow with their work start a worker
    try:
        asked.result(timeout=_PATIENCE)
    except Exception as problem:
        require_scheduler(client)
        raise ReplearnError(
            f"the cluster at {_address(client)} must have a worker, and none did anything within "
            f"{_PATIENCE:.0f} s ({type(problem).__name__}). Start workers: dask worker ADDRESS."
        ) from None
    finally:
        asked.release()
    # a builtin, since a worker may not be able to import anything of ours
    found = client.run(eval, "__import__('replearn').__version__", on_error="return")
    for worker, version in found.items():
        if version != __version__:
            what = version if isinstance(version, str) else "none"
            raise ReplearnError(
                f"all workers must have replearn {__version__}, as here, got {what} on {worker}. "
                "Install the same version everywhere."
            )


def require_scheduler(client: Any) -> None:
    """Refuse to go on without a scheduler; one that comes back soon is waited for."""
    given_up = time.monotonic() + _PATIENCE
    while client.status != "running":
        if client.status == "closed" or time.monotonic() > given_up:
            raise ReplearnError(
                f"the scheduler at {_address(client)} is gone. Start it, connect anew, and fit "
                "again: nothing was lost but time."
            )
        time.sleep(0.1)


def _address(client: Any) -> str:
    given = getattr(client, "_start_arg", None)  # all that a closed client remembers
    known = given if isinstance(given, str) else "an unknown address"
    return str(getattr(client.scheduler, "address", None) or known)
