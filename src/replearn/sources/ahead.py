"""Reading ahead: the next item is made in a background thread while this one is used."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


def ahead(items: Iterator[T], n_ahead: int = 1) -> Generator[T, None, None]:
    """Yield the items in order, each made while those before are in use.

    ``n_ahead`` items wait at most: more than one where the time that items take varies. An error in
    the making comes out where its item would have come. Closing this generator waits for the
    item under way, closes ``items`` and lets the thread end.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replearn-read-ahead")
    waiting = deque(pool.submit(next, items, _END) for _ in range(n_ahead))
    try:
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(pool.submit(next, items, _END))
            yield item
            del item  # not held while the next one is waited for
    finally:
        # The thread is not joined: as garbage this is closed wherever the collector happens to run,
        # perhaps in a thread that is just starting, with a lock that a join would wait for.
        wait([pending for pending in waiting if not pending.cancel()])
        pool.shutdown(wait=False)
        if isinstance(items, Generator):
            items.close()
