"""Arrays marked read-only, for compiled code."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray


def unmarked(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, not marked read-only: numba compiles everything anew for that mark.

    The caller keeps ``array`` alive, and what it calls must not write to it.
    """
    if array.flags.writeable:
        return array
    interface = array.__array_interface__
    address, _ = interface["data"]
    return np.asarray(SimpleNamespace(__array_interface__=interface | {"data": (address, False)}))
