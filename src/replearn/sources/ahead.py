"""Reading ahead: the next item is made in a background thread while this one is used."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield the items in order, each made while the one before is in use.

    One item waits at most. An error in the making comes out where its item would have come.
    Closing this generator waits for the item under way, closes ``items`` and lets the thread end.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replearn-read-ahead")
    pending = pool.submit(next, items, _END)
    try:
        while (item := pending.result()) is not _END:
            pending = pool.submit(next, items, _END)
            yield item
            del item  # not held while the next one is waited for
    finally:
        # The thread is not joined: as garbage this is closed wherever the collector happens to run,
        # perhaps in a thread that is just starting, with a lock that a join would wait for.
        if not pending.cancel():
            wait([pending])
        pool.shutdown(wait=False)
        if isinstance(items, Generator):
            items.close()
