"""Progress of long work, on standard error: a bar on a terminal, lines elsewhere."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from replearn.terminal import printable
from replearn.types import BlockMap

#: Takes how much is done by now, in the units of the total.
Advance = Callable[[float], None]


def on_terminal() -> bool:
    """Whether somebody is watching standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


def no_progress(done: float) -> None:
    """An `Advance` that shows nothing."""


@contextmanager
def progress(label: str, total: float) -> Iterator[Advance]:
    """Show the progress of one piece of work; on a terminal nothing of it stays behind.

    At the end ``advance`` will be called with the total.

    Examples
    --------
    >>> with progress("reading", total=3) as advance:
    ...     advance(1)
    """
    label = printable(label)  # it may hold the name of a file
    if not on_terminal():
        yield _lines(label, total, sys.stderr)
        return
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress
    except ImportError:
        try:
            yield _one_line(label, total, sys.stderr)
        finally:
            sys.stderr.write("\r\x1b[K")  # a clean line for what comes next
            sys.stderr.flush()
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(label), total=total)
        yield lambda done: bar.update(task, completed=done)


def tracked(run: BlockMap, label: str) -> BlockMap:
    """Show the progress of a map over blocks."""

    def tracked_run(function: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        every_block = list(blocks)
        with progress(label, len(every_block)) as advance:
            for done, result in enumerate(run(function, every_block), start=1):
                advance(done)
                yield result

    return tracked_run


def counted(run: BlockMap, label: str) -> BlockMap:
    """Show how many blocks are done, for many maps of unknown length: a line at each doubling."""
    done, next_line = 0, 64

    def counted_run(function: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        nonlocal done, next_line
        for result in run(function, blocks):
            done += 1
            if done == next_line:
                next_line *= 2
                sys.stderr.write(f"{label}: {done:,} blocks\n")
                sys.stderr.flush()
            yield result

    return counted_run


def _one_line(label: str, total: float, stream: TextIO) -> Advance:
    """A line that is written over."""

    def advance(done: float) -> None:
        stream.write(f"\r{label} {_percent(done, total)} %")
        stream.flush()

    return advance


def _lines(label: str, total: float, stream: TextIO) -> Advance:
    """A new line for every ten per cent: a log file has no cursor to move back."""
    shown = 0

    def advance(done: float) -> None:
        nonlocal shown
        percent = _percent(done, total) // 10 * 10
        if percent > shown:
            shown = percent
            stream.write(f"{label}: {percent} %\n")
            stream.flush()

    return advance


def _percent(done: float, total: float) -> int:
    return min(100, int(100 * done / total)) if total > 0 else 100
