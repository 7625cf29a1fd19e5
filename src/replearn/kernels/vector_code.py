"""Vector code where the compiler takes it, plain loops where it does not.

A few kernels write LLVM code by hand, because numba finds no vector instructions for them. That
ties them to what llvmlite offers, which changes. So each has a plain twin with the same bits, and
the first compilation of a process tries the vector code on a small case: if that fails, for
whatever reason, the twin is compiled in its place.
"""

from collections.abc import Callable
from typing import Any


def compiles(probe: Callable[[], object]) -> bool:
    """Whether the probe, which compiles something, ends without an exception."""
    try:
        probe()
    except Exception:  # numba, llvmlite and LLVM have many kinds, and new ones in new versions
        return False
    return True


def either(works: bool, vector: Callable[..., Any], plain: Any) -> Any:
    """What an intrinsic emits: vector code, or a call of the plain function, compiled too."""
    if works:
        return vector

    def emit(context, builder, signature, arguments):
        return context.compile_internal(builder, plain.py_func, signature, arguments)

    return emit
