"""Fits on rows that are not one array in memory: files and clusters."""

import lazy_loader

# a cluster's client is loaded when it is asked for
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["clusters"])
