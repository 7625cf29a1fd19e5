"""Fits on rows that are not one array in memory: files and clusters."""

from importlib import import_module
from types import ModuleType

__all__ = ["clusters"]


def __getattr__(name: str) -> ModuleType:
    """A cluster's client is loaded when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
