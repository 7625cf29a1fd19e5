"""replearn: replicable learning of large-margin halfspaces.

Two labs draw different samples of one population, share a published seed, and with high
probability obtain exactly the same classifier.

The public names are listed in ``__init__.pyi`` and imported on first use: ``import replearn`` is
instant, the command line does not load scikit-learn before it has parsed its arguments, and what
checks the models of others (``load``, ``compare``, ``predict``, ``show``, ``plan``) needs NumPy
alone.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"


def _listed() -> dict[str, str]:
    """Public names, and the module that each comes from, as in the stub."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.name: node.module or ""
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_MODULES = _listed()

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name on first use, and keep it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name]:
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    else:  # a module of the package itself
        found = import_module(f"{__name__}.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names."""
    return __all__
