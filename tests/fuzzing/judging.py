"""The judge of what comes of hostile input, and draws of hypothesis.

A *case* is a function of a random source: it makes some input and uses it as a user would. The
judge says what became of it: a result, a documented error, or something else, which is a bug: a
traceback from inside, a hang, or more memory than the input deserves.
"""

import contextlib
import os
import random
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis

from replearn.errors import ReplearnError, ReplicabilityWarning, UselessModelWarning

#: Of processors; on a busy machine a case may take longer than that, but not `PATIENCE` times.
SECONDS = 10.0
PATIENCE = 6.0


MEGABYTES = 64.0


#: A case: takes a random source and an empty folder; returns if all went well.
Case = Callable[[random.Random, Path], object]


@dataclass(frozen=True)
class Verdict:
    """What became of a case: "result", "error" (a documented one) or "other", and details."""

    kind: str
    detail: str = ""


class TimeUp(BaseException):
    """A case took too long. No ``except Exception`` may catch it."""


class Wrong(Exception):
    """What a case calls when an answer came, but a wrong one."""


def require(fact: object, what: str) -> None:
    """Complain, whatever the optimisation of the interpreter, unless the fact holds."""
    if not fact:
        raise Wrong(what)


def must(function: Callable[[], Any]) -> Any:
    """Call what must not fail any more, not even with a documented error."""
    try:
        return function()
    except ReplearnError as problem:
        raise Wrong(f"too late: {problem}") from None


def judge(
    case: Callable[[], object], seconds: float = SECONDS, megabytes: float = MEGABYTES
) -> Verdict:
    """Run a case and say what became of it."""
    memory = _Memory()
    try:
        with _alarm(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            for documented in (ReplicabilityWarning, UselessModelWarning):
                warnings.simplefilter("ignore", documented)
            case()
        kind, detail = "result", ""
    except ReplearnError as problem:
        kind, detail = _of_documented(problem)
    except TimeUp:
        kind, detail = "other", f"hang: {_last_lines()}"
    except Exception as problem:
        foreign = _is_validation_of_sklearn(problem)
        kind, detail = ("error", str(problem)) if foreign else ("other", _last_lines())
    grown = memory.grown()
    if kind != "other" and grown > megabytes:
        kind, detail = "other", f"memory: {grown:.0f} MiB ({kind}: {detail[:300]})"
    return Verdict(kind, detail)


def _of_documented(problem: ReplearnError) -> tuple[str, str]:
    text = str(problem)
    if len(text) > 20_000:
        return "other", f"a message of {len(text):,} characters: {text[:300]}"
    return "error", text


def _is_validation_of_sklearn(problem: Exception) -> bool:
    """Whether it is what users of scikit-learn expect of its checks of X, y and n_jobs."""
    if not isinstance(problem, ValueError | TypeError | RuntimeWarning):
        return False
    names = {frame.filename for frame in traceback.extract_tb(problem.__traceback__)}
    checks = ("sklearn/utils/", "joblib/parallel.py", "joblib/_parallel_backends.py")
    return any(check in name for name in names for check in checks)


def _last_lines() -> str:
    lines = traceback.format_exc(limit=-6).strip().splitlines()
    return "\n".join(line[:300] for line in lines)


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    work, end = time.process_time() + seconds, time.monotonic() + PATIENCE * seconds

    def ring(*_: object) -> None:
        left = min(work - time.process_time(), end - time.monotonic())
        if left <= 0:
            raise TimeUp
        signal.setitimer(signal.ITIMER_REAL, left)  # others had the processors

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Memory:
    """How far the peak of the process's memory went above what it was at the start, in MiB.

    The kernel keeps the peak; it is set back when it is so far away that it would hide a case.
    """

    _SLACK = 16.0

    def __init__(self) -> None:
        self._start = _resident()
        if _peak() > self._start + self._SLACK:
            _reset_peak()

    def grown(self) -> float:
        """MiB above the start."""
        return _peak() - self._start


_PAGE = os.sysconf("SC_PAGE_SIZE")


def _resident() -> float:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE / 2**20


def _peak() -> float:
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM"):
                return int(line.split()[1]) / 1024
    return 0.0


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "wb") as file:
        file.write(b"5")


def draws(strategy: hypothesis.strategies.SearchStrategy[Any], seed: int, n: int) -> list[Any]:
    """What hypothesis draws, which depends on the seed alone."""
    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=n,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found[:n]
