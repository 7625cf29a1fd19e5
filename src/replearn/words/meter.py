"""What a user hears while work goes on, on standard error: progress, and warnings."""

import inspect
import os
import re
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from replearn.errors import ReplearnError, printable, short

if TYPE_CHECKING:  # help needs no NumPy
    from replearn.types import BlockMap

Thing = TypeVar("Thing")

#: Takes how much is done by now, in the units of the total.
Advance = Callable[[float], None]

#: Seconds before anything is shown: short work needs no progress.
PATIENCE = 2.0

_HOME = os.path.dirname(os.path.dirname(__file__)) + os.sep


@contextmanager
def progress(label: str, total: float, verbose: bool = False) -> Iterator[Advance]:
    """Show the progress of work that takes more than two seconds.

    On a terminal one line is written over, and nothing of it stays behind. Elsewhere, for
    instance in a notebook or a log, there is a new line for every ten per cent, if ``verbose``.

    Examples
    --------
    >>> with progress("reading", total=3) as advance:
    ...     advance(1)
    """
    stream = sys.stderr
    on_terminal = stream is not None and stream.isatty()
    label = printable(label)  # it may hold the name of a file
    start, shown = time.monotonic(), -1

    def advance(done: float) -> None:
        nonlocal shown
        percent, form = 100, "\r{}: {}%"
        if total > 0:
            percent = min(100, int(100 * done / total))
        if not on_terminal:  # a line for every ten per cent
            percent, form = percent // 10 * 10, "{}: {}%\n"

        if percent > shown and time.monotonic() - start >= PATIENCE:
            shown = percent
            stream.write(form.format(label, percent))
            stream.flush()

    try:
        shows = on_terminal or (stream is not None and verbose)
        yield advance if shows else lambda done: None
    finally:
        if on_terminal and shown >= 0:
            stream.write("\r\x1b[K")  # a clean line for what comes next
            stream.flush()


def tracked(run: "BlockMap", label: str) -> "BlockMap":
    """Show the progress of a map over blocks."""

    def tracked_run(function: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        every_block = list(blocks)
        return followed(run(function, every_block), label, len(every_block), verbose=True)

    return tracked_run


def followed(
    things: Iterable[Thing], label: str, total: int, verbose: bool = False
) -> Iterator[Thing]:
    """The same things, and how many of them are done."""
    with progress(label, total, verbose) as advance:
        for done, thing in enumerate(things, start=1):
            yield thing
            advance(done)


def threads(n_jobs: int | None) -> "BlockMap":
    """A map over blocks on so many threads, -1 for all cores; it runs two blocks ahead of each.

    Examples
    --------
    >>> list(threads(2)(abs, [-1, -2, -3]))
    [1, 2, 3]
    """
    if n_jobs is not None and not isinstance(n_jobs, Integral):
        raise ReplearnError(f"n_jobs must be a whole number or None, got {short(n_jobs)}.")
    n_threads = int(n_jobs or 1)
    if n_threads < 0:  # as joblib counts: -2 leaves one core
        n_threads += (os.cpu_count() or 1) + 1
    if n_threads <= 1:
        return map

    def run(function: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(n_threads) as pool:
            for block in blocks:
                waiting.append(pool.submit(function, block))
                if len(waiting) > 2 * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    return run


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and name the line outside of replearn that led to it: the one that a user can change.

    The message gives the rule, the value and the remedy.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HOME):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def warned_once() -> Iterator[None]:
    """Of many fits: repeat no warning that differs from an earlier one in its numbers alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield

    told = set()
    for one in caught:
        words = re.sub(r"\d[\d.,]*", "#", str(one.message))
        if words not in told:
            told.add(words)
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
