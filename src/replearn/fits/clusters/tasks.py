"""Tasks on a Dask cluster: their results as they come, whatever dies on the way."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from replearn import __version__
from replearn.errors import ReplearnError
from replearn.fits.connection import require_scheduler, require_workers, usable_client
from replearn.fits.shared import Shared, called, one_line, other_version
from replearn.sources import Watch

#: Dask gives up a task after several workers died while they ran it (``allowed-failures``, usually
#: 3). The task need not be the cause, so all such tasks are sent again, and given up only after
#: this number of rounds in which none of them was done.
_ROUNDS = 5

#: Seconds before the first of these rounds, and each time twice as many: workers start again.
_PAUSE = 0.2

#: Of a task that raises what is not about its rows.
RETRIES = 2

#: Results that are fetched together: one round trip for all, and not too many in memory.
_GATHERED = 64


def shared_task(content: Any) -> Any:
    """Something for all tasks, as a task; scattered data would be gone with their worker."""
    return guarded(Shared.unpacked)(Shared(content))


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a task return what it raises about its rows: it is not tried again, and has one line.

    What an earlier task returned like this is handed on.
    """
    from dask import delayed

    return delayed(_Guarded(function), pure=False)


class _Guarded:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._version = __version__
        self.__name__ = f"replearn-{function.__name__.strip('_')}"  # on Dask's dashboard

    def __call__(self, *arguments: Any) -> Any:
        if self._version != __version__:  # a worker that came later
            return other_version(self._version, __version__)
        for argument in arguments:
            if isinstance(argument, ReplearnError):
                return argument
        try:
            return self._function(*arguments)
        except ReplearnError as problem:
            return problem.with_traceback(None)


def completed(
    client: Any, make: Callable[[], Sequence[Any]], watch: Watch | None = None
) -> Iterator[tuple[int, Any]]:
    """Numbers and results of tasks as they come, each once, and nothing of them kept there.

    ``make`` gives the tasks, each a `dask.delayed.Delayed`, and gives them anew after some were
    lost: a scheduler that has given a task up refuses its key for as long as it remembers it, and
    with it all that depends on it. A task that returns a `ReplearnError` refuses its rows: then the
    error of the first such task is raised, in their order, as on one machine.
    """
    tasks = make()
    left, n_done, n_in_vain = list(range(len(tasks))), 0, 0
    refused: dict[int, ReplearnError] = {}
    while n_in_vain < _ROUNDS:
        lost: list[int] = []
        for number, result in _one_round(client, tasks, left, refused, lost):
            yield number, result
            n_done += 1
            if watch is not None:
                watch(n_done / len(tasks))
        if refused:
            first = refused[min(refused)]
            raise first from first.__cause__
        if not lost:
            return
        n_in_vain = n_in_vain + 1 if len(lost) == len(left) else 0
        left = sorted(lost)
        require_scheduler(client)
        time.sleep(_PAUSE * 2**n_in_vain)
        tasks = make()
    raise ReplearnError(
        f"{len(left):,} of {len(tasks):,} tasks were lost again and again: their workers died, or "
        "data that were only in the memory of a dead worker are gone. Give the workers more memory "
        "or make the partitions smaller; keep data that can be read again, not scattered ones."
    )


def _one_round(
    client: Any,
    tasks: Sequence[Any],
    numbers: Sequence[int],
    refused: dict[int, ReplearnError],
    lost: list[int],
) -> Iterator[tuple[int, Any]]:
    from distributed import as_completed

    futures = client.compute([tasks[number] for number in numbers], retries=RETRIES)
    waiting = dict(zip(futures, numbers, strict=True))
    arriving = as_completed(futures, loop=client.loop)
    del futures
    try:
        for batch in arriving.batches():
            for future, result in _results(client, [f for f in batch if f in waiting]):
                number = waiting.pop(future)
                future.release()  # kept, it would be computed again if its worker died
                if isinstance(result, ReplearnError):
                    refused[number] = result
                elif isinstance(result, _Lost):
                    lost.append(number)
                else:
                    yield number, result
            if refused:  # only what comes before can still matter
                for future in [f for f, n in waiting.items() if n > min(refused)]:
                    del waiting[future]
                    future.release()
    finally:  # also if the caller stops early
        for future in waiting:
            future.release()


class _Lost:
    """The result of a task that Dask gave up because its workers died."""


def _results(client: Any, futures: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Futures that are done, and their results."""
    for start in range(0, len(futures), _GATHERED):
        some = futures[start : start + _GATHERED]
        try:
            results = client.gather(some)
        except Exception:  # one of them went wrong: which one?
            results = [_result(future) for future in some]
        yield from zip(some, results, strict=True)


def _result(future: Any) -> Any:
    """The result of a task, or its error; it may have been lost just now."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        return future.result()
    except (KilledWorker, CommClosedError, CancelledError):
        return _Lost()
    except Exception as problem:
        if "No module named 'replearn'" in f"{problem} {problem.__cause__}":
            return other_version(__version__, "none")
        error = ReplearnError(
            f"a task failed on the cluster: {type(problem).__name__}: {one_line(problem)}. Check "
            "that the partitions can be computed, and that all workers have the same versions of "
            "replearn and of its packages."
        )
        error.__cause__ = problem
        return error


def spread(
    client: Any, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    """Apply a function that carries much data to many small items.

    Parameters
    ----------
    client : distributed.Client
    function : callable
        It is sent to each worker once, with its data.
    items : sequence

    Yields
    ------
    number, result : int and any
        As they come.
    """
    client = usable_client(client)
    require_workers(client)
    scattered: list[Any] = []

    def tasks() -> list[Any]:
        # too much data for the scheduler; should all workers that have them die, they are sent anew
        scattered.append(client.scatter(Shared(function), broadcast=True, hash=False))
        call = guarded(_call)
        return [call(scattered[-1], item) for item in items]

    try:
        yield from completed(client, tasks)
    finally:
        for future in scattered:  # the workers' memory is free at once, also after an error
            future.release()


def _call(sent: Shared, item: Any) -> Any:
    return called(sent.unpacked(), item)
