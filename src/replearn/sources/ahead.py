"""Reading ahead: the next item is made in a background thread while this one is used."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield the items in order, each made while the one before is in use.

    One item waits at most. An error in the making comes out where its item would have come.
    Closing this generator waits for the item under way, closes ``items`` and ends the thread.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replearn-read-ahead")
    try:
        pending = pool.submit(next, items, _END)
        while (item := pending.result()) is not _END:
            pending = pool.submit(next, items, _END)
            yield item
            del item  # not held while the next one is waited for
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        if isinstance(items, Generator):
            items.close()
