"""The compiler of the kernels, which may be absent: numba is imported here and nowhere else.

With ``NUMBA_DISABLE_JIT=1``, or where numba is not installed, kernels run as plain Python: hundreds
of times slower, but every line can be stepped through, nothing but NumPy is needed to check what
others computed, and the results are the same. Three things need help. Code that is written by hand
for the compiler has a plain twin that takes its place; a choice between functions that the compiler
makes by type is made by type here as well; and the loops of predictions have twins in NumPy.
"""

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = [
    "INTERPRETED",
    "by_kind",
    "cgutils",
    "interpreted_as",
    "intrinsic",
    "intrinsic_or",
    "ir",
    "njit",
    "types",
    "wrapping",
]


class _Absent:
    """Stands for what only code for the compiler uses, which nobody calls without it."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self


def _unchanged(function: Any = None, **options: Any) -> Any:
    """Stands for a decorator, with options or without."""
    return _unchanged if function is None else function


try:
    from llvmlite import ir
    from numba import config, njit, types
    from numba.core import cgutils
    from numba.extending import intrinsic, overload
except ModuleNotFoundError as problem:
    if problem.name not in ("llvmlite", "numba"):  # numba is there, and broken
        raise
    ir = types = cgutils = _Absent()
    njit = intrinsic = overload = _unchanged
    config = SimpleNamespace(DISABLE_JIT=True)

#: Whether functions under ``njit`` are left as they are.
INTERPRETED = bool(config.DISABLE_JIT)


def intrinsic_or(plain: Callable[..., Any]) -> Callable[[Any], Any]:
    """Like numba's ``intrinsic``, with a plain twin for the interpreter."""
    return (lambda emit: plain) if INTERPRETED else intrinsic


def interpreted_as(twin: Callable[..., Any]) -> Callable[[Any], Any]:
    """Let a twin in NumPy take the place of a function where that is not compiled."""
    return (lambda compiled: twin) if INTERPRETED else (lambda compiled: compiled)


def by_kind(choose: Callable[..., Any]) -> Callable[..., Any]:
    """Make one function of two: numba takes the one for the kind of the argument ``rows``.

    ``choose`` has the arguments of both, gets their types, and returns one, as for numba's
    ``overload``. In the interpreter the choice is made when the function is called.
    """
    place = list(inspect.signature(choose).parameters).index("rows")

    @functools.wraps(choose)
    def call(*arguments: Any) -> Any:
        kinds: list[Any] = [None] * len(arguments)
        kinds[place] = SimpleNamespace(instance_class=type(arguments[place]))
        return choose(*kinds)(*arguments)

    if not INTERPRETED:
        overload(call)(choose)
    return call


def wrapping(function: Any) -> Any:
    """Let integers wrap around without NumPy's warning, as compiled ones do."""
    if not INTERPRETED:
        return function

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*arguments)

    return call
