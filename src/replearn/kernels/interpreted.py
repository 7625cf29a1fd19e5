"""Kernels without compilation: with ``NUMBA_DISABLE_JIT=1`` they run as plain Python.

Hundreds of times slower, but every line can be stepped through, and the results are the same. Two
things need help. Code that is written by hand for the compiler has a plain twin that takes its
place; and a choice between functions that the compiler makes by type is made by type here, too.
"""

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import config
from numba.extending import intrinsic, overload

#: Whether functions under ``njit`` are left as they are.
INTERPRETED = bool(config.DISABLE_JIT)


def intrinsic_or(plain: Callable[..., Any]) -> Callable[[Any], Any]:
    """Like numba's ``intrinsic``, with a plain twin for the interpreter."""
    return (lambda emit: plain) if INTERPRETED else intrinsic


def overloaded(stub: Callable[..., Any]) -> Callable[[Any], Any]:
    """Like numba's ``overload``; the choice is by the kind of the argument ``rows``.

    In the interpreter the name of the stub is bound to a function that chooses when it is called.
    """
    if not INTERPRETED:
        return overload(stub)

    def decorate(choose: Any) -> Any:
        names = choose.__code__.co_varnames[: choose.__code__.co_argcount]
        place = names.index("rows")

        @functools.wraps(stub)
        def call(*arguments: Any) -> Any:
            kinds = [None] * len(arguments)
            kinds[place] = SimpleNamespace(instance_class=type(arguments[place]))
            return choose(*kinds)(*arguments)

        stub.__globals__[stub.__name__] = call
        return choose

    return decorate


def wrapping(function: Any) -> Any:
    """Let integers wrap around without NumPy's warning, as compiled ones do."""
    if not INTERPRETED:
        return function

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*arguments)

    return call
