"""replearn: fit a model, publish a small study file, and let others get exactly the same model.

The public names are imported on first use, so that ``import replearn`` is instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # editors and type checkers see what is imported on first use
    from replearn import datasets as datasets
    from replearn.errors import ColumnWarning as ColumnWarning
    from replearn.errors import InvalidFile as InvalidFile
    from replearn.errors import NotEnoughSamples as NotEnoughSamples
    from replearn.errors import ReplearnError as ReplearnError
    from replearn.errors import ReplicabilityWarning as ReplicabilityWarning
    from replearn.errors import UselessModelWarning as UselessModelWarning
    from replearn.estimators import ReplicableBoostingClassifier as ReplicableBoostingClassifier
    from replearn.estimators import ReplicableDPClassifier as ReplicableDPClassifier
    from replearn.estimators import ReplicableLinearRegressor as ReplicableLinearRegressor
    from replearn.estimators import ReplicableLogisticClassifier as ReplicableLogisticClassifier
    from replearn.estimators import ReplicableNetClassifier as ReplicableNetClassifier
    from replearn.estimators import ReplicablePoissonRegressor as ReplicablePoissonRegressor
    from replearn.estimators import ReplicableSGDClassifier as ReplicableSGDClassifier
    from replearn.estimators import ReplicableSurvivalAnalysis as ReplicableSurvivalAnalysis
    from replearn.estimators import ReplicableSVMClassifier as ReplicableSVMClassifier
    from replearn.exports import to_csv as to_csv
    from replearn.exports import to_onnx as to_onnx
    from replearn.exports import to_sklearn as to_sklearn
    from replearn.exports import to_sql as to_sql
    from replearn.reports.audit import audit as audit
    from replearn.reports.check import check as check
    from replearn.reports.compare import compare as compare
    from replearn.reports.evaluate import evaluate as evaluate
    from replearn.reports.files import load as load
    from replearn.reports.files import save as save
    from replearn.reports.plans import plan as plan
    from replearn.reports.table1 import table1 as table1
    from replearn.reports.update import update as update
    from replearn.study import Study as Study
    from replearn.study import combine as combine
    from replearn.study import lab_shares as lab_shares
    from replearn.study import lab_sums as lab_sums
    from replearn.study import register_study as register_study

__version__ = "0.3.0"

#: Public names, and the module that each comes from.
_PLACES = {
    "ReplicableLogisticClassifier": "estimators",
    "ReplicableLinearRegressor": "estimators",
    "ReplicablePoissonRegressor": "estimators",
    "ReplicableSurvivalAnalysis": "estimators",
    "ReplicableSVMClassifier": "estimators",
    "ReplicableSGDClassifier": "estimators",
    "ReplicableNetClassifier": "estimators",
    "ReplicableDPClassifier": "estimators",
    "ReplicableBoostingClassifier": "estimators",
    "Study": "study.study",
    "register_study": "study.registered",
    "lab_sums": "study.sums",
    "lab_shares": "study.shares",
    "combine": "study.coalition",
    "plan": "reports.plans",
    "table1": "reports.table1",
    "audit": "reports.audit",
    "check": "reports.check",
    "compare": "reports.compare",
    "evaluate": "reports.evaluate",
    "update": "reports.update",
    "load": "reports.files",
    "save": "reports.files",
    "to_csv": "exports",
    "to_onnx": "exports",
    "to_sklearn": "exports",
    "to_sql": "exports",
    "datasets": "datasets",
    "ReplearnError": "errors",
    "NotEnoughSamples": "errors",
    "InvalidFile": "errors",
    "ColumnWarning": "errors",
    "ReplicabilityWarning": "errors",
    "UselessModelWarning": "errors",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    """Import a public name on first use, and keep it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_PLACES[name]}")
    found = getattr(module, name, module)  # datasets is a module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names."""
    return __all__
