"""replearn: fit a model, publish a small study file, and let others get exactly the same model.

The public names are imported on first use, so that ``import replearn`` is instant.
"""

from importlib import import_module
from typing import Any

__version__ = "0.3.0"

#: Public names, and the module that each comes from.
_PLACES = {
    "ReplicableLogisticClassifier": "estimators.glm",
    "ReplicableLinearRegressor": "estimators.glm",
    "ReplicablePoissonRegressor": "estimators.glm",
    "ReplicableSVMClassifier": "estimators.paper",
    "ReplicableSGDClassifier": "estimators.paper",
    "ReplicableNetClassifier": "estimators.net",
    "ReplicableDPClassifier": "estimators.dp",
    "ReplicableBoostingClassifier": "estimators.boosting",
    "ReplicableChoiceClassifier": "estimators.choice",
    "Study": "study.study",
    "register_study": "study.registered",
    "lab_sums": "study.coalition",
    "combine": "study.coalition",
    "plan": "reports.plans",
    "table1": "reports.table1",
    "audit": "reports.audit",
    "check": "reports.check",
    "compare": "reports.compare",
    "evaluate": "reports.evaluate",
    "load": "reports.files",
    "save": "reports.files",
    "to_csv": "exports",
    "to_onnx": "exports",
    "to_sklearn": "exports",
    "to_sql": "exports",
    "datasets": "datasets",
    "metrics": "reports.metrics",
    "ReplearnError": "errors",
    "NotEnoughSamples": "errors",
    "InvalidFile": "errors",
    "ReplicabilityWarning": "errors",
    "UselessModelWarning": "errors",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    """Import a public name on first use, and keep it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_PLACES[name]}")
    found = getattr(module, name, module)  # datasets and metrics are modules
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names."""
    return __all__
